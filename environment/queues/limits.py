"""Jobs blocked by a queue or user limit, with the reason.

Limits on submission are checked where jobs are accepted.
"""

from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

from conf.util.counted import counted
from conf.util.utc_days import day_of, minute, month_of, next_day, next_month
from environment.queues.shares import ALL_QUEUES, Scope, Standings, Use
from environment.queues.types import Most, Sharing
from environment.resources import BASIC, Resources, told

#: Of dollars per hour, when prices are compared with a limit: thirds of a price are the price.
_DECIMALS = 9
#: Limited quantities beside resources, whose names have no spaces.
_RUNNING, _PER_HOUR = "running jobs", "dollars per hour"
_PER_DAY, _PER_MONTH = "dollars per day", "dollars per month"


class Over(NamedTuple):
    """A crossed limit, with its queue or user.

    The usage is put in words only on request.
    """

    scope: Scope
    most: Most
    #: A resource, or another limited quantity.
    what: str
    #: Present usage of the scope, and its spending today and in this month; then the job's request.
    use: Use
    charges: tuple[float, float]
    takes: Resources
    per_hour: float
    #: Present time, seconds since the epoch.
    at: float
    #: All limits of the job.
    bounds: tuple[Most, ...]

    @property
    def ever(self) -> bool:
        """Whether this job is let by all limits where nothing is held."""
        return all(_lets(most, self.takes, self.per_hour) for most in self.bounds)

    @property
    def why(self) -> str:
        """The limit and the usage that crosses it, in words."""
        path, user = self.scope
        name = f"queue {path}" if user is None else f"{user or 'nobody'} in queue {path}"
        name = name if path != ALL_QUEUES else f"{user or 'nobody'} over all queues"
        most, use = self.most, self.use
        if self.what == _RUNNING:
            jobs = counted(most.running or 0, "running job")
            return f"{name} may have {jobs} at most and has {use.running}"
        if self.what == _PER_HOUR:
            return (
                f"{name} may cost ${most.dollars_per_hour:.10g} per hour at most and costs "
                f"${use.per_hour:.4g}; this adds ${self.per_hour:.4g} at least"
            )
        today, month = self.charges
        if self.what == _PER_DAY:
            amount = f"${most.dollars_per_day:.10g} per day at most and has cost ${today:.4g} today (UTC)"
            return f"{name} may cost {amount}; it has room again at {minute(next_day(day_of(self.at)))}"
        if self.what == _PER_MONTH:
            amount = (
                f"${most.dollars_per_month:.10g} per month at most and has cost ${month:.4g} in this month"
            )
            until = minute(next_month(month_of(day_of(self.at))))
            return f"{name} may cost {amount} (UTC); it has room again at {until}"
        has, it = use.held.amount(self.what), self.takes.amount(self.what)
        amount = told(self.what, most.resources[self.what])
        return f"{name} may have {amount} at most and has {has:.10g}; this takes {it:.10g}"


class _Bound(NamedTuple):
    """A limit of a queue, or of each of its users; `amounts` are those of `most`, in thousandths."""

    path: str
    of_user: bool
    most: Most
    amounts: tuple[tuple[str, int], ...]

    @classmethod
    def of(cls, path: str, of_user: bool, most: Most) -> "_Bound":
        amounts = tuple((name, round(amount * 1000)) for name, amount in most.resources.items())
        return cls(path, of_user, most, amounts)

    def scope(self, user: str) -> Scope:
        """Scope, for that user, of the holdings that the limit bounds."""
        return self.path, user if self.of_user else None


class LimitRoom(NamedTuple):
    """Room left below a limit of a queue or user."""

    scope: Scope
    most: Most
    use: Use
    #: Dollars spent today, and in this month.
    charges: tuple[float, float]
    #: Whether no new job may have anything more.
    full: bool
    #: Of resources by name, thousandths; below zero where more is held.
    left: tuple[tuple[str, int], ...]

    def crossed(self, takes: Resources, more_jobs: int, per_hour: float = 0.0) -> str:
        """Name of the quantity that exceeds the limit with this addition; empty when none does."""
        asked = takes.thousandths
        for name, left in self.left:
            if name in asked and asked[name] > left:
                return name
        most = self.most
        if more_jobs and most.running is not None and self.use.running + more_jobs > most.running:
            return _RUNNING
        if most.dollars_per_hour is not None and _beyond(self.use.per_hour + per_hour, most) > 0.0:
            return _PER_HOUR
        return _spent(most, self.charges)


