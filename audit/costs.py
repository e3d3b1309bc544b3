"""What applications cost, in dollars by cause, and summed by name, user, queue or day."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property

import numpy as np

from audit.applications import Executor, LoggedApplication
from audit.executor_use import CAUSES, CoreUse
from audit.held_amounts import FloatArray, held_until
from audit.names import type_of
from audit.prices import Prices
from conf.units import SECONDS_PER_HOUR

_DAY = 86_400
#: Keys by which costs can be summed, with the value of an application. By `day` each is split.
KEYS: dict[str, Callable[[LoggedApplication], str]] = {
    "application": lambda each: each.name,
    "type": lambda each: type_of(each.name),
    "user": lambda each: each.user or "(unknown)",
    "queue": lambda each: each.queue or "(none)",
    "log": lambda each: each.log,
}


@dataclass(frozen=True)
class ApplicationCost:
    """What an application cost: dollars by cause. Frozen, but for what is computed once."""

    application: LoggedApplication
    dollars: CoreUse
    #: By executor, dollars.
    executors: tuple[float, ...]
    #: VM types that its executors ran on; an empty one where they are priced by cores and memory.
    vm_types: frozenset[str]

    @property
    def total(self) -> float:
        """Dollars of all causes."""
        return self.dollars.total

    @property
    def by_executor(self) -> list[tuple[Executor, float]]:
        """Executors that were there for a while, with their dollars."""
        pairs = zip(self.application.executors, self.executors, strict=True)
        return [(executor, dollars) for executor, dollars in pairs if executor.seconds > 0]


@dataclass(frozen=True, slots=True)
class Line:
    """The costs of applications with the same key."""

    key: str
    count: int
    #: Of several attempts of an application, each counts in `count`, and all once here.
    applications: int
    seconds: float
    dollars: CoreUse
    core_seconds: CoreUse
    paid_memory_seconds: float
    #: MiB that executors used at most, by their time, and MiB of the same executors; 0 where no log tells.
    peak_memory_seconds: tuple[float, float]
    spilled_mib: float
    failed_tasks: int

    @property
    def total(self) -> float:
        """Dollars of all causes."""
        return self.dollars.total

    @property
    def memory_used(self) -> float | None:
        """The share of the executors' memory that was used at most; None where no log tells."""
        used, held = self.peak_memory_seconds
        return used / held if held else None

    def share(self, cause: str) -> float:
        """The share of a cause in its dollars; 0 where it cost nothing."""
        return float(getattr(self.dollars, cause)) / self.total if self.total else 0.0


@dataclass(frozen=True)
class Costs:
    """The costs of all applications."""

    each: tuple[ApplicationCost, ...]

    @cached_property
    def total(self) -> Line:
        """The sum of all."""
        return _line("total", self.each)

    def by(self, key: str) -> list[Line]:
        """The sums by a key of `KEYS`, the dearest first, or by `day` of UTC, in their order."""
        if key == "day":
            return _days(self.each)
        groups: dict[str, list[ApplicationCost]] = {}
        for one in self.each:
            groups.setdefault(KEYS[key](one.application), []).append(one)
        lines = [_line(name, group) for name, group in groups.items()]
        return sorted(lines, key=lambda line: (-line.total, line.key))

    def before(self, at: float) -> tuple[int, float]:
        """Number of applications that began before a time, seconds, and dollars paid for them until then."""
        parts = [_until(each, at) for each in self.each if each.application.started_at < at]
        return len(parts), sum(parts)

    @property
    def without_type(self) -> int:
        """Number of applications with executors that are priced by cores and memory."""
        return sum("" in one.vm_types for one in self.each)

    @property
    def without_executors(self) -> int:
        """Number of applications of which no executor is known: they cost nothing here."""
        return sum(not one.application.executors for one in self.each)


def costs_of(applications: Sequence[LoggedApplication], prices: Prices) -> Costs:
    """Price the applications; PriceError when an executor has no price."""
    return Costs(tuple(_cost(each, prices) for each in applications))


def _cost(application: LoggedApplication, prices: Prices) -> ApplicationCost:
    dollars, each, types = [0.0] * len(CAUSES), [], set()
    for executor in application.executors:
        rate = prices.per_hour(application, executor) / SECONDS_PER_HOUR
        cores = executor.cores or 1.0
        each.append(rate * executor.seconds)
        types.add(prices.type_of(application, executor))
        for cause, core_seconds in enumerate(executor.use):
            dollars[cause] += rate * core_seconds / cores
    return ApplicationCost(application, CoreUse(*dollars), tuple(each), frozenset(types))


