"""The input of a learned policy at a moment of a simulation, built from the kernel's arrays.

`kernel.placing` evaluates the network on it; `playing.py` determines the moments.
"""

import math

import numpy as np

from agents.drl.kernel.placing import Draft, PlacingWorkspace, QueuedJobs, decide, gains_of
from agents.drl.network import Network
from agents.drl.play.arrays import NetworkBeliefs, NetworkLimits, NetworkState, Space
from environment.kernel.compiled import njit
from environment.kernel.durations import believed_end
from environment.kernel.scene import QUEUE_SEEN, Scene
from environment.kernel.state import NATURAL_STATE, Batch, Layout


@njit()
def ask(
    batch: Batch,
    made: int,
    waits: int,
    fit: int,
    alone: bool,
    believed: NetworkBeliefs,
    means: NetworkLimits,
    borne: NetworkState,
    layout: Layout,
    network: Network,
    desk: PlacingWorkspace,
    draft: Draft,
    space: Space,
) -> tuple[int, int]:
    """Return the best of the `fit` jobs in `space.numbers`, and its number of executors; 0: none.

    The job is to be placed now. With `alone`, the first must be placed.
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
        each = _seconds(believed, means, borne.counts.order[head + i])
        seconds += each
        longest = max(longest, each)
        work += each * (jobs.milli_cpus[0, head + i] * jobs.executors[0, head + i])
    _find_running(batch, made, space)
    for job in space.runs[: space.running[0]]:
        expects = means.waits.unknown if math.isnan(borne.expects[job]) else borne.expects[job]
        end = believed_end(now, state.start[0, job], expects, believed.jobs.spread[borne.counts.order[job]])
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
    batch: Batch,
    number: int,
    to: QueuedJobs,
    i: int,
    believed: NetworkBeliefs,
    means: NetworkLimits,
    borne: NetworkState,
) -> None:
    """Write the network's features of job `number` of the queue into row `i`."""
    jobs, at = batch.jobs, batch.state.head[0] + number
    which = borne.counts.order[at]
    to.number[i], to.type[i], to.prefers[i] = number, believed.type[which], believed.prefers[which]
    to.milli_cpus[i], to.memory_mib[i] = jobs.milli_cpus[0, at], jobs.memory_mib[0, at]
    to.executors[i] = to.left[i] = jobs.executors[0, at]
    to.arrival[i], to.seconds[i] = jobs.arrival[0, at], _seconds(believed, means, which)


@njit(inline=True)
def _first(jobs: QueuedJobs, count: int) -> QueuedJobs:
    """The first `count` jobs."""
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
def _seconds(believed: NetworkBeliefs, means: NetworkLimits, number: int) -> float:
    """Believed duration of a job when placed well."""
    expected = believed.jobs.expected[number]
    return means.waits.unknown if math.isnan(expected) else float(expected)
