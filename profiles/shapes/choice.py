"""Shapes for a job in the order of what they are expected to cost, and to take, beside its best ones."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

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
    excesses = _excesses(shapes, input_gib, beta)
    found = []
    for number, shape in enumerate(shapes):
        mean, spread = belief.log_seconds(shape, input_gib)
        median, factor = float(np.exp(mean)), float(np.exp(deviations * spread))
        excess = round(float((belief.weights * excesses[number]).sum()), _DIGITS)
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


def _excesses(shapes: Sequence[JobShape], input_gib: float, beta: float) -> Floats:
    seconds = np.exp([log_seconds(shape, input_gib) for shape in shapes])
    dollars = np.array([[shape.dollars_per_hour] for shape in shapes]) * seconds
    excesses = dollars / dollars.min(axis=0)
    if beta < 1:
        excesses = beta * excesses + (1 - beta) * seconds / seconds.min(axis=0)
    return np.asarray(excesses)
