"""The command `up`: reads the config and runs the daemon."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from daemon.cli.errors import CommandError

if TYPE_CHECKING:
    from conf.schema import Config

Level = Literal["debug", "info", "warning", "error"]


def up(
    config: Annotated[
        Path | None,
        typer.Option("--config", metavar="FILE", help="Config file; without it, the shipped defaults."),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="KEY=VALUE", help="One value of the config, as in policy.name=rr; repeatable."
        ),
    ] = None,
    log_level: Annotated[
        Level, typer.Option("--log-level", help="The least serious events to log.")
    ] = "info",
) -> int:
    """Run the daemon until SIGTERM or Ctrl-C."""
    from conf.loader import SHIPPED, ConfigError, load
    from conf.schema import Config
    from daemon.cli.jobfile import assignments

    path = config or SHIPPED / "default.yaml"
    try:
        loaded = load(path, Config, assignments(settings or [], "--set"))
    except ConfigError as error:
        raise CommandError(str(error)) from None
    return _run(loaded, path.absolute().parent, log_level)


def _run(config: "Config", folder: Path, log_level: str) -> int:
    from agents.registry import PolicyError
    from conf.loader import ConfigError
    from daemon.embedded import EmbeddedError
    from daemon.server import run
    from daemon.store import StoreError

    try:
        return run(config, folder, log_level)
    except (ConfigError, EmbeddedError, PolicyError, StoreError) as error:
        raise CommandError(str(error)) from None
