"""Bodies of the HTTP API about jobs, their executors, groups and logs.

`job_bodies` makes them from records. Users submit a `conf.schema.JobSpec`.
"""

from typing import Annotated, Literal

from pydantic import ConfigDict, Field

from conf.schema import JobSpec, NameOrNone, SpotUse
from conf.schema.documented_model import DocumentedModel
from daemon.schemas.base import Body, IntervalBody, Printed, Said
from environment.dependencies import End
from environment.model.messages.records import Fault
from environment.model.messages.states import ExecutorState, JobState
from environment.simulation.durations.prediction_intervals import Where


class DecommissionBody(DocumentedModel):
    """Executors that a driver is to give up."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    executors: Annotated[list[Annotated[int, Field(ge=0, lt=2**31)]], Field(min_length=1, max_length=10_000)]
    """Their numbers."""
    reason: Annotated[NameOrNone, Field(max_length=200)] = ""
    """Reason, shown with the job."""


class AfterBody(Body):
    """A predecessor of a job."""

    job: str
    """The id of a job, or of an array."""
    name: Said
    """The user's reference to it: a name, or a group; empty where that was its id."""
    when: End
    """Whether it has to finish, or may end in any way."""


class AttemptBody(Body):
    """A failure of a job after which it was tried again, or was not."""

    began: float | None
    """When its executors ran, seconds since the epoch; null where they never did."""
    ended: float
    """When it failed."""
    fault: Fault
    """Cause of the failure: the user's count as retries, the infrastructure's do not."""
    why: Said
    """The failure's reason."""


class EstimateBody(Body):
    """Estimate for a waiting job, if no other job arrives."""

    at: float
    """When it was made, seconds since the epoch."""
    start: IntervalBody
    """When it gets its places, seconds since the epoch."""
    end: IntervalBody
    """When it ends, seconds since the epoch."""
    cost: IntervalBody
    """Its share of the VMs' cost, dollars."""


class CameBody(Body):
    """Outcome beside the estimate: within it, before (less) or after (more).

    Starts and ends up to 2 seconds beside it are within.
    """

    start: Where | None
    """Of the start; null before it."""
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
    """The first estimate of it."""
    last: ToldBody | None
    """The last estimate before it started; null where it has not, or that is not stored yet."""


class JobBody(Body):
    """A job: its request, and its state."""

    id: str
    """`job-` and a number, the larger the later it was submitted."""
    name: Said
    """As submitted, or else after its app."""
    type: Said
    """Name of the job's kind, used by profiles and policies."""
    owner: Said
    """Owner of the job: a user, or without users an unchecked name; empty: none was named."""
    queue: Said
    """Queue of the job."""
    priority: int
    """Its priority, where the order is by priority; higher runs earlier."""
    deadline: float | None
    """By when it should be over, seconds since the epoch; null: at any time."""
    restartable: bool
    """Whether it may be stopped for another job, and begin anew."""
    after: list[AfterBody]
    """Jobs that it comes after: it begins when all of them have ended."""
    start_at: float | None
    """The time before which it does not begin, seconds since the epoch; null: at any."""
    released_at: float | None
    """When it began to wait for its turn, where jobs, its time or its array held it; null until then."""
    group: Said
    """Name of the jobs that are treated as one; empty for none."""
    array: Said
    """The id of its array; empty for a job of none."""
    index: int | None
    """Its number in its array, from 0."""
    count: int | None
    """How many jobs its array has."""
    at_most: int | None
    """How many of these may run at once; null: all."""
    labels: dict[str, Said]
    """Its user's words, by which it can be found."""
    spark: Said
    """The name of the Spark that runs driver and executors; empty where the store knew but one."""
    spot: SpotUse
    """Whether its executors may be on spot VMs, or only there."""
    state: JobState
    """How far it is."""
    reason: Said
    """Why it is in that state, in words."""
    next_step: Said
    """The next step where it has failed; else empty."""
    warnings: list[Said]
    """Warnings for its user, in the answer to its submission; else empty."""
    place: int | None
    """How many jobs are before it in the order; null where it does not wait, or where that is not known."""
    client_driver: Said
    """Where its driver is, if that is a process of its user's: the URL of its Spark UI, or its host."""
    executors: int
    """How many executors it asks for; with dynamic allocation, how many it may have at most."""
    min_executors: int
    """The least number that it runs on: as many as `executors` where it runs on all of them only."""
    wanted_executors: int | None
    """With dynamic allocation, how many its driver asks for now; null where it has as many all the time."""
    cpus: float
    """Cores that each executor asks for."""
    min_cpus: float
    """The least number of cores that each runs with: as many as `cpus` where it runs on all of them only."""
    memory_mib: int
    """Memory that each executor asks for, MiB."""
    resources: dict[str, float]
    """Resources of each executor beside cpus and memory, by Mesos' names."""
    submitted_at: float
    """When it was accepted, seconds since the epoch."""
    placed_at: float | None
    """When its executors got their places."""
    started_at: float | None
    """When the last of its executors ran for the first time."""
    finished_at: float | None
    """When it ended, however it did."""
    duration: float | None
    """Seconds from start to end."""
    completion: float | None
    """Seconds from submission to end, and so with the wait."""
    cost: float
    """Dollars: its share of the price of the VMs that it held, up to now."""
    exit_code: int | None
    """The driver's."""
    losses: int
    """Executors that were lost, and placed again."""
    retries: int
    """How often its driver is started again after it has failed."""
    retried: int
    """How often it was started again, for failures that count."""
    free_retries: int
    """How often it was started again for failures of the infrastructure, which do not count."""
    estimate: EstimateBody | None = None
    """Its estimated start and cost, as long as it waits; null without an estimate."""


