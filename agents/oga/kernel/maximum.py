"""The allocation that earns most at given overhead prices: water filling, exactly, plane by plane.

With the overhead max_k beta_k Y_l^k written as the largest mean sum_k w_lk beta_k Y_l^k over weights w_l that
sum to one, the reward at fixed weights falls apart into planes: sum of g_l f(y) - p_l y, with p_l = x_l w_lk
beta_k. Its maximum gives every edge the amount at which g_l f'(y) = p_l + lambda_r + nu_l, within 0 and a_l;
lambda_r is the price of the instance's capacity, nu_l that of the port's total, where requests are totals.

A linear utility leaves open who gets what: a small pull towards `centre` decides, f'(y) = alpha * (1 -
softness * (y - centre) / c_r).
"""

import math

from agents.oga.kernel.planes import Graph
from agents.oga.kernel.utilities import LINEAR, LOG, RECIPROCAL, slope, value
from environment.compiled import njit
from environment.types import FloatArray

#: Rows of a plane's scratch: price, gain, bound, alpha, kind, centre, stiffness.
ROWS = 7
_PRICE, _GAIN, _BOUND, _ALPHA, _KIND, _CENTRE, _STIFF = 0, 1, 2, 3, 4, 5, 6
_STEPS = 100
#: How near to a capacity is near enough; what is above it is scaled down.
_CLOSE = 1e-9


@njit(ieee=True)
def maximise(
    graph: Graph,
    gains: FloatArray,
    prices: FloatArray,
    centre: FloatArray,
    softness: float,
    totals: bool,
    out: FloatArray,
    level: FloatArray,
    nu: FloatArray,
    sums: FloatArray,
    scratch: FloatArray,
    tolerance: float,
    sweeps: int,
    first: int,
    last: int,
) -> None:
    """Fill `out` [K, E] for resources first to last; ports without gain get nothing.

    `gains` [L], `prices` [K, L], `centre` [K, E]; `level` [K, R] and `nu` [K, L] are the prices of capacity
    and of requests where they are totals: where to start, and what was found. `sums` [K, L] and `scratch`
    [K, ROWS, width] are scratch.
    """
    for k in range(first, last):
        for sweep in range(sweeps if totals else 1):
            sums[k, :] = 0.0
            for r in range(graph.start.size - 1):
                _fill_instance(
                    graph, k, r, gains, prices, centre, softness, totals, out, level, nu, scratch[k]
                )
                for e in range(graph.start[r], graph.start[r + 1]):
                    sums[k, graph.port[e]] += out[k, e]
            if not totals or sweep == sweeps - 1:
                break
            if _off(sums[k], nu[k], graph.bounds[k], gains) <= tolerance:
                break
            for p in range(graph.job.size):
                if gains[p] > 0.0:
                    _price_port(graph, k, p, gains, prices, centre, softness, level, nu, scratch[k])
        if totals:
            for e in range(graph.port.size):
                p = graph.port[e]
                if sums[k, p] > graph.bounds[k, p]:
                    out[k, e] *= graph.bounds[k, p] / sums[k, p]


@njit(ieee=True)
def _fill_instance(
    graph: Graph,
    k: int,
    r: int,
    gains: FloatArray,
    prices: FloatArray,
    centre: FloatArray,
    softness: float,
    totals: bool,
    out: FloatArray,
    level: FloatArray,
    nu: FloatArray,
    rows: FloatArray,
) -> None:
    """Share one instance's resource among its present ports, at the prices of their totals."""
    begin, end = graph.start[r], graph.start[r + 1]
    capacity = graph.capacity[k, r]
    n = 0
    for e in range(begin, end):
        p = graph.port[e]
        if gains[p] > 0.0:
            price = prices[k, p] + (nu[k, p] if totals else 0.0)
            _write(rows, n, graph, k, r, price, gains[p], graph.bounds[k, p], centre[k, e], softness)
            n += 1
    found = _root(rows, n, capacity, level[k, r])
    level[k, r] = found
    i, total = 0, 0.0
    for e in range(begin, end):
        out[k, e] = 0.0
        if gains[graph.port[e]] > 0.0:
            out[k, e] = _amount(rows, i, found)
            total += out[k, e]
            i += 1
    if total > capacity:
        for e in range(begin, end):
            out[k, e] *= capacity / total


