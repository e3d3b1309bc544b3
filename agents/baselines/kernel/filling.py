"""First fit in compiled code: a simulation played as `agents.baselines.first_fit` decides."""

from environment.kernel.compiled import njit
from environment.kernel.playing import CPUS, MEMORY, ROOM, Trace, note, wait_for_event, waiting
from environment.kernel.rules import put_executor, start_head
from environment.kernel.sized import Spared
from environment.kernel.state import Batch


@njit()
def play_first_fit(batch: Batch, spared: Spared, trace: Trace, until: int) -> bool:
    """Decide until so many jobs are placed; False when the head waits and nothing will ever happen."""
    state = batch.state
    while state.head[0] < until:
        wait = waiting(batch, spared, 0, trace)
        room = _room(batch, 0)
        made = note(batch, 0, trace, wait)
        if room >= state.left[0]:
            _fill(batch, 0)
            continue
        trace.lacks[made, ROOM] = room
        trace.lacks[made, CPUS], trace.lacks[made, MEMORY] = _lacking(batch, 0)
        if not wait_for_event(batch, spared, 0, trace):
            return False
    return True


@njit(inline=True)
def _room_on(batch: Batch, b: int, vm: int) -> int:
    """For how many executors of the head there is room on the VM."""
    state, jobs, head = batch.state, batch.jobs, batch.state.head[b]
    cpus, memory = jobs.milli_cpus[b, head], jobs.memory_mib[b, head]
    if state.free_milli_cpus[b, vm] < cpus or state.free_memory_mib[b, vm] < memory:
        return 0  # quicker than to divide, and true of most
    return int(min(state.free_milli_cpus[b, vm] // cpus, state.free_memory_mib[b, vm] // memory))


@njit()
def _room(batch: Batch, b: int) -> int:
    """For how many executors of the head there is room in all; as many as are left are enough."""
    found = 0
    for vm in range(batch.machines.milli_cpus.shape[1]):
        found += _room_on(batch, b, vm)
        if found >= batch.state.left[b]:
            break
    return found


@njit()
def _fill(batch: Batch, b: int) -> None:
    """Start the head, with as many executors as fit on the first VM that has room, then on the next."""
    for vm in range(batch.machines.milli_cpus.shape[1]):
        for _ in range(min(_room_on(batch, b, vm), batch.state.left[b])):
            put_executor(batch, b, vm)
        if batch.state.left[b] == 0:
            break
    start_head(batch, b)


@njit()
def _lacking(batch: Batch, b: int) -> tuple[int, int]:
    """How many VMs have too few cpus free, or too little memory, for an executor of the head."""
    state, jobs, head = batch.state, batch.jobs, batch.state.head[b]
    cpus, memory = 0, 0
    for vm in range(batch.machines.milli_cpus.shape[1]):
        cpus += state.free_milli_cpus[b, vm] < jobs.milli_cpus[b, head]
        memory += state.free_memory_mib[b, vm] < jobs.memory_mib[b, head]
    return cpus, memory
