"""Sizes of a simulation's jobs that leave them to Stoker, by the rule of the daemon.

A size is chosen as of the job's submission, from jobs that had ended by then, and from runs that were known
before the simulation began. The simulator knows no peaks of memory and no failures for lack of it.
"""

from bisect import insort
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple

from environment.decisions.auto_sizes import (
    MOST_OTHERS,
    MOST_RUNS,
    OtherTypes,
    chosen,
    counts_by_curve,
    names_type,
    shapes_on,
    sized_by_curve,
)
from environment.decisions.sizing import smallest
from environment.kernel.arrays import refusals
from environment.queues.job_limits import never, too_dear
from environment.resources import CPUS, MEMORY, Resources, total
from environment.simulation.durations.endless_jobs import kept_off
from environment.simulation.durations.fitted_model import Pace
from environment.simulation.durations.job_times import seconds_on
from environment.simulation.options import SimulationOptions
from environment.types import Job, Vm
from profiles.shapes.candidates import OpenShape
from profiles.shapes.errors import KnownTypes
from profiles.shapes.runs import JobShape, ShapeError, ShapeRun
from profiles.shapes.sources import UNPRICED, UnsizedRun, sized
from profiles.workloads.workload import AutoSizeError, Workload, checked_auto

#: MiB of an executor between which memory should make a difference.
_LEAST_MIB, _MOST_MIB = 1, 1 << 30


class _EndedRun(NamedTuple):
    """A run of the simulation: the place of its job in order of submission, and when it ended."""

    place: int
    ended_at: float
    run: UnsizedRun


