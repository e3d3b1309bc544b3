"""The report on orders of jobs: a table for each workload, and the main findings. Runs are in `runs.py`."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from agents.experiments.comparison import knowledge
from agents.experiments.paired import LEAST_PAIRS, METHOD, Statistic, difference, told, verdict
from agents.experiments.reports import TRACES
from agents.experiments.runner import Runner
from agents.experiments.seed_register import SeedRange
from agents.experiments.sharing.runs import POLICIES, SharingRun, play, scenes

#: By number of a run the title and the digits.
_TITLES = {
    "jain": ("Jain", 3),
    "furthest": ("furthest off", 2),
    "slowdown": ("slowdown", 1),
    "worst": ("slowdown, worst queue", 1),
    "completion": ("completion (s)", 0),
    "wait": ("longest wait (s)", 0),
    "met": ("deadlines met (%)", 1),
    "cost": ("cost ($)", 2),
}

#: By order and policy, the numbers.
Found = Mapping[tuple[str, str], Mapping[str, Statistic]]


def report(folder: Path, seeds: SeedRange, runner: Runner, jobs: int | None = None) -> Path:
    """Run the comparison, write sharing.md into the folder; returns the path."""
    folder.mkdir(parents=True, exist_ok=True)
    runs = play(seeds, runner, jobs)
    asked = seeds.option + (f" --jobs {jobs}" if jobs else "")
    parts = [HEAD.format(count=len(seeds), asked=asked, seeds=seeds, knows=_knows(), method=METHOD), TRACES]
    places = {scene.name: scene for scene in scenes()}
    for name in dict.fromkeys(run.scene for run in runs):
        of_scene = [run for run in runs if run.scene == name]
        found = averages(of_scene)
        count = len({run.seed for run in of_scene})
        parts += [
            f"## {name}\n",
            f"{count} seed{'' if count == 1 else 's'}.\n",
            table(found),
            findings(found, places[name].aim, places[name].least),
        ]
    path = folder / "sharing.md"
    parts.append(measured_apart(path.read_text(encoding="utf-8")) if path.exists() else "")
    path.write_text("\n".join(parts), encoding="utf-8")
    return path


def measured_apart(text: str) -> str:
    """Section of a report from `APART` on, measured by other commands; empty if absent."""
    at = text.find(f"\n{APART}\n")
    return text[at:] if at >= 0 else ""


def averages(runs: Sequence[SharingRun]) -> Found:
    """Numbers by seed, by order and policy."""
    by_setup: dict[tuple[str, str], list[SharingRun]] = {}
    for run in runs:
        by_setup.setdefault((run.order, run.policy), []).append(run)
    return {
        setup: {number: Statistic({run.seed: run.numbers[number] for run in of}) for number in _TITLES}
        for setup, of in by_setup.items()
    }


def table(found: Found) -> str:
    """A Markdown table: a row for each order and policy."""
    titles = [title for title, _ in _TITLES.values()]
    lines = ["| order | policy | " + " | ".join(titles) + " |", "|---|---|" + "---:|" * len(titles)]
    for (order, policy), numbers in found.items():
        cells = (
            f"{numbers[name].mean:.{digits}f} ± {numbers[name].spread:.{digits}f}"
            for name, (_, digits) in _TITLES.items()
        )
        lines.append(f"| {order} | `{policy}` | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def findings(found: Found, aim: float | None = None, least: int = LEAST_PAIRS) -> str:
    """Cost of fairness for each policy, and the percentage of deadlines met in deadline order.

    `aim` is the target percentage, where there is one.
    """
    lines = []
    for policy in dict.fromkeys(policy for _, policy in found):
        plain, fair = found.get(("none", policy)), found.get(("fair", policy))
        if plain and fair:
            jain, cost, completion = (
                difference(fair[name], plain[name], least) for name in ("jain", "cost", "completion")
            )
            lines.append(
                f"* `{policy}`: in fair order Jain's index is {fair['jain'].mean:.3f} instead of "
                f"{plain['jain'].mean:.3f} ({jain}); cost {told(cost, 'less', 'more')}; completion "
                f"{told(completion, 'sooner', 'later')}."
            )
        due = found.get(("deadline", policy))
        first = found.get(("none", "ff"))
        if due and first:
            met = due["met"]
            target = Statistic(dict.fromkeys(met.values, aim or 100.0))
            reached = verdict(difference(met, target, least).at_least(0.0), "reached", "missed")
            lines.append(
                f"* `{policy}` by deadline meets {met.mean:.1f} % of them, where `ff` without an order meets "
                f"{first['met'].mean:.1f} % ({difference(met, first['met'], least)})"
                + ("." if aim is None else f"; {aim:g} % is {reached}.")
            )
    return "\n".join(lines) + "\n"


def _knows() -> str:
    return "\n".join(f"* `{contender.label}`: {knowledge(contender.label)}" for contender in POLICIES)


#: The text behind it is kept when the report is made again.
APART = "## On the embedded cluster"

HEAD = """# Orders of jobs, and the cost of fairness

Made by `stoker reproduce sharing --seeds {count}{asked}`, with {seeds}.

The same jobs run in each order with each policy. Four users have a queue each, with weights 4, 2, 1 and 1. In
*normal*, *burst* and *Facebook day* the users submit jobs in shares of 1, 1, 1 and 3, so a user with the
lowest weight submits most. *80 % load* loads the paper's cluster to 80 % on average, with small jobs. So does
*80 % load, crowds*, where a third of the load is urgent jobs (deadlines of 1.5 to 3 times the duration), and
two crowds of 40 jobs arrive at once, with late deadlines (10 to 30 times). In *crowd* all users have more
work than fits, on a hundred VMs. A fifth of the jobs have a higher priority, and each job has a deadline of 2
to 8 times its duration after its submission unless stated otherwise. Durations are those of the profiles
(truth `profile`), believed with the error measured for each type (belief `spread`).

Order *none* is first come, first served, as far as the policy follows it. In *fair*, jobs of other users may
overtake the first job once; after that the policy sees only jobs of the first job's user. In *fair,
overtaking free* they may do so 128 times, as policies do by themselves. All policies get the same orders, and
of the queues see the order alone. Their other inputs are:

{knows}

*Jain* is Jain's index of the queues' usage relative to their fair shares until the last arrival, 1 when all
used exactly their share; *furthest off* is the largest deviation from a share (0.05: five per cent). Fair
shares divide the total usage by weight, with no queue above its demand. *Slowdown* is completion over
duration. Cells are mean ± standard deviation over seeds. {method}
"""
