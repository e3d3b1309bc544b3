"""A cluster view and a queue as an episode of the kernel, so that the future of a decision can be played.

Time is counted from the view's own, in grains of it (see `grain_of`), and running executors are sorted by
end: equal views are the same situation, independent of their origin of time and of the order of their running
jobs. Facts that the view lacks are assumed: jobs of unknown duration take `unknown` seconds, as passed by the
caller.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from agents.estimates import duration_of, effective_prices
from agents.lookahead.draws import NO_DRAWS, Draws
from environment.kernel.leases import BOOT, CLOSES, GRANULARITY, KEEP, MINIMUM, READY, TAKEN
from environment.kernel.state import ANYWHERE, PREFERENCES, Batch, Rules, blank, make_batch
from environment.resources import CPUS, MEMORY, THOUSANDTHS, Resources
from environment.types import FloatArray, PlacementRequest, Vm
from environment.view import ClusterView, RunningJob

#: A job is that many grains, or less than twice as many.
_GRAINS = 2.0**17
#: For how many seconds at most an idle VM of a pool is believed to be kept; less where it boots sooner.
_IDLE = 30.0
#: Batches are made for so many jobs and executors more than are needed, so that they are seldom made.
_SPARE = 64


def grain_of(queue: Sequence[PlacementRequest], unknown: float) -> float:
    """Seconds to which times are rounded where these jobs wait: a small part of the first job's duration.

    Rounding errors of computed times depend on their origin, and a search that compares them would prefer the
    other of two equal placements because of them. The grain is a power of two, relative to the jobs: with all
    times twice as long, everything is the same.
    """
    seconds = duration_of(queue[0].job, unknown)
    return 2.0 ** math.floor(math.log2(seconds)) / _GRAINS if seconds > 0.0 else 1.0 / _GRAINS


class Group(NamedTuple):
    """Equal running executors: seconds until they end, the resources of each, and their VMs (by index)."""

    end: float
    milli_cpus: int
    memory_mib: int
    vms: list[int]
    #: The same by draw; empty where nothing is drawn.
    drawn: tuple[float, ...] = ()


class Situations:
    """Makes situations in the same arrays again and again.

    The batch has two rows: 0 is the situation, 1 has its machines and jobs and no state of its own.
    """

    def __init__(self, rules: Rules, unknown_duration: float, draws: Draws = NO_DRAWS) -> None:
        self._rules = rules
        self._draws = draws
        self._loaded: list[Group] = []
        self._unknown = unknown_duration
        self._grain = 0.0
        self._vms: tuple[Vm, ...] = ()
        self._index: dict[str, int] = {}
        self._batch: Batch | None = None

    def load(self, view: ClusterView, queue: Sequence[PlacementRequest]) -> Batch:
        """The batch with this view and queue as row 0; the queue's first request is the head."""
        self._grain = grain_of(queue, self._unknown)
        groups = self._groups(view)
        executors = sum(len(group.vms) for group in groups) + sum(request.count for request in queue)
        batch = self._room_for(view, len(groups) + len(queue), executors)
        # A VM has one price for all that is played: that for the job which is decided about first.
        batch.machines.price_per_hour[:] = effective_prices(view, queue[0].job, self._unknown)
        self._load_jobs(batch, groups, queue)
        _load_state(batch, view, groups, queue)
        _load_leases(batch, view, self._grain)
        self._loaded = groups
        return batch

    def drawn(self, view: ClusterView, queue: Sequence[PlacementRequest]) -> tuple[FloatArray, FloatArray]:
        """Samples for the last load: ends of running groups, [K, R], and `Draws.of_waiting`, [K, M].

        K is 0 where nothing is sampled, and where all durations are certain.
        """
        jobs = (*(request.job for request in queue), *(running.job for running in view.running))
        certain = all(job.spread <= 0.0 and job.expected_duration is not None for job in jobs)
        count = 0 if certain else self._draws.count
        if count == 0:
            return np.zeros((0, 0)), np.zeros((0, 0))
        ends = [group.drawn or (group.end,) * count for group in self._loaded]
        by_draw = np.ascontiguousarray(np.array(ends).reshape(len(ends), count).T)
        return by_draw, self._draws.of_waiting(queue)

    def _groups(self, view: ClusterView) -> list[Group]:
        """Running groups, by end. Executors of a VM that are of no running job of the view are one group."""
        self._know(view.vms)
        held = view.capacity - view.free
        cpus, memory = held.get(CPUS).tolist(), (-(-held.get(MEMORY) // THOUSANDTHS)).tolist()
        unexplained = view.executors.tolist()
        groups = []
        for job in view.running:
            alike: dict[Resources, list[int]] = {}
            for vm, size in zip(map(self._index.get, job.vm_ids), job.taken, strict=False):
                milli_cpus, memory_mib = size.get(CPUS), size.memory_mib
                if vm is not None and cpus[vm] >= milli_cpus and memory[vm] >= memory_mib:
                    cpus[vm] -= milli_cpus
                    memory[vm] -= memory_mib
                    unexplained[vm] -= 1
                    alike.setdefault(size, []).append(vm)
            left, drawn = self._seconds_left(view, job), self._drawn_left(view, job)
            for size, vms in alike.items():
                groups.append(Group(left, size.get(CPUS), size.memory_mib, sorted(vms), drawn))
        if any(count > 0 for count in unexplained):
            ends = view.busy_until_assuming(self._unknown).tolist()
            rest = (vm for vm, count in enumerate(unexplained) if count > 0)
            groups += [Group(self._left(ends[vm] - view.at), cpus[vm], memory[vm], [vm]) for vm in rest]
        return sorted(groups)

    def _know(self, vms: tuple[Vm, ...]) -> None:
        if vms is not self._vms:
            self._vms, self._index = vms, {vm.id: i for i, vm in enumerate(vms)}

    def _seconds_left(self, view: ClusterView, job: RunningJob) -> float:
        return self._left(job.end_assuming(view.at, self._unknown) - view.at)

    def _drawn_left(self, view: ClusterView, job: RunningJob) -> tuple[float, ...]:
        if not self._draws.count:
            return ()
        seconds = self._draws.seconds_left(job, view.at)
        return tuple(map(self._left, seconds))

    def _left(self, seconds: float) -> float:
        return max(round(seconds / self._grain), 1) * self._grain

    def _room_for(self, view: ClusterView, jobs: int, executors: int) -> Batch:
        """The batch with this cluster, with room for `jobs` jobs and `executors` executors."""
        batch = self._batch
        if (
            batch is None
            or batch.jobs.arrival.shape[1] < jobs
            or batch.state.placement.shape[1] < executors
            or batch.machines.milli_cpus.shape[1] != len(view.vms)
            or bool(batch.machines.leases.shape[1]) != (view.openings is not None)
        ):
            size = len(view.vms), jobs + _SPARE, executors + 8 * _SPARE
            batch = make_batch([blank(*size, pooled=view.openings is not None)] * 2, self._rules)
            self._batch = batch
        batch.machines.milli_cpus[:] = view.capacity.get(CPUS)
        batch.machines.memory_mib[:] = view.capacity.get(MEMORY) // THOUSANDTHS
        return batch

    def _load_jobs(self, batch: Batch, groups: Sequence[Group], queue: Sequence[PlacementRequest]) -> None:
        jobs, size = batch.jobs, len(groups) + len(queue)
        rows = [(group.milli_cpus, group.memory_mib, len(group.vms), ANYWHERE, 0.0) for group in groups]
        for request in queue:
            # Where a job's other executors are is not known to the kernel, so lost ones may go anywhere.
            prefers = ANYWHERE if request.joins else PREFERENCES[request.job.prefers]
            duration = max(duration_of(request.job, self._unknown), self._grain)
            rows.append((request.size.get(CPUS), request.memory_mib, request.count, prefers, duration))
        cpus, memory, executors, prefer, durations = zip(*rows, strict=True)
        jobs.jobs[:] = size
        jobs.milli_cpus[:, :size] = cpus
        jobs.memory_mib[:, :size] = memory
        jobs.executors[:, :size] = executors
        jobs.prefers[:, :size] = prefer
        jobs.duration[:, :size] = durations
        jobs.first[:, :size] = np.cumsum(executors) - executors


def _load_state(
    batch: Batch, view: ClusterView, groups: Sequence[Group], queue: Sequence[PlacementRequest]
) -> None:
    """Write row 0's state, and the constant part of row 1's: VMs and ends of running jobs."""
    state, running = batch.state, len(groups)
    placement = [vm for group in groups for vm in group.vms]
    ends = np.array([group.end for group in groups], dtype=np.float64)
    state.placement[:, : len(placement)] = placement
    state.end[:, :running] = ends
    state.heap[0, :running] = np.arange(running)  # the sorted list is a heap
    state.clock[0], state.head[0], state.running[0] = 0.0, running, running
    state.left[0] = queue[0].count
    # Resources that are not offered yet are taken to be held by others.
    state.free_milli_cpus[0] = view.usable.get(CPUS)
    state.free_memory_mib[0] = view.usable.get(MEMORY) // THOUSANDTHS
    state.held[0] = np.bincount(placement, minlength=len(view.vms)) if placement else 0
    state.since[0], state.used[0], state.busy_until[0] = 0.0, 0.0, 0.0
    lasting = [len(group.vms) for group in groups]
    np.maximum.at(state.busy_until[0], placement, np.repeat(ends, lasting))


def _load_leases(batch: Batch, view: ClusterView, grain: float) -> None:
    """Write the VMs that are open in row 0, and the opening times of others; earlier payments are past."""
    openings, leases = view.openings, batch.machines.leases[0]
    if openings is None:
        return
    leases[:] = 0.0
    leases[:, TAKEN] = batch.state.taken[:] = math.inf  # the end of a spot VM is unknown
    for row, vm in zip(leases, view.vms, strict=True):
        if vm.terms is None or vm.terms.always:
            row[KEEP] = math.inf
        else:
            boot, unit = vm.terms.boot, vm.terms.granularity
            row[[BOOT, KEEP, MINIMUM, GRANULARITY]] = boot, min(boot, _IDLE), vm.terms.minimum, unit
    leases[:, READY] = np.round((openings.ready_at - view.at) / grain) * grain
    leases[:, CLOSES] = np.where(openings.open, leases[:, KEEP], -1.0)
    leases[openings.open & (view.executors > 0), CLOSES] = math.inf
    leases[openings.open, MINIMUM] = 0.0
