"""Clusters by name: the VMs that a cluster file describes."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from conf.loader import SHIPPED, ConfigError, find, load
from conf.schema import Cluster
from environment.pools import Terms
from environment.resources import Resources
from environment.types import Vm, natural_key


def load_cluster(name: str | Path) -> tuple[Vm, ...]:
    """The VMs of a cluster by name (of conf/clusters) or path; ConfigError says what is wrong."""
    return vms_of(load(_find(str(name)), Cluster))


def vms_of(cluster: Cluster) -> tuple[Vm, ...]:
    """The VMs of a cluster file, in the order in which the daemon shows them to policies.

    They are named `type-1`, `type-2`, ... over all groups of a type, or after their group if it has a name,
    or after their pool.
    """
    vms = list(_vms(cluster))
    name, count = Counter(vm.name for vm in vms).most_common(1)[0]
    if count > 1:
        raise ConfigError(f"two VMs of the cluster are called {name}; give one group another name")
    return tuple(sorted(vms, key=lambda vm: natural_key(vm.name)))


def _vms(cluster: Cluster) -> Iterator[Vm]:
    seen: Counter[str] = Counter()
    for group in cluster.vms:
        stem = group.name or group.type
        for _ in range(group.count):
            seen[stem] += 1
            name = stem if group.name and group.count == 1 else f"{stem}-{seen[stem]}"
            resources = Resources.of(group.cpus, group.memory, group.resources)
            yield Vm(name, name, group.type, resources, group.price_per_hour)
    for pool in cluster.pools:
        resources = Resources.of(pool.cpus, pool.memory, pool.resources)
        terms = Terms(pool.name, pool.boot, pool.billing.minimum, pool.billing.granularity)
        for number in range(1, pool.max + 1):
            name, of = f"{pool.name}-{number}", replace(terms, always=number <= pool.min)
            yield Vm(name, name, pool.type, resources, pool.price_per_hour, terms=of)


def _find(name: str) -> Path:
    if Path(name).suffix:
        return find(name)
    try:
        return find(f"clusters/{name}.yaml")
    except ConfigError:
        known = ", ".join(sorted(path.stem for path in (SHIPPED / "clusters").glob("*.yaml")))
        raise ConfigError(f"{name}: no such cluster; known are {known}, or a .yaml file") from None
