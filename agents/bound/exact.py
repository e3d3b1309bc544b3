"""The best schedule of a small instance, proven; how it is searched for is in `kernel.branching`."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

import numpy as np

from agents.bound.instance import Instance, OfflineSchedule
from agents.bound.kernel.branching import Cases, branch
from agents.bound.offline import OfflineAim, least_costs
from environment.types import IntArray

#: More jobs, or more ways to place one of them, and the instance counts as large.
MOST_JOBS, _WAYS = 8, 500
#: How many nodes are looked at before it is given up. Chosen: some seconds.
NODES = 10_000_000


@dataclass(frozen=True, slots=True)
class OfflineOptimum:
    """The best schedule, or the best that is known where the search came to no end; the aim's value of it."""

    schedule: OfflineSchedule
    value: float
    proven: bool


def solve(
    instance: Instance, aim: OfflineAim, begin: OfflineSchedule, value: float, nodes: int = NODES
) -> OfflineOptimum | None:
    """The best schedule, in which jobs start at any time; None where the instance is too large.

    `begin` is a schedule that is known, of this `value`.
    """
    ways = _ways(instance)
    if ways is None:
        return None
    order = np.argsort(-least_costs(instance), kind="stable")
    cases = _cases(instance, aim, [ways[job] for job in order], order, nodes)
    found = branch(cases, value)
    proven = bool(cases.nodes[0] <= nodes)
    if found >= value:
        return OfflineOptimum(begin, value, proven)
    starts = [0.0] * len(order)
    placements: list[tuple[int, ...]] = [()] * len(order)
    for at, job in enumerate(order.tolist()):
        counts = cases.counts[cases.best_way[at]].tolist()
        placements[job] = tuple(vm for vm, count in enumerate(counts) for _ in range(count))
        starts[job] = float(cases.best_start[at])
    return OfflineOptimum(OfflineSchedule(tuple(starts), tuple(placements)), float(found), proven)


def _ways(instance: Instance) -> list[list[tuple[int, ...]]] | None:
    """Executors of each job on each VM, in all ways, the quickest first; None for too many."""
    if len(instance.jobs) > MOST_JOBS:
        return None
    found = []
    for job in range(len(instance.jobs)):
        if math.prod((instance.room[job] + 1).tolist()) > 100 * _WAYS:
            return None
        ways = sorted(_counts(instance, job), key=lambda way: instance.seconds(job, _vms(way)))
        if len(ways) > _WAYS:
            return None
        found.append(ways)
    return found


def _counts(instance: Instance, job: int) -> Iterator[tuple[int, ...]]:
    rooms = [range(int(room) + 1) for room in instance.room[job]]
    return (way for way in product(*rooms) if sum(way) == instance.executors[job])


def _vms(way: tuple[int, ...]) -> int:
    return sum(map(bool, way))


def _cases(
    instance: Instance, aim: OfflineAim, ways: list[list[tuple[int, ...]]], order: IntArray, nodes: int
) -> Cases:
    jobs, vms, resources = len(order), len(instance.vms), len(instance.resources)
    seconds = [
        instance.seconds(int(job), _vms(way)) for job, mine in zip(order, ways, strict=True) for way in mine
    ]
    asked, had = instance.size[order][:, None, :], np.maximum(instance.capacity[None], 1)
    return Cases(
        share=asked / had,
        arrival=instance.arrival[order],
        least=least_costs(instance)[order] * (aim.beta / aim.dollars),
        first=np.cumsum([0, *map(len, ways)]),
        counts=np.array([way for mine in ways for way in mine], np.int64),
        seconds=np.array(seconds),
        price=instance.price * (aim.beta / aim.dollars),
        second=(1 - aim.beta) / aim.seconds / jobs,
        twin=np.array([_twin(instance, vm) for vm in range(vms)], np.int64),
        conflict=np.zeros(jobs, np.int64),
        way=np.zeros(jobs, np.int64),
        area=np.zeros((jobs + 1, vms, resources)),
        bound=np.zeros((jobs + 1, vms)),
        start=np.zeros(jobs),
        end=np.zeros(jobs),
        stack=np.zeros((jobs, 2), np.int64),
        tried=np.full((jobs, 4 * jobs + 1), np.nan),
        edges=np.zeros((jobs, 2)),
        best_way=np.zeros(jobs, np.int64),
        best_start=np.zeros(jobs),
        nodes=np.array([0, nodes], np.int64),
    )


def _twin(instance: Instance, vm: int) -> int:
    """The VM before this one that is just like it; -1 when there is none."""
    for other in range(vm - 1, -1, -1):
        same = (instance.capacity[other] == instance.capacity[vm]).all()
        if same and instance.price[other] == instance.price[vm]:
            return other
    return -1
