"""Capacity of the cluster if no task held anything: requests beyond it wait in vain now.

Used where a job is submitted, and for jobs that wait (`waiting_queue.py`) while VMs come and go and quotas
change. Most jobs of a long queue are alike: one check serves all of a kind.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property, reduce
from operator import and_

from environment.decisions.feasibility import whole_cluster_shortfall
from environment.decisions.sizing import smallest
from environment.model.messages.records import ExecutorRecord
from environment.model.messages.snapshot import Quota
from environment.resources import Resources, thousandths, told, total
from environment.types import PlacementRequest, Vm

#: Why a driver on the cluster has no place where all VMs are spot VMs.
ONLY_SPOT = "its driver may not run on spot VMs, and there are no others"


def over_quota(quota: Quota, asked: Resources) -> str | None:
    """Return why we will never get so much in all; None when we may.

    `quota` is the most that all our roles may hold together, by Mesos' names; a resource without one is free.
    """
    over = [name for name, most in quota.items() if asked.get(name) > thousandths(most)]
    if not over:
        return None
    most = " and ".join(told(name, quota[name]) for name in over)
    wanted = " and ".join(told(name, asked.amount(name)) for name in over)
    return f"the master's quota grants our roles {most} in all, but it needs {wanted}"


@dataclass(frozen=True)
class MaxCapacity:
    """All present VMs, why some accept nothing new (by id), and the most that quotas allow us.

    `known` means that these are all VMs with their true sizes: otherwise they do not decide which jobs fit.
    """

    vms: tuple[Vm, ...] = field(default=(), repr=False)
    closed: Mapping[str, str] = field(default_factory=dict)
    quota: Quota = field(default_factory=dict)
    known: bool = False

    def beyond_quota(self, request: PlacementRequest, held: Iterable[ExecutorRecord] = ()) -> str:
        """Why quotas forbid the request its needs, beside the tasks that its job has now.

        Empty when they may allow it, once others have ended.
        """
        job = request.job
        driver = () if job.driver is None or request.joins else (job.driver,)
        has = (task.resources for task in held)
        return over_quota(self.quota, total((*request.asked[: request.fewest], *driver, *has))) or ""

    def beyond_vms(self, request: PlacementRequest) -> str:
        """Why the request could not be placed now even if no task held anything of the VMs.

        Empty when it could, or when that is not known.
        """
        if not (self.known and self._open) or not request.count:
            return ""
        job = request.job
        driver = None if request.joins else job.driver
        kind = _kind(request)
        if kind not in self._found:
            self._found[kind] = "" if self._has_room(request) else self._beyond_vms(request, driver)
        return self._found[kind]

    def _beyond_vms(self, request: PlacementRequest, driver: Resources | None) -> str:
        job = request.job
        vms = [vm for vm in self._open if vm.id not in request.avoided and not job.barred(vm)]
        why = None
        if vms:
            why = whole_cluster_shortfall(vms, _least(request), request.fewest)
            if why is None and driver is not None:
                there = [vm for vm in self._open if not job.driver_barred(spot=vm.spot)]
                why = whole_cluster_shortfall(there, driver, 1) if there else ONLY_SPOT
            if why is None:
                return ""
        return "; ".join((why or "there is no VM that it may use", *self._closed_texts(request)))

    def _closed_texts(self, request: PlacementRequest) -> Iterator[str]:
        """Reasons why suitable VMs are unavailable now."""
        least = _least(request)
        # VMs of a pool that refuse are many, and all for the same reason.
        closed = Counter(self.closed[vm.id] for vm in self.vms if self._would_do(vm, least))
        for vm in self.vms:
            if self._would_do(vm, least):
                why = self.closed[vm.id]
                if number := closed.pop(why, 0):
                    yield f"{vm.name} {why}" + (f" (and {number - 1} more)" if number > 1 else "")
        if avoided := [vm for vm in self._open if vm.id in request.avoided and vm.resources.contains(least)]:
            more = f" (and {len(avoided) - 1} more)" if avoided[1:] else ""
            why = "since its last launch there never ran, or would have cost too much"
            yield f"{avoided[0].name}{more} is avoided for a while, {why}"
        barred = [vm for vm in self._open if request.job.barred(vm) and vm.resources.contains(least)]
        if barred:  # all of them for the same reason
            more = f" (and {len(barred) - 1} more)" if barred[1:] else ""
            yield f"{barred[0].name}{more} {request.job.barred(barred[0])}"

    def _would_do(self, vm: Vm, least: Resources) -> bool:
        """Whether it is no place now that would be one for so much."""
        return vm.id in self.closed and vm.resources.contains(least)

    @cached_property
    def _found(self) -> dict[object, str]:
        """Cached results by kind, as most jobs of a long queue are alike."""
        return {}

    @cached_property
    def _open(self) -> tuple[Vm, ...]:
        return tuple(vm for vm in self.vms if vm.id not in self.closed)

    @cached_property
    def _shapes(self) -> list[tuple[Resources, int]]:
        """Sizes of open VMs with their counts: a fast index for checks of a long queue."""
        return list(Counter(vm.resources for vm in self._open if not vm.bars.reserved_for).items())

    def _has_room(self, request: PlacementRequest) -> bool:
        """Whether it certainly fits, found quickly."""
        job = request.job
        if (
            request.avoided
            or job.spot != "allowed"
            or job.unending_on
            or (job.driver is not None and not request.joins)
        ):
            return False
        least, room = _least(request), 0
        for resources, number in self._shapes:
            room += number * (resources // least)
            if room >= request.fewest:
                return True
        return False


class Alike:
    """Jobs that wait as a whole, by kind: `MaxCapacity` and limits judge all of a kind alike."""

    def __init__(self) -> None:
        self._kinds: dict[object, dict[str, PlacementRequest]] = {}
        self._kind_of: dict[str, object] = {}

    def add(self, request: PlacementRequest) -> None:
        """A job waits."""
        job = request.job
        self.drop(job.id)
        kind = _kind(request), job.queue, job.owner, job.size
        self._kinds.setdefault(kind, {})[job.id] = request
        self._kind_of[job.id] = kind

    def drop(self, job_id: str) -> None:
        """Remove a job that waits no more."""
        if (kind := self._kind_of.pop(job_id, None)) is not None:
            alike = self._kinds[kind]
            del alike[job_id]
            if not alike:
                del self._kinds[kind]

    def of_whom(self, holds: Callable[[PlacementRequest], object]) -> Iterator[str]:
        """The ids of all jobs of which something holds, asked once for each kind."""
        for alike in self._kinds.values():
            if holds(next(iter(alike.values()))):
                yield from alike


def _kind(request: PlacementRequest) -> object:
    """Key of all properties that decide whether a request could be placed: equal keys, equal results."""
    job = request.job
    driver = None if request.joins else job.driver
    return _least(request), request.fewest, driver, request.avoided, job.uses, job.spot_driver


def _least(request: PlacementRequest) -> Resources:
    """Size of the request's smallest executor, a lower bound so that no request is rejected wrongly."""
    least = reduce(and_, request.sizes, request.size)
    return least if request.joins else smallest(least, request.job.min_cpus)
