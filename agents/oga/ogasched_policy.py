"""OgaSched as a policy: its options, the job that gets executors in a slot, its waits, and its reasons.

A slot is a moment at which the policy decides: each waiting job type is a port with a job. `slots.py` makes a
slot from a view, `cutting.py` makes executors from an allocation; numba is imported when the policy is made.
Executors may have less cpus and memory than they request; of other requested resources, such as gpus, each
gets its full request, independent of the allocation's shares.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import ClassVar, Literal

import numpy as np

from agents.estimates import check_share
from agents.oga.cutting import Cut, cut, floor_of, uncut, whole
from conf.util.counted import counted
from environment.decisions.feasibility import shortage
from environment.decisions.starvation import PatienceLimits, StarvationGuard
from environment.resources import LEAST, MEMORY, Resources, total
from environment.types import Decision, EndedJob, FloatArray, Job, Place, PlacementRequest, Vm, Wait
from environment.view import ClusterView

#: Number of requests that are searched for each type's oldest job. Chosen: all of most queues.
_LOOKED_AT = 512


@dataclass(frozen=True, slots=True)
class OgaSchedOptions:
    """Options of OgaSched."""

    INSTEAD: ClassVar[Mapping[str, str]] = {
        "patience": "wait_limit is the number of waits of a job that fits; patience, of other policies, is "
        "a time"
    }

    #: `oga`: allocations are fixed before the waiting jobs are known (Zhao 2023, Definition 2).
    #: `oga-reactive`: after a step on the waiting jobs. `oga-conserving`: reservations of types without a job
    #: go to the others. The first two are dear as schedulers: their allocations may lie on VMs in use, so
    #: that jobs wait though they fit. Without that (`wait_limit` of 0) they cost as much as the third.
    variant: Literal["oga", "oga-reactive", "oga-conserving"] = "oga-conserving"
    #: Whether a request bounds a job's total, or its amount of each VM (Zhao 2023, eq. 5).
    request: Literal["total", "per_channel"] = "total"
    #: The worth of an amount of a resource (Zhao 2023, eq. 51): its function and its factor.
    utility: Literal["linear", "log", "reciprocal", "poly"] = "log"
    alpha: float = 1.2
    #: How much the resource of which a job has most counts against it (beta of Zhao 2023, eq. 7).
    overhead: float = 0.4
    #: eta_0 and lambda of Zhao 2023, Algorithm 1, in cores (4 GiB of memory count as one).
    eta: float = 2.0
    decay: float = 0.9999
    #: The least share of its request that an executor gets, of cpus and of memory.
    floor: float = 0.5
    #: Weight of a job's surprise in the worth of its type; 0 learns nothing from ends.
    gain_rate: float = 0.2
    #: How often the oldest job may wait for its allocation though it fits; then it takes any room there is.
    #: Chosen: with 8, the variants that wait are 15 to 20 % dearer on the paper's workloads.
    wait_limit: int = 4
    #: How many later jobs may be placed before one while it is the oldest; 0 is first come, first served.
    overtaken_at_most: int = 32

    def __post_init__(self) -> None:
        check_share("overhead", self.overhead)
        check_share("gain_rate", self.gain_rate)
        if not 0 < self.floor <= 1:
            raise ValueError(f"floor: should be more than 0 and at most 1, found {self.floor:g}")
        if not 0 < self.decay <= 1:
            raise ValueError(f"decay: should be more than 0 and at most 1, found {self.decay:g}")
        for name in ("alpha", "eta"):
            if not 0 < getattr(self, name) < float("inf"):
                raise ValueError(f"{name}: should be a number above 0, found {getattr(self, name):g}")
        PatienceLimits(self.overtaken_at_most, self.wait_limit)


class OgaSched:
    """OgaSched: executors cut out of a fractional allocation that is learned online (Zhao 2023).

    Executors may get less than they request, but never less than `floor`, and elastic jobs may get fewer of
    them. It learns from the jobs that wait in a slot, and from the durations of jobs on their granted
    resources.
    """

    chooses_sizes = True
    #: By its `wait_limit`.
    bounds_waits = True

    def __init__(self, options: OgaSchedOptions) -> None:
        from agents.oga.learner import LearnerOptions
        from agents.oga.slots import Slots

        self._options = options
        learner = LearnerOptions(
            variant=options.variant, eta0=options.eta, decay=options.decay, gain_rate=options.gain_rate
        )
        self._slots = Slots(learner, options.utility, options.alpha, options.overhead, options.request)
        self._at: float | None = None
        self._vms: tuple[Vm, ...] = ()
        #: The types that waited when the slot began.
        self._present: frozenset[str] = frozenset()
        self._patience = StarvationGuard(PatienceLimits(options.overtaken_at_most, options.wait_limit))

    def decide(self, view: ClusterView, queue: Sequence[PlacementRequest]) -> Decision:
        """Place a type's oldest job, the first that the slot's allocation carries, or wait."""
        oldest: dict[str, PlacementRequest] = {}
        numbers: list[int] = []
        # It makes executors smaller, and fewer, by itself.
        queue = [request.full for request in islice(queue, _LOOKED_AT)]
        for number, request in enumerate(queue):
            if oldest.setdefault(request.job.type, request) is request:
                numbers.append(number)
        self._begin(view, oldest)
        head, reach = queue[0], self._patience.reach(queue)
        enough = self._patience.has_waited(head)
        for number in numbers:
            if number >= reach:
                break
            if found := self._executors(view, queue[number], oldest, settles=enough):
                self._patience.let_pass(queue, number)
                return self._place(view, queue[number], *found)
        # In the conserving variant every job settles.
        conserving = self._options.variant == "oga-conserving"
        if not conserving and self._executors(view, head, oldest, settles=True):
            self._patience.hold_back(head)
        return Wait(self._why_not(view, head))

    def observe(self, ended: EndedJob) -> None:
        """Learn from a job that is over."""
        self._slots.observe(ended)

    def state(self) -> bytes:
        """All that was learned."""
        return self._slots.state()

    def restore(self, state: bytes) -> None:
        """Restore the learned state; ValueError when it cannot be read."""
        self._slots.restore(state)

    def _begin(self, view: ClusterView, oldest: dict[str, PlacementRequest]) -> None:
        """A slot begins when time has passed, or a type comes into the round that was not there."""
        if (self._at, self._vms) == (view.at, view.vms) and oldest.keys() <= self._present:
            return
        self._at, self._vms, self._present = view.at, view.vms, frozenset(oldest)
        floors = [floor_of(request, self._options.floor) for request in oldest.values()]
        self._slots.begin(view, list(oldest.values()), floors)

    def _executors(
        self,
        view: ClusterView,
        request: PlacementRequest,
        oldest: dict[str, PlacementRequest],
        *,
        settles: bool,
    ) -> Cut | None:
        """VMs and sizes of the request's executors; None when they have no room.

        A request that `settles` takes the free resources where the allocation does not carry it.
        """
        options, kind = self._options, request.job.type
        wanted = self._slots.wanted(kind)
        if request.joins:  # lost executors are put back as they were, requested ones follow in turn
            placement = whole(view, request, wanted["cpus"])
            return None if placement is None else (placement, request.asked)
        conserving = options.variant == "oga-conserving"
        if conserving and _room_for_all(view, oldest) and (placement := whole(view, request, wanted["cpus"])):
            return placement, request.asked
        floor = floor_of(request, options.floor)
        free = {name: view.usable.amounts(name) for name in LEAST}
        had = {name: np.minimum(wanted[name], free[name]) if name in wanted else free[name] for name in free}
        if found := cut(request, had, floor, uncut(view, request, wanted)):
            return found
        # The part of the allocation that is on VMs in use, or less than an executor, is no reason to wait for
        # ever.
        if conserving or settles or not view.executors.any():
            if placement := whole(view, request, wanted["cpus"]):
                return placement, request.asked
            return cut(request, free, floor, view.most_for(request, LEAST.thousandths.keys()))
        return None

    def _place(
        self,
        view: ClusterView,
        request: PlacementRequest,
        placement: tuple[int, ...],
        sizes: tuple[Resources, ...],
    ) -> Place:
        kind = request.job.type
        wanted, details = self._slots.wanted(kind), self._slots.details(kind)
        whys = (_why(view, request.job, wanted, vm, size) for vm, size in zip(placement, sizes, strict=True))
        why = tuple(whys)
        self._slots.take(request.job, placement, sizes)
        if sizes == request.asked:
            sizes = ()
        return Place(request.job.id, placement, why, tuple(wanted["cpus"].tolist()), sizes, details)

    def _why_not(self, view: ClusterView, head: PlacementRequest) -> str:
        if not view.vms:
            return shortage(view, head)
        wanted = self._slots.wanted(head.job.type)
        job, places = head.job, int((wanted["cpus"] > 0).sum())
        has = (
            f"{_shown({name: float(y.sum()) for name, y in wanted.items()}, job)} on {counted(places, 'VM')}"
        )
        least = floor_of(head, self._options.floor)
        allocation = f"the allocation of {job.type} is {has}"
        return (
            f"{shortage(view, head)}; {allocation}, and its free part has no room for "
            f"{counted(head.fewest, 'executor')} of at least {least}"
        )


def _room_for_all(view: ClusterView, oldest: dict[str, PlacementRequest]) -> bool:
    """Whether the free resources suffice for all requests, so that granting one less helps no other."""
    asked = total(request.size * request.count for request in oldest.values())
    return view.free.total().contains(asked)


def _why(view: ClusterView, job: Job, wanted: Mapping[str, FloatArray], vm: int, size: Resources) -> str:
    has = _shown({name: float(y[vm]) for name, y in wanted.items()}, job)
    return f"{job.type}'s allocation has {has} of {view.vms[vm].name}; the executor takes {size}"


def _shown(had: Mapping[str, float], job: Job) -> str:
    """Text of cpus, GiB, and the job's other requested resources."""
    others = [f"{had[name]:.3g} {name}" for name in job.size.others if name in had]
    parts = [f"{had['cpus']:.3g} cpus", f"{had[MEMORY] / 1024:.3g} GiB", *others]
    return f"{', '.join(parts[:-1])} and {parts[-1]}"
