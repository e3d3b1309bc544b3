"""Estimates at submission compared with outcomes: times of learning, and the report."""

from pathlib import Path

import pytest

from agents.experiments.estimates import report, runs
from agents.experiments.estimates.runs import EstimatedJob, play_one
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
    text = report.report(tmp_path, 1).read_text()
    assert "| `ff` | all | 2 | as drawn | 50.0 ± 0.0 | 50.0 ± 0.0 | 100.0 ± 0.0 | 1 |" in text
    assert "| `ff` | that wait | 1 | widened | 100.0 ± 0.0 | 0.0 ± 0.0 | 100.0 ± 0.0 | 90 |" in text
    assert "100.0% of the true starts of those that wait are within what was told, above the aim" in text
    assert "| `greedy` | all | 0 | as drawn | none | none | none | none |" in text
    assert (tmp_path / "estimates.png").stat().st_size > 1000
