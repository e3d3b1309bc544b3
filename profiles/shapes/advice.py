"""The shape to run a job on next: chosen by the model, or tried to learn from."""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace

from profiles.shapes.candidates import Between, OpenShape, VmKind, candidates
from profiles.shapes.choice import RankedShape, neighbours, rank
from profiles.shapes.errors import KnownTypes
from profiles.shapes.memory_needs import MemoryNeed, with_enough
from profiles.shapes.runs import JobShape, ShapeError, ShapeRun
from profiles.shapes.sources import UNPRICED, distinct

#: Executors, and cores and GiB of each, of the first job of a type. Chosen: Spark's usual sizes.
_FIRST = (2, 2.0, 4.0)
#: Different shapes that the model needs runs on: one tells no ratio of two.
ENOUGH = 2
#: No executor has less than this share of the least memory on which a run of its type finished: the law has
#: a cliff, and no end by lack of memory.
_LEAST_MEMORY = 0.5
#: Nor has a job more than so many times the cores of its type's largest run: few runs tell nothing of more.
_MOST_CORES = 2.0


@dataclass(frozen=True, slots=True)
class ShapeAdvice:
    """The shape to take, and all shapes by rank: none without a run.

    `learned` tells whether the model chose it, by `runs` on at least two different shapes.
    """

    shape: JobShape
    ranked: tuple[RankedShape, ...]
    runs: int
    shapes: int

    @property
    def learned(self) -> bool:
        """Whether the model chose it."""
        return self.shapes >= ENOUGH

    def of(self, shape: JobShape) -> RankedShape | None:
        """The prediction for a shape; None without a run."""
        return next((each for each in self.ranked if each.shape == shape), None)

    @property
    def beside(self) -> tuple[RankedShape | None, RankedShape | None]:
        """Predictions for the next smaller and the next larger shape."""
        return neighbours(self.ranked, self.shape)


def advise(
    own: Sequence[ShapeRun],
    known: KnownTypes,
    shapes: Sequence[JobShape],
    within: OpenShape,
    *,
    beta: float = 1.0,
    input_gib: float | None = None,
) -> ShapeAdvice:
    """Choose among shapes for a job of a type with these runs; `beta` weighs money, the rest time.

    Until there are runs on two different shapes, one is chosen to learn from: the nearest to 2 executors of 2
    cores and 4 GiB, then the nearest to the shape known with twice the memory (or executors, or cores, where
    that is not open). The input is by default that of the middle run. ShapeError without a shape.
    """
    if not shapes:
        raise ShapeError("no shape to choose from: should be at least one")
    seen = distinct(own)
    if not own:
        return ShapeAdvice(_nearest(shapes, _FIRST), (), 0, 0)
    if input_gib is None:
        input_gib = statistics.median_high(run.input_gib for run in own)
    deviations = known.deviations(own)
    ranked = rank(known.believe(own), shapes, input_gib, beta=beta, deviations=deviations)
    chosen = ranked[0].shape if seen >= ENOUGH else _second(own[0].shape, shapes, within)
    return ShapeAdvice(chosen, tuple(ranked), len(own), seen)


def open_shapes(
    kinds: Sequence[VmKind], within: OpenShape, own: Sequence[ShapeRun], need: MemoryNeed | None = None
) -> list[JobShape]:
    """Shapes to choose from for a type with these runs; ShapeError where no VM has room for any.

    All of them have at most twice the cores of the largest run, unless bounds leave no such shape, and meet
    the `need` of memory, or have the most that there is. Where no bound of memory is set, executors have at
    least half of the least memory that sufficed, or what they need by their peaks.
    """
    found = with_enough([*_with_memory(kinds, within, own), *_needed(kinds, within, need)], need)
    most = _MOST_CORES * max((run.shape.executors * run.shape.cores for run in own), default=math.inf)
    return [shape for shape in found if shape.executors * shape.cores <= most] or found


def _with_memory(kinds: Sequence[VmKind], within: OpenShape, own: Sequence[ShapeRun]) -> list[JobShape]:
    if own and not within.bounds_memory:
        least = _LEAST_MEMORY * min(run.shape.memory_gib for run in own)
        least = min(max(within.memory_gib.least, least), within.memory_gib.most)
        try:
            return candidates(kinds, replace(within, memory_gib=Between(least, within.memory_gib.most)))
        except ShapeError:  # today's VMs are smaller than those of the runs
            pass
    return candidates(kinds, within)


def _needed(kinds: Sequence[VmKind], within: OpenShape, need: MemoryNeed | None) -> list[JobShape]:
    """Shapes with exactly the memory that is needed by peaks, within the bounds."""
    if need is None or need.peak is None:
        return []
    memory = min(max(need.memory_gib, within.memory_gib.least), within.memory_gib.most)
    try:
        return candidates(kinds, replace(within, memory_gib=Between(memory, memory)))
    except ShapeError:  # today's VMs are smaller than those of the runs
        return []


def any_shape(within: OpenShape) -> JobShape:
    """The first shape within these bounds where no VM is known yet."""
    bounds = (within.executors, within.cores, within.memory_gib)
    count, cores, gib = (min(max(first, of.least), of.most) for first, of in zip(_FIRST, bounds, strict=True))
    return JobShape("", int(count), cores, gib, UNPRICED)


def _second(first: JobShape, shapes: Sequence[JobShape], within: OpenShape) -> JobShape:
    wanted = [float(first.executors), first.cores, first.memory_gib]
    most = max((one.memory_gib for one in shapes if one.cores == first.cores), default=math.inf)
    grows = (
        most > first.memory_gib and within.memory_gib.least < within.memory_gib.most,
        within.executors.least < within.executors.most,
        within.cores.least < within.cores.most,
    )
    if most < first.memory_gib:  # by its peaks it needs no more
        wanted[2] = most
    elif any(grows):
        wanted[(2, 0, 1)[grows.index(True)]] *= 2
    others = [shape for shape in shapes if _sizes(shape) != _sizes(first)]
    return _nearest(others or shapes, wanted)


def _nearest(shapes: Sequence[JobShape], wanted: Sequence[float]) -> JobShape:
    """The shape with sizes that differ by the least factors; of equals the cheapest."""

    def distance(shape: JobShape) -> tuple[float, float]:
        factors = zip(_sizes(shape), wanted, strict=True)
        return round(sum(abs(math.log(one / other)) for one, other in factors), 6), shape.dollars_per_hour

    return min(shapes, key=distance)


def _sizes(shape: JobShape) -> tuple[float, float, float]:
    return float(shape.executors), shape.cores, shape.memory_gib
