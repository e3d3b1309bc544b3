"""Lost executors and VMs in a simulation, and the executors missing until they are placed again.

As in the daemon: a lost executor's job goes on, and the lost executor waits before new jobs, from a moment
after the loss on, for a place of its own. A lost VM does not come back, and jobs that no longer fit wait
aside; an interrupted spot VM can be opened anew. Given losses only change where things run: a job takes as
long as it would have taken. Interruptions of spot VMs delay it (`progress.py`).
"""

import math
from dataclasses import dataclass, field

from environment.kernel.resized_jobs import SparedResources
from environment.kernel.rules import leave_vm, take_vm
from environment.kernel.state import Batch
from environment.resources import Resources
from environment.simulation.faults.progress import Progress


@dataclass(frozen=True, slots=True)
class Loss:
    """At a time (seconds) a VM, by its id, or one executor of a job, by the job's name, is lost.

    `executor` counts those that the job has then, in the order in which they were placed, from 0. Nothing
    happens where there is none.
    """

    at: float
    vm: str = ""
    job: str = ""
    executor: int = 0

    def __post_init__(self) -> None:
        if not 0 <= self.at < math.inf:
            raise ValueError(f"a loss should be at 0 seconds or later, found {self.at}")
        if bool(self.vm) == bool(self.job):
            raise ValueError("a loss should be of a vm or of a job's executor, and not of both")
        if self.executor < 0:
            raise ValueError(f"executor: should be 0 or more, found {self.executor}")


@dataclass(slots=True)
class Executors:
    """A running job's executors, by their places in `State.placement`, in the order of their launch."""

    order: list[int]
    #: Missing executors, and the VM, by number, on which each was.
    lost: dict[int, int] = field(default_factory=dict)
    #: How far the job is, and how far it is believed to be; once a spot VM was taken from under it.
    progress: Progress | None = None
    believed: Progress | None = None
    #: When those that were placed again began there.
    began: dict[int, float] = field(default_factory=dict)

    @property
    def present(self) -> list[int]:
        """Executors that run."""
        return [at for at in self.order if at not in self.lost]

    @property
    def missing(self) -> list[int]:
        """Executors that are lost and not placed again yet."""
        return [at for at in self.order if at in self.lost]


@dataclass(slots=True)
class Interruptions:
    """Effects of spot VMs that were taken away while executors were there."""

    vms: int = 0
    executors: int = 0
    #: Work that was done again, core-seconds.
    work_lost: float = 0.0


@dataclass(frozen=True, slots=True)
class Stint:
    """Time that an executor spent on a VM that it lost, for the bill; `job` is its number."""

    job: int
    vm: int
    start: float
    end: float
    size: Resources


def move(batch: Batch, spared: SparedResources, job: int, at: int, to: int) -> None:
    """Move a running executor, by its place in `State.placement`, to another VM; the job's end stays."""
    state, jobs = batch.state, batch.jobs
    milli_cpus = jobs.milli_cpus[0, job] - spared.milli_cpus[at]
    memory_mib = jobs.memory_mib[0, job] - spared.memory_mib[at]
    # Of the one kind that is compiled: numba looks for it anew, behind a lock, for each call with another.
    clock, was = float(state.clock[0]), int(state.placement[0, at])
    state.free_milli_cpus[0, was] += milli_cpus
    state.free_memory_mib[0, was] += memory_mib
    leave_vm(batch, 0, was, clock)
    take_vm(batch, 0, to)
    state.free_milli_cpus[0, to] -= milli_cpus
    state.free_memory_mib[0, to] -= memory_mib
    state.placement[0, at] = to
