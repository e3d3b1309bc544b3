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
    """A VM, and which tasks hold how much of it."""

    id: Said
    """The Mesos agent's id."""
    name: Said
    """Its name everywhere else."""
    type: Said
    """Its type, which determines its price."""
    address: Said
    """Where its executors are reached."""
    cpus: float
    """Cores that it has."""
    memory_mib: int
    """Memory that it has, MiB."""
    resources: dict[str, float]
    """Its other resources, by name."""
    price_per_hour: float
    """Dollars per hour while it holds an executor."""
    used_cpus: float
    """Cores that our tasks hold."""
    used_memory_mib: int
    """Memory that our tasks hold, MiB."""
    used_resources: dict[str, float]
    """Other resources held by Stoker's tasks, by name."""
    executors: list[Said]
    """The ids of Stoker's tasks on it, as far as the caller may see their jobs."""
    note: Said
    """A fault of its agent's attributes, or the reason why no task is placed there."""
    state: VmState
    """Up, unless it holds executors and cannot be reached, or is of a pool and opens, boots or is going."""
    pool: Said
    """The pool of one that comes and goes; empty for one that is always there."""
    lease: Said
    """Under which it was opened there."""
    ready_at: float | None
    """When the VM of a pool came, or should have booted, seconds since the epoch."""


class PoolBody(Body):
    """VMs of one kind that are opened when they are needed."""

    name: Said
    """Its name."""
    type: Said
    """The type of its VMs."""
    cpus: float
    """Cores of one."""
    memory_mib: int
    """Memory of one, MiB."""
    resources: dict[str, float]
    """Other resources of one, by name."""
    price_per_hour: float
    """Dollars per hour for one, from opened to closed."""
    boot: float
    """Seconds from opening one until it can be used."""
    min: int
    """How many are always open."""
    max: int
    """How many could be open."""
    open: int
    """Number of open ones: those among the VMs that have its name as their pool."""
    note: Said
    """Why no other is opened now."""


class ClusterBody(Body):
    """All VMs that are there."""

    vms: list[VmBody]
    """Those that the master has reported, and those that boot."""
    pools: list[PoolBody]
    """Where others could be had."""
    provider: Said
    """The provider's failing calls; empty when none fails."""
    order: list[str]
    """Criteria of the order, in sequence; empty: first come, first served."""
    queues: int
    """How many queues that take jobs share them; 0 where a job's queue is any name."""
    note: Said
    """Cause of waits that no VM and no policy changes: the machine under an embedded cluster has no capacity
    for more executors and drivers at once. Empty without such waits."""


class HealthBody(Body):
    """Whether jobs can be scheduled now, and each check in words."""

    ready: bool
    """Whether all checks are well."""
    checks: dict[str, Said]
    """Results by the name of the check."""


class AliveBody(Body):
    """That the server answers."""

    status: Literal["ok"]
    """Always the same."""
    version: str
    """Stoker's."""


class IndexBody(Body):
    """Where to go from here."""

    name: str
    """The daemon that answers."""
    version: str
    """Stoker's."""
    links: dict[str, str]
    """Paths, by their content."""


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
