"""Repeated filling while the prices of overheads are learned: a slot of `oga-conserving`.

Prices come from weights; each job has one for every resource; they grow where its overhead is largest.
`maximum` fills at given prices.
"""

import math

from agents.oga.kernel import ascent
from agents.oga.kernel.maximum import maximise
from agents.oga.kernel.planes import Graph, IndexArray
from agents.oga.kernel.sharing import MOST_USED, serve_in_turn, share_out
from agents.oga.kernel.utilities import value
from environment.kernel.compiled import njit
from environment.types import FloatArray, IntArray

#: No weight falls below this, so that it can grow again.
_LEAST_WEIGHT = 1e-9
#: The shortest step towards the filled allocation that is tried. Chosen.
_SHORTEST = 0.1


@njit(entry=True, ieee=True)
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
    turns: IntArray,
    free: FloatArray,
    queue: IndexArray,
    used: FloatArray,
    tries: FloatArray,
    sweeps: int,
    least: int,
    most: int,
    growth: float,
    rate: float,
) -> int:
    """Fill tries [2, K, E] in turn, until a round adds less than a share `growth`; return the best index.

    `arrivals` and `gains` are [L], the latter the factors of f; `centre`, `softness`, `totals`, `level`,
    `nu` and `scratch` as for `maximise`. `weights` [K, J] are learned at `rate`, less from round to round.
    There are `least` to `most` rounds. `prices` [2, K, L], `held` [2, K, J] and `there` [J] are scratch.

    The best one begins as the better of shares in proportion to requests and nothing. Filled planes are the
    best at some prices, so that with linear utilities they jump from round to round; so a round may also end
    between the best and the filled plane. The reward is concave, and the points between are feasible.
    """
    resources, chosen = graph.beta.size, 0
    present_jobs(graph, arrivals, there)
    best = 0.0
    tries[0, :] = 0.0
    held[0, :] = 0.0
    for start in range(2 + turns.shape[0]):
        out, new = tries[1 - chosen], held[1 - chosen]
        if start == 0:
            share_out(graph, arrivals, totals, prices[1], out)
        elif start == 1:
            _of_present(graph, arrivals, centre, out)
        else:
            serve_in_turn(graph, arrivals, turns[start - 2], MOST_USED, totals, free, queue, used, out)
        ascent.job_totals(graph, out, new, 0, resources)
        reward = _reward(graph, gains, there, out, out, 0.0, new, new)
        if reward > best:
            best, chosen = reward, 1 - chosen
    for number in range(most):
        old, out = tries[chosen], tries[1 - chosen]
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
        had, new = held[chosen], held[1 - chosen]
        ascent.job_totals(graph, out, new, 0, resources)
        reweigh(graph, new, there, rate / math.sqrt(1.0 + number), weights)
        before, way, step = best, 0.0, 1.0
        while step > _SHORTEST:
            reward = _reward(graph, gains, there, old, out, step, had, new)
            if reward <= best and way > 0.0:
                break
            if reward > best:
                best, way = reward, step
            step *= 0.5
        if way > 0.0:
            if way < 1.0:
                _between(old, out, way)
                _between(had, new, way)
            chosen = 1 - chosen
        if best <= before + growth * abs(before) and number + 1 >= least:
            break
    return chosen


@njit(entry=True, ieee=True)
def present_jobs(graph: Graph, arrivals: FloatArray, out: FloatArray) -> None:
    """Arrivals of jobs into `out` [J] from those of ports [L]: a job is there when one of its tasks is."""
    out[:] = 0.0
    for p in range(graph.job.size):
        out[graph.job[p]] = max(out[graph.job[p]], arrivals[p])


@njit(entry=True, ieee=True)
def overhead_prices(graph: Graph, weights: FloatArray, arrivals: FloatArray, out: FloatArray) -> None:
    """Write each port's overhead price of a unit of each resource into `out` [K, L]."""
    for k in range(graph.beta.size):
        for p in range(graph.job.size):
            out[k, p] = weights[k, graph.job[p]] * graph.beta[k] * arrivals[p]


@njit(entry=True, ieee=True)
def reweigh(graph: Graph, held: FloatArray, there: FloatArray, rate: float, weights: FloatArray) -> None:
    """Shift weights of present jobs to the resources with the dominant overheads in `held` [K, J]."""
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
def _of_present(graph: Graph, arrivals: FloatArray, y: FloatArray, out: FloatArray) -> None:
    """Copy the part of y [K, E] for present ports into `out`."""
    for k in range(out.shape[0]):
        for e in range(out.shape[1]):
            out[k, e] = y[k, e] if arrivals[graph.port[e]] > 0.0 else 0.0


@njit(ieee=True)
def _between(old: FloatArray, new: FloatArray, way: float) -> None:
    """Replace `new` by the point at fraction `way` from `old` to `new`."""
    for k in range(new.shape[0]):
        for e in range(new.shape[1]):
            new[k, e] = old[k, e] + way * (new[k, e] - old[k, e])


@njit(ieee=True)
def _reward(
    graph: Graph,
    gains: FloatArray,
    there: FloatArray,
    old: FloatArray,
    new: FloatArray,
    way: float,
    had: FloatArray,
    held: FloatArray,
) -> float:
    """Zhao 2023, eq. 7-8, with `gains` [L] as factors of f, at fraction `way` from `old` to `new`.

    `had` and `held` [K, J] are the jobs' totals in both.
    """
    reward = 0.0
    for k in range(graph.beta.size):
        for r in range(graph.start.size - 1):
            kind, alpha = graph.kinds[k, r], graph.alphas[k, r]
            for e in range(graph.start[r], graph.start[r + 1]):
                gain = gains[graph.port[e]]
                if gain > 0.0:
                    y = old[k, e] + way * (new[k, e] - old[k, e])
                    if y > 0.0:
                        reward += gain * value(kind, alpha, y)
    for j in range(there.size):
        worst = 0.0
        for k in range(graph.beta.size):
            worst = max(worst, graph.beta[k] * (had[k, j] + way * (held[k, j] - had[k, j])))
        reward -= there[j] * worst
    return reward
