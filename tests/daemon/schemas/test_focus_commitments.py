"""Commitments in the bill and in FOCUS: dollars paid, used and saved, with rows that add up."""

import pytest

from conf.util.utc_days import midnight
from daemon.schemas.bill import bill_body, commitment_bodies
from daemon.schemas.focus import FocusRow, focus_body, with_commitments
from daemon.store.rows.bill import Bill, BillEntry, ChargePage, CoveredTime
from environment.clusters.commitments import Commitment
from environment.model.messages.vm_accounts import Charge

DAY = "2026-11-22"
YEAR = Commitment("year", "2026-01-01", "2026-12-31", pool="general", vms=2, price_per_hour=0.1)
PLAN = Commitment("plan", DAY, "2027-12-31", type="m1.large", dollars_per_hour=0.05, discount=0.5)
OLD = Commitment("old", "2025-01-01", "2025-12-31", pool="general", vms=2, price_per_hour=0.1)
#: A reserved VM was open for twelve hours, and one beyond for four of which the plan covers half.
COVERED = [
    CoveredTime(DAY, "year", "general", "m1.large", 24 * 0.24, 24.0),
    CoveredTime(DAY, "plan", "general", "m1.large", 1.2, 5.0),
]
OF = (DAY, "general-1.1", "general", "m1.large")
CHARGES = [
    Charge(*OF, "job-1", "ann", "etl", "ff", "used", 24 * 0.24, hours=24.0),
    Charge(*OF, "", "", "", "ff", "idle", 10 * 0.24, hours=10.0),
    Charge(DAY, "vm-1", "", "m2", "", "", "", "ff", "idle", 1.0, hours=2.0),
]
#: Dollars of each pool and type on that day.
LISTED = {("general", "m1.large"): 34 * 0.24, ("", "m2"): 1.0}


def test_a_bill_tells_what_was_used_unused_and_saved() -> None:
    """Of those that were paid in its days, until now where it is of today."""
    begin = midnight(DAY)
    year, plan = commitment_bodies((YEAR, PLAN, OLD), COVERED, begin, begin + 86_400.0)
    assert (year.name, year.covers, plan.covers) == ("year", "pool general", "type m1.large")
    told = [(b.committed, b.used, b.unused, b.list_cost, b.saved) for b in (year, plan)]
    assert told[0] == pytest.approx((4.8, 2.4, 2.4, 5.76, 0.96))
    assert told[1] == pytest.approx((1.2, 0.6, 0.6, 1.2, 0.0))
    (half,) = commitment_bodies((YEAR,), (), begin, begin + 43_200.0)
    assert (half.committed, half.used) == pytest.approx((2.4, 0.0))
    total = BillEntry("", {"used": 5.76, "idle": 3.4, "covered": 6.96})
    body = bill_body(Bill(total, ()), "kind", None, [year, plan])
    assert (body.total.total, body.with_commitments) == pytest.approx((9.16, 9.16 - 6.96 + 6.0))


@pytest.mark.parametrize("first", [0, 1, 2])
def test_focus_adds_up_to_the_bill_with_commitments(first: int) -> None:
    """Billed and effective costs alike, over all pages; list costs of usage stay, and quantities."""
    begin = midnight(DAY)
    paid = commitment_bodies((YEAR, PLAN), COVERED, begin, begin + 86_400.0)
    rows = list[FocusRow]()
    for page in (ChargePage(CHARGES[:first], (DAY,)), ChargePage(CHARGES[first:], None)):
        plain = focus_body(page, "stoker", None)
        rows += with_commitments(plain, DAY, paid, (YEAR, PLAN), COVERED, LISTED, "stoker").rows
    assert sum(row.BilledCost for row in rows) == pytest.approx(9.16 - 6.96 + 6.0)
    assert sum(row.EffectiveCost for row in rows) == pytest.approx(9.16 - 6.96 + 6.0)
    usage = [row for row in rows if row.x_Kind != "committed"]
    assert sum(row.ListCost for row in usage) == pytest.approx(9.16)
    assert sum(row.ConsumedQuantity or 0.0 for row in usage) == pytest.approx(36.0)
    status = {(row.CommitmentDiscountId, row.CommitmentDiscountStatus, row.ChargeCategory) for row in rows}
    kinds = {("Used", "Usage"), ("Unused", "Usage"), (None, "Purchase")}
    assert status == {(None, None, "Usage")} | {(name, *kind) for name in ("year", "plan") for kind in kinds}
    of = {row.CommitmentDiscountId: row for row in rows if row.CommitmentDiscountId}
    assert [of[n].CommitmentDiscountCategory for n in ("year", "plan")] == ["Usage", "Spend"]
    assert [of[n].CommitmentDiscountType for n in ("year", "plan")] == ["Reservation", "Savings Plan"]
    assert {row.BilledCost for row in rows if row.CommitmentDiscountStatus} == {0.0}
