"""Plans for a queue as arrays, and mutations of one candidate into another. `rollout.py` plays them.

A plan determines the order in which the jobs of the queue are placed, and for each of them a variation of the
base policy's choice.
"""

from typing import NamedTuple

import numpy as np

from environment.kernel.compiled import njit
from environment.kernel.hash_random import mix
from environment.kernel.state import SmallIntArray
from environment.types import FloatArray, IntArray

#: Base policies: near to the integer program of `agents.baselines.ilp`, first fit, adaptive placement.
NEAR_ILP, FIRST_FIT, ADAPTIVE = 0, 1, 2
#: Forms of a placement: whichever is best, every executor on another VM, all on one, on few.
FREE, APART, TOGETHER, PACKED = 0, 1, 2, 3
#: The first candidates: the base policy's decision, first come first served; the same after a wait; the plan
#: of an earlier decision; that after a wait. The others are variations of the best so far: GRID of them of
#: the first job alone, in every form at every level of noise, then of any job and of the order.
BASE, WAIT, PLAN, PLAN_WAIT = 0, 1, 2, 3
FIRST_VARIATION, GRID = 4, 24
#: The two rows of a plan.
ORDER, GENE = 0, 1
#: In place of the job that a candidate places first: it waits.
NOBODY = -1
#: In place of the number of a draw: the beliefs about all jobs.
BELIEVED = -1
#: Value of a candidate that cannot be.
NOTHING = np.inf

#: How many variations of sixteen move a job, half of them to the front; half of them do nothing else. Chosen.
_MOVES = 10
#: Levels of noise: none, then this and its doubles, in prices of the dearest VM. Chosen: from less than the
#: differences between VMs to more than the price of any VM.
_LEAST_NOISE, LEVELS = 0.02, 8


class PlanAim(NamedTuple):
    """The objective, and the base policy that places the jobs behind the head."""

    #: Weights of cost and time, each as a multiple of the jobs' usual one.
    cost_weight: float
    time_weight: float
    #: Dollars per hour of a core, on average.
    price_per_core: float
    #: Dollars per hour of the dearest VM.
    dearest: float
    base: int
    #: Whether the head may be held back.
    may_wait: bool
    #: The last job of the queue that may be placed before those that stand before it.
    reach: int
    seed: int
    #: Number of draws that each candidate is played on at least.
    fewest: int


class Search(NamedTuple):
    """Results by candidate, and scratch arrays, which mean nothing between calls.

    A plan is two rows. ORDER has the jobs of the queue, by number, in the order in which they are placed, and
    in its last place whether the plan begins with a wait. GENE has a number for each job that encodes the
    variation of the base policy's choice for it: its lowest two bits are the form, the next three the level
    of noise, all of it seeds the noise; 0 varies nothing.
    """

    values: FloatArray  # [C] the aim's value, the less the better; NOTHING
    firsts: IntArray  # [C] which job of the queue it places first; NOBODY if it begins with a wait
    placements: SmallIntArray  # [C, E] VM of each executor of that job
    plan: IntArray  # [2, M + 1] the plan of an earlier decision
    best: IntArray  # [2, M + 1] the best so far
    trial: IntArray  # [2, M + 1] a candidate
    room: IntArray  # [N] executors that fit
    left: IntArray  # [N] the same, beside those placed
    short: FloatArray  # [N] cost of each VM for a job of its shortest duration
    long: FloatArray  # [N] the same for one that takes its longest
    placement: SmallIntArray  # [E]
    chosen: SmallIntArray  # [E]
    other: SmallIntArray  # [E]
    #: [M, N] the most executors of each job of the queue by their resources beside cpus and memory; [0, N] if
    #: none requests any. Held ones are assumed to stay held.
    most: IntArray
    trial_values: FloatArray  # [1 + K] values of a candidate on the beliefs, and by draw
    best_values: FloatArray  # [1 + K] the same of the best so far
    kept: IntArray  # [2, M + 1] a candidate, in the order in which it was played on the beliefs
    #: [K, R] ends of running executors, by draw; K is 0 if nothing is drawn.
    ends: FloatArray
    factors: FloatArray  # [K, M] duration of each job of the queue, by draw, as a multiple of its belief


