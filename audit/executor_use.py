"""What executors did with their cores over time: work, or one of the causes for which cores stand idle."""

from array import array
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]


class CoreUse(NamedTuple):
    """Core-seconds of an executor by cause; together its cores by the time for which it was there."""

    #: Tasks that were done.
    work: float = 0.0
    #: Tasks that failed or were killed, and ran again.
    failed: float = 0.0
    #: Before its first task.
    start: float = 0.0
    #: While tasks of the application ran, on other cores: skew, small stages, the end of a stage.
    waiting: float = 0.0
    #: While none ran, with more to come: the driver computed, or a user thought.
    driver: float = 0.0
    #: After the application's last task.
    tail: float = 0.0

    @property
    def total(self) -> float:
        """All of them."""
        return float(sum(self))


#: The causes, in the order in which they are shown, with a few words for each.
CAUSES = {
    "work": "tasks that were done",
    "failed": "tasks that failed or were killed",
    "start": "executors before their first task",
    "waiting": "idle cores while other tasks ran (skew, small stages)",
    "driver": "idle cores between stages (the driver worked, or a user thought)",
    "tail": "idle cores after the last task",
}


class Idle(NamedTuple):
    """Seconds for which an executor was idle beyond `IDLE_TIMEOUT`: dynamic allocation ends it then."""

    #: After its last task; of one that never had a task, all the time.
    after: float = 0.0
    #: Before its first task, and between two.
    between: float = 0.0
    #: Number of the times before and between: as often it would have to start again.
    times: int = 0


NEVER = Idle()
#: Seconds after which Spark removes an idle executor (`spark.dynamicAllocation.executorIdleTimeout`).
IDLE_TIMEOUT = 60.0
#: Power by which the time beyond a warm task's falls with the number of a wave. Chosen: by ten types that
#: ran with two executors and with one, others than those of docs/results/audit.md.
_WARMING_FALLS = 2.0
#: The most seconds that an executor warms up for each task that runs at once. Chosen: there 3 to 7 s.
_LONGEST_WARMING = 30.0
#: Of a determinant, below which rounding is all there is.
_FLAT = 1e-9


@dataclass(frozen=True, slots=True, eq=False)
class TaskArrays:
    """Tasks of an application, [T]: number of the executor, seconds of launch and end, success, and cores."""

    executor: NDArray[np.int64]
    launched: FloatArray
    finished: FloatArray
    done: NDArray[np.bool_]
    cpus: FloatArray

    @classmethod
    def of(
        cls,
        executor: "array[int]",
        launched: "array[float]",
        finished: "array[float]",
        done: "array[int]",
        cpus: FloatArray,
    ) -> "TaskArrays":
        """Tasks by executor, then by launch."""
        values = (
            np.array(executor, np.int64),
            np.array(launched, np.float64),
            np.array(finished, np.float64),
            np.array(done, np.bool_),
            cpus,
        )
        order = np.lexsort((values[1], values[0]))
        return cls(*(value[order] for value in values))

    @property
    def first(self) -> float | None:
        """When the first task was launched; None without tasks."""
        return float(self.launched.min()) if len(self.launched) else None

    def of_executor(self, number: int) -> "TaskArrays":
        """The tasks of one executor."""
        begin, end = np.searchsorted(self.executor, (number, number + 1))
        return TaskArrays(*(getattr(self, name.name)[begin:end] for name in fields(self)))

    def span(self, number: int) -> tuple[float | None, float | None]:
        """When the executor's first task was launched and its last one over; None without tasks."""
        own = self.of_executor(number)
        if not len(own.launched):
            return None, None
        return float(own.launched[0]), float(own.finished.max())

    def most_cpus(self, number: int) -> float:
        """The most cores that the executor's tasks took at once; 0 without tasks."""
        own = self.of_executor(number)
        if not len(own.launched):
            return 0.0
        times = np.concatenate((own.launched, own.finished))
        steps = np.concatenate((own.cpus, -own.cpus))
        return max(float(own.cpus.max()), float(np.cumsum(steps[np.lexsort((steps, times))]).max()))


def uses(
    tasks: TaskArrays,
    spans: Sequence[tuple[float, float]],
    cores: Sequence[float],
) -> list[CoreUse]:
    """What each executor did with its `cores` between its `spans`, seconds."""
    begins, ends = _union(tasks.launched, tasks.finished)
    return [
        _use(tasks.of_executor(number), span, cores[number], begins, ends)
        for number, span in enumerate(spans)
    ]


def idles(tasks: TaskArrays, spans: Sequence[tuple[float, float]]) -> list[Idle]:
    """For how long each executor was idle between its `spans`, seconds, beyond the time-out."""
    return [_idle(tasks.of_executor(number), *span) for number, span in enumerate(spans)]


