"""Heap and cores of executors and drivers."""

import pytest

from framework.spark import SMALLEST_MEMORY_MIB, executor_cores, heap_mib


@pytest.mark.parametrize(
    ("memory_mib", "heap"),
    [
        pytest.param(1024, 640, id="the floor of the overhead counts"),
        pytest.param(3840, 3456, id="10 % and the floor are the same"),
        pytest.param(8001, 7200, id="10 % counts, rounded up"),
        pytest.param(896, 512, id="the smallest that works"),
    ],
)
def test_heap_is_memory_less_overhead(memory_mib: int, heap: int) -> None:
    """The heap is the memory less the larger of 10 % and 384 MiB."""
    assert heap_mib(memory_mib) == heap


@pytest.mark.parametrize("memory_mib", [895, 384, 1, 0, -5])
def test_too_little_memory_names_the_smallest_that_works(memory_mib: int) -> None:
    """Memory that leaves less than Spark starts with is refused, with the least that works."""
    with pytest.raises(ValueError, match=f"driver memory of {memory_mib} MiB.*works is 896 MiB"):
        heap_mib(memory_mib, "driver")


def test_smallest_memory_works() -> None:
    """The named smallest memory is accepted."""
    assert heap_mib(SMALLEST_MEMORY_MIB) == 512


@pytest.mark.parametrize(("cpus", "cores"), [(0.1, 1), (1.0, 1), (1.9, 1), (2.0, 2), (7.5, 7)])
def test_cores_are_whole_cpus(cpus: float, cores: int) -> None:
    """An executor runs as many tasks as it has whole cpus, and at least one."""
    assert executor_cores(cpus) == cores
