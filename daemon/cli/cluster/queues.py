"""The commands under `queue`: list the queues as a tree, show one, change one."""

from collections.abc import Iterable
from http import HTTPStatus
from typing import TYPE_CHECKING, Annotated, Any

import typer

from daemon.cli.shared.fetching import Fetched, fetches
from daemon.cli.shared.options import ListOutput

if TYPE_CHECKING:
    from rich.console import RenderableType
    from stoker import Stoker

queue = typer.Typer(help="Show queues, or change them while the daemon runs.", rich_markup_mode=None)

Path = Annotated[
    str, typer.Argument(metavar="QUEUE", help="The queue's path, such as prod.etl.", show_default=False)
]


@queue.callback(invoke_without_command=True)
def _queue(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        print(context.get_help())


@queue.command("list")
@fetches(ListOutput)
def list_queues(client: "Stoker") -> Fetched:
    """List the queues as a tree: shares, use, waiting jobs; limits with -o wide.

    Example: stoker queue list -o wide
    """
    answer = client.queues()

    def tables(wide: bool) -> "Iterable[RenderableType]":
        from daemon.cli.cluster import queue_tables

        return queue_tables.queues(answer, wide)

    return Fetched(answer, tables, (queue["path"] for queue in answer["queues"]))


@queue.command("show")
@fetches()
def show_queue(client: "Stoker", path: Path) -> Fetched:
    """Show a queue: its own settings, the settings in force, and its use.

    Example: stoker queue show prod.etl
    """
    return _settings(client.queue(path))


@queue.command("set")
@fetches()
def set_queue(
    client: "Stoker",
    path: Path,
    settings: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="KEY=VALUE",
            help=(
                "Settings to change: weight=3 most.cpus=16 guaranteed.memory=8g submit=ann,bob spot=null ..."
            ),
        ),
    ] = None,
) -> Fetched:
    """Change or create a queue; settings not named stay, null resets a setting.

    The change survives restarts, until the config file changes that queue's settings.

    Example: stoker queue set prod.etl weight=2 most.cpus=40
    """
    from stoker import flows

    change = _change(settings or [])
    response = client.run(flows.send("PATCH", f"/v1/queues/{flows.part(path)}", json=change))
    answer = flows.read(response)
    return _settings(
        answer, f"Queue {answer['path']} is new." if response.status_code == HTTPStatus.CREATED else ""
    )


@queue.command("remove")
@fetches()
def remove_queue(client: "Stoker", path: Path) -> Fetched:
    """Remove a queue that has no queue below it and no unfinished job.

    Example: stoker queue remove prod.etl
    """
    answer = client.remove_queue(path)
    return Fetched(answer, f"Queue {answer['path']} is removed.")


def _change(texts: list[str]) -> dict[str, Any]:
    """Settings by key, those within others by dotted keys; values as in YAML, names also with commas."""
    from conf.loader import ConfigError, plain_value
    from daemon.cli.shared.job_file import assignments

    change: dict[str, Any] = {}
    for dotted, text in assignments(texts, "settings").items():
        *above, key = dotted.split(".", 1)
        within = change.setdefault(above[0], {}) if above else change
        if not isinstance(within, dict):
            raise ConfigError(f"{above[0]}: given as a whole and in part")
        value = plain_value(text, dotted)
        if key == "submit" and isinstance(value, str):
            value = [name.strip() for name in value.split(",") if name.strip()]
        within[key] = value
    return change


def _settings(answer: Any, note: str = "") -> Fetched:
    def tables(_: bool) -> "Iterable[RenderableType]":
        from daemon.cli.cluster import queue_tables

        return [*([note] if note else ()), queue_tables.queue(answer)]

    return Fetched(answer, tables)
