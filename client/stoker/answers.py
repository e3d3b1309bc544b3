"""Types of the API's responses and of job settings, generated from docs/openapi.json by `make openapi`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike
from typing import Any, Literal, TypedDict, Union

File = Union[str, "PathLike[str]"]


class After(TypedDict):
    """A predecessor of a job."""

    job: str
    """The id of a job, or of an array."""
    name: str
    """The user's reference to it: a name, or a group; empty where that was its id."""
    when: Literal["success", "any"]
    """Whether it has to finish, or may end in any way."""


class Ahead(TypedDict):
    """Forecast of the queue."""

    at: float
    """The moment from which seconds count, since the epoch: now, or `since`."""
    recorded: bool
    """Whether a time that is over was played, and not the queue as it is now."""
    waiting: int
    """How many jobs wait that would be placed in their turn now; or came since then, and are played."""
    others: int
    """How many wait besides and are not played: they pause, are aside, or are far behind."""
    policies: list[PolicyAhead]
    """One for each that was asked for, in that order, case by case."""
    note: str
    """Cause of waits that no VM and no policy changes; empty without such waits."""
    assumes: list[str]
    """The assumptions, in words."""


class Alive(TypedDict):
    """That the server answers."""

    status: Literal["ok"]
    """Always the same."""
    version: str
    """Stoker's."""


class Amounts(TypedDict):
    """Amounts of a cluster's resources."""

    cpus: float | None
    """Cores."""
    memory: int | None
    """MiB, or an amount with its unit, such as 16g."""
    gpus: int | None
    """Whole GPUs."""


class Attempt(TypedDict):
    """A failure of a job after which it was tried again, or was not."""

    began: float | None
    """When its executors ran, seconds since the epoch; null where they never did."""
    ended: float
    """When it failed."""
    fault: Literal["user", "infrastructure"]
    """Cause of the failure: the user's count as retries, the infrastructure's do not."""
    why: str
    """The failure's reason."""


class Bill(TypedDict):
    """Cost of VMs from opened to closed, used or idle."""

    by: Literal["job", "group", "owner", "queue", "type", "policy", "pool", "vm", "day", "kind"]
    """The division of the bill."""
    since: str | None
    """The first day (UTC) with data; null when there is none."""
    until: str | None
    """The last such day."""
    total: BillLine
    """All of it."""
    lines: list[BillLine]
    """The dearest first, or day by day."""
    rest: BillLine | None
    """The sum of the other lines; null when there are none."""
    budget: Budget | None
    """Budget of a day; null without a budget, and where only the leader knows."""


class BillLine(TypedDict):
    """An amount paid, by kind."""

    key: str
    """The job, group, owner, day, ...; empty for costs of no job, or of jobs that are no longer listed one by
    one.
    """
    total: float
    """Dollars in all."""
    used: float
    """The part used by executors and drivers: each its dominant share of its VM."""
    idle: float
    """The unused part of VMs that were up."""
    booting: float
    """While VMs of pools booted."""
    draining: float
    """The unused part of VMs that were drained or closed."""
    rounding: float
    """For whole units, and the least that is charged."""
    difference: float | None
    """Cost beyond the total by providers' own account; null where they report none."""
    lost: float
    """The used part of lost work, of jobs that were preempted."""


class Bounds(TypedDict):
    """The most that a queue, or one of its users, may have at once; null: any amount."""

    cpus: float | None
    """Cores."""
    memory: int | None
    """MiB, or an amount with its unit, such as 16g."""
    gpus: int | None
    """Whole GPUs."""
    dollars_per_hour: float | None
    """Maximum cost per hour: its share in the prices of VMs."""
    dollars_per_day: float | None
    """Maximum cost on a day (UTC); after that no job starts on that day."""
    running: int | None
    """Maximum number of jobs that have executors."""
    waiting: int | None
    """Maximum number of waiting jobs: more are rejected."""


class Budget(TypedDict):
    """Cost of VMs today, beside the limit."""

    day: str
    """Today (UTC)."""
    per_day: float
    """Dollars that they may cost on a day."""
    spent: float
    """Dollars that they have cost."""
    hold: bool
    """Whether no VM is opened on a day on which they have cost more."""


class Came(TypedDict):
    """Outcome beside the estimate: within it, before (less) or after (more).

    Starts and ends up to 2 seconds beside it are within.
    """

    start: Literal["before", "within", "after"] | None
    """Of the start; null before it."""
    end: Literal["before", "within", "after"] | None
    """Of the end; null unless the job has finished."""
    cost: Literal["before", "within", "after"] | None
    """Of the cost; null unless the job has finished."""


class Candidate(TypedDict):
    """A VM that was looked at."""

    vm: str
    """The VM's name."""
    type: str
    """The VM's type."""
    free_cpus: float
    """Cores that were free on it."""
    free_memory_mib: int
    """Memory that was free on it, MiB."""
    free_resources: dict[str, float]
    """Its other free resources, by name."""
    lacks: list[str]
    """Its missing resources for the executor, in words; empty where it fits."""
    score: float | None
    """The policy's score of it: higher is better."""
    chosen: bool
    """Whether the executor went there."""
    details: dict[str, float | None]
    """More numbers of the policy, by name."""


class Choice(TypedDict):
    """The choice for one executor, or for the whole job."""

    executor: int | None
    """The executor's number; null for the whole job."""
    vm: str | None
    """The chosen VM's name; null where none was chosen."""
    cpus: float | None
    """Cores that it takes there."""
    memory_mib: int | None
    """Memory that it takes there, MiB."""
    resources: dict[str, float]
    """Its other resources there, by name."""
    why: str
    """Why there, in words."""
    candidates: list[Candidate]
    """VMs that were looked at, the chosen ones among them."""
    candidates_left_out: int
    """How many more were looked at."""


class Cluster(TypedDict):
    """All VMs that are there."""

    vms: list[Vm]
    """Those that the master has reported, and those that boot."""
    pools: list[Pool]
    """Where others could be had."""
    provider: str
    """The provider's failing calls; empty when none fails."""
    order: list[str]
    """Criteria of the order, in sequence; empty: first come, first served."""
    queues: int
    """How many queues that take jobs share them; 0 where a job's queue is any name."""
    note: str
    """Cause of waits that no VM and no policy changes: the machine under an embedded cluster has no capacity
    for more executors and drivers at once. Empty without such waits.
    """


