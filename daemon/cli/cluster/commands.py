"""Registers the commands of this folder."""

import typer

from daemon.cli.cluster import bill, cluster, queues, top, users, webhooks, what_if
from daemon.cli.shared.command_groups import CommandGroup


def register(app: typer.Typer) -> None:
    """Add the commands to `stoker`."""
    for command in (cluster.cluster, top.top, bill.bill):
        app.command()(command)
    app.command("what-if")(what_if.what_if)
    app.add_typer(cluster.policy, name="policy", cls=CommandGroup)
    app.add_typer(queues.queue, name="queue", cls=CommandGroup)
    app.add_typer(users.user, name="user", cls=CommandGroup)
    app.add_typer(webhooks.webhook, name="webhook", cls=CommandGroup)
