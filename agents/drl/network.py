"""The weights of the networks, as arrays. `kernel/forward.py` computes scores; learning is elsewhere.

A network assigns a score to every action that an observation permits: to wait, and to each VM. There are two
kinds. `shared` scores all VMs by the same weights, from the VM's own features, those of job and cluster, and
a summary of all VMs: so it fits any number of them. `flat` is that of Islam 2022, Table 5: fully connected
over the whole observation, for one number of VMs. Letters in shapes: F features of a VM, G numbers behind
the table of the VMs, L = N F + G numbers in all, H hidden units.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from environment.kernel.state import Float32Array

#: Values of `Network.kind`.
SHARED, FLAT = 0, 1
KINDS = ("shared", "flat")

#: Factor by which the last weights are smaller at first than is usual: all actions are about equally good
#: then.
_FIRST_SCORES = 0.1


class SharedWeights(NamedTuple):
    """Weights of a network that shares them among VMs; all float32.

    Of a VM's features v and the numbers g of job and cluster, with relu after each bias:

        hidden(v) = v vm + g rest + hidden_bias
        context = (mean of hidden, largest of hidden) pool + g pool_rest + pool_bias
        score of a VM = (hidden(v) place + context place_context + place_bias) place_score + place_offset
        score of waiting = (context wait + wait_bias) wait_score + wait_offset
    """

    vm: Float32Array  # [F, H]
    rest: Float32Array  # [G, H]
    hidden_bias: Float32Array  # [H]
    pool: Float32Array  # [2 H, H]
    pool_rest: Float32Array  # [G, H]
    pool_bias: Float32Array  # [H]
    place: Float32Array  # [H, H]
    place_context: Float32Array  # [H, H]
    place_bias: Float32Array  # [H]
    place_score: Float32Array  # [H]
    place_offset: Float32Array  # [1]
    wait: Float32Array  # [H, H]
    wait_bias: Float32Array  # [H]
    wait_score: Float32Array  # [H]
    wait_offset: Float32Array  # [1]


class Flat(NamedTuple):
    """Weights of a fully connected network with one hidden layer; all float32.

    Of an observation x: scores = relu(x hidden + hidden_bias) score + score_bias.
    """

    hidden: Float32Array  # [L, H]
    hidden_bias: Float32Array  # [H]
    score: Float32Array  # [H, N + 1]
    score_bias: Float32Array  # [N + 1]


class Network(NamedTuple):
    """Weights of either kind in one type, so that code is compiled once; the other kind's are empty."""

    kind: int
    shared: SharedWeights
    flat: Flat


def shared_shapes(features: int, rest: int, hidden: int) -> dict[str, tuple[int, ...]]:
    """The shape of each array of `SharedWeights`, by name."""
    square, vector = (hidden, hidden), (hidden,)
    return {
        "vm": (features, hidden),
        "rest": (rest, hidden),
        "hidden_bias": vector,
        "pool": (2 * hidden, hidden),
        "pool_rest": (rest, hidden),
        "pool_bias": vector,
        "place": square,
        "place_context": square,
        "place_bias": vector,
        "place_score": vector,
        "place_offset": (1,),
        "wait": square,
        "wait_bias": vector,
        "wait_score": vector,
        "wait_offset": (1,),
    }


def flat_shapes(length: int, vms: int, hidden: int) -> dict[str, tuple[int, ...]]:
    """The shape of each array of a `Flat`, by name."""
    return {
        "hidden": (length, hidden),
        "hidden_bias": (hidden,),
        "score": (hidden, vms + 1),
        "score_bias": (vms + 1,),
    }


def first_shared(features: int, rest: int, hidden: int, seed: int) -> SharedWeights:
    """Weights to begin learning with: uniform by fan in and out (Glorot 2010), biases 0."""
    return SharedWeights(**_draw(shared_shapes(features, rest, hidden), seed, ("place_score", "wait_score")))


def first_flat(length: int, vms: int, hidden: int, seed: int) -> Flat:
    """Weights to begin learning with: uniform by fan in and out (Glorot 2010), biases 0."""
    return Flat(**_draw(flat_shapes(length, vms, hidden), seed, ("score",)))


def network_of(weights: SharedWeights | Flat) -> Network:
    """The network with these weights, float32 and in the order in which they are read."""
    arrays = [np.ascontiguousarray(array, np.float32) for array in weights]
    if isinstance(weights, SharedWeights):
        return Network(SHARED, SharedWeights(*arrays), Flat(**_draw(flat_shapes(0, -1, 0), 0)))
    return Network(FLAT, SharedWeights(**_draw(shared_shapes(0, 0, 0), 0)), Flat(*arrays))


def weights_from(
    kind: str, arrays: Mapping[str, Float32Array], shapes: Mapping[str, tuple[int, ...]]
) -> SharedWeights | Flat:
    """Weights from arrays by name; ValueError names the first that is not as it should be."""
    for name in sorted({*arrays, *shapes}):
        if name not in arrays:
            raise ValueError(f"{name}: missing; it should be of shape {shapes[name]}")
        if name not in shapes:
            raise ValueError(f"{name}: unknown; known are {', '.join(shapes)}")
        if arrays[name].shape != shapes[name]:
            raise ValueError(f"{name}: should be of shape {shapes[name]}, found {arrays[name].shape}")
        if arrays[name].dtype != np.float32:
            raise ValueError(f"{name}: should be float32, found {arrays[name].dtype}")
        if not np.isfinite(arrays[name]).all():
            raise ValueError(f"{name}: should be finite numbers")
    return SharedWeights(**arrays) if kind == KINDS[SHARED] else Flat(**arrays)


def _draw(
    shapes: Mapping[str, tuple[int, ...]], seed: int, last: Sequence[str] = ()
) -> dict[str, Float32Array]:
    """Random initial weights; the arrays named `last` produce the scores."""
    random = np.random.default_rng(seed)
    arrays = {}
    for name, shape in shapes.items():
        bound = 0.0
        if len(shape) == 2 or name in last:
            bound = np.sqrt(6.0 / max(1, shape[0] + (shape[1] if len(shape) == 2 else 1)))
        bound *= _FIRST_SCORES if name in last else 1.0
        arrays[name] = random.uniform(-bound, bound, shape).astype(np.float32)
    return arrays
