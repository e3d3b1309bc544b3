"""What VMs have cost, in the job store: sums by day and key.

What is charged, and for what, is decided in `environment.model.accounts`; the accounts that are open are rows
of `sealed_rows.py`. A sum is added to in the same
transaction that keeps what caused it, so nothing is lost or counted twice. Sums by VM and job are folded
together once nobody asks for them any more, so that there is an end to their number.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.engine import Connection

from daemon.tables import Row, charges, facts
from environment.model.accounts import Charge, Kind

#: By what a bill can be divided.
By = Literal["job", "owner", "queue", "type", "policy", "pool", "vm", "day", "kind"]
#: For what VMs are paid: all kinds but the difference to what providers tell.
PAID: tuple[Kind, ...] = tuple(kind for kind in get_args(Kind) if kind != "difference")
#: For so many days sums are kept by VM and by job.
DETAILED = 92

_KEYS = Charge._fields[:-1]
#: The fact that names the batch of charges that was added last.
BATCH = "charged"


@dataclass(frozen=True, slots=True)
class Asked:
    """A bill that is asked for: by what, from which day to which (UTC, 2026-11-22), at most so many rows."""

    by: By = "kind"
    since: str | None = None
    until: str | None = None
    limit: int = 1000


@dataclass(frozen=True, slots=True)
class Line:
    """What a bill has for a job, a day, ...: dollars by kind. Of jobs the empty key is what no job used."""

    key: str
    dollars: Mapping[str, float]

    @property
    def total(self) -> float:
        """What was paid: everything but the difference to what providers tell."""
        return sum(self.dollars.get(kind, 0.0) for kind in PAID)


@dataclass(frozen=True, slots=True)
class Bill:
    """What VMs have cost in some days; `rest` is of what is beyond the lines."""

    total: Line
    lines: Sequence[Line]
    rest: Line | None = None
    days: tuple[str, str] | None = field(default=None)


def add_charges(connection: Connection, found: Sequence[Charge], batch: str) -> None:
    """Add charges to their sums, unless the fact `BATCH` says that this batch was added last.

    A commit of which nobody heard whether it came to pass is tried again under the same name.
    """
    if not found:
        return
    if batch and connection.scalar(sa.select(facts.c.value).where(facts.c.key == BATCH)) == batch:
        return
    _add(connection, [charge._asdict() for charge in found])


def _add(connection: Connection, rows: list[Row]) -> None:
    on_sqlite = connection.dialect.name == "sqlite"
    insert = sqlite.insert(charges) if on_sqlite else postgresql.insert(charges)
    grown = {"dollars": charges.c.dollars + insert.excluded.dollars}
    connection.execute(insert.on_conflict_do_update(index_elements=_KEYS, set_=grown), rows)


# ---- what it comes to ------------------------------------------------------------------------------


def bill(connection: Connection, asked: Asked) -> Bill:
    """What was paid in these days, by what is asked for: the dearest first, or the first day."""
    key, kind, dollars = charges.c[asked.by], charges.c.kind, sa.func.sum(charges.c.dollars)
    query = sa.select(key, kind, dollars).group_by(key, kind)
    first = sa.select(sa.func.min(charges.c.day), sa.func.max(charges.c.day))
    for condition in _within(asked):
        query, first = query.where(condition), first.where(condition)
    sums: dict[str, dict[str, float]] = {}
    for of, what, paid in connection.execute(query):
        sums.setdefault(of, {})[what] = paid
    lines = [Line(of, paid) for of, paid in sums.items()]
    lines.sort(key=lambda line: line.key if asked.by == "day" else (-line.total, line.key))
    begin, end = connection.execute(first).one()
    return Bill(
        _sum(lines),
        tuple(lines[: asked.limit]),
        _sum(lines[asked.limit :]) if len(lines) > asked.limit else None,
        None if begin is None else (begin, end),
    )


def _within(asked: Asked) -> Iterable[sa.ColumnElement[bool]]:
    if asked.since is not None:
        yield charges.c.day >= asked.since
    if asked.until is not None:
        yield charges.c.day <= asked.until


def _sum(lines: Iterable[Line]) -> Line:
    found: dict[str, float] = {}
    for line in lines:
        for kind, dollars in line.dollars.items():
            found[kind] = found.get(kind, 0.0) + dollars
    return Line("", found)


def spent(connection: Connection, day: str) -> float:
    """Dollars that were paid on a day."""
    query = sa.select(sa.func.sum(charges.c.dollars)).where(charges.c.day == day, charges.c.kind.in_(PAID))
    return float(connection.scalar(query) or 0.0)


def by_pool(connection: Connection) -> dict[tuple[str, str], float]:
    """Dollars of all days by kind and pool."""
    query = sa.select(charges.c.kind, charges.c.pool, sa.func.sum(charges.c.dollars))
    found: dict[tuple[str, str], float] = {}
    for kind, pool, dollars in connection.execute(query.group_by(charges.c.kind, charges.c.pool)):
        found[kind, pool] = float(dollars)
    return found


# ---- what nobody asks for any more -------------------------------------------------------------------


def forget_jobs(connection: Connection, job_ids: Collection[str]) -> None:
    """These jobs are not kept any more: what they used is, but not by whom."""
    if job_ids:
        _fold(connection, charges.c.job.in_(list(job_ids)), ("job",))


def forget_details(connection: Connection, before: str) -> int:
    """Fold what is kept of days before that one by VM and by job; how many sums that were."""
    old = (charges.c.day < before) & ((charges.c.vm != "") | (charges.c.job != ""))
    return _fold(connection, old, ("vm", "job"))


def _fold(connection: Connection, which: sa.ColumnElement[bool], without: Collection[str]) -> int:
    kept = [charges.c[name] for name in _KEYS if name not in without]
    sums = sa.select(*kept, sa.func.sum(charges.c.dollars).label("dollars")).where(which).group_by(*kept)
    rows: list[dict[str, Any]] = [
        {**dict.fromkeys(without, ""), **row} for row in connection.execute(sums).mappings().all()
    ]
    gone = connection.execute(sa.delete(charges).where(which)).rowcount
    if rows:
        _add(connection, rows)
    return gone
