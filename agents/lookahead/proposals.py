"""Possible VMs of a job's executors: placements for the head of row 1 of a batch. `rollout.py` calls this."""

import math

import numpy as np

from agents.lookahead.plans import (
    ADAPTIVE,
    APART,
    FIRST_FIT,
    FREE,
    GENE,
    PACKED,
    TOGETHER,
    PlanAim,
    Search,
    noise_of,
)
from environment.kernel.compiled import njit
from environment.kernel.hash_random import uniform
from environment.kernel.leases import BOOT, CLOSES, KEEP
from environment.kernel.state import ANYWHERE, CONSOLIDATE, FIXED, SPREAD, Batch
from environment.types import FloatArray

#: Weight of cost in the near integer program, as a share of its weight in the aim. Chosen: the jobs to come
#: fare better when it seldom places them badly.
_BASE_SHARE = 0.25


@njit(inline=True)
def propose(batch: Batch, aim: PlanAim, found: Search, at: int, job: int) -> float:
    """Place the job of row 1 that stands there in `found.placement`; its score, infinite without room.

    `job` is its number in the queue. By its gene FREE is as the base policy would, another form as that form
    at the least cost, if there is room for it. With noise, VMs seem dearer than they are.
    """
    count, gene = batch.jobs.executors[1, at], found.trial[GENE, job]
    form = gene & 3
    if _look_at_vms(batch, aim, found, at, job, noise_of(gene), gene) < count:
        return np.inf
    if form == FREE and aim.base == FIRST_FIT:
        _first_fit(found, count)
        return 0.0
    prefers = ANYWHERE if count == 1 else batch.jobs.prefers[1, at]
    if form == FREE and aim.base == ADAPTIVE:
        form = TOGETHER if prefers == CONSOLIDATE else APART
    best = np.inf
    for trial in range(APART, PACKED + 1):
        # The last one is always possible, so it stands in for a form that is not.
        if form in (FREE, trial) or (trial == PACKED and best == np.inf):
            score = _try_form(batch, aim, found, at, trial, prefers)
            if score < best:
                best = score
                for i in range(count):
                    found.placement[i] = found.other[i]
    return best


@njit(inline=True)
def _try_form(batch: Batch, aim: PlanAim, found: Search, at: int, form: int, prefers: int) -> float:
    """The cheapest placement of that form in `found.other`, and its score; infinite when there is none."""
    jobs, count = batch.jobs, batch.jobs.executors[1, at]
    good = prefers == ANYWHERE or batch.rules.duration_model == FIXED
    good = good or (prefers == SPREAD and form == APART) or (prefers == CONSOLIDATE and form == TOGETHER)
    costs = found.short if good else found.long
    if form == APART:
        cost = _apart(found, costs, count)
    elif form == TOGETHER:
        cost = _together(found, costs, count)
    else:
        cost = _packed(found, costs, count)
    cores = jobs.duration[1, at] * count * jobs.milli_cpus[1, at] / 1000.0
    time = 1.0 if good else batch.rules.penalty
    weight = _BASE_SHARE * aim.cost_weight
    return float(weight * cost / (cores * aim.price_per_core) + (1.0 - weight) * time)


@njit(inline=True)
def _look_at_vms(
    batch: Batch, aim: PlanAim, found: Search, at: int, job: int, noise: float, seed: int
) -> int:
    """Fill in room and costs of all VMs for a job of row 1, costs only if it fits; return the room in all.

    A VM costs its price for the time for which the job would hold it longer than it is held anyway, with its
    boot if it is closed, plus noise of up to `noise` times the cost of the whole job on the most expensive
    VM.
    """
    state, jobs, prices = batch.state, batch.jobs, batch.machines.price_per_hour
    needed, total = jobs.executors[1, at], _rooms(batch, found, at, job)
    if total < needed:
        return total
    shortest, extra = jobs.duration[1, at], 0.0
    longest = shortest * batch.rules.penalty
    leases = batch.machines.leases
    elastic = leases.shape[1] > 0
    for vm in range(state.held.shape[1]):
        if found.room[vm] > 0:
            held = max(state.busy_until[1, vm] - state.clock[1], 0.0) if state.held[1, vm] > 0 else 0.0
            if elastic:
                if math.isinf(leases[1, vm, KEEP]):
                    held = longest  # it is paid for anyway
                elif leases[1, vm, CLOSES] < state.clock[1]:
                    held = -leases[1, vm, BOOT]  # so much more is paid for
            if noise > 0.0:
                extra = noise * aim.dearest * shortest * uniform(seed, vm)
            found.short[vm] = prices[1, vm] * max(shortest - held, 0.0) + extra
            found.long[vm] = prices[1, vm] * max(longest - held, 0.0) + extra
    return total


@njit(inline=True)
def _rooms(batch: Batch, found: Search, at: int, job: int) -> int:
    """Fill in the room of each VM, in executors of a job of row 1; return the sum."""
    state, jobs = batch.state, batch.jobs
    needed, cpus, memory = jobs.executors[1, at], jobs.milli_cpus[1, at], jobs.memory_mib[1, at]
    total, limited = 0, len(found.most) > 0
    for vm in range(state.held.shape[1]):
        free_cpus, free_memory, room = state.free_milli_cpus[1, vm], state.free_memory_mib[1, vm], 0
        most = min(needed, found.most[job, vm]) if limited else needed
        # Faster than to divide: most VMs have room for few executors, or none.
        while room < most and free_cpus >= cpus and free_memory >= memory:
            free_cpus -= cpus
            free_memory -= memory
            room += 1
        found.room[vm] = room
        total += room
    return total


@njit()
def _copy_room(found: Search) -> None:
    for vm in range(len(found.room)):
        found.left[vm] = found.room[vm]


@njit()
def _first_fit(found: Search, count: int) -> None:
    placed = 0
    for vm in range(len(found.room)):
        takes = min(found.room[vm], count - placed)
        found.placement[placed : placed + takes] = vm
        placed += takes


@njit()
def _apart(found: Search, costs: FloatArray, count: int) -> float:
    """Each executor on another VM, the cheapest ones; returns the cost, infinite when VMs are too few."""
    total = 0.0
    _copy_room(found)
    for i in range(count):
        best = -1
        for vm in range(len(found.left)):
            if found.left[vm] > 0 and (best < 0 or costs[vm] < costs[best]):
                best = vm
        if best < 0:
            return np.inf
        found.other[i] = best
        total += costs[best]
        found.left[best] = 0
    return total


@njit()
def _together(found: Search, costs: FloatArray, count: int) -> float:
    """All executors on one VM, the cheapest; returns the cost, infinite when none holds them all."""
    best = -1
    for vm in range(len(found.room)):
        if found.room[vm] >= count and (best < 0 or costs[vm] < costs[best]):
            best = vm
    if best < 0:
        return np.inf
    found.other[:count] = best
    return float(costs[best])


@njit()
def _packed(found: Search, costs: FloatArray, count: int) -> float:
    """One VM after another, first the one that costs the least per executor; returns the cost."""
    total, placed = 0.0, 0
    _copy_room(found)
    while placed < count:
        best, best_cost, best_takes = -1, np.inf, 0
        for vm in range(len(found.left)):
            takes = min(found.left[vm], count - placed)
            if takes > 0 and (
                costs[vm] < best_cost * takes or (costs[vm] == best_cost * takes and takes > best_takes)
            ):
                best, best_cost, best_takes = vm, costs[vm] / takes, takes
        found.other[placed : placed + best_takes] = best
        total += costs[best]
        placed += best_takes
        found.left[best] = 0
    return total
