"""The commands that show one job: job, logs, explain, describe. The list of jobs is in `job_list`."""

import json
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated, Any

import typer
from stoker.log_lines import Level, LogText

from conf.util.printable import visible_json
from daemon.cli.jobs.groups import is_group, member, named
from daemon.cli.shared.errors import CommandError
from daemon.cli.shared.fetching import Fetched, fetches
from daemon.cli.shared.options import JobId, JobIds, ListOutput, Output, notice

if TYPE_CHECKING:
    from rich.console import RenderableType
    from stoker import Stoker


@fetches(ListOutput)
def job(client: "Stoker", job_id: JobId) -> Fetched:
    """Show a job and its executors; of a group or array, the states of its jobs.

    Example: stoker job job-7 -o yaml
    """
    job_id = named(client, job_id)
    whole = is_group(job_id)
    answer = client.group(job_id) if whole else client.job(job_id)

    def tables(_: bool) -> "Iterable[RenderableType]":
        from daemon.cli.shared import job_tables

        return [job_tables.group(answer)] if whole else job_tables.job(_reached(answer, client.settings.url))

    return Fetched(answer, tables, [answer["id"]])


def _reached(answer: Any, url: str) -> Any:
    """The job with the whole URL of its driver's UI."""
    return {**answer, "ui": url + answer["ui"]} if answer.get("ui") else answer


@fetches()
def logs(
    client: "Stoker",
    job_ids: JobIds,
    executor: Annotated[
        int | None, typer.Option("--executor", metavar="N", help="This executor's, not the driver's.")
    ] = None,
    index: Annotated[
        int | None, typer.Option("--index", min=0, metavar="N", help="Of an array, this job of it, from 0.")
    ] = None,
    stderr: Annotated[
        bool | None,
        typer.Option("--stderr/--stdout", help="Which of the two; else stdout, or stderr if that is empty."),
    ] = None,
    follow: Annotated[bool, typer.Option("-f", "--follow", help="Go on until the job has ended.")] = False,
    level: Annotated[
        Level | None,
        typer.Option(
            "--level",
            help="Of Spark's own lines only those of this level and above, or none.",
        ),
    ] = None,
    raw: Annotated[
        bool,
        typer.Option("--raw", help="On a terminal, too, as it is: the job's escape sequences take effect."),
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
    from daemon.cli.jobs import follow as watch

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
    """Say why a job's executors are where they are, why it waits, or how it failed.

    Example: stoker explain job-7
    """
    answer = client.explain(job_id)

    def tables(_: bool) -> "Iterable[RenderableType]":
        from daemon.cli.jobs import explanation_tables

        return explanation_tables.explanation(answer, client.job(job_id)["attempts"])

    return Fetched(answer, tables)


@fetches()
def describe(client: "Stoker", job_id: JobId) -> Fetched:
    """Show the output of `job`, `explain` and `events` for a job at once.

    Example: stoker describe job-7
    """
    from daemon.cli.jobs import follow as watch

    found = client.job(job_id)
    job_id = found["id"]
    why = client.explain(job_id)
    happened = list(watch.events(client, job_id, None, False, notice))

    def tables(_: bool) -> "Iterable[RenderableType]":
        from daemon.cli.jobs import explanation_tables
        from daemon.cli.jobs.events import line
        from daemon.cli.shared import job_tables

        yield from job_tables.job(_reached(found, client.settings.url))
        yield ""
        yield from explanation_tables.explanation(why)
        yield ""
        yield from map(line, happened)

    return Fetched({"job": found, "explanation": why, "events": happened}, tables)
