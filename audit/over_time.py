"""Cores of executors over time: paid, and at work."""

from dataclasses import dataclass

import numpy as np

from audit.costs import Costs
from audit.held_amounts import FloatArray, held_until


@dataclass(frozen=True, slots=True, eq=False)
class CoresOverTime:
    """Mean cores in S equal steps: the steps' edges, [S + 1], seconds since the epoch, and [S] each."""

    edges: FloatArray
    paid: FloatArray
    worked: FloatArray


def cores_over_time(costs: Costs, steps: int = 240) -> CoresOverTime | None:
    """Cores from the first executor to the last; None without executors.

    Work of an executor is spread evenly over the time for which it was there.
    """
    executors = [each for cost in costs.each for each in cost.application.executors if each.seconds > 0]
    if not executors:
        return None
    begins = np.array([each.added_at for each in executors])
    ends = np.array([each.removed_at for each in executors])
    cores = np.array([each.cores for each in executors])
    work = np.array([each.use.work / each.seconds for each in executors])
    edges = np.linspace(begins.min(), ends.max(), steps + 1)
    paid, worked = (_mean_between(begins, ends, amount, edges) for amount in (cores, work))
    return CoresOverTime(edges, paid, worked)


def _mean_between(begins: FloatArray, ends: FloatArray, amount: FloatArray, edges: FloatArray) -> FloatArray:
    """The mean sum of an amount in each step between `edges`, of what is there from begins to ends."""
    held = np.diff(held_until(begins, ends, amount, edges))
    means: FloatArray = np.maximum(held / np.maximum(np.diff(edges), 1e-9), 0.0)
    return means
