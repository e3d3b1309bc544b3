"""Greedy in compiled code: a simulation that decides as `greedy_policy` does, without calls to Python.

`pricing` computes the additions of placements; this module builds its arrays from the kernel's, and
`agents.compiled.waits` counts waits and overtakings.
"""

import math
from typing import NamedTuple

import numpy as np

from agents.compiled.waits import ROUNDED, JobBeliefs, WaitCounts, WaitLimits, may_overtake, note_fit
from agents.greedy.asked import Aim, Jobs, PricingScene, Work
from agents.greedy.foreseen import SOON, Foreseen, ends_within, foresee, held_for, time_step
from agents.greedy.pricing import NOBODY, UNTOLD, Ends, choose
from conf.defaults import UNKNOWN_SPREAD
from environment.kernel.compiled import njit
from environment.kernel.play_loop import (
    CPUS,
    MADE,
    MEMORY,
    ROOM,
    Trace,
    bring_to_head,
    expected_of_started,
    lacking,
    note,
    room_for_head,
    wait_for_event,
    waiting,
)
from environment.kernel.resized_jobs import SparedResources
from environment.kernel.rules import put_executor, start_head
from environment.kernel.state import ANYWHERE, Batch, BoolArray
from environment.types import FloatArray, IntArray

#: Jobs last for so many seconds at least.
LEAST = 0.001
#: How far is looked ahead for the first job, and for how long VMs are kept, as in the policy.
FAR, LATER = 16.0, 2.0


class GreedyLimits(NamedTuple):
    """Constants of a simulation: limits, the VMs, and the objective."""

    waits: WaitLimits
    window: int
    aim: Aim
    capacity: FloatArray  # [2, N] milli cpus and MiB
    price: FloatArray  # [1, N] dollars per second
    cheapest: FloatArray  # [1, 2] the least price of a milli cpu, and of a MiB
    kind: IntArray  # [N] equal of VMs that have and cost the same
    nothing: FloatArray  # [N] zeros
    open: BoolArray  # [N] that none of them is closed
    limits: IntArray  # [0, 0] nothing else is taken than cpus and memory
    none: Ends  # no executor's end is given


class GreedyState(NamedTuple):
    """Variable state beside the kernel's, and notes for reporting decisions, [D] each."""

    counts: WaitCounts
    first: IntArray  # [K] by kind: the first of the window, as of the decision in `counts.noted`
    dollars: FloatArray  # [D] the placement's addition
    begins: FloatArray  # [D] when the first is believed to begin that waits
    passed: IntArray  # [D] how many older jobs are overtaken
    oldest: IntArray  # [D] the first of them, by arrival
    kept: IntArray  # [1] how many of the last two there are
    keeps: IntArray  # [D, 2] of a wait: from where to where its VMs stand in the next two
    vms: IntArray  # [K] idle VMs that are kept for a waiting job
    until: FloatArray  # [K] until when, seconds
    executors: IntArray  # [W] of the considered jobs, the fields of `Jobs`, and
    size: IntArray  # [2, W]
    prefers: IntArray  # [W]
    duration: FloatArray  # [W]
    tail: FloatArray  # [W]
    patience: FloatArray  # [W]
    like: IntArray  # [W]
    near: IntArray  # [N] VMs with room
    idle: IntArray  # [K] how many of them are idle, by kind
    seen: IntArray  # [N] in which decision each was looked at last, and
    free: IntArray  # [2, N] milli cpus and MiB that were free there, and
    held: FloatArray  # [N] for how many seconds it is held


