"""The audit log records user, request and answer, and no secret."""

import errno
import json
import os
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from daemon.auth.audit_log import BODY, NOBODY, WHO, Audit
from daemon.disk.event_log import EventLog
from daemon.http.app import create_app
from daemon.http.app_options import AppOptions
from daemon.store.job_store import Store
from tests.daemon.http.test_api import Api, submit
from tests.daemon.small_scheduler import SmallScheduler


class Log:
    """An audit log, and an API that writes it."""

    def __init__(self, path: Path, scheduler: SmallScheduler) -> None:
        self.path = path
        self.audit = Audit(path, size=1 << 20, earlier=2)
        self.app = create_app(
            scheduler, scheduler.store, AppOptions(token="t0ken", version="1", audit=self.audit)
        )
        self.api = Api(self.app, authorization="Bearer t0ken")

    def records(self) -> list[dict[str, Any]]:
        """All that was written; the log is closed."""
        self.audit.close()
        return [json.loads(line) for line in self.path.read_text().splitlines()]


@pytest.fixture
def scheduler(tmp_path: Path) -> Iterator[SmallScheduler]:
    """A scheduler."""
    store = Store(f"sqlite:///{tmp_path / 'stoker.db'}")
    yield SmallScheduler(store)
    store.close()


@pytest.fixture
def log(tmp_path: Path, scheduler: SmallScheduler) -> Iterator[Log]:
    """An audit log."""
    log = Log(tmp_path / "audit.jsonl", scheduler)
    yield log
    log.audit.close()


def test_what_changes_something_is_kept(log: Log) -> None:
    """Submissions, kills and policy changes are recorded with user, request and answer; reads are not."""
    submit(log.api, name="count", args=["--password", "s3cr3t"], env={"TOKEN": "s3cr3t"})
    log.api("GET", "/v1/jobs")
    log.api("DELETE", "/v1/jobs/job-1")
    log.api("PUT", "/v1/policy", json={"name": "rr"})
    log.api("PUT", "/v1/policy", json={"name": "nosuch"})
    records = log.records()
    assert [(r["method"], r["path"], r["status"], r["who"]) for r in records] == [
        ("POST", "/v1/jobs", 201, "token"),
        ("DELETE", "/v1/jobs/job-1", 202, "token"),
        ("PUT", "/v1/policy", 200, "token"),
        ("PUT", "/v1/policy", 422, "token"),
    ]
    assert records[0]["asked"] == {"app": "count.py", "name": "count"}
    assert records[0]["made"] == "/v1/jobs/job-1"
    assert records[2]["asked"] == {"name": "rr"}
    assert all(r["peer"].startswith("127.0.0.1 port ") and r["at"] > 1e9 for r in records)
    text = log.path.read_text()
    assert "s3cr3t" not in text
    assert "t0ken" not in text
    assert log.path.stat().st_mode & 0o777 == 0o600


def test_who_was_refused_is_kept(log: Log) -> None:
    """Requests without a token or with a wrong one are recorded, reads too; the token sent never is."""
    nobody, wrong = Api(log.app), Api(log.app, authorization="Bearer wr0ng")
    nobody("GET", "/v1/jobs")
    wrong("POST", "/v1/jobs", json={"app": "a.py"})
    log.api("POST", "/v1/jobs", json={"app": "a.py"}, headers={"origin": "http://evil.example"})
    records = log.records()
    assert [(r["method"], r["status"], r["who"]) for r in records] == [
        ("GET", 401, "nobody known"),
        ("POST", 401, "nobody known"),
        ("POST", 403, "nobody known"),
    ]
    assert "wr0ng" not in log.path.read_text()


def test_a_flood_of_refusals_pushes_nothing_out(log: Log) -> None:
    """Refusals beyond a limit are counted instead of recorded; changes are always recorded."""
    nobody = Api(log.app)
    for _ in range(100):
        nobody("GET", "/v1/jobs")
    submit(log.api)
    records = log.records()
    assert len(records) < 90
    assert records[-1]["status"] == 201


def test_a_flood_of_changes_that_a_user_may_not_make_pushes_nothing_out(log: Log) -> None:
    """A known user's refusals are counted, too, each user's apart; what was asked is recorded."""
    scope = {"method": "PUT", "path": "/v1/users/mallory", BODY: {"role": "admin"}}
    for who in ["rita"] * 200 + ["ben"]:
        log.audit.note({**scope, WHO: (who, "")}, 403, "")
    *ritas, last = log.records()
    assert 0 < len(ritas) < 90
    assert all(record["who"] == "rita" and record["asked"] == {"role": "admin"} for record in ritas)
    assert (last["who"], last["status"]) == ("ben", 403)


