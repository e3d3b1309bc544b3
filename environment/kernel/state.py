"""State of a batch of episodes as arrays, and their construction. `rules.py` changes them.

An episode is one workload on one cluster. Letters in shapes: B episodes, N VMs, M jobs (the most of any
episode), E executors (of all jobs of an episode together). Rows of episodes with fewer VMs, jobs or executors
are padded with zeros; a VM without cpus fits nothing.
"""

from collections.abc import Iterable, Sequence
from typing import Annotated, Any, NamedTuple, get_args, get_type_hints

import numpy as np
from numpy.typing import NDArray

from environment.types import FloatArray, IntArray

SmallIntArray = NDArray[np.int32]
Float32Array = NDArray[np.float32]
BoolArray = NDArray[np.bool_]

#: Values of `State.over`.
RUNNING, FINISHED, VIOLATED = 0, 1, 2
#: Values of `JobArrays.prefers`.
ANYWHERE, SPREAD, CONSOLIDATE = 0, 1, 2
#: The same by the values of `environment.types.Job.prefers`.
PREFERENCES = {None: ANYWHERE, "spread": SPREAD, "consolidate": CONSOLIDATE}
#: Values of `Rules.duration_model`: every placement is as good as any other; or the rule of Islam 2022, 7.1,
#: by which a job takes `penalty` times as long when its placement is not good.
FIXED, PAPER = 0, 1
#: Which observation: the state of Islam 2022, 4, or all that is known, on fixed scales or in units of queue
#: and cluster (see `observation.py`).
PAPER_STATE, RICH_STATE, NATURAL_STATE = 0, 1, 2


#: How many numbers say how a VM of a pool is had and is open (see `leases.py`).
LEASE_COLUMNS = 17


class Layout(NamedTuple):
    """Layout of an observation: its kind, and the extent of a rich one."""

    kind: int = PAPER_STATE
    #: Number of job types that are distinguished.
    types: int = 0
    #: How many jobs behind the head are shown.
    upcoming: int = 0
    #: Weight of cost for the policy; the rest is time. The natural observation shows it.
    beta: float = 0.5


#: Axes of the arrays: episodes, VMs, jobs, executors of all jobs. An `Episode` has no first of these.
_B, _BN, _BM, _BE = "B", "BN", "BM", "BE"
#: Axes that only clusters with pools have: VMs, and the columns of each lease (see `leases.py`).
_BP, _BPL = "BP", "BPL"


class MachineArrays(NamedTuple):
    """The VMs. Cpus are whole thousandths, so that sums are exact."""

    milli_cpus: Annotated[IntArray, _BN]
    memory_mib: Annotated[IntArray, _BN]
    price_per_hour: Annotated[FloatArray, _BN]  # dollars
    leases: Annotated[FloatArray, _BPL]  # how VMs of pools are had, and are open; empty of a fixed cluster


class JobArrays(NamedTuple):
    """The jobs in order of arrival, except for those brought forward; cpus and memory are of one executor.

    The fields of `REALS` and `NUMBERS` define a job: code that moves or copies jobs goes through these, so
    that an added field is named here alone, and where it gets its values.
    """

    jobs: Annotated[IntArray, _B]  # how many
    believed: Annotated[IntArray, _B]  # 1 when beliefs about jobs differ from the truth, else 0
    # Cost and duration of a job when it is placed neither well nor badly: rewards are in units of these.
    unit_dollars: Annotated[FloatArray, _B]
    unit_seconds: Annotated[FloatArray, _B]
    arrival: Annotated[FloatArray, _BM]  # seconds
    duration: Annotated[FloatArray, _BM]  # seconds, when placed well
    expected: Annotated[FloatArray, _BM]  # the same, as it is believed
    spread: Annotated[FloatArray, _BM]  # of the logarithm of real over expected duration, as it is believed
    milli_cpus: Annotated[IntArray, _BM]
    memory_mib: Annotated[IntArray, _BM]
    executors: Annotated[IntArray, _BM]
    prefers: Annotated[IntArray, _BM]  # ANYWHERE, SPREAD or CONSOLIDATE
    type: Annotated[IntArray, _BM]  # place in a list of types, counted from 1; 0 when it is not there
    first: Annotated[IntArray, _BM]  # where the job's executors begin in `State.placement`


#: The fields of `JobArrays` that describe a job, by their type of number.
REALS = slice(JobArrays._fields.index("arrival"), JobArrays._fields.index("milli_cpus"))
NUMBERS = slice(JobArrays._fields.index("milli_cpus"), JobArrays._fields.index("first"))


