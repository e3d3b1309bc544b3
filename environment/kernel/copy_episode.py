"""Copies an episode's row to another one, for trials of possible actions. `rules.py` defines the rules."""

from environment.kernel.compiled import njit
from environment.kernel.state import NUMBERS, REALS, Batch, SmallIntArray
from environment.types import FloatArray, IntArray


@njit(entry=True)
def copy_row(batch: Batch, source: int, target: int) -> None:
    """Copy the episode of one row to another row, on the same VMs; nothing is shared afterwards."""
    state, jobs = batch.state, batch.jobs
    for one in (state.head, state.left, state.over, state.waits, state.running, jobs.jobs, jobs.believed):
        one[target] = one[source]
    for unit in (jobs.unit_dollars, jobs.unit_seconds):
        unit[target] = unit[source]
    state.clock[target], state.taken[target] = state.clock[source], state.taken[source]
    for whole in (state.free_milli_cpus, state.free_memory_mib, state.held):
        _copy(whole, source, target)
    for real in (state.since, state.used, state.busy_until, state.start, state.end, state.expected):
        _copy(real, source, target)
    for small in (state.heap, state.user, state.placement):
        _copy(small, source, target)
    for number in jobs[NUMBERS]:
        _copy(number, source, target)
    for real in jobs[REALS]:
        _copy(real, source, target)
    _copy(jobs.first, source, target)
    leases = batch.machines.leases
    for vm in range(leases.shape[1]):
        for column in range(leases.shape[2]):
            leases[target, vm, column] = leases[source, vm, column]


@njit()
def _copy(values: FloatArray | IntArray | SmallIntArray, source: int, target: int) -> None:
    for at in range(values.shape[1]):
        values[target, at] = values[source, at]
