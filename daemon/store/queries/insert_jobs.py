"""Inserts submitted jobs: each gets the next number, and many share one insert.

The jobs of an array get consecutive numbers. `dependencies.py` resolves a job's dependencies.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from conf.schema import JobSpec
from daemon.core import job_ids
from daemon.core.identity import NOBODY, Submitter
from daemon.store.queries.dependencies import UnknownDependencyError, dependencies_of
from daemon.store.rows import checksummed, events, job_rows, tables
from daemon.store.rows.access import StoreAccess
from daemon.store.rows.damaged_rows import Damages
from daemon.store.rows.event_recorder import HistoryEvent
from daemon.store.rows.event_recorder import submitted as submitted_now
from daemon.store.rows.tables import jobs, labels
from environment.dependencies import After
from environment.model.messages.records import JobRecord
from environment.types import Job
from profiles.shapes.told import ShapeChoice


class IdempotencyConflictError(Exception):
    """An idempotency key came again with another job than the first time."""


class ClientDriver(NamedTuple):
    """A driver that a user already runs: its address, and a callback for its job's record before placement.

    `keep` may raise StoreError: the job is stored nevertheless, and that error becomes its outcome.
    """

    where: str
    keep: Callable[[JobRecord], None]


@dataclass(frozen=True, slots=True, eq=False)
class SubmittedSpec:
    """A submitted job spec with its submitter; equal keys identify the same job.

    `sized`: fields that the daemon chose by what it knows now, and `shape` how it did.
    """

    spec: JobSpec
    key: str | None = None
    client: ClientDriver | None = None
    submitter: Submitter = NOBODY
    sized: tuple[str, ...] = ()
    shape: ShapeChoice | None = None


#: A job's record, and whether it is new; of an array, that of the first.
Added = tuple[JobRecord, bool]
#: Result of a submission: the job, or the error that refused it.
Admission = Added | Exception
#: The result of a submission.
Outcome = Added | IdempotencyConflictError | UnknownDependencyError


class NewJobs:
    """Adds jobs. All methods may be called from any thread, and raise StoreError."""

    def __init__(self, access: StoreAccess) -> None:
        self._access = access

    def add(
        self, submitted: Sequence[SubmittedSpec], job: Callable[[str, SubmittedSpec], Job], at: float
    ) -> list[Outcome]:
        """Store new jobs, built by `job` from their new ids; return each one's outcome.

        A key used before returns that job's record, or an error when its spec differs.
        `at` is now, in seconds.
        """
        outcomes = self._access.write(lambda connection: _add(connection, submitted, job, at))
        self._access.news.note(one[0] for one in outcomes if isinstance(one, tuple) and one[1])
        return outcomes

    def add_one(
        self, spec: JobSpec, job: Callable[[str], Job], idempotency_key: str | None, at: float
    ) -> Added:
        """Store one job; raises IdempotencyConflictError, UnknownDependencyError."""
        one = [SubmittedSpec(spec, idempotency_key)]
        (outcome,) = self.add(one, lambda job_id, _: job(job_id), at)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    def skip(self, highest: int) -> int:
        """Give later jobs higher numbers than this one; return the highest that was given before."""

        def work(connection: Connection) -> int:
            last = connection.scalar(tables.LAST_NUMBER) or 0
            if last < highest:
                row = {"name": "highest", "state": "", "number": highest, "cost": 0.0, "size": 0}
                tables.upsert(connection, tables.sums, [row])
            return last

        return self._access.write(work)

    def dependencies(self, spec: JobSpec, submitter: Submitter) -> tuple[After, ...]:
        """Dependencies of a new job; UnknownDependencyError; see `dependencies_of`."""
        with self._access.read() as connection:
            return dependencies_of(connection, spec, submitter)


def _add(
    connection: Connection,
    submitted: Sequence[SubmittedSpec],
    job: Callable[[str, SubmittedSpec], Job],
    at: float,
) -> list[Outcome]:
    number = connection.scalar(tables.LAST_NUMBER) or 0
    rows: list[tables.Row] = []
    named: list[tables.Row] = []
    by_key: dict[str, tuple[JobRecord, JobSpec | None]] = {}
    outcomes: list[Outcome] = []
    happened: list[HistoryEvent] = []
    for each in submitted:
        spec, key = each.spec, each.key
        known = by_key.get(key) or _known(connection, key) if key is not None else None
        if known is not None:
            outcomes.append(_again(each, *known))
            continue
        if spec.after and rows:  # which may be among those that it comes after
            _insert(connection, rows)
            rows = []
        try:
            after = dependencies_of(connection, spec, each.submitter) if spec.after else ()
        except UnknownDependencyError as error:
            outcomes.append(error)
            continue
        made = replace(job(job_ids.job_id(number + 1), each), after=after).members()
        number += len(made)
        record = JobRecord(made[0])
        for index, one in enumerate(made):
            sealed = checksummed.seal(spec.member(index).model_dump_json())
            known_by = None if index else key
            row = job_rows.job_row(JobRecord(one))
            rows.append({**row, "spec": sealed, "idempotency_key": known_by, "accepted_at": at})
            happened.append(submitted_now(at, one.id, one.name, one.owner, one.queue))
            named += ({"name": name, "value": value, "job": row["number"]} for name, value in one.labels)
        if key is not None:
            by_key[key] = record, spec
        outcomes.append((record, True))
    _insert(connection, rows)
    if named:
        connection.execute(sa.insert(labels), named)
    events.add(connection, happened)
    return outcomes


_ADD = sa.insert(jobs)


def _insert(connection: Connection, rows: list[tables.Row]) -> None:
    if rows:
        connection.execute(_ADD, rows)


def _known(connection: Connection, key: str) -> tuple[JobRecord, JobSpec | None] | None:
    """The job that was submitted with the key, and its spec if that can be read."""
    query = sa.select(jobs.c.number, jobs.c.record, jobs.c.spec).where(jobs.c.idempotency_key == key)
    known = connection.execute(query).first()
    if known is None:
        return None
    record = Damages().job(connection, known.number, known.record)
    return record, Damages().read("specs", record.job.id, known.number, job_rows.read_spec, known.spec)


def _again(again: SubmittedSpec, record: JobRecord, kept: JobSpec | None) -> Added | IdempotencyConflictError:
    spec = again.spec
    if again.sized and kept is not None:  # since the first time more may have been measured
        spec = spec.model_copy(update={name: getattr(kept, name) for name in again.sized})
    if kept is None or kept in (spec, spec.member(0)):
        return record, False
    return IdempotencyConflictError(
        f"the idempotency key was used for {record.job.id}, which is another job; use a new key"
    )
