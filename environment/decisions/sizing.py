"""Sizes of jobs that leave them open: the number of executors, and the cpus of each.

A stage before every policy, in both worlds: the policy is shown each such job as one that asks for the size
that is chosen here, and places it or not. The choice depends on the job's believed behaviour (its type's
curve), on the share of the cluster that it would take and for how long, and on the number of waiting jobs.
Memory of an executor is never cut. `agents` has the policies, `decision_round` the queue as it is shown.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

import numpy as np

from conf.defaults import RESOURCE_WEIGHT
from conf.schema.daemon import SizesSection
from conf.units import SECONDS_PER_HOUR
from conf.util.counted import counted
from environment.policy import Sizer
from environment.resources import CPUS, THOUSANDTHS, Resources
from environment.types import FloatArray, Job, Place, PlacementRequest, Vm
from environment.view import ClusterView

#: For each that waits, how many a job holds up: itself, and one that comes meanwhile. Chosen: of 1 to 8, from
#: 2 on there is no difference in burst (docs/results/sizes.md).
_HELD_UP = 2.0
#: Number of requests that are checked to see whether all could have their full size. Chosen: most of any
#: queue.
_LOOKED_AT = 256
#: Number of sizes that are tried of a job that may have more different numbers of executors.
_COUNTS = 64
#: Sizes of so many jobs are kept.
_KEPT = 4096


@dataclass(frozen=True, slots=True)
class Sizes:
    """Rule for choosing sizes, and whether jobs that leave nothing open may be smaller, too."""

    #: The least share of its executors, and of their cpus, that a job gets which sets no bounds itself.
    floor: float = 1.0
    #: Weight of a job's share of the cluster where no job waits; the rest is its own time.
    beta: float = RESOURCE_WEIGHT
    #: `marginal`: the cost and the saving of one more core. `half`: half the cpus while more than one job
    #: waits.
    rule: Literal["marginal", "half"] = "marginal"
    #: Whether jobs may be started again with more memory.
    memory_retry: bool = True

    def __post_init__(self) -> None:
        if not 0 < self.floor <= 1:
            raise ValueError(f"floor: should be more than 0 and at most 1, found {self.floor:g}")
        if not 0 <= self.beta < 1:
            raise ValueError(f"beta: should be at least 0 and less than 1, found {self.beta:g}")
        if self.rule not in ("marginal", "half"):
            raise ValueError(f"rule: should be marginal or half, found {self.rule!r}")

    @classmethod
    def read(cls, text: str) -> "Sizes":
        """Parse `floor=0.5` or `floor=0.5,beta=0.3`; ValueError with the correct form."""
        values: dict[str, Any] = {}
        for part in text.split(","):
            name, equals, value = part.strip().partition("=")
            if name not in ("floor", "beta", "rule") or not equals or name in values:
                raise ValueError(f"should be as in floor=0.5 or floor=0.5,beta=0.3, found {text!r}")
            try:
                values[name] = value if name == "rule" else float(value)
            except ValueError:
                raise ValueError(f"{name}: should be a number, found {value!r}") from None
        return cls(**values)

    @classmethod
    def configured(cls, section: SizesSection) -> "Sizes":
        """Sizes from the daemon's config."""
        return cls(section.floor, section.beta, memory_retry=section.memory_retry)

    def opened(self, job: Job) -> Job:
        """The job with the bounds that the floor gives it; one that has bounds of its own keeps them."""
        if self.floor >= 1 or job.dynamic is not None or job.min_cpus is not None or job.min_executors:
            return job
        return replace(
            job,
            min_executors=math.ceil(round(self.floor * job.executors, 6)),
            min_cpus=least_cpus(job.cpus, self.floor),
        )


def least_cpus(cpus: float, floor: float) -> float:
    """The least whole cpus that are that share of so many: Spark runs a task on each whole one."""
    return float(min(math.ceil(round(floor * cpus, 6)), cpus)) if cpus > 1 else cpus


