"""The HTTP API's interface to Spark applications that ask for executors themselves.

`submission/applications.py` is the one implementation. `http/server/scheduler_interface.py` defines the rest
of the API's interface.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from conf.schema import JobSpec
from daemon.core.identity import Submitter

#: What says whose a submitted job is, given who its client says to be; see `daemon.auth.permits`.
Admit = Callable[[JobSpec, str], tuple[JobSpec, Submitter]]


@dataclass(frozen=True, slots=True)
class Registration:
    """A Spark driver that asks for executors: its identity, address and properties.

    `secret` authenticates its executors; None where that is known already.
    """

    application_id: str
    spark: str
    user: str
    secret: str | None = field(repr=False)
    host: str
    port: int
    ui: str
    properties: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class RegisteredApplication:
    """Answer to a driver's registration: its job, its key, and seconds between heartbeats."""

    id: str
    key: str = field(repr=False)
    heartbeat: float
    #: How many executors it begins with.
    executors: int


@dataclass(frozen=True, slots=True)
class Orders:
    """Answer to a driver's heartbeat.

    `stop` says why the driver has to end, `waits` why its executors are not there yet. `lost` executors are
    numbers with the known facts. The driver has to give up those to `decommission`: if `alone`, also where
    no other executor is there to take their blocks.
    """

    stop: str | None = None
    waits: str | None = None
    lost: Sequence[tuple[int, str]] = ()
    decommission: Sequence[int] = ()
    alone: bool = False


@dataclass(frozen=True, slots=True)
class ServedSpark:
    """A Spark that is served: its name, and its version in full where that is known."""

    name: str
    version: str


class WantedExecutors(Protocol):
    """Number and size of the executors of a resource profile that a driver wants in all."""

    @property
    def id(self) -> int:
        """The profile's number in Spark."""
        ...

    @property
    def total(self) -> int:
        """How many it wants."""
        ...

    @property
    def executor(self) -> Mapping[str, int]:
        """Amounts by Spark's names: cores, memory (MiB), memoryOverhead, ..."""
        ...


class Goodbye(Protocol):
    """How a driver ends, as far as it knows."""

    @property
    def stopped(self) -> bool:
        """The application has stopped its context; the end of its process is unknown yet."""
        ...

    @property
    def exit_code(self) -> int | None:
        """Exit code of the process, where that is known."""
        ...

    @property
    def signal(self) -> str:
        """The signal by which it is ended, such as SIGTERM; empty for none."""
        ...

    @property
    def error(self) -> str:
        """The exception by which it ends; empty for none."""
        ...


class ApplicationDoor(Protocol):
    """Endpoint for drivers that ask for executors themselves; every method raises `RejectedError` only.

    All methods but the first identify the job by its id and require the `key` that the driver received.
    """

    def register(self, asked: Registration, admit: Admit) -> RegisteredApplication:
        """Create a job for a running driver, once `admit` has determined its owner."""
        ...

    def attach(self, job_id: str, key: str | None, asked: Registration) -> RegisteredApplication:
        """Note where the driver of a job is."""
        ...

    def ask(self, job_id: str, key: str | None, totals: Sequence[WantedExecutors]) -> str:
        """Note how many executors a driver wants now; why it gets fewer, empty when it does not."""
        ...

    def release(self, job_id: str, key: str | None, numbers: Collection[int]) -> None:
        """Note which executors a driver gives back."""
        ...

    def heartbeat(self, job_id: str, key: str | None) -> Orders:
        """Record that a driver is alive, and return its orders."""
        ...

    def leave(self, job_id: str, key: str | None, goodbye: Goodbye) -> None:
        """Note that a driver ends."""
        ...

    def sparks(self) -> tuple[str, Sequence[ServedSpark]]:
        """Where executors reach drivers on this host; the Sparks that are served, the default one first."""
        ...

    def jar(self, name: str) -> Path:
        """The jar by which the Spark of this name knows our masters; it may take seconds to make."""
        ...
