"""Running jobs and the holdings of each of their executors, as arrays: candidates for preemption.

A daemon's model builds them from its records, a simulation from its episode; `preemption` finds the jobs
that give way.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from environment.resource_arrays import ResourceArrays
from environment.resources import CPUS, THOUSANDTHS, Resources
from environment.types import FloatArray, IntArray, Job

BoolArray = NDArray[np.bool_]


class RunningExecutor(NamedTuple):
    """An executor, or a driver on the cluster (`number` None), on the VM with this index, -1 for none known.

    It holds `size` since `since` (seconds). One that is `going` ends by itself: another has its place
    already, or its resources are reserved for a job.
    """

    number: int | None
    vm: int
    since: float
    size: Resources
    going: bool = False


@dataclass(frozen=True, slots=True)
class Holder:
    """A job that holds something, since when (seconds), and when it is believed to end (None: not known).

    It can do without `spare` of its executors. `whole` tells whether it may be stopped and start again later;
    until `rests_until` it is left alone.
    """

    job: Job
    started_at: float
    ends_at: float | None
    held: Sequence[RunningExecutor]
    spare: int = 0
    whole: bool = False
    rests_until: float = 0.0


@dataclass(frozen=True, eq=False)
class Holders:
    """J jobs and E executors and drivers, those of a job together; arrays as their fields' names say.

    `of` [E] has the job's number, `vm` [E] the VM's index, `since` [E], `driver` and `going` [E] are as in
    `RunningExecutor`; `ends_at` [J] is NaN where it is not known.
    """

    jobs: tuple[Job, ...]
    started_at: FloatArray
    ends_at: FloatArray
    rests_until: FloatArray
    spare: IntArray
    whole: BoolArray
    numbers: tuple[int | None, ...]
    of: IntArray
    vm: IntArray
    since: FloatArray
    driver: BoolArray
    going: BoolArray
    sizes: ResourceArrays

    @classmethod
    def of_jobs(cls, holders: Sequence[Holder]) -> "Holders":
        """Build the arrays of these jobs."""
        holders = sorted(holders, key=lambda holder: (holder.job.submitted_at, holder.job.id))
        rows = [held for holder in holders for held in holder.held]
        names = {name for size in {id(held.size): held.size for held in rows}.values() for name in size}
        count = len(rows)
        return cls(
            tuple(holder.job for holder in holders),
            np.array([holder.started_at for holder in holders], np.float64),
            np.array([np.nan if h.ends_at is None else h.ends_at for h in holders], np.float64),
            np.array([holder.rests_until for holder in holders], np.float64),
            np.array([holder.spare for holder in holders], np.int64),
            np.array([holder.whole for holder in holders], np.bool_),
            tuple(held.number for held in rows),
            np.repeat(np.arange(len(holders)), [len(holder.held) for holder in holders]),
            np.fromiter((held.vm for held in rows), np.int64, count),
            np.fromiter((held.since for held in rows), np.float64, count),
            np.fromiter((held.number is None for held in rows), np.bool_, count),
            np.fromiter((held.going for held in rows), np.bool_, count),
            ResourceArrays.of([held.size for held in rows], names),
        )

    @cached_property
    def _queues(self) -> tuple[tuple[str, ...], IntArray]:
        """The queues of the jobs, and which of these is that of each, [J]."""
        number: dict[str, int] = {}
        of = [number.setdefault(job.queue, len(number)) for job in self.jobs]
        return tuple(number), np.array(of, np.int64)

    def of_queues(self, which: Callable[[str], bool]) -> BoolArray:
        """The jobs of queues, by path, that are such; bool [J]."""
        queues, of = self._queues
        found: BoolArray = np.array([which(queue) for queue in queues], np.bool_)[of]
        return found

    @cached_property
    def _inside(self) -> Mapping[str, list[int]]:
        """Numbers of the `_queues` in or below each queue, by path."""
        found: dict[str, list[int]] = {}
        for number, queue in enumerate(self._queues[0]):
            names = queue.split(".")
            for count in range(1, len(names) + 1):
                found.setdefault(".".join(names[:count]), []).append(number)
        return found

    @cached_property
    def _held(self) -> Mapping[str, IntArray]:
        """Holdings of executors that are not going, thousandths, by name and queue number as in `_queues`."""
        queues, of = self._queues
        rows = np.flatnonzero(~self.going)
        found = {name: np.zeros(len(queues), np.int64) for name in self.sizes.thousandths}
        for name, sums in found.items():
            np.add.at(sums, of[self.of[rows]], self.sizes.get(name)[rows])
        return found

    def members(self, path: str) -> BoolArray | None:
        """The jobs of a queue and those below it, bool [J]; None when there are none."""
        if path not in self._inside:
            return None
        queues, of = self._queues
        which = np.zeros(len(queues), np.bool_)
        which[self._inside[path]] = True
        found: BoolArray = which[of]
        return found

    def held_in(self, path: str, name: str) -> int:
        """Resource that jobs of a queue and those below it hold and do not give up, thousandths."""
        held = self._held.get(name)
        return 0 if held is None else int(held[self._inside.get(path, [])].sum())

    def are(self, jobs: IntArray) -> BoolArray:
        """Which jobs are these, by number; bool [J]."""
        found = np.zeros(len(self.jobs), np.bool_)
        found[jobs] = True
        return found

    @cached_property
    def index(self) -> Mapping[str, int]:
        """The number of each job by its id."""
        return {job.id: number for number, job in enumerate(self.jobs)}

    @cached_property
    def drained(self) -> FloatArray:
        """Share of each executor's work that is repeated after a drain; float64 [E]."""
        shares: FloatArray = np.array([job.rework.drained for job in self.jobs], np.float64)[self.of]
        return shares

    @cached_property
    def priorities(self) -> IntArray:
        """Priority of each job; int64 [J]."""
        return np.array([job.priority for job in self.jobs], np.int64)

    def core_seconds(self, now: float) -> FloatArray:
        """Core-seconds of each executor so far; float64 [E]."""
        found: FloatArray = self.sizes.get(CPUS) / THOUSANDTHS * np.maximum(now - self.since, 0.0)
        return found

    def freed(self, rows: BoolArray | IntArray, name: str, vms: int) -> IntArray:
        """Amount of a resource that these executors hold, thousandths by VM; int64 [N]."""
        found = np.zeros(vms + 1, np.int64)
        np.add.at(found, self.vm[rows], self.sizes.get(name)[rows])  # the last is for unknown VMs
        return found[:-1]
