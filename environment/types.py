"""Types that every part shares: VM, job, placement request, decision.

`view` defines the picture that a policy sees, `policy` the contract, `check` the reasons of rejected
decisions. All are immutable values. `environment.model` changes a cluster; `agents` has the policies. Units:
seconds, cpus (float cores), MiB, dollars per hour.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import reduce
from operator import or_
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from conf.defaults import (
    BAD_PLACEMENT_FACTOR,
    DEFAULT_QUEUE,
    DRAIN_SECONDS,
    MEASURED_SPREAD,
    REWORK_DRAINED,
    REWORK_LOST,
)
from conf.schema import SpotUse
from conf.util.backoff import Backoff
from environment.barred_vms import NOBODY, Bars, barred
from environment.dependencies import After, array_jobs, array_of
from environment.kernel.expected_end import placed_well
from environment.pools import Terms
from environment.resources import Resources
from profiles.curve import Curve
from profiles.shapes.told import ShapeChoice as ShapeChoice

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
#: Each executor on a VM of its own, or all on one.
Preference = Literal["spread", "consolidate"]


@dataclass(frozen=True, slots=True)
class Vm:
    """A cloud VM: one Mesos agent with all its resources, type and price.

    `id` is the Mesos agent's id (the name, in a simulation); `address` is where its executors are reached.
    `note` is the error in its agent's attributes, if any. `terms` are those of its pool; without them it is
    simply there. `lease` is the lease under which it was opened, as its agent reports; empty when it was
    not.
    """

    id: str
    name: str
    type: str
    resources: Resources
    price_per_hour: float
    address: str = ""
    note: str = ""
    terms: Terms | None = None
    lease: str = ""

    @property
    def spot(self) -> bool:
        """Whether its cloud may take it away."""
        return self.terms is not None and self.terms.spot is not None

    @property
    def bars(self) -> Bars:
        """Reasons why it may bar jobs: equal for VMs that bar the same jobs."""
        if self.terms is None or (self.terms.spot is None and not self.terms.reserved_for):
            return NOBODY
        return Bars(self.terms.spot is not None, self.terms.pool, self.terms.reserved_for)

    @property
    def cpus(self) -> float:
        """Its cpus."""
        return self.resources.cpus

    @property
    def memory_mib(self) -> int:
        """Its memory, MiB."""
        return self.resources.memory_mib


#: Seconds after which a driver with dynamic allocation releases an idle executor, as Spark's own default.
EXECUTOR_IDLE = 60.0


class Dynamic(NamedTuple):
    """A job with a driver that requests and releases executors while it runs (dynamic allocation).

    It begins with `initial` executors; those that it lacks to `min` it gets before new jobs get theirs.
    """

    min: int
    initial: int


class Rework(NamedTuple):
    """Shares of an executor's work that are repeated when it is lost, or drained before its loss."""

    lost: float = REWORK_LOST
    drained: float = REWORK_DRAINED

    def after(self, notice: float) -> float:
        """The share after a notice of so many seconds; one that is too short is none."""
        return self.drained if notice >= DRAIN_SECONDS else self.lost


#: Rework of a job without a better estimate.
MEASURED_REWORK = Rework()
#: Pauses of a job that states none.
USUAL_PAUSES = Backoff()


