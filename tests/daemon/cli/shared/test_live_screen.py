"""Followed output: events, logs of waiting jobs and live screens, also when daemon or job disappears."""

import contextlib
import io
import json
import os
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from rich.console import Console
from stoker import Stoker, UnreachableError

from daemon.cli.cluster import top
from daemon.cli.shared import follow, live_screen, render
from daemon.http.routes.jobs.waiting_reasons import ToldReason, told_of
from daemon.store.rows.event_recorder import HistoryEvent
from tests.daemon.cli.conftest import Daemon
from tests.daemon.small_scheduler import ESTIMATE
from tests.waiting import PATIENCE, until

Capture = pytest.CaptureFixture[str]
Pauses = Callable[..., None]


def nothing() -> None:
    """Is different when it is looked at again."""


def happen(daemon: Daemon, *texts: str, job_id: str | None = "job-1", at: float = 1.0) -> None:
    """Something happens."""
    events = [HistoryEvent(at, job_id, "waits" if job_id else "vm ready", text) for text in texts]
    daemon.cast.store.facts.put("x", str(time.monotonic()), events)


def submitted(daemon: Daemon) -> str:
    """A job that waits."""
    with Stoker(daemon.url) as client:
        job_id: str = client.submit_spec({"app": "count.py"})["id"]
    return job_id


def test_events_of_all_and_of_a_job(daemon: Daemon, capsys: Capture) -> None:
    """Events cannot steer the terminal; JSON is one object a line."""
    job_id = submitted(daemon)
    happen(daemon, "no VM has \x1b[31mroom", at=time.time() - 7200)
    happen(daemon, "vm-1 has come", job_id=None, at=time.time())
    assert daemon.run("events") == 0
    first, second, third = capsys.readouterr().out.splitlines()
    assert f"{job_id}    submitted: " in first
    assert second.endswith("waits: no VM has \\x1b[31mroom")
    assert third.endswith(" vm ready: vm-1 has come")
    assert daemon.run("events", job_id, "-o", "json") == 0
    found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [each["kind"] for each in found] == ["submitted", "waits"]
    assert daemon.run("events", "--since", "1h") == 0
    assert "room" not in capsys.readouterr().out
    for wrong in (["--since", "yesterevening"], ["nightly"], ["job-99"]):
        assert daemon.run("events", *wrong) != 0
        assert capsys.readouterr().err.startswith("stoker: ")


def test_following_ends_with_the_job_and_leaves_nothing_out(
    daemon: Daemon, capsys: Capture, monkeypatch: pytest.MonkeyPatch, at_each_pause: Pauses
) -> None:
    """Over many pages, and over a daemon that is away for a while."""
    monkeypatch.setattr(follow, "_PAGE", 100)
    job_id = submitted(daemon)
    happen(daemon, *map(str, range(3000)))
    real, calls = Stoker.events, [0]

    def flaky(self: Stoker, **asked: Any) -> Any:
        calls[0] += 1
        if calls[0] in (2, 3):
            raise UnreachableError("no daemon answers", sent=False)
        return real(self, **asked)

    monkeypatch.setattr(Stoker, "events", flaky)

    def end() -> None:
        daemon.cast.put(job_id, "finished", "all done", finished_at=9.0)
        happen(daemon, "the last")

    at_each_pause(nothing, nothing, nothing, end)
    assert daemon.run("events", job_id, "-f", "--since", "30m") == 0
    said = capsys.readouterr()
    assert said.err.count("trying again") == 1
    assert daemon.run("events", job_id, "-f", "--since", "1970-01-01T00:00") == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.rpartition(" ")[2] for line in lines[1:-1]] == [str(n) for n in range(3000)]
    assert lines[-1].endswith("the last")


def test_following_what_is_pruned_meanwhile_ends(
    daemon: Daemon, capsys: Capture, at_each_pause: Pauses
) -> None:
    """It says that there is no such job any more."""
    job_id = submitted(daemon)

    def prune() -> None:
        with daemon.cast.store.database._writing.begin() as connection:
            connection.exec_driver_sql("DELETE FROM events")
            connection.exec_driver_sql("DELETE FROM jobs")

    at_each_pause(prune)
    assert daemon.run("events", job_id, "-f") != 0
    assert f"there is no job {job_id}" in capsys.readouterr().err


def test_the_log_of_a_job_that_waits_says_why(daemon: Daemon, capsys: Capture, at_each_pause: Pauses) -> None:
    """On stderr, each reason once; then the log follows."""
    job_id = submitted(daemon)
    daemon.cast.put(job_id, "queued", "no VM has room")

    def end() -> None:
        daemon.cast.logs["driver stdout"] = "hello\n"
        daemon.cast.put(job_id, "finished", "", finished_at=9.0)

    at_each_pause(nothing, lambda: daemon.cast.put(job_id, "queued", "its array runs already"), nothing, end)
    assert daemon.run("logs", job_id, "-f") == 0
    said = capsys.readouterr()
    assert said.out == "hello\n"
    assert said.err.splitlines() == [
        f"stoker: {job_id} is queued: no VM has room",
        f"stoker: {job_id} is queued: its array runs already",
    ]


