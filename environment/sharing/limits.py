"""Who has to wait since his queue, or what he may have of it, has no more to give: in words that are true.

What may be asked for at all is looked at where jobs are accepted.
"""

from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

from environment.resources import BASIC, Resources, told
from environment.sharing.shares import Scope, Standings
from environment.sharing.terms import Most, Queues

#: Of dollars per hour, when prices are compared with what may be paid: thirds of a price are the price.
_DECIMALS = 9


class Over(NamedTuple):
    """A limit that is in the way: of which queue or user, and what is said of it.

    `full` tells whether it is in the way of any new job of his; `ever` whether this one is let by all limits
    where nothing is held.
    """

    scope: Scope
    why: str
    full: bool
    ever: bool


class ShareLimits:
    """The limits of a tree of queues."""

    def __init__(self, queues: Queues) -> None:
        self._queues = queues
        self._bounds = cache(self._bounds_of)
        self._above = cache(self._above_of)
        #: Whether there is any limit at all, and whether there is one of what is spent on a day.
        self.any = any(queue.most or queue.most_per_user for queue in queues)
        bounds = (most for queue in queues for most in (queue.most, queue.most_per_user))
        self.by_day = any(most.dollars_per_day is not None for most in bounds)

    def _bounds_of(self, queue: str) -> tuple[tuple[str, bool, Most], ...]:
        line = self._queues.line(queue)
        queues = [(each.path, False, each.most) for each in line if each.most]
        return (*queues, *((each.path, True, each.most_per_user) for each in line if each.most_per_user))

    def bounded(self, queue: str) -> bool:
        """Whether there is any for jobs of that queue."""
        return bool(self._bounds(queue))

    def by_user(self, queue: str) -> bool:
        """Whether any of them is of each user."""
        return any(of_user for _, of_user, _ in self._bounds(queue))

    def _above_of(self, queue: str) -> tuple[Scope, ...]:
        bounded = (path for path, _, _ in self._bounds(queue))
        return tuple(dict.fromkeys((path, None) for path in (queue, *bounded)))

    def above(self, queue: str) -> tuple[Scope, ...]:
        """The queue, and all above it of which, or of whose users, there is any."""
        return self._above(queue)

    def scopes(self, queue: str, user: str) -> Iterator[Scope]:
        """Of whom what is held is in the way of jobs of that queue and user, when it is too much."""
        return ((path, user if of_user else None) for path, of_user, _ in self._bounds(queue))

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
        for path, of_user, most in self._bounds(queue):
            scope = (path, user if of_user else None)
            if why := _crossed(standings, scope, most, takes, more_jobs, per_hour):
                whose = f"{user or 'nobody'} in queue {path}" if of_user else f"queue {path}"
                full = _is_full(standings, scope, most)
                ever = all(_lets(each, takes, per_hour) for _, _, each in self._bounds(queue))
                return Over(scope, f"{whose} {why}", full, ever)
        return None

    def left(self, standings: Standings, queue: str, user: str, each: Resources) -> int | None:
        """For how many times so much there is room below the limits of resources; None: any number."""
        rooms = list(self._rooms(standings, queue, user, each))
        return max(min(rooms), 0) if rooms else None

    def _rooms(self, standings: Standings, queue: str, user: str, each: Resources) -> Iterator[int]:
        for path, of_user, most in self._bounds(queue):
            held = standings.of((path, user if of_user else None)).held
            for name, amount in most.resources.items():
                if each.get(name):
                    yield (round(amount * 1000) - held.get(name)) // each.get(name)


def _is_full(standings: Standings, scope: Scope, most: Most) -> bool:
    """Whether no new job may have anything more."""
    use = standings.of(scope)
    return (
        any(
            use.held.get(name) >= round(amount * 1000)
            for name, amount in most.resources.items()
            if name in BASIC
        )
        or (most.running is not None and use.running >= most.running)
        or (most.dollars_per_hour is not None and _beyond(use.per_hour, most) >= 0.0)
        or (most.dollars_per_day is not None and standings.spent.get(scope, 0.0) >= most.dollars_per_day)
    )


def _beyond(per_hour: float, most: Most) -> float:
    """How much dearer that is than may be, dollars per hour; 0 when just as dear but for rounding."""
    return round(per_hour - (most.dollars_per_hour or 0.0), _DECIMALS)


def _lets(most: Most, takes: Resources, per_hour: float) -> bool:
    """Whether so much may be had where nothing is held, and nothing was spent."""
    fits = all(takes.get(name) <= round(amount * 1000) for name, amount in most.resources.items())
    dear = most.dollars_per_hour is not None and _beyond(per_hour, most) > 0.0
    return fits and not dear and most.running != 0 and most.dollars_per_day != 0.0


def _crossed(
    standings: Standings, scope: Scope, most: Most, takes: Resources, more_jobs: int, per_hour: float
) -> str:
    """What may not be had more of; empty when nothing."""
    use = standings.of(scope)
    for name, amount in most.resources.items():
        asked = takes.get(name)
        if asked and use.held.get(name) + asked > round(amount * 1000):
            has, it = use.held.amount(name), takes.amount(name)
            return f"may have {told(name, amount)} at most and has {has:.10g}; this takes {it:.10g}"
    if more_jobs and most.running is not None and use.running + more_jobs > most.running:
        return f"may have {most.running} running jobs at most and has {use.running}"
    if most.dollars_per_hour is not None and _beyond(use.per_hour + per_hour, most) > 0.0:
        return (
            f"may cost ${most.dollars_per_hour:.10g} per hour at most and costs ${use.per_hour:.4g}; "
            f"this adds ${per_hour:.4g} at least"
        )
    spent = standings.spent.get(scope, 0.0)
    if most.dollars_per_day is not None and spent >= most.dollars_per_day:
        return f"may cost ${most.dollars_per_day:.10g} per day at most and has cost ${spent:.4g} today (UTC)"
    return ""
