"""What other threads are shown of the cluster: made by the scheduling loop of what its model holds."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from daemon.contract import Standing, VmStatus
from environment.model.cluster_model import ClusterModel


@dataclass(frozen=True, slots=True)
class Picture:
    """As of the last event: the VMs that are there, what is owed, and who waits for whom.

    `due` is what running jobs owe beyond their records, in dollars, by job id and task id.
    """

    vms: tuple[VmStatus, ...] = ()
    due: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    standing: Standing = field(default_factory=Standing)


def picture_of(model: ClusterModel, now: float, earlier: Picture) -> Picture:
    """What there is now, in seconds since the epoch; for the thread that owns the model."""
    standing = Standing(model.head(), frozenset((*model.paused(), *model.aside())))
    if standing == earlier.standing:
        standing = earlier.standing  # so that what was worked out of it is kept
    return Picture(_vms(model), model.due(now), standing)


def _vms(model: ClusterModel) -> tuple[VmStatus, ...]:
    held, notes = model.ledger.held, model.notes()
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
            note=notes.get(vm.id, ""),
        )
        for vm in model.vms()
    )
