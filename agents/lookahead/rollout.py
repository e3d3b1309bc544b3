"""Candidates for the head of a queue, each played forward on the kernel's rules: what lookahead compiles.

Row 0 of the batch is the situation as it is, row 1 is where a candidate is played: a plan for all jobs of the
queue, first come first served, that varies what a base policy would do. What comes of the head in the best of
them is decided; the rest of it is where the next search begins. Row 0 is set up in `situation.py`, and what
becomes of the best candidate is said in `policy.py`. All compiled functions stand in this one file, since
numba would not see that a function in another file of this folder has changed.
"""

from typing import NamedTuple

import numpy as np

from environment.compiled import njit
from environment.kernel import rules
from environment.kernel.state import ANYWHERE, CONSOLIDATE, FIXED, SPREAD, Batch, SmallIntArray
from environment.types import FloatArray, IntArray

#: Base policies: near to the integer program of `agents.baselines.ilp`, first fit, adaptive placement.
NEAR_ILP, FIRST_FIT, ADAPTIVE = 0, 1, 2
#: Forms of a placement: whichever is best, every executor on another VM, all on one, on few.
FREE, APART, TOGETHER, PACKED = 0, 1, 2, 3
#: The first candidates: what the base policy would do, waiting first, the plan of an earlier decision, and
#: that after waiting. The others are variations of the best so far: GRID of them of the head alone, in
#: every form at every level of noise, then of any job.
BASE, WAIT, PLAN, PLAN_WAIT = 0, 1, 2, 3
FIRST_VARIATION, GRID = 4, 24
#: Value of a candidate that cannot be.
NOTHING = np.inf

#: The near integer program counts cost for this share of what it counts for in the aim. Chosen: the jobs to
#: come fare better when it seldom places them badly.
_BASE_SHARE = 0.25
#: What remains of VMs when the last job has been placed is paid by the jobs there in part only: this share of
#: it is paid as far as they use it, since jobs that nobody knows yet will use the rest. Chosen: of 0, 0.3,
#: 0.6, 0.8 and 1, it gave the least cost on the paper's workloads.
_SHARED = 0.3
#: Levels of noise: none, then this and its doubles, in prices of the dearest VM. Chosen: from less than what
#: tells VMs apart to more than any VM costs.
_LEAST_NOISE, _LEVELS = 0.02, 8
_TWO_TO_53 = 9007199254740992.0


class Aim(NamedTuple):
    """What is sought, and by which base policy the jobs behind the head are placed."""

    #: How much cost and time count, each as a multiple of what is usual for the jobs.
    cost_weight: float
    time_weight: float
    #: Dollars per hour of a core, on average.
    price_per_core: float
    #: Dollars per hour of the dearest VM.
    dearest: float
    base: int
    #: Whether the head may be held back.
    may_wait: bool
    seed: int


class Search(NamedTuple):
    """What is found, by candidate, and arrays to work in, whose contents mean nothing between calls.

    A plan has a gene for each job of the queue: how the base policy's choice for it is varied. Its lowest
    two bits are the form, the next three the level of noise, all of it seeds the noise; 0 varies nothing.
    """

    values: FloatArray  # [C] the aim's value, the less the better; NOTHING
    waits: IntArray  # [C] whether it begins with a wait
    placements: SmallIntArray  # [C, E] VM of each executor of the head
    plan: IntArray  # [M] genes of the plan of an earlier decision
    best: IntArray  # [M + 1] genes of the best so far; the last one tells whether it begins with a wait
    trial: IntArray  # [M + 1] genes of a candidate
    room: IntArray  # [N] executors that fit
    left: IntArray  # [N] the same, beside those placed
    short: FloatArray  # [N] what each VM costs a job that takes its shortest time
    long: FloatArray  # [N] the same for one that takes its longest
    placement: SmallIntArray  # [E]
    other: SmallIntArray  # [E]


