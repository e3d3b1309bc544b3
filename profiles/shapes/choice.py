"""Shapes for a job in the order of their expected cost and duration, beside its best ones."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from profiles.shapes.belief import ShapeBelief, log_seconds
from profiles.shapes.law import Floats
from profiles.shapes.runs import JobShape, ShapeError

#: Digits that count: the last ones differ from processor to processor.
_DIGITS = 6
#: Standard normal deviate of 90 %.
TENTH = 1.2816


@dataclass(frozen=True, slots=True)
class RankedShape:
    """A shape, the seconds (median, and between which with 80 %), dollars, and expected excess.

    `excess` is the expected cost beside that of the cheapest shape, whichever that is: 1.1 is 10 % more; with
    a `beta` below 1 it is weighed with the expected time beside that of the fastest shape.
    """

    shape: JobShape
    seconds: float
    least: float
    most: float
    excess: float

    @property
    def dollars(self) -> float:
        """Dollars at the median of the seconds."""
        return self.shape.dollars(self.seconds)


def rank(
    belief: ShapeBelief,
    shapes: Sequence[JobShape],
    input_gib: float,
    *,
    beta: float = 1.0,
    deviations: float = TENTH,
) -> list[RankedShape]:
    """Shapes for a job with so much input (GiB), best first; of equals the cheaper an hour.

    `beta` weighs money, the rest time; `deviations` reach from the mean to the ends of an interval
    (`KnownTypes.deviations`). ShapeError without a shape.
    """
    if not shapes:
        raise ShapeError("no shape to choose from: should be at least one")
    least = _least(shapes, input_gib)
    found = []
    for shape in shapes:
        mean, spread = belief.log_seconds(shape, input_gib)
        median, factor = float(np.exp(mean)), float(np.exp(deviations * spread))
        excesses = _excesses(shape, input_gib, least, beta)
        excess = round(float((belief.weights * excesses).sum()), _DIGITS)
        found.append(
            RankedShape(shape, _rounded(median), _rounded(median / factor), _rounded(median * factor), excess)
        )
    return sorted(found, key=lambda each: (each.excess, each.shape.dollars_per_hour))


def neighbours(
    ranked: Sequence[RankedShape], shape: JobShape
) -> tuple[RankedShape | None, RankedShape | None]:
    """The next smaller and the next larger shape than this one; None where there is none.

    They differ in their number of executors alone, or where none does, in cores and the memory that goes
    best with them, or else in memory.
    """
    for number in (0, 1, 2):
        others = [each for each in ranked if _like(each.shape, number) == _like(shape, number)]
        size = _SIZES[number]
        below = [each for each in others if size(each.shape) < size(shape)]
        above = [each for each in others if size(each.shape) > size(shape)]
        if below or above:
            return (
                max(below, key=lambda each: size(each.shape), default=None),
                min(above, key=lambda each: size(each.shape), default=None),
            )
    return None, None


#: Amounts by which shapes are larger or smaller, in the order in which they are looked at.
_SIZES: tuple[Callable[[JobShape], float], ...] = (
    lambda shape: shape.executors,
    lambda shape: shape.cores,
    lambda shape: shape.memory_gib,
)


def _like(shape: JobShape, number: int) -> tuple[float, ...]:
    """The amounts that neighbours in this one share."""
    return ((shape.cores, shape.memory_gib), (shape.executors,), (shape.executors, shape.cores))[number]


def _rounded(seconds: float) -> float:
    return float(f"{seconds:.{_DIGITS}g}")


class _Least(NamedTuple):
    """The least of all shapes by each law: dollars and seconds for one core-second of work a GiB."""

    dollars: Floats
    seconds: Floats


def _least(shapes: Sequence[JobShape], input_gib: float) -> _Least:
    """Shape by shape: a table of all shapes by all laws would take hundreds of MiB."""
    infinite = np.full_like(log_seconds(shapes[0], input_gib), np.inf)
    least = _Least(infinite, infinite)
    for shape in shapes:
        seconds = np.exp(log_seconds(shape, input_gib))
        dollars = shape.dollars_per_hour * seconds
        least = _Least(np.minimum(least.dollars, dollars), np.minimum(least.seconds, seconds))
    return least


def _excesses(shape: JobShape, input_gib: float, least: _Least, beta: float) -> Floats:
    seconds = np.exp(log_seconds(shape, input_gib))
    excesses = shape.dollars_per_hour * seconds / least.dollars
    if beta < 1:
        excesses = beta * excesses + (1 - beta) * seconds / least.seconds
    return np.asarray(excesses)
