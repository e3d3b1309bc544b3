"""Interruptions of spot VMs in the kernel's episodes: executors continue on another VM in the same place.

The time of an interruption is drawn when the VM is opened (`leases.py`). In a simulation a policy places lost
executors again; an agent in training places only the head of the queue, so here another VM is opened in
the same place at once. The costs are the same: its boot, in which the executors do nothing, and the lost part
of their work since they came there. Both delay their job by its share of executors.
"""

import math

from conf.defaults import NEVER
from environment.kernel.compiled import njit
from environment.kernel.completion_heap import reorder_ends
from environment.kernel.leases import BOOT, CLOSES, DRAIN, READY, REWORK, TAKEN, begin_lease
from environment.kernel.state import Batch


@njit()
def take_away(batch: Batch, b: int) -> None:
    """Interrupt the VMs due at `State.taken`, which the clock has reached, and find the next such time."""
    leases, state, clock = batch.machines.leases, batch.state, batch.state.clock[b]
    for vm in range(leases.shape[1]):
        if state.held[b, vm] > 0 and leases[b, vm, TAKEN] <= clock:
            _delay(batch, b, vm)
            leases[b, vm, CLOSES] = clock + leases[b, vm, DRAIN]
            begin_lease(batch, b, vm)
            leases[b, vm, CLOSES] = math.inf
    following = math.inf
    for vm in range(leases.shape[1]):
        if leases[b, vm, TAKEN] > clock:
            following = min(following, leases[b, vm, TAKEN])
    state.taken[b] = following


@njit()
def _delay(batch: Batch, b: int, vm: int) -> None:
    """The jobs that have executors on the VM end later."""
    leases, state, jobs, now = batch.machines.leases, batch.state, batch.jobs, batch.state.clock[b]
    for i in range(state.running[b]):
        job = state.heap[b, i]
        first, count, there = jobs.first[b, job], jobs.executors[b, job], 0
        for at in range(first, first + count):
            there += state.placement[b, at] == vm
        if there == 0:
            continue
        since = max(state.start[b, job], leases[b, vm, READY])
        missing = max(now + leases[b, vm, BOOT] - max(now, state.start[b, job]), 0.0)
        lost = (missing + leases[b, vm, REWORK] * max(now - since, 0.0)) * there / count
        # One that never ends on spot VMs would hold its episode up for ever: it is late by no more than that.
        lost = min(lost, max(state.start[b, job] + NEVER * jobs.duration[b, job] - state.end[b, job], 0.0))
        state.end[b, job] += lost
        state.expected[b, job] += lost  # which every policy could see
        for at in range(first, first + count):
            on = state.placement[b, at]
            state.busy_until[b, on] = max(state.busy_until[b, on], state.end[b, job])
    reorder_ends(batch, b)
