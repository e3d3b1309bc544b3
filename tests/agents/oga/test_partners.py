"""The comparison policies allocate as in the paper, in both readings of a request."""

import numpy as np
import pytest

from agents.oga.bipartite import Model, Request, build_model, dominant_shares
from agents.oga.learner import LearnerOptions
from agents.oga.partners import NAMES, PARTNERS, allocator
from tests.agents.oga.models import random_arrivals, random_model


def two_by_two(request: Request, requests: list[list[float]]) -> Model:
    """Two ports joined with two instances of 10 and 4 units of one resource; edges a-0, b-0, a-1, b-1."""
    edges = [(p, r) for p in range(2) for r in range(2)]
    capacities = [[10.0], [4.0]]
    return build_model(edges, requests, capacities, utilities=1, alphas=1.2, beta=0.4, request=request)


def allocate(name: str, model: Model, x: list[float]) -> list[float]:
    """The policy's allocation to each edge of the only resource."""
    arrivals = np.array(x)
    with allocator(name, model, arrivals[None], LearnerOptions()) as decide:
        y = decide(arrivals)
    return [round(value, 9) for value in y[0]]


def test_fairness_shares_in_proportion_to_requests() -> None:
    """Each instance by itself; an absent port's share goes to those present, up to their request."""
    model = two_by_two("per_channel", [[9.0], [3.0]])
    assert allocate("fairness", model, [1, 1]) == [7.5, 2.5, 3.0, 1.0]
    assert allocate("fairness", model, [0, 1]) == [0, 3, 0, 3]
    total = two_by_two("total", [[9.0], [3.0]])
    assert allocate("fairness", total, [0, 1]) == [0, 1.5, 0, 1.5]


def test_drf_serves_the_smallest_dominant_share_first() -> None:
    """Port b asks for less of the whole, so it is served before a."""
    model = two_by_two("per_channel", [[9.0], [3.0]])
    assert dominant_shares(model) == pytest.approx([9 / 14, 3 / 14])
    assert allocate("drf", model, [1, 1]) == [7, 3, 1, 3]
    assert allocate("drf", two_by_two("total", [[9.0], [3.0]]), [1, 1]) == [7, 3, 2, 0]


def test_packing_and_spreading_choose_instances() -> None:
    """After a took 6 of instance 0, packing goes on there; spreading goes to the empty one."""
    model = two_by_two("total", [[6.0], [3.0]])
    assert allocate("binpacking", model, [1, 1]) == [6, 3, 0, 0]
    assert allocate("spreading", model, [1, 1]) == [6, 0, 0, 3]
    each = two_by_two("per_channel", [[6.0], [3.0]])
    assert allocate("binpacking", each, [1, 1]) == allocate("spreading", each, [1, 1]) == [6, 3, 4, 0]


@pytest.mark.parametrize("request_", ["per_channel", "total"])
@pytest.mark.parametrize("name", PARTNERS)
def test_partners_keep_the_constraints(name: str, request_: Request) -> None:
    """Random models and arrivals; absent ports get nothing."""
    for seed in range(5):
        model = random_model(seed, request=request_)
        for x in random_arrivals(model, 10, seed):
            with allocator(name, model, x[None], LearnerOptions()) as decide:
                y = decide(x)
            assert model.violation(y) < 1e-9
            assert not y[:, x[model.graph.port] == 0].any()


def test_unknown_policies_are_refused() -> None:
    """The message lists the known ones."""
    complaint = f"policy best: unknown; known are {', '.join(NAMES)}"
    missing = allocator("best", random_model(), np.zeros((1, 5)), LearnerOptions())
    with pytest.raises(ValueError, match=complaint), missing:
        pass
