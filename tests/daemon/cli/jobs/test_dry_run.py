"""`stoker submit --dry-run` against the real API: output, refusals, and no files sent."""

import hashlib
import json
from pathlib import Path
from typing import Any
from unittest.mock import Mock, patch

import pytest

from daemon.cli.jobs import dry_run, upload
from daemon.core.errors import RejectedError
from daemon.what_if.cases import Present
from environment.types import PlacementRequest
from environment.view import RunningJob
from tests.builders import make_job, make_view, make_vms
from tests.daemon.cli.conftest import Daemon
from tests.daemon.small_scheduler import Foreseeing

Capture = pytest.CaptureFixture[str]
BUSY = RejectedError(503, "Not now", "other requests are being answered")


@pytest.fixture
def app(tmp_path: Path) -> Path:
    """An app that is there."""
    path = tmp_path / "count.py"
    path.write_text("print(1)")
    return path


def test_what_would_come_of_it_is_shown(daemon: Daemon, app: Path, capsys: Capture) -> None:
    """As a table and as JSON; nothing is submitted."""
    flags = ["--dry-run", "--executors", "2"]
    assert daemon.run("submit", *flags, str(app)) == 0
    shown = capsys.readouterr().out
    first, *rows = shown.splitlines()
    assert first == "A job (count) of 2 executors of 1 cpu, 1 GiB, would be accepted. Nothing was submitted."
    told = {row[:12].strip(): row[12:].strip() for row in rows}
    assert told["placed now"] == "2 on vm-1 (m1.large, $0.2400 an hour)"
    assert told["price"] == "$0.1200 an hour"
    assert told["starts in"] == "0.0 s"
    assert {"ends in", "costs"} < told.keys()
    assert "under ff. Assumed: no more jobs are submitted" in " ".join(shown.split())
    assert daemon.run("submit", "-o", "json", *flags, str(app)) == 0
    tried = json.loads(capsys.readouterr().out)
    assert [each["vm"] for each in tried["placement"]] == ["vm-1"]
    assert daemon.cast.store.jobs.page() == []


def test_why_it_would_wait_is_shown(daemon: Daemon, app: Path, capsys: Capture) -> None:
    """With how many are before it."""
    vms, runs = make_vms(2), make_job("job-1", 8)
    running = RunningJob(runs, tuple(vm.id for vm in vms for _ in range(4)), 0.0, 100.0)
    view = make_view(vms, free_cpus=(0.0, 0.0), executors=(4, 4)).changed(running=(running,))
    present = Present(view, (PlacementRequest(make_job("job-7", 8), 8),))
    with patch.object(Foreseeing, "_present", lambda _: present):
        assert daemon.run("submit", "--dry-run", str(app)) == 0
    shown = capsys.readouterr().out
    assert "1 job placed before it; job-7 waits first: room for 0 of 8 executors" in shown
    assert "placed now" not in shown


def test_what_is_refused_is_said_in_a_line(daemon: Daemon, app: Path, capsys: Capture) -> None:
    """As of a submission; and there is nothing to wait for."""
    refused = []
    for flags in (["--dry-run"], []):
        assert daemon.run("submit", *flags, "--cpus", "8", str(app)) == 2
        refused.append(capsys.readouterr().err)
    assert refused[0] == refused[1]
    assert daemon.run("submit", "--dry-run", "--wait", str(app)) == 2
    assert capsys.readouterr().err == (
        "stoker: --wait cannot be combined with --dry-run, which submits nothing\n"
    )


def test_files_are_looked_at_and_not_sent(
    daemon: Daemon, app: Path, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files that would be sent are checked, and their faults reported here; none is sent."""
    monkeypatch.setattr(upload, "is_here", lambda _: False)
    monkeypatch.setattr(Foreseeing, "ask", Mock(side_effect=BUSY))
    assert daemon.run("submit", "--dry-run", str(app)) == 0
    shown = capsys.readouterr().out
    assert "1 file of this machine would be sent" in shown
    assert "No estimate: other requests are being answered." in shown
    assert daemon.cast.sent == {hashlib.sha256(b"print(1)").hexdigest(): 8}
    assert not list((tmp_path / "uploads").glob("*"))
    jar = tmp_path / "bad.jar"
    jar.write_text("no zip")
    wrong: tuple[tuple[Any, str], ...] = ((tmp_path / "gone.py", "no such file"), (jar, "not a jar"))
    for path, why in wrong:
        assert daemon.run("submit", "--dry-run", "--jars", str(path), str(app)) == 2
        assert why in capsys.readouterr().err
    monkeypatch.setattr(dry_run, "_MOST_FILES", 0)
    assert daemon.run("submit", "--dry-run", str(app)) == 2
    assert "looks at 0 files at most, here are 1" in capsys.readouterr().err


@pytest.mark.parametrize("flags", [[], ["--dry-run"], ["-o", "json"], ["--dry-run", "-o", "json"]])
def test_a_type_that_is_not_known_is_told_on_stderr(
    daemon: Daemon, app: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch, flags: list[str]
) -> None:
    """And in the answer, whether the job is submitted or not."""
    monkeypatch.setattr(Foreseeing, "ask", Mock(side_effect=BUSY))
    told = "type: wordsort: no job of its type was measured"
    assert daemon.run("submit", *flags, "--type", "wordsort", str(app)) == 0
    printed = capsys.readouterr()
    assert f"stoker: {told}\n" in printed.err
    if "json" in flags:
        answer = json.loads(printed.out)
        assert (answer["job"] if "--dry-run" in flags else answer)["warnings"] == [told]
    assert daemon.run("submit", *flags, "--type", "sort", str(app)) == 0
    assert told not in capsys.readouterr().err
