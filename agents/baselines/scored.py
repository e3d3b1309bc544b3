"""Rules that score every VM and take the best, as the schedulers of Kubernetes and Nomad do.

Ties go to the VM that comes first in the view. The scores are handed on, for explanations.
"""

import heapq
from collections.abc import Sequence

import numpy as np

from agents.baselines.filling import fill, open_first
from environment.decisions.feasibility import shortage
from environment.types import Decision, FloatArray, IntArray, Place, PlacementRequest, Wait
from environment.view import ClusterView

#: Best fit's reason for the VM that it fills.
LEAST_FREE = "keeps the least free"


class BestFit:
    """Best fit: the VM with the least free cpus and memory after placing the executor."""

    def decide(self, view: ClusterView, queue: Sequence[PlacementRequest]) -> Decision:
        """Fill the tightest VMs first, or wait."""
        return _fill_best(view, queue[0], LEAST_FREE, -_left(view, queue[0]))


class MostAllocated:
    """Bin packing: the VM with the largest allocated share after placing the executor."""

    def decide(self, view: ClusterView, queue: Sequence[PlacementRequest]) -> Decision:
        """Fill the fullest VMs first, or wait."""
        return _fill_best(view, queue[0], "is the most allocated", allocated(view, queue[0]))


class DominantFit:
    """Dominant fit: the VM with its scarcer resource allocated most after placing the executor.

    It applies the dominant share of DRF (Ghodsi 2011) to the choice of VMs. It does not order the queue;
    `drf` does.
    """

    def decide(self, view: ClusterView, queue: Sequence[PlacementRequest]) -> Decision:
        """Fill first the VMs with the least left of one resource, or wait."""
        request = queue[0]
        cpus = 1 - (view.free_cpus - request.cpus) / view.cpus
        memory = 1 - (view.free_memory_mib - request.memory_mib) / view.memory_mib
        which = "has the scarcest resource the most allocated"
        return _fill_best(view, request, which, np.maximum(cpus, memory))


class LeastAllocated:
    """Spreading: each executor goes to the VM with the smallest allocated share after placing it."""

    def decide(self, view: ClusterView, queue: Sequence[PlacementRequest]) -> Decision:
        """Place executor by executor on the emptiest VM, or wait."""
        request = queue[0]
        score, step = -allocated(view, request), share(view, request)
        return _place_each(view, request, "is the least allocated", score, step)


class Tetris:
    """As Tetris packs (Grandl 2014): each executor goes to the VM with the free resources that it fits best.

    Alignment is the dot product of what the executor needs and what the VM has free, both as shares of the
    VM. Tetris prefers jobs with little work left besides: `overtake=shortest`.
    """

    def decide(self, view: ClusterView, queue: Sequence[PlacementRequest]) -> Decision:
        """Place executor by executor on the VM that aligns best, or wait."""
        request = queue[0]
        cpus, memory = request.cpus / view.cpus, request.memory_mib / view.memory_mib
        score = cpus * view.free_cpus / view.cpus + memory * view.free_memory_mib / view.memory_mib
        return _place_each(view, request, "aligns best", score, cpus**2 + memory**2)


def _place_each(
    view: ClusterView, request: PlacementRequest, which: str, score: FloatArray, step: FloatArray
) -> Decision:
    """Place each executor on the best open VM, and lower the VM's score by `step`; or wait."""
    room = view.room_for(request)
    if np.minimum(room, request.count).sum() < request.count:
        return Wait(shortage(view, request))
    there = room if view.openings is None else np.where(view.is_open, room, 0)
    count = min(int(np.minimum(there, request.count).sum()), request.count)
    placement = level(there, score, step, count)
    why = [f"{view.vms[i].name} {which} of the VMs with room for it" for i in placement]
    opened = fill(room - there, np.argsort(-score, kind="stable"), request.count - count)
    why += [f"no open VM has room; {view.vms[i].name} is opened" for i in opened]
    return Place(request.job.id, (*placement, *opened), tuple(why), tuple(score.tolist()))


def _fill_best(view: ClusterView, request: PlacementRequest, which: str, score: FloatArray) -> Decision:
    # Taking an executor only raises a VM's score, so the best VM stays the best until it is full.
    order = open_first(view, np.argsort(-score, kind="stable"))
    placement = fill(view.room_for(request), order, request.count)
    if len(placement) < request.count:
        return Wait(shortage(view, request))
    why = tuple(why_filled(view.vms[i].name, which) for i in placement)
    return Place(request.job.id, tuple(placement), why, tuple(score.tolist()))


def why_filled(vm: str, which: str) -> str:
    """Reason why an executor goes to the VM of that name."""
    return f"{vm} {which} of the VMs with room for it"


def level(room: IntArray, score: FloatArray, step: FloatArray, count: int) -> tuple[int, ...]:
    """Assign each of `count` executors to the best VM, and lower that VM's score by its step."""
    fits = np.flatnonzero(room)
    best = fits[np.argsort(-score[fits], kind="stable")[:count]]
    heap = [(-float(score[i]), int(i)) for i in best]
    heapq.heapify(heap)
    left, placement = dict(zip(best.tolist(), room[best].tolist(), strict=True)), []
    for _ in range(count):
        badness, index = heapq.heappop(heap)
        placement.append(index)
        left[index] -= 1
        if left[index]:
            heapq.heappush(heap, (badness + float(step[index]), index))
    return tuple(placement)


def share(view: ClusterView, request: PlacementRequest) -> FloatArray:
    """An executor's share of each VM, averaged over cpus and memory; float64 [N]."""
    shares: FloatArray = (request.cpus / view.cpus + request.memory_mib / view.memory_mib) / 2
    return shares


def allocated(view: ClusterView, request: PlacementRequest) -> FloatArray:
    """Allocated share of each VM after placing an executor there; float64 [N]."""
    free: FloatArray = (view.free_cpus / view.cpus + view.free_memory_mib / view.memory_mib) / 2
    return 1 - free + share(view, request)


def _left(view: ClusterView, request: PlacementRequest) -> FloatArray:
    """Free cpus plus memory of each VM after an executor, as shares of the largest VM; float64 [N]."""
    if not view.vms:
        return np.zeros(0)
    cpus = (view.free_cpus - request.cpus) / view.cpus.max()
    left: FloatArray = cpus + (view.free_memory_mib - request.memory_mib) / view.memory_mib.max()
    return left
