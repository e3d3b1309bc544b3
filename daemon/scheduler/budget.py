"""The day's cost of VMs against the budget: reports an excess and, where configured, stops openings.

A day is one of UTC. The cluster model reports charges; the store holds the charges from before this daemon
led. The model applies the stop of openings.
"""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import structlog

from conf.schema import Budget
from daemon.core.status import BudgetStatus
from daemon.store.rows.bill import PAID
from daemon.store.rows.event_recorder import HistoryEvent
from environment.model.messages.events import OpeningsHeld
from environment.model.messages.vm_accounts import day_of
from environment.model.vms.job_registry import Changes

log = structlog.get_logger("budget")

#: The fact of the store with the day whose budget was reported as spent, and whether that holds VMs back: so
#: it is reported once over all leaders.
FACT = "budget"


class BudgetWatch:
    """Sum of a day's cost. For the scheduling loop; `status` and `trouble` are for any thread."""

    def __init__(
        self,
        rules: Budget | None,
        spent: Callable[[str], float],
        now: Callable[[], float],
        told: Callable[[str], str | None] = lambda _: None,
    ) -> None:
        """`spent` has the dollars of a day, as the store knows, `told` its facts; `now` is in seconds."""
        self._rules = rules
        self._spent = spent
        self._now = now
        self._day = ""
        self._dollars = 0.0
        #: The value of the fact, and the value to report.
        self._read, self._said = told, ""
        self._news: list[HistoryEvent] = []
        #: The last reported reason why the model holds openings back.
        self._held = ""

    def begin(self) -> None:
        """Load today's charges from the store; StoreError when it cannot be read."""
        self._day = day_of(self._now())
        self._said = self._read(FACT) or ""
        self._dollars = self._spent(self._day) if self._rules else 0.0

    def observe(self, changes: Changes) -> None:
        """Add the charges that are stored now."""
        for charge in changes.charges:
            if charge.kind not in PAID:
                continue
            if charge.day > self._day:
                self._day, self._dollars = charge.day, 0.0
            if charge.day == self._day:
                self._dollars += charge.dollars

    def look(self) -> list[OpeningsHeld]:
        """Events for the model: openings are stopped, or resumed; empty without a change."""
        today = day_of(self._now())
        if today > self._day:
            self._day, self._dollars = today, 0.0
        status = self.status()
        self._tell(status)
        if status is None:
            return []
        why = f"is not opened: {_told(status)}" if status.over and status.hold else ""
        if bool(why) == bool(self._held):
            return []
        self._held = why
        return [OpeningsHeld(self._now(), why)]

    def _tell(self, status: BudgetStatus | None) -> None:
        """Report changes since the last report."""
        over = status is not None and status.over
        held = f"{self._day} held" if status is not None and over and status.hold else ""
        day, _, was_held = self._said.partition(" ")
        at = self._now()
        if status is not None and over and day != self._day:
            log.warning("the budget of the day is spent", why=_told(status))
            self._news.append(HistoryEvent(at, None, "budget spent", _spent(status)))
        if status is not None and held and held != self._said:
            self._news.append(HistoryEvent(at, None, "openings held", _told(status)))
        if was_held and not held:
            why = f"the budget of {self._day} (UTC) is not spent, or no longer blocks VMs"
            self._news.append(HistoryEvent(at, None, "openings resumed", why))
        self._said = held or (self._day if over or day == self._day else "")

    def take_news(self) -> tuple[list[HistoryEvent], dict[str, str]]:
        """Return and clear the events of the budget, with the fact to store that they were reported."""
        news, self._news = self._news, []
        return news, {FACT: self._said} if news else {}

    def status(self) -> BudgetStatus | None:
        """Today's cost beside the limit; None without a budget."""
        rules = self._rules
        if rules is None:
            return None
        return BudgetStatus(self._day, rules.per_day, self._dollars, rules.hold)

    @property
    def trouble(self) -> str:
        """In words, that more was spent; empty when it was not."""
        status = self.status()
        return _told(status) if status is not None and status.over else ""


def _spent(status: BudgetStatus) -> str:
    return f"the budget of {status.day} (UTC), ${status.per_day:,.2f}, is spent"


def _told(status: BudgetStatus) -> str:
    """The budget of 2026-11-22, $10.00, is spent; with `hold` also until when nothing is opened."""
    until = ""
    if status.hold:
        next_day = datetime.fromisoformat(status.day).replace(tzinfo=UTC) + timedelta(days=1)
        until = f"; no VM is opened until {next_day:%Y-%m-%d %H:%M} UTC"
    return _spent(status) + until
