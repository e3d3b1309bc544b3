"""The commands that show one job: `job` and `logs`; `explain` and `describe` are older names of `job`."""

import json
import sys
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer
from stoker.characters import visible_json
from stoker.log_lines import Level, LogText

from daemon.cli.jobs.events import line as event_line
from daemon.cli.jobs.groups import is_group, member, named
from daemon.cli.shared.errors import CommandError
from daemon.cli.shared.fetching import Fetched, fetches
from daemon.cli.shared.options import JobId, JobIds, ListOutput, Output, notice

if TYPE_CHECKING:
    from rich.console import RenderableType
    from stoker import Stoker

#: Number of a job's events that are shown with all else of it: the last ones.
_EVENTS = 10


@fetches(ListOutput)
def job(
    client: "Stoker",
    job_id: JobId,
    why: Annotated[
        bool,
        typer.Option("--why", help="Only the reasons: each decision, with the VMs as the policy saw them."),
    ] = False,
    events: Annotated[bool, typer.Option("--events", help="Only its events, oldest first.")] = False,
) -> Fetched:
    """Show why, when and where a job runs, and its cost; of a group or array, the states of its jobs.

    That is its state, times, cost and executors, the decisions about it, and its last events. JSON and YAML
    have the job, or the parts that --why and --events name, as the API has them.

    Example: stoker job job-7
    """
    if why or events:
        return _parts(client, job_id, why=why, events=events)
    job_id = named(client, job_id)
    whole = is_group(job_id)
    answer: Any = client.group(job_id) if whole else client.job(job_id)

    def tables(_: bool) -> "Iterable[RenderableType]":
        from daemon.cli.shared import job_tables

        return [job_tables.group(answer)] if whole else _everything(client, answer)

    return Fetched(answer, tables, [answer["id"]])


def _everything(client: "Stoker", job: Any) -> "Iterator[RenderableType]":
    from daemon.cli.jobs import explanation_tables
    from daemon.cli.shared import job_tables, render

    decisions = client.explain(job["id"])["explanations"]
    happened = _events(client, job["id"])
    yield from job_tables.job(_reached(job, client.settings.url))
    yield from explanation_tables.decisions(decisions)
    yield ""
    if (earlier := len(happened) - _EVENTS) > 0:
        yield f"... {render.count(earlier, 'earlier event')}: `stoker job {job['id']} --events`"
    yield from map(event_line, happened[-_EVENTS:])


def _parts(client: "Stoker", job_id: str, *, why: bool, events: bool) -> Fetched:
    """The reasons of a job, its events, or both; each alone as the API has it."""
    explanation: Any = client.explain(job_id) if why else None
    job_id = explanation["id"] if why else client.job(job_id)["id"]
    happened = _events(client, job_id) if events else []

    def tables(_: bool) -> "Iterator[RenderableType]":
        from daemon.cli.jobs import explanation_tables

        if why:
            attempts = client.job(job_id)["attempts"]
            yield from explanation_tables.explanation(explanation, attempts)
        if why and events:
            yield ""
        yield from map(event_line, happened)

    parts = {"explanation": explanation, "events": happened}
    return Fetched(parts if why and events else explanation if why else happened, tables, [job_id])


def _events(client: "Stoker", job_id: str) -> list[Any]:
    from daemon.cli.shared import follow

    return list(follow.events(client, job_id, None, False, notice))


def _reached(answer: Any, url: str) -> Any:
    """The job with the whole URL of its driver's UI."""
    return {**answer, "ui": url + answer["ui"]} if answer.get("ui") else answer


@fetches()
def logs(
    client: "Stoker",
    job_ids: JobIds,
    executor: Annotated[
        int | None,
        typer.Option("--executor", metavar="N", help="Print this executor's log, not the driver's."),
    ] = None,
    index: Annotated[
        int | None, typer.Option("--index", min=0, metavar="N", help="Index of the job in an array, from 0.")
    ] = None,
    stderr: Annotated[
        bool | None,
        typer.Option(
            "--stderr/--stdout", help="Stream to print; by default stdout, or stderr if stdout is empty."
        ),
    ] = None,
    follow: Annotated[
        bool, typer.Option("-f", "--follow", help="Follow the log until the job has ended.")
    ] = False,
    level: Annotated[
        Level | None,
        typer.Option(
            "--level",
            help="Print only Spark lines of this level and above; off: none.",
        ),
    ] = None,
    raw: Annotated[
        bool,
        typer.Option(
            "--raw",
            help="Print the log unchanged, even on a terminal: the job's escape sequences take effect.",
        ),
    ] = False,
    output: Output = "table",
) -> None:
    """Print the driver's log, or an executor's, of one job after the other; as JSON, an object for each part.

    On a terminal, characters that could steer it are shown as escapes; in a pipe the log is as it is.

    Example: stoker logs job-7 --executor 0 --stderr
    """
    if output == "json" and (level is not None or raw):
        raise CommandError("--level and --raw go with text: -o json has all of the log, escaped")
    wanted = [_whose(client, job_id, index) for job_id in job_ids]
    for job_id in wanted:
        if len(wanted) > 1:
            notice(f"the log of {job_id}:")
        _log(client, job_id, executor, stderr, follow, output, level, raw)


def _whose(client: "Stoker", job_id: str, index: int | None) -> str:
    """The id of the job of which the log is asked for."""
    if index is not None:
        if (found := member(job_id, index)) is None:
            raise CommandError(f"--index goes with the id of an array, such as array-12, not {job_id}")
        return found
    if is_group(job_id := named(client, job_id)):
        raise CommandError(f"{job_id} is no job's id or name; of an array, --index says which job's log")
    return job_id


def _log(
    client: "Stoker",
    job_id: str,
    executor: int | None,
    stderr: bool | None,
    follow: bool,
    output: str,
    level: Level | None,
    raw: bool,
) -> None:
    from daemon.cli.shared import follow as watch

    told: set[str] = set()

    def once(text: str) -> None:
        if text not in told:
            told.add(text)
            notice(text)

    whose = "the driver" if executor is None else f"executor {executor}"
    for stream in ("stdout", "stderr") if stderr is None else ("stderr" if stderr else "stdout",):
        printed, shown = False, LogText(level, escape=not raw and sys.stdout.isatty())
        for part in watch.log(client, job_id, executor, stream, follow, once):
            if stderr is None and stream == "stderr" and not printed:
                once(f"{whose} printed nothing to stdout; this is its stderr")
            printed = True
            if output == "json":
                print(visible_json(json.dumps({"stream": stream, **part}, ensure_ascii=False)))
            else:
                sys.stdout.write(shown.add(part["text"]))
            sys.stdout.flush()
        sys.stdout.write(shown.end())
        if printed:
            return


@fetches()
def explain(client: "Stoker", job_id: JobId) -> Fetched:
    """Do as `stoker job --why`."""
    return _parts(client, job_id, why=True, events=False)


@fetches()
def describe(client: "Stoker", job_id: JobId) -> Fetched:
    """Do as `stoker job`; JSON has the job, its explanation and its events."""
    found = client.job(job_id)
    answer = {
        "job": found,
        "explanation": client.explain(found["id"]),
        "events": _events(client, found["id"]),
    }
    return Fetched(answer, lambda _: _everything(client, found))
