"""Price of a spot VM over time, for simulations to play; policies know the present price, not later ones."""

import csv
import io
import math
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from conf.loader import ConfigError, plain_value
from conf.units import SECONDS_PER_HOUR
from environment.types import FloatArray

_COLUMNS = ("at", "price_per_hour")


@dataclass(frozen=True, slots=True)
class PriceHistory:
    """Prices, dollars per hour, and since when each holds: seconds, ascending, the first 0."""

    times: tuple[float, ...]
    prices: tuple[float, ...]

    def __post_init__(self) -> None:
        if not self.times or len(self.times) != len(self.prices) or self.times[0] != 0.0:
            raise ValueError("a price history should begin at 0, with a price for each time")
        if any(later <= earlier for earlier, later in zip(self.times, self.times[1:], strict=False)):
            raise ValueError("the times of a price history should be ascending")
        if any(not 0 <= price < math.inf for price in self.prices):
            raise ValueError("the prices of a price history should be 0 or more")

    def at(self, seconds: float) -> float:
        """The price then."""
        return self.prices[max(bisect_right(self.times, seconds) - 1, 0)]

    def next_after(self, seconds: float) -> float:
        """When the price changes next; infinity when it does not."""
        later = bisect_right(self.times, seconds)
        return self.times[later] if later < len(self.times) else math.inf

    def dollars(self, until: FloatArray) -> FloatArray:
        """Cost of a VM from 0 to each of these times, dollars."""
        times, prices = np.array(self.times), np.array(self.prices) / SECONDS_PER_HOUR
        before = np.concatenate(([0.0], np.cumsum(np.diff(times) * prices[:-1])))
        last = np.maximum(np.searchsorted(times, until, side="right") - 1, 0)
        paid: FloatArray = before[last] + (until - times[last]) * prices[last]
        return paid


def read_prices(path: Path) -> PriceHistory:
    """A price history from a CSV file with the columns `at` and `price_per_hour`, or a YAML list of the same.

    Times are seconds, or dates with a time of day (`2026-03-01T12:00:00Z`), which are counted from the first.
    They may come in any order, as clouds list the newest first. ConfigError with the fault.
    """
    rows = sorted(_rows(path))
    if not rows:
        raise ConfigError(f"{path}: has no prices")
    first = rows[0][0]
    try:
        return PriceHistory(tuple(at - first for at, _ in rows), tuple(price for _, price in rows))
    except ValueError as error:
        raise ConfigError(f"{path}: {error}") from None


def _rows(path: Path) -> Iterator[tuple[float, float]]:
    try:
        text = path.read_text(encoding="utf-8-sig")
        if path.suffix == ".csv":
            found: Any = list(csv.DictReader(io.StringIO(text, newline=""), strict=True))
        else:
            found = plain_value(text, str(path))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise ConfigError(f"{path}: cannot be read: {error}") from None
    wanted = "each price should have at (seconds, or a date with its time) and price_per_hour (dollars)"
    if not isinstance(found, list):
        raise ConfigError(f"{path}: should be a list of prices; {wanted}")
    for number, row in enumerate(found, 1):
        if not isinstance(row, dict) or {*row} != {*_COLUMNS}:
            raise ConfigError(f"{path}: price {number}: {wanted}")
        try:
            yield _seconds(row["at"]), _number(row["price_per_hour"])
        except (TypeError, ValueError, OverflowError):
            raise ConfigError(f"{path}: price {number}: {wanted}, found {str(row)[:200]}") from None


def _seconds(value: object) -> float:
    if isinstance(value, datetime):
        return (value if value.tzinfo else value.replace(tzinfo=UTC)).timestamp()
    try:
        return _number(value)
    except ValueError:
        return _seconds(datetime.fromisoformat(str(value)))


def _number(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise ValueError(value)
    number = float(value)
    if not math.isfinite(number):
        raise ValueError(value)
    return number
