"""Greedy in compiled code: a simulation played as `greedy_policy` decides, without asking Python for more.

What placements add is `pricing`'s, as ever; here are its arrays made of the kernel's, and what jobs bear is
counted as `environment.patience` does. Jobs have two numbers: by arrival, and the kernel's, which changes
while they wait and others are placed before them.
"""

import math
from typing import NamedTuple

import numpy as np

from agents.greedy.pricing import UNTOLD, Aim, Ends, Jobs, PricingScene, Work, choose
from conf.assumptions import BAD_PLACEMENT_FACTOR, MEASURED_SPREAD
from environment.belief import EARLY, LATE
from environment.kernel.compiled import njit
from environment.kernel.durations import is_good
from environment.kernel.playing import (
    CPUS,
    MADE,
    MEMORY,
    ROOM,
    Trace,
    lacking,
    note,
    room_for_head,
    wait_for_event,
    waiting,
)
from environment.kernel.rules import bring_forward, put_executor, start_head
from environment.kernel.sized import Spared
from environment.kernel.state import ANYWHERE, Batch
from environment.types import FloatArray, IntArray

#: Jobs last, and end, in so many seconds at least.
LEAST = 0.001
#: What is lost of a time when it is computed, as `environment.patience` has it; how far is looked ahead for
#: the first job, and for how long VMs are kept, as the policy has it.
ROUNDED, FAR, LATER = 1e-6, 16.0, 2.0
#: So many of the jobs that end next are looked at first.
SOON = 24
#: As many bits as `agents.estimates.rounded` keeps of times.
TIME_BITS = 20


class Believed(NamedTuple):
    """What is believed of jobs, by arrival, [M] each."""

    expected: FloatArray  # seconds; NaN when nobody knows
    spread: FloatArray
    patience: FloatArray  # for how many seconds it may be held back in all
    kind: IntArray  # equal of those that are placed alike


class Means(NamedTuple):
    """What does not change: limits, the VMs, and what counts."""

    window: int
    overtaken_at_most: int
    unknown: float  # seconds that a job takes of which that is not known
    exact: bool  # whether is believed of running jobs what is true
    aim: Aim
    capacity: FloatArray  # [2, N] milli cpus and MiB
    price: FloatArray  # [1, N] dollars per second
    kind: IntArray  # [N] equal of VMs that have and cost the same


class Borne(NamedTuple):
    """What changes beside the kernel's state, and what there is to tell of decisions, [D] each."""

    order: IntArray  # [M] number by arrival of each of the kernel's numbers
    expects: FloatArray  # [M] what running jobs were expected to take, by the kernel's numbers; NaN: unknown
    since: FloatArray  # [M] by arrival: when it began to fit; NaN when it does not
    overtaken: IntArray  # [M] by arrival: how often while it was the oldest
    first: IntArray  # [K] by kind: the first of the window, as of the decision in the next
    noted: IntArray  # [K]
    dollars: FloatArray  # [D] what the placement adds
    begins: FloatArray  # [D] when the first is believed to begin that waits
    passed: IntArray  # [D] how many older jobs are overtaken
    oldest: IntArray  # [D] the first of them, by arrival
    kept: IntArray  # [1] how many of the last two there are
    keeps: IntArray  # [D, 2] of a wait: from where to where its VMs stand in the next two
    vms: IntArray  # [K] idle VMs that are kept for who waits
    until: FloatArray  # [K] until when, seconds


@njit(allocates=True)
def play_greedy(
    batch: Batch,
    spared: Spared,
    trace: Trace,
    until: int,
    believed: Believed,
    means: Means,
    borne: Borne,
    work: Work,
) -> bool:
    """Decide until so many jobs are placed; False when the head waits and nothing will ever happen.

    Or until there is no room left for what is told of a wait.
    """
    state, vms = batch.state, batch.machines.milli_cpus.shape[1]
    while state.head[0] < until and borne.kept[0] + vms <= len(borne.vms):
        waits = waiting(batch, spared, 0, trace)
        oldest = borne.order[state.head[0]]
        window = min(waits, means.window)
        if means.overtaken_at_most <= 0 or borne.overtaken[oldest] >= means.overtaken_at_most:
            window = 1
        made = note(batch, 0, trace, waits, oldest)
        job = _choose(batch, spared, trace, window, believed, means, borne, work)
        now = state.clock[0]
        for i in range(window):
            number = borne.order[state.head[0] + i]
            if not work.fits[i]:
                borne.since[number] = np.nan
            elif math.isnan(borne.since[number]):
                borne.since[number] = now
        if job < 0:
            _note_wait(batch, trace, borne, work, made)
            if not wait_for_event(batch, spared, 0, trace):
                return False
            continue
        borne.dollars[made], borne.passed[made], borne.oldest[made] = work.dollars[0], job, oldest
        _place(batch, trace, believed, means, borne, work, made, job)
    return True


