"""The transition rules, once for all: simulator, training and lookahead all move an episode with these.

Functions take a batch and the row `b` of the episode; only `step_episode` checks its input. At one instant
jobs end first (by number), then jobs arrive, then the decision follows.

Functions that run at every step are compiled into their callers: handing over a batch takes longer, with
every array that it has, than most of the work there.
"""

from environment.kernel.compiled import njit
from environment.kernel.completion_heap import next_completion, pop_end, push_end
from environment.kernel.durations import slowdown
from environment.kernel.interruptions import take_away
from environment.kernel.leases import leave_idle, open_lease, ready_at, reset_leases
from environment.kernel.rewards import episode_reward
from environment.kernel.state import FINISHED, NUMBERS, REALS, RUNNING, VIOLATED, Batch, SmallIntArray
from environment.types import FloatArray, IntArray


@njit(entry=True)
def reset(batch: Batch, b: int) -> None:
    """Begin the episode: all VMs free, the clock at the arrival of the first job."""
    state, jobs, machines = batch.state, batch.jobs, batch.machines
    state.clock[b] = jobs.arrival[b, 0] if jobs.jobs[b] > 0 else 0.0
    state.head[b] = 0
    state.left[b] = jobs.executors[b, 0] if jobs.jobs[b] > 0 else 0
    state.over[b] = RUNNING if jobs.jobs[b] > 0 else FINISHED
    state.waits[b] = 0
    state.running[b] = 0
    for vm in range(machines.milli_cpus.shape[1]):
        state.free_milli_cpus[b, vm] = machines.milli_cpus[b, vm]
        state.free_memory_mib[b, vm] = machines.memory_mib[b, vm]
        state.held[b, vm] = 0
        state.since[b, vm] = 0.0
        state.used[b, vm] = 0.0
        state.busy_until[b, vm] = 0.0
        state.user[b, vm] = 0
    reset_leases(batch, b)


@njit(entry=True, inline=True)
def fits(batch: Batch, b: int, vm: int) -> bool:
    """Whether an executor of the head fits on the VM now."""
    state, jobs, head = batch.state, batch.jobs, batch.state.head[b]
    enough_cpus = state.free_milli_cpus[b, vm] >= jobs.milli_cpus[b, head]
    return bool(enough_cpus and state.free_memory_mib[b, vm] >= jobs.memory_mib[b, head])


@njit(inline=True)
def may_wait(batch: Batch, b: int) -> bool:
    """Whether waiting is allowed: the head is not half placed, and something runs (rule 4)."""
    state = batch.state
    untouched = state.left[b] == batch.jobs.executors[b, state.head[b]]
    return bool(untouched and state.running[b] > 0)


@njit(inline=True)
def put_executor(batch: Batch, b: int, vm: int) -> None:
    """The next executor of the head takes its resources from the VM (rule 3)."""
    state, jobs, head = batch.state, batch.jobs, batch.state.head[b]
    at = jobs.first[b, head] + jobs.executors[b, head] - state.left[b]
    state.placement[b, at] = vm
    state.free_milli_cpus[b, vm] -= jobs.milli_cpus[b, head]
    state.free_memory_mib[b, vm] -= jobs.memory_mib[b, head]
    take_vm(batch, b, vm)
    state.left[b] -= 1


@njit(entry=True, inline=True)
def take_vm(batch: Batch, b: int, vm: int) -> None:
    """One executor more holds the VM; where it is the first, the VM is opened if it is not open."""
    state = batch.state
    if state.held[b, vm] == 0:
        state.since[b, vm] = state.clock[b]
        if batch.machines.leases.shape[1] > 0:
            open_lease(batch, b, vm)
    state.held[b, vm] += 1


@njit(entry=True, inline=True)
def leave_vm(batch: Batch, b: int, vm: int, at: float) -> None:
    """One executor less holds the VM, from then on."""
    state = batch.state
    state.held[b, vm] -= 1
    if state.held[b, vm] == 0:
        state.used[b, vm] += at - state.since[b, vm]
        if batch.machines.leases.shape[1] > 0:
            leave_idle(batch, b, vm, at)


@njit()
def start_head(batch: Batch, b: int) -> None:
    """The head, wholly placed, starts, as soon as all its VMs are up; the next job becomes the head."""
    state, jobs, head = batch.state, batch.jobs, batch.state.head[b]
    start = ready_at(batch, b, head) if batch.machines.leases.shape[1] > 0 else state.clock[b]
    state.start[b, head] = start
    slower = slowdown(batch, b, head)
    end = start + jobs.duration[b, head] * slower
    state.end[b, head], state.expected[b, head] = end, jobs.expected[b, head] * slower
    for at in range(jobs.first[b, head], jobs.first[b, head] + jobs.executors[b, head]):
        vm = state.placement[b, at]
        state.busy_until[b, vm] = max(state.busy_until[b, vm], end)
    push_end(batch, b, head)
    state.head[b] = head + 1
    state.left[b] = jobs.executors[b, head + 1] if head + 1 < jobs.jobs[b] else 0


