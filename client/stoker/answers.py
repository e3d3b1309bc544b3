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
    """Whether it has to finish, or only to end."""


class Ahead(TypedDict):
    """Forecast of the queue."""

    at: float
    """Start of the simulation, seconds since the epoch: now, or `since`."""
    recorded: bool
    """Whether past jobs were simulated instead of the present queue."""
    waiting: int
    """Number of waiting jobs in the simulation; with `since`, of jobs submitted since then."""
    others: int
    """Number of waiting jobs left out: paused, held by a limit, or far behind in the order."""
    policies: list[PolicyAhead]
    """Results for each requested policy, in the requested order, case by case."""
    note: str
    """Cause of waits that neither VMs nor policies change; empty without such waits."""
    assumes: list[str]
    """The assumptions, in words."""


class Amounts(TypedDict):
    """Amounts of a cluster's resources."""

    cpus: float | None
    """Cores."""
    memory: int | None
    """MiB, or an amount with its unit, such as 16g."""
    gpus: int | None
    """Whole GPUs."""


class Attempt(TypedDict):
    """A failure of a job, followed by a retry or not."""

    began: float | None
    """When its executors started, seconds since the epoch; null where they never did."""
    ended: float
    """Time of the failure, seconds since the epoch."""
    fault: Literal["user", "infrastructure", "memory"]
    """Cause of the failure: the user's count as retries, the infrastructure's do not, nor does the first for
    memory.
    """
    why: str
    """The failure's reason."""


class Bill(TypedDict):
    """Cost of VMs from opened to closed, used or idle."""

    by: Literal["job", "group", "owner", "queue", "type", "policy", "pool", "vm", "day", "kind"]
    """The division of the bill."""
    since: str | None
    """The first day (UTC) with data; null when there is none."""
    until: str | None
    """The last day (UTC) with data; null when there is none."""
    total: BillLine
    """The whole bill."""
    lines: list[BillLine]
    """Lines by falling cost, or day by day. Those of policies have what jobs used while each decided; idle
    VMs and the rest, which are paid for under any policy, are in the line with an empty key.
    """
    rest: BillLine | None
    """The sum of the other lines; null when there are none."""
    budget: Budget | None
    """Budget of a day; null without a budget, and where only the leader knows."""
    commitments: list[Commitment]
    """Commitments that were paid in these days."""
    with_commitments: float
    """The total with committed dollars in place of the list cost of the time that they covered."""


class BillLine(TypedDict):
    """A billed amount, by kind."""

    key: str
    """The job, group, owner, day, ...; empty for costs of no job, or of jobs that are no longer listed one by
    one.
    """
    total: float
    """The billed amount: dollars of all kinds from `used` to `rounding`. Tables call it `billed`."""
    used: float
    """The part used by executors and drivers: each its dominant share of its VM."""
    idle: float
    """The unused part of VMs that were up."""
    booting: float
    """Cost of VMs of pools while they booted."""
    draining: float
    """The unused part of VMs that were drained or closed."""
    rounding: float
    """Cost of rounding up to whole units and to the minimum charge."""
    difference: float | None
    """Cost beyond the total by providers' own account; null where they report none."""
    lost: float
    """The part of `used` that was lost when jobs were preempted."""
    memory: float
    """The part of `used` by attempts that had too little memory, before a restart with more."""


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
    dollars_per_month: float | None
    """Maximum cost in a calendar month (UTC); after that no job starts in that month."""
    running: int | None
    """Maximum number of jobs that have executors."""
    waiting: int | None
    """Maximum number of waiting jobs: more are rejected."""


class Budget(TypedDict):
    """Cost of VMs today, beside the limits."""

    day: str
    """Today (UTC)."""
    per_day: float | None
    """Maximum cost of a day, dollars; null without such a limit."""
    spent: float
    """Cost so far, dollars."""
    hold: bool
    """Whether no more VMs are opened on a day that has cost more than the budget."""
    limits: list[Limit]
    """All limits, those of all VMs before those of pools."""


class Came(TypedDict):
    """Outcome beside the estimate: within it, before (less) or after (more).

    Starts and ends up to 2 seconds beside it are within.
    """

    start: Literal["before", "within", "after"] | None
    """Of the start; null before the start."""
    end: Literal["before", "within", "after"] | None
    """Of the end; null unless the job has finished."""
    cost: Literal["before", "within", "after"] | None
    """Of the cost; null unless the job has finished."""


class Candidate(TypedDict):
    """A VM that was considered."""

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
    """The policy's score of the VM; higher is better."""
    chosen: bool
    """Whether the executor was placed there."""
    details: dict[str, float | None]
    """More numbers of the policy, by name."""


class Choice(TypedDict):
    """The choice for one executor, or for the whole job."""

    executor: int | None
    """The executor's number; null for the whole job."""
    vm: str | None
    """The chosen VM's name; null without a choice."""
    cpus: float | None
    """Cores of the executor there."""
    memory_mib: int | None
    """Memory of the executor there, MiB."""
    resources: dict[str, float]
    """Other resources of the executor there, by name."""
    why: str
    """Reason for the VM, in words."""
    candidates: list[Candidate]
    """VMs that were considered, including the chosen ones."""
    candidates_left_out: int
    """Number of further VMs that were considered."""


class Cluster(TypedDict):
    """All VMs, fixed and open ones."""

    vms: list[Vm]
    """VMs that the master has reported, and VMs that boot."""
    pools: list[Pool]
    """Pools that can open further VMs."""
    provider: str
    """The provider's failing calls; empty when none fails."""
    order: list[str]
    """Criteria of the order, in sequence; empty: first come, first served."""
    queues: int
    """Number of queues that accept jobs; 0 where a job's queue may be any name."""
    note: str
    """Cause of waits that neither VMs nor policies change: the machine of an embedded cluster has no capacity
    for more executors and drivers at once. Empty without such waits.
    """


