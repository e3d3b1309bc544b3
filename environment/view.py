"""The policy's view: the cluster at one moment, the same in a simulation and in the daemon.

It is made of belief alone. Its builders, from a model's records or from an episode, only name the VMs of each
running job and its start; the ends of running jobs are computed here, and no builder can set them.
"""

import math
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from conf.util.fixed_mapping import fixed
from environment.barred_vms import ANYWHERE, Bars
from environment.kernel.expected_end import expected_end
from environment.last_resort import extras_of, last_resort
from environment.offered import DRIVER_PORTS, EXECUTOR_PORTS, OfferedResources
from environment.pools import Openings, Terms
from environment.resource_arrays import ResourceArrays
from environment.resources import BASIC, CPUS, NOTHING, Resources
from environment.scale_up import Grown, expected_of
from environment.types import FloatArray, IntArray, Job, PlacementRequest, Vm

_BASIC = frozenset(BASIC)
#: Share of a covered price by which policies still choose.
_COVERED_PRICE = 0.01
Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class RunningJob:
    """A placed job as a policy sees it: the VMs of its executors, its start and its expected duration.

    `expected` is the number of seconds that it was expected to take when it started, on its placement; None
    when that is not known, and 0 when it is over and only its executors still have to go. A driver on the
    cluster comes last among `vm_ids`. `sizes` are the resources of each executor; empty when there are as
    many executors as the job asks for, and each takes the requested ones. `grown` lists when executors
    joined it while it ran.
    """

    job: Job
    vm_ids: tuple[str, ...]
    started_at: float
    expected: float | None
    sizes: tuple[Resources, ...] = ()
    grown: tuple[Grown, ...] = ()

    def end_at(self, now: float) -> float | None:
        """Believed end of the job, given that it still runs at `now`; None when that is not known."""
        return None if self.expected is None else self.end_assuming(now, self.expected)

    def end_assuming(self, now: float, unknown: float) -> float:
        """Believed end, where a job of unknown duration is assumed to last for so many seconds."""
        seconds = unknown if self.expected is None else self.expected
        return expected_end(now, self.started_at, seconds, self.job.spread)

    @property
    def taken(self) -> tuple[Resources, ...]:
        """Resources of each executor, in the order of `vm_ids`."""
        return self.sizes or (self.job.size,) * min(len(self.vm_ids), self.job.executors)

    def joined(
        self, vm_ids: tuple[str, ...], sizes: tuple[Resources, ...], grows_at: float | None = None
    ) -> "RunningJob":
        """The job with executors more, on these VMs and of these sizes, after which none is missing.

        They are more than before from `grows_at` on; without, they are where lost ones were.
        """
        taken, grown = self.taken, self.grown
        there, driver = self.vm_ids[: len(taken)], self.vm_ids[len(taken) :]
        on, taken = (*there, *vm_ids), (*taken, *sizes)
        if grows_at is not None:
            grown = (*grown, Grown(grows_at, len(there), len(taken)))
        expected = expected_of(self.job, taken, on, self.started_at, grown)
        sizes = () if taken == self.job.asked else taken
        return replace(self, vm_ids=(*on, *driver), expected=expected, sizes=sizes, grown=grown)


class _AssumedEnds(NamedTuple):
    """Believed ends of these running jobs, where those of unknown duration take `unknown` seconds."""

    unknown: float
    running: tuple[RunningJob, ...]
    #: Latest end on each VM; float64 [N]; minus infinity without any.
    latest: FloatArray
    #: End of each running job; float64.
    ends: FloatArray


class VmProperty(Generic[Value]):
    """A property that follows from the VMs alone, computed once for all views of them."""

    def __init__(self, compute: Callable[["ClusterView"], Value]) -> None:
        self._compute, self._name, self.__doc__ = compute, compute.__name__, compute.__doc__

    def __get__(self, view: "ClusterView", _: type) -> Value:
        shared: dict[str, Any] = view.__dict__["_of_vms"]
        if self._name not in shared:
            shared[self._name] = self._compute(view)
        # The view's own attribute is found before this descriptor from now on.
        found: Value = view.__dict__.setdefault(self._name, shared[self._name])
        return found


