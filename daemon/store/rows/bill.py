"""VM costs in the job store: sums by day and by each key of a bill.

`environment.model.messages.vm_accounts` decides charges and their kinds; `record_tables.py` has the rows of
open accounts. Each charge is added to one sum per table, in the transaction that stores its cause, so
nothing is lost or counted twice. Sums of each job on each VM are stored only where the config asks for
them: these are many. Old sums by VM and by job are folded together (`forget_jobs`, `forget_details`), which
bounds their number. Prometheus reads one row per pool.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from types import MappingProxyType
from typing import Any, Literal, NamedTuple, get_args

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.engine import Connection

from daemon.store.rows.tables import (
    Row,
    charged_days,
    charged_groups,
    charged_jobs,
    charged_pools,
    charged_uses,
    charged_vms,
    facts,
)
from environment.model.messages.vm_accounts import SPENT, Charge, Kind, Vain

#: Keys by which a bill can be divided.
By = Literal["job", "group", "owner", "queue", "type", "policy", "pool", "vm", "day", "kind"]
#: Purposes that VMs are paid for: all kinds but the difference to providers' own accounts, work in vain, and
#: what commitments cover.
PAID: tuple[Kind, ...] = tuple(
    kind for kind in get_args(Kind) if kind not in ("difference", "covered", *get_args(Vain))
)
#: For so many days sums are kept by VM and by job.
DETAILED = 92

#: Tables of the keys that may have many rows a day.
DETAILS: Mapping[By, sa.Table] = MappingProxyType(
    {"job": charged_jobs, "group": charged_groups, "vm": charged_vms}
)
#: What jobs used by policy; idle VMs and the rest, which are paid for under any policy, have none.
_USED_BY_POLICY = sa.select(
    sa.case((charged_days.c.kind.in_(("used", *get_args(Vain))), charged_days.c.policy), else_="").label(
        "policy"
    ),
    *(charged_days.c[name] for name in ("day", "kind", "dollars")),
).subquery()
_TABLES = (charged_days, charged_jobs, charged_groups, charged_vms, charged_pools)
#: Dollars below which what is left of a sum is an error of rounding.
_DUST = 1e-9
#: Of a sum, and dollars: tables that differ by less differ by rounding.
_SAME = 1e-6
#: The place of a use among those of a day.
USE_KEY = ("vm", "job", "pool", "type", "owner", "queue", "policy", "kind")
_NO_USE: Row = {"vm": "", "job": ""}
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


def add_charges(connection: Connection, found: Sequence[Charge], batch: str, *, uses: bool = False) -> None:
    """Add charges to their sums, unless the fact `BATCH` says that this batch was added last.

    With `uses` they are also stored by VM and job.
    A commit of which nobody heard whether it came to pass is tried again under the same name.
    """
    if not found:
        return
    if batch and connection.scalar(sa.select(facts.c.value).where(facts.c.key == BATCH)) == batch:
        return
    for table in (*_TABLES, charged_uses) if uses else _TABLES:
        names = table.columns.keys()
        key_of, row_of = attrgetter(*table.primary_key.columns.keys()), attrgetter(*names)
        sums: dict[tuple[str, ...], Row] = {}
        for charge in found:
            if (row := sums.get(key := key_of(charge))) is None:
                sums[key] = dict(zip(names, row_of(charge), strict=True))
                continue
            row["dollars"] += charge.dollars
            if "hours" in row:
                row["hours"] += charge.hours
        _add(connection, table, list(sums.values()))


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
    grown = {name: table.c[name] + insert.excluded[name] for name in ("dollars", "hours") if name in table.c}
    keys = table.primary_key.columns.keys()
    connection.execute(insert.on_conflict_do_update(index_elements=keys, set_=grown), rows)


# ---- sums ------------------------------------------------------------------------------------------


def bill(connection: Connection, asked: AskedBill) -> Bill:
    """Dollars paid in these days, by the requested key: most expensive first, days in order."""
    table = _USED_BY_POLICY if asked.by == "policy" else DETAILS.get(asked.by, charged_days)
    key, kind, dollars = table.c[asked.by], table.c.kind, table.c.dollars
    within = [*_within(table, asked), kind != "covered"]
    total = sa.func.sum(sa.case((kind.in_(PAID), dollars), else_=0.0))
    order = (key,) if asked.by == "day" else (total.desc(), key)
    # The store picks the lines, in the statement that sums them: there may be a million jobs.
    largest = sa.select(key).where(*within).group_by(key).order_by(*order).limit(asked.limit)
    line = sa.case((key.in_(largest.cte("largest").select()), key))
    query = sa.select(line, kind, sa.func.sum(dollars)).where(*within).group_by(line, kind)
    first = sa.select(sa.func.min(charged_days.c.day), sa.func.max(charged_days.c.day))
    sums: dict[str | None, dict[str, float]] = {}
    for of, what, paid in connection.execute(query):
        sums.setdefault(of, {})[what] = paid
    others = sums.pop(None, None)
    rest = None if others is None else BillEntry("", others)
    lines = [BillEntry(of, paid) for of, paid in sums.items() if of is not None]
    lines.sort(key=lambda line: line.key if asked.by == "day" else (-line.total, line.key))
    begin, end = connection.execute(first.where(*_within(charged_days, asked))).one()
    return Bill(
        _sum([*lines, *([rest] if rest else [])]),
        tuple(lines),
        rest,
        None if begin is None else (begin, end),
    )


def _within(table: sa.FromClause, asked: AskedBill) -> Iterable[sa.ColumnElement[bool]]:
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


class ChargePage(NamedTuple):
    """Some charges of a day, and after which use the next page begins; None on the last."""

    found: Sequence[Charge]
    next: tuple[str, ...] | None


def charges_of(
    connection: Connection, day: str, limit: int, after: Sequence[str] | None = None
) -> ChargePage:
    """Payments of a day by VM and job, as far as they are stored, and the rest of each sum without them.

    So the dollars of all pages add up to the bill of the day, once it is over. A page has up to `limit` uses;
    the last one has all rests as well. `after` is the `next` of the page before.
    """
    uses = charged_uses.c
    place = [uses[name] for name in USE_KEY]
    query = sa.select(*(uses[name] for name in Charge._fields)).where(uses.day == day, uses.kind.in_(PAID))
    if after is not None:
        query = query.where(sa.tuple_(*place) > sa.tuple_(*map(sa.literal, after)))
    # One more than asked for tells whether it is the last page.
    found = [Charge(*values) for values in connection.execute(query.order_by(*place).limit(limit + 1))]
    if len(found) > limit:
        return ChargePage(found[:limit], tuple(getattr(found[limit - 1], name) for name in USE_KEY))
    return ChargePage([*found, *_rests(connection, day)], None)


def _rests(connection: Connection, day: str) -> Iterable[Charge]:
    """The part of a day's sums that its stored uses leave."""
    of_day, of_use = charged_days.c, charged_uses.c
    keys = [each.name for each in charged_days.primary_key if each.name != "day"]
    used = sa.select(
        sa.literal(1),
        *(of_use[name] for name in keys),
        sa.func.sum(of_use.dollars),
        sa.func.sum(of_use.hours),
    ).where(of_use.day == day, of_use.kind.in_(PAID))
    paid = sa.select(sa.literal(0), *(of_day[name] for name in (*keys, "dollars", "hours"))).where(
        of_day.day == day, of_day.kind.in_(PAID)
    )
    # In one statement, as a daemon may add to both tables meanwhile.
    known, sums = dict[Charge, Row](), list[Charge]()
    names = (*keys, "dollars", "hours")
    for detailed, *values in connection.execute(
        sa.union_all(used.group_by(*(of_use[name] for name in keys)), paid)
    ):
        row = dict(zip(names, values, strict=True))
        charge = Charge(**{**_NO_USE, **row, "day": day})
        if detailed:
            known[_key_of_sum(charge)] = row
        else:
            sums.append(charge)
    for charge in sorted(sums):
        there = known.get(_key_of_sum(charge), {"dollars": 0.0, "hours": 0.0})
        dollars, hours = charge.dollars - there["dollars"], charge.hours - there["hours"]
        if abs(dollars) > _DUST:
            yield charge._replace(dollars=dollars, hours=hours)


