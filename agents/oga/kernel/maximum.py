"""Finds the allocation with the largest reward at given overhead prices, exactly, one resource at a time.

The overhead of port l is max_k beta_k Y_l^k. It equals the largest weighted sum of beta_k Y_l^k over weights
w_lk >= 0 whose sum over the resources k is 1. At fixed weights, the reward is a sum of one problem for each
resource (a plane), which can be solved by itself:

    maximise the sum over edges of g_l f(y) - p_l y, with the overhead price p_l = x_l w_lk beta_k

In the solution every edge gets the amount y, between 0 and its bound a_l, at which its marginal reward equals
its prices: g_l f'(y) = p_l + lambda_r + nu_l. Here lambda_r, the level, is the price of the capacity of
instance r, and nu_l the price of the request of port l, which is 0 unless requests bound totals. Finding the
prices at which capacities and requests just hold is known as water filling.

With a linear utility many allocations are equally good. A small pull towards `centre` picks one of them:
f'(y) = alpha * (1 - softness * (y - centre) / c_r).
"""

import math

from agents.oga.kernel.planes import Graph
from agents.oga.kernel.utilities import LINEAR, LOG, POLY, RECIPROCAL, slope, value
from environment.kernel.compiled import njit
from environment.types import FloatArray

#: Rows of a plane's scratch: price, gain, bound, alpha, kind, centre, stiffness, and the request.
ROWS = 8
_PRICE, _GAIN, _BOUND, _ALPHA, _KIND, _CENTRE, _STIFF, _ASKED = 0, 1, 2, 3, 4, 5, 6, 7
#: In place of a kind of utility where edges have different ones.
_MIXED = -1
_STEPS = 100
#: How near to a capacity is near enough; amounts above it are scaled down.
_CLOSE = 1e-6


@njit(entry=True, ieee=True)
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
    """Write the best amounts of resources first up to but without last into `out` [K, E].

    `gains` [L] are g_l; 0 means a port that is absent and gets nothing. `prices` [K, L] are p_l, and
    `centre` is [K, E]. `level` [K, R] and `nu` [K, L] are the prices of capacities and of requests: the
    search begins with them, and writes its result there. With `totals`, requests bound each port's total,
    and the two kinds of prices are found in turns, in at most `sweeps` of them, until totals are off by no
    more than `tolerance`, as a share. `sums` [K, L] and `scratch` [K, ROWS, width] are scratch.
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


@njit(ieee=True, inline=True)
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
    """Share one instance's capacity among the ports that are present, at given prices of their requests."""
    begin, end = graph.start[r], graph.start[r + 1]
    capacity, kind, alpha = graph.capacity[k, r], graph.kinds[k, r], graph.alphas[k, r]
    stiff = _stiffness(graph, k, r, softness)
    n = 0
    for e in range(begin, end):
        p = graph.port[e]
        if gains[p] > 0.0:
            price = prices[k, p] + (nu[k, p] if totals else 0.0)
            _write(rows, n, price, gains[p], graph.bounds[k, p], alpha, kind, centre[k, e], stiff)
            n += 1
    level[k, r] = _root(rows, n, kind, capacity, level[k, r])
    i, total = 0, 0.0
    for e in range(begin, end):
        out[k, e] = 0.0
        if gains[graph.port[e]] > 0.0:
            out[k, e] = rows[_ASKED, i]
            total += out[k, e]
            i += 1
    if total > capacity:
        for e in range(begin, end):
            out[k, e] *= capacity / total


@njit(ieee=True, inline=True)
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
    """Find the price at which the port's total is no more than its request, at given prices of capacities."""
    n = 0
    for i in range(graph.port_start[p], graph.port_start[p + 1]):
        e = graph.edges[i]
        r = graph.instance[e]
        price, bound = prices[k, p] + level[k, r], graph.bounds[k, p]
        alpha, kind, stiff = graph.alphas[k, r], graph.kinds[k, r], _stiffness(graph, k, r, softness)
        _write(rows, n, price, gains[p], bound, alpha, kind, centre[k, e], stiff)
        n += 1
    nu[k, p] = _root(rows, n, _MIXED, graph.bounds[k, p], nu[k, p])


@njit(ieee=True, inline=True)
def _write(
    rows: FloatArray,
    n: int,
    price: float,
    gain: float,
    bound: float,
    alpha: float,
    kind: int,
    centre: float,
    stiff: float,
) -> None:
    rows[_PRICE, n], rows[_GAIN, n], rows[_BOUND, n] = price, gain, bound
    rows[_ALPHA, n], rows[_KIND, n], rows[_CENTRE, n], rows[_STIFF, n] = alpha, kind, centre, stiff


@njit(ieee=True, inline=True)
def _stiffness(graph: Graph, k: int, r: int, softness: float) -> float:
    """Decrease of the slope of a linear utility per unit of the amount."""
    return float(softness * graph.alphas[k, r] / max(graph.capacity[k, r], 1e-12))


