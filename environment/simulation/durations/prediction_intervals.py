"""Intervals of 90 %, made of draws and calibrated by outcomes, so that later ones are wide enough.

The draws come from present beliefs. Events beyond present belief, such as jobs that come later and overtake,
are in no draw; but the errors of earlier jobs' predicted starts are known.
"""

from bisect import bisect_left
from collections import deque
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Literal

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from environment.types import FloatArray

#: Where a true value is beside an interval.
Where = Literal["before", "within", "after"]

#: Percentiles of the lower and the upper end of an interval: 90 of 100 lie between them.
LOW, HIGH = 5.0, 95.0
#: Least number of errors by which ends are corrected, and number of the latest that count. Chosen: of 20, one
#: is beyond the twentieth part at either end; 300 are some hours of a busy cluster, which changes.
_FEWEST, _MOST = 20, 300
#: Number of errors of about equal drawn values that correct an end: a job with a long wait is overtaken by
#: more than one that starts soon. Chosen: three are beyond the twentieth part.
_NEAR = 60


@dataclass(frozen=True, slots=True)
class Interval:
    """A mean, and between which ends 90 of 100 are."""

    mean: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Sequence[float]) -> "Interval":
        """Build an interval from one value or more, so that another is between its ends with that chance.

        Of 19 values or fewer the ends are the least and the greatest, which hold fewer.
        """
        ordered = sorted(values)
        return cls(fmean(ordered), _percentile(ordered, LOW), _percentile(ordered, HIGH))

    def later(self, seconds: float) -> "Interval":
        """All of it so much later."""
        return Interval(self.mean + seconds, self.low + seconds, self.high + seconds)

    def where(self, value: float, slack: float = 0.0) -> Where:
        """Position of a value; within `slack` beside the interval counts as within."""
        if value < self.low - slack:
            return "before"
        return "after" if value > self.high + slack else "within"

    def holds(self, value: float, slack: float = 0.0) -> bool:
        """Whether a value is between the ends, or at most so far beside."""
        return self.where(value, slack) == "within"


def _percentile(ordered: Sequence[float], percent: float) -> float:
    """Percentile by Weibull's method, equal to `np.percentile` to the last digit.

    On a few values it takes a hundredth of the time, and each waiting job has three intervals.
    """
    part, count = percent / 100.0, len(ordered)
    place = count * part + part - 1.0
    if place <= 0.0:
        return ordered[0]
    if place >= count - 1:
        return ordered[-1]
    number = int(place)
    low, high, beyond = ordered[number], ordered[number + 1], place - number
    return high - (high - low) * (1.0 - beyond) if beyond >= 0.5 else low + (high - low) * beyond


class Calibration:
    """Widens intervals by the errors of the latest of their kind (split conformal).

    Each end is moved outwards by the factor by which the ends of some of the latest were off, but for the
    twentieth part of them: of those whose upper ends are nearest. `slack` is added to both sides of that,
    below which the factor does not matter. Never inwards: a few waiting jobs cannot show that drawn
    intervals are too wide.
    """

    def __init__(self, slack: float) -> None:
        self._slack = slack
        self._latest: deque[tuple[Interval, float]] = deque(maxlen=_MOST)
        #: Factors that move ends, until more is learned.
        self._factors: _Factors | None = None

    def learn(self, drawn: Interval, came: float) -> None:
        """Record the outcome of a drawn interval; where both are zero, nothing is learned."""
        if drawn.high > 0.0 or came > 0.0:
            self._latest.append((drawn, came))
            self._factors = None

    def mended(self, drawn: Interval) -> Interval:
        """Calibrate a drawn interval, 0 at least; unchanged as long as little is known."""
        if len(self._latest) < _FEWEST:
            return drawn
        if self._factors is None:
            self._factors = _Factors.of(self._latest, self._slack)
        low, high = (
            max((end + self._slack) * factor - self._slack, 0.0)
            for end, factor in zip((drawn.low, drawn.high), self._factors.near(drawn.high), strict=True)
        )
        return Interval(drawn.mean, min(low, drawn.low), max(high, drawn.high))


@dataclass(frozen=True, slots=True)
class _Factors:
    """Factors on the ends, [N - near + 1] each: for the first `near` by their upper ends, and so on."""

    #: The upper ends that were drawn, sorted, [N].
    ends: list[float]
    low: FloatArray
    high: FloatArray

    @classmethod
    def of(cls, latest: Collection[tuple[Interval, float]], slack: float) -> "_Factors":
        """Compute the factors from drawn intervals and their outcomes."""
        ordered = sorted(latest, key=lambda each: each[0].high)
        came = np.array([came for _, came in ordered]) + slack
        lows, highs = (
            np.array(ends) + slack
            for ends in zip(*((each.low, each.high) for each, _ in ordered), strict=True)
        )
        near = min(_NEAR, len(ordered))
        low, high = (
            np.percentile(sliding_window_view(came / told, near), percent, axis=1, method="weibull")
            for told, percent in ((lows, LOW), (highs, HIGH))
        )
        return cls([each.high for each, _ in ordered], low, high)

    def near(self, end: float) -> tuple[float, float]:
        """Factors of the intervals nearest to an upper end, lower and upper."""
        near = len(self.ends) - len(self.low) + 1
        first = min(max(bisect_left(self.ends, end) - near // 2, 0), len(self.low) - 1)
        return float(self.low[first]), float(self.high[first])