class Commitment(TypedDict):
    """A commitment in the days of a bill: dollars paid in any case, and the part that VMs used."""

    name: str
    """Its name in the config."""
    covers: str
    """VMs that it covers, in words."""
    committed: float
    """Dollars paid in any case; of today, until now."""
    used: float
    """The part of these that covered VMs used."""
    unused: float
    """The rest: paid for nothing."""
    list_cost: float
    """Cost of the covered time at the VMs' own prices, which the total has."""
    saved: float
    """List cost minus the committed dollars; negative where the commitment cost more."""


class Comparison(TypedDict):
    """Decisions of shadow policies, over the latest decisions.

    A cost is an estimate for one decision by itself: the price of the VMs that it takes into use, for as long
    as the job ran under the acting policy.
    """

    totals: list[Totals]
    """Totals for each pair of policies."""
    differences: list[Difference]
    """Latest first."""


class Coverage(TypedDict):
    """Accuracy of the estimates of waiting jobs since the daemon's start."""

    start: Held
    """Counts of starts."""
    end: Held
    """Counts of ends."""
    cost: Held
    """Counts of costs."""


class CpuBounds(TypedDict):
    """Bounds on an executor's cores: Stoker chooses between them by the type's curve and the waiting jobs."""

    min: float
    """Cores, with at most three decimals"""
    max: float
    """Cores, with at most three decimals"""


class Decision(TypedDict):
    """One decision about the job."""

    at: float
    """Time of the decision, seconds since the epoch."""
    policy: str
    """The policy that decided."""
    decision: str
    """The decision."""
    reason: str
    """The decision in words."""
    faults: list[str]
    """Reasons why other policies' decisions were not accepted."""
    choices: list[Choice]
    """A choice for each executor, or one for the whole job."""
    kinds: list[Kind]
    """Estimates of a new job's placement, and then of the kinds of VM, the cheapest first."""


class Dependency(TypedDict):
    """A predecessor of a job: another job, or all jobs of a group or an array."""

    job: str | None
    """A job's id or name, or an array's id; a name means the latest job of that name and owner."""
    group: str | None
    """A group of jobs of the same owner, by its name, or an array by its id."""
    when: Literal["success", "any"]
    """Whether it begins only if they finish, or after any end."""


class Difference(TypedDict):
    """A decision on which two policies differ."""

    at: float
    """Time of the decision, seconds since the epoch."""
    job: str
    """The job's id."""
    duration: float | None
    """Seconds for which the job ran, or is expected to."""
    known_from: Literal["run", "profile", "nothing"]
    """Source of the duration."""
    acting: Outcome
    """The acting policy's decision."""
    shadow: Outcome
    """The shadow policy's decision."""


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
    """Placement of its executors now; empty where it would wait, or where the placement is unknown."""
    dollars_per_hour: float | None
    """Cost of the executors there: their shares of the VMs' prices, dollars per hour."""
    late: bool
    """Whether it would end after its deadline in most draws."""
    policy: str
    """The acting policy."""
    draws: int
    """Number of simulations behind the estimate."""
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
    """Time of the estimate, seconds since the epoch."""
    start: Interval
    """When the job is placed, seconds since the epoch."""
    end: Interval
    """When the job ends, seconds since the epoch."""
    cost: Interval
    """Its share of the VMs' cost, dollars."""


class Event(TypedDict):
    """An event."""

    number: int
    """Number of the event; later events have higher numbers."""
    at: float
    """Time, seconds since the epoch."""
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
        "policy fails",
        "policy recovered",
        "shadow changed",
        "queue changed",
        "budget spent",
        "openings held",
        "openings resumed",
    ]
    """Kind of event."""
    message: str
    """The event in words."""


class EventList(TypedDict):
    """Events, oldest first."""

    events: list[Event]
    """The events, oldest first."""
    next: int
    """The value of `after` for the next request."""
    more: bool
    """Whether more events exist already."""


class Executor(TypedDict):
    """An executor, or the driver when it runs on the cluster."""

    number: int | None
    """Number of the executor; null for the driver."""
    task_id: str
    """The task's id in Mesos."""
    vm: str
    """The name of its VM."""
    vm_type: str
    """The VM's type."""
    price_per_hour: float
    """The whole VM's price, dollars per hour."""
    state: Literal["launching", "starting", "running", "unreachable", "finished", "failed", "killed", "lost"]
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
    message: str
    """Mesos' last message about it."""
    profile: int
    """The number of its resource profile in Spark: 0 is the job's own request."""
    decommissioned_at: float | None
    """When its decommissioning was requested: the driver releases it once its blocks have moved; else
    null.
    """


class Expected(TypedDict):
    """Estimates for a job while it waited, compared with the outcome."""

    first: Told
    """The job's first estimate."""
    last: Told | None
    """The last estimate before the start; null before the start, or where it is not stored yet."""


class Explanation(TypedDict):
    """Reasons for a job's placement or wait."""

    id: str
    """The job."""
    state: Literal["queued", "placing", "starting", "running", "relaunching", "finished", "failed", "killed"]
    """Its state."""
    reason: str
    """Reason for the state, in words."""
    queue: str
    """Queue of the job."""
    priority: int
    """Its priority, where the order is by priority; higher runs earlier."""
    deadline: float | None
    """Its deadline, seconds since the epoch; null: none."""
    place: int | None
    """Number of jobs before it in the order; null where it does not wait, or where the number is unknown."""
    estimate: Estimate | None
    """Its expected start, end and cost; null where it does not wait, or without an estimate."""
    no_estimate: str
    """Why a waiting job has no estimate; empty with an estimate, or where none is due."""
    shape: Shape | None
    """How its size was chosen; null where its user left nothing of it to Stoker."""
    gave: list[Gave]
    """Its preemptions by other jobs; the last hundred."""
    took: list[Took]
    """Its preemptions of other jobs; the last hundred."""
    explanations: list[Decision]
    """The stored decisions on the job, oldest first."""


