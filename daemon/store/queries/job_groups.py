"""Jobs that are looked at as one, in the store: those of a group, by its name, or of an array, by its id."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from daemon.core.job_ids import array_number, job_id, job_number
from daemon.store.rows import tables
from daemon.store.rows.damaged_rows import Damages
from daemon.store.rows.tables import jobs
from environment.model.messages.records import JobRecord
from environment.model.messages.states import ENDED_JOB, JobState


@dataclass(frozen=True, slots=True)
class GroupSum:
    """Summary of a group's jobs: count by state, dollars, times in seconds.

    `finished_at` is the end of the last job, None while one is open; `failure` is the first job that failed
    or was killed. `open_jobs` are the ids of the open jobs.
    """

    id: str
    states: Mapping[JobState, int]
    cost: float
    submitted_at: float
    finished_at: float | None
    failure: JobRecord | None
    open_jobs: tuple[str, ...]

    @property
    def state(self) -> JobState:
        """Common state of all jobs: the end state once all are over, else queued or running."""
        bad: tuple[JobState, ...] = ("failed", "killed")
        if not self.open_jobs:
            return next((state for state in bad if state in self.states), "finished")
        return "queued" if set(self.states) == {"queued"} else "running"


def of_group(group: str) -> sa.ColumnElement[bool]:
    """Condition for the jobs of a group or an array."""
    number = array_number(group)
    return jobs.c.job_group == group if number is None else jobs.c.array_of == number


def group_sum(
    connection: Connection, group: str, owners: Collection[str], damages: Damages
) -> GroupSum | None:
    """Summary of a group's stored jobs, of all or of these owners; None without any."""
    theirs, count = of_group(group), sa.func.count()
    if owners:
        theirs &= jobs.c.owner.in_(sorted(set(owners)))
    columns = (
        count,
        sa.func.sum(jobs.c.cost),
        sa.func.min(jobs.c.accepted_at),
        sa.func.max(jobs.c.finished_at),
    )
    rows = connection.execute(sa.select(jobs.c.state, *columns).where(theirs).group_by(jobs.c.state)).all()
    if not rows:
        return None
    not_over = sa.select(jobs.c.number).where(theirs, jobs.c.state.in_(tables.OPEN_JOB))
    open_jobs = tuple(map(job_id, connection.scalars(not_over.order_by(jobs.c.number))))
    bad = sa.select(jobs.c.number, jobs.c.record).where(theirs, jobs.c.state.in_(("failed", "killed")))
    failures = damages.jobs(connection, bad.order_by(jobs.c.finished_at, jobs.c.number).limit(1))
    ends = [end for *_, end in rows if end is not None]
    return GroupSum(
        group,
        {state: number for state, number, *_ in rows},
        sum(cost for _, _, cost, *_ in rows),
        min((begin for *_, begin, _ in rows if begin is not None), default=0.0),
        None if open_jobs else max(ends, default=None),
        failures[0] if failures else None,
        open_jobs,
    )


def ends_of(connection: Connection, job_ids: Collection[str]) -> dict[str, str]:
    """End states of jobs, by id; without open and deleted jobs."""
    numbers = [job_number(job_id) or 0 for job_id in job_ids]
    found: dict[str, str] = {}
    for first in range(0, len(numbers), 500):
        some = jobs.c.number.in_(numbers[first : first + 500])
        query = sa.select(jobs.c.number, jobs.c.state).where(some, jobs.c.state.in_(sorted(ENDED_JOB)))
        found |= {job_id(number): state for number, state in connection.execute(query)}
    return found