@njit()
def search(batch: Batch, aim: Aim, found: Search, first: int, last: int) -> None:
    """Play the candidates from number `first` to before `last`; call with ascending ranges from 0 on."""
    jobs = batch.jobs.jobs[0] - batch.state.head[0]
    best = np.inf
    for c in range(first):
        best = min(best, found.values[c])
    for c in range(first, last):
        _vary(aim, found, c, jobs)
        found.waits[c] = found.trial[-1]
        found.values[c] = NOTHING
        copy(batch)
        if found.trial[-1] and not _wait(batch, aim):
            continue
        if not found.trial[-1]:
            _place_head(batch, aim, found, c)
        play(batch, aim, found)
        found.values[c] = value(batch, aim)
        if found.values[c] < best:
            best = found.values[c]
            for i in range(len(found.trial)):
                found.best[i] = found.trial[i]


@njit()
def _vary(aim: Aim, found: Search, c: int, jobs: int) -> None:
    """Write the genes of candidate `c` into `found.trial`."""
    for i in range(jobs):
        if c < FIRST_VARIATION:
            found.trial[i] = found.plan[i] if c >= PLAN else 0
        else:
            found.trial[i] = found.best[i]
    if c < FIRST_VARIATION:
        found.trial[-1] = c in (WAIT, PLAN_WAIT)
        return
    drawn = _mix(aim.seed + c)
    number = c - FIRST_VARIATION
    if number < GRID:
        found.trial[0] = (drawn >> 8 << 5) + (number // 3 % _LEVELS << 2) + APART + number % 3
        found.trial[-1] = 0
        return
    at = 0 if drawn % 3 == 0 else _mix(drawn) % jobs
    found.trial[at] = _mix(drawn + 1) >> 8
    found.trial[-1] = drawn % 4 == 1 if at == 0 else found.best[-1]


@njit()
def _wait(batch: Batch, aim: Aim) -> bool:
    """Move the clock of row 1 to the next end of a job; False when there is none to wait for."""
    if batch.state.running[1] == 0 or not aim.may_wait:
        return False
    rules.advance(batch, 1, rules.next_completion(batch, 1))
    return True


@njit()
def _place_head(batch: Batch, aim: Aim, found: Search, c: int) -> None:
    """Place the head of row 1, whose executors fit, by its gene, and keep where."""
    count = batch.state.left[1]
    _propose_by(batch, aim, found, found.trial[0])
    for i in range(count):
        found.placements[c, i] = found.placement[i]
    rules.place_job(batch, 1, found.placement[:count])


@njit()
def copy(batch: Batch) -> None:
    """Row 1 becomes what row 0 is."""
    state = batch.state
    for vm in range(state.held.shape[1]):
        state.free_milli_cpus[1, vm] = state.free_milli_cpus[0, vm]
        state.free_memory_mib[1, vm] = state.free_memory_mib[0, vm]
        state.held[1, vm] = state.held[0, vm]
        state.since[1, vm] = state.since[0, vm]
        state.used[1, vm] = state.used[0, vm]
        state.busy_until[1, vm] = state.busy_until[0, vm]
        state.user[1, vm] = 0
    for at in range(state.running[0]):
        state.heap[1, at] = state.heap[0, at]
    state.clock[1] = state.clock[0]
    state.head[1] = state.head[0]
    state.left[1] = state.left[0]
    state.running[1] = state.running[0]


@njit()
def play(batch: Batch, aim: Aim, found: Search) -> None:
    """Place what is left of the queue in row 1 by the genes of `found.trial`; wait only for room."""
    state, jobs = batch.state, batch.jobs
    while state.head[1] < jobs.jobs[1]:
        count = state.left[1]
        if _propose_by(batch, aim, found, found.trial[state.head[1] - state.head[0]]):
            rules.place_job(batch, 1, found.placement[:count])
        elif state.running[1] > 0:
            rules.advance(batch, 1, rules.next_completion(batch, 1))
        else:
            break  # it fits nowhere, whatever was done before


@njit()
def _propose_by(batch: Batch, aim: Aim, found: Search, gene: int) -> bool:
    level = gene >> 2 & _LEVELS - 1
    noise = _LEAST_NOISE * 2.0 ** (level - 1) if level > 0 else 0.0
    return propose(batch, aim, found, gene & 3, noise, gene)


@njit()
def value(batch: Batch, aim: Aim) -> float:
    """What the jobs played in row 1 cost and how long they take, as the aim weighs it.

    Cost is what all VMs cost from now on, as a multiple of the price of the jobs' cores at the average price.
    Time is that until the jobs' ends and that which they run, both summed up over jobs, as a multiple of
    what they would run when placed well.
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
    """What VMs cost in row 1, dollars per hour x seconds; for what is not over at the clock see _SHARED."""
    state, jobs, machines, cost = batch.state, batch.jobs, batch.machines, 0.0
    for vm in range(state.held.shape[1]):
        seconds = state.used[1, vm]
        if state.held[1, vm] > 0:
            tail = state.busy_until[1, vm] - state.clock[1]
            seconds += state.clock[1] - state.since[1, vm] + (1.0 - _SHARED) * tail
        cost += machines.price_per_hour[0, vm] * seconds
    for at in range(state.running[1]):
        job = state.heap[1, at]
        cpus, memory = jobs.milli_cpus[0, job], jobs.memory_mib[0, job]
        tail = state.end[1, job] - state.clock[1]
        for i in range(jobs.first[0, job], jobs.first[0, job] + jobs.executors[0, job]):
            vm = state.placement[1, i]
            share = max(cpus / machines.milli_cpus[0, vm], memory / machines.memory_mib[0, vm])
            cost += machines.price_per_hour[0, vm] * _SHARED * tail * share
    return cost


@njit()
def propose(batch: Batch, aim: Aim, found: Search, form: int, noise: float, seed: int) -> bool:
    """Place the head of row 1 in `found.placement`; False when there is no room.

    FREE is as the base policy would, another form as that form at the least cost, if there is room for it.
    With `noise`, VMs seem dearer than they are.
    """
    count = batch.state.left[1]
    if _look_at_vms(batch, aim, found, noise, seed) < count:
        return False
    if form == FREE and aim.base == FIRST_FIT:
        _first_fit(found, count)
        return True
    prefers = ANYWHERE if count == 1 else batch.jobs.prefers[1, batch.state.head[1]]
    if form == FREE and aim.base == ADAPTIVE:
        form = TOGETHER if prefers == CONSOLIDATE else APART
    best = np.inf
    for trial in range(APART, PACKED + 1):
        # The last one is always possible, so it stands in for a form that is not.
        if form in (FREE, trial) or (trial == PACKED and best == np.inf):
            score = _try_form(batch, aim, found, trial, prefers)
            if score < best:
                best = score
                for i in range(count):
                    found.placement[i] = found.other[i]
    return True


@njit()
def _try_form(batch: Batch, aim: Aim, found: Search, form: int, prefers: int) -> float:
    """The cheapest placement of that form in `found.other`, and its score; infinite when there is none."""
    jobs, head, count = batch.jobs, batch.state.head[1], batch.state.left[1]
    good = prefers == ANYWHERE or batch.rules.duration_model == FIXED
    good = good or (prefers == SPREAD and form == APART) or (prefers == CONSOLIDATE and form == TOGETHER)
    costs = found.short if good else found.long
    if form == APART:
        cost = _apart(found, costs, count)
    elif form == TOGETHER:
        cost = _together(found, costs, count)
    else:
        cost = _packed(found, costs, count)
    cores = jobs.duration[1, head] * count * jobs.milli_cpus[1, head] / 1000.0
    time = 1.0 if good else batch.rules.penalty
    weight = _BASE_SHARE * aim.cost_weight
    return float(weight * cost / (cores * aim.price_per_core) + (1.0 - weight) * time)


@njit()
def _look_at_vms(batch: Batch, aim: Aim, found: Search, noise: float, seed: int) -> int:
    """Fill in room and costs of all VMs for the head of row 1; return for how many executors there is room.

    A VM costs its price for the time for which the job would hold it longer than it is held anyway, and on
    top of that up to `noise` times what the dearest VM costs for the whole job.
    """
    state, jobs, prices, head = batch.state, batch.jobs, batch.machines.price_per_hour, batch.state.head[1]
    needed, cpus, memory = state.left[1], jobs.milli_cpus[1, head], jobs.memory_mib[1, head]
    shortest, total, extra = jobs.duration[1, head], 0, 0.0
    longest = shortest * batch.rules.penalty
    for vm in range(state.held.shape[1]):
        room = min(state.free_milli_cpus[1, vm] // cpus, state.free_memory_mib[1, vm] // memory)
        room = min(max(room, 0), needed)
        found.room[vm] = room
        total += room
        if room > 0:
            held = max(state.busy_until[1, vm] - state.clock[1], 0.0) if state.held[1, vm] > 0 else 0.0
            if noise > 0.0:
                extra = noise * aim.dearest * shortest * _uniform(seed, vm)
            found.short[vm] = prices[1, vm] * max(shortest - held, 0.0) + extra
            found.long[vm] = prices[1, vm] * max(longest - held, 0.0) + extra
    return int(total)


@njit()
def _copy_room(found: Search) -> None:
    for vm in range(len(found.room)):
        found.left[vm] = found.room[vm]


@njit()
def _first_fit(found: Search, count: int) -> None:
    placed = 0
    for vm in range(len(found.room)):
        takes = min(found.room[vm], count - placed)
        found.placement[placed : placed + takes] = vm
        placed += takes


@njit()
def _apart(found: Search, costs: FloatArray, count: int) -> float:
    """Each executor on another VM, the cheapest ones; returns the cost, infinite when VMs are too few."""
    total = 0.0
    _copy_room(found)
    for i in range(count):
        best = -1
        for vm in range(len(found.left)):
            if found.left[vm] > 0 and (best < 0 or costs[vm] < costs[best]):
                best = vm
        if best < 0:
            return np.inf
        found.other[i] = best
        total += costs[best]
        found.left[best] = 0
    return total


@njit()
def _together(found: Search, costs: FloatArray, count: int) -> float:
    """All executors on one VM, the cheapest; returns the cost, infinite when none holds them all."""
    best = -1
    for vm in range(len(found.room)):
        if found.room[vm] >= count and (best < 0 or costs[vm] < costs[best]):
            best = vm
    if best < 0:
        return np.inf
    found.other[:count] = best
    return float(costs[best])


@njit()
def _packed(found: Search, costs: FloatArray, count: int) -> float:
    """One VM after another, first the one that costs the least per executor; returns the cost."""
    total, placed = 0.0, 0
    _copy_room(found)
    while placed < count:
        best, best_cost, best_takes = -1, np.inf, 0
        for vm in range(len(found.left)):
            takes = min(found.left[vm], count - placed)
            if takes > 0 and (
                costs[vm] < best_cost * takes or (costs[vm] == best_cost * takes and takes > best_takes)
            ):
                best, best_cost, best_takes = vm, costs[vm] / takes, takes
        found.other[placed : placed + best_takes] = best
        total += costs[best]
        placed += best_takes
        found.left[best] = 0
    return total


@njit()
def _mix(number: int) -> int:
    """Scramble 63 bits (the finaliser of SplitMix64)."""
    x = np.uint64(number)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    x = x ^ (x >> np.uint64(31))
    return int(x >> np.uint64(1))


@njit()
def _uniform(seed: int, number: int) -> float:
    """A number within 0 and 1 that depends on nothing but the two."""
    return float((_mix(_mix(seed) + number) >> 10) / _TWO_TO_53)
