"""Cluster snapshot for other threads, made by the scheduling loop from its model."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from daemon.core.cluster_status import PoolStatus, VmStatus
from daemon.core.status import QueuePositions
from environment.model.cluster_model import ClusterModel
from environment.model.messages.lease import Lease
from environment.model.messages.records import MemoryCounts
from environment.types import Vm


@dataclass(frozen=True, slots=True)
class ClusterSnapshot:
    """As of the last event: the VMs, the pools of unopened ones, the charges due, the positions of jobs.

    `due` has the charges of running jobs beyond their records, in dollars, by job id and task id.
    """

    vms: tuple[VmStatus, ...] = ()
    pools: tuple[PoolStatus, ...] = ()
    due: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    standing: QueuePositions = field(default_factory=QueuePositions)
    #: How many executors and drivers the machine carries at once (None: any number), and whether a job waits
    #: for that.
    jvms: int | None = None
    crowded: bool = False
    #: Failures of jobs for memory, and restarts with more.
    memory: MemoryCounts = field(default_factory=MemoryCounts)


def picture_of(
    model: ClusterModel, now: float, earlier: ClusterSnapshot, *, ordered: bool = False
) -> ClusterSnapshot:
    """Snapshot at `now`, in seconds since the epoch; for the thread that owns the model.

    Where jobs are `ordered` by shares, finding the head takes milliseconds; `queues.sight` reports it.
    """
    head = "" if ordered else model.head()
    standing = QueuePositions(head, frozenset((*model.paused(), *model.aside(), *model.held())))
    if standing == earlier.standing:
        standing = earlier.standing  # so that values computed from it are kept
    leases, notes = model.leases(), model.notes()
    vms = _vms(model, {lease.vm_id: lease for lease in leases}, notes)
    pools, jvms = _pools(model, leases, notes), model.options.jvms
    crowded = bool(model.beyond_room())
    return ClusterSnapshot(vms, pools, model.due(now), standing, jvms, crowded, model.memory_counts)


def _pools(model: ClusterModel, leases: Sequence[Lease], notes: Mapping[str, str]) -> tuple[PoolStatus, ...]:
    """Those of the cluster file."""
    places: dict[str, list[Vm]] = {}
    for vm in model.places():
        if vm.terms is not None:
            places.setdefault(vm.terms.pool, []).append(vm)
    opened = {lease.vm.id for lease in leases}
    return tuple(_pool(name, of, opened, notes) for name, of in places.items())


def _pool(name: str, places: Sequence[Vm], opened: Collection[str], notes: Mapping[str, str]) -> PoolStatus:
    one = places[0]
    closed = [vm.id for vm in places if vm.id not in opened]
    return PoolStatus(
        name=name,
        type=one.type,
        cpus=one.cpus,
        memory_mib=one.memory_mib,
        resources=one.resources.others,
        price_per_hour=one.price_per_hour,
        boot=one.terms.boot if one.terms else 0.0,
        min=sum(vm.terms is not None and vm.terms.always for vm in places),
        max=len(places),
        open=len(places) - len(closed),
        note=next((notes[place] for place in closed if place in notes), ""),
    )


def _vms(model: ClusterModel, leases: Mapping[str, Lease], notes: Mapping[str, str]) -> tuple[VmStatus, ...]:
    """Those that are there, or come."""
    held, away = model.ledger.held, model.out_of_reach()
    there = {vm.id: vm for vm in (*model.vms(), *(vm for vm, _ in away))}
    out = {vm.id: each for vm, each in away}
    closed = {vm.id for vm in model.options.places} - leases.keys()
    return tuple(
        VmStatus(
            id=vm.id,
            name=vm.name,
            type=vm.type,
            address=vm.address,
            cpus=vm.cpus,
            memory_mib=vm.memory_mib,
            price_per_hour=vm.price_per_hour,
            used_cpus=held(vm.id).cpus,
            used_memory_mib=held(vm.id).memory_mib,
            executors=model.ledger.task_ids(vm.id),
            resources=vm.resources.others,
            used_resources=held(vm.id).others,
            note=out[vm.id].told if vm.id in out else notes.get(vm.id, ""),
            **_terms(leases.get(vm.id), reached=vm.id not in out),
        )
        for vm in there.values()
        if vm.id not in closed
    )


def _terms(lease: Lease | None, *, reached: bool) -> dict[str, Any]:
    """Fields of a pool's VM beyond those of all VMs; and of a VM out of reach."""
    if lease is None:
        return {} if reached else {"state": "unreachable"}
    boot, pool = (lease.vm.terms.boot, lease.vm.terms.pool) if lease.vm.terms else (0.0, "")
    ready_at = lease.asked_at + boot if lease.ready_at is None else lease.ready_at
    state = "unreachable" if lease.state == "up" and not reached else lease.state
    return {"state": state, "pool": pool, "lease": lease.id, "ready_at": ready_at}
