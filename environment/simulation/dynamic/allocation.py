"""Executors that the driver of one job requests and releases while its stages run. Pure; times in seconds.

As Spark's ExecutorAllocationManager with shuffle tracking: while tasks wait, the driver requests one executor
after a second, then two, four, ... each second, up to as many as all tasks need; it releases an executor that
was idle for a time, unless that holds shuffle files. Few tasks run on few executors, those that came first
(`PatientScheduler`).
"""

import copy
import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from environment.types import Dynamic
from profiles.job_profile import StageShape

#: Seconds for which tasks wait before the driver requests the first executor, and again before each further
#: request (spark.dynamicAllocation.schedulerBacklogTimeout).
_BACKLOG = 1.0
#: Of seconds, or core-seconds: less is rounding.
_NOTHING = 1e-9
#: Parts of a stage, in their order.
_PAUSE, _WARMING, _WORK, _LONGEST_TASK = range(4)


@dataclass(slots=True)
class _Held:
    """An executor: when it can run tasks, since when it is idle, and whether it has shuffle files.

    A `cold` one has still to warm up for the stages that it missed.
    """

    works_from: float
    idle_since: float = math.inf
    shuffles: bool = False
    cold: bool = False


@dataclass(slots=True)
class Allocation:
    """A running job's executors in the order of their launch, and how far its stages are at the time `at`."""

    stages: Sequence[StageShape]
    cpus: float
    bounds: Dynamic
    #: The most executors.
    most: int
    #: Seconds after which an idle one is released.
    idle: float
    at: float
    #: Number of executors that the driver wants.
    target: int = field(init=False, default=0)
    _held: list[_Held] = field(init=False, default_factory=list)
    _stage: int = field(init=False, default=0)
    _part: int = field(init=False, default=_PAUSE)
    _left: float = field(init=False, default=0.0)
    _began: float = field(init=False, default=0.0)
    _requests_at: float = field(init=False, default=math.inf)
    _next_request: int = field(init=False, default=1)

    def __post_init__(self) -> None:
        self.target = self.bounds.initial
        self._begin_part(0, _PAUSE)

    @property
    def over(self) -> bool:
        """Whether all stages are."""
        return self._stage >= len(self.stages)

    @property
    def missing(self) -> int:
        """Number of executors that the driver waits for."""
        return max(self.target - len(self._held), 0)

    def launch(self, works_from: Sequence[float]) -> None:
        """Executors are there, each of which can run tasks from these times on.

        The first ones warm up with each stage. Later ones also do so for all stages that they missed: their
        JVMs have loaded and compiled none of the code.
        """
        later = bool(self._held)
        self._held += [_Held(at, cold=later) for at in works_from]
        self._look()

    def releasable(self) -> list[int]:
        """Places of the executors that the driver releases now, the last first."""
        spare = len(self._held) - max(self.bounds.min, 1)
        idle = [
            place
            for place, each in enumerate(self._held)
            if not each.shuffles and each.idle_since + self.idle <= self.at + _NOTHING
        ]
        return idle[::-1][: max(spare, 0)]

    def release(self, places: Sequence[int]) -> None:
        """These executors are gone."""
        self._held = [each for place, each in enumerate(self._held) if place not in places]
        self.target = min(self.target, max(len(self._held), self.bounds.min))
        self._look()

    def next_change(self) -> float:
        """When something may change by itself, at the earliest."""
        spare = len(self._held) > max(self.bounds.min, 1)
        idle = (each.idle_since + self.idle for each in self._held if spare and not each.shuffles)
        return min(self._next_break(), self._requests_at, *idle, math.inf)

    def end(self) -> float:
        """When its last stage ends on the executors that are there now; infinity without any."""
        ahead = copy.copy(self)
        ahead._held = [copy.copy(each) for each in self._held]
        ahead._requests_at = math.inf
        while not ahead.over:
            at = ahead._next_break()
            if at == math.inf:
                return math.inf
            ahead.move_to(at)
        return ahead.at

    def move_to(self, until: float) -> None:
        """Let the time pass; requests of the driver that come meanwhile are in `target`."""
        while not self.over:
            at = min(self._next_break(), self._requests_at, until)
            if at > self.at:
                self._work(at)
            if self._left <= _NOTHING:
                self._begin_part(self._stage, self._part + 1)
            if self._requests_at <= self.at:
                self._request()
            if at >= until and self._left > _NOTHING:
                break

    def _needed(self) -> int:
        """Executors that the tasks of now can use."""
        if self.over or self._part == _PAUSE:
            return 0
        if self._part == _LONGEST_TASK:
            return 1
        return max(1, min(math.ceil(self.stages[self._stage].width / self.cpus - _NOTHING), self.most))

    def _working(self) -> int:
        """Executors with tasks."""
        return sum(each.works_from <= self.at for each in self._held[: self._needed()])

    def _rate(self) -> float:
        """Of `_left`, a second."""
        if self.over:
            return 0.0
        if self._part == _PAUSE:
            return 1.0
        working = self._working()
        if self._part != _WORK:
            return float(working > 0)
        return min(working * self.cpus, self.stages[self._stage].width)

    def _next_break(self) -> float:
        """When the part of a stage ends, or an executor can run tasks."""
        rate = self._rate()
        starts = (each.works_from for each in self._held if each.works_from > self.at)
        return min([self.at + self._left / rate if rate > 0 else math.inf, *starts])

    def _work(self, until: float) -> None:
        if self._part == _WORK and self.stages[self._stage].shuffles:
            for each in self._held[: self._needed()]:
                each.shuffles |= each.works_from <= self.at
        rate = self._rate()
        over = rate > 0 and self.at + self._left / rate <= until
        self._left = 0.0 if over else self._left - rate * (until - self.at)
        self.at = until
        for each in self._held:
            if each.cold and each.works_from <= until:
                each.cold = False
                each.works_from += self._missed_warming()

    def _missed_warming(self) -> float:
        """Seconds for which the executors that were there have warmed up, or do so now."""
        begun = self._stage + (self._part != _PAUSE)
        return sum(stage.warming for stage in self.stages[:begun])

    def _begin_part(self, stage: int, part: int) -> None:
        """Go on with the first part from that one on that takes any time."""
        self._left = 0.0
        while stage < len(self.stages):
            if part > _LONGEST_TASK:
                stage, part = stage + 1, _PAUSE
                continue
            if part == _WARMING:
                self._began = self.at
            if (left := self._length(self.stages[stage], part)) > _NOTHING:
                self._stage, self._part, self._left = stage, part, left
                break
            part += 1
        else:
            self._stage = stage
        self._look()

    def _length(self, stage: StageShape, part: int) -> float:
        if part == _LONGEST_TASK:
            return self._began + stage.longest - self.at
        return (stage.pause, stage.warming, stage.work)[part]

    def _look(self) -> None:
        """See which executors are idle, and whether tasks wait."""
        needed = self._needed()
        for place, each in enumerate(self._held):
            if place < needed:
                each.idle_since = math.inf
            elif each.idle_since == math.inf:
                each.idle_since = max(self.at, each.works_from)
        starts = self._stage == 0 and self._part == _PAUSE  # the initial ones are wanted until then
        if needed < self.target and not starts:
            self.target = max(needed, self.bounds.min)
        if needed <= max(self.target, len(self._held)):
            self._requests_at, self._next_request = math.inf, 1
        elif self._requests_at == math.inf:
            self._requests_at = self.at + _BACKLOG

    def _request(self) -> None:
        wanted = max(self.target, len(self._held)) + self._next_request
        self.target = min(wanted, self._needed(), self.most)
        self._next_request *= 2
        self._requests_at = self.at + _BACKLOG
        self._look()
