"""The bodies of the HTTP API's answers about jobs and their logs, and how they are made from records.

Times are seconds since the epoch, money is dollars, memory MiB. What users submit is `conf.schema.JobSpec`;
other bodies are in `explanation_schemas`, `cluster_schemas` and `policy_schemas`. What stands below a field
describes it in `/openapi.json`.
"""

from collections.abc import Sequence
from typing import Annotated, Any, Literal, TypeVar

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

from conf.carrying import carried
from conf.masking import masked_arguments, masked_text, masked_urls, masked_values
from conf.schema import JobSpec, Name, NameOrNone, SpotUse
from daemon.amounts import flat
from daemon.contract import LogChunk
from daemon.foresight.expected import Estimate, KeptEstimates
from daemon.groups import GroupSum
from daemon.problems import printable
from environment.dependencies import End
from environment.model.growing import wanted
from environment.model.records import ExecutorRecord, Fault, JobRecord
from environment.model.states import ExecutorState, JobState
from environment.simulation.intervals import Interval

#: Bytes (8 TiB): the systems on which logs are kept read nothing beyond 16 TiB, and refuse to be asked.
LONGEST_LOG = 1 << 43

Printed = Annotated[str, BeforeValidator(printable)]
Said = Annotated[Printed, BeforeValidator(masked_urls)]
JobId = Annotated[str, Field(pattern=r"^job-[1-9][0-9]{0,17}$")]
Shown = TypeVar("Shown", bound=BaseModel)


class Query(BaseModel):
    """Query parameters; one that is not known is an error."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)


#: What may be asked for at once: names of owners, or of queues.
_MOST_NAMES = 20


def _label(text: str) -> str:
    if "=" not in text[1:]:
        raise ValueError("should be NAME=VALUE, such as team=a")
    return text


#: A label and its value.
Label = Annotated[Name, AfterValidator(_label)]


class JobsQuery(Query):
    """Which jobs to list: of these states, owners and queues, and those submitted before this one."""

    state: list[JobState] = []
    """Only jobs in one of these states; all of them where none is named."""
    owner: Annotated[list[NameOrNone], Field(max_length=_MOST_NAMES)] = []
    """Only jobs of one of these owners; an empty name finds jobs without one."""
    queue: Annotated[list[Name], Field(max_length=_MOST_NAMES)] = []
    """Only jobs in one of these queues."""
    group: Name | None = None
    """Only jobs of this group, or of the array with this id."""
    label: Annotated[list[Label], Field(max_length=_MOST_NAMES)] = []
    """Only jobs with all of these labels: team=a."""
    limit: Annotated[int, Field(ge=1, le=1000)] = 100
    """How many at most."""
    before: JobId | None = None
    """Only jobs that come behind this one: submitted before it, or after it where the oldest come first."""
    order: Literal["newest", "oldest"] = "newest"
    """Which come first, by their submission."""


class LogQuery(Query):
    """Which part of which log."""

    executor: Annotated[int, Field(ge=0, lt=2**31)] | None = None
    """The executor's number; without it, the driver's log."""
    stream: Literal["stdout", "stderr"] = "stdout"
    """What it printed, or what it complained of."""
    offset: Annotated[int, Field(ge=0, le=LONGEST_LOG)] = 0
    """Bytes of the log that come before the part."""
    limit: Annotated[int, Field(ge=4, le=1 << 20)] = 1 << 16
    """Bytes of the part at most."""


class Body(BaseModel):
    """Part of an answer."""

    model_config = ConfigDict(frozen=True, use_attribute_docstrings=True)


class DecommissionBody(BaseModel):
    """Executors that a driver is to give up."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, use_attribute_docstrings=True)

    executors: Annotated[list[Annotated[int, Field(ge=0, lt=2**31)]], Field(min_length=1, max_length=10_000)]
    """Their numbers."""
    reason: Annotated[NameOrNone, Field(max_length=200)] = ""
    """Why, for whoever looks at them."""


class AfterBody(Body):
    """What a job comes after."""

    job: str
    """The id of a job, or of an array."""
    name: Said
    """What its user called it: a name, or a group; empty where that was its id."""
    when: End
    """Whether it has to finish, or may end in any way."""


class AttemptBody(Body):
    """A failure of a job after which it was tried again, or was not."""

    began: float | None
    """When its executors ran, seconds since the epoch; null where they never did."""
    ended: float
    """When it failed."""
    fault: Fault
    """Whose fault it was: what is the user's counts as a retry, what is the infrastructure's does not."""
    why: Said
    """What was the matter."""


class IntervalBody(Body):
    """A mean, and between which ends 90 of 100 draws are."""

    mean: float
    """The mean of all draws."""
    low: float
    """5 of 100 are below."""
    high: float
    """5 of 100 are above."""