@njit(ieee=True)
def _price_port(
    graph: Graph,
    k: int,
    p: int,
    gains: FloatArray,
    prices: FloatArray,
    centre: FloatArray,
    softness: float,
    level: FloatArray,
    nu: FloatArray,
    rows: FloatArray,
) -> None:
    """Find the price at which the port asks for no more than its request, at the prices of capacities."""
    n = 0
    for i in range(graph.port_start[p], graph.port_start[p + 1]):
        e = graph.edges[i]
        r = graph.instance[e]
        price = prices[k, p] + level[k, r]
        _write(rows, n, graph, k, r, price, gains[p], graph.bounds[k, p], centre[k, e], softness)
        n += 1
    nu[k, p] = _root(rows, n, graph.bounds[k, p], nu[k, p])


@njit(ieee=True)
def _write(
    rows: FloatArray,
    n: int,
    graph: Graph,
    k: int,
    r: int,
    price: float,
    gain: float,
    bound: float,
    centre: float,
    softness: float,
) -> None:
    rows[_PRICE, n], rows[_GAIN, n], rows[_BOUND, n] = price, gain, bound
    rows[_ALPHA, n], rows[_KIND, n] = graph.alphas[k, r], graph.kinds[k, r]
    rows[_CENTRE, n] = centre
    rows[_STIFF, n] = softness * graph.alphas[k, r] / max(graph.capacity[k, r], 1e-12)


@njit(ieee=True)
def _amount(rows: FloatArray, i: int, level: float) -> float:
    """What edge i asks for when its resource costs `level` more than its own price."""
    return _demand(rows, i, level)[0]


@njit(ieee=True)
def _demand(rows: FloatArray, i: int, level: float) -> tuple[float, float]:
    """What edge i asks for at a level, and by how much that falls as the level grows."""
    gain, alpha, bound = rows[_GAIN, i], rows[_ALPHA, i], rows[_BOUND, i]
    marginal = (level + rows[_PRICE, i]) / gain
    kind = int(rows[_KIND, i])
    if kind == LINEAR:
        wanted = rows[_CENTRE, i] + (alpha - marginal) / rows[_STIFF, i]
        falls = 1.0 / (gain * rows[_STIFF, i])
    elif marginal <= 0.0:
        return bound, 0.0
    elif kind == LOG:
        wanted = alpha / marginal - 1.0
        falls = alpha / (marginal * marginal * gain)
    elif kind == RECIPROCAL:
        root = 1.0 / math.sqrt(marginal)
        wanted = root - alpha
        falls = 0.5 * root / (marginal * gain)
    else:
        half = 0.5 * alpha / marginal
        wanted = half * half - 1.0
        falls = 2.0 * half * half / (marginal * gain)
    if wanted <= 0.0:
        return 0.0, 0.0
    if wanted >= bound:
        return bound, 0.0
    return wanted, falls


@njit(ieee=True)
def _root(rows: FloatArray, n: int, capacity: float, guess: float) -> float:
    """The least level >= 0 at which n edges ask for no more than `capacity`: Newton within a bracket."""
    total, high = 0.0, 0.0
    for i in range(n):
        total += _amount(rows, i, 0.0)
        high = max(high, _level_of(rows, i, 0.0))
    if total <= capacity:
        return 0.0
    if capacity <= 0.0:
        return high
    low = 0.0
    level = guess if low < guess < high else 0.5 * high
    for _ in range(_STEPS):
        total, fall = 0.0, 0.0
        for i in range(n):
            y, falls = _demand(rows, i, level)
            total += y
            fall += falls
        if total > capacity:
            low = level
        else:
            high = level
        if abs(total - capacity) <= _CLOSE * capacity or high - low <= 1e-15 * high:
            break
        step = level + (total - capacity) / fall if fall > 0.0 else high
        if total > capacity and int(rows[_KIND, 0]) != LINEAR:
            # Amounts fall like a power of the level: from above, Newton on 1 / total gets there sooner.
            step = level + (step - level) * total / capacity
        level = step if low < step < high else _between(rows, n, low, high)
    return level


