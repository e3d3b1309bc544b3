"""Database access for the parts of the job store: reads, and writes within the leader's term."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import TypeVar

from sqlalchemy.engine import Connection

from daemon.store.change_feed import ChangeFeed
from daemon.store.rows.damaged_rows import Damages
from daemon.store.rows.database import Database
from daemon.store.rows.terms import Term

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class StoreAccess:
    """A database, the damage found in it, the jobs that changed, and the term in which it is written."""

    database: Database
    damages: Damages = field(default_factory=Damages)
    news: ChangeFeed = field(default_factory=ChangeFeed)
    #: None for one that need not care.
    term: Term | None = None

    def read(self) -> AbstractContextManager[Connection]:
        """A transaction that reads; StoreError."""
        return self.database.read()

    def write(self, work: Callable[[Connection], Result]) -> Result:
        """Run the work in a transaction and return its result once on disk; StoreError, DeposedError."""
        term = self.term
        if term is None:
            return self.database.write(work)

        def in_office(connection: Connection) -> Result:
            term.fence(connection)
            return work(connection)

        return self.database.write(in_office)
