"""`stoker events`: events of one job, or of all jobs and the cluster."""

import json
import sys
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer
from stoker.characters import visible, visible_json

from daemon.cli.jobs.groups import is_group, named
from daemon.cli.jobs.job_list import moment
from daemon.cli.shared.errors import CommandError
from daemon.cli.shared.fetching import fetches
from daemon.cli.shared.options import Output, notice, option

if TYPE_CHECKING:
    from stoker import Stoker


@fetches()
def events(
    client: "Stoker",
    job_id: Annotated[
        str | None, typer.Argument(metavar="[ID]", help="Only events of this job.", show_default=False)
    ] = None,
    follow: Annotated[
        bool, typer.Option("-f", "--follow", help="Follow new events; of a job, until it has ended.")
    ] = False,
    since: Annotated[
        str | None,
        option(
            "--since",
            "Only events since then: 2h (ago), yesterday (UTC), or a time (2026-11-22T10:00); by default "
            "the last 1000.",
            "TIME",
        ),
    ] = None,
    output: Output = "table",
) -> None:
    """Print the events, oldest first; as JSON, an object per line.

    Events of jobs (submitted, held, placed, preempted, retried, ended), of executors, of VMs (opened, ready,
    draining, closed), and changes of policies and queues.

    Example: stoker events job-7 -f
    """
    from daemon.cli.shared import follow as watch

    begin = None if since is None else moment(since, datetime.now().astimezone())
    if job_id is not None and is_group(job_id := named(client, job_id)):
        raise CommandError(f"{job_id} is no job's id or name; without one, all events are listed")
    for event in watch.events(client, job_id, begin, follow, notice):
        if output == "json":
            print(visible_json(json.dumps(event, ensure_ascii=False)))
        else:
            print(visible(line(event)))
        sys.stdout.flush()


def line(event: dict[str, Any]) -> str:
    """10:15:03 job-7 decided: ff: 2 of 2 executors placed: vm-1, vm-2."""
    from daemon.cli.shared import render

    whom = f"{event['job_id']:<8} " if event["job_id"] else ""
    return f"{render.clock(event['at'])} {whom}{event['kind']}: {event['message']}"