class Focus(TypedDict):
    """The bill of a day with the columns of FinOps FOCUS 1.2."""

    rows: list[FocusRow]
    """By VM and job; the costs of all pages add up to the bill of the day, once it is over."""
    next: str | None
    """`after` for the next page; null on the last."""


class FocusRow(TypedDict):
    """A charge of a day (UTC), named as FOCUS 1.2 names its columns: a job on a VM, or an unused part."""

    BilledCost: float
    """Dollars."""
    BillingAccountId: str
    """The framework's name, `mesos.framework_name` of the config."""
    BillingAccountName: str
    """The same."""
    BillingAccountType: Literal["Framework"]
    """Kind of the billing account."""
    BillingCurrency: Literal["USD"]
    """Currency of all costs."""
    BillingPeriodEnd: str
    """Begin of the next month (UTC), such as 2026-12-01T00:00:00Z."""
    BillingPeriodStart: str
    """Begin of the month (UTC)."""
    ChargeCategory: Literal["Usage", "Purchase"]
    """Usage of VMs, or the purchase of a commitment."""
    ChargeClass: None
    """Null: no row corrects an earlier month."""
    ChargeDescription: str
    """The job, the VM and the purpose, in words."""
    ChargeFrequency: Literal["Usage-Based", "Recurring"]
    """Charges follow usage; commitments are paid in any case."""
    ChargePeriodEnd: str
    """Begin of the next day (UTC)."""
    ChargePeriodStart: str
    """Begin of the day (UTC)."""
    CommitmentDiscountCategory: Literal["Usage", "Spend"] | None
    """Usage for reserved VMs, Spend for dollars per hour; null without a commitment, as the next four."""
    CommitmentDiscountId: str | None
    """Name of the commitment in the config."""
    CommitmentDiscountName: str | None
    """The same."""
    CommitmentDiscountStatus: Literal["Used", "Unused"] | None
    """Whether a usage was covered, or what was committed was not used; null for a purchase."""
    CommitmentDiscountType: Literal["Reservation", "Savings Plan"] | None
    """Kind of the commitment."""
    ConsumedQuantity: float | None
    """VM hours: of a job on a quarter of a VM, a quarter of the time. Null for days without known hours."""
    ConsumedUnit: Literal["Hours"] | None
    """Unit of the consumed quantity; null where that is null."""
    ContractedCost: float
    """As the list cost; of covered usage, its part of the commitment."""
    ContractedUnitPrice: float | None
    """As the list price."""
    EffectiveCost: float
    """The billed cost, with what was committed spread over the usage that it covers, and the unused part."""
    InvoiceIssuerName: Literal["Stoker"]
    """Issuer of the bill."""
    ListCost: float
    """Cost at the VM's own price."""
    ListUnitPrice: float | None
    """Dollars an hour of the whole VM, the mean of the day where it changed; null without a quantity."""
    PricingCategory: Literal["Standard", "Dynamic", "Committed"]
    """Dynamic for a spot VM, Committed for what a commitment covers."""
    PricingQuantity: float | None
    """As the consumed quantity."""
    PricingUnit: Literal["Hours"] | None
    """Unit of the priced quantity; null where that is null."""
    ProviderName: Literal["Stoker"]
    """Provider of the service."""
    PublisherName: Literal["Stoker"]
    """Publisher of the service."""
    RegionId: str | None
    """Region of the VMs of pools where `provider` of the config has one."""
    RegionName: str | None
    """The same."""
    ResourceId: str | None
    """The VM's lease, or the name of a fixed VM; null where the bill is not stored by VM and job."""
    ResourceName: str | None
    """The same."""
    ResourceType: str | None
    """Type of the VM; null without a VM."""
    ServiceCategory: Literal["Compute"]
    """Category of the service."""
    ServiceName: Literal["Spark on VMs"]
    """Name of the service."""
    ServiceSubcategory: Literal["Virtual Machines"]
    """Subcategory of the service."""
    SkuId: str
    """Pool (fixed: none) and type of the VM, such as general/m1.large."""
    SkuMeter: Literal["VM hours"]
    """What is measured."""
    SkuPriceId: str
    """The SKU and its terms: general/m1.large/spot, or /standard."""
    SubAccountId: str | None
    """Queue of the job; null for an unused part."""
    SubAccountName: str | None
    """The same."""
    SubAccountType: Literal["Queue"] | None
    """Kind of the sub account; null without a queue."""
    Tags: str
    """JSON with those of `job`, `user`, `queue`, `group`, `pool` and `policy` that the charge has."""
    x_Kind: Literal["used", "idle", "booting", "draining", "rounding", "committed"]
    """Purpose of the payment, as in the bill; committed for a purchase, and for its unused part."""


class Gave(TypedDict):
    """Executors that a job lost to another one, or its stop for that job."""

    at: float
    """Time, seconds since the epoch."""
    to: str
    """The other job."""
    queue: str
    """The other's queue."""
    priority: int
    """The other's priority."""
    executors: int
    """Number of executors it lost; all of them where the job was stopped."""
    lost: float
    """Dollars: the cost of its lost work."""
    whole: bool
    """Whether it was stopped, to restart from its place in the queue."""


