"""The command `jobs`: fetches the jobs, sorts them, and prints a message when none match.

The API filters by everything but times, since it has indexes for the rest. Times are filtered here, page by
page: the newest come first, so that no page is read beyond --since.
"""

import sys
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from daemon.cli.shared.errors import CommandError
from daemon.cli.shared.fetching import Fetched, fetches
from daemon.cli.shared.options import ListOutput, Many, notice, option
from environment.model.messages.states import JobState

if TYPE_CHECKING:
    from rich.console import RenderableType
    from stoker import Stoker

Json = Any
Field = Literal[
    "submitted", "started", "finished", "duration", "completion", "cost", "state", "type", "name", "owner",
    "queue", "priority", "executors", "cpus", "memory",
]  # fmt: skip

#: Jobs in one answer at most, as the API has it.
_PAGE = 1000
_KEYS = {"memory": "memory_mib", **{name: f"{name}_at" for name in ("submitted", "started", "finished")}}


@fetches(ListOutput)
def jobs(
    client: "Stoker",
    state: Annotated[JobState | None, typer.Option("--state", help="Only jobs in this state.")] = None,
    owner: Annotated[
        str | None,
        typer.Option(
            "--owner",
            "--user",
            help="Only jobs of this owner; '' finds those without one.",
            metavar="NAME",
            show_default=False,
        ),
    ] = None,
    queue: Annotated[str | None, option("--queue", "Only jobs in this queue.", "NAME")] = None,
    type: Annotated[str | None, option("--type", "Only jobs of this type.", "TYPE")] = None,  # noqa: A002 - the flag
    since: Annotated[
        str | None,
        option("--since", "Only jobs submitted since: 1h, yesterday (UTC), 2026-11-22T18:00.", "TIME"),
    ] = None,
    group: Annotated[
        str | None, option("--group", "Only jobs of this group, or of this array: array-12.", "NAME")
    ] = None,
    label: Annotated[
        Many, option("--label", "Only jobs with this label: team=a; can be repeated.", "NAME=VALUE")
    ] = None,
    sort: Annotated[
        Field | None, typer.Option("--sort", help="Sort the listed jobs by this, lowest first.")
    ] = None,
    reverse: Annotated[bool, typer.Option("-r", "--reverse", help="Reverse the order.")] = False,
    limit: Annotated[
        int, typer.Option("--limit", min=1, max=_PAGE, help="Maximum number of jobs, newest first.")
    ] = 50,
    watch: Annotated[
        bool,
        typer.Option("-w", "--watch", help="Refresh the list until q or Ctrl-C; in a pipe, list once."),
    ] = False,
    interval: Annotated[
        float, typer.Option("--interval", min=0.5, max=3600, metavar="SECONDS", help="With --watch.")
    ] = 2.0,
    output: ListOutput = "table",
) -> Fetched | None:
    """List jobs, the newest first.

    Example: stoker jobs --user ann --state failed --since yesterday --sort cost -r
    """
    start = None if since is None else moment(since, datetime.now().astimezone())
    wanted: dict[str, Json] = {"state": state, "owner": owner, "queue": queue, "type": type, "group": group}
    wanted["labels"] = label or ()

    def listed() -> Json:
        page = _PAGE if start is not None else limit
        found = list(islice(_since(_all(client, page, wanted), start), limit + 1))
        more, found = len(found) > limit, found[:limit]
        return {"jobs": ordered(found, sort, reverse), "next": found[-1]["id"] if more else None}

    def tables(answer: Json, wide: bool) -> "Iterator[RenderableType]":
        from daemon.cli.shared import job_tables

        asked = {"state": state, "owner": owner, "queue": queue, "type": type, "since": since}
        asked |= {"group": group, "label": ", ".join(label) if label else None}
        yield from job_tables.jobs(answer["jobs"], wide, _filters(asked))
        if answer["next"] is not None:
            yield f"There are more: these are the newest {limit}; --limit N lists more."

    answer = listed()
    if not answer["jobs"]:
        for text in _unknown(client, queue, type):
            notice(text)
    if watch and output in ("table", "wide") and sys.stdout.isatty():
        from daemon.cli.shared import live_screen

        live_screen.screen(lambda: list(tables(listed(), output == "wide")), interval)
        return None
    return Fetched(answer, partial(tables, answer), (job["id"] for job in answer["jobs"]))


def ordered(found: list[Json], by: Field | None, reverse: bool) -> list[Json]:
    """Jobs in the order of a field, those that have no value of it last; as they came without one."""
    if by is None:
        return found[::-1] if reverse else found
    key = _KEYS.get(by, by)
    known = sorted((job for job in found if job[key] is not None), key=lambda job: job[key], reverse=reverse)
    return known + [job for job in found if job[key] is None]


def _all(client: "Stoker", page: int, wanted: Mapping[str, Json]) -> Iterator[Json]:
    """All jobs that the API finds, the newest first, as far as they are read."""
    before = None
    while True:
        answer = client.jobs(limit=page, before=before, **wanted)
        yield from answer["jobs"]
        if (before := answer["next"]) is None:
            return


def _since(found: Iterator[Json], start: float | None) -> Iterator[Json]:
    for job in found:
        if start is not None and job["submitted_at"] < start:
            return
        yield job


def moment(text: str, now: datetime) -> float:
    """Seconds since the epoch of a time ago, a day's begin or a time; days are those of bills, in UTC."""
    from conf.units import seconds

    midnight = now.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    if text in ("today", "yesterday"):
        return (midnight - timedelta(days=text == "yesterday")).timestamp()
    try:
        if "-" in text:
            found = datetime.fromisoformat(text)
            return (found.replace(tzinfo=UTC) if len(text) == len("2026-11-22") else found).timestamp()
        return now.timestamp() - seconds(text.removesuffix(" ago"))
    except (ValueError, OverflowError):
        right = "should be so long ago (1h, 2d), today, yesterday, or a time: 2026-11-22T18:00"
        raise CommandError(f"--since: {right}, found {text!r}") from None


def _unknown(client: "Stoker", queue: str | None, type_: str | None) -> Iterator[str]:
    """Messages about an unknown --queue or --type, with the known ones; costs a page of jobs."""
    if queue is None and type_ is None:
        return
    last = client.jobs(limit=_PAGE)["jobs"]
    queues = {job["queue"] for job in last} | {each["path"] for each in client.queues()["queues"]}
    types = {job["type"] for job in last}
    for flag, given, known in (("queue", queue, queues), ("type", type_, types)):
        if given is not None and given not in known:
            there = ", ".join(sorted(known)) or "none yet"
            yield f"--{flag} {given}: unknown; known are {there}"


def _filters(asked: Mapping[str, Any]) -> str:
    """Filters in words: `state running, queue prod`; empty without any."""
    return ", ".join(f"{name} {value or repr('')}" for name, value in asked.items() if value is not None)
