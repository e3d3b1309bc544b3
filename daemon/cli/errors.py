"""What a command raises when it cannot do what it was asked: a text for the user and an exit code."""

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType

#: Bad input, or no daemon to talk to.
BAD_INPUT = 2


class CommandError(Exception):
    """Ends a command: each line of the text goes to stderr after `stoker: `."""

    def __init__(self, text: str, exit_code: int = BAD_INPUT) -> None:
        super().__init__(text)
        self.exit_code = exit_code


@contextlib.contextmanager
def writing(out: Path) -> Iterator[None]:
    """What cannot be written to the place that --out names, in one line."""
    try:
        yield
    except OSError as error:
        raise CommandError(f"--out {out}: {error.strerror or error}") from None


#: Packages that not every install brings, by their module: what needs them, and which lock file has them.
_LOCKS: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "pymesos": ("the daemon", "requirements-serve.lock"),
        "tensorflow": ("training", "requirements.lock"),
        "tf_agents": ("training", "requirements.lock"),
    }
)


def what_to_install(error: ModuleNotFoundError) -> str | None:
    """What to tell a user who lacks a package that is optional; None for a module that has to be there."""
    found = _LOCKS.get((error.name or "").partition(".")[0])
    if found is None:
        return None
    needs, lock = found
    return (
        f"{error.name} is not installed, which {needs} needs: in Stoker's checkout, "
        f"`pip install --no-deps --requirement {lock}` installs it"
    )
