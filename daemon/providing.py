"""Who opens and closes VMs for this daemon, by its config, and which VMs these could be."""

from dataclasses import replace
from pathlib import Path

from conf.loader import find
from conf.schema import Config
from daemon.embedded import with_disk
from environment.cluster_files import load_cluster
from environment.types import Vm
from framework.asking import Credentials
from framework.providers.contract import Provider
from framework.providers.embedded import EmbeddedProvider
from framework.session import SessionOptions


def places_of(config: Config, folder: Path) -> tuple[Vm, ...]:
    """The VMs of the pools that the config of this folder names; ConfigError."""
    if config.provider is None and config.mesos.master != "embedded":
        return ()
    vms = load_cluster(find(config.mesos.cluster, folder))
    places = tuple(vm for vm in vms if vm.terms is not None)
    if config.provider is None or config.provider.name == "embedded":
        places = tuple(replace(vm, resources=with_disk(vm)) for vm in places)
    return places


def provider_of(config: Config, session: SessionOptions) -> Provider | None:
    """Who opens and closes them; None where nobody does. The embedded Mesos is asked as the master is."""
    if config.provider is None and config.mesos.master != "embedded":
        return None
    return EmbeddedProvider(session.master, Credentials(session.principal, session.secret))
