"""Records of jobs and of their executors: the rows of the store, the body of the API.

The model owns and changes them; everyone else reads copies.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from conf.util.counted import counted
from conf.util.dollars import money
from environment.model.messages.states import ENDED_EXECUTOR, ENDED_JOB, ExecutorState, JobState
from environment.resources import Resources
from environment.scale_up import Grown
from environment.types import Job
from profiles.memory_peaks import MemoryPeak

#: The reason of a job that waits for nothing but those before it.
WAITS_ITS_TURN = "waits for its turn"
#: The cause of a failure: the user's program, its infrastructure, or too little memory for the program.
Fault = Literal["user", "infrastructure", "memory"]
#: Processes of a job that may have too little memory.
ShortOf = Literal["executor", "driver"]


class Attempt(NamedTuple):
    """A failure of a job: its start (if it had started) and failure times, seconds; the fault, and why."""

    began: float | None
    ended: float
    fault: Fault
    why: str


class ExecutorRequest(NamedTuple):
    """A driver's request for one resource profile, by its number in Spark: executor size and total count."""

    profile: int
    size: Resources
    total: int


class PreemptionLoss(NamedTuple):
    """A job gave so many executors to another, of that queue and priority, or was stopped for it.

    `lost` is the cost of its lost work, dollars.
    """

    at: float
    to: str
    queue: str
    priority: int
    executors: int
    lost: float
    whole: bool

    @property
    def told(self) -> str:
        """Description of the preemption, in words."""
        taker = f"{self.to} of queue {self.queue} (priority {self.priority})"
        cost = f"which cost {money(self.lost)} of its work"
        if self.whole:
            return f"was stopped for {taker}, {cost}; waits in its place to begin again"
        again = "it" if self.executors == 1 else "them"
        return f"gave {counted(self.executors, 'executor')} to {taker}, {cost}; waits to have {again} again"


class PreemptionGain(NamedTuple):
    """Executors, or a whole place, that a job received from another, and the cost of the other's lost work.

    `given_up` is the reason why it did not get them after all; empty when it did, or still waits for them.
    """

    at: float
    of: str
    executors: int
    lost: float
    whole: bool
    given_up: str = ""

    @property
    def told(self) -> str:
        """Description of the preemption, in words."""
        what = "the place" if self.whole else counted(self.executors, "executor")
        return f"{what} of {self.of} ({money(self.lost)} of its work)"


class MoreMemory(NamedTuple):
    """A restart with more memory for each executor, or for the driver, after a failure for memory.

    `lost` is the cost of the failed attempt, dollars; 0 until all of it has ended.
    """

    at: float
    of: ShortOf
    before_mib: int
    after_mib: int
    lost: float = 0.0

    @property
    def told(self) -> str:
        """Description of the change, in words."""
        process = "each executor" if self.of == "executor" else "its driver"
        return f"{process} has {self.after_mib} MiB instead of {self.before_mib} MiB"


class MemoryUse(NamedTuple):
    """Memory of the executors of an ended job, by the event log of its last driver.

    The peak is that of all of them. `full_mib` is the memory with which an executor would have been full at
    it, overhead included; None where the part of Python's workers is unknown. Amounts over time are MiB by
    seconds: paid for all executors, for those that reported a peak, and the peaks of these by their time.
    """

    peak: MemoryPeak
    full_mib: float | None
    paid: float
    reported: float
    used: float

    @staticmethod
    def read(values: Sequence[Any]) -> "MemoryUse":
        """The use of which JSON made lists."""
        peak, *others = values
        return MemoryUse(MemoryPeak(*peak), *others)


class MemoryCounts(NamedTuple):
    """Number of failures of jobs for memory, and of restarts with more memory."""

    failures: int = 0
    restarts: int = 0


