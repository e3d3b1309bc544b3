"""Even placement over a given number of VMs, for measuring the effect of a placement on a job."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from conf.util.counted import counted
from environment.decisions.feasibility import shortage
from environment.types import Decision, Place, PlacementRequest, Wait
from environment.view import ClusterView


@dataclass(frozen=True, slots=True)
class EvenOptions:
    """Number of VMs."""

    vms: int = 1

    def __post_init__(self) -> None:
        if self.vms < 1:
            raise ValueError(f"vms: should be 1 or more, found {self.vms}")


class Even:
    """Even: equal shares of a job's executors on a fixed number of VMs, the first with room for a share."""

    def __init__(self, options: EvenOptions) -> None:
        self._vms = options.vms

    def decide(self, view: ClusterView, queue: Sequence[PlacementRequest]) -> Decision:
        """Place the head of the queue, or wait until the VMs have room; never on more or fewer VMs."""
        request = queue[0]
        vms = min(self._vms, request.count)
        share = -(-request.count // vms)
        chosen = np.flatnonzero(view.room_for(request) >= share)[:vms]
        if len(chosen) < vms:
            found = f"room for {counted(share, 'executor')} each is on {len(chosen)} of {counted(vms, 'VM')}"
            return Wait(f"{found}: {shortage(view, request)}")
        placement = tuple(int(chosen[executor % vms]) for executor in range(request.count))
        why = tuple(f"{view.vms[i].name} is one of {vms} that share the job evenly" for i in placement)
        return Place(request.job.id, placement, why)
