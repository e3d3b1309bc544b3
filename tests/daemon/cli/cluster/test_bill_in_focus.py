"""`stoker bill -o focus`: FinOps FOCUS rows of the bill, which add up to it."""

import csv
import io
import json
from dataclasses import replace
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest

from daemon.store.rows.bill import AskedBill
from environment.model.cluster_model import Changes
from environment.model.messages.lease import Lease
from environment.model.messages.vm_accounts import Accounts
from environment.pools import SpotTerms, Terms
from tests.builders import make_job, make_vm
from tests.daemon.cli.conftest import Daemon

Capture = pytest.CaptureFixture[str]

HOUR = 3600.0
#: Two hours before the last midnight of November.
BEGIN = datetime(2026, 11, 29, 22, tzinfo=UTC).timestamp()
#: Columns that FOCUS 1.2 makes mandatory, and whether it permits null.
MANDATORY = {
    "BilledCost": False, "BillingAccountId": False, "BillingAccountName": True, "BillingCurrency": False,
    "BillingPeriodEnd": False, "BillingPeriodStart": False, "ChargeCategory": False, "ChargeClass": True,
    "ChargeDescription": True, "ChargePeriodEnd": False, "ChargePeriodStart": False, "ContractedCost": False,
    "EffectiveCost": False, "InvoiceIssuerName": False, "ListCost": False, "PricingQuantity": True,
    "PricingUnit": True, "ProviderName": False, "PublisherName": False, "ServiceCategory": False,
    "ServiceName": False,
}  # fmt: skip


def task(job: str, share: float) -> Any:
    """An executor of a job that takes this share of its VM."""
    return SimpleNamespace(job_id=job, share=share)


def play(daemon: Daemon) -> None:
    """Charge a fixed, a spot and an on-demand VM for 30 hours over midnights and the end of the month."""
    held: dict[str, list[Any]] = {"id-vm-1": [], "spot-agent": [], "agent": []}
    jobs = {
        name: replace(make_job(name), owner=owner, queue=queue)
        for name, owner, queue in (("job-1", "ann", "etl"), ("job-2", "bob", "=ml"), ("job-3", "ann", "etl"))
    }
    accounts = Accounts(lambda vm_id: held[vm_id], jobs.get)
    accounts.policy = "greedy"
    spot = Terms("spot", boot=60.0, minimum=60.0, spot=SpotTerms(0.2))
    leases = [
        Lease(
            f"{terms.pool}-1.{n}", replace(make_vm(price_per_hour=price), terms=terms), BEGIN, opened_at=BEGIN
        )
        for n, (terms, price) in enumerate(((spot, 0.0731), (Terms("general", granularity=HOUR), 0.31)))
    ]

    def save() -> None:
        charges, changed = accounts.take()
        daemon.cast.store.changes.save(Changes((), (), charges=charges, accounts=changed))

    accounts.see((make_vm("vm-1"),), BEGIN, known=True)
    for lease, agent in zip(leases, ("spot-agent", "agent"), strict=True):
        accounts.lease(lease, BEGIN)
        lease.agent_id, lease.ready_at, lease.state = agent, BEGIN + 90.0, "up"
        accounts.lease(lease, BEGIN + 90.0)
    for minute in range(1, 30 * 60 + 1, 17):
        at = BEGIN + 60.0 * minute + 1.5
        accounts.charge_all(at)
        held["id-vm-1"] = [task("job-1", 0.25), task("job-2", 1 / 3)] if minute % 3 else []
        held["spot-agent"] = [task("job-2", 0.7), task("job-3", 0.6)] if minute < 1500 else []
        held["agent"] = [task("job-3", 0.1)] * (minute % 5)
        save()
    leases[1].state, leases[1].closed_at = "closed", at + 1.0
    accounts.lease(leases[1], at + 5.0)
    save()


def rows_of(daemon: Daemon, capsys: Capture, *options: str) -> list[dict[str, str]]:
    """The rows that the command prints."""
    assert daemon.run("bill", "-o", "focus", *options) == 0
    return list(csv.DictReader(io.StringIO(capsys.readouterr().out)))


@pytest.mark.parametrize("stored", [True, False])
def test_the_rows_add_up_to_the_bill(daemon: Daemon, capsys: Capture, stored: bool) -> None:
    """In all, by day and by job; with and without charges by VM and job."""
    daemon.cast.store.vms.stores_uses = stored
    play(daemon)
    vms, rows = daemon.cast.store.vms, rows_of(daemon, capsys)
    whole = vms.bill(AskedBill("day"))
    assert len(whole.lines) == 3
    assert sum(float(row["BilledCost"]) for row in rows) == pytest.approx(whole.total.total, abs=1e-6)
    for by, column in (("day", "ChargePeriodStart"), ("queue", "SubAccountId")):
        for line in vms.bill(AskedBill(by)).lines:  # type: ignore[arg-type]  # both are keys of a bill
            of = [row for row in rows if row[column].lstrip("'").removesuffix("T00:00:00Z") == line.key]
            assert sum(float(row["BilledCost"]) for row in of) == pytest.approx(line.total, abs=1e-6)
    if stored:
        for line in vms.bill(AskedBill("job")).lines:
            of = [row for row in rows if json.loads(row["Tags"]).get("job", "") == line.key]
            assert sum(float(row["BilledCost"]) for row in of) == pytest.approx(line.total, abs=1e-6)
        for line in vms.bill(AskedBill("vm")).lines:
            of = [row for row in rows if row["ResourceId"] == line.key]
            assert sum(float(row["BilledCost"]) for row in of) == pytest.approx(line.total, abs=1e-6)
    assert all((row["ResourceId"] != "") == stored for row in rows)
    november = rows_of(daemon, capsys, "--until", "2026-11-30")
    assert {row["BillingPeriodStart"] for row in november} == {"2026-11-01T00:00:00Z"}
    assert {row["BillingPeriodEnd"] for row in november} == {"2026-12-01T00:00:00Z"}
    december = rows_of(daemon, capsys, "--since", "2026-12-01")
    assert {row["BillingPeriodEnd"] for row in december} == {"2027-01-01T00:00:00Z"}
    assert november + december == rows


