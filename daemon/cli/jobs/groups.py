"""Groups of jobs and arrays by command, as one; and `stoker wait`, which waits for jobs, too."""

import re
import time
from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING, Any

from stoker.errors import NotFoundError

from daemon.cli.shared.errors import CommandError
from daemon.cli.shared.fetching import Fetched, fetches, show
from daemon.cli.shared.options import JobIds, Output, notice

if TYPE_CHECKING:
    from rich.console import RenderableType
    from stoker import Stoker

_JOB, _ARRAY = re.compile(r"job-[1-9]\d*"), re.compile(r"array-([1-9]\d*)")


def is_group(name: str) -> bool:
    """Whether the name is that of a group or an array, and not a job's id."""
    return not _JOB.fullmatch(name)


def member(array_id: str, index: int) -> str | None:
    """The id of a job of an array by its number in it; None when that is no array's id."""
    match = _ARRAY.fullmatch(array_id)
    return f"job-{int(match[1]) + index}" if match else None


def named(client: "Stoker", name: str) -> str:
    """The name, where it is an id, a group's or an array's; of a job that is called so, its id."""
    if not is_group(name):
        return name
    try:
        client.group(name)
    except NotFoundError:
        try:
            return str(client.job(name)["id"])
        except NotFoundError:
            raise CommandError(f"there is no job, group or array {name}") from None
    return name


@fetches()
def wait(client: "Stoker", job_ids: JobIds, output: Output = "table") -> int:
    """Wait until all these jobs, and all jobs of these groups, have ended; exit 1 unless they finished.

    Example: stoker wait job-7 job-8 nightly
    """
    return max([wait_for(client, named(client, name), output) for name in job_ids])


def wait_for(client: "Stoker", name: str, output: str) -> int:
    """Wait, say how it has ended, and return the exit code."""
    return show(ending(_ended(client, name)), output)


def ending(found: Any) -> Fetched:
    """How a job, or a group, has ended."""

    def line(_: bool) -> "Iterable[RenderableType]":
        from daemon.cli.shared import job_tables

        return [job_tables.ending(found) if "executors" in found else job_tables.group_line(found)]

    return Fetched(found, line, exit_code=0 if found["state"] == "finished" else 1)


def _ended(client: "Stoker", name: str) -> Any:
    """The job, or the group, once it is over."""
    from daemon.cli.shared import follow

    fetch = partial(client.group if is_group(name) else client.job, name)
    while True:
        found = follow.patient(fetch, notice)
        if found["state"] in follow.ENDED and (not is_group(name) or found["finished_at"] is not None):
            return found
        time.sleep(follow.POLL_SECONDS)
