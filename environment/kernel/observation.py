"""Observations of a moment and masks of possible actions, written into given arrays.

A `Scene` is that moment: `scene_of` takes it from an episode of the kernel,
`environment.training.view_encoding` from a view of a cluster, simulated or real. The encoding of a scene is
defined here once, for both. Every observation is a table of the VMs, row by row, and the numbers of job and
cluster behind it:

    paper: float32 [3 N + 4], the state of Islam 2022, 4, in cpus, GiB, dollars per hour and numbers.
    rich: float32 [11 N + 8 + T + U (4 + T)], all within about 0 and 1, for T known job types and U jobs that
        are shown of those behind the head.
    natural: float32 [23 N + 28], within 0 and 1, in units of the queue, the running jobs and the cluster
        itself; see `natural_observation.py`.

Another one is another number, another function of the form of `write_rich`, and a branch in `write`.
"""

import numpy as np

from environment.kernel.compiled import njit
from environment.kernel.durations import believed_end
from environment.kernel.leases import BOOT, CLOSES, READY, TAKEN
from environment.kernel.natural_observation import NATURAL_FEATURES, NATURAL_VM_FEATURES, write_natural
from environment.kernel.scene import QUEUE_SEEN, Scene, room_on, share_of
from environment.kernel.state import (
    NATURAL_STATE,
    PAPER_STATE,
    RUNNING,
    Batch,
    BoolArray,
    Float32Array,
    Layout,
)

#: Columns of the VMs, and numbers behind them (of the rich one without types and further jobs).
PAPER_VM_FEATURES, PAPER_FEATURES = 3, 4
RICH_VM_FEATURES, RICH_FEATURES = 11, 8
#: Numbers of each further job, without types.
UPCOMING_FEATURES = 4

# Divisors of the rich observation: the same for every cluster, so that weights learned on one mean the same
# on another. Chosen: somewhat above the VMs of Islam 2022, Table 4, and its jobs.
CPUS = 16.0
MEMORY_GIB = 64.0
PRICE_PER_HOUR = 1.0
EXECUTORS = 8.0
#: Times t have no bound: they are t / (t + SECONDS). Chosen: about the duration of a job of the paper's
#: sizes.
SECONDS = 240.0
#: Numbers of jobs grow with the cluster: x of them per VM are x / (x + JOBS_PER_VM).
JOBS_PER_VM = 1.0

_MIB_PER_GIB = 1024.0


def features_of(layout: Layout) -> tuple[int, int]:
    """Numbers of each VM, F, and behind the table of the VMs, G."""
    if layout.kind == PAPER_STATE:
        return PAPER_VM_FEATURES, PAPER_FEATURES
    if layout.kind == NATURAL_STATE:
        return NATURAL_VM_FEATURES, NATURAL_FEATURES
    upcoming = layout.upcoming * (UPCOMING_FEATURES + layout.types)
    return RICH_VM_FEATURES, RICH_FEATURES + layout.types + upcoming


def observation_length(vms: int, layout: Layout) -> int:
    """Numbers in an observation of so many VMs."""
    of_vm, rest = features_of(layout)
    return of_vm * vms + rest


def split(observations: Float32Array, vms: int, layout: Layout) -> tuple[Float32Array, Float32Array]:
    """Split observations [..., L] into VM table, [..., N, F], and the numbers behind it, [..., G]."""
    features, _ = features_of(layout)
    table = observations[..., : vms * features].reshape(*observations.shape[:-1], vms, features)
    return table, observations[..., vms * features :]


@njit(entry=True, inline=True)
def observe(batch: Batch, b: int, layout: Layout, out: Float32Array) -> None:
    """Write the observation of that layout, float32 [`observation_length`]: of belief, never of the truth."""
    if batch.jobs.believed[b]:
        believe(batch, b)
    if layout.kind == NATURAL_STATE:
        sum_up(batch, b)
    write(scene_of(batch, b), layout, out)


