"""The commands about jobs that were submitted: jobs, job, logs, kill, decommission, explain."""

import json
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated, Any

import typer

from conf.characters import visible_json
from daemon.cli.errors import CommandError
from daemon.cli.groups import is_group, member
from daemon.cli.shared_options import (
    DEFAULT_URL,
    Ca,
    JobId,
    ListOutput,
    Output,
    TokenFile,
    Url,
    connect,
    notice,
    option,
    print_json,
    show_answer,
)

if TYPE_CHECKING:
    from rich.console import RenderableType


def job(
    job_id: JobId,
    url: Url = DEFAULT_URL,
    token_file: TokenFile = None,
    ca: Ca = None,
    output: ListOutput = "table",
) -> None:
    """Show one job and its executors; of a group or an array, what became of its jobs.

    Example: stoker job job-7 -o yaml
    """
    whole = is_group(job_id)
    with connect(url, token_file, ca) as client:
        answer = client.group(job_id) if whole else client.job(job_id)

    def tables(_: bool) -> "Iterable[RenderableType]":
        from daemon.cli import views

        return [views.group(answer)] if whole else views.job(_reached(answer, url))

    show_answer(answer, output, [answer["id"]], tables)


def _reached(answer: Any, url: str) -> Any:
    """The job with the whole URL of its driver's UI."""
    return {**answer, "ui": url.rstrip("/") + answer["ui"]} if answer.get("ui") else answer


def logs(
    job_id: JobId,
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
    url: Url = DEFAULT_URL,
    token_file: TokenFile = None,
    ca: Ca = None,
    output: Output = "table",
) -> None:
    """Print the driver's log, or an executor's; as JSON, an object per line for each part."""
    from daemon.cli import watch

    if index is not None:
        if (found := member(job_id, index)) is None:
            raise CommandError(f"--index goes with the id of an array, such as array-12, not {job_id}")
        job_id = found
    elif is_group(job_id):
        raise CommandError(f"{job_id} is no job's id; of an array, --index says which job's log")
    told: set[str] = set()

    def once(text: str) -> None:
        if text not in told:
            told.add(text)
            notice(text)

    whose = "the driver" if executor is None else f"executor {executor}"
    with connect(url, token_file, ca) as client:
        for stream in ("stdout", "stderr") if stderr is None else ("stderr" if stderr else "stdout",):
            printed = False
            for part in watch.log(client, job_id, executor, stream, follow, once):
                if stderr is None and stream == "stderr" and not printed:
                    once(f"{whose} printed nothing to stdout; this is its stderr")
                printed = True
                if output == "json":
                    print(visible_json(json.dumps({"stream": stream, **part}, ensure_ascii=False)))
                else:
                    sys.stdout.write(part["text"])
                sys.stdout.flush()
            if printed:
                return


def kill(
    job_id: JobId,
    url: Url = DEFAULT_URL,
    token_file: TokenFile = None,
    ca: Ca = None,
    output: Output = "table",
) -> None:
    """End a job; of a group or an array, all of its jobs."""
    from daemon.cli.watch import ENDED

    with connect(url, token_file, ca) as client:
        answer = client.kill_group(job_id) if is_group(job_id) else client.kill(job_id)
    if output == "json":
        print_json(answer)
    elif answer["state"] in ENDED:
        print(f"Job {answer['id']} has ended: {answer['state']}.")
    else:
        print(f"Job {answer['id']} is being ended; `stoker job {answer['id']}` shows when it has.")


def decommission(
    job_id: JobId,
    executors: Annotated[
        list[int], typer.Argument(metavar="EXECUTOR...", help="Their numbers, as `stoker job` shows them.")
    ],
    reason: Annotated[str, option("--reason", "Why, for whoever looks at them.", "TEXT")] = "",
    url: Url = DEFAULT_URL,
    token_file: TokenFile = None,
    ca: Ca = None,
    output: Output = "table",
) -> None:
    """Have a job's driver give executors up, once their blocks are elsewhere.

    That costs the job no failure; if it still wants as many executors, the policy places others.
    """
    with connect(url, token_file, ca) as client:
        answer = client.decommission(job_id, executors, reason)
    if output == "json":
        print_json(answer)
        return
    from daemon.cli import render

    numbers = ", ".join(map(str, executors))
    noun = render.count(len(executors), "executor").partition(" ")[2]
    print(f"The driver of {answer['id']} gives {noun} {numbers} up; `stoker job {answer['id']}` shows it.")


def explain(
    job_id: JobId,
    url: Url = DEFAULT_URL,
    token_file: TokenFile = None,
    ca: Ca = None,
    output: Output = "table",
) -> None:
    """Say why a job's executors are where they are, or why it waits."""
    with connect(url, token_file, ca) as client:
        answer = client.explain(job_id)
    if output == "json":
        print_json(answer)
        return
    from daemon.cli import explanation_tables, render

    render.show(*explanation_tables.explanation(answer))