class EstimateBody(Body):
    """What is expected of a job that waits, if nobody else comes."""

    at: float
    """When it was made, seconds since the epoch."""
    start: IntervalBody
    """When it gets its places, seconds since the epoch."""
    end: IntervalBody
    """When it ends, seconds since the epoch."""
    cost: IntervalBody
    """Its share of what the VMs cost, dollars."""


class ExpectedBody(Body):
    """What was expected of a job while it waited, to be held to what came."""

    first: EstimateBody
    """What was first told of it."""
    last: EstimateBody | None
    """What was told last before it started; null where it has not, or that is not kept yet."""


class JobBody(Body):
    """A job: what it asks for, and what became of it."""

    id: str
    """`job-` and a number, the larger the later it was submitted."""
    name: Said
    """As submitted, or else after its app."""
    type: Said
    """What jobs of its kind are called: profiles and policies know jobs by it."""
    owner: Said
    """Whose job it is: a user, or without users as was said, which nobody checked; empty: nothing was."""
    queue: Said
    """Which queue it belongs to."""
    priority: int
    """How it stands beside others where the order is by priority: the higher, the earlier."""
    deadline: float | None
    """By when it should be over, seconds since the epoch; null: at any time."""
    restartable: bool
    """Whether it may be stopped for a job that goes before it, and begin anew."""
    after: list[AfterBody]
    """What it comes after: it begins when all of that has ended."""
    start_at: float | None
    """Before which time it does not begin, seconds since the epoch; null: at any."""
    released_at: float | None
    """When it began to wait for its turn, where jobs, its time or its array held it; null until then."""
    group: Said
    """With which others it is looked at as one; empty for none."""
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
    place: int | None
    """How many jobs are before it in the order; null where it does not wait, or where that is not known."""
    client_driver: Said
    """Where its driver is, if that is a process of its user's: the URL of its Spark UI, or its host."""
    executors: int
    """How many executors it asks for; with dynamic allocation, how many it may have at most."""
    min_executors: int
    """On no fewer it runs: as many as `executors` where it runs on all of them only."""
    wanted_executors: int | None
    """With dynamic allocation, how many its driver asks for now; null where it has as many all the time."""
    cpus: float
    """Cores that each executor asks for."""
    min_cpus: float
    """On no fewer each runs: as many as `cpus` where it runs on all of them only."""
    memory_mib: int
    """Memory that each executor asks for, MiB."""
    resources: dict[str, float]
    """What each executor takes beside cpus and memory, by the name that Mesos gives it."""
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
    """How often it was, of what counts."""
    free_retries: int
    """How often it was because the infrastructure failed it, which does not count."""
    estimate: EstimateBody | None = None
    """When it will start and what it will cost, as long as it waits; null where nobody knows."""


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
    """What it got beside cpus and memory, by name."""
    launched_at: float
    """When its launch was decided, seconds since the epoch: from then on it holds what it got."""
    running_at: float | None
    """When it ran."""
    ended_at: float | None
    """When it ended."""
    cost: float
    """Dollars: its share of the VM's price, up to now."""
    message: Said
    """What Mesos said of it last."""
    profile: int
    """The number of its resource profile in Spark: 0 is what the job asks for."""
    decommissioned_at: float | None
    """Since when its driver is to give it up, once its blocks are elsewhere; null for others."""


class GaveBody(Body):
    """What a job gave to another, or that it was stopped for it."""

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
    """Dollars: what that cost of its work."""
    whole: bool
    """Whether it was stopped, to begin anew in its place."""


class TookBody(Body):
    """What a job was given of another, or that it took the other's place."""

    at: float
    """When, seconds since the epoch."""
    of: Said
    """The other job."""
    executors: int
    """How many executors of the other."""
    lost: float
    """Dollars: what that cost of the other's work."""
    whole: bool
    """Whether the other was stopped for it."""
    given_up: Said
    """Why it did not have them after all; empty when it had, or waits for them yet."""


class JobDetail(JobBody):
    """A job with what was submitted, and all its executors."""

    spec: JobSpec | None
    """What was submitted; values that look secret are masked. Null where the store has lost it."""
    tasks: list[ExecutorBody]
    """Its executors, those that ended too, and its driver when it runs on the cluster."""
    gave: list[GaveBody]
    """What was taken from it for others, the last hundred times."""
    took: list[TookBody]
    """What was taken from others for it, the last hundred times."""
    attempts: list[AttemptBody]
    """How it has failed so far, the latest last; no more than the last twenty times."""
    expected: ExpectedBody | None = None
    """What was expected of it while it waited; null where it began at once, or nothing was."""
    ui: str | None = None
    """The path of the Spark UI of its driver, while that runs; its URL where the driver is its user's."""


class JobList(Body):
    """A page of jobs."""

    jobs: list[JobBody]
    """The newest first."""
    next: str | None
    """What to give as `before` for the next page; null on the last one."""