@njit()
def _note_wait(batch: Batch, trace: Trace, borne: Borne, work: Work, made: int) -> None:
    """Write down why the first waits, and which idle VMs are kept for whom."""
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
    believed: Believed,
    means: Means,
    borne: Borne,
    work: Work,
    made: int,
    job: int,
) -> None:
    """Start the job of that number in the window where the first row of `work` says."""
    state, jobs = batch.state, batch.jobs
    head = state.head[0]
    number = borne.order[head + job]
    if job > 0:
        bring_forward(batch, 0, head + job)
        for at in range(head + job, head, -1):
            borne.order[at] = borne.order[at - 1]
        borne.order[head] = number
        borne.overtaken[borne.oldest[made]] += 1
    trace.job[made] = number
    borne.since[number], borne.overtaken[number] = np.nan, 0
    for i in range(work.used[0]):
        for _ in range(work.taken[0, i]):
            put_executor(batch, 0, work.vms[0, i])
    start_head(batch, 0)
    if means.exact:
        borne.expects[head] = state.end[0, head] - state.start[0, head]
    elif is_good(jobs.prefers[0, head], jobs.executors[0, head], work.used[0]):
        borne.expects[head] = believed.expected[number]
    else:
        borne.expects[head] = believed.expected[number] * BAD_PLACEMENT_FACTOR


@njit(allocates=True)
def _choose(
    batch: Batch,
    spared: Spared,
    trace: Trace,
    window: int,
    believed: Believed,
    means: Means,
    borne: Borne,
    work: Work,
) -> int:
    """The number in the window of the job that is best placed now, and all else that `choose` finds."""
    state, count = batch.state, batch.machines.milli_cpus.shape[1]
    now, running = state.clock[0], state.running[0]
    ends = np.empty(running)
    last = np.full(count, now)
    for i in range(running):
        job = state.heap[0, i]
        ends[i] = _expected_end(
            now,
            state.start[0, job],
            means.unknown if math.isnan(borne.expects[job]) else borne.expects[job],
            believed.spread[borne.order[job]],
        )
        first = batch.jobs.first[0, job]
        for at in range(first, first + batch.jobs.executors[0, job]):
            vm = state.placement[0, at]
            last[vm] = max(last[vm], ends[i])
    held = _held(last, now)
    jobs, ahead = _window(batch, trace, window, believed, means, borne)
    if room_for_head(batch, 0) < state.left[0]:
        expected = believed.expected[borne.order[state.head[0]]]
        ahead = max(ahead, FAR * (means.unknown if math.isnan(expected) else expected))
    free, nothing, open_ = np.empty((2, count), np.int64), np.zeros(count), np.zeros(count, np.bool_)
    chosen = UNTOLD
    for most in (SOON, running):
        for vm in range(count):
            free[0, vm], free[1, vm] = state.free_milli_cpus[0, vm], state.free_memory_mib[0, vm]
        scene = PricingScene(free, means.capacity, held.copy(), nothing, open_, nothing, means.kind)
        work.begins[:window], work.wanted[:] = np.inf, 0.0
        work.fits[:window], work.waits[:window] = False, False
        chosen = choose(scene, _soon(batch, spared, ends, now, ahead, most), jobs, means.aim, work)
        if chosen != UNTOLD:
            break
    return int(chosen)


