"""Jobs that wait for room which only jobs of their own user hold: they hold up nobody else."""

from collections.abc import Mapping

import numpy as np

from conf.util.counted import counted
from environment.types import IntArray, PlacementRequest
from environment.view import ClusterView


def waits_for_own(view: ClusterView, request: PlacementRequest) -> str:
    """Which jobs of its own user a job waits for, new or without executors; empty where it fits beside them.

    It fits if it would had all jobs of others ended. Jobs without an owner have nobody else's to hold up.
    """
    job = request.job
    if not job.owner or request.grows:
        return ""
    own = [running for running in view.running if running.job.owner == job.owner]
    if not own or not _fits(view, request, {}):
        return ""
    held: dict[str, IntArray] = {}
    for running in own:
        sizes = running.taken
        if len(running.vm_ids) > len(sizes) and running.job.driver is not None:
            sizes = (*sizes, running.job.driver)  # it stands last
        for vm_id, size in zip(running.vm_ids, sizes, strict=False):
            if (index := view.index.get(vm_id)) is not None:
                for name, amount in size.thousandths.items():
                    held.setdefault(name, np.zeros(len(view.vms), np.int64))[index] += amount
    if _fits(view, request, held):
        return ""
    more = f" and {counted(len(own) - 1, 'other job')} of its user" if own[1:] else ", a job of its user"
    return f"it would fit only without {own[0].job.id}{more}; jobs of others do not wait for it"


def _fits(view: ClusterView, request: PlacementRequest, held: Mapping[str, IntArray]) -> bool:
    """Whether its fewest executors, and its driver, fit the VMs of which only so much is held.

    `held` are thousandths, [N] each.
    """

    def room(driver: Mapping[str, int]) -> IntArray:
        found = np.full(len(view.vms), request.fewest, np.int64)
        for name, amount in request.size.thousandths.items():
            free = view.capacity.get(name) - held.get(name, 0) - driver.get(name, 0)
            found = np.minimum(found, np.maximum(free, 0) // amount)
        return np.where(view.closed_to(request), 0, found) if view.closes_some(request) else found

    alone, driver = room({}), request.job.driver
    if driver is None or request.joins:
        return int(alone.sum()) >= request.fewest
    fits = ~view.closed_to(request.for_driver())
    for name, amount in driver.thousandths.items():
        fits &= view.capacity.get(name) - held.get(name, 0) >= amount
    beside = int(alone.sum()) - alone + room(driver.thousandths)
    return bool((fits & (beside >= request.fewest)).any())
