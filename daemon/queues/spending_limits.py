"""Queues and users that have spent their hourly or daily limit: each is reported once a day (UTC).

`environment.queues.limits` makes their jobs wait; `daemon.scheduler.budget` limits the cost of all VMs.
"""

from collections.abc import Callable, Iterator

import structlog
from pydantic import TypeAdapter, ValidationError

from daemon.store.rows.event_recorder import HistoryEvent
from environment.model.messages.vm_accounts import day_of
from environment.queues.shares import Scope, Standings
from environment.queues.types import Most

log = structlog.get_logger("queues")

#: The fact of the store with the queues and users whose spent budget was reported today.
FACT = "allowances"
#: The share of its limit at which a budget counts as used up: seldom is all of it used, as jobs are whole.
#: Chosen.
_NEARLY = 0.95
#: Maximum number of overspending users and queues reported per day: users are many.
_MOST = 1000
_Told = tuple[str, set[tuple[str, str | None, str]]]
_KEPT_AS: TypeAdapter[_Told] = TypeAdapter(_Told)


class SpendingLimits:
    """Detects spent limits; for the scheduling loop."""

    def __init__(self, now: Callable[[], float], read: Callable[[str], str | None]) -> None:
        """`now` is in seconds, `read` has the store's facts."""
        self._now, self._read = now, read
        self._told: _Told | None = None
        self._news: list[HistoryEvent] = []

    def observe(self, standings: Standings) -> None:
        """Report newly spent limits; StoreError when the earlier reports cannot be read."""
        now = self._now()
        day = day_of(now)
        if self._told is None:
            self._told = _taken_up(self._read(FACT))
        if self._told[0] != day:
            self._told = (day, set())
        _, told = self._told
        for (path, user), per, why in _used_up(standings):
            if (path, user, per) in told or len(told) >= _MOST:
                continue
            told.add((path, user, per))
            log.warning("a queue's budget is spent", queue=path, user=user, why=why)
            # Every user may read it, and others' costs are not for every user.
            said = (
                f"queue {path} {why}"
                if user is None
                else f"a user of queue {path} has reached the limit of cost per user"
            )
            self._news.append(HistoryEvent(now, None, "budget spent", said))

    def take_news(self) -> tuple[list[HistoryEvent], dict[str, str]]:
        """Return the events since the last call, and the fact that records their report."""
        news, self._news = self._news, []
        if not news or self._told is None:
            return [], {}
        return news, {FACT: _KEPT_AS.dump_json(self._told).decode()}


def _used_up(standings: Standings) -> Iterator[tuple[Scope, str, str]]:
    """Yield queues and users with a spent limit, with the limit, in words."""
    for queue in standings.sharing.queues:
        for most, of_users in ((queue.most, False), (queue.most_per_user, True)):
            if most.dollars_per_day is None and most.dollars_per_hour is None:
                continue
            scopes = {*standings.spent, *(scope for scope, _ in standings.every())}
            for scope in sorted((each for each in scopes if each[0] == queue.path), key=str):
                if (scope[1] is not None) == of_users:
                    yield from ((scope, per, why) for per, why in _of(standings, scope, most))


def _of(standings: Standings, scope: Scope, most: Most) -> Iterator[tuple[str, str]]:
    spent, costs = standings.spent.get(scope, 0.0), standings.of(scope).per_hour
    if most.dollars_per_day is not None and spent >= most.dollars_per_day > 0.0:
        yield "day", f"has cost ${spent:.4g} today (UTC), and may cost ${most.dollars_per_day:.10g} a day"
    if most.dollars_per_hour is not None and costs >= _NEARLY * most.dollars_per_hour > 0.0:
        yield "hour", f"costs ${costs:.4g} an hour, and may cost ${most.dollars_per_hour:.10g}"


def _taken_up(text: str | None) -> _Told:
    """Decode an earlier daemon's reports; empty where they are unreadable."""
    try:
        return _KEPT_AS.validate_json(text) if text else ("", set())
    except ValidationError as error:
        log.error("the queues whose spent budget was reported cannot be read", why=str(error))
        return ("", set())