class Size(NamedTuple):
    """A number of executors of one size."""

    executors: int
    each: Resources

    @property
    def cores(self) -> float:
        """Cpus of all of them."""
        return self.executors * self.each.cpus

    @property
    def memory_mib(self) -> int:
        """Memory of all of them, MiB."""
        return self.executors * self.each.memory_mib


@dataclass(frozen=True, slots=True)
class _Offers:
    """The sizes that a job may have, the largest first: seconds that it takes, and how large they are."""

    job: Job
    vms: tuple[Vm, ...]  # by which they were found
    sizes: tuple[Size, ...]
    seconds: FloatArray  # [S]
    cpus: FloatArray  # [S] of all executors
    memory: FloatArray  # [S] MiB of all executors


class Sizing:
    """Chooses sizes by the rule of `Sizes`. It caches computed sizes of jobs, and nothing else."""

    def __init__(self, sizes: Sizes) -> None:
        self.sizes = sizes
        self._offers: dict[str, _Offers] = {}
        self._shown: dict[tuple[str, Size], Job] = {}

    def shown(self, request: PlacementRequest, view: ClusterView, pressure: "Pressure") -> PlacementRequest:
        """The request at the best size under that pressure; unchanged where that is its full size.

        Considers sizes for which the empty cluster has room; all sizes where there is none.
        """
        job = request.job
        if not (pressure.cpus and pressure.memory_mib):  # its share of the cluster is unknown
            return request
        offers = self._offers_of(request, view)
        if job.expected_duration is None:  # the effect of a smaller size is unknown
            best = 0
        elif self.sizes.rule == "half":
            best = _half(offers, pressure)
        else:
            best = self._best(offers, pressure)
        size = offers.sizes[best]
        if size.executors == job.executors and size.each == job.size:
            return request
        return replace(request, job=self._job(job, size), count=size.executors)

    def _best(self, offers: "_Offers", pressure: "Pressure") -> int:
        """Index of the size with the least cost of the job's time and of the jobs that it holds up.

        A job holds up others for as long as it runs, by its share of the cluster. The cost of that share is
        counted likewise: half of everything for the same time costs half.
        """
        share = np.maximum(offers.cpus / pressure.cpus, offers.memory / pressure.memory_mib)
        weight = _HELD_UP * pressure.waiting + self.sizes.beta / (1 - self.sizes.beta) / share[0]
        return int(np.argmin(offers.seconds * (1 + weight * share)))

    def _offers_of(self, request: PlacementRequest, view: ClusterView) -> _Offers:
        job = request.job
        offers = self._offers.get(job.id)
        if offers is None or offers.job is not job or offers.vms is not view.vms:
            if len(self._offers) >= _KEPT:
                self._offers.clear()
                self._shown.clear()
            offers = self._offers[job.id] = _offers(request, view)
        return offers

    def _job(self, job: Job, size: Size) -> Job:
        """The job as one that asks for this size."""
        shown = self._shown.get((job.id, size))
        if shown is None:
            fewest = job.min_executors
            shown = self._shown[job.id, size] = replace(
                job,
                size=size.each,
                executors=size.executors,
                min_executors=None if fewest is None or fewest >= size.executors else fewest,
                min_cpus=None,
                expected_duration=job.duration_with(size.cores, size.memory_mib, size.each.cpus),
            )
        return shown


def sizing_for(policy: object, sizes: Sizes) -> Sizing | None:
    """Size chooser for a policy; None where the policy chooses sizes itself."""
    return None if isinstance(policy, Sizer) and policy.chooses_sizes else Sizing(sizes)


def is_open(job: Job) -> bool:
    """Whether the job leaves its size open."""
    if job.dynamic is not None:
        return False
    return job.fewest < job.executors or (job.min_cpus is not None and job.min_cpus < job.cpus)


