"""The one check between a decision and its execution, whoever decided; and what fits a cluster at all."""

from collections import Counter
from collections.abc import Iterable

import numpy as np

from environment.types import CPU_TOLERANCE, ClusterView, Place, PlacementRequest, Shortfall, Vm


def check(view: ClusterView, request: PlacementRequest, place: Place) -> tuple[str, ...]:
    """Return why the placement cannot be executed on this view; empty when it can.

    Holds that the job is the request's, that every executor has exactly one known VM, and that no VM
    is asked for more than it has free (Islam 2022, eq. 1-3).
    """
    if place.job_id != request.job.id:
        return (f"decided about {place.job_id}, which does not wait; {request.job.id} is next",)
    if len(place.placement) != request.count:
        return (f"{len(place.placement)} executors placed, {request.count} needed",)
    unknown = sorted({index for index in place.placement if not 0 <= index < len(view.vms)})
    if unknown:
        return tuple(f"VM {index} is not one of the {len(view.vms)} VMs" for index in unknown)
    return tuple(str(shortfall) for shortfall in _shortfalls(view, request, place.placement))


def _shortfalls(
    view: ClusterView, request: PlacementRequest, placement: tuple[int, ...]
) -> Iterable[Shortfall]:
    for index, count in sorted(Counter(placement).items()):
        free = float(view.free_cpus[index]), float(view.free_memory_mib[index])
        yield from shortfalls(view.vms[index], *free, request.cpus * count, request.memory_mib * count)


def shortfalls(
    vm: Vm, free_cpus: float, free_memory_mib: float, cpus: float, memory_mib: int
) -> list[Shortfall]:
    """What a VM with so much free lacks to take so many cpus and MiB."""
    found = []
    if cpus > free_cpus + CPU_TOLERANCE:
        found.append(Shortfall(vm.name, "cpus", cpus, free_cpus))
    if memory_mib > free_memory_mib:
        found.append(Shortfall(vm.name, "MiB", memory_mib, free_memory_mib))
    return found


def shortage(view: ClusterView, request: PlacementRequest) -> str:
    """Say in a sentence why the request's executors do not all fit now: a policy's reason to wait."""
    asked = f"{request.cpus:g} cpus and {request.memory_mib} MiB"
    if not view.vms:
        return f"there is no VM now for {request.count} executors of {asked}"
    room = int(np.minimum(view.room_for(request), request.count).sum())
    lacks = {
        "cpus": np.count_nonzero(view.free_cpus + CPU_TOLERANCE < request.cpus),
        "memory": np.count_nonzero(view.free_memory_mib < request.memory_mib),
    }
    short = " and ".join(f"{vms} lack {resource}" for resource, vms in lacks.items() if vms)
    found = f"room for {min(room, request.count)} of {request.count} executors of {asked}"
    return f"{found}; of {len(view.vms)} VMs, {short}" if short else found


def whole_cluster_shortfall(vms: Iterable[Vm], cpus: float, memory_mib: int, executors: int) -> str | None:
    """Say why `executors` such executors could not run even on the empty cluster; None when they could.

    Used at submission, so that no job is accepted that could only wait for ever.
    """
    vms = list(vms)
    if not vms:
        return None
    room = [_room_when_empty(vm, cpus, memory_mib) for vm in vms]
    asked = f"{cpus:g} cpus and {memory_mib} MiB"
    if not any(room):
        largest = max(vms, key=lambda vm: (vm.cpus, vm.memory_mib))
        return (
            f"an executor of {asked} fits no VM of the cluster; the largest is {largest.name} "
            f"({largest.type}) with {largest.cpus:g} cpus and {largest.memory_mib} MiB"
        )
    if sum(room) < executors:
        return f"the empty cluster has room for {sum(room)} executors of {asked}, {executors} are asked for"
    return None


def _room_when_empty(vm: Vm, cpus: float, memory_mib: int) -> int:
    return min(int((vm.cpus + CPU_TOLERANCE) / cpus), vm.memory_mib // memory_mib)
