"""A moment of a cluster, from which `observation.py` makes observations."""

from typing import NamedTuple

from environment.kernel.compiled import njit
from environment.kernel.state import SmallIntArray
from environment.types import FloatArray, IntArray

#: Number of waiting jobs whose requests are summed.
QUEUE_SEEN = 256


class Scene(NamedTuple):
    """A moment of a cluster and the job that is to be placed, its head; the arrays are [N], but for the last.

    Without a head (`number` is -1) all about the head is 0. Times are seconds on any one clock.
    """

    milli_cpus: IntArray  # capacity; a VM without cpus is none
    memory_mib: IntArray
    price_per_hour: FloatArray
    free_milli_cpus: IntArray  # when the executors in `placed` have taken theirs
    free_memory_mib: IntArray
    held: IntArray  # executors on the VM, with those in `placed`
    busy_until: FloatArray  # when the last of the jobs ends, as is believed, that run there; past without any
    # Of clusters with pools; empty where all VMs are there, always.
    ready_at: FloatArray  # when each would be up for a job placed there now; in the past for one that is
    is_open: IntArray  # 1 where it is, or boots
    clock: float
    waiting: int  # jobs that have arrived and not started, the head too
    running: int  # jobs that have started
    next_end: float  # when the first of them ends, as is believed; past when none runs
    usual_seconds: float  # that jobs are believed to take on average, those that run and the first that wait
    waiting_work: float  # thousandths of cpus times seconds that these first ones ask for
    longest_seconds: float  # the most that one of these first ones is believed to take
    number: int  # of the head, counted from 0 in order of arrival
    type: int  # of the head: its place in the list of types counted from 1, 0 when it is not there
    job_milli_cpus: int  # of one executor
    job_memory_mib: int
    executors: int  # of the whole job
    left: int  # of them to be placed yet
    arrival: float
    seconds: float  # that the whole job is believed to take when placed well
    prefers: int  # ANYWHERE, SPREAD or CONSOLIDATE
    untouched: bool  # none was placed by this decision yet
    placed: SmallIntArray  # [P] VMs of the head's executors that have theirs
    # Of the jobs that wait behind the head, in their order, at least those that are shown; [Q].
    next_type: IntArray
    next_milli_cpus: IntArray
    next_memory_mib: IntArray
    next_executors: IntArray


@njit(inline=True)
def share_of(value: float, half: float) -> float:
    """Map an unbounded number to 0 to 1: one half at `half`, and 0 for negative numbers."""
    return value / (value + half) if value > 0.0 else 0.0


@njit(inline=True)
def room_on(scene: Scene, vm: int) -> int:
    """Number of executors of the head that fit on the VM now."""
    free_cpus, free_memory = scene.free_milli_cpus[vm], scene.free_memory_mib[vm]
    if scene.left == 0 or free_cpus < scene.job_milli_cpus or free_memory < scene.job_memory_mib:
        return 0
    return int(min(free_cpus // scene.job_milli_cpus, free_memory // scene.job_memory_mib))