@njit(allocates=True)
def _window(
    batch: Batch, trace: Trace, window: int, believed: Believed, means: Means, borne: Borne
) -> tuple[Jobs, float]:
    """The first jobs that wait, and for how long one of them may be held back at most in all."""
    state, jobs = batch.state, batch.jobs
    head, now, made, ahead = state.head[0], state.clock[0], trace.counts[MADE], 0.0
    size, executors = np.empty((2, window), np.int64), np.empty(window, np.int64)
    prefers, like = np.empty(window, np.int64), np.empty(window, np.int64)
    duration, patience = np.empty(window), np.empty(window)
    for i in range(window):
        number = borne.order[head + i]
        executors[i] = jobs.executors[0, head + i]
        size[0, i], size[1, i] = jobs.milli_cpus[0, head + i], jobs.memory_mib[0, head + i]
        prefers[i] = ANYWHERE if executors[i] == 1 else jobs.prefers[0, head + i]
        expected = believed.expected[number]
        duration[i] = max(means.unknown if math.isnan(expected) else expected, LEAST)
        most = believed.patience[number]
        ahead = max(ahead, most)
        if most < np.inf:
            since = borne.since[number]
            if math.isnan(since):
                patience[i] = most - ROUNDED * most
            else:
                patience[i] = most - (now - since) - ROUNDED * most
        else:
            patience[i] = most
        kind = believed.kind[number]
        if borne.noted[kind] != made:
            borne.noted[kind], borne.first[kind] = made, i
        like[i] = borne.first[kind]
    limits = np.zeros((0, 0), np.int64)
    return Jobs(executors, size, prefers, duration, patience, like, means.price, limits), ahead


@njit(allocates=True)
def _held(last: FloatArray, now: float) -> FloatArray:
    """For how long each VM is held, rounded as in `agents.estimates`."""
    held, longest = np.empty(len(last)), 0.0
    for vm in range(len(last)):
        held[vm] = max(last[vm] - now, 0.0)
        longest = max(longest, held[vm])
    if longest > 0.0:
        step = 2.0 ** (math.frexp(longest)[1] - TIME_BITS)
        for vm in range(len(last)):
            held[vm] = np.rint(held[vm] / step) * step
    return held


@njit(allocates=True)
def _soon(batch: Batch, spared: Spared, ends: FloatArray, now: float, ahead: float, most: int) -> Ends:
    """The executors whose jobs are believed to end within so many seconds, in that order.

    Of so many jobs, and of those that end at the same moment, if more do: seldom more than a few matter.
    """
    state, jobs, heap = batch.state, batch.jobs, batch.state.heap
    last, told = now + ahead, np.inf
    if len(ends) > most:
        nth = np.partition(ends, most)[most]
        if nth < last:
            last, told = nth, max(nth - now, LEAST)
    soon = np.flatnonzero(ends <= last)
    left = np.empty(len(soon))
    executors = 0
    for i in range(len(soon)):
        left[i] = max(ends[soon[i]] - now, LEAST)
        executors += jobs.executors[0, heap[0, soon[i]]]
    at, vm = np.empty(executors), np.empty(executors, np.int64)
    size = np.empty((2, executors), np.int64)
    number = 0
    for i in np.argsort(left):  # those that end at once may stand in any order
        job = heap[0, soon[i]]
        first = jobs.first[0, job]
        for place in range(first, first + jobs.executors[0, job]):
            at[number], vm[number] = left[i], state.placement[0, place]
            size[0, number] = jobs.milli_cpus[0, job] - spared.milli_cpus[place]
            size[1, number] = jobs.memory_mib[0, job] - spared.memory_mib[place]
            number += 1
    return Ends(at, vm, size, told)


@njit(inline=True)
def _expected_end(now: float, started: float, seconds: float, spread: float) -> float:
    """`environment.belief.expected_end`."""
    passed = now - started
    if passed <= 0.0 or (spread <= 0.0 and seconds > passed):
        return started + seconds
    if seconds <= 0.0:
        return now
    sigma = spread if spread > 0.0 else MEASURED_SPREAD
    z = math.log(passed / seconds) / sigma + sigma / 2.0
    if z < EARLY:
        return started + seconds
    if z > LATE:
        return now + passed * sigma / (z - sigma) if z > sigma else now
    beyond = math.erfc((z - sigma) / math.sqrt(2.0)) / math.erfc(z / math.sqrt(2.0))
    return max(started + seconds * beyond, now)
