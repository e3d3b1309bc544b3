"""Requests and releases of one driver, counted by hand."""

import math

import pytest

from environment.simulation.dynamic.allocation import Allocation
from environment.types import Dynamic
from profiles.job_profile import StageShape


def begun(
    *stages: StageShape, most: int = 8, least: int = 1, first: int = 1, idle: float = 10.0
) -> Allocation:
    """A job that begins at 100 s on its first executors of two cores."""
    allocation = Allocation(stages, 2.0, Dynamic(least, first), most, idle, 100.0)
    allocation.launch([100.0] * first)
    return allocation


def requested(allocation: Allocation, until: float) -> list[tuple[float, int]]:
    """Times at which the driver wants another number of executors, and that, without it getting any."""
    found, at = [(allocation.at, allocation.target)], allocation.at
    while (at := allocation.next_change()) <= until and not allocation.over:
        allocation.move_to(at)
        if allocation.target != found[-1][1]:
            found.append((at, allocation.target))
    return found


def test_requests_double_each_second() -> None:
    """While tasks wait: one more after a second, then two, four, ... up to as many as the tasks need."""
    allocation = begun(StageShape(work=1000.0, width=12.0), most=8)
    assert requested(allocation, 110.0) == [(100.0, 1), (101.0, 2), (102.0, 4), (103.0, 6)]
    allocation = begun(StageShape(work=1000.0, width=120.0), most=8)
    assert requested(allocation, 110.0)[-1] == (103.0, 8)


def test_a_stage_that_all_its_executors_hold_asks_for_none() -> None:
    """One executor has a core for each of two tasks; a pause asks for none either."""
    allocation = begun(StageShape(pause=5.0, work=20.0, width=2.0))
    assert allocation.end() == 115.0
    assert requested(allocation, 200.0) == [(100.0, 1)]
    assert allocation.over
    assert allocation.at == 115.0


def test_executors_work_once_they_have_started() -> None:
    """20 core-seconds: two cores for 4 s, then four."""
    allocation = begun(StageShape(work=20.0, width=4.0))
    assert allocation.end() == 110.0
    allocation.move_to(102.0)
    assert allocation.missing == 1
    allocation.launch([104.0])
    assert allocation.missing == 0
    assert allocation.end() == 104.0 + (20.0 - 8.0) / 4.0


def test_the_longest_task_holds_one_executor() -> None:
    """All others are idle meanwhile, and are released once they were for the time, but for the fewest."""
    allocation = begun(StageShape(work=8.0, width=8.0, longest=30.0), first=4)
    assert allocation.end() == 130.0
    allocation.move_to(110.9)
    assert allocation.releasable() == []
    assert allocation.next_change() == 111.0
    allocation.move_to(111.0)
    assert allocation.releasable() == [3, 2, 1]
    allocation.release([3, 2, 1])
    assert allocation.releasable() == []
    assert (allocation.target, allocation.end()) == (1, 130.0)


def test_warming_is_each_executors_own() -> None:
    """It takes as long on any number of them."""
    for first in (1, 4):
        allocation = begun(StageShape(work=8.0, width=8.0, warming=3.0), first=first)
        assert allocation.end() == 103.0 + 8.0 / (2 * first)


def test_a_late_executor_warms_up_for_what_it_missed() -> None:
    """Three seconds of the stage before and two of this one, when it has started, and then it works."""
    stages = StageShape(work=2.0, width=2.0, warming=3.0), StageShape(work=40.0, width=4.0, warming=2.0)
    allocation = begun(*stages)
    allocation.move_to(107.0)  # 3 s and 1 s of the first stage, 2 s and 1 s of the second
    assert allocation.missing == 1
    allocation.launch([108.0])
    assert allocation.end() == 113.0 + (40.0 - 2 * 7.0) / 4.0


def test_shuffle_files_keep_executors() -> None:
    """Of a stage that writes them; those that had no task of it are released."""
    stages = StageShape(work=8.0, width=4.0, shuffles=True), StageShape(pause=60.0, work=1.0, width=1.0)
    allocation = begun(*stages, first=3)
    allocation.move_to(150.0)
    assert allocation.releasable() == [2]
    allocation.release([2])
    assert allocation.releasable() == []


def test_the_initial_ones_are_wanted_until_the_first_stage() -> None:
    """Then those that no task needs are not, and are released when they were idle for the time."""
    allocation = begun(StageShape(pause=20.0, work=100.0, width=2.0), first=4, idle=60.0)
    allocation.move_to(119.0)
    assert allocation.target == 4
    allocation.move_to(121.0)
    assert allocation.target == 1
    allocation.move_to(161.0)
    assert allocation.releasable() == [3, 2, 1]


def test_an_executor_that_comes_back_to_work_is_not_released() -> None:
    """A pause that is shorter than the time releases none."""
    burst = StageShape(pause=8.0, work=16.0, width=16.0)
    allocation = begun(burst, burst, burst, first=8, idle=10.0)
    while not allocation.over:
        allocation.move_to(allocation.next_change())
        assert allocation.releasable() == []
    assert allocation.at == pytest.approx(100.0 + 3 * (8.0 + 1.0))


def test_without_an_executor_it_never_ends() -> None:
    """Nothing is left to work on; its end is not known."""
    allocation = Allocation((StageShape(work=1.0, width=1.0),), 2.0, Dynamic(1, 1), 1, 10.0, 0.0)
    assert allocation.end() == math.inf
    assert allocation.missing == 1


@pytest.mark.parametrize("at", [0.0, 1e9])
def test_rounding_of_late_times_ends_nothing_later(at: float) -> None:
    """Steps end in spite of the rounding of times such as those since the epoch."""
    stages = [StageShape(pause=0.1, work=7.0, width=3.0, longest=0.3)] * 20
    allocation = Allocation(stages, 0.7, Dynamic(1, 1), 5, 10.0, at)
    allocation.launch([at])
    for _ in range(1000):
        if allocation.over:
            break
        allocation.move_to(allocation.next_change())
    assert allocation.over
    assert allocation.at == pytest.approx(at + 20 * (0.1 + 10.0))
