"""Registers the commands of this folder."""

import typer

from daemon.cli.research import audit, bound, oga, outside_inputs, reproduce, simulate, train, workload
from daemon.cli.shapes import shape_table
from daemon.cli.shared.command_groups import CommandGroup


def register(app: typer.Typer) -> None:
    """Add the commands to `stoker`."""
    for command in (
        audit.audit,
        simulate.simulate,
        workload.workload,
        shape_table.shapes,
        bound.bound,
        train.train,
        train.evaluate,
    ):
        app.command()(command)
    reproduce.reproduce.command("shapes")(outside_inputs.shapes)
    reproduce.reproduce.command("spot")(outside_inputs.spot)
    reproduce.reproduce.command("leaderboard")(outside_inputs.leaderboard)
    app.add_typer(reproduce.reproduce, name="reproduce", cls=CommandGroup)
    app.add_typer(oga.oga, name="oga", cls=CommandGroup)
