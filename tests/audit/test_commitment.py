"""The savings plan that logged executors would have used, counted by hand."""

from types import SimpleNamespace
from typing import Any

import pytest

from audit.savings.commitment import best_plan

_HOUR = 3600.0


def load(*executors: tuple[float, float, float]) -> list[Any]:
    """A run with executors: begin and end in hours, dollars an hour."""
    made = [
        SimpleNamespace(added_at=a * _HOUR, removed_at=b * _HOUR, seconds=(b - a) * _HOUR)
        for a, b, _ in executors
    ]
    dollars = tuple(rate * (end - begin) for begin, end, rate in executors)
    return [
        SimpleNamespace(
            cost=SimpleNamespace(by_executor=list(zip(made, dollars, strict=True))),
            application=SimpleNamespace(executors=made),
        )
    ]


def all_of_them(*_: object) -> bool:
    """None is on a spot VM."""
    return True


def test_what_is_always_there_is_worth_a_plan() -> None:
    """Two dollars an hour all the time, for 0.73 of them, and more in the evenings, which is not."""
    always = (0.0, 240.0, 2.0)
    evenings = ((24.0 * day + 18, 24.0 * day + 22, 5.0) for day in range(10))
    found = best_plan(load(always, *evenings), 0.73, all_of_them)
    assert found is not None
    assert found.dollars_per_hour == pytest.approx(1.46)
    assert found.saving.middle == pytest.approx(0.27 * 2 * 240)
    assert found.saving.low == found.saving.high == pytest.approx(found.saving.middle)
    assert found.error == pytest.approx(0.0)
    assert found.days == 10


def test_the_level_is_reached_for_that_share_of_the_time() -> None:
    """Three dollars for 20 of 24 hours, one else: a plan at 0.73 covers three, one at 0.9 covers one."""
    runs = load((0.0, 240.0, 1.0), *((24.0 * day, 24.0 * day + 20, 2.0) for day in range(10)))
    high, low = best_plan(runs, 0.73, all_of_them), best_plan(runs, 0.9, all_of_them)
    assert high is not None
    assert low is not None
    assert high.dollars_per_hour == pytest.approx(0.73 * 3)
    assert high.saving.middle == pytest.approx(10 * (0.27 * 3 * 20 + (1 - 0.73 * 3) * 4))
    assert low.dollars_per_hour == pytest.approx(0.9)


def test_no_day_chooses_for_itself() -> None:
    """Where days differ, less is saved than with the level that is best for all of them."""
    rates = (4.0, 1.0, 4.0, 1.0, 4.0, 4.0, 4.0, 4.0, 4.0, 3.5)
    days = load(*((24.0 * day, 24.0 * day + 24, rate) for day, rate in enumerate(rates)))
    found = best_plan(days, 0.6, all_of_them)
    assert found is not None
    assert found.error > 0.01
    assert found.saving.low < found.saving.middle < found.saving.high


@pytest.mark.parametrize(
    "executors",
    [
        (),
        ((0.0, 6 * 24.0, 2.0),),
        tuple((24.0 * day, 24.0 * day + 12, 2.0) for day in range(10)),
        tuple((48.0 * day, 48.0 * day + 24, 2.0) for day in range(10)),
    ],
)
def test_no_plan_where_none_saves(executors: tuple[tuple[float, float, float], ...]) -> None:
    """No executors, fewer days than a week, half of each day, every other day."""
    assert best_plan(load(*executors), 0.73, all_of_them) is None


def test_spot_vms_are_left_out() -> None:
    """Two dollars an hour on demand, and three that a plan cannot cover."""
    runs, spot = load((0.0, 240.0, 2.0)), load((0.0, 240.0, 3.0))
    cheap = spot[0].application
    found = best_plan([*runs, *spot], 0.73, lambda application, _: application is not cheap)
    assert found is not None
    assert found.dollars_per_hour == pytest.approx(1.46)
