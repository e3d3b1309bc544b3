"""Days and calendar months of UTC as texts, as charges have them: 2026-11-22 and 2026-11."""

from datetime import UTC, datetime, timedelta
from functools import lru_cache

from conf.units import SECONDS_PER_DAY

_MONTH = len("2026-11")


def day_of(at: float) -> str:
    """The day of a time in seconds since the epoch: 2026-11-22."""
    return _day(int(at // SECONDS_PER_DAY))


@lru_cache
def _day(number: int) -> str:
    return datetime.fromtimestamp(number * SECONDS_PER_DAY, UTC).date().isoformat()


def month_of(day: str) -> str:
    """The month of a day, or of itself: 2026-11 of 2026-11-22."""
    return day[:_MONTH]


def midnight(day: str) -> float:
    """When a day begins, seconds since the epoch; ValueError for any other text."""
    return _begin(day).timestamp()


def next_day(day: str) -> float:
    """When the day after that one begins, seconds since the epoch."""
    return (_begin(day) + timedelta(days=1)).timestamp()


def next_month(month: str) -> float:
    """When the calendar month after that one begins, seconds since the epoch."""
    return (_begin(f"{month}-01") + timedelta(days=32)).replace(day=1).timestamp()


def minute(at: float) -> str:
    """A time in seconds since the epoch, in words: 2026-11-23 00:00 UTC."""
    return f"{datetime.fromtimestamp(at, UTC):%Y-%m-%d %H:%M} UTC"


def _begin(day: str) -> datetime:
    return datetime.fromisoformat(day).replace(tzinfo=UTC)
