"""Following a job while it runs: every change of its state, or its log as it grows."""

import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from daemon.cli.client import Client, UnreachableError

Json = Any
Fetched = Any

ENDED = frozenset({"finished", "failed", "killed"})

POLL_SECONDS = 0.5
#: Chosen: a daemon that is being restarted comes back within this.
AWAY_SECONDS = 120.0


def changes(client: Client, job_id: str, notice: Callable[[str], None]) -> Iterator[Json]:
    """Yield the job whenever its state, its reason or its executors changed; ends when the job has.

    A daemon that goes away in between is waited for; `notice` is told.
    """
    seen: Json = None
    while True:
        job = patient(partial(client.job, job_id), notice)
        picture = (job["state"], job["reason"], job["losses"])
        if picture != seen:
            seen = picture
            yield job
        if job["state"] in ENDED:
            return
        time.sleep(POLL_SECONDS)


def log(
    client: Client,
    job_id: str,
    executor: int | None,
    stream: str,
    follow: bool,
    notice: Callable[[str], None],
) -> Iterator[Json]:
    """Yield a log's parts as the API gives them; all that is there, or until no more can come.

    What the API notes of it, `notice` is told once.
    """
    offset, noted = 0, ""
    while True:
        fetch = partial(client.log, job_id, executor, stream, offset)
        part = patient(fetch, notice) if follow else fetch()
        offset = part["next_offset"]
        if part["note"] not in ("", noted) and (part["complete"] or not follow):
            noted = part["note"]
            notice(noted)
        if part["text"]:
            yield part
        elif not follow or part["complete"]:
            return
        else:
            time.sleep(POLL_SECONDS)


def patient(fetch: Callable[[], Fetched], notice: Callable[[str], None]) -> Fetched:
    """Fetch, and try again for a while when the daemon is away."""
    give_up = time.monotonic() + AWAY_SECONDS
    told = False
    while True:
        try:
            return fetch()
        except UnreachableError as error:
            if time.monotonic() > give_up:
                raise
            if not told:
                notice(f"{error}; trying again")
                told = True
            time.sleep(POLL_SECONDS)
