"""Following a job while it runs: every change of its state, or its log as it grows."""

import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Literal

from stoker import Stoker, UnreachableError, flows

Json = Any
Fetched = Any
Stream = Literal["stdout", "stderr"]

ENDED, POLL_SECONDS, AWAY_SECONDS = flows.ENDED, flows.POLL_SECONDS, flows.AWAY_SECONDS
#: Events that are fetched at once.
_PAGE = 1000


def changes(client: Stoker, job_id: str, notice: Callable[[str], None]) -> Iterator[Json]:
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
    client: Stoker,
    job_id: str,
    executor: int | None,
    stream: Stream,
    follow: bool,
    notice: Callable[[str], None],
) -> Iterator[Json]:
    """Yield a log's parts as the API returns them; the present ones, or until no more can come.

    `notice` receives each note of the API once; for a waiting job, also the reason.
    """
    if follow:
        waiting(client, job_id, notice)
    offset, noted = 0, ""
    while True:
        fetch = partial(client.log_part, job_id, executor=executor, stream=stream, offset=offset)
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


def events(
    client: Stoker, job_id: str | None, since: float | None, follow: bool, notice: Callable[[str], None]
) -> Iterator[Json]:
    """Yield the events of a job or of all jobs, since a time or the latest; with `follow`, new ones too.

    The events of a job end with the job. An unreachable daemon is retried; `notice` receives a message.
    """
    after: int | None = None
    while True:
        # The daemon may go away between two pages; printed events are not printed again.
        fetch = partial(client.events, job=job_id, since=since, after=after, limit=_PAGE)
        over = False
        if follow and job_id is not None:  # asked for first: its last event is there when it is over
            over = patient(partial(client.job, job_id), notice)["state"] in ENDED
        page = patient(fetch, notice) if follow else fetch()
        yield from page["events"]
        after = page["next"]
        if page["more"]:
            continue
        if over or not follow:
            return
        time.sleep(POLL_SECONDS)


def waiting(client: Stoker, job_id: str, notice: Callable[[str], None]) -> None:
    """Wait until a job is placed, or over; `notice` is told why it waits, whenever the reason is another."""
    told = ""
    while True:
        job = patient(partial(client.job, job_id), notice)
        if job["state"] not in ("queued", "placing"):
            return
        if (why := f"{job_id} is {job['state']}: {job['reason']}") != told:
            told = why
            notice(why)
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
