"""Memory that executors of a job type need, learned from failures, from restarts with more, and from peaks.

It is a bound of one executor's memory with any smaller number of cores: fewer tasks at once may need less, or
the largest one alone as much. With more cores than those of a peak, the need grows as they do.
"""

import math
import statistics
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from profiles.shapes.runs import JobShape

#: Memory for each GiB of the largest peak, at least: samples miss the time between two of them.
MARGIN = 1.25
#: Parts of a GiB to which a need by peaks is rounded up.
_PARTS = 8
#: Before there are peaks, their logarithms are expected to differ by this standard deviation from job to job,
#: as inputs do; the expectation counts as so many peaks, so that few that are alike do not void it.
_SPREAD, _SPREAD_PEAKS = 0.4, 2
#: Standard normal deviate that 19 of 20 jobs stay below.
_NINETEEN_OF_TWENTY = 1.645


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
    """A job that ended with so much memory in each executor (GiB), whether it `finished` with it or not.

    `failed_gib` is the memory that failed, before a restart with more or at the end; None where none did.
    `peak_gib` is the memory with which an executor of so many cores would have been full; None where unknown.
    """

    memory_gib: float
    peak_gib: float | None = None
    cores: float = 1.0
    finished: bool = True
    failed_gib: float | None = None

    @property
    def wanted_gib(self) -> float:
        """Its peak with the least margin, or the memory that sufficed if that is less; 0 without a peak."""
        return min(_with_margin(self.peak_gib or 0.0), self.memory_gib)


def need_of(ended: Iterable[MemoryRun]) -> MemoryNeed | None:
    """The largest need of a type, by its jobs, the newest first; None without one.

    A newer job that finished with less voids a need, as its input may have become smaller. Memory that failed
    counts as a peak of so much, of which the samples saw only a part.
    """
    failed: list[float] = []
    needs: list[MemoryNeed] = []
    peaks: list[MemoryRun] = []
    least = math.inf
    for run in ended:
        if run.failed_gib is not None and run.failed_gib < least:
            failed.append(run.failed_gib)
        if not run.finished:
            continue
        if run.peak_gib:
            if run.wanted_gib <= least:
                peaks.append(run)
        elif run.failed_gib is not None and run.memory_gib <= least:
            needs.append(MemoryNeed(run.memory_gib, enough=True))
        least = min(least, run.memory_gib)
    needs += [MemoryNeed(memory, enough=False) for memory in failed]
    needs += _by_peaks(peaks, failed)
    return max(needs, key=lambda need: (need.memory_gib, not need.enough), default=None)


def _by_peaks(runs: Sequence[MemoryRun], failed: Sequence[float]) -> list[MemoryNeed]:
    """The need by the peaks of runs, where there are any, and by memory that failed."""
    if not runs:
        return []
    largest = max(runs, key=lambda run: run.wanted_gib)
    next_one = _in_eighths(_likely_bound([run.peak_gib or 0.0 for run in runs]))
    most = max(run.memory_gib for run in runs)
    learned = max(map(_with_margin, failed), default=0.0)
    peak = LargestPeak(largest.peak_gib or 0.0, largest.cores, largest.wanted_gib == largest.memory_gib)
    return [MemoryNeed(max(largest.wanted_gib, min(next_one, most), learned), enough=True, peak=peak)]


def _likely_bound(peaks: Sequence[float]) -> float:
    """Memory (GiB) that the next job's peak is below, 19 times of 20, by at least one peak.

    Logarithms of peaks are taken as normal, of unknown mean and spread: the fewer there are, and the more
    they differ, the higher is the bound.
    """
    logs = [math.log(peak) for peak in peaks]
    mean = statistics.fmean(logs)
    squares = _SPREAD_PEAKS * _SPREAD**2 + sum((each - mean) ** 2 for each in logs)
    deviation = math.sqrt(squares / (_SPREAD_PEAKS + len(logs) - 1) * (1 + 1 / len(logs)))
    return math.exp(mean + _NINETEEN_OF_TWENTY * deviation)


def _with_margin(memory_gib: float) -> float:
    return _in_eighths(MARGIN * memory_gib)


def _in_eighths(memory_gib: float) -> float:
    return math.ceil(_PARTS * memory_gib) / _PARTS


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
