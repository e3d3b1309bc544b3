"""Cost and rewards of an episode: Islam 2022, eq. 4 to 14. `rules.py` defines those of single steps."""

from conf.units import SECONDS_PER_HOUR
from environment.kernel.compiled import njit
from environment.kernel.durations import longest_duration
from environment.kernel.state import Batch


@njit(entry=True)
def cost(batch: Batch, b: int) -> float:
    """Dollars for the time in which VMs held executors, up to the clock (eq. 4)."""
    state, machines = batch.state, batch.machines
    total = 0.0
    for vm in range(state.used.shape[1]):
        seconds = state.used[b, vm]
        if state.held[b, vm] > 0:
            seconds += state.clock[b] - state.since[b, vm]
        total += machines.price_per_hour[b, vm] * seconds
    return total / SECONDS_PER_HOUR


@njit()
def episode_reward(batch: Batch, b: int) -> float:
    """The reward of an episode in which all jobs have ended (eq. 7 to 14)."""
    state, jobs, rules = batch.state, batch.jobs, batch.rules
    shortest, longest, taken, prices = 0.0, 0.0, 0.0, 0.0
    for job in range(jobs.jobs[b]):
        shortest += jobs.duration[b, job]
        longest += longest_duration(batch, b, job)
        taken += state.end[b, job] - state.start[b, job]
    for vm in range(state.used.shape[1]):
        prices += batch.machines.price_per_hour[b, vm]
    most = longest * prices / SECONDS_PER_HOUR  # eq. 7
    cost_share = cost(batch, b) / most if most > 0.0 else 0.0  # eq. 8
    # eq. 12; the number of jobs cancels out. Where every placement is as good as any, time earns all it can.
    time_share = (taken - shortest) / (longest - shortest) if longest > shortest else 0.0
    score = rules.beta * (1.0 - cost_share) + (1.0 - rules.beta) * (1.0 - time_share)  # eq. 9 and 13
    return float(rules.fixed * score)  # eq. 14
