"""Placement as under Karpenter, which knows no durations: a partner for comparisons on elastic VMs.

The idle policy and moves are configured elsewhere: Karpenter closes empty VMs (`--keep none` or a short
timeout), and others by its rules of consolidation (`--consolidate`).
"""

from collections.abc import Sequence

import numpy as np

from agents.baselines.filling import fill
from environment.decisions.feasibility import shortage
from environment.types import Decision, IntArray, Place, PlacementRequest, Wait
from environment.view import ClusterView


class Karpenter:
    """Like Karpenter: fills open VMs, and opens the cheapest VMs for the remaining executors."""

    def decide(self, view: ClusterView, queue: Sequence[PlacementRequest]) -> Decision:
        """Place the head of the queue on open VMs, the fullest first, and open VMs for the rest."""
        request = queue[0]
        room = np.minimum(view.room_for(request), request.count)
        if room.sum() < request.count:
            return Wait(shortage(view, request))
        there = np.where(view.is_open, room, 0)
        placement = fill(there, np.lexsort((view.free_cpus,)), request.count)
        why = [f"{view.vms[i].name} is the fullest open VM with room for it" for i in placement]
        opened = _cheapest(view, np.where(view.is_open, 0, room), request.count - len(placement))
        why += [
            f"no VM that is open has room; {view.vms[i].name} is the cheapest for the rest" for i in opened
        ]
        return Place(request.job.id, (*placement, *opened), tuple(why))


def _cheapest(view: ClusterView, room: IntArray, count: int) -> list[int]:
    """VMs for `count` executors: the cheapest that takes all, or else those with the cheapest room first."""
    room, placement = room.copy(), list[int]()
    while len(placement) < count:
        left = count - len(placement)
        taken = np.minimum(room, left)
        # One that takes all of the rest is the cheapest such; of those that do not, by the price of a place.
        price = np.where(taken > 0, view.prices_per_hour / np.maximum(taken, 1), np.inf)
        vm = int(np.lexsort((view.prices_per_hour, price))[0])
        placement += [vm] * int(taken[vm])
        room[vm] = 0
    return placement
