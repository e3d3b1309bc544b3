"""Filling again and again while the prices of overheads are learned: a slot of `oga-conserving`.

Prices come of weights, of which each job has one for every resource; they grow where its overhead is largest.
What is filled at given prices is in `maximum`.
"""

import math

from agents.oga.kernel import ascent
from agents.oga.kernel.maximum import maximise
from agents.oga.kernel.planes import Graph
from environment.kernel.compiled import njit
from environment.types import FloatArray

#: No weight falls below this, so that it can grow again.
_LEAST_WEIGHT = 1e-9


@njit(ieee=True)
def conserve(
    graph: Graph,
    arrivals: FloatArray,
    gains: FloatArray,
    centre: FloatArray,
    softness: float,
    totals: bool,
    weights: FloatArray,
    level: FloatArray,
    nu: FloatArray,
    prices: FloatArray,
    scratch: FloatArray,
    held: FloatArray,
    there: FloatArray,
    earned: FloatArray,
    tries: FloatArray,
    sweeps: int,
    least: int,
    most: int,
    growth: float,
    rate: float,
) -> int:
    """Fill tries [2, K, E] in turn, until a round adds less than a share `growth`; return which one is best.

    `arrivals` and `gains` are [L], the latter what multiplies f; `centre`, `softness`, `totals`, `level`,
    `nu` and `scratch` as for `maximise`. `weights` [K, J] are learned at `rate`, less from round to round.
    There are `least` to `most` rounds. `prices` [2, K, L], `held` [K, J], `there` [J] and `earned` [L] are
    scratch.
    """
    resources, best, chosen = graph.beta.size, -math.inf, 0
    present_jobs(graph, arrivals, there)
    for number in range(most):
        out = tries[1 - chosen]
        overhead_prices(graph, weights, arrivals, prices[0])
        maximise(
            graph,
            gains,
            prices[0],
            centre,
            softness,
            totals,
            out,
            level,
            nu,
            prices[1],
            scratch,
            1e-6,
            sweeps,
            0,
            resources,
        )
        ascent.job_totals(graph, out, held, 0, resources)
        reward = _reward(graph, gains, there, out, held, earned)
        reweigh(graph, held, there, rate / math.sqrt(1.0 + number), weights)
        stays = reward <= best + growth * abs(best)
        if reward > best:
            best, chosen = reward, 1 - chosen
        if stays and number + 1 >= least:
            break
    return chosen


@njit(ieee=True)
def present_jobs(graph: Graph, arrivals: FloatArray, out: FloatArray) -> None:
    """Arrivals of jobs into `out` [J] from those of ports [L]: a job is there when one of its tasks is."""
    out[:] = 0.0
    for p in range(graph.job.size):
        out[graph.job[p]] = max(out[graph.job[p]], arrivals[p])


@njit(ieee=True)
def overhead_prices(graph: Graph, weights: FloatArray, arrivals: FloatArray, out: FloatArray) -> None:
    """What a unit of each resource costs each port in overhead, into `out` [K, L]."""
    for k in range(graph.beta.size):
        for p in range(graph.job.size):
            out[k, p] = weights[k, graph.job[p]] * graph.beta[k] * arrivals[p]


@njit(ieee=True)
def reweigh(graph: Graph, held: FloatArray, there: FloatArray, rate: float, weights: FloatArray) -> None:
    """Shift weights of jobs that are there to resources whose overheads dominate what they hold [K, J]."""
    for j in range(there.size):
        worst = 0.0
        for k in range(graph.beta.size):
            worst = max(worst, graph.beta[k] * held[k, j])
        if there[j] > 0.0 and worst > 0.0:
            total = 0.0
            for k in range(graph.beta.size):
                relative = graph.beta[k] * held[k, j] / worst - 1.0
                weights[k, j] = max(weights[k, j], _LEAST_WEIGHT) * math.exp(rate * relative)
                total += weights[k, j]
            for k in range(graph.beta.size):
                weights[k, j] /= total


@njit(ieee=True)
def _reward(
    graph: Graph, gains: FloatArray, there: FloatArray, y: FloatArray, held: FloatArray, earned: FloatArray
) -> float:
    """Zhao 2023, eq. 7-8, with `gains` [L] for what multiplies f."""
    ascent.port_gains(graph, y, gains, earned)
    reward = 0.0
    for p in range(earned.size):
        reward += gains[p] * earned[p]
    for j in range(there.size):
        worst = 0.0
        for k in range(graph.beta.size):
            worst = max(worst, graph.beta[k] * held[k, j])
        reward -= there[j] * worst
    return reward
