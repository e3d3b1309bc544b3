"""Clusters by name: the VMs that a cluster file describes."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from conf.loader import SHIPPED, ConfigError, find, load
from conf.schema import Cluster, Pool
from environment.clusters.price_history import PriceHistory, read_prices
from environment.clusters.spot_availability import SpotTrace, read_availability
from environment.number_format import natural_key
from environment.pools import SpotTerms, Terms
from environment.resources import Resources
from environment.types import Vm


def load_cluster(name: str | Path) -> tuple[Vm, ...]:
    """VMs of a cluster by name (of conf/clusters) or path; ConfigError with the fault."""
    return vms_of(load(cluster_file(str(name)), Cluster))


def load_prices(name: str | Path) -> dict[str, PriceHistory]:
    """Price histories of spot pools, by pool, where a cluster defines them; ConfigError as above."""
    pools = load(cluster_file(str(name)), Cluster).pools
    histories = {pool.name: pool.spot.history for pool in pools if pool.spot and pool.spot.history}
    return {pool: read_prices(find(history)) for pool, history in histories.items()}


def load_availability(name: str | Path) -> dict[str, SpotTrace]:
    """Recorded availability of spot pools, by pool, where a cluster names it; ConfigError as above."""
    file = cluster_file(str(name))
    spots = {pool.name: pool.spot for pool in load(file, Cluster).pools if pool.spot}
    return {
        pool: read_availability(find(of.file, file.parent), of.times, of.offset)
        for pool, spot in spots.items()
        if (of := spot.availability) is not None
    }


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
        said = pool.spot
        spot = None if said is None else SpotTerms(said.interruptions_per_hour, said.notice)
        terms = Terms(
            pool.name,
            pool.boot,
            pool.billing.minimum,
            pool.billing.granularity,
            spot=spot,
            reserved_for=pool.reserved_for,
        )
        price = _price(pool)
        for number in range(1, pool.max + 1):
            name, of = f"{pool.name}-{number}", replace(terms, always=number <= pool.min)
            yield Vm(name, name, pool.type, resources, price, terms=of)


def _price(pool: Pool) -> float:
    """Price of a VM of the pool, dollars per hour; the initial one where it changes."""
    spot = pool.spot
    if spot is not None and spot.history is not None:
        return read_prices(find(spot.history)).at(0.0)
    prices = (None if spot is None else spot.price_per_hour, pool.price_per_hour)
    return next(price for price in prices if price is not None)


def cluster_file(name: str, beside: Path | None = None) -> Path:
    """Where the file of a cluster is, by name (of conf/clusters) or path, which may be in that folder."""
    if Path(name).suffix:
        return find(name, beside)
    try:
        return find(f"clusters/{name}.yaml", beside)
    except ConfigError:
        known = ", ".join(sorted(path.stem for path in (SHIPPED / "clusters").glob("*.yaml")))
        raise ConfigError(f"{name}: no such cluster; known are {known}, or a .yaml file") from None