class ExecutorBody(Body):
    """An executor, or the driver when it runs on the cluster."""

    number: int | None
    """The executor's; null for the driver."""
    task_id: Said
    """The task's id in Mesos."""
    vm: Said
    """The name of the VM it is on."""
    vm_type: Said
    """The VM's type."""
    price_per_hour: float
    """The whole VM's price, dollars per hour."""
    state: ExecutorState
    """How far it is."""
    cpus: float
    """Cores that it got."""
    memory_mib: int
    """Memory that it got, MiB."""
    resources: dict[str, float]
    """Its resources beside cpus and memory, by name."""
    launched_at: float
    """Time of the decision to launch it, seconds since the epoch: it holds its resources from then on."""
    running_at: float | None
    """When it ran."""
    ended_at: float | None
    """When it ended."""
    cost: float
    """Dollars: its share of the VM's price, up to now."""
    message: Said
    """Mesos' last message about it."""
    profile: int
    """The number of its resource profile in Spark: 0 is the job's own request."""
    decommissioned_at: float | None
    """Since when its driver is to give it up, once its blocks are elsewhere; null for others."""


class GaveBody(Body):
    """Executors that a job lost to another, or that it was stopped for it."""

    at: float
    """When, seconds since the epoch."""
    to: Said
    """The other job."""
    queue: Said
    """The other's queue."""
    priority: int
    """The other's priority."""
    executors: int
    """How many executors it gave: all that it had where it was stopped."""
    lost: float
    """Dollars: the cost of its lost work."""
    whole: bool
    """Whether it was stopped, to begin anew in its place."""


class TookBody(Body):
    """Executors that a job received from another, or that it took the other's place."""

    at: float
    """When, seconds since the epoch."""
    of: Said
    """The other job."""
    executors: int
    """How many executors of the other."""
    lost: float
    """Dollars: the cost of the other's lost work."""
    whole: bool
    """Whether the other was stopped for it."""
    given_up: Said
    """Why it did not have them after all; empty when it had, or waits for them yet."""


class JobDetail(JobBody):
    """A job with its submitted spec, and all its executors."""

    spec: JobSpec | None
    """The submission; values that look secret are masked. Null where the store has lost it."""
    tasks: list[ExecutorBody]
    """Its executors, those that ended too, and its driver when it runs on the cluster."""
    gave: list[GaveBody]
    """Its preemptions for other jobs, the last hundred."""
    took: list[TookBody]
    """Its preemptions of other jobs, the last hundred."""
    attempts: list[AttemptBody]
    """How it has failed so far, the latest last; no more than the last twenty times."""
    expected: ExpectedBody | None = None
    """Its estimates while it waited; null where it began at once, or there were none."""
    no_estimate: Said = ""
    """Why it has no estimate of its start, though it waits; else empty."""
    estimate_notes: list[Said]
    """Notes on its estimate: guessed parts, and corrections by outcomes."""
    ui: str | None = None
    """The path of the Spark UI of its driver, while that runs; its URL where the driver is its user's."""


class JobList(Body):
    """A page of jobs."""

    jobs: list[JobBody]
    """The newest first."""
    next: str | None
    """The value of `before` for the next page; null on the last one."""


class LogBody(Body):
    """Part of a log."""

    text: Printed
    """The part; bytes that are no UTF-8 are replaced."""
    next_offset: int
    """Where the next part begins, bytes."""
    complete: bool
    """Whether nothing can follow."""
    source: Literal["driver", "sandbox", "kept", ""] = ""
    """Source: the driver's folder on the daemon's host, the task's on its VM, or the daemon's copy made when
    the task ended; empty without a log."""
    note: Said = ""
    """The missing part, and why."""


class GroupBody(Body):
    """The jobs of a group, or of an array, as one."""

    id: Said
    """The group's name, or the array's id."""
    state: JobState
    """How they do as one: failed or killed where one of them is and all are over, finished when all are."""
    jobs: int
    """How many there are."""
    states: dict[JobState, int]
    """How many are in which state."""
    cost: float
    """Dollars: their cost up to now."""
    submitted_at: float
    """When the first was accepted, seconds since the epoch."""
    finished_at: float | None
    """When the last ended; null while one has not."""
    first_failure: JobBody | None
    """The first job that failed or was killed; null when there is none."""
