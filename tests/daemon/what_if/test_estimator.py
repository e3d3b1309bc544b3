"""Expectations of waiting jobs: made periodically, and how often they came true."""

import contextlib
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from conf.schema import JobSpec
from daemon.cli.shared import job_tables
from daemon.core.errors import RejectedError
from daemon.core.estimate import (
    Coverage,
    Estimate,
    EstimateOutcome,
    IntervalCounts,
    KeptEstimates,
    Made,
    notes_of,
)
from daemon.schemas.job_bodies import job_detail
from daemon.store.job_store import Store
from daemon.store.rows.database import StoreError
from daemon.what_if import estimator as made
from daemon.what_if.cases import Present
from daemon.what_if.estimator import Estimates
from daemon.what_if.what_if import JobForecast, PolicyAhead
from environment.model.cluster_model import Changes
from environment.model.messages.records import JobRecord
from environment.simulation.durations.belief_errors import LearnedErrors
from environment.simulation.durations.prediction_intervals import Interval
from tests.builders import make_job, make_view, make_vms

AHEAD = JobForecast(Interval(50.0, 40.0, 90.0), Interval(150.0, 120.0, 200.0), Interval(0.5, 0.4, 0.7), 20)


class Foreseen:
    """Answers that two jobs wait, after it was busy once."""

    def __init__(self) -> None:
        self.asked: list[Any] = []
        self.again = threading.Event()
        self.meanwhile: Callable[[], None] = lambda: None
        self.jobs = {"job-1": AHEAD, "job-2": AHEAD}

    def ask(
        self, policies: list[tuple[str, dict[str, Any]]], *, draws: int, seconds: float, own: bool
    ) -> tuple[Present, list[PolicyAhead]]:
        """At 1,000 s."""
        assert own
        self.asked.append((policies, draws))
        if len(self.asked) == 1:
            raise RejectedError(503, "Not now", "busy")
        if len(self.asked) == 2:
            raise ZeroDivisionError
        if len(self.asked) > 3:
            self.again.set()
        self.meanwhile()
        ahead = PolicyAhead("ff", {}, draws, jobs=self.jobs)
        return Present(make_view(make_vms(1), at=1000.0), ()), [ahead]


class Kept:
    """Keeps estimates unless it is full."""

    def __init__(self) -> None:
        self.found: dict[str, KeptEstimates] = {}
        self.records: list[JobRecord] = []
        self.full = False
        self.at_once: list[int] = []

    def keep(self, found: Mapping[str, KeptEstimates]) -> None:
        """In memory."""
        if self.full:
            raise StoreError("full")
        self.at_once.append(len(found))
        self.found |= found

    def latest(self, most: int) -> list[tuple[JobRecord, KeptEstimates]]:
        """Of the records of a test."""
        return [(each, self.found[each.job.id]) for each in self.records[-most:]]

    def finished(self, most: int) -> list[JobRecord]:
        """Of the records of a test."""
        return [each for each in self.records[-most:] if each.state == "finished"]


def record(number: int, **fields: Any) -> JobRecord:
    """A job that waits, unless it is told otherwise."""
    return replace(JobRecord(make_job(f"job-{number}")), **fields)