@njit()
def believe(batch: Batch, b: int) -> None:
    """Update the believed ends of all running jobs, as a view of a cluster does."""
    state, jobs = batch.state, batch.jobs
    now, soonest, until = state.clock[b], np.inf, state.believed_until[b]
    for vm in range(len(until)):
        until[vm] = now
    for i in range(state.running[b]):
        job = state.heap[b, i]
        end = believed_end(now, state.start[b, job], state.expected[b, job], jobs.spread[b, job])
        soonest = min(soonest, end)
        for at in range(jobs.first[b, job], jobs.first[b, job] + jobs.executors[b, job]):
            vm = state.placement[b, at]
            until[vm] = max(until[vm], end)
    state.believed_next[b] = soonest if state.running[b] > 0 else now


@njit()
def sum_up(batch: Batch, b: int) -> None:
    """Update the totals over queue and running jobs, and the open VMs."""
    state, jobs, head = batch.state, batch.jobs, batch.state.head[b]
    seconds, work, count, longest = 0.0, 0.0, 0, 0.0
    for job in range(head, min(_arrived(batch, b), head + QUEUE_SEEN)):
        seconds += jobs.expected[b, job]
        longest = max(longest, jobs.expected[b, job])
        work += jobs.expected[b, job] * (jobs.milli_cpus[b, job] * jobs.executors[b, job])
        count += 1
    for i in range(state.running[b]):
        seconds += state.expected[b, state.heap[b, i]]
        count += 1
    state.usual_seconds[b] = seconds / max(count, 1)
    state.waiting_work[b] = work
    state.longest_seconds[b] = longest
    leases, now = batch.machines.leases, state.clock[b]
    for vm in range(leases.shape[1]):
        is_open = leases[b, vm, CLOSES] >= now and leases[b, vm, TAKEN] > now
        state.is_open[b, vm] = is_open
        state.ready_at[b, vm] = leases[b, vm, READY] if is_open else now + leases[b, vm, BOOT]


@njit(entry=True, inline=True)
def write(scene: Scene, layout: Layout, out: Float32Array) -> None:
    """Write the observation of that layout, float32 [`observation_length`]."""
    if layout.kind == PAPER_STATE:
        write_paper(scene, out)
    elif layout.kind == NATURAL_STATE:
        write_natural(scene, layout.beta, out)
    else:
        write_rich(scene, layout, out)


@njit(inline=True)
def scene_of(batch: Batch, b: int) -> Scene:
    """The present scene of an episode of the batch; beliefs about ends are from the last observation."""
    machines, state, jobs = batch.machines, batch.state, batch.jobs
    head, left, known = state.head[b], state.left[b], state.head[b] < jobs.jobs[b]
    first = jobs.first[b, head] if known else 0
    placed = jobs.executors[b, head] - left if known else 0
    arrived = _arrived(batch, b)
    next_end = state.end[b, state.heap[b, 0]] if state.running[b] > 0 else state.clock[b]
    busy_until = state.busy_until[b]
    if jobs.believed[b]:
        next_end, busy_until = state.believed_next[b], state.believed_until[b]
    number = head if known else -1
    job_type = jobs.type[b, head] if known else 0
    job_milli_cpus = jobs.milli_cpus[b, head] if known else 0
    job_memory_mib = jobs.memory_mib[b, head] if known else 0
    executors = jobs.executors[b, head] if known else 0
    left = left if known else 0
    arrival = jobs.arrival[b, head] if known else state.clock[b]
    seconds = jobs.expected[b, head] if known else 0.0
    prefers = jobs.prefers[b, head] if known else 0
    return Scene(
        milli_cpus=machines.milli_cpus[b],
        memory_mib=machines.memory_mib[b],
        price_per_hour=machines.price_per_hour[b],
        free_milli_cpus=state.free_milli_cpus[b],
        free_memory_mib=state.free_memory_mib[b],
        held=state.held[b],
        busy_until=busy_until,
        ready_at=state.ready_at[b],
        is_open=state.is_open[b],
        clock=state.clock[b],
        waiting=arrived - head,
        running=state.running[b],
        next_end=next_end,
        usual_seconds=state.usual_seconds[b],
        waiting_work=state.waiting_work[b],
        longest_seconds=state.longest_seconds[b],
        number=number,
        type=job_type,
        job_milli_cpus=job_milli_cpus,
        job_memory_mib=job_memory_mib,
        executors=executors,
        left=left,
        arrival=arrival,
        seconds=seconds,
        prefers=prefers,
        untouched=placed == 0,
        placed=state.placement[b, first : first + placed],
        next_type=jobs.type[b, head + 1 : arrived],
        next_milli_cpus=jobs.milli_cpus[b, head + 1 : arrived],
        next_memory_mib=jobs.memory_mib[b, head + 1 : arrived],
        next_executors=jobs.executors[b, head + 1 : arrived],
    )


