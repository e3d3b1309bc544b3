"""What is expected of jobs that wait, made now and then, and how often it came true."""

import threading
from dataclasses import replace
from typing import Any

import pytest

from daemon.contract import RejectedError
from daemon.foresight import estimates as made
from daemon.foresight.cases import Present
from daemon.foresight.estimates import Coverage, Estimates
from daemon.foresight.foresight import Interval, JobAhead, PolicyAhead
from environment.model.records import JobRecord
from tests.builders import make_job, make_view, make_vms

AHEAD = JobAhead(Interval(50.0, 40.0, 90.0), Interval(150.0, 120.0, 200.0), Interval(0.5, 0.4, 0.7))


class Foreseen:
    """Answers that two jobs wait, after it was busy once."""

    def __init__(self) -> None:
        self.asked: list[Any] = []
        self.again = threading.Event()

    def ask(
        self, policies: list[tuple[str, dict[str, Any]]], *, draws: int, seconds: float
    ) -> tuple[Present, list[PolicyAhead]]:
        """At 1,000 s."""
        self.asked.append((policies, draws))
        if len(self.asked) == 1:
            raise RejectedError(503, "Not now", "busy")
        if len(self.asked) == 2:
            raise ZeroDivisionError
        if len(self.asked) > 3:
            self.again.set()
        ahead = PolicyAhead("ff", {}, draws, jobs={"job-1": AHEAD, "job-2": AHEAD})
        return Present(make_view(make_vms(1), at=1000.0), ()), [ahead]


def record(number: int, **fields: Any) -> JobRecord:
    """A job that waits, unless it is told otherwise."""
    return replace(JobRecord(make_job(f"job-{number}")), **fields)


def test_estimates_are_made_while_somebody_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is the matter once; the latest is told, the first is held to what comes."""
    monkeypatch.setattr(made, "_PAUSE", 0.01)
    foreseen = Foreseen()
    estimates = Estimates(foreseen, lambda: ("ff", {"overtake": "easy"}))
    estimates.start()
    estimates.observe((), waiting=False)
    assert not foreseen.again.wait(0.1)
    assert foreseen.asked == []
    estimates.observe([record(1), record(2), record(3)], waiting=True)
    assert foreseen.again.wait(30.0)
    found = estimates.of_all()["job-1"]
    assert (found.at, found.start) == (1000.0, Interval(1050.0, 1040.0, 1090.0))
    assert (found.end.low, found.cost.high) == (1120.0, 0.7)
    assert foreseen.asked[0][0] == [("ff", {"overtake": "easy"})]
    estimates.stop()


@pytest.mark.parametrize(
    ("placed_at", "coverage"),
    [
        (1040.0, Coverage(1, 0, 0)),
        (1100.0, Coverage(0, 0, 1)),
        (1001.0, Coverage(0, 1, 0)),
        (None, Coverage()),
    ],
)
def test_what_came_true_is_counted_once(placed_at: float | None, coverage: Coverage) -> None:
    """One that was killed never started; of one that has started nothing is to be learned any more."""
    foreseen = Foreseen()
    foreseen.asked = [0, 0]
    estimates = Estimates(foreseen, lambda: ("ff", {}))
    estimates._make()
    state: Any = "killed" if placed_at is None else "starting"
    for _ in range(2):
        estimates.observe([record(1, state=state, placed_at=placed_at), record(9)], waiting=True)
    assert estimates.coverage() == coverage
