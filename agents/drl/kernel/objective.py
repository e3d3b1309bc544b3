"""What learning seeks, as rewards of single steps; Islam 2022's own rewards are in `environment.kernel`."""

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
    """By how much the rewards of an episode fall for what its jobs cost and take, in the episode's units."""

    #: For a unit of dollars.
    cost: float
    #: For a unit of seconds from a job's start to its end.
    duration: float
    #: For a unit of seconds from a job's submission to its end.
    completion: float


@njit(entry=True)
def place_towards(batch: Batch, b: int, action: int, objective: Objective, before: FloatArray) -> float:
    """Put an executor on a VM and return the reward: none but for a job's last one, which gets the job's.

    A job is charged with the dollars by which it lengthens the time that its VMs are held, beyond what
    perfect packing on the cheapest cores would cost it, and with the time that it takes beyond its shortest.
    What is subtracted is the same whatever is done, so an episode's rewards, with those of `wait_towards`,
    sum up to minus its cost, durations and completion times, weighed, but for a constant: what is best for
    the one is best for the other. And nothing is to be gained by placing cheap jobs before dear ones.
    `before` is float64 [N] to work in.
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
    """Let time pass until a job ends (or arrives, if told so), and return the reward.

    Charged is the time that jobs of the queue wait meanwhile, all together, as completion time.
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
    """Until when the VM is paid for if nothing more is placed there; not before now.

    One of a pool is kept for a while when it is idle, and not paid for when it is closed.
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
    """What VMs cost more for a job that has started, of which `before` says how long each was held anyway."""
    state, jobs, dollars = batch.state, batch.jobs, 0.0
    for at in range(jobs.first[b, job], jobs.first[b, job] + jobs.executors[b, job]):
        vm, end = state.placement[b, at], state.end[b, job]
        if batch.machines.leases.shape[1] > 0 and not math.isinf(batch.machines.leases[b, vm, KEEP]):
            end += batch.machines.leases[b, vm, KEEP]
        if end > before[vm]:
            dollars += batch.machines.price_per_hour[b, vm] * (end - before[vm]) / SECONDS_PER_HOUR
            before[vm] = end
    return dollars
