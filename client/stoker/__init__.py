"""A client of Stoker, which schedules Spark jobs onto cloud VMs: `Stoker().submit("app.py", executors=4)`."""

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
