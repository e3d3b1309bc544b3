"""Plays episodes with a network. Each step observes, chooses an action, takes it and records it.

The head of the queue is the job that is decided about. With `Play.considered` above 1, several jobs can be
the head before time passes. They are ranked first: each is made the head for a moment, and its gain is how
much better the network scores its best VM than waiting. Then they become the head one after the other, the
largest gain first, until one is placed or all were passed over by action 0. Observations, masks and the rules
of an episode are in `environment.kernel`.
"""

from typing import NamedTuple

import numpy as np

from agents.drl.kernel.forward import Scratch, make_scratch, score
from agents.drl.kernel.objective import Objective, place_towards, wait_towards
from agents.drl.network import Network
from environment.kernel.compiled import njit
from environment.kernel.hash_random import uniform
from environment.kernel.observation import has_room, observation_length, observe, write_mask
from environment.kernel.rules import bring_forward, put_back, step_episode
from environment.kernel.state import RUNNING, Batch, BoolArray, Float32Array, Layout, SmallIntArray
from environment.types import FloatArray, IntArray


class Play(NamedTuple):
    """Rules for choosing actions, and the rewards."""

    #: Whether actions against the rules are masked; without it, one ends the episode.
    masked: bool = True
    #: Actions are drawn by probabilities exp(score / temperature); at 0, the best is taken.
    temperature: float = 0.0
    #: How often any action is taken instead, all equally likely.
    epsilon: float = 0.0
    #: How often time may pass although the oldest job fits, before it must be placed; only when masked.
    wait_limit: int = 1 << 30
    #: How many of the oldest jobs are considered before time passes; 1 is first come, first served.
    considered: int = 1
    #: How many jobs may be placed before the oldest one; after so many, it alone is considered.
    overtaken_at_most: int = 0
    #: Rewards are those of Islam 2022, Table 3; without it, those of `objective`.
    paper_rewards: bool = False
    objective: Objective = Objective(0.0, 0.0, 0.0)
    #: The discount of later rewards; it applies once a job (`per_job`), or once a step.
    gamma: float = 1.0
    per_job: bool = True


class Cursor(NamedTuple):
    """State carried between steps, for each of B episodes; int64 [B] but for the last two."""

    seed: IntArray
    drawn: IntArray  # how many random numbers were drawn from the seed
    waited: IntArray  # how often time passed although the oldest job fits
    passed: IntArray  # how many older jobs stand behind the head, since it was brought forward
    overtaken: IntArray  # how many jobs were placed before the oldest one
    to_show: IntArray  # how many jobs become the head before time passes; 0 before they are ranked
    shown: IntArray  # how many of these were passed over
    order: IntArray  # [B, K] their numbers, by rank
    gained: FloatArray  # [B] the sum of all rewards of `play`


class Record(NamedTuple):
    """The steps of B rows, at most S in each. Only the first `length[b]` steps of row b are valid.

    Step t of row b begins with `observations[b, t]` and ends with `observations[b, t + 1]`. After the end of
    an episode the mask allows waiting alone, so that it is never empty.
    """

    length: IntArray  # [B]
    observations: Float32Array  # [B, S + 1, L]
    masks: BoolArray  # [B, S + 1, N + 1]
    actions: SmallIntArray  # [B, S]
    rewards: Float32Array  # [B, S]
    discounts: Float32Array  # [B, S] of the rewards after the step; 0 when the episode is over
    heads: SmallIntArray  # [B, S] the job that is decided about, by number


class EpisodeWorkspace(NamedTuple):
    """Scratch arrays of one thread."""

    scratch: Scratch
    scores: Float32Array  # [N + 1]
    before: FloatArray  # [N]
    seen: Float32Array  # [L]
    mask: BoolArray  # [N + 1]
    gains: FloatArray  # [K]


def make_cursor(rows: int, considered: int) -> Cursor:
    """The cursor of B episodes at their beginning, for `considered` jobs."""
    counted = {name: np.zeros(rows, np.int64) for name in Cursor._fields[:-2]}
    return Cursor(**counted, order=np.zeros((rows, considered), np.int64), gained=np.zeros(rows))


def make_workspace(network: Network, layout: Layout, vms: int, considered: int) -> EpisodeWorkspace:
    """Scratch arrays for episodes on clusters of a given size, with a given number of considered jobs."""
    return EpisodeWorkspace(
        scratch=make_scratch(network, vms),
        scores=np.zeros(vms + 1, np.float32),
        before=np.zeros(vms),
        seen=np.zeros(observation_length(vms, layout), np.float32),
        mask=np.zeros(vms + 1, np.bool_),
        gains=np.zeros(considered),
    )


