"""Places a whole job by a network and computes its gain, for the deployed policy and lookahead.

The best action is taken for one executor after the other, as a greedy episode of `acting.py` takes them.
"""

from typing import NamedTuple

import numpy as np

from agents.drl.kernel.acting import best_of
from agents.drl.kernel.forward import Scratch, make_scratch, score
from agents.drl.network import Network
from environment.kernel.compiled import njit
from environment.kernel.observation import observation_length, write, write_legal
from environment.kernel.scene import Scene
from environment.kernel.state import BoolArray, Float32Array, Layout, SmallIntArray
from environment.types import FloatArray, IntArray

#: Results of `decide` in place of a number of executors.
WAITS, NO_ROOM = 0, -1
#: In place of an action where there is no other.
NONE = -1


class PlacingWorkspace(NamedTuple):
    """Scratch arrays; their contents mean nothing between calls."""

    scratch: Scratch
    observation: Float32Array  # [L]
    mask: BoolArray  # [N + 1]
    scores: Float32Array  # [N + 1]
    all: BoolArray  # [N + 1] true
    upcoming: IntArray  # [4, U]


class QueuedJobs(NamedTuple):
    """Jobs of a queue, as seen by a network; int64 [J], times float64."""

    number: IntArray  # in the queue
    type: IntArray
    milli_cpus: IntArray
    memory_mib: IntArray
    executors: IntArray
    left: IntArray
    arrival: FloatArray
    seconds: FloatArray  # that it is believed to take
    prefers: IntArray


class Choices(NamedTuple):
    """The choice for each executor and the runner-up; [E]. Actions are 0 or 1 + VM."""

    action: SmallIntArray
    score: Float32Array
    #: The probability of the action, of exp(score) of all that are legal.
    share: Float32Array
    other: SmallIntArray  # the second best, or NONE
    other_score: Float32Array
    other_share: Float32Array


class Draft(NamedTuple):
    """A job while it is placed: the output arrays of `decide`."""

    choices: Choices
    first: Float32Array  # [N + 1] scores of all actions for the first executor
    placed: SmallIntArray  # [P + E] VMs of executors there before, then of those placed now


def make_desk(network: Network, layout: Layout, vms: int) -> PlacingWorkspace:
    """Arrays for decisions on `vms` VMs."""
    return PlacingWorkspace(
        scratch=make_scratch(network, vms),
        observation=np.zeros(observation_length(vms, layout), np.float32),
        mask=np.zeros(vms + 1, np.bool_),
        scores=np.zeros(vms + 1, np.float32),
        all=np.ones(vms + 1, np.bool_),
        upcoming=np.zeros((4, layout.upcoming), np.int64),
    )


def make_draft(vms: int, present: SmallIntArray, executors: int) -> Draft:
    """Arrays for a job with a given number of executors to place, beside those present on VMs."""
    choices = Choices(
        action=np.zeros(executors, np.int32),
        score=np.zeros(executors, np.float32),
        share=np.zeros(executors, np.float32),
        other=np.zeros(executors, np.int32),
        other_score=np.zeros(executors, np.float32),
        other_share=np.zeros(executors, np.float32),
    )
    placed = np.concatenate([present, np.zeros(executors, np.int32)]).astype(np.int32)
    return Draft(choices, np.zeros(vms + 1, np.float32), placed)


@njit(entry=True)
def gain_of(scene: Scene, layout: Layout, network: Network, desk: PlacingWorkspace) -> float:
    """Score of the best place for the head's next executor, minus that of waiting.

    Minus infinity when there is no room for all remaining executors.
    """
    write_legal(scene, True, desk.mask)
    desk.mask[0] = False
    if not desk.mask.any():
        return -np.inf
    write(scene, layout, desk.observation)
    score(network, desk.observation, desk.mask, desk.scratch, desk.scores)
    return float(desk.scores[best_of(desk.scores, desk.mask)] - desk.scores[0])


@njit(entry=True)
def gains_of(
    scene: Scene,
    first: QueuedJobs,
    jobs: QueuedJobs,
    layout: Layout,
    network: Network,
    desk: PlacingWorkspace,
    out: FloatArray,
) -> None:
    """Write the gain of each of the jobs, float64 [J], as if it were the head of the scene.

    `first` are the first ones of the queue, as many as are shown behind the head and one more.
    """
    for j in range(len(jobs.number)):
        out[j] = gain_of(_with_head(scene, first, jobs, j, desk.upcoming), layout, network, desk)