def test_the_columns_are_those_of_focus(daemon: Daemon, capsys: Capture) -> None:
    """Mandatory columns are there, null where that is permitted; prices times quantities are costs."""
    daemon.cast.store.vms.stores_uses = True
    play(daemon)
    rows = rows_of(daemon, capsys)
    for column, permitted in MANDATORY.items():
        assert all(column in row and (permitted or row[column]) for row in rows), column
    for row in rows:
        cost = float(row["BilledCost"])
        assert {float(row[name]) for name in ("EffectiveCost", "ListCost", "ContractedCost")} == {cost}
        assert float(row["ListUnitPrice"]) * float(row["PricingQuantity"]) == pytest.approx(cost)
        price, category = {"vm": (0.24, "Standard"), "sp": (0.0731, "Dynamic"), "ge": (0.31, "Standard")}[
            row["ResourceId"][:2]
        ]
        assert float(row["ListUnitPrice"]) == pytest.approx(price)
        assert row["PricingCategory"] == category
        assert row["SkuPriceId"].endswith("/spot") == (category == "Dynamic")
    assert {row["x_Kind"] for row in rows} == {"used", "idle", "booting", "rounding"}
    of_bob = next(row for row in rows if "bob" in row["Tags"])
    assert json.loads(of_bob["Tags"])["queue"] == "=ml"
    assert of_bob["SubAccountId"] == "'=ml"  # no formula


def test_one_more_hour_is_one_more_hour(daemon: Daemon, capsys: Capture) -> None:
    """The quantities of a VM are the hours that it was charged for."""
    daemon.cast.store.vms.stores_uses = True
    play(daemon)
    hours = sum(
        float(row["PricingQuantity"]) for row in rows_of(daemon, capsys) if row["SkuId"].startswith("general")
    )
    assert hours == pytest.approx(30.0)


def test_old_charges_by_vm_and_job_are_forgotten(daemon: Daemon, capsys: Capture) -> None:
    """Their days still add up, without VM and job; so do the days of a daemon that stored no hours."""
    daemon.cast.store.vms.stores_uses = True
    play(daemon)
    whole = daemon.cast.store.vms.bill(AskedBill()).total.total
    assert daemon.cast.store.vms.forget_uses("2026-12-01") > 0
    rows = rows_of(daemon, capsys)
    assert sum(float(row["BilledCost"]) for row in rows) == pytest.approx(whole, abs=1e-6)
    assert {row["ChargePeriodStart"] for row in rows if row["ResourceId"]} == {"2026-12-01T00:00:00Z"}
    forgotten = "UPDATE charged_days SET hours = 0 WHERE day < '2026-12-01'"
    daemon.cast.store.database.write(lambda connection: connection.exec_driver_sql(forgotten).rowcount)
    old = rows_of(daemon, capsys, "--until", "2026-11-30")
    assert {(row["PricingQuantity"], row["PricingUnit"], row["ListUnitPrice"]) for row in old} == {
        ("", "", "")
    }


def test_no_part_of_the_bill_is_left_out(daemon: Daemon, capsys: Capture) -> None:
    """Options that would are refused; without charges there are titles only."""
    for option in (("--by", "job"), ("--limit", "5")):
        assert daemon.run("bill", "-o", "focus", *option) == 2
        assert f"{option[0]}: cannot be combined with -o focus" in capsys.readouterr().err
    assert rows_of(daemon, capsys) == []


def test_a_day_comes_in_pages_of_any_length(daemon: Daemon) -> None:
    """All rows once, and no answer has more by VM and job: a day may have a hundred thousand."""
    daemon.cast.store.vms.stores_uses = True
    play(daemon)
    for day in ("2026-11-29", "2026-11-30", "2026-12-01"):
        whole = daemon.cast.store.vms.charges_of(day, 1000)
        assert whole.next is None
        for limit in range(1, len(whole.found) + 2):
            pages, after = list[Any](), None
            while True:
                page = daemon.cast.store.vms.charges_of(day, limit, after)
                pages += page.found
                assert sum(bool(charge.vm) for charge in page.found) <= limit
                if (after := page.next) is None:
                    break
            assert pages == whole.found