class Group(TypedDict):
    """The jobs of a group, or of an array, as one."""

    id: str
    """The group's name, or the array's id."""
    state: Literal["queued", "placing", "starting", "running", "relaunching", "finished", "failed", "killed"]
    """State of the whole: once all have ended, failed or killed if a job is, else finished."""
    jobs: int
    """Number of jobs."""
    states: dict[str, int]
    """Number of jobs by state."""
    cost: float
    """Dollars: their cost up to now."""
    submitted_at: float
    """Time of the first submission, seconds since the epoch."""
    finished_at: float | None
    """When the last job ended; null before."""
    first_failure: Job | None
    """The first job that failed or was killed; null when there is none."""


class Health(TypedDict):
    """Whether jobs can be scheduled now, and each check in words."""

    ready: bool
    """Whether all checks pass."""
    checks: dict[str, str]
    """Results by check."""


class Held(TypedDict):
    """Number of times that the first 90 % interval for a job held the outcome."""

    within: int
    """Number of true values within the interval."""
    before: int
    """Number of true values below it."""
    after: int
    """Number of true values above it."""


class Interval(TypedDict):
    """A mean, and the interval that holds 90 of 100 draws."""

    mean: float
    """The mean of all draws."""
    low: float
    """5 of 100 are below."""
    high: float
    """5 of 100 are above."""


class Job(TypedDict):
    """A job: its request, and its state."""

    id: str
    """`job-` and a number; later jobs have larger numbers."""
    name: str
    """The name from the submission, or else derived from the app."""
    type: str
    """Name of the job's kind, used by profiles and policies."""
    owner: str
    """Owner of the job: a user, or without users an unchecked name; empty: none was named."""
    queue: str
    """Queue of the job."""
    priority: int
    """Its priority, where the order is by priority; higher runs earlier."""
    deadline: float | None
    """Its deadline, seconds since the epoch; null: none."""
    restartable: bool
    """Whether another job may preempt it, so that it restarts."""
    after: list[After]
    """Jobs that it depends on: it starts when all of them have ended."""
    start_at: float | None
    """Its earliest start, seconds since the epoch; null: any time."""
    released_at: float | None
    """When its dependencies, start time or array released it to the queue; null before."""
    group: str
    """Name of its group of jobs; empty without a group."""
    array: str
    """The id of its array; empty without an array."""
    index: int | None
    """Its number in its array, from 0."""
    count: int | None
    """Number of jobs of its array."""
    at_most: int | None
    """Maximum number of jobs of the array that run at once; null: all."""
    labels: dict[str, str]
    """Labels by which it can be found."""
    spark: str
    """The name of the Spark version of its driver and executors; empty in stores from before several
    versions.
    """
    spot: Literal["never", "allowed", "only"]
    """Whether its executors may be on spot VMs, or only there."""
    state: Literal["queued", "placing", "starting", "running", "relaunching", "finished", "failed", "killed"]
    """Its state."""
    reason: str
    """Reason for the state, in words."""
    next_step: str
    """Suggested next step after a failure; else empty."""
    warnings: list[str]
    """Warnings for its user, in the answer to its submission; else empty."""
    place: int | None
    """Number of jobs before it in the order; null where it does not wait, or where the number is unknown."""
    client_driver: str
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
    more_memory: MoreMemory | None
    """Its restart with more memory; null without one."""
    memory_use: MemoryUse | None
    """Memory that its executors used; null before its end, and where its event log does not report it."""
    estimate: Estimate | None
    """Its estimated start and cost, as long as it waits; null without an estimate."""
    shape: Shape | None
    """How its size was chosen; null where its user left nothing of it to Stoker."""


