"""The job store's tables, job ids, and inserts.

Filtered or summed values have columns of their own; the whole record is a text (`job_rows.py`).
`store/job_store.py` reads and writes the tables; a change of the tables needs a file in `migrations`.
"""

from collections.abc import Sequence
from typing import Any, get_args

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.engine import Connection

from conf.defaults import DEFAULT_QUEUE
from conf.util.foreign_json import storable
from environment.model.messages.states import ENDED_EXECUTOR, ENDED_JOB, ExecutorState, JobState

Row = dict[str, Any]

OPEN_JOB = tuple(state for state in get_args(JobState) if state not in ENDED_JOB)
OPEN_EXECUTOR = tuple(state for state in get_args(ExecutorState) if state not in ENDED_EXECUTOR)

_NUMBER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


class StoredText(sa.types.TypeDecorator[str]):
    """A column of texts, in which characters that a database cannot store are replaced.

    They come from masters, programs and damaged rows; the loop would repeat such a write for ever, or end.
    """

    impl = sa.Text
    cache_ok = True

    def process_bind_param(self, value: str | None, _: Any) -> str | None:
        """Replace them by U+FFFD."""
        return value if value is None else storable(value)


metadata = sa.MetaData()
#: Small facts such as the framework id; the schema's version is one of them.
facts = sa.Table(
    "facts",
    metadata,
    sa.Column("key", StoredText, primary_key=True),
    sa.Column("value", StoredText, nullable=False),
)
#: `job-7` has number 7: numbers are given in order of submission and never twice.
jobs = sa.Table(
    "jobs",
    metadata,
    sa.Column("number", _NUMBER, primary_key=True, autoincrement=False),
    sa.Column("state", StoredText, nullable=False),
    sa.Column("cost", sa.Double, nullable=False),
    sa.Column("record", StoredText, nullable=False),
    sa.Column("spec", StoredText),
    sa.Column("accepted_at", sa.Double),
    sa.Column("idempotency_key", StoredText, unique=True),
    sa.Column("finished_at", sa.Double),
    #: Bytes of its rows and folders, once it is over and they were measured.
    sa.Column("size", _NUMBER),
    sa.Column("owner", StoredText, nullable=False, server_default=""),
    sa.Column("queue", StoredText, nullable=False, server_default=DEFAULT_QUEUE),
    sa.Column("name", StoredText, nullable=False, server_default=""),
    sa.Column("job_group", StoredText),
    #: The number of the first job of the array that it belongs to.
    sa.Column("array_of", _NUMBER),
    sa.Column("type", StoredText, nullable=False, server_default=""),
    sa.Index("jobs_by_state", "state", "number"),
    sa.Index("jobs_by_owner", "owner", "state", "number", "queue", "type"),
    sa.Index("jobs_by_type", "type", "state", "number", "queue"),
    sa.Index("jobs_by_queue", "queue", "state", "number"),
    sa.Index("jobs_by_name", "owner", "name", "number"),
)
for _name in ("job_group", "array_of"):
    _there = jobs.c[_name].is_not(None)
    sa.Index(f"jobs_of_{_name}", jobs.c[_name], jobs.c.number, sqlite_where=_there, postgresql_where=_there)
