"""The commands about users: those under `user`. All but `whoami` require an admin."""

import time
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Annotated, Any

import typer
from stoker.characters import visible

from daemon.cli.shared.errors import CommandError, naming
from daemon.cli.shared.fetching import Fetched, fetches

if TYPE_CHECKING:
    from rich.console import RenderableType
    from stoker import Stoker

user = typer.Typer(help="Manage users and their tokens.", rich_markup_mode=None)

Name = Annotated[str, typer.Argument(metavar="NAME", help="The user's name.", show_default=False)]


@user.callback(invoke_without_command=True)
def _user(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        print(context.get_help())


@user.command("add")
@fetches()
def add_user(
    client: "Stoker",
    name: Name,
    role: Annotated[
        str | None,
        typer.Option(
            "--role",
            metavar="ROLE",
            help=(
                "Role of the user: read, submit, operate or admin, each with the permissions of those "
                "before it; by default submit."
            ),
        ),
    ] = None,
    unix_user: Annotated[
        str | None,
        typer.Option("--unix-user", metavar="USER", help="Unix user of their jobs; '' as in the config."),
    ] = None,
    queue: Annotated[
        list[str] | None,
        typer.Option(
            "--queue",
            metavar="QUEUE",
            help="A queue that they may submit to; others are then refused; repeatable. '' for all.",
        ),
    ] = None,
) -> Fetched:
    """Create a user, or change the given settings of one.

    `stoker user token` creates tokens.

    Example: stoker user add ann --role submit --queue prod
    """
    from stoker.flows import given

    queues = None if queue is None else [one for one in queue if one]
    answer = client.set_user(name, given(role=role, unix_user=unix_user, queues=queues))
    return Fetched(answer, lambda _: _tables([answer]))


@user.command("list")
@fetches()
def list_users(client: "Stoker") -> Fetched:
    """List the users, their roles and the ids of their tokens; tokens themselves are not stored.

    Example: stoker user list
    """
    answer = client.users()
    return Fetched(answer, lambda _: _tables(answer["users"]))


@user.command("token")
@fetches()
def make_token(
    connect: "Callable[[], AbstractContextManager[Stoker]]",
    name: Name,
    expires: Annotated[
        str | None,
        typer.Option("--expires", metavar="TIME", help="Validity of the token: 30d, 12h."),
    ] = None,
    for_file: Annotated[
        bool,
        typer.Option(
            "--for-file",
            help=("Send no request to a daemon; print the lines for a file of users (users.file) on stderr."),
        ),
    ] = False,
) -> Fetched | None:
    """Create a token for a user and print it once. Save it: `(umask 077; stoker user token ann > token)`.

    Example: stoker user token ann
    """
    seconds = _seconds(expires)
    if for_file:
        _print_entry(name, seconds)
        return None
    with connect() as client:
        answer = client.make_token(name, seconds)
    return Fetched(answer, answer["token"])


@user.command("end")
@fetches()
def end(
    client: "Stoker",
    what: Annotated[
        str,
        typer.Argument(
            metavar="NAME|TOKEN", help="A user, or a token by its id or as a whole.", show_default=False
        ),
    ],
) -> Fetched:
    """Revoke a user with all their tokens, or one token, at once. Jobs continue.

    Example: stoker user end ann
    """
    number = _token_id(what)
    if number is None:
        return Fetched(client.end_user(what), f"The user {what} was revoked.")
    answer = client.end_token(number)
    return Fetched(answer, f"The token {number} of {answer['name']} was revoked.")


@user.command("whoami")
@fetches()
def whoami(client: "Stoker") -> Fetched:
    """Show the user that the daemon recognises, with role and rights.

    Example: stoker user whoami
    """
    answer = client.whoami()
    name = answer["name"] or "no user"
    jobs = "own jobs" if answer["sees"] == "own" else "all jobs"
    return Fetched(answer, f"{name}, with the role {answer['role']}; sees {jobs}")


def _tables(users: list[Any]) -> "Iterable[RenderableType]":
    from daemon.cli.shared import render

    if not users:
        return ["No users. `stoker user add NAME` makes one."]
    rows = [
        (
            one["name"],
            one["role"],
            one["unix_user"] or render.NONE,
            ", ".join(one["queues"]) or "all",
            one["source"],
            token["id"] if token else render.NONE,
            _until(token, time.time()) if token else render.NONE,
            (token["used_on"] or "never") if token else render.NONE,
        )
        for one in users
        for token in (one["tokens"] or [{}])
    ]
    columns = ["user", "role", "Unix user", "queues", "from", "token", "expires", "last used"]
    return [render.table(columns, rows)]


def _until(token: Any, now: float) -> str:
    from daemon.cli.shared import render

    at = token["expires_at"]
    if at is None:
        return "never"
    return "has expired" if at <= now else render.clock(at)


def _seconds(text: str | None) -> float | None:
    from conf.units import seconds

    if text is None:
        return None
    with naming("--expires: "):
        found = seconds(text)
    if found <= 0:
        raise CommandError(f"--expires: should be a time with its unit, such as 30d, found {text!r}")
    return found


def _token_id(text: str) -> str | None:
    """The id that a text is, or that stands in the token that it is; None for a name."""
    import re

    found = re.fullmatch(r"(?:stoker_)?([0-9a-f]{16})(?:_[A-Za-z0-9_-]{43})?", text)
    return None if found is None else found[1]


def _print_entry(name: str, seconds: float | None) -> None:
    """Print a new token, and on stderr its entry for a file of users."""
    import sys
    from datetime import UTC, datetime

    from daemon.core.tokens import make_token as made

    now = time.time()
    token, record = made(now, None if seconds is None else now + seconds)
    entry = f"id: {record.id}, sha256: {record.sha256}"
    if record.expires_at is not None:
        entry += f", expires: {datetime.fromtimestamp(record.expires_at, UTC).isoformat(timespec='seconds')}"
    print(f"users:\n  {visible(name)}:\n    role: submit\n    tokens:\n    - {{{entry}}}", file=sys.stderr)
    print(token)