class Pressure(NamedTuple):
    """Number of jobs that wait for room, and size of the cluster."""

    waiting: float
    cpus: float
    memory_mib: float


def pressure_on(view: ClusterView, queue: Sequence[PlacementRequest]) -> Pressure:
    """Pressure on the cluster: all jobs but one wait for room, in proportion to the unmet demand."""
    looked_at = [queue[number] for number in range(min(len(queue), _LOOKED_AT))]
    asked = sum(request.count * request.size.get(CPUS) for request in looked_at) / THOUSANDTHS
    free = float(view.free_cpus.sum())
    waiting = 0.0 if free >= asked else (len(queue) - 1) * (1.0 - free / asked)
    return Pressure(waiting, float(view.cpus.sum()), float(view.memory_mib.sum()))


def told(view: ClusterView, request: PlacementRequest, place: Place) -> str:
    """Expected cost and saving of a size below the job's request, in words; empty without such a size."""
    job, given = request.job, request.granted(place)
    asked, now = job.duration_on(job.asked), job.duration_on(given)
    if request.joins or job.dynamic is not None or given == job.asked or asked is None or now is None:
        return ""
    vms = [view.vms[index] for index in place.placement]
    per_core = sum(vm.price_per_hour / vm.cpus for vm in vms) / len(vms) / SECONDS_PER_HOUR
    cores, most = sum(size.cpus for size in given), job.cpus * job.executors
    each = f"{min(size.cpus for size in given):g}" if len({*given}) == 1 else "fewer"
    return (
        f"{len(given)} of {counted(job.executors, 'executor')} with {each} of "
        f"{counted(job.cpus, 'cpu')}: it is "
        f"expected to take {now:.0f} s instead of {asked:.0f} s, and ${now * cores * per_core:.4f} of these "
        f"VMs' cores instead of ${asked * most * per_core:.4f}"
    )


def _half(offers: "_Offers", pressure: Pressure) -> int:
    """Half the cpus of each executor while more than one job waits."""
    asked = offers.sizes[0]
    if pressure.waiting <= 1:
        return 0
    least = least_cpus(asked.each.cpus, 0.5)
    all_of_them = [n for n, size in enumerate(offers.sizes) if size.executors == asked.executors]
    return max((n for n in all_of_them if offers.sizes[n].each.cpus >= least), default=0)


def smallest(size: Resources, min_cpus: float | None) -> Resources:
    """Size of the smallest executor allowed to a job that asks for `size` with this bound on cpus."""
    least = size.cpus if min_cpus is None else math.ceil(min_cpus)
    return size if least >= size.cpus else size.without((CPUS,)) + Resources.of(float(least))


def _offers(request: PlacementRequest, view: ClusterView) -> _Offers:
    job = request.job
    least = math.ceil(smallest(job.size, job.min_cpus).cpus)
    cpus = (job.cpus, *(float(c) for c in range(math.ceil(job.cpus) - 1, least - 1, -1)))
    counts = np.unique(np.linspace(job.executors, job.fewest, _COUNTS).astype(int))[::-1].tolist()
    others = job.size.without((CPUS,))
    eachs = [others + Resources.of(each) for each in cpus]
    may = ~view.closed_to(request) if view.closes_some(request) else np.True_
    room = [int((view.capacity.room(each) * may).sum()) for each in eachs]
    there = [(each, most) for each, most in zip(eachs, room, strict=True) if most >= job.fewest]
    there = there or [(each, job.executors) for each in eachs]
    sizes = tuple(dict.fromkeys(Size(min(count, most), each) for count in counts for each, most in there))
    return _Offers(
        job,
        view.vms,
        sizes,
        np.array(
            [job.duration_with(size.cores, size.memory_mib, size.each.cpus) for size in sizes], np.float64
        ),
        np.array([size.cores for size in sizes]),
        np.array([size.memory_mib for size in sizes], np.float64),
    )