class Comparison(TypedDict):
    """How shadow policies would have decided, over the latest decisions.

    A cost is an estimate for one decision by itself: the price of the VMs that it takes into use, for as long
    as the job ran under the acting policy.
    """

    totals: list[Totals]
    """One for each pair of policies."""
    differences: list[Difference]
    """The latest first."""


class Coverage(TypedDict):
    """How estimates of jobs that waited came true since the daemon's start."""

    start: Held
    """When they started."""
    end: Held
    """When they had finished."""
    cost: Held
    """Their cost then."""


class CpuBounds(TypedDict):
    """Bounds on an executor's cores: Stoker chooses between them by the type's curve and the waiting jobs."""

    min: float
    """Cores, with at most three decimals"""
    max: float
    """Cores, with at most three decimals"""


class Decision(TypedDict):
    """One decision about the job."""

    at: float
    """When it was taken, seconds since the epoch."""
    policy: str
    """The policy that decided."""
    decision: str
    """The decision."""
    reason: str
    """The decision in words."""
    faults: list[str]
    """Reasons why other policies' decisions were not accepted."""
    choices: list[Choice]
    """One for each executor, or one for the whole job."""


class Dependency(TypedDict):
    """A predecessor of a job: another job, or all jobs of a group or an array."""

    job: str | None
    """A job's id or name, or an array's id; a name means the latest job of that name and owner."""
    group: str | None
    """A group of jobs of the same owner, by its name, or an array by its id."""
    when: Literal["success", "any"]
    """Whether it begins only if they finish, or after any end."""


class Difference(TypedDict):
    """A decision that two policies took otherwise."""

    at: float
    """When it was decided, seconds since the epoch."""
    job: str
    """The job's id."""
    duration: float | None
    """Seconds for which the job ran, or is expected to."""
    known_from: Literal["run", "profile", "nothing"]
    """Where the duration is known from."""
    acting: Outcome
    """The acting policy's decision."""
    shadow: Outcome
    """The shadow policy's decision."""


class Done(TypedDict):
    """Success."""


class Driver(TypedDict):
    """Location of Spark drivers: the daemon's host, or the cluster as a Mesos task of this size."""

    on: Literal["host", "cluster", "client"]
    """On the daemon's host, or on the cluster as a Mesos task; `client`: it is a user's own process, which
    requested executors by `POST /v1/applications`.
    """
    cpus: float
    """Cores, with at most three decimals"""
    memory: int
    """Its memory, including Spark's overhead: MiB, or an amount with its unit, such as 1g; at least 896m."""
    spot: Literal["never", "allowed"]
    """Whether a driver on the cluster may be on a spot VM; it also may where its job sets `spot: only`."""


class DriverOptions(TypedDict, total=False):
    """Location of Spark drivers: the daemon's host, or the cluster as a Mesos task of this size."""

    on: Literal["host", "cluster", "client"]
    """On the daemon's host, or on the cluster as a Mesos task; `client`: it is a user's own process, which
    requested executors by `POST /v1/applications`.
    """
    cpus: float
    """Cores, with at most three decimals"""
    memory: int | str
    """Its memory, including Spark's overhead: MiB, or an amount with its unit, such as 1g; at least 896m."""
    spot: Literal["never", "allowed"]
    """Whether a driver on the cluster may be on a spot VM; it also may where its job sets `spot: only`."""


class DryRun(TypedDict):
    """Forecast of a submission that was not made: the job would be accepted."""

    job: Job
    """The job as it would be, the first of an array, without an id; with the number of jobs that would be
    placed before it, the reason why it would wait now, and the estimate, of all jobs of an array as one.
    """
    placement: list[Placed]
    """Where its executors would be placed now; empty where it would wait, or where that is not known."""
    dollars_per_hour: float | None
    """Their cost there: their shares of the VMs' prices."""
    late: bool
    """Whether it would end after its deadline in most draws."""
    policy: str
    """Which policy decides."""
    draws: int
    """How often that was played."""
    no_estimate: str
    """Why there is no estimate of its start; else empty."""
    assumes: list[str]
    """The assumptions of the estimate, in words."""


class DynamicExecutors(TypedDict):
    """Executor limits of a job with a driver that requests them while it runs: dynamic allocation."""

    max: int
    """Maximum number of executors, of each resource profile."""
    min: int
    """Minimum number of executors: executors missing to it are placed before those of new jobs."""
    initial: int | None
    """Number of executors at the start, if there is room, and at least `min`; null: `min`, or else one."""


class Estimate(TypedDict):
    """Estimate for a waiting job, if no other job arrives."""

    at: float
    """When it was made, seconds since the epoch."""
    start: Interval
    """When it gets its places, seconds since the epoch."""
    end: Interval
    """When it ends, seconds since the epoch."""
    cost: Interval
    """Its share of the VMs' cost, dollars."""


class Event(TypedDict):
    """One thing that happened."""

    number: int
    """Later ones have higher numbers."""
    at: float
    """When."""
    job_id: str | None
    """The job; null for an event of the cluster."""
    kind: Literal[
        "submitted",
        "held",
        "waits",
        "decided",
        "launched",
        "starting",
        "running",
        "relaunching",
        "executors ended",
        "executors lost",
        "preempted",
        "given",
        "attempt failed",
        "retried",
        "finished",
        "failed",
        "killed",
        "vm opening",
        "vm booting",
        "vm ready",
        "vm draining",
        "vm closing",
        "vm closed",
        "vm lost",
        "policy changed",
        "shadow changed",
        "queue changed",
        "budget spent",
        "openings held",
        "openings resumed",
    ]
    """What."""
    message: str
    """The same in words."""


class EventList(TypedDict):
    """Events, oldest first."""

    events: list[Event]
    """Each of them."""
    next: int
    """The value of `after` for the next request."""
    more: bool
    """Whether more events exist already."""


