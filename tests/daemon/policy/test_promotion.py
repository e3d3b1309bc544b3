"""Judgements on paired plays: whether a policy is promoted, and whether it is worse."""

from dataclasses import replace

import pytest

from conf.schema import PolicyChoice
from daemon.policy.promotion import DAY, PolicyRuns, Promotion, is_worse, paired, why_not

DRAWS = range(20)


def runs(dollars: float, seconds: float = 100.0, noise: float = 0.0) -> PolicyRuns:
    """Twenty plays; every other draw is dearer by the noise, the rest cheaper."""
    costs = {draw: (10.0 + draw) * (dollars + noise * (-1) ** draw) for draw in DRAWS}
    return PolicyRuns(costs, {draw: (10.0 + draw) * seconds for draw in DRAWS})


ACTING = runs(1.0)


def test_a_policy_that_is_clearly_cheaper_and_not_later_is_promoted() -> None:
    """Costs of draws differ by far more than policies do, and pairs take that out."""
    assert why_not(runs(0.97, noise=0.01), ACTING) == ""
    assert why_not(runs(0.97, seconds=90.0), ACTING) == ""


@pytest.mark.parametrize(
    ("candidate", "why"),
    [
        (runs(1.003, noise=0.02), "not cheaper: +0.3 ± 0.5 %"),
        (runs(0.997, noise=0.02), "not clearly cheaper: -0.3 ± 0.5 %"),
        (ACTING, "not cheaper: +0.0 ± 0.0 %"),
        (runs(0.9, seconds=101.0), "later: mean completion +1.0 ± 0.0 %"),
        (replace(runs(0.9), fallback_share=0.0001), "it failed 0.1 % of its decisions; see fallback in"),
        (replace(runs(0.9), never=["job-7", "job-9"]), "2 jobs would never run under it: job-7"),
        (PolicyRuns(failure="it raised ValueError"), "not simulated: it raised ValueError"),
        (PolicyRuns({0: 0.1}, {0: 1.0}), "not judged: 1 draw finished, 12 needed"),
        (PolicyRuns({99: 0.1}, {99: 1.0}), "not simulated: no draw was finished under both policies"),
    ],
)
def test_why_a_policy_is_not_promoted(candidate: PolicyRuns, why: str) -> None:
    """In one line."""
    assert why_not(candidate, ACTING).startswith(why)


def test_a_job_that_runs_under_neither_policy_is_held_against_neither() -> None:
    """It fits no VM."""
    assert why_not(replace(runs(0.9), never=["job-7"]), replace(ACTING, never=["job-7"])) == ""


def test_only_draws_that_both_finished_are_compared() -> None:
    """Where the time runs out, the first policy may have one more."""
    found = paired(runs(0.9), PolicyRuns({0: 10.0, 1: 11.0, 77: 1.0}, {0: 1.0, 1: 1.0, 77: 1.0}))
    assert found.cost is not None
    assert found.cost.pairs == 2
    assert found.cost.mean == pytest.approx(-0.1)


def test_worse_is_dearer_by_two_standard_errors() -> None:
    """No less, and never where nothing was played."""
    assert is_worse(runs(1.03, noise=0.01), ACTING)
    assert not is_worse(runs(1.003, noise=0.02), ACTING)
    assert not is_worse(runs(0.9), ACTING)
    assert not is_worse(PolicyRuns({0: 11.0}, {0: 1.0}), ACTING)
    assert not is_worse(PolicyRuns(failure="no"), ACTING)


def test_a_promotion_is_judged_once_a_day_on_the_day_before() -> None:
    """Of the time before the promotion nothing counts."""
    made = Promotion(PolicyChoice(name="greedy:beta=0.5"), PolicyChoice(name="ff"), 1000.0, 1000.0)
    assert (made.since(1000.0 + 60.0), made.since(5000.0 + DAY)) == (1000.0, 5000.0)
    assert not made.due(999.0 + DAY)
    assert made.due(1000.0 + DAY)
    assert not replace(made, judged_at=2000.0).due(1000.0 + DAY)
    assert Promotion.of(made.plain()) == made