@dataclass(frozen=True, slots=True)
class Job:
    """A Spark application: `executors` equal executors, each taking resources of one `size` from one VM.

    It also runs on fewer of them, but no fewer than `min_executors`; None makes it a gang, which runs on all
    of them or not at all. Likewise an executor may have fewer cpus, but no fewer than `min_cpus`. `driver`
    is the size of its Spark driver when that runs on the cluster and not on the daemon's host.
    `expected_duration` (seconds) and `prefers` (the placement under which the type runs best) come from the
    type's profile; None when nothing is known about it. `spread` is the error of expected durations: the
    standard deviation of the logarithm of real over expected duration. A job that runs for more than
    `max_runtime` seconds, if given, is ended and has failed; one that has cost `max_cost` dollars gets no
    more executors, or is ended, by `at_max_cost`; after a failed driver it is started again `retries` times,
    and with `memory_retry` once with more memory where it had too little. `owner` is the user named at
    submission (empty: none was named), and `queue` its queue, by path. `priority` ranks it beside others, the
    higher the earlier, and `deadline` is when it should be over (seconds, by the clock of `submitted_at`):
    the order of jobs may be by these. One that is not `restartable` is never stopped for another. `spark` is
    the name of the Spark that runs its driver and executors (empty: the only one that there was).
    `client_driver` is the host of a Spark driver that its user runs, and that was there before the job was;
    empty where Stoker starts the driver. `unix_user` is the account that driver and executors run as (empty:
    as the daemon's config says).

    It begins after the jobs in `after` have ended, and not before `start_at` (seconds). `pauses` precede its
    retries. Jobs of one `group` are summed up together; one of an `array` is number `index`, from 0, of
    `count`, of which `at_most` run at once (None: all). `labels` are names and values, in order.

    With `dynamic`, its driver asks for executors while it runs, and `executors` is the most that it may have
    of each resource profile. `spot` says whether executors may be on VMs that their cloud may take away, or
    only there; `spot_driver` whether its driver may. `rework` is the share of a lost executor's work that
    its type repeats. `curve` is that of its type: it predicts the effect of more or fewer resources on its
    duration; without one, twice the cores take half as long. `shape` tells how sizes were chosen that were
    left to Stoker. It is not placed on the spot pools `unending_on`, where it is believed never to end
    (`lasting`).
    """

    id: str
    type: str
    size: Resources
    executors: int
    submitted_at: float
    name: str = ""
    expected_duration: float | None = None
    prefers: Preference | None = None
    driver: Resources | None = None
    min_executors: int | None = None
    max_runtime: float | None = None
    max_cost: float | None = None
    at_max_cost: Literal["keep", "end"] = "keep"
    spread: float = MEASURED_SPREAD
    owner: str = ""
    queue: str = DEFAULT_QUEUE
    spark: str = ""
    client_driver: str = ""
    unix_user: str = ""
    dynamic: Dynamic | None = None
    retries: int = 0
    memory_retry: bool = False
    spot: SpotUse = "allowed"
    spot_driver: bool = False
    unending_on: tuple[str, ...] = ()
    rework: Rework = MEASURED_REWORK
    curve: Curve | None = None
    min_cpus: float | None = None
    priority: int = 0
    deadline: float | None = None
    restartable: bool = True
    after: tuple[After, ...] = ()
    start_at: float | None = None
    pauses: Backoff = USUAL_PAUSES
    group: str = ""
    array: str = ""
    index: int | None = None
    count: int | None = None
    at_most: int | None = None
    labels: tuple[tuple[str, str], ...] = ()
    shape: ShapeChoice | None = None

    def members(self) -> "list[Job]":
        """All jobs of the array of which this is the first; itself alone where it is of none."""
        if self.count is None:
            return [self]
        array = array_of(self.id)
        return [
            replace(self, id=job_id, array=array, index=index)
            for index, job_id in enumerate(array_jobs(array, self.count))
        ]

    @property
    def may_be_held(self) -> bool:
        """Whether something may keep it from waiting for its turn at once."""
        return bool(self.after) or self.start_at is not None or self.at_most is not None

    @property
    def cpus(self) -> float:
        """Cpus of one executor."""
        return self.size.cpus

    @property
    def memory_mib(self) -> int:
        """Memory of one executor, MiB."""
        return self.size.memory_mib

    def barred(self, vm: Vm) -> str:
        """Reason why the VM bars the job's executors regardless of free resources; empty when it does not."""
        return barred(vm.terms, self.id, *self.uses, self.size)

    @property
    def uses(self) -> tuple[SpotUse, tuple[str, ...]]:
        """Equal of jobs of one size that are barred from the same VMs."""
        return self.spot, self.unending_on

    def driver_barred(self, *, spot: bool) -> bool:
        """Whether spot VMs, or the others, are no place for its driver on the cluster."""
        return spot and not self.spot_driver

    @property
    def driver_here(self) -> bool:
        """Whether its driver runs on the daemon's host."""
        return self.driver is None and not self.client_driver

    @property
    def fewest(self) -> int:
        """The fewest executors on which it runs."""
        return self.executors if self.min_executors is None else self.min_executors

    @property
    def begins_with(self) -> int:
        """Number of executors requested at first; a driver on the cluster is placed beside one."""
        if self.dynamic is None:
            return self.executors
        return max(self.dynamic.initial, int(self.driver is not None))

    @property
    def asked(self) -> tuple[Resources, ...]:
        """Resources requested for all its executors."""
        return (self.size,) * self.executors

    def duration_on(self, sizes: tuple[Resources, ...]) -> float | None:
        """Expected seconds on executors of these sizes: longer in proportion to the resources that they lack.

        Without sizes they are those that the job requests. None when its duration is unknown.
        """
        if self.expected_duration is None or not sizes or sizes == self.asked:
            return self.expected_duration
        cpus = [size.cpus for size in sizes]
        return self.duration_with(sum(cpus), sum(size.memory_mib for size in sizes), min(cpus))

    def duration_with(self, cores: float, memory_mib: float, cpus: float) -> float | None:
        """Expected seconds with these cores and memory in all, above zero; the least executor has `cpus`."""
        if self.expected_duration is None:
            return None
        if self.curve is None:
            return self.expected_duration * self.cpus * self.executors / cores
        count, each = self.executors, self.cpus
        asked = self.curve.seconds_on(each * count, self.memory_mib * count, each)
        return self.expected_duration * (self.curve.seconds_on(cores, memory_mib, cpus) / asked)

    def expected_on(self, sizes: tuple[Resources, ...], vms: int) -> float | None:
        """Expected seconds on so many different VMs: times `BAD_PLACEMENT_FACTOR` when badly placed."""
        seconds = self.duration_on(sizes)
        if seconds is None or placed_well(self.prefers, len(sizes) or self.executors, vms):
            return seconds
        return seconds * BAD_PLACEMENT_FACTOR


