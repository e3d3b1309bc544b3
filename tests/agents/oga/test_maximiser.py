"""The optimum is one: its bound holds, no policy is above it, and the order is the one that theory says."""

from typing import cast

import numpy as np
import pytest

from agents.oga.bench import run
from agents.oga.bipartite import Request
from agents.oga.environments import EnvironmentOptions, generate
from agents.oga.learner import LearnerOptions, projected
from agents.oga.maximiser import maximise
from agents.oga.partners import LEARNERS, PARTNERS, allocator
from tests.agents.oga.models import random_arrivals, random_model


@pytest.mark.parametrize("request_", ["per_channel", "total"])
def test_no_allocation_is_above_the_bound(request_: Request) -> None:
    """Random feasible allocations near the optimum and far; the gap is small, the optimum feasible."""
    draw = np.random.default_rng(0)
    for seed in range(8):
        model = random_model(seed, request=request_)
        x = random_arrivals(model, 1, seed)[0]
        best = maximise(model, x)
        assert model.violation(best.y) < 1e-9
        assert best.reward == pytest.approx(model.reward(x, best.y))
        assert 0 <= best.gap < 2e-3
        for size in (0.1, 1.0, 10.0):
            other = projected(model, best.y + size * draw.normal(size=model.shape), 1e-9)
            assert model.reward(x, other) <= best.upper + 1e-9


@pytest.mark.parametrize("utility", range(4))
def test_a_case_that_can_be_solved_by_hand(utility: int) -> None:
    """Where nothing binds, each amount is where the slope meets the overhead, split over equal resources."""
    from agents.oga.bipartite import build_model
    from agents.oga.kernel.utilities import slope, value

    model = build_model([(0, 0)], [[9.0]], [[20.0]], utilities=utility, alphas=1.2, beta=0.2)
    amounts = np.linspace(0, 9, 90_001)
    rewards = [value(utility, 1.2, y) - 0.2 * y for y in amounts]
    best = maximise(model, [1])
    assert best.reward == pytest.approx(max(rewards), abs=1e-6)
    inside = 0 < best.y[0, 0] < 9
    assert not inside or slope(utility, 1.2, best.y[0, 0]) == pytest.approx(0.2, abs=1e-6)


@pytest.mark.parametrize("utility", ["mixed", "linear", "log"])
@pytest.mark.parametrize("request_", ["per_channel", "total"])
def test_the_order_that_theory_says(request_: Request, utility: str) -> None:
    """No policy is above the ceiling in any slot, y* is above plain OGA, conserving within 2 % of the top."""
    options = EnvironmentOptions(instances=16, resources=4, slots=120, utility=utility, request=request_)
    environment = generate(options)
    model, arrivals = environment.model, environment.arrivals.astype(float)
    some = range(0, 120, 6)
    tops = {t: maximise(model, arrivals[t]) for t in some}
    averages = {}
    for name in (*LEARNERS, *PARTNERS, "stationary"):
        ran = run(name, environment, LearnerOptions())
        averages[name] = ran.average
        for t in some:
            assert ran.rewards[t] <= tops[t].upper + 1e-9
    top = np.mean([tops[t].reward for t in some])
    conserving = run("oga-conserving", environment, LearnerOptions())
    assert conserving.rewards[list(some)].mean() >= 0.98 * top
    assert averages["oga-conserving"] >= max(averages[name] for name in (*PARTNERS, "oga", "oga-reactive"))
    assert averages["stationary"] >= averages["oga"]


def test_the_ceiling_as_a_policy() -> None:
    """`optimum` allocates the result of `maximise`."""
    model = random_model()
    x = random_arrivals(model, 1)[0]
    with allocator("optimum", model, x[None], LearnerOptions()) as decide:
        y = decide(x)
    assert model.reward(x, y) == pytest.approx(maximise(model, x).reward)


#: Settings off the paper's grid: generator's seeds, of which some have linear utilities and totals.
@pytest.mark.parametrize("seed", range(40))
def test_no_partner_is_above_conserving_in_any_setting(seed: int) -> None:
    """Sizes, load, density, overheads and utilities at random."""
    environment = generate(random_setting(seed))
    earned = {name: run(name, environment, LearnerOptions()).average for name in (*LEARNERS, *PARTNERS)}
    best = max(earned.values())
    assert earned["oga-conserving"] >= best - 1e-9 * abs(best)


def random_setting(seed: int) -> EnvironmentOptions:
    """Any size up to 40 x 64 x 8, loads from a third of the paper's to ten times that."""
    draw = np.random.default_rng(seed)
    types = int(draw.integers(1, 41))
    utilities: tuple[str, ...] = ("mixed", "linear", "linear", "log", "reciprocal", "poly")
    return EnvironmentOptions(
        types=types,
        instances=int(draw.integers(1, 65)),
        resources=int(draw.integers(1, 9)),
        slots=20,
        seed=seed,
        arrival=float(draw.uniform(0.05, 1.0)),
        contention=float(10 ** draw.uniform(-0.5, 2.0)),
        density=float(draw.choice([0.0, min(types, 1.5), min(types, 3.0)])),
        utility=str(draw.choice(utilities)),
        request=cast("Request", str(draw.choice(["per_channel", "per_channel", "total"]))),
        beta=(0.1, float(draw.choice([0.5, 0.9, 1.0]))),
    )