#: Users' labels of jobs, to find them by.
labels = sa.Table(
    "labels",
    metadata,
    sa.Column("name", StoredText, primary_key=True),
    sa.Column("value", StoredText, primary_key=True),
    sa.Column("job", sa.ForeignKey(jobs.c.number), primary_key=True, autoincrement=False),
    sa.Index("labels_by_job", "job"),
    sqlite_with_rowid=False,
)
_OVER = jobs.c.finished_at.is_not(None)
sa.Index("jobs_over", jobs.c.finished_at, jobs.c.number, sqlite_where=_OVER, postgresql_where=_OVER)
_UNMEASURED = _OVER & jobs.c.size.is_(None)
sa.Index("jobs_unmeasured", jobs.c.finished_at, sqlite_where=_UNMEASURED, postgresql_where=_UNMEASURED)
executors = sa.Table(
    "executors",
    metadata,
    sa.Column("task_id", StoredText, primary_key=True),
    sa.Column("job", sa.ForeignKey(jobs.c.number), nullable=False, index=True),
    sa.Column("state", StoredText, nullable=False, index=True),
    sa.Column("launched_at", sa.Double, nullable=False),
    sa.Column("record", StoredText, nullable=False),
    #: Its dollars, and when it ended: what sums over very many need. No cost in rows of earlier versions.
    sa.Column("cost", sa.Double),
    sa.Column("ended_at", sa.Double),
)
explanations = sa.Table(
    "explanations",
    metadata,
    sa.Column("number", _NUMBER, primary_key=True),
    sa.Column("job", sa.ForeignKey(jobs.c.number), nullable=False),
    sa.Column("decision", StoredText, nullable=False),
    sa.Column("body", sa.LargeBinary, nullable=False),
    sa.Index("explanations_by_job", "job", "decision"),
)
#: A shadow policy's versions of decisions; only so many of the latest are kept.
comparisons = sa.Table(
    "comparisons",
    metadata,
    sa.Column("number", _NUMBER, primary_key=True),
    sa.Column("job", sa.ForeignKey(jobs.c.number), nullable=False),
    sa.Column("body", StoredText, nullable=False),
    sa.Index("comparisons_by_job", "job"),
)
#: Events, in words (`events.py`); of no job where it is about the cluster.
events = sa.Table(
    "events",
    metadata,
    sa.Column("number", _NUMBER, primary_key=True),
    sa.Column("at", sa.Double, nullable=False),
    sa.Column("job", _NUMBER),
    sa.Column("kind", StoredText, nullable=False),
    sa.Column("text", StoredText, nullable=False),
    sqlite_autoincrement=True,
)
_OF_JOB = events.c.job.is_not(None)
sa.Index("events_by_job", events.c.job, sqlite_where=_OF_JOB, postgresql_where=_OF_JOB)
#: Numbers of jobs and executors in each state, with their costs and sizes (dollars, bytes); the same of jobs
#: that were pruned, and the highest number among those. The database keeps them (`migrations`).
sums = sa.Table(
    "sums",
    metadata,
    sa.Column("name", StoredText, primary_key=True),
    sa.Column("state", StoredText, primary_key=True),
    sa.Column("number", _NUMBER, nullable=False),
    sa.Column("cost", sa.Double, nullable=False),
    sa.Column("size", _NUMBER, nullable=False),
)
#: VMs of pools from when they were asked for (`leases.py`); times are seconds since the epoch.
leases = sa.Table(
    "leases",
    metadata,
    sa.Column("id", StoredText, primary_key=True),
    sa.Column("pool", StoredText, nullable=False),
    sa.Column("state", StoredText, nullable=False, index=True),
    sa.Column("asked_at", sa.Double, nullable=False),
    sa.Column("closed_at", sa.Double, index=True),
    sa.Column("record", StoredText, nullable=False),
)
#: Applications whose driver requests executors itself (`application_records.py`), and whether their secret is
#: stored.
applications = sa.Table(
    "applications",
    metadata,
    sa.Column("job", sa.ForeignKey(jobs.c.number), primary_key=True, autoincrement=False),
    sa.Column("has_secret", sa.Boolean, nullable=False),
    sa.Column("record", StoredText, nullable=False),
)
#: Estimates of jobs (`estimates.py`).
estimates = sa.Table(
    "estimates",
    metadata,
    sa.Column("job", sa.ForeignKey(jobs.c.number), primary_key=True, autoincrement=False),
    sa.Column("body", StoredText, nullable=False),
)


def _charged(name: str, *keys: str, more: Sequence[sa.Column[Any]] = ()) -> sa.Table:
    columns = (sa.Column(key, StoredText, primary_key=True) for key in keys)
    dollars = sa.Column("dollars", sa.Double, nullable=False)
    return sa.Table(name, metadata, *columns, dollars, *more, sqlite_with_rowid=False)


