"""Candidates for a queue, each played forward by the kernel's rules: the compiled part of lookahead.

Row 0 of the batch is the situation as it is. Row 1 plays a candidate: a plan for all jobs of the queue (see
`plans.py`), placed one after the other in the plan's order. The first step of the best plan is decided; the
next search begins with the rest of it. `situation.py` sets up row 0, `proposals.py` proposes VMs for
executors, and `lookahead_policy.py` turns the best candidate into a decision.
"""

import math

import numpy as np

from agents.lookahead.plans import (
    BASE,
    BELIEVED,
    NEAR_ILP,
    NOBODY,
    NOTHING,
    ORDER,
    PLAN,
    PlanAim,
    Search,
    copy_plan,
    vary,
)
from agents.lookahead.proposals import propose
from environment.kernel import completion_heap, rules
from environment.kernel.compiled import njit
from environment.kernel.leases import KEEP, seconds_of
from environment.kernel.state import NUMBERS, REALS, Batch
from environment.types import FloatArray

#: The rest of VMs when the last job has been placed is paid by the jobs there in part only: this share of it
#: is paid as far as they use it, since jobs that are not known yet will use the rest. Chosen: of 0, 0.3, 0.6,
#: 0.8 and 1, it gave the least cost on the paper's workloads.
_SHARED = 0.3
#: A candidate is surely worse than another when it is so by that many standard errors. Chosen.
_SURE = 2.0


@njit(entry=True)
def search(batch: Batch, aim: PlanAim, found: Search, first: int, last: int) -> None:
    """Play the candidates from number `first` to before `last`; call with ascending ranges from 0 on."""
    jobs = batch.jobs.jobs[0] - batch.state.head[0]
    best = np.inf
    for c in range(first):
        best = min(best, found.values[c])
    for c in range(first, last):
        vary(aim, found, c, jobs)
        found.firsts[c] = NOBODY
        found.values[c] = _value_over_draws(batch, aim, found, c, jobs, best)
        if found.values[c] < best:
            best = found.values[c]
            copy_plan(found.trial, found.best, jobs)
            for i in range(len(found.trial_values)):
                found.best_values[i] = found.trial_values[i]


@njit()
def _value_over_draws(batch: Batch, aim: PlanAim, found: Search, c: int, jobs: int, best: float) -> float:
    """Play the candidate on the beliefs and on all samples; return the mean of its values, or NOTHING.

    Its first step is the same in all. It is played on no more samples once it is surely worse than the
    best so far: then the samples played determine its value.
    """
    total, gap, squares, draws = 0.0, 0.0, 0.0, len(found.factors)
    for draw in range(BELIEVED, draws):
        _begin(batch, found, jobs, draw)
        could_wait = found.trial[ORDER, -1] == 0 or _wait(batch, aim)
        if draw == BELIEVED and not could_wait:
            return NOTHING
        play(batch, aim, found, c, draw)
        if draw == BELIEVED:
            if found.firsts[c] > aim.reach or (found.firsts[c] == NOBODY and not aim.may_wait):
                return NOTHING
            copy_plan(found.trial, found.kept, jobs)
        else:
            copy_plan(found.kept, found.trial, jobs)
        at, played = draw - BELIEVED, 1 + draw - BELIEVED
        found.trial_values[at] = value(batch, aim)
        total += found.trial_values[at]
        if math.isinf(best):
            continue  # there is nothing yet that it would be worse than
        gap += found.trial_values[at] - found.best_values[at]
        squares += (found.trial_values[at] - found.best_values[at]) ** 2
        noise = _SURE * _SURE * (squares - gap * gap / played)
        if aim.fewest <= played <= draws and gap > 0.0 and gap * gap > noise:
            return float(best + gap / played)
    return float(total / (1 + draws))


@njit(entry=True)
def replay(batch: Batch, aim: PlanAim, found: Search) -> None:
    """Play the best plan in row 1 once more, to find the VMs and times of its jobs."""
    # Numbers that are not constants, or the called function would be compiled once more, for these.
    jobs = batch.jobs.jobs[0] - batch.state.head[0]
    copy_plan(found.best, found.trial, jobs)
    _begin(batch, found, jobs, int(np.int64(BELIEVED)))
    if found.trial[ORDER, -1]:
        _wait(batch, aim)
    play(batch, aim, found, int(np.int64(PLAN)), int(np.int64(BELIEVED)))