class JobAhead(TypedDict):
    """Forecast of a waiting job."""

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
    """`job-` and a number; later jobs have larger numbers."""
    name: str
    """The name from the submission, or else derived from the app."""
    type: str
    """Name of the job's kind, used by profiles and policies."""
    owner: str
    """Owner of the job: a user, or without users an unchecked name; empty: none was named."""
    queue: str
    """Queue of the job."""
    priority: int
    """Its priority, where the order is by priority; higher runs earlier."""
    deadline: float | None
    """Its deadline, seconds since the epoch; null: none."""
    restartable: bool
    """Whether another job may preempt it, so that it restarts."""
    after: list[After]
    """Jobs that it depends on: it starts when all of them have ended."""
    start_at: float | None
    """Its earliest start, seconds since the epoch; null: any time."""
    released_at: float | None
    """When its dependencies, start time or array released it to the queue; null before."""
    group: str
    """Name of its group of jobs; empty without a group."""
    array: str
    """The id of its array; empty without an array."""
    index: int | None
    """Its number in its array, from 0."""
    count: int | None
    """Number of jobs of its array."""
    at_most: int | None
    """Maximum number of jobs of the array that run at once; null: all."""
    labels: dict[str, str]
    """Labels by which it can be found."""
    spark: str
    """The name of the Spark version of its driver and executors; empty in stores from before several
    versions.
    """
    spot: Literal["never", "allowed", "only"]
    """Whether its executors may be on spot VMs, or only there."""
    state: Literal["queued", "placing", "starting", "running", "relaunching", "finished", "failed", "killed"]
    """Its state."""
    reason: str
    """Reason for the state, in words."""
    next_step: str
    """Suggested next step after a failure; else empty."""
    warnings: list[str]
    """Warnings for its user, in the answer to its submission; else empty."""
    place: int | None
    """Number of jobs before it in the order; null where it does not wait, or where the number is unknown."""
    client_driver: str
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
    more_memory: MoreMemory | None
    """Its restart with more memory; null without one."""
    memory_use: MemoryUse | None
    """Memory that its executors used; null before its end, and where its event log does not report it."""
    estimate: Estimate | None
    """Its estimated start and cost, as long as it waits; null without an estimate."""
    shape: Shape | None
    """How its size was chosen; null where its user left nothing of it to Stoker."""
    spec: JobSpec | None
    """The submission; values that look secret are masked. Null where the store has lost it."""
    tasks: list[Executor]
    """Its executors, including ended ones, and a driver on the cluster; the last 10,000."""
    gave: list[Gave]
    """Its preemptions for other jobs, the last hundred."""
    took: list[Took]
    """Its preemptions of other jobs, the last hundred."""
    attempts: list[Attempt]
    """Its failures so far, latest last; at most the last twenty."""
    expected: Expected | None
    """Its estimates while it waited; null where it started at once or had none."""
    no_estimate: str
    """Why a waiting job has no estimate of its start; else empty."""
    estimate_notes: list[str]
    """Notes on its estimate: guessed parts, and corrections by outcomes."""
    ui: str | None
    """The path of its driver's Spark UI while the driver runs; the URL for a driver started by its user."""


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
    """Whether another job may preempt it, so that it restarts; its executors can be preempted either way."""
    executors: Any
    """Number of executors; with bounds, its driver requests them while it runs; auto, or auto:2-16: Stoker
    chooses by what is known of its type.
    """
    min_executors: int | None
    """Minimum number of executors to start with; null: all of them."""
    cpus: Any
    """Cores of each executor, with at most three decimals; with bounds, Stoker chooses the number when it is
    placed; auto, or auto:1-4: when it is submitted, with all that is auto.
    """
    memory: Any
    """Memory of each executor, including Spark's overhead: MiB, or an amount with its unit, such as 2g; auto,
    or auto:2g-16g: Stoker chooses.
    """
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
    """Its Spark version, by the name in the daemon's config, such as 3.5; null: the default."""
    spot: Literal["never", "allowed", "only"]
    """Whether its executors may be on spot VMs, which their cloud may take away, or only there."""
    retries: int
    """How often its driver is started again after it has failed, with new executors each time."""
    retry: RetryOptions | None
    """The same with pauses, instead of `retries`."""
    memory_retry: bool | None
    """Whether it restarts once with more memory after it had too little; null: if it has retries, or if its
    memory is auto and it is restartable.
    """
    after: Sequence[Any]
    """Jobs that it depends on: ids or names of jobs, {job: NAME, when: any}, {group: NAME}; it starts when
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
    max_cost: float | None
    """Maximum cost of its whole life, dollars, as `stoker job` shows it; of an array: of each job. From then
    on it gets no more executors, and is not started again.
    """
    at_max_cost: Literal["keep", "end"]
    """Effect of max_cost on a running job: it keeps its executors to its end, or is ended and has failed."""


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
    """Whether another job may preempt it, so that it restarts; its executors can be preempted either way."""
    executors: Any
    """Number of executors; with bounds, its driver requests them while it runs; auto, or auto:2-16: Stoker
    chooses by what is known of its type.
    """
    min_executors: int | None
    """Minimum number of executors to start with; null: all of them."""
    cpus: Any
    """Cores of each executor, with at most three decimals; with bounds, Stoker chooses the number when it is
    placed; auto, or auto:1-4: when it is submitted, with all that is auto.
    """
    memory: Any
    """Memory of each executor, including Spark's overhead: MiB, or an amount with its unit, such as 2g; auto,
    or auto:2g-16g: Stoker chooses.
    """
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
    """Its Spark version, by the name in the daemon's config, such as 3.5; null: the default."""
    spot: Literal["never", "allowed", "only"]
    """Whether its executors may be on spot VMs, which their cloud may take away, or only there."""
    retries: int
    """How often its driver is started again after it has failed, with new executors each time."""
    retry: Retry | None
    """The same with pauses, instead of `retries`."""
    memory_retry: bool | None
    """Whether it restarts once with more memory after it had too little; null: if it has retries, or if its
    memory is auto and it is restartable.
    """
    after: list[Any]
    """Jobs that it depends on: ids or names of jobs, {job: NAME, when: any}, {group: NAME}; it starts when
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
    max_cost: float | None
    """Maximum cost of its whole life, dollars, as `stoker job` shows it; of an array: of each job. From then
    on it gets no more executors, and is not started again.
    """
    at_max_cost: Literal["keep", "end"]
    """Effect of max_cost on a running job: it keeps its executors to its end, or is ended and has failed."""


class Kind(TypedDict):
    """Estimate for the job's executors on VMs of one kind, or as they were placed."""

    types: list[str]
    """The types of its VMs: one, but for the placement itself."""
    placed: bool
    """Whether it is the placement that was decided."""
    room: int
    """Number of the decision's executors that fit."""
    vms: int
    """Number of its VMs."""
    spot: int
    """Number of these that are spot VMs."""
    opens: int
    """Number of these that were yet to be opened."""
    ready_in: float
    """Seconds until all of its VMs are ready."""
    seconds: float | None
    """Expected seconds of the job from then on; null where not all fit, or its duration is not known."""
    dollars: float | None
    """Dollars for which its VMs are held longer for the job; null likewise."""


class Limit(TypedDict):
    """A limit on the cost of VMs."""

    pool: str
    """Its pool; empty: all VMs."""
    per: Literal["hour", "day", "month"]
    """Its period: calendar days and months are those of UTC."""
    dollars: float
    """Maximum cost, dollars."""
    spent: float
    """Cost so far, dollars; of an hour, what the open VMs cost per hour now."""
    hold: bool
    """Whether VMs are held back beyond it."""
    until: float | None
    """When the period ends and there is room again, seconds since the epoch; null for an hour."""