@dataclass(slots=True)
class ExecutorRecord:
    """One Mesos task of a job: an executor, or the driver when it runs on the cluster (`number` None)."""

    #: Carries job and number, so that a task seen from outside can always be named.
    task_id: str
    job_id: str
    number: int | None
    vm_id: str
    vm_name: str
    vm_type: str
    address: str
    price_per_hour: float
    #: Its resources.
    resources: Resources
    ports: tuple[int, ...]
    #: When the launch was decided: from then on the resources are held.
    launched_at: float
    state: ExecutorState = "launching"
    running_at: float | None = None
    ended_at: float | None = None
    message: str = ""
    #: Dollars: this task's share of its VM's price, accounted for until `accrued_until`.
    cost: float = 0.0
    accrued_until: float = 0.0
    #: Set once a kill was sent, so that the end is not taken for a loss.
    killed_at: float | None = None
    #: Set when an executor that is `gone` has been placed again, or needs no replacement.
    replaced: bool = False
    #: The number of its resource profile in Spark.
    profile: int = 0
    #: Its driver gave it back: it is killed, and its end is no loss.
    released: bool = False
    #: Since when its driver is to give it up, once its blocks are elsewhere; its end is no failure.
    decommissioned_at: float | None = None
    #: The largest fraction of any resource of its VM that it takes; all of it where that was not recorded.
    share: float = 1.0

    @property
    def ended(self) -> bool:
        """Whether the task holds nothing any more."""
        return self.state in ENDED_EXECUTOR

    @property
    def gone(self) -> bool:
        """Whether the job cannot count on it: it has ended, or is to end once its blocks are elsewhere."""
        return self.ended or self.decommissioned_at is not None


def sizes_of(tasks: Iterable[ExecutorRecord]) -> tuple[Resources, ...]:
    """Size of each executor of a job, given its tasks; lost executors to be placed again count, too."""
    return tuple(task.resources for task in tasks if task.number is not None and not task.replaced)


@dataclass(slots=True)
class JobRecord:
    """A job's life. `reason` says why it is in its state: no job waits or fails without one."""

    job: Job
    state: JobState = "queued"
    reason: str = WAITS_ITS_TURN
    placed_at: float | None = None
    #: When its last executor ran for the first time.
    started_at: float | None = None
    finished_at: float | None = None
    exit_code: int | None = None
    #: Number of the next executor; numbers are never used twice, as Spark refuses to see one again.
    next_executor: int = 0
    #: Executors lost so far, for any cause.
    losses: int = 0
    #: Lost executors that ended by themselves, and not with their VM; a job with too many fails.
    failures: int = 0
    cost: float = 0.0
    #: Where its driver is or will be, when that is not on the cluster: a daemon's own name for its host.
    driver_on: str = ""
    #: The launch is being undone, because one of its executors could not be started.
    aborting: bool = False
    #: How often it was started again since its driver had failed.
    retried: int = 0
    #: How often besides because its hosts or VMs had failed it, which is none of its retries.
    free_retries: int = 0
    #: Its restart with more memory, which is none of these; a job has one at most.
    more_memory: MoreMemory | None = None
    #: Memory that its executors used; None until it has ended, and where its event log does not tell.
    memory_use: MemoryUse | None = None
    #: How it has failed so far: the last times.
    attempts: tuple[Attempt, ...] = ()
    #: Why it has failed, while its driver is still to end.
    failing: str = ""
    #: The executors that the driver of a dynamic job asks for now, within its bounds; empty: those it begins
    #: with.
    wanted: tuple[ExecutorRequest, ...] = ()
    #: Why that is less than its driver asks for; empty when it is not.
    capped: str = ""
    #: Why it gets no more executors, as it has cost its `max_cost`; empty as long as it may.
    bounded: str = ""
    #: When it began to wait for its turn, where it was held before: by a dependency, or its start time.
    released_at: float | None = None
    #: When executors joined it while it ran, for one that began with fewer than it asks for, or left it for
    #: another job.
    grown: tuple[Grown, ...] = ()
    #: Its losses to other jobs by preemption, and its gains from others, the last behind.
    gave: tuple[PreemptionLoss, ...] = ()
    took: tuple[PreemptionGain, ...] = ()
    #: When it began to wait again, after its launch was undone or its last run ended.
    queued_again_at: float | None = None

    @property
    def gives_way(self) -> bool:
        """Whether all of it is to end for another job, and it is to wait again."""
        last = self.gave[-1] if self.gave else None
        return last is not None and last.whole and self.placed_at is not None and last.at >= self.placed_at

    @property
    def held(self) -> bool:
        """Whether it does not wait for its turn yet: for other jobs, for its time, or for its array."""
        return self.state == "queued" and self.released_at is None and self.job.may_be_held

    @property
    def entered_at(self) -> float:
        """Since when it waits for its turn."""
        return self.job.submitted_at if self.released_at is None else self.released_at

    @property
    def waits_since(self) -> float:
        """Since when it waits for its turn, or for the last time did."""
        return self.entered_at if self.queued_again_at is None else self.queued_again_at

    @property
    def ended(self) -> bool:
        """Whether the job has ended, even if executors of it still run."""
        return self.state in ENDED_JOB