def _hours() -> tuple[sa.Column[Any], sa.Column[Any]]:
    """Hours of VMs that the dollars paid for, and whether their cloud may take the VMs away."""
    hours = sa.Column("hours", sa.Double, nullable=False, server_default=sa.text("0"))
    return hours, sa.Column("spot", sa.Boolean, nullable=False, server_default=sa.false())


#: Dollars by day (UTC, 2026-11-22) and purpose (`bill.py`): the same dollars once in each table, for its
#: queries. Fixed VMs are of no pool; costs that no job caused, and those no longer stored by VM or job, have
#: an empty one.
charged_days = _charged(
    "charged_days", "day", "pool", "type", "owner", "queue", "policy", "kind", more=_hours()
)
charged_jobs = _charged("charged_jobs", "day", "job", "kind")
sa.Index("charged_jobs_by_job", charged_jobs.c.job)
charged_vms = _charged("charged_vms", "day", "vm", "kind")
charged_groups = _charged("charged_groups", "day", "group", "kind")
charged_pools = _charged("charged_pools", "pool", "kind")
_USED = ("day", "vm", "job", "pool", "type", "owner", "queue", "policy", "kind")
#: Each job on each VM, while `retention.bill` of the config asks for that.
charged_uses = _charged(
    "charged_uses", *_USED, more=(sa.Column("group", StoredText, nullable=False), *_hours())
)


def _sealed(name: str) -> sa.Table:
    """Make one of the tables of `record_tables.py`."""
    key, record = (
        sa.Column("id", StoredText, primary_key=True),
        sa.Column("record", StoredText, nullable=False),
    )
    return sa.Table(name, metadata, key, record)


#: The VMs that are paid for now.
accounts = _sealed("accounts")
#: Resources reserved on VMs for jobs that wait for others to boot, by the job's id.
reservations = _sealed("reservations")
#: Pools that are left alone for a while, by name.
pool_setbacks = _sealed("pool_setbacks")
#: Users by name (`daemon/store/rows/users.py`), and the day (UTC, 2026-11-22) of the last use of each token.
users = _sealed("users")
token_uses = sa.Table(
    "token_uses",
    metadata,
    sa.Column("id", StoredText, primary_key=True),
    sa.Column("day", StoredText, nullable=False),
)
#: Rows of other tables (`name`, `key`) as they were when they could not be read.
quarantine = sa.Table(
    "quarantine",
    metadata,
    sa.Column("number", _NUMBER, primary_key=True),
    sa.Column("name", StoredText, nullable=False),
    sa.Column("key", StoredText, nullable=False),
    sa.Column("body", sa.LargeBinary, nullable=False),
    sa.Column("why", StoredText, nullable=False),
    sa.Column("found_at", sa.Double, nullable=False),
)


#: The highest number that a job ever had, pruned ones too.
LAST_NUMBER = sa.select(
    sa.func.max(
        sa.union_all(
            sa.select(sa.func.max(jobs.c.number).label("number")),
            sa.select(sums.c.number).where(sums.c.name == "highest"),
        )
        .subquery()
        .c.number
    )
)


def upsert(connection: Connection, table: sa.Table, rows: list[Row]) -> None:
    """Insert rows, or change those that are there; all have the same columns."""
    if not rows:
        return
    keys = table.primary_key.columns.keys()
    # The same words in both dialects, which SQLAlchemy keeps apart.
    on_sqlite = connection.dialect.name == "sqlite"
    insert = sqlite.insert(table) if on_sqlite else postgresql.insert(table)
    new = {name: insert.excluded[name] for name in rows[0] if name not in keys}
    connection.execute(insert.on_conflict_do_update(index_elements=keys, set_=new), rows)


def add_explanations(connection: Connection, rows: list[Row]) -> None:
    """Insert rows of explanations; a job's explanation of its waiting takes the place of earlier ones."""
    waits = {row["job"]: row for row in rows if row["decision"] == "wait"}
    if waits:
        old = explanations.c.job.in_(waits) & (explanations.c.decision == "wait")
        connection.execute(sa.delete(explanations).where(old))
    if rows:
        lasting = [row for row in rows if row["decision"] != "wait" or row is waits[row["job"]]]
        connection.execute(sa.insert(explanations), lasting)