class Log(TypedDict):
    """Part of a log."""

    text: str
    """The part; bytes that are no UTF-8 are replaced."""
    next_offset: int
    """Offset of the next part, bytes."""
    complete: bool
    """Whether the log is complete."""
    source: Literal["driver", "sandbox", "kept", ""]
    """Source: the driver's folder on the daemon's host, the task's on its VM, or the daemon's copy made when
    the task ended; empty without a log.
    """
    note: str
    """The missing part, with the reason."""


class MadeToken(TypedDict):
    """A new token."""

    user: str
    """The token's user."""
    id: str
    """The id to revoke it by."""
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
    """The only queues that they may submit to; empty: all that accept their jobs."""
    token: str
    """The id of the token used to authenticate; empty for other ways."""
    sees: Literal["own", "all"]
    """Jobs that they may read."""


class MemoryUse(TypedDict):
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


class MoreMemory(TypedDict):
    """A restart with more memory for each executor, or for the driver, after a failure for memory."""

    at: float
    """Time of the failure, seconds since the epoch."""
    of: Literal["executor", "driver"]
    """The process that had too little."""
    before_mib: int
    """Its memory before, MiB."""
    after_mib: int
    """Its memory since then, MiB."""
    lost: float
    """Dollars: the cost of the failed attempt; 0 until all of it has ended."""


class Never(TypedDict):
    """A job that would not run."""

    id: str
    """The job's id."""
    why: str
    """Reason."""


class Option(TypedDict):
    """An option of a policy."""

    name: str
    """Its key."""
    type: str
    """Type of its values, in Python's notation."""
    default: str | None
    """Default, in Python's notation; null when it is required."""


class Outcome(TypedDict):
    """A policy's decision."""

    policy: str
    """The deciding policy."""
    vms: dict[str, int] | None
    """Executors, by the name of the VM; null when it waits."""
    reason: str
    """The decision in words."""
    price_per_hour: float
    """Price of the VMs that were empty before, dollars per hour."""
    cost: float | None
    """That price for the job's duration, dollars; null where the duration is unknown."""


class Paired(TypedDict):
    """Mean relative difference of the candidate to the acting policy over the same draws."""

    mean: float
    """The mean; -0.01 is 1 % less."""
    error: float | None
    """Its standard error; null where it is unknown."""
    pairs: int
    """Number of draws that both finished."""


class Placed(TypedDict):
    """A VM on which executors would be placed."""

    vm: str
    """Its name."""
    type: str
    """Its type at the provider."""
    executors: int
    """Number of the job's executors there."""
    price_per_hour: float
    """Price of the whole VM, dollars per hour."""
    opens: bool
    """Whether a pool would open it for this job, so that it has to boot first."""


class Policy(TypedDict):
    """The acting policy, and its statistics since the daemon's start."""

    name: str
    """Name of the policy."""
    options: dict[str, Any]
    """Its options."""
    placed: int
    """Jobs placed since the daemon's start."""
    waited: int
    """Decisions to wait since then."""
    faults: int
    """Decisions since then that the fallback took instead."""
    last_fault: str
    """The error of the last one."""
    fallback: str | None
    """The fallback policy."""
    busy: float
    """Seconds since the start of a decision that timed out and still runs."""
    cut_short: int
    """Decisions since the daemon's start that the policy's own time limit cut short."""
    guarded: int
    """Decisions since then by the guard, for fitting jobs that had waited too long."""
    estimates: Coverage
    """Accuracy of the estimates of waiting jobs since then."""
    shadow: Shadow | None
    """The shadow policy, which decides without effect."""
    promotion: PromotionStatus | None
    """The last promotion; null without one."""


class PolicyAhead(TypedDict):
    """Forecast of the queue under a policy."""

    case: str
    """Changes from the present state."""
    name: str
    """The policy's name."""
    options: dict[str, Any]
    """Its options."""
    fixed: bool
    """Whether all VMs of the case are fixed. Its bill is then the same under every policy, and `dollars`
    is the price of VMs while executors hold them (Islam 2022, eq. 4).
    """
    draws: int
    """Number of finished simulations."""
    dollars: Interval | None
    """Cost of VMs until all waiting and running jobs have ended, fixed VMs while they are held; null where
    nothing was simulated, and for users that see only their own jobs.
    """
    seconds: Interval | None
    """Seconds until the last of these jobs has ended."""
    completion: Interval | None
    """Average seconds until a waiting job has ended, from now on, or from its submission with `since`; null
    where none waits.
    """
    late: int
    """Number of jobs that would end after their deadline in most draws."""
    jobs: list[JobAhead]
    """The waiting jobs that the caller may see, in their order."""
    never: list[Never]
    """Those of the waiting jobs that would never run."""
    fallback_share: float
    """Share of the policy's decisions that failed, 0 to 1."""
    failure: str
    """Why nothing was simulated; else empty."""


class PolicyInfo(TypedDict):
    """A policy."""

    name: str
    """Its name, by which it is chosen."""
    summary: str
    """A description in a sentence."""
    options: list[Option]
    """Its options."""


class PolicyList(TypedDict):
    """Stoker's own policies."""

    policies: list[PolicyInfo]
    """A policy for each name."""


class Pool(TypedDict):
    """VMs of one kind that are opened as needed."""

    name: str
    """Its name."""
    type: str
    """The type of its VMs."""
    cpus: float
    """Cores of a VM."""
    memory_mib: int
    """Memory of a VM, MiB."""
    resources: dict[str, float]
    """Other resources of a VM, by name."""
    price_per_hour: float
    """Price of a VM from opened to closed, dollars per hour."""
    boot: float
    """Seconds from the opening of a VM until it can be used."""
    min: int
    """Number of VMs that are always open."""
    max: int
    """Maximum number of open VMs."""
    open: int
    """Number of open VMs: those in `vms` with this pool."""
    note: str
    """Why no further VM is opened now."""


