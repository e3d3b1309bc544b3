"""Greedy, the policy: places each job at the VMs and time that add least to the bill and the job's own time.

`pricing.py` and `forms.py` compute the additions of a placement; this module converts a view and a queue to
arrays for them, and their result to a decision. Numba is imported when the policy is made. Jobs that will
arrive are ignored, except that room has a value for them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from typing import TYPE_CHECKING, ClassVar, NamedTuple

import numpy as np

from agents.column_cache import Columns
from agents.estimates import (
    LEAST_WEIGHT,
    MOST_JOBS,
    check_factor,
    check_limit,
    check_seconds,
    check_share,
    dollars_per_cpu_second,
    duration_of,
    effective_prices,
    held_for,
)
from agents.warm_up import smallest
from conf.defaults import BAD_PLACEMENT_FACTOR, UNKNOWN_DURATION, UNKNOWN_SPREAD
from conf.units import SECONDS_PER_HOUR
from environment.barred_vms import ANYWHERE as ANY_USE
from environment.decisions.feasibility import shortage
from environment.decisions.starvation import PatienceLimits, StarvationGuard
from environment.kernel.state import ANYWHERE, PREFERENCES
from environment.resources import BASIC, CPUS, MEMORY, THOUSANDTHS
from environment.types import Decision, FloatArray, IntArray, Job, Place, PlacementRequest, Vm, Wait
from environment.view import ClusterView, RunningJob

if TYPE_CHECKING:
    from agents.greedy.asked import Aim, Jobs, PricingScene, Work
    from agents.greedy.player import GreedyPlayer
    from agents.greedy.pricing import Ends

#: The share of a VM that other jobs are believed to use, of the rest that a job leaves on a VM held longer
#: for it; and the worth of room on a VM that is held anyway, as a share of its price. Chosen: of 0.5 to 1 and
#: of 0 to 1.3 these gave about the least bill at the same completion.
_SHARED, _ROOM = 0.9, 0.9
#: Number of boots of its pool for which an idle VM is believed to be kept. Chosen likewise.
_IDLE = 0.5
_BASIC = frozenset(BASIC)
#: Jobs last for so many seconds at least.
_LEAST = 0.001
#: An idle VM that is to be used when running jobs have ended is kept for so many times that long: they may
#: last for longer than they are believed to.
_LATER = 2.0
#: For how many times as long as it is expected to take is looked ahead for the first job if it does not fit.
_FAR = 16.0


@dataclass(frozen=True, slots=True)
class GreedyOptions:
    """Options of the greedy policy."""

    #: How much cost counts; the rest is time until the job's end.
    beta: float = 0.2
    #: For how long a job that fits may wait for VMs that become free, where that is better: in seconds, or as
    #: a multiple of its expected duration.
    patience: float | str = "0.5x"
    #: How many jobs of the queue are looked at.
    window: int = 256
    #: How many later jobs may be placed before one while it is the oldest; 0 is first come, first served.
    overtaken_at_most: int = 128
    #: How much longer a job takes where it is not placed as its type prefers.
    bad_placement_factor: float = BAD_PLACEMENT_FACTOR
    #: Seconds that a job takes, or a VM is held, of which that is not known.
    unknown_duration: float = UNKNOWN_DURATION

    INSTEAD: ClassVar[Mapping[str, str]] = {
        "jobs_ahead": "window is the number of jobs that are considered, including the first"
    }

    def __post_init__(self) -> None:
        check_share("beta", self.beta)
        check_limit("window", self.window, least=1, most=MOST_JOBS)
        check_factor("bad_placement_factor", self.bad_placement_factor)
        check_seconds("unknown_duration", self.unknown_duration)
        _ = self.limits  # which are checked there

    @property
    def limits(self) -> PatienceLimits:
        """Limits on the time and number of waits of a job; ValueError for invalid ones."""
        return PatienceLimits(self.overtaken_at_most, patience=self.patience, unknown=self.unknown_duration)


class _WaitingRequest(NamedTuple):
    """Constant attributes of a request."""

    executors: int
    milli_cpus: int
    memory_mib: int
    prefers: int
    #: Seconds that its job takes when placed well, and for how many it may be held back.
    duration: float
    tail: float
    patience: float
    joins: bool
    #: Equal of those that are placed alike.
    kind: int
    #: Whether it asks for cpus and memory alone, and may be placed wherever there is room.
    plain: bool


class _RunningExecutors(NamedTuple):
    """VM and resources of each executor of a running job."""

    vms: tuple[int, ...]
    milli_cpus: tuple[int, ...]
    memory_mib: tuple[int, ...]


class Greedy:
    """Greedy: of the jobs that wait, the one that adds least to bill and time, now or when VMs are free."""

    def __init__(self, options: GreedyOptions) -> None:
        from agents.greedy import asked, pricing  # here, since they bring numba, which others do not need

        self._options = options
        self._asked, self._pricing = asked, pricing
        self._patience = StarvationGuard(options.limits)
        self._kinds: dict[object, int] = {}
        self._waiting = Columns(self._read, self._kinds.clear)
        #: Where each VM stands, of the views that running jobs were read of.
        self._index: Mapping[str, int] = {}
        self._running = Columns(self._read_running)
        view, known = smallest()
        self._choose(view, known, self._work(view, known))  # which compiles it

    def decide(self, view: ClusterView, queue: Sequence[PlacementRequest]) -> Decision:
        """Place the job of the window that adds least, of those that had better not wait, or wait."""
        known = list(islice(queue, self._options.window))
        known = known[: self._patience.reach(known)]
        work = self._work(view, known)
        job = self._choose(view, known, work)
        self._patience.notice_all(known, view.at, work.fits.tolist())
        if job < 0:
            return Wait(_reason(view, queue[0], float(work.begins[0])), _keeps(view, work.wanted))
        vms, taken = (array[0, : work.used[0]] for array in (work.vms, work.taken))
        placement = tuple(np.repeat(vms, taken).tolist())
        passed = self._patience.told(known, job) if job else ""
        why = why_placed(self._options, float(work.dollars[0]), passed)
        self._patience.let_pass(known, job)
        return Place(known[job].job.id, placement, tuple(f"{view.vms[vm].name} {why}" for vm in placement))

    @property
    def bounds_waits(self) -> bool:
        """Whether its patience ends."""
        return self._options.limits.ends

    def player(
        self, jobs: Sequence[Job], vms: Sequence[Vm], running: Mapping[int, RunningJob], *, exact: bool
    ) -> "GreedyPlayer":
        """The same in compiled code: `environment.policy.CompiledPolicy`."""
        from agents.greedy.player import GreedyPlayer  # here, since it brings numba

        return GreedyPlayer(self._options, jobs, vms, running, exact=exact)

    def _choose(self, view: ClusterView, known: Sequence[PlacementRequest], work: "Work") -> int:
        pricing, aim = self._pricing, aim_of(self._options, view)
        rows = self._waiting.of(known)
        ends, jobs = self._ends(view, known, rows), self._jobs(view, known, rows)
        return int(pricing.choose(self._scene(view), ends, jobs, aim, work))

    def _scene(self, view: ClusterView) -> "PricingScene":
        held, boots = held_for(view, self._options.unknown_duration), np.zeros(len(view.vms))
        idle = np.zeros(len(view.vms))
        if view.openings is not None:
            boots = np.maximum(view.openings.ready_at - view.at, 0.0)
            idle = np.array([0.0 if vm.terms is None else _IDLE * vm.terms.boot for vm in view.vms])
            unused = view.is_open & (view.executors == 0)
            held[unused] = idle[unused]
            # A VM that is always there is paid for anyway.
            held[[vm.terms is None or vm.terms.always for vm in view.vms]] = np.inf
        return self._asked.PricingScene(
            np.stack((view.usable.get(CPUS), view.usable.get(MEMORY) // THOUSANDTHS)),
            _capacity(view),
            held,
            boots,
            ~view.is_open,
            idle,
            np.zeros(0, np.int64),
            np.arange(len(view.vms)),
        )

    def _read(self, request: PlacementRequest) -> _WaitingRequest:
        size, job, unknown = request.size, request.job, self._options.unknown_duration
        anywhere = request.joins or request.count == 1
        return _WaitingRequest(
            request.count,
            size.get(CPUS),
            request.memory_mib,
            ANYWHERE if anywhere else PREFERENCES[job.prefers],
            max(duration_of(job, unknown), _LEAST),
            UNKNOWN_SPREAD if job.expected_duration is None else 0.0,
            self._patience.limits.patience_with(job),
            request.joins,
            self._kinds.setdefault((request.kind, job.expected_duration), len(self._kinds)),
            size.thousandths.keys() <= _BASIC and not request.avoided and job.uses == ANY_USE,
        )

    def _read_running(self, running: RunningJob) -> _RunningExecutors:
        on = zip(running.vm_ids, running.taken, strict=False)
        found = [(self._index[vm_id], size) for vm_id, size in on if vm_id in self._index]
        return _RunningExecutors(
            tuple(vm for vm, _ in found),
            tuple(size.get(CPUS) for _, size in found),
            tuple(size.memory_mib for _, size in found),
        )

    def _ends(
        self, view: ClusterView, known: Sequence[PlacementRequest], waiting: Sequence[_WaitingRequest]
    ) -> "Ends":
        """The executors that are believed to end soon enough to be worth waiting for.

        The first job of the queue waits in any case where it does not fit: for it the horizon is longer.
        """
        ahead = max(row.patience for row in waiting)
        if _lacks_room(view, known[0]):
            ahead = max(ahead, _FAR * duration_of(known[0].job, self._options.unknown_duration))
        ends = view.ends_assuming(self._options.unknown_duration)
        soon = np.flatnonzero(ends <= view.at + ahead)
        if self._index is not view.index:
            self._index = view.index
            self._running.clear()
        running = self._running.of(map(view.running.__getitem__, soon.tolist()))
        executors = [len(each.vms) for each in running]
        left = np.repeat(np.maximum(ends[soon] - view.at, _LEAST), executors)
        vm, *size = (
            np.fromiter(chain.from_iterable(column), np.int64, len(left))
            for column in (zip(*running, strict=True) if running else ((), (), ()))
        )
        order = np.lexsort((size[1], size[0], vm, left))
        return self._pricing.Ends(left[order], vm[order], np.column_stack(size)[order], np.inf)

    def _jobs(
        self, view: ClusterView, known: Sequence[PlacementRequest], waiting: Sequence[_WaitingRequest]
    ) -> "Jobs":
        unknown, columns = self._options.unknown_duration, list(zip(*waiting, strict=True))
        patience, joins, kinds, plain = columns[6:]
        like = _alike(kinds)
        most: dict[int, IntArray | None] = {}
        if not (all(plain) and _all_open(view)):
            most = {number: view.most_for(known[number]) for number in dict.fromkeys(like.tolist())}
        limits = np.zeros((0, len(view.vms)), np.int64)
        if any(limit is not None for limit in most.values()):
            every = np.full(len(view.vms), np.iinfo(np.int64).max)
            found = (most[number] for number in like.tolist())
            limits = np.array([every if limit is None else limit for limit in found])
        prices = _prices(view, known, like, unknown)
        return self._asked.Jobs(
            np.array(columns[0], np.int64),
            np.array(columns[1:3], np.int64),
            np.array(columns[3]),
            np.array(columns[4]),
            np.array(columns[5]),
            # Lost executors are replaced at once: their job runs already, and is slow without them.
            np.where(joins, 0.0, self._patience.all_left(known, patience, view.at)),
            like,
            prices,
            cheapest(prices, _capacity(view)),
            limits,
        )

    def _work(self, view: ClusterView, known: Sequence[PlacementRequest]) -> "Work":
        executors = max(request.count for request in known)
        return self._asked.blank_work(len(view.vms), executors, len(known), 0)


def _capacity(view: ClusterView) -> FloatArray:
    """Milli cpus and MiB of each VM; float64 [2, N]."""
    capacity = np.stack((view.capacity.get(CPUS), view.capacity.get(MEMORY) // THOUSANDTHS))
    return np.asarray(capacity, np.float64)


def cheapest(prices: FloatArray, capacity: FloatArray) -> FloatArray:
    """The least price of a milli cpu, and of a MiB, of VMs that are full.

    `prices` of each VM to each job, or to all, float64 [M or 1, N], for its `capacity`, float64 [2, N];
    float64 [M or 1, 2].
    """
    least = [(prices / np.maximum(each, 1.0)).min(axis=1, initial=np.inf) for each in capacity]
    return np.stack(least, axis=1)


def _prices(
    view: ClusterView, known: Sequence[PlacementRequest], like: IntArray, unknown: float
) -> FloatArray:
    """Dollars per second of each VM for each job, `effective_prices`; float64 [M, N] or [1, N]."""
    if not view.spot.any():  # then they are the same for all
        return view.prices_per_hour[None, :] / SECONDS_PER_HOUR
    numbers = dict.fromkeys(like.tolist())
    prices = {number: effective_prices(view, known[number].job, unknown) for number in numbers}
    return np.stack([prices[number] for number in like.tolist()]) / SECONDS_PER_HOUR


def _alike(kinds: Sequence[int]) -> IntArray:
    """For each job the first job with an equal placement; int64 [M]."""
    first: dict[int, int] = {}
    return np.array([first.setdefault(kind, number) for number, kind in enumerate(kinds)])


def _all_open(view: ClusterView) -> bool:
    """Whether every VM is open to every job, and only free resources limit placements there."""
    limited = view.left_out or view.leaves_at or view.extras or view.reserves
    return view.offered is None and not limited


def _reason(view: ClusterView, request: PlacementRequest, begins: float) -> str:
    """Reason why the head of the queue waits."""
    return why_waits(begins, shortage(view, request) if _lacks_room(view, request) else "")


def why_placed(options: GreedyOptions, dollars: float, passed: str) -> str:
    """Reason for placing a job, with its addition to the bill and the overtaken jobs, if any."""
    least = f"is part of the placement that adds least (beta {options.beta:g})"
    why = f"{least}: ${dollars:.4f} to the bill, without the room that others are expected to use"
    return f"{why}; it overtakes {passed}" if passed else why


def why_waits(begins: float, lacks: str) -> str:
    """Reason why the first job waits, to begin in `begins` seconds; `lacks` names a lack, if any."""
    if not np.isfinite(begins):
        return lacks
    soon = f"VMs are expected to have room in {begins:.0f} s"
    return f"{lacks}; {soon}" if lacks else f"{soon}, which is better than the room available now"


def aim_of(options: GreedyOptions, view: ClusterView) -> "Aim":
    """Weights of the objective on these VMs."""
    from agents.greedy.asked import Aim  # here, since it brings numba

    return Aim(
        float(max(options.beta, LEAST_WEIGHT)),
        float(max(1.0 - options.beta, LEAST_WEIGHT)),
        dollars_per_cpu_second(view),
        float(options.bad_placement_factor),
        _SHARED,
        _ROOM,
    )


def _keeps(view: ClusterView, wanted: FloatArray) -> tuple[tuple[int, float], ...]:
    """The idle VMs that waiting jobs are to be placed on, and the end of their reservation."""
    idle = np.flatnonzero((wanted > 0.0) & (view.executors == 0)).tolist()
    return tuple((vm, view.at + _LATER * float(wanted[vm])) for vm in idle)


def _lacks_room(view: ClusterView, request: PlacementRequest) -> bool:
    return bool(np.minimum(view.room_for(request), request.count).sum() < request.count)
