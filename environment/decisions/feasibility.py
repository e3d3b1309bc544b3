"""The one check between every decision and its execution; and checks of fit on a whole cluster."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import reduce
from operator import or_

import numpy as np

from conf.schema import SpotUse
from conf.util.counted import counted
from environment import last_resort
from environment.number_format import clock
from environment.offered import EXECUTOR_PORTS
from environment.resources import BASIC, LEAST, MEMORY, STEPS, THOUSANDTHS, Resources, told, total, word
from environment.types import Place, PlacementRequest, Vm
from environment.view import ClusterView

#: Number of unavailable VMs that a reason names; the others are counted. Chosen: a few lines of text.
_CLOSED_NAMED = 3
#: What one VM does that several do.
_OF_ONE = {"lack": "lacks", "have": "has", "are": "is"}


@dataclass(frozen=True, slots=True)
class Shortfall:
    """Lack of an executor on a VM: the resource, the requested amount, and the free amount."""

    vm: str
    resource: str
    requested: float
    free: float

    def __str__(self) -> str:
        return f"{self.vm} has {told(self.resource, self.free)} free, {self.requested:.10g} needed"


def check(view: ClusterView, request: PlacementRequest, place: Place) -> tuple[str, ...]:
    """Why the placement cannot be executed on this view; empty when it can.

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
        return (f"{counted(len(place.placement), 'executor')} placed, {needed} needed",)
    if len(place.sizes) not in (0, len(place.placement)):
        return (f"{counted(len(place.sizes), 'size')} for {counted(len(place.placement), 'executor')}",)
    if wrong := tuple(_wrong_sizes(request, place)):
        return wrong
    unknown = sorted({index for index in place.placement if not 0 <= index < len(view.vms)})
    if unknown:
        return tuple(f"VM {index} is not one of the {counted(len(view.vms), 'VM')}" for index in unknown)
    if wrong := tuple(_closed(view, request, place)):
        return wrong
    return tuple(_shortfalls(view, request, place))


def _closed(view: ClusterView, request: PlacementRequest, place: Place) -> Iterator[str]:
    if not view.closes_some(request):
        return
    for index in sorted(set(place.placement)):
        if why := closed(view, index, request):
            yield why


def closed(view: ClusterView, index: int, request: PlacementRequest) -> str | None:
    """Return why a VM does not accept the request, regardless of free resources; None when it does."""
    vm = view.vms[index]
    if why := view.left_out.get(vm.id):
        return f"{vm.name} {why}"
    if why := request.job.barred(vm):
        return f"{vm.name} {why}"
    if vm.id in request.avoided:
        why = f"since the last launch of {request.job.id} there never ran, or would have cost too much"
        return f"{vm.name} is avoided for a while, {why}"
    if view.outlasts(request, vm.id):
        end = clock(view.leaves_at[vm.id])
        return f"{vm.name} goes into maintenance at {end}, before {request.job.id} would be over"
    return None


def _wrong_sizes(request: PlacementRequest, place: Place) -> Iterator[str]:
    """Executors that are given more than is asked for them, or too little to run."""
    for number, (size, asked) in enumerate(
        zip(place.sizes, request.asked, strict=False), request.first_number
    ):
        least = least_of(asked)
        for name in (asked | size) if size != asked else ():
            if not least.get(name) <= size.get(name) <= asked.get(name):
                given, most = told(name, size.amount(name)), f"{asked.amount(name):.10g}"
                enough = f"{least.amount(name):.10g} to {most}" if name in LEAST.thousandths else most
                yield f"executor {number} is given {given}, not {enough}"
        for name, step in STEPS.items():
            if size.get(name) % step:
                given = told(name, size.amount(name))
                yield f"executor {number} is given {given}, not in steps of {step / THOUSANDTHS:g}"


def least_of(asked: Resources) -> Resources:
    """Minimum resources for an executor with this request: all of each resource that cannot be cut."""
    return (asked & LEAST) + asked.without(LEAST.thousandths)


def _shortfalls(view: ClusterView, request: PlacementRequest, place: Place) -> Iterator[str]:
    counts = Counter(place.placement)
    if place.sizes or request.sizes:
        granted: dict[int, list[Resources]] = {}
        for index, size in zip(place.placement, request.granted(place), strict=True):
            granted.setdefault(index, []).append(size)
        demand = {index: total(sizes) for index, sizes in granted.items()}
    else:
        size, free, everything = request.size, view.free, view.offered is None
        full = (i for i, count in counts.items() if not (everything and free.holds(i, size, count)))
        demand = {index: size * counts[index] for index in full}
    for index, wanted in sorted(demand.items()):
        found = shortfalls(view.vms[index], view.free.at(index), wanted)
        yield from map(str, found)
        if not found and (why := not_offered(view, index, wanted, counts[index])):
            yield why


def shortfalls(vm: Vm, free: Resources, wanted: Resources) -> list[Shortfall]:
    """Shortfalls of a VM with these free resources for the wanted ones."""
    if free.contains(wanted):
        return []
    return [
        Shortfall(vm.name, word(name), wanted.amount(name), free.amount(name))
        for name in free.missing(wanted)
    ]