def _line(key: str, costs: Sequence[ApplicationCost]) -> Line:
    applications = [each.application for each in costs]
    peaks = [each.peak_memory_seconds for each in applications]
    return Line(
        key=key,
        count=len(costs),
        applications=len({each.id for each in applications}),
        seconds=sum(each.seconds for each in applications),
        dollars=_sum(each.dollars for each in costs),
        core_seconds=_sum(one.use for each in applications for one in each.executors),
        paid_memory_seconds=sum(each.paid_memory_seconds for each in applications),
        peak_memory_seconds=(sum(used for used, _ in peaks), sum(held for _, held in peaks)),
        spilled_mib=sum(each.spilled_mib for each in applications),
        failed_tasks=sum(each.failed_tasks for each in applications),
    )


def _days(costs: Sequence[ApplicationCost]) -> list[Line]:
    """Costs by day of UTC; an executor's are spread evenly over the time for which it was there.

    A run counts on each day on which it was there, its spilled data and failed tasks on the first.
    """
    runs: dict[int, list[LoggedApplication]] = {}
    began: dict[int, list[LoggedApplication]] = {}
    for cost in costs:
        first, last = _first_and_last_day(cost.application)
        began.setdefault(first, []).append(cost.application)
        for day in range(first, last + 1):
            runs.setdefault(day, []).append(cost.application)
    days = sorted(runs)
    begin = np.array(days, np.float64) * _DAY

    def by_day(spans: FloatArray, amounts: FloatArray) -> FloatArray:
        """Amounts by seconds, [days, K], of `amounts`, [N, K], that are held between `spans`, [N, 2]."""
        until = [
            [held_until(spans[:, 0], spans[:, 1], amount, at) for amount in amounts.T]
            for at in (begin, begin + _DAY)
        ]
        return np.maximum(np.transpose(np.subtract(until[1], until[0])), 0.0)

    whole = np.array([(each.application.started_at, each.application.ended_at) for each in costs])
    seconds = by_day(whole, np.ones((len(costs), 1)))[:, 0].tolist()
    executors = [pair for cost in costs for pair in cost.by_executor]
    spans = np.array([(each.added_at, each.removed_at) for each, _ in executors]).reshape(-1, 2)
    width = len(CAUSES)
    held = by_day(spans, np.array([_by_second(*pair) for pair in executors]).reshape(-1, 2 * width + 3))
    return [
        Line(
            key=datetime.fromtimestamp(day * _DAY, UTC).date().isoformat(),
            count=len(runs[day]),
            applications=len({each.id for each in runs[day]}),
            seconds=there,
            dollars=CoreUse(*amounts[:width]),
            core_seconds=CoreUse(*amounts[width : 2 * width]),
            paid_memory_seconds=amounts[-3],
            peak_memory_seconds=(amounts[-2], amounts[-1]),
            spilled_mib=sum(each.spilled_mib for each in began.get(day, ())),
            failed_tasks=sum(each.failed_tasks for each in began.get(day, ())),
        )
        for day, there, amounts in zip(days, seconds, held.tolist(), strict=True)
    ]


def _until(cost: ApplicationCost, at: float) -> float:
    """Dollars of the application's executors until a time."""
    return sum(
        dollars * min(max(at - each.added_at, 0.0) / each.seconds, 1.0) for each, dollars in cost.by_executor
    )


def _first_and_last_day(of: LoggedApplication) -> tuple[int, int]:
    """Days since the epoch on which the application or an executor was there first and last."""
    begin = min([of.started_at, *(each.added_at for each in of.executors)])
    end = max([of.ended_at, *(each.removed_at for each in of.executors)])
    return int(begin // _DAY), max(int(begin // _DAY), math.ceil(end / _DAY) - 1)


def _by_second(executor: Executor, dollars: float) -> list[float]:
    """In each second: dollars by cause, core-seconds by cause, memory, its peak, and memory with a peak."""
    price = dollars / executor.use.total if executor.use.total else 0.0
    uses = [*(price * each for each in executor.use), *executor.use]
    memory, peak = executor.memory_mib, executor.peak
    used = (0.0, 0.0) if peak is None else (min(peak.total_mib, memory), memory)
    return [*(each / executor.seconds for each in uses), memory, *used]


def _sum(uses: Iterable[CoreUse]) -> CoreUse:
    sums = [0.0] * len(CAUSES)
    for use in uses:
        for cause, value in enumerate(use):
            sums[cause] += value
    return CoreUse(*sums)