class Executor(TypedDict):
    """An executor, or the driver when it runs on the cluster."""

    number: int | None
    """The executor's; null for the driver."""
    task_id: str
    """The task's id in Mesos."""
    vm: str
    """The name of the VM it is on."""
    vm_type: str
    """The VM's type."""
    price_per_hour: float
    """The whole VM's price, dollars per hour."""
    state: Literal["launching", "starting", "running", "unreachable", "finished", "failed", "killed", "lost"]
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
    message: str
    """Mesos' last message about it."""
    profile: int
    """The number of its resource profile in Spark: 0 is the job's own request."""
    decommissioned_at: float | None
    """Since when its driver is to give it up, once its blocks are elsewhere; null for others."""


class Expected(TypedDict):
    """Estimates for a job while it waited, compared with the outcome."""

    first: Told
    """The first estimate of it."""
    last: Told | None
    """The last estimate before it started; null where it has not, or that is not stored yet."""


class Explanation(TypedDict):
    """Why a job's executors are where they are, or why it waits."""

    id: str
    """The job."""
    state: Literal["queued", "placing", "starting", "running", "relaunching", "finished", "failed", "killed"]
    """How far it is."""
    reason: str
    """Why it is in that state, in words."""
    queue: str
    """Queue of the job."""
    priority: int
    """Its priority, where the order is by priority; higher runs earlier."""
    deadline: float | None
    """By when it should be over, seconds since the epoch; null: at any time."""
    place: int | None
    """How many jobs are before it in the order; null where it does not wait, or where that is not known."""
    estimate: Estimate | None
    """Its expected start, end and cost; null where it does not wait, or without an estimate."""
    no_estimate: str
    """Why there is no estimate of a job that waits; empty where there is one, or none is due."""
    gave: list[Gave]
    """Its preemptions by other jobs; the last hundred."""
    took: list[Took]
    """Its preemptions of other jobs; the last hundred."""
    explanations: list[Decision]
    """The decisions about it that are kept, the oldest first."""


class FieldError(TypedDict):
    """An invalid value: its field, and the valid form."""

    field: str
    """Where the value is: keys, with dots between them."""
    message: str
    """The error, and the correct form."""


class Gave(TypedDict):
    """Executors that a job lost to another, or that it was stopped for it."""

    at: float
    """When, seconds since the epoch."""
    to: str
    """The other job."""
    queue: str
    """The other's queue."""
    priority: int
    """The other's priority."""
    executors: int
    """How many executors it gave: all that it had where it was stopped."""
    lost: float
    """Dollars: the cost of its lost work."""
    whole: bool
    """Whether it was stopped, to begin anew in its place."""


class Granted(TypedDict):
    """Answer to the executors that a driver wants."""

    reason: str
    """Why it gets fewer executors than it requests; empty when it gets all."""


class Group(TypedDict):
    """The jobs of a group, or of an array, as one."""

    id: str
    """The group's name, or the array's id."""
    state: Literal["queued", "placing", "starting", "running", "relaunching", "finished", "failed", "killed"]
    """How they do as one: failed or killed where one of them is and all are over, finished when all are."""
    jobs: int
    """How many there are."""
    states: dict[str, int]
    """How many are in which state."""
    cost: float
    """Dollars: their cost up to now."""
    submitted_at: float
    """When the first was accepted, seconds since the epoch."""
    finished_at: float | None
    """When the last ended; null while one has not."""
    first_failure: Job | None
    """The first job that failed or was killed; null when there is none."""


class Health(TypedDict):
    """Whether jobs can be scheduled now, and each check in words."""

    ready: bool
    """Whether all checks are well."""
    checks: dict[str, str]
    """Results by the name of the check."""


class Held(TypedDict):
    """Number of times that the first 90 % interval for a job held the outcome."""

    within: int
    """So often the truth was between its ends."""
    before: int
    """So often it was below the lower one."""
    after: int
    """So often it was above the upper one."""


class Index(TypedDict):
    """Where to go from here."""

    name: str
    """The daemon that answers."""
    version: str
    """Stoker's."""
    links: dict[str, str]
    """Paths, by their content."""


class Interval(TypedDict):
    """A mean, and between which ends 90 of 100 draws are."""

    mean: float
    """The mean of all draws."""
    low: float
    """5 of 100 are below."""
    high: float
    """5 of 100 are above."""


class Job(TypedDict):
    """A job: its request, and its state."""

    id: str
    """`job-` and a number, the larger the later it was submitted."""
    name: str
    """As submitted, or else after its app."""
    type: str
    """Name of the job's kind, used by profiles and policies."""
    owner: str
    """Owner of the job: a user, or without users an unchecked name; empty: none was named."""
    queue: str
    """Queue of the job."""
    priority: int
    """Its priority, where the order is by priority; higher runs earlier."""
    deadline: float | None
    """By when it should be over, seconds since the epoch; null: at any time."""
    restartable: bool
    """Whether it may be stopped for another job, and begin anew."""
    after: list[After]
    """Jobs that it comes after: it begins when all of them have ended."""
    start_at: float | None
    """The time before which it does not begin, seconds since the epoch; null: at any."""
    released_at: float | None
    """When it began to wait for its turn, where jobs, its time or its array held it; null until then."""
    group: str
    """Name of the jobs that are treated as one; empty for none."""
    array: str
    """The id of its array; empty for a job of none."""
    index: int | None
    """Its number in its array, from 0."""
    count: int | None
    """How many jobs its array has."""
    at_most: int | None
    """How many of these may run at once; null: all."""
    labels: dict[str, str]
    """Its user's words, by which it can be found."""
    spark: str
    """The name of the Spark that runs driver and executors; empty where the store knew but one."""
    spot: Literal["never", "allowed", "only"]
    """Whether its executors may be on spot VMs, or only there."""
    state: Literal["queued", "placing", "starting", "running", "relaunching", "finished", "failed", "killed"]
    """How far it is."""
    reason: str
    """Why it is in that state, in words."""
    next_step: str
    """The next step where it has failed; else empty."""
    warnings: list[str]
    """Warnings for its user, in the answer to its submission; else empty."""
    place: int | None
    """How many jobs are before it in the order; null where it does not wait, or where that is not known."""
    client_driver: str
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
    estimate: Estimate | None
    """Its estimated start and cost, as long as it waits; null without an estimate."""