@pytest.mark.parametrize(
    ("who", "method", "path", "status"),
    [
        (NOBODY, "DELETE", "/v1/session", 204),
        (NOBODY, "PUT", "/v1/applications/x", 422),
        (NOBODY, "POST", "/v1/submissions/kill/driver-1", 404),
        (NOBODY, "POST", "/v1/nothing", 405),
        ("rita", "DELETE", "/v1/jobs/job-1", 404),
        ("rita", "POST", "/v1/jobs", 429),
    ],
)
def test_a_flood_of_requests_that_change_nothing_pushes_nothing_out(
    log: Log, who: str, method: str, path: str, status: int
) -> None:
    """However they are answered; a session that begins meanwhile is recorded."""
    for _ in range(500):
        log.audit.note({"method": method, "path": path, WHO: (who, "")}, status, "")
    log.audit.note({"method": "POST", "path": "/v1/session", WHO: (NOBODY, "")}, 201, "")
    *flood, last = log.records()
    assert 0 < len(flood) < 90
    assert (last["path"], last["status"]) == ("/v1/session", 201)


def test_it_is_bounded(tmp_path: Path, scheduler: SmallScheduler, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond its size another file is begun, and so many are kept."""
    monkeypatch.setattr("daemon.auth.audit_log._AT_ONCE", 1)
    audit = Audit(tmp_path / "audit.jsonl", size=2000, earlier=2)
    app = create_app(scheduler, scheduler.store, AppOptions(token="t0ken", version="1", audit=audit))
    api = Api(app, authorization="Bearer t0ken")
    for _ in range(80):
        submit(api)
    audit.close()
    files = sorted(path.name for path in tmp_path.glob("audit*"))
    assert files == ["audit.1.jsonl", "audit.2.jsonl", "audit.jsonl"]
    for path in tmp_path.glob("audit*"):
        assert path.stat().st_size < 2500
        assert path.stat().st_mode & 0o777 == 0o600
        assert all(json.loads(line)["status"] == 201 for line in path.read_text().splitlines())


def test_a_full_disk_stops_nothing_and_is_said(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a full disk requests are answered and /readyz names the error.

    Queued lines are written once there is room.
    """
    written = os.write

    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "write", full)
    assert submit(log.api).status_code == 201
    while not log.audit.trouble:
        pass
    ready = log.api("GET", "/readyz")
    assert ready.status_code == 200
    assert "No space left" in ready.json()["checks"]["audit"]
    monkeypatch.setattr(os, "write", written)
    assert submit(log.api).status_code == 201
    assert len(log.records()) == 2
    assert "audit" not in log.api("GET", "/readyz").json()["checks"]


def test_what_waits_is_written_to_the_last_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In order, several at once, also those that come before the end of the log is told."""
    monkeypatch.setattr("daemon.auth.audit_log._AT_ONCE", 7)
    audit = Audit(tmp_path / "audit.jsonl", size=1 << 20, earlier=1)
    for n in range(1000):
        audit.note({"method": "POST", "path": f"/{n}", WHO: ("ann", "")}, 201, "")
    audit.close()
    lines = (tmp_path / "audit.jsonl").read_text().splitlines()
    assert [json.loads(line)["path"] for line in lines] == [f"/{n}" for n in range(1000)]


def test_many_at_once_are_written_together(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a few writes, in order, to the last one."""
    writes: list[int] = []
    write = EventLog.write

    def counting(self: EventLog, lines: Sequence[str]) -> None:
        writes.append(len(lines))
        write(self, lines)

    monkeypatch.setattr(EventLog, "write", counting)
    for n in range(20):
        log.audit.note({"method": "POST", "path": f"/{n}"}, 201, "")
        time.sleep(0.001)
    assert [record["path"] for record in log.records()] == [f"/{n}" for n in range(20)]
    assert len(writes) <= 8


def test_what_is_changed_of_queues_is_kept_in_full(log: Log) -> None:
    """Changes of queues are recorded with names and numbers, bounded in length.

    So the log shows the user that raised a limit.
    """
    change = {"weight": 3, "most": {"cpus": 16, "memory": None}, "submit": ["ann", "bob"]}
    log.api("PATCH", "/v1/queues/prod", json=change)
    log.api("PUT", "/v1/queues/dev", json={"user_weights": {f"user-{n}": 2 for n in range(500)}})
    log.api("DELETE", "/v1/queues/dev")
    made, many, gone = log.records()
    asked = {"weight": 3, "most.cpus": 16, "most.memory": None, "submit": "ann, bob"}
    assert (made["path"], made["status"], made["asked"]) == ("/v1/queues/prod", 201, asked)
    assert len(many["asked"]) == 50
    assert (gone["method"], gone["status"], gone.get("asked")) == ("DELETE", 200, None)
