"""The state of a batch of episodes as arrays, and how they are made. What changes them is in `rules.py`.

An episode is one workload on one cluster. Letters in shapes: B episodes, N VMs, M jobs (the most of any
episode), E executors (of all jobs of an episode together). Rows of episodes with fewer VMs, jobs or executors
are padded with zeros; a VM without cpus fits nothing.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from environment.types import FloatArray, IntArray

SmallIntArray = NDArray[np.int32]
Float32Array = NDArray[np.float32]
BoolArray = NDArray[np.bool_]

#: Values of `State.over`.
RUNNING, FINISHED, VIOLATED = 0, 1, 2
#: Values of `Jobs.prefers`.
ANYWHERE, SPREAD, CONSOLIDATE = 0, 1, 2
#: The same by what `environment.types.Job.prefers` says.
PREFERENCES = {None: ANYWHERE, "spread": SPREAD, "consolidate": CONSOLIDATE}
#: Values of `Rules.duration_model`: every placement is as good as any other; or the rule of Islam 2022, 7.1,
#: by which a job takes `penalty` times as long when its placement is not good.
FIXED, PAPER = 0, 1
#: Which observation: the state of Islam 2022, 4, or all that is known (see `observation.py`).
PAPER_STATE, RICH_STATE = 0, 1


class Layout(NamedTuple):
    """What an observation has in it: its kind, and of the rich one how much."""

    kind: int = PAPER_STATE
    #: How many job types are told apart.
    types: int = 0
    #: How many jobs behind the head are shown.
    upcoming: int = 0


class Machines(NamedTuple):
    """The VMs. Cpus are whole thousandths, so that sums are exact."""

    milli_cpus: IntArray  # [B, N]
    memory_mib: IntArray  # [B, N]
    price_per_hour: FloatArray  # [B, N] dollars


class Jobs(NamedTuple):
    """The jobs in order of arrival, but for those brought forward; cpus and memory are of one executor."""

    jobs: IntArray  # [B] how many
    arrival: FloatArray  # [B, M] seconds
    milli_cpus: IntArray  # [B, M]
    memory_mib: IntArray  # [B, M]
    executors: IntArray  # [B, M]
    prefers: IntArray  # [B, M] ANYWHERE, SPREAD or CONSOLIDATE
    duration: FloatArray  # [B, M] seconds, when placed well
    first: IntArray  # [B, M] where the job's executors begin in `State.placement`
    type: IntArray  # [B, M] place in a list of types, counted from 1; 0 when it is not there


class State(NamedTuple):
    """What changes.

    Invariants: the clock of an episode never falls; 0 <= free <= capacity on every VM; `heap[:running]` is a
    binary heap of the running jobs by end, then by number; behind it stand the jobs that ended last.
    """

    clock: FloatArray  # [B] seconds
    head: IntArray  # [B] the job that is shown; `Jobs.jobs` when all are placed
    left: IntArray  # [B] executors of the head that are not placed yet
    over: IntArray  # [B] RUNNING, FINISHED or VIOLATED
    waits: IntArray  # [B] how often action 0 was taken
    running: IntArray  # [B] how many jobs run
    heap: SmallIntArray  # [B, M] job numbers
    free_milli_cpus: IntArray  # [B, N]
    free_memory_mib: IntArray  # [B, N]
    held: IntArray  # [B, N] executors on the VM
    since: FloatArray  # [B, N] when the VM was last taken into use
    used: FloatArray  # [B, N] seconds in use, until it was last free
    busy_until: FloatArray  # [B, N] latest end of any job that was placed there
    user: SmallIntArray  # [B, N] 1 + the last job whose VMs were counted, if this was one of them
    placement: SmallIntArray  # [B, E] VM of each executor
    start: FloatArray  # [B, M]
    end: FloatArray  # [B, M]


class Rules(NamedTuple):
    """The numbers of the transition rules and rewards."""

    duration_model: int
    penalty: float
    placed: float
    waited: float
    violation: float
    fixed: float
    beta: float


class Batch(NamedTuple):
    """B episodes that know nothing of each other."""

    machines: Machines
    jobs: Jobs
    state: State
    rules: Rules


class Episode(NamedTuple):
    """What an episode is made of, before it is a row of a batch; arrays are [N] and [M]."""

    milli_cpus: IntArray
    memory_mib: IntArray
    price_per_hour: FloatArray
    arrival: FloatArray
    job_milli_cpus: IntArray
    job_memory_mib: IntArray
    executors: IntArray
    prefers: IntArray
    duration: FloatArray
    type: IntArray


def make_batch(episodes: Sequence[Episode], rules: Rules) -> Batch:
    """Allocate a batch for these episodes, in their state before anything happened (see `rules.reset`)."""
    size = len(episodes)
    vms = max(len(episode.milli_cpus) for episode in episodes)
    jobs = max(len(episode.arrival) for episode in episodes)
    executors = max(int(episode.executors.sum()) for episode in episodes)
    batch = Batch(_machines(size, vms), _jobs(size, jobs), _state(size, vms, jobs, executors), rules)
    for row, episode in enumerate(episodes):
        load_episode(batch, row, episode)
    return batch


def blank(vms: int, jobs: int, executors: int) -> Episode:
    """An episode of nothing: a batch that is made of it has room for others of up to that size."""
    machine, job = np.zeros(vms, np.int64), np.zeros(jobs, np.int64)
    total = job.copy()
    total[:1] = executors
    real = np.zeros(jobs)
    return Episode(machine, machine, np.zeros(vms), real, job, job, total, job, real, job)


def enlarged(batch: Batch, jobs: int, executors: int) -> Batch:
    """The same episodes, not sized, with room for so many jobs and executors, which are no fewer."""
    size, vms = batch.machines.milli_cpus.shape
    larger = make_batch([blank(vms, jobs, executors)] * size, batch.rules)
    for before, after in zip(batch[:3], larger[:3], strict=True):
        for source, target in zip(before, after, strict=True):
            target[tuple(map(slice, source.shape))] = source
    return larger


def load_episode(batch: Batch, row: int, episode: Episode) -> None:
    """Put another episode into a row that is large enough for it; the row has to be reset afterwards."""
    vms, count = len(episode.milli_cpus), len(episode.arrival)
    fields: list[tuple[FloatArray | IntArray, FloatArray | IntArray, int]] = [
        (batch.machines.milli_cpus, episode.milli_cpus, vms),
        (batch.machines.memory_mib, episode.memory_mib, vms),
        (batch.machines.price_per_hour, episode.price_per_hour, vms),
        (batch.jobs.arrival, episode.arrival, count),
        (batch.jobs.milli_cpus, episode.job_milli_cpus, count),
        (batch.jobs.memory_mib, episode.job_memory_mib, count),
        (batch.jobs.executors, episode.executors, count),
        (batch.jobs.prefers, episode.prefers, count),
        (batch.jobs.duration, episode.duration, count),
        (batch.jobs.first, np.cumsum(episode.executors) - episode.executors, count),
        (batch.jobs.type, episode.type, count),
    ]
    for target, source, length in fields:
        target[row, :length] = source
        target[row, length:] = 0
    batch.jobs.jobs[row] = count


def _machines(size: int, vms: int) -> Machines:
    return Machines(
        milli_cpus=np.zeros((size, vms), np.int64),
        memory_mib=np.zeros((size, vms), np.int64),
        price_per_hour=np.zeros((size, vms)),
    )


def _jobs(size: int, jobs: int) -> Jobs:
    return Jobs(
        jobs=np.zeros(size, np.int64),
        arrival=np.zeros((size, jobs)),
        milli_cpus=np.zeros((size, jobs), np.int64),
        memory_mib=np.zeros((size, jobs), np.int64),
        executors=np.zeros((size, jobs), np.int64),
        prefers=np.zeros((size, jobs), np.int64),
        duration=np.zeros((size, jobs)),
        first=np.zeros((size, jobs), np.int64),
        type=np.zeros((size, jobs), np.int64),
    )


def _state(size: int, vms: int, jobs: int, executors: int) -> State:
    return State(
        clock=np.zeros(size),
        head=np.zeros(size, np.int64),
        left=np.zeros(size, np.int64),
        over=np.zeros(size, np.int64),
        waits=np.zeros(size, np.int64),
        running=np.zeros(size, np.int64),
        heap=np.zeros((size, jobs), np.int32),
        free_milli_cpus=np.zeros((size, vms), np.int64),
        free_memory_mib=np.zeros((size, vms), np.int64),
        held=np.zeros((size, vms), np.int64),
        since=np.zeros((size, vms)),
        used=np.zeros((size, vms)),
        busy_until=np.zeros((size, vms)),
        user=np.zeros((size, vms), np.int32),
        placement=np.zeros((size, executors), np.int32),
        start=np.zeros((size, jobs)),
        end=np.zeros((size, jobs)),
    )