class JobAhead(TypedDict):
    """When a job that waits runs."""

    id: str
    """The job's id."""
    name: str
    """Its name."""
    start: Interval
    """When it starts, seconds from `at` on."""
    end: Interval
    """When it ends, seconds from `at` on."""
    cost: Interval
    """Its share of the VMs' cost, dollars."""
    late: bool
    """Whether it would end after its deadline in most draws."""


class JobDetail(TypedDict):
    """A job with its submitted spec, and all its executors."""

    id: str
    """`job-` and a number, the larger the later it was submitted."""
    name: str
    """As submitted, or else after its app."""
    type: str
    """Name of the job's kind, used by profiles and policies."""
    owner: str
    """Owner of the job: a user, or without users an unchecked name; empty: none was named."""
    queue: str
    """Queue of the job."""
    priority: int
    """Its priority, where the order is by priority; higher runs earlier."""
    deadline: float | None
    """By when it should be over, seconds since the epoch; null: at any time."""
    restartable: bool
    """Whether it may be stopped for another job, and begin anew."""
    after: list[After]
    """Jobs that it comes after: it begins when all of them have ended."""
    start_at: float | None
    """The time before which it does not begin, seconds since the epoch; null: at any."""
    released_at: float | None
    """When it began to wait for its turn, where jobs, its time or its array held it; null until then."""
    group: str
    """Name of the jobs that are treated as one; empty for none."""
    array: str
    """The id of its array; empty for a job of none."""
    index: int | None
    """Its number in its array, from 0."""
    count: int | None
    """How many jobs its array has."""
    at_most: int | None
    """How many of these may run at once; null: all."""
    labels: dict[str, str]
    """Its user's words, by which it can be found."""
    spark: str
    """The name of the Spark that runs driver and executors; empty where the store knew but one."""
    spot: Literal["never", "allowed", "only"]
    """Whether its executors may be on spot VMs, or only there."""
    state: Literal["queued", "placing", "starting", "running", "relaunching", "finished", "failed", "killed"]
    """How far it is."""
    reason: str
    """Why it is in that state, in words."""
    next_step: str
    """The next step where it has failed; else empty."""
    warnings: list[str]
    """Warnings for its user, in the answer to its submission; else empty."""
    place: int | None
    """How many jobs are before it in the order; null where it does not wait, or where that is not known."""
    client_driver: str
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
    estimate: Estimate | None
    """Its estimated start and cost, as long as it waits; null without an estimate."""
    spec: JobSpec | None
    """The submission; values that look secret are masked. Null where the store has lost it."""
    tasks: list[Executor]
    """Its executors, those that ended too, and its driver when it runs on the cluster."""
    gave: list[Gave]
    """Its preemptions for other jobs, the last hundred."""
    took: list[Took]
    """Its preemptions of other jobs, the last hundred."""
    attempts: list[Attempt]
    """How it has failed so far, the latest last; no more than the last twenty times."""
    expected: Expected | None
    """Its estimates while it waited; null where it began at once, or there were none."""
    no_estimate: str
    """Why it has no estimate of its start, though it waits; else empty."""
    estimate_notes: list[str]
    """Notes on its estimate: guessed parts, and corrections by outcomes."""
    ui: str | None
    """The path of the Spark UI of its driver, while that runs; its URL where the driver is its user's."""


class JobList(TypedDict):
    """A page of jobs."""

    jobs: list[Job]
    """The newest first."""
    next: str | None
    """The value of `before` for the next page; null on the last one."""


class JobOptions(TypedDict, total=False):
    """A Spark job as a user submits it: a YAML file, command line flags, or the body of POST /v1/jobs."""

    name: str | None
    """Name of the job; by default that of its app."""
    type: str
    """Name of the job's kind, used by profiles and policies."""
    owner: str
    """Owner of the job: the user who submits it, or one named by an operator; without users, any name."""
    queue: str
    """Queue of the job."""
    priority: int | None
    """Priority in an order by priority, higher first; null: its queue's."""
    deadline: float | str | None
    """Latest end: seconds (or 2h) after its submission, or a time with its zone."""
    restartable: bool
    """Whether it may be stopped for a job that goes before it, and begin afresh; its executors can be
    preempted either way.
    """
    executors: Any
    """Number of executors; with bounds, its driver requests them while it runs; auto: up to as many as are
    worth having by the measurements of its type, and fewer where more jobs wait.
    """
    min_executors: int | None
    """Minimum number of executors to start with; null: all of them."""
    cpus: Any
    """Cores of each executor, with at most three decimals; with bounds, Stoker chooses the number."""
    memory: int | str
    """Memory of each executor, including Spark's overhead: MiB, or an amount with its unit, such as 2g."""
    resources: Mapping[str, float]
    """Other resources of agents, by Mesos' names: gpus, disk (MiB), ..."""
    args: Sequence[str | int | float]
    """The program's arguments."""
    main_class: str | None
    """The class whose main method is the job; for jars only."""
    py_files: Sequence[File]
    """Python files and archives that it imports; a # renames one, as for files and jars."""
    files: Sequence[File]
    """Files put into the folder of each executor: `words.txt#list.txt` is named `list.txt` there."""
    jars: Sequence[File]
    """Jars on the class path."""
    archives: Sequence[File]
    """Archives that are unpacked in the folders of driver and executors: `env.tar.gz#env` becomes `env`."""
    packages: Sequence[str]
    """Jars by their Maven coordinates, `group:artifact:version`, with their dependencies."""
    repositories: Sequence[str]
    """Repositories searched for packages before the usual ones: URLs of Maven repositories."""
    conf: Mapping[str, str]
    """Properties of Spark; numbers and truth values are written in Spark's form: 8, 0.5, true."""
    env: Mapping[str, str]
    """Variables for driver and executors."""
    driver: DriverOptions | None
    """Place of its driver; null: as in the daemon's config."""
    spark: str | float | None
    """Its Spark, by its name in the daemon's config, such as 3.5; null: the default one."""
    spot: Literal["never", "allowed", "only"]
    """Whether its executors may be on spot VMs, which their cloud may take away, or only there."""
    retries: int
    """How often its driver is started again after it has failed, with new executors each time."""
    retry: RetryOptions | None
    """The same with pauses, instead of `retries`."""
    after: Sequence[Any]
    """Jobs that it comes after: ids or names of jobs, {job: NAME, when: any}, {group: NAME}; it begins when
    all have finished, and fails when one of them does not.
    """
    start_at: float | str | None
    """Earliest start: a time with its zone, or a period after submission, such as in 2h."""
    group: str
    """Group: its jobs are waited for, shown and billed as one."""
    labels: Mapping[str, str]
    """The user's own labels, to find jobs by: {team: a}."""
    count: int | None
    """Number of jobs of an array. Each has its number from 0 in the variable STOKER_INDEX, and the count in
    STOKER_COUNT; {index} in an argument is replaced by the number.
    """
    at_most: int | None
    """Maximum number of jobs of the array that run at once; null: all."""
    max_runtime: float | None
    """Maximum seconds from its driver's first start; then it is ended and has failed. Retries do not restart
    the time.
    """


