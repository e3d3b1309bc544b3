"""Estimates at submission compared with outcomes: times of learning, and the report."""

from pathlib import Path

import pytest

from agents.experiments.estimates import report, runs
from agents.experiments.estimates.runs import EstimatedJob, play_one
from agents.experiments.paired import Statistic
from agents.experiments.runner import Runner
from agents.experiments.seed_register import seeds_of
from environment.simulation.durations.prediction_intervals import Interval
from tests.profiles.workloads.test_traces import needs_traces


@needs_traces
def test_what_is_told_is_of_the_time_of_submission(monkeypatch: pytest.MonkeyPatch) -> None:
    """Most jobs on a small cluster wait, and most start as told; a job alone in the queue starts at once."""
    monkeypatch.setattr(runs, "STEP", 10)
    found = play_one("ff", 400, 120, 6)
    assert len(found) == 20
    assert sum(each.waits for each in found) > 5
    assert all(each.told == each.drawn for each in found)  # too little is known to widen anything
    assert sum(each.drawn[0].holds(each.came[0], 2.0) for each in found) >= 15
    assert [each.at for each in found] == sorted(each.at for each in found)


def test_the_report_says_how_many_were_within(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of all, and of those that waited; as drawn, and as told."""
    narrow, wide, none = Interval(50.0, 49.0, 51.0), Interval(50.0, 0.0, 90.0), Interval(0.0, 0.0, 0.0)
    waited = EstimatedJob("ff", 400, 1.0, (narrow,) * 3, (wide,) * 3, (60.0, 95.0, 50.0))
    at_once = EstimatedJob("ff", 400, 2.0, (none, narrow, narrow), (none, narrow, narrow), (0.0, 50.0, 50.0))
    monkeypatch.setattr(report, "play", lambda *_: [waited, at_once])
    text = report.report(tmp_path, seeds_of("estimates", 1), Runner(workers=0)).read_text()
    assert "| `ff` | all | 2 | as drawn | 50.0 ± 0.0 | 50.0 ± 0.0 | 100.0 ± 0.0 | 1 |" in text
    assert "| `ff` | that wait | 1 | widened | 100.0 ± 0.0 | 0.0 ± 0.0 | 100.0 ± 0.0 | 90 |" in text
    assert "are within the reported interval: not judged (1 of 4 days) beside the aim" in text
    assert "| `greedy` | all | 0 | as drawn | none | none | none | none |" in text
    assert (tmp_path / "estimates.png").stat().st_size > 1000


@pytest.mark.parametrize(
    ("shares", "where"),
    [
        ((0.96, 0.97, 0.97, 0.96), "above"),
        ((0.7, 0.71, 0.7, 0.71), "below"),
        ((0.9, 0.91, 0.9, 0.91), "within"),
        ((0.94, 0.97, 0.94, 0.97), "not distinguishable from"),
        ((0.99, 0.99, 0.99), "not judged"),
    ],
)
def test_an_aim_is_judged_by_standard_errors(shares: tuple[float, ...], where: str) -> None:
    """Over enough days."""
    assert report.place(Statistic.of(shares)).startswith(where)
