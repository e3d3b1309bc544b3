"""Differences over pairs, and the words that follow from them."""

import numpy as np
import pytest

from agents.experiments.paired import (
    PairedDifference,
    Statistic,
    difference,
    every,
    over_cases,
    told,
    verdict,
)

TWELVE = range(12)


def test_a_difference_is_paired_by_seed() -> None:
    """The mean and the standard error of relative differences; the order of seeds does not matter."""
    random = np.random.default_rng(1)
    base = random.uniform(1, 10, 12)
    more = base * (1.1 + random.normal(0, 0.01, 12))
    one = Statistic({seed: more[seed] for seed in reversed(TWELVE)})
    other = Statistic({seed: base[seed] for seed in TWELVE})
    found = difference(one, other)
    shares = more / base - 1
    assert found.mean == pytest.approx(shares.mean())
    assert found.error == pytest.approx((np.var(shares) / 11) ** 0.5)
    assert found.pairs == 12
    assert found.higher
    assert not found.lower
    assert str(found).endswith(" %*")
    with pytest.raises(ValueError, match="no pairs"):
        difference(one, Statistic.of([1.0]))
    with pytest.raises(ValueError, match="no pairs"):
        difference(Statistic(), Statistic())


def test_a_star_takes_two_standard_errors_and_enough_pairs() -> None:
    """Neither the mean alone nor few seeds make a difference clear."""
    assert PairedDifference(-0.021, 0.01, 12).clear
    assert not PairedDifference(-0.019, 0.01, 12).clear
    assert not PairedDifference(-0.5, 0.01, 11).clear
    assert PairedDifference(-0.5, 0.01, 4, least=4).clear
    assert not difference(Statistic.of([2.0]), Statistic.of([1.0])).clear
    assert str(PairedDifference(-0.021, 0.01, 12)) == "-2.1 ± 1.0 %*"
    assert str(PairedDifference(-0.021, 0.01, 11)) == "-2.1 ± 1.0 %"
    assert str(difference(Statistic.of([1.1]), Statistic.of([1.0]))) == "+10.0 % (one pair)"


def test_nothing_is_a_share_of_zero() -> None:
    """A pair that begins at 0 leaves the difference open; 0 beside 0 is the same."""
    found = difference(Statistic.of([1.0] * 12), Statistic.of([0.0] + [1.0] * 11))
    assert (found.clear, found.at_most(9.0), found.at_least(-9.0)) == (False, None, None)
    assert str(found) == "+9.1 % (a pair begins at 0)"
    assert difference(Statistic.of([1.0] * 12), Statistic.of([0.0] * 12)).below() is None
    assert difference(Statistic.of([0.0] * 12), Statistic.of([0.0] * 12)).at_most(0.0)


@pytest.mark.parametrize(
    ("mean", "pairs", "holds"),
    [(-0.15, 12, True), (-0.11, 12, None), (-0.05, 12, False), (-0.15, 2, None)],
)
def test_a_bound_is_reached_missed_or_open(mean: float, pairs: int, holds: bool | None) -> None:
    """By two standard errors of 1 %, with enough pairs."""
    assert PairedDifference(mean, 0.01, pairs).at_most(-0.1) is holds
    assert PairedDifference(-mean, 0.01, pairs).at_least(0.1) is holds


def test_equal_is_neither_below_nor_above() -> None:
    """A bound that is met exactly is one that is kept."""
    same = PairedDifference(0.0, 0.0, 12)
    assert (same.at_most(0.0), same.at_least(0.0), same.below(), same.above()) == (True, True, False, False)
    less = PairedDifference(-0.1, 0.01, 12)
    assert (less.below(), less.above(), less.below(-0.1)) == (True, False, None)


def test_words_follow_the_difference() -> None:
    """Open and too few are said."""
    assert told(PairedDifference(-0.048, 0.01, 12), "less", "more") == "4.8 ± 1.0 % less"
    assert told(PairedDifference(0.048, 0.01, 12), "less", "more") == "4.8 ± 1.0 % more"
    assert told(PairedDifference(0.01, 0.01, 12), "less", "more") == "+1.0 ± 1.0 %, not distinguishable"
    assert told(PairedDifference(-0.5, 0.01, 2), "less", "more") == "-50.0 ± 1.0 %, not judged: 2 of 12 pairs"
    assert [verdict(each) for each in (True, False, None)] == ["yes", "no", "open"]
    assert [every(each) for each in ((True, None), (None, False), (True, True))] == [None, False, True]


def test_cases_are_pairs_of_their_own() -> None:
    """Of each case the mean counts."""
    found = over_cases([PairedDifference(0.1 * n, 9.0, 12) for n in range(3)])
    assert found.mean == pytest.approx(0.1)
    assert found.pairs == 3
    assert found.error == pytest.approx(0.1 / 3**0.5)


def test_a_statistic_has_the_sample_spread() -> None:
    """None for a single value."""
    assert Statistic.of([1.0, 3.0]).mean == 2.0
    assert Statistic.of([1.0, 3.0]).spread == pytest.approx(2**0.5)
    assert Statistic.of([1.0]).spread == 0.0
    assert np.isnan(Statistic().mean)