def test_top_in_a_pipe_is_one_picture(daemon: Daemon, capsys: Capture) -> None:
    """`top` in a pipe prints sums, running jobs and waiting jobs.

    Running jobs have their cost, waiting ones their reason, the head first.
    """
    runs, *waiting = [submitted(daemon) for _ in range(4)]
    daemon.cast.place(runs)
    daemon.cast.put(waiting[0], "queued", "no VM has room")
    assert daemon.run("top") == 0
    said = capsys.readouterr().out
    assert said.startswith("1 of 2 VMs in use, 1 of 8 cpus; $0.4800/h now, of which $0.2400/h for VMs in use")
    assert "1 job running, 3 waiting" in said
    assert said.index(runs) < said.index(waiting[0]) < said.index(waiting[1]) < said.index(waiting[2])
    assert "no VM has room" in said
    assert daemon.run("top", "-o", "json", "--rows", "2") == 0
    found = json.loads(capsys.readouterr().out)
    assert [job["id"] for job in found["waiting_jobs"]] == waiting[:2]
    assert (found["waiting"], found["more_waiting"]) == (3, False)


def test_those_that_wait_for_the_same_are_one_line_of_top(daemon: Daemon, capsys: Capture) -> None:
    """The head has its reason; jobs behind it are one line with their number and the job they wait for."""
    head, *others = [submitted(daemon) for _ in range(6)]
    daemon.cast.put(head, "queued", "no VM has room")
    assert daemon.run("top") == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines[-2:]] == [head, "5"]
    assert lines[-1].startswith(f"5 jobs   {others[0]} .. {others[-1]}")
    assert lines[-1].endswith(f"behind {head}: no VM has room")


def test_a_small_machine_is_told_by_all_who_show_the_cluster(daemon: Daemon, capsys: Capture) -> None:
    """While jobs wait for it."""
    daemon.cast.carries = 1
    submitted(daemon)
    capsys.readouterr()
    for command in (["cluster"], ["top"], ["what-if", "--draws", "1", "--seconds", "60"]):
        assert daemon.run(*command) == 0
        said = " ".join(capsys.readouterr().out.split())
        assert "Jobs wait for this machine, not for VMs: it carries 1 JVM" in said


def test_explain_says_when_a_job_is_expected_to_start(daemon: Daemon, capsys: Capture) -> None:
    """Or why nothing is expected."""
    job_id = submitted(daemon)
    capsys.readouterr()
    assert daemon.run("explain", job_id) == 0
    assert "When it starts is not known: " in capsys.readouterr().out
    daemon.cast.expected = {job_id: ESTIMATE}
    assert daemon.run("explain", job_id) == 0
    assert "It is expected to start " in capsys.readouterr().out


def test_top_finds_the_head_of_the_queue_behind_older_jobs(
    daemon: Daemon, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the order is another than that of submission, page by page, and no further than it must."""
    monkeypatch.setattr(top, "_PAGE", 2)
    waiting = [submitted(daemon) for _ in range(7)]
    places = {waiting[3]: 0, waiting[2]: 1, waiting[0]: 2}
    asked = list[int]()

    def told(*args: Any) -> dict[str, ToldReason]:
        found = told_of(*args)
        asked.append(len(found))
        return {job_id: each._replace(place=places.get(job_id)) for job_id, each in found.items()}

    monkeypatch.setattr("daemon.http.routes.jobs.jobs.told_of", told)
    assert daemon.run("top", "-o", "json", "--rows", "2") == 0
    found = json.loads(capsys.readouterr().out)
    assert [job["id"] for job in found["waiting_jobs"]] == [waiting[3], waiting[2]]
    assert (found["waiting"], found["more_waiting"], sum(asked)) == (4, True, 4)


@pytest.mark.parametrize("asked", [["top"], ["jobs", "--watch"]])
def test_a_terminal_is_drawn_again_until_q(daemon: Daemon, asked: list[str]) -> None:
    """And leaves the terminal as it was."""
    job_id = submitted(daemon)
    terminal, far = os.openpty()
    command = [sys.executable, "-m", "daemon.cli", *asked, "--interval", "0.5", "--url", daemon.url]
    environment = {**os.environ, "COLUMNS": "100", "LINES": "30", "TERM": "xterm"}
    before = termios.tcgetattr(far)
    drawn = bytearray()

    def look() -> None:
        with contextlib.suppress(OSError):  # nobody draws any more
            while drawing := os.read(terminal, 65536):
                drawn.extend(drawing)

    looking = threading.Thread(target=look)
    looking.start()
    try:
        with subprocess.Popen(command, stdin=far, stdout=far, stderr=far, env=environment) as process:
            try:
                until(lambda: drawn.count(job_id.encode()) >= 2, lambda: bytes(drawn))
                os.write(terminal, b"q")
                assert process.wait(PATIENCE) == 0
            finally:
                process.kill()
        assert termios.tcgetattr(far) == before
    finally:
        os.close(far)
        looking.join()
        os.close(terminal)


def test_a_screen_stays_while_the_daemon_is_away(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the last picture, and a word of that."""
    printed = io.StringIO()
    monkeypatch.setattr(
        render, "console", lambda: Console(file=printed, force_terminal=True, width=80, height=9)
    )
    pictures: Iterator[list[str] | BaseException] = iter(
        [["a picture"], UnreachableError("no daemon answers", sent=False), KeyboardInterrupt()]
    )

    def picture() -> list[str]:
        found = next(pictures)
        if isinstance(found, BaseException):
            raise found
        return found

    live_screen.screen(picture, 0.01)
    said = printed.getvalue()
    assert said.count("a picture") == 2
    assert said.index("q ends") < said.index("no daemon answers; trying again") < said.rindex("a picture")
