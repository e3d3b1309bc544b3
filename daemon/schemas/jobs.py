"""Bodies of the HTTP API about jobs, their executors, groups and logs.

`job_bodies` makes them from records. Users submit a `conf.schema.JobSpec`.
"""

from typing import Annotated, Literal

from pydantic import ConfigDict, Field

from conf.schema import JobSpec, NameOrNone, SpotUse
from conf.schema.documented_model import DocumentedModel
from daemon.schemas.base import Body, IntervalBody, Printed, Said
from environment.dependencies import End
from environment.model.messages.records import Fault, ShortOf
from environment.model.messages.states import ExecutorState, JobState
from environment.simulation.durations.prediction_intervals import Where


class DecommissionBody(DocumentedModel):
    """Executors that a driver has to release."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    executors: Annotated[list[Annotated[int, Field(ge=0, lt=2**31)]], Field(min_length=1, max_length=10_000)]
    """Numbers of the executors."""
    reason: Annotated[NameOrNone, Field(max_length=200)] = ""
    """Reason, shown with the job."""


class AfterBody(Body):
    """A predecessor of a job."""

    job: str
    """The id of a job, or of an array."""
    name: Said
    """The user's reference to it: a name, or a group; empty where that was its id."""
    when: End
    """Whether it has to finish, or only to end."""


class AttemptBody(Body):
    """A failure of a job, followed by a retry or not."""

    began: float | None
    """When its executors started, seconds since the epoch; null where they never did."""
    ended: float
    """Time of the failure, seconds since the epoch."""
    fault: Fault
    """Cause of the failure: the user's count as retries, the infrastructure's do not, nor does the first for
    memory."""
    why: Said
    """The failure's reason."""


class MemoryUseBody(Body):
    """Memory that the executors of an ended job used, by the event log of its last driver."""

    peak_mib: float
    """The largest samples of an executor's memory, MiB: the sum of the three below, as far as known."""
    heap_mib: float
    """Of the JVM's heap."""
    off_heap_mib: float
    """Of the JVM outside of its heap."""
    python_mib: float | None
    """Of Python's workers and other processes; null where Spark did not look at processes."""
    paid_mib_seconds: float
    """Memory of all executors, MiB by seconds."""
    reported_mib_seconds: float
    """The part of it of those executors of which a peak is known."""
    used_mib_seconds: float
    """The peaks of these by the same time, MiB by seconds."""


class MoreMemoryBody(Body):
    """A restart with more memory for each executor, or for the driver, after a failure for memory."""

    at: float
    """Time of the failure, seconds since the epoch."""
    of: ShortOf
    """The process that had too little."""
    before_mib: int
    """Its memory before, MiB."""
    after_mib: int
    """Its memory since then, MiB."""
    lost: float
    """Dollars: the cost of the failed attempt; 0 until all of it has ended."""


class EstimateBody(Body):
    """Estimate for a waiting job, if no other job arrives."""

    at: float
    """Time of the estimate, seconds since the epoch."""
    start: IntervalBody
    """When the job is placed, seconds since the epoch."""
    end: IntervalBody
    """When the job ends, seconds since the epoch."""
    cost: IntervalBody
    """Its share of the VMs' cost, dollars."""


class CameBody(Body):
    """Outcome beside the estimate: within it, before (less) or after (more).

    Starts and ends up to 2 seconds beside it are within.
    """

    start: Where | None
    """Of the start; null before the start."""
    end: Where | None
    """Of the end; null unless the job has finished."""
    cost: Where | None
    """Of the cost; null unless the job has finished."""


class ToldBody(EstimateBody):
    """An estimate for a job while it waited, and its outcome."""

    came: CameBody
    """Places of the true values: before, within or after the estimated interval."""


class ExpectedBody(Body):
    """Estimates for a job while it waited, compared with the outcome."""

    first: ToldBody
    """The job's first estimate."""
    last: ToldBody | None
    """The last estimate before the start; null before the start, or where it is not stored yet."""


class ShapeEstimateBody(Body):
    """A shape of executors and its expected outcome: medians and intervals of 80 %."""

    executors: int
    """Number of executors."""
    cpus: float
    """Cores of each."""
    memory_mib: int
    """Memory of each, MiB."""
    seconds: float
    """Seconds from start to end."""
    seconds_between: tuple[float, float]
    """Between which they are with 80 %."""
    dollars: float
    """Dollars for these seconds, at today's prices."""
    dollars_between: tuple[float, float]
    """Between which they are with 80 %."""


