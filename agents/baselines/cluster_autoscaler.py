"""Placement as under Cluster Autoscaler, which knows no durations: a partner for comparisons on elastic VMs.

kube-scheduler places on VMs that are open, and Cluster Autoscaler opens VMs for executors that fit on none.
The idle policy is configured elsewhere (`--keep timeout:600`, `scale-down-unneeded-time`). It moves no
executors of Spark: pods that no controller recreates keep a VM from being drained, says its FAQ.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from agents.baselines.filling import fill
from agents.baselines.scored import allocated, level, share
from environment.decisions.feasibility import shortage
from environment.types import Decision, IntArray, Place, PlacementRequest, Wait
from environment.view import ClusterView


@dataclass(frozen=True, slots=True)
class ClusterAutoscalerOptions:
    """Options of kube-scheduler and Cluster Autoscaler; the defaults are theirs."""

    #: `spread`: on the least allocated open VM (NodeResourcesFit's `LeastAllocated`). `pack`: on the most
    #: allocated one (`MostAllocated`).
    scoring: Literal["spread", "pack"] = "spread"
    #: The type of which VMs are opened. `least_waste`: what leaves the least share of cpus and memory unused.
    #: `priority`: the cheapest VM that takes an executor, by priorities that users set so.
    expander: Literal["least_waste", "priority"] = "least_waste"


class ClusterAutoscaler:
    """Like Cluster Autoscaler: spreads over or packs open VMs, and opens VMs of one type for the rest."""

    def __init__(self, options: ClusterAutoscalerOptions) -> None:
        self._options = options

    def decide(self, view: ClusterView, queue: Sequence[PlacementRequest]) -> Decision:
        """Place the head of the queue on open VMs, and open VMs for the remaining executors."""
        request = queue[0]
        room = np.minimum(view.room_for(request), request.count)
        if room.sum() < request.count:
            return Wait(shortage(view, request))
        there = np.where(view.is_open, room, 0)
        count = min(int(there.sum()), request.count)
        if self._options.scoring == "spread":
            placement = level(there, -allocated(view, request), share(view, request), count)
            what = "is the least allocated open VM with room for it"
        else:
            placement = tuple(fill(there, np.argsort(-allocated(view, request), kind="stable"), count))
            what = "is the most allocated open VM with room for it"
        opened = self._opened(view, request, np.where(view.is_open, 0, room), request.count - count)
        why = [f"{view.vms[i].name} {what}" for i in placement]
        why += [f"no open VM has room; {view.vms[i].name} is opened" for i in opened]
        return Place(request.job.id, (*placement, *opened), tuple(why))

    def _opened(self, view: ClusterView, request: PlacementRequest, room: IntArray, count: int) -> list[int]:
        """VMs for `count` executors, type by type as the expander prefers them."""
        placement = list[int]()
        types = np.array([vm.type for vm in view.vms])
        while len(placement) < count:
            options = [
                fill(np.where(types == name, room, 0), np.arange(len(types)), count - len(placement))
                for name in dict.fromkeys(types[room > 0].tolist())
            ]
            best = min(options, key=lambda option: self._badness(view, request, option))
            placement += best
            room = np.where(types == types[best[0]], 0, room)
        return placement

    def _badness(self, view: ClusterView, request: PlacementRequest, option: list[int]) -> float:
        """The expander's objective for an option: executors on VMs that are opened for them."""
        vms = np.unique(option)
        if self._options.expander == "priority":
            return float(view.prices_per_hour[vms].min())
        cpus = len(option) * request.cpus / view.cpus[vms].sum()
        memory = len(option) * request.memory_mib / view.memory_mib[vms].sum()
        return float(2.0 - cpus - memory)