@dataclass(frozen=True, eq=False)
class ClusterView:
    """An immutable picture of the cluster at one moment; arrays are indexed like `vms`.

    Arrays and mappings are read-only: decisions are checked, and later ones made, on the same view.

    `free` has the free cpus, memory and other resources that a known job asks for, `executors` counts the
    executors on each VM, `running` has the jobs that hold VMs: the times until which they do follow from
    that alone, the same in every world. `offered` is the part usable now; without it, as in a simulation,
    everything that is free. `left_out` has, by VM id, the reason why nothing is placed there now (`is left
    out until ...`), `leaves_at` the time when others are taken away (seconds), for maintenance that was
    planned: no job is placed there that is known to last longer. `limits` lists the resources that the
    master withholds, such as those over a quota. `openings` says which VMs are open and when others could
    be, where some come and go. `covered` is the share of each VM that commitments pay anyway, or would if
    closed ones were opened in their order; float64 [N]; without, nothing is. `room_for` counts with the
    resources that may be used.
    """

    at: float
    vms: tuple[Vm, ...]
    free: ResourceArrays
    executors: IntArray
    running: tuple[RunningJob, ...] = field(default=(), repr=False)
    offered: OfferedResources | None = None
    left_out: Mapping[str, str] = field(default_factory=dict)
    leaves_at: Mapping[str, float] = field(default_factory=dict)
    limits: tuple[str, ...] = ()
    openings: Openings | None = None
    covered: FloatArray | None = None

    def __post_init__(self) -> None:
        self.executors.flags.writeable = False
        if self.covered is not None:
            self.covered.flags.writeable = False
        self.__dict__.update(left_out=fixed(self.left_out), leaves_at=fixed(self.leaves_at))
        # Shared with the views that `changed` makes of it, whichever of them needs a value first.
        self.__dict__.setdefault("_of_vms", {})
        self.__dict__.setdefault("_ends", [])

    @VmProperty
    def list_prices_per_hour(self) -> FloatArray:
        """Price of each VM, dollars per hour; float64 [N]."""
        return _read_only(np.array([vm.price_per_hour for vm in self.vms], dtype=np.float64))

    @cached_property
    def unpaid_prices_per_hour(self) -> FloatArray:
        """Price of each VM less the part that is paid anyway, dollars per hour; float64 [N]."""
        prices: FloatArray = self.list_prices_per_hour
        return prices if self.covered is None else _read_only(prices * (1.0 - self.covered))

    @cached_property
    def prices_per_hour(self) -> FloatArray:
        """Dollars per hour by which policies choose VMs: prices, less what is paid anyway; float64 [N].

        A hundredth of a covered price remains: of two VMs that are paid for anyway, the dearer one is the
        greater loss to other jobs.
        """
        if self.covered is None:
            return self.unpaid_prices_per_hour
        least = _COVERED_PRICE * self.list_prices_per_hour
        return _read_only(np.maximum(self.unpaid_prices_per_hour, least))

    @VmProperty
    def spot(self) -> "NDArray[np.bool_]":
        """VMs that their cloud may take away; bool [N]."""
        return _read_only(np.array([vm.spot for vm in self.vms], np.bool_))

    @VmProperty
    def distinct_terms(self) -> tuple[Sequence[Terms | None], IntArray]:
        """The terms that VMs have, each once, and the index of each VM's among them; int64 [N].

        Kept, since policies ask for each job, and to compare the terms of thousands of VMs takes seconds.
        """
        found: dict[Terms | None, int] = {}
        index = [found.setdefault(vm.terms, len(found)) for vm in self.vms]
        return tuple(found), _read_only(np.array(index, np.int64))

    @VmProperty
    def capacity(self) -> ResourceArrays:
        """Capacity of each VM, for the resources that the view shows."""
        return ResourceArrays.of([vm.resources for vm in self.vms], self.free.thousandths)

    @property
    def cpus(self) -> FloatArray:
        """Capacity of each VM, cpus; float64 [N]."""
        return self.capacity.cpus

    @property
    def memory_mib(self) -> FloatArray:
        """Capacity of each VM, MiB; float64 [N]."""
        return self.capacity.memory_mib

    @property
    def free_cpus(self) -> FloatArray:
        """Free cpus of each VM; float64 [N]."""
        return self.free.cpus

    @property
    def free_memory_mib(self) -> FloatArray:
        """Free memory of each VM, MiB; float64 [N]."""
        return self.free.memory_mib

    @cached_property
    def is_open(self) -> "NDArray[np.bool_]":
        """VMs that are up or booting: on others a job opens one, and waits for it; bool [N]."""
        return _read_only(np.ones(len(self.vms), np.bool_)) if self.openings is None else self.openings.open

    @cached_property
    def usable(self) -> ResourceArrays:
        """Resources of each VM that are free and may be used now."""
        return self.free if self.offered is None else self.free & self.offered.resources

    @VmProperty
    def index(self) -> Mapping[str, int]:
        """Index of each VM, by its id."""
        return fixed({vm.id: number for number, vm in enumerate(self.vms)})

    @cached_property
    def busy_until(self) -> FloatArray:
        """Time until which each VM is believed to be held, seconds; float64 [N], read-only.

        The view's own time when it is free, NaN when that is not known of one that holds it.
        """
        ends = (job.end_at(self.at) for job in self.running)
        return _read_only(
            self._last(self._latest([math.nan if end is None else end for end in ends]), math.nan)
        )

    def busy_until_assuming(self, unknown: float) -> FloatArray:
        """Same as `busy_until`, but unknown durations are assumed to last for so many seconds.

        As long from now on where the occupants of a VM are unknown.
        """
        return self._assuming(unknown)[0].copy()

    def next_end_assuming(self, unknown: float) -> float:
        """Believed end of the first running job, by the same; the view's time without any."""
        return float(self._assuming(unknown)[1].min(initial=math.inf)) if self.running else self.at

    def ends_assuming(self, unknown: float) -> FloatArray:
        """Believed end of each running job, by the same; float64, like `running`."""
        return self._assuming(unknown)[1]

    def _assuming(self, unknown: float) -> tuple[FloatArray, FloatArray]:
        """Last end on each VM and end of each running job, cached since policies read both for every job."""
        known: tuple[float, FloatArray, FloatArray] | None = self.__dict__.get("_assumed")
        if known is None or known[0] != unknown:
            held = self._assumed_ends(unknown)
            known = unknown, self._last(held.latest, self.at + unknown), held.ends
            self.__dict__["_assumed"] = known
        return known[1:]

    def _assumed_ends(self, unknown: float) -> _AssumedEnds:
        """Believed ends; of most running jobs they are known from another view of this moment."""
        known: list[_AssumedEnds] = self.__dict__["_ends"]
        for held in reversed(known):
            if held.unknown == unknown and held.running == self.running[: len(held.running)]:
                found = self._with_ends(held, self.running[len(held.running) :])
                known[1:] = [found]
                return found
        ends = [job.end_assuming(self.at, unknown) for job in self.running]
        of_each = _read_only(np.array(ends, np.float64))
        found = _AssumedEnds(unknown, self.running, self._latest(ends), of_each)
        known[:] = [found]  # that of the first view, and the last one, which most views come after
        return found

    def _with_ends(self, held: _AssumedEnds, more: Sequence[RunningJob]) -> _AssumedEnds:
        """These ends and those of further jobs."""
        if not more:
            return held
        index, latest = self.index, held.latest.copy()
        ends = [job.end_assuming(self.at, held.unknown) for job in more]
        for job, end in zip(more, ends, strict=True):
            vms = [index[vm_id] for vm_id in job.vm_ids if vm_id in index]
            latest[vms] = np.maximum(latest[vms], end)
        return _AssumedEnds(held.unknown, self.running, latest, _read_only(np.append(held.ends, ends)))

    def _latest(self, ends: Sequence[float]) -> FloatArray:
        """Latest end of a running job on each VM, from the ends by job; NaN if one of them is NaN.

        Minus infinity on a VM without any.
        """
        index, last = self.index, [-math.inf] * (len(self.vms) + 1)  # the last is for VMs that are not shown
        for job, end in zip(self.running, ends, strict=True):
            for vm_id in job.vm_ids:
                vm = index.get(vm_id, -1)
                if not end <= last[vm] and last[vm] == last[vm]:  # NaN is no number, and stays
                    last[vm] = end
        return np.array(last[:-1])

    def _last(self, latest: FloatArray, unexplained: float) -> FloatArray:
        """Time until which each VM is held: `unexplained` where no job is known to hold it."""
        until = np.where(latest == -math.inf, unexplained, latest)
        until[self.executors == 0] = self.at
        return until

    @property
    def usable_cpus(self) -> FloatArray:
        """Cpus of each VM that are free and may be used now; float64 [N]."""
        return self.usable.cpus

    @property
    def usable_memory_mib(self) -> FloatArray:
        """Memory of each VM that is free and may be used now, MiB; float64 [N]."""
        return self.usable.memory_mib

    def room_for(self, request: PlacementRequest) -> IntArray:
        """Number of executors of the request that may be placed on each VM now; int64 [N], read-only."""
        known: tuple[PlacementRequest, IntArray] | None = self.__dict__.get("_room")
        if known is not None and known[0] is request:
            return known[1]  # callers that looked for room often ask again for the reason
        room, most = self.usable.room(request.size), self._most_otherwise(request)
        room = _read_only(room if most is None else np.minimum(room, most))
        self.__dict__["_room"] = request, room
        return room

    def most_for(self, request: PlacementRequest, beside: Set[str] = _BASIC) -> IntArray | None:
        """Maximum number of executors on each VM by their resources other than `beside`; int64 [N].

        None when those limit nothing.
        """
        limits, size = self._most_otherwise(request), request.size
        others = NOTHING if size.thousandths.keys() <= beside else size.without(beside)
        room = self.usable.room(others) if others else None
        if limits is None or room is None:
            return room if limits is None else limits
        return np.minimum(room, limits)

    def _most_otherwise(self, request: PlacementRequest) -> IntArray | None:
        """Limit on executors of each VM for reasons other than resources; int64 [N] or None."""
        limits = []
        if self.offered is not None and self.offered.lacks_ports(request.count * EXECUTOR_PORTS).any():
            limits.append(self.offered.ports // EXECUTOR_PORTS)
        if self.closes_some(request):
            limits.append(np.where(self.closed_to(request), 0, np.iinfo(np.int64).max))
        if self.extras and (resort := last_resort(self, request)) is not None:
            limits.append(resort)
        return np.maximum(np.minimum.reduce(limits), 0) if limits else None

    def closes_some(self, request: PlacementRequest) -> bool:
        """Whether some VMs may bar the request, regardless of free resources."""
        if self.left_out or request.avoided or self.leaves_at:
            return True
        return self._may_bar(request.job) and bool(self._barred(request.job).any())

    def closed_to(self, request: PlacementRequest) -> "NDArray[np.bool_]":
        """VMs that bar the request, regardless of free resources; bool [N]."""
        barred = self._barred(request.job)
        if not (self.left_out or request.avoided or self.leaves_at):
            return barred
        closed = (
            vm.id in self.left_out or vm.id in request.avoided or self.outlasts(request, vm.id)
            for vm in self.vms
        )
        return np.fromiter(closed, np.bool_, len(self.vms)) | barred

    @property
    def reserves(self) -> bool:
        """Whether some VMs are reserved for jobs that request their special resources."""
        return any(bars.reserved_for for bars in self._bars[0])

    def _may_bar(self, job: Job) -> bool:
        """Whether some VMs could bar the job by their terms; a quick check."""
        return job.uses != ANYWHERE or self.reserves

    def _barred(self, job: Job) -> "NDArray[np.bool_]":
        """VMs that bar the job by their terms; bool [N]."""
        kinds, of = self._bars
        return np.array([bool(job.barred(vm)) for vm in kinds.values()], np.bool_)[of]

    @VmProperty
    def paid(self) -> "NDArray[np.bool_]":
        """VMs that cost money only while they are there: those of pools that come and go; bool [N]."""
        return _read_only(
            np.array([vm.terms is not None and not vm.terms.always for vm in self.vms], np.bool_)
        )

    @VmProperty
    def extras(self) -> "Mapping[str, NDArray[np.bool_]]":
        """VMs with each resource that only some jobs request, such as gpus, by its name; bool [N] each."""
        return fixed({name: _read_only(has) for name, has in extras_of(self.vms).items()})

    @VmProperty
    def kinds(self) -> tuple[Sequence[tuple[str, bool]], IntArray]:
        """The types that VMs have, on demand and as spot VMs, and the index of each VM's; int64 [N]."""
        found: dict[tuple[str, bool], int] = {}
        index = [found.setdefault((vm.type, vm.spot), len(found)) for vm in self.vms]
        return tuple(found), _read_only(np.array(index, np.int64))

    @VmProperty
    def _bars(self) -> tuple[Mapping[Bars, Vm], IntArray]:
        """A VM of each kind that bars other jobs, by its key, and which kind each VM is of; int64 [N]."""
        kinds: dict[Bars, Vm] = {}
        keys = [vm.bars for vm in self.vms]
        for vm, key in zip(self.vms, keys, strict=True):
            kinds.setdefault(key, vm)
        numbers = {key: number for number, key in enumerate(kinds)}
        return kinds, np.array([numbers[key] for key in keys], np.int64)

    def outlasts(self, request: PlacementRequest, vm_id: str) -> bool:
        """Whether the request's job is known to run for longer than the VM will be there."""
        if vm_id not in self.leaves_at:
            return False
        duration = request.job.expected_duration
        return duration is not None and self.at + duration > self.leaves_at[vm_id]

    def seen_by(self, request: PlacementRequest) -> "ClusterView":
        """The view for one request, for policies that read only free cpus and memory.

        Free are only the resources that may be used now, and no more cpus than those of the executors that
        fit there by their other resources. The view itself where that makes no difference.
        """
        most, usable = self.most_for(request), self.usable
        if most is not None:
            cpus, each = usable.get(CPUS), request.size.get(CPUS)
            cut = np.minimum(cpus, np.minimum(most, cpus // each + 1) * each)
            return self.changed(free=ResourceArrays({**usable.thousandths, CPUS: cut}))
        same = (np.array_equal(usable.get(name), self.free.get(name)) for name in BASIC)
        return self if usable is self.free or all(same) else self.changed(free=usable)

    def of_vms(self, vms: IntArray) -> "ClusterView":
        """The same moment, restricted to the VMs with these indices and the jobs that run there."""
        shown = tuple(map(self.vms.__getitem__, vms.tolist()))
        ids = {vm.id for vm in shown}
        return ClusterView(
            self.at,
            shown,
            self.free.of_vms(vms),
            self.executors[vms],
            tuple(job for job in self.running if not ids.isdisjoint(job.vm_ids)),
            None if self.offered is None else self.offered.of_vms(vms),
            self.left_out,
            self.leaves_at,
            self.limits,
            None if self.openings is None else self.openings.of_vms(vms),
            None if self.covered is None else self.covered[vms],
        )

    def with_placement(
        self, request: PlacementRequest, placement: Sequence[int], sizes: tuple[Resources, ...] = ()
    ) -> "ClusterView":
        """The view after the request's executors took their resources (nothing is checked here).

        They count as running then. Without `sizes` each has the requested size.
        """
        vms = np.asarray(placement, dtype=np.int64)
        counts = np.bincount(vms, minlength=len(self.vms))
        taken = ResourceArrays.taken(len(self.vms), vms, sizes or request.asked[: len(vms)])
        running = self._running_with(request, placement, sizes or request.sizes[: len(vms)])
        offered = self.offered
        return self.changed(
            free=self.free - taken,
            executors=self.executors + counts,
            running=running,
            offered=None if offered is None else offered.without(taken, counts * EXECUTOR_PORTS),
            openings=None if self.openings is None else self.openings.with_placement(vms),
        )

    def with_driver(self, vm: int, driver: Resources) -> "ClusterView":
        """The view after a driver took its part of the VM with this index; nothing is checked here."""
        there = np.zeros(len(self.vms), np.int64)
        there[vm], offered = DRIVER_PORTS, self.offered
        taken = ResourceArrays.taken(len(self.vms), np.array([vm]), (driver,))
        left = None if offered is None else offered.without(taken, there)
        return self.changed(free=self.free - taken, offered=left)

    def room_for_driver(self, job: Job) -> "NDArray[np.bool_]":
        """On which VMs there is room for the driver of a job that has one on the cluster; bool [N]."""
        if job.driver is None:
            raise ValueError(f"{job.id} has no driver on the cluster")
        room = self.usable.contains(job.driver)
        if job.driver_barred(spot=True):
            room = room & ~self.spot
        if self.reserves:
            room = room & ~self._barred(replace(job, spot="allowed", unending_on=()))
        return room if self.offered is None else room & ~self.offered.lacks_ports(DRIVER_PORTS)

    def _running_with(
        self, request: PlacementRequest, placement: Sequence[int], sizes: tuple[Resources, ...]
    ) -> tuple[RunningJob, ...]:
        job, vm_ids = request.job, tuple(self.vms[index].id for index in placement)
        for at, known in enumerate(self.running if request.joins else ()):
            if known.job.id == job.id:
                grows_at = self.at if request.grows and job.dynamic is None else None
                joined = known.joined(vm_ids, sizes or request.asked[: len(vm_ids)], grows_at)
                return (*self.running[:at], joined, *self.running[at + 1 :])
        granted = sizes or request.asked[: len(placement)]
        sizes = () if granted == job.asked else granted
        expected = job.expected_on(sizes, len(set(vm_ids)))
        starts = self.at if self.openings is None else self.openings.starts(self.at, placement)
        return (*self.running, RunningJob(job, vm_ids, starts, expected, sizes))

    def changed(self, **arrays: Any) -> "ClusterView":
        """The same view with other values; of both, those of the same VMs or moment are computed once."""
        view, own = object.__new__(ClusterView), self.__dict__  # `replace` takes three times as long
        shared = _INPUTS if "vms" in arrays else _OF_VMS if "at" in arrays else _OF_MOMENT
        view.__dict__.update({name: own[name] for name in shared}, **arrays)
        view.__post_init__()
        return view


def _read_only(array: "NDArray[Any]") -> "NDArray[Any]":
    array.flags.writeable = False
    return array


#: Attributes that a view shares with those that `changed` makes of it: in any case, with the same VMs, and
#: of the same moment.
_INPUTS = tuple(part.name for part in fields(ClusterView))
_OF_VMS = (*_INPUTS, "_of_vms")
_OF_MOMENT = (*_OF_VMS, "_ends")
