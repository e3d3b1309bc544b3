"""First fit (Islam 2022, 7.1): as many executors as possible on the first VM that has room."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from agents.baselines.filling import fill, open_first
from environment.check import shortage
from environment.types import Decision, Place, PlacementRequest, Vm, Wait
from environment.view import ClusterView

if TYPE_CHECKING:
    from environment.kernel.playing import Trace
    from environment.kernel.sized import Spared
    from environment.kernel.state import Batch


class FirstFit:
    """First fit: as many executors as fit on the first VM, then on the next; closed VMs come last."""

    def decide(self, view: ClusterView, queue: Sequence[PlacementRequest]) -> Decision:
        """Place the head of the queue on the first VMs with room, or wait."""
        request = queue[0]
        order = open_first(view, np.arange(len(view.vms)))
        placement = fill(view.room_for(request), order, request.count)
        if len(placement) < request.count:
            return Wait(shortage(view, request))
        why = tuple(self.why(view.vms[i]) for i in placement)
        return Place(request.job.id, tuple(placement), why)

    def why(self, vm: Vm) -> str:
        """Why an executor is placed on that VM."""
        return f"{vm.name} is the first VM with room for it"

    def play(self, batch: "Batch", spared: "Spared", trace: "Trace", until: int) -> bool:
        """Decide as `decide` does, in compiled code, until so many jobs are placed."""
        from agents.baselines.kernel.filling import play_first_fit  # here, since it brings numba

        return bool(play_first_fit(batch, spared, trace, until))
