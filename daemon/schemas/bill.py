"""Bodies of the HTTP API about the cost of VMs, and the functions that make them. Money is dollars."""

from collections.abc import Mapping
from typing import Annotated

from pydantic import Field

from daemon.core.status import BudgetStatus
from daemon.schemas.base import Body, Said
from daemon.schemas.queries import Query
from daemon.store.rows.bill import PAID, Bill, BillEntry, By

_Day = Annotated[str, Field(pattern=r"^\d{4}-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])$")]


class BillQuery(Query):
    """Parameters of a bill: the division, and the days."""

    by: By = "kind"
    """The division of the bill."""
    since: _Day | None = None
    """The first day (UTC), such as 2026-11-22; without it, the first that there is."""
    until: _Day | None = None
    """The last day (UTC); without it, today."""
    limit: Annotated[int, Field(ge=0, le=10_000)] = 1000
    """Maximum number of lines; the others are summed up in `rest`."""


class BillLine(Body):
    """An amount paid, by kind."""

    key: Said
    """The job, group, owner, day, ...; empty for costs of no job, or of jobs that are no longer listed one by
    one."""
    total: float
    """Dollars in all."""
    used: float
    """The part used by executors and drivers: each its dominant share of its VM."""
    idle: float
    """The unused part of VMs that were up."""
    booting: float
    """While VMs of pools booted."""
    draining: float
    """The unused part of VMs that were drained or closed."""
    rounding: float
    """For whole units, and the least that is charged."""
    difference: float | None
    """Cost beyond the total by providers' own account; null where they report none."""
    lost: float
    """The used part of lost work, of jobs that were preempted."""


class BudgetBody(Body):
    """Cost of VMs today, beside the limit."""

    day: Said
    """Today (UTC)."""
    per_day: float
    """Dollars that they may cost on a day."""
    spent: float
    """Dollars that they have cost."""
    hold: bool
    """Whether no VM is opened on a day on which they have cost more."""


class BillBody(Body):
    """Cost of VMs from opened to closed, used or idle."""

    by: By
    """The division of the bill."""
    since: Said | None
    """The first day (UTC) with data; null when there is none."""
    until: Said | None
    """The last such day."""
    total: BillLine
    """All of it."""
    lines: list[BillLine]
    """The dearest first, or day by day."""
    rest: BillLine | None
    """The sum of the other lines; null when there are none."""
    budget: BudgetBody | None
    """Budget of a day; null without a budget, and where only the leader knows."""


def bill_body(bill: Bill, by: By, budget: BudgetStatus | None) -> BillBody:
    """The answer for a bill."""
    begin, end = bill.days or (None, None)
    return BillBody(
        by=by,
        since=begin,
        until=end,
        total=_line(bill.total),
        lines=[_line(line) for line in bill.lines],
        rest=None if bill.rest is None else _line(bill.rest),
        budget=None
        if budget is None
        else BudgetBody(day=budget.day, per_day=budget.per_day, spent=budget.spent, hold=budget.hold),
    )


def _line(line: BillEntry) -> BillLine:
    paid: Mapping[str, float] = {kind: line.dollars.get(kind, 0.0) for kind in PAID}
    difference, lost = line.dollars.get("difference"), line.dollars.get("lost", 0.0)
    return BillLine(key=line.key, total=line.total, **paid, difference=difference, lost=lost)
