"""Running jobs of an episode with dynamic allocation: executors that they request, and that they release.

As in the daemon, a job asks in turn: it stands among the new jobs by the time at which it asked, and behind
them once it found no room for a while.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from environment.kernel.completion_heap import reorder_ends
from environment.kernel.leases import READY
from environment.kernel.state import Batch, SmallIntArray
from environment.model.messages.options import GROWTH_PATIENCE
from environment.resources import Resources
from environment.simulation.dynamic.allocation import Allocation
from environment.simulation.dynamic.scale_up import SimulatedGrowth
from environment.simulation.dynamic.stage_times import core_seconds_of, first_start, stages_of
from environment.simulation.faults.missing_executors import MissingExecutors
from environment.types import Job, PlacementRequest
from environment.view import RunningJob
from profiles.job_profile import JobProfile


class DynamicJobs:
    """Jobs by their numbers in the kernel; `running` and `sizes` are the world's."""

    def __init__(
        self,
        batch: Batch,
        running: dict[int, RunningJob],
        sizes: dict[int, tuple[Resources, ...]],
        missing: MissingExecutors,
        growing: SimulatedGrowth,
        profiles: Mapping[str, JobProfile],
        idle: float,
    ) -> None:
        """`idle`: seconds after which a driver releases an idle executor."""
        self._batch, self._running, self._sizes = batch, running, sizes
        self._missing, self._growing, self._profiles, self._idle = missing, growing, profiles, idle
        self._allocations: dict[int, Allocation] = {}
        #: When each that waits for executors asked for them.
        self._asked_at: dict[int, float] = {}

    def __bool__(self) -> bool:
        return bool(self._allocations)

    def began(self, number: int, truth: Job, executors: int) -> None:
        """A job has started with so many executors; the kernel's end of it is set if it is dynamic."""
        if truth.dynamic is None:
            return
        profile, started = self._profiles[truth.type], float(self._batch.state.start[0, number])
        stages = stages_of(truth, profile)
        allocation = Allocation(stages, truth.cpus, truth.dynamic, truth.executors, self._idle, started)
        self._allocations[number] = allocation
        allocation.launch([started + first_start(profile)] * executors)
        self._show(number)

    def core_seconds(self, truth: Job) -> float:
        """The fewest core-seconds that a dynamic job takes, on any number of executors."""
        return core_seconds_of(truth, self._profiles[truth.type])

    def ended(self, number: int) -> None:
        """A job is over."""
        self._allocations.pop(number, None)
        self._asked_at.pop(number, None)

    def next_at(self) -> float:
        """When stages, executors or the turn of a job change next; infinity without any."""
        turns = (at + GROWTH_PATIENCE for at in self._asked_at.values())
        return min([*(each.next_change() for each in self._allocations.values()), *turns, math.inf])

    def move_until(self, until: float) -> list[int]:
        """Let drivers request and release executors until then; return the jobs that released some."""
        released = []
        for number, allocation in self._allocations.items():
            allocation.move_to(until)
            if places := allocation.releasable():
                self._release(number, allocation, places)
                released.append(number)
            self._show(number)
        return released

    def requests(self) -> Iterator[tuple[float, PlacementRequest]]:
        """Requests of drivers, each with the time at which it was made or stood behind the others again."""
        for number, asked_at in self._asked_at.items():
            if self._now >= asked_at + GROWTH_PATIENCE:  # as `next_at` rounds it
                self._asked_at[number] = asked_at = self._now
            running = self._running[number]
            count = self._allocations[number].missing
            yield asked_at, PlacementRequest(running.job, count, running.vm_ids, grows=True)

    def grow(self, number: int, placement: SmallIntArray, sizes: tuple[Resources, ...]) -> None:
        """More executors of a job are on these VMs."""
        running = self._growing.joined(number, placement, sizes)
        profile = self._profiles[running.job.type]
        start = profile.startup if profile.executor_start is None else profile.executor_start
        self._allocations[number].launch([self._ready(vm) + start for vm in placement.tolist()])
        self._asked_at.pop(number, None)
        self._changed(number, running)

    def _release(self, number: int, allocation: Allocation, places: Sequence[int]) -> None:
        present = self._missing.present(number)
        allocation.release(places)
        self._changed(number, self._growing.left(number, [present[place] for place in places]))

    def _changed(self, number: int, running: RunningJob) -> None:
        """The job goes on with these executors."""
        was = float(self._batch.state.end[0, number])
        self._sizes[number], self._running[number] = running.sizes, running
        self._show(number)
        left, before = float(self._batch.state.end[0, number]) - self._now, was - self._now
        expected = self._growing.expected(number, running, left / before if before > 0 else 1.0)
        self._running[number] = replace(running, expected=expected)

    def _show(self, number: int) -> None:
        """Set the end of the job, and see whether its driver waits for executors."""
        allocation = self._allocations[number]
        self._batch.state.end[0, number] = allocation.end()
        reorder_ends(self._batch, 0)
        if not allocation.missing:
            self._asked_at.pop(number, None)
        else:
            self._asked_at.setdefault(number, self._now)

    def _ready(self, vm: int) -> float:
        """When a VM is up."""
        leases = self._batch.machines.leases
        return max(self._now, float(leases[0, vm, READY])) if leases.shape[1] else self._now

    @property
    def _now(self) -> float:
        return float(self._batch.state.clock[0])
