"""Common code of simulations that policies play in compiled code; each policy has a loop of its own.

Such a loop advances row 0 of a batch from moment to moment as `environment.simulation.simulator` does, by the
same rules, and records its decisions. The simulator defines when it may be used.
"""

from typing import NamedTuple

import numpy as np

from conf.defaults import BAD_PLACEMENT_FACTOR
from environment.kernel.compiled import njit
from environment.kernel.completion_heap import next_completion
from environment.kernel.durations import is_good
from environment.kernel.resized_jobs import SparedResources, advance_sized
from environment.kernel.rules import bring_forward
from environment.kernel.state import Batch, SmallIntArray
from environment.types import FloatArray, IntArray

#: Of a `Trace`: how many decisions there are, of them to wait, and how many jobs have arrived; and how many
#: JVMs run at once at most, 0: any number.
MADE, WAITS, ARRIVED, JVMS = range(4)
#: Columns of `Trace.lacks`.
ROOM, CPUS, MEMORY = range(3)


class Trace(NamedTuple):
    """Decisions as columns, [D] each, of which only the first have been made."""

    counts: SmallIntArray  # [4] see above
    at: FloatArray  # when, seconds
    job: SmallIntArray  # number, by arrival, of the job that was placed, or else of the first that waited
    waiting: SmallIntArray  # how many waited
    #: [D, 3] of a wait for how many executors of the first there was room, and how many VMs had too few cpus,
    #: or too little memory, for one; -1 of a placement.
    lacks: SmallIntArray


def blank_trace(jobs: int, jvms: int | None = None) -> Trace:
    """Room for all decisions about so many jobs: after each wait one of them has arrived or ended.

    One machine carries so many JVMs; None: any number.
    """
    most = 3 * jobs + 1
    return Trace(
        np.array((0, 0, 0, jvms or 0), np.int32),
        np.empty(most),
        np.empty(most, np.int32),
        np.empty(most, np.int32),
        np.empty((most, 3), np.int32),
    )


@njit(entry=True)
def waiting(batch: Batch, spared: SparedResources, b: int, trace: Trace) -> int:
    """Number of waiting jobs; if none waits, time passes until the next arrives, as one must.

    Or until so many have ended that the machine carries the first. Seen are those that
    `environment.decisions.jvm_limit` lets in.
    """
    state, jobs = batch.state, batch.jobs
    head, arrived = state.head[b], max(trace.counts[ARRIVED], state.head[b])
    if jobs.arrival[b, head] > state.clock[b]:
        advance_sized(batch, spared, b, jobs.arrival[b, head])
    while True:
        while arrived < jobs.jobs[b] and jobs.arrival[b, arrived] <= state.clock[b]:
            arrived += 1
        trace.counts[ARRIVED] = arrived
        if trace.counts[JVMS] == 0:
            return int(arrived - head)
        let_in = _let_in(batch, b, arrived, trace.counts[JVMS])
        if let_in > 0:
            return let_in
        advance_sized(batch, spared, b, next_completion(batch, b))


@njit()
def _let_in(batch: Batch, b: int, arrived: int, most: int) -> int:
    """Number of arrived jobs that the limit on JVMs leaves room for, beside those that run.

    Each job has one for its driver; a job alone is always let in.
    """
    state, executors, head, taken = batch.state, batch.jobs.executors, batch.state.head[b], 0
    for i in range(state.running[b]):
        taken += executors[b, state.heap[b, i]] + 1
    for job in range(head, arrived):
        if taken > 0 and taken + executors[b, job] + 1 > most:
            return int(job - head)
        taken += executors[b, job] + 1
    return int(arrived - head)


@njit()
def note(batch: Batch, b: int, trace: Trace, waiting: int, job: int) -> int:
    """Write down a decision about a job, by arrival, for now that it is placed; the decision's number."""
    made = trace.counts[MADE]
    trace.at[made], trace.job[made] = batch.state.clock[b], job
    trace.waiting[made], trace.lacks[made, ROOM] = waiting, -1
    trace.counts[MADE] = made + 1
    return int(made)


@njit()
def bring_to_head(batch: Batch, b: int, order: IntArray, job: int) -> int:
    """Move the job of that number in the queue to its head, also in `order`; return its arrival number.

    `order`, [M], has the numbers by arrival of the kernel's.
    """
    head = batch.state.head[b]
    number = order[head + job]
    if job > 0:
        bring_forward(batch, b, head + job)
        for at in range(head + job, head, -1):
            order[at] = order[at - 1]
        order[head] = number
    return int(number)


@njit()
def expected_of_started(batch: Batch, b: int, job: int, vms: int, expected: float, exact: bool) -> float:
    """Expected seconds of a job that has started on so many VMs; NaN: unknown.

    `expected` are those if it is placed well.
    """
    state, jobs = batch.state, batch.jobs
    if exact:
        return float(state.end[b, job] - state.start[b, job])
    good = is_good(jobs.prefers[b, job], jobs.executors[b, job], vms)
    return expected if good else expected * BAD_PLACEMENT_FACTOR


@njit()
def wait_for_event(batch: Batch, spared: SparedResources, b: int, trace: Trace) -> bool:
    """Advance the clock until a job ends or arrives; do nothing and return False if neither will."""
    state, jobs, arrived = batch.state, batch.jobs, trace.counts[ARRIVED]
    event = np.inf
    if state.running[b] > 0:
        event = next_completion(batch, b)
    if arrived < jobs.jobs[b]:
        event = min(event, jobs.arrival[b, arrived])
    if event == np.inf:
        return False
    advance_sized(batch, spared, b, event)
    trace.counts[WAITS] += 1
    return True


@njit(inline=True)
def room_on(batch: Batch, b: int, vm: int) -> int:
    """Number of executors of the head that fit on the VM."""
    state, jobs, head = batch.state, batch.jobs, batch.state.head[b]
    cpus, memory = jobs.milli_cpus[b, head], jobs.memory_mib[b, head]
    if state.free_milli_cpus[b, vm] < cpus or state.free_memory_mib[b, vm] < memory:
        return 0  # quicker than to divide, and true of most
    return int(min(state.free_milli_cpus[b, vm] // cpus, state.free_memory_mib[b, vm] // memory))


@njit()
def room_for_head(batch: Batch, b: int) -> int:
    """Number of executors of the head that fit in all; counting stops at the number left."""
    found = 0
    for vm in range(batch.machines.milli_cpus.shape[1]):
        found += room_on(batch, b, vm)
        if found >= batch.state.left[b]:
            break
    return found


@njit()
def lacking(batch: Batch, b: int) -> tuple[int, int]:
    """Counts of VMs with too few free cpus, and with too little memory, for an executor of the head."""
    state, jobs, head = batch.state, batch.jobs, batch.state.head[b]
    cpus, memory = 0, 0
    for vm in range(batch.machines.milli_cpus.shape[1]):
        cpus += state.free_milli_cpus[b, vm] < jobs.milli_cpus[b, head]
        memory += state.free_memory_mib[b, vm] < jobs.memory_mib[b, head]
    return cpus, memory
