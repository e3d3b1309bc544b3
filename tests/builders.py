"""Valid values with sensible defaults, so that a test names only what it is about."""

from collections.abc import Mapping, Sequence

import numpy as np

from environment.model.events import Offer
from environment.types import ClusterView, Job, PlacementRequest, Size, Vm


def make_vm(
    name: str = "vm-1",
    cpus: float = 4.0,
    memory_mib: int = 16384,
    price_per_hour: float = 0.24,
    **resources: float,
) -> Vm:
    """A VM whose id is `id-` and its name; `resources` are what it has besides, such as gpus=2."""
    address = f"{name}.example"
    return Vm(f"id-{name}", name, "m1.large", cpus, memory_mib, price_per_hour, address, resources)


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
    driver: Size | None = None,
    **resources: float,
) -> Job:
    """A wordcount job; `resources` are what each executor takes besides, such as gpus=1."""
    return Job(
        job_id,
        "wordcount",
        cpus,
        memory_mib,
        executors,
        submitted_at,
        expected_duration=expected_duration,
        driver=driver,
        resources=resources,
    )


def make_request(
    executors: int = 1, cpus: float = 1.0, memory_mib: int = 1024, **resources: float
) -> PlacementRequest:
    """A new job's request."""
    job = make_job(executors=executors, cpus=cpus, memory_mib=memory_mib, **resources)
    return PlacementRequest(job, executors)


def make_offer(
    offer_id: str,
    vm: Vm,
    cpus: float | None = None,
    memory_mib: int | None = None,
    ports: tuple[tuple[int, int], ...] = ((31000, 32000),),
) -> Offer:
    """An offer of the whole VM, or of part of it but for what it has beside cpus and memory."""
    return Offer(
        offer_id,
        vm,
        vm.cpus if cpus is None else cpus,
        vm.memory_mib if memory_mib is None else memory_mib,
        ports,
        vm.resources,
    )


def make_view(
    vms: Sequence[Vm],
    free_cpus: Sequence[float] | None = None,
    free_memory_mib: Sequence[float] | None = None,
    executors: Sequence[int] | None = None,
    at: float = 0.0,
    free_resources: Mapping[str, Sequence[float]] | None = None,
) -> ClusterView:
    """A view of these VMs, all free when nothing else is said."""
    free = free_resources
    if free is None:
        names = {name for vm in vms for name in vm.resources}
        free = {name: [vm.resources.get(name, 0.0) for vm in vms] for name in names}
    return ClusterView(
        at,
        tuple(vms),
        np.array([vm.cpus for vm in vms] if free_cpus is None else free_cpus, dtype=np.float64),
        np.array([vm.memory_mib for vm in vms] if free_memory_mib is None else free_memory_mib, np.float64),
        np.array([0] * len(vms) if executors is None else executors, dtype=np.int64),
        free_resources={name: np.array(amounts, dtype=np.float64) for name, amounts in free.items()},
    )