class Promoted(TypedDict):
    """Comparison of a policy with the acting one, and the judgement."""

    since: float
    """Start of the simulation, seconds since the epoch."""
    jobs: int
    """Number of simulated jobs."""
    ended: int
    """Number of those that have ended."""
    policies: list[PolicyAhead]
    """The policy that acted, then the candidate; both without single jobs."""
    cost: Paired | None
    """Difference in cost; null where nothing was simulated."""
    completion: Paired | None
    """Difference in mean completion."""
    promoted: bool
    """Whether the candidate acts now."""
    why: str
    """Reason why it may not be promoted; empty where it may."""
    assumes: list[str]
    """The assumptions, in words."""


class PromotionStatus(TypedDict):
    """The last promotion, until a policy is set or the config names another one."""

    promoted: str
    """The promoted policy."""
    earlier: str
    """The policy that acted before."""
    at: float
    """Time of the promotion, seconds since the epoch."""
    seen: str
    """Latest comparison of the two, in words; empty before the first."""
    taken_back: bool
    """Whether the earlier one acts again, as the promoted one was dearer over a day."""


class Queue(TypedDict):
    """A queue: its settings in force, its use, and its waiting jobs; with all queues below it."""

    path: str
    """Its path: the names of the queues above it and its own, separated by dots."""
    leaf: bool
    """Whether it accepts jobs; other queues have queues below them."""
    known: bool
    """False for a removed queue with unfinished jobs; it accepts no new ones."""
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
    """Its share of the cluster by weight while all queues have enough jobs."""
    share: float
    """The fraction of the cluster held by its jobs, of the resource of which they hold most."""
    used: float
    """The same including their past use, which decays (sharing.half_life)."""
    cpus: float
    """Cores held by its jobs."""
    memory_mib: int
    """Memory held by its jobs, MiB."""
    resources: dict[str, float]
    """Other resources held by its jobs, by name."""
    running: int
    """Number of its jobs that hold resources."""
    waiting: int
    """Number of its jobs that wait."""
    dollars_today: float
    """Cost of its jobs today (UTC), dollars."""
    dollars_this_month: float | None
    """The same of this month (UTC); null where no limit is by month."""
    waits: str
    """Its longest waiting job; empty where none waits, and for callers that see only their own jobs."""
    waits_since: float | None
    """Start of that wait, seconds since the epoch."""


class QueueList(TypedDict):
    """All queues, and the order of jobs over all of them."""

    queues: list[Queue]
    """Queues, each before those below it; empty where a job's queue may be any name."""
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
    """Users that may submit jobs; null: as the queue above, at the top all."""
    priority: int | None
    """The priority of its jobs without one of their own; null: as above it, at the top 0."""
    spot: Literal["never", "allowed", "only"] | None
    """VMs that its jobs may use at most; a job may be stricter. null: as above it, at the top all."""
    protected: bool | None
    """Whether its jobs are protected from preemption; null: as above it, at the top they are not."""
    user_weights: dict[str, float]
    """Weights of users; all others have a weight of 1."""


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


class Shadow(TypedDict):
    """The shadow policy, with its statistics since it was set."""

    name: str
    """Name of the policy."""
    options: dict[str, Any]
    """Its options."""
    compared: int
    """Its decisions beside the acting policy, since it was set."""
    different: int
    """Decisions that differ from the acting policy's."""
    missed: int
    """Decisions that it missed because it was busy."""
    faults: int
    """Decisions that failed, or could not be executed."""
    last_fault: str
    """The error of the last one."""


class Shape(TypedDict):
    """How sizes that its user left to Stoker were chosen."""

    fields: list[str]
    """Those of executors, cpus and memory that were auto."""
    runs: int
    """Runs of its type that were known."""
    shapes: int
    """Different shapes that these ran on."""
    learned: bool
    """Whether the model chose; else, with runs on fewer than two shapes, the rule for a type's first runs."""
    taken: ShapeEstimate | None
    """What it was given; null where no run was known."""
    smaller: ShapeEstimate | None
    """The next smaller shape; null where there is none."""
    larger: ShapeEstimate | None
    """The next larger shape; null where there is none."""
    told: str
    """The same in words."""


class ShapeEstimate(TypedDict):
    """A shape of executors and its expected outcome: medians and intervals of 80 %."""

    executors: int
    """Number of executors."""
    cpus: float
    """Cores of each."""
    memory_mib: int
    """Memory of each, MiB."""
    seconds: float
    """Seconds from start to end."""
    seconds_between: list[Any]
    """Between which they are with 80 %."""
    dollars: float
    """Dollars for these seconds, at today's prices."""
    dollars_between: list[Any]
    """Between which they are with 80 %."""


class Spark(TypedDict):
    """An available Spark version."""

    name: str
    """The name that jobs use."""
    version: str
    """Its version, in full if known."""
    jar: str
    """The path of the jar that handles masters like spark+stoker://HOST:PORT."""


class Sparks(TypedDict):
    """The available Spark versions."""

    default: str | None
    """The version for jobs that name none; null when no version is available."""
    driver_host: str
    """Address at which executors reach drivers on the daemon's host."""
    sparks: list[Spark]
    """The available versions, the default first."""