class JobSpec(TypedDict):
    """A Spark job as a user submits it: a YAML file, command line flags, or the body of POST /v1/jobs."""

    app: str
    """The program: a Python file (.py) or a jar (.jar); empty for a user's own driver, which has it."""
    name: str | None
    """Name of the job; by default that of its app."""
    type: str
    """Name of the job's kind, used by profiles and policies."""
    owner: str
    """Owner of the job: the user who submits it, or one named by an operator; without users, any name."""
    queue: str
    """Queue of the job."""
    priority: int | None
    """Priority in an order by priority, higher first; null: its queue's."""
    deadline: float | str | None
    """Latest end: seconds (or 2h) after its submission, or a time with its zone."""
    restartable: bool
    """Whether it may be stopped for a job that goes before it, and begin afresh; its executors can be
    preempted either way.
    """
    executors: Any
    """Number of executors; with bounds, its driver requests them while it runs; auto: up to as many as are
    worth having by the measurements of its type, and fewer where more jobs wait.
    """
    min_executors: int | None
    """Minimum number of executors to start with; null: all of them."""
    cpus: Any
    """Cores of each executor, with at most three decimals; with bounds, Stoker chooses the number."""
    memory: int
    """Memory of each executor, including Spark's overhead: MiB, or an amount with its unit, such as 2g."""
    resources: dict[str, float]
    """Other resources of agents, by Mesos' names: gpus, disk (MiB), ..."""
    args: list[str]
    """The program's arguments."""
    main_class: str | None
    """The class whose main method is the job; for jars only."""
    py_files: list[str]
    """Python files and archives that it imports; a # renames one, as for files and jars."""
    files: list[str]
    """Files put into the folder of each executor: `words.txt#list.txt` is named `list.txt` there."""
    jars: list[str]
    """Jars on the class path."""
    archives: list[str]
    """Archives that are unpacked in the folders of driver and executors: `env.tar.gz#env` becomes `env`."""
    packages: list[str]
    """Jars by their Maven coordinates, `group:artifact:version`, with their dependencies."""
    repositories: list[str]
    """Repositories searched for packages before the usual ones: URLs of Maven repositories."""
    conf: dict[str, str]
    """Properties of Spark; numbers and truth values are written in Spark's form: 8, 0.5, true."""
    env: dict[str, str]
    """Variables for driver and executors."""
    driver: Driver | None
    """Place of its driver; null: as in the daemon's config."""
    spark: str | None
    """Its Spark, by its name in the daemon's config, such as 3.5; null: the default one."""
    spot: Literal["never", "allowed", "only"]
    """Whether its executors may be on spot VMs, which their cloud may take away, or only there."""
    retries: int
    """How often its driver is started again after it has failed, with new executors each time."""
    retry: Retry | None
    """The same with pauses, instead of `retries`."""
    after: list[Any]
    """Jobs that it comes after: ids or names of jobs, {job: NAME, when: any}, {group: NAME}; it begins when
    all have finished, and fails when one of them does not.
    """
    start_at: float | str | None
    """Earliest start: a time with its zone, or a period after submission, such as in 2h."""
    group: str
    """Group: its jobs are waited for, shown and billed as one."""
    labels: dict[str, str]
    """The user's own labels, to find jobs by: {team: a}."""
    count: int | None
    """Number of jobs of an array. Each has its number from 0 in the variable STOKER_INDEX, and the count in
    STOKER_COUNT; {index} in an argument is replaced by the number.
    """
    at_most: int | None
    """Maximum number of jobs of the array that run at once; null: all."""
    max_runtime: float | None
    """Maximum seconds from its driver's first start; then it is ended and has failed. Retries do not restart
    the time.
    """


class Log(TypedDict):
    """Part of a log."""

    text: str
    """The part; bytes that are no UTF-8 are replaced."""
    next_offset: int
    """Where the next part begins, bytes."""
    complete: bool
    """Whether nothing can follow."""
    source: Literal["driver", "sandbox", "kept", ""]
    """Source: the driver's folder on the daemon's host, the task's on its VM, or the daemon's copy made when
    the task ended; empty without a log.
    """
    note: str
    """The missing part, and why."""


class Lost(TypedDict):
    """An executor that is gone with its VM."""

    number: int
    """Its number."""
    reason: str
    """The known part of its end."""


class MadeToken(TypedDict):
    """A token that was made."""

    user: str
    """The token's user."""
    id: str
    """The id that ends it."""
    token: str
    """The token, which is returned only once."""
    expires_at: float | None
    """Its expiry, seconds since the epoch; null: never."""


class Me(TypedDict):
    """The requesting user."""

    name: str
    """The user; empty for the daemon's own token, or where no users are configured."""
    role: Literal["read", "submit", "operate", "admin"]
    """Role of the user."""
    unix_user: str
    """Unix user of their jobs; empty: as in the config."""
    queues: list[str]
    """The only queues to which they submit; empty: all that take their jobs."""
    token: str
    """The id of the token that they authenticated with; empty where they did otherwise."""
    sees: Literal["own", "all"]
    """Jobs that they may read."""


class Never(TypedDict):
    """A job that would not run."""

    id: str
    """The job's id."""
    why: str
    """Why not."""


