"""Jobs in the store, with their executors and the explanations of their placements: lookups, lists, sums.

`insert_jobs.py` adds jobs, `open_jobs.py` and `ended_jobs.py` cover those that go on and those that are over,
`recent_activity.py` the last hours. `rows/job_rows.py` converts records to rows.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from conf.schema import JobSpec
from daemon.core import job_ids
from daemon.store.queries import job_groups, job_pages
from daemon.store.queries.ended_jobs import PastJobs
from daemon.store.queries.insert_jobs import NewJobs
from daemon.store.queries.job_groups import GroupSum
from daemon.store.queries.open_jobs import OpenJobs
from daemon.store.queries.recent_activity import LatelyRows
from daemon.store.rows import job_rows as record_rows
from daemon.store.rows.access import StoreAccess
from daemon.store.rows.tables import (
    OPEN_EXECUTOR,
    add_explanations,
    executors,
    explanations,
    jobs,
    sums,
    upsert,
)
from daemon.store.rows.vm_records import VmBooks
from environment.decisions.explain import Explanation
from environment.model.messages.records import ExecutorRecord, JobRecord
from environment.model.messages.states import ENDED_JOB

#: Tasks of a job that are shown at once. Chosen: as many as a job may have executors; half a second to read.
MOST_TASKS = 10_000
#: Explanations of a job that are shown at once. Chosen: some MB, and a tenth of a second to read.
MOST_EXPLAINED = 200


@dataclass(frozen=True, slots=True)
class JobTotals:
    """Sums over all jobs ever submitted: dollars, and numbers of tasks by state."""

    cost: float
    executors: Mapping[str, int]


class StoredJobs:
    """All jobs. Every method may be called from any thread, and raises StoreError."""

    def __init__(self, access: StoreAccess, vms: VmBooks) -> None:
        self._access = access
        #: Adds jobs.
        self.new = NewJobs(access)
        #: Open jobs, ended jobs, and the activity of the last hours.
        self.open, self.ended, self.recent = OpenJobs(access, vms), PastJobs(access), LatelyRows(access)

    def saving(
        self,
        records: Sequence[JobRecord],
        tasks: Sequence[ExecutorRecord],
        explained: Sequence[Explanation],
    ) -> Callable[[Connection], None]:
        """Return a function that stores these in a caller's transaction."""
        job_rows = [record_rows.job_row(record) for record in records]
        executor_rows = [record_rows.executor_row(task) for task in tasks]
        explanation_rows = [record_rows.explanation_row(each) for each in explained]

        def work(connection: Connection) -> None:
            upsert(connection, jobs, job_rows)
            upsert(connection, executors, executor_rows)
            add_explanations(connection, explanation_rows)

        return work

    def get(self, job_id: str) -> JobRecord | None:
        """A job's record; None when there is no such job."""
        number = job_ids.job_number(job_id)
        return next(iter(self._jobs(_JOB.where(jobs.c.number == number))), None)

    def spec(self, job_id: str) -> JobSpec | None:
        """Spec submitted for a job; None when there is no such job, or when it cannot be read."""
        number = job_ids.job_number(job_id)
        with self._access.read() as connection:
            text = connection.scalar(sa.select(jobs.c.spec).where(jobs.c.number == number))
        if number is None or text is None:
            return None
        return self._access.damages.read("specs", job_id, number, record_rows.read_spec, text)

    def by_key(self, key: str) -> JobRecord | None:
        """The job that was submitted with this idempotency key; None when there is none."""
        return next(iter(self._jobs(_JOB.where(jobs.c.idempotency_key == key))), None)

    def page(
        self,
        *,
        states: Collection[str] = (),
        owners: Collection[str] = (),
        queues: Collection[str] = (),
        types: Collection[str] = (),
        group: str | None = None,
        labels: Mapping[str, str] | None = None,
        limit: int = 100,
        before: str | None = None,
        newest_first: bool = True,
    ) -> list[JobRecord]:
        """Jobs in order of submission, of these states, owners, queues and types (all without).

        With a `group`, or an array's id, only its jobs; with `labels` only jobs that have them all.
        For the next page, `before` is the last page's last id: the page starts after it in the chosen order.
        """
        wanted = job_pages.WantedJobs(states, owners, queues, types, group, labels or {})
        numbers = job_pages.numbers_of(wanted, limit, before, newest_first)
        query = _JOB.where(jobs.c.number.in_(numbers))
        return self._jobs(query.order_by(jobs.c.number.desc() if newest_first else jobs.c.number))

    def named(self, name: str, owners: Collection[str], most: int) -> list[JobRecord]:
        """Jobs of this name, of these owners (all without): those not ended first, then the newest."""
        whose = jobs.c.owner.in_(owners or sa.select(jobs.c.owner).distinct().scalar_subquery())
        order = (jobs.c.state.in_(sorted(ENDED_JOB)), jobs.c.number.desc())
        numbers = sa.select(jobs.c.number).where(whose, jobs.c.name == name).order_by(*order).limit(most)
        # The inner query keeps records out of the sort; a subquery's order is not its outer query's.
        return self._jobs(_JOB.where(jobs.c.number.in_(numbers)).order_by(*order))

    def group(self, name: str, owners: Collection[str] = ()) -> GroupSum | None:
        """Summary of a group's or an array's jobs, of these owners; None when there are none."""
        with self._access.read() as connection:
            return job_groups.group_sum(connection, name, owners, self._access.damages)

    def ends_of(self, job_ids: Collection[str]) -> dict[str, str]:
        """End state of each of these jobs that has ended."""
        with self._access.read() as connection:
            return job_groups.ends_of(connection, job_ids)

    def count_by_state(self) -> dict[str, int]:
        """Number of jobs in each state that occurs."""
        return self._sums("jobs")

    def totals(self) -> JobTotals:
        """Sums over all jobs, in dollars over those that were pruned too."""
        query = sa.select(sa.func.sum(sums.c.cost)).where(sums.c.name.in_(("jobs", "pruned")))
        with self._access.read() as connection:
            cost = connection.scalar(query)
        return JobTotals(float(cost or 0.0), self._sums("executors"))

    def head(self) -> JobRecord | None:
        """The oldest queued job; None when none is queued."""
        oldest = self.page(states=("queued",), limit=1, newest_first=False)
        return oldest[0] if oldest else None

    def positions(self, job_ids: Sequence[str]) -> list[int]:
        """Number of queued jobs submitted before each of these (at least one)."""
        with self._access.read() as connection:
            return job_pages.positions(connection, job_ids)

    def executors(self, job_id: str) -> list[ExecutorRecord]:
        """All tasks that a job ever had, in order of launch."""
        return self._tasks(_TASK.where(executors.c.job == job_ids.job_number(job_id)))

    def open_executors(self, job_id: str) -> list[ExecutorRecord]:
        """The tasks of a job that have not ended, in order of launch."""
        mine = executors.c.job == job_ids.job_number(job_id)
        return self._tasks(_TASK.where(mine, executors.c.state.in_(OPEN_EXECUTOR)))

    def drivers(self, job_id: str) -> list[ExecutorRecord]:
        """The drivers that a job had on the cluster, in order of launch."""
        first, after = f"{job_id}.driver", f"{job_id}.drives"  # the index of ids knows this range
        mine = executors.c.job == job_ids.job_number(job_id)
        return self._tasks(_TASK.where(mine, executors.c.task_id.between(first, after)))

    def task_ids(self, job_id: str) -> list[str]:
        """The ids of all tasks that a job ever had."""
        query = sa.select(executors.c.task_id).where(executors.c.job == job_ids.job_number(job_id))
        with self._access.read() as connection:
            return list(connection.scalars(query))

    def shown_executors(self, job_id: str) -> list[ExecutorRecord]:
        """The tasks of a job that are shown, in order of launch: a driver may have had any number.

        Those that have not ended, and of all the last that were launched; together at most `MOST_TASKS`.
        """
        of, goes_on = executors.c, executors.c.state.in_(OPEN_EXECUTOR)
        # The inner query keeps records out of the sort.
        last = sa.select(of.task_id).where(of.job == job_ids.job_number(job_id))
        last = last.order_by(goes_on.desc(), of.launched_at.desc()).limit(MOST_TASKS)
        return self._tasks(_TASK.where(of.task_id.in_(last)))

    def task(self, task_id: str) -> ExecutorRecord | None:
        """A task's record; None when there is no such task."""
        return next(iter(self._tasks(_TASK.where(executors.c.task_id == task_id))), None)

    def explanations(self, job_id: str) -> list[Explanation]:
        """All explanations of a job's placements, oldest decision first, and of its last waiting."""
        return self._explanations(job_id, None)

    def shown_explanations(self, job_id: str) -> list[Explanation]:
        """The last `MOST_EXPLAINED` of these: a driver may have asked for executors any number of times."""
        return self._explanations(job_id, MOST_EXPLAINED)

    def _explanations(self, job_id: str, most: int | None) -> list[Explanation]:
        number = job_ids.job_number(job_id)
        query = sa.select(explanations.c.number, explanations.c.body).where(explanations.c.job == number)
        with self._access.read() as connection:
            rows = connection.execute(query.order_by(explanations.c.number.desc()).limit(most)).all()
        read, of = self._access.damages.read, record_rows.read_explanation
        found = (read("explanations", str(key), number or 0, of, body) for key, body in reversed(rows))
        return [explanation for explanation in found if explanation is not None]

    def _jobs(self, query: sa.Select[Any]) -> list[JobRecord]:
        with self._access.read() as connection:
            return self._access.damages.jobs(connection, query)

    def _tasks(self, query: sa.Select[Any]) -> list[ExecutorRecord]:
        with self._access.read() as connection:
            return sorted(self._access.damages.executors(connection, query), key=record_rows.by_launch)

    def _sums(self, name: str) -> dict[str, int]:
        query = sa.select(sums.c.state, sums.c.number).where(sums.c.name == name, sums.c.number > 0)
        with self._access.read() as connection:
            return {row[0]: row[1] for row in connection.execute(query)}


_JOB = sa.select(jobs.c.number, jobs.c.record)
_TASK = sa.select(executors.c.task_id, executors.c.job, executors.c.record)
