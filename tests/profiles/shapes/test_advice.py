"""The shape to run a job on: candidates within bounds, the first two tries, then the model's choice."""

import pytest

from profiles.shapes.advice import advise, open_shapes
from profiles.shapes.candidates import Between, OpenShape, VmKind, candidates
from profiles.shapes.choice import neighbours
from profiles.shapes.errors import KnownTypes
from profiles.shapes.law import Law
from profiles.shapes.runs import JobShape, ShapeError, ShapeRun

_KINDS = [VmKind("small", 4, 4, 16, 0.2), VmKind("large", 2, 16, 64, 1.0)]
_LAW = Law(0.002, 0.002, 3.0, 1.0, 0.02, 3.0)
_NONE = KnownTypes([])


def _run(executors: int, cores: float, memory: float) -> ShapeRun:
    shape = JobShape("", executors, cores, memory, 1.0)
    return ShapeRun("etl", "etl", 20.0, shape, 50 * float(_LAW.seconds(shape, 20.0)))


def test_candidates_fit_the_vms_together_and_cost_a_share_of_them() -> None:
    """An executor costs its largest share; the cheapest VMs come first."""
    found = {(s.executors, s.cores, s.memory_gib): s for s in candidates(_KINDS, OpenShape())}
    assert found[1, 4, 16].vm == "small"
    assert found[1, 4, 16].dollars_per_hour == pytest.approx(0.2)
    assert found[4, 1, 16].dollars_per_hour == pytest.approx(0.8)  # all memory of each
    assert found[6, 4, 16].dollars_per_hour == pytest.approx(4 * 0.2 + 2 * 0.25)
    assert (16, 4, 16) not in found  # there is room for 12
    assert (12, 4, 16) in found
    assert all(executors * cores <= 48 for executors, cores, _ in found)


def test_bounds_are_kept_and_are_candidates_themselves() -> None:
    """Also where they are no steps."""
    within = OpenShape.of((3, 7), (2, 2), (3 * 1024, 9 * 1024))
    found = candidates(_KINDS, within)
    assert {shape.executors for shape in found} == {3, 4, 6, 7}
    assert {shape.cores for shape in found} == {2}
    assert {shape.memory_gib for shape in found} == {3, 4, 8, 9}
    assert all(within.includes(shape) for shape in found)


@pytest.mark.parametrize(
    ("within", "told"),
    [
        (OpenShape.of((None, None), (32, 32), (None, None)), "room for 1 x 32 cpus and 1 GiB; there are 4 x"),
        (OpenShape.of((100, None), (4, 4), (None, None)), "room for 100 x 4 cpus"),
        (OpenShape.of((None, None), (None, None), (1 << 20, None)), "room for 1 x 1 cpu and 1024 GiB"),
    ],
)
def test_a_shape_that_no_vm_has_is_an_error_that_lists_them(within: OpenShape, told: str) -> None:
    """One line, with the VMs that there are."""
    with pytest.raises(ShapeError, match=told):
        candidates(_KINDS, within)


def test_a_minimum_above_the_maximum_is_an_error() -> None:
    """As bounds of a shape."""
    with pytest.raises(ShapeError, match="the minimum, 4, is above the maximum, 2"):
        Between(4, 2)


def test_a_maximum_below_the_usual_minimum_moves_it() -> None:
    """An executor of half a GiB may be asked for."""
    assert OpenShape.of((None, None), (None, 0.5), (None, 512)).memory_gib == Between(0.5, 0.5)