class ShareLimits:
    """The limits of a tree of queues, and those of each user over all of them."""

    def __init__(self, sharing: Sharing) -> None:
        self._queues = queues = sharing.queues
        self._over_all = sharing.most_per_user
        self._bounds = cache(self._bounds_of)
        self._above = cache(self._above_of)
        self._by_user = cache(self._by_user_of)
        bounds = [self._over_all, *(most for queue in queues for most in (queue.most, queue.most_per_user))]
        #: Whether there is any limit at all, one on the spending of a day or month, and one of a month.
        self.any = any(bounds)
        self.by_time = any(most.by_time for most in bounds)
        self.by_month = any(most.dollars_per_month is not None for most in bounds)

    def _bounds_of(self, queue: str) -> tuple[_Bound, ...]:
        line = self._queues.line(queue)
        queues = (_Bound.of(each.path, False, each.most) for each in line if each.most)
        users = (_Bound.of(each.path, True, each.most_per_user) for each in line if each.most_per_user)
        everywhere = (_Bound.of(ALL_QUEUES, True, self._over_all),) if self._over_all else ()
        return *queues, *everywhere, *users

    def bounded(self, queue: str) -> bool:
        """Whether there is any for jobs of that queue."""
        return bool(self._bounds(queue))

    def _by_user_of(self, queue: str) -> bool:
        return any(bound.of_user for bound in self._bounds(queue))

    def by_user(self, queue: str) -> bool:
        """Whether any of them is of each user."""
        return self._by_user(queue)

    def _above_of(self, queue: str) -> tuple[Scope, ...]:
        bounded = (bound.path for bound in self._bounds(queue))
        return tuple(dict.fromkeys((path, None) for path in (queue, *bounded)))

    def above(self, queue: str) -> tuple[Scope, ...]:
        """The queue, and the queues above it with a limit of their own or of their users."""
        return self._above(queue)

    def scopes(self, queue: str, user: str) -> Iterator[Scope]:
        """Scopes with holdings that limits bound for jobs of that queue and user."""
        return (bound.scope(user) for bound in self._bounds(queue))

    def over(
        self,
        standings: Standings,
        queue: str,
        user: str,
        takes: Resources,
        *,
        more_jobs: int = 1,
        per_hour: float = 0.0,
    ) -> Over | None:
        """The first limit that is crossed when a job of that queue and user gets so much more.

        `more_jobs` is 0 for one that runs already. None when none is crossed.
        """
        rooms = self.rooms(standings, queue, user)
        for room in rooms:
            if what := room.crossed(takes, more_jobs, per_hour):
                every = tuple(each.most for each in rooms)
                known = (room.scope, room.most, what, room.use, room.charges)
                return Over(*known, takes, per_hour, standings.at, every)
        return None

    def rooms(self, standings: Standings, queue: str, user: str) -> tuple[LimitRoom, ...]:
        """Room left for jobs of that queue and user below each limit."""
        return tuple(_room(standings, bound, bound.scope(user)) for bound in self._bounds(queue))

    def crossed_alone(self, standings: Standings, queue: str, user: str, takes: Resources) -> bool:
        """Whether a new job would cross a limit for what its own user holds, if others held nothing."""
        rooms = (_room(standings, bound, (bound.path, user)) for bound in self._bounds(queue))
        return any(room.crossed(takes, 1) for room in rooms)

    def left(self, standings: Standings, queue: str, user: str, each: Resources) -> int | None:
        """For how many times so much there is room below the limits of resources; None: any number."""
        asked, rooms = each.thousandths, self.rooms(standings, queue, user)
        times = [left // asked[name] for room in rooms for name, left in room.left if name in asked]
        return max(min(times), 0) if times else None


def _room(standings: Standings, bound: _Bound, scope: Scope) -> LimitRoom:
    most = bound.most
    use, spent = standings.of(scope), charges(standings, scope)
    held = use.held.thousandths
    left = tuple((name, amount - held.get(name, 0)) for name, amount in bound.amounts)
    full = (
        any(name in BASIC and some <= 0 for name, some in left)
        or (most.running is not None and use.running >= most.running)
        or (most.dollars_per_hour is not None and _beyond(use.per_hour, most) >= 0.0)
        or bool(_spent(most, spent))
    )
    return LimitRoom(scope, most, use, spent, full, left)


def charges(standings: Standings, scope: Scope) -> tuple[float, float]:
    """Dollars that a queue or user has spent today, and in this month where a limit asks for it."""
    return standings.spent.get(scope, 0.0), standings.months.get(scope, 0.0)


def _spent(most: Most, charged: tuple[float, float]) -> str:
    """Name of the limit of a day or month that is spent; empty when none is."""
    today, month = charged
    if most.dollars_per_month is not None and month >= most.dollars_per_month:
        return _PER_MONTH
    return _PER_DAY if most.dollars_per_day is not None and today >= most.dollars_per_day else ""


def _beyond(per_hour: float, most: Most) -> float:
    """Excess of that price over the limit, dollars per hour; 0 when equal but for rounding."""
    return round(per_hour - (most.dollars_per_hour or 0.0), _DECIMALS)


def _lets(most: Most, takes: Resources, per_hour: float) -> bool:
    """Whether so much may be had where nothing is held, and nothing was spent."""
    fits = all(takes.get(name) <= round(amount * 1000) for name, amount in most.resources.items())
    dear = most.dollars_per_hour is not None and _beyond(per_hour, most) > 0.0
    return fits and not dear and 0 not in (most.running, most.dollars_per_day, most.dollars_per_month)
