"""Logs out of sandboxes: folders on this machine, and the files API of an agent elsewhere."""

import json
import os
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from framework.host import untrusted_files
from framework.host.untrusted_files import MOST_LISTED, UntrustedFileError
from framework.mesos.bounded_http import Credentials
from framework.mesos.sandboxes import RemoteSandbox, local_sandbox
from framework.substrate import Sandbox, read_end
from tests.framework.mesos.test_bounded_http import answering

LOG = b"first line\nsecond line\n"
TOP = "/frameworks/F/executors/job-1.0/runs/latest/"
#: What the agent lists, and what of it can be had.
FILES = {
    f"{TOP}events": [("d", "eventlog_v2_app-1"), ("-", "app-0"), ("l", "link"), ("-", "a/../..")],
    f"{TOP}events/eventlog_v2_app-1": [("-", "events_1_app-1.zstd"), ("d", "deeper")],
}


@pytest.fixture
def agent_url() -> Iterator[str]:
    """An agent that has one log, and is broken for the framework `broken`."""

    class Agent(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            query = {key: values[0] for key, values in parse_qs(urlsplit(self.path).query).items()}
            body, status = self.answer(urlsplit(self.path).path, query["path"], query)
            if "/locked/" in query["path"] and self.headers["Authorization"] != "Basic bWU6aHVzaA==":
                status = 401
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def answer(self, what: str, path: str, query: dict[str, str]) -> tuple[bytes, int]:
            if what == "/files/browse":
                entries = [
                    {"mode": f"{kind}rw-r--r--", "path": f"{path}/{n}"} for kind, n in FILES.get(path, ())
                ]
                return json.dumps(entries).encode(), 200 if entries else 404
            if what == "/files/download":
                return bytes(range(256)) * 1000, 200
            if path == "/frameworks/broken/executors/job-1.0/runs/latest/stdout":
                return b"no JSON", 200
            if path == "/frameworks/F/executors/secret/runs/latest/stdout":
                return b"", 403
            if not path.endswith("/executors/job-1.0/runs/latest/stdout"):
                return b"", 404
            offset, length = int(query["offset"]), int(query.get("length", 0))
            part = LOG[offset : offset + length].decode() if offset >= 0 else ""
            return json.dumps({"data": part, "offset": offset if offset >= 0 else len(LOG)}).encode(), 200

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Agent) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_the_latest_run_is_read(tmp_path: Path) -> None:
    """Of several runs of one executor the newest counts; a log may not be there."""
    runs = tmp_path / "frameworks/F/executors/job-1.0/runs"
    for name, at in (("old", 1.0), ("new", 2.0)):
        (runs / name).mkdir(parents=True)
        (runs / name / "stdout").write_text(f"{name} run")
        os.utime(runs / name, (at, at))
    assert local_sandbox(tmp_path, "F", "job-1.0").read("stdout", 0, 100) == b"new run"
    assert local_sandbox(tmp_path, "F", "job-1.0").read("stdout", 4, 2) == b"ru"
    assert local_sandbox(tmp_path, "F", "job-1.0").size("stdout") == 7
    for task, stream in (("job-1.0", "stderr"), ("job-2.0", "stdout")):
        with pytest.raises(FileNotFoundError):
            local_sandbox(tmp_path, "F", task).read(stream, 0, 100)
    assert local_sandbox(tmp_path, "F", "job-1.0").read("stdout", 2**53 - 1, 100) == b""


def test_a_link_in_a_sandbox_leads_nowhere(tmp_path: Path) -> None:
    """An executor that puts a link where its log is shows nobody another file."""
    run = tmp_path / "frameworks/F/executors/job-1.0/runs/only"
    run.mkdir(parents=True)
    (tmp_path / "password").write_text("secret")
    (run / "stdout").symlink_to(tmp_path / "password")
    with pytest.raises(UntrustedFileError, match="link"):
        local_sandbox(tmp_path, "F", "job-1.0").read("stdout", 0, 100)