class Token(TypedDict):
    """Record of a token."""

    id: str
    """The id to revoke it by, which is a part of the token."""
    made_at: float | None
    """Time of creation, seconds since the epoch; null for entries of the file."""
    expires_at: float | None
    """Its expiry, seconds since the epoch; null: never."""
    used_on: str | None
    """The last day (UTC, 2026-11-22) on which it was used; null: never used."""


class Told(TypedDict):
    """An estimate for a job while it waited, and its outcome."""

    at: float
    """Time of the estimate, seconds since the epoch."""
    start: Interval
    """When the job is placed, seconds since the epoch."""
    end: Interval
    """When the job ends, seconds since the epoch."""
    cost: Interval
    """Its share of the VMs' cost, dollars."""
    came: Came
    """Places of the true values: before, within or after the estimated interval."""


class Took(TypedDict):
    """Executors that a job received from another one, or that job's place."""

    at: float
    """Time, seconds since the epoch."""
    of: str
    """The other job."""
    executors: int
    """Number of the other job's executors."""
    lost: float
    """Dollars: the cost of the other's lost work."""
    whole: bool
    """Whether the other job was stopped."""
    given_up: str
    """Why it did not use them in the end; empty when it did, or still waits for them."""


class Totals(TypedDict):
    """Sums over the decisions of two policies."""

    acting: str
    """The acting policy."""
    shadow: str
    """The shadow policy."""
    compared: int
    """Decisions taken by both."""
    different: int
    """Decisions that differ."""
    only_acting_placed: int
    """Decisions in which only the acting policy placed a job."""
    only_shadow_placed: int
    """Decisions in which only the shadow policy placed a job."""
    priced: int
    """Decisions in which both placed a job with a known duration."""
    acting_cost: float
    """Cost of the VMs newly used by the acting policy in the `priced` decisions, dollars."""
    shadow_cost: float
    """Cost of the VMs that the shadow policy would have newly used in the `priced` decisions, dollars."""
    acting_fallback_share: float | None
    """Share of failed decisions of the acting policy since it acts; null where another policy acts now.

    The fallback took them, and they count under the fallback's name, so its rows show the share as well.
    """
    shadow_fallback_share: float | None
    """The same share for the shadow policy; null where another policy is the shadow now."""


class Tried(TypedDict):
    """Result of a test."""

    id: str
    """Id of the event that was sent."""
    came: Literal["delivered", "refused", "timeout", "unreachable", "given up"]
    """The result."""
    why: str
    """Reason why it was not accepted; empty when it was."""
    seconds: float
    """Seconds until the answer."""


class User(TypedDict):
    """A user."""

    name: str
    """The name that their jobs belong to."""
    role: Literal["read", "submit", "operate", "admin"]
    """Role of the user."""
    unix_user: str
    """Unix user of their jobs; empty: as in the config."""
    queues: list[str]
    """The only queues that they may submit to; empty: all that accept their jobs."""
    source: Literal["file", "store"]
    """Place of the definition; only users of the store can be changed here."""
    made_at: float | None
    """Time of creation, seconds since the epoch; null for entries of the file."""
    tokens: list[Token]
    """Their tokens."""


class UserList(TypedDict):
    """The users."""

    users: list[User]
    """Users in the order of their names."""


class Vm(TypedDict):
    """A VM, and the use of its resources by tasks."""

    id: str
    """The Mesos agent's id."""
    name: str
    """The VM's name, as used everywhere else."""
    type: str
    """Its type, which determines its price."""
    address: str
    """Address of its executors."""
    cpus: float
    """Its cores."""
    memory_mib: int
    """Its memory, MiB."""
    resources: dict[str, float]
    """Its other resources, by name."""
    price_per_hour: float
    """Price, dollars per hour; for fixed VMs while an executor runs there."""
    used_cpus: float
    """Cores held by Stoker's tasks."""
    used_memory_mib: int
    """Memory held by Stoker's tasks, MiB."""
    used_resources: dict[str, float]
    """Other resources held by Stoker's tasks, by name."""
    executors: list[str]
    """The ids of Stoker's tasks on it, for jobs that the caller may see."""
    note: str
    """A fault of its agent's attributes, or the reason why no task is placed there."""
    state: Literal["opening", "booting", "up", "draining", "closing"] | Literal["unreachable"]
    """Up; unreachable with executors on it; or, in a pool, opening, booting or closing."""
    pool: str
    """The pool that opened it; empty for a fixed VM."""
    lease: str
    """The lease under which it was opened."""
    ready_at: float | None
    """When the VM of a pool became ready, or is expected to, seconds since the epoch."""


class Webhook(TypedDict):
    """A webhook, with the state of its delivery since this daemon leads."""

    name: str
    """Its name in the config."""
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
            "policy fails",
            "policy recovered",
            "shadow changed",
            "queue changed",
            "budget spent",
            "openings held",
            "openings resumed",
        ]
    ]
    """Kinds of events that are sent."""
    queues: list[str]
    """Only events of jobs in these queues are sent; empty: all."""
    users: list[str]
    """Only events of these users' jobs are sent; empty: all."""
    state: Literal["idle", "delivers", "fails"]
    """Whether the last request was accepted; idle before the first."""
    delivered_at: float | None
    """Time of the last accepted request."""
    fails_since: float | None
    """Start of the failures, seconds since the epoch; null when the last request was accepted."""
    failure: str
    """Reason of the last failure; empty when the last request was accepted."""
    next_at: float | None
    """Time of the next attempt, seconds since the epoch."""
    behind: float
    """Age of the next event to send, seconds; 0 when all are sent."""
    came: dict[str, int]
    """Outcomes of requests."""


class WebhookList(TypedDict):
    """The webhooks."""

    webhooks: list[Webhook]
    """Webhooks in the order of the config."""
