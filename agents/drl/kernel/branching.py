"""Several continuations of one moment: the value of an action, with nothing else different.

Now and then an episode stands still and is played on several times from there: the next job is placed by
chance, according to the network's probabilities, and those after it by the best actions. The surplus of one
continuation over the others comes from the placement of that one job, or from passing over others for it.
"""

from typing import NamedTuple

import numpy as np

from agents.drl.kernel.acting import Cursor, EpisodeWorkspace, Play, Record, line_up, turn
from agents.drl.network import Network
from environment.kernel.compiled import njit
from environment.kernel.copy_episode import copy_row
from environment.kernel.hash_random import uniform
from environment.kernel.state import RUNNING, Batch, BoolArray, Float32Array, Layout, SmallIntArray
from environment.types import FloatArray, IntArray

#: Sets the chances of trials apart from those of the episode.
_OTHER_SEED = 0x5DEECE66D


class Branching(NamedTuple):
    """Parameters of the trials that measure the value of actions."""

    #: At which share of the moments in which a job of the queue may be placed, or all wait.
    share: float
    #: For how many jobs a trial goes on, the one that is placed by chance among them.
    jobs: int
    #: Weight of each of these jobs' rewards, as a multiple of the weight of the one before.
    gamma: float


class Trials(NamedTuple):
    """Trials by episode: K trials of up to S steps, which are copied to up to C steps in all."""

    length: IntArray  # [E] how many of the steps below count
    observations: Float32Array  # [E, C, L]
    masks: BoolArray  # [E, C, N + 1]
    actions: SmallIntArray  # [E, C]
    advantages: FloatArray  # [E, C] of the step's trial over the others from the same moment
    values: FloatArray  # [E, K] to work in
    begins: IntArray  # [E, K + 1] to work in


@njit(entry=True)
def explore(
    batch: Batch,
    episodes: tuple[int, int],
    layout: Layout,
    network: Network,
    plays: tuple[Play, Play],
    branching: Branching,
    cursor: Cursor,
    records: tuple[Record, Record],
    trials: Trials,
    space: EpisodeWorkspace,
) -> None:
    """Play each episode from the first to before the second to its end, trying things on the way.

    Episode e is row 2 e of the batch, and is tried in row 2 e + 1. The first way to play is by chance, the
    second takes the best actions; the first record is of trials, the second of no steps.
    """
    state, steps = batch.state, records[0].actions.shape[1]
    for e in range(episodes[0], episodes[1]):
        row, moments = 2 * e, 0
        trials.length[e] = 0
        while state.over[row] == RUNNING:
            if cursor.to_show[row] == 0:
                line_up(batch, row, layout, network, plays[0], cursor, space)
                moments += 1
                full = trials.length[e] + steps * trials.values.shape[1] > trials.actions.shape[1]
                if not full and uniform(cursor.seed[row] ^ _OTHER_SEED, moments) < branching.share:
                    _try(batch, e, layout, network, plays, branching, cursor, records, trials, space)
            turn(batch, row, layout, network, plays[0], cursor, records[1], space)


@njit()
def _try(
    batch: Batch,
    e: int,
    layout: Layout,
    network: Network,
    plays: tuple[Play, Play],
    branching: Branching,
    cursor: Cursor,
    records: tuple[Record, Record],
    trials: Trials,
    space: EpisodeWorkspace,
) -> None:
    """Continue the episode several times from here, and record the steps with their advantages."""
    row, trial, record = 2 * e, 2 * e + 1, records[0]
    count, began = trials.values.shape[1], trials.length[e]
    for k in range(count):
        copy_row(batch, row, trial)
        _copy_cursor(cursor, row, trial, k)
        head, value = batch.state.head[row], 0.0
        record.length[trial] = 0
        while batch.state.head[trial] == head and record.length[trial] < record.actions.shape[1]:
            value += turn(batch, trial, layout, network, plays[0], cursor, record, space)
        counts, job = branching.gamma, head + 1
        while batch.state.over[trial] == RUNNING and batch.state.head[trial] < head + branching.jobs:
            value += counts * turn(batch, trial, layout, network, plays[1], cursor, records[1], space)
            if batch.state.head[trial] > job:
                counts, job = counts * branching.gamma, job + 1
        trials.values[e, k], trials.begins[e, k] = value, trials.length[e]
        _keep_choices(e, trial, record, trials)
    trials.begins[e, count] = trials.length[e]
    mean, differ = 0.0, False
    for k in range(count):
        mean += trials.values[e, k] / count
        differ = differ or abs(trials.values[e, k] - trials.values[e, 0]) > 1e-9
    if not differ:
        trials.length[e] = began
        return
    for k in range(count):
        for at in range(trials.begins[e, k], trials.begins[e, k + 1]):
            trials.advantages[e, at] = (trials.values[e, k] - mean) * count / (count - 1)


@njit()
def _copy_cursor(cursor: Cursor, row: int, trial: int, k: int) -> None:
    cursor.seed[trial] = cursor.seed[row] ^ (_OTHER_SEED + k + 1)
    cursor.drawn[trial], cursor.waited[trial] = cursor.drawn[row], cursor.waited[row]
    cursor.passed[trial], cursor.overtaken[trial] = cursor.passed[row], cursor.overtaken[row]
    cursor.to_show[trial], cursor.shown[trial] = cursor.to_show[row], cursor.shown[row]
    for at in range(cursor.order.shape[1]):
        cursor.order[trial, at] = cursor.order[row, at]


@njit()
def _keep_choices(e: int, trial: int, record: Record, trials: Trials) -> None:
    """Copy the trial's steps in which there was something to choose."""
    for step in range(record.length[trial]):
        allowed = 0
        for action in range(record.masks.shape[2]):
            allowed += record.masks[trial, step, action]
        if allowed > 1:
            at = trials.length[e]
            trials.length[e] = at + 1
            trials.actions[e, at] = record.actions[trial, step]
            for i in range(record.masks.shape[2]):
                trials.masks[e, at, i] = record.masks[trial, step, i]
            for i in range(record.observations.shape[2]):
                trials.observations[e, at, i] = record.observations[trial, step, i]


def make_trials(episodes: int, trials: int, steps: int, length: int, actions: int) -> Trials:
    """Arrays for the trials in each episode at one moment, and for the recorded steps."""
    return Trials(
        length=np.zeros(episodes, np.int64),
        observations=np.zeros((episodes, steps, length), np.float32),
        masks=np.zeros((episodes, steps, actions), np.bool_),
        actions=np.zeros((episodes, steps), np.int32),
        advantages=np.zeros((episodes, steps)),
        values=np.zeros((episodes, trials)),
        begins=np.zeros((episodes, trials + 1), np.int64),
    )