def test_estimates_are_made_while_somebody_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Estimates continue after one failure; the latest is reported, the first is scored."""
    monkeypatch.setattr(made, "_PAUSE", 0.01)
    foreseen = Foreseen()
    estimates = Estimates(foreseen, lambda: ("ff", {"overtake": "easy"}), Kept(), LearnedErrors())
    estimates.start()
    estimates.observe((), waiting=False)
    assert not foreseen.again.wait(0.1)
    assert foreseen.asked == []
    estimates.observe([record(1), record(2), record(3)], waiting=True)
    assert foreseen.again.wait(300.0)
    found = estimates.of_all()["job-1"]
    assert (found.at, found.start) == (1000.0, Interval(1050.0, 1040.0, 1090.0))
    assert (found.end.low, found.cost.high) == (1120.0, 0.7)
    assert foreseen.asked[0][0] == [("ff", {"overtake": "easy"})]
    estimates.stop()


def test_why_there_is_none_is_said() -> None:
    """A waiting job without an estimate has a reason; one with an estimate, or not waiting, has none."""
    waits = record(1, released_at=900.0)
    held = replace(waits, released_at=None, job=replace(waits.job, start_at=5000.0))
    never = Made(1000.0, never={"job-1": "it fits no VM"})
    assert Made().why_not(held) == "it gets one once it only waits for its turn"
    assert (
        Made().why_not(waits)
        == "the first is being made: it takes seconds, or minutes where code is compiled"
    )
    assert Made(1000.0, "no draw was finished within 4 s").why_not(waits).endswith("was finished within 4 s")
    assert never.why_not(waits) == "the forecast says that it would not run: it fits no VM"
    assert Made(800.0).why_not(waits).startswith("it began to wait after the last estimates were made")
    assert "a limit or a pause holds it" in Made(1000.0).why_not(waits)
    estimates = ready()
    assert estimates.why_not(record(1, state="running")) == ""
    assert estimates.why_not(record(1)) == ""
    assert "a limit or a pause" in estimates.why_not(record(7))


def test_what_is_guessed_in_one_is_said() -> None:
    """Notes name unknown types, and few scored predictions or draws."""
    unknown = replace(record(1), job=replace(record(1).job, expected_duration=None, type="new"))
    known = replace(unknown, job=replace(unknown.job, expected_duration=9.0))
    enough = Coverage(IntervalCounts(15, 2, 3))
    told = Estimate(1000.0, AHEAD.start, AHEAD.end, AHEAD.cost)
    guessed = "its duration is guessed: no job of type new was measured"
    assert notes_of(known, told, enough) == []
    assert notes_of(unknown, told, enough) == [guessed]
    assert notes_of(known, told, Coverage(IntervalCounts(15, 2, 2)))[0].endswith(
        "20 starts, but only 19 were seen"
    )
    assert notes_of(known, replace(told, draws=20), enough) == []
    (hurried,) = notes_of(known, replace(told, draws=1), enough)
    assert hurried == "too narrow: it is from 1 draw only, for lack of time"


def test_each_estimate_knows_of_how_many_draws_it_is() -> None:
    """Of those in which its job ran, however many were played, and whichever came in the latest round."""
    kept, foreseen = Kept(), Foreseen()
    foreseen.asked = [0, 0]
    foreseen.jobs = {"job-1": AHEAD, "job-2": replace(AHEAD, draws=3)}
    estimates = Estimates(foreseen, lambda: ("ff", {}), kept, LearnedErrors())
    estimates._make()
    estimates._keep()
    assert {job_id: each.draws for job_id, each in estimates.of_all().items()} == {"job-1": 20, "job-2": 3}
    assert (kept.found["job-2"].first.draws, kept.found["job-2"].drawn.draws) == (3, 3)


def test_after_a_first_that_took_minutes_there_is_no_rest_of_hours(monkeypatch: pytest.MonkeyPatch) -> None:
    """For which policies were compiled: each look at the clock is a hundred seconds after the one before."""
    estimates = Estimates(Foreseen(), lambda: ("ff", {}), Kept(), LearnedErrors())
    clock, rests = count(), list[float]()

    def wait(seconds: float) -> bool:
        rests.append(seconds)
        return len(rests) > 4

    monkeypatch.setattr(time, "monotonic", lambda: 100.0 * next(clock))
    monkeypatch.setattr(estimates._over, "wait", wait)
    estimates._waits = True
    estimates._wake.set()
    estimates._run()
    assert max(rests) <= 40.0


@pytest.mark.parametrize(
    ("placed_at", "coverage"),
    [
        (1040.0, IntervalCounts(1, 0, 0)),
        (1100.0, IntervalCounts(0, 0, 1)),
        (1001.0, IntervalCounts(0, 1, 0)),
        (None, IntervalCounts()),
    ],
)
def test_what_came_true_is_counted_once(placed_at: float | None, coverage: IntervalCounts) -> None:
    """One that was killed never started; of one that has started nothing is to be learned any more."""
    estimates = ready()
    state: Any = "killed" if placed_at is None else "starting"
    for _ in range(2):
        estimates.observe([record(1, state=state, placed_at=placed_at), record(9)], waiting=True)
        estimates._settle()
    assert estimates.coverage() == Coverage(start=coverage)


def test_ends_and_costs_are_held_to_what_was_told() -> None:
    """A finished job's end and cost are scored against its first and last estimates.

    Both are stored with it and survive a restart.
    """
    kept = Kept()
    estimates = ready(kept)
    running = record(1, state="running", placed_at=1050.0)
    estimates.observe([running, record(2, state="running", placed_at=1050.0)], waiting=False)
    estimates._settle()
    estimates._keep()
    found = kept.found["job-1"]
    assert (found.first.start, found.last) == (Interval(1050.0, 1040.0, 1090.0), found.first)
    later = Estimates(Foreseen(), lambda: ("ff", {}), kept, LearnedErrors())
    kept.records = [running]
    later._take_up()
    done = {"state": "finished", "placed_at": 1050.0, "finished_at": 1150.0, "cost": 0.9}
    for each in (estimates, later):
        each.observe([record(1, **done), record(2, **done | {"state": "failed"})], waiting=False)
        each._settle()
        assert (each.coverage().end, each.coverage().cost) == (
            IntervalCounts(1, 0, 0),
            IntervalCounts(0, 0, 1),
        )
    assert estimates.coverage().start == IntervalCounts(2, 0, 0)
    assert later.coverage().start == IntervalCounts()  # which the earlier daemon has counted


def test_who_starts_or_ends_while_it_is_played_is_not_followed() -> None:
    """A job that starts or ends during the simulation is not followed.

    It would be followed for ever, as no event comes; one that does so behind it is settled later.
    """
    kept, foreseen = Kept(), Foreseen()
    foreseen.asked = [0, 0]
    estimates = Estimates(foreseen, lambda: ("ff", {}), kept, LearnedErrors())
    over = record(1, state="finished", placed_at=1001.0, finished_at=1002.0)
    foreseen.meanwhile = lambda: estimates.observe([over], waiting=True)
    estimates._make()
    estimates._keep()
    assert (list(kept.found), list(estimates.of_all())) == (["job-2"], ["job-2"])
    estimates.observe([record(2, state="killed")], waiting=False)
    estimates._settle()
    assert estimates._followed == {}


def test_nobody_is_told_to_end_before_the_start() -> None:
    """Many have started late and none has ended yet: so late as a job may start, it may end."""
    estimates = Estimates(Foreseen(), lambda: ("ff", {}), Kept(), LearnedErrors())
    for _ in range(30):
        estimates._start.learn(Interval(2.0, 0.0, 5.0), 200.0)
    drawn = JobForecast(Interval(2.0, 0.0, 5.0), Interval(70.0, 60.0, 80.0), Interval(0.5, 0.4, 0.7), 20)
    told = estimates.mended(drawn)
    assert told.start.high == pytest.approx(200.0)
    assert (told.end.low, told.end.high) == (60.0, told.start.high)
    assert told.cost == drawn.cost


def test_the_daemon_says_where_what_came_is_beside_what_was_told() -> None:
    """The CLI and the page work nothing out: the slack is the same everywhere."""
    told = Estimate(1000.0, Interval(1050.0, 1040.0, 1090.0), Interval(1150.0, 1120.0, 1200.0), AHEAD.cost)
    assert told.came(record(1)) == EstimateOutcome()
    assert told.came(record(1, state="running", placed_at=1091.9)) == EstimateOutcome("within")
    done = record(1, state="finished", placed_at=1092.1, finished_at=1117.9, cost=0.71)
    assert told.came(done) == EstimateOutcome("after", "before", "after")
    assert told.came(replace(done, state="failed")) == EstimateOutcome("after")
    body = job_detail(done, "", None, [], expected=KeptEstimates(told, told, told)).model_dump(mode="json")
    assert body["expected"]["last"]["came"] == {"start": "after", "end": "before", "cost": "after"}
    came_true = {line: str(text).split(", ")[-1] for line, text in job_tables._facts(body) if "told" in line}
    assert (came_true["first told start"], came_true["last told end"]) == ("later", "earlier")
    assert came_true["first told cost"] == "more"


def test_a_store_that_cannot_be_written_keeps_them_later() -> None:
    """Estimates of jobs are reported meanwhile."""
    kept = Kept()
    estimates = ready(kept)
    kept.full = True
    estimates._keep()
    assert not kept.found
    kept.full = False
    estimates._keep()
    assert sorted(kept.found) == ["job-1", "job-2"]


def test_they_are_kept_some_at_a_time() -> None:
    """Others write, too, meanwhile; each is kept once."""
    kept = Kept()
    estimates = ready(kept)
    one = estimates._followed["job-1"]
    estimates._followed = {f"job-{number}": one for number in range(450)}
    estimates._unkept = set(estimates._followed)
    estimates._keep()
    assert kept.at_once == [200, 200, 50]
    assert sorted(kept.found) == sorted(estimates._followed)


def ready(kept: "Kept | None" = None) -> Estimates:
    """Estimates with those of two jobs made."""
    foreseen = Foreseen()
    foreseen.asked = [0, 0]
    estimates = Estimates(foreseen, lambda: ("ff", {}), kept or Kept(), LearnedErrors())
    estimates._make()
    return estimates


def test_the_store_keeps_what_was_expected(tmp_path: Path) -> None:
    """Estimates are stored until their job is pruned.

    Unreadable ones are ignored, and missing jobs stop no others.
    """
    with contextlib.closing(Store(f"sqlite:///{tmp_path / 'stoker.db'}")) as store:
        for _ in range(2):
            store.jobs.new.add_one(JobSpec(app="a.py"), lambda job_id: make_job(job_id), None, 7.0)
        estimate = Estimate(1.0, AHEAD.start, AHEAD.end, AHEAD.cost, 7)
        first, both = KeptEstimates(estimate, estimate), KeptEstimates(estimate, estimate, estimate)
        store.estimates.keep({"job-1": first, "job-2": first, "job-7": first})
        store.estimates.keep({"job-2": both})
        assert [store.estimates.of(f"job-{number}") for number in (1, 2, 7)] == [first, both, None]
        # Of who is not over, however many are asked for: else what it was told first would be told anew.
        told = [(each.job.id, kept) for each, kept in store.estimates.latest(0)]
        assert told == [("job-1", first), ("job-2", both)]
        over = record(2, state="finished", finished_at=8.0)
        store.changes.save(Changes((over,), ()))
        assert [each.state for each, _ in store.estimates.latest(5)] == ["finished", "queued"]
        assert [each.state for each, _ in store.estimates.latest(0)] == ["queued"]
        store.jobs.ended.prune(["job-2"])
        assert store.estimates.of("job-2") is None
        store._access.write(lambda one: one.exec_driver_sql("UPDATE estimates SET body = '{'"))
        assert (store.estimates.of("job-1"), store.estimates.latest(5)) == (None, [])
