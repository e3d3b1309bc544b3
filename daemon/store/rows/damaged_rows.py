"""Unreadable rows of the job store: noted, replaced by a stand-in, and put aside.

A job with a damaged record is shown from its row's other columns. An open one has failed once a daemon loads
the store, with that as its reason: its next step is unknown. Rows put aside stay unchanged in the table
`quarantine`.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from threading import Lock
from typing import Any, TypeVar

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from conf.schema import JobSpec
from daemon.core import job_ids
from daemon.store.rows import job_rows, tables
from daemon.store.rows.checksummed import UnreadableRowError
from daemon.store.rows.tables import executors, jobs, quarantine
from environment.model.messages.records import ExecutorRecord, JobRecord
from environment.model.messages.states import ENDED_JOB
from environment.resources import NOTHING, Resources
from environment.types import Job

Result = TypeVar("Result")

#: Tasks of a job that are all read at a daemon's start; of a job with more, so many ended ones that were
#: launched first, and last, beside those that matter. Chosen: the model has no more of them in memory.
_ALL_READ, FIRST_READ, _LAST_READ = 5000, 100, 500
#: How the record of a task begins that field which says that another has taken its place, or has to.
NOT_REPLACED = '"replaced":false'
#: Damaged rows that are remembered by name. Chosen: more are a damaged disk, and need no list.
_MOST = 1000


@dataclass(frozen=True, slots=True)
class Damage:
    """A row that cannot be read: its table, its key there (an id or a number), its job if any, and why."""

    table: str
    key: str
    job_id: str
    why: str

    def __str__(self) -> str:
        return f"{self.table} {self.key}: {self.why}"


class Damages:
    """The rows that were found damaged, by all threads, until they are read again and are well."""

    def __init__(self) -> None:
        self._found: dict[tuple[str, str], Damage] = {}
        self._lock = Lock()

    def all(self) -> tuple[Damage, ...]:
        """All that are known."""
        with self._lock:
            return tuple(self._found.values())

    def of(self, job_id: str) -> tuple[Damage, ...]:
        """Damages of a job."""
        return tuple(damage for damage in self.all() if damage.job_id == job_id) if self._found else ()

    def read(
        self, table: str, key: str, number: int | None, build: Callable[[Any], Result], value: Any
    ) -> Result | None:
        """Build the row's value; None, and a note of the damage, when it cannot be read."""
        try:
            found = build(value)
        except UnreadableRowError as error:
            with self._lock:
                if len(self._found) < _MOST:
                    job_id = "" if number is None else job_ids.job_id(number)
                    damage = Damage(table, key, job_id, str(error))
                    self._found[table, key] = damage
            return None
        if self._found:
            with self._lock:
                self._found.pop((table, key), None)
        return found

    def jobs(self, connection: Connection, query: sa.Select[Any]) -> list[JobRecord]:
        """The jobs that a query of `jobs.number` and `.record` finds; another record for a damaged one."""
        return [self.job(connection, number, text) for number, text in connection.execute(query).all()]

    def job(self, connection: Connection, number: int, text: Any) -> JobRecord:
        """The record of a row of `jobs`; when it is damaged, one that the rest of the row makes."""
        return self.job_record(number, text) or stand_in(connection, number)

    def job_record(self, number: int, text: Any) -> JobRecord | None:
        """The record of a row of `jobs`; None when it is damaged."""
        return self.read(
            "jobs", job_ids.job_id(number), number, partial(job_rows.read_job, number=number), text
        )

    def executors(self, connection: Connection, query: sa.Select[Any]) -> list[ExecutorRecord]:
        """The tasks that a query of `executors.task_id`, `.job` and `.record` finds, but for damaged ones."""
        return self.tasks(connection.execute(query).all())

    def tasks(self, rows: Iterable[Sequence[Any]]) -> list[ExecutorRecord]:
        """The tasks of rows that begin with `executors.task_id` and `.job` and end with `.record`."""
        found = (self.read("executors", row[0], row[1], job_rows.read_executor, row[-1]) for row in rows)
        return [task for task in found if task is not None]


def stand_in(connection: Connection, number: int) -> JobRecord:
    """Substitute record for a job with an unreadable one, from its row's other columns."""
    names = ("state", "cost", "accepted_at", "finished_at", "spec", "owner", "queue")
    kept = (jobs.c[name] for name in names)
    row = connection.execute(sa.select(*kept).where(jobs.c.number == number)).one()
    spec = _spec(row.spec)
    return JobRecord(
        Job(
            id=job_ids.job_id(number),
            type=spec.type if spec else "unknown",
            size=Resources.of(spec.most_cpus, spec.memory_mib, spec.resources) if spec else NOTHING,
            executors=spec.most_executors if spec else 0,
            submitted_at=_number(row.accepted_at),
            name=spec.label if spec else "",
            owner=row.owner,
            queue=row.queue,
        ),
        state=row.state if row.state in (*tables.OPEN_JOB, *ENDED_JOB) else "failed",
        reason="its record in the job store is damaged; `stoker doctor` says how",
        finished_at=None if row.finished_at is None else _number(row.finished_at),
        cost=_number(row.cost),
    )


