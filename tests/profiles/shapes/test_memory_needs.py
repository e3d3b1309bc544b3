"""The memory that executors of a type need, by peaks and failures."""

import pytest

from profiles.shapes.advice import advise, open_shapes
from profiles.shapes.candidates import OpenShape, VmKind
from profiles.shapes.errors import KnownTypes
from profiles.shapes.memory_needs import LargestPeak, MemoryNeed, MemoryRun, need_of, with_enough
from profiles.shapes.runs import JobShape, ShapeRun
from profiles.shapes.sources import UNPRICED

_KINDS = [VmKind("m", 8, 8, 32, 0.4)]
FAILED = MemoryRun(2.0, finished=False, failed_gib=2.0)


def _alike(count: int, peak: float, memory: float = 8.0) -> list[MemoryRun]:
    return [MemoryRun(memory, peak)] * count


@pytest.mark.parametrize(
    ("ended", "needed", "full"),
    [
        # Of one job it is not known how much the next one differs.
        ([MemoryRun(8.0, 2.0)], 5.125, False),
        (_alike(2, 2.0), 3.875, False),
        # Many that are alike have the least margin.
        (_alike(32, 2.0), 2.5, False),
        # The more they differ, the wider is the margin.
        ([MemoryRun(8.0, 2.0), MemoryRun(8.0, 2.0), MemoryRun(8.0)], 3.875, False),
        ([MemoryRun(8.0, 1.0), MemoryRun(8.0, 4.0), MemoryRun(8.0)], 7.5, False),
        # No more than any of them had.
        ([MemoryRun(4.0, 2.0)], 4.0, False),
        # What sufficed suffices, but more was not tried.
        ([MemoryRun(8.0, 7.0)], 8.0, True),
        # A newer job that finished with less voids a peak.
        ([MemoryRun(2.0, 1.0), MemoryRun(8.0, 4.0)], 2.0, False),
        # What failed was a peak that samples saw a part of.
        ([FAILED, *_alike(32, 1.0)], 2.5, False),
        ([*_alike(32, 1.0, 1.5), FAILED], 1.25, False),
        # A restart with more shows a peak as well, and that the memory before is too little.
        ([MemoryRun(4.0, 1.0, failed_gib=2.0), *_alike(32, 1.0)], 2.5, False),
        ([*_alike(32, 1.0, 1.5), MemoryRun(4.0, 1.0, failed_gib=2.0)], 1.25, False),
        # Without a peak, what sufficed after a restart is never gone below.
        ([MemoryRun(4.0, failed_gib=2.0), *_alike(32, 1.0)], 4.0, None),
    ],
)
def test_needs_by_peaks(ended: list[MemoryRun], needed: float, full: bool | None) -> None:
    """The newest job comes first; `full` None: the need is not by peaks."""
    need = need_of(ended)
    assert need is not None
    assert need.memory_gib == needed
    assert (None if need.peak is None else need.peak.full) == full


def test_without_peaks_nothing_is_needed() -> None:
    """A peak of nothing is none."""
    assert need_of([MemoryRun(8.0), MemoryRun(8.0, 0.0)]) is None


def test_more_cores_need_more_and_none_gets_more_than_it_needs() -> None:
    """Fewer cores need as much: a single task may be the large one."""
    need = MemoryNeed(3.0, enough=True, peak=LargestPeak(2.4, 2, full=False))
    shapes = open_shapes(_KINDS, OpenShape.of((2, 2), (1, 8), (None, None)), [], need)
    assert {(shape.cores, shape.memory_gib) for shape in shapes} == {(1, 3), (2, 3), (4, 8), (8, 16)}
    # Bounds of the user count, and VMs that are too small.
    within = OpenShape.of((2, 2), (2, 2), (4096, 8192))
    assert {shape.memory_gib for shape in open_shapes(_KINDS, within, [], need)} == {4}
    small = [VmKind("s", 8, 2, 2, 0.1)]
    assert {
        s.memory_gib for s in open_shapes(small, OpenShape.of((2, 2), (2, 2), (None, None)), [], need)
    } == {2}


def test_full_executors_may_have_more() -> None:
    """Their peak is where their memory ended."""
    need = MemoryNeed(4.0, enough=True, peak=LargestPeak(3.6, 2, full=True))
    shapes = [JobShape("", 2, 2, memory, UNPRICED) for memory in (2, 4, 8)]
    assert [shape.memory_gib for shape in with_enough(shapes, need)] == [4, 8]


@pytest.mark.parametrize(
    ("cores", "executors", "tried"),
    [((2, 2), (2, 2), (2, 2, 3)), ((1, 8), (1, 16), (2, 2, 3)), ((1, 8), (2, 2), (2, 2, 3))],
)
def test_the_second_run_tries_the_memory_that_is_needed(
    cores: tuple[float, float], executors: tuple[float, float], tried: tuple[float, float, float]
) -> None:
    """Not twice the memory, of which most was not used."""
    need = MemoryNeed(3.0, enough=True, peak=LargestPeak(2.4, 2, full=False))
    within = OpenShape.of(executors, cores, (None, None))
    run = ShapeRun("etl", "etl", 16.0, JobShape("", 2, 2.0, 8.0, UNPRICED), 100.0)
    found = advise([run], KnownTypes([]), open_shapes(_KINDS, within, [run], need), within).shape
    assert (found.executors, found.cores, found.memory_gib) == tried