def test_an_agent_is_not_asked_for_what_no_file_has() -> None:
    """An offset near 2 ** 53 is the end of the log, without asking the agent."""
    assert RemoteSandbox("http://127.0.0.1:1", "F", "job-1.0").read("stdout", 2**53 - 1, 10) == b""


def test_an_agent_is_asked_for_a_part(agent_url: str) -> None:
    """The agent's virtual path leads to the latest run; a log may not be there."""
    assert RemoteSandbox(agent_url, "F", "job-1.0").read("stdout", 6, 4) == b"line"
    with pytest.raises(FileNotFoundError):
        RemoteSandbox(agent_url, "F", "job-2.0").read("stdout", 0, 4)


@pytest.mark.parametrize(("framework_id", "task_id"), [("broken", "job-1.0"), ("F", "secret")])
def test_an_agent_that_refuses_is_an_oserror(agent_url: str, framework_id: str, task_id: str) -> None:
    """Anything but an agent's answer raises one kind of error, with the agent's address."""
    with pytest.raises(OSError, match=agent_url):
        RemoteSandbox(agent_url, framework_id, task_id).read("stdout", 0, 10)


def test_an_agent_that_is_gone_is_an_oserror() -> None:
    """Nobody listens there."""
    with pytest.raises(OSError, match="refused"):
        RemoteSandbox("http://127.0.0.1:1", "F", "job-1.0").read("stdout", 0, 10)


def test_an_agent_that_wants_credentials_gets_them(agent_url: str) -> None:
    """Those of the framework; without them, the error names the missing ones."""
    us = Credentials("me", "hush")
    assert RemoteSandbox(agent_url, "locked", "job-1.0", us).read("stdout", 6, 4) == b"line"
    with pytest.raises(OSError, match=r"401; it requires mesos\.principal and mesos\.secret_file$"):
        RemoteSandbox(agent_url, "locked", "job-1.0").read("stdout", 6, 4)


def test_an_agent_without_end_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    """Size, total time and the requested part limit the answer."""
    head = b"HTTP/1.1 200 OK\r\n\r\n"
    told = json.dumps({"data": "x" * 50, "offset": 0}).encode()
    with answering(head, told) as (url, _):
        assert RemoteSandbox(url, "F", "job-1.0").read("stdout", 0, 10) == b"x" * 10
    with (
        answering(head, *[b"x" * 10_000] * 1000) as (url, _),
        pytest.raises(OSError, match="not answer as a Mesos agent"),
    ):
        RemoteSandbox(url, "F", "job-1.0").read("stdout", 0, 10)
    monkeypatch.setattr("framework.mesos.sandboxes.PATIENCE", 0.3)
    with (
        answering(head, *[b"{"] * 10_000, pause=0.05) as (url, _),
        pytest.raises(TimeoutError, match="not answered in full"),
    ):
        RemoteSandbox(url, "F", "job-1.0").read("stdout", 0, 10_000)


def test_the_end_of_a_log_is_read(agent_url: str, tmp_path: Path) -> None:
    """Near and far: its last bytes, and where they begin."""
    run = tmp_path / "frameworks/F/executors/job-1.0/runs/only"
    run.mkdir(parents=True)
    (run / "stdout").write_bytes(LOG)
    for sandbox in (RemoteSandbox(agent_url, "F", "job-1.0"), local_sandbox(tmp_path, "F", "job-1.0")):
        assert read_end(sandbox, "stdout", 5) == (len(LOG) - 5, b"line\n")
        assert read_end(sandbox, "stdout", 500) == (0, LOG)