class ShapeBody(Body):
    """How sizes that its user left to Stoker were chosen."""

    fields: list[str]
    """Those of executors, cpus and memory that were auto."""
    runs: int
    """Runs of its type that were known."""
    shapes: int
    """Different shapes that these ran on."""
    learned: bool
    """Whether the model chose; else, with runs on fewer than two shapes, the rule for a type's first runs."""
    taken: ShapeEstimateBody | None
    """What it was given; null where no run was known."""
    smaller: ShapeEstimateBody | None
    """The next smaller shape; null where there is none."""
    larger: ShapeEstimateBody | None
    """The next larger shape; null where there is none."""
    told: Said
    """The same in words."""


class JobBody(Body):
    """A job: its request, and its state."""

    id: str
    """`job-` and a number; later jobs have larger numbers."""
    name: Said
    """The name from the submission, or else derived from the app."""
    type: Said
    """Name of the job's kind, used by profiles and policies."""
    owner: Said
    """Owner of the job: a user, or without users an unchecked name; empty: none was named."""
    queue: Said
    """Queue of the job."""
    priority: int
    """Its priority, where the order is by priority; higher runs earlier."""
    deadline: float | None
    """Its deadline, seconds since the epoch; null: none."""
    restartable: bool
    """Whether another job may preempt it, so that it restarts."""
    after: list[AfterBody]
    """Jobs that it depends on: it starts when all of them have ended."""
    start_at: float | None
    """Its earliest start, seconds since the epoch; null: any time."""
    released_at: float | None
    """When its dependencies, start time or array released it to the queue; null before."""
    group: Said
    """Name of its group of jobs; empty without a group."""
    array: Said
    """The id of its array; empty without an array."""
    index: int | None
    """Its number in its array, from 0."""
    count: int | None
    """Number of jobs of its array."""
    at_most: int | None
    """Maximum number of jobs of the array that run at once; null: all."""
    labels: dict[str, Said]
    """Labels by which it can be found."""
    spark: Said
    """The name of the Spark version of its driver and executors; empty in stores from before several
    versions."""
    spot: SpotUse
    """Whether its executors may be on spot VMs, or only there."""
    state: JobState
    """Its state."""
    reason: Said
    """Reason for the state, in words."""
    next_step: Said
    """Suggested next step after a failure; else empty."""
    warnings: list[Said]
    """Warnings for its user, in the answer to its submission; else empty."""
    place: int | None
    """Number of jobs before it in the order; null where it does not wait, or where the number is unknown."""
    client_driver: Said
    """Location of a driver started by its user: the URL of its Spark UI, or its host."""
    executors: int
    """Requested number of executors; with dynamic allocation, the maximum."""
    min_executors: int
    """Minimum number of executors; equal to `executors` for a job that needs all of them."""
    wanted_executors: int | None
    """With dynamic allocation, the number that its driver requests now; else null."""
    cpus: float
    """Requested cores of each executor."""
    min_cpus: float
    """Minimum cores of each executor; equal to `cpus` for a job that needs all of them."""
    memory_mib: int
    """Requested memory of each executor, MiB."""
    resources: dict[str, float]
    """Resources of each executor beside cpus and memory, by Mesos' names."""
    submitted_at: float
    """Time of its submission, seconds since the epoch."""
    placed_at: float | None
    """When its executors were placed."""
    started_at: float | None
    """When the last of its executors first ran."""
    finished_at: float | None
    """When it ended, in whichever state."""
    duration: float | None
    """Seconds from start to end."""
    completion: float | None
    """Seconds from submission to end, including the wait."""
    cost: float
    """Dollars: its share of the price of the VMs that it held, up to now."""
    exit_code: int | None
    """Exit code of the driver."""
    losses: int
    """Number of lost executors that were placed again."""
    retries: int
    """Maximum number of restarts of its driver after failures."""
    retried: int
    """Number of restarts after failures that count."""
    free_retries: int
    """Number of restarts after failures of the infrastructure, which do not count."""
    more_memory: MoreMemoryBody | None = None
    """Its restart with more memory; null without one."""
    memory_use: MemoryUseBody | None = None
    """Memory that its executors used; null before its end, and where its event log does not report it."""
    estimate: EstimateBody | None = None
    """Its estimated start and cost, as long as it waits; null without an estimate."""
    shape: ShapeBody | None = None
    """How its size was chosen; null where its user left nothing of it to Stoker."""


