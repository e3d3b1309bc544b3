"""Bodies of the HTTP API about the cost of VMs, and the functions that make them. Money is dollars."""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Literal, get_args

from pydantic import AfterValidator, Field

from conf.util.copy_fields import carried
from daemon.core.status import BudgetStatus
from daemon.schemas.base import Body, Said
from daemon.schemas.queries import Query
from daemon.store.rows.bill import PAID, USE_KEY, Bill, BillEntry, By, CoveredTime
from environment.clusters.commitments import Commitment
from environment.model.messages.vm_accounts import Vain

_Day = Annotated[str, Field(pattern=r"^\d{4}-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])$")]


#: Neither NUL nor half a surrogate pair, which no store takes.
_STORABLE = re.compile(r"[^\x00\ud800-\udfff]*").fullmatch


def place_of(text: str) -> list[str]:
    """The place that the `next` of a page stands for; empty when there is none."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return []
    well = isinstance(found, list) and all(isinstance(part, str) and _STORABLE(part) for part in found)
    return found if well else []


class BillQuery(Query):
    """Parameters of a bill: the division, and the days."""

    by: By = "kind"
    """The division of the bill."""
    since: _Day | None = None
    """The first day (UTC), such as 2026-11-22; without it, the first with data."""
    until: _Day | None = None
    """The last day (UTC); without it, today."""
    limit: Annotated[int, Field(ge=0, le=10_000)] = 1000
    """Maximum number of lines; the others are summed up in `rest`."""


def _place(text: str) -> str:
    """Check that the text is a place among the rows of a day."""
    if len(place_of(text)) != len(USE_KEY):
        raise ValueError("should be the `next` of the page before")
    return text


class FocusQuery(Query):
    """Parameters of the bill in FOCUS: the day, and the page."""

    day: _Day
    """The day (UTC), such as 2026-11-22."""
    limit: Annotated[int, Field(ge=1, le=1000)] = 1000
    """Maximum number of rows by VM and job."""
    after: Annotated[str, Field(max_length=20_000), AfterValidator(_place)] | None = None
    """The `next` of the page before; without it, the first page."""


class BillLine(Body):
    """A billed amount, by kind."""

    key: Said
    """The job, group, owner, day, ...; empty for costs of no job, or of jobs that are no longer listed one by
    one."""
    total: float
    """The billed amount: dollars of all kinds from `used` to `rounding`. Tables call it `billed`."""
    used: float
    """The part used by executors and drivers: each its dominant share of its VM."""
    idle: float
    """The unused part of VMs that were up."""
    booting: float
    """Cost of VMs of pools while they booted."""
    draining: float
    """The unused part of VMs that were drained or closed."""
    rounding: float
    """Cost of rounding up to whole units and to the minimum charge."""
    difference: float | None
    """Cost beyond the total by providers' own account; null where they report none."""
    lost: float
    """The part of `used` that was lost when jobs were preempted."""
    memory: float
    """The part of `used` by attempts that had too little memory, before a restart with more."""


class LimitBody(Body):
    """A limit on the cost of VMs."""

    pool: Said
    """Its pool; empty: all VMs."""
    per: Literal["hour", "day", "month"]
    """Its period: calendar days and months are those of UTC."""
    dollars: float
    """Maximum cost, dollars."""
    spent: float
    """Cost so far, dollars; of an hour, what the open VMs cost per hour now."""
    hold: bool
    """Whether VMs are held back beyond it."""
    until: float | None
    """When the period ends and there is room again, seconds since the epoch; null for an hour."""


class BudgetBody(Body):
    """Cost of VMs today, beside the limits."""

    day: Said
    """Today (UTC)."""
    per_day: float | None
    """Maximum cost of a day, dollars; null without such a limit."""
    spent: float
    """Cost so far, dollars."""
    hold: bool
    """Whether no more VMs are opened on a day that has cost more than the budget."""
    limits: list[LimitBody]
    """All limits, those of all VMs before those of pools."""


class CommitmentBody(Body):
    """A commitment in the days of a bill: dollars paid in any case, and the part that VMs used."""

    name: Said
    """Its name in the config."""
    covers: Said
    """VMs that it covers, in words."""
    committed: float
    """Dollars paid in any case; of today, until now."""
    used: float
    """The part of these that covered VMs used."""
    unused: float
    """The rest: paid for nothing."""
    list_cost: float
    """Cost of the covered time at the VMs' own prices, which the total has."""
    saved: float
    """List cost minus the committed dollars; negative where the commitment cost more."""


class BillBody(Body):
    """Cost of VMs from opened to closed, used or idle."""

    by: By
    """The division of the bill."""
    since: Said | None
    """The first day (UTC) with data; null when there is none."""
    until: Said | None
    """The last day (UTC) with data; null when there is none."""
    total: BillLine
    """The whole bill."""
    lines: list[BillLine]
    """Lines by falling cost, or day by day. Those of policies have what jobs used while each decided; idle
    VMs and the rest, which are paid for under any policy, are in the line with an empty key."""
    rest: BillLine | None
    """The sum of the other lines; null when there are none."""
    budget: BudgetBody | None
    """Budget of a day; null without a budget, and where only the leader knows."""
    commitments: list[CommitmentBody]
    """Commitments that were paid in these days."""
    with_commitments: float
    """The total with committed dollars in place of the list cost of the time that they covered."""


def commitment_bodies(
    commitments: Iterable[Commitment], covered: Sequence[CoveredTime], begin: float, end: float
) -> list[CommitmentBody]:
    """Commitments that were paid between two times (seconds since the epoch), with the covered dollars."""
    found = []
    for each in commitments:
        mine = [time for time in covered if time.commitment == each.name]
        listed, hours = sum(time.dollars for time in mine), sum(time.hours for time in mine)
        if (committed := each.committed(begin, end)) or mine:
            used = each.used(listed, hours)
            found.append(
                CommitmentBody(
                    name=each.name,
                    covers=each.covers,
                    committed=committed,
                    used=used,
                    unused=max(committed - used, 0.0),
                    list_cost=listed,
                    saved=listed - committed,
                )
            )
    return found


def bill_body(
    bill: Bill, by: By, budget: BudgetStatus | None, commitments: Sequence[CommitmentBody] = ()
) -> BillBody:
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
        else BudgetBody(
            day=budget.day,
            per_day=budget.per_day,
            spent=budget.spent,
            hold=budget.hold,
            limits=[carried(LimitBody, limit) for limit in budget.limits],
        ),
        commitments=list(commitments),
        with_commitments=bill.total.total - sum(each.saved for each in commitments),
    )


def _line(line: BillEntry) -> BillLine:
    paid: Mapping[str, float] = {kind: line.dollars.get(kind, 0.0) for kind in PAID}
    difference = line.dollars.get("difference")
    vain = {kind: line.dollars.get(kind, 0.0) for kind in get_args(Vain)}
    return BillLine(key=line.key, total=line.total, **paid, difference=difference, **vain)