class Option(TypedDict):
    """An option of a policy."""

    name: str
    """Its key."""
    type: str
    """Type of its values, in Python's notation."""
    default: str | None
    """Default, in Python's notation; null when it is required."""


class Orders(TypedDict):
    """Orders for a driver."""

    stop: str | None
    """Why it is to stop; null when it is not."""
    waits: str | None
    """Reason why its executors are not there yet; null when they are."""
    lost: list[Lost]
    """Executors that are gone, perhaps without its knowledge."""
    decommission: list[int]
    """Executors that it is to release, once their blocks are elsewhere."""
    alone: bool
    """Whether they go although no other executor can take their blocks."""


class Outcome(TypedDict):
    """A policy's decision."""

    policy: str
    """The deciding policy."""
    vms: dict[str, int] | None
    """Executors, by the name of the VM; null when it waits."""
    reason: str
    """The decision in words."""
    price_per_hour: float
    """Of the VMs that held nothing before, dollars per hour."""
    cost: float | None
    """Dollars: that price for as long as the job ran; null where that is not known."""


class Placed(TypedDict):
    """A VM on which executors would be."""

    vm: str
    """Its name."""
    type: str
    """The cloud's name of it."""
    executors: int
    """Number of the job's executors there."""
    price_per_hour: float
    """Dollars, for all of it."""
    opens: bool
    """Whether it belongs to a pool that would open it for this job, and boots first."""


class Policy(TypedDict):
    """The acting policy, and its statistics since the daemon's start."""

    name: str
    """Which policy."""
    options: dict[str, Any]
    """Its options."""
    placed: int
    """Jobs placed since the daemon's start."""
    waited: int
    """Decisions to wait since then."""
    faults: int
    """Decisions since then that the fallback had to take instead."""
    last_fault: str
    """The error of the last of these."""
    fallback: str | None
    """The fallback policy."""
    busy: float
    """Seconds for which it has been at a decision that was taken from it, as it took too long."""
    cut_short: int
    """Its decisions since the daemon's start that a time limit of its own ended."""
    guarded: int
    """Decisions since then that a guard took in its place, as jobs that fitted waited too long."""
    estimates: Coverage
    """How many estimates of waiting jobs have come true since then."""
    shadow: Shadow | None
    """The shadow policy, which decides without effect."""


class PolicyAhead(TypedDict):
    """Forecast of the queue under a policy."""

    case: str
    """Changes against the present state."""
    name: str
    """The policy's name."""
    options: dict[str, Any]
    """Its options."""
    fixed: bool
    """Whether no VM of the case comes and goes. Its bill is then the same under every policy, and `dollars`
    is the price of VMs while executors hold them (Islam 2022, eq. 4).
    """
    draws: int
    """How many draws were played."""
    dollars: Interval | None
    """Cost of VMs until all jobs that wait and run now are over, fixed VMs while they are held; null where
    nothing was simulated, and for users who see only their own jobs.
    """
    seconds: Interval | None
    """After how many seconds the last of these has ended."""
    completion: Interval | None
    """After how many seconds, from now on or since it came, a job that waits has ended, on average; null
    where none waits.
    """
    late: int
    """How many jobs would end after their deadline in most draws."""
    jobs: list[JobAhead]
    """Of the jobs that wait, those that you may see, in their order."""
    never: list[Never]
    """Of the same, those that would not run at all."""
    fallback_share: float
    """The share of its decisions that the policy failed to take, 0 to 1."""
    failure: str
    """Why nothing was played; else empty."""


class PolicyInfo(TypedDict):
    """A policy that there is."""

    name: str
    """Its name, by which it is chosen."""
    summary: str
    """A description in a sentence."""
    options: list[Option]
    """Its options."""


class PolicyList(TypedDict):
    """The policies that come with Stoker."""

    policies: list[PolicyInfo]
    """One for each name."""


class Pool(TypedDict):
    """VMs of one kind that are opened when they are needed."""

    name: str
    """Its name."""
    type: str
    """The type of its VMs."""
    cpus: float
    """Cores of one."""
    memory_mib: int
    """Memory of one, MiB."""
    resources: dict[str, float]
    """Other resources of one, by name."""
    price_per_hour: float
    """Dollars per hour for one, from opened to closed."""
    boot: float
    """Seconds from opening one until it can be used."""
    min: int
    """How many are always open."""
    max: int
    """How many could be open."""
    open: int
    """Number of open ones: those among the VMs that have its name as their pool."""
    note: str
    """Why no other is opened now."""


class Problem(TypedDict):
    """Error of a request (RFC 9457)."""

    type: str
    """Always this: the status is the kind of problem."""
    title: str
    """The problem in a few words."""
    status: int
    """The HTTP status."""
    detail: str
    """The error at this place, and the correct form."""
    errors: list[FieldError]
    """The values that are wrong, where the request is not valid."""


class Queue(TypedDict):
    """A queue: its settings in force, its use, and its waiting jobs; with all queues below it."""

    path: str
    """Its name, behind those of the queues above it and dots."""
    leaf: bool
    """Whether it has jobs itself: others have queues below them."""
    known: bool
    """False where it no longer exists, but has jobs that are not over; it accepts no others."""
    changed: bool
    """Whether it was changed while the daemon ran, and differs from the config."""
    settings: QueueSettings
    """Its own settings."""
    submit: list[str] | None
    """Users who may submit jobs, as set here or by a queue above it; null: all."""
    priority: int
    """The priority of its jobs without one of their own, as set here or by a queue above it."""
    spot: Literal["never", "allowed", "only"]
    """VMs that its jobs may use, as set here or by a queue above it."""
    due: float
    """The fraction of the cluster that is its own by its weight, where all queues have enough to do."""
    share: float
    """The fraction of the cluster that its jobs hold: the largest of that of anything."""
    used: float
    """The same including their past use, which decays (sharing.half_life)."""
    cpus: float
    """Cores that its jobs hold."""
    memory_mib: int
    """Memory that they hold, MiB."""
    resources: dict[str, float]
    """Their other resources, by name."""
    running: int
    """Its jobs that hold anything."""
    waiting: int
    """Its jobs that wait for a place."""
    dollars_today: float
    """Cost of its jobs today (UTC), dollars."""
    waits: str
    """Its longest waiting job; empty where none waits, and for callers who see only their own jobs."""
    waits_since: float | None
    """Since when."""