@dataclass(frozen=True, slots=True)
class PlacementRequest:
    """Executors that a job still needs: all of them at first, later those that were lost or are asked for.

    `present_on` names, by VM id, where the job's other executors are; `first_number` is the first new
    executor's number. `again` says that these replace lost ones, and go before new jobs; `grows` that they
    are more for a running job, which takes as many as there are. `sizes` are those of each of `count`
    executors; without it all have the job's size. `avoided` names, by id, VMs that are no place for it now:
    its last launches there never ran. `profile` is the number of their resource profile in Spark.
    `released_at` is when its job began to wait for its turn, where something held it after its submission.
    `at_most` limits its executors to those that the machine under an embedded cluster carries now; None:
    all.
    """

    job: Job
    count: int
    present_on: tuple[str, ...] = ()
    again: bool = False
    first_number: int = 0
    sizes: tuple[Resources, ...] = ()
    avoided: tuple[str, ...] = ()
    grows: bool = False
    profile: int = 0
    released_at: float | None = None
    at_most: int | None = None

    @property
    def entered_at(self) -> float:
        """Since when its job waits for its turn."""
        return self.job.submitted_at if self.released_at is None else self.released_at

    @property
    def joins(self) -> bool:
        """Whether its job runs already, so that a driver on the cluster is there."""
        return self.again or self.grows

    @property
    def fewest(self) -> int:
        """Minimum number of executors in a placement: a job's `fewest` at first, and all of lost ones."""
        if self.grows:
            return min(self.count, 1)
        return self.count if self.again else min(self.job.fewest, self.count)

    def first(self, count: int) -> "PlacementRequest":
        """The request for its first executors alone."""
        return self if count >= self.count else replace(self, count=count, sizes=self.sizes[:count])

    def for_driver(self) -> "PlacementRequest":
        """The same for the job's driver on the cluster alone; ValueError where it has none there."""
        job = self.job
        if job.driver is None:
            raise ValueError(f"{job.id} has no driver on the cluster")
        spot: SpotUse = "never" if job.driver_barred(spot=True) else "allowed"
        return replace(self, job=replace(job, spot=spot, unending_on=()), count=1, sizes=(job.driver,))

    @property
    def full(self) -> "PlacementRequest":
        """The request for as many executors as a new job may get, where it was reduced to those that fit."""
        most = self.job.begins_with if self.at_most is None else min(self.job.begins_with, self.at_most)
        if self.joins or self.job.min_executors is None or self.count == most:
            return self
        return replace(self, count=most)

    @property
    def kind(self) -> tuple[object, ...]:
        """Key that is equal for requests which differ at most in job type, duration and age."""
        job = self.job
        asked = (self.count, self.sizes or job.size, job.executors, job.fewest, job.driver, job.prefers)
        return (*asked, self.joins, self.present_on, self.avoided, job.uses, job.spot_driver, job.rework)

    @property
    def size(self) -> Resources:
        """Largest size of one executor: the maximum of each resource, where executors differ."""
        return reduce(or_, self.sizes) if self.sizes else self.job.size

    @property
    def asked(self) -> tuple[Resources, ...]:
        """Resources requested for each executor; a placement grants these or less."""
        return self.sizes or (self.job.size,) * self.count

    @property
    def cpus(self) -> float:
        """Cpus of one executor, of the largest where they differ."""
        return self.size.cpus

    @property
    def memory_mib(self) -> int:
        """Memory of one executor, MiB; of the largest where they differ."""
        return self.size.memory_mib

    def granted(self, place: "Place") -> tuple[Resources, ...]:
        """Resources of each executor of a placement."""
        return place.sizes or self.asked[: len(place.placement)]


