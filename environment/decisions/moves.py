"""Executors that are moved so that VMs of pools close: which VMs are tried, what fits where, what it saves.

Numbers in, numbers out, the same in a simulation and in the daemon. `environment.pools.Consolidation` states
the rules; `environment.simulation.faults.consolidation` and `environment.model.vm_moves` apply them.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Generic, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from conf.units import SECONDS_PER_HOUR

#: A job, as its caller names it.
Job = TypeVar("Job")
BoolArray = NDArray[np.bool_]

#: Karpenter's default: the share of all open VMs that is disrupted at a time, rounded up.
AT_ONCE = 0.1
#: Seconds from one move to the next: Karpenter checks for so long that a move is still right
#: (`consolidationTTL`), and makes one at a time.
PAUSE = 15.0


class MovableExecutor(NamedTuple, Generic[Job]):
    """An executor of cpus and memory alone; `number` tells it from the job's others."""

    job: Job
    number: int
    milli_cpus: int
    memory_mib: int


def in_turn(candidates: Sequence[int], most: int) -> Iterator[Sequence[int]]:
    """VMs that are tried together: the first ones, `most` at a time and ever fewer, then each alone."""
    yield from (candidates[:count] for count in range(min(most, len(candidates)), 1, -1))
    if most > 0:
        yield from ([vm] for vm in candidates)


def packed(
    executors: Iterable[MovableExecutor[Job]],
    free: NDArray[np.int64],
    there: BoolArray,
    barred: Callable[[Job], BoolArray],
) -> tuple[dict[Job, dict[int, int]], list[MovableExecutor[Job]]]:
    """The fullest VM with room for each executor, the largest first; and the executors without a VM.

    `free` has the milli-cpus and MiB of each VM, int64 [2, N], and is not changed. VMs are those of `there`
    that do not bar the job, bool [N] each. The answer has a VM by job and number.
    """
    free = free.copy()
    to, rest = dict[Job, dict[int, int]](), list[MovableExecutor[Job]]()
    for each in sorted(executors, key=lambda each: (-each.milli_cpus, -each.memory_mib, each.number)):
        fits = there & (free[0] >= each.milli_cpus) & (free[1] >= each.memory_mib) & ~barred(each.job)
        if not fits.any():
            rest.append(each)
            continue
        vm = int(np.argmin(np.where(fits, free[0], np.iinfo(np.int64).max)))
        free[:, vm] -= each.milli_cpus, each.memory_mib
        to.setdefault(each.job, {})[each.number] = vm
    return to, rest


def gain(saved: float, seconds: float, repeated: float, per_core: float, opening: float = 0.0) -> float:
    """Dollars that a move saves: `saved` dollars an hour for so many seconds, less what it costs.

    `repeated` are the core-seconds of work that are done again, at `per_core` dollars for a core and hour;
    `opening` are the dollars of a new VM's boot.
    """
    return (saved * seconds - repeated * per_core) / SECONDS_PER_HOUR - opening


def most_at_once(is_open: int, moving: int) -> int:
    """How many VMs may close together where so many are open, and so many are being emptied."""
    return math.ceil(AT_ONCE * is_open) - moving
