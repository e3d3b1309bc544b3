"""VM provider of this daemon's config, and the VMs that it may open."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from conf.loader import ConfigError
from conf.schema import CommandProvider, Config, Ec2Provider, EmbeddedProvider
from daemon.store.job_store import Store
from daemon.substrate.embedded_mesos import with_disk
from daemon.vms.provider_guard import GuardedProvider
from daemon.vms.termination_endpoint import vm_keys
from environment.clusters.cluster_files import cluster_file, load_cluster
from environment.clusters.dollar_limits import affordable
from environment.types import Vm
from framework.mesos.bounded_http import Credentials
from framework.mesos.session import SessionOptions
from framework.providers.agent_join import Door
from framework.providers.embedded import EmbeddedMesosProvider
from framework.providers.factory import make_provider
from framework.providers.interface import Provider


def places_of(config: Config, folder: Path) -> tuple[Vm, ...]:
    """The VMs of the pools that the config of this folder names; ConfigError."""
    if config.provider is None and not config.vms_here:
        return ()
    vms = load_cluster(cluster_file(config.mesos.cluster, folder))
    places = tuple(vm for vm in vms if vm.terms is not None)
    if config.provider is None or config.provider.name == "embedded":
        places = tuple(replace(vm, resources=with_disk(vm)) for vm in places)
    return places


def too_low(config: Config, vms: Sequence[Vm]) -> str:
    """Under which limit per hour of the budget none of these VMs is ever opened; empty when there is none."""
    try:
        affordable(config.budget.per_hour if config.budget else {}, vms)
    except ValueError as error:
        return str(error)
    return ""


def check_pools(config: Config, folder: Path, section: str = "") -> None:
    """Raise ConfigError when the budget or a commitment names a pool or a type that is not there.

    With `section`, only that section of the config is checked.
    """
    named = [
        (f"budget.pools.{name}", "pool", name) for name in (config.budget.pools if config.budget else ())
    ]
    for name, each in config.commitments.items():
        kind, of = ("pool", each.pool) if each.pool else ("type", each.type)
        named.append((f"commitments.{name}.{kind}", kind, of))
    if not named:
        return
    known = {"pool": {vm.terms.pool for vm in places_of(config, folder) if vm.terms is not None}}
    if config.provider is not None or config.vms_here:  # another Mesos has types of its own
        known["type"] = {vm.type for vm in load_cluster(cluster_file(config.mesos.cluster, folder))}
    for key, kind, name in named:
        if key.startswith(section) and kind in known and name not in known[kind]:
            there = ", ".join(sorted(known[kind]))
            has = f"its {kind}s are {there}" if there else f"it has no {kind}s"
            raise ConfigError(f"{key}: there is no {kind} {name} in {config.mesos.cluster}; {has}")


def provider_of(
    config: Config, folder: Path, session: SessionOptions, url: str, store: Store
) -> Provider | None:
    """Make the VM provider; None where there is none. The embedded Mesos is reached like the master.

    `url` is the address of this leading daemon for VMs: keys of the store authorize these. No call is
    made while the store's VMs are elsewhere. ConfigError, StoreError.
    """
    if config.provider is None and not config.vms_here:
        return None
    provider: Provider
    if isinstance(config.provider, EmbeddedProvider | None):
        provider = EmbeddedMesosProvider(session.master, Credentials(session.principal, session.secret))
    else:
        provider = foreign_provider(config, config.provider, folder, url, vm_keys(store))
    return GuardedProvider(provider, place_of(config.provider), store)


def place_of(options: EmbeddedProvider | CommandProvider | Ec2Provider | None) -> Mapping[str, str]:
    """The place where a provider opens VMs, by its config: another place has none of them."""
    match options:
        case Ec2Provider():
            url = options.endpoint_url or ""
            return {"name": "ec2", "region": options.region, "cluster": options.cluster, "endpoint_url": url}
        case CommandProvider():
            return {"name": "command", "list": " ".join(options.list)}
        case _:
            return {"name": "embedded"}


def foreign_provider(
    config: Config,
    options: CommandProvider | Ec2Provider,
    folder: Path,
    url: str = "",
    key: Callable[[str], str] = lambda _: "",
) -> Provider:
    """The one that a config names, for VMs elsewhere; without URL and keys, to look only. ConfigError."""
    master = config.mesos.master
    if master == "embedded":
        raise ConfigError(
            f"provider.name: {options.name} opens VMs whose agents need an external Mesos: mesos.master "
            "should be its HOST:PORT or zk://..., found embedded"
        )
    door = Door(options.master or master, options.url or url, key)
    return make_provider(options, places_of(config, folder), door, folder)
