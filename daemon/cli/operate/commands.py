"""Registers the commands of this folder."""

import typer

from daemon.cli.operate import completion, config, demo, maintenance, mesos, spark, up
from daemon.cli.shared.command_groups import CommandGroup


def register(app: typer.Typer) -> None:
    """Add the commands to `stoker`."""
    for command in (
        up.up,
        maintenance.backup,
        maintenance.restore,
        maintenance.doctor,
        maintenance.prune,
        demo.demo,
        mesos.mesos,
        completion.completion,
    ):
        app.command()(command)
    app.add_typer(config.config, name="config", cls=CommandGroup)
    app.add_typer(spark.spark, name="spark", cls=CommandGroup)