@njit(ieee=True)
def _level_of(rows: FloatArray, i: int, y: float) -> float:
    """The level at which edge i asks for y."""
    bend = rows[_STIFF, i] * (rows[_CENTRE, i] - y) if int(rows[_KIND, i]) == LINEAR else 0.0
    marginal = slope(int(rows[_KIND, i]), rows[_ALPHA, i], y) + bend
    return float(rows[_GAIN, i] * marginal - rows[_PRICE, i])


@njit(ieee=True)
def _between(rows: FloatArray, n: int, low: float, high: float) -> float:
    """A level inside the bracket: where an edge meets a bound, nearest to the middle, or else the middle."""
    middle = 0.5 * (low + high)
    best, distance = middle, 0.5 * (high - low)
    for i in range(n):
        for y in (0.0, rows[_BOUND, i]):
            level = _level_of(rows, i, y)
            if low < level < high and abs(level - middle) < distance:
                best, distance = level, abs(level - middle)
    return best


@njit(ieee=True)
def _off(sums: FloatArray, nu: FloatArray, bounds: FloatArray, gains: FloatArray) -> float:
    """The largest share of its request by which a present port's total breaks the optimality conditions."""
    worst = 0.0
    for p in range(bounds.size):
        if bounds[p] > 0.0 and gains[p] > 0.0:
            off = (sums[p] - bounds[p]) / bounds[p]
            worst = max(worst, abs(off) if nu[p] > 0.0 else off)
    return worst


@njit(ieee=True)
def upper_bound(
    graph: Graph,
    gains: FloatArray,
    prices: FloatArray,
    level: FloatArray,
    nu: FloatArray,
    totals: bool,
    scratch: FloatArray,
) -> float:
    """What no allocation's reward exceeds (weak duality), at any prices of overheads, capacity and requests.

    The better the prices, the tighter; those of capacity are improved where the utility is linear. Arguments
    as for `maximise`.
    """
    bound = 0.0
    for k in range(graph.beta.size):
        rows = scratch[k]
        for r in range(graph.start.size - 1):
            n = 0
            for e in range(graph.start[r], graph.start[r + 1]):
                p = graph.port[e]
                if gains[p] > 0.0:
                    price = prices[k, p] + (nu[k, p] if totals else 0.0)
                    _write(rows, n, graph, k, r, price, gains[p], graph.bounds[k, p], 0.0, 0.0)
                    n += 1
            worth = _dual(rows, n, graph.capacity[k, r], level[k, r])
            if graph.kinds[k, r] == LINEAR:
                worth = min(worth, _dual(rows, n, graph.capacity[k, r], 0.0))
                for i in range(n):
                    margin = rows[_GAIN, i] * rows[_ALPHA, i] - rows[_PRICE, i]
                    worth = min(worth, _dual(rows, n, graph.capacity[k, r], max(margin, 0.0)))
            bound += worth
        if totals:
            for p in range(graph.job.size):
                if gains[p] > 0.0:
                    bound += nu[k, p] * graph.bounds[k, p]
    return bound


@njit(ieee=True)
def _dual(rows: FloatArray, n: int, capacity: float, level: float) -> float:
    """The most that n edges of an instance earn when they pay `level` for the capacity, and its price."""
    worth = level * capacity
    for i in range(n):
        kind, alpha = int(rows[_KIND, i]), rows[_ALPHA, i]
        price = level + rows[_PRICE, i]
        if kind == LINEAR:
            worth += max(rows[_GAIN, i] * alpha - price, 0.0) * rows[_BOUND, i]
        else:
            y = _amount(rows, i, level)
            worth += rows[_GAIN, i] * value(kind, alpha, y) - price * y
    return worth
