"""The command line `stoker`: registers the commands and reports errors to the user.

The other modules define the commands. They import rich, httpx and the rest inside their functions, so
that `stoker --help` answers at once.
"""

import os
import sys
from collections.abc import Callable, Sequence
from functools import cache
from typing import Annotated

import typer
from stoker.errors import StokerError
from typer.exceptions import TyperException

from conf.util.printable import visible
from daemon.cli.cluster import bill, cluster, queues, top, users, webhooks, what_if
from daemon.cli.jobs import (
    events,
    groups,
    history_server,
    job_list,
    kill_retry,
    show,
    spark_conf,
    spark_ui,
    submit,
)
from daemon.cli.jobs.app_arguments import SubmitCommand
from daemon.cli.operate import completion, config, demo, maintenance, mesos, spark, up
from daemon.cli.profile import profile
from daemon.cli.research import commands as research
from daemon.cli.shared.command_groups import CommandGroup
from daemon.cli.shared.errors import BAD_INPUT, CommandError, what_to_install, what_was_wrong

_INTERRUPTED = 130

_EPILOG = """\b
Exit codes:
    0   done; of wait and submit --wait: the jobs finished
    1   a job that was waited for did not finish, or a check found something
    2   bad input, refused, or no daemon answers; why is on stderr
  130   interrupted by Ctrl-C

\b
Examples:
  stoker submit --executors 3 --memory 2g --wait count.py
  stoker jobs --state failed --since yesterday --sort cost -r
  stoker jobs --user ann -o name | xargs stoker kill
  eval "$(stoker completion bash)"
"""

app = typer.Typer(
    name="stoker",
    cls=CommandGroup,
    help="Schedule the executors of Spark jobs onto cloud VMs through Mesos.",
    epilog=_EPILOG,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; its exit code: 2 for bad input or when no daemon answers, 130 after Ctrl-C."""
    try:
        if completion.VARIABLE in os.environ:  # a shell asks how a word could go on
            completion.prepare()
        code: object = _commands()(arguments, standalone_mode=False, prog_name="stoker")
        sys.stdout.flush()
    except TyperException as error:
        return _complain(what_was_wrong(error), error.exit_code)
    except CommandError as error:
        return _complain(str(error), error.exit_code)
    except StokerError as error:
        return _complain(str(error), BAD_INPUT)
    except ModuleNotFoundError as error:
        text = what_to_install(error)
        if text is None:
            raise
        return _complain(text, BAD_INPUT)
    except typer.Abort:
        return _INTERRUPTED
    except BrokenPipeError:
        # The reader has gone; buffered output must not be tried again at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    return code if isinstance(code, int) else 0


@cache
def _commands() -> Callable[..., object]:
    """All commands with their options: to put them together takes longer than most of them."""
    return typer.main.get_command(app)


def _complain(text: str, exit_code: int) -> int:
    for line in text.splitlines():
        print(f"stoker: {visible(line)}", file=sys.stderr)
    return exit_code


def _print_version(wanted: bool) -> None:
    if wanted:
        version()
        raise typer.Exit


@app.callback(invoke_without_command=True)
def _root(
    context: typer.Context,
    _: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    if context.invoked_subcommand is None:
        print(context.get_help())


def version() -> None:
    """Print the version.

    Example: stoker version
    """
    from importlib.metadata import version as installed

    print(f"stoker {installed('stoker')}")


app.command()(up.up)
app.command(cls=SubmitCommand)(submit.submit)
app.command()(job_list.jobs)
app.command()(show.job)
app.command()(show.logs)
app.command(hidden=True)(show.explain)
app.command()(events.events)
app.command(hidden=True)(show.describe)
app.command()(kill_retry.kill)
app.command()(kill_retry.retry)
app.command()(groups.wait)
app.command()(spark_ui.ui)
app.command()(history_server.history)
app.command()(kill_retry.decommission)
app.command()(cluster.cluster)
app.command()(top.top)
app.command()(bill.bill)
app.add_typer(cluster.policy, name="policy", cls=CommandGroup)
app.add_typer(queues.queue, name="queue", cls=CommandGroup)
app.add_typer(users.user, name="user", cls=CommandGroup)
app.add_typer(webhooks.webhook, name="webhook", cls=CommandGroup)
app.add_typer(config.config, name="config", cls=CommandGroup)
app.add_typer(spark.spark, name="spark", cls=CommandGroup)
app.command()(maintenance.backup)
app.command()(maintenance.restore)
app.command()(maintenance.doctor)
app.command()(maintenance.prune)
app.command()(demo.demo)
app.command("what-if")(what_if.what_if)
research.register(app)
app.add_typer(profile.profile, name="profile", cls=CommandGroup)
app.command()(mesos.mesos)
app.command("spark-conf")(spark_conf.spark_conf)
app.command()(completion.completion)
app.command()(version)