@njit(entry=True)
def score(batch: Batch, aim: PlanAim, found: Search, scores: FloatArray) -> None:
    """The base policy's score of each job of the queue [M], were it placed now; infinite without room."""
    head, jobs = batch.state.head[0], batch.jobs.jobs[0] - batch.state.head[0]
    vary(aim, found, BASE, jobs)
    _begin(batch, found, jobs, int(np.int64(BELIEVED)))
    for job in range(jobs):
        scores[job] = propose(batch, aim, found, head + job, job)


@njit()
def _begin(batch: Batch, found: Search, jobs: int, draw: int) -> None:
    """Copy the situation to row 1, with sample `draw` of the durations; order the queue as the trial."""
    copy(batch)
    if len(found.factors) > 0:
        _draw_ends(batch, found, draw)
    _line_up(batch, found, jobs, draw)


@njit()
def _line_up(batch: Batch, found: Search, jobs: int, draw: int) -> None:
    """Copy the jobs of the queue to row 1 in the order of the trial."""
    head, all_jobs = batch.state.head[0], batch.jobs
    for reals in all_jobs[REALS]:
        for i in range(jobs):
            reals[1, head + i] = reals[0, head + found.trial[ORDER, i]]
    for numbers in all_jobs[NUMBERS]:
        for i in range(jobs):
            numbers[1, head + i] = numbers[0, head + found.trial[ORDER, i]]
    if draw != BELIEVED:
        for i in range(jobs):
            all_jobs.duration[1, head + i] *= found.factors[draw, found.trial[ORDER, i]]
    at = all_jobs.first[0, head]
    for job in range(head, head + jobs):
        all_jobs.first[1, job] = at
        at += all_jobs.executors[1, job]
    batch.state.left[1] = all_jobs.executors[1, head]


@njit()
def _wait(batch: Batch, aim: PlanAim) -> bool:
    """Move the clock of row 1 to the next end of a job; False when there is none to wait for."""
    if batch.state.running[1] == 0 or not aim.may_wait:
        return False
    rules.advance(batch, 1, completion_heap.next_completion(batch, 1))
    return True


@njit()
def copy(batch: Batch) -> None:
    """Copy row 0 to row 1."""
    state = batch.state
    for vm in range(state.held.shape[1]):
        state.free_milli_cpus[1, vm] = state.free_milli_cpus[0, vm]
        state.free_memory_mib[1, vm] = state.free_memory_mib[0, vm]
        state.held[1, vm] = state.held[0, vm]
        state.since[1, vm] = state.since[0, vm]
        state.used[1, vm] = state.used[0, vm]
        state.busy_until[1, vm] = state.busy_until[0, vm]
        state.user[1, vm] = 0
    leases = batch.machines.leases
    for vm in range(leases.shape[1]):
        for column in range(leases.shape[2]):
            leases[1, vm, column] = leases[0, vm, column]
    for at in range(state.running[0]):
        state.heap[1, at] = state.heap[0, at]
    state.clock[1] = state.clock[0]
    state.head[1] = state.head[0]
    state.left[1] = state.left[0]
    state.running[1] = state.running[0]


@njit()
def _draw_ends(batch: Batch, found: Search, draw: int) -> None:
    """Set the ends of running jobs in row 1 to those of the sample, or to the believed ones."""
    state, jobs = batch.state, batch.jobs
    for job in range(state.running[0]):
        state.end[1, job] = state.end[0, job] if draw == BELIEVED else found.ends[draw, job]
    if draw == BELIEVED:
        return
    for vm in range(state.held.shape[1]):
        state.busy_until[1, vm] = 0.0
    for job in range(state.running[0]):
        for i in range(jobs.first[0, job], jobs.first[0, job] + jobs.executors[0, job]):
            vm = state.placement[0, i]
            state.busy_until[1, vm] = max(state.busy_until[1, vm], state.end[1, job])
    completion_heap.reorder_ends(batch, 1)


