"""The best schedule of a few jobs by branch and bound: first the VMs of each job, then its start, compiled.

First come all ways to put all jobs on VMs, as long as a lower bound on the cost there is below the best known
schedule: a VM is in use for at least the work on it over its capacity, and for at least the total time of
those jobs on it that pairwise do not fit beside each other. Then come the starts. With the order of all
starts and ends given, a linear program of differences remains, so that in some best schedule every job starts
at its arrival, or starts or ends when another one starts or ends; all of these are tried.
"""

import math
from typing import NamedTuple

from environment.kernel.compiled import njit
from environment.types import FloatArray, IntArray

#: Seconds that times may be off, and how much less a schedule has to be to count as better.
_CLOSE, _BETTER = 1e-7, 1e-9


class Cases(NamedTuple):
    """An instance and its ways, and memory; M jobs (the largest first), N VMs, R resources, W ways in all.

    Costs are in the aim's units: `price` a second of a VM, `second` a second of a job until its end.
    """

    share: FloatArray  # [M, N, R] of the VM that an executor takes
    arrival: FloatArray  # [M]
    least: FloatArray  # [M] least cost of a job, where VMs are shared perfectly
    first: IntArray  # [M + 1] where its ways begin
    counts: IntArray  # [W, N]
    seconds: FloatArray  # [W]
    price: FloatArray  # [N]
    second: float
    twin: IntArray  # [N] the VM before it that is just like it, or -1
    conflict: IntArray  # [M] jobs, as bits, that it does not fit beside: of one VM at a time
    way: IntArray  # [M] chosen
    area: FloatArray  # [M + 1, N, R] seconds of the whole VM
    bound: FloatArray  # [M + 1, N] seconds that the VM is in use at least
    start: FloatArray  # [M]
    end: FloatArray  # [M]
    stack: IntArray  # [M, 2] job, candidate
    tried: FloatArray  # [M, 4 M + 1] starts of a node that were tried
    edges: FloatArray  # [M, 2]
    best_way: IntArray  # [M]
    best_start: FloatArray  # [M]
    nodes: IntArray  # [2] looked at, and at most


@njit(entry=True)
def branch(given: Cases, best: float) -> float:
    """The least value below `best`, or `best` itself; the schedule is in `best_way` and `best_start`.

    When the search needs more nodes than permitted, `nodes[0]` is above `nodes[1]`, and nothing is proven.
    """
    jobs, vms, resources = given.arrival.size, given.price.size, given.share.shape[2]
    rest = 0.0
    for job in range(jobs):
        rest += given.least[job]
    for vm in range(vms):
        given.bound[0, vm] = 0.0
        for k in range(resources):
            given.area[0, vm, k] = 0.0
    depth = 0
    given.way[0] = given.first[0] - 1
    while depth >= 0:
        given.way[depth] += 1
        way = given.way[depth]
        if way >= given.first[depth + 1]:
            depth -= 1
            continue
        given.nodes[0] += 1
        if given.nodes[0] > given.nodes[1]:
            return best
        if not _canonical(given, depth, way):
            continue
        if _bound(given, depth, way) >= best - _BETTER:
            continue
        if depth + 1 < jobs:
            depth += 1
            given.way[depth] = given.first[depth] - 1
        else:
            best = _times(given, best)
    return best


@njit()
def _canonical(given: Cases, depth: int, way: int) -> bool:
    """Whether of VMs that are alike, and used by no job before, the first have most."""
    for vm in range(given.price.size):
        other = given.twin[vm]
        if other >= 0 and given.counts[way, vm] > given.counts[way, other]:
            fresh = True
            for job in range(depth):
                used = given.counts[given.way[job]]
                if used[vm] > 0 or used[other] > 0:
                    fresh = False
                    break
            if fresh:
                return False
    return True


@njit()
def _bound(given: Cases, depth: int, way: int) -> float:
    """Least cost of jobs up to `depth` on their VMs and of the others anywhere; sets level depth + 1."""
    vms, resources = given.price.size, given.share.shape[2]
    in_use, perfect, time = 0.0, 0.0, 0.0
    for vm in range(vms):
        largest = 0.0
        for k in range(resources):
            area = given.area[depth, vm, k]
            if given.counts[way, vm] > 0:
                area += given.seconds[way] * given.counts[way, vm] * given.share[depth, vm, k]
            given.area[depth + 1, vm, k] = area
            largest = max(largest, area)
        seconds = given.bound[depth, vm]
        if given.counts[way, vm] > 0:
            seconds = max(seconds, largest, _longest(given, depth, vm))
        given.bound[depth + 1, vm] = seconds
        in_use += given.price[vm] * seconds
        perfect += given.price[vm] * largest
    for job in range(given.arrival.size):
        if job <= depth:
            time += given.seconds[given.way[job]]
        else:
            perfect += given.least[job]
            time += given.seconds[given.first[job]]
    return max(in_use, perfect) + given.second * time


