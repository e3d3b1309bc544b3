"""Queues and users that have spent a limit in dollars: each is reported once a day (UTC).

`environment.queues.limits` makes their jobs wait; `daemon.scheduler.budget` limits the cost of all VMs.
"""

from collections.abc import Callable, Iterator

import structlog
from pydantic import TypeAdapter, ValidationError

from conf.util.utc_days import day_of, minute, month_of, next_day, next_month
from daemon.store.rows.event_recorder import HistoryEvent
from environment.queues.limits import charges
from environment.queues.shares import ALL_QUEUES, Scope, Standings
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
            of = "over all queues" if path == ALL_QUEUES else f"of queue {path}"
            spent = f"a user {of} has reached the limit of cost per user"
            said = f"queue {path} {why}" if user is None else spent
            self._news.append(HistoryEvent(now, None, "budget spent", said))

    def take_news(self) -> tuple[list[HistoryEvent], dict[str, str]]:
        """Return the events since the last call, and the fact that records their report."""
        news, self._news = self._news, []
        if not news or self._told is None:
            return [], {}
        return news, {FACT: _KEPT_AS.dump_json(self._told).decode()}


def _used_up(standings: Standings) -> Iterator[tuple[Scope, str, str]]:
    """Yield queues and users with a spent limit, with the limit, in words."""
    sharing = standings.sharing
    of_queues = [(queue.path, queue.most, False) for queue in sharing.queues]
    of_each_user = [(queue.path, queue.most_per_user, True) for queue in sharing.queues]
    for path, most, of_users in (*of_queues, *of_each_user, (ALL_QUEUES, sharing.most_per_user, True)):
        if not most.by_time and most.dollars_per_hour is None:
            continue
        scopes = {*standings.spent, *standings.months, *(scope for scope, _ in standings.every())}
        for scope in sorted((each for each in scopes if each[0] == path), key=str):
            if (scope[1] is not None) == of_users:
                yield from ((scope, per, why) for per, why in _of(standings, scope, most))


def _of(standings: Standings, scope: Scope, most: Most) -> Iterator[tuple[str, str]]:
    (today, month), costs = charges(standings, scope), standings.of(scope).per_hour
    if most.dollars_per_month is not None and month >= most.dollars_per_month > 0.0:
        may = f"may cost ${most.dollars_per_month:.10g} a month"
        until = minute(next_month(month_of(day_of(standings.at))))
        yield "month", f"has cost ${month:.4g} in this month (UTC), and {may}; it has room again at {until}"
    if most.dollars_per_day is not None and today >= most.dollars_per_day > 0.0:
        may = f"may cost ${most.dollars_per_day:.10g} a day"
        until = minute(next_day(day_of(standings.at)))
        yield "day", f"has cost ${today:.4g} today (UTC), and {may}; it has room again at {until}"
    if most.dollars_per_hour is not None and costs >= _NEARLY * most.dollars_per_hour > 0.0:
        yield "hour", f"costs ${costs:.4g} an hour, and may cost ${most.dollars_per_hour:.10g}"


def _taken_up(text: str | None) -> _Told:
    """Decode an earlier daemon's reports; empty where they are unreadable."""
    try:
        return _KEPT_AS.validate_json(text) if text else ("", set())
    except ValidationError as error:
        log.error("the queues whose spent budget was reported cannot be read", why=str(error))
        return ("", set())
