"""VM costs in the job store: sums by day and by each key of a bill.

`environment.model.messages.vm_accounts` decides charges and their kinds; `record_tables.py` has the rows of
open accounts. Each charge is added to one sum per table, in the transaction that stores its cause, so
nothing is lost or counted twice. No sum exists for a job on a VM. Old sums by VM and by job are folded
together (`forget_jobs`, `forget_details`), which bounds their number. Prometheus reads one row per pool.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any, Literal, get_args

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.engine import Connection

from daemon.store.rows.tables import (
    Row,
    charged_days,
    charged_groups,
    charged_jobs,
    charged_pools,
    charged_vms,
    facts,
)
from environment.model.messages.vm_accounts import Charge, Kind

#: Keys by which a bill can be divided.
By = Literal["job", "group", "owner", "queue", "type", "policy", "pool", "vm", "day", "kind"]
#: Purposes that VMs are paid for: all kinds but the difference to providers' own accounts, and lost work.
PAID: tuple[Kind, ...] = tuple(kind for kind in get_args(Kind) if kind not in ("difference", "lost"))
#: For so many days sums are kept by VM and by job.
DETAILED = 92

_TABLES = (charged_days, charged_jobs, charged_groups, charged_vms, charged_pools)
#: The fact that names the batch of charges that was added last.
BATCH = "charged"
#: The fact that holds when the first VM of all was opened, seconds since the epoch.
FIRST = "first_opened"


@dataclass(frozen=True, slots=True)
class AskedBill:
    """Request for a bill: grouping key, first and last day (UTC, 2026-11-22), maximum number of rows."""

    by: By = "kind"
    since: str | None = None
    until: str | None = None
    limit: int = 1000


@dataclass(frozen=True, slots=True)
class BillEntry:
    """One row of a bill (a job, a day, ...): dollars by kind. The job key is empty for unused VM time."""

    key: str
    dollars: Mapping[str, float]

    @property
    def total(self) -> float:
        """Dollars paid; excludes the difference to the provider's bill and the dollars used in vain."""
        return sum(self.dollars.get(kind, 0.0) for kind in PAID)


@dataclass(frozen=True, slots=True)
class Bill:
    """VM costs of some days; `rest` sums the rows beyond the limit."""

    total: BillEntry
    lines: Sequence[BillEntry]
    rest: BillEntry | None = None
    days: tuple[str, str] | None = field(default=None)


def add_charges(connection: Connection, found: Sequence[Charge], batch: str) -> None:
    """Add charges to their sums, unless the fact `BATCH` says that this batch was added last.

    A commit of which nobody heard whether it came to pass is tried again under the same name.
    """
    if not found:
        return
    if batch and connection.scalar(sa.select(facts.c.value).where(facts.c.key == BATCH)) == batch:
        return
    for table in _TABLES:
        keys = table.primary_key.columns.keys()
        of = attrgetter(*keys)
        sums: dict[tuple[str, ...], float] = {}
        for charge in found:
            key = of(charge)
            sums[key] = sums.get(key, 0.0) + charge.dollars
        _add(
            connection, table, [dict(zip(keys, key, strict=True), dollars=paid) for key, paid in sums.items()]
        )


def note_first(connection: Connection, opened_at: float) -> None:
    """Store when the first VM of all was opened, unless that is stored."""
    on_sqlite = connection.dialect.name == "sqlite"
    insert = sqlite.insert(facts) if on_sqlite else postgresql.insert(facts)
    connection.execute(insert.on_conflict_do_nothing(), [{"key": FIRST, "value": repr(opened_at)}])


def first_opened(connection: Connection) -> float | None:
    """Time at which the first VM of all was opened; None where it is unknown."""
    value = connection.scalar(sa.select(facts.c.value).where(facts.c.key == FIRST))
    try:
        return None if value is None else float(value)
    except ValueError:
        return None


def _add(connection: Connection, table: sa.Table, rows: list[Row]) -> None:
    on_sqlite = connection.dialect.name == "sqlite"
    insert = sqlite.insert(table) if on_sqlite else postgresql.insert(table)
    grown = {"dollars": table.c.dollars + insert.excluded.dollars}
    keys = table.primary_key.columns.keys()
    connection.execute(insert.on_conflict_do_update(index_elements=keys, set_=grown), rows)