def task_rows_to_go_on(connection: Connection, numbers: Sequence[int]) -> list[Sequence[Any]]:
    """Rows of the tasks with which a daemon goes on with these jobs: `task_id`, `job`, `state`, `record`.

    All, but for jobs of which drivers gave back very many executors: of these the last ended ones, as the
    model has them, and the first, which tell since when the job runs.
    """
    of = executors.c
    query = sa.select(of.task_id, of.job, of.state, of.record)
    counted = sa.select(of.job).where(of.job.in_(numbers)).group_by(of.job)
    long = list(connection.scalars(counted.having(sa.func.count() > _ALL_READ)))
    found: list[Sequence[Any]] = list(
        connection.execute(query.where(of.job.in_([n for n in numbers if n not in long]))).all()
    )
    for number in long:
        its = sa.select(of.task_id).where(of.job == number)
        first = its.order_by(of.launched_at).limit(FIRST_READ)
        last = its.order_by(of.launched_at.desc()).limit(_LAST_READ)
        matters = of.state.in_(tables.OPEN_EXECUTOR) | of.record.contains(NOT_REPLACED)
        matters |= of.task_id.in_(first) | of.task_id.in_(last)
        found += connection.execute(query.where(of.job == number, matters)).all()
    return found


@dataclass(slots=True)
class FoundJobs:
    """Jobs and tasks as read before any row was put aside, and the damage found."""

    jobs: list[JobRecord] = field(default_factory=list)
    tasks: list[ExecutorRecord] = field(default_factory=list)
    damages: tuple[Damage, ...] = ()


def put_aside(connection: Connection, numbers: Sequence[int], at: float) -> FoundJobs:
    """Put damaged rows of these jobs aside, so that a daemon can load the others; return both.

    Such a job has failed, unless it was over; so has a job with a damaged open task. Its running tasks are
    marked to be killed. Jobs are returned in the order of their numbers.
    """
    damages, found = Damages(), FoundJobs()
    failed: dict[int, str] = {}
    for part in parts(sorted(numbers)):
        query = sa.select(jobs.c.number, jobs.c.record, jobs.c.spec).where(jobs.c.number.in_(part))
        rows = connection.execute(query.order_by(jobs.c.number)).all()
        for number, text, spec in rows:
            key = job_ids.job_id(number)
            record = damages.job_record(number, text)
            if record is None:
                keep(connection, damages.of(key)[-1], text, at)
                failed[number] = "its record in the job store was damaged"
                continue
            found.jobs.append(record)
            if (
                spec is not None
                and not record.ended
                and damages.read("specs", key, number, job_rows.read_spec, spec) is None
            ):
                failed[number] = "its specification in the job store is damaged"
        found.tasks += _put_tasks_aside(connection, part, damages, failed, at)
    for number, why in failed.items():
        _fail(connection, damages, number, why, at)
    found.damages = damages.all()
    return found


def _put_tasks_aside(
    connection: Connection, numbers: Sequence[int], damages: Damages, failed: dict[int, str], at: float
) -> list[ExecutorRecord]:
    """Do so with their tasks; the others, as they were."""
    found = []
    for key, number, state, text in task_rows_to_go_on(connection, numbers):
        task = damages.read("executors", key, number, job_rows.read_executor, text)
        if task is not None:
            found.append(task)
        else:
            keep(connection, next(d for d in damages.all() if d.key == key), text, at)
            connection.execute(sa.delete(executors).where(executors.c.task_id == key))
            if state in tables.OPEN_EXECUTOR:
                failed.setdefault(number, f"the record of its task {key} in the job store was damaged")
    return found


def _fail(connection: Connection, damages: Damages, number: int, why: str, at: float) -> None:
    query = sa.select(jobs.c.number, jobs.c.record).where(jobs.c.number == number)
    (record,) = damages.jobs(connection, query)
    if not record.ended:
        record = replace(record, state="failed", finished_at=at, aborting=False)
    record = replace(record, reason=f"{why}, and put aside", finished_at=record.finished_at or at)
    connection.execute(sa.update(jobs).where(jobs.c.number == number), job_rows.job_row(record))
    open_tasks = sa.select(executors.c.task_id, executors.c.job, executors.c.record).where(
        executors.c.job == number, executors.c.state.in_(tables.OPEN_EXECUTOR)
    )
    for task in damages.executors(connection, open_tasks):
        row = job_rows.executor_row(replace(task, killed_at=task.killed_at or at))
        connection.execute(sa.update(executors).where(executors.c.task_id == task.task_id), row)


def keep(connection: Connection, damage: Damage, body: Any, at: float) -> None:
    """Store an unchanged copy of a damaged row."""
    raw = str(body).encode("utf-8", "surrogateescape")
    row = {"name": damage.table, "key": damage.key, "body": raw, "why": damage.why, "found_at": at}
    connection.execute(sa.insert(quarantine), row)


def _spec(text: Any) -> JobSpec | None:
    try:
        return job_rows.read_spec(text)
    except UnreadableRowError:
        return None


def _number(value: Any) -> float:
    return float(value) if isinstance(value, int | float) else 0.0


def parts(numbers: Sequence[int], size: int = 500) -> list[Sequence[int]]:
    """The numbers in parts: a statement has a limited number of values."""
    return [numbers[first : first + size] for first in range(0, len(numbers), size)]