@njit(entry=True)
def play_greedy(
    batch: Batch,
    spared: SparedResources,
    trace: Trace,
    until: int,
    believed: JobBeliefs,
    means: GreedyLimits,
    borne: GreedyState,
    foreseen: Foreseen,
    work: Work,
) -> bool:
    """Decide until `until` jobs are placed; False when the head waits and no event will ever follow.

    It also returns when there is no space left for the notes on a wait.
    """
    state, vms = batch.state, batch.machines.milli_cpus.shape[1]
    while state.head[0] < until and borne.kept[0] + vms <= len(borne.vms):
        waits = waiting(batch, spared, 0, trace)
        oldest = borne.counts.order[state.head[0]]
        window = min(waits, means.window)
        if not may_overtake(means.waits, borne.counts, oldest):
            window = 1
        made = note(batch, 0, trace, waits, oldest)
        job = _choose(batch, spared, trace, window, believed, means, borne, foreseen, work)
        now = state.clock[0]
        for i in range(window):
            note_fit(borne.counts, borne.counts.order[state.head[0] + i], work.fits[i], now)
        if job < 0:
            _note_wait(batch, trace, borne, work, made)
            if not wait_for_event(batch, spared, 0, trace):
                return False
            continue
        borne.dollars[made], borne.passed[made], borne.oldest[made] = work.dollars[0], job, oldest
        _place(batch, trace, believed, means, borne, foreseen, work, made, job)
    return True


@njit()
def _note_wait(batch: Batch, trace: Trace, borne: GreedyState, work: Work, made: int) -> None:
    """Record the reason why the first job waits, and the idle VMs reserved for waiting jobs."""
    state = batch.state
    trace.lacks[made, ROOM] = room_for_head(batch, 0)
    trace.lacks[made, CPUS], trace.lacks[made, MEMORY] = lacking(batch, 0)
    borne.begins[made] = work.begins[0]
    borne.keeps[made, 0] = borne.kept[0]
    for vm in range(len(work.wanted)):
        if work.wanted[vm] > 0.0 and state.held[0, vm] == 0:
            borne.vms[borne.kept[0]] = vm
            borne.until[borne.kept[0]] = state.clock[0] + LATER * work.wanted[vm]
            borne.kept[0] += 1
    borne.keeps[made, 1] = borne.kept[0]


@njit()
def _place(
    batch: Batch,
    trace: Trace,
    believed: JobBeliefs,
    means: GreedyLimits,
    borne: GreedyState,
    foreseen: Foreseen,
    work: Work,
    made: int,
    job: int,
) -> None:
    """Start job `number` of the window at the VMs in the first row of `work`."""
    head, number = batch.state.head[0], bring_to_head(batch, 0, borne.counts.order, job)
    if job > 0:
        borne.counts.overtaken[borne.oldest[made]] += 1
    trace.job[made] = number
    borne.counts.since[number], borne.counts.overtaken[number] = np.nan, 0
    for i in range(work.used[0]):
        for _ in range(work.taken[0, i]):
            put_executor(batch, 0, work.vms[0, i])
    start_head(batch, 0)
    expected, used = believed.expected[number], work.used[0]
    foreseen.expects[head] = expected_of_started(batch, 0, head, used, expected, means.waits.exact)


@njit()
def _choose(
    batch: Batch,
    spared: SparedResources,
    trace: Trace,
    window: int,
    believed: JobBeliefs,
    means: GreedyLimits,
    borne: GreedyState,
    foreseen: Foreseen,
    work: Work,
) -> int:
    """The number in the window of the job that is best placed now, and all else that `choose` finds."""
    state = batch.state
    jobs, ahead = _window(batch, trace, window, believed, means, borne)
    if room_for_head(batch, 0) < state.left[0]:
        expected = believed.expected[borne.counts.order[state.head[0]]]
        ahead = max(ahead, FAR * (means.waits.unknown if math.isnan(expected) else expected))
    foresee(batch, foreseen, means.waits.unknown, believed.spread, borne.counts.order)
    step = time_step(batch, foreseen)
    near = borne.near[: _look_near(batch, trace, jobs, means, borne)]
    for vm in near:
        borne.held[vm] = held_for(batch, foreseen, vm, step)
    scene = PricingScene(
        borne.free, means.capacity, borne.held, means.nothing, means.open, means.nothing, means.kind, near
    )
    work.begins[:window], work.wanted[:] = np.inf, 0.0
    work.fits[:window], work.waits[:window] = False, False
    work.turn[0], work.turn[1], work.values[0], work.values[1] = 0, NOBODY, np.inf, np.nan
    chosen = choose(scene, means.none, jobs, means.aim, work)
    seconds, most = 0.0, SOON
    while chosen == UNTOLD:
        needed = work.values[2]
        if min(needed, ahead) <= seconds:  # it is not about how far, but about how many
            most = state.running[0]
        # Each time at least twice as far, so that it is not asked for too often.
        seconds = min(max(2.0 * needed, 2.0 * seconds, LEAST), ahead)
        beyond = seconds if seconds < ahead else np.inf
        ends = ends_within(batch, spared, foreseen, seconds, beyond, most)
        for vm in ends.vm:
            if borne.seen[vm] != trace.counts[MADE]:
                _look_at(batch, trace, borne, vm)
                borne.held[vm] = held_for(batch, foreseen, vm, step)
        chosen = choose(scene, ends, jobs, means.aim, work)
    return int(chosen)


