"""Reports on the daemon's own ended jobs: owners, period, length, and size."""

import os
import re
import resource
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from audit.costs import costs_of
from audit.prices import load_prices
from conf.schema import JobSpec
from daemon.core.cluster_status import VmStatus
from daemon.core.errors import RejectedError
from daemon.maintenance import job_audits
from daemon.maintenance.job_audits import JobAudits
from daemon.store.job_store import Store
from environment.model.cluster_model import Changes
from environment.model.messages.records import JobRecord
from environment.resources import Resources
from environment.types import Job
from profiles.executor_attributes import ExecutorAttributes
from tests.audit.made_logs import BEGAN, ETL, added, app_end, app_start, read, text_of, written
from tests.daemon.auth.user_api import house_of

HOUR = 3600.0
VMS = (VmStatus("S1", "vm-1", "m1.large", "10.0.0.1", 4.0, 16384, 0.24, 0.0, 0, ()),)
#: Of the process that makes a report.
Command = Sequence[str]


def ended_job(store: Store, folder: Path, owner: str, hours_ago: float, name: str = "") -> str:
    """A job of this owner that ended so long ago, and left the log of an application of that name."""
    at = time.time() - hours_ago * HOUR
    spec = JobSpec(app="/a.py", type="etl", owner=owner)
    size = Resources.of(1.0, 1024)
    record, _ = store.jobs.new.add_one(
        spec, lambda job_id: Job(job_id, "etl", size, 2, at - 60, owner=owner), None, at - 60
    )
    job = record.job
    done = JobRecord(job, "finished", "its driver exited with code 0", at - 50, at - 40, at, 0, 2)
    store.changes.save(Changes((done,), ()), (), {})
    if name:
        log = text_of(ETL).replace('"App Name":"etl"', f'"App Name":"{name}"').replace("app-1", job.id)
        written_at = folder / "jobs" / job.id / "driver" / "events"
        written_at.mkdir(parents=True)
        (written_at / f"app-{job.id}").write_text(log)
    return job.id


@pytest.fixture
def asked(store: Store, tmp_path: Path) -> JobAudits:
    """Of a store with jobs of ann and bob: of today, of this week, of this month, and long ago."""
    for owner in ("ann", "bob"):
        for name, hours in (("hourly", 1), ("daily", 30), ("weekly", 200), ("yearly", 2000)):
            ended_job(store, tmp_path, owner, hours, f"{owner}s-{name}")
    ended_job(store, tmp_path, "ann", 2)
    return JobAudits(store, tmp_path)


@pytest.fixture
def commands(monkeypatch: pytest.MonkeyPatch) -> list[Command]:
    """Instead of running it, each command is noted; the report is the names of the logs."""
    noted: list[Command] = []

    def run(command: Command, scratch: str) -> None:
        noted.append(command)
        html = Path(command[command.index("--html") + 1])
        logs = Path(command[command.index("audit") + 1])
        prices = Path(command[command.index("--prices") + 1]).read_text()
        read = " ".join(path.read_text() for path in logs.rglob("app-*"))
        html.write_text(" ".join(sorted(re.findall('"App Name":"([^"]*)"', read))) + prices)

    monkeypatch.setattr(job_audits, "_run", run)
    return noted


def names(report: str) -> set[str]:
    """Names of applications in the report."""
    return set(re.findall(r"\b(?:ann|bob)s-\w+", report))


@pytest.mark.slow
def test_a_report_is_that_of_the_command(asked: JobAudits) -> None:
    """It has the pictures and the prices of the VMs; without archives, which a job could have written."""
    html = asked.report("day", (), "", VMS)
    assert html.startswith("<!doctype html>")
    assert "<svg" in html
    assert {"anns-hourly", "bobs-hourly"} == names(html)
    assert "Prices: this daemon&#39;s VMs. In the report: 2 of 3 jobs that ended in the last day; " in html


