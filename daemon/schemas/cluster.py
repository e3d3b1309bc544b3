"""The bodies of the HTTP API's answers about the VMs and about the daemon itself, and how they are made.

Memory is MiB, prices are dollars per hour.
"""

from collections.abc import Collection, Iterable
from typing import Literal

from conf.util.copy_fields import carried
from daemon.core.cluster_status import ClusterStatus, VmState
from daemon.core.status import Health
from daemon.schemas.base import Body, Said


class VmBody(Body):
    """A VM, and the use of its resources by tasks."""

    id: Said
    """The Mesos agent's id."""
    name: Said
    """The VM's name, as used everywhere else."""
    type: Said
    """Its type, which determines its price."""
    address: Said
    """Address of its executors."""
    cpus: float
    """Its cores."""
    memory_mib: int
    """Its memory, MiB."""
    resources: dict[str, float]
    """Its other resources, by name."""
    price_per_hour: float
    """Price, dollars per hour; for fixed VMs while an executor runs there."""
    used_cpus: float
    """Cores held by Stoker's tasks."""
    used_memory_mib: int
    """Memory held by Stoker's tasks, MiB."""
    used_resources: dict[str, float]
    """Other resources held by Stoker's tasks, by name."""
    executors: list[Said]
    """The ids of Stoker's tasks on it, for jobs that the caller may see."""
    note: Said
    """A fault of its agent's attributes, or the reason why no task is placed there."""
    state: VmState
    """Up; unreachable with executors on it; or, in a pool, opening, booting or closing."""
    pool: Said
    """The pool that opened it; empty for a fixed VM."""
    lease: Said
    """The lease under which it was opened."""
    ready_at: float | None
    """When the VM of a pool became ready, or is expected to, seconds since the epoch."""


class PoolBody(Body):
    """VMs of one kind that are opened as needed."""

    name: Said
    """Its name."""
    type: Said
    """The type of its VMs."""
    cpus: float
    """Cores of a VM."""
    memory_mib: int
    """Memory of a VM, MiB."""
    resources: dict[str, float]
    """Other resources of a VM, by name."""
    price_per_hour: float
    """Price of a VM from opened to closed, dollars per hour."""
    boot: float
    """Seconds from the opening of a VM until it can be used."""
    min: int
    """Number of VMs that are always open."""
    max: int
    """Maximum number of open VMs."""
    open: int
    """Number of open VMs: those in `vms` with this pool."""
    note: Said
    """Why no further VM is opened now."""


class ClusterBody(Body):
    """All VMs, fixed and open ones."""

    vms: list[VmBody]
    """VMs that the master has reported, and VMs that boot."""
    pools: list[PoolBody]
    """Pools that can open further VMs."""
    provider: Said
    """The provider's failing calls; empty when none fails."""
    order: list[str]
    """Criteria of the order, in sequence; empty: first come, first served."""
    queues: int
    """Number of queues that accept jobs; 0 where a job's queue may be any name."""
    note: Said
    """Cause of waits that neither VMs nor policies change: the machine of an embedded cluster has no capacity
    for more executors and drivers at once. Empty without such waits."""


class HealthBody(Body):
    """Whether jobs can be scheduled now, and each check in words."""

    ready: bool
    """Whether all checks pass."""
    checks: dict[str, Said]
    """Results by check."""


class AliveBody(Body):
    """Report that the server answers."""

    status: Literal["ok"]
    """A constant."""
    version: str
    """Stoker's version."""


class IndexBody(Body):
    """Links to the API."""

    name: str
    """The daemon that answers."""
    version: str
    """Stoker's version."""
    links: dict[str, str]
    """Paths by topic."""


def cluster_body(cluster: ClusterStatus, job_ids: Collection[str] | None = None) -> ClusterBody:
    """All VMs, and the pools; with the ids of tasks of these jobs alone (None: of all)."""

    def shown(tasks: Iterable[str]) -> list[str]:
        return [task for task in tasks if job_ids is None or task.partition(".")[0] in job_ids]

    return ClusterBody(
        vms=[carried(VmBody, vm, executors=shown(vm.executors)) for vm in cluster.vms],
        pools=[carried(PoolBody, pool) for pool in cluster.pools],
        provider=cluster.provider.trouble,
        order=list(cluster.order),
        queues=cluster.queues,
        note=cluster.note,
    )


def health_body(health: Health) -> HealthBody:
    """The checks."""
    return HealthBody(ready=health.ready, checks=dict(health.checks))