@njit(entry=True)
def decide(
    scene: Scene, layout: Layout, network: Network, desk: PlacingWorkspace, draft: Draft, may_wait: bool
) -> int:
    """Place the rest of the head; return its number of executors, WAITS, or NO_ROOM for the whole job.

    Without `may_wait`, waiting is no choice. The scene's free resources and executors change as they are
    taken.
    """
    present, mask = len(scene.placed), desk.mask
    for i in range(scene.left):
        now = _with_placed(scene, scene.left - i, draft.placed[: present + i])
        write_legal(now, True, mask)
        mask[0], waiting = False, mask[0] and may_wait
        if not mask.any():
            return NO_ROOM
        mask[0] = waiting
        write(now, layout, desk.observation)
        score(network, desk.observation, desk.all, desk.scratch, desk.scores)
        action = best_of(desk.scores, mask)
        _note(draft.choices, i, desk.scores, mask, action)
        if i == 0:
            for other in range(len(mask)):
                draft.first[other] = desk.scores[other]
        if action == 0:
            return WAITS
        scene.free_milli_cpus[action - 1] -= scene.job_milli_cpus
        scene.free_memory_mib[action - 1] -= scene.job_memory_mib
        scene.held[action - 1] += 1
        scene.is_open[action - 1 : action] = 1
        draft.placed[present + i] = action - 1
    return int(scene.left)


@njit(inline=True)
def _with_head(scene: Scene, first: QueuedJobs, jobs: QueuedJobs, j: int, upcoming: IntArray) -> Scene:
    """The moment with that job as the head, and the others behind it in their order."""
    count = 0
    for i in range(len(first.number)):
        if first.number[i] != jobs.number[j] and count < upcoming.shape[1]:
            upcoming[0, count], upcoming[1, count] = first.type[i], first.milli_cpus[i]
            upcoming[2, count], upcoming[3, count] = first.memory_mib[i], first.left[i]
            count += 1
    job = jobs.type[j], jobs.milli_cpus[j], jobs.memory_mib[j], jobs.executors[j], jobs.left[j]
    behind = upcoming[0, :count], upcoming[1, :count], upcoming[2, :count], upcoming[3, :count]
    times = jobs.arrival[j], jobs.seconds[j]
    return _moment(scene, job, times, jobs.prefers[j], True, scene.placed[:0], behind)


@njit(inline=True)
def _with_placed(scene: Scene, left: int, placed: SmallIntArray) -> Scene:
    """The moment when fewer executors are left."""
    job = scene.type, scene.job_milli_cpus, scene.job_memory_mib, scene.executors, left
    behind = scene.next_type, scene.next_milli_cpus, scene.next_memory_mib, scene.next_executors
    times = scene.arrival, scene.seconds
    return _moment(scene, job, times, scene.prefers, scene.untouched and left == scene.left, placed, behind)


@njit(inline=True)
def _moment(
    scene: Scene,
    job: tuple[int, int, int, int, int],
    times: tuple[float, float],
    prefers: int,
    untouched: bool,
    placed: SmallIntArray,
    behind: tuple[IntArray, IntArray, IntArray, IntArray],
) -> Scene:
    """The same cluster with this head: its type, cpus, memory, executors and those left, and so on.

    `times` are when it arrived, and the seconds that it is believed to take.
    """
    return Scene(
        milli_cpus=scene.milli_cpus,
        memory_mib=scene.memory_mib,
        price_per_hour=scene.price_per_hour,
        free_milli_cpus=scene.free_milli_cpus,
        free_memory_mib=scene.free_memory_mib,
        held=scene.held,
        busy_until=scene.busy_until,
        ready_at=scene.ready_at,
        is_open=scene.is_open,
        clock=scene.clock,
        waiting=scene.waiting,
        running=scene.running,
        next_end=scene.next_end,
        usual_seconds=scene.usual_seconds,
        waiting_work=scene.waiting_work,
        longest_seconds=scene.longest_seconds,
        number=scene.number,
        type=job[0],
        job_milli_cpus=job[1],
        job_memory_mib=job[2],
        executors=job[3],
        left=job[4],
        arrival=times[0],
        seconds=times[1],
        prefers=prefers,
        untouched=untouched,
        placed=placed,
        next_type=behind[0],
        next_milli_cpus=behind[1],
        next_memory_mib=behind[2],
        next_executors=behind[3],
    )


@njit()
def _note(choices: Choices, i: int, scores: Float32Array, mask: BoolArray, action: int) -> None:
    total, other = 0.0, NONE
    for at in range(len(mask)):
        if mask[at]:
            total += np.exp(scores[at] - scores[action])
            if at != action and (other == NONE or scores[at] > scores[other]):
                other = at
    choices.action[i], choices.other[i] = action, other
    choices.score[i], choices.share[i] = scores[action], 1.0 / total
    choices.other_score[i] = choices.other_share[i] = 0.0
    if other != NONE:
        choices.other_score[i] = scores[other]
        choices.other_share[i] = np.exp(scores[other] - scores[action]) / total
