"""The job store: every job, its executors and the explanations of their placements, durable in SQL.

A write is on disk when its method returns. Each part of the store has its own tables: those of jobs are in
`queries/`, the others in `rows/`, with the conversion of records to rows. `model_changes.py` saves several
parts in one transaction; `rows/access.py` and `rows/database.py` run transactions. The cluster model decides
the life of a job.
"""

from copy import copy
from dataclasses import replace
from secrets import token_hex

from daemon.store import opening
from daemon.store.facts import Facts
from daemon.store.model_changes import ModelChanges
from daemon.store.queries.old_tasks import OldTasks
from daemon.store.queries.stored_jobs import StoredJobs
from daemon.store.rows.access import StoreAccess
from daemon.store.rows.applications import ApplicationRows
from daemon.store.rows.comparisons import ComparisonRows
from daemon.store.rows.estimates import EstimateRows
from daemon.store.rows.events import EventRows
from daemon.store.rows.terms import LeaderTerms, Term
from daemon.store.rows.users import UserRows
from daemon.store.rows.vm_records import VmBooks


class Store:
    """A database by its families of tables. Every method may be called from any thread.

    All methods raise StoreError, with a text fit for a user, when the database cannot be read or written.
    """

    def __init__(self, url: str, *, at: float | None = None) -> None:
        """Open the store, made new (at that time, seconds) when there is none; StoreError otherwise."""
        self.database = opening.opened(url, at)
        self.terms = LeaderTerms(self.database)
        self._work_by(StoreAccess(self.database))

    def _work_by(self, access: StoreAccess) -> None:
        self._access = access
        #: Rows that could not be read when they were last asked for, and jobs that were written.
        self.damages, self.news = access.damages, access.news
        self.vms, self.applications, self.users = VmBooks(access), ApplicationRows(access), UserRows(access)
        self.jobs, self.facts = StoredJobs(access, self.vms), Facts(access)
        self.changes = ModelChanges(access, self.jobs, self.vms, self.facts)
        #: Events, estimates of jobs, and decisions of other policies.
        self.events, self.estimates = EventRows(access), EstimateRows(access)
        self.comparisons = ComparisonRows(access)
        #: Tasks of jobs that go on, of very many.
        self.old_tasks = OldTasks(access)

    def during(self, term: Term) -> "Store":
        """The same store, to be written in that term only."""
        store = copy(self)
        store._work_by(replace(self._access, term=term))
        return store

    def close(self) -> None:
        """Close the database and release the lock."""
        self.database.close()

    def check(self) -> None:
        """Raise StoreError when nothing can be read or written now."""
        self.jobs.page(limit=1)
        self.facts.put("probe", token_hex(8))  # a value that changes: SQLite does not write an equal one
