"""Shapes for a job in the order of what they are expected to cost beside its cheapest."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from profiles.shapes.belief import ShapeBelief, log_seconds
from profiles.shapes.law import Floats
from profiles.shapes.runs import JobShape, ShapeError

#: Digits that count: the last ones differ from processor to processor.
_DIGITS = 6
#: Standard normal deviate of 90 %.
_TENTH = 1.2816


@dataclass(frozen=True, slots=True)
class RankedShape:
    """A shape, the seconds (median, and between which with 80 %), dollars, and expected excess.

    `excess` is the expected cost beside that of the cheapest shape, whichever that is: 1.1 is 10 % more.
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


def rank(belief: ShapeBelief, shapes: Sequence[JobShape], input_gib: float) -> list[RankedShape]:
    """Shapes for a job with so much input (GiB), best first; of equals the cheaper an hour.

    ShapeError without a shape.
    """
    excesses = _excesses(shapes, input_gib)
    found = []
    for number, shape in enumerate(shapes):
        mean, spread = belief.log_seconds(shape, input_gib)
        median, factor = float(np.exp(mean)), float(np.exp(_TENTH * spread))
        excess = round(float((belief.weights * excesses[number]).sum()), _DIGITS)
        found.append(
            RankedShape(shape, _rounded(median), _rounded(median / factor), _rounded(median * factor), excess)
        )
    return sorted(found, key=lambda each: (each.excess, each.shape.dollars_per_hour))


def _rounded(seconds: float) -> float:
    return float(f"{seconds:.{_DIGITS}g}")


def _excesses(shapes: Sequence[JobShape], input_gib: float) -> Floats:
    if not shapes:
        raise ShapeError("no shape to choose from: should be at least one")
    dollars = np.stack([shape.dollars_per_hour * np.exp(log_seconds(shape, input_gib)) for shape in shapes])
    return np.asarray(dollars / dollars.min(axis=0))