def make_arrays(candidates: int, vms: int, executors: int, jobs: int) -> Search:
    """Arrays for a search, by the largest numbers of candidates, VMs, executors and jobs."""
    return Search(
        values=np.full(candidates, NOTHING),
        firsts=np.zeros(candidates, np.int64),
        placements=np.zeros((candidates, executors), np.int32),
        plan=np.zeros((2, jobs + 1), np.int64),
        best=np.zeros((2, jobs + 1), np.int64),
        trial=np.zeros((2, jobs + 1), np.int64),
        room=np.zeros(vms, np.int64),
        left=np.zeros(vms, np.int64),
        short=np.zeros(vms),
        long=np.zeros(vms),
        placement=np.zeros(executors, np.int32),
        chosen=np.zeros(executors, np.int32),
        other=np.zeros(executors, np.int32),
        most=np.zeros((0, vms), np.int64),
        trial_values=np.zeros(1),
        best_values=np.zeros(1),
        kept=np.zeros((2, jobs + 1), np.int64),
        ends=np.zeros((0, 0)),
        factors=np.zeros((0, 0)),
    )


@njit()
def vary(aim: PlanAim, found: Search, c: int, jobs: int) -> None:
    """Write the plan of candidate `c` for `jobs` jobs into `found.trial`."""
    trial, best = found.trial, found.best
    if c < FIRST_VARIATION:
        _begin_with(found, c, jobs)
        return
    for i in range(jobs):
        trial[ORDER, i] = best[ORDER, i]
        trial[GENE, i] = best[GENE, i]
    drawn, number = mix(aim.seed + c), c - FIRST_VARIATION
    if number < GRID:
        trial[GENE, trial[ORDER, 0]] = (drawn >> 8 << 5) + (number // 3 % LEVELS << 2) + APART + number % 3
        trial[ORDER, -1] = 0
        return
    trial[ORDER, -1] = best[ORDER, -1]
    if jobs > 1 and drawn % 16 < _MOVES:
        to = 0 if mix(drawn + 4) % 2 else mix(drawn + 3) % jobs
        _move(trial[ORDER], mix(drawn + 2) % jobs, to)
        if to == 0:
            trial[ORDER, -1] = 0
        if mix(drawn + 5) % 2:
            return
    at = 0 if drawn % 3 == 0 else mix(drawn) % jobs
    trial[GENE, trial[ORDER, at]] = mix(drawn + 1) >> 8
    if at == 0:
        trial[ORDER, -1] = drawn >> 4 & 3 == 1


@njit()
def copy_plan(plan: IntArray, other: IntArray, jobs: int) -> None:
    """Copy the plan for `jobs` jobs into `other`."""
    for i in range(jobs):
        other[ORDER, i] = plan[ORDER, i]
        other[GENE, i] = plan[GENE, i]
    other[ORDER, -1] = plan[ORDER, -1]


@njit()
def _begin_with(found: Search, c: int, jobs: int) -> None:
    """Copy one of the first candidates to the trial. The base policy's is the best until one is played."""
    trial, best = found.trial, found.best
    for i in range(jobs):
        trial[ORDER, i] = found.plan[ORDER, i] if c >= PLAN else i
        trial[GENE, i] = found.plan[GENE, i] if c >= PLAN else 0
        if c == BASE:
            best[ORDER, i] = i
            best[GENE, i] = 0
    trial[ORDER, -1] = c in (WAIT, PLAN_WAIT)


@njit()
def _move(values: IntArray, one: int, other: int) -> None:
    """Move the value at `one` to `other`; the values between move up."""
    moved, step = values[one], 1 if one < other else -1
    for at in range(one, other, step):
        values[at] = values[at + step]
    values[other] = moved


@njit()
def noise_of(gene: int) -> float:
    """Largest noise on prices of VMs, in prices of the dearest VM."""
    level = gene >> 2 & LEVELS - 1
    return _LEAST_NOISE * float(1 << level - 1) if level > 0 else 0.0
