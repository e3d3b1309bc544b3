"""Executors that are moved so that VMs of pools close: the VMs that are tried, the new places, the savings.

Numbers in, numbers out, the same in a simulation and in the daemon. `environment.pools.Consolidation` states
the rules; `environment.simulation.faults.consolidation` and `environment.model.vm_moves` apply them.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Generic, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from conf.defaults import UNKNOWN_DURATION
from conf.units import SECONDS_PER_HOUR
from environment.view import RunningJob

#: A job, as its caller names it.
Job = TypeVar("Job")
BoolArray = NDArray[np.bool_]
FloatArray = NDArray[np.float64]

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


class VmUse(NamedTuple, Generic[Job]):
    """Until when VMs are believed to be used (seconds), and dollars an hour that a longer use of each costs.

    `until` and `prices` are float64 [N], `ends` has the believed end of each job that may be moved.
    """

    until: FloatArray
    prices: FloatArray
    ends: Mapping[Job, float]


class Packing(NamedTuple, Generic[Job]):
    """A VM by job and number of an executor, executors without a VM, and the dollars of longer use of VMs."""

    to: dict[Job, dict[int, int]]
    rest: list[MovableExecutor[Job]]
    longer: float


def believed_end(job: RunningJob, now: float) -> float:
    """Believed end of a running job, seconds; of unknown duration, it goes on as long as it has lasted."""
    end = job.end_at(now)
    return now + max(now - job.started_at, UNKNOWN_DURATION) if end is None else end


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
    use: VmUse[Job] | None = None,
) -> Packing[Job]:
    """The fullest VM with room for each executor, the largest first; with `use`, the one that costs least.

    `free` has the milli-cpus and MiB of each VM, int64 [2, N], and is not changed. VMs are those of `there`
    that do not bar the job, bool [N] each.
    """
    free = free.copy()
    until = None if use is None else use.until.copy()
    to, rest, longer = dict[Job, dict[int, int]](), list[MovableExecutor[Job]](), 0.0
    for each in sorted(executors, key=lambda each: (-each.milli_cpus, -each.memory_mib, each.number)):
        fits = there & (free[0] >= each.milli_cpus) & (free[1] >= each.memory_mib) & ~barred(each.job)
        if not fits.any():
            rest.append(each)
            continue
        if use is not None and until is not None:
            end = use.ends[each.job]
            cost = np.where(fits, np.maximum(end - until, 0.0) * use.prices, np.inf)
            longer += float(cost.min()) / SECONDS_PER_HOUR
            fits &= cost <= cost.min()
        vm = int(np.argmin(np.where(fits, free[0], np.iinfo(np.int64).max)))
        if use is not None and until is not None:
            until[vm] = max(float(until[vm]), use.ends[each.job])
        free[:, vm] -= each.milli_cpus, each.memory_mib
        to.setdefault(each.job, {})[each.number] = vm
    return Packing(to, rest, longer)


def gain(saved: float, repeated: float, per_core: float, longer: float) -> float:
    """Dollars that a move saves: of so many `saved` by VMs that close, less those that it costs.

    `repeated` are the core-seconds of work that are done again, at `per_core` dollars for a core and hour;
    `longer` are the dollars of other VMs that boot, or are used longer.
    """
    return saved - repeated * per_core / SECONDS_PER_HOUR - longer


def most_at_once(is_open: int, moving: int) -> int:
    """How many VMs may close together where so many are open, and so many are being emptied."""
    return math.ceil(AT_ONCE * is_open) - moving
