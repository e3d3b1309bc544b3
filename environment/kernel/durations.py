"""Duration of a job on its placement: a function of job, placement and cluster, chosen by number.

Another model is another number and another branch in `slowdown`, which sees the whole batch (the sharers of
a VM, how many VMs, which) when the head of the queue has its last executor and is about to start.
"""

from environment.kernel.compiled import njit
from environment.kernel.expected_end import expected_end
from environment.kernel.state import ANYWHERE, PAPER, SPREAD, Batch, BoolArray, SmallIntArray
from environment.types import IntArray

#: `environment.kernel.expected_end.expected_end`, compiled: that is used where numba is not, too.
believed_end = njit()(expected_end)


@njit()
def vms_of(batch: Batch, b: int, job: int) -> int:
    """Number of different VMs with executors of a job that is wholly placed."""
    state, jobs = batch.state, batch.jobs
    found = 0
    for at in range(jobs.first[b, job], jobs.first[b, job] + jobs.executors[b, job]):
        vm = state.placement[b, at]
        if state.user[b, vm] != job + 1:
            state.user[b, vm] = job + 1
            found += 1
    return found


@njit(entry=True)
def is_good(prefers: int, executors: int, vms: int) -> bool:
    """Whether `executors` on `vms` different VMs are placed as the job prefers (Islam 2022, 4 and 7.1).

    Spread: every executor on its own VM. Consolidated: all on one. A single executor is both.
    """
    if prefers == ANYWHERE:
        return True
    return bool(vms == executors) if prefers == SPREAD else bool(vms == 1)


@njit(entry=True)
def well_placed(
    prefers: IntArray,
    executors: IntArray,
    first: IntArray,
    placement: SmallIntArray,
    seen: IntArray,
    good: BoolArray,
) -> None:
    """`is_good` of many jobs at once, into `good`; the first three [M], `placement` [E].

    `seen`, zeros, has a place for each VM that is named.
    """
    for job in range(len(good)):
        found = 0
        for at in range(first[job], first[job] + executors[job]):
            if seen[placement[at]] != job + 1:
                seen[placement[at]] = job + 1
                found += 1
        good[job] = is_good(prefers[job], executors[job], found)


@njit()
def slowdown(batch: Batch, b: int, job: int) -> float:
    """Factor between a job's duration on its placement and the one when placed well."""
    jobs, rules = batch.jobs, batch.rules
    if rules.duration_model == PAPER and not is_good(
        jobs.prefers[b, job], jobs.executors[b, job], vms_of(batch, b, job)
    ):
        return float(rules.penalty)
    return 1.0


@njit()
def longest_duration(batch: Batch, b: int, job: int) -> float:
    """Seconds that a job takes on the worst of placements; the best gives `Jobs.duration`."""
    jobs, rules = batch.jobs, batch.rules
    duration = float(jobs.duration[b, job])
    if rules.duration_model == PAPER and jobs.prefers[b, job] != ANYWHERE and jobs.executors[b, job] > 1:
        return duration * rules.penalty
    return duration
