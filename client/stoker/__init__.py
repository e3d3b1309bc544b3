"""A client of Stoker, which schedules Spark jobs onto cloud VMs: `Stoker().submit("app.py", executors=4)`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from stoker.asynchronous import AsyncStoker
    from stoker.client import Stoker
    from stoker.errors import (
        JobFailedError,
        NotFoundError,
        ProblemError,
        StokerError,
        UnauthorizedError,
        UnreachableError,
    )
    from stoker.notebook import session

__all__ = [
    "AsyncStoker",
    "JobFailedError",
    "NotFoundError",
    "ProblemError",
    "Stoker",
    "StokerError",
    "UnauthorizedError",
    "UnreachableError",
    "session",
]
_MODULES = {"AsyncStoker": "asynchronous", "Stoker": "client", "session": "notebook"}


if not TYPE_CHECKING:  # for a checker, other names are errors

    def __getattr__(name: str) -> Any:
        """Import a public name when it is first used: httpx takes longer than a command's `--help`."""
        if name not in __all__:
            raise AttributeError(f"module 'stoker' has no attribute {name!r}")
        from importlib import import_module

        found = getattr(import_module(f"stoker.{_MODULES.get(name, 'errors')}"), name)
        globals()[name] = found
        return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
