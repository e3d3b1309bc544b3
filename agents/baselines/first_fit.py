"""First fit (Islam 2022, 7.1): as many executors as possible on the first VM that has room."""

from collections.abc import Sequence

import numpy as np

from agents.baselines.filling import fill, open_first
from environment.check import shortage
from environment.types import Decision, Place, PlacementRequest, Wait
from environment.view import ClusterView


class FirstFit:
    """First fit: as many executors as fit on the first VM, then on the next; closed VMs come last."""

    def decide(self, view: ClusterView, queue: Sequence[PlacementRequest]) -> Decision:
        """Place the head of the queue on the first VMs with room, or wait."""
        request = queue[0]
        order = open_first(view, np.arange(len(view.vms)))
        placement = fill(view.room_for(request), order, request.count)
        if len(placement) < request.count:
            return Wait(shortage(view, request))
        why = tuple(f"{view.vms[i].name} is the first VM with room for it" for i in placement)
        return Place(request.job.id, tuple(placement), why)