def warmings(
    stage: "array[int]",
    executor: "array[int]",
    launched: "array[float]",
    finished: "array[float]",
    count: int,
) -> FloatArray:
    """Task seconds that executors took to warm up in each of `count` stages, [count]; of each task its stage.

    A JVM loads and compiles its code in its first tasks of a stage, and so does each other one. Its first
    wave are those that were launched before any of them was over, and each later wave has as many. Beside a
    steady time, tasks take one that falls with the square of their wave's number, which leaves the steady
    time where an executor had only waves that are still warm. The first wave of three or more only counts as
    warming: later ones tell more about the steady time. Executors count with their median, so that a task
    with more data is no warming. Stages with one wave show none.
    """
    found = np.zeros(count)
    if not len(stage):
        return found
    order = np.lexsort((launched, executor, stage))
    stages, executors, begins, ends = (
        np.array(each)[order] for each in (stage, executor, launched, finished)
    )
    new = np.concatenate(([True], (np.diff(stages) != 0) | (np.diff(executors) != 0)))
    group, starts = np.cumsum(new) - 1, np.flatnonzero(new)
    slots = np.bincount(group, new | (begins < np.minimum.reduceat(ends, starts)[group])).astype(np.int64)
    wave = (np.arange(len(stages)) - starts[group]) // slots[group]
    steady = _steady_seconds(stages, group, wave, ends - begins, count)
    beyond = np.bincount(group, ends - begins - steady[stages])
    of_stage, place = np.unique(stages[starts], return_inverse=True)
    found[of_stage] = np.maximum(_lower_medians(place, np.minimum(beyond, _LONGEST_WARMING * slots)), 0.0)
    later = np.bincount(stages[wave > 0], minlength=count) > 0
    warm: FloatArray = np.where(later, found * np.bincount(stages[starts], minlength=count), 0.0)
    return warm


def _steady_seconds(
    stages: NDArray[np.int64],
    group: NDArray[np.int64],
    wave: NDArray[np.int64],
    seconds: FloatArray,
    count: int,
) -> FloatArray:
    """Seconds of a warm task in each of `count` stages, [count]: least squares over the waves, at least 0."""
    new = np.concatenate(([True], (np.diff(group) != 0) | (np.diff(wave) != 0)))
    starts = np.flatnonzero(new)
    tasks = np.diff(np.append(starts, len(stages)))
    width = int(wave.max()) + 1
    number, place = np.unique(stages[starts] * width + wave[starts], return_inverse=True)
    mean = _lower_medians(place, np.add.reduceat(seconds, starts) / tasks)
    of, at = np.divmod(number, width)
    waves = np.bincount(of, minlength=count)
    warmth = (at + 1.0) ** -_WARMING_FALLS
    weight = np.bincount(place, tasks) * ((at > 0) | (waves[of] < 3))
    each, x, y, xx, xy = (
        np.bincount(of, weight * value, count)
        for value in (np.ones_like(mean), warmth, mean, warmth**2, warmth * mean)
    )
    spread = each * xx - x**2
    slope = np.divide(each * xy - x * y, spread, out=np.zeros(count), where=spread > _FLAT * xx * each)
    rest: FloatArray = (y - np.maximum(slope, 0.0) * x) / np.maximum(each, 1.0)
    return np.maximum(rest, 0.0)


def _lower_medians(of: NDArray[np.int64], values: FloatArray) -> FloatArray:
    """The median of the values of each group, numbered without a gap: the lower of two in the middle."""
    members = np.bincount(of)
    found: FloatArray = values[np.lexsort((values, of))][np.cumsum(members) - members + (members - 1) // 2]
    return found


def _idle(own: TaskArrays, added: float, removed: float) -> Idle:
    begins, ends = _union(np.clip(own.launched, added, removed), np.clip(own.finished, added, removed))
    if not len(begins):
        return Idle(after=max(0.0, removed - added - IDLE_TIMEOUT))
    gaps = begins - np.concatenate(([added], ends[:-1])) - IDLE_TIMEOUT
    long = gaps[gaps > 0]
    return Idle(max(0.0, removed - float(ends[-1]) - IDLE_TIMEOUT), float(long.sum()), len(long))


def _union(launched: FloatArray, finished: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The times in which at least one task ran, as begins and ends, in order."""
    order = np.argsort(launched, kind="stable")
    begin, end = launched[order], np.maximum.accumulate(finished[order])
    if not len(begin):
        return begin, end
    first = np.concatenate(([True], begin[1:] > end[:-1]))
    last = np.concatenate((first[1:], [True]))
    return begin[first], end[last]


def _use(
    own: TaskArrays,
    span: tuple[float, float],
    cores: float,
    begins: FloatArray,
    ends: FloatArray,
) -> CoreUse:
    added, removed = span
    paid = cores * (removed - added)
    if paid <= 0:
        return CoreUse()
    last = min(max(float(ends[-1]) if len(ends) else added, added), removed)
    if not len(own.launched):
        # It never had a task: the time until the last task of all is its start, the rest the tail.
        return CoreUse(start=cores * (last - added), tail=cores * (removed - last))
    first = min(max(float(own.launched[0]), added), removed)
    begin, end = np.clip(own.launched, added, removed), np.clip(own.finished, added, removed)
    taken = (end - begin) * own.cpus
    times, busy = _busy(begin, end, own.cpus, cores)
    occupied = float(busy @ np.diff(times)) if len(times) > 1 else 0.0
    asked = float(taken.sum())
    failed = occupied * float(taken[~own.done].sum()) / asked if asked > 0 else 0.0
    start = cores * (first - added)
    tail = cores * (removed - last)
    # Cores that were idle between its first task and the last of all: while others worked, or none did.
    ran = float((np.clip(ends, first, last) - np.clip(begins, first, last)).sum())
    waiting = max(0.0, cores * ran - occupied)
    driver = max(0.0, cores * (last - first - ran))
    return CoreUse(occupied - failed, failed, start, waiting, driver, tail)


def _busy(
    begin: FloatArray, end: FloatArray, cpus: FloatArray, cores: float
) -> tuple[FloatArray, FloatArray]:
    """The times at which the number of busy cores changes, and that number between them."""
    times = np.concatenate((begin, end))
    steps = np.concatenate((cpus, -cpus))
    order = np.argsort(times, kind="stable")
    return times[order], np.minimum(np.cumsum(steps[order])[:-1], cores)
