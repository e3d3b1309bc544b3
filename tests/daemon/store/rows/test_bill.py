"""Charges in the store: added once despite retries, and folded when old."""

import contextlib
import sqlite3
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import pytest
import sqlalchemy as sa

from conf.schema import JobSpec
from daemon.leadership.leader_session import LeaderSession
from daemon.store.job_store import Store
from daemon.store.rows import tables
from daemon.store.rows.bill import _TABLES, AskedBill, Bill, By, disagreements
from daemon.store.rows.database import StoreError
from environment.model.cluster_model import Changes
from environment.model.messages.records import JobRecord
from environment.model.messages.vm_accounts import Account, Charge, Kind
from tests.builders import make_job
from tests.daemon.store.record_store import STORES

ACCOUNT = Account("S1", "vm-1", "m1.large", 0.24, 100.0, 160.0, "S1")


@pytest.fixture(params=["sqlite", "postgresql"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    """A store in either database."""
    url = f"sqlite:///{tmp_path / 'stoker.db'}"
    if request.param == "postgresql":
        url = request.getfixturevalue("postgresql_url")
    with contextlib.closing(Store(url)) as made:
        yield made


def charge(
    dollars: float, day: str = "2026-11-22", job: str = "", kind: Kind = "idle", vm: str = "vm-1"
) -> Charge:
    """Of a fixed VM, to ann if it is a job's."""
    owner, queue = ("ann", "night") if job else ("", "")
    return Charge(day, vm, "", "m1.large", job, owner, queue, "ff", "used" if job else kind, dollars)


def save(store: Store, *charges: Charge, accounts: tuple[Account, ...] = ()) -> None:
    """Store charges and accounts."""
    store.changes.save(Changes((), (), charges=charges, accounts=accounts))


def lines(bill: Bill) -> dict[str, dict[str, float]]:
    """Dollars by key and kind."""
    return {line.key: dict(line.dollars) for line in bill.lines}


def test_what_queues_have_used_in_a_month_is_told(store: Store) -> None:
    """Usage of queues in a month is reported by day and user, without other months or idle charges."""
    save(store, charge(0.5), charge(0.25, job="job-1"), charge(0.5, job="job-2", vm="vm-2"))
    save(store, charge(1.0, "2026-11-21", "job-1"), charge(2.0, job="job-3")._replace(queue="day", owner=""))
    found = store.vms.spent_by_queue("2026-11")
    opened = charge(0.125, kind="booting")._replace(job="job-4", owner="ann", queue="night")
    save(store, opened, charge(8.0, kind="booting"), opened._replace(kind="difference"))
    found = store.vms.spent_by_queue("2026-11")
    today = [("2026-11-22", "day", "", 2.0), ("2026-11-22", "night", "ann", 0.875)]
    assert sorted(found) == [("2026-11-21", "night", "ann", 1.0), *today]
    assert store.vms.spent_by_queue("2026-12") == []


def test_charges_are_added_up_by_what_is_asked_for(store: Store) -> None:
    """Charges are summed by key and day; idle charges stand beside those of jobs."""
    save(store, charge(0.5), charge(0.25, job="job-1"), charge(1.0, "2026-11-23", "job-1", vm="vm-2"))
    save(store, charge(0.5), charge(0.125, kind="difference"))
    assert lines(store.vms.bill(AskedBill("job"))) == {
        "job-1": {"used": 1.25},
        "": {"idle": 1.0, "difference": 0.125},
    }
    assert lines(store.vms.bill(AskedBill("vm", until="2026-11-22"))) == {
        "vm-1": {"used": 0.25, "idle": 1.0, "difference": 0.125}
    }
    assert lines(store.vms.bill(AskedBill("policy"))) == {
        "ff": {"used": 1.25},
        "": {"idle": 1.0, "difference": 0.125},
    }
    whole = store.vms.bill(AskedBill("day"))
    assert [(line.key, line.total) for line in whole.lines] == [("2026-11-22", 1.25), ("2026-11-23", 1.0)]
    assert (whole.total.total, whole.days) == (2.25, ("2026-11-22", "2026-11-23"))
    by: By
    for by, key in (("owner", "ann"), ("queue", "night"), ("policy", "ff"), ("type", "m1.large")):
        assert key in lines(store.vms.bill(AskedBill(by)))
    assert store.vms.bill(AskedBill("pool", since="2026-11-23")).total.total == 1.0
    assert sum(dollars for day, _, dollars in store.vms.spent("2026-11") if day == "2026-11-22") == 1.25
    assert store.vms.bill_by_pool() == {("used", ""): 1.25, ("idle", ""): 1.0, ("difference", ""): 0.125}


def test_what_is_beyond_the_limit_is_told_in_sum(store: Store) -> None:
    """The dearest are told one by one."""
    save(store, *(charge(float(number), job=f"job-{number}") for number in range(1, 5)))
    bill = store.vms.bill(AskedBill("job", limit=2))
    assert list(lines(bill)) == ["job-4", "job-3"]
    assert bill.rest is not None
    assert (bill.rest.total, bill.total.total) == (3.0, 10.0)


def test_a_bill_of_many_jobs_is_not_read_into_memory(store: Store) -> None:
    """The store picks the lines that are asked for, as anybody with a token may ask for them at any time."""
    save(store, *(charge(1.0 + number, job=f"job-{number}") for number in range(3000)))
    tracemalloc.start()
    try:
        bill = store.vms.bill(AskedBill("job", limit=2))
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert [line.key for line in bill.lines] == ["job-2999", "job-2998"]
    assert bill.rest is not None
    assert bill.rest.total == pytest.approx(bill.total.total - 3000 - 2999)
    assert most < 300_000


def test_accounts_are_kept_until_they_are_closed(store: Store) -> None:
    """An account is stored in the transaction of its charges until it is closed."""
    save(store, charge(0.5), accounts=(ACCOUNT,))
    assert store.vms.accounts() == [ACCOUNT]
    closed = Account("S1", "vm-1", "m1.large", 0.24, 100.0, 170.0, "S1", closed=True)
    save(store, charge(0.5), accounts=(closed,))
    assert store.vms.accounts() == []


def test_a_commit_of_which_nobody_heard_is_not_added_again(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The connection went when all was kept: the same is saved again, and is there once."""
    tenure, save_once, calls = LeaderSession(store.terms.begin(""), store), store.changes.save, []

    def unlucky(*given: Any) -> None:
        save_once(*given)
        calls.append(given)
        if len(calls) == 1:
            raise StoreError("the connection is gone")

    monkeypatch.setattr(store.changes, "save", unlucky)
    monkeypatch.setattr("daemon.leadership.leader_session._SAVE_AGAIN", 0.0)
    for _ in range(2):
        assert tenure.save(Changes((), (), charges=(charge(0.5),)), (), {})
    assert len(calls) == 3
    assert store.vms.spent("2026-11") == [("2026-11-22", "", 1.0)]


def test_a_job_that_is_pruned_leaves_what_it_used(store: Store) -> None:
    """By owner and queue, not by job."""
    record, _ = store.jobs.new.add_one(JobSpec(app="a.py"), lambda job_id: make_job(job_id), None, 5.0)
    over = JobRecord(record.job, state="finished", finished_at=6.0)
    save(store, charge(0.25, job="job-1"), charge(0.5, job="job-2"), charge(1.0))
    store.changes.save(Changes((over,), ()))
    assert store.jobs.ended.prune(["job-1"]) == 1
    assert lines(store.vms.bill(AskedBill("job"))) == {
        "": {"used": 0.25, "idle": 1.0},
        "job-2": {"used": 0.5},
    }
    assert lines(store.vms.bill(AskedBill("owner")))["ann"] == {"used": 0.75}


def test_old_days_are_kept_without_vms_and_jobs(store: Store) -> None:
    """So that there is an end to their number; nothing of the sums is lost, and later charges join them."""
    days = [charge(0.1, f"2026-01-{day:02}", f"job-{n}", vm=f"vm-{n}") for day in (1, 2) for n in range(50)]
    save(store, *days)
    assert store.vms.forget_details("2026-01-02") == 100
    assert store.vms.forget_details("2026-01-02") == 0
    save(store, charge(0.1, "2026-01-01", "job-7", vm="vm-7"))
    assert store.vms.forget_details("2026-01-02") == 2
    bill = store.vms.bill(AskedBill("day"))
    assert [line.total for line in bill.lines] == pytest.approx([5.1, 5.0])
    assert len(store.vms.bill(AskedBill("vm")).lines) == 51
    assert lines(store.vms.bill(AskedBill("owner"))) == {"ann": {"used": pytest.approx(10.1)}}


def test_a_damaged_account_is_put_aside(tmp_path: Path) -> None:
    """Its VM is paid for again from when it is seen."""
    url = f"sqlite:///{tmp_path / 'stoker.db'}"
    with contextlib.closing(Store(url)) as store:
        save(store, accounts=(ACCOUNT,))
    engine = sa.create_engine(url)
    with engine.begin() as connection:
        connection.execute(sa.update(tables.accounts).values(record="{}"))
    engine.dispose()
    with contextlib.closing(Store(url)) as store:
        assert store.vms.accounts() == []
        assert [damage.table for damage in store.jobs.open.take_up(7.0).damages] == ["accounts"]
        assert store.jobs.open.take_up(7.0).damages == ()


def test_a_bill_is_the_same_after_sums_were_parted(tmp_path: Path) -> None:
    """By everything that can be asked for: an earlier version had a sum for each job on each VM."""
    path = tmp_path / "stoker.db"
    with contextlib.closing(sqlite3.connect(path)) as sql:
        sql.executescript((STORES / "963345f.sql").read_text())
        names = [column for _, column, *_ in sql.execute("PRAGMA table_info(charges)")]
        rows = [dict(zip(names, row, strict=True)) for row in sql.execute("SELECT * FROM charges")]
    path.chmod(0o600)
    assert len({row["job"] for row in rows}) > 2
    with contextlib.closing(Store(f"sqlite:///{path}")) as store:
        for by in get_args(By):
            expected: dict[tuple[str, str], float] = {}
            for row in rows:
                policys = by != "policy" or row["kind"] in ("used", "lost")
                key = (row.get(by, "") if policys else "", row["kind"])  # nobody knew of groups
                expected[key] = expected.get(key, 0.0) + row["dollars"]
            found = {
                (line.key, kind): paid
                for line in store.vms.bill(AskedBill(by)).lines
                for kind, paid in line.dollars.items()
            }
            assert found == pytest.approx(expected)
        assert sum(store.vms.bill_by_pool().values()) == pytest.approx(sum(row["dollars"] for row in rows))


def test_what_is_asked_again_and_again_is_short(store: Store) -> None:
    """However many jobs ran on however many VMs, on however many days."""
    days = [f"2026-11-{day}" for day in (21, 22)]
    save(store, *(charge(0.5, day, f"job-{n}", vm=f"vm-{n % 7}") for day in days for n in range(100)))
    with store.database.read() as connection:
        found = {
            table.name: connection.scalar(sa.select(sa.func.count()).select_from(table)) for table in _TABLES
        }
    counts = {"charged_days": 2, "charged_groups": 2, "charged_pools": 1}
    assert found == {**counts, "charged_jobs": 200, "charged_vms": 14}
    assert store.vms.bill_by_pool() == {("used", ""): 100.0}


@pytest.mark.parametrize("table", _TABLES, ids=lambda table: table.name)
def test_dollars_that_a_disk_has_changed_are_told(store: Store, table: sa.Table) -> None:
    """Each table has all dollars: they have no checksum, but one that was changed differs from the others."""
    kinds: tuple[Kind, ...] = ("used", "idle", "covered")
    for n in range(30):
        save(store, Charge(f"2026-11-{1 + n % 9:02d}", f"vm-{n % 4}", "p", "m", f"job-{n}", "u", "q", "ff",
                           kinds[n % 3], 0.1 + n / 7, "g"))  # fmt: skip
    store.vms.forget_details("2026-11-05")
    with store.database.read() as connection:
        assert disagreements(connection) == []
    change = sa.update(table).where(table.c.kind == "used").values(dollars=table.c.dollars * 2)
    store.database.write(lambda connection: connection.execute(change))
    with store.database.read() as connection:
        (first, *_) = disagreements(connection)
    assert first.startswith("used of ")
    assert table.name in first
