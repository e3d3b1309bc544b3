"""The doctor finds faults, names remedies and repairs; a healthy store has none."""

import contextlib
import os
import sqlite3
import stat
from pathlib import Path

import pytest

from conf.schema import Config
from conf.schema.users import UsersSection
from daemon.maintenance import host_checks
from daemon.maintenance.doctor import Doctor
from daemon.maintenance.doctor_report import DoctorReport
from daemon.maintenance.host_checks import look_at_sparks
from daemon.maintenance.user_checks import look_at_users
from daemon.store.job_store import Store
from daemon.store.rows.database import StoreBusyError, StoreError
from tests.daemon.store.rows.test_damaged_rows import flip, store
from tests.daemon.store.test_job_store import url_of
from tests.framework.spark.install.test_homes import homes, make_spark

__all__ = ["store"]


def examine(folder: Path, *, repair: bool = False) -> DoctorReport:
    """Run the doctor; return its report."""
    return Doctor(url_of(folder), folder, repair=repair).examine()


def found(report: DoctorReport) -> list[str]:
    """The checks that found something."""
    return sorted({finding.check for finding in report.findings})


def change(folder: Path, statement: str) -> None:
    """Change a store behind everybody's back."""
    with contextlib.closing(sqlite3.connect(folder / "stoker.db")) as sql:
        sql.execute(statement)
        sql.commit()


@pytest.fixture
def folder(store: Store, tmp_path: Path) -> Path:
    """A data folder with a store of three jobs and folders of two, that no daemon uses."""
    store.close()
    tmp_path.chmod(0o700)
    for name in ("job-1", "job-2"):
        (tmp_path / "jobs" / name).mkdir(parents=True)
    return tmp_path


def test_a_healthy_store_is_well(folder: Path) -> None:
    """Everything is looked at, nothing found, nothing changed."""
    before = (folder / "stoker.db").read_bytes()
    report = examine(folder)
    assert (report.findings, report.well) == ([], True)
    assert (report.looked_at["jobs"], report.looked_at["executors"], report.looked_at["folders"]) == (3, 3, 2)
    assert (folder / "stoker.db").read_bytes() == before


def test_sparks_that_are_not_what_their_names_say_are_found(tmp_path: Path) -> None:
    """So is a default that is not served."""
    home = make_spark(tmp_path / "spark", "3.4.4")
    report = DoctorReport()
    look_at_sparks(
        report, homes(default="4.0", versions={"3.5": {"home": str(home)}, "3.4": {"home": "/of/agents"}})
    )
    assert report.looked_at["Sparks"] == 2
    assert [finding.what for finding in report.findings] == [
        "the default, 4.0, is not available; available are 3.4, 3.5",
        f"spark.versions.3.5: {home} has Spark 3.4.4",
    ]


@pytest.mark.parametrize(
    ("table", "column", "where"),
    [
        ("jobs", "record", "number = 1"),
        ("jobs", "record", "number = 3"),
        ("jobs", "spec", "number = 3"),
        ("executors", "record", "task_id = 'job-2.1'"),
        ("explanations", "body", "number = 1"),
        ("comparisons", "body", "number = 2"),
    ],
)
def test_damaged_rows_are_found_and_put_aside(folder: Path, table: str, column: str, where: str) -> None:
    """Each is named; once it is put aside all is well, and every job is there."""
    flip(folder, table, column, where)
    report = examine(folder)
    assert found(report) == ["rows"]
    assert not report.well
    assert "--repair" in report.findings[0].advice
    assert examine(folder, repair=True).well
    if column != "spec":  # which nothing can make again
        assert examine(folder).findings == []
    with contextlib.closing(Store(url_of(folder))) as again:
        assert len(again.jobs.page()) == 3


@pytest.mark.parametrize(
    ("statement", "check"),
    [
        ("UPDATE jobs SET state = 'failed' WHERE number = 1", "columns"),
        ("UPDATE jobs SET finished_at = NULL WHERE number = 1", "columns"),
        ("UPDATE sums SET number = 7 WHERE name = 'jobs' AND state = 'queued'", "sums"),
        ("INSERT OR REPLACE INTO facts VALUES ('clock', '{\"boot\":')", "facts"),
        ("INSERT OR REPLACE INTO facts VALUES ('queues', '[]')", "facts"),
    ],
)
def test_what_follows_from_records_is_made_anew(folder: Path, statement: str, check: str) -> None:
    """Columns and sums."""
    change(folder, statement)
    assert found(examine(folder)) == [check]
    assert examine(folder, repair=True).well
    assert examine(folder).findings == []


@pytest.mark.parametrize(
    ("statement", "check"),
    [
        ("DELETE FROM jobs WHERE number = 2", "references"),
        ("INSERT OR REPLACE INTO facts VALUES ('term', 'x')", "terms"),
        ("UPDATE facts SET value = '999' WHERE key = 'schema'", "schema"),
        ("INSERT INTO charged_pools VALUES ('p', 'used', 0.5)", "bill"),
        ("UPDATE facts SET value = x'ff00' WHERE key = 'schema'", "schema"),
    ],
)
def test_what_nobody_can_mend_is_told(folder: Path, statement: str, check: str) -> None:
    """An irreparable fault is reported with a remedy."""
    change(folder, statement)
    report = examine(folder)
    assert check in found(report)
    assert not report.well
    assert all(finding.advice for finding in report.findings)


