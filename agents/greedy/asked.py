"""Inputs of the pricing of placements, as arrays for compiled code: VMs, waiting jobs, aim, scratch.

`greedy_policy.py` builds these from a view, `playing.py` from the kernel's arrays.
"""

from typing import NamedTuple

import numpy as np

from environment.kernel.state import BoolArray
from environment.types import FloatArray, IntArray


class PricingScene(NamedTuple):
    """The VMs. Their free resources change as waiting jobs are assigned their future VMs."""

    free: IntArray  # [2, N] milli cpus and MiB
    capacity: FloatArray  # [2, N] the same
    held: FloatArray  # [N] for how long each is paid for anyway
    boots: FloatArray  # [N] in how many seconds each would be up; 0 if it is
    closed: BoolArray  # [N]
    idle: FloatArray  # [N] for how many seconds each is kept while it is not held
    #: [N] a number for each, equal of those that have and cost the same; [0] where none is given.
    kind: IntArray
    #: [S] VMs, ascending: all that have room now for one of the jobs, and matter. Of the others, free
    #: resources and the time for which they are held are given only for those on which an executor ends.
    near: IntArray


class Jobs(NamedTuple):
    """The waiting jobs, in order."""

    executors: IntArray  # [M] how many
    size: IntArray  # [2, M] milli cpus and MiB of one
    prefers: IntArray  # [M]
    duration: FloatArray  # [M] seconds when placed well
    #: [M] standard deviation of the logarithm of the duration, where that is not known; 0 where it is.
    tail: FloatArray
    patience: FloatArray  # [M] for how many seconds from now it may be held back
    like: IntArray  # [M] the first job that is like it in all of this; itself, if none before it is
    price: FloatArray  # [M, N] dollars per second of each VM to the job; [1, N] where it is the same to all
    cheapest: FloatArray  # [M or 1, 2] the least of it for a milli cpu, and for a MiB, of a VM that is full
    most: IntArray  # [M, N] executors by their other resources; [0, N] where no job requests others


class Aim(NamedTuple):
    """Weights of the objective."""

    #: Of cost and of time, each as a multiple of the job's usual one.
    cost_weight: float
    time_weight: float
    #: Dollars per second of a core, on average.
    price_per_core: float
    #: How many times longer a job takes where it is badly placed.
    penalty: float
    #: The share of a VM held longer that other jobs will use, of the rest that the job leaves.
    shared: float
    #: The worth of room on a VM that is held anyway, as a share of its price.
    room: float


class Work(NamedTuple):
    """Scratch arrays, and the result: the VMs of placements and the number of executors on each."""

    free: IntArray  # [2, N]
    room: IntArray  # [N]
    left: IntArray  # [N]
    open: IntArray  # [N] VMs with room, ascending
    some: IntArray  # [N] those of them that are looked at
    each: FloatArray  # [N] dollars that an executor adds on the VM, where as many take it as the next says
    takes: IntArray  # [N]
    full: FloatArray  # [2, N] the same where as many take it as can; where the job is badly placed, or well
    vms: IntArray  # [4, E]: the chosen one, the best now, the best later, the one that is tried
    taken: IntArray  # [4, E]
    used: IntArray  # [4] how many VMs
    until: FloatArray  # [4] when the job would end
    dollars: FloatArray  # [4] its addition to the bill
    begins: FloatArray  # [M] when each job would begin that waits
    fits: BoolArray  # [M] whether each could be placed now
    waits: BoolArray  # [M] whether each had better wait though it fits
    wanted: FloatArray  # [N] when the last of them would begin on each VM; 0 if none does
    listed: IntArray  # [2, K] by kind of VMs: the number of listed VMs that are not held, and their room
    turn: IntArray  # [2] the job whose turn it is, and the best placed one of those before it
    #: [3] the addition of the latter's placement, the addition of the best placement now of the former (NaN
    #: while unknown), and the number of seconds for which the ends of executors have to be known.
    values: FloatArray
    #: [E] dollars that executors of the job whose turn it is add at least, the cheapest first, wherever there
    #: is room so far.
    least: FloatArray


def blank_work(vms: int, executors: int, jobs: int, kinds: int) -> Work:
    """Arrays to choose a job, by the largest numbers of jobs, executors, VMs and known kinds of VMs."""
    return Work(
        free=np.zeros((2, vms), np.int64),
        room=np.zeros(vms, np.int64),
        left=np.zeros(vms, np.int64),
        open=np.zeros(vms, np.int64),
        some=np.zeros(vms, np.int64),
        each=np.zeros(vms),
        takes=np.zeros(vms, np.int64),
        full=np.zeros((2, vms)),
        vms=np.zeros((4, executors), np.int64),
        taken=np.zeros((4, executors), np.int64),
        used=np.zeros(4, np.int64),
        until=np.zeros(4),
        dollars=np.zeros(4),
        begins=np.full(jobs, np.inf),
        fits=np.zeros(jobs, np.bool_),
        waits=np.zeros(jobs, np.bool_),
        wanted=np.zeros(vms),
        listed=np.zeros((2, kinds), np.int64),
        turn=np.array((0, -1)),
        values=np.array((np.inf, np.nan, 0.0)),
        least=np.zeros(executors),
    )
