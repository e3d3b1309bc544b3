"""A step of online gradient ascent: gradient (Zhao 2023, eq. 30), ascent and projection (eq. 31); rewards.

Every function computes resources `first` to `last`, so that threads can share them.
"""

from agents.oga.kernel.planes import Graph
from agents.oga.kernel.projection import clip, threshold
from agents.oga.kernel.utilities import slopes, value
from environment.kernel.compiled import njit
from environment.types import FloatArray


@njit(entry=True, ieee=True)
def ascend(
    graph: Graph,
    y: FloatArray,
    gains: FloatArray,
    overheads: FloatArray,
    eta: float,
    after: FloatArray,
    theta: FloatArray,
    scratch: FloatArray,
    first: int,
    last: int,
) -> None:
    """Write the projection of y + eta * gradient into `after` [K, E], its multipliers into `theta` [K, R].

    `gains` [L] and `overheads` [K, L] are the factors of f' and of beta for a port's arrivals: x_l, and
    x_l * beta_k where k dominates. The search for `theta` begins at its values; `scratch` is [K, 2, width].
    """
    for k in range(first, last):
        z, a = scratch[k, 0], scratch[k, 1]
        overhead, bounds = overheads[k], graph.bounds[k]
        for r in range(graph.start.size - 1):
            begin, end = graph.start[r], graph.start[r + 1]
            n = end - begin
            ports, old, new = graph.port[begin:end], y[k, begin:end], after[k, begin:end]
            slopes(graph.kinds[k, r], graph.alphas[k, r], old, z)
            present = 0.0
            for i in range(n):
                p = ports[i]
                present += gains[p]
                z[i] = old[i] + eta * (gains[p] * z[i] - overhead[p])
                a[i] = bounds[p]
            if present > 0.0:
                theta[k, r] = threshold(z, a, n, graph.capacity[k, r], theta[k, r])
                clip(z, a, n, theta[k, r], new)
            else:
                for i in range(n):
                    new[i] = old[i]


@njit(entry=True, ieee=True)
def gradient(
    graph: Graph,
    y: FloatArray,
    gains: FloatArray,
    overheads: FloatArray,
    out: FloatArray,
    first: int,
    last: int,
) -> None:
    """The gradient (eq. 30) into `out` [K, E]; arguments as for `ascend`."""
    for k in range(first, last):
        for r in range(graph.start.size - 1):
            begin, end = graph.start[r], graph.start[r + 1]
            ports, row = graph.port[begin:end], out[k, begin:end]
            slopes(graph.kinds[k, r], graph.alphas[k, r], y[k, begin:end], row)
            for i in range(end - begin):
                row[i] = gains[ports[i]] * row[i] - overheads[k, ports[i]]


@njit(entry=True, ieee=True)
def project(
    graph: Graph,
    z: FloatArray,
    out: FloatArray,
    theta: FloatArray,
    scratch: FloatArray,
    first: int,
    last: int,
) -> None:
    """The projection of z [K, E] onto constraints (5) and (6) into `out`, which may be z itself."""
    for k in range(first, last):
        kept, a = scratch[k, 0], scratch[k, 1]
        for r in range(graph.start.size - 1):
            begin, end = graph.start[r], graph.start[r + 1]
            for e in range(begin, end):
                kept[e - begin] = z[k, e]
                a[e - begin] = graph.bounds[k, graph.port[e]]
            theta[k, r] = threshold(kept, a, end - begin, graph.capacity[k, r], theta[k, r])
            clip(kept, a, end - begin, theta[k, r], out[k, begin:end])


@njit(entry=True, ieee=True)
def project_between(
    graph: Graph,
    z: FloatArray,
    upper: FloatArray,
    capacity: FloatArray,
    out: FloatArray,
    scratch: FloatArray,
) -> None:
    """Project z [K, E] onto {0 <= y <= upper, sums within capacity} with bounds and capacity of one's own."""
    for k in range(capacity.shape[0]):
        kept, a = scratch[k, 0], scratch[k, 1]
        for r in range(graph.start.size - 1):
            begin, end = graph.start[r], graph.start[r + 1]
            for e in range(begin, end):
                kept[e - begin], a[e - begin] = z[k, e], upper[k, e]
            theta = threshold(kept, a, end - begin, capacity[k, r], 0.0)
            clip(kept, a, end - begin, theta, out[k, begin:end])