def not_offered(view: ClusterView, index: int, wanted: Resources, executors: int) -> str | None:
    """Return why this amount of a VM may not be used now although it is free: the master has not offered it.

    `wanted` is the total of so many executors. None when it may be used.
    """
    offered, vm = view.offered, view.vms[index]
    if offered is None:
        return None
    if not offered.there[index]:
        return f"{vm.name} has no offer from the master yet"
    if found := shortfalls(vm, offered.resources.at(index), wanted):
        lacks = ", ".join(told(short.resource, short.free) for short in found)
        return f"only {lacks} of the free resources of {vm.name} are offered yet"
    if offered.ports[index] < executors * EXECUTOR_PORTS:
        return str(Shortfall(vm.name, "ports", executors * EXECUTOR_PORTS, float(offered.ports[index])))
    return None


def shortage(view: ClusterView, request: PlacementRequest) -> str:
    """Return in a sentence why the request's executors do not all fit now: a policy's reason to wait.

    A VM lacks the resources that we or others hold; those free but not offered (yet) are reported separately.
    """
    asked = request.size
    if not view.vms:
        return f"no VM is known now for {counted(request.count, 'executor')} of {asked}"
    room = int(np.minimum(view.room_for(request), request.count).sum())
    lacks = {_lack(name): view.free.get(name) < asked.get(name) for name in asked}
    closed_to = view.closed_to(request) if view.closes_some(request) else np.zeros(len(view.vms), np.bool_)
    if (offered := view.offered) is not None:
        fit = ~np.logical_or.reduce([*lacks.values(), closed_to])
        lacks["lack ports"] = offered.lacks_ports()
        missing = fit & (view.room_for(request) == 0) & ~lacks["lack ports"]
        lacks["have no offer from the master yet"] = missing & ~offered.there
        lacks["are offered only in part yet"] = missing & offered.there
    counts = {what: int(np.count_nonzero(vms)) for what, vms in lacks.items()}
    found = _short(asked, room, request.count, request.fewest, counts, len(view.vms))
    if offered is not None and missing.any():
        found = "; ".join((found, *view.limits))
    whys = [why for index in np.flatnonzero(closed_to).tolist() if (why := closed(view, index, request))]
    more = f" (and {len(whys) - _CLOSED_NAMED} more)" if len(whys) > _CLOSED_NAMED else ""
    resort = [why] if view.extras and (why := last_resort.told(view, request)) else []
    return "; ".join((found, *resort, *whys[:_CLOSED_NAMED])) + more


def told_shortage(
    asked: Resources, room: int, count: int, fewest: int, lacking: Mapping[str, int], vms: int
) -> str:
    """The same where there is room for so many executors, and of so many VMs these lack each resource."""
    return _short(asked, room, count, fewest, {_lack(name): lacking.get(name, 0) for name in asked}, vms)


def _lack(name: str) -> str:
    return f"lack {'memory' if name == MEMORY else name}"


def _short(asked: Resources, room: int, count: int, fewest: int, counts: Mapping[str, int], vms: int) -> str:
    short = " and ".join(
        f"{number} {_OF_ONE[verb] if number == 1 else verb} {what}"
        for (verb, _, what), number in ((each.partition(" "), number) for each, number in counts.items())
        if number
    )
    enough = f" ({fewest} are enough)" if fewest < count else ""
    found = f"room for {min(room, count)} of {counted(count, 'executor')} of {asked}{enough}"
    return f"{found}; of {counted(vms, 'VM')}, {short}" if short else found


def nowhere(use: SpotUse, vms: Iterable[Vm], barred: Callable[[Vm], str]) -> str:
    """Return why a job with this use of spot VMs is barred from all of these VMs."""
    others = (vm for vm in vms if use != ("never" if vm.spot else "only"))
    more = next((f"; {vm.name} {barred(vm)}" for vm in others), "")
    return f"there is no VM that it may use (spot: {use}){more}"


def whole_cluster_shortfall(
    vms: Iterable[Vm], each: Resources, executors: int, fewest: int | None = None
) -> str | None:
    """Return why these executors could not run even on the empty cluster; None when they could."""
    vms = list(vms)
    if not vms:
        return None
    room = [vm.resources // each for vm in vms]
    if not any(room):
        there = reduce(or_, (vm.resources for vm in vms))
        if missing := [name for name in each if not there.get(name)]:
            none = " or ".join(map(word, missing))
            return f"an executor of {each} fits no VM of the cluster: none has {none}"
        others = [name for name in each if name not in BASIC]
        largest = max(vms, key=lambda vm: tuple(map(vm.resources.get, (*others, *BASIC))))
        has = largest.resources.without({*largest.resources} - {*each})
        return (
            f"an executor of {each} fits no VM of the cluster; the largest is {largest.name} "
            f"({largest.type}) with {has.text(each)}"
        )
    if sum(room) < (executors if fewest is None else fewest):
        wanted = f"{executors} are asked for" if fewest is None else f"{fewest} are needed at least"
        return f"the empty cluster has room for {counted(sum(room), 'executor')} of {each}, {wanted}"
    return None