@njit()
def _longest(given: Cases, depth: int, vm: int) -> float:
    """Total time of jobs up to `depth`, the newest among them, on the VM if no two of them fit at once."""
    for job in range(depth + 1):
        given.conflict[job] = 0
        count = given.counts[given.way[job], vm]
        if count == 0:
            continue
        for other in range(depth + 1):
            others = given.counts[given.way[other], vm]
            if other != job and others > 0:
                for k in range(given.share.shape[2]):
                    both = count * given.share[job, vm, k] + others * given.share[other, vm, k]
                    if both > 1.0 + 1e-9:
                        given.conflict[job] |= 1 << other
                        break
    best = 0.0
    for rest in range(1 << depth):
        chosen = rest | 1 << depth
        total = 0.0
        for job in range(depth + 1):
            if chosen >> job & 1:
                if chosen & ~(1 << job) & ~given.conflict[job]:
                    total = 0.0
                    break
                if given.counts[given.way[job], vm] == 0:
                    total = 0.0
                    break
                total += given.seconds[given.way[job]]
        best = max(best, total)
    return best


@njit()
def _times(given: Cases, best: float) -> float:
    """The best starts of jobs on the VMs that are chosen for them, if they are below `best`."""
    jobs = given.arrival.size
    there, depth = 0, 0
    given.stack[0, 0], given.stack[0, 1] = 0, -1
    while depth >= 0:
        job = given.stack[depth, 0]
        if job >= jobs:
            depth -= 1
            continue
        if given.stack[depth, 1] < 0 and there >> job & 1:  # it has a time from a node above
            given.stack[depth, 0] = job + 1
            continue
        there &= ~(1 << job)
        given.stack[depth, 1] += 1
        if given.stack[depth, 1] > 4 * jobs:
            given.stack[depth, 0], given.stack[depth, 1] = job + 1, -1
            continue
        start = _candidate(given, depth, job, there)
        if math.isnan(start):
            continue
        given.nodes[0] += 1
        if given.nodes[0] > given.nodes[1]:
            return best
        seconds = given.seconds[given.way[job]]
        given.start[job], given.end[job] = start, start + seconds
        if not _fits(given, job, there):
            continue
        there |= 1 << job
        value = _value(given, there)
        if value >= best - _BETTER:
            there &= ~(1 << job)
            continue
        if depth + 1 < jobs:
            depth += 1
            given.stack[depth, 0], given.stack[depth, 1] = 0, -1
        else:
            best = value
            for each in range(jobs):
                given.best_way[each], given.best_start[each] = given.way[each], given.start[each]
    return best


@njit()
def _candidate(given: Cases, depth: int, job: int, there: int) -> float:
    """Start of the job by the number of the candidate; not a number when the candidate is nothing new."""
    number, seconds = given.stack[depth, 1], given.seconds[given.way[job]]
    if number == 0:
        start = given.arrival[job]
    else:
        other, kind = (number - 1) >> 2, (number - 1) & 3
        if not there >> other & 1:
            given.tried[depth, number] = math.nan
            return math.nan
        start = given.end[other] if kind & 1 else given.start[other]
        if kind & 2:
            start -= seconds
        if start < given.arrival[job] - _CLOSE:
            given.tried[depth, number] = math.nan
            return math.nan
        start = max(start, given.arrival[job])
    given.tried[depth, number] = start
    for before in range(number):
        if abs(given.tried[depth, before] - start) <= _CLOSE:
            return math.nan
    return float(start)


@njit()
def _fits(given: Cases, job: int, there: int) -> bool:
    """Whether there is room for the job beside those that have a time."""
    mine = given.counts[given.way[job]]
    for moment in range(-1, given.arrival.size):
        # Of all moments those count in which something starts.
        if moment < 0:
            at = given.start[job]
        elif there >> moment & 1:
            at = given.start[moment]
            if at <= given.start[job] or at >= given.end[job] - _CLOSE:
                continue
        else:
            continue
        for vm in range(given.price.size):
            if mine[vm] == 0:
                continue
            for k in range(given.share.shape[2]):
                used = mine[vm] * given.share[job, vm, k]
                for other in range(given.arrival.size):
                    if (
                        there >> other & 1
                        and given.start[other] <= at + _CLOSE
                        and at < given.end[other] - _CLOSE
                    ):
                        used += given.counts[given.way[other], vm] * given.share[other, vm, k]
                if used > 1.0 + 1e-9:
                    return False
    return True


@njit()
def _value(given: Cases, there: int) -> float:
    """Least cost given the times fixed for some jobs; the exact cost once all jobs have times."""
    jobs, value = given.arrival.size, 0.0
    for job in range(jobs):
        seconds = given.seconds[given.way[job]]
        value += given.second * (given.end[job] - given.arrival[job] if there >> job & 1 else seconds)
    for vm in range(given.price.size):
        n = 0
        for job in range(jobs):
            if there >> job & 1 and given.counts[given.way[job], vm] > 0:
                at = n
                while at > 0 and given.edges[at - 1, 0] > given.start[job]:
                    given.edges[at, 0], given.edges[at, 1] = given.edges[at - 1, 0], given.edges[at - 1, 1]
                    at -= 1
                given.edges[at, 0], given.edges[at, 1] = given.start[job], given.end[job]
                n += 1
        used, until = 0.0, -math.inf
        for at in range(n):
            begin, end = given.edges[at, 0], given.edges[at, 1]
            if end > until:
                used += end - max(begin, until)
                until = end
        value += given.price[vm] * max(used, given.bound[jobs, vm])
    return value