@dataclass(frozen=True, slots=True)
class EndedJob:
    """A job that is over, for policies that learn from it: its VMs, executor sizes, start and end.

    `vm_ids` and `sizes` are those of its executors; `finished`: the job completed its work.
    """

    job: Job
    vm_ids: tuple[str, ...]
    sizes: tuple[Resources, ...]
    started_at: float
    ended_at: float
    finished: bool


@dataclass(frozen=True, slots=True)
class Place:
    """Place a job of the queue: the index of each executor's VM in the view, and reasons in words.

    The job may be any of the queue; a policy that only places the first keeps to first come, first served.
    There may be fewer executors than are asked for, if no fewer than the request's `fewest`. `sizes`, if
    given, are those of each executor: at most the requested one, and not less than `LEAST`; without it each
    has the requested size.

    `why` may be empty, or have one sentence per executor; `scores`, if given, is the policy's rating of each
    VM (one number per VM of the view, higher is better). `details` has more such numbers by name, for
    explanations only. `driver` is the index of the VM of a driver on the cluster, which the round finds,
    regardless of the policy.
    """

    job_id: str
    placement: tuple[int, ...]
    why: tuple[str, ...] = ()
    scores: tuple[float, ...] = ()
    sizes: tuple[Resources, ...] = ()
    details: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    driver: int | None = None


@dataclass(frozen=True, slots=True)
class Wait:
    """Place nothing now, and say why the first of the queue has to wait.

    `keeps` are idle VMs, by index, that the policy's plan uses, and until when (seconds) they are to be kept
    for that where nothing else keeps them.
    """

    reason: str
    keeps: tuple[tuple[int, float], ...] = ()


Decision = Place | Wait
