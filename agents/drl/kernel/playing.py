"""Episodes played by a network: see, choose, step, write down. What is seen and done is the environment's."""

from typing import NamedTuple

import numpy as np

from agents.drl.kernel.forward import Scratch, score
from agents.drl.kernel.objective import Objective, place_towards, wait_towards
from agents.drl.network import Network
from environment.compiled import njit
from environment.kernel.chance import uniform
from environment.kernel.observation import has_room, observe, write_mask
from environment.kernel.rules import bring_forward, put_back, step_episode
from environment.kernel.state import RUNNING, Batch, BoolArray, Float32Array, Layout, SmallIntArray
from environment.types import FloatArray, IntArray


class Play(NamedTuple):
    """How to choose, and what is rewarded."""

    #: Whether actions against the rules are masked; without it, one ends the episode.
    masked: bool = True
    #: Actions are drawn by probabilities exp(score / temperature); at 0, the best is taken.
    temperature: float = 0.0
    #: How often any action is taken instead, all equally likely.
    epsilon: float = 0.0
    #: How often in a row to pass over the oldest job although it fits; only when masked.
    wait_limit: int = 1 << 30
    #: How many jobs of the queue are looked at, one after the other: where one is passed over (action 0), the
    #: next is the head, and time passes when all were. With 1, first come, first served.
    considered: int = 1
    #: How often the oldest job of the queue is overtaken; then none is looked at before it is placed.
    overtaken_at_most: int = 0
    #: What is rewarded: the rewards of Islam 2022, Table 3, or the objective, job by job.
    paper_rewards: bool = False
    objective: Objective = Objective(0.0, 0.0, 0.0)
    #: What a later reward counts: after each job, or after each step.
    gamma: float = 1.0
    per_job: bool = True


class Cursor(NamedTuple):
    """Where the chance and the patience of each episode are; int64 [B]."""

    seed: IntArray
    drawn: IntArray  # random numbers so far
    waited: IntArray  # how often the oldest job was passed over although it fits
    passed: IntArray  # how many jobs of the queue stand behind the head though they are older
    overtaken: IntArray  # how often the oldest job was overtaken


class Record(NamedTuple):
    """What was played: S steps at most, of which `length` count in each row; what is behind them is old.

    Step t of row b begins with `observations[b, t]` and ends with `observations[b, t + 1]`; where the episode
    is over, only waiting is allowed by the mask, for those who need something to be allowed.
    """

    length: IntArray  # [B]
    observations: Float32Array  # [B, S + 1, L]
    masks: BoolArray  # [B, S + 1, N + 1]
    actions: SmallIntArray  # [B, S]
    rewards: Float32Array  # [B, S]
    discounts: Float32Array  # [B, S] of what comes after the step; 0 when the episode is over
    heads: SmallIntArray  # [B, S] the job that is decided about, by number


class Workspace(NamedTuple):
    """Arrays of one thread to work in."""

    scratch: Scratch
    scores: Float32Array  # [N + 1]
    before: FloatArray  # [N]


@njit()
def play(
    batch: Batch,
    rows: tuple[int, int],
    layout: Layout,
    network: Network,
    how: Play,
    cursor: Cursor,
    record: Record,
    space: Workspace,
) -> None:
    """Play each episode from the first row to before the second, until it is over or the record is full.

    `layout` is of what is seen. A record of no steps is never full: the steps are counted there, and no more.
    """
    most = record.actions.shape[1]
    for b in range(rows[0], rows[1]):
        record.length[b] = 0
        while batch.state.over[b] == RUNNING and (most == 0 or record.length[b] < most):
            turn(batch, b, layout, network, how, cursor, record, space)
        at = record.length[b] if most > 0 else 0
        observe(batch, b, layout, record.observations[b, at])
        _write_mask(batch, b, how, cursor, record.masks[b, at])


@njit()
def turn(
    batch: Batch,
    b: int,
    layout: Layout,
    network: Network,
    how: Play,
    cursor: Cursor,
    record: Record,
    space: Workspace,
) -> float:
    """See, choose, step and write that down, in an episode that is not over; returns the reward."""
    at = record.length[b] if record.actions.shape[1] > 0 else 0
    observe(batch, b, layout, record.observations[b, at])
    fits = _write_mask(batch, b, how, cursor, record.masks[b, at])
    action = _choose(network, b, at, how, cursor, record, space)
    if action == 0 and fits and cursor.passed[b] == 0:
        cursor.waited[b] += 1
    return _step(batch, b, at, action, how, cursor, record, space)