class AutoJobs:
    """Chooses the sizes of one episode's jobs that leave them open, and learns from those that end."""

    def __init__(
        self,
        workload: Workload,
        jobs: Sequence[Job],
        rooms: Sequence[tuple[Vm, ...]],
        options: SimulationOptions,
        pace: Pace | None,
    ) -> None:
        """`jobs` are those of the workload, with their true durations.

        All VMs of any of the `rooms` may be open at once. AutoSizeError where memory is left open of a job
        whose duration does not depend on it.
        """
        self._rooms, self._options, self._pace = rooms, options, pace
        self._vms = tuple({vm.id: vm for room in rooms for vm in room}.values())
        self._places = {job.id: place for place, job in enumerate(jobs)}
        self._within: dict[str, OpenShape] = {}
        #: The jobs, with the numbers of executors that follow from curves of their types.
        self.jobs = tuple(
            self._opened(job, checked_auto(of.auto)) if of.auto else job
            for of, job in zip(workload.jobs, jobs, strict=True)
        )
        #: Jobs, by id, that no VM has room for, and why.
        self.refused: dict[str, str] = {}
        self._most: dict[tuple[OpenShape, str], int] = {}
        for job in self.jobs:
            if job.id in self._within:
                try:
                    self._most_of(job)
                except ShapeError as error:
                    self.refused[job.id] = str(error)
        self._runs: list[_EndedRun] = []
        self._before = [UnsizedRun(run.type, None, run.shape, run.seconds) for run in options.runs[::-1]]
        self._others = OtherTypes()

    def __contains__(self, job_id: str) -> bool:
        return job_id in self._within

    def __bool__(self) -> bool:
        return bool(self._within)

    def _opened(self, job: Job, auto: Mapping[str, tuple[float | None, float | None]]) -> Job:
        profile = self._options.profiles.get(job.type)
        if profile is not None and sized_by_curve(auto, measured=True):
            fewest, most = counts_by_curve(
                profile.curve, auto["executors"], job.cpus, job.memory_mib, job.min_executors
            )
            return replace(self._with(job, most, job.cpus, job.memory_mib), min_executors=fewest)
        if "memory" in auto:
            self._check_memory(job)
        least, most_executors = auto.get("executors", (job.executors,) * 2)
        self._within[job.id] = OpenShape.of(
            (max(least or 1, job.min_executors or 1), most_executors),
            auto.get("cpus", (job.cpus,) * 2),
            auto.get("memory", (job.memory_mib,) * 2),
        )
        return job

    def _check_memory(self, job: Job) -> None:
        least, most = (
            self._with(job, job.executors, job.cpus, mib).expected_duration for mib in (_LEAST_MIB, _MOST_MIB)
        )
        if least == most:
            raise AutoSizeError(
                f"{job.id}: auto: memory: memory has no effect on jobs of type {job.type} here; "
                "leave it out of auto, or simulate an effect (--durations, or --profiles with a "
                "working_set and spilling)"
            )

    def reserved(self, job: Job) -> Job:
        """The job with the most executors that may be chosen for it."""
        return replace(job, executors=self._most_of(job)) if job.id in self else job

    def _most_of(self, job: Job) -> int:
        """The most executors that may be chosen for a job; ShapeError where no VM has room for any."""
        key = self._within[job.id], job.spot
        if key not in self._most:
            self._most[key] = max(shape.executors for shape in shapes_on(self._vms, job.spot, key[0]))
        return self._most[key]

    def sized(self, truth: Job, belief: Job, vms: Sequence[Vm]) -> tuple[Job, Job]:
        """A job that arrives, as it is and as it is believed to be, with the size that is chosen for it.

        It is chosen for `vms`, those that are there; for all where these have no room for it.
        """
        at, within = truth.submitted_at, self._within[truth.id]
        own = self._own(truth.type, at) if names_type(truth.type) else []
        known = self._others.beside(truth.type, (), at, partial(self._newest, at)) if own else KnownTypes([])
        choose = partial(chosen, own, known, spot=truth.spot, within=within, beta=self._options.sizes.beta)
        try:
            shape = choose(vms=vms, fits=partial(self._fits, truth, vms)).shape
        except ShapeError:
            shape = choose(vms=self._vms, fits=partial(self._fits, truth, self._vms)).shape
        found = kept_off((self._shaped(truth, shape),), self._vms)[0]
        return found, kept_off((self._believed(belief, truth, found),), vms)[0]

    def _own(self, type_name: str, at: float) -> list[ShapeRun]:
        runs = [run for run in self._known_at(at) if run.type == type_name]
        return sized(runs[:MOST_RUNS])

    def _newest(self, at: float) -> list[ShapeRun]:
        return sized([*self._known_at(at)][:MOST_OTHERS])

    def _known_at(self, at: float) -> Iterator[UnsizedRun]:
        """All runs that had ended, the newest job first."""
        yield from (each.run for each in reversed(self._runs) if each.ended_at <= at)
        yield from self._before

    def ended(self, job: Job, sizes: Sequence[Resources], started_at: float, ended_at: float) -> None:
        """Learn from a job that ran on the same executors from its start to its end."""
        each, seconds = sizes[0], ended_at - started_at
        shape = JobShape("", len(sizes), each.cpus, each.memory_mib / 1024, UNPRICED)
        run = UnsizedRun(job.type, None, shape, seconds)
        insort(self._runs, _EndedRun(self._places[job.id], ended_at, run))

    def _fits(self, job: Job, vms: Sequence[Vm], shape: JobShape) -> bool:
        """Whether the job could run at this size on these VMs, and within the limits of its queue."""
        found, sharing = self._shaped(job, shape), self._options.sharing
        there = {vm.id for vm in vms}
        rooms = ([vm for vm in room if vm.id in there] for room in self._rooms)
        if all(refusals((found,), room) for room in rooms):
            return False
        line = sharing.queues.line(job.queue) if sharing and sharing.queues else ()
        parts = [(smallest(found.size, found.min_cpus), found.fewest)]
        return not (never(line, total(size * count for size, count in parts)) or too_dear(line, parts, vms))

    def _shaped(self, job: Job, shape: JobShape) -> Job:
        found = self._with(job, shape.executors, shape.cores, round(shape.memory_gib * 1024))
        return self._options.sizes.opened(found)

    def _with(self, job: Job, executors: int, cpus: float, memory_mib: int) -> Job:
        """The job with another size, and the seconds that it truly takes then."""
        size = job.size.without((CPUS, MEMORY)) + Resources.of(cpus, memory_mib)
        seconds = seconds_on(job, (size,) * executors, self._options)
        found = replace(job, size=size, executors=executors, expected_duration=seconds)
        return found if self._pace is None else self._pace.best((found,), len(self._vms))[0]

    def _believed(self, belief: Job, truth: Job, found: Job) -> Job:
        """The belief about the job at the size that was found: its error is the same at any size."""
        seconds = belief.expected_duration
        if self._options.belief.exact:
            seconds = found.expected_duration
        elif seconds is not None and self._options.belief.kind != "constant":
            seconds *= (found.expected_duration or 0.0) / (truth.expected_duration or 1.0)
        return replace(
            belief,
            size=found.size,
            executors=found.executors,
            min_executors=found.min_executors,
            min_cpus=found.min_cpus,
            expected_duration=seconds,
        )