@njit()
def play(batch: Batch, aim: PlanAim, found: Search, c: int, draw: int) -> None:
    """Place the rest of the queue in row 1; wait only for room.

    The first job in the order of `found.trial` that fits is placed, by its genes. For the first candidates it
    is the job with the best placement, or only the next in turn where the base policy considers no other.
    Then `found.trial` has the order in which they were placed.

    The placement of its first job, if it starts at once, is recorded, since it may be decided. In a sample it
    is placed there again, since durations are unknown at the decision. There is one call of `propose` in all:
    with a second one it is not inlined, and everything takes four times as long.
    """
    state, jobs = batch.state, batch.jobs
    order = found.trial[ORDER]
    at_once, begin = order[-1] == 0, 0
    if draw != BELIEVED and at_once and found.firsts[c] != NOBODY:
        rules.place_job(batch, 1, found.placements[c, : state.left[1]])
        at_once = False
    best_first, in_turn = c < PLAN and aim.base == NEAR_ILP, c < PLAN and aim.base != NEAR_ILP
    while state.head[1] < jobs.jobs[1]:
        head, best, chosen = state.head[1], np.inf, -1
        first = head - state.head[0]
        for at in range(begin, 1 if in_turn else jobs.jobs[1] - head):
            job = order[first + at]
            if at_once and job > aim.reach:
                continue
            score = propose(batch, aim, found, head + at, job)
            if score < best:
                best, chosen = score, at
                for i in range(jobs.executors[1, head + at]):
                    found.chosen[i] = found.placement[i]
                if not best_first:
                    break
        if chosen >= 0:
            begin = 0 if best_first or in_turn else chosen
            _bring_forward(batch, found, chosen)
            count = state.left[1]
            if at_once:
                found.firsts[c] = order[first]
                for i in range(count):
                    found.placements[c, i] = found.chosen[i]
                at_once = False
            rules.place_job(batch, 1, found.chosen[:count])
        elif state.running[1] > 0:
            at_once, begin = False, 0
            rules.advance(batch, 1, completion_heap.next_completion(batch, 1))
        else:
            _leave_out(batch)
            begin = 0


@njit()
def _bring_forward(batch: Batch, found: Search, at: int) -> None:
    """Move a job of row 1 forward to the head."""
    if at > 0:
        order, first = found.trial[ORDER], batch.state.head[1] - batch.state.head[0]
        moved = order[first + at]
        for i in range(first + at, first, -1):
            order[i] = order[i - 1]
        order[first] = moved
        rules.bring_forward(batch, 1, batch.state.head[1] + at)


@njit()
def _leave_out(batch: Batch) -> None:
    """Drop the head of row 1, which fits nowhere, whether or not others end: treat it as over."""
    state, head = batch.state, batch.state.head[1]
    state.start[1, head] = state.end[1, head] = state.clock[1]
    state.head[1] = head + 1
    state.left[1] = batch.jobs.executors[1, head + 1] if head + 1 < batch.jobs.jobs[1] else 0


@njit()
def value(batch: Batch, aim: PlanAim) -> float:
    """Cost and time of the jobs played in row 1, weighed by the aim.

    Cost is the cost of all VMs from now on, as a multiple of the price of the jobs' cores at the average
    price. Time is the time until the jobs' ends and their running time, both summed over jobs, as a multiple
    of their running time when placed well.
    """
    state, jobs = batch.state, batch.jobs
    time, cores, shortest = 0.0, 0.0, 0.0
    for job in range(state.head[0], state.head[1]):
        time += 2.0 * state.end[1, job] - state.start[1, job]
    for job in range(state.head[0], jobs.jobs[0]):
        cores += jobs.duration[0, job] * jobs.executors[0, job] * jobs.milli_cpus[0, job] / 1000.0
        shortest += jobs.duration[0, job]
    return aim.cost_weight * _cost(batch) / (cores * aim.price_per_core) + aim.time_weight * time / shortest


@njit()
def _cost(batch: Batch) -> float:
    """Cost of VMs in row 1, dollars per hour x seconds; _SHARED applies to work beyond the clock.

    VMs of pools cost their charges from now on; VMs that are always there beside them cost nothing.
    """
    state, jobs, machines, cost = batch.state, batch.jobs, batch.machines, 0.0
    elastic = machines.leases.shape[1] > 0
    for vm in range(state.held.shape[1]):
        if elastic and math.isinf(machines.leases[1, vm, KEEP]):
            continue
        seconds = seconds_of(batch, 1, vm, math.inf)[2] if elastic else state.used[1, vm]
        if state.held[1, vm] > 0:
            tail = state.busy_until[1, vm] - state.clock[1]
            seconds += (1.0 - _SHARED) * tail
            if not elastic:
                seconds += state.clock[1] - state.since[1, vm]
        cost += machines.price_per_hour[0, vm] * seconds
    for at in range(state.running[1]):
        job = state.heap[1, at]
        cpus, memory = jobs.milli_cpus[1, job], jobs.memory_mib[1, job]
        tail = state.end[1, job] - state.clock[1]
        for i in range(jobs.first[1, job], jobs.first[1, job] + jobs.executors[1, job]):
            vm = state.placement[1, i]
            if elastic and math.isinf(machines.leases[1, vm, KEEP]):
                continue
            share = max(cpus / machines.milli_cpus[0, vm], memory / machines.memory_mib[0, vm])
            cost += machines.price_per_hour[0, vm] * _SHARED * tail * share
    return cost