def test_files_are_listed_and_copied(agent_url: str, tmp_path: Path) -> None:
    """Near and far: regular files of a folder and those in it, bytes as they are, and no more than asked."""
    run = tmp_path / "frameworks/F/executors/job-1.0/runs/only"
    (run / "events/eventlog_v2_app-1/deeper").mkdir(parents=True)
    (run / "events/link").symlink_to("/etc/passwd")
    os.mkfifo(run / "events/pipe")
    for name in ("app-0", "eventlog_v2_app-1/events_1_app-1.zstd", "eventlog_v2_app-1/deeper/x"):
        (run / "events" / name).write_bytes(bytes(range(256)) * 1000)
    far: Sandbox = RemoteSandbox(agent_url, "F", "job-1.0")
    for number, sandbox in enumerate((far, local_sandbox(tmp_path, "F", "job-1.0"))):
        names = sandbox.files("events")
        assert {"events/app-0", "events/eventlog_v2_app-1/events_1_app-1.zstd"} <= set(names)
        assert all(".." not in Path(name).parts and "deeper" not in name for name in names), names
        assert not {"events/link", "events/pipe"} & set(names)
        with (tmp_path / f"copy-{number}").open("wb") as file:
            assert sandbox.copy(names[0], file.fileno(), 300) == 300
        assert (tmp_path / f"copy-{number}").read_bytes() == (bytes(range(256)) * 2)[:300]
        with pytest.raises(FileNotFoundError):
            sandbox.files("nowhere")


@pytest.mark.parametrize("name", ["..", ".", ""])
def test_an_agent_leads_out_of_no_folder(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither by a file with such a name nor by a folder."""

    def browse(url: str, *_: object, **__: object) -> list[dict[str, str]]:
        kind = "d" if url.endswith("events") else "-"
        return [{"mode": f"{kind}rwxr-xr-x", "path": f"x/{each}"} for each in (name, "app")]

    monkeypatch.setattr("framework.mesos.sandboxes.read_json", browse)
    assert RemoteSandbox("http://agent", "F", "job-1.0").files("events") == ["events/app/app"]


def test_a_folder_without_end_is_listed_in_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Near and far: a task can make millions of files and folders: all are neither listed nor entered."""
    run = tmp_path / "frameworks/F/executors/job-1.0/runs/only"
    for n in range(600):
        (run / f"events/d{n}").mkdir(parents=True)
    asked = []

    def browse(url: str, *_: object, **__: object) -> list[dict[str, str]]:
        asked.append(url)
        kind = "d" if url.endswith("events") else "-"
        return [{"mode": f"{kind}rwxr-xr-x", "path": f"{TOP}events/{n}"} for n in range(600)]

    monkeypatch.setattr("framework.mesos.sandboxes.read_json", browse)
    assert len(RemoteSandbox("http://agent", "F", "job-1.0").files("events")) == MOST_LISTED
    assert len(asked) == 2
    monkeypatch.setattr("framework.mesos.sandboxes.read_json", lambda *_, **__: browse("events"))
    assert RemoteSandbox("http://agent", "F", "job-1.0").files("events") == []
    assert len(asked) == 2 + 1 + MOST_LISTED
    entered, enter = [], untrusted_files._open

    def noted(part: str, flags: int, at: int, name: str) -> int:
        entered.append(part)
        return enter(part, flags, at, name)

    monkeypatch.setattr(untrusted_files, "_open", noted)
    assert local_sandbox(tmp_path, "F", "job-1.0").files("events") == []
    assert len([part for part in entered if part.startswith("d")]) == MOST_LISTED


@pytest.mark.parametrize("name", ["stdout", "events/app-0"])
def test_what_a_task_put_in_place_of_a_file_is_not_copied(tmp_path: Path, name: str) -> None:
    """Neither a link nor a pipe, nor a file behind a linked folder."""
    run = tmp_path / "frameworks/F/executors/job-1.0/runs/only"
    run.mkdir(parents=True)
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere/app-0").write_text("secret")
    (run / "events").symlink_to(tmp_path / "elsewhere")
    os.mkfifo(run / "stdout")
    sandbox = local_sandbox(tmp_path, "F", "job-1.0")
    with pytest.raises(UntrustedFileError), (tmp_path / "copy").open("wb") as file:
        sandbox.copy(name, file.fileno(), 100)
    with pytest.raises(UntrustedFileError):
        sandbox.files("events")
    assert not (tmp_path / "copy").read_bytes()
