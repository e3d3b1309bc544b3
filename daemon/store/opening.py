"""Opens a job store: creates a missing one, checks it and migrates it to this program's schema.

`job_store.py` defines its content, `migrations` the steps from an older schema.
"""

import time
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection
from sqlalchemy.exc import OperationalError

from daemon.store.migrations import FIRST, SCHEMA_VERSION, complete, migrate
from daemon.store.rows import sqlite_file, tables, terms
from daemon.store.rows.database import Database, StoreError
from daemon.store.rows.tables import facts, upsert

#: Seconds for which a file is checked before a start. Chosen: enough for a million jobs that are in memory.
_CHECK_SECONDS = 2.0


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
        _check_pages(connection, name)
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


def _check_pages(connection: Connection, name: str) -> None:
    """Check as much of the file as a start has time for; `stoker doctor` checks all of it."""
    driver: Any = connection.connection.driver_connection
    until = time.monotonic() + _CHECK_SECONDS
    driver.set_progress_handler(lambda: time.monotonic() > until, 10_000)
    try:
        found = connection.exec_driver_sql("PRAGMA quick_check(1)").scalar()
    except OperationalError as error:
        if "interrupted" not in str(error.orig):
            raise
        return
    finally:
        driver.set_progress_handler(None, 0)
    if found != "ok":
        what = str(found).splitlines()[-1]
        raise StoreError(f"the job store {name} is corrupt ({what}); restore a backup of it")
