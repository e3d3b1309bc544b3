"""The comparison partners of Zhao 2023, 4: DRF, FAIRNESS, BINPACKING and SPREADING, compiled.

They allocate from scratch in every slot and learn nothing. Where requests are per channel, a port asks every
instance it is joined with for a_l; where they are totals, it asks them one after the other until it has a_l
in all.
"""

from agents.oga.kernel.planes import Graph, IndexArray
from environment.kernel.compiled import njit
from environment.types import FloatArray, IntArray

#: The order in which a port asks its instances: as they are numbered, the most used first, the least used
#: first.
AS_NUMBERED, MOST_USED, LEAST_USED = 0, 1, 2


@njit(entry=True, ieee=True)
def share_out(graph: Graph, arrivals: FloatArray, totals: bool, sums: FloatArray, out: FloatArray) -> None:
    """FAIRNESS: each instance's resource is shared among present ports in proportion to a_l, up to a_l.

    The paper's formula has the requests of all joined ports below the line; with those of ports that have a
    job, as here, nothing is left unused, which makes a stronger partner. `sums` [K, L] is scratch.
    """
    sums[:] = 0.0
    for k in range(graph.beta.size):
        for r in range(graph.start.size - 1):
            asked = 0.0
            for e in range(graph.start[r], graph.start[r + 1]):
                p = graph.port[e]
                asked += graph.bounds[k, p] if arrivals[p] > 0.0 else 0.0
            for e in range(graph.start[r], graph.start[r + 1]):
                p = graph.port[e]
                out[k, e] = 0.0
                if arrivals[p] > 0.0 and asked > 0.0:
                    share = graph.bounds[k, p] / asked * graph.capacity[k, r]
                    out[k, e] = min(share, graph.bounds[k, p])
                    sums[k, p] += out[k, e]
        for e in range(graph.port.size):
            p = graph.port[e]
            if totals and sums[k, p] > graph.bounds[k, p]:
                out[k, e] *= graph.bounds[k, p] / sums[k, p]


@njit(entry=True, ieee=True)
def serve_in_turn(
    graph: Graph,
    arrivals: FloatArray,
    turns: IntArray,
    order: int,
    totals: bool,
    free: FloatArray,
    queue: IndexArray,
    used: FloatArray,
    out: FloatArray,
) -> None:
    """Serve the requests of ports that have a job, in the order of `turns` [L], while resources last.

    DRF's turns are by dominant share, those of BINPACKING and SPREADING by number; these two differ in the
    instance that a port takes from first, and so only where requests are totals. `free` [K, R], and `queue`
    and `used` of the widest port, are scratch.
    """
    resources = graph.beta.size
    out[:] = 0.0
    for k in range(resources):
        for r in range(graph.start.size - 1):
            free[k, r] = graph.capacity[k, r]
    for p in turns:
        if arrivals[p] <= 0.0:
            continue
        begin, n = graph.port_start[p], graph.port_start[p + 1] - graph.port_start[p]
        for i in range(n):
            e = graph.edges[begin + i]
            share = _used(graph, free, graph.instance[e]) if totals and order != AS_NUMBERED else 0.0
            _insert(queue, used, i, e, -share if order == MOST_USED else share)
        for k in range(resources):
            wanted = graph.bounds[k, p]
            for i in range(n):
                e = queue[i]
                r = graph.instance[e]
                taken = min(wanted, free[k, r])
                out[k, e] = taken
                free[k, r] -= taken
                if totals:
                    wanted -= taken


@njit(ieee=True)
def _insert(queue: IndexArray, keys: FloatArray, count: int, edge: int, key: float) -> None:
    """Put an edge in its place among the first `count`, in order of keys, behind those of the same key."""
    i = count
    while i > 0 and keys[i - 1] > key:
        queue[i], keys[i] = queue[i - 1], keys[i - 1]
        i -= 1
    queue[i], keys[i] = edge, key


@njit(ieee=True)
def _used(graph: Graph, free: FloatArray, r: int) -> float:
    """The share of an instance that is taken, on average over the resources it has."""
    used, count = 0.0, 0
    for k in range(graph.beta.size):
        if graph.capacity[k, r] > 0.0:
            used += 1.0 - free[k, r] / graph.capacity[k, r]
            count += 1
    return used / max(count, 1)
