"""What the HTTP API needs of who looks after Spark applications that ask for executors themselves.

`applications.py` is the one implementation. The rest of what the API needs is in
`framework/providers/interface.py`.
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
    """A Spark driver that asks for executors: who and where it is, and what its properties say.

    `secret` is what its executors show it; None where that is known already.
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
    """What a driver is answered: its job, the key to speak for it, seconds between signs of life."""

    id: str
    key: str = field(repr=False)
    heartbeat: float
    #: How many executors it begins with.
    executors: int


@dataclass(frozen=True, slots=True)
class Orders:
    """What a driver is told when it gives a sign of life.

    `stop` says why it is to end, `waits` why its executors are not there yet; executors that are `lost` are
    numbers with what is known of it, those to `decommission` are to be given up: if `alone`, also where no
    other executor is there to take their blocks.
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
    """How many executors of a resource profile a driver wants in all, and what each is to have."""

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
        """Its application has stopped its context, and what becomes of its process nobody knows yet."""
        ...

    @property
    def exit_code(self) -> int | None:
        """With what its process ends, where that is known."""
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
    """What drivers say that ask for executors themselves; every method raises `RejectedError` only.

    All but the first know the job by its id and want the `key` that the driver was answered.
    """

    def register(self, asked: Registration, admit: Admit) -> RegisteredApplication:
        """Make a job for a driver that is there, once `admit` has said whose it is."""
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
        """Note that a driver lives; what it is to do."""
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
