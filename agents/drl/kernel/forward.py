"""Computes a network's scores from an observation. `agents.drl.network` defines the weights.

Innermost loops run over a layer's outputs, which the compiler turns into vector instructions without
changing the order of any sum; inputs that are 0, as about half of those behind a relu are, are skipped.
"""

from typing import NamedTuple

import numpy as np

from agents.drl.network import SHARED, Flat, Network, SharedWeights
from environment.kernel.compiled import njit
from environment.kernel.state import BoolArray, Float32Array

_ZERO = np.float32(0.0)


class Scratch(NamedTuple):
    """Scratch arrays; their contents mean nothing between calls; all float32."""

    hidden: Float32Array  # [N, H]
    pool: Float32Array  # [2 H]
    context: Float32Array  # [H]
    base: Float32Array  # [H]
    layer: Float32Array  # [H]


def make_scratch(network: Network, vms: int) -> Scratch:
    """Scratch arrays for clusters of up to `vms` VMs."""
    hidden = len(network.shared.hidden_bias if network.kind == SHARED else network.flat.hidden_bias)
    return Scratch(
        hidden=np.zeros((vms, hidden), np.float32),
        pool=np.zeros(2 * hidden, np.float32),
        context=np.zeros(hidden, np.float32),
        base=np.zeros(hidden, np.float32),
        layer=np.zeros(hidden, np.float32),
    )


@njit(entry=True)
def score(
    network: Network, observation: Float32Array, asked: BoolArray, scratch: Scratch, out: Float32Array
) -> None:
    """Write the scores of all actions, float32 [N + 1]: of waiting, then of each VM.

    Those of VMs that are not `asked` for, bool [N + 1], may be left out: they are minus infinity then.
    """
    if network.kind == SHARED:
        _shared(network.shared, observation, asked, scratch, out)
    else:
        _flat(network.flat, observation, scratch.layer, out)


@njit()
def _flat(weights: Flat, observation: Float32Array, layer: Float32Array, out: Float32Array) -> None:
    _copy(weights.hidden_bias, layer)
    _add(observation, weights.hidden, layer)
    _cut(layer)
    _copy(weights.score_bias, out)
    _add(layer, weights.score, out)


@njit()
def _shared(
    weights: SharedWeights, observation: Float32Array, asked: BoolArray, scratch: Scratch, out: Float32Array
) -> None:
    features, vms = weights.vm.shape[0], len(out) - 1
    rest = observation[vms * features :]
    _hide(weights, observation, rest, scratch, vms)
    context, base, layer = scratch.context, scratch.base, scratch.layer
    _copy(weights.pool_bias, context)
    _add(rest, weights.pool_rest, context)
    _add(scratch.pool, weights.pool, context)
    _cut(context)
    _copy(weights.place_bias, base)
    _add(context, weights.place_context, base)
    for vm in range(vms):
        if not asked[vm + 1]:
            out[vm + 1] = -np.inf
            continue
        if vm > 0 and asked[vm] and _as_before(observation, features, vm):
            out[vm + 1] = out[vm]
            continue
        _copy(base, layer)
        _add(scratch.hidden[vm], weights.place, layer)
        _cut(layer)
        out[vm + 1] = weights.place_offset[0] + _dot(layer, weights.place_score)
    _copy(weights.wait_bias, layer)
    _add(context, weights.wait, layer)
    _cut(layer)
    out[0] = weights.wait_offset[0] + _dot(layer, weights.wait_score)


@njit()
def _hide(
    weights: SharedWeights, observation: Float32Array, rest: Float32Array, scratch: Scratch, vms: int
) -> None:
    """Write the hidden layer of every VM, and its mean and largest over the VMs."""
    features, units, pool = weights.vm.shape[0], len(weights.hidden_bias), scratch.pool
    _copy(weights.hidden_bias, scratch.base)
    _add(rest, weights.rest, scratch.base)
    pool[:] = _ZERO
    for vm in range(vms):
        hidden = scratch.hidden[vm]
        if _as_before(observation, features, vm):
            _copy(scratch.hidden[vm - 1], hidden)
        else:
            _copy(scratch.base, hidden)
            _add(observation[vm * features : (vm + 1) * features], weights.vm, hidden)
            _cut(hidden)
        for k in range(units):
            pool[k] += hidden[k]
            pool[units + k] = max(pool[units + k], hidden[k])
    for k in range(units):
        pool[k] /= np.float32(vms)


@njit(inline=True)
def _as_before(observation: Float32Array, features: int, vm: int) -> bool:
    """Whether the VM looks as the one before it does: so do many where much is free."""
    if vm == 0:
        return False
    for at in range(vm * features, (vm + 1) * features):
        if observation[at] != observation[at - features]:
            return False
    return True


@njit(inline=True)
def _add(inputs: Float32Array, matrix: Float32Array, out: Float32Array) -> None:
    """Add inputs x matrix to `out`."""
    for i in range(len(inputs)):
        x = inputs[i]
        if x != _ZERO:
            for k in range(len(out)):
                out[k] += x * matrix[i, k]


@njit(inline=True)
def _copy(source: Float32Array, out: Float32Array) -> None:
    for k in range(len(out)):
        out[k] = source[k]


@njit(inline=True)
def _cut(layer: Float32Array) -> None:
    """Relu."""
    for k in range(len(layer)):
        layer[k] = max(layer[k], _ZERO)


@njit(inline=True)
def _dot(one: Float32Array, other: Float32Array) -> float:
    total = _ZERO
    for k in range(len(one)):
        total += one[k] * other[k]
    return total  # type: ignore[return-value]