# ---- sums ------------------------------------------------------------------------------------------


def bill(connection: Connection, asked: AskedBill) -> Bill:
    """Dollars paid in these days, by the requested key: most expensive first, days in order."""
    detailed = {"job": charged_jobs, "group": charged_groups, "vm": charged_vms}
    table = detailed.get(asked.by, charged_days)
    key, kind, dollars = table.c[asked.by], table.c.kind, sa.func.sum(table.c.dollars)
    query = sa.select(key, kind, dollars).where(*_within(table, asked)).group_by(key, kind)
    first = sa.select(sa.func.min(charged_days.c.day), sa.func.max(charged_days.c.day))
    sums: dict[str, dict[str, float]] = {}
    for of, what, paid in connection.execute(query):
        sums.setdefault(of, {})[what] = paid
    lines = [BillEntry(of, paid) for of, paid in sums.items()]
    lines.sort(key=lambda line: line.key if asked.by == "day" else (-line.total, line.key))
    begin, end = connection.execute(first.where(*_within(charged_days, asked))).one()
    return Bill(
        _sum(lines),
        tuple(lines[: asked.limit]),
        _sum(lines[asked.limit :]) if len(lines) > asked.limit else None,
        None if begin is None else (begin, end),
    )


def _within(table: sa.Table, asked: AskedBill) -> Iterable[sa.ColumnElement[bool]]:
    if asked.since is not None:
        yield table.c.day >= asked.since
    if asked.until is not None:
        yield table.c.day <= asked.until


def _sum(lines: Iterable[BillEntry]) -> BillEntry:
    found: dict[str, float] = {}
    for line in lines:
        for kind, dollars in line.dollars.items():
            found[kind] = found.get(kind, 0.0) + dollars
    return BillEntry("", found)


def spent(connection: Connection, day: str) -> float:
    """Dollars that were paid on a day."""
    query = sa.select(sa.func.sum(charged_days.c.dollars))
    query = query.where(charged_days.c.day == day, charged_days.c.kind.in_(PAID))
    return float(connection.scalar(query) or 0.0)


def spent_by_queue(connection: Connection, day: str) -> list[tuple[str, str, float]]:
    """Dollars that jobs have used on a day, by queue and owner."""
    queue, owner, dollars = charged_days.c.queue, charged_days.c.owner, sa.func.sum(charged_days.c.dollars)
    used = (charged_days.c.day == day, charged_days.c.kind == "used")
    rows = connection.execute(sa.select(queue, owner, dollars).where(*used).group_by(queue, owner))
    return [(row[0], row[1], float(row[2])) for row in rows]


def by_pool(connection: Connection) -> dict[tuple[str, str], float]:
    """Dollars of all days by kind and pool."""
    columns = charged_pools.c
    found = connection.execute(sa.select(columns.kind, columns.pool, columns.dollars))
    return {(kind, pool): float(dollars) for kind, pool, dollars in found}


# ---- pruning -----------------------------------------------------------------------------------------


def forget_jobs(connection: Connection, job_ids: Collection[str]) -> None:
    """Fold the sums of these deleted jobs into the sum without a job."""
    if job_ids:
        _fold(connection, charged_jobs, "job", charged_jobs.c.job.in_(list(job_ids)))


def forget_details(connection: Connection, before: str) -> int:
    """Fold the sums by VM, job and group of days before that one; return the number of folded sums."""
    return sum(
        _fold(connection, table, name, (table.c.day < before) & (table.c[name] != ""))
        for table, name in ((charged_jobs, "job"), (charged_groups, "group"), (charged_vms, "vm"))
    )


def _fold(connection: Connection, table: sa.Table, without: str, which: sa.ColumnElement[bool]) -> int:
    kept = [column for column in table.primary_key.columns if column.name != without]
    sums = sa.select(*kept, sa.func.sum(table.c.dollars).label("dollars")).where(which).group_by(*kept)
    rows: list[dict[str, Any]] = [{without: "", **row} for row in connection.execute(sums).mappings().all()]
    gone = connection.execute(sa.delete(table).where(which)).rowcount
    if rows:
        _add(connection, table, rows)
    return gone
