"""First fit, first come, first served, in compiled code: the unit for rewards of sampled worlds."""

from environment.kernel.compiled import njit
from environment.kernel.leases import bill
from environment.kernel.observation import has_room
from environment.kernel.rewards import cost
from environment.kernel.rules import fits, reset, step_episode
from environment.kernel.state import RUNNING, Batch


@njit(entry=True)
def play_first_fit(batch: Batch, b: int) -> tuple[float, float]:
    """Play the episode to its end; the mean dollars of a job, and its mean seconds from submission to end."""
    reset(batch, b)
    while batch.state.over[b] == RUNNING:
        if not has_room(batch, b):
            step_episode(batch, b, 0)
            continue
        for _ in range(batch.state.left[b]):
            vm = 0
            while not fits(batch, b, vm):
                vm += 1
            step_episode(batch, b, vm + 1)
    count, seconds = batch.jobs.jobs[b], 0.0
    for job in range(count):
        seconds += batch.state.end[b, job] - batch.jobs.arrival[b, job]
    return dollars_of(batch, b) / count, seconds / count


@njit(entry=True)
def dollars_of(batch: Batch, b: int) -> float:
    """Cost of an episode: VMs of pools from opened to closed, others while they held executors."""
    if batch.machines.leases.shape[1] > 0:
        return bill(batch, b)
    return cost(batch, b)
