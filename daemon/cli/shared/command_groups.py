"""Groups of commands and their lines in `stoker --help` and in the help of groups such as `stoker policy`."""

from typing import Any

from typer.core import TyperGroup

#: Titles of `stoker --help`, each with its commands and a line of at most eight words for each.
TITLES: dict[str, dict[str, str]] = {
    "Jobs": {
        "submit": "Submit a Spark job, by file or flags.",
        "jobs": "List jobs, newest first.",
        "job": "Show a job's reasons, times, executors and cost.",
        "events": "List events of jobs and VMs.",
        "logs": "Print logs of drivers and executors.",
        "wait": "Wait until jobs end.",
        "kill": "End jobs, groups or arrays.",
        "retry": "Submit a job again as a new one.",
        "decommission": "Remove executors once their blocks have moved.",
        "ui": "Serve the Spark UI of a running job.",
        "history": "Serve the Spark UI of ended jobs.",
        "spark-conf": "Print settings for spark-submit, shells and notebooks.",
    },
    "Cluster": {
        "cluster": "Show VMs, their prices and their executors.",
        "top": "Watch VMs, costs, jobs and the queue.",
        "bill": "Show the cost of VMs.",
        "queue": "Show or change queues.",
        "mesos": "Run a small Mesos on this machine.",
    },
    "Policies": {
        "policy": "Show, switch or compare policies.",
        "what-if": "Predict starts and costs of queued jobs.",
    },
    "Simulate and train": {
        "simulate": "Compare policies on a simulated workload.",
        "workload": "Show a workload's jobs, or write them.",
        "audit": "Show actual and possible costs of Spark applications.",
        "shapes": "Show expected times and costs of executor shapes.",
        "bound": "Compute the lowest cost of a workload.",
        "train": "Train a policy in the simulator.",
        "evaluate": "Compare trained policies on unseen workloads.",
        "profile": "Measure Spark jobs and model their durations.",
    },
    "Operate": {
        "demo": "Run three real Spark jobs on this machine.",
        "up": "Run the daemon until SIGTERM or Ctrl-C.",
        "config": "Check a config file before a start.",
        "doctor": "Check job store, data folder, Spark, VM provider.",
        "backup": "Copy the job store to a file.",
        "restore": "Replace the job store with a backup.",
        "prune": "Remove ended jobs with folders and logs.",
        "spark": "List, fetch or remove Spark versions.",
        "user": "Manage users and their tokens.",
        "webhook": "List and test webhooks.",
        "completion": "Print the completion script of a shell.",
        "version": "Print the version.",
    },
    "Research": {
        "reproduce": "Repeat a comparison and write its report.",
        "oga": "Compare OgaSched with other allocation policies.",
    },
}
#: The lines of commands of groups.
SUBCOMMANDS: dict[str, dict[str, str]] = {
    "policy": {
        "list": "List policies and their options.",
        "show": "Show the acting policy.",
        "set": "Switch to another policy.",
        "promote": "Switch to another policy if it is better.",
        "shadow": "Run a policy beside the acting one.",
        "compare": "Compare decisions of shadow and acting policy.",
    },
    "queue": {
        "list": "List queues with shares and use.",
        "show": "Show settings, limits and use of a queue.",
        "set": "Create or change a queue.",
        "remove": "Remove an empty queue.",
    },
    "user": {
        "add": "Create or change a user.",
        "list": "List users, roles and tokens.",
        "token": "Create a token and print it once.",
        "end": "Revoke a user, or one token.",
        "whoami": "Show your user name, role and rights.",
    },
    "webhook": {
        "list": "List webhooks and their state.",
        "test": "Send a test request to a webhook.",
    },
    "config": {"check": "Check whether a daemon could start."},
    "spark": {
        "list": "List served and fetchable Spark versions.",
        "add": "Fetch a Spark version with its Java.",
        "remove": "Remove a fetched Spark version.",
    },
    "reproduce": {
        "baselines": "Compare all baselines at two densities.",
        "belief": "Compare policies under each belief.",
        "islam2022": "Compare trained policies with Islam 2022.",
        "elastic": "Compare policies and autoscalers on pools.",
        "moves": "Measure what emptied VMs save.",
        "decisions": "Judge policies on workloads not used for tuning.",
        "sharing": "Compare job orders: shares, slowdown, deadlines, cost.",
        "estimates": "Check estimated starts, ends and costs.",
        "shapes": "Choose shapes of jobs from two runs.",
        "spot": "Compare recorded spot VMs with VMs on demand.",
        "leaderboard": "Rank every policy, and your own.",
        "results": "Make all reports anew, one after another.",
    },
    "oga": {
        "run": "Compare policies in one setting.",
        "sweep": "Compare policies over values of a setting.",
        "reproduce": "Make the paper's figures and tables.",
    },
    "profile": {
        "run": "Measure the jobs of a plan.",
        "show": "Show measured runs, with outliers marked.",
        "fit": "Fit a model of durations to runs.",
        "plot": "Plot durations of runs by placement.",
        "curve": "Show durations by input size.",
        "export": "Write job profiles of measured runs.",
        "validate": "Compare real Spark with the simulator.",
        "compare": "Compare policies on real Spark.",
        "audit": "Check savings of `stoker audit` on real Spark.",
        "dynamic": "Check simulated dynamic allocation on real Spark.",
        "memory": "Compare `memory: auto` on real Spark.",
        "ingest": "Convert records of a daemon to runs.",
    },
}


class CommandGroup(TyperGroup):
    """Command group that lists its commands under titles, each with a short line."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the commands with their lines, under the titles where `ctx` is of `stoker` itself."""
        path = ctx.command_path.partition(" ")[2]
        titles = {"Commands": SUBCOMMANDS.get(path, {})} if path else TITLES
        visible = {name for name, command in self.commands.items() if not command.hidden}
        widest = max(map(len, visible), default=0)
        for title, lines in titles.items():
            rows = [(name.ljust(widest), line) for name, line in lines.items() if name in visible]
            if rows:
                with formatter.section(title):
                    formatter.write_dl(rows)
