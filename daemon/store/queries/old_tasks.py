"""Rows of tasks that are deleted before their job: a driver may ask for executors and return them for weeks.

The oldest of these rows gets their dollars, so that sums over a job's tasks stay right. The rows that stay
are those that are shown, and those with which a daemon starts. What VMs have cost is in tables of its own.
"""

from collections.abc import Sequence

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from daemon.core.job_ids import job_id, job_number
from daemon.store.queries.stored_jobs import MOST_TASKS
from daemon.store.rows.access import StoreAccess
from daemon.store.rows.damaged_rows import FIRST_READ, NOT_REPLACED
from daemon.store.rows.tables import OPEN_EXECUTOR, OPEN_JOB, executors, explanations, jobs

#: Rows of a job that are found at once. Chosen: some seconds of reads for a job that had a million.
_FOUND = 100_000
#: Explanations of a job that stay, the newest: several times what is shown.
_EXPLAINED = 1000


class OldTasks:
    """Finds and deletes them. All methods may be called from any thread, and raise StoreError."""

    def __init__(self, access: StoreAccess) -> None:
        self._access = access

    def due(self, before: float) -> dict[str, list[str]]:
        """Tasks to delete but for the first, by their job: all ended before then, seconds since the epoch.

        That should be a midnight (UTC): a day's costs are summed over the tasks of that day.
        """
        of = executors.c
        goes_on = sa.select(jobs.c.number).where(jobs.c.state.in_(OPEN_JOB))
        many = sa.select(of.job).where(of.job.in_(goes_on)).group_by(of.job)
        found: dict[str, list[str]] = {}
        with self._access.read() as connection:
            for number in connection.scalars(many.having(sa.func.count() > MOST_TASKS)).all():
                times = sa.select(of.launched_at).where(of.job == number)
                last = times.order_by(of.launched_at.desc()).offset(MOST_TASKS - 1).limit(1)
                first = times.order_by(of.launched_at).offset(FIRST_READ - 1).limit(1)
                between = (of.launched_at > first.scalar_subquery()) & (
                    of.launched_at < last.scalar_subquery()
                )
                # Rows of an earlier version have no cost of their own.
                over = (of.ended_at < before) & of.cost.is_not(None) & of.state.not_in(OPEN_EXECUTOR)
                old = sa.select(of.task_id).where(of.job == number, over, between)
                job = job_id(number)
                drives = of.task_id.between(f"{job}.driver", f"{job}.drives")
                old = old.where(~drives, ~of.record.contains(NOT_REPLACED))
                old = old.order_by(of.launched_at, of.task_id).limit(_FOUND)
                found[job] = list(connection.scalars(old))
        return {job: task_ids for job, task_ids in found.items() if len(task_ids) > 1}

    def delete(self, of_job: str, task_ids: Sequence[str], heir: str) -> None:
        """Delete tasks of a job, of which the heir gets the dollars, and the job's old explanations."""
        of, number = executors.c, job_number(of_job)
        # By their ids alone: the index of jobs would lead to all of the job's rows.
        which = of.task_id.in_(task_ids), of.state.not_in(OPEN_EXECUTOR)
        explained = sa.select(explanations.c.number).where(explanations.c.job == number)
        oldest = explained.order_by(explanations.c.number.desc()).offset(_EXPLAINED).limit(1)

        def work(connection: Connection) -> None:
            cost = connection.scalar(sa.select(sa.func.sum(of.cost)).where(*which)) or 0.0
            grown = sa.update(executors).where(of.task_id == heir).values(cost=of.cost + cost)
            if connection.execute(grown).rowcount:
                connection.execute(sa.delete(executors).where(*which))
            upto = connection.scalar(oldest)
            if upto is not None:
                gone = (explanations.c.job == number) & (explanations.c.number <= upto)
                connection.execute(sa.delete(explanations).where(gone))

        self._access.write(work)
