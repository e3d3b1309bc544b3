"""What applications cost, in dollars by cause, and summed by name, user, queue or day."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property

from audit.applications import LoggedApplication
from audit.executor_use import CAUSES, CoreUse
from audit.names import type_of
from audit.prices import Prices
from conf.units import SECONDS_PER_HOUR

#: Keys by which costs can be summed, with the value of an application.
KEYS: dict[str, Callable[[LoggedApplication], str]] = {
    "application": lambda each: each.name,
    "type": lambda each: type_of(each.name),
    "user": lambda each: each.user or "(unknown)",
    "queue": lambda each: each.queue or "(none)",
    "day": lambda each: datetime.fromtimestamp(each.started_at, UTC).date().isoformat(),
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
        """The sums by a key of `KEYS`, the dearest first; days in their order."""
        groups: dict[str, list[ApplicationCost]] = {}
        for one in self.each:
            groups.setdefault(KEYS[key](one.application), []).append(one)
        lines = [_line(name, group) for name, group in groups.items()]
        if key == "day":
            return sorted(lines, key=lambda line: line.key)
        return sorted(lines, key=lambda line: (-line.total, line.key))

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


def _sum(uses: Iterable[CoreUse]) -> CoreUse:
    sums = [0.0] * len(CAUSES)
    for use in uses:
        for cause, value in enumerate(use):
            sums[cause] += value
    return CoreUse(*sums)
