"""Logs out of sandboxes: folders on this machine, and the files API of an agent elsewhere."""

import json
import os
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from framework.asking import Credentials
from framework.executor_logs import read_local, read_remote
from framework.hostile_files import UntrustedFileError
from tests.framework.test_asking import answering

LOG = b"first line\nsecond line\n"


@pytest.fixture
def agent_url() -> Iterator[str]:
    """An agent that has one log, and is broken for the framework `broken`."""

    class Agent(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            query = {key: values[0] for key, values in parse_qs(urlsplit(self.path).query).items()}
            offset, length = int(query["offset"]), int(query["length"])
            part = LOG[offset : offset + length].decode()
            body, status = json.dumps({"data": part, "offset": offset}).encode(), 200
            if "/locked/" in query["path"] and self.headers["Authorization"] != "Basic bWU6aHVzaA==":
                status = 401
            elif query["path"] == "/frameworks/locked/executors/job-1.0/runs/latest/stdout":
                pass
            elif query["path"] == "/frameworks/broken/executors/job-1.0/runs/latest/stdout":
                body = b"no JSON"
            elif query["path"] == "/frameworks/F/executors/secret/runs/latest/stdout":
                status = 403
            elif query["path"] != "/frameworks/F/executors/job-1.0/runs/latest/stdout":
                status = 404
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Agent) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_the_latest_run_is_read(tmp_path: Path) -> None:
    """Of several runs of one executor the newest counts; what is not there is empty."""
    runs = tmp_path / "frameworks/F/executors/job-1.0/runs"
    for name, at in (("old", 1.0), ("new", 2.0)):
        (runs / name).mkdir(parents=True)
        (runs / name / "stdout").write_text(f"{name} run")
        os.utime(runs / name, (at, at))
    assert read_local(tmp_path, "F", "job-1.0", "stdout", 0, 100) == b"new run"
    assert read_local(tmp_path, "F", "job-1.0", "stdout", 4, 2) == b"ru"
    assert read_local(tmp_path, "F", "job-1.0", "stderr", 0, 100) == b""
    assert read_local(tmp_path, "F", "job-2.0", "stdout", 0, 100) == b""
    assert read_local(tmp_path, "F", "job-1.0", "stdout", 2**53 - 1, 100) == b""


def test_a_link_in_a_sandbox_leads_nowhere(tmp_path: Path) -> None:
    """An executor that puts a link where its log is shows nobody another file."""
    run = tmp_path / "frameworks/F/executors/job-1.0/runs/only"
    run.mkdir(parents=True)
    (tmp_path / "password").write_text("secret")
    (run / "stdout").symlink_to(tmp_path / "password")
    with pytest.raises(UntrustedFileError, match="link"):
        read_local(tmp_path, "F", "job-1.0", "stdout", 0, 100)


def test_an_agent_is_not_asked_for_what_no_file_has() -> None:
    """An offset near 2 ** 53 is the end of the log, whatever an agent would say to it."""
    assert read_remote("http://127.0.0.1:1", "F", "job-1.0", "stdout", 2**53 - 1, 10) == b""


def test_an_agent_is_asked_for_a_part(agent_url: str) -> None:
    """The agent's virtual path leads to the latest run; a log that is not there is empty."""
    assert read_remote(agent_url, "F", "job-1.0", "stdout", 6, 4) == b"line"
    assert read_remote(agent_url, "F", "job-2.0", "stdout", 0, 4) == b""


@pytest.mark.parametrize(("framework_id", "task_id"), [("broken", "job-1.0"), ("F", "secret")])
def test_an_agent_that_refuses_is_an_oserror(agent_url: str, framework_id: str, task_id: str) -> None:
    """Whatever is no answer of an agent is told as one kind of error, with its address."""
    with pytest.raises(OSError, match=agent_url):
        read_remote(agent_url, framework_id, task_id, "stdout", 0, 10)


def test_an_agent_that_is_gone_is_an_oserror() -> None:
    """Nobody listens there."""
    with pytest.raises(OSError, match="refused"):
        read_remote("http://127.0.0.1:1", "F", "job-1.0", "stdout", 0, 10)


def test_an_agent_that_wants_credentials_gets_them(agent_url: str) -> None:
    """Those of the framework; without them, what is missing is said."""
    us = Credentials("me", "hush")
    assert read_remote(agent_url, "locked", "job-1.0", "stdout", 6, 4, us) == b"line"
    with pytest.raises(OSError, match=r"401; it wants mesos\.principal and mesos\.secret_file$"):
        read_remote(agent_url, "locked", "job-1.0", "stdout", 6, 4)


def test_an_agent_without_end_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    """By size, by the time that all of it takes, and to what was asked for."""
    head = b"HTTP/1.1 200 OK\r\n\r\n"
    told = json.dumps({"data": "x" * 50, "offset": 0}).encode()
    with answering(head, told) as (url, _):
        assert read_remote(url, "F", "job-1.0", "stdout", 0, 10) == b"x" * 10
    with (
        answering(head, *[b"x" * 10_000] * 1000) as (url, _),
        pytest.raises(OSError, match="not answer as a Mesos agent"),
    ):
        read_remote(url, "F", "job-1.0", "stdout", 0, 10)
    monkeypatch.setattr("framework.executor_logs.PATIENCE", 0.3)
    with (
        answering(head, *[b"{"] * 10_000, pause=0.05) as (url, _),
        pytest.raises(OSError, match="not answer as a Mesos agent"),
    ):
        read_remote(url, "F", "job-1.0", "stdout", 0, 10_000)
