"""The forecast command: the future of the queue under changes."""

import time
from dataclasses import replace
from pathlib import Path

import pytest

from conf.loader import SHIPPED
from daemon.what_if.cases import Case, Present
from daemon.what_if.what_if import JobForecast, PolicyAhead, WhatIfService
from environment.simulation.durations.prediction_intervals import Interval
from environment.types import PlacementRequest
from tests.builders import make_job, make_view, make_vms
from tests.daemon.cli.conftest import Daemon

Capture = pytest.CaptureFixture[str]
NOW = Case()
JOB = make_job("job-1000001", 8, 1.0, 1024, expected_duration=100.0)


class Told(WhatIfService):
    """One that plays nothing, and tells the same of all that is asked."""

    def __init__(self) -> None:
        self.asked: list[Case] = []
        self.share = 0.124

    def ask(self, policies, *, cases=(NOW,), **_):  # type: ignore[no-untyped-def]
        """Wide intervals of long times and much money."""
        self.asked = [*cases]
        dollars, seconds = Interval(1234.56, 1000.12, 1999.99), Interval(86_000.0, 80_000.0, 99_999.0)
        jobs = {JOB.id: JobForecast(seconds, seconds, dollars, 20)}
        found = [
            PolicyAhead(
                name, options, 20, dollars, seconds, seconds, jobs, case=case, fallback_share=self.share
            )
            for case in cases
            for name, options in policies
        ]
        job = replace(JOB, name="a job of a name that takes some room")
        return Present(make_view(make_vms(2)), (PlacementRequest(job, 8),)), found


@pytest.fixture
def told(daemon: Daemon) -> Told:
    """The forecasts requested from the daemon."""
    told = daemon.cast.foresight = Told()  # type: ignore[assignment]
    return told


def test_all_that_is_told_fits_eighty_columns(
    daemon: Daemon, told: Told, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However wide intervals are: nothing of them is cut."""
    monkeypatch.setenv("COLUMNS", "80")
    asked = ("--policy", "reinforce:beta=0.5:wait_limit=3,greedy:beta=0.25", "--jobs")
    assert daemon.run("what-if", *asked, "--add", "m1.xlarge:2", "--keep", "none") == 0
    out = capsys.readouterr().out
    assert max(map(len, out.splitlines())) <= 80
    said = " ".join(out.split())
    assert said.count("$1,234.56") == 12
    assert said.count("12.4 %") == 6
    assert "Fallback: the share of its decisions that a policy failed to take" in said
    assert "- no more jobs are submitted, and no VM or executor is lost" in said
    assert "- added VMs are available at once" in said


def test_a_policy_that_failed_in_most_decisions_was_not_compared(
    daemon: Daemon, told: Told, capsys: Capture
) -> None:
    """The share is a column and a field; above half a line on stderr and exit code 1, once for all cases."""
    assert daemon.run("what-if", "--policy", "greedy") == 0
    printed = capsys.readouterr()
    assert printed.err == ""
    assert "fallback" in printed.out
    assert "12.4 %" in printed.out
    told.share = 0.51
    for output in ("table", "json"):
        assert daemon.run("what-if", "--policy", "greedy", "--add", "m1.large:1", "-o", output) == 1
        (line,) = capsys.readouterr().err.splitlines()
        failed = "greedy failed in 51% of its decisions or placements: its numbers are not its own"
        assert line == f"stoker: {failed}"


def test_a_type_that_is_named_twice_adds_up(daemon: Daemon, told: Told) -> None:
    """As it would on a bill."""
    flags = ("--add", "a:1", "--add", "b:2", "--add", "a:3", "--remove", "c:1", "--remove", "c:1")
    assert daemon.run("what-if", *flags) == 0
    assert told.asked == [NOW, Case(add={"a": 4, "b": 2}), Case(remove={"c": 2})]


@pytest.mark.parametrize(
    "wrong", ["m1", "m1:", ":2", "m1:0", "m1:\u00b2", "m1:-1", "m1:9999999999", "m1:\u0663"]
)
def test_a_count_that_is_none_is_told_in_one_line(daemon: Daemon, capsys: Capture, wrong: str) -> None:
    """An invalid count is refused in one line with the text found and the right form."""
    assert daemon.run("what-if", "--add", wrong) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "--add: should be as in m1.large:2, found" in line


def test_too_many_vms_are_told_by_the_daemon(daemon: Daemon, capsys: Capture) -> None:
    """All of them together, whichever flags they come by."""
    cluster = str(SHIPPED / "clusters" / "hundred.yaml")
    assert daemon.run("what-if", "--add", "m1.large:9901", "--cluster", cluster) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "at most 10000 VMs in all, added or of another cluster, found 10001" in line


def test_what_came_since_then_is_played(
    daemon: Daemon, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Jobs that arrived since then are replayed from the store, with their measured durations."""
    monkeypatch.setenv("COLUMNS", "80")
    app = tmp_path / "count.py"
    app.write_text("")
    assert daemon.run("submit", "--executors", "2", "--memory", "1g", str(app)) == 0
    now = time.time()
    daemon.cast.put("job-1", "finished", "", placed_at=now, started_at=now, finished_at=now + 95.0)
    capsys.readouterr()
    assert daemon.run("what-if", "--since", "2h", "--policy", "ff,aep", "--jobs", "--seconds", "60") == 0
    out = capsys.readouterr().out
    assert max(map(len, out.splitlines())) <= 80
    assert out.startswith("1 job came since ")
    assert "Each has its true duration:" in out
    assert "all over at" in out
    assert "ended jobs (1 of 1) have their true duration" in " ".join(out.split())
    assert out.count("1 min 35 s") >= 2
    assert daemon.run("what-if", "--since", "soon") == 2
    assert "--since: should be so long ago" in capsys.readouterr().err
