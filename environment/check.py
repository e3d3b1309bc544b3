"""The one check between a decision and its execution, whoever decided; and what fits a cluster at all."""

from collections import Counter
from collections.abc import Iterable, Iterator

import numpy as np

from environment import amounts
from environment.amounts import NOTHING, TOLERANCE, Amounts
from environment.offered import EXECUTOR_PORTS
from environment.types import CPU_TOLERANCE, LEAST, ClusterView, Place, PlacementRequest, Shortfall, Vm
from environment.words import clock

#: So many VMs that are left out are named in a reason, the others counted. Chosen: what fits a few lines.
_CLOSED_NAMED = 3

#: What arithmetic may leave beyond the thousandths of a cpu.
_ROUNDING = 1e-9


def check(view: ClusterView, request: PlacementRequest, place: Place) -> tuple[str, ...]:
    """Return why the placement cannot be executed on this view; empty when it can.

    Holds that the job is the request's, that there are as many executors as it needs, that every one has
    exactly one known VM and no more than is asked for it, and that no VM is asked for more than it has free
    (Islam 2022, eq. 1-3).
    """
    if place.job_id != request.job.id:
        return (f"decided about {place.job_id}, which does not wait; {request.job.id} is next",)
    if not request.fewest <= len(place.placement) <= request.count:
        needed = (
            f"{request.count}" if request.fewest == request.count else f"{request.fewest} to {request.count}"
        )
        return (f"{len(place.placement)} executors placed, {needed} needed",)
    if len(place.sizes) not in (0, len(place.placement)):
        return (f"{len(place.sizes)} sizes for {len(place.placement)} executors",)
    if wrong := tuple(_wrong_sizes(request, place)):
        return wrong
    unknown = sorted({index for index in place.placement if not 0 <= index < len(view.vms)})
    if unknown:
        return tuple(f"VM {index} is not one of the {len(view.vms)} VMs" for index in unknown)
    if wrong := tuple(_closed(view, request, place)):
        return wrong
    return tuple(_shortfalls(view, request, place))


def _closed(view: ClusterView, request: PlacementRequest, place: Place) -> Iterator[str]:
    for index in sorted(set(place.placement)):
        if why := closed(view, index, request):
            yield why


def closed(view: ClusterView, index: int, request: PlacementRequest) -> str | None:
    """Say why a VM is no place for the request, whatever is free there; None when it may be."""
    vm = view.vms[index]
    if why := view.left_out.get(vm.id):
        return f"{vm.name} {why}"
    if vm.id in request.avoided:
        return f"{vm.name} is avoided for a while, since the last launch of {request.job.id} there never ran"
    if view.outlasts(request, vm.id):
        end = clock(view.leaves_at[vm.id])
        return f"{vm.name} goes into maintenance at {end}, before {request.job.id} would be over"
    return None


def _wrong_sizes(request: PlacementRequest, place: Place) -> Iterator[str]:
    """Executors that are given more than is asked for them, too little to run, or what Mesos cannot count."""
    for number, (size, asked) in enumerate(
        zip(place.sizes, request.asked, strict=False), request.first_number
    ):
        for name, given, most, least in (
            ("cpus", size.cpus, asked.cpus, LEAST.cpus),
            ("MiB", size.memory_mib, asked.memory_mib, LEAST.memory_mib),
        ):
            if not min(least, most) - CPU_TOLERANCE <= given <= most + CPU_TOLERANCE:
                yield f"executor {number} is given {given:g} {name}, not {min(least, most):g} to {most:g}"
        if abs(size.cpus - round(size.cpus, 3)) > _ROUNDING:
            yield f"executor {number} is given {size.cpus!r} cpus, of which Mesos keeps three decimals"


def _shortfalls(view: ClusterView, request: PlacementRequest, place: Place) -> Iterator[str]:
    counts = Counter(place.placement)
    if not (place.sizes or request.sizes):
        demand = {i: (request.cpus * n, request.memory_mib * n) for i, n in counts.items()}
    else:
        demand = {}
        for index, size in zip(place.placement, request.granted(place), strict=True):
            cpus, memory_mib = demand.get(index, (0.0, 0))
            demand[index] = (cpus + size.cpus, memory_mib + size.memory_mib)
    for index, wanted in sorted(demand.items()):
        taken = {name: amount * counts[index] for name, amount in request.job.resources.items()}
        free = float(view.free_cpus[index]), float(view.free_memory_mib[index])
        found = shortfalls(view.vms[index], *free, *wanted)
        if request.job.resources:
            found += resource_shortfalls(view.vms[index], free_on(view, index, taken), taken)
        yield from map(str, found)
        if not found and (why := not_offered(view, index, *wanted, counts[index], taken)):
            yield why


def shortfalls(
    vm: Vm, free_cpus: float, free_memory_mib: float, cpus: float, memory_mib: float
) -> list[Shortfall]:
    """What a VM with so much free lacks to take so many cpus and MiB."""
    found = []
    if cpus > free_cpus + CPU_TOLERANCE:
        found.append(Shortfall(vm.name, "cpus", cpus, free_cpus))
    if memory_mib > free_memory_mib:
        found.append(Shortfall(vm.name, "MiB", memory_mib, free_memory_mib))
    return found


def resource_shortfalls(vm: Vm, free: Amounts, wanted: Amounts) -> list[Shortfall]:
    """What a VM with so much free beside cpus and memory lacks to take this."""
    return [
        Shortfall(vm.name, name, amount, free.get(name, 0.0))
        for name, amount in wanted.items()
        if amount > free.get(name, 0.0) + TOLERANCE
    ]


