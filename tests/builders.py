"""Valid values with sensible defaults, so that a test names only the relevant ones."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike

from environment.model.messages.snapshot import Offer
from environment.resource_arrays import ResourceArrays
from environment.resources import Resources
from environment.types import Job, PlacementRequest, Vm
from environment.view import ClusterView


def make_vm(
    name: str = "vm-1",
    cpus: float = 4.0,
    memory_mib: int = 16384,
    price_per_hour: float = 0.24,
    **resources: float,
) -> Vm:
    """A VM with the id `id-` and its name; `resources` are its other resources, such as gpus=2."""
    address = f"{name}.example"
    has = Resources.of(cpus, memory_mib, resources)
    return Vm(f"id-{name}", name, "m1.large", has, price_per_hour, address)


def make_vms(count: int, cpus: float = 4.0, memory_mib: int = 16384) -> tuple[Vm, ...]:
    """Equal VMs: vm-1, vm-2, ..."""
    return tuple(make_vm(f"vm-{i + 1}", cpus, memory_mib) for i in range(count))


def make_job(
    job_id: str = "job-1",
    executors: int = 1,
    cpus: float = 1.0,
    memory_mib: int = 1024,
    submitted_at: float = 0.0,
    expected_duration: float | None = None,
    driver: Resources | None = None,
    **resources: float,
) -> Job:
    """A wordcount job; `resources` are each executor's other resources, such as gpus=1."""
    return Job(
        job_id,
        "wordcount",
        Resources.of(cpus, memory_mib, resources),
        executors,
        submitted_at,
        expected_duration=expected_duration,
        driver=driver,
    )


def make_request(
    executors: int = 1, cpus: float = 1.0, memory_mib: int = 1024, **resources: float
) -> PlacementRequest:
    """A new job's request."""
    job = make_job(executors=executors)
    return PlacementRequest(replace(job, size=Resources.of(cpus, memory_mib, resources)), executors)


def make_offer(
    offer_id: str,
    vm: Vm,
    cpus: float | None = None,
    memory_mib: int | None = None,
    ports: tuple[tuple[int, int], ...] = ((31000, 32000),),
) -> Offer:
    """An offer of the whole VM, or of part of its cpus and memory with all its other resources."""
    basic = (vm.cpus if cpus is None else cpus, vm.memory_mib if memory_mib is None else memory_mib)
    return Offer(offer_id, vm, Resources.of(*basic, vm.resources.others), ports)


def make_view(
    vms: Sequence[Vm],
    free_cpus: Sequence[float] | None = None,
    free_memory_mib: Sequence[float] | None = None,
    executors: Sequence[int] | None = None,
    at: float = 0.0,
    free_resources: Mapping[str, Sequence[float]] | None = None,
) -> ClusterView:
    """A view of these VMs, all free when nothing else is said."""
    others = free_resources
    if others is None:
        names = {name for vm in vms for name in vm.resources.others}
        others = {name: [vm.resources.amount(name) for vm in vms] for name in names}
    free = {
        "cpus": [vm.cpus for vm in vms] if free_cpus is None else free_cpus,
        "mem": [vm.memory_mib for vm in vms] if free_memory_mib is None else free_memory_mib,
        **others,
    }
    return ClusterView(
        at,
        tuple(vms),
        make_room(free),
        np.array([0] * len(vms) if executors is None else executors, dtype=np.int64),
    )


def make_room(amounts: Mapping[str, ArrayLike]) -> ResourceArrays:
    """Amounts of VMs, [N] by Mesos' names."""
    return ResourceArrays(
        {name: np.rint(np.array(had, np.float64) * 1000).astype(np.int64) for name, had in amounts.items()}
    )


def line_of(policy: Callable[..., object]) -> int:
    """The line on which a function raises that has one line of docstring, and then raises."""
    return policy.__code__.co_firstlineno + 2