@njit(ieee=True)
def _amount(rows: FloatArray, i: int, level: float) -> float:
    """Demand of edge i at a level, which it pays on top of its own price."""
    return _demand(rows, i, level)[0]


@njit(ieee=True)
def _demand(rows: FloatArray, i: int, level: float) -> tuple[float, float]:
    """Demand of edge i at a level, and the rate at which it falls as the level grows."""
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
def _ask(rows: FloatArray, n: int, kind: int, level: float) -> tuple[float, float]:
    """Write the demands of n edges at a level into the rows; return the sum, and its fall with the level.

    `kind` is that of all of them, for which there is one loop each, or _MIXED.
    """
    price, gain, bound, asked = rows[_PRICE], rows[_GAIN], rows[_BOUND], rows[_ASKED]
    total, fall = 0.0, 0.0
    if kind == LINEAR:
        for i in range(n):
            wanted = rows[_CENTRE, i] + (rows[_ALPHA, i] - (level + price[i]) / gain[i]) / rows[_STIFF, i]
            asked[i] = min(max(wanted, 0.0), bound[i])
            total += asked[i]
            fall += 1.0 / (gain[i] * rows[_STIFF, i]) if asked[i] == wanted else 0.0
    elif kind == LOG:
        for i in range(n):
            per = 1.0 / (level + price[i])
            slope_ = rows[_ALPHA, i] * gain[i] * per
            wanted = slope_ - 1.0
            asked[i] = min(max(wanted, 0.0), bound[i])
            total += asked[i]
            fall += slope_ * per if asked[i] == wanted else 0.0
    elif kind == RECIPROCAL:
        for i in range(n):
            per = 1.0 / (level + price[i])
            root = math.sqrt(gain[i] * per)
            wanted = root - rows[_ALPHA, i]
            asked[i] = min(max(wanted, 0.0), bound[i])
            total += asked[i]
            fall += 0.5 * root * per if asked[i] == wanted else 0.0
    elif kind == POLY:
        for i in range(n):
            per = 1.0 / (level + price[i])
            half = 0.5 * rows[_ALPHA, i] * gain[i] * per
            wanted = half * half - 1.0
            asked[i] = min(max(wanted, 0.0), bound[i])
            total += asked[i]
            fall += 2.0 * half * half * per if asked[i] == wanted else 0.0
    else:
        for i in range(n):
            asked[i], falls = _demand(rows, i, level)
            total += asked[i]
            fall += falls
    return total, fall


@njit(ieee=True)
def _root(rows: FloatArray, n: int, kind: int, capacity: float, guess: float) -> float:
    """The least level >= 0 at which n edges demand no more than `capacity`; the rows get the demands.

    Newton's method within a bracket, from `guess`. Level 0 is tried only when it seems to be enough.
    """
    if capacity <= 0.0:
        level = _highest(rows, n)
        _ask(rows, n, kind, level)
        return level
    low, high, level, free = 0.0, math.inf, max(guess, 0.0), True
    for _ in range(_STEPS):
        total, fall = _ask(rows, n, kind, level)
        if total > capacity:
            low, free = level, False
        elif level == 0.0:
            break
        else:
            high = level
        if abs(total - capacity) <= _CLOSE * capacity or low >= high * (1.0 - 1e-15):
            break
        step = level + (total - capacity) / fall if fall > 0.0 else math.inf
        if total > capacity and kind != LINEAR:
            # Amounts fall like a power of the level: from above, Newton on 1 / total gets there sooner.
            step = level + (step - level) * total / capacity
        if free and not step > 0.0:
            level = 0.0
        elif low < step < high:
            level = step
        elif free and total <= capacity:
            level = 0.0
        else:
            high = min(high, _highest(rows, n))
            level = _between(rows, n, low, high)
    return level


@njit(ieee=True)
def _highest(rows: FloatArray, n: int) -> float:
    """The least level >= 0 at which no edge asks for anything."""
    high = 0.0
    for i in range(n):
        high = max(high, _level_of(rows, i, 0.0))
    return high


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


@njit(entry=True, ieee=True)
def upper_bound(
    graph: Graph,
    gains: FloatArray,
    prices: FloatArray,
    level: FloatArray,
    nu: FloatArray,
    totals: bool,
    scratch: FloatArray,
) -> float:
    """Upper bound on any reward (weak duality), at any prices of overheads, capacity and requests.

    The better the prices, the tighter; those of capacity are improved where the utility is linear. Arguments
    as for `maximise`.
    """
    bound = 0.0
    for k in range(graph.beta.size):
        rows = scratch[k]
        for r in range(graph.start.size - 1):
            n, kind, alpha = 0, graph.kinds[k, r], graph.alphas[k, r]
            for e in range(graph.start[r], graph.start[r + 1]):
                p = graph.port[e]
                if gains[p] > 0.0:
                    price = prices[k, p] + (nu[k, p] if totals else 0.0)
                    _write(rows, n, price, gains[p], graph.bounds[k, p], alpha, kind, 0.0, 0.0)
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
