"""Lists from the store: pages of jobs in order, and queue positions.

A page of jobs comes from indexes in its order: the query reads no more rows, however many jobs there are.
"""

from bisect import bisect_left
from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple, get_args

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from daemon.core.job_ids import job_number
from daemon.store.queries.job_groups import of_group
from daemon.store.rows.tables import jobs, labels
from environment.model.messages.states import JobState


class WantedJobs(NamedTuple):
    """Which jobs: of these states, owners, queues and types, of all without; of a group, or an array.

    Those that have all these labels, by name.
    """

    states: Collection[str] = ()
    owners: Collection[str] = ()
    queues: Collection[str] = ()
    types: Collection[str] = ()
    group: str | None = None
    labels: Mapping[str, str] = MappingProxyType({})


def numbers_of(wanted: WantedJobs, limit: int, before: str | None, newest_first: bool) -> sa.Select[Any]:
    """The numbers of a page of such jobs."""

    def page(query: sa.Select[Any], number: sa.ColumnElement[int]) -> sa.Select[Any]:
        if before is not None:
            last = job_number(before) or 0
            query = query.where(number < last if newest_first else number > last)
        return query.order_by(number.desc() if newest_first else number).limit(limit)

    if wanted.group is not None or wanted.labels:
        return page(*_few(wanted))
    pages = [
        sa.select(page(sa.select(jobs.c.number).where(*kind), jobs.c.number).subquery())
        for kind in _kinds(wanted)
    ]
    if not pages:
        return page(sa.select(jobs.c.number), jobs.c.number)
    found = sa.union_all(*pages).subquery()
    return page(sa.select(found.c.number), found.c.number)


def _few(wanted: WantedJobs) -> tuple[sa.Select[Any], sa.ColumnElement[int]]:
    """Query for the jobs of a group or with labels, and its number column; one index finds them."""
    named, of = labels.alias(), jobs.c
    some = ((of.state, wanted.states), *_names(wanted))
    filters: list[sa.ColumnElement[bool]] = []
    filters += (column.in_(sorted(set(values))) for column, values in some if values)
    pairs = sorted(wanted.labels.items())
    if wanted.group is not None:
        filters.append(of_group(wanted.group))
        query, number = sa.select(of.number), of.number
    else:
        (name, value), *pairs = pairs
        query, number = sa.select(named.c.job), named.c.job
        query = query.where(named.c.name == name, named.c.value == value)
        if filters:
            query = query.join(jobs, of.number == named.c.job)
    for name, value in pairs:
        other = labels.alias()
        has = sa.exists().where(other.c.name == name, other.c.value == value, other.c.job == number)
        query = query.where(has)
    return query.where(*filters), number


def positions(connection: Connection, job_ids: Sequence[str]) -> list[int]:
    """Number of queued jobs submitted before each of these (at least one)."""
    asked = [job_number(job_id) or 0 for job_id in job_ids]
    queued, first, last = jobs.c.state == "queued", min(asked), max(asked)
    before = sa.select(sa.func.count()).select_from(jobs).where(queued, jobs.c.number < first)
    between = sa.select(jobs.c.number).where(queued, jobs.c.number.between(first, last))
    earlier = connection.scalar(before) or 0
    numbers = list(connection.scalars(between.order_by(jobs.c.number)))
    return [earlier + bisect_left(numbers, number) for number in asked]


def _names(wanted: WantedJobs) -> tuple[tuple[sa.Column[Any], Collection[str]], ...]:
    """Columns with their wanted values; each column's index includes all columns after it."""
    return (jobs.c.owner, wanted.owners), (jobs.c.type, wanted.types), (jobs.c.queue, wanted.queues)


def _kinds(wanted: WantedJobs) -> list[tuple[sa.ColumnElement[bool], ...]]:
    """Conditions, one of which holds for each wanted job; one index answers each, in the jobs' order."""
    asked = [(column, sorted(set(names))) for column, names in _names(wanted) if names]
    if not asked:
        return [(jobs.c.state == state,) for state in sorted(set(wanted.states))]
    (by_name, first), *rest = asked
    others = [column.in_(names) for column, names in rest]
    return [
        (by_name == name, jobs.c.state == state, *others)
        for name in first
        for state in sorted(set(wanted.states or get_args(JobState)))
    ]
