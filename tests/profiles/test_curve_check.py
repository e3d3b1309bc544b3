"""A curve is asked for sizes that it was not fitted to; half-core results are reported as measured."""

from dataclasses import replace
from typing import Any

import pytest

from profiles.curve_check import measured_curves
from profiles.runs import MeasuredRun, ProfileError
from tests.profiles.measured import make_run


def run_of(executors: int, cpus: float, seconds: float, **values: Any) -> MeasuredRun:
    """A run of 5 s of start-up, spread over as many VMs as executors."""
    made = make_run(executors=executors, cpus=cpus, launching=0.0, startup=5.0, duration=seconds)
    return replace(made, placement=tuple(f"s-{n}" for n in range(executors)), **values)


def test_amdahls_law_predicts_what_it_has_not_seen() -> None:
    """5 s of start-up, 10 s serial and 40 s that cores share: exact on every size, also where held out."""
    runs = [run_of(n, c, 15 + 40 / (n * c)) for n, c in ((1, 1), (1, 2), (2, 1), (1, 4), (2, 2))]
    (found,) = measured_curves(runs).values()
    assert found.law == "Amdahl"
    assert [(size.executors, size.cpus, size.runs) for size in found.sizes] == [
        (1, 1, 1), (1, 2, 1), (2, 1, 1), (1, 4, 1), (2, 2, 1),
    ]  # fmt: skip
    for size in found.sizes:
        assert size.fitted == pytest.approx(size.seconds, rel=1e-3)
        assert size.held_out == pytest.approx(size.seconds, rel=1e-3)
    assert [(half.executors, half.cpus, half.half_executors, half.half_cpus) for half in found.halvings] == [
        (1, 2, 1, 1), (2, 1, 1, 1), (1, 4, 1, 2), (2, 2, 1, 2), (2, 2, 2, 1),
    ]  # fmt: skip
    two = found.halvings[0]
    assert two.longer == pytest.approx(55 / 35 - 1)
    assert two.saved == pytest.approx(1 - 55 / 70)
    assert two.by_curve == pytest.approx(two.longer, abs=2e-3)
    assert two.work_longer == pytest.approx(50 / 30 - 1, abs=2e-3)


def test_the_law_that_is_wrong_is_seen_to_be() -> None:
    """One size takes twice the time its neighbours promise: the held-out run is far off."""
    runs = [run_of(1, 1, 45.0), run_of(1, 2, 50.0), run_of(1, 4, 15.0)]
    (found,) = measured_curves(runs).values()
    middle = found.sizes[1]
    assert middle.held_out is not None
    assert middle.held_out < 0.6 * middle.seconds


def test_what_executors_do_for_themselves_is_found_again() -> None:
    """12 s on a cpu of its own for each: two executors of one cpu are slower than one of two."""
    sizes = ((1, 1), (1, 2), (2, 1), (1, 4), (2, 2))
    (found,) = measured_curves([run_of(n, c, 12 / c + 10 + 40 / (n * c)) for n, c in sizes]).values()
    assert found.law == "Amdahl, warming"
    assert (found.curve.warming, found.curve.work, found.curve.serial) == (12.0, 45.0, 0.1111)
    for size in found.sizes:
        assert size.held_out == pytest.approx(size.seconds, rel=1e-3)


@pytest.mark.parametrize(("two_apart", "warming"), [(47.0, 12.0), (36.0, 0.0)])
def test_of_three_sizes_the_simplest_law_counts_unless_it_is_wrong(two_apart: float, warming: float) -> None:
    """Two executors that need as long as one are no case of Amdahl's law; a little longer may be chance."""
    runs = [run_of(1, 1, 50.0), run_of(1, 2, 34.0), run_of(2, 1, two_apart)]
    (found,) = measured_curves(runs).values()
    assert (found.curve.warming > 0.5 * warming) == (warming > 0.0)
    assert all(size.fitted == pytest.approx(size.seconds, rel=0.05) for size in found.sizes)


@pytest.mark.parametrize("left_out", [(2, 1), (2, 2)])
def test_rounding_does_not_choose_between_equally_good_curves(left_out: tuple[int, int]) -> None:
    """Without one of these sizes, warming and work are not told apart: the simpler law is the answer."""
    measured = {(1, 1): 48.2, (1, 2): 27.3, (2, 1): 41.3, (1, 4): 20.6, (2, 2): 23.2}
    del measured[left_out]
    for far in (0.0, 1e-12, -1e-12):
        runs = [run_of(n, c, seconds * (1 + far * n * c)) for (n, c), seconds in measured.items()]
        (found,) = measured_curves(runs).values()
        assert found.curve.warming == 0.0


def test_company_and_the_worse_placement_are_left_out() -> None:
    """Runs beside others, and on one VM where spreading was quicker, say nothing of size."""
    alone = [run_of(1, 1, 45.0), run_of(2, 1, 25.0), run_of(2, 1, 25.0)]
    together = replace(run_of(2, 1, 40.0), placement=("s-0", "s-0"))
    crowded = run_of(1, 1, 90.0, shared=0.5)
    (found,) = measured_curves([*alone, together, crowded]).values()
    assert [(size.cores, size.runs, size.seconds) for size in found.sizes] == [(1, 1, 45.0), (2, 2, 25.0)]
    assert all(size.held_out is None for size in found.sizes)


def test_nothing_has_finished() -> None:
    """Then there is no curve."""
    with pytest.raises(ProfileError, match="no run has finished"):
        measured_curves([replace(make_run(), state="killed")])