def test_a_report_is_on_the_jobs_of_a_time_and_of_owners(asked: JobAudits, commands: list[Command]) -> None:
    """A user sees their own jobs; the price list has the VMs' prices, and one for VMs that are gone."""
    assert names(asked.report("day", (), "", VMS)) == {"anns-hourly", "bobs-hourly"}
    assert names(asked.report("week", ("ann",), "ann", VMS)) == {"anns-hourly", "anns-daily"}
    month = asked.report("month", ("bob",), "bob", VMS)
    assert names(month) == {"bobs-hourly", "bobs-daily", "bobs-weekly"}
    assert '"m1.large": {"cpus": 4.0, "memory": 16384, "price_per_hour": 0.24' in month
    assert '"per_core_hour": 0.06' in month
    with pytest.raises(RejectedError, match="of 0 jobs that ended in the last month, none has an event log"):
        asked.report("month", ("cleo",), "cleo", VMS)
    assert len(commands) == 3


@pytest.mark.parametrize("turned", [False, True])
def test_spot_vms_of_the_same_type(
    turned: bool, store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each job pays what its own VM cost, as in the bill; logs without prices pay the highest, as told."""
    found: list[tuple[float, str]] = []

    def run(command: Command, scratch: str) -> None:
        prices = load_prices(command[command.index("--prices") + 1])
        read_logs = [read(path) for path in Path(command[command.index("audit") + 1]).rglob("app-*")]
        found.append((costs_of(read_logs, prices).total.total, prices.table.source))
        Path(command[command.index("--html") + 1]).write_text("")

    monkeypatch.setattr(job_audits, "_run", run)
    prices = (24.0, 8.0)
    vms = [replace(VMS[0], name=f"vm-{price}", price_per_hour=price) for price in prices]
    vms = vms[::-1] if turned else vms
    logs = [(ended_job(store, tmp_path, "ann", 1), price) for price in prices]
    for known in (True, False):
        for job_id, price in logs:
            told = ExecutorAttributes(BEGAN + 2, "m1.large", 0.5, price if known else None).variables
            attributes = {name.removeprefix("SPARK_EXECUTOR_ATTRIBUTE_"): told[name] for name in told}
            log = [app_start(job_id, app=job_id), added("1", 8, info={"Attributes": attributes}), app_end(62)]
            written(tmp_path / "jobs" / job_id / "driver" / "events", log, f"app-{job_id}")
        JobAudits(store, tmp_path).report("day", (), "", vms)
    (paid, _), (without, said) = found
    assert paid == pytest.approx((24 + 8) / 2 * 60 / HOUR, rel=0.01)
    assert without == pytest.approx((24 + 24) / 2 * 60 / HOUR, rel=0.01)
    assert "without one, on m1.large, the highest" in said


def test_a_report_is_kept_for_a_while(
    asked: JobAudits, commands: list[Command], monkeypatch: pytest.MonkeyPatch
) -> None:
    """For those who may see the same jobs; old ones go when there are many, or after minutes."""
    first = asked.report("day", (), "oper", VMS)
    assert asked.report("day", (), "admin", VMS) is first
    assert names(asked.report("day", ("ann",), "ann", VMS)) == {"anns-hourly"}
    assert len(commands) == 2
    monkeypatch.setattr(job_audits, "_KEPT", 1)
    asked.report("week", (), "oper", VMS)
    asked.report("day", (), "oper", VMS)
    assert len(commands) == 4
    monkeypatch.setattr(job_audits, "_FRESH", 0.0)
    asked.report("day", (), "oper", VMS)
    assert len(commands) == 5


def test_the_last_jobs_of_too_many(
    asked: JobAudits, commands: list[Command], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The report says how many there were; logs that are too large together are left out."""
    monkeypatch.setattr(job_audits, "_MOST_JOBS", 3)
    month = asked.report("month", (), "", VMS)
    assert names(month) == {"anns-hourly", "bobs-hourly"}
    assert "In the report: 2 of 7 jobs that ended in the last month; the others" in month
    monkeypatch.setattr(job_audits, "_MOST_BYTES", 10)
    with pytest.raises(RejectedError, match="of 5 jobs that ended in the last week, none has an event log"):
        asked.report("week", (), "", VMS)
    assert len(commands) == 1


def test_archives_are_not_unpacked(asked: JobAudits, commands: list[Command], tmp_path: Path) -> None:
    """A job could write one that holds more than the disk has."""
    written(tmp_path / "jobs" / "job-1" / "driver" / "events", ETL, "bomb.tar.gz")
    asked.report("day", (), "", VMS)
    assert "bomb.tar.gz" not in str(commands)
    assert not any(name.endswith(".gz") for log in asked._logs("job-1") for name in log.files)


def test_without_vms_there_are_no_prices(asked: JobAudits, commands: list[Command]) -> None:
    """The error says so, and that a moment later there may be some."""
    with pytest.raises(RejectedError, match="no VM is known") as found:
        asked.report("day", (), "", ())
    assert (found.value.status, found.value.headers, commands) == (503, {"Retry-After": "60"}, [])


def children() -> set[int]:
    """Pids of this process's children."""
    return {int(pid) for pid in Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()}


@pytest.fixture
def no_more_processes() -> Iterator[None]:
    """Nothing that was started goes on."""
    before = children()
    yield
    assert children() <= before


@pytest.mark.usefixtures("no_more_processes")
def test_a_report_that_takes_too_long(asked: JobAudits, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its process and what that started are ended; the error names another way."""
    monkeypatch.setattr(job_audits, "_SECONDS", 0.1)
    with pytest.raises(RejectedError, match=r"more than 0\.1 s: ask for a shorter period") as found:
        asked.report("day", (), "", VMS)
    assert found.value.status == 503


@pytest.mark.slow
@pytest.mark.usefixtures("no_more_processes")
@pytest.mark.parametrize(
    ("limits", "log", "status", "message"),
    [
        ((), "nonsense\n", 404, "none of 1 file is an event log of Spark"),
        (((resource.RLIMIT_CPU, 0),), None, 503, "the process was ended"),
    ],
)
def test_a_report_that_fails(
    limits: Any,
    log: str | None,
    status: int,
    message: str,
    store: Store,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """For logs that are none, or a process beyond its limits: the error says why, without folders of ours."""
    job_id = ended_job(store, tmp_path, "ann", 1, "etl")
    if log is not None:
        (tmp_path / "jobs" / job_id / "driver" / "events" / f"app-{job_id}").write_text(log)
    monkeypatch.setattr(job_audits, "_LIMITS", limits)
    with pytest.raises(RejectedError, match=message) as found:
        JobAudits(store, tmp_path).report("day", (), "", VMS)
    assert found.value.status == status
    assert "/tmp" not in found.value.detail


@pytest.mark.usefixtures("asked", "commands")
def test_each_user_is_shown_what_they_may_see(store: Store, tmp_path: Path) -> None:
    """Users their own jobs, operators all; where users see all, also users. Bad periods are named."""
    everybody = {"anns-hourly", "bobs-hourly"}
    with house_of(store, data_dir=tmp_path) as house:
        assert names(house("ann", "GET", "/v1/audit?period=day").text) == {"anns-hourly"}
        assert names(house("bob", "GET", "/v1/audit?period=day").text) == {"bobs-hourly"}
        answer = house("oper", "GET", "/v1/audit?period=day")
        assert names(answer.text) == everybody
        assert answer.headers["content-type"] == "text/html; charset=utf-8"
        assert "sandbox" in answer.headers["content-security-policy"]
        assert answer.headers["cache-control"] == "no-store"
        nothing = house("reader", "GET", "/v1/audit")
        assert (nothing.status_code, nothing.json()["title"]) == (404, "Nothing to audit")
        wrong = house("ann", "GET", "/v1/audit?period=year")
        assert wrong.status_code == 422
        assert wrong.headers["content-type"] == "application/problem+json"
        assert "period" in wrong.text
        assert house("nobody", "GET", "/v1/audit").status_code == 401
    with house_of(store, see="all", data_dir=tmp_path) as house:
        assert names(house("ann", "GET", "/v1/audit?period=day").text) == everybody
