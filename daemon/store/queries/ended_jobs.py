"""Ended jobs in the store: the oldest ones, their disk use, and their removal."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from daemon.core.job_ids import job_id, job_number
from daemon.store.rows import bill, tables
from daemon.store.rows.access import StoreAccess
from daemon.store.rows.job_rows import job_row
from daemon.store.rows.tables import (
    applications,
    comparisons,
    estimates,
    events,
    executors,
    explanations,
    jobs,
    labels,
    sums,
)
from environment.model.messages.records import JobRecord, MemoryUse
from environment.model.messages.states import ENDED_JOB

_OPEN = sa.exists().where(executors.c.job == jobs.c.number, executors.c.state.in_(tables.OPEN_EXECUTOR))
#: Only a job that is over has an end. To ask for its state too would lead SQLite to another index, and to
#: sorting all jobs.
_OVER = jobs.c.finished_at.is_not(None) & ~_OPEN


@dataclass(frozen=True, slots=True)
class EndedJobs:
    """A job that is over, with no task left running: end (seconds), and size in bytes.

    The size is None until it was measured.
    """

    job_id: str
    finished_at: float
    size: int | None


@dataclass(frozen=True, slots=True)
class KeptJobs:
    """Number of ended jobs that are kept, and their bytes, as far as these were measured."""

    jobs: int
    size: int


class PastJobs:
    """The jobs that are over. All methods may be called from any thread, and raise StoreError."""

    def __init__(self, access: StoreAccess) -> None:
        self._access = access

    def kept(self) -> KeptJobs:
        """Count and size of all stored jobs that have ended."""
        query = sa.select(sa.func.sum(sums.c.number), sa.func.sum(sums.c.size)).where(
            sums.c.name == "jobs", sums.c.state.in_(sorted(ENDED_JOB))
        )
        with self._access.read() as connection:
            number, size = connection.execute(query).one()
        return KeptJobs(int(number or 0), int(size or 0))

    def oldest(self, limit: int, after: EndedJobs | None = None) -> list[EndedJobs]:
        """Jobs that are completely over, first ended first; `after` is the last one of the page before."""
        query = sa.select(jobs.c.number, jobs.c.finished_at, jobs.c.size).where(_OVER)
        if after is not None:
            number = job_number(after.job_id) or 0
            later = jobs.c.finished_at > after.finished_at
            same = (jobs.c.finished_at == after.finished_at) & (jobs.c.number > number)
            query = query.where(jobs.c.finished_at >= after.finished_at, later | same)
        query = query.order_by(jobs.c.finished_at, jobs.c.number).limit(limit)
        with self._access.read() as connection:
            return [EndedJobs(job_id(row[0]), row[1], row[2]) for row in connection.execute(query)]

    def unmeasured(self, limit: int) -> dict[str, int]:
        """Some of them that are not measured yet, with the bytes of their rows."""
        with self._access.read() as connection:
            return _unmeasured(connection, limit)

    def measured(self, sizes: Mapping[str, int]) -> None:
        """Store the sizes of jobs in bytes."""
        rows = [{"of": job_number(job_id), "bytes": size} for job_id, size in sizes.items()]
        change = sa.update(jobs).where(jobs.c.number == sa.bindparam("of")).values(size=sa.bindparam("bytes"))
        if rows:
            self._access.write(lambda connection: connection.execute(change, rows))

    def note_memory(self, job_id: str, use: MemoryUse) -> bool:
        """Store the memory that a job used, unless it has running parts; return whether it was stored."""
        number = job_number(job_id)

        def work(connection: Connection) -> JobRecord | None:
            text = connection.scalar(sa.select(jobs.c.record).where(jobs.c.number == number, _OVER))
            record = None if text is None or number is None else self._access.damages.job_record(number, text)
            if record is not None:
                record.memory_use = use
                changed = {"record": job_row(record)["record"]}
                connection.execute(sa.update(jobs).where(jobs.c.number == number).values(changed))
            return record

        changed = self._access.write(work)
        if changed is not None:
            self._access.news.note([changed])
        return changed is not None

    def prune(self, job_ids: Sequence[str]) -> int:
        """Delete those of these jobs that are completely over; return their number."""
        return self._access.write(lambda connection: _prune(connection, job_ids)) if job_ids else 0


def _unmeasured(connection: Connection, limit: int) -> dict[str, int]:
    query = sa.select(jobs.c.number).where(_OVER, jobs.c.size.is_(None)).order_by(jobs.c.finished_at)
    numbers = list(connection.scalars(query.limit(limit)))
    sizes = dict.fromkeys(numbers, 0)
    for table, job, columns in (
        (jobs, jobs.c.number, (jobs.c.record, jobs.c.spec)),
        (executors, executors.c.job, (executors.c.record,)),
        (explanations, explanations.c.job, (explanations.c.body,)),
        (comparisons, comparisons.c.job, (comparisons.c.body,)),
        (events, events.c.job, (events.c.text,)),
        (estimates, estimates.c.job, (estimates.c.body,)),
    ):
        length = sum((sa.func.coalesce(sa.func.length(column), 0) for column in columns), sa.literal(0))
        total = sa.select(job, sa.func.sum(length)).select_from(table).where(job.in_(numbers)).group_by(job)
        for number, size in connection.execute(total):
            sizes[number] += int(size)
    return {job_id(number): size for number, size in sizes.items()}


def _prune(connection: Connection, job_ids: Sequence[str]) -> int:
    asked = [job_number(job_id) for job_id in job_ids]
    query = sa.select(jobs.c.number, jobs.c.state).where(jobs.c.number.in_(asked), _OVER)
    numbers = [number for number, state in connection.execute(query) if state in ENDED_JOB]
    for table, job in (
        (executors, executors.c.job),
        (explanations, explanations.c.job),
        (comparisons, comparisons.c.job),
        (events, events.c.job),
        (applications, applications.c.job),
        (labels, labels.c.job),
        (estimates, estimates.c.job),
        (jobs, jobs.c.number),
    ):
        connection.execute(sa.delete(table).where(job.in_(numbers)))
    bill.forget_jobs(connection, list(map(job_id, numbers)))
    return len(numbers)