@njit(inline=True)
def _arrived(batch: Batch, b: int) -> int:
    """Number of jobs that have arrived, by bisection: only those that have are brought forward."""
    arrival, clock = batch.jobs.arrival, batch.state.clock[b]
    low, high = batch.state.head[b], batch.jobs.jobs[b]
    while low < high:
        middle = (low + high) // 2
        if arrival[b, middle] <= clock:
            low = middle + 1
        else:
            high = middle
    return int(low)


@njit(inline=True)
def write_paper(scene: Scene, out: Float32Array) -> None:
    """Free cpus, free GiB and price of each VM; then the head's number, cpus, GiB and executors to place.

    `out` is float32 [3 N + 4]. Jobs are numbered from 1 here; the last four are 0 when there is no head.
    """
    vms = len(scene.held)
    for vm in range(vms):
        out[3 * vm] = scene.free_milli_cpus[vm] / 1000.0
        out[3 * vm + 1] = scene.free_memory_mib[vm] / _MIB_PER_GIB
        out[3 * vm + 2] = scene.price_per_hour[vm]
    out[3 * vms] = scene.number + 1
    out[3 * vms + 1] = scene.job_milli_cpus / 1000.0
    out[3 * vms + 2] = scene.job_memory_mib / _MIB_PER_GIB
    out[3 * vms + 3] = scene.left


@njit(inline=True)
def write_rich(scene: Scene, layout: Layout, out: Float32Array) -> None:
    """The whole known state, on scales that are the same for every cluster; float32 [`observation_length`].

    Of each VM: free cpus, free memory, cpus, memory, price, executors on it, whether there are any, for how
    long it is held, how many of the head's executors fit, their share of those left, and how many of them it
    has. Then of the head: cpus, memory, executors, those left, how long it waits; of the cluster: jobs
    waiting and running per VM, and how long until one ends. Then 1 for the head's type, 0 for others. Last
    of each of the next jobs: 1, its type likewise, cpus, memory, executors; 0 where there is none.
    """
    vms, there = len(scene.held), 0
    for vm in range(vms):
        there += scene.milli_cpus[vm] > 0
        _write_vm(scene, vm, out[RICH_VM_FEATURES * vm :])
    for i in range(len(scene.placed)):
        out[RICH_VM_FEATURES * scene.placed[i] + 10] += 1.0 / EXECUTORS
    at = RICH_VM_FEATURES * vms
    out[at] = scene.job_milli_cpus / (1000.0 * CPUS)
    out[at + 1] = scene.job_memory_mib / (_MIB_PER_GIB * MEMORY_GIB)
    out[at + 2] = scene.executors / EXECUTORS
    out[at + 3] = scene.left / EXECUTORS
    out[at + 4] = share_of(scene.clock - scene.arrival, SECONDS)
    out[at + 5] = share_of(scene.waiting, JOBS_PER_VM * there)
    out[at + 6] = share_of(scene.running, JOBS_PER_VM * there)
    out[at + 7] = share_of(scene.next_end - scene.clock, SECONDS)
    at += RICH_FEATURES
    _write_type(scene.type, layout.types, out[at:])
    at += layout.types
    for number in range(layout.upcoming):
        _write_upcoming(scene, number, layout.types, out[at:])
        at += UPCOMING_FEATURES + layout.types


