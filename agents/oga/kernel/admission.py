"""Admission of tasks, compiled: a job its minimum of tasks, a task its floor, or nothing (Zhao 2023, 3.5).

Only floors are assigned here; amounts beyond them come from a projection, in `ascent`.
"""

import numpy as np

from agents.oga.kernel.planes import Graph
from environment.kernel.compiled import njit
from environment.kernel.state import BoolArray
from environment.types import FloatArray, IntArray

#: The share of a request by which arithmetic may miss a floor.
_ROUNDING = 1e-9


@njit(entry=True, ieee=True)
def count_scheduled(graph: Graph, y: FloatArray, arrivals: FloatArray, floor: float, out: IntArray) -> None:
    """Count the present tasks of each job with their floors met in y [K, E], into `out` [J]."""
    out[:] = 0
    for port in range(arrivals.size):
        if arrivals[port] > 0.0 and _met(graph, y, port) >= floor - _ROUNDING:
            out[graph.job[port]] += 1


@njit(entry=True, ieee=True)
def admit(
    graph: Graph,
    y: FloatArray,
    order: IntArray,
    first: IntArray,
    minimum: IntArray,
    floor: float,
    free: FloatArray,
    lower: FloatArray,
    admitted: BoolArray,
    met: FloatArray,
    turns: IntArray,
    begun: IntArray,
    asked: BoolArray,
) -> None:
    """Write the floors `lower` [K, E] of the tasks that start, and mark these tasks in `admitted` [L].

    Jobs come in the order of `order`, the tasks of one in the order in which y meets their floors; a job that
    cannot have its minimum gets nothing. After all jobs, further tasks start where their floors still fit.
    Ports `first[j]` to `first[j + 1]` are job j's. The tasks' amounts are subtracted from `free` [K, R];
    `met` and `turns` [L], `begun` [J] and `asked` of the widest port are scratch.
    """
    lower[:] = 0.0
    admitted[:] = False
    for job in order:
        begin, end = first[job], first[job + 1]
        for port in range(begin, end):
            met[port] = _met(graph, y, port)
            place = port
            while place > begin and met[turns[place - 1]] < met[port]:
                turns[place] = turns[place - 1]
                place -= 1
            turns[place] = port
        turn, started = begin, 0
        while turn < end and started < minimum[job]:
            if _reserve(graph, y, turns[turn], floor, free, lower, asked):
                admitted[turns[turn]] = True
                started += 1
            turn += 1
        if started < minimum[job]:
            for place in range(begin, turn):
                _release(graph, turns[place], free, lower)
                admitted[turns[place]] = False
            turn = end
        begun[job] = turn
    for job in order:
        for turn in range(begun[job], first[job + 1]):
            port = turns[turn]
            admitted[port] = _reserve(graph, y, port, floor, free, lower, asked)


@njit(ieee=True)
def _met(graph: Graph, y: FloatArray, port: int) -> float:
    """Least share of its requests that a port gets, over resources."""
    least = np.inf
    for k in range(graph.beta.size):
        if graph.bounds[k, port] > 0.0:
            got = 0.0
            for i in range(graph.port_start[port], graph.port_start[port + 1]):
                got += y[k, graph.edges[i]]
            least = min(least, got / graph.bounds[k, port])
    return least


@njit(ieee=True)
def _reserve(
    graph: Graph,
    y: FloatArray,
    port: int,
    floor: float,
    free: FloatArray,
    lower: FloatArray,
    asked: BoolArray,
) -> bool:
    """Reserve a task's floor where y allocates most to it; nothing is reserved when it does not fit."""
    begin, end = graph.port_start[port], graph.port_start[port + 1]
    for k in range(graph.beta.size):
        bound = graph.bounds[k, port]
        needed = floor * bound
        asked[: end - begin] = False
        for _ in range(begin, end):
            if needed <= _ROUNDING * bound:
                break
            best = -1
            for i in range(begin, end):
                if not asked[i - begin] and (best < 0 or y[k, graph.edges[i]] > y[k, graph.edges[best]]):
                    best = i
            asked[best - begin] = True
            edge = graph.edges[best]
            taken = min(needed, free[k, graph.instance[edge]], bound)
            lower[k, edge] = taken
            free[k, graph.instance[edge]] -= taken
            needed -= taken
        if needed > _ROUNDING * bound:
            _release(graph, port, free, lower)
            return False
    return True


@njit(ieee=True)
def _release(graph: Graph, port: int, free: FloatArray, lower: FloatArray) -> None:
    """Return a task's amounts to `free`."""
    for k in range(graph.beta.size):
        for i in range(graph.port_start[port], graph.port_start[port + 1]):
            edge = graph.edges[i]
            free[k, graph.instance[edge]] += lower[k, edge]
            lower[k, edge] = 0.0
