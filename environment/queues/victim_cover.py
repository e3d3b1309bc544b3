"""Executors to take so that others have room, at the least loss; numbers in, numbers out.

Only whole executors on single VMs make room. An exact answer is a knapsack on every VM; this one
takes the executors that cost least for each place that they make, in two orders, returns unneeded ones, and
uses the cheaper. `preemption` decides which executors may be candidates.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from environment.queues.running_usage import BoolArray
from environment.resources import Resources
from environment.types import FloatArray, IntArray


def room(free: Mapping[str, IntArray], each: Resources, closed: BoolArray) -> IntArray:
    """Number of executors of size `each` that fit on every VM; `free` is in thousandths, int64 [N]."""
    rooms = [free[name] // amount for name, amount in each.thousandths.items()]
    found: IntArray = np.maximum(np.minimum.reduce(rooms), 0)
    found[closed] = 0
    return found


def cover(
    free: Mapping[str, IntArray],
    each: Resources,
    closed: BoolArray,
    vm: IntArray,
    amounts: Mapping[str, IntArray],
    cost: FloatArray,
    needed: int,
) -> IntArray | None:
    """The candidates, by index, that make room for `needed` executors of so much each; None if all do not.

    Candidate c of C is on VM `vm[c]`, holds `amounts[...][c]` (thousandths by name) and costs `cost[c]`.
    """
    if len(vm) == 0:
        return None
    weight = np.maximum.reduce([amounts[name] / amount for name, amount in each.thousandths.items()])
    places = vm.astype(np.uint16) if len(closed) < 1 << 16 else vm  # which sorts faster
    best: IntArray | None = None
    alike = bool(np.all(weight == weight[0]))
    for key in (cost,) if alike else (cost, cost / np.maximum(weight, 1e-9)):
        order = np.lexsort((-weight, key))
        order = order[np.argsort(places[order], kind="stable")]
        chosen = _cheapest(free, each, closed, vm, amounts, cost, order, needed)
        if chosen is None:
            return None
        chosen = _pruned(free, each, closed, vm, amounts, cost, chosen, needed)
        if best is None or _dearness(cost, chosen) < _dearness(cost, best):
            best = chosen
    return best


def _dearness(cost: FloatArray, chosen: IntArray) -> tuple[float, int]:
    return float(cost[chosen].sum()), len(chosen)


def _cheapest(
    free: Mapping[str, IntArray],
    each: Resources,
    closed: BoolArray,
    vm: IntArray,
    amounts: Mapping[str, IntArray],
    cost: FloatArray,
    order: IntArray,
    needed: int,
) -> IntArray | None:
    """On every VM the first candidates of the order, as far as they pay, until there is room enough."""
    on = vm[order]
    first = np.concatenate(([True], on[1:] != on[:-1]))
    starts = np.flatnonzero(first)
    group = np.cumsum(first) - 1
    before = room(free, each, closed)
    after = np.full(len(order), np.iinfo(np.int64).max)
    for name, amount in each.thousandths.items():
        after = np.minimum(after, (free[name][on] + _sums(amounts[name][order], starts, group)) // amount)
    after = np.where(closed[on], 0, np.maximum(after, 0))
    had = np.concatenate(([0], after[:-1]))
    had[starts] = before[on[starts]]
    gain = after - had
    missing = needed - int(before.sum())
    if int(gain.sum()) < missing:
        return None
    steps = np.flatnonzero(gain > 0)
    # A step costs all that is taken on its VM since the step before.
    paid = _sums(cost[order], starts, group)[steps]
    same = np.concatenate(([False], group[steps][1:] == group[steps][:-1]))
    earlier = np.concatenate(([0.0], paid[:-1]))
    each_paid = (paid - np.where(same, earlier, 0.0)) / gain[steps]
    rows = (steps - np.where(same, np.concatenate(([0], steps[:-1])), starts[group[steps]] - 1)) / gain[steps]
    rank = np.empty(len(steps), np.int64)
    rank[np.lexsort((rows, each_paid))] = np.arange(len(steps))
    # On one VM the steps stay in order: none is cheaper than those before it.
    lifted = np.maximum.accumulate(rank + group[steps] * np.int64(len(steps) + 1))
    ranked = np.argsort(lifted - group[steps] * np.int64(len(steps) + 1), kind="stable")
    taken = ranked[: int(np.searchsorted(np.cumsum(gain[steps][ranked]), missing)) + 1]
    last = np.full(len(starts), -1, np.int64)
    np.maximum.at(last, group[steps[taken]], steps[taken])
    chosen: IntArray = order[np.arange(len(order)) <= last[group]]
    return chosen


def _sums(values: NDArray[Any], starts: IntArray, group: IntArray) -> NDArray[Any]:
    """Running sums that begin anew at every start."""
    sums = np.cumsum(values)
    found: NDArray[Any] = sums - (sums[starts] - values[starts])[group]
    return found


def _pruned(
    free: Mapping[str, IntArray],
    each: Resources,
    closed: BoolArray,
    vm: IntArray,
    amounts: Mapping[str, IntArray],
    cost: FloatArray,
    chosen: IntArray,
    needed: int,
) -> IntArray:
    """Chosen candidates that are needed: of the unneeded ones, the dearest is dropped first."""
    chosen = chosen[np.argsort(-cost[chosen], kind="stable")]
    names, each_of = [*each.thousandths], [*each.thousandths.values()]
    vms = vm[chosen].tolist()
    takes = [*zip(*(amounts[name][chosen].tolist() for name in names), strict=True)]
    left: dict[int, list[int]] = {}
    for on, held in zip(vms, takes, strict=True):
        has = left.get(on) or [int(free[name][on]) for name in names]
        left[on] = [had + more for had, more in zip(has, held, strict=True)]
    rooms = {on: _rooms(has, each_of) for on, has in left.items()}
    base = room(free, each, closed)
    slack = int(base.sum()) - needed + sum(made - int(base[on]) for on, made in rooms.items())
    kept = []
    for at, on, held in zip(chosen.tolist(), vms, takes, strict=True):
        less = [had - more for had, more in zip(left[on], held, strict=True)]
        made = _rooms(less, each_of)
        if rooms[on] - made <= slack:
            slack -= rooms[on] - made
            left[on], rooms[on] = less, made
        else:
            kept.append(at)
    return np.array(sorted(kept), np.int64)


def _rooms(has: list[int], each: list[int]) -> int:
    """Number of executors of size `each` that fit in one VM's resources `has`."""
    return max(min([had // amount for had, amount in zip(has, each, strict=True)]), 0)
