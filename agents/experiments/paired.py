"""Numbers over seeds, and their differences seed by seed, by which comparisons are judged.

A difference is told from none where its mean is over two standard errors, over enough pairs. All words of
comparisons ("cheaper", "reached") follow from that.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import numpy as np

#: Pairs without which nothing is judged: seeds of a workload, and days or windows of a trace.
LEAST_PAIRS, LEAST_WINDOWS = 12, 4
#: Standard errors beyond which a difference is clear.
CLEAR = 2.0


@dataclass(frozen=True, slots=True)
class Statistic:
    """A number by seed, its mean and its sample standard deviation (0 for a single one; NaN without any)."""

    values: Mapping[int, float] = field(default_factory=lambda: MappingProxyType({}))

    @classmethod
    def of(cls, values: Sequence[float]) -> "Statistic":
        """Values of the seeds 0, 1, ..."""
        return cls(dict(enumerate(values)))

    @property
    def mean(self) -> float:
        """Mean over seeds."""
        return float(np.mean(list(self.values.values()))) if self.values else float("nan")

    @property
    def spread(self) -> float:
        """Sample standard deviation over seeds."""
        return float(np.std(list(self.values.values()), ddof=1)) if len(self.values) > 1 else 0.0


@dataclass(frozen=True, slots=True)
class PairedDifference:
    """A mean difference over pairs and its standard error, as shares (0.01: 1 % more).

    It is judged from `least` pairs on.
    """

    mean: float
    error: float
    pairs: int
    least: int = LEAST_PAIRS

    @property
    def enough(self) -> bool:
        """Whether there are enough pairs to judge by."""
        return self.pairs >= self.least

    @property
    def clear(self) -> bool:
        """Whether it is over two standard errors, from enough pairs."""
        return self.enough and abs(self.mean) > CLEAR * self.error

    @property
    def lower(self) -> bool:
        """Whether it is clearly below zero."""
        return self.clear and self.mean < 0

    @property
    def higher(self) -> bool:
        """Whether it is clearly above zero."""
        return self.clear and self.mean > 0

    def at_most(self, bound: float) -> bool | None:
        """Whether it is at most `bound`, by two standard errors; None where that is open."""
        if not self.enough:
            return None
        if self.mean + CLEAR * self.error <= bound:
            return True
        return False if self.mean - CLEAR * self.error > bound else None

    def below(self, bound: float = 0.0) -> bool | None:
        """Whether it is less than `bound`, by two standard errors; None where that is open."""
        at_least = self.at_least(bound)
        return None if at_least is None else not at_least

    def above(self, bound: float = 0.0) -> bool | None:
        """Whether it is more than `bound`, by two standard errors; None where that is open."""
        at_most = self.at_most(bound)
        return None if at_most is None else not at_most

    def at_least(self, bound: float) -> bool | None:
        """Whether it is at least `bound`, by two standard errors; None where that is open."""
        return PairedDifference(-self.mean, self.error, self.pairs, self.least).at_most(-bound)

    def __str__(self) -> str:
        if not np.isfinite(self.error):
            return f"{100 * self.mean:+.1f} % ({'one pair' if self.pairs == 1 else 'a pair begins at 0'})"
        return f"{100 * self.mean:+.1f} ± {100 * self.error:.1f} %{'*' if self.clear else ''}"


def standard_error(values: Any) -> float:
    """Standard error of the mean of values, [N]; infinite for a single one."""
    return float(np.std(values, ddof=1) / np.sqrt(len(values))) if len(values) > 1 else float("inf")


def difference(one: Statistic, other: Statistic, least: int = LEAST_PAIRS) -> PairedDifference:
    """By which share `one` is above `other`, seed by seed.

    ValueError where they are of different seeds, or of none.
    """
    if not one.values or one.values.keys() != other.values.keys():
        raise ValueError(f"no pairs: seeds {sorted(one.values)} beside seeds {sorted(other.values)}")
    pairs: Any = np.array([[one.values[seed], other.values[seed]] for seed in one.values])
    with np.errstate(divide="ignore", invalid="ignore"):
        shares = np.where(pairs[:, 0] == pairs[:, 1], 0.0, pairs[:, 0] / pairs[:, 1] - 1.0)
    if not np.isfinite(shares).all():
        # Nothing is a share of 0: the means are compared, and nothing is judged.
        mean = one.mean / other.mean - 1.0 if other.mean else float("nan")
        return PairedDifference(mean, float("inf"), len(shares), least)
    return PairedDifference(float(shares.mean()), standard_error(shares), len(shares), least)


def over_cases(found: Sequence[PairedDifference]) -> PairedDifference:
    """The mean over cases of their differences; each case is a pair."""
    means = [each.mean for each in found]
    return PairedDifference(float(np.mean(means)), standard_error(means), len(means))


def told(found: PairedDifference, lower: str, higher: str) -> str:
    """A difference in words: `4.8 ± 1.0 % cheaper`, or that it cannot be told from none."""
    if not found.enough:
        return f"{found}, not judged: {found.pairs} of {found.least} pairs"
    if not found.clear:
        return f"{found}, not distinguishable"
    return f"{100 * abs(found.mean):.1f} ± {100 * found.error:.1f} % {lower if found.mean < 0 else higher}"


def every(judgements: Iterable[bool | None]) -> bool | None:
    """Whether all hold: False where one fails, None where none fails but one is open."""
    found = list(judgements)
    return False if False in found else None if None in found else True


def verdict(holds: bool | None, yes: str = "yes", no: str = "no", unknown: str = "open") -> str:
    """The word for a judgement that may be open."""
    return unknown if holds is None else yes if holds else no


#: The definition of differences in every report.
METHOD = (
    "A difference is the mean ± standard error of the relative differences on the same seed. A star marks "
    f"a mean over {CLEAR:g} standard errors, over at least {LEAST_PAIRS} seeds ({LEAST_WINDOWS} days or "
    "windows of a trace). A claim holds or fails by two standard errors; otherwise it is open."
)
