"""A logged application as a job: its size, and its duration on other numbers of cores, stage by stage."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from audit.applications import Executor, LoggedApplication, Stage
from audit.costs import ApplicationCost
from audit.held_amounts import FloatArray, held_until
from audit.names import type_of
from audit.prices import Prices
from profiles.job_profile import MOST_STAGES, StageShape
from profiles.workloads.workload import MOST

#: Of a duration; shorter ones cannot be simulated.
_LEAST = 0.1


@dataclass(frozen=True, slots=True, eq=False)
class StageGroups:
    """Stages of a run that overlap, as one: [G] each. Core-seconds of a task are seconds by its cpus."""

    #: From the first submission to the last end.
    seconds: FloatArray
    #: Core-seconds of all tasks.
    work: FloatArray
    #: Those in which executors warmed up, each for itself.
    warming: FloatArray
    #: Seconds of the longest task.
    longest: FloatArray
    #: Seconds that a task takes on average.
    mean: FloatArray
    #: Cores that the tasks can use at once.
    width: FloatArray
    #: Mean cores of the executors that were there.
    cores: FloatArray
    #: Stage with the longest task, by its place in the application's stages.
    stage: NDArray[np.int64]
    #: Seconds since the application's start at which it began.
    begins: FloatArray
    #: Whether a stage of it wrote shuffle files.
    shuffles: NDArray[np.bool_]

    def least(
        self, cores: FloatArray, longest: FloatArray | None = None, work: FloatArray | None = None
    ) -> FloatArray:
        """Seconds below which no schedule stays on so many cores: the longest task, or all of them."""
        return np.maximum(
            self.longest if longest is None else longest,
            (self.work if work is None else work) / np.maximum(np.minimum(cores, self.width), 1e-9),
        )

    def seconds_at(self, ratio: float) -> float:
        """Seconds of all groups with `ratio` times the executors, of which each one with a task warms up."""
        if not len(self.seconds):
            return 0.0
        warm = np.minimum(ratio, np.maximum(self.width / self.cores, 1.0))
        work = self.work + self.warming * (warm - 1)
        slower = self.least(self.cores * ratio, work=work) / np.maximum(self.least(self.cores), 1e-9)
        return float(self.seconds @ slower)


@dataclass(frozen=True)
class JobRun:
    """An application that ran, as a job with equal executors. Frozen, but for what is computed once."""

    cost: ApplicationCost
    #: Runs of the same application are of one type.
    type: str
    #: The mean number of executors while it ran, at least 1, and no more than there were at once.
    executors: int
    #: Of an executor: its cores, memory, GPUs, and dollars an hour.
    cpus: float
    memory_mib: int
    gpus: float
    per_hour: float
    #: Empty where none is known.
    vm_type: str

    @property
    def application(self) -> LoggedApplication:
        """What its log has."""
        return self.cost.application

    @property
    def seconds(self) -> float:
        """From the start of the application to its end."""
        return max(self.application.seconds, _LEAST)

    @property
    def cores(self) -> float:
        """Of all its executors."""
        return self.executors * self.cpus

    @property
    def ahead(self) -> float:
        """Seconds for which an executor is paid before the application starts, on average."""
        started, executors = self.application.started_at, self.application.executors
        return sum(max(0.0, started - each.added_at) for each in executors) / len(executors)

    @property
    def startup(self) -> float:
        """Seconds until its first task; 0 when it had none."""
        working = self.application.working_at
        return 0.0 if working is None else max(0.0, working - self.application.started_at)

    @property
    def replayed(self) -> float:
        """Dollars of its equal executors for its duration: what a simulation of it costs."""
        return self.executors * self.seconds * self.per_hour / 3600

    @cached_property
    def groups(self) -> StageGroups:
        """Its stages, those together that overlap."""
        return _groups(self.application)

    def stages(self) -> tuple[StageShape, ...]:
        """Shapes of its stages, for a simulation of dynamic allocation; none where it had no task.

        Where there are too many, neighbours are one, as wide as both are on average.
        """
        groups, count = self.groups, len(self.groups.seconds)
        if not count:
            return ()
        ends = groups.begins + groups.seconds
        # A driver with a fixed number of executors waits for these before its first stage.
        registered = [
            each.added_at + each.starting - self.application.started_at
            for each in self.application.executors
            if each.starting > 0
        ]
        waited = max((at for at in registered if at <= groups.begins[0]), default=0.0)
        pauses = np.append(groups.begins, self.seconds) - np.append(waited, ends)
        busy = np.minimum(groups.cores, groups.width)
        warming = groups.warming / np.maximum(busy, 1e-9)
        net = np.maximum(groups.work - groups.warming, 0.0)
        part = np.arange(count) * min(count, MOST_STAGES - 1) // count
        weight = np.maximum(net, 1e-9)

        def total(amounts: FloatArray) -> list[float]:
            return [round(each, 3) for each in np.bincount(part, amounts).tolist()]

        rows = zip(
            total(np.maximum(pauses[:-1], 0.0)),
            total(net),
            total(warming),
            (np.bincount(part, weight * groups.width) / np.bincount(part, weight)).round(3).tolist(),
            total(groups.longest),
            np.bincount(part, groups.shuffles).astype(bool).tolist(),
            strict=True,
        )
        last = StageShape(pause=max(round(float(pauses[-1]), 3), 0.0), work=0.0, width=0.0)
        shapes = (
            StageShape(
                pause=pause, work=work, warming=warming, width=width, longest=longest, shuffles=shuffles
            )
            for pause, work, warming, width, longest, shuffles in rows
        )
        return (*shapes, last)

    def seconds_on(self, cores: float) -> float:
        """Seconds on so many cores of all executors together: what no stage does stays as long.

        A stage takes as many times longer as its bound on those cores is larger: that of its longest task,
        and that of all of them, with the warming of as many executors of the same size. On its own cores it
        is exact.
        """
        groups = self.groups
        inside = min(float(groups.seconds.sum()), self.seconds)
        scaled = groups.seconds_at(cores / self.cores)
        whole = float(groups.seconds.sum())
        return max(self.seconds - inside + (scaled * inside / whole if whole else 0.0), _LEAST)


def job_runs(costs: Iterable[ApplicationCost], prices: Prices) -> list[JobRun]:
    """The applications as jobs, without those that had no executor with cores, or lasted no time."""
    return [run for cost in costs if (run := _run(cost, prices)) is not None]


def _run(cost: ApplicationCost, prices: Prices) -> JobRun | None:
    application = cost.application
    paid = sum(executor.seconds for executor in application.executors)
    held = [each for each in application.executors if each.cores > 0]
    if not held or paid <= 0 or application.seconds <= 0:
        return None
    usual = _usual(held)
    return JobRun(
        cost=cost,
        type=type_of(application.name),
        executors=min(max(1, round(paid / max(application.seconds, _LEAST))), _most_at_once(held), int(MOST)),
        cpus=usual.cores,
        memory_mib=usual.memory_mib,
        gpus=usual.gpus,
        per_hour=prices.per_hour(application, usual),
        vm_type=prices.type_of(application, usual),
    )


def _most_at_once(executors: Sequence[Executor]) -> int:
    """Executors that were there at one time: those of short runs are paid for long before these start."""
    times = np.array([[each.added_at, each.removed_at] for each in executors]).reshape(-1)
    steps = np.tile((1, -1), len(executors))
    return max(1, int(np.cumsum(steps[np.lexsort((steps, times))]).max()))


def _usual(executors: Sequence[Executor]) -> Executor:
    """The executor of the size that was there longest."""
    seconds: dict[tuple[float, int, float], float] = {}
    for each in executors:
        size = (each.cores, each.memory_mib, each.gpus)
        seconds[size] = seconds.get(size, 0.0) + each.seconds
    most = max(seconds, key=lambda size: seconds[size])
    return next(each for each in executors if (each.cores, each.memory_mib, each.gpus) == most)


def _groups(application: LoggedApplication) -> StageGroups:
    """Overlapping stages of the application; stages that report no time are left out."""
    numbered = [(number, each) for number, each in enumerate(application.stages) if _lasted(each)]
    numbered.sort(key=lambda pair: pair[1].submitted_at)
    found: list[list[tuple[int, Stage]]] = []
    until = float("-inf")
    for pair in numbered:
        if pair[1].submitted_at >= until:
            found.append([])
        found[-1].append(pair)
        until = max(until, pair[1].completed_at)
    begins = np.array([group[0][1].submitted_at for group in found])
    ends = np.array([max(stage.completed_at for _, stage in group) for group in found])
    seconds = ends - begins
    work = np.array([sum(s.task_seconds * s.cpus_per_task for _, s in group) for group in found])
    tasks = np.array([sum(s.tasks for _, s in group) for group in found], np.float64)
    width = np.array([sum(s.tasks * s.cpus_per_task for _, s in group) for group in found])
    present = _core_seconds(application.executors, ends) - _core_seconds(application.executors, begins)
    longest = [max(group, key=lambda pair: pair[1].longest_task) for group in found]
    return StageGroups(
        seconds=seconds,
        work=work,
        warming=np.array([sum(s.warming_seconds * s.cpus_per_task for _, s in group) for group in found]),
        longest=np.array([stage.longest_task for _, stage in longest]),
        mean=np.array([sum(s.task_seconds for _, s in group) for group in found]) / np.maximum(tasks, 1),
        width=width,
        cores=np.maximum(present / np.maximum(seconds, 1e-9), 1e-3),
        stage=np.array([number for number, _ in longest], np.int64),
        begins=begins - application.started_at,
        shuffles=np.array([any(stage.shuffles for _, stage in group) for group in found], np.bool_),
    )


def _lasted(stage: Stage) -> bool:
    return stage.completed_at > stage.submitted_at


def _core_seconds(executors: Sequence[Executor], at: FloatArray) -> FloatArray:
    """Core-seconds that were held until each of these times."""
    times = np.array([[each.added_at, each.removed_at] for each in executors]).reshape(-1, 2)
    return held_until(times[:, 0], times[:, 1], np.array([each.cores for each in executors]), at)
