"""Memory that executors of a job type need, learned from failures, from restarts with more, and from peaks.

It is a bound of one executor's memory with any smaller number of cores: fewer tasks at once may need less, or
the largest one alone as much. With more cores than those of a peak, the need grows as they do.
"""

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from profiles.shapes.runs import JobShape

#: Memory for each GiB of the largest peak, to begin with. Chosen: samples miss the time between two of them,
#: and the next input may be larger; each failure raises it.
MARGIN = 1.25
#: Parts of a GiB to which a need by peaks is rounded up.
_PARTS = 8


class LargestPeak(NamedTuple):
    """The largest peak of a type, GiB, by which its need is known: of an executor with so many cores.

    With `full`, that executor had no more than the need: its tasks might use more if they had it.
    """

    memory_gib: float
    cores: float
    full: bool


class MemoryNeed(NamedTuple):
    """Memory of an executor (GiB) that was `enough` after less had failed, or by peaks; or else that failed.

    `peak` is None where the need is not by peaks.
    """

    memory_gib: float
    enough: bool
    peak: LargestPeak | None = None

    def of(self, cores: float) -> float:
        """The need of an executor with so many cores, GiB."""
        return self.memory_gib if self.peak is None else self.memory_gib * max(1.0, cores / self.peak.cores)

    def met_by(self, memory_gib: float, cores: float = 0.0) -> bool:
        """Whether so much, of an executor with so many cores, does not fall short of it."""
        needed = self.of(cores)
        return memory_gib >= needed if self.enough else memory_gib > needed


class MemoryRun(NamedTuple):
    """A job that ended with so much memory in each executor (GiB); its `need` where less failed, or that.

    `peak_gib` is the memory with which an executor of so many cores would have been full; None where unknown.
    """

    memory_gib: float
    need: MemoryNeed | None = None
    peak_gib: float | None = None
    cores: float = 1.0

    @property
    def wanted_gib(self) -> float:
        """Its peak with the usual margin, or the memory that sufficed if that is less; 0 without a peak."""
        peak = self.peak_gib or 0.0
        return min(math.ceil(_PARTS * MARGIN * peak) / _PARTS, self.memory_gib)


def need_of(ended: Iterable[MemoryRun]) -> MemoryNeed | None:
    """The largest need of a type, by its jobs, the newest first; None without one.

    A newer job that finished with less voids a need, as its input may have become smaller. Memory that failed
    counts as a peak of so much, of which the samples saw only a part.
    """
    failures: list[MemoryNeed] = []
    peaks: list[MemoryRun] = []
    least: float | None = None
    for run in ended:
        if run.need is None:
            if run.peak_gib and (least is None or run.wanted_gib <= least):
                peaks.append(run)
            least = run.memory_gib if least is None else min(least, run.memory_gib)
        elif least is None or run.need.met_by(least):
            failures.append(run.need)
    found = [*failures, *_by_peaks(peaks, [need.memory_gib for need in failures if not need.enough])]
    return max(found, key=lambda need: (need.memory_gib, not need.enough), default=None)


def _by_peaks(runs: Sequence[MemoryRun], failed: Sequence[float]) -> list[MemoryNeed]:
    """The need by the peaks of runs, where there are any, and by memory that failed."""
    if not runs:
        return []
    largest = max(runs, key=lambda run: run.wanted_gib)
    learned = max((math.ceil(_PARTS * MARGIN * memory) / _PARTS for memory in failed), default=0.0)
    peak = LargestPeak(largest.peak_gib or 0.0, largest.cores, largest.wanted_gib == largest.memory_gib)
    return [MemoryNeed(max(largest.wanted_gib, learned), enough=True, peak=peak)]


def with_enough(shapes: Sequence[JobShape], need: MemoryNeed | None) -> list[JobShape]:
    """Shapes that meet the need; where there is none, those with the most memory.

    By peaks with room to spare, no executor gets more memory than one with as many cores needs.
    """
    if need is None:
        return [*shapes]
    most = max((shape.memory_gib for shape in shapes), default=0.0)
    enough = [one for one in shapes if need.met_by(one.memory_gib, one.cores)]
    if need.peak is not None and not need.peak.full and enough:
        least: dict[float, float] = {}
        for one in enough:
            least[one.cores] = min(one.memory_gib, least.get(one.cores, math.inf))
        return [one for one in enough if one.memory_gib == least[one.cores]]
    return [one for one in shapes if need.met_by(one.memory_gib, one.cores) or one.memory_gib == most]
