"""Starvation guard of learned policies, compiled: places a job that fitted for too long by best fit."""

import numpy as np

from agents.compiled.waits import ROUNDED
from agents.drl.play.arrays import NetworkBeliefs, NetworkLimits, NetworkState
from environment.kernel.compiled import njit
from environment.kernel.state import Batch, BoolArray, SmallIntArray


@njit()
def late_one(
    batch: Batch, reach: int, means: NetworkLimits, believed: NetworkBeliefs, borne: NetworkState
) -> int:
    """The number in the queue of the first that has fitted for too long; -1 if none, or too busy."""
    if reach <= 0 or idle_share(batch) < means.idle:
        return -1
    now, head = batch.state.clock[0], batch.state.head[0]
    for i in range(reach):
        number = borne.counts.order[head + i]
        waited, most = now - borne.counts.since[number], believed.jobs.patience[number]
        if waited > 0.0 and most < np.inf and most - waited - ROUNDED * most <= 0.0:  # NaN is neither
            return i
    return -1


@njit()
def idle_share(batch: Batch) -> float:
    """Idle share of the cluster's cpus."""
    free, total = 0, 0
    for vm in range(batch.machines.milli_cpus.shape[1]):
        free += batch.state.free_milli_cpus[0, vm]
        total += batch.machines.milli_cpus[0, vm]
    return float(free) / float(total) if total > 0 else 0.0


@njit()
def fit_best(batch: Batch, job: int, used: BoolArray, placed: SmallIntArray) -> int:
    """Place a fitting job as `agents.baselines.scored.BestFit` does; return its number of executors."""
    state, jobs, machines = batch.state, batch.jobs, batch.machines
    vms, count, done = machines.milli_cpus.shape[1], jobs.executors[0, job], 0
    cpus, memory = jobs.milli_cpus[0, job], jobs.memory_mib[0, job]
    most_cpus, most_memory = 0.0, 0.0
    for vm in range(vms):
        most_cpus = max(most_cpus, machines.milli_cpus[0, vm] / 1000.0)
        most_memory = max(most_memory, float(machines.memory_mib[0, vm]))
        used[vm] = False
    while done < count:
        best, least, room = -1, np.inf, 0
        for vm in range(vms):
            free_cpus, free_memory = state.free_milli_cpus[0, vm], state.free_memory_mib[0, vm]
            if used[vm] or free_cpus < cpus or free_memory < memory:
                continue
            left = (free_cpus / 1000.0 - cpus / 1000.0) / most_cpus
            left += (float(free_memory) - float(memory)) / most_memory
            if left < least:
                best, least, room = vm, left, min(free_cpus // cpus, free_memory // memory)
        if best < 0:
            break
        used[best] = True
        for _ in range(min(room, count - done)):
            placed[done] = best
            done += 1
    return done