def test_folders_of_no_job_are_moved_away(folder: Path) -> None:
    """They are found, and kept."""
    change(folder, "DELETE FROM executors WHERE job = 1")
    change(folder, "DELETE FROM explanations")
    change(folder, "DELETE FROM comparisons")
    change(folder, "DELETE FROM jobs WHERE number = 1")
    (folder / "jobs" / "mine").mkdir()
    assert found(examine(folder)) == ["folders"]
    assert examine(folder, repair=True).well
    assert examine(folder).findings == []
    assert len(list((folder / "lost").iterdir())) == 2


@pytest.mark.parametrize("name", ["jobs", "records", "lost"])
def test_no_folder_is_moved_through_a_link(folder: Path, tmp_path: Path, name: str) -> None:
    """A stranger's data folder may have one, and so have others' files moved or its own put among them."""
    others = tmp_path / "others"
    (others / "evil").mkdir(parents=True)
    (folder / "jobs" / "evil").mkdir()
    if (place := folder / name).exists():
        place.rename(tmp_path / "before")
    place.symlink_to(others)
    with pytest.raises(StoreError, match=f"{name} cannot be mended"):
        examine(folder, repair=True)
    assert [each.name for each in others.iterdir()] == ["evil"]


def test_a_folder_that_others_may_only_pass_is_well(folder: Path) -> None:
    """The daemon opens its folder so far itself, where jobs run as another user."""
    folder.chmod(0o711)
    assert found(examine(folder)) == []


def test_rights_are_taken_back(folder: Path) -> None:
    """Files with secrets are made private again."""
    (folder / "stoker.db").chmod(0o644)
    folder.chmod(0o755)
    assert found(examine(folder)) == ["permissions"]
    assert examine(folder, repair=True).well
    assert stat.S_IMODE(folder.stat().st_mode) == 0o711  # jobs that run as another user still pass
    assert stat.S_IMODE((folder / "stoker.db").stat().st_mode) == 0o600


def test_an_event_log_that_does_not_replay_is_found(folder: Path) -> None:
    """The file and the line are named; a last line that is being written is none."""
    log = folder / "events.jsonl"
    log.touch(0o600)
    log.write_text('{"type":"Tick","at":1.0}\n{"type":"Ti')
    assert examine(folder).well
    log.write_text('{"type":"Tick","at":1.0}\nnonsense\n')
    (finding,) = examine(folder).findings
    assert f"{log}, line 2: " in finding.what


def test_an_event_log_that_never_ends_is_not_waited_for(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A FIFO without a writer, a line without an end, and one that is nested without end."""
    monkeypatch.setattr(host_checks, "_LONGEST_LINE", 1 << 20)
    os.mkfifo(folder / "events.jsonl", 0o600)
    (folder / "events-1.jsonl").touch(0o600)
    os.truncate(folder / "events-1.jsonl", 1 << 40)
    (folder / "events-2.jsonl").touch(0o600)
    (folder / "events-2.jsonl").write_text("[" * 100_000 + "\n")
    said = [finding.what.removeprefix(f"{folder}/") for finding in examine(folder).findings]
    assert said[0] == "events-1.jsonl cannot be read: line 1 has more than 1 MiB"
    assert said[1].startswith("events-2.jsonl, line 1: maximum recursion depth exceeded")
    assert said[2] == "events.jsonl cannot be read: not a regular file"


def test_a_file_that_is_no_store_is_told(folder: Path) -> None:
    """As is one that is not there; a note that is missing is written."""
    (folder / "stoker.db.made").unlink()
    assert found(examine(folder)) == ["file"]
    assert examine(folder, repair=True).well
    (folder / "stoker.db").write_bytes(b"")
    assert "is empty, but had been made" in examine(folder).findings[0].what
    (folder / "stoker.db").unlink()
    assert "stoker restore" in examine(folder).findings[0].advice


def test_a_store_that_runs_sql_of_its_author_is_not_looked_into(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A view in place of a table, here that of users, would be read without end."""
    endless = "WITH RECURSIVE n(id) AS (SELECT 1 UNION ALL SELECT id + 1 FROM n) SELECT id, '' record FROM n"
    change(folder, "DROP TABLE users")
    change(folder, f"CREATE VIEW users AS {endless}")
    (finding,) = examine(folder).findings
    assert "the view 'users', which runs SQL that is not Stoker's" in finding.what
    config = Config(users=UsersSection(), data_dir=str(folder))
    monkeypatch.setattr("daemon.maintenance.user_checks.USERS", None)  # its rows are not read
    report = DoctorReport()
    look_at_users(report, config, folder, url_of(folder))
    assert report.looked_at["users"] == 0


def test_nothing_is_mended_beside_a_daemon(folder: Path) -> None:
    """It may be looked at all the same."""
    with contextlib.closing(Store(url_of(folder))) as daemon:
        daemon.database.lock()
        assert examine(folder).well
        with pytest.raises(StoreBusyError):
            examine(folder, repair=True)


def test_nothing_is_mended_while_a_daemon_leads_by_a_lease(postgresql_url: str, tmp_path: Path) -> None:
    """No repair runs while a leader holds its lease, as with the lock on a file."""
    with contextlib.closing(Store(postgresql_url)) as leader:
        term = leader.terms.begin("http://leads", 300.0)
        with pytest.raises(StoreBusyError, match="a daemon works on the job store"):
            Doctor(postgresql_url, tmp_path, repair=True).examine()
        term.end()
        Doctor(postgresql_url, tmp_path, repair=True).examine()
