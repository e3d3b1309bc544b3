"""Opens a job store: creates a missing one, checks it and migrates it to this program's schema.

`job_store.py` defines its content, `migrations` the steps from an older schema.
"""

import math
import time
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection
from sqlalchemy.exc import OperationalError

from daemon.store.migrations import FIRST, SCHEMA_VERSION, complete, migrate
from daemon.store.rows import sqlite_file, tables, terms
from daemon.store.rows.database import Database, StoreError
from daemon.store.rows.tables import facts, sums, upsert

#: Seconds for which pages are checked before a start, and indexes. Chosen: enough for a million jobs that are
#: in memory, and for the indexes of ten thousands.
_CHECK_SECONDS = 2.0
#: Instructions of SQLite between two looks at the clock.
_LOOKS = 10_000
_RESTORE = "restore a backup of it"
#: Tables of which a daemon finds by an index what goes on and is paid for, and jobs by their keys.
_INDEXED = ("leases", "jobs", "executors")
_OPEN = {"jobs": tables.OPEN_JOB, "executors": tables.OPEN_EXECUTOR}
#: Open rows that the index of states has, as far as the table has them, too.
_OPEN_ROWS = """
    SELECT state, count(DISTINCT rowid) FROM {table} AS found WHERE state IN ({states})
    AND EXISTS (SELECT 1 FROM {table} AS kept WHERE kept.rowid = found.rowid AND +kept.state = found.state)
    GROUP BY state
"""


def opened(url: str, at: float | None) -> Database:
    """Open the store, made new (at that time, seconds) when there is none; StoreError otherwise."""
    database = Database(url)

    def work(connection: Connection) -> None:
        prepare(connection, database, at)
        terms.prepare(connection)

    try:
        database.write(work)
        database.note_made(datetime.now().astimezone().isoformat(" ", "seconds"))
    except BaseException:
        database.close()
        raise
    return database


def prepare(connection: Connection, database: Database, at: float | None) -> None:
    """Check the tables of a store; create those of a new one, made at that time in seconds.

    StoreError when they are of another program, damaged, or gone.
    """
    name = database.name
    if connection.dialect.name == "postgresql":  # two daemons may come to an empty database at once
        connection.execute(sa.select(sa.func.pg_advisory_xact_lock(sa.func.hashtext("stoker schema"))))
    else:
        _check(connection, name, "quick_check(1)", _CHECK_SECONDS)
    if not sa.inspect(connection).has_table(facts.name):
        if database.path is not None and (why := sqlite_file.lost(database.path)):
            raise StoreError(f"the job store {name} {why}")  # all of it was in the log beside it
        tables.metadata.create_all(connection)
        complete(connection)
        made = {"schema": str(SCHEMA_VERSION), "made_at": str(at or "")}
        upsert(connection, facts, [{"key": key, "value": value} for key, value in made.items()])
        return
    found = str(connection.scalar(sa.select(facts.c.value).where(facts.c.key == "schema")))
    if not found.isdecimal() or not FIRST <= int(found) <= SCHEMA_VERSION:
        raise StoreError(
            f"the job store {name} has schema {found}, this program knows schemas"
            f" {FIRST} to {SCHEMA_VERSION}; use the Stoker that wrote it, or a new store"
        )
    if int(found) < SCHEMA_VERSION:
        migrate(connection, int(found))
        upsert(connection, facts, [{"key": "schema", "value": str(SCHEMA_VERSION)}])
    tables.metadata.create_all(connection)  # the first Stoker did without one of them
    if connection.dialect.name == "sqlite":
        _check_indexes(connection, name)


def _check_indexes(connection: Connection, name: str) -> None:
    """Check the indexes of open jobs: with a damaged one, jobs would be forgotten without a word.

    As far as a start has time for it, but all of a table whose open rows are not as many as the sums say.
    """
    until = time.monotonic() + _CHECK_SECONDS
    for table in _INDEXED:
        left = math.inf if _lacks_open_rows(connection, table) else max(0.0, until - time.monotonic())
        _check(connection, name, f"integrity_check({table})", left)


def _lacks_open_rows(connection: Connection, table: str) -> bool:
    if (states := _OPEN.get(table)) is None:
        return False
    query = _OPEN_ROWS.format(table=table, states=", ".join(f"'{state}'" for state in states))
    found = {row[0]: row[1] for row in connection.exec_driver_sql(query)}
    right = sa.select(sums.c.state, sums.c.number).where(sums.c.name == table, sums.c.number != 0)
    rows = connection.execute(right.where(sums.c.state.in_(states)))
    return found != {row[0]: row[1] for row in rows}


def _check(connection: Connection, name: str, check: str, seconds: float) -> None:
    """Check the file for so long; `stoker doctor` checks all of it. StoreError when it is corrupt."""
    driver: Any = connection.connection.driver_connection
    until = time.monotonic() + seconds
    driver.set_progress_handler(lambda: time.monotonic() > until, _LOOKS)
    try:
        found = connection.exec_driver_sql(f"PRAGMA {check}").scalar()
    except OperationalError as error:
        if "interrupted" not in str(error.orig):
            raise
        return
    finally:
        driver.set_progress_handler(None, 0)
    if found != "ok":
        what = str(found).splitlines()[-1]
        anew = "`stoker doctor --repair` makes its indexes anew"
        advice = anew if sqlite_file.of_an_index(what) else _RESTORE
        raise StoreError(f"the job store {name} is corrupt ({what}); {advice}")