@njit(inline=True)
def _write_type(job_type: int, types: int, out: Float32Array) -> None:
    for known in range(types):
        out[known] = 1.0 if job_type == known + 1 else 0.0


@njit(inline=True)
def _write_upcoming(scene: Scene, number: int, types: int, out: Float32Array) -> None:
    there = number < len(scene.next_type)
    out[0] = 1.0 if there else 0.0
    _write_type(scene.next_type[number] if there else 0, types, out[1:])
    out[types + 1] = scene.next_milli_cpus[number] / (1000.0 * CPUS) if there else 0.0
    out[types + 2] = scene.next_memory_mib[number] / (_MIB_PER_GIB * MEMORY_GIB) if there else 0.0
    out[types + 3] = scene.next_executors[number] / EXECUTORS if there else 0.0


@njit(inline=True)
def _write_vm(scene: Scene, vm: int, out: Float32Array) -> None:
    room = room_on(scene, vm)
    held = scene.held[vm]
    out[0] = scene.free_milli_cpus[vm] / (1000.0 * CPUS)
    out[1] = scene.free_memory_mib[vm] / (_MIB_PER_GIB * MEMORY_GIB)
    out[2] = scene.milli_cpus[vm] / (1000.0 * CPUS)
    out[3] = scene.memory_mib[vm] / (_MIB_PER_GIB * MEMORY_GIB)
    out[4] = scene.price_per_hour[vm] / PRICE_PER_HOUR
    out[5] = held / EXECUTORS
    out[6] = 1.0 if held > 0 else 0.0
    out[7] = share_of(scene.busy_until[vm] - scene.clock, SECONDS) if held > 0 else 0.0
    out[8] = room / EXECUTORS
    out[9] = min(room, scene.left) / scene.left if scene.left > 0 else 0.0
    out[10] = 0.0


@njit(entry=True, inline=True)
def write_mask(batch: Batch, b: int, whole: bool, out: BoolArray) -> None:
    """Legal actions: bool [N + 1], true where `step_episode` would not see a violation.

    With `whole`, placing is allowed only while all executors of the head still fit, so that no sequence of
    allowed actions ends in a violation, and one is always allowed (as long as each job fits the empty
    cluster). All are false when the episode is over.
    """
    if batch.state.over[b] == RUNNING:
        write_legal(scene_of(batch, b), whole, out)
    else:
        for action in range(len(out)):
            out[action] = False


@njit()
def has_room(batch: Batch, b: int) -> bool:
    """Whether there is room for all executors of the head that are left."""
    return bool(_all_fit(scene_of(batch, b)))


@njit(entry=True, inline=True)
def write_legal(scene: Scene, whole: bool, out: BoolArray) -> None:
    """The mask of a scene with a head, as above: wait, then each VM."""
    placing = not whole or _all_fit(scene)
    out[0] = scene.untouched and scene.running > 0
    for vm in range(len(scene.held)):
        enough_cpus = scene.free_milli_cpus[vm] >= scene.job_milli_cpus
        out[vm + 1] = placing and enough_cpus and scene.free_memory_mib[vm] >= scene.job_memory_mib


@njit(inline=True)
def _all_fit(scene: Scene) -> bool:
    """Whether there is room for all executors of the head that are left; looks no further than is needed."""
    found = 0
    for vm in range(len(scene.held)):
        found += room_on(scene, vm)
        if found >= scene.left:
            return True
    return False
