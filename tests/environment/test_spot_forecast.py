"""Forecasts of interrupted VMs from recent time and earlier days, and capacity reserved for them."""

import pytest

from environment.pools import IdleTimeout, Terms
from environment.spot_forecast import Forecast

DAY = 86_400.0


def test_as_many_are_expected_as_were_taken_of_late() -> None:
    """Ten in ten minutes are one a minute; older ones and those of other pools do not count."""
    forecast = Forecast()
    for second in range(0, 600, 60):
        forecast.taken("general", 1000.0 + second)
    assert forecast.within("general", 1590.0, 120.0) == pytest.approx(2.0)
    assert forecast.within("other", 1590.0, 120.0) == 0.0
    assert forecast.within("general", 1000.0 + 540.0 + 600.0, 120.0) == 0.0


def test_earlier_days_count_for_half_at_the_same_time() -> None:
    """Eight o'clock was busy on both days before: so it is expected to be on the third."""
    forecast = Forecast()
    for day in range(2):
        for number in range(20 * (day + 1)):
            forecast.taken("general", day * DAY + 8 * 3600.0 + number)
    early, busy = 2 * DAY + 7 * 3600.0, 2 * DAY + 8 * 3600.0
    assert forecast.within("general", early, 600.0) == 0.0
    assert forecast.within("general", busy, 600.0) == pytest.approx((0 + (20 + 40) / 2) / 2)
    forecast.taken("general", busy + 1.0)
    assert forecast.within("general", busy + 2.0, 600.0) == pytest.approx((1 + 30) / 2)


def test_what_is_weeks_ago_is_forgotten() -> None:
    """A week is remembered."""
    forecast = Forecast()
    forecast.taken("general", 8 * 3600.0)
    forecast.taken("general", 9 * DAY)
    assert forecast.within("general", 9 * DAY + 8 * 3600.0, 600.0) == 0.0


def test_so_many_idle_vms_are_kept_as_are_expected_to_be_needed() -> None:
    """Within a boot and a half three are: a third idle one is kept for a boot, a fourth not at all."""
    forecast, keeping, terms = Forecast(), IdleTimeout("forecast"), Terms("general", boot=60.0, minimum=60.0)
    for second in range(0, 600, 30):
        forecast.taken("general", float(second))
    assert [keeping.foresees(forecast, terms, 580.0, idle) for idle in (1, 3, 4)] == [True, True, False]
    assert keeping.closes_at(terms, 0.0, 500.0, needed=True) == 560.0
    assert keeping.closes_at(terms, 0.0, 500.0) == 500.0
    # What is charged for anyway is kept.
    assert keeping.closes_at(terms, 480.0, 500.0) == 540.0
    assert not IdleTimeout("break_even").foresees(forecast, terms, 580.0, 1)


@pytest.mark.parametrize("text", ["forecast", "planned"])
def test_they_are_read_and_written(text: str) -> None:
    """As --keep takes them."""
    assert str(IdleTimeout.read(text)) == text
    with pytest.raises(ValueError, match="should be none, break_even, forecast, planned, timeout or"):
        IdleTimeout.read(text + ":60")
