"""VMs of pools that are emptied, as their executors fit on others and that saves dollars.

`environment.pools.Consolidation` states the rule (`fitting`), `environment.decisions.moves` has the search.
Drivers decommission the executors, which finish their tasks, and Spark moves their blocks to others; their
replacements are reserved on the VMs that take them, by `reservations.py`. A VM that is being emptied is used
as any other: a job that comes meanwhile opens no other one, and the idle policy closes it when it is empty.
"""

import math
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, partial
from typing import NamedTuple

import numpy as np

from conf.defaults import DRAIN_SECONDS
from conf.units import SECONDS_PER_HOUR
from environment.decisions.moves import (
    PAUSE,
    BoolArray,
    MovableExecutor,
    VmUse,
    believed_end,
    gain,
    in_turn,
    most_at_once,
    packed,
)
from environment.model.jobs.job_parts import JobParts
from environment.model.messages.events import Placement
from environment.model.messages.lease import Lease
from environment.model.messages.options import ModelOptions
from environment.model.messages.snapshot import MovesSnapshot
from environment.model.tasks.task_parts import TaskParts
from environment.model.vms.vm_parts import VmParts
from environment.resources import BASIC, CPUS
from environment.types import PlacementRequest
from environment.view import ClusterView

#: VMs that are tried in a search, those with the fewest executors, and how many of them together at most.
_TRIED, _TOGETHER = 64, 8
_BASIC = frozenset(BASIC)

_Executor = MovableExecutor[str]


class _EmptiedVms(NamedTuple):
    """Leases of VMs that close, and the index of the VM where each executor goes, by job and number."""

    closes: list[Lease]
    to: Mapping[str, Mapping[int, int]]


