"""Migrations of a job store from an earlier Stoker: numbered steps, each applied once.

A step is SQL for either database, unchanged since it was written. To change the tables: change `tables.py`,
add a step here, and specify the result for old rows in `tests/daemon/store/test_migrations.py`.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from sqlalchemy.engine import Connection

#: The schema of the first Stoker.
FIRST = 1


@dataclass(frozen=True, slots=True)
class Triggers:
    """SQL that the database itself runs at each write."""

    sqlite: tuple[str, ...]
    postgresql: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Migration:
    """One step from a schema to the next; `triggers` are also created in new stores."""

    sqlite: tuple[str, ...]
    postgresql: tuple[str, ...]
    triggers: Triggers | None = None


# What is in `sums` of each job and executor. A sum that took an infinity in would never be a number again.
_SUMS_ON_SQLITE = (
    """CREATE TRIGGER jobs_added AFTER INSERT ON jobs BEGIN
    INSERT INTO sums (name, state, number, cost, size) VALUES ('jobs', new.state, 1,
        CASE WHEN abs(new.cost) <= 1e15 THEN new.cost ELSE 0 END, coalesce(new.size, 0))
    ON CONFLICT (name, state) DO UPDATE SET
        number = number + 1, cost = cost + excluded.cost, size = size + excluded.size;
    END""",
    """CREATE TRIGGER jobs_changed AFTER UPDATE OF state, cost, size ON jobs BEGIN
    UPDATE sums SET number = number - 1, size = size - coalesce(old.size, 0),
        cost = cost - CASE WHEN abs(old.cost) <= 1e15 THEN old.cost ELSE 0 END
    WHERE name = 'jobs' AND state = old.state;
    INSERT INTO sums (name, state, number, cost, size) VALUES ('jobs', new.state, 1,
        CASE WHEN abs(new.cost) <= 1e15 THEN new.cost ELSE 0 END, coalesce(new.size, 0))
    ON CONFLICT (name, state) DO UPDATE SET
        number = number + 1, cost = cost + excluded.cost, size = size + excluded.size;
    END""",
    """CREATE TRIGGER jobs_deleted AFTER DELETE ON jobs BEGIN
    UPDATE sums SET number = number - 1, size = size - coalesce(old.size, 0),
        cost = cost - CASE WHEN abs(old.cost) <= 1e15 THEN old.cost ELSE 0 END
    WHERE name = 'jobs' AND state = old.state;
    INSERT INTO sums (name, state, number, cost, size) VALUES ('pruned', old.state, 1,
        CASE WHEN abs(old.cost) <= 1e15 THEN old.cost ELSE 0 END, coalesce(old.size, 0))
    ON CONFLICT (name, state) DO UPDATE SET
        number = number + 1, cost = cost + excluded.cost, size = size + excluded.size;
    INSERT INTO sums (name, state, number, cost, size) VALUES ('highest', '', old.number, 0, 0)
    ON CONFLICT (name, state) DO UPDATE SET number = max(number, excluded.number);
    END""",
    """CREATE TRIGGER executors_added AFTER INSERT ON executors BEGIN
    INSERT INTO sums (name, state, number, cost, size) VALUES ('executors', new.state, 1, 0, 0)
    ON CONFLICT (name, state) DO UPDATE SET number = number + 1;
    END""",
    """CREATE TRIGGER executors_changed AFTER UPDATE OF state ON executors BEGIN
    UPDATE sums SET number = number - 1 WHERE name = 'executors' AND state = old.state;
    INSERT INTO sums (name, state, number, cost, size) VALUES ('executors', new.state, 1, 0, 0)
    ON CONFLICT (name, state) DO UPDATE SET number = number + 1;
    END""",
    """CREATE TRIGGER executors_deleted AFTER DELETE ON executors BEGIN
    UPDATE sums SET number = number - 1 WHERE name = 'executors' AND state = old.state;
    END""",
)
_SUMS_ON_POSTGRESQL = (
    """CREATE FUNCTION jobs_summed() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    IF TG_OP <> 'INSERT' THEN
        UPDATE sums SET number = number - 1, size = size - coalesce(OLD.size, 0),
            cost = cost - CASE WHEN abs(OLD.cost) <= 1e15 THEN OLD.cost ELSE 0 END
        WHERE name = 'jobs' AND state = OLD.state;
    END IF;
    IF TG_OP = 'DELETE' THEN
        INSERT INTO sums (name, state, number, cost, size) VALUES ('pruned', OLD.state, 1,
            CASE WHEN abs(OLD.cost) <= 1e15 THEN OLD.cost ELSE 0 END, coalesce(OLD.size, 0))
        ON CONFLICT (name, state) DO UPDATE SET number = sums.number + 1,
            cost = sums.cost + excluded.cost, size = sums.size + excluded.size;
        INSERT INTO sums (name, state, number, cost, size) VALUES ('highest', '', OLD.number, 0, 0)
        ON CONFLICT (name, state) DO UPDATE SET number = greatest(sums.number, excluded.number);
        RETURN OLD;
    END IF;
    INSERT INTO sums (name, state, number, cost, size) VALUES ('jobs', NEW.state, 1,
        CASE WHEN abs(NEW.cost) <= 1e15 THEN NEW.cost ELSE 0 END, coalesce(NEW.size, 0))
    ON CONFLICT (name, state) DO UPDATE SET number = sums.number + 1,
        cost = sums.cost + excluded.cost, size = sums.size + excluded.size;
    RETURN NEW;
    END $$""",
    """CREATE TRIGGER jobs_summed AFTER INSERT OR DELETE OR UPDATE OF state, cost, size ON jobs
    FOR EACH ROW EXECUTE FUNCTION jobs_summed()""",
    """CREATE FUNCTION executors_summed() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    IF TG_OP <> 'INSERT' THEN
        UPDATE sums SET number = number - 1 WHERE name = 'executors' AND state = OLD.state;
    END IF;
    IF TG_OP = 'DELETE' THEN RETURN OLD; END IF;
    INSERT INTO sums (name, state, number, cost, size) VALUES ('executors', NEW.state, 1, 0, 0)
    ON CONFLICT (name, state) DO UPDATE SET number = sums.number + 1;
    RETURN NEW;
    END $$""",
    """CREATE TRIGGER executors_summed AFTER INSERT OR DELETE OR UPDATE OF state ON executors
    FOR EACH ROW EXECUTE FUNCTION executors_summed()""",
)
_FILL_SUMS = (
    """INSERT INTO sums (name, state, number, cost, size)
    SELECT 'jobs', state, count(*), sum(CASE WHEN abs(cost) <= 1e15 THEN cost ELSE 0 END), 0
    FROM jobs GROUP BY state""",
    """INSERT INTO sums (name, state, number, cost, size)
    SELECT 'executors', state, count(*), 0, 0 FROM executors GROUP BY state""",
)

_OWNER_AND_QUEUE = (
    "ALTER TABLE jobs ADD COLUMN owner TEXT DEFAULT '' NOT NULL",
    "ALTER TABLE jobs ADD COLUMN queue TEXT DEFAULT 'default' NOT NULL",
    "CREATE INDEX jobs_by_owner ON jobs (owner, state, number, queue)",
    "CREATE INDEX jobs_by_queue ON jobs (queue, state, number)",
)

_LEASES_BY = (
    "CREATE INDEX ix_leases_state ON leases (state)",
    "CREATE INDEX ix_leases_closed_at ON leases (closed_at)",
)

_CHARGES = (
    "CREATE TABLE charges (day TEXT NOT NULL, vm TEXT NOT NULL, pool TEXT NOT NULL, type TEXT NOT NULL,"
    " job TEXT NOT NULL, owner TEXT NOT NULL, queue TEXT NOT NULL, policy TEXT NOT NULL, kind TEXT NOT NULL,"
    " dollars {} NOT NULL, PRIMARY KEY (day, vm, pool, type, job, owner, queue, policy, kind))"
)
_CHARGED = (
    "CREATE INDEX charges_by_job ON charges (job)",
    "CREATE TABLE accounts (id TEXT NOT NULL, record TEXT NOT NULL, PRIMARY KEY (id))",
)

_WAITING_FOR_VMS = tuple(
    f"CREATE TABLE {name} (id TEXT NOT NULL, record TEXT NOT NULL, PRIMARY KEY (id))"
    for name in ("reservations", "pool_setbacks")
)
_USERS = (
    "CREATE TABLE users (id TEXT NOT NULL, record TEXT NOT NULL, PRIMARY KEY (id))",
    "CREATE TABLE token_uses (id TEXT NOT NULL, day TEXT NOT NULL, PRIMARY KEY (id))",
)
_EVENTS = (
    "CREATE TABLE events (number {0} NOT NULL PRIMARY KEY{3}, at {1} NOT NULL, job {2}, kind TEXT NOT NULL,"
    " text TEXT NOT NULL)"
)
_EVENTS_BY_JOB = "CREATE INDEX events_by_job ON events (job) WHERE job IS NOT NULL"
_APPLICATIONS = (
    "CREATE TABLE applications (job {} NOT NULL, has_secret BOOLEAN NOT NULL, record TEXT NOT NULL,"
    " PRIMARY KEY (job), FOREIGN KEY (job) REFERENCES jobs (number))"
)

_SUMS_OF_CHARGES = {
    "charged_days": ("day", "pool", "type", "owner", "queue", "policy", "kind"),
    "charged_jobs": ("day", "job", "kind"),
    "charged_vms": ("day", "vm", "kind"),
    "charged_pools": ("pool", "kind"),
}


def _charges_parted(double: str, more: str = "") -> tuple[str, ...]:
    made = []
    for name, keys in _SUMS_OF_CHARGES.items():
        columns, key = ", ".join(f"{key} TEXT NOT NULL" for key in keys), ", ".join(keys)
        made += [
            f"CREATE TABLE {name} ({columns}, dollars {double} NOT NULL, PRIMARY KEY ({key})){more}",
            f"INSERT INTO {name} ({key}, dollars) SELECT {key}, sum(dollars) FROM charges GROUP BY {key}",  # noqa: S608  # words of this file
        ]
    return (*made, "CREATE INDEX charged_jobs_by_job ON charged_jobs (job)", "DROP TABLE charges")


_GROUPED = (
    "ALTER TABLE jobs ADD COLUMN name TEXT DEFAULT '' NOT NULL;"
    "ALTER TABLE jobs ADD COLUMN job_group TEXT;"
    "ALTER TABLE jobs ADD COLUMN array_of {}"
)
_FOUND_BY = (
    "CREATE INDEX jobs_by_name ON jobs (owner, name, number)",
    "CREATE INDEX jobs_of_job_group ON jobs (job_group, number) WHERE job_group IS NOT NULL",
    "CREATE INDEX jobs_of_array_of ON jobs (array_of, number) WHERE array_of IS NOT NULL",
)
_LABELS_BY_JOB = "CREATE INDEX labels_by_job ON labels (job)"
_LABELS = (
    "CREATE TABLE labels (name TEXT NOT NULL, value TEXT NOT NULL, job {} NOT NULL,"
    " PRIMARY KEY (name, value, job), FOREIGN KEY (job) REFERENCES jobs (number))"
)
_CHARGED_GROUPS = (
    'CREATE TABLE charged_groups (day TEXT NOT NULL, "group" TEXT NOT NULL, kind TEXT NOT NULL,'
    ' dollars {} NOT NULL, PRIMARY KEY (day, "group", kind))'
)
_FILL_CHARGED_GROUPS = (
    'INSERT INTO charged_groups (day, "group", kind, dollars)'
    " SELECT day, '', kind, sum(dollars) FROM charged_days GROUP BY day, kind"
)
_ESTIMATES = (
    "CREATE TABLE estimates (job {} NOT NULL, body TEXT NOT NULL,"
    " PRIMARY KEY (job), FOREIGN KEY (job) REFERENCES jobs (number))"
)
_TYPE = "ALTER TABLE jobs ADD COLUMN type TEXT DEFAULT '' NOT NULL"
_BY_TYPE = (
    "DROP INDEX jobs_by_owner",
    "CREATE INDEX jobs_by_owner ON jobs (owner, state, number, queue, type)",
    "CREATE INDEX jobs_by_type ON jobs (type, state, number, queue)",
)


#: By the schema that each makes.
STEPS: Mapping[int, Migration] = {
    # When jobs ended and what they keep, so that they can be pruned; sums, so that nobody counts all rows; a
    # place for what cannot be read. A row that cannot be read has no end here, and `doctor` finds it.
    2: Migration(
        sqlite=(
            "ALTER TABLE jobs ADD COLUMN finished_at DOUBLE",
            "ALTER TABLE jobs ADD COLUMN size INTEGER",
            "UPDATE jobs SET finished_at = CASE WHEN json_valid(record)"
            " THEN json_extract(record, '$.finished_at') END WHERE state IN ('finished', 'failed', 'killed')",
            "CREATE INDEX jobs_over ON jobs (finished_at, number) WHERE finished_at IS NOT NULL",
            "CREATE TABLE IF NOT EXISTS comparisons (number INTEGER NOT NULL, job INTEGER NOT NULL,"
            " body TEXT NOT NULL, PRIMARY KEY (number), FOREIGN KEY (job) REFERENCES jobs (number))",
            "CREATE INDEX comparisons_by_job ON comparisons (job)",
            "CREATE TABLE sums (name TEXT NOT NULL, state TEXT NOT NULL, number INTEGER NOT NULL,"
            " cost DOUBLE NOT NULL, size INTEGER NOT NULL, PRIMARY KEY (name, state))",
            "CREATE TABLE quarantine (number INTEGER NOT NULL, name TEXT NOT NULL, key TEXT NOT NULL,"
            " body BLOB NOT NULL, why TEXT NOT NULL, found_at DOUBLE NOT NULL, PRIMARY KEY (number))",
            *_FILL_SUMS,
        ),
        postgresql=(
            "ALTER TABLE jobs ADD COLUMN finished_at DOUBLE PRECISION",
            "ALTER TABLE jobs ADD COLUMN size BIGINT",
            "UPDATE jobs SET finished_at ="
            """ substring(record from '"finished_at":([0-9]+[.]?[0-9]*)')::double precision"""
            " WHERE state IN ('finished', 'failed', 'killed')",
            "CREATE INDEX jobs_over ON jobs (finished_at, number) WHERE finished_at IS NOT NULL",
            "CREATE TABLE IF NOT EXISTS comparisons (number BIGSERIAL NOT NULL, job BIGINT NOT NULL,"
            " body TEXT NOT NULL, PRIMARY KEY (number), FOREIGN KEY (job) REFERENCES jobs (number))",
            "CREATE INDEX comparisons_by_job ON comparisons (job)",
            "CREATE TABLE sums (name TEXT NOT NULL, state TEXT NOT NULL, number BIGINT NOT NULL,"
            " cost DOUBLE PRECISION NOT NULL, size BIGINT NOT NULL, PRIMARY KEY (name, state))",
            "CREATE TABLE quarantine (number BIGSERIAL NOT NULL, name TEXT NOT NULL, key TEXT NOT NULL,"
            " body BYTEA NOT NULL, why TEXT NOT NULL, found_at DOUBLE PRECISION NOT NULL,"
            " PRIMARY KEY (number))",
            *_FILL_SUMS,
        ),
        triggers=Triggers(_SUMS_ON_SQLITE, _SUMS_ON_POSTGRESQL),
    ),
    # Which jobs are still to be measured, so that nobody looks through those that were.
    3: Migration(
        sqlite=(
            "CREATE INDEX jobs_unmeasured ON jobs (finished_at)"
            " WHERE finished_at IS NOT NULL AND size IS NULL",
        ),
        postgresql=(
            "CREATE INDEX jobs_unmeasured ON jobs (finished_at)"
            " WHERE finished_at IS NOT NULL AND size IS NULL",
        ),
    ),
    # Whose job it is and in which queue, so that lists of jobs can be asked for by that.
    4: Migration(sqlite=_OWNER_AND_QUEUE, postgresql=_OWNER_AND_QUEUE),
    # Records with what drivers ask for while they run: an earlier program would take them for damaged.
    5: Migration(sqlite=(), postgresql=()),
    # VMs that come and go.
    6: Migration(
        sqlite=(
            "CREATE TABLE leases (id TEXT NOT NULL, pool TEXT NOT NULL, state TEXT NOT NULL,"
            " asked_at DOUBLE NOT NULL, closed_at DOUBLE, record TEXT NOT NULL, PRIMARY KEY (id))",
            *_LEASES_BY,
        ),
        postgresql=(
            "CREATE TABLE leases (id TEXT NOT NULL, pool TEXT NOT NULL, state TEXT NOT NULL,"
            " asked_at DOUBLE PRECISION NOT NULL, closed_at DOUBLE PRECISION, record TEXT NOT NULL,"
            " PRIMARY KEY (id))",
            *_LEASES_BY,
        ),
    ),
    # What VMs have cost, and which are paid for.
    7: Migration(
        sqlite=(_CHARGES.format("DOUBLE"), *_CHARGED),
        postgresql=(_CHARGES.format("DOUBLE PRECISION"), *_CHARGED),
    ),
    # What is kept for jobs that wait for VMs to boot, and which pools are left alone for a while.
    8: Migration(sqlite=_WAITING_FOR_VMS, postgresql=_WAITING_FOR_VMS),
    # Charges by what is asked for, and not by each job on each VM: these were too many.
    9: Migration(
        sqlite=_charges_parted("DOUBLE", " WITHOUT ROWID"), postgresql=_charges_parted("DOUBLE PRECISION")
    ),
    # How drivers that ask for executors are reached, known to whichever daemon leads.
    10: Migration(
        sqlite=(_APPLICATIONS.format("INTEGER"),),
        postgresql=(_APPLICATIONS.format("BIGINT"),),
    ),
    # Jobs with the curve of their type and the fewest cpus: an earlier program would take them for damaged.
    11: Migration(sqlite=(), postgresql=()),
    # Users and when their tokens were used last; jobs with whom they run as.
    12: Migration(sqlite=_USERS, postgresql=_USERS),
    # Names, groups, arrays and labels of jobs, so that they can be found by these; the bill by group.
    13: Migration(
        sqlite=(
            *_GROUPED.format("INTEGER").split(";"),
            "UPDATE jobs SET name = coalesce(CASE"
            " WHEN json_valid(record) THEN json_extract(record, '$.job.name')"
            " WHEN json_valid(substr(record, 1, length(record) - 9))"
            " THEN json_extract(substr(record, 1, length(record) - 9), '$.job.name') END, '')",
            *_FOUND_BY,
            _LABELS.format("INTEGER") + " WITHOUT ROWID",
            _LABELS_BY_JOB,
            _CHARGED_GROUPS.format("DOUBLE") + " WITHOUT ROWID",
            _FILL_CHARGED_GROUPS,
        ),
        postgresql=(
            *_GROUPED.format("BIGINT").split(";"),
            """UPDATE jobs SET name = coalesce(substring(record from '"name":"([^"\\\\]*)"'), '')""",
            *_FOUND_BY,
            _LABELS.format("BIGINT"),
            _LABELS_BY_JOB,
            _CHARGED_GROUPS.format("DOUBLE PRECISION"),
            _FILL_CHARGED_GROUPS,
        ),
    ),
    # What happened, in words.
    14: Migration(
        sqlite=(_EVENTS.format("INTEGER", "DOUBLE", "INTEGER", " AUTOINCREMENT"), _EVENTS_BY_JOB),
        postgresql=(_EVENTS.format("BIGSERIAL", "DOUBLE PRECISION", "BIGINT", ""), _EVENTS_BY_JOB),
    ),
    # What was expected of jobs.
    15: Migration(
        sqlite=(_ESTIMATES.format("INTEGER"),),
        postgresql=(_ESTIMATES.format("BIGINT"),),
    ),
    # Jobs with when they began to wait again: an earlier program would take them for damaged.
    16: Migration(sqlite=(), postgresql=()),
    # Types of jobs, so that they can be found by these.
    17: Migration(
        sqlite=(
            _TYPE,
            "UPDATE jobs SET type = coalesce(CASE"
            " WHEN json_valid(record) THEN json_extract(record, '$.job.type')"
            " WHEN json_valid(substr(record, 1, length(record) - 9))"
            " THEN json_extract(substr(record, 1, length(record) - 9), '$.job.type') END, '')",
            *_BY_TYPE,
        ),
        postgresql=(
            _TYPE,
            """UPDATE jobs SET type = coalesce(substring(record from '"type":"([^"\\\\]*)"'), '')""",
            *_BY_TYPE,
        ),
    ),
}

#: The schema that this program reads and writes.
SCHEMA_VERSION = max(STEPS)


def complete(connection: Connection) -> None:
    """Add the triggers that tables alone lack to a newly created store."""
    for _, step in sorted(STEPS.items()):
        _set_triggers(connection, step)


def migrate(connection: Connection, found: int) -> None:
    """Migrate a store from that schema, at least `FIRST`, to the present one; in the caller's transaction."""
    for number in range(found + 1, SCHEMA_VERSION + 1):
        step = STEPS[number]
        for statement in step.sqlite if connection.dialect.name == "sqlite" else step.postgresql:
            connection.exec_driver_sql(statement)
        _set_triggers(connection, step)


def _set_triggers(connection: Connection, step: Migration) -> None:
    if step.triggers is None:
        return
    on_sqlite = connection.dialect.name == "sqlite"
    for statement in step.triggers.sqlite if on_sqlite else step.triggers.postgresql:
        connection.exec_driver_sql(statement)
