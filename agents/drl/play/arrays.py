"""Arrays for simulations of learned policies: beliefs about jobs, their waits, and notes on decisions."""

from typing import NamedTuple

from agents.compiled.waits import JobBeliefs, WaitCounts, WaitLimits
from agents.drl.kernel.placing import Choices, QueuedJobs
from environment.kernel.state import BoolArray, SmallIntArray
from environment.types import FloatArray, IntArray

#: Deciders: the network; the guard; nobody, as none fits.
NETWORK, GUARD, NOBODY = range(3)


class NetworkBeliefs(NamedTuple):
    """Beliefs about jobs and the network's features of them, in order of arrival, [M] each."""

    jobs: JobBeliefs
    type: IntArray  # as the network tells them apart
    prefers: IntArray


class NetworkLimits(NamedTuple):
    """Constants of a simulation: limits, and the number of jobs to consider."""

    waits: WaitLimits
    considered: int
    wait_limit: int
    watched: int  # by the guard; 0 where there is none
    idle: float  # which share of the cpus must be for the guard to step in


class NetworkState(NamedTuple):
    """Variable state beside the kernel's."""

    counts: WaitCounts
    expects: FloatArray  # [M] expected durations of running jobs, by the kernel's numbers; NaN: unknown
    waits: IntArray  # [M] by arrival: how often it was held back while it was the oldest
    fits: BoolArray  # [W] whether each of the first that wait fits now
    fitting: BoolArray  # [K] the same by kind, as of the decision in `counts.noted`
    oldest: IntArray  # [2] by arrival: the oldest job, and how many were the oldest before
    stands: IntArray  # [3] the network's last decision to wait, or -1; how many waited then, and how many ran


class Space(NamedTuple):
    """Scratch arrays; their contents mean nothing between decisions but for the first.

    The caller allocates them: compiled code that allocates no arrays counts no references
    (`environment.kernel.compiled`).
    """

    runs: IntArray  # [M] the jobs that run, in the order in which they began
    running: IntArray  # [1] how many of these there are
    seen: IntArray  # [M] by the kernel's numbers: the decision at which a job was last seen to run
    numbers: IntArray  # [C] of the jobs that fit, in the queue
    gains: FloatArray  # [C]
    asked: QueuedJobs  # [C]
    shown: QueuedJobs  # [U + 1]
    busy_until: FloatArray  # [N]
    free_cpus: IntArray  # [N]
    free_memory: IntArray  # [N]
    held: IntArray  # [N]
    used: BoolArray  # [N]
    ready_at: FloatArray  # [0]
    is_open: IntArray  # [0]


class DecisionNotes(NamedTuple):
    """Notes for reporting decisions, [D] each."""

    by: SmallIntArray  # NETWORK, GUARD or NOBODY
    oldest: IntArray  # by arrival
    passed: IntArray  # how many older jobs are overtaken
    held_back: IntArray  # how often the oldest had been
    fitted: IntArray  # how many jobs the network could have placed
    waited: FloatArray  # seconds for which the job had fitted that the guard places
    idle: FloatArray  # which share of the cpus was, then
    begin: IntArray  # where its choices begin in the next
    choices: Choices  # of all executors and waits
    counts: IntArray  # [2] how many choices there are, and how many decisions the guard took
