"""Jobs placed with fewer executors than they ask for, or smaller ones: `rules.py` with sizes of executors.

Training places only full requests. So the sizes are stored beside the batch, not in it, where they would
make every step slower.
"""

from typing import NamedTuple

import numpy as np

from environment.kernel.compiled import njit
from environment.kernel.completion_heap import next_completion
from environment.kernel.rules import advance, put_executor, start_head, take_vm
from environment.kernel.state import FINISHED, Batch, SmallIntArray
from environment.types import IntArray


class SparedResources(NamedTuple):
    """Amounts by which executors of one episode take less than requested; [E], as `State.placement`."""

    milli_cpus: IntArray
    memory_mib: IntArray


def nothing_spared(batch: Batch) -> SparedResources:
    """Zeros, for an episode of the batch in which nothing is placed yet."""
    executors = batch.state.placement.shape[1]
    return SparedResources(np.zeros(executors, np.int64), np.zeros(executors, np.int64))


@njit(entry=True)
def place_sized(
    batch: Batch,
    spared: SparedResources,
    b: int,
    placement: SmallIntArray,
    milli_cpus: IntArray,
    memory_mib: IntArray,
    duration: float,
) -> None:
    """Start the head with one executor for each entry of `placement`, of the size at the same index.

    There may be fewer than the head asks for. From then on the batch has it as a job of that many executors,
    which takes `duration` seconds when placed well.
    """
    state, jobs, head = batch.state, batch.jobs, batch.state.head[b]
    first = jobs.first[b, head]
    jobs.executors[b, head] = len(placement)
    jobs.duration[b, head] = duration
    state.left[b] = len(placement)
    for i in range(len(placement)):
        put_executor(batch, b, placement[i])
        spared.milli_cpus[first + i] = jobs.milli_cpus[b, head] - milli_cpus[i]
        spared.memory_mib[first + i] = jobs.memory_mib[b, head] - memory_mib[i]
        state.free_milli_cpus[b, placement[i]] += spared.milli_cpus[first + i]
        state.free_memory_mib[b, placement[i]] += spared.memory_mib[first + i]
    start_head(batch, b)


@njit(entry=True)
def join_sized(
    batch: Batch,
    spared: SparedResources,
    b: int,
    job: int,
    placement: SmallIntArray,
    milli_cpus: IntArray,
    memory_mib: IntArray,
) -> None:
    """More executors of a running job, which has places in `State.placement` left for them; its end stays."""
    state, jobs = batch.state, batch.jobs
    for i in range(len(placement)):
        at = jobs.first[b, job] + jobs.executors[b, job]
        state.placement[b, at] = placement[i]
        spared.milli_cpus[at] = jobs.milli_cpus[b, job] - milli_cpus[i]
        spared.memory_mib[at] = jobs.memory_mib[b, job] - memory_mib[i]
        state.free_milli_cpus[b, placement[i]] -= milli_cpus[i]
        state.free_memory_mib[b, placement[i]] -= memory_mib[i]
        take_vm(batch, b, placement[i])
        jobs.executors[b, job] += 1


@njit(entry=True)
def advance_sized(batch: Batch, spared: SparedResources, b: int, until: float) -> None:
    """Advance the clock to `until`; jobs that end by then free the resources their executors really took."""
    state, jobs = batch.state, batch.jobs
    before = state.running[b]
    advance(batch, b, until)
    # Ended jobs are behind the end of the heap. `advance` gave back their requested sizes, which is too much.
    for i in range(state.running[b], before):
        job = state.heap[b, i]
        for at in range(jobs.first[b, job], jobs.first[b, job] + jobs.executors[b, job]):
            vm = state.placement[b, at]
            state.free_milli_cpus[b, vm] -= spared.milli_cpus[at]
            state.free_memory_mib[b, vm] -= spared.memory_mib[at]


@njit(entry=True)
def finish_sized(batch: Batch, spared: SparedResources, b: int) -> None:
    """Run an episode, with all jobs placed, to its end."""
    while batch.state.running[b] > 0:
        advance_sized(batch, spared, b, next_completion(batch, b))
    batch.state.over[b] = FINISHED
