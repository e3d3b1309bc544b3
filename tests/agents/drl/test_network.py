"""Networks' results, against plain numpy; and checks of their weights."""

import numpy as np
import pytest

from agents.drl.kernel.forward import make_scratch, score
from agents.drl.network import (
    SHARED,
    Flat,
    SharedWeights,
    first_flat,
    first_shared,
    flat_shapes,
    network_of,
    shared_shapes,
    weights_from,
)
from tests.agents.drl.models import scores
from tests.arrays import each, same

RANDOM = np.random.default_rng(5)


def noisy(weights: SharedWeights | Flat) -> SharedWeights | Flat:
    """With biases and scores that count."""
    return each(lambda array: array + RANDOM.normal(0, 0.5, array.shape).astype(np.float32), weights)


def wide(weights: SharedWeights | Flat) -> SharedWeights | Flat:
    """In float64."""
    return each(lambda array: array.astype(np.float64), weights)


@pytest.mark.parametrize("vms", [1, 12, 100])
@pytest.mark.parametrize("hidden", [3, 32])
def test_the_compiled_network_is_the_one_that_is_described(vms: int, hidden: int) -> None:
    """Both kinds, for any number of VMs, are within 1e-5 of numpy's float64 results."""
    for weights in (noisy(first_shared(11, 20, hidden, 1)), noisy(first_flat(11 * vms + 20, vms, hidden, 1))):
        network, out = network_of(weights), np.zeros(vms + 1, np.float32)
        scratch = make_scratch(network, vms)
        for _ in range(3):
            observation = RANDOM.uniform(-1, 1, 11 * vms + 20).astype(np.float32)
            score(network, observation, np.ones(vms + 1, np.bool_), scratch, out)
            expected = scores(wide(weights), observation.astype(np.float64), vms)
            assert out == pytest.approx(expected, rel=1e-5, abs=1e-5 * np.abs(expected).max())
        used = network.shared if network.kind == SHARED else network.flat
        assert used is not weights
        assert same(used, weights)


def test_vms_that_look_alike_are_computed_once_and_others_only_if_asked() -> None:
    """The result is the same, bit for bit, as when each VM differs from its neighbours invisibly."""
    weights, vms = noisy(first_shared(11, 8, 16, 3)), 9
    table = RANDOM.uniform(0, 1, (vms, 11)).astype(np.float32)[[0, 0, 0, 1, 1, 2, 3, 3, 0]]
    observation = np.concatenate([table.ravel(), RANDOM.uniform(0, 1, 8).astype(np.float32)])
    network, found = network_of(weights), np.zeros((2, vms + 1), np.float32)
    asked = np.array([0, 1, 0, 1, 0, 1, 1, 0, 1, 0], bool)
    for mask, out in ((np.ones(vms + 1, np.bool_), found[0]), (asked, found[1])):
        score(network, observation, mask, make_scratch(network, vms), out)
    assert found[0] == pytest.approx(scores(wide(weights), observation.astype(np.float64), vms), abs=1e-4)
    assert found[1, 0] == found[0, 0]
    assert (found[1, 1:] == np.where(asked, found[0], -np.inf)[1:]).all()


def test_a_shared_network_does_not_care_for_the_order_of_vms() -> None:
    """Shuffled VMs have the same scores, shuffled, and waiting the same."""
    weights, vms = noisy(first_shared(11, 8, 16, 3)), 9
    observation = RANDOM.uniform(0, 1, 11 * vms + 8).astype(np.float32)
    order = RANDOM.permutation(vms)
    table = observation[: 11 * vms].reshape(vms, 11)
    shuffled = np.concatenate([table[order].ravel(), observation[11 * vms :]])
    network, found = network_of(weights), np.zeros((2, vms + 1), np.float32)
    for seen, out in ((observation, found[0]), (shuffled, found[1])):
        score(network, seen, np.ones(vms + 1, np.bool_), make_scratch(network, vms), out)
    assert found[1, 1:] == pytest.approx(found[0, 1:][order], abs=1e-5)
    assert found[1, 0] == pytest.approx(found[0, 0], abs=1e-5)


def test_first_weights_depend_on_the_seed_and_prefer_nothing_much() -> None:
    """The same seed gives the same; scores of a new network are near 0."""
    one, again, other = (first_shared(11, 8, 32, seed) for seed in (1, 1, 2))
    assert same(one, again)
    assert (one.vm != other.vm).all()
    assert np.abs(scores(one, RANDOM.uniform(0, 1, 11 * 12 + 8), 12)).max() < 0.2
    assert {name: array.shape for name, array in one._asdict().items()} == shared_shapes(11, 8, 32)
    flat = first_flat(40, 12, 200, 1)
    assert {name: array.shape for name, array in flat._asdict().items()} == flat_shapes(40, 12, 200)


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"score": None}, r"score: missing; it should be of shape \(4, 3\)"),
        ({"extra": np.zeros(1, np.float32)}, "extra: unknown; known are hidden, hidden_bias, score, score_b"),
        ({"score": np.zeros((4, 9), np.float32)}, r"score: should be of shape \(4, 3\), found \(4, 9\)"),
        ({"score": np.zeros((4, 3))}, "score: should be float32, found float64"),
        ({"score": np.full((4, 3), np.nan, np.float32)}, "score: should be finite numbers"),
    ],
)
def test_weights_that_do_not_fit_are_told(change: dict[str, object], complaint: str) -> None:
    """The error has the array's name, the correct shape and the one found."""
    arrays = {**first_flat(10, 2, 4, 1)._asdict(), **change}
    with pytest.raises(ValueError, match=complaint):
        weights_from("flat", {name: a for name, a in arrays.items() if a is not None}, flat_shapes(10, 2, 4))
