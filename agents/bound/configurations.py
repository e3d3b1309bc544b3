"""A lower bound on the cost of any schedule: the fractional configuration bound, by column generation.

At every moment a VM in use holds some configuration of executors. A linear program chooses the duration of
each configuration, so that all executors get the seconds that they need, at the least price. It ignores
arrival times and the simultaneous start of gangs, so no schedule is cheaper. Unlike perfect packing it
accounts for VMs that executors leave partly empty, for memory that runs out before cpus, and for the longer
duration of a job that fits no VM as it prefers.

Any prices of an executor's second under which no configuration is worth more than its VM yield a valid bound
(weak duality); so stopping early only makes the bound less tight.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from agents.bound.instance import Instance
from agents.bound.programs import BoundSolver, program
from environment.kernel.state import ANYWHERE, CONSOLIDATE
from environment.types import FloatArray, IntArray

#: Rounds of column generation at most, and the relative gap at which it ends.
_ROUNDS, _ENOUGH = 400, 1e-4
#: Maximum number of kinds of executors: more are rounded down to fewer sizes. Chosen.
_KINDS = 150

Told = Callable[[int, int, str], None]


@dataclass(frozen=True, slots=True)
class _Demand:
    """The work to be done: items are resource amounts placed on one VM, [I, R]; each job has one of two ways.

    A way is an item and its seconds (executors together); an impossible way has infinite seconds.
    """

    items: IntArray
    ways: IntArray  # [M, 2] item
    seconds: FloatArray  # [M, 2]


def lower_bound(instance: Instance, told: Told | None = None) -> float:
    """Dollars below which no schedule stays."""
    demand = _demand(instance)
    capacities, which = np.unique(instance.capacity, axis=0, return_inverse=True)
    prices = np.array([instance.price[which.ravel() == kind].min() for kind in range(len(capacities))])
    fits = (demand.items[None] <= capacities[:, None]).all(axis=2)  # [K, I]
    columns = [
        (kind, _alone(demand.items[item], capacities[kind], item, len(demand.items)))
        for kind in range(len(capacities))
        for item in np.flatnonzero(fits[kind])
    ]
    solver, best = BoundSolver(), 0.0
    for number in range(_ROUNDS):
        reached, worth = _master(solver, instance, demand, prices, columns)
        found, most = [], 1.0
        for kind, capacity in enumerate(capacities):
            value, limit, column = _knapsack(solver, demand.items, worth, capacity)
            most = max(most, limit / prices[kind])
            if value > prices[kind] * (1 + 1e-9):
                found.append((kind, column))
        # With prices of executors scaled so that no configuration is worth more than its VM.
        best = max(best, reached / most)
        if told is not None:
            told(number, _ROUNDS, f"lower bound {best:.3f} of at most {reached:.3f}")
        if not found or reached - best <= _ENOUGH * reached:
            break
        columns += found
    return best


def _demand(instance: Instance) -> _Demand:
    items: dict[tuple[int, ...], int] = {}
    sizes = _rounded(instance.size)
    ways, seconds = np.zeros((len(instance.jobs), 2), np.int64), np.full((len(instance.jobs), 2), np.inf)
    for job in range(len(instance.jobs)):
        executors = int(instance.executors[job])
        duration = float(instance.duration[job])
        single, block = tuple(sizes[job].tolist()), tuple((sizes[job] * executors).tolist())
        holds = instance.room[job].max() >= executors
        apart = (instance.room[job] > 0).sum() >= executors
        if instance.prefers[job] == CONSOLIDATE and executors > 1:
            if holds:
                ways[job, 0], seconds[job, 0] = items.setdefault(block, len(items)), duration
            bad = duration * instance.penalty
            ways[job, 1], seconds[job, 1] = items.setdefault(single, len(items)), bad * executors
        else:
            good = apart or executors == 1 or instance.prefers[job] == ANYWHERE
            longer = 1.0 if good else instance.penalty
            at = items.setdefault(single, len(items))
            ways[job], seconds[job, 0] = at, duration * longer * executors
    return _Demand(np.array(list(items), np.int64), ways, seconds)


def _rounded(size: IntArray) -> IntArray:
    """Sizes with a limited number of distinct rows: rounded down to parts of the largest where needed."""
    parts = 1 << 20
    found = size
    while len(np.unique(found, axis=0)) > _KINDS:
        parts //= 2
        step = np.maximum(size.max(axis=0) // parts, 1)
        found = size // step * step
    return found


def _alone(item: IntArray, capacity: IntArray, number: int, count: int) -> FloatArray:
    column = np.zeros(count)
    column[number] = float(np.min(capacity[item > 0] // item[item > 0]))
    return column


def _master(
    solver: BoundSolver,
    instance: Instance,
    demand: _Demand,
    prices: FloatArray,
    columns: list[tuple[int, FloatArray]],
) -> tuple[float, FloatArray]:
    """Least dollars with these configurations, and the value of a second of each item there, [I]."""
    count, choices = len(demand.items), len(instance.jobs)
    # Rows: every item has its seconds; every job is done, in shares of its ways.
    cells: list[tuple[FloatArray, FloatArray]] = []
    costs: list[float] = []
    for kind, column in columns:
        used = np.flatnonzero(column)
        cells.append((used.astype(np.float64), column[used]))
        costs.append(float(prices[kind]))
    for job in range(choices):
        for way in range(2):
            if np.isfinite(demand.seconds[job, way]):
                rows = np.array([demand.ways[job, way], count + job], np.float64)
                cells.append((rows, np.array([-demand.seconds[job, way], 1.0])))
                costs.append(0.0)
    lower = np.concatenate((np.zeros(count), np.ones(choices)))
    upper = np.concatenate((np.full(count, np.inf), np.ones(choices)))
    solved = solver.solve(program(costs, cells, lower, upper))
    worth: FloatArray = np.maximum(np.array(solved.duals[:count]), 0.0)
    return solved.value, worth


def _knapsack(
    solver: BoundSolver, items: IntArray, worth: FloatArray, capacity: IntArray
) -> tuple[float, float, FloatArray]:
    """The most valuable configuration of a VM, an upper bound on the value, and its count of each item."""
    some = np.flatnonzero((items <= capacity).all(axis=1) & (worth > 0))
    column = np.zeros(len(items))
    if not some.size:
        return 0.0, 0.0, column
    # Of equal sizes there is one only; of larger ones that are worth no more there is none.
    cells: list[Any] = [
        (np.flatnonzero(items[item]).astype(np.float64), items[item][items[item] > 0] / 1000.0)
        for item in some
    ]
    none = np.full(items.shape[1], -np.inf)
    solved = solver.solve(program((-worth[some]).tolist(), cells, none, capacity / 1000.0, whole=len(some)))
    column[some] = np.rint(solved.values)
    return -solved.value, -solved.limit, column
