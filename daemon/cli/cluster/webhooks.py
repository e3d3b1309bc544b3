"""The commands under `webhook`: delivery statistics of each webhook, and a test. They require an admin."""

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from daemon.cli.shared.fetching import Fetched, fetches
from daemon.cli.shared.options import ListOutput

if TYPE_CHECKING:
    from rich.console import RenderableType
    from stoker import Stoker

webhook = typer.Typer(help="Show the delivery of webhooks, and test them.", rich_markup_mode=None)


@webhook.callback(invoke_without_command=True)
def _webhook(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        print(context.get_help())


@webhook.command("list")
@fetches(ListOutput)
def list_webhooks(client: "Stoker") -> Fetched:
    """List the webhooks of the config: whether they accept requests, and why not.

    Example: stoker webhook list -o wide
    """
    answer = client.webhooks()
    names = (found["name"] for found in answer["webhooks"])
    return Fetched(answer, lambda wide: _tables(answer["webhooks"], wide), names)


@webhook.command("test")
@fetches()
def try_webhook(
    client: "Stoker",
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="The webhook's name in the config.", show_default=False)
    ],
) -> Fetched:
    """Send one test request to a webhook: exit code 0 when it was accepted, 1 when not.

    Example: stoker webhook test chat
    """
    answer = client.try_webhook(name)
    if answer["came"] == "delivered":
        return Fetched(answer, f"{name} accepted {answer['id']} after {answer['seconds']:.1f} s.")
    return Fetched(answer, f"{name} did not accept {answer['id']}: {answer['why']}", exit_code=1)


def _tables(found: list[Any], wide: bool) -> "Iterator[RenderableType]":
    from daemon.cli.shared import render

    if not found:
        yield "No webhooks: the config names none (webhooks)."
        return
    columns = ["webhook", "to", "on", "state", "taken", "not", "given up", "taken last", "why not"]
    rows = [
        (
            each["name"],
            each["url"],
            ", ".join(each["on"]),
            each["state"],
            str(each["came"]["delivered"]),
            str(sum(each["came"].values()) - each["came"]["delivered"] - each["came"]["given up"]),
            str(each["came"]["given up"]),
            render.clock(each["delivered_at"]),
            _why(each),
        )
        for each in found
    ]
    spare = ("on", "given up", "taken last", "to")
    cut = ("webhook", "why not")
    yield render.fitted(columns, rows, wide=wide, right=("taken", "not", "given up"), cut=cut, spare=spare)


def _why(found: Any) -> str:
    from daemon.cli.shared import render

    if found["next_at"] is None:
        return str(found["failure"]) or render.NONE
    return f"{found['failure']}; again in {render.duration(max(0.0, found['next_at'] - time.time()))}"
