"""Running jobs ordered by their ends: a binary heap in `State.heap`. `rules.py` ends a job."""

from environment.kernel.compiled import njit
from environment.kernel.state import Batch


@njit(entry=True, inline=True)
def next_completion(batch: Batch, b: int) -> float:
    """End of the running job that ends next; there must be one."""
    state = batch.state
    return float(state.end[b, state.heap[b, 0]])


@njit(inline=True)
def _sooner(batch: Batch, b: int, one: int, other: int) -> bool:
    end = batch.state.end
    if end[b, one] != end[b, other]:
        return bool(end[b, one] < end[b, other])
    return one < other


@njit()
def push_end(batch: Batch, b: int, job: int) -> None:
    """The job, of which the end is known, runs."""
    heap, at = batch.state.heap, batch.state.running[b]
    batch.state.running[b] += 1
    while at > 0 and _sooner(batch, b, job, heap[b, (at - 1) // 2]):
        heap[b, at] = heap[b, (at - 1) // 2]
        at = (at - 1) // 2
    heap[b, at] = job


@njit()
def pop_end(batch: Batch, b: int) -> int:
    """Remove the job that ends first from the heap, and leave it in the slot that becomes free."""
    heap, last = batch.state.heap, batch.state.running[b] - 1
    batch.state.running[b] = last
    popped, moved = int(heap[b, 0]), heap[b, last]
    heap[b, last] = popped
    if last > 0:
        heap[b, 0] = moved
        _sift(batch, b, 0)
    return popped


@njit(entry=True)
def reorder_ends(batch: Batch, b: int) -> None:
    """Restore the heap of running jobs after ends have changed."""
    for at in range(batch.state.running[b] // 2 - 1, -1, -1):
        _sift(batch, b, at)


@njit(inline=True)
def _sift(batch: Batch, b: int, at: int) -> None:
    """Move a job down the heap to where it belongs."""
    heap, last = batch.state.heap, batch.state.running[b]
    moved = heap[b, at]
    while 2 * at + 1 < last:
        child = 2 * at + 1
        if child + 1 < last and _sooner(batch, b, heap[b, child + 1], heap[b, child]):
            child += 1
        if not _sooner(batch, b, heap[b, child], moved):
            break
        heap[b, at] = heap[b, child]
        at = child
    heap[b, at] = moved
