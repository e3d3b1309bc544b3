"""What learning seeks, as rewards of single steps; Islam 2022's own rewards are in `environment.kernel`."""

from typing import NamedTuple

from environment.compiled import njit
from environment.kernel.rules import step_episode
from environment.kernel.state import VIOLATED, Batch
from environment.types import FloatArray

_SECONDS_PER_HOUR = 3600.0


class Objective(NamedTuple):
    """By how much the rewards of an episode fall for what its jobs cost and take."""

    #: For a dollar.
    cost: float
    #: For a second from a job's start to its end.
    duration: float
    #: For a second from a job's submission to its end.
    completion: float


@njit()
def step_towards(batch: Batch, b: int, action: int, objective: Objective, before: FloatArray) -> float:
    """Take an action and return its reward: none but for the last executor of a job, which gets the job's.

    A job is charged with the dollars by which it lengthens the time that its VMs are held, with its duration
    and its completion time. So the rewards of an episode sum up to just minus its cost, durations and
    completion times, weighed: what is best for the one is best for the other. An action against the rules
    gets what it gets in `step_episode`. `before` is float64 [N] to work in.
    """
    state, head, clock = batch.state, batch.state.head[b], batch.state.clock[b]
    last = action > 0 and state.left[b] == 1
    if last:
        for vm in range(len(before)):
            before[vm] = max(state.busy_until[b, vm], clock)
    reward = step_episode(batch, b, action)
    if state.over[b] == VIOLATED:
        return reward
    if not last:
        return 0.0
    start, end, arrival = state.start[b, head], state.end[b, head], batch.jobs.arrival[b, head]
    charged: float = (
        objective.cost * _dollars_added(batch, b, head, before)
        + objective.duration * (end - start)
        + objective.completion * (end - arrival)
    )
    return -charged


@njit()
def _dollars_added(batch: Batch, b: int, job: int, before: FloatArray) -> float:
    """What VMs cost more for a job that has started, of which `before` says how long each was held anyway."""
    state, jobs, dollars = batch.state, batch.jobs, 0.0
    for at in range(jobs.first[b, job], jobs.first[b, job] + jobs.executors[b, job]):
        vm, end = state.placement[b, at], state.end[b, job]
        if end > before[vm]:
            dollars += batch.machines.price_per_hour[b, vm] * (end - before[vm]) / _SECONDS_PER_HOUR
            before[vm] = end
    return dollars