class QueueList(TypedDict):
    """All queues, and the order of jobs over all of them."""

    queues: list[Queue]
    """Those above before those below them; none where a job's queue may be any name."""
    order: list[str]
    """Criteria of the order, in sequence; empty: first come, first served."""


class QueueSettings(TypedDict):
    """Settings of a queue: jobs, or other queues below it, share its resources."""

    weight: float
    """Its share relative to its neighbours in the tree."""
    guaranteed: Amounts
    """Resources that it gets before others get more than theirs, as long as it uses them."""
    most: Bounds
    """Its maximum resources, including the queues below it."""
    most_per_user: Bounds
    """The maximum resources of each of its users in it."""
    submit: list[str] | None
    """Users who may submit jobs; null: as above it, at the top all."""
    priority: int | None
    """The priority of its jobs without one of their own; null: as above it, at the top 0."""
    spot: Literal["never", "allowed", "only"] | None
    """VMs that its jobs may use at most; a job may be stricter. null: as above it, at the top all."""
    protected: bool | None
    """Whether its jobs are protected from preemption; null: as above it, at the top they are not."""
    user_weights: dict[str, float]
    """The shares of users relative to others, whose share is 1 each."""


class Registered(TypedDict):
    """A driver was taken up."""

    id: str
    """Its job."""
    key: str
    """The key that its pages require from now on, as `Authorization: Bearer KEY`."""
    heartbeat: float
    """Seconds between two of its signs of life."""
    executors: int
    """Number of executors at the beginning."""


class Retry(TypedDict):
    """Retries of a job after a failure of its own driver; failures caused by the cluster do not count."""

    times: int
    """How often."""
    pause: float
    """Pause before the first retry."""
    factor: float
    """Factor of the pause before each further retry."""
    most: float
    """Maximum pause; no less than `pause`."""


class RetryOptions(TypedDict, total=False):
    """Retries of a job after a failure of its own driver; failures caused by the cluster do not count."""

    times: int
    """How often."""
    pause: float | str
    """Pause before the first retry."""
    factor: float
    """Factor of the pause before each further retry."""
    most: float | str
    """Maximum pause; no less than `pause`."""


class Session(TypedDict):
    """A session, by which a browser is known without a token."""

    name: str
    """The session's user; empty for the daemon's own token, or where no authentication is required."""
    role: Literal["read", "submit", "operate", "admin"]
    """Role of the user."""
    seconds: float | None
    """For how long it lasts; null where none is needed."""


class Shadow(TypedDict):
    """A policy that looks on, and how it fared since it was set."""

    name: str
    """Which policy."""
    options: dict[str, Any]
    """Its options."""
    compared: int
    """Decisions that it took beside the acting policy, since it was set."""
    different: int
    """Those that it took otherwise."""
    missed: int
    """Those that it was not asked for, as it was busy."""
    faults: int
    """Those that it failed to take, or that could not be executed."""
    last_fault: str
    """The error of the last of these."""


class Spark(TypedDict):
    """A Spark that is served."""

    name: str
    """The name that jobs use."""
    version: str
    """Its version, in full where that is known."""
    jar: str
    """The path of the jar that handles masters like spark+stoker://HOST:PORT."""


class Sparks(TypedDict):
    """The Sparks that are served."""

    default: str | None
    """The version that runs jobs without one; null when none is served."""
    driver_host: str
    """Where executors reach drivers that are on the daemon's host."""
    sparks: list[Spark]
    """All of them, the default one first."""


class Timeline(TypedDict):
    """Events on the VMs in the last hours."""

    since: float
    """From when."""
    until: float
    """Until now."""
    tasks: list[TimelineTask]
    """The newest first."""
    jobs: list[TimelineJob]
    """Theirs."""
    decisions: list[TimelineDecision]
    """The newest first."""
    left_out: bool
    """Whether there are more tasks than were asked for."""


class TimelineDecision(TypedDict):
    """A decision about a job."""

    at: float
    """When it was taken."""
    job_id: str
    """About which."""
    policy: str
    """The policy or the fallback, whichever decided."""
    decision: str
    """The decision."""
    reason: str
    """The decision in words."""
    faults: list[str]
    """Why others' decisions were not taken: with any, the fallback decided."""


class TimelineJob(TypedDict):
    """A job of which there are tasks."""

    id: str
    """Its id."""
    name: str
    """What it is called."""
    type: str
    """Of which kind it is."""
    state: Literal["queued", "placing", "starting", "running", "relaunching", "finished", "failed", "killed"]
    """How far it is."""


class TimelineTask(TypedDict):
    """A task on a VM, for one job."""

    task_id: str
    """The task's id in Mesos."""
    job_id: str
    """Its job."""
    vm: str
    """The VM's name."""
    vm_type: str
    """The VM's type."""
    state: Literal["launching", "starting", "running", "unreachable", "finished", "failed", "killed", "lost"]
    """How far it is."""
    launched_at: float
    """Since when it holds something."""
    running_at: float | None
    """Since when it ran."""
    ended_at: float | None
    """When it ended."""


class Today(TypedDict):
    """Cost of VMs today (UTC), beside the cost under other ways of charging."""

    day: str
    """Today, such as 2026-11-22."""
    since: float
    """From when today anything could be paid for: midnight, or when the first VM or job came."""
    until: float
    """Until now."""
    paid: BillLine
    """Cost of VMs from opened to closed."""
    held: float
    """Cost of jobs today by equation 4 of Islam 2022, where a VM costs while it holds an executor. Of a task
    that ran on at midnight, the cost is divided by time.
    """
    fixed: float
    """Cost of all possible VMs, open all the time, whether or not a daemon ran."""
    fixed_per_hour: float
    """Their price per hour."""
    elastic: bool
    """Whether any VM is opened or closed. Where none is, no policy changes the bill."""


