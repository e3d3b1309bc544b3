"""Recent activity in the job store: tasks on VMs, decisions, and the day's job costs."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from daemon.core import job_ids
from daemon.store.rows import job_rows, tables
from daemon.store.rows.access import StoreAccess
from daemon.store.rows.tables import charged_days, executors, explanations, jobs
from environment.decisions.explain import Explanation
from environment.model.messages.records import ExecutorRecord, JobRecord

#: Maximum number of jobs that are read; others are left out.
_MOST_JOBS = 2000
_RAN = tuple(state for state in tables.OPEN_JOB if state != "queued")


@dataclass(frozen=True, slots=True)
class RecentActivity:
    """Tasks and their jobs, and decisions, the newest first; whether more tasks are left out."""

    tasks: Sequence[ExecutorRecord]
    jobs: Sequence[JobRecord]
    decisions: Sequence[Explanation]
    left_out: bool


class LatelyRows:
    """Reads it. All methods may be called from any thread, and raise StoreError."""

    def __init__(self, access: StoreAccess) -> None:
        self._access = access

    def since(self, at: float, tasks: int, decisions: int) -> RecentActivity:
        """Tasks of jobs that run or have ended since then (seconds), and decisions: at most so many."""
        read, damages = self._access.read, self._access.damages
        ended = sa.select(jobs.c.number).where(jobs.c.finished_at >= at)
        ended = ended.order_by(jobs.c.finished_at.desc()).limit(_MOST_JOBS)
        on = sa.select(jobs.c.number).where(jobs.c.state.in_(_RAN))
        on = on.order_by(jobs.c.number.desc()).limit(_MOST_JOBS)
        numbers = sa.union_all(sa.select(ended.subquery()), sa.select(on.subquery())).subquery()
        row = executors.c
        # The inner query keeps records out of the sort: a job may have had any number of tasks.
        last = sa.select(row.task_id).join(numbers, numbers.c.number == row.job)
        last = last.order_by(row.launched_at.desc()).limit(tasks + 1)
        launched = sa.select(row.task_id, row.job, row.record).where(row.task_id.in_(last))
        launched = launched.order_by(row.launched_at.desc())
        decided = sa.select(explanations.c.number, explanations.c.job, explanations.c.body)
        decided = decided.order_by(explanations.c.number.desc()).limit(decisions)
        with read() as connection:
            found = damages.executors(connection, launched)
            shown = [task for task in found[:tasks] if task.ended_at is None or task.ended_at >= at]
            of = {job_ids.job_number(task.job_id) for task in shown}
            records = damages.jobs(
                connection, sa.select(jobs.c.number, jobs.c.record).where(jobs.c.number.in_(of))
            )
            rows = connection.execute(decided).all()
        made = (
            damages.read("explanations", str(row.number), row.job, job_rows.read_explanation, row.body)
            for row in rows
        )
        return RecentActivity(
            shown, records, [one for one in made if one is not None and one.at >= at], len(found) > tasks
        )

    def ended(self, at: float, owners: Collection[str], most: int) -> tuple[list[str], int]:
        """Ids of jobs of these owners (empty: all) that have ended since then (seconds); and their number.

        The last that ended come first, at most `most`.
        """
        wanted = [jobs.c.finished_at >= at, *([jobs.c.owner.in_(sorted(owners))] if owners else [])]
        numbers = sa.select(jobs.c.number).where(*wanted)
        numbers = numbers.order_by(jobs.c.finished_at.desc(), jobs.c.number.desc()).limit(most)
        count = sa.select(sa.func.count()).select_from(jobs).where(*wanted)
        with self._access.read() as connection:
            found = [job_ids.job_id(number) for number in connection.scalars(numbers)]
            return found, connection.scalar(count) or 0

    def held(self, day: str, midnight: float, until: float) -> tuple[float, float | None]:
        """VM cost by Islam 2022, eq. 4, of jobs since midnight until then, and when these began.

        Dollars without the part not yet charged; seconds since the epoch from which there were jobs that day,
        or None. The cost of a task that ran over midnight is divided by time.
        """
        cost: sa.ColumnElement[Any] = sa.func.sum(jobs.c.cost)
        earlier = sa.select(charged_days.c.day).where(charged_days.c.day < day).limit(1)
        first = sa.select(jobs.c.accepted_at).order_by(jobs.c.number).limit(1)
        lately = sa.select(jobs.c.number).where(jobs.c.finished_at >= midnight)
        going = sa.select(jobs.c.number).where(jobs.c.state.in_(tables.OPEN_JOB), jobs.c.cost > 0)
        numbers = sa.union_all(sa.select(lately.subquery()), sa.select(going.subquery())).subquery()
        of = executors.c
        ends = sa.func.coalesce(of.ended_at, until)
        part = (midnight - of.launched_at) / (ends - of.launched_at)
        earlier_cost = sa.func.sum(of.cost * sa.case((ends <= midnight, 1.0), else_=part))
        of_today = (of.launched_at < midnight) & of.job.in_(sa.select(numbers))
        # Rows of an earlier version have no cost of their own.
        unknown = sa.select(of.task_id, of.job, of.record).where(of_today, of.cost.is_(None))
        with self._access.read() as connection:
            ended = connection.scalar(sa.select(cost).where(jobs.c.finished_at >= midnight)) or 0.0
            open_ = connection.scalar(sa.select(cost).where(jobs.c.state.in_(tables.OPEN_JOB))) or 0.0
            before = connection.scalar(sa.select(earlier_cost).where(of_today)) or 0.0
            tasks = self._access.damages.executors(connection, unknown)
            before += sum(task.cost * _part_before(midnight, task, until) for task in tasks)
            held = ended + open_ - before
            if connection.scalar(earlier) is not None:
                return held, midnight
            at = connection.scalar(first)
            return held, None if at is None else max(midnight, at)


def _part_before(midnight: float, task: ExecutorRecord, until: float) -> float:
    """Fraction of a task's time, so far, that was before midnight."""
    ended = until if task.ended_at is None else task.ended_at
    return 1.0 if ended <= midnight else (midnight - task.launched_at) / (ended - task.launched_at)
