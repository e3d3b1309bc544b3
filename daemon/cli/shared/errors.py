"""How a command ends: the error that it raises, with a text for the user and an exit code, and signals."""

import contextlib
import signal
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType

import typer
from typer.exceptions import TyperException

from conf.errors import ReportedError
from conf.util.whole_file import replacing

#: Bad input, or no daemon to talk to.
BAD_INPUT = 2


class CommandError(ReportedError):
    """Ends a command: each line of the text goes to stderr after `stoker: `."""

    def __init__(self, text: str, exit_code: int = BAD_INPUT) -> None:
        super().__init__(text)
        self.exit_code = exit_code


def end_in_order() -> None:
    """Have SIGTERM and SIGHUP raise SystemExit, so that processes and temporary files of the command go.

    One that is ignored, as under nohup, stays so.
    """
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _end)


def _end(number: int, _: object) -> None:
    raise SystemExit(128 + number)


def what_was_wrong(error: TyperException) -> str:
    """Message of a typer error, worded as for values in files: place, expected value, found value."""
    from pydantic import ValidationError

    from conf.loader import what_is_right

    if not isinstance(error, typer.BadParameter) or not isinstance(error.__cause__, ValidationError):
        return error.format_message().replace("Value error, ", "")
    detail = error.__cause__.errors(include_url=False)[0]
    where = "" if error.param is None else error.param.get_error_hint().replace("'", "") + ": "
    found, of_some, known = detail["msg"].removeprefix("Value error, ").partition(" is not one of ")
    if of_some:
        known = known.removesuffix(".").replace("'", "")
        return f"{where}should be one of {known}, found {found}"
    return where + what_is_right(detail, None, ())


@contextlib.contextmanager
def naming(option: str, kinds: type[Exception] | tuple[type[Exception], ...] = ValueError) -> Iterator[None]:
    """Convert errors of these kinds into a CommandError that begins with the option or place."""
    try:
        yield
    except kinds as error:
        raise CommandError(f"{option}{error}") from None


@contextlib.contextmanager
def writing(out: Path) -> Iterator[None]:
    """Convert an OSError while writing to the place of --out into a CommandError of one line."""
    try:
        yield
    except OSError as error:
        raise CommandError(f"--out {out}: {error.strerror or error}") from None


@contextlib.contextmanager
def writing_whole(out: Path) -> Iterator[Path]:
    """Yield the path of a new file that replaces --out when it is complete; CommandError as `writing`."""
    with writing(out), replacing(out) as draft:
        yield draft


#: Packages that not every install has, by their module: the part that needs them, and the lock file that has
#: them.
_LOCKS: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "pymesos": ("the daemon", "requirements-serve.lock"),
        "tensorflow": ("training", "requirements.lock"),
        "tf_agents": ("training", "requirements.lock"),
    }
)


def what_to_install(error: ModuleNotFoundError) -> str | None:
    """Installation advice for a user without an optional package; None for a required module."""
    found = _LOCKS.get((error.name or "").partition(".")[0])
    if found is None:
        return None
    needs, lock = found
    if needs == "training" and sys.version_info >= (3, 12):
        return (
            f"{error.name} is not installed: training needs Python 3.11, the last that TensorFlow 2.15 has "
            "packages for; `make clean install PYTHON=python3.11` installs it"
        )
    return (
        f"{error.name} is not installed, which {needs} needs: in Stoker's checkout, "
        f"`pip install --no-deps --requirement {lock}` installs it"
    )
