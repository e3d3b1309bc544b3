"""The bodies of the HTTP API's answers about the VMs and about the daemon itself, and how they are made.

Memory is MiB, prices are dollars per hour.
"""

from collections.abc import Collection
from typing import Literal

from conf.carrying import carried
from daemon.contract import Health, VmStatus
from daemon.schemas import Body, Said


class VmBody(Body):
    """A VM, and which tasks hold how much of it."""

    id: Said
    """The Mesos agent's id."""
    name: Said
    """What it is called everywhere else."""
    type: Said
    """Its type, by which it has a price."""
    address: Said
    """Where its executors are reached."""
    cpus: float
    """Cores that it has."""
    memory_mib: int
    """Memory that it has, MiB."""
    resources: dict[str, float]
    """What it has besides, by name."""
    price_per_hour: float
    """Dollars per hour while it holds an executor."""
    used_cpus: float
    """Cores that our tasks hold."""
    used_memory_mib: int
    """Memory that our tasks hold, MiB."""
    used_resources: dict[str, float]
    """What our tasks hold besides, by name."""
    executors: list[Said]
    """The ids of our tasks on it."""
    note: Said
    """What is wrong with what its agent tells of it, or why nothing is placed there."""


class ClusterBody(Body):
    """All VMs that are there."""

    vms: list[VmBody]
    """Those that the master has told of."""


class HealthBody(Body):
    """Whether jobs can be scheduled now, and each check in words."""

    ready: bool
    """Whether all checks are well."""
    checks: dict[str, Said]
    """By the name of what was looked at, what was found."""


class AliveBody(Body):
    """That the server answers."""

    status: Literal["ok"]
    """Always the same."""
    version: str
    """Stoker's."""


class IndexBody(Body):
    """Where to go from here."""

    name: str
    """Who answers here."""
    version: str
    """Stoker's."""
    links: dict[str, str]
    """Paths, by what is there."""


def cluster_body(vms: Collection[VmStatus]) -> ClusterBody:
    """All VMs."""
    return ClusterBody(vms=[carried(VmBody, vm, executors=list(vm.executors)) for vm in vms])


def health_body(health: Health) -> HealthBody:
    """The checks."""
    return HealthBody(ready=health.ready, checks=dict(health.checks))
