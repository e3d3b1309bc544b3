"""The job store: every job, its executors and the explanations of their placements, durable in SQL.

A write is on disk when its method returns. `rows/vm_records.py` stores VMs, `rows/applications.py`
applications, `rows/comparisons.py` the shadow decisions of other policies. `queries/ended_jobs.py` covers
ended jobs, `queries/open_jobs.py` open ones. `rows/job_rows.py` converts records to rows, `rows/database.py`
runs transactions. The cluster model decides the life of a job.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from datetime import datetime
from secrets import token_hex
from typing import Any, TypeVar

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from conf.schema import JobSpec
from daemon.core import job_ids
from daemon.core.identity import Submitter
from daemon.store import opening
from daemon.store.change_feed import ChangeFeed
from daemon.store.queries import dependencies, insert_jobs, job_groups, job_pages
from daemon.store.queries.ended_jobs import PastJobs
from daemon.store.queries.insert_jobs import Added, IdempotencyConflictError, Outcome, SubmittedSpec
from daemon.store.queries.job_groups import GroupSum
from daemon.store.queries.open_jobs import OpenJobs
from daemon.store.queries.recent_activity import LatelyRows
from daemon.store.rows import bill, events, tables, terms
from daemon.store.rows import job_rows as record_rows
from daemon.store.rows.access import StoreAccess
from daemon.store.rows.applications import ApplicationRows
from daemon.store.rows.comparisons import ComparisonRows
from daemon.store.rows.damaged_rows import Damage
from daemon.store.rows.database import (
    Database,
    DeposedError,
    StoreBusyError,
    StoreError,
    StoreFullError,
    StoreStuckError,
)
from daemon.store.rows.estimates import EstimateRows
from daemon.store.rows.event_recorder import HistoryEvent
from daemon.store.rows.events import EventRows
from daemon.store.rows.tables import add_explanations, executors, explanations, facts, jobs, sums, upsert
from daemon.store.rows.terms import LeaseWatch, Term
from daemon.store.rows.users import UserRows
from daemon.store.rows.vm_records import VmBooks
from environment.decisions.explain import Explanation
from environment.dependencies import After
from environment.model.cluster_model import Changes
from environment.model.messages.records import ExecutorRecord, JobRecord
from environment.model.messages.states import ENDED_JOB
from environment.types import Job

__all__ = [
    "DeposedError",
    "IdempotencyConflictError",
    "JobTotals",
    "Store",
    "StoreBusyError",
    "StoreError",
    "StoreFullError",
    "StoreStuckError",
]

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class JobTotals:
    """Sums over all jobs ever submitted: dollars, and numbers of tasks by state."""

    cost: float
    executors: Mapping[str, int]


class Store:
    """Jobs, executors, explanations and facts in a database. Every method may be called from any thread.

    All methods raise StoreError, with a text fit for a user, when the database cannot be read or written.
    """

    def __init__(self, url: str, *, at: float | None = None) -> None:
        """Open the store, made new (at that time, seconds) when there is none; StoreError otherwise."""
        self._database = Database(url)
        #: Which jobs were written, for whoever follows them.
        self.news = ChangeFeed()
        self._work_by(StoreAccess(self._database))

        def prepare(connection: Connection) -> None:
            opening.prepare(connection, self._database.name, at)
            terms.prepare(connection)

        try:
            self._database.write(prepare)
            self._database.note_made(datetime.now().astimezone().isoformat(" ", "seconds"))
        except BaseException:
            self._database.close()
            raise

    def _work_by(self, access: StoreAccess) -> None:
        self._access, self._damages, self._write = access, access.damages, access.write
        #: What is kept of VMs, of applications, of jobs that are over and that are not, of users, of the last
        #: hours, what happened, what was expected of jobs, and what other policies would have decided.
        self.vms, self.applications, self.past = VmBooks(access), ApplicationRows(access), PastJobs(access)
        self.users, self.lately = UserRows(access), LatelyRows(access)
        self.events = EventRows(access)
        self.estimates, self.comparisons = EstimateRows(access), ComparisonRows(access)
        self.open_jobs = OpenJobs(access, self.vms)

    def lock(self, *, shared: bool = False) -> None:
        """Work on the store as its only daemon; StoreBusyError, naming the other one, when there is one.

        `shared`: beside others that know of each other. Only a file is locked.
        """
        self._database.lock(shared=shared)

    def unlock(self) -> None:
        """Release the lock, so that another daemon can work on the store."""
        self._database.unlock()

    @property
    def shared(self) -> bool:
        """Whether daemons on several hosts can reach it."""
        return self._database.path is None

    def time(self) -> float:
        """Seconds since the epoch, by the database's clock."""
        return self._database.time()

    def vigil(self) -> LeaseWatch:
        """Watch over the leader's lease."""
        return LeaseWatch(self._database)

    def begin_term(self, url: str, seconds: float | None = None, instead_of: str | None = None) -> Term:
        """Begin to lead; see `terms.begin`. The former leader's writes fail from then on (DeposedError)."""
        return terms.begin(self._database, url, seconds, instead_of)

    def during(self, term: Term) -> "Store":
        """The same store, to be written in that term only."""
        store = copy(self)
        store._work_by(replace(self._access, term=term))
        return store

    def leader(self) -> str:
        """URL of the leading daemon, as last stored; empty when none is known."""
        return self.get("leader") or ""

    def close(self) -> None:
        """Close the database and release the lock."""
        self._database.close()

    def check(self) -> None:
        """Raise StoreError when nothing can be read or written now."""
        self.jobs(limit=1)
        self.put("probe", token_hex(8))  # a value that changes: SQLite does not write an equal one

    # ---- writing ---------------------------------------------------------------------------------

    def add_jobs(
        self, submitted: Sequence[SubmittedSpec], job: Callable[[str, SubmittedSpec], Job], at: float
    ) -> list[Outcome]:
        """Store new jobs; see `insert_jobs.add`."""
        outcomes = self._write(lambda connection: insert_jobs.add(connection, submitted, job, at))
        self.news.note(one[0] for one in outcomes if isinstance(one, tuple) and one[1])
        return outcomes

    def add_job(
        self, spec: JobSpec, job: Callable[[str], Job], idempotency_key: str | None, at: float
    ) -> Added:
        """Store one job; raises IdempotencyConflictError, UnknownDependencyError."""
        one = [SubmittedSpec(spec, idempotency_key)]
        (outcome,) = self.add_jobs(one, lambda job_id, _: job(job_id), at)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    def save(
        self,
        changes: Changes,
        explanations: Sequence[Explanation] = (),
        facts_known: Mapping[str, str] | None = None,
        happened: Sequence[HistoryEvent] = (),
    ) -> None:
        """Store records, leases, charges, explanations, facts and history events, all or none.

        A job has only one explanation of its waiting. When an uncertain save is repeated, the fact
        `bill_rows.BATCH` shows whether the charges were already added.
        """
        job_rows = [record_rows.job_row(record) for record in changes.jobs]
        executor_rows = [record_rows.executor_row(record) for record in changes.executors]
        save_vms = self.vms.saving(changes, (facts_known or {}).get(bill.BATCH, ""))
        explanation_rows = [record_rows.explanation_row(explanation) for explanation in explanations]
        fact_rows: list[tables.Row] = [{"key": k, "value": v} for k, v in (facts_known or {}).items()]

        def work(connection: Connection) -> None:
            upsert(connection, jobs, job_rows)
            upsert(connection, executors, executor_rows)
            save_vms(connection)
            add_explanations(connection, explanation_rows)
            upsert(connection, facts, fact_rows)
            events.add(connection, happened)

        if changes or explanation_rows or fact_rows or happened:
            self._write(work)
            self.news.note(changes.jobs)

    def put(self, key: str, value: str, happened: Sequence[HistoryEvent] = ()) -> None:
        """Store a small fact, such as the framework's id, and the events that go with it."""

        def work(connection: Connection) -> None:
            upsert(connection, facts, [{"key": key, "value": value}])
            events.add(connection, happened)

        self._write(work)

    # ---- reading ---------------------------------------------------------------------------------

    def get(self, key: str) -> str | None:
        """A fact that was put; None when it was not."""
        return self._first(str, sa.select(facts.c.value).where(facts.c.key == key))

    def damaged(self) -> tuple[Damage, ...]:
        """The rows that could not be read when they were last asked for."""
        return self._damages.all()

    def damages_of(self, job_id: str) -> tuple[Damage, ...]:
        """Damaged rows of a job."""
        return self._damages.of(job_id)

    def job(self, job_id: str) -> JobRecord | None:
        """A job's record; None when there is no such job."""
        number = job_ids.job_number(job_id)
        return next(iter(self._jobs(_JOB.where(jobs.c.number == number))), None)

    def spec(self, job_id: str) -> JobSpec | None:
        """Spec submitted for a job; None when there is no such job, or when it cannot be read."""
        number = job_ids.job_number(job_id)
        text = self._first(str, sa.select(jobs.c.spec).where(jobs.c.number == number))
        if number is None or text is None:
            return None
        return self._damages.read("specs", job_id, number, record_rows.read_spec, text)

    def resolve(self, spec: JobSpec, submitter: Submitter) -> tuple[After, ...]:
        """Dependencies of a new job; UnknownDependencyError; see `dependencies.resolve`."""
        with self._access.read() as connection:
            return dependencies.resolve(connection, spec, submitter)

    def job_by_key(self, key: str) -> JobRecord | None:
        """The job that was submitted with this idempotency key; None when there is none."""
        return next(iter(self._jobs(_JOB.where(jobs.c.idempotency_key == key))), None)

    def jobs(
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
        with self._database.read() as connection:
            return job_groups.group_sum(connection, name, owners, self._damages)

    def ends_of(self, job_ids: Collection[str]) -> dict[str, str]:
        """End state of each of these jobs that has ended."""
        with self._database.read() as connection:
            return job_groups.ends_of(connection, job_ids)

    def count_by_state(self) -> dict[str, int]:
        """Number of jobs in each state that occurs."""
        return self._sums("jobs")

    def totals(self) -> JobTotals:
        """Sums over all jobs, in dollars over those that were pruned too."""
        query = sa.select(sa.func.sum(sums.c.cost)).where(sums.c.name.in_(("jobs", "pruned")))
        return JobTotals(self._first(float, query) or 0.0, self._sums("executors"))

    def head(self) -> JobRecord | None:
        """The oldest queued job; None when none is queued."""
        oldest = self.jobs(states=("queued",), limit=1, newest_first=False)
        return oldest[0] if oldest else None

    def queue_positions(self, job_ids: Sequence[str]) -> list[int]:
        """Number of queued jobs submitted before each of these (at least one)."""
        with self._database.read() as connection:
            return job_pages.positions(connection, job_ids)

    def executors(self, job_id: str) -> list[ExecutorRecord]:
        """All tasks that a job ever had, in order of launch."""
        return self._tasks(_TASK.where(executors.c.job == job_ids.job_number(job_id)))

    def explanations(self, job_id: str) -> list[Explanation]:
        """Explanations of a job's placements, oldest decision first, and of its last waiting."""
        number = job_ids.job_number(job_id)
        query = sa.select(explanations.c.number, explanations.c.body).where(explanations.c.job == number)
        with self._database.read() as connection:
            rows = connection.execute(query.order_by(explanations.c.number)).all()
        read, of = self._damages.read, record_rows.read_explanation
        found = (read("explanations", str(key), number or 0, of, body) for key, body in rows)
        return [explanation for explanation in found if explanation is not None]

    # ---- helpers ---------------------------------------------------------------------------------

    def _jobs(self, query: sa.Select[Any]) -> list[JobRecord]:
        with self._database.read() as connection:
            return self._damages.jobs(connection, query)

    def _tasks(self, query: sa.Select[Any]) -> list[ExecutorRecord]:
        with self._database.read() as connection:
            return sorted(self._damages.executors(connection, query), key=record_rows.by_launch)

    def _list(self, build: Callable[[Any], Result], query: sa.Select[Any]) -> list[Result]:
        with self._database.read() as connection:
            return [build(value) for value in connection.scalars(query) if value is not None]

    def _first(self, build: Callable[[Any], Result], query: sa.Select[Any]) -> Result | None:
        return next(iter(self._list(build, query)), None)

    def _sums(self, name: str) -> dict[str, int]:
        query = sa.select(sums.c.state, sums.c.number).where(sums.c.name == name, sums.c.number > 0)
        with self._database.read() as connection:
            return {row[0]: row[1] for row in connection.execute(query)}


_JOB = sa.select(jobs.c.number, jobs.c.record)
_TASK = sa.select(executors.c.task_id, executors.c.job, executors.c.record)
