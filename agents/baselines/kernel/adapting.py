"""Adaptive executor placement in compiled code: a simulation played as `agents.baselines.aep` decides."""

from environment.kernel.compiled import njit
from environment.kernel.play_loop import (
    CPUS,
    MEMORY,
    ROOM,
    Trace,
    lacking,
    note,
    room_for_head,
    room_on,
    wait_for_event,
    waiting,
)
from environment.kernel.resized_jobs import SparedResources
from environment.kernel.rules import put_executor, start_head
from environment.kernel.state import ANYWHERE, SPREAD, Batch
from environment.types import IntArray


@njit(entry=True)
def play_adaptive(
    batch: Batch,
    spared: SparedResources,
    trace: Trace,
    until: int,
    unknown: int,
    cheapest: IntArray,
    room: IntArray,
    used: IntArray,
) -> bool:
    """Decide until `until` jobs are placed; False when the head waits and no event will ever follow.

    `unknown` is the placement for jobs that prefer nothing. `cheapest` [N] are the VMs by price, then by
    number. The contents of `room` and `used`, [N] each, mean nothing between calls.
    """
    state, jobs = batch.state, batch.jobs
    while state.head[0] < until:
        wait = waiting(batch, spared, 0, trace)
        found = room_for_head(batch, 0)
        made = note(batch, 0, trace, wait, state.head[0])
        if found >= state.left[0]:
            for vm in range(len(room)):
                room[vm], used[vm] = min(room_on(batch, 0, vm), state.left[0]), state.held[0, vm] > 0
            prefers = jobs.prefers[0, state.head[0]]
            if (unknown if prefers == ANYWHERE else prefers) == SPREAD:
                _spread(batch, 0, cheapest, room, used)
            else:
                _consolidate(batch, 0, cheapest, room, used)
            start_head(batch, 0)
            continue
        trace.lacks[made, ROOM] = found
        trace.lacks[made, CPUS], trace.lacks[made, MEMORY] = lacking(batch, 0)
        if not wait_for_event(batch, spared, 0, trace):
            return False
    return True


@njit()
def _spread(batch: Batch, b: int, cheapest: IntArray, room: IntArray, used: IntArray) -> None:
    """An executor to each VM with room, to those in use first, and so again until all are placed."""
    left, turn = batch.state.left, 0
    while left[b] > 0:
        for in_use in range(1, -1, -1):
            for vm in cheapest:
                if left[b] > 0 and room[vm] > turn and used[vm] == in_use:
                    put_executor(batch, b, vm)
        turn += 1


@njit()
def _consolidate(batch: Batch, b: int, cheapest: IntArray, room: IntArray, used: IntArray) -> None:
    """Fill the VM with most room, then the next; among equals prefer those in use."""
    left = batch.state.left
    while left[b] > 0:
        best = -1
        for vm in cheapest:
            if best < 0 or room[vm] > room[best] or (room[vm] == room[best] and used[vm] > used[best]):
                best = vm
        for _ in range(min(room[best], left[b])):
            put_executor(batch, b, best)
        room[best] = 0
