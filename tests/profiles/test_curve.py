"""How many executors are worth having, by the curve of a type."""

import pytest

from profiles.curve import Curve


@pytest.mark.parametrize("serial", [0.5, 0.25, 0.1, 0.02])
def test_with_amdahls_law_it_is_one_over_the_serial_share_and_one(serial: float) -> None:
    """Executors of one core, no start-up: n (s + (1 - s) / n) <= 2 up to n = 1 + 1 / s."""
    assert Curve(0.0, 100.0, serial).worth_having(1.0, 1024) == pytest.approx(1 + 1 / serial)


def test_start_up_makes_fewer_worth_having() -> None:
    """All of them wait for it."""
    assert (
        Curve(100.0, 100.0, 0.02).worth_having(1.0, 1024)
        == 2
        < Curve(0.0, 100.0, 0.02).worth_having(1.0, 1024)
    )


def test_what_holds_the_working_set_is_thriftier_than_one() -> None:
    """Where few spill, one alone is no measure for the others."""
    spilling = Curve(0.0, 100.0, 0.1, working_set=8192, spilling=8.0)
    most = spilling.worth_having(1.0, 1024)
    thriftiest = min(n * spilling.seconds_on(n, n * 1024, 1.0) for n in range(1, 257))
    assert most * spilling.seconds_on(most, most * 1024, 1.0) <= 2 * thriftiest
    assert (most + 1) * spilling.seconds_on(most + 1, (most + 1) * 1024, 1.0) > 2 * thriftiest


def test_nobody_is_given_any_number() -> None:
    """Work that divides without end is worth 256 executors, and no more."""
    assert Curve(0.0, 100.0, 0.0).worth_having(1.0, 1024) == 256
