"""Cases of a forecast: more VMs or fewer, another cluster, order, or idle policy.

A case changes only the loop's present state; it reports its further assumptions.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from conf.loader import ConfigError
from conf.schema import Cluster
from conf.schema.sharing import Criterion
from conf.util.counted import counted
from daemon.core.errors import RejectedError
from environment.clusters.cluster_files import vms_of
from environment.clusters.commitments import Commitment
from environment.pools import BREAK_EVEN, NO_MOVES, Consolidation, IdleTimeout
from environment.queues.types import Sharing
from environment.resource_arrays import ResourceArrays
from environment.types import Job, PlacementRequest, Vm
from environment.view import ClusterView

if TYPE_CHECKING:
    from daemon.what_if.recorded_jobs import RecordedJobs

_NOT_SO = "This cannot be simulated"
#: Maximum number of VMs that all cases of a question add to the present ones: they are made in the daemon.
_MOST = 10_000


@dataclass(frozen=True, slots=True)
class Present:
    """The input that a policy would get now."""

    view: ClusterView
    queue: tuple[PlacementRequest, ...]
    #: How the cluster is shared, and so in which order jobs go.
    sharing: Sharing | None = None
    #: Jobs that wait and would not be shown to a policy now: they pause, wait aside, or stand behind those
    #: that the order shows.
    others: int = 0
    #: For how long idle VMs of pools are kept.
    keeping: IdleTimeout = BREAK_EVEN
    #: By which rule executors are moved so that VMs of pools close.
    moves: Consolidation = NO_MOVES
    #: Commitments of all days.
    commitments: tuple[Commitment, ...] = ()
    #: How many executors and drivers this machine carries at once; None: any number.
    jvms: int | None = None
    #: Jobs, by id, whose outcome is reported as one.
    follow: tuple[str, ...] = ()
    #: The time that is played, where that is over already.
    recorded: "RecordedJobs | None" = None


@dataclass(frozen=True, slots=True)
class Case:
    """Differences from the present; none by default."""

    #: How many VMs more and fewer, by type.
    add: Mapping[str, int] = field(default_factory=dict)
    remove: Mapping[str, int] = field(default_factory=dict)
    cluster: Cluster | None = None
    order: tuple[Criterion, ...] = ()
    keep: IdleTimeout | None = None
    #: Jobs that come now, or when they may begin.
    joining: tuple[Job, ...] = ()

    def __str__(self) -> str:
        return ", ".join(self._words()) or "as now"

    def _words(self) -> Iterator[str]:
        if self.cluster is not None:
            yield f"on {counted(_size(self.cluster), 'other VM')}"
        yield from (f"+{number} {kind}" for kind, number in self.add.items())
        yield from (f"-{number} {kind}" for kind, number in self.remove.items())
        if self.order:
            yield f"in order of {', '.join(self.order)}"
        if self.keep is not None:
            yield f"keep {self.keep}"
        if self.joining:
            yield "with the new jobs"

    def of(self, now: Present) -> Present:
        """Now, if that were so; RejectedError where it cannot be."""
        if self.cluster is not None:
            now = _on(self.cluster, now)
        if self.remove:
            now = replace(now, view=_fewer(now.view, self.remove))
        if self.add:
            now = replace(now, view=_more(now.view, self.add))
        if self.order:
            now = replace(now, sharing=replace(now.sharing or Sharing(), order=self.order))
        if self.joining:
            at = now.view.at
            jobs = [
                replace(job, submitted_at=max(at, job.start_at or at), start_at=None) for job in self.joining
            ]
            more = (PlacementRequest(job, job.executors) for job in jobs)
            now = replace(now, queue=(*now.queue, *more), follow=tuple(job.id for job in jobs))
        return now if self.keep is None else replace(now, keeping=self.keep)

    @property
    def made(self) -> int:
        """Number of VMs created to play the case."""
        return sum(self.add.values()) + (0 if self.cluster is None else _size(self.cluster))

    def assumes(self, now: Present) -> tuple[str, ...]:
        """Assumptions beside those of every case."""
        said = []
        if self.cluster is not None:
            if now.recorded is None:
                said.append("another cluster starts empty: only the waiting jobs are simulated")
            if now.jvms is not None:
                said.append(
                    f"another cluster has its own machines: the limit mesos.jvms, {now.jvms}, is of this one"
                )
        if self.add:
            said.append("added VMs are available at once")
            prices = {(vm.type, vm.price_per_hour) for vm in now.view.vms if vm.type in self.add}
            if len(prices) > len(self.add):
                said.append("added VMs cost as the dearest of their type")
        if self.remove:
            said.append("removed VMs are idle ones")
        return tuple(said)


def check_size(cases: Iterable[Case]) -> None:
    """RejectedError where all of them together have more VMs than are made for a question."""
    if (number := sum(case.made for case in cases)) > _MOST:
        why = f"cases: at most {_MOST} VMs in all, added or of another cluster, found {number}"
        raise RejectedError(422, _NOT_SO, why)


def _size(cluster: Cluster) -> int:
    return sum(group.count for group in cluster.vms) + sum(pool.max for pool in cluster.pools)


def _on(cluster: Cluster, now: Present) -> Present:
    """The queue on another cluster, where nothing runs, and which this machine need not carry."""
    if any(pool.spot and pool.spot.history for pool in cluster.pools):
        why = "cluster: changing prices of spot VMs are in files, which are not read for a request"
        raise RejectedError(422, _NOT_SO, why)
    try:
        vms = vms_of(cluster)
    except ConfigError as error:
        raise RejectedError(422, _NOT_SO, f"cluster: {error}") from error
    names = now.view.free.thousandths
    free = ResourceArrays.of([vm.resources for vm in vms], names)
    view = ClusterView(now.view.at, vms, free, np.zeros(len(vms), np.int64))
    queue = tuple(request for request in now.queue if not request.joins)
    return replace(now, view=view, queue=queue, jvms=None)


def _more(view: ClusterView, add: Mapping[str, int]) -> ClusterView:
    """Add so many idle VMs of each type."""
    types = _types(view, add)
    more = tuple(
        replace(types[kind], id=f"more-{kind}-{number}", name=f"{kind} (added {number})")
        for kind, count in add.items()
        for number in range(1, count + 1)
    )
    names = view.free.thousandths
    added = ResourceArrays.of([vm.resources for vm in more], names).thousandths
    free = {name: np.concatenate((had, added[name])) for name, had in names.items()}
    executors = np.concatenate((view.executors, np.zeros(len(more), np.int64)))
    return ClusterView(
        view.at, (*view.vms, *more), ResourceArrays(free), executors, view.running, None, view.left_out
    )


def _fewer(view: ClusterView, remove: Mapping[str, int]) -> ClusterView:
    """Remove so many idle VMs of each type, the last first."""
    _types(view, remove)
    holding = {vm_id for running in view.running for vm_id in running.vm_ids}
    whole, left = view.capacity, dict(remove)
    idle = [
        number
        for number, vm in enumerate(view.vms)
        if view.executors[number] == 0
        and vm.id not in holding
        and all(view.free.get(name)[number] == whole.get(name)[number] for name in view.free.thousandths)
    ]
    there = Counter(view.vms[number].type for number in idle)
    for kind, number in remove.items():
        if number > there[kind]:
            why = f"remove: of {kind}, {counted(there[kind], 'VM')} idle now, {number} cannot be removed"
            raise RejectedError(422, _NOT_SO, why)
    gone = set[int]()
    for number in reversed(idle):
        kind = view.vms[number].type
        if left.get(kind, 0) > 0:
            left[kind] -= 1
            gone.add(number)
    if len(gone) == len(view.vms):
        raise RejectedError(422, _NOT_SO, "remove: one VM at least should be left")
    return view.of_vms(np.array([n for n in range(len(view.vms)) if n not in gone], np.int64))


def _types(view: ClusterView, asked: Mapping[str, int]) -> dict[str, Vm]:
    """The dearest VM of each type; RejectedError where VMs come and go, or none is of an asked type."""
    if view.openings is not None:
        raise RejectedError(422, _NOT_SO, "here pools open and close VMs as needed")
    types = {vm.type: vm for vm in sorted(view.vms, key=lambda vm: vm.price_per_hour)}
    if unknown := sorted({*asked} - {*types}):
        raise RejectedError(422, _NOT_SO, f"no VM is of type {unknown[0]}; there are {', '.join(types)}")
    return types


def always(now: Present) -> tuple[str, ...]:
    """Assumptions of every case."""
    if now.recorded is not None:
        return (*now.recorded.assumes, _costs(now))
    return (
        "no more jobs are submitted, and no VM or executor is lost",
        "running jobs end at their expected time, or at draws around it; an unknown duration is guessed",
        "all cases and policies use the same draws of durations, as far as the time limit allows",
        "jobs start as soon as they are placed: launches take no time",
        _costs(now),
    )


def _costs(now: Present) -> str:
    if now.view.openings is not None:
        said = "idle VMs of pools are kept as in daemon.yaml (keep), or as in the case"
        fixed = any(vm.terms is None for vm in now.view.vms)
        whenever = "all the time, as commitments are" if now.commitments else "while executors hold them"
        return f"{said}; VMs of no pool cost {whenever}" if fixed else said
    return (
        "VMs cost while executors hold them (Islam 2022, eq. 4): idle ones are not counted; the bill of a "
        "fixed cluster has them, and is the same under every policy"
    )