class ExecutorBody(Body):
    """An executor, or the driver when it runs on the cluster."""

    number: int | None
    """Number of the executor; null for the driver."""
    task_id: Said
    """The task's id in Mesos."""
    vm: Said
    """The name of its VM."""
    vm_type: Said
    """The VM's type."""
    price_per_hour: float
    """The whole VM's price, dollars per hour."""
    state: ExecutorState
    """Its state."""
    cpus: float
    """Its cores."""
    memory_mib: int
    """Its memory, MiB."""
    resources: dict[str, float]
    """Its resources beside cpus and memory, by name."""
    launched_at: float
    """Time of the decision to launch it, seconds since the epoch: it holds its resources from then on."""
    running_at: float | None
    """When it started to run."""
    ended_at: float | None
    """When it ended."""
    cost: float
    """Dollars: its share of the VM's price, up to now."""
    message: Said
    """Mesos' last message about it."""
    profile: int
    """The number of its resource profile in Spark: 0 is the job's own request."""
    decommissioned_at: float | None
    """When its decommissioning was requested: the driver releases it once its blocks have moved; else
    null."""


class GaveBody(Body):
    """Executors that a job lost to another one, or its stop for that job."""

    at: float
    """Time, seconds since the epoch."""
    to: Said
    """The other job."""
    queue: Said
    """The other's queue."""
    priority: int
    """The other's priority."""
    executors: int
    """Number of executors it lost; all of them where the job was stopped."""
    lost: float
    """Dollars: the cost of its lost work."""
    whole: bool
    """Whether it was stopped, to restart from its place in the queue."""


class TookBody(Body):
    """Executors that a job received from another one, or that job's place."""

    at: float
    """Time, seconds since the epoch."""
    of: Said
    """The other job."""
    executors: int
    """Number of the other job's executors."""
    lost: float
    """Dollars: the cost of the other's lost work."""
    whole: bool
    """Whether the other job was stopped."""
    given_up: Said
    """Why it did not use them in the end; empty when it did, or still waits for them."""


class JobDetail(JobBody):
    """A job with its submitted spec, and all its executors."""

    spec: JobSpec | None
    """The submission; values that look secret are masked. Null where the store has lost it."""
    tasks: list[ExecutorBody]
    """Its executors, including ended ones, and a driver on the cluster; the last 10,000."""
    gave: list[GaveBody]
    """Its preemptions for other jobs, the last hundred."""
    took: list[TookBody]
    """Its preemptions of other jobs, the last hundred."""
    attempts: list[AttemptBody]
    """Its failures so far, latest last; at most the last twenty."""
    expected: ExpectedBody | None = None
    """Its estimates while it waited; null where it started at once or had none."""
    no_estimate: Said = ""
    """Why a waiting job has no estimate of its start; else empty."""
    estimate_notes: list[Said]
    """Notes on its estimate: guessed parts, and corrections by outcomes."""
    ui: str | None = None
    """The path of its driver's Spark UI while the driver runs; the URL for a driver started by its user."""


class JobList(Body):
    """A page of jobs."""

    jobs: list[JobBody]
    """Newest first."""
    next: str | None
    """The value of `before` for the next page; null on the last one."""


class LogBody(Body):
    """Part of a log."""

    text: Printed
    """The part; bytes that are no UTF-8 are replaced."""
    next_offset: int
    """Offset of the next part, bytes."""
    complete: bool
    """Whether the log is complete."""
    source: Literal["driver", "sandbox", "kept", ""] = ""
    """Source: the driver's folder on the daemon's host, the task's on its VM, or the daemon's copy made when
    the task ended; empty without a log."""
    note: Said = ""
    """The missing part, with the reason."""


class GroupBody(Body):
    """The jobs of a group, or of an array, as one."""

    id: Said
    """The group's name, or the array's id."""
    state: JobState
    """State of the whole: once all have ended, failed or killed if a job is, else finished."""
    jobs: int
    """Number of jobs."""
    states: dict[JobState, int]
    """Number of jobs by state."""
    cost: float
    """Dollars: their cost up to now."""
    submitted_at: float
    """Time of the first submission, seconds since the epoch."""
    finished_at: float | None
    """When the last job ended; null before."""
    first_failure: JobBody | None
    """The first job that failed or was killed; null when there is none."""