class LogBody(Body):
    """Part of a log."""

    text: Printed
    """The part; bytes that are no UTF-8 are replaced."""
    next_offset: int
    """Where the next part begins, bytes."""
    complete: bool
    """Whether nothing can follow."""
    source: Literal["driver", "sandbox", "kept", ""] = ""
    """Where it is from: the driver's folder on the daemon's host, the task's on its VM, or what the daemon
    kept of that when the task had ended; empty where nothing is there."""
    note: Said = ""
    """What is missing, and why."""


def job_body(
    record: JobRecord, reason: str | None = None, place: int | None = None, estimate: Estimate | None = None
) -> JobBody:
    """A job as users see it, with another reason than the record's when there is one, and its place."""
    return _job_body(JobBody, record, reason, estimate, place=place)


def job_detail(
    record: JobRecord,
    reason: str,
    spec: JobSpec | None,
    executors: Sequence[ExecutorRecord],
    ui: str | None = None,
    place: int | None = None,
    estimate: Estimate | None = None,
    expected: KeptEstimates | None = None,
) -> JobDetail:
    """A job with everything that is known of it."""
    return _job_body(
        JobDetail,
        record,
        reason,
        estimate,
        spec=None if spec is None else masked(spec),
        tasks=[_executor_body(executor) for executor in executors],
        gave=[GaveBody(**gave._asdict()) for gave in record.gave],
        took=[TookBody(**took._asdict()) for took in record.took],
        attempts=[AttemptBody(**attempt._asdict()) for attempt in record.attempts],
        ui=ui,
        place=place,
        expected=None
        if expected is None
        else ExpectedBody(
            first=estimate_body(expected.first),
            last=None if expected.last is None else estimate_body(expected.last),
        ),
    )


_FILES = ("py_files", "files", "jars", "archives", "repositories")


def masked(spec: JobSpec) -> JobSpec:
    """The spec without what is nobody's business: see `conf.masking`."""
    shown = {
        "app": masked_text(spec.app),
        "args": masked_arguments(spec.args),
        "conf": masked_values(spec.conf),
        "env": masked_values(spec.env),
        **{name: tuple(map(masked_text, getattr(spec, name))) for name in _FILES},
    }
    return spec.model_copy(update=shown)


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
    """Dollars: what they have cost up to now."""
    submitted_at: float
    """When the first was accepted, seconds since the epoch."""
    finished_at: float | None
    """When the last ended; null while one has not."""
    first_failure: JobBody | None
    """The first job that failed or was killed; null when there is none."""


def group_body(found: GroupSum, due: float) -> GroupBody:
    """A group, of which jobs that run owe so much beyond what is stored, dollars."""
    return GroupBody(
        id=found.id,
        state=found.state,
        jobs=sum(found.states.values()),
        states=found.states,
        cost=found.cost + due,
        submitted_at=found.submitted_at,
        finished_at=found.finished_at,
        first_failure=None if found.failure is None else job_body(found.failure),
    )


def log_body(chunk: LogChunk) -> LogBody:
    """Part of a log."""
    return carried(LogBody, chunk)


def interval_body(found: Interval) -> IntervalBody:
    """An interval."""
    return IntervalBody(mean=found.mean, low=found.low, high=found.high)


def _estimate_body(record: JobRecord, estimate: Estimate | None) -> EstimateBody | None:
    if estimate is None or record.state != "queued":
        return None
    return estimate_body(estimate)


def estimate_body(estimate: Estimate) -> EstimateBody:
    """An estimate as it is told."""
    start, end, cost = map(interval_body, (estimate.start, estimate.end, estimate.cost))
    return EstimateBody(at=estimate.at, start=start, end=end, cost=cost)


def _job_body(
    body: type[Shown], record: JobRecord, reason: str | None, estimate: Estimate | None, **others: Any
) -> Shown:
    job = record.job
    return carried(
        body,
        job,
        record,
        name=job.name or job.id,
        after=[AfterBody(job=one.job, name=one.name, when=one.when) for one in job.after],
        labels=dict(job.labels),
        reason=record.reason if reason is None else reason,
        min_executors=job.fewest if job.dynamic is None else job.dynamic.min,
        min_cpus=job.cpus if job.min_cpus is None else job.min_cpus,
        wanted_executors=None if job.dynamic is None else sum(asked.total for asked in wanted(record)),
        **flat(job.size),
        duration=_between(record.started_at, record.finished_at),
        completion=_between(job.submitted_at, record.finished_at),
        estimate=_estimate_body(record, estimate),
        **others,
    )


def _executor_body(record: ExecutorRecord) -> ExecutorBody:
    return carried(ExecutorBody, record, vm=record.vm_name, **flat(record.resources))


def _between(begin: float | None, end: float | None) -> float | None:
    return None if begin is None or end is None else end - begin
