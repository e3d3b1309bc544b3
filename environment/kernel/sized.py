"""Executors that take less than their job asks for, or are fewer: the rules of `rules.py` with exact sizes.

Training knows only whole jobs, so nothing of this is part of a batch, which would slow every step of it.
"""

from typing import NamedTuple

import numpy as np

from environment.kernel.compiled import njit
from environment.kernel.rules import advance, next_completion, put_executor, start_head
from environment.kernel.state import FINISHED, Batch, SmallIntArray
from environment.types import IntArray


class Spared(NamedTuple):
    """What each executor of one episode takes less than its job asks for; [E], like `State.placement`."""

    milli_cpus: IntArray
    memory_mib: IntArray


def nothing_spared(batch: Batch) -> Spared:
    """For an episode of the batch in which nothing is placed yet."""
    executors = batch.state.placement.shape[1]
    return Spared(np.zeros(executors, np.int64), np.zeros(executors, np.int64))


@njit()
def place_sized(
    batch: Batch,
    spared: Spared,
    b: int,
    placement: SmallIntArray,
    milli_cpus: IntArray,
    memory_mib: IntArray,
    duration: float,
) -> None:
    """Put executors of these sizes, each with its VM, and start the head.

    They may be fewer than the head asks for. From now on it is a job of so many executors that takes
    `duration` seconds when placed well.
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


@njit()
def advance_sized(batch: Batch, spared: Spared, b: int, until: float) -> None:
    """Move the clock to `until`, ending every job that ends by then."""
    state, jobs = batch.state, batch.jobs
    before = state.running[b]
    advance(batch, b, until)
    # Those that have ended stand behind the heap, and gave back all that they had asked for.
    for i in range(state.running[b], before):
        job = state.heap[b, i]
        for at in range(jobs.first[b, job], jobs.first[b, job] + jobs.executors[b, job]):
            vm = state.placement[b, at]
            state.free_milli_cpus[b, vm] -= spared.milli_cpus[at]
            state.free_memory_mib[b, vm] -= spared.memory_mib[at]


@njit()
def finish_sized(batch: Batch, spared: Spared, b: int) -> None:
    """All jobs are placed: let the running ones end."""
    while batch.state.running[b] > 0:
        advance_sized(batch, spared, b, next_completion(batch, b))
    batch.state.over[b] = FINISHED