@njit()
def _look_at(batch: Batch, trace: Trace, borne: GreedyState, vm: int) -> None:
    """Record the free resources of the VM."""
    borne.seen[vm] = trace.counts[MADE]
    borne.free[0, vm] = batch.state.free_milli_cpus[0, vm]
    borne.free[1, vm] = batch.state.free_memory_mib[0, vm]


@njit()
def _look_near(batch: Batch, trace: Trace, jobs: Jobs, means: GreedyLimits, borne: GreedyState) -> int:
    """Fill `borne.near` with the VMs that have room for one of the jobs; return their number.

    Of alike idle VMs, at most as many are listed as all of these jobs could take.
    """
    state, most, size = batch.state, 0, 0
    cpus, memory = jobs.size[0, 0], jobs.size[1, 0]
    for job in range(len(jobs.executors)):
        most += jobs.executors[job]
        cpus, memory = min(cpus, jobs.size[0, job]), min(memory, jobs.size[1, job])
    borne.idle[:] = 0
    for vm in range(batch.machines.milli_cpus.shape[1]):
        if state.free_milli_cpus[0, vm] < cpus or state.free_memory_mib[0, vm] < memory:
            continue
        if state.held[0, vm] == 0:
            if borne.idle[means.kind[vm]] >= most:
                continue
            borne.idle[means.kind[vm]] += 1
        _look_at(batch, trace, borne, vm)
        borne.near[size] = vm
        size += 1
    return size


@njit()
def _window(
    batch: Batch, trace: Trace, window: int, believed: JobBeliefs, means: GreedyLimits, borne: GreedyState
) -> tuple[Jobs, float]:
    """The first waiting jobs, and the longest time for which one of them may be held back in all."""
    state, jobs = batch.state, batch.jobs
    head, now, made, ahead = state.head[0], state.clock[0], trace.counts[MADE], 0.0
    executors, size, prefers = borne.executors[:window], borne.size, borne.prefers[:window]
    duration, patience, like = borne.duration[:window], borne.patience[:window], borne.like[:window]
    for i in range(window):
        number = borne.counts.order[head + i]
        executors[i] = jobs.executors[0, head + i]
        size[0, i], size[1, i] = jobs.milli_cpus[0, head + i], jobs.memory_mib[0, head + i]
        prefers[i] = ANYWHERE if executors[i] == 1 else jobs.prefers[0, head + i]
        expected = believed.expected[number]
        duration[i] = max(means.waits.unknown if math.isnan(expected) else expected, LEAST)
        borne.tail[i] = UNKNOWN_SPREAD if math.isnan(expected) else 0.0
        most = believed.patience[number]
        ahead = max(ahead, most)
        if most < np.inf:
            since = borne.counts.since[number]
            if math.isnan(since):
                patience[i] = most - ROUNDED * most
            else:
                patience[i] = most - (now - since) - ROUNDED * most
        else:
            patience[i] = most
        kind = believed.kind[number]
        if borne.counts.noted[kind] != made:
            borne.counts.noted[kind], borne.first[kind] = made, i
        like[i] = borne.first[kind]
    return Jobs(
        executors,
        size,
        prefers,
        duration,
        borne.tail[:window],
        patience,
        like,
        means.price,
        means.cheapest,
        means.limits,
    ), ahead
