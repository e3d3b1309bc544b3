"""An application by its event log: what its executors held, and what they did with it.

`application_log` reads it. Times are seconds since the epoch, sizes MiB.
"""

from dataclasses import dataclass
from functools import reduce

from audit.executor_use import NEVER, CoreUse, Idle
from profiles.executor_attributes import ExecutorAttributes
from profiles.memory_peaks import MemoryPeak


@dataclass(frozen=True, slots=True)
class Executor:
    """An executor: what it held from `added_at` to `removed_at`, and how its cores were used."""

    id: str
    host: str
    cores: float
    #: Heap, overhead and memory outside of the heap.
    memory_mib: int
    gpus: float
    added_at: float
    removed_at: float
    #: Whether it was lost, not removed on purpose.
    lost: bool
    #: The largest samples of its memory; None where the log has none.
    peak: MemoryPeak | None
    use: CoreUse
    #: Idle cores that dynamic allocation would not have held.
    idle: Idle = NEVER
    #: Seconds from its launch, or request, until it had registered; 0 where the log does not tell.
    starting: float = 0.0
    #: Its VM's type and price and its part of it, as the daemon that launched it wrote into the log.
    attributes: ExecutorAttributes | None = None

    @property
    def seconds(self) -> float:
        """For how long it was there."""
        return self.removed_at - self.added_at


@dataclass(frozen=True, slots=True)
class Stage:
    """A stage that ran: sums over its tasks, also failed ones."""

    stage: int
    attempt: int
    name: str
    tasks: int
    submitted_at: float
    completed_at: float
    task_seconds: float
    longest_task: float
    #: Cores that each of its tasks took, by its resource profile.
    cpus_per_task: float
    #: Of the task seconds, those in which executors warmed up: each of them for itself.
    warming_seconds: float = 0.0
    #: Whether its tasks wrote shuffle files, which stay with its executors.
    shuffles: bool = False


@dataclass(frozen=True, slots=True)
class LoggedApplication:
    """One attempt of an application."""

    log: str
    id: str
    attempt: str
    name: str
    user: str
    queue: str
    spark_version: str
    master: str
    #: The VM type of its executors, as its settings have it; empty where they do not.
    vm_type: str
    started_at: float
    #: When its first task was launched; None when none was.
    working_at: float | None
    ended_at: float
    #: Whether its log ends before the application did, or lacks events before its end.
    cut_short: bool
    dynamic: bool
    executors: tuple[Executor, ...]
    stages: tuple[Stage, ...]
    input_mib: float
    shuffle_mib: float
    spilled_mib: float
    tasks: int
    failed_tasks: int
    #: Bytes of its log, unpacked, and lines of it that are no events.
    log_bytes: int
    bad_lines: int
    #: Assumptions.
    notes: tuple[str, ...] = ()
    #: Files of its log, but for the last one, that are empty or cut short.
    lost_parts: tuple[str, ...] = ()

    @property
    def seconds(self) -> float:
        """From its start to its end."""
        return self.ended_at - self.started_at

    @property
    def paid_core_seconds(self) -> float:
        """Cores of its executors by the time for which they were there."""
        return sum(executor.cores * executor.seconds for executor in self.executors)

    @property
    def paid_memory_seconds(self) -> float:
        """MiB of its executors by the time for which they were there."""
        return sum(executor.memory_mib * executor.seconds for executor in self.executors)

    @property
    def memory_peak(self) -> MemoryPeak | None:
        """The largest samples of its executors' memory; None where the log does not tell."""
        peaks = [executor.peak for executor in self.executors if executor.peak is not None]
        return reduce(MemoryPeak.with_later, peaks) if peaks else None

    @property
    def peak_memory_seconds(self) -> tuple[float, float]:
        """MiB that executors used at most, by the same time, and MiB of the same executors.

        Both are 0 where the log does not tell.
        """
        known = [(e.peak.total_mib, e.memory_mib, e.seconds) for e in self.executors if e.peak is not None]
        used = sum(min(peak, memory) * seconds for peak, memory, seconds in known)
        return used, sum(memory * seconds for _, memory, seconds in known)