def _key_of_sum(charge: Charge) -> Charge:
    return charge._replace(vm="", job="", group="", dollars=0.0, hours=0.0, spot=False)


def spent(connection: Connection, month: str) -> list[tuple[str, str, float]]:
    """Dollars that were paid in a month (2026-11), by day and pool."""
    by = (charged_days.c.day, charged_days.c.pool)
    query = sa.select(*by, sa.func.sum(charged_days.c.dollars)).group_by(*by)
    rows = connection.execute(query.where(*_of_month(month), charged_days.c.kind.in_(PAID)))
    return [(*row[:2], float(row[2])) for row in rows]


def spent_by_queue(connection: Connection, month: str) -> list[tuple[str, str, str, float]]:
    """Dollars of a month (2026-11) that are jobs', by day, queue and owner."""
    by = (charged_days.c.day, charged_days.c.queue, charged_days.c.owner)
    used = (*_of_month(month), charged_days.c.kind.in_(SPENT), charged_days.c.queue != "")
    rows = connection.execute(sa.select(*by, sa.func.sum(charged_days.c.dollars)).where(*used).group_by(*by))
    return [(*row[:3], float(row[3])) for row in rows]


def _of_month(month: str) -> tuple[sa.ColumnElement[bool], ...]:
    return charged_days.c.day >= f"{month}-01", charged_days.c.day <= f"{month}-31"


