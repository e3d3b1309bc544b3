"""History events in the job store: numbered lines, added with their changes; only the latest are kept.

`event_recorder.py` derives the events.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, cast

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from daemon.core import job_ids
from daemon.store.rows.access import StoreAccess
from daemon.store.rows.event_recorder import HistoryEvent, Kind
from daemon.store.rows.tables import events, jobs

#: Chosen: some days of a busy cluster, and a hundred megabytes at most.
KEPT = 500_000
#: Of those that are too many, so many go at once: some milliseconds.
_STEP = 5_000
_ADD = sa.insert(events)


@dataclass(frozen=True, slots=True)
class NumberedEvent:
    """A history event with its unique number: later ones have higher numbers."""

    number: int
    happening: HistoryEvent


@dataclass(frozen=True, slots=True)
class Events:
    """Some history events, oldest first; the number from which to continue, and whether more exist."""

    found: Sequence[NumberedEvent]
    next: int
    more: bool


def add(connection: Connection, happened: Sequence[HistoryEvent]) -> None:
    """Store history events, in the caller's transaction."""
    if happened:
        connection.execute(
            _ADD,
            [
                {
                    "at": each.at,
                    "job": None if each.job_id is None else job_ids.job_number(each.job_id),
                    "kind": each.kind,
                    "text": each.text,
                }
                for each in happened
            ],
        )


class EventRows:
    """Reads them. All methods may be called from any thread, and raise StoreError."""

    def __init__(self, access: StoreAccess) -> None:
        self._access = access

    def read(
        self,
        limit: int,
        *,
        job_id: str | None = None,
        since: float | None = None,
        after: int | None = None,
        owners: Collection[str] = (),
    ) -> Events:
        """At most `limit` history events, of a job and of these owners' jobs where given.

        After that number, or from that time on (seconds); with neither, the last events. Events without a job
        are visible to everybody.
        """
        query = sa.select(events)
        if job_id is not None:
            query = query.where(events.c.job == job_ids.job_number(job_id))
        if owners:
            theirs = sa.exists().where(jobs.c.number == events.c.job, jobs.c.owner.in_(owners))
            query = query.where(events.c.job.is_(None) | theirs)
        if since is not None:
            query = query.where(events.c.at >= since)
        if after is not None:
            query = query.where(events.c.number > after)
        latest = since is None and after is None
        order: sa.ColumnElement[Any] = events.c.number.desc() if latest else events.c.number
        with self._access.read() as connection:
            # Read first: events that arrive in between are returned the next time.
            last = connection.scalar(sa.select(sa.func.max(events.c.number))) or 0
            query = query.where(events.c.number <= last)
            rows = connection.execute(query.order_by(order).limit(limit + 1)).all()
        more, rows = len(rows) > limit and not latest, rows[:limit]
        found = [_numbered(row) for row in (reversed(rows) if latest else rows)]
        return Events(found, found[-1].number if more else max(last, after or 0), more)

    def last(self) -> int:
        """The highest number that was given."""
        with self._access.read() as connection:
            return connection.scalar(sa.select(sa.func.max(events.c.number))) or 0

    def trim(self, kept: int = KEPT) -> int:
        """Forget some of the oldest, when more than so many are there; how many."""

        def work(connection: Connection) -> int:
            first, last = connection.execute(
                sa.select(sa.func.min(events.c.number), sa.func.max(events.c.number))
            ).one()
            if first is None or last - first < kept:
                return 0
            upto = min(last - kept, first + _STEP - 1)
            return connection.execute(sa.delete(events).where(events.c.number <= upto)).rowcount

        return self._access.write(work)


def _numbered(row: sa.Row[Any]) -> NumberedEvent:
    job_id = None if row.job is None else job_ids.job_id(row.job)
    return NumberedEvent(row.number, HistoryEvent(row.at, job_id, cast("Kind", row.kind), row.text))