def free_on(view: ClusterView, index: int, names: Iterable[str]) -> dict[str, float]:
    """What of these resources, beside cpus and memory, is free on a VM of the view."""
    free = view.free_resources
    return {name: round(float(free[name][index]), 3) if name in free else 0.0 for name in names}


def not_offered(
    view: ClusterView,
    index: int,
    cpus: float,
    memory_mib: float,
    executors: int,
    resources: Amounts = NOTHING,
) -> str | None:
    """Say why so much of a VM may not be used now although it is free: the master has not offered it.

    `resources` is what the executors take in all beside cpus and memory. None when it may be used.
    """
    offered, vm = view.offered, view.vms[index]
    if offered is None:
        return None
    if not offered.there[index]:
        return f"{vm.name} has no offer from the master yet"
    found = shortfalls(vm, float(offered.cpus[index]), float(offered.memory_mib[index]), cpus, memory_mib)
    there = {name: float(offered.resources[name][index]) for name in resources if name in offered.resources}
    found += resource_shortfalls(vm, there, resources)
    if found:
        lacks = ", ".join(f"{short.free:.10g} {short.resource}" for short in found)
        return f"{vm.name} has only {lacks} offered yet of what is free"
    if offered.ports[index] < executors * EXECUTOR_PORTS:
        return str(Shortfall(vm.name, "ports", executors * EXECUTOR_PORTS, float(offered.ports[index])))
    return None


def shortage(view: ClusterView, request: PlacementRequest) -> str:
    """Say in a sentence why the request's executors do not all fit now: a policy's reason to wait.

    A VM lacks what is held of it, by us or by others; what is free but not offered (yet) is told apart.
    """
    asked = amounts.text(request.cpus, request.memory_mib, request.job.resources)
    if not view.vms:
        return f"no VM is known now for {request.count} executors of {asked}"
    room = int(np.minimum(view.room_for(request), request.count).sum())
    lacks = {
        "lack cpus": view.free_cpus + CPU_TOLERANCE < request.cpus,
        "lack memory": view.free_memory_mib < request.memory_mib,
    }
    for name, amount in request.job.resources.items():
        free = view.free_resources.get(name, np.zeros(len(view.vms)))
        lacks[f"lack {name}"] = free + TOLERANCE < amount
    closed_to = view.closed_to(request)
    if (offered := view.offered) is not None:
        fit = ~np.logical_or.reduce([*lacks.values(), closed_to])
        lacks["lack ports"] = offered.lacks_ports()
        missing = fit & (view.room_for(request) == 0) & ~lacks["lack ports"]
        lacks["have no offer from the master yet"] = missing & ~offered.there
        lacks["are offered only in part yet"] = missing & offered.there
    short = " and ".join(f"{count} {what}" for what, vms in lacks.items() if (count := np.count_nonzero(vms)))
    enough = f" ({request.fewest} are enough)" if request.fewest < request.count else ""
    found = f"room for {min(room, request.count)} of {request.count} executors of {asked}{enough}"
    found = f"{found}; of {len(view.vms)} VMs, {short}" if short else found
    if offered is not None and missing.any():
        found = "; ".join((found, *view.limits))
    whys = [why for index in np.flatnonzero(closed_to).tolist() if (why := closed(view, index, request))]
    more = f" (and {len(whys) - _CLOSED_NAMED} more)" if len(whys) > _CLOSED_NAMED else ""
    return "; ".join((found, *whys[:_CLOSED_NAMED])) + more


def whole_cluster_shortfall(
    vms: Iterable[Vm],
    cpus: float,
    memory_mib: int,
    executors: int,
    resources: Amounts = NOTHING,
    fewest: int | None = None,
) -> str | None:
    """Say why `executors` such executors could not run even on the empty cluster; None when they could.

    A job that also runs on fewer could when its `fewest` could.

    Used at submission, so that no job is accepted that could only wait for ever.
    """
    vms = list(vms)
    if not vms:
        return None
    room = [room_when_empty(vm, cpus, memory_mib, resources) for vm in vms]
    asked = amounts.text(cpus, memory_mib, resources)
    if not any(room):
        has = {name: max(vm.resources.get(name, 0.0) for vm in vms) for name in resources}
        if missing := [name for name, amount in has.items() if not amount]:
            return f"an executor of {asked} fits no VM of the cluster: none has {' or '.join(missing)}"
        largest = max(vms, key=lambda vm: (*_amounts_of(vm, resources).values(), vm.cpus, vm.memory_mib))
        offers = amounts.text(largest.cpus, largest.memory_mib, _amounts_of(largest, resources))
        return (
            f"an executor of {asked} fits no VM of the cluster; the largest is {largest.name} "
            f"({largest.type}) with {offers}"
        )
    if sum(room) < (executors if fewest is None else fewest):
        wanted = f"{executors} are asked for" if fewest is None else f"{fewest} are needed at least"
        return f"the empty cluster has room for {sum(room)} executors of {asked}, {wanted}"
    return None


def _amounts_of(vm: Vm, names: Iterable[str]) -> dict[str, float]:
    return {name: vm.resources.get(name, 0.0) for name in names}


def room_when_empty(vm: Vm, cpus: float, memory_mib: int, resources: Amounts) -> int:
    """For how many executors of so much each the VM has room when nothing else runs there."""
    room = min(int((vm.cpus + CPU_TOLERANCE) / cpus), vm.memory_mib // memory_mib)
    fitting = (int((vm.resources.get(name, 0.0) + TOLERANCE) / amount) for name, amount in resources.items())
    return min((room, *fitting))
