"""Rewards and gradients are those of the formulas; invalid models are refused."""

import numpy as np
import pytest

from agents.oga.bipartite import UTILITIES, ModelError, build_model
from agents.oga.kernel import ascent, utilities
from tests.agents.oga import plain
from tests.agents.oga.models import random_arrivals, random_model


@pytest.mark.parametrize("kind", range(len(UTILITIES)))
def test_utilities(kind: int) -> None:
    """Zero at zero, the slope is the derivative, and `amount` finds it again; as eq. 51 has them."""
    alpha = 1.3
    assert utilities.value(kind, alpha, 0.0) == 0.0
    for y in (0.0, 0.7, 12.0):
        assert utilities.value(kind, alpha, y) == pytest.approx(plain.utility(kind, alpha, y), abs=1e-12)
        step = 1e-5
        rise = (utilities.value(kind, alpha, y + step) - utilities.value(kind, alpha, y)) / step
        assert utilities.slope(kind, alpha, y) == pytest.approx(rise, rel=1e-4)


def test_the_gradient_is_that_of_the_reward() -> None:
    """Against central differences, at points where one resource dominates each overhead."""
    for seed in range(5):
        model = random_model(seed, resources=4)
        x = random_arrivals(model, 1, seed)[0]
        y = np.random.default_rng(seed).uniform(0.1, 2, model.shape)
        overheads = np.zeros(model.graph.bounds.shape)
        ascent.dominate(model.graph, model.job_totals(y), x, overheads)
        found = np.zeros(model.shape)
        ascent.gradient(model.graph, y, x, overheads, found, 0, 4)
        step = 1e-6
        for k, e in np.ndindex(*model.shape):
            high, low = y.copy(), y.copy()
            high[k, e] += step
            low[k, e] -= step
            slope = (model.reward(x, high) - model.reward(x, low)) / (2 * step)
            assert found[k, e] == pytest.approx(slope, abs=1e-6)


def test_the_reward_by_hand() -> None:
    """One port on two instances: log and linear gains, less the dominant overhead (eq. 7)."""
    model = build_model(
        [(0, 1), (0, 0), (1, 0)],
        [[4.0, 4.0], [1.0, 1.0]],
        [[5.0, 5.0], [5.0, 5.0]],
        utilities=[[0, 1], [0, 1]],
        alphas=1.0,
        beta=[0.5, 0.25],
    )
    y = np.array([[2.0, 0.0, 1.0], [3.0, 0.0, 2.0]])  # edges: (0, 0), (1, 0), (0, 1)
    gain = 3.0 + np.log(4.0) + np.log(3.0)
    assert model.gain_and_overhead([1, 0], y) == pytest.approx((gain, 1.5))
    assert model.reward([2, 1], y) == pytest.approx(2 * (gain - 1.5))
    assert model.reward([0, 1], y) == 0.0
    assert model.edge(1, 0) == 1
    assert model.edge(1, 1) is None
    assert model.violation(y) == 0.0
    assert model.violation(y + 2.0) == 2.0


def test_memory_grows_with_edges() -> None:
    """Twice the ports and instances with the same edges cost their own size, not their product."""
    edges = [(i, i) for i in range(1000)]
    small, large = (
        build_model(edges, np.ones((n, 2)), np.ones((n, 2)), utilities=1, alphas=1.0, beta=0.4)
        for n in (1000, 2000)
    )
    size = [sum(array.nbytes for array in model.graph) for model in (small, large)]
    assert size[1] < 2 * size[0] < 300_000


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"edges": [(0, 2)]}, "edges: should join ports 0 to 0 and instances 0 to 1"),
        ({"edges": [(0, 1), (0, 1)]}, "edges: one is given twice"),
        ({"requests": [[1.0]]}, "requests are of 1 resource, capacities of 2"),
        ({"requests": [[1.0, -1.0]]}, "requests: must be finite and not negative"),
        ({"capacities": [1.0, 2.0]}, "capacities: should be a table"),
        ({"utilities": 4}, "utilities: codes from 0 to 3"),
        ({"alphas": 0.0}, "alphas: must be positive"),
        ({"beta": 1.5}, "beta: must be between 0 and 1"),
        ({"request": "each"}, "request: should be per_channel or total, found 'each'"),
        ({"ports": ["a", "b"]}, "ports: 1 different names expected, found 2"),
        ({"jobs": [0, 1]}, "jobs: one number from 0 for each of the 1 port"),
    ],
)
def test_what_cannot_be_a_model_is_refused(change: dict[str, object], complaint: str) -> None:
    """The message names the fault."""
    good: dict[str, object] = {
        "edges": [(0, 0), (0, 1)],
        "requests": [[1.0, 1.0]],
        "capacities": [[1.0, 1.0], [2.0, 2.0]],
        "utilities": 0,
        "alphas": 1.0,
        "beta": 0.4,
    }
    with pytest.raises(ModelError, match=complaint):
        build_model(**{**good, **change})  # type: ignore[arg-type]