class CoveredTime(NamedTuple):
    """Time of a day that a commitment covered: hours, and dollars at the VMs' own prices."""

    day: str
    commitment: str
    pool: str
    type: str
    dollars: float
    hours: float


def listed(connection: Connection, day: str) -> dict[tuple[str, str], float]:
    """Dollars that were paid on a day for the VMs of each pool and type, at their own prices."""
    of = charged_days.c
    query = sa.select(of.pool, of.type, sa.func.sum(of.dollars)).where(of.day == day, of.kind.in_(PAID))
    found = connection.execute(query.group_by(of.pool, of.type))
    return {(pool, name): float(paid) for pool, name, paid in found}


def covered(connection: Connection, since: str, until: str) -> list[CoveredTime]:
    """Amounts that commitments covered in these days, the last one included."""
    of = charged_days.c
    by = (of.day, of.policy, of.pool, of.type)
    query = sa.select(*by, sa.func.sum(of.dollars), sa.func.sum(of.hours)).group_by(*by).order_by(*by)
    rows = connection.execute(query.where(of.kind == "covered", of.day >= since, of.day <= until))
    return [CoveredTime(*row[:4], float(row[4]), float(row[5])) for row in rows]


def by_pool(connection: Connection) -> dict[tuple[str, str], float]:
    """Dollars of all days by kind and pool."""
    columns = charged_pools.c
    found = connection.execute(sa.select(columns.kind, columns.pool, columns.dollars))
    return {(kind, pool): float(dollars) for kind, pool, dollars in found}


# ---- checks ------------------------------------------------------------------------------------------


def disagreements(connection: Connection) -> list[str]:
    """Kinds and days of which the tables, each with all dollars, have other sums: a disk has changed one."""
    days: dict[tuple[str, str], dict[str, float]] = {}
    kinds: dict[str, dict[str, float]] = {}
    for table in _TABLES:
        of, total = table.c, sa.func.total if connection.dialect.name == "sqlite" else sa.func.sum
        by = (of.day, of.kind) if "day" in of else (of.kind,)
        for *key, dollars in connection.execute(sa.select(*by, total(of.dollars)).group_by(*by)):
            if "day" in of:
                days.setdefault((str(key[0]), str(key[1])), {})[table.name] = float(dollars)
            if table in (charged_days, charged_pools):
                kept = kinds.setdefault(str(key[-1]), {})
                kept[table.name] = kept.get(table.name, 0.0) + float(dollars)
    detailed = [table.name for table in _TABLES if table is not charged_pools]
    found = [_disagree(f"{kind} of {day}", sums, detailed) for (day, kind), sums in sorted(days.items())]
    both = [charged_days.name, charged_pools.name]
    found += [_disagree(f"{kind} of all days", sums, both) for kind, sums in sorted(kinds.items())]
    return [each for each in found if each]


def _disagree(what: str, sums: Mapping[str, float], tables: Sequence[str]) -> str:
    dollars = [sums.get(name, 0.0) for name in tables]
    if max(dollars) - min(dollars) <= _SAME * (1.0 + abs(dollars[0])):
        return ""
    return f"{what}: " + ", ".join(f"{name} {paid:.6g}" for name, paid in zip(tables, dollars, strict=True))


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


def forget_uses(connection: Connection, before: str) -> int:
    """Delete the sums of each job on each VM of days before that one; return their number."""
    return connection.execute(sa.delete(charged_uses).where(charged_uses.c.day < before)).rowcount


def _fold(connection: Connection, table: sa.Table, without: str, which: sa.ColumnElement[bool]) -> int:
    kept = [column for column in table.primary_key.columns if column.name != without]
    sums = sa.select(*kept, sa.func.sum(table.c.dollars).label("dollars")).where(which).group_by(*kept)
    rows: list[dict[str, Any]] = [{without: "", **row} for row in connection.execute(sums).mappings().all()]
    gone = connection.execute(sa.delete(table).where(which)).rowcount
    if rows:
        _add(connection, table, rows)
    return gone
