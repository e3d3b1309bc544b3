"""What an agent sees of an episode and what it may do, written into given arrays.

`observe` is the observation of Islam 2022, 4. Another one is another function of the same form, and its
length another function beside `observation_length`.
"""

from environment.compiled import njit
from environment.kernel.rules import fits, may_wait
from environment.kernel.state import RUNNING, Batch, BoolArray, Float32Array

_MIB_PER_GIB = 1024.0


def observation_length(vms: int) -> int:
    """Numbers in an observation of `vms` VMs."""
    return 2 * vms + 4


@njit()
def observe(batch: Batch, b: int, out: Float32Array) -> None:
    """Free cpus and memory (GiB) of each VM, then the head's number, cpus, memory and executors to place.

    `out` is float32 [2 N + 4]. Jobs are numbered from 1; the last four are 0 when there is no head.
    """
    state, jobs = batch.state, batch.jobs
    vms = state.held.shape[1]
    for vm in range(vms):
        out[2 * vm] = state.free_milli_cpus[b, vm] / 1000.0
        out[2 * vm + 1] = state.free_memory_mib[b, vm] / _MIB_PER_GIB
    head = state.head[b]
    for i in range(4):
        out[2 * vms + i] = 0.0
    if head < jobs.jobs[b]:
        out[2 * vms] = head + 1
        out[2 * vms + 1] = jobs.milli_cpus[b, head] / 1000.0
        out[2 * vms + 2] = jobs.memory_mib[b, head] / _MIB_PER_GIB
        out[2 * vms + 3] = state.left[b]


@njit()
def write_mask(batch: Batch, b: int, whole: bool, out: BoolArray) -> None:
    """Which actions are legal: bool [N + 1], true where `step_episode` would not see a violation.

    With `whole`, placing is allowed only while all executors of the head still fit, so that no sequence of
    allowed actions ends in a violation, and one is always allowed (as long as each job fits the empty
    cluster). All are false when the episode is over.
    """
    state = batch.state
    running = state.over[b] == RUNNING
    placing = running and (not whole or _room(batch, b) >= state.left[b])
    out[0] = running and may_wait(batch, b)
    for vm in range(state.held.shape[1]):
        out[vm + 1] = placing and fits(batch, b, vm)


@njit()
def _room(batch: Batch, b: int) -> int:
    """How many executors of the head fit now; counted no further than is needed."""
    state, jobs, head = batch.state, batch.jobs, batch.state.head[b]
    needed, found = state.left[b], 0
    for vm in range(state.held.shape[1]):
        if fits(batch, b, vm):
            by_cpus = state.free_milli_cpus[b, vm] // jobs.milli_cpus[b, head]
            by_memory = state.free_memory_mib[b, vm] // jobs.memory_mib[b, head]
            found += min(by_cpus, by_memory)
            if found >= needed:
                break
    return int(found)
