"""Intervals of 90 %: made of draws, and held to what came true, so that later ones are wide enough.

What is drawn is what is believed now. What nobody can believe yet, such as jobs that come later and overtake,
is in no draw; but how far the starts of earlier jobs were beside what draws said of them is known.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Literal

import numpy as np

#: Where a true value is beside an interval.
Where = Literal["before", "within", "after"]

#: What is between the lower and the upper end of an interval: 90 of 100.
LOW, HIGH = 5.0, 95.0
#: Of so many errors at least ends are mended, and so many of the latest count. Chosen: of 20, one is beyond
#: the twentieth part at either end; 300 are some hours of a busy cluster, which changes.
_FEWEST, _MOST = 20, 300


@dataclass(frozen=True, slots=True)
class Interval:
    """A mean, and between which ends 90 of 100 are."""

    mean: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Sequence[float]) -> "Interval":
        """Of one value or more, so that another is between the ends with that chance.

        Of 19 values or fewer the ends are the least and the greatest, which hold fewer.
        """
        low, high = np.percentile(values, (LOW, HIGH), method="weibull")
        return cls(fmean(values), float(low), float(high))

    def later(self, seconds: float) -> "Interval":
        """All of it so much later."""
        return Interval(self.mean + seconds, self.low + seconds, self.high + seconds)

    def where(self, value: float, slack: float = 0.0) -> Where:
        """Where a value is; what is at most so far beside is within."""
        if value < self.low - slack:
            return "before"
        return "after" if value > self.high + slack else "within"

    def holds(self, value: float, slack: float = 0.0) -> bool:
        """Whether a value is between the ends, or at most so far beside."""
        return self.where(value, slack) == "within"


class Calibration:
    """Widens intervals by how far the latest of their kind were beside the truth (split conformal).

    Each end is moved outwards by the factor by which the ends of the latest were off, but for the twentieth
    part of them; `slack` is added to both sides of that, below which nobody minds by how many times they are
    off. Never inwards: that what was drawn is too wide cannot be told of a few that wait.
    """

    def __init__(self, slack: float) -> None:
        self._slack = slack
        self._latest: deque[tuple[Interval, float]] = deque(maxlen=_MOST)
        #: By what both ends are moved, until more is learned.
        self._factors: tuple[float, float] | None = None

    def learn(self, drawn: Interval, came: float) -> None:
        """That is what came of what was drawn; where both are nothing, nothing is learned."""
        if drawn.high > 0.0 or came > 0.0:
            self._latest.append((drawn, came))
            self._factors = None

    def mended(self, drawn: Interval) -> Interval:
        """What was drawn as it should be told, 0 at least; as it is, as long as little is known."""
        if len(self._latest) < _FEWEST:
            return drawn
        if self._factors is None:
            self._factors = (
                self._factor([each.low for each, _ in self._latest], LOW),
                self._factor([each.high for each, _ in self._latest], HIGH),
            )
        low, high = (
            max((end + self._slack) * factor - self._slack, 0.0)
            for end, factor in zip((drawn.low, drawn.high), self._factors, strict=True)
        )
        return Interval(drawn.mean, min(low, drawn.low), max(high, drawn.high))

    def _factor(self, told: Sequence[float], percent: float) -> float:
        """By what the ends that were told had to be multiplied to be beyond all but so many of the truths."""
        ratios = [
            (came + self._slack) / (each + self._slack)
            for each, (_, came) in zip(told, self._latest, strict=True)
        ]
        return float(np.percentile(ratios, percent, method="weibull"))