@njit(entry=True)
def bring_forward(batch: Batch, b: int, job: int) -> None:
    """Move a job that has arrived to the head; overtaken jobs keep their order, each one place further back.

    The head must not be half placed. Jobs that were placed, and their numbers, stay as they are.
    """
    _reorder(batch, b, batch.state.head[b], job, True)


@njit()
def put_back(batch: Batch, b: int, job: int) -> None:
    """Undo `bring_forward`: the head goes back to that place, and those before it one place forward."""
    _reorder(batch, b, batch.state.head[b], job, False)


@njit(entry=True)
def arrive(batch: Batch, b: int, job: int, place: int) -> None:
    """Assign an arriving job a number no lower than the head's; others keep their order."""
    _reorder(batch, b, place, job, True)


@njit()
def _reorder(batch: Batch, b: int, head: int, job: int, forward: bool) -> None:
    state, jobs = batch.state, batch.jobs
    for reals in jobs[REALS]:
        _rotate(reals[b], head, job, forward)
    for numbers in jobs[NUMBERS]:
        _rotate(numbers[b], head, job, forward)
    for later in range(head + 1, job + 1):
        jobs.first[b, later] = jobs.first[b, later - 1] + jobs.executors[b, later - 1]
    state.left[b] = jobs.executors[b, state.head[b]]


@njit()
def _rotate(values: FloatArray | IntArray, first: int, last: int, forward: bool) -> None:
    """Move the value at `last` to `first`, and those before it one further; or the other way round."""
    if forward:
        moved = values[last]
        for at in range(last, first, -1):
            values[at] = values[at - 1]
        values[first] = moved
    else:
        moved = values[first]
        for at in range(first, last):
            values[at] = values[at + 1]
        values[last] = moved


@njit(entry=True)
def place_job(batch: Batch, b: int, placement: SmallIntArray) -> None:
    """Place all executors of the head, one VM index for each, and start it."""
    for i in range(len(placement)):
        put_executor(batch, b, placement[i])
    start_head(batch, b)


@njit(entry=True)
def advance(batch: Batch, b: int, until: float) -> None:
    """Move the clock to `until`, ending every job that ends by then; no VM is taken away."""
    state = batch.state
    while state.running[b] > 0 and next_completion(batch, b) <= until:
        _end(batch, b, pop_end(batch, b))
    state.clock[b] = max(state.clock[b], until)


@njit()
def wait(batch: Batch, b: int) -> None:
    """Advance the clock until the next running job ends; spot VMs that are taken away delay it."""
    if batch.machines.leases.shape[1] > 0:
        while batch.state.taken[b] < next_completion(batch, b):
            _lose(batch, b)
    advance(batch, b, next_completion(batch, b))


@njit(entry=True)
def finish(batch: Batch, b: int) -> None:
    """All jobs are placed: let the running ones end."""
    while batch.state.running[b] > 0:
        wait(batch, b)
    batch.state.over[b] = FINISHED


@njit()
def _lose(batch: Batch, b: int) -> None:
    """Advance the clock until the next spot VM is taken away, and take it away."""
    advance(batch, b, batch.state.taken[b])
    take_away(batch, b)


@njit(entry=True, inline=True)
def step_episode(batch: Batch, b: int, action: int) -> float:
    """Apply an action (0: wait; i: put an executor on the i-th VM) and return its reward.

    Rewards are those of Islam 2022, Table 3: the last placement of an episode gets the episode's reward and
    nothing else. Nothing happens to an episode that is over.
    """
    state, rules = batch.state, batch.rules
    if state.over[b] != RUNNING:
        return 0.0
    if action == 0 and may_wait(batch, b):
        wait(batch, b)
        state.waits[b] += 1
        return rules.waited
    vm = action - 1
    if vm < 0 or vm >= state.held.shape[1] or not fits(batch, b, vm):
        state.over[b] = VIOLATED
        return rules.violation
    put_executor(batch, b, vm)
    return rules.placed if state.left[b] > 0 else _start_and_show_next(batch, b)


@njit()
def _start_and_show_next(batch: Batch, b: int) -> float:
    state, jobs = batch.state, batch.jobs
    start_head(batch, b)
    if state.head[b] < jobs.jobs[b]:
        arrival = jobs.arrival[b, state.head[b]]
        if batch.machines.leases.shape[1] > 0:
            while state.taken[b] < arrival:
                _lose(batch, b)
        advance(batch, b, arrival)
        return batch.rules.placed
    finish(batch, b)
    return episode_reward(batch, b)


@njit()
def _end(batch: Batch, b: int, job: int) -> None:
    """End the job and free its executors' resources."""
    state, jobs = batch.state, batch.jobs
    at_end = state.end[b, job]
    state.clock[b] = max(state.clock[b], at_end)
    for at in range(jobs.first[b, job], jobs.first[b, job] + jobs.executors[b, job]):
        vm = state.placement[b, at]
        state.free_milli_cpus[b, vm] += jobs.milli_cpus[b, job]
        state.free_memory_mib[b, vm] += jobs.memory_mib[b, job]
        leave_vm(batch, b, vm, at_end)
