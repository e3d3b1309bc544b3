"""First fit (Islam 2022, 7.1): as many executors as possible on the first VM that has room."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from agents.baselines.filling import fill, open_first
from environment.decisions.feasibility import shortage
from environment.types import Decision, IntArray, Job, Place, PlacementRequest, Vm, Wait
from environment.view import ClusterView, RunningJob

if TYPE_CHECKING:
    from environment.kernel.play_loop import Trace
    from environment.kernel.resized_jobs import SparedResources
    from environment.kernel.state import Batch


class FirstFit:
    """First fit: as many executors as fit on the first VM, then on the next; closed VMs come last."""

    #: It never waits while the first job fits.
    bounds_waits = True

    def decide(self, view: ClusterView, queue: Sequence[PlacementRequest]) -> Decision:
        """Place the head of the queue on the first VMs with room, or wait."""
        request = queue[0]
        order = open_first(view, np.arange(len(view.vms)))
        placement = fill(view.room_for(request), order, request.count)
        if len(placement) < request.count:
            return Wait(shortage(view, request))
        return Place(request.job.id, tuple(placement), _why(view.vms, placement))

    def player(
        self,
        jobs: Sequence[Job],
        vms: Sequence[Vm],
        running: Mapping[int, RunningJob],  # noqa: ARG002
        *,
        exact: bool,  # noqa: ARG002
    ) -> "FirstFitPlayer":
        """The same in compiled code: `environment.policy.CompiledPolicy`; nothing that is believed counts."""
        return FirstFitPlayer(len(jobs), vms)


class FirstFitPlayer:
    """First fit in a world that the kernel knows whole: `environment.policy.Player`."""

    def __init__(self, jobs: int, vms: Sequence[Vm]) -> None:
        self.order: IntArray = np.arange(jobs)
        self._vms = vms

    def play(self, batch: "Batch", spared: "SparedResources", trace: "Trace", until: int) -> bool:
        """Play row 0 until `until` jobs are placed."""
        from agents.baselines.kernel.filling import play_first_fit  # here, since it brings numba

        return bool(play_first_fit(batch, spared, trace, until))

    def place(self, number: int, job: Job, placement: tuple[int, ...]) -> Place:  # noqa: ARG002
        """The decision that placed the job there."""
        return Place(job.id, placement, _why(self._vms, placement))

    def wait(self, number: int, shortage: str) -> Wait:  # noqa: ARG002
        """A decision to wait."""
        return Wait(shortage)


def _why(vms: Sequence[Vm], placement: Sequence[int]) -> tuple[str, ...]:
    return tuple(f"{vms[vm].name} is the first VM with room for it" for vm in placement)