@njit(entry=True, ieee=True)
def project_totals(
    graph: Graph,
    z: FloatArray,
    out: FloatArray,
    theta: FloatArray,
    nu: FloatArray,
    sums: FloatArray,
    scratch: FloatArray,
    tolerance: float,
    sweeps: int,
    first: int,
    last: int,
) -> None:
    """Project z [K, E] onto (5), (6) and totals over instances of at most a_l^k, into `out`, another array.

    The projection is clip(z - theta_r - nu_l, 0, a_l). Its multipliers are found one side at a time, each
    exactly: coordinate ascent on the dual. `theta` [K, R] and `nu` [K, L] are the start values, `sums` [K, L]
    is scratch. It ends when no port's total is off by more than `tolerance` of its request, or after `sweeps`
    sweeps; totals that then still exceed a request are scaled down, so that the result is feasible.
    """
    for k in range(first, last):
        kept, a = scratch[k, 0], scratch[k, 1]
        for sweep in range(sweeps):
            sums[k, :] = 0.0
            for r in range(graph.start.size - 1):
                begin, end = graph.start[r], graph.start[r + 1]
                for e in range(begin, end):
                    kept[e - begin] = z[k, e] - nu[k, graph.port[e]]
                    a[e - begin] = graph.bounds[k, graph.port[e]]
                theta[k, r] = threshold(kept, a, end - begin, graph.capacity[k, r], theta[k, r])
                clip(kept, a, end - begin, theta[k, r], out[k, begin:end])
                for e in range(begin, end):
                    sums[k, graph.port[e]] += out[k, e]
            if sweep == sweeps - 1 or _off(sums[k], nu[k], graph.bounds[k]) <= tolerance:
                break
            for p in range(graph.job.size):
                begin, end = graph.port_start[p], graph.port_start[p + 1]
                for i in range(begin, end):
                    e = graph.edges[i]
                    kept[i - begin] = z[k, e] - theta[k, graph.instance[e]]
                    a[i - begin] = graph.bounds[k, p]
                nu[k, p] = threshold(kept, a, end - begin, graph.bounds[k, p], nu[k, p])
        for e in range(graph.port.size):
            p = graph.port[e]
            if sums[k, p] > graph.bounds[k, p]:
                out[k, e] *= graph.bounds[k, p] / sums[k, p]


@njit(ieee=True)
def _off(sums: FloatArray, nu: FloatArray, bounds: FloatArray) -> float:
    """The largest share of its request by which a port's total breaks the optimality conditions."""
    worst = 0.0
    for p in range(bounds.size):
        if bounds[p] > 0.0:
            off = (sums[p] - bounds[p]) / bounds[p]
            worst = max(worst, abs(off) if nu[p] > 0.0 else off)
    return worst


@njit(entry=True, ieee=True)
def job_totals(graph: Graph, y: FloatArray, out: FloatArray, first: int, last: int) -> None:
    """Sum y [K, E] over the instances and tasks of each job, into `out` [K, J]."""
    for k in range(first, last):
        row, mine = y[k], out[k]
        mine[:] = 0.0
        for e in range(graph.port.size):
            mine[graph.job[graph.port[e]]] += row[e]


@njit(entry=True, ieee=True)
def dominate(graph: Graph, totals: FloatArray, arrivals: FloatArray, overheads: FloatArray) -> None:
    """Fill `overheads` [K, L]: x_l * beta_k where k dominates the overhead of the port's job (eq. 27)."""
    for p in range(graph.job.size):
        best = 0
        for k in range(1, graph.beta.size):
            if graph.beta[k] * totals[k, graph.job[p]] > graph.beta[best] * totals[best, graph.job[p]]:
                best = k
        overheads[:, p] = 0.0
        overheads[best, p] = arrivals[p] * graph.beta[best]


@njit(entry=True, ieee=True)
def port_gains(graph: Graph, y: FloatArray, arrivals: FloatArray, out: FloatArray) -> None:
    """The computation gain of each port that has a job, the first part of eq. 7, into `out` [L]."""
    out[:] = 0.0
    for k in range(graph.beta.size):
        for r in range(graph.start.size - 1):
            kind, alpha = graph.kinds[k, r], graph.alphas[k, r]
            for e in range(graph.start[r], graph.start[r + 1]):
                p = graph.port[e]
                if arrivals[p] > 0.0 and y[k, e] > 0.0:
                    out[p] += value(kind, alpha, y[k, e])


@njit(entry=True, ieee=True)
def job_overheads(graph: Graph, totals: FloatArray, out: FloatArray) -> None:
    """The dominant overhead of each job, the second part of eq. 7, into `out` [J]."""
    for j in range(out.size):
        out[j] = 0.0
        for k in range(graph.beta.size):
            out[j] = max(out[j], graph.beta[k] * totals[k, j])


@njit(entry=True, ieee=True)
def squared_norm(gradient: FloatArray) -> float:
    """The squared Euclidean norm of a gradient [K, E]."""
    total = 0.0
    for k in range(gradient.shape[0]):
        for e in range(gradient.shape[1]):
            total += gradient[k, e] * gradient[k, e]
    return total