class State(NamedTuple):
    """Changing state of the episodes.

    Invariants: the clock of an episode never falls; 0 <= free <= capacity on every VM; `heap[:running]` is a
    binary heap of the running jobs by end, then by number; behind it stand the jobs that ended last.
    """

    clock: Annotated[FloatArray, _B]  # seconds
    head: Annotated[IntArray, _B]  # the job that is shown; `JobArrays.jobs` when all are placed
    left: Annotated[IntArray, _B]  # executors of the head that are not placed yet
    over: Annotated[IntArray, _B]  # RUNNING, FINISHED or VIOLATED
    waits: Annotated[IntArray, _B]  # how often action 0 was taken
    running: Annotated[IntArray, _B]  # how many jobs run
    heap: Annotated[SmallIntArray, _BM]  # job numbers
    free_milli_cpus: Annotated[IntArray, _BN]
    free_memory_mib: Annotated[IntArray, _BN]
    held: Annotated[IntArray, _BN]  # executors on the VM
    since: Annotated[FloatArray, _BN]  # when the VM was last taken into use
    used: Annotated[FloatArray, _BN]  # seconds in use, until it was last free
    busy_until: Annotated[FloatArray, _BN]  # latest end of any job that was placed there
    user: Annotated[SmallIntArray, _BN]  # 1 + the last job whose VMs were counted, if this was one of them
    placement: Annotated[SmallIntArray, _BE]  # VM of each executor
    start: Annotated[FloatArray, _BM]
    end: Annotated[FloatArray, _BM]
    expected: Annotated[FloatArray, _BM]  # seconds that it was believed to take when it started, as placed
    # Beliefs about all that when it was last observed, where they differ from the truth:
    believed_until: Annotated[FloatArray, _BN]  # latest end of any job there
    believed_next: Annotated[FloatArray, _B]  # first end of a job that runs
    # The same of queue and cluster as a whole, where that is observed (see `observation.sum_up`):
    usual_seconds: Annotated[FloatArray, _B]  # mean of the durations that jobs are believed to have
    longest_seconds: Annotated[FloatArray, _B]  # the most that one that waits is believed to take
    waiting_work: Annotated[FloatArray, _B]  # thousandths of cpus times seconds
    ready_at: Annotated[FloatArray, _BP]  # when each VM would be up
    is_open: Annotated[IntArray, _BP]  # 1 where it is, or boots
    taken: Annotated[FloatArray, _B]  # no open VM is taken away by its cloud before (see `interruptions.py`)


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

    machines: MachineArrays
    jobs: JobArrays
    state: State
    rules: Rules


class Episode(NamedTuple):
    """Arrays of one episode before it becomes a row of a batch: the same as a batch's, [N] and [M]."""

    machines: MachineArrays
    jobs: JobArrays


def make_batch(episodes: Sequence[Episode], rules: Rules) -> Batch:
    """Allocate a batch for these episodes, in their state before anything happened (see `rules.reset`)."""
    vms = max(len(episode.machines.milli_cpus) for episode in episodes)
    pooled = vms if any(len(episode.machines.leases) for episode in episodes) else 0
    batch = Batch(*_zeros(len(episodes), vms, *longest(episodes), pooled), rules)
    for row, episode in enumerate(episodes):
        load_episode(batch, row, episode)
    return batch


def longest(episodes: Iterable[Episode]) -> tuple[int, int]:
    """The most jobs that one of the episodes has, and the most executors; 0 when there is none."""
    sizes = [(len(episode.jobs.arrival), int(episode.jobs.executors.sum())) for episode in episodes]
    return max((jobs for jobs, _ in sizes), default=0), max((executors for _, executors in sizes), default=0)


def blank(vms: int, jobs: int, executors: int, *, pooled: bool = False) -> Episode:
    """An episode of nothing: a batch that is made of it has room for others of up to that size."""
    machines, nothing, _ = _zeros(1, vms, jobs, 0, vms if pooled else 0)
    arrays = JobArrays(*(field[0] for field in nothing))
    episode = Episode(MachineArrays(*(field[0] for field in machines)), arrays)
    episode.jobs.executors[:1] = executors
    return episode


def enlarged(batch: Batch, jobs: int, executors: int) -> Batch:
    """Copy of the episodes, not sized, with room for so many jobs and executors, no fewer than now."""
    size, vms = batch.machines.milli_cpus.shape
    larger = Batch(*_zeros(size, vms, jobs, executors, batch.machines.leases.shape[1]), batch.rules)
    for before, after in zip(batch[:3], larger[:3], strict=True):
        for source, target in zip(before, after, strict=True):
            target[tuple(map(slice, source.shape))] = source
    return larger


def load_episode(batch: Batch, row: int, episode: Episode) -> None:
    """Copy another episode into a row that is large enough for it; the row has to be reset afterwards."""
    targets, sources = (*batch.machines, *batch.jobs), (*episode.machines, *episode.jobs)
    for target, source in zip(targets, sources, strict=True):
        if target.ndim > 1:
            target[row, : len(source)] = source
            target[row, len(source) :] = 0
        else:
            target[row] = source


def _zeros(
    size: int, vms: int, jobs: int, executors: int, pooled: int
) -> tuple[MachineArrays, JobArrays, State]:
    lengths = {"B": size, "N": vms, "M": jobs, "E": executors, "P": pooled, "L": LEASE_COLUMNS}

    def arrays(fields: type[NamedTuple]) -> list[Any]:
        hints = get_type_hints(fields, include_extras=True).values()
        kinds = [(_DTYPES[get_args(hint)[0]], get_args(hint)[1]) for hint in hints]
        return [np.zeros([lengths[letter] for letter in letters], dtype) for dtype, letters in kinds]

    return MachineArrays(*arrays(MachineArrays)), JobArrays(*arrays(JobArrays)), State(*arrays(State))


_DTYPES = {FloatArray: np.float64, IntArray: np.int64, SmallIntArray: np.int32}
