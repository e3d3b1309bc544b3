"""Intervals of 90 %, and their correction by earlier outcomes."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from environment.simulation.durations.prediction_intervals import Calibration, Interval


def test_twenty_draws_make_an_interval_that_holds_nine_of_ten() -> None:
    """A twenty-first is between the ends in 90 of 100 cases, however few the draws are."""
    draw = np.random.default_rng(0)
    held = [Interval.of(draw.lognormal(size=20).tolist()).holds(draw.lognormal()) for _ in range(4000)]
    assert 0.885 < np.mean(held) < 0.915
    assert Interval.of([2.0]) == Interval(2.0, 2.0, 2.0)


@pytest.mark.parametrize("count", [1, 2, 5, 19, 20, 32, 100])
def test_ends_are_percentiles(count: int) -> None:
    """Those that numpy finds, to the last digit."""
    draw = np.random.default_rng(count)
    for _ in range(50):
        values = draw.lognormal(sigma=3.0, size=count).tolist()
        low, high = np.percentile(values, (5.0, 95.0), method="weibull")
        found = Interval.of(values)
        assert (found.low, found.high) == (low, high)


def test_who_erred_is_mended() -> None:
    """Where all take twice as long as was drawn, later ones are told twice as much."""
    draw, calibration = np.random.default_rng(1), Calibration(10.0)
    held = []
    for number in range(1000):
        scale = draw.uniform(50.0, 500.0)
        drawn = Interval(scale, 0.9 * scale, 1.1 * scale)
        came = 2.0 * scale * float(draw.lognormal(sigma=0.3))
        if number >= 300:
            held.append(calibration.mended(drawn).holds(came))
        calibration.learn(drawn, came)
    assert 0.92 < np.mean(held) < 0.98


def test_little_is_known_of_few_and_nothing_of_who_began_at_once() -> None:
    """Then the drawn interval is reported; ends never fall below 0, and the mean stays between them."""
    calibration, drawn = Calibration(10.0), Interval(20.0, 10.0, 30.0)
    for _ in range(19):
        calibration.learn(drawn, 100.0)
    for _ in range(30):
        calibration.learn(Interval(0.0, 0.0, 0.0), 0.0)
    assert calibration.mended(drawn) == drawn
    for _ in range(5):
        calibration.learn(drawn, 0.0)
    mended = calibration.mended(drawn)
    assert (mended.low, mended.high) == (0.0, 100.0)
    assert mended.low <= mended.mean <= mended.high
    wide = Interval(500.0, 0.0, 1000.0)
    for _ in range(300):
        calibration.learn(wide, 500.0)
    assert calibration.mended(wide) == wide


def test_by_how_much_ends_are_moved_is_worked_out_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not for each of thousands that wait, but again when more is learned."""
    calibration, drawn, worked = Calibration(0.0), Interval(20.0, 10.0, 30.0), list[Any]()
    percentile = np.percentile

    def counted(*args: Any, **more: Any) -> Any:
        worked.append(args)
        return percentile(*args, **more)

    monkeypatch.setattr(np, "percentile", counted)
    for _ in range(20):
        calibration.learn(drawn, 60.0)
    assert {calibration.mended(drawn).high for _ in range(50)} == {60.0}
    assert len(worked) == 2
    calibration.learn(drawn, 90.0)
    assert calibration.mended(drawn).high > 60.0


def test_an_end_is_mended_by_those_of_whom_about_as_much_was_drawn() -> None:
    """Jobs with long waits take three times as long, soon started ones do not, and their forecast stays."""
    draw, calibration = np.random.default_rng(2), Calibration(0.0)
    soon, late = Interval(20.0, 10.0, 30.0), Interval(500.0, 400.0, 600.0)
    for _ in range(100):
        calibration.learn(soon, 30.0)
        calibration.learn(replace(late, high=float(draw.uniform(590.0, 610.0))), 1830.0)
    assert calibration.mended(soon) == soon
    assert 1770.0 < calibration.mended(late).high < 1900.0
    assert calibration.mended(replace(late, high=600.0)).high > 1770.0
    assert calibration.mended(replace(late, high=1000.0)).high > 2900.0