class VmMoves:
    """Moves executors while no job waits, at most `per_hour` of them within an hour.

    Invariant: a VM is emptied only if each of its executors has a place reserved on another VM in use.
    """

    def __init__(self, options: ModelOptions, vms: VmParts, jobs: JobParts, tasks: TaskParts) -> None:
        self._rule, self._jvms = options.moves, options.jvms
        self._turn = vms.turn
        self._roster = vms.roster
        self._ledger = vms.ledger
        self._places = vms.places
        self._reservations = vms.reservations
        self._line = jobs.line
        self._drivers = tasks.drivers
        self._decisions = tasks.decisions
        self._sought_at = 0.0
        #: Executors that were moved within the last hour, each by the time of its move.
        self._within_hour = deque[float]()

    def state(self) -> MovesSnapshot:
        """Time of the last search, and of each move within the last hour."""
        return MovesSnapshot(self._sought_at, tuple(self._within_hour))

    def resume(self, state: MovesSnapshot) -> None:
        """Restore the state."""
        self._sought_at, self._within_hour = state.sought_at, deque(state.moved)

    def due(self, now: float) -> bool:
        """Whether a search is due: the event `MovesSought` starts it."""
        return bool(self._rule and self._places) and now >= self._sought_at + PAUSE

    def seek(self, view: ClusterView) -> None:
        """Empty the VMs that are the first to pay for it, if no job waits: it would use the room first."""
        self._sought_at = self._turn.now
        if len(self._line) == 0 and (found := self._search(view, self._emptied())) is not None:
            self._begin(found, view)

    def _emptied(self) -> list[Lease]:
        """VMs that all executors are about to leave."""
        return [lease for lease in self._places if lease.notice is None and self._is_left(lease)]

    def _is_left(self, lease: Lease) -> bool:
        tasks = [self._roster.task(task_id) for task_id in self._ledger.task_ids(lease.vm_id)]
        return bool(tasks) and all(task is None or task.decommissioned_at is not None for task in tasks)

    # ---- search ------------------------------------------------------------------------------------------

    def _search(self, view: ClusterView, emptied: Sequence[Lease]) -> _EmptiedVms | None:
        leases, on = dict[int, Lease](), dict[int, list[_Executor]]()
        gives = cache(self._may_give)
        for index, lease in self._candidates(view):
            if executors := self._movable(lease, gives):
                leases[index], on[index] = lease, executors
                if len(on) == _TRIED:
                    break
        there = self._there(view)
        there[[view.index[lease.vm.id] for lease in emptied if lease.vm.id in view.index]] = False
        free = np.stack((view.free.get(CPUS), view.free_memory_mib.astype(np.int64)))
        use, barred = _use_of(view), cache(partial(self._barred, view=view))
        most = min(most_at_once(sum(map(_is_open, self._places)), len(emptied)), _TOGETHER)
        best, most_gained = None, 0.0
        for closes in in_turn([*on], most):
            executors = [each for index in closes for each in on[index]]
            if not self._allowed(len(executors)):
                continue
            stay = there.copy()
            stay[list(closes)] = False
            to, rest, longer = packed(executors, free, stay, barred, use)
            if rest:
                continue
            of = {index: leases[index] for index in closes}
            gained = self._gains(of, use, longer)
            if gained > most_gained:
                best, most_gained = _EmptiedVms([*of.values()], to), gained
        return best

    def _candidates(self, view: ClusterView) -> list[tuple[int, Lease]]:
        """VMs that may be emptied, by index: up, in use, nothing is reserved there; fewest tasks first."""
        found = []
        for lease in self._places:
            terms, index = lease.vm.terms, view.index.get(lease.vm.id, -1)
            pool = terms is not None and not terms.always
            if not pool or lease.state != "up" or lease.idle_since is not None or index < 0:
                continue
            if lease.vm.id not in view.left_out and not self._reservations.jobs_on(lease.vm_id):
                found.append((self._ledger.count(lease.vm_id), index, lease))
        return [(index, lease) for _, index, lease in sorted(found, key=lambda each: each[:2])]

    def _movable(self, lease: Lease, gives: Callable[[str], bool]) -> list[_Executor]:
        """The executors on the VM; none where one of them cannot be moved now, by its job or by itself."""
        found = list[_Executor]()
        for task_id in self._ledger.task_ids(lease.vm_id):
            task = self._roster.task(task_id)
            if task is None or task.number is None or task.state != "running":
                return []
            size = task.resources
            if not gives(task.job_id) or not size.thousandths.keys() <= _BASIC:
                return []
            found.append(MovableExecutor(task.job_id, task.number, size.get(CPUS), size.memory_mib))
        return found

    def _may_give(self, job_id: str) -> bool:
        """Whether the job runs with all of its executors, and its driver can be told to give some up."""
        job = self._roster.job(job_id)
        if job is None or job.state != "running" or not job.job.restartable or job.job.client_driver:
            return False
        if job.gives_way or job.failing or job.bounded or job.job.id in self._reservations:
            return False
        going = any(task.decommissioned_at or task.killed_at for task in self._roster.executors(job))
        return self._roster.stands(job) and not going and not self._roster.missing(job)

    def _there(self, view: ClusterView) -> BoolArray:
        """VMs that executors may be moved to: up, in use or always there; bool [N]."""
        up = view.is_open if view.openings is None else view.is_open & (view.openings.ready_at <= view.at)
        found: BoolArray = up & (_always(view) | (view.executors > 0))
        return found

    def _barred(self, job_id: str, view: ClusterView) -> BoolArray:
        """VMs that are closed to executors of the job, regardless of free resources; bool [N]."""
        job = self._roster.job(job_id)
        if job is None:
            return np.ones(len(view.vms), np.bool_)
        return view.closed_to(PlacementRequest(job.job, 1, again=True))

    def _allowed(self, executors: int) -> bool:
        """Whether so many executors may be moved now: within this hour, and beside those that run."""
        while self._within_hour and self._within_hour[0] <= self._turn.now - SECONDS_PER_HOUR:
            self._within_hour.popleft()
        if self._rule.per_hour is not None and len(self._within_hour) + executors > self._rule.per_hour:
            return False
        return self._jvms is None or sum(1 for _ in self._roster.all_open()) + executors <= self._jvms

    def _gains(self, closes: Mapping[int, Lease], use: VmUse[str], longer: float) -> float:
        """Dollars that it saves by beliefs to close VMs, by index, less draining and repeated work."""
        now, repeated = self._turn.now, 0.0
        for task_id in (each for lease in closes.values() for each in self._ledger.task_ids(lease.vm_id)):
            task = self._roster.task(task_id)
            if task is not None and task.running_at is not None:
                rework = self._roster.job_of(task).job.rework.drained
                repeated += rework * (now - task.running_at) * task.resources.cpus
        saved = math.fsum(
            float(use.prices[index]) * (float(use.until[index]) - now - DRAIN_SECONDS) for index in closes
        )
        per_core = _price(closes.values()) / sum(lease.vm.cpus for lease in closes.values())
        return gain(saved / SECONDS_PER_HOUR, repeated, per_core, longer)

    # ---- moves -------------------------------------------------------------------------------------------

    def _begin(self, found: _EmptiedVms, view: ClusterView) -> None:
        saved = f"which saves ${_price(found.closes):.2f} an hour"
        for job_id, to in found.to.items():
            job = self._roster.job(job_id)
            tasks = [] if job is None else [t for t in self._roster.executors(job) if t.number in to]
            if job is None or not tasks:
                continue
            self._drivers.give_up(job, tasks, f"its VM is being emptied, {saved}")
            self._within_hour += [self._turn.now] * len(tasks)
            if job in self._line and len({task.profile for task in tasks}) == 1:
                on = tuple(view.vms[to[task.number]].id for task in tasks if task.number is not None)
                sizes = tuple(task.resources for task in tasks)
                self._decisions.keep(job, Placement(job_id, on, None, sizes, tasks[0].profile))


def _is_open(lease: Lease) -> bool:
    return lease.state in ("opening", "booting", "up", "draining")


def _price(leases: Iterable[Lease]) -> float:
    """Dollars an hour of these VMs."""
    return math.fsum(lease.vm.price_per_hour for lease in leases)


def _use_of(view: ClusterView) -> VmUse[str]:
    """Until when VMs are believed to be used; those that are always there cost the same, used or not."""
    ends = {job.job.id: believed_end(job, view.at) for job in view.running}
    until = np.full(len(view.vms), view.at)
    for job in view.running:
        for vm_id in job.vm_ids:
            if (index := view.index.get(vm_id)) is not None:
                until[index] = max(float(until[index]), ends[job.job.id])
    return VmUse(until, np.where(_always(view), 0.0, view.list_prices_per_hour), ends)


def _always(view: ClusterView) -> BoolArray:
    """VMs that no move closes; bool [N]."""
    return np.array([vm.terms is None or vm.terms.always for vm in view.vms], np.bool_)
