"""Jobs of a simulation that began with fewer executors than they ask for, and get more while no job waits.

`environment.scale_up` decides when that pays, as for the daemon; this module applies it to an episode.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np

from environment.kernel.completion_heap import reorder_ends
from environment.kernel.resized_jobs import SparedResources, join_sized
from environment.kernel.state import Batch, SmallIntArray
from environment.resources import CPUS, Resources
from environment.scale_up import Grown, expected_of, more_executors, pays, with_more
from environment.simulation.faults.missing_executors import MissingExecutors
from environment.types import PlacementRequest
from environment.view import RunningJob

#: Of a job, by its number, on executors of these sizes and VMs: the seconds that it really takes.
Seconds = Callable[[int, Sequence[Resources], Sequence[str]], float]


class SimulatedGrowth:
    """Jobs that grow, by their numbers in the kernel; `running`, `given` and `sizes` are the world's."""

    def __init__(
        self,
        batch: Batch,
        spared: SparedResources,
        ids: Sequence[str],
        running: dict[int, RunningJob],
        given: dict[int, Resources],
        sizes: dict[int, tuple[Resources, ...]],
        missing: MissingExecutors,
        seconds: Seconds,
        *,
        as_daemon: bool,
        exact: bool,
        grows: bool,
    ) -> None:
        """`as_daemon`: beliefs about a job are those of a daemon; `exact`: the beliefs are true.

        `grows`: jobs that gave executors away get others.
        """
        self._grows = grows
        self._batch, self._spared, self._ids = batch, spared, ids
        self._running, self._given, self._sizes = running, given, sizes
        self._missing, self._seconds = missing, seconds
        self._as_daemon, self._exact = as_daemon, exact
        #: When each asked for more.
        self._asked_at: dict[int, float] = {}

    def __bool__(self) -> bool:
        return bool(self._asked_at)

    def look(self, number: int) -> None:
        """See whether a job that has just started, or got executors, had better have more."""
        running = self._running[number]
        self._asked_at.pop(number, None)
        if running.job.fewest < running.job.executors and more_executors(running.job, running.taken):
            self._asked_at[number] = self._now

    def ended(self, number: int) -> None:
        """A job is over."""
        self._asked_at.pop(number, None)

    def requests(self) -> Iterator[PlacementRequest]:
        """Present requests of jobs for more executors, in the order in which they were made."""
        now = self._now
        order = sorted((at, self._running[number].job.id, number) for number, at in self._asked_at.items())
        for at, _, number in order:
            running = self._running[number]
            if at >= now:
                continue  # as in the daemon, whose round is about the jobs that waited when it began
            job, had = running.job, running.taken
            if self._missing.lacks(number) or not (more := more_executors(job, had)):
                continue
            end = running.end_at(now)
            if pays(job, had, more, None if end is None else end - now):
                sizes = () if had[-1] == job.size else (had[-1],) * more
                yield PlacementRequest(job, more, running.vm_ids, False, 0, sizes, grows=True)

    def grow(self, number: int, placement: SmallIntArray, sizes: tuple[Resources, ...]) -> None:
        """Place more executors of a job on these VMs, which shortens the rest of it accordingly."""
        self._change(number, self.joined(number, placement, sizes), 0.0)
        self.look(number)

    def joined(self, number: int, placement: SmallIntArray, sizes: tuple[Resources, ...]) -> RunningJob:
        """Bring more executors of a job onto these VMs; the job with them, as if its end stayed."""
        running = self._running[number]
        had, vm_ids = running.taken, (*running.vm_ids, *(self._ids[vm] for vm in placement.tolist()))
        self.join(number, placement, sizes)
        grown = (*running.grown, Grown(self._now, len(had), len(vm_ids)))
        return replace(running, vm_ids=vm_ids, sizes=(*had, *sizes), grown=grown)

    def join(self, number: int, placement: SmallIntArray, sizes: tuple[Resources, ...]) -> None:
        """More executors are there, in the places of some that left or in new ones."""
        back = self._missing.take_back(number, placement.tolist(), sizes)
        placement, sizes = placement[back:], sizes[back:]
        if not sizes:
            return
        first = int(self._batch.jobs.first[0, number] + self._batch.jobs.executors[0, number])
        cpus = np.array([size.get(CPUS) for size in sizes], np.int64)
        memory = np.array([size.memory_mib for size in sizes], np.int64)
        join_sized(self._batch, self._spared, 0, number, placement, cpus, memory)
        self._given |= dict(enumerate(sizes, first))
        self._missing.joined(number, range(first, first + len(sizes)))

    def shrink(self, number: int, executors: Sequence[int]) -> None:
        """These executors leave the job for good: the rest of it takes longer, and some is done again."""
        was, start = self._running[number], float(self._batch.state.start[0, number])
        done = sum(self._now - self._missing.since.get(at, start) for at in executors)
        again = was.job.rework.drained * done / len(was.vm_ids)
        self._change(number, self.left(number, executors), again)
        if self._grows:
            self.look(number)

    def left(self, number: int, executors: Sequence[int]) -> RunningJob:
        """Take these executors of a job away for good; the job without them, as if its end stayed."""
        running = self._running[number]
        kept = [at not in executors for at in self._missing.present(number)]
        self._missing.give(number, executors)
        taken = tuple(size for size, stays in zip(running.taken, kept, strict=True) if stays)
        vm_ids = tuple(vm_id for vm_id, stays in zip(running.vm_ids, kept, strict=True) if stays)
        grown = (*running.grown, Grown(self._now, len(kept), len(taken)))
        return replace(running, vm_ids=vm_ids, sizes=taken, grown=grown)

    def _change(self, number: int, running: RunningJob, again: float) -> None:
        """The job goes on with these executors; so many seconds of it are done again."""
        state, was, taken = self._batch.state, self._running[number], running.taken
        sooner = self._seconds(number, taken, running.vm_ids) / self._seconds(number, was.taken, was.vm_ids)
        left = float(state.end[0, number]) - self._now + again
        state.end[0, number] = self._now + left * sooner
        reorder_ends(self._batch, 0)
        own = () if taken == running.job.asked else taken
        self._sizes[number] = own
        running = replace(running, sizes=own)
        self._running[number] = replace(running, expected=self.expected(number, running, sooner))

    def expected(self, number: int, running: RunningJob, sooner: float) -> float | None:
        """Seconds that a job is believed to take now, from its start; the rest is multiplied by `sooner`."""
        if self._exact:
            return float(self._batch.state.end[0, number] - self._batch.state.start[0, number])
        if self._as_daemon:
            on, since = running.vm_ids, running.started_at
            return expected_of(running.job, running.taken, on, since, running.grown)
        if running.expected is None:
            return None
        return with_more(running.expected, self._now - running.started_at, sooner)

    @property
    def _now(self) -> float:
        return float(self._batch.state.clock[0])