@njit(entry=True)
def play(
    batch: Batch,
    rows: tuple[int, int],
    layout: Layout,
    network: Network,
    how: Play,
    cursor: Cursor,
    record: Record,
    space: EpisodeWorkspace,
) -> None:
    """Play the episodes of rows[0] up to but without rows[1], each until it is over or its record is full.

    `layout` is that of observations. A record with room for 0 steps is never full: it only counts them.
    """
    most = record.actions.shape[1]
    for b in range(rows[0], rows[1]):
        record.length[b] = 0
        while batch.state.over[b] == RUNNING and (most == 0 or record.length[b] < most):
            cursor.gained[b] += turn(batch, b, layout, network, how, cursor, record, space)
        line_up(batch, b, layout, network, how, cursor, space)
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
    space: EpisodeWorkspace,
) -> float:
    """Play one step of an episode that is not over, and record it; returns the reward."""
    line_up(batch, b, layout, network, how, cursor, space)
    at = record.length[b] if record.actions.shape[1] > 0 else 0
    observe(batch, b, layout, record.observations[b, at])
    _write_mask(batch, b, how, cursor, record.masks[b, at])
    action = _choose(network, b, at, how, cursor, record, space)
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
    space: EpisodeWorkspace,
) -> float:
    """Take the action, and record it as step `at`; returns the reward."""
    state, head = batch.state, batch.state.head[b]
    record.length[b] += 1
    if how.paper_rewards:
        cursor.waited[b] += action == 0 and has_room(batch, b)
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
def line_up(
    batch: Batch, b: int, layout: Layout, network: Network, how: Play, cursor: Cursor, space: EpisodeWorkspace
) -> None:
    """Rank the considered jobs by their gain, and make the first of them the head.

    Does nothing when they are ranked already. Jobs that do not fit are left out; when none fits, or the
    oldest job may not be overtaken or held back any more, it is the head, alone. With a temperature, Gumbel
    noise is added to the gains: a job comes first with a probability proportional to exp(gain / temperature).
    """
    state, oldest = batch.state, batch.state.head[b]
    if cursor.to_show[b] > 0 or state.over[b] != RUNNING or oldest >= batch.jobs.jobs[b]:
        return
    cursor.to_show[b], cursor.shown[b], cursor.order[b, 0] = 1, 0, oldest
    if how.considered == 1 or cursor.overtaken[b] >= how.overtaken_at_most:
        return
    if cursor.waited[b] >= how.wait_limit and has_room(batch, b):
        return
    found = 0
    for job in range(oldest, min(oldest + how.considered, batch.jobs.jobs[b])):
        if batch.jobs.arrival[b, job] > state.clock[b]:
            break
        bring_forward(batch, b, job)
        if has_room(batch, b):
            gain = _gain(batch, b, layout, network, space)
            if how.temperature > 0.0:
                gain -= how.temperature * np.log(-np.log(max(_draw(cursor, b), 1e-12)))
            _sort_in(cursor.order[b], space.gains, found, job, gain)
            found += 1
        put_back(batch, b, job)
    if found > 0:
        cursor.to_show[b] = found
        _show(batch, b, cursor)


@njit()
def _gain(batch: Batch, b: int, layout: Layout, network: Network, space: EpisodeWorkspace) -> float:
    """Score of the best VM for the head's first executor, minus that of waiting."""
    observe(batch, b, layout, space.seen)
    write_mask(batch, b, True, space.mask)
    space.mask[0] = False
    score(network, space.seen, space.mask, space.scratch, space.scores)
    return float(space.scores[best_of(space.scores, space.mask)] - space.scores[0])


@njit()
def _sort_in(order: IntArray, gains: FloatArray, count: int, job: int, gain: float) -> None:
    """Insert the job into the first `count` of the ranking, behind all jobs with an equal or larger gain."""
    at = count
    while at > 0 and gains[at - 1] < gain:
        order[at], gains[at] = order[at - 1], gains[at - 1]
        at -= 1
    order[at], gains[at] = job, gain


@njit()
def _show(batch: Batch, b: int, cursor: Cursor) -> None:
    """Make the next job of the ranking the head; the queue must be in order of arrival."""
    oldest, job = batch.state.head[b], cursor.order[b, cursor.shown[b]]
    bring_forward(batch, b, job)
    cursor.passed[b] = job - oldest


@njit()
def _pass_over(batch: Batch, b: int, how: Play, cursor: Cursor) -> float:
    """Make the next job of the ranking the head, or let time pass after the last; returns the reward."""
    put_back(batch, b, batch.state.head[b] + cursor.passed[b])
    cursor.passed[b] = 0
    cursor.shown[b] += 1
    if cursor.shown[b] < cursor.to_show[b]:
        _show(batch, b, cursor)
        return 0.0
    cursor.to_show[b] = 0
    if has_room(batch, b):
        cursor.waited[b] += 1
    return wait_towards(batch, b, how.considered > 1, how.objective)


@njit()
def _count_as_placed(b: int, cursor: Cursor) -> None:
    """Count the job that was just placed: it was the oldest one, or overtook it."""
    cursor.to_show[b] = 0
    if cursor.passed[b] > 0:
        cursor.overtaken[b] += 1
        cursor.passed[b] = 0
    else:
        cursor.overtaken[b], cursor.waited[b] = 0, 0


@njit()
def _write_mask(batch: Batch, b: int, how: Play, cursor: Cursor, mask: BoolArray) -> None:
    """Write which actions may be chosen."""
    if batch.state.over[b] != RUNNING:
        mask[:] = False
        mask[0] = True
    elif not how.masked:
        mask[:] = True
    else:
        write_mask(batch, b, True, mask)
        if cursor.passed[b] == 0 and cursor.waited[b] >= how.wait_limit and mask[1:].any():
            mask[0] = False


@njit()
def _choose(
    network: Network, b: int, at: int, how: Play, cursor: Cursor, record: Record, space: EpisodeWorkspace
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
    score(network, seen, mask, space.scratch, space.scores)
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
