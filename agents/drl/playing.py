"""Learned policies in compiled code: a simulation played as `learned_policy` decides, behind its guard.

What a network makes of a moment is `kernel.placing`'s, as ever; here moments are made of the kernel's arrays,
and what jobs bear is counted as `environment.patience` does. Jobs have two numbers: by arrival, and the
kernel's, which changes while they wait and others are placed before them. Decisions are told in `player.py`.
"""

import math

import numpy as np

from agents.drl.kernel.placing import Choices, Draft, PlacingWorkspace, QueuedJobs, decide, gains_of
from agents.drl.network import Network
from agents.drl.playing_arrays import GUARD, NETWORK, NOBODY, Believed, Borne, Means, Said, Space
from conf.assumptions import BAD_PLACEMENT_FACTOR
from environment.kernel.belief import expected_end
from environment.kernel.compiled import njit
from environment.kernel.durations import is_good
from environment.kernel.playing import (
    CPUS,
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
from environment.kernel.scene import QUEUE_SEEN, Scene
from environment.kernel.sized import Spared
from environment.kernel.state import NATURAL_STATE, Batch, BoolArray, Layout, SmallIntArray

#: What is lost of a time when it is computed, as `environment.patience` has it.
ROUNDED = 1e-6
_expected_end = njit()(expected_end)


@njit()
def play_learned(
    batch: Batch,
    spared: Spared,
    trace: Trace,
    until: int,
    believed: Believed,
    means: Means,
    borne: Borne,
    said: Said,
    layout: Layout,
    network: Network,
    desk: PlacingWorkspace,
    draft: Draft,
    space: Space,
) -> bool:
    """Decide until so many jobs are placed; False when the head waits and nothing will ever happen."""
    state, numbers = batch.state, space.numbers
    while state.head[0] < until:
        waits = waiting(batch, spared, 0, trace)
        oldest = borne.order[state.head[0]]
        if borne.oldest[0] != oldest:
            borne.oldest[0] = oldest
            borne.oldest[1] += 1
        made = note(batch, 0, trace, waits, oldest)
        _notice(batch, made, waits, means, believed, borne)
        said.oldest[made], said.by[made], said.begin[made] = oldest, NOBODY, said.counts[0]
        alone = borne.waits[oldest] >= means.wait_limit
        reach = waits
        if means.overtaken_at_most <= 0 or borne.overtaken[oldest] >= means.overtaken_at_most:
            reach = 1
        fit = 0
        for i in range(1 if alone and borne.fits[0] else min(reach, means.considered)):
            if borne.fits[i]:
                numbers[fit] = i
                fit += 1
        if borne.stands[0] >= 0 and borne.stands[1] == waits and borne.stands[2] == state.running[0]:
            said.by[made], said.begin[made] = NETWORK, said.begin[borne.stands[0]]  # who came was not let in
        elif fit > 0:
            job, executors = _ask(
                batch, made, waits, fit, alone, believed, means, borne, layout, network, desk, draft, space
            )
            said.by[made], said.fitted[made], said.held_back[made] = NETWORK, fit, borne.waits[oldest]
            _tell(draft.choices, max(executors, 1), said)
            if executors > 0:
                _place(batch, trace, believed, means, borne, said, space, made, job, draft.placed[:executors])
                continue
            if borne.fits[0]:
                borne.waits[oldest] += 1
            borne.stands[0], borne.stands[1], borne.stands[2] = made, waits, state.running[0]
        late = _late(batch, min(reach, waits, means.watched), means, believed, borne)
        if late >= 0:
            now, number = state.clock[0], borne.order[state.head[0] + late]
            said.by[made], said.waited[made] = GUARD, now - borne.since[number]
            said.idle[made] = _idle(batch)
            said.counts[1] += 1
            executors = _fit_best(batch, state.head[0] + late, space.used, draft.placed)
            _place(batch, trace, believed, means, borne, said, space, made, late, draft.placed[:executors])
            continue
        trace.lacks[made, ROOM] = room_for_head(batch, 0)
        trace.lacks[made, CPUS], trace.lacks[made, MEMORY] = lacking(batch, 0)
        if not wait_for_event(batch, spared, 0, trace):
            return False
    return True


@njit()
def _notice(batch: Batch, made: int, waits: int, means: Means, believed: Believed, borne: Borne) -> None:
    """See which of the first that wait fit now, and since when those do that the guard watches."""
    head, now = batch.state.head[0], batch.state.clock[0]
    for i in range(min(waits, len(borne.fits))):
        number = borne.order[head + i]
        kind = believed.kind[number]
        if borne.noted[kind] != made:
            borne.noted[kind], borne.fitting[kind] = made, _has_room(batch, head + i)
        borne.fits[i] = borne.fitting[kind]
        if i < means.watched:
            if not borne.fits[i]:
                borne.since[number] = np.nan
            elif math.isnan(borne.since[number]):
                borne.since[number] = now


@njit()
def _has_room(batch: Batch, job: int) -> bool:
    """Whether all executors of a job that waits fit now."""
    state, jobs, room = batch.state, batch.jobs, 0
    cpus, memory, count = jobs.milli_cpus[0, job], jobs.memory_mib[0, job], jobs.executors[0, job]
    for vm in range(batch.machines.milli_cpus.shape[1]):
        if state.free_milli_cpus[0, vm] >= cpus and state.free_memory_mib[0, vm] >= memory:
            room += min(state.free_milli_cpus[0, vm] // cpus, state.free_memory_mib[0, vm] // memory)
            if room >= count:
                return True
    return False


@njit()
def _ask(
    batch: Batch,
    made: int,
    waits: int,
    fit: int,
    alone: bool,
    believed: Believed,
    means: Means,
    borne: Borne,
    layout: Layout,
    network: Network,
    desk: PlacingWorkspace,
    draft: Draft,
    space: Space,
) -> tuple[int, int]:
    """Which of `space.numbers` in the queue is best placed now, and how many executors of it are; 0: none is.

    So many of them fit. With `alone`, the first must be placed.
    """
    state, jobs, machines = batch.state, batch.jobs, batch.machines
    now, running, head = state.clock[0], state.running[0], state.head[0]
    soonest, numbers = np.inf, space.numbers
    for vm in range(len(space.held)):
        space.busy_until[vm], space.held[vm] = now, state.held[0, vm]
        space.free_cpus[vm], space.free_memory[vm] = (
            state.free_milli_cpus[0, vm],
            state.free_memory_mib[0, vm],
        )
    seconds, work, longest = 0.0, 0.0, 0.0
    natural = layout.kind == NATURAL_STATE
    for i in range(min(waits, QUEUE_SEEN) if natural else 0):
        each = _seconds(believed, means, borne.order[head + i])
        seconds += each
        longest = max(longest, each)
        work += each * (jobs.milli_cpus[0, head + i] * jobs.executors[0, head + i])
    _find_running(batch, made, space)
    for job in space.runs[: space.running[0]]:
        expects = means.unknown if math.isnan(borne.expects[job]) else borne.expects[job]
        end = _expected_end(now, state.start[0, job], expects, believed.spread[borne.order[job]])
        soonest = min(soonest, end)
        seconds += expects
        for at in range(jobs.first[0, job], jobs.first[0, job] + jobs.executors[0, job]):
            vm = state.placement[0, at]
            space.busy_until[vm] = max(space.busy_until[vm], end)
    usual = seconds / max(min(waits, QUEUE_SEEN) + running, 1) if natural else 0.0
    if not natural:
        work = longest = 0.0
    for i in range(min(waits, layout.upcoming + 1)):
        _queued(batch, i, space.shown, i, believed, means, borne)
    for i in range(fit):
        _queued(batch, numbers[i], space.asked, i, believed, means, borne)
    shown, asked = _first(space.shown, min(waits, layout.upcoming + 1)), _first(space.asked, fit)
    best, next_end = 0, soonest if running > 0 else now
    for turn in range(2):  # about all of them, then about the best
        if turn == 1:
            for i in range(1, fit):
                if space.gains[i] > space.gains[best]:
                    best = i
        count = 0
        for i in range(len(shown.number) if turn == 1 else 0):
            if shown.number[i] != numbers[best] and count < layout.upcoming:
                desk.upcoming[0, count], desk.upcoming[1, count] = shown.type[i], shown.milli_cpus[i]
                desk.upcoming[2, count], desk.upcoming[3, count] = shown.memory_mib[i], shown.left[i]
                count += 1
        scene = Scene(
            milli_cpus=machines.milli_cpus[0],
            memory_mib=machines.memory_mib[0],
            price_per_hour=machines.price_per_hour[0],
            free_milli_cpus=space.free_cpus,
            free_memory_mib=space.free_memory,
            held=space.held,
            busy_until=space.busy_until,
            ready_at=space.ready_at,
            is_open=space.is_open,
            clock=now,
            waiting=waits,
            running=running,
            next_end=next_end,
            usual_seconds=usual,
            waiting_work=work,
            longest_seconds=longest,
            number=borne.oldest[1],
            type=asked.type[best],
            job_milli_cpus=asked.milli_cpus[best],
            job_memory_mib=asked.memory_mib[best],
            executors=asked.executors[best],
            left=asked.left[best],
            arrival=asked.arrival[best],
            seconds=asked.seconds[best],
            prefers=asked.prefers[best],
            untouched=turn >= 0,
            placed=draft.placed[:0],
            next_type=desk.upcoming[0, :count],
            next_milli_cpus=desk.upcoming[1, :count],
            next_memory_mib=desk.upcoming[2, :count],
            next_executors=desk.upcoming[3, :count],
        )
        if turn == 0:
            gains_of(scene, shown, asked, layout, network, desk, space.gains)
        else:
            may_wait = numbers[best] > 0 or not alone
            return numbers[best], decide(scene, layout, network, desk, draft, may_wait)
    return 0, 0


@njit()
def _find_running(batch: Batch, made: int, space: Space) -> None:
    """Bring `space.runs` up to date: sums over jobs have the same bits in the same order alone."""
    state, count = batch.state, 0
    for i in range(state.running[0]):
        space.seen[state.heap[0, i]] = made
    for i in range(space.running[0]):
        if space.seen[space.runs[i]] == made:
            space.runs[count] = space.runs[i]
            count += 1
    space.running[0] = count


@njit()
def _queued(
    batch: Batch, number: int, to: QueuedJobs, i: int, believed: Believed, means: Means, borne: Borne
) -> None:
    """Write down, as number `i`, what a network sees of the job of that number in the queue."""
    jobs, at = batch.jobs, batch.state.head[0] + number
    which = borne.order[at]
    to.number[i], to.type[i], to.prefers[i] = number, believed.type[which], believed.prefers[which]
    to.milli_cpus[i], to.memory_mib[i] = jobs.milli_cpus[0, at], jobs.memory_mib[0, at]
    to.executors[i] = to.left[i] = jobs.executors[0, at]
    to.arrival[i], to.seconds[i] = jobs.arrival[0, at], _seconds(believed, means, which)


@njit(inline=True)
def _first(jobs: QueuedJobs, count: int) -> QueuedJobs:
    """So many of them."""
    return QueuedJobs(
        jobs.number[:count],
        jobs.type[:count],
        jobs.milli_cpus[:count],
        jobs.memory_mib[:count],
        jobs.executors[:count],
        jobs.left[:count],
        jobs.arrival[:count],
        jobs.seconds[:count],
        jobs.prefers[:count],
    )


@njit(inline=True)
def _seconds(believed: Believed, means: Means, number: int) -> float:
    """What a job is believed to take when placed well."""
    expected = believed.expected[number]
    return means.unknown if math.isnan(expected) else float(expected)


@njit()
def _tell(made: Choices, count: int, said: Said) -> None:
    """Keep the first choices of a decision."""
    at, kept = said.counts[0], said.choices
    for i in range(count):
        kept.action[at + i], kept.score[at + i], kept.share[at + i] = (
            made.action[i],
            made.score[i],
            made.share[i],
        )
        kept.other[at + i], kept.other_score[at + i] = made.other[i], made.other_score[i]
        kept.other_share[at + i] = made.other_share[i]
    said.counts[0] = at + count


@njit()
def _late(batch: Batch, reach: int, means: Means, believed: Believed, borne: Borne) -> int:
    """The number in the queue of the first that has fitted for too long; -1 if none, or too busy."""
    if reach <= 0 or _idle(batch) < means.idle:
        return -1
    now, head = batch.state.clock[0], batch.state.head[0]
    for i in range(reach):
        number = borne.order[head + i]
        waited, most = now - borne.since[number], believed.patience[number]
        if waited > 0.0 and most < np.inf and most - waited - ROUNDED * most <= 0.0:  # NaN is neither
            return i
    return -1


@njit()
def _idle(batch: Batch) -> float:
    """Which share of the cluster's cpus nobody holds."""
    free, total = 0, 0
    for vm in range(batch.machines.milli_cpus.shape[1]):
        free += batch.state.free_milli_cpus[0, vm]
        total += batch.machines.milli_cpus[0, vm]
    return float(free) / float(total) if total > 0 else 0.0


@njit()
def _fit_best(batch: Batch, job: int, used: BoolArray, placed: SmallIntArray) -> int:
    """Where best fit puts a job that fits: `agents.baselines.scored.BestFit`; returns how many executors."""
    state, jobs, machines = batch.state, batch.jobs, batch.machines
    vms, count, done = machines.milli_cpus.shape[1], jobs.executors[0, job], 0
    cpus, memory = jobs.milli_cpus[0, job], jobs.memory_mib[0, job]
    most_cpus, most_memory = 0.0, 0.0
    for vm in range(vms):
        most_cpus = max(most_cpus, machines.milli_cpus[0, vm] / 1000.0)
        most_memory = max(most_memory, float(machines.memory_mib[0, vm]))
        used[vm] = False
    while done < count:
        best, least, room = -1, np.inf, 0
        for vm in range(vms):
            free_cpus, free_memory = state.free_milli_cpus[0, vm], state.free_memory_mib[0, vm]
            if used[vm] or free_cpus < cpus or free_memory < memory:
                continue
            left = (free_cpus / 1000.0 - cpus / 1000.0) / most_cpus
            left += (float(free_memory) - float(memory)) / most_memory
            if left < least:
                best, least, room = vm, left, min(free_cpus // cpus, free_memory // memory)
        if best < 0:
            break
        used[best] = True
        for _ in range(min(room, count - done)):
            placed[done] = best
            done += 1
    return done


@njit()
def _place(
    batch: Batch,
    trace: Trace,
    believed: Believed,
    means: Means,
    borne: Borne,
    said: Said,
    space: Space,
    made: int,
    job: int,
    placement: SmallIntArray,
) -> None:
    """Start the job of that number in the queue there."""
    state, jobs = batch.state, batch.jobs
    head = state.head[0]
    number = borne.order[head + job]
    if job > 0:
        bring_forward(batch, 0, head + job)
        for at in range(head + job, head, -1):
            borne.order[at] = borne.order[at - 1]
        borne.order[head] = number
        borne.overtaken[said.oldest[made]] += 1
    trace.job[made], said.passed[made] = number, job
    borne.stands[0] = -1
    used = 0
    for i in range(len(placement)):
        new = True
        for other in range(i):
            new = new and placement[other] != placement[i]
        used += new
        put_executor(batch, 0, placement[i])
    start_head(batch, 0)
    space.runs[space.running[0]] = head
    space.running[0] += 1
    if means.exact:
        borne.expects[head] = state.end[0, head] - state.start[0, head]
    elif is_good(jobs.prefers[0, head], jobs.executors[0, head], used):
        borne.expects[head] = believed.expected[number]
    else:
        borne.expects[head] = believed.expected[number] * BAD_PLACEMENT_FACTOR
