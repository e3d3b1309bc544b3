"""Status values that components report to the HTTP API: budget, health, logs, policies, queue positions."""

from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

from daemon.core.job_ids import job_number

#: Result of one delivery attempt of a webhook.
DeliveryOutcome = Literal["delivered", "refused", "timeout", "unreachable", "given up"]


@dataclass(frozen=True, slots=True)
class SpendingLimit:
    """A limit on the cost of a pool's VMs (empty: of all VMs) and the part that is spent, dollars.

    That of an hour is what open VMs cost now. With `hold`, no VM is opened beyond the limit, and with `used`
    none gets new executors either. It has room again at `until`, seconds since the epoch; `period` is its day
    or month.
    """

    pool: str
    per: Literal["hour", "day", "month"]
    dollars: float
    spent: float
    hold: bool
    until: float | None = None
    period: str = ""
    used: bool = False

    @property
    def name(self) -> str:
        """Its name among all limits: day, or day general."""
        return f"{self.per} {self.pool}".rstrip()

    @property
    def over(self) -> bool:
        """Whether a day or month has cost more than it may; that of an hour holds before it is crossed."""
        return self.per != "hour" and self.spent > self.dollars


@dataclass(frozen=True, slots=True)
class BudgetStatus:
    """Cost of VMs on a day (UTC, 2026-11-22) beside its limit, dollars; None: it has none.

    With `hold`, no further VM is opened on a day above the limit. `limits` are all limits.
    """

    day: str
    per_day: float | None
    spent: float
    hold: bool
    limits: tuple[SpendingLimit, ...] = ()


@dataclass(frozen=True, slots=True)
class Health:
    """Whether jobs can be scheduled now, and each check in words."""

    ready: bool
    checks: Mapping[str, str]
    #: Checks that are not well.
    bad: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class LogChunk:
    """Part of a log: its text, the offset of the next part (bytes), and whether nothing can follow.

    `source` is the place where it was read: in the folder of a driver on this host, a task's `sandbox`,
    or the `kept` copy of that; empty where nothing is there, and then `note` gives the reason or the
    missing part.
    """

    text: str
    next_offset: int
    complete: bool
    source: str = ""
    note: str = ""


@dataclass(frozen=True, slots=True)
class ShadowStatus:
    """A policy that decides beside the acting one, and since it was set: decisions compared, and those not.

    `missed` were made while it was busy; `faults` are its own, of the `asked` that it was asked for.
    """

    name: str
    options: Mapping[str, Any]
    compared: int
    different: int
    missed: int
    faults: int
    last_fault: str
    asked: int = 0

    @property
    def fallback_share(self) -> float:
        """The share of the decisions it was asked for that it failed to take; 0 of none."""
        return min(self.faults / self.asked, 1.0) if self.asked else 0.0


@dataclass(frozen=True, slots=True)
class PromotionStatus:
    """A promoted policy and the earlier one, with the latest comparison of both, in words."""

    promoted: str
    earlier: str
    at: float
    seen: str
    taken_back: bool


@dataclass(frozen=True, slots=True)
class PolicyStatus:
    """The acting policy, and since the start its decisions and the number of replaced ones.

    `fallback` decides when the policy fails; `busy` counts the seconds that the policy has spent on a
    decision that took too long and was taken from it, 0 without one. `cut_short` counts the policy's
    decisions that its own time limit ended, `guarded` those that a guard took in its place.
    """

    name: str
    options: Mapping[str, Any]
    placed: int
    waited: int
    faults: int
    last_fault: str
    fallback: str | None = None
    busy: float = 0.0
    cut_short: int = 0
    guarded: int = 0
    shadow: ShadowStatus | None = None
    promotion: PromotionStatus | None = None

    @property
    def fallback_share(self) -> float:
        """The share of the decisions that it failed to take, and the fallback took; 0 of none."""
        made = self.placed + self.waited
        return min(self.faults / made, 1.0) if made else 0.0


#: States of a job in which its driver may run.
WITH_DRIVER = frozenset({"starting", "running", "relaunching"})


@dataclass(frozen=True)
class QueuePositions:
    """Order of the queued jobs.

    `head` is the id of the first job to decide about; empty when there is none. No decision is made about the
    `paused` jobs for now, since their launches never ran or nothing fits: they block no other job.
    """

    head: str = ""
    paused: frozenset[str] = frozenset()

    def ahead(self, job_id: str, position: int) -> int:
        """How many jobs are before this one, which has so many queued ones before it."""
        return position - bisect_left(self._numbers, job_number(job_id) or 0)

    @cached_property
    def _numbers(self) -> list[int]:
        return sorted(number for job_id in self.paused if (number := job_number(job_id)) is not None)
