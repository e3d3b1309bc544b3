"""The command line `stoker`: puts the commands together and reports errors to the user.

The folders define and register their commands, which import rich, httpx and the rest inside their functions,
so that `stoker --help` answers at once.
"""

import errno
import os
import sys
from collections.abc import Callable, Sequence
from functools import cache
from typing import Annotated

import typer
from stoker.characters import visible
from stoker.errors import StokerError
from typer.exceptions import TyperException

from conf.errors import ReportedError
from daemon.cli.cluster import commands as cluster
from daemon.cli.jobs import commands as jobs
from daemon.cli.operate import commands as operate
from daemon.cli.operate import completion
from daemon.cli.profile import audit_command, dynamic_command, memory_command, profile
from daemon.cli.research import commands as research
from daemon.cli.shared.command_groups import CommandGroup
from daemon.cli.shared.errors import BAD_INPUT, CommandError, what_to_install, what_was_wrong

#: Errors of an output that takes no more.
_NO_OUTPUT = (errno.EPIPE, errno.ENOSPC, errno.EIO, errno.EFBIG)
_INTERRUPTED = 130

_EPILOG = """\b
Exit codes:
    0   done; of wait and submit --wait: the jobs finished
    1   a job that was waited for did not finish, or a check found something
    2   bad input, refused, or no daemon answers; stderr has the reason
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
    except (ReportedError, StokerError) as error:
        return _complain(str(error), BAD_INPUT)
    except ModuleNotFoundError as error:
        text = what_to_install(error)
        if text is None:
            raise
        return _complain(text, BAD_INPUT)
    except typer.Abort as error:
        if isinstance(error.__cause__, EOFError):  # typer takes any of them for an end of input
            raise error.__cause__ from None
        return _INTERRUPTED
    except OSError as error:
        if error.filename is not None or error.errno not in _NO_OUTPUT:
            raise
        # Buffered output must not be tried again at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if error.errno == errno.EPIPE:  # the reader has gone
            return 1
        return _complain(f"the output cannot be written: {error.strerror}", 1)
    return code if isinstance(code, int) else 0


def run_command() -> int:
    """Run the command of this process, as `stoker` does; its exit code, where the process ends after it."""
    if sys.stdout is None:  # it was closed
        sys.stdout = os.fdopen(os.open(os.devnull, os.O_WRONLY), "w")
    code = main()
    if (forced := sys.modules.get("framework.host.forced_exit")) is not None:  # the daemon ran here
        forced.exit_beside_threads(code)
    return code


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


for folder in (jobs, cluster, operate, research):
    folder.register(app)
profile.profile.command("audit")(audit_command.audit)
profile.profile.command("dynamic")(dynamic_command.dynamic)
profile.profile.command("memory")(memory_command.memory)
app.add_typer(profile.profile, name="profile", cls=CommandGroup)
app.command()(version)
