"""The cost of VMs against the budget: reports a spent limit and, where configured, holds VMs back.

Days and months are those of UTC. The cluster model reports charges; the store holds the charges from before
this daemon led. The model stops openings and placements; it applies limits per hour by itself.
"""

import json
from collections.abc import Callable, Iterable, Iterator

import structlog

from conf.schema import Budget
from conf.util.utc_days import day_of, minute, month_of, next_day, next_month
from daemon.core.status import BudgetStatus, SpendingLimit
from daemon.store.facts import fact_values
from daemon.store.rows.bill import PAID
from daemon.store.rows.event_recorder import HistoryEvent
from environment.model.messages.events import OpeningsHeld
from environment.model.messages.vm_accounts import Account
from environment.model.vms.job_registry import Changes

log = structlog.get_logger("budget")

#: The fact of the store with the spent limits that were reported, each with its day or month, and whether
#: that holds VMs back: so each is reported once over all leaders.
FACT = "budget"
#: What a month's VMs have cost, as a store knows: day, pool and dollars.
Spent = Callable[[str], Iterable[tuple[str, str, float]]]


class BudgetWatch:
    """Sums of the costs of VMs. For the scheduling loop; `status` and `trouble` are for any thread."""

    def __init__(
        self,
        rules: Budget | None,
        spent: Spent,
        now: Callable[[], float],
        told: Callable[[str], str | None] = lambda _: None,
        accounts: Callable[[], Iterable[Account]] = tuple,
    ) -> None:
        """`spent` and the open `accounts` are the store's, `told` has its facts; `now` is in seconds."""
        self._rules = rules
        self._spent, self._accounts = spent, accounts
        self._now = now
        self._day = ""
        #: Dollars by pool (empty: all VMs) and day or month.
        self._dollars: dict[tuple[str, str], float] = {}
        #: Dollars per hour of open VMs by account, with their pool.
        self._open: dict[str, tuple[str, float]] = {}
        #: The value of the fact, and the value to report.
        self._read, self._said = told, dict[str, str]()
        self._news: list[HistoryEvent] = []
        #: The limits that held openings back when the model was last told.
        self._held: frozenset[str] = frozenset()

    def begin(self) -> None:
        """Load the charges of this month from the store; StoreError when it cannot be read."""
        self._day = day_of(self._now())
        self._said = _taken_up(self._read(FACT) or "")
        if self._rules is None:
            return
        for day, pool, dollars in self._spent(month_of(self._day)):
            self._add(day, pool, dollars)
        for account in self._accounts():
            self._open[account.id] = account.pool, account.price_per_hour

    def _add(self, day: str, pool: str, dollars: float) -> None:
        for period in (day, month_of(day)):
            if period in (self._day, month_of(self._day)):
                for of in {"", pool}:
                    self._dollars[of, period] = self._dollars.get((of, period), 0.0) + dollars

    def observe(self, changes: Changes) -> None:
        """Add the charges that are stored now."""
        if self._rules is None:
            return
        for charge in changes.charges:
            if charge.kind in PAID:
                self._turn_to(charge.day)
                self._add(charge.day, charge.pool, charge.dollars)
        for account in changes.accounts:
            self._open[account.id] = account.pool, account.price_per_hour
            if account.closed:
                del self._open[account.id]

    def _turn_to(self, day: str) -> None:
        if day > self._day:
            self._day, periods = day, (day, month_of(day))
            self._dollars = {key: dollars for key, dollars in self._dollars.items() if key[1] in periods}

    def look(self) -> list[OpeningsHeld]:
        """Events for the model: openings are stopped, or resumed; empty without a change."""
        self._turn_to(day_of(self._now()))
        spent = [limit for limit in self.limits() if limit.over]
        self._tell(spent)
        holds = [limit for limit in spent if limit.hold]
        if (held := frozenset(map(_key, holds))) == self._held:
            return []
        self._held = held
        first = next((limit for limit in holds if not limit.used), None)
        why = "" if first is None else f"is not opened: {_told(first)}"
        pools = {limit.pool: f"is not used: {_told(limit)}" for limit in reversed(holds) if limit.used}
        return [OpeningsHeld(self._now(), why, tuple(pools.items()))]

    def _tell(self, spent: list[SpendingLimit]) -> None:
        """Report changes since the last report."""
        at, before, said = self._now(), self._said, dict[str, str]()
        for limit in spent:
            name, period = limit.name, self._period(limit)
            was, said[name] = before.get(name, ""), f"{period} held" if limit.hold else period
            if was.partition(" ")[0] != period:
                log.warning("a budget is spent", why=_told(limit))
                self._news.append(HistoryEvent(at, None, "budget spent", _spent(limit)))
            if limit.hold and was != said[name]:
                self._news.append(HistoryEvent(at, None, "openings held", _told(limit)))
        for name, was in before.items():
            period, _, held = was.partition(" ")
            if held and not said.get(name, "").endswith(" held"):
                why = f"{_budget_of(name, period)} is not spent, or no longer blocks VMs"
                self._news.append(HistoryEvent(at, None, "openings resumed", why))
            if name not in said and period in (self._day, month_of(self._day)):
                said[name] = period
        self._said = said

    def _period(self, limit: SpendingLimit) -> str:
        return self._day if limit.per == "day" else month_of(self._day)

    def take_news(self) -> tuple[list[HistoryEvent], dict[str, str]]:
        """Return and clear the events of the budget, with the fact to store that they were reported."""
        news, self._news = self._news, []
        return news, {FACT: json.dumps(self._said)} if news else {}

    def status(self) -> BudgetStatus | None:
        """Present cost beside the limits; None without a budget."""
        if self._rules is None:
            return None
        limits = tuple(self.limits())
        today = next((each for each in limits if (each.pool, each.per) == ("", "day")), None)
        spent = self._dollars.get(("", self._day), 0.0)
        per_day, hold = (None, False) if today is None else (today.dollars, today.hold)
        return BudgetStatus(self._day, per_day, spent, hold, limits)

    def limits(self) -> Iterator[SpendingLimit]:
        """Limits of all VMs, then those of pools; of one per hour, the cost of open VMs counts as spent."""
        if self._rules is None:
            return
        for pool, per, dollars, holds, used in self._rules.limits:
            if per == "hour":
                prices = [price for at, price in list(self._open.values()) if pool in ("", at)]
                yield SpendingLimit(pool, per, dollars, sum(prices), hold=True)
                continue
            period = self._day if per == "day" else month_of(self._day)
            until = next_day(period) if per == "day" else next_month(period)
            spent = self._dollars.get((pool, period), 0.0)
            yield SpendingLimit(pool, per, dollars, spent, holds, until, period, used)

    @property
    def trouble(self) -> str:
        """In words, that more was spent; empty when it was not."""
        return "; ".join(_told(limit) for limit in self.limits() if limit.over)


def _taken_up(text: str) -> dict[str, str]:
    """Decode an earlier daemon's reports; of versions with one limit it is the text of that."""
    if not text.startswith("{"):
        return {"day": text} if text else {}
    return {str(name): str(said) for name, said in fact_values(FACT, text).items()}


def _key(limit: SpendingLimit) -> str:
    return f"{limit.name} {limit.period}"


def _budget_of(name: str, period: str) -> str:
    _, _, pool = name.partition(" ")
    return f"the budget of {f'pool {pool}, ' if pool else ''}{period} (UTC)"


def _spent(limit: SpendingLimit) -> str:
    return f"{_budget_of(limit.name, limit.period)}, ${limit.dollars:,.2f}, is spent (${limit.spent:,.2f})"


def _told(limit: SpendingLimit) -> str:
    """The budget of 2026-11-22, $10.00, is spent ($10.12); with `hold` also until when."""
    if not limit.hold or limit.until is None:
        return _spent(limit)
    of = "no VM of it" if limit.pool else "no VM"
    what = f"{of} is opened or gets new executors" if limit.used else "no VM is opened"
    return f"{_spent(limit)}; {what} until {minute(limit.until)}"
