"""Jobs that wait for room which only jobs of their own user hold: they hold up nobody else."""

from collections.abc import Mapping

import numpy as np

from conf.util.counted import counted
from environment.types import IntArray, PlacementRequest
from environment.view import ClusterView


def waits_for_own(view: ClusterView, request: PlacementRequest) -> str:
    """Which jobs of its own user a new job waits for; empty where it might run beside them.

    It might if all jobs of others ended. Jobs without an owner have nobody else's to hold up.
    """
    job = request.job
    if not job.owner or request.joins:
        return ""
    own = [running for running in view.running if running.job.owner == job.owner]
    if not own or not _fits(view, request, {}):
        return ""
    held: dict[str, IntArray] = {}
    for running in own:
        for vm_id, size in zip(running.vm_ids, running.taken, strict=False):
            if (index := view.index.get(vm_id)) is not None:
                for name, amount in size.thousandths.items():
                    held.setdefault(name, np.zeros(len(view.vms), np.int64))[index] += amount
    if _fits(view, request, held):
        return ""
    more = f" and {counted(len(own) - 1, 'other job')} of its user" if own[1:] else ", a job of its user"
    return f"it would fit only without {own[0].job.id}{more}; jobs of others do not wait for it"


def _fits(view: ClusterView, request: PlacementRequest, held: Mapping[str, IntArray]) -> bool:
    """Whether its fewest executors fit the VMs, where only so much is held of them (thousandths, [N])."""
    room = np.full(len(view.vms), request.fewest, np.int64)
    for name, amount in request.size.thousandths.items():
        free = view.capacity.get(name) - held.get(name, 0)
        room = np.minimum(room, np.maximum(free, 0) // amount)
    if view.closes_some(request):
        room = np.where(view.closed_to(request), 0, room)
    return int(room.sum()) >= request.fewest
