"""The law of a job type: serial part, memory and its cliff, speed, units."""

import numpy as np
import pytest

from profiles.shapes.law import RESERVED_GIB, Law, candidate_laws
from profiles.shapes.runs import JobShape, ShapeError, ShapeRun

_LAW = Law(serial=0.01, disk=0.001, spilling=1.0, working_set=1.0, crowding=0.01, steepness=4.0)


def _shape(executors: int = 8, cores: float = 4, memory: float = 32, speed: float = 1.0) -> JobShape:
    return JobShape("vm", executors, cores, memory, float(executors), speed)


def _seconds(shape: JobShape, input_gib: float = 100.0, law: Law = _LAW) -> float:
    return float(law.seconds(shape, input_gib))


def test_work_is_in_core_seconds_a_gib() -> None:
    """One core with memory enough takes a second a GiB, and the serial part of it."""
    assert _seconds(_shape(1, 1, 1000), 100.0) == pytest.approx(101.0, rel=1e-6)
    assert _seconds(_shape(memory=1000), 200.0) == pytest.approx(2 * _seconds(_shape(memory=1000), 100.0))


def test_no_number_of_cores_goes_below_the_serial_part() -> None:
    """Amdahl's law, where disks are no limit."""
    assert _seconds(_shape(1000, 64, 1000)) == pytest.approx(1.0, rel=0.01)


def test_speed_counts_as_cores_do() -> None:
    """A core of twice the speed is two."""
    assert _seconds(_shape(cores=4, speed=2.0, memory=1000)) == pytest.approx(
        _seconds(_shape(cores=8, memory=1000)), rel=1e-3
    )


def test_below_the_working_set_is_a_cliff() -> None:
    """More memory never costs time: nothing above the working set, many times the seconds below it."""
    fits = 100.0 / 8 + RESERVED_GIB
    on = [_seconds(_shape(memory=memory)) for memory in (1, 4, 8, 12, fits, 2 * fits, 10 * fits)]
    assert on == sorted(on, reverse=True)
    assert on[4] == pytest.approx(on[6], rel=1e-3)
    assert on[1] > 3 * on[4]
    # Steepness 4: a quarter missing is as bad as all.
    assert _seconds(_shape(memory=0.75 * 100 / 8 + RESERVED_GIB)) == pytest.approx(on[1], rel=0.01)


def test_what_spills_is_divided_by_vms_and_not_by_cores() -> None:
    """Twice the VMs halve it, twice the cores do not."""
    law = _LAW._replace(working_set=5.0)
    spilling = _seconds(_shape(4, 16, 32), law=law)
    assert _seconds(_shape(8, 16, 16), law=law) < 0.6 * spilling
    assert _seconds(_shape(4, 32, 32), law=law) >= spilling


def test_candidates_are_the_same_everywhere_and_differ() -> None:
    """Halton's sequence: no two laws share a number, and all are within their bounds."""
    laws = candidate_laws(64)
    assert all(len(np.unique(values)) == 64 for values in laws)
    assert laws.serial[0] == pytest.approx(1e-2)  # type: ignore[index]


@pytest.mark.parametrize("wrong", [0.0, -1.0, float("nan"), float("inf")])
def test_what_is_not_above_zero_is_refused(wrong: float) -> None:
    """Negative hours, and what is no number."""
    with pytest.raises(ShapeError, match=r"seconds: .* should be a number above 0"):
        ShapeRun("sort", "sort 1", 1.0, _shape(), wrong)
    with pytest.raises(ShapeError, match=r"memory_gib: .* should be a number above 0"):
        _shape(memory=wrong)
