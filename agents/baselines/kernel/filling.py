"""First fit in compiled code: a simulation played as `agents.baselines.first_fit` decides."""

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
from environment.kernel.state import Batch


@njit(entry=True)
def play_first_fit(batch: Batch, spared: SparedResources, trace: Trace, until: int) -> bool:
    """Decide until `until` jobs are placed; False when the head waits and no event will ever follow."""
    state = batch.state
    while state.head[0] < until:
        wait = waiting(batch, spared, 0, trace)
        room = room_for_head(batch, 0)
        made = note(batch, 0, trace, wait, state.head[0])
        if room >= state.left[0]:
            _fill(batch, 0)
            continue
        trace.lacks[made, ROOM] = room
        trace.lacks[made, CPUS], trace.lacks[made, MEMORY] = lacking(batch, 0)
        if not wait_for_event(batch, spared, 0, trace):
            return False
    return True


@njit()
def _fill(batch: Batch, b: int) -> None:
    """Start the head, with as many executors as fit on the first VM that has room, then on the next."""
    for vm in range(batch.machines.milli_cpus.shape[1]):
        for _ in range(min(room_on(batch, b, vm), batch.state.left[b])):
            put_executor(batch, b, vm)
        if batch.state.left[b] == 0:
            break
    start_head(batch, b)