@njit()
def _step(
    batch: Batch,
    b: int,
    at: int,
    action: int,
    how: Play,
    cursor: Cursor,
    record: Record,
    space: Workspace,
) -> float:
    """Take the action, and write it down as step `at`; returns the reward."""
    state, head = batch.state, batch.state.head[b]
    record.length[b] += 1
    if how.paper_rewards:
        reward = step_episode(batch, b, action)
    elif action == 0:
        reward = _pass_over(batch, b, how, cursor)
    else:
        reward = place_towards(batch, b, action, how.objective, space.before)
    if state.head[b] != head:
        _count_as_placed(b, cursor)
    if record.actions.shape[1] == 0:
        return float(reward)
    record.actions[b, at], record.heads[b, at], record.rewards[b, at] = action, head, reward
    if state.over[b] != RUNNING:
        record.discounts[b, at] = 0.0
    else:
        record.discounts[b, at] = 1.0 if how.per_job and state.head[b] == head else how.gamma
    return float(reward)


@njit()
def _pass_over(batch: Batch, b: int, how: Play, cursor: Cursor) -> float:
    """Show the next job of the queue that fits; or let time pass, and show the oldest again."""
    state, jobs, oldest = batch.state, batch.jobs, batch.state.head[b]
    put_back(batch, b, oldest + cursor.passed[b])
    if cursor.overtaken[b] < how.overtaken_at_most:
        end = min(oldest + how.considered, jobs.jobs[b])
        for job in range(oldest + cursor.passed[b] + 1, end):
            if jobs.arrival[b, job] > state.clock[b]:
                break
            bring_forward(batch, b, job)
            if has_room(batch, b):
                cursor.passed[b] = job - oldest
                return 0.0
            put_back(batch, b, job)
    cursor.passed[b] = 0
    return wait_towards(batch, b, how.considered > 1, how.objective)


@njit()
def _count_as_placed(b: int, cursor: Cursor) -> None:
    """The head, or one that had overtaken it, was placed."""
    if cursor.passed[b] > 0:
        cursor.overtaken[b] += 1
        cursor.passed[b] = 0
    else:
        cursor.overtaken[b], cursor.waited[b] = 0, 0


@njit()
def _write_mask(batch: Batch, b: int, how: Play, cursor: Cursor, mask: BoolArray) -> bool:
    """Write what may be chosen, and return whether the head may be placed."""
    if batch.state.over[b] != RUNNING:
        mask[:] = False
        mask[0] = True
        return False
    if not how.masked:
        mask[:] = True
        return True
    write_mask(batch, b, True, mask)
    fits = False
    for action in range(1, len(mask)):
        fits = fits or mask[action]
    if fits and cursor.passed[b] == 0 and cursor.waited[b] >= how.wait_limit:
        mask[0] = False
    return fits


@njit()
def _choose(
    network: Network, b: int, at: int, how: Play, cursor: Cursor, record: Record, space: Workspace
) -> int:
    """An action that the mask allows; the network is not asked when there is but one."""
    seen, mask = record.observations[b, at], record.masks[b, at]
    allowed, only = 0, 0
    for action in range(len(mask)):
        if mask[action]:
            allowed, only = allowed + 1, action
    if allowed <= 1:
        return only
    if how.epsilon > 0.0 and _draw(cursor, b) < how.epsilon:
        return _nth(mask, int(_draw(cursor, b) * allowed))
    score(network, seen, space.scratch, space.scores)
    best = best_of(space.scores, mask)
    if how.temperature <= 0.0:
        return best
    return _sample(space.scores, mask, space.scores[best], how.temperature, _draw(cursor, b))


@njit()
def best_of(scores: Float32Array, mask: BoolArray) -> int:
    """The best action that the mask allows, the first of several; 0 when it allows none."""
    best, found = 0, False
    for action in range(len(mask)):
        if mask[action] and (not found or scores[action] > scores[best]):
            best, found = action, True
    return best


@njit()
def _sample(scores: Float32Array, mask: BoolArray, top: float, temperature: float, share: float) -> int:
    """The action at which the sum of probabilities reaches `share`, 0 to 1; changes the scores."""
    total, chosen = 0.0, 0
    for action in range(len(mask)):
        if mask[action]:
            scores[action] = np.exp((scores[action] - top) / temperature)
            total += scores[action]
    reached = 0.0
    for action in range(len(mask)):
        if mask[action]:
            chosen = action
            reached += scores[action]
            if reached > share * total:
                break
    return chosen


@njit()
def _nth(mask: BoolArray, number: int) -> int:
    """The action of that number, from 0, among those that the mask allows."""
    for action in range(len(mask)):
        if mask[action]:
            if number == 0:
                return action
            number -= 1
    return 0


@njit()
def _draw(cursor: Cursor, b: int) -> float:
    cursor.drawn[b] += 1
    return uniform(cursor.seed[b], cursor.drawn[b])
