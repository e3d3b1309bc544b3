"""A schedule made from a list: jobs in order of priority, each with a way to be placed and a cost limit.

At every event, an end or an arrival, the jobs present are examined in order; a job starts when it can be
placed in its way at no more than its limit. Its cost is the additional time for which its VMs are in use.
"""

import math
from typing import NamedTuple

from environment.kernel.compiled import njit
from environment.kernel.state import ANYWHERE, CONSOLIDATE, SPREAD
from environment.types import FloatArray, IntArray

#: Ways of placing: whichever costs least; only as the job prefers; otherwise than it prefers. From `ON` on
#: all executors on that VM.
CHEAPEST, GOOD, BAD, ON = 0, 1, 2, 3


class ListedInstance(NamedTuple):
    """An instance, the search's variables, and scratch; M jobs, N VMs, R resources, E executors in all."""

    size: IntArray  # [M, R]
    capacity: IntArray  # [N, R]
    executors: IntArray  # [M]
    first: IntArray  # [M] where the job's executors begin in `placement`
    arrival: FloatArray  # [M] in order
    duration: FloatArray  # [M]
    prefers: IntArray  # [M]
    price: FloatArray  # [N] dollars per second
    penalty: float
    least: FloatArray  # [M] dollars that the job costs when VMs are shared perfectly
    order: IntArray  # [M] jobs by priority
    way: IntArray  # [M]
    limit: FloatArray  # [M] times `least`
    queue: IntArray  # [M] those that wait, in order
    free: IntArray  # [N, R]
    held: IntArray  # [N]
    since: FloatArray  # [N]
    busy: FloatArray  # [N] until when the VM is in use
    taken: IntArray  # [N] executors of a trial
    room: IntArray  # [N]
    start: FloatArray  # [M] -1 as long as it waits
    end: FloatArray  # [M]
    placement: IntArray  # [E]


@njit(entry=True)
def play(given: ListedInstance) -> tuple[float, float]:
    """Make the schedule; its cost in dollars, and the sum of seconds from arrivals to ends."""
    jobs, vms = given.order.size, given.price.size
    for vm in range(vms):
        for k in range(given.size.shape[1]):
            given.free[vm, k] = given.capacity[vm, k]
    given.held[:] = 0
    given.busy[:] = 0.0
    given.start[:] = -1.0
    cost, time, left, there, running = 0.0, 0.0, jobs, 0, 0
    clock, waiting = given.arrival[0], jobs
    for at in range(jobs):
        given.queue[at] = given.order[at]
    while left > 0:
        while there < jobs and given.arrival[there] <= clock:
            there += 1
        for at in range(waiting):
            job = given.queue[at]
            fits = job < there and given.size[job, 0] * given.executors[job] <= _free(given)
            if fits and _place(given, job, clock, False):
                left -= 1
                running += 1
                time += given.end[job] - given.arrival[job]
        if left > 0 and running == 0 and there == jobs:
            job = given.queue[0]
            _place(given, job, clock, True)
            left -= 1
            running += 1
            time += given.end[job] - given.arrival[job]
        still = 0
        for at in range(waiting):
            if given.start[given.queue[at]] < 0.0:
                given.queue[still] = given.queue[at]
                still += 1
        waiting = still
        after = given.arrival[there] if there < jobs else math.inf
        for job in range(there):
            if given.start[job] >= 0.0 and given.end[job] > clock:
                after = min(after, given.end[job])
        if math.isinf(after):
            break
        clock = after
        for job in range(there):
            if given.start[job] >= 0.0 and given.end[job] == clock:
                running -= 1
                for i in range(given.first[job], given.first[job] + given.executors[job]):
                    vm = given.placement[i]
                    given.held[vm] -= 1
                    for k in range(given.size.shape[1]):
                        given.free[vm, k] += given.size[job, k]
                    if given.held[vm] == 0:
                        cost += given.price[vm] * (clock - given.since[vm])
    for vm in range(vms):
        if given.held[vm] > 0:
            cost += given.price[vm] * (given.busy[vm] - given.since[vm])
    return cost, time


@njit()
def _free(given: ListedInstance) -> int:
    """Free amount of the first resource on all VMs."""
    total = 0
    for vm in range(given.price.size):
        total += given.free[vm, 0]
    return total


