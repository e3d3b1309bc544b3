"""The learning objective, as rewards of single steps; Islam 2022's rewards are in `environment.kernel`."""

import math
from typing import NamedTuple

import numpy as np

from conf.units import SECONDS_PER_HOUR
from environment.kernel.compiled import njit
from environment.kernel.completion_heap import next_completion
from environment.kernel.leases import CLOSES, KEEP
from environment.kernel.rules import advance, step_episode
from environment.kernel.state import VIOLATED, Batch
from environment.types import FloatArray


class Objective(NamedTuple):
    """Reductions of an episode's rewards for the costs and times of its jobs, in the episode's units."""

    #: For a unit of dollars.
    cost: float
    #: For a unit of seconds from a job's start to its end.
    duration: float
    #: For a unit of seconds from a job's submission to its end.
    completion: float


@njit(entry=True)
def place_towards(batch: Batch, b: int, action: int, objective: Objective, before: FloatArray) -> float:
    """Put an executor on a VM and return the reward: 0 but for a job's last one, which earns the job's.

    The job is charged the dollars by which it lengthens the time that its VMs are held, beyond its cost under
    perfect packing on the cheapest cores, and the time that it takes beyond its shortest. The subtracted
    amounts do not depend on the actions. So an episode's rewards, with those of `wait_towards`, sum up to
    minus its weighted cost, durations and completion times, except for a constant: the best for the one is
    the best for the other, and placing cheap jobs before expensive ones gains nothing. `before` is a float64
    [N] scratch array.
    """
    state, jobs, head, clock = batch.state, batch.jobs, batch.state.head[b], batch.state.clock[b]
    last = state.left[b] == 1
    if last:
        for vm in range(len(before)):
            before[vm] = _paid_until(batch, b, vm)
    reward = step_episode(batch, b, action)
    if state.over[b] == VIOLATED:
        return reward
    if not last:
        return 0.0
    cores = jobs.executors[b, head] * jobs.milli_cpus[b, head] / 1000.0
    least = jobs.duration[b, head] * cores * _cheapest_core(batch, b) / SECONDS_PER_HOUR
    longer = state.end[b, head] - state.start[b, head] - jobs.duration[b, head]
    booting = state.start[b, head] - clock
    charged: float = (
        objective.cost * (_dollars_added(batch, b, head, before) - least) / jobs.unit_dollars[b]
        + objective.duration * longer / jobs.unit_seconds[b]
        + objective.completion * (longer + booting) / jobs.unit_seconds[b]
    )
    return -charged


@njit(entry=True)
def wait_towards(batch: Batch, b: int, for_arrivals: bool, objective: Objective) -> float:
    """Advance until a job ends (or arrives, if requested), and return the reward.

    The charge is the time that jobs of the queue wait meanwhile, all together, as completion time.
    """
    state, jobs, head = batch.state, batch.jobs, batch.state.head[b]
    began, until, later = state.clock[b], next_completion(batch, b), head
    while later < jobs.jobs[b] and jobs.arrival[b, later] <= began:
        later += 1
    if for_arrivals and later < jobs.jobs[b]:
        until = min(until, jobs.arrival[b, later])
    advance(batch, b, until)
    state.waits[b] += 1
    waited = (later - head) * (until - began)
    while later < jobs.jobs[b] and jobs.arrival[b, later] < until:
        waited += until - jobs.arrival[b, later]
        later += 1
    return float(-objective.completion * waited / jobs.unit_seconds[b])


@njit()
def _paid_until(batch: Batch, b: int, vm: int) -> float:
    """End of the time for which the VM is paid if nothing more is placed there; not before now.

    An idle VM of a pool is held for a while, and a closed one is not paid for.
    """
    state, leases, clock = batch.state, batch.machines.leases, batch.state.clock[b]
    until = state.busy_until[b, vm]
    if leases.shape[1] > 0 and not math.isinf(leases[b, vm, KEEP]):
        kept = max(until, clock) + leases[b, vm, KEEP]
        until = kept if state.held[b, vm] > 0 else leases[b, vm, CLOSES]
    return float(max(until, clock))


@njit()
def _cheapest_core(batch: Batch, b: int) -> float:
    """Dollars per hour of the cheapest core of any VM."""
    machines, cheapest = batch.machines, np.inf
    for vm in range(machines.milli_cpus.shape[1]):
        if machines.milli_cpus[b, vm] > 0:
            cheapest = min(cheapest, 1000.0 * machines.price_per_hour[b, vm] / machines.milli_cpus[b, vm])
    return float(cheapest)


@njit()
def _dollars_added(batch: Batch, b: int, job: int, before: FloatArray) -> float:
    """Additional cost of VMs for a job that has started; `before` is the time each was held anyway."""
    state, jobs, dollars = batch.state, batch.jobs, 0.0
    for at in range(jobs.first[b, job], jobs.first[b, job] + jobs.executors[b, job]):
        vm, end = state.placement[b, at], state.end[b, job]
        if batch.machines.leases.shape[1] > 0 and not math.isinf(batch.machines.leases[b, vm, KEEP]):
            end += batch.machines.leases[b, vm, KEEP]
        if end > before[vm]:
            dollars += batch.machines.price_per_hour[b, vm] * (end - before[vm]) / SECONDS_PER_HOUR
            before[vm] = end
    return dollars