class Token(TypedDict):
    """Record of a token."""

    id: str
    """The id that ends it; it is a part of the token, too."""
    made_at: float | None
    """When, seconds since the epoch; null for one of the file."""
    expires_at: float | None
    """Its expiry, seconds since the epoch; null: never."""
    used_on: str | None
    """The last day (UTC, 2026-11-22) on which it was used; null: never used."""


class Told(TypedDict):
    """An estimate for a job while it waited, and its outcome."""

    at: float
    """When it was made, seconds since the epoch."""
    start: Interval
    """When it gets its places, seconds since the epoch."""
    end: Interval
    """When it ends, seconds since the epoch."""
    cost: Interval
    """Its share of the VMs' cost, dollars."""
    came: Came
    """Places of the true values: before, within or after the estimated interval."""


class Took(TypedDict):
    """Executors that a job received from another, or that it took the other's place."""

    at: float
    """When, seconds since the epoch."""
    of: str
    """The other job."""
    executors: int
    """How many executors of the other."""
    lost: float
    """Dollars: the cost of the other's lost work."""
    whole: bool
    """Whether the other was stopped for it."""
    given_up: str
    """Why it did not have them after all; empty when it had, or waits for them yet."""


class Totals(TypedDict):
    """Sums over the decisions that two policies took."""

    acting: str
    """The acting policy."""
    shadow: str
    """The shadow policy."""
    compared: int
    """Decisions that both took."""
    different: int
    """Those that they took otherwise."""
    only_acting_placed: int
    """Those in which only the acting policy placed a job."""
    only_shadow_placed: int
    """Those in which only the shadow policy placed a job."""
    priced: int
    """Those in which both placed a job with a known duration."""
    acting_cost: float
    """Cost of the VMs that the acting policy took into use in these, dollars."""
    shadow_cost: float
    """Cost of the VMs that the shadow policy would have taken into use in these, dollars."""
    acting_fallback_share: float | None
    """Of its decisions the share that the policy in charge failed to take; null where it is another now.

    The fallback took these, under its name: its rows have the share as well. Since it is in charge.
    """
    shadow_fallback_share: float | None
    """The same of decisions requested from the shadow policy; null where it is another now."""


class Tried(TypedDict):
    """Result of a test."""

    id: str
    """Of the event that was sent."""
    came: Literal["delivered", "refused", "timeout", "unreachable", "given up"]
    """The result."""
    why: str
    """Reason why it was not accepted; empty when it was."""
    seconds: float
    """Seconds until the answer."""


class Upload(TypedDict):
    """Status of a file that a client uploads."""

    sha256: str
    """The SHA-256 of its content."""
    received: int
    """Bytes that are there; the next part begins behind them."""
    complete: bool
    """Whether all of it is stored, with the right hash: jobs can name it, stoker-file:SHA256/NAME."""


class User(TypedDict):
    """A user."""

    name: str
    """The name that their jobs belong to."""
    role: Literal["read", "submit", "operate", "admin"]
    """Role of the user."""
    unix_user: str
    """Unix user of their jobs; empty: as in the config."""
    queues: list[str]
    """The only queues to which they submit; empty: all that take their jobs."""
    source: Literal["file", "store"]
    """Where they are defined: only those of the store can be changed here."""
    made_at: float | None
    """When, seconds since the epoch; null for one of the file."""
    tokens: list[Token]
    """Their tokens."""


class UserList(TypedDict):
    """The users."""

    users: list[User]
    """By name."""


class Vm(TypedDict):
    """A VM, and which tasks hold how much of it."""

    id: str
    """The Mesos agent's id."""
    name: str
    """Its name everywhere else."""
    type: str
    """Its type, which determines its price."""
    address: str
    """Where its executors are reached."""
    cpus: float
    """Cores that it has."""
    memory_mib: int
    """Memory that it has, MiB."""
    resources: dict[str, float]
    """Its other resources, by name."""
    price_per_hour: float
    """Dollars per hour while it holds an executor."""
    used_cpus: float
    """Cores that our tasks hold."""
    used_memory_mib: int
    """Memory that our tasks hold, MiB."""
    used_resources: dict[str, float]
    """Other resources held by Stoker's tasks, by name."""
    executors: list[str]
    """The ids of Stoker's tasks on it, as far as the caller may see their jobs."""
    note: str
    """A fault of its agent's attributes, or the reason why no task is placed there."""
    state: Literal["opening", "booting", "up", "draining", "closing"] | Literal["unreachable"]
    """Up, unless it holds executors and cannot be reached, or is of a pool and opens, boots or is going."""
    pool: str
    """The pool of one that comes and goes; empty for one that is always there."""
    lease: str
    """Under which it was opened there."""
    ready_at: float | None
    """When the VM of a pool came, or should have booted, seconds since the epoch."""


class Webhook(TypedDict):
    """A webhook, and how well it is told; since this daemon leads."""

    name: str
    """As the config has it."""
    url: str
    """Its host; the rest may be a secret."""
    on: list[
        Literal[
            "submitted",
            "held",
            "waits",
            "decided",
            "launched",
            "starting",
            "running",
            "relaunching",
            "executors ended",
            "executors lost",
            "preempted",
            "given",
            "attempt failed",
            "retried",
            "finished",
            "failed",
            "killed",
            "vm opening",
            "vm booting",
            "vm ready",
            "vm draining",
            "vm closing",
            "vm closed",
            "vm lost",
            "policy changed",
            "shadow changed",
            "queue changed",
            "budget spent",
            "openings held",
            "openings resumed",
        ]
    ]
    """Kinds of events that it gets."""
    queues: list[str]
    """Queues whose jobs' events it gets; empty: all."""
    users: list[str]
    """Users whose jobs' events it gets; empty: all."""
    state: Literal["idle", "delivers", "fails"]
    """Whether the last request was accepted; idle before the first."""
    delivered_at: float | None
    """Time of the last accepted request."""
    fails_since: float | None
    """Since when none is; null when the last one was."""
    failure: str
    """Why not; empty when it was."""
    next_at: float | None
    """When it is tried again."""
    behind: float
    """Age of the next event to send, seconds; 0 when all are sent."""
    came: dict[str, int]
    """Outcomes of requests."""


class WebhookList(TypedDict):
    """The webhooks."""

    webhooks: list[Webhook]
    """Each of them, as the config has them."""
