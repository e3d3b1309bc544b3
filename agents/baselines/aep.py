"""Adaptive executor placement (Islam 2022, 7.1): each job as its type prefers, spread or consolidated."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from agents.baselines.filling import deal, fill
from environment.check import shortage
from environment.types import Decision, IntArray, Place, PlacementRequest, Wait
from environment.view import ClusterView


@dataclass(frozen=True, slots=True)
class AepOptions:
    """Options of adaptive executor placement."""

    #: How jobs are placed whose type has no profile; to spread is what Spark itself does by default.
    unknown: Literal["spread", "consolidate"] = "spread"


class AdaptiveExecutorPlacement:
    """Adaptive executor placement: spreads or consolidates each job, as its type prefers."""

    def __init__(self, options: AepOptions) -> None:
        self._unknown = options.unknown

    def decide(self, view: ClusterView, queue: Sequence[PlacementRequest]) -> Decision:
        """Place the head of the queue as its type prefers, or as near to that as there is room, or wait."""
        request = queue[0]
        room = np.minimum(view.room_for(request), request.count)
        if room.sum() < request.count:
            return Wait(shortage(view, request))
        prefers = request.job.prefers or self._unknown
        place = _spread if prefers == "spread" else _consolidate
        placement = place(view, request, room)
        known = f"{request.job.type} prefers to be" if request.job.prefers else "by default a job is"
        why = tuple(f"{known} {_HOW[prefers]}: {view.vms[i].name} {_WHICH[prefers]}" for i in placement)
        return Place(request.job.id, tuple(placement), why)


_HOW = {"spread": "spread", "consolidate": "consolidated"}
_WHICH = {"spread": "is next in a row of different VMs", "consolidate": "holds as many executors as it can"}


def _spread(view: ClusterView, request: PlacementRequest, room: IntArray) -> list[int]:
    """An executor on each of as many VMs as there are: those without the job first, then those in use."""
    order = np.lexsort((view.prices_per_hour, _unused(view), _hold_it(view, request)))
    return deal(room, order, request.count)


def _consolidate(view: ClusterView, request: PlacementRequest, room: IntArray) -> list[int]:
    """All on one VM, or on as few as will do.

    First where the job is already, then where most executors fit; among equals VMs in use, then the cheapest.
    """
    order = np.lexsort((view.prices_per_hour, _unused(view), -room, ~_hold_it(view, request)))
    return fill(room, order, request.count)


def _unused(view: ClusterView) -> IntArray:
    """0 for VMs in use, 1 for those that are not, 2 for those that are closed; int64 [N]."""
    unused: IntArray = (view.executors == 0).astype(np.int64)
    if view.openings is not None:
        unused[~view.openings.open] = 2
    return unused


def _hold_it(view: ClusterView, request: PlacementRequest) -> "np.ndarray[tuple[int], np.dtype[np.bool_]]":
    """Which VMs hold an executor of the job already; bool [N]."""
    return np.array([vm.id in request.present_on for vm in view.vms], dtype=np.bool_)
