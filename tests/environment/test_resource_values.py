"""Amounts of resources are exact, and whether one fits into another is answered as the kernel answers it."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from environment.kernel.rules import fits, reset
from environment.resource_arrays import ResourceArrays
from environment.resources import NOTHING, Resources, told, total
from tests.environment.episodes import Case, batch_of

_NAMES = st.sampled_from(["cpus", "mem", "disk", "gpus", "licences"])
_SOME = st.dictionaries(_NAMES, st.integers(1, 10**15)).map(Resources)


@given(_SOME, _SOME)
def test_sums_are_undone_exactly(one: Resources, other: Resources) -> None:
    """No amount is lost or made, and no zero is kept that would make equal amounts differ."""
    both = one + other
    assert both - other == one
    assert hash(both - other) == hash(one)
    assert one - one == NOTHING
    assert not one - one
    assert total([one, other, one]) == both + one == one * 2 + other


@given(_SOME, _SOME)
def test_what_fits_leaves_nothing_below_zero(one: Resources, other: Resources) -> None:
    """The larger of both contains both, the smaller is contained in both; missing resources are named."""
    assert (one | other).contains(one)
    assert (one | other).contains(other)
    assert one.contains(one & other)
    assert one.contains(other) == (not one.missing(other)) == ((one - other).positive == one - other)
    assert (one - other).positive == one - (one & other)


@given(st.lists(_SOME, min_size=1, max_size=4), st.lists(_SOME.filter(bool), min_size=1, max_size=5))
def test_room_for_many_sizes_is_that_for_each(vms: list[Resources], sizes: list[Resources]) -> None:
    """The rooms agree also where one size takes resources that another does not."""
    free = ResourceArrays.of([vm | Resources.of(0.1, 1) for vm in vms], ["disk", "gpus", "licences"])
    assert free.rooms(sizes).tolist() == [int(free.room(size).sum()) for size in sizes]


@given(_SOME, _SOME.filter(bool))
def test_as_many_fit_as_can_be_taken(whole: Resources, each: Resources) -> None:
    """One more than fit does not fit."""
    count = whole // each
    assert whole.contains(each * count)
    assert not whole.contains(each * (count + 1))
    assert (count > 0) == whole.contains(each)
    arrays = ResourceArrays.of([NOTHING, whole], whole)
    assert arrays.holds(1, each, count)
    assert not arrays.holds(1, each, count + 1)
    assert not arrays.holds(0, each)


@pytest.mark.parametrize(
    ("amounts", "shown"),
    [
        (Resources.of(1, 1024), "1 cpu and 1024 MiB"),
        (Resources.of(0.5, 100, {"gpus": 2}), "0.5 cpus, 100 MiB and 2 gpus"),
        (Resources.named({"gpus": 1.25, "mem": 1, "disk": 3}), "0 cpus, 1 MiB, 3 disk and 1.25 gpus"),
    ],
)
def test_amounts_are_told_in_users_words(amounts: Resources, shown: str) -> None:
    """Cpus and memory first, memory in MiB; equal amounts read the same in any order."""
    assert str(amounts) == shown
    assert str(NOTHING + amounts) == shown
    assert Resources.named(amounts.amounts) == amounts


def test_amounts_are_kept_as_mesos_keeps_them() -> None:
    """Three decimals: a tenth thrice is three tenths, and rounding residue is no amount."""
    tenth = Resources.of(0.1, 1)
    assert tenth * 3 == tenth + tenth + tenth == Resources.of(0.3, 3)
    assert Resources.of(0.1 + 0.2, 1) == Resources.of(0.3, 1)
    assert (tenth * 3).cpus == 0.3
    assert (tenth.memory_mib, tenth.others, tenth.amount("gpus")) == (1, {}, 0.0)
    assert Resources.of(4, 1024, {"gpus": 0}) == Resources.of(4, 1024)
    assert told("mem", 12.5) == "12.5 MiB"


@pytest.mark.parametrize("amount", [float("nan"), float("inf"), "1"])
def test_what_is_no_amount_is_refused(amount: float) -> None:
    """Nobody gets so much."""
    with pytest.raises((ValueError, OverflowError, TypeError)):
        Resources.of(amount, 1)


_MILLI_CPUS, _MIB = st.integers(0, 300), st.integers(0, 40)


@settings(deadline=None)
@given(_MILLI_CPUS, _MIB, _MILLI_CPUS, _MIB)
def test_the_kernel_answers_the_same(free_cpus: int, free_mib: int, cpus: int, mib: int) -> None:
    """Exactly the amounts that fit by the value fit by the compiled rule."""
    batch = batch_of([Case(machines=((1000, 1000, 1.0),), jobs=((0.0, 1, 1, 1, "", 1.0),))])
    reset(batch, 0)
    batch.state.free_milli_cpus[0, 0], batch.state.free_memory_mib[0, 0] = free_cpus, free_mib
    batch.jobs.milli_cpus[0, 0], batch.jobs.memory_mib[0, 0] = cpus, mib
    free, asked = Resources.of(free_cpus / 1000, free_mib), Resources.of(cpus / 1000, mib)
    assert free.contains(asked) == fits(batch, 0, 0)
