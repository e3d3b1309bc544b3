"""Adaptive executor placement (Islam 2022, 7.1): each job as its type prefers, spread or consolidated."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from agents.baselines.filling import deal, fill
from environment.decisions.feasibility import shortage
from environment.kernel.state import PREFERENCES
from environment.types import Decision, IntArray, Job, Place, PlacementRequest, Preference, Vm, Wait
from environment.view import ClusterView, RunningJob

if TYPE_CHECKING:
    from environment.kernel.play_loop import Trace
    from environment.kernel.resized_jobs import SparedResources
    from environment.kernel.state import Batch


@dataclass(frozen=True, slots=True)
class AepOptions:
    """Options of adaptive executor placement."""

    #: Placement of jobs whose type has no profile; to spread is Spark's own default.
    unknown: Preference = "spread"


class AdaptiveExecutorPlacement:
    """Adaptive executor placement: spreads or consolidates each job, as its type prefers."""

    #: It never waits while the first job fits.
    bounds_waits = True

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
        return Place(request.job.id, tuple(placement), _why(request.job, prefers, view.vms, placement))

    def player(
        self,
        jobs: Sequence[Job],
        vms: Sequence[Vm],
        running: Mapping[int, RunningJob],  # noqa: ARG002
        *,
        exact: bool,  # noqa: ARG002
    ) -> "AdaptivePlayer":
        """The same in compiled code: `environment.policy.CompiledPolicy`; nothing that is believed counts."""
        return AdaptivePlayer(self._unknown, len(jobs), vms)


class AdaptivePlayer:
    """Adaptive executor placement in a world that the kernel knows whole: `environment.policy.Player`."""

    def __init__(self, unknown: Preference, jobs: int, vms: Sequence[Vm]) -> None:
        self.order: IntArray = np.arange(jobs)
        self._unknown: Preference = unknown
        self._vms = vms
        self._cheapest = np.argsort([vm.price_per_hour for vm in vms], kind="stable")
        self._room, self._used = np.zeros((2, len(vms)), np.int64)

    def play(self, batch: "Batch", spared: "SparedResources", trace: "Trace", until: int) -> bool:
        """Play row 0 until `until` jobs are placed."""
        from agents.baselines.kernel.adapting import play_adaptive  # here, since it brings numba

        unknown = PREFERENCES[self._unknown]
        arrays = self._cheapest, self._room, self._used
        return bool(play_adaptive(batch, spared, trace, until, unknown, *arrays))

    def place(self, number: int, job: Job, placement: tuple[int, ...]) -> Place:  # noqa: ARG002
        """The decision that placed the job there."""
        return Place(job.id, placement, _why(job, job.prefers or self._unknown, self._vms, placement))

    def wait(self, number: int, shortage: str) -> Wait:  # noqa: ARG002
        """A decision to wait."""
        return Wait(shortage)


def _why(job: Job, prefers: Preference, vms: Sequence[Vm], placement: Sequence[int]) -> tuple[str, ...]:
    known = f"{job.type} prefers to be" if job.prefers else "by default a job is"
    return tuple(f"{known} {_HOW[prefers]}: {vms[vm].name} {_WHICH[prefers]}" for vm in placement)


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
    """Mask of the VMs that hold an executor of the job already; bool [N]."""
    return np.array([vm.id in request.present_on for vm in view.vms], dtype=np.bool_)