def test_the_first_run_is_on_the_default_and_the_second_on_twice_the_memory() -> None:
    """So that two runs tell whether memory matters; then the model chooses."""
    shapes = candidates(_KINDS, OpenShape())
    first = advise([], _NONE, shapes, OpenShape())
    assert (first.shape.executors, first.shape.cores, first.shape.memory_gib) == (2, 2, 4)
    assert (first.learned, first.ranked) == (False, ())
    second = advise([_run(2, 2, 4)] * 3, _NONE, shapes, OpenShape())
    assert (second.shape.executors, second.shape.cores, second.shape.memory_gib) == (2, 2, 8)
    assert not second.learned
    third = advise([_run(2, 2, 4), _run(2, 2, 8)], _NONE, shapes, OpenShape())
    assert third.learned
    assert third.shape == third.ranked[0].shape
    chosen = third.of(third.shape)
    assert chosen is not None
    assert chosen.least < chosen.seconds < chosen.most


def test_the_second_run_differs_in_what_is_open() -> None:
    """Executors where memory is fixed, cores where both are."""
    for memory, executors, differing in ((4096, None, (4, 2, 4)), (4096, 2, (2, 4, 4))):
        within = OpenShape.of((executors, executors), (None, None), (memory, memory))
        found = advise([_run(2, 2, 4)], _NONE, candidates(_KINDS, within), within).shape
        assert (found.executors, found.cores, found.memory_gib) == differing


def test_money_against_time() -> None:
    """With less weight of money the choice is faster and dearer."""
    shapes, runs = candidates(_KINDS, OpenShape()), [_run(2, 2, 4), _run(4, 4, 16), _run(8, 4, 16)]
    cheap, fast = (advise(runs, _NONE, shapes, OpenShape(), beta=beta) for beta in (1.0, 0.0))
    one, other = cheap.of(cheap.shape), fast.of(fast.shape)
    assert one is not None
    assert other is not None
    assert other.seconds < one.seconds
    assert other.dollars > one.dollars


def test_memory_stays_above_half_of_the_least_that_sufficed() -> None:
    """The law knows a cliff, and no end; a bound of one's own counts."""
    runs = [_run(2, 2, 8), _run(2, 2, 16)]
    assert min(shape.memory_gib for shape in open_shapes(_KINDS, OpenShape(), runs)) == 4
    within = OpenShape.of((None, None), (None, None), (2048, None))
    assert min(shape.memory_gib for shape in open_shapes(_KINDS, within, runs)) == 2
    # Runs elsewhere on larger VMs.
    assert open_shapes(_KINDS, OpenShape(), [_run(2, 2, 512)])


def test_no_more_than_twice_the_cores_of_the_largest_run() -> None:
    """Unless the job's bounds want more."""
    runs = [_run(2, 2, 8), _run(2, 4, 16)]
    assert max(s.executors * s.cores for s in open_shapes(_KINDS, OpenShape(), runs)) == 16
    many = OpenShape.of((10, 10), (4, 4), (None, None))
    assert {s.executors * s.cores for s in open_shapes(_KINDS, many, runs)} == {40}


def test_neighbours_are_the_next_numbers_of_executors() -> None:
    """Or of cores, or of memory, where the others are given."""
    shapes = candidates(_KINDS, OpenShape())
    advice = advise([_run(2, 2, 4), _run(4, 4, 16)], _NONE, shapes, OpenShape())
    shape = next(s for s in shapes if (s.executors, s.cores, s.memory_gib) == (4, 2, 8))
    smaller, larger = neighbours(advice.ranked, shape)
    assert smaller is not None
    assert larger is not None
    assert (smaller.shape.executors, larger.shape.executors) == (3, 6)
    assert (smaller.shape.cores, larger.shape.memory_gib) == (2, 8)
    one = [each for each in advice.ranked if each.shape.executors == 4]
    smaller, larger = neighbours(one, shape)
    assert smaller is not None
    assert larger is not None
    assert (smaller.shape.cores, larger.shape.cores) == (1, 4)
    memory = [each for each in one if each.shape.cores == 2]
    smaller, larger = neighbours(memory, shape)
    assert smaller is not None
    assert larger is not None
    assert (smaller.shape.memory_gib, larger.shape.memory_gib) == (4, 16)
    assert neighbours([each for each in one if each.shape == shape], shape) == (None, None)
