"""Jobs that wait for room which only jobs of their own user hold: they hold up nobody else."""

from collections.abc import Iterator

import numpy as np

from environment.resource_arrays import ResourceArrays
from environment.resources import Resources
from environment.types import IntArray, PlacementRequest
from environment.view import ClusterView, RunningJob


def waits_for_own(view: ClusterView, request: PlacementRequest) -> bool:
    """Whether a job, new or without executors, lacks room that only jobs of its own user hold.

    It would not fit beside them had all jobs of others ended. Jobs without an owner have nobody else's to
    hold up.
    """
    owner = request.job.owner
    if not owner or request.grows:
        return False
    own = [running for running in view.running if running.job.owner == owner]
    if not own or not _fits(view, request, view.capacity):
        return False
    held = [each for running in own for each in _held(view, running)]
    vms = np.array([vm for vm, _ in held], np.int64)
    taken = ResourceArrays.taken(len(view.vms), vms, [size for _, size in held])
    return not _fits(view, request, view.capacity - taken)


def _held(view: ClusterView, running: RunningJob) -> Iterator[tuple[int, Resources]]:
    """The VMs, by number in the view, of a job's executors and driver, with what each takes."""
    sizes = running.taken
    if len(running.vm_ids) > len(sizes) and running.job.driver is not None:
        sizes = (*sizes, running.job.driver)  # it stands last
    for vm_id, size in zip(running.vm_ids, sizes, strict=False):
        if (vm := view.index.get(vm_id)) is not None:
            yield vm, size


def _fits(view: ClusterView, request: PlacementRequest, free: ResourceArrays) -> bool:
    """Whether its fewest executors, and its driver, fit the VMs with so much free."""

    def room(of: ResourceArrays) -> IntArray:
        found = of.room(request.size)
        return np.where(view.closed_to(request), 0, found) if view.closes_some(request) else found

    alone, driver = room(free), request.job.driver
    if driver is None or request.joins:
        return int(alone.sum()) >= request.fewest
    every = np.arange(len(view.vms))
    beside = room(free - ResourceArrays.taken(len(every), every, (driver,) * len(every)))
    fits = free.contains(driver) & ~view.closed_to(request.for_driver())
    return bool((fits & (alone.sum() - alone + beside >= request.fewest)).any())
