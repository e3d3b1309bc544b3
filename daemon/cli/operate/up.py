"""The command `up`: reads the config and runs the daemon."""

import gc
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from daemon.cli.shared.daemon_config import ConfigFile, Settings, find_own_policies, read_config

if TYPE_CHECKING:
    from conf.schema import Config

Level = Literal["debug", "info", "warning", "error"]


def up(
    config: ConfigFile = None,
    settings: Settings = None,
    log_level: Annotated[Level, typer.Option("--log-level", help="Minimum level of logged events.")] = "info",
) -> int:
    """Run the daemon until SIGTERM or Ctrl-C.

    Without a config it runs an embedded Mesos with as many VMs as this machine carries, opened as jobs need
    them.

    Example: stoker up --config stoker.yaml
    """
    loaded, folder = read_config(config, _for_this_machine(settings or []) if config is None else settings)
    find_own_policies(config)
    return _run(loaded, folder, log_level)


def _for_this_machine(settings: list[str]) -> list[str]:
    """The settings, with the cluster that this machine carries, unless they say which."""
    from daemon.vms.host_capacity import cluster_for, this_machine

    said = {setting.partition("=")[0].strip() for setting in settings}
    if said & {"mesos", "mesos.cluster", "mesos.master"}:
        return settings
    return [*settings, f"mesos.cluster={cluster_for(this_machine())}"]


def _run(config: "Config", folder: Path, log_level: str) -> int:
    gc.disable()  # imported modules stay: a tenth of that time went into looking for garbage in them
    from daemon.server import run

    gc.enable()
    return run(config, folder, log_level)