@njit()
def _place(given: ListedInstance, job: int, clock: float, forced: bool) -> bool:
    """Start the job in its way, if that does not cost more than it may; `forced` takes any way and price."""
    if not _rooms(given, job):
        return False
    executors, way, prefers = given.executors[job], given.way[job], given.prefers[job]
    limit = math.inf if forced else given.limit[job] * given.least[job]
    if forced:
        way = CHEAPEST
    if way >= ON:
        vm = way - ON
        if given.room[vm] < executors:
            return False
        seconds = given.duration[job] * (given.penalty if prefers == SPREAD and executors > 1 else 1.0)
        if _dearer(given, vm, clock + seconds, clock) > limit:
            return False
        given.taken[:] = 0
        given.taken[vm] = executors
        return _start(given, job, clock, seconds)
    best, how = math.inf, -1
    good, bad = clock + given.duration[job], clock + given.duration[job] * given.penalty
    if way != BAD or prefers == ANYWHERE or executors == 1:
        best, how = _fill(given, executors, prefers, good, clock), prefers
    if (way != GOOD and prefers != ANYWHERE and executors > 1) or (forced and math.isinf(best)):
        other = _fill(given, executors, ANYWHERE, bad, clock)
        if other < best:
            best, how = other, ANYWHERE
    if how < 0 or math.isinf(best) or best > limit:
        return False
    plain = how == prefers
    _fill(given, executors, how, good if plain else bad, clock)
    # A placement that was not meant to be good may be so all the same.
    vms = 0
    for vm in range(given.price.size):
        vms += given.taken[vm] > 0
    fine = executors == 1 or prefers == ANYWHERE or vms == (executors if prefers == SPREAD else 1)
    return _start(given, job, clock, given.duration[job] * (1.0 if fine else given.penalty))


@njit()
def _rooms(given: ListedInstance, job: int) -> bool:
    """Fill in the number of executors that each VM has room for; return whether that is enough."""
    total, executors = 0, given.executors[job]
    for vm in range(given.price.size):
        room = executors
        for k in range(given.size.shape[1]):
            if given.size[job, k] > 0:
                room = min(room, given.free[vm, k] // given.size[job, k])
        given.room[vm] = room
        total += room
    return bool(total >= executors)


@njit()
def _dearer(given: ListedInstance, vm: int, end: float, clock: float) -> float:
    """Additional cost of using the VM until `end`."""
    until = max(given.busy[vm], clock) if given.held[vm] > 0 else clock
    return float(given.price[vm] * max(end - until, 0.0))


@njit()
def _fill(given: ListedInstance, executors: int, how: int, end: float, clock: float) -> float:
    """Choose VMs for one executor each (SPREAD), for all (CONSOLIDATE) or for any; return the added cost."""
    taken, left, cost = given.taken, executors, 0.0
    taken[:] = 0
    while left > 0:
        best, least = -1, math.inf
        for vm in range(given.price.size):
            room = given.room[vm]
            if taken[vm] > 0 or room < (executors if how == CONSOLIDATE else 1):
                continue
            each = 1 if how == SPREAD else min(room, left)
            dearer = _dearer(given, vm, end, clock) / each
            # Among equals the smallest, so that room is left for others.
            key = dearer + 1e-12 * room
            if key < least:
                best, least = vm, key
        if best < 0:
            return math.inf
        each = 1 if how == SPREAD else min(given.room[best], left)
        taken[best] = each
        cost += _dearer(given, best, end, clock)
        left -= each
    return cost


@njit()
def _start(given: ListedInstance, job: int, clock: float, seconds: float) -> bool:
    end, at = clock + seconds, given.first[job]
    given.start[job], given.end[job] = clock, end
    for vm in range(given.price.size):
        for _ in range(given.taken[vm]):
            given.placement[at] = vm
            at += 1
            if given.held[vm] == 0:
                given.since[vm] = clock
                given.busy[vm] = end
            given.held[vm] += 1
            given.busy[vm] = max(given.busy[vm], end)
            for k in range(given.size.shape[1]):
                given.free[vm, k] -= given.size[job, k]
    return True
