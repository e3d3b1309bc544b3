"""Lists from the store: pages of jobs in their order, who is before whom in the queue, and comparisons.

A page of jobs comes from indexes that are in its order: no more is read, however many jobs there are.
"""

from bisect import bisect_left
from collections.abc import Collection, Sequence
from typing import Any, get_args

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from daemon import record_rows, tables
from daemon.damage import Damages
from daemon.shadow_comparison import Comparison
from daemon.tables import comparisons, jobs
from environment.model.records import JobRecord
from environment.model.states import JobState


def numbers_of(
    states: Collection[str],
    owners: Collection[str],
    queues: Collection[str],
    limit: int,
    before: str | None,
    newest_first: bool,
) -> sa.Select[Any]:
    """The numbers of a page of jobs of these states, owners and queues, of all where none are given."""

    def page(query: sa.Select[Any], number: sa.ColumnElement[int]) -> sa.Select[Any]:
        if before is not None:
            last = tables.job_number(before) or 0
            query = query.where(number < last if newest_first else number > last)
        return query.order_by(number.desc() if newest_first else number).limit(limit)

    pages = [
        sa.select(page(sa.select(jobs.c.number).where(*kind), jobs.c.number).subquery())
        for kind in _kinds(states, owners, queues)
    ]
    if not pages:
        return page(sa.select(jobs.c.number), jobs.c.number)
    found = sa.union_all(*pages).subquery()
    return page(sa.select(found.c.number), found.c.number)


def positions(connection: Connection, job_ids: Sequence[str]) -> list[int]:
    """How many queued jobs were submitted before each of these, of which there is one at least."""
    asked = [tables.job_number(job_id) or 0 for job_id in job_ids]
    queued, first, last = jobs.c.state == "queued", min(asked), max(asked)
    before = sa.select(sa.func.count()).select_from(jobs).where(queued, jobs.c.number < first)
    between = sa.select(jobs.c.number).where(queued, jobs.c.number.between(first, last))
    earlier = connection.scalar(before) or 0
    numbers = list(connection.scalars(between.order_by(jobs.c.number)))
    return [earlier + bisect_left(numbers, number) for number in asked]


def _kinds(
    states: Collection[str], owners: Collection[str], queues: Collection[str]
) -> list[tuple[sa.ColumnElement[bool], ...]]:
    """Conditions of which one holds for each job of these; one index answers each, in the jobs' order."""
    by_name, names = (jobs.c.owner, owners) if owners else (jobs.c.queue, queues)
    others = (jobs.c.queue.in_(sorted(set(queues))),) if owners and queues else ()
    if not names:
        return [(jobs.c.state == state,) for state in sorted(set(states))]
    return [
        (by_name == name, jobs.c.state == state, *others)
        for name in sorted(set(names))
        for state in sorted(set(states or get_args(JobState)))
    ]


def comparisons_of(connection: Connection, damages: Damages) -> list[tuple[Comparison, JobRecord]]:
    """All comparisons that are kept and can be read, the newest first, with their jobs."""
    columns = (comparisons.c.number, comparisons.c.body, jobs.c.number.label("job"), jobs.c.record)
    query = sa.select(*columns).join(jobs, jobs.c.number == comparisons.c.job)
    found: list[tuple[Comparison, JobRecord]] = []
    for row in connection.execute(query.order_by(comparisons.c.number.desc())).all():
        read = record_rows.read_comparison
        comparison = damages.read("comparisons", str(row.number), row.job, read, row.body)
        if comparison is not None:
            found.append((comparison, damages.job(connection, row.job, row.record)))
    return found
