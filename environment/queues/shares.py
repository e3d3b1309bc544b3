"""Present and past usage of queues and their users: the basis of the `fair` order.

`limits` checks the same numbers against limits.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from conf.util.utc_days import month_of
from environment.queues.types import Queue, Sharing
from environment.resources import NOTHING, Resources

#: A queue by its path (None), or one of its users.
Scope = tuple[str, str | None]

#: Weight of the present usage against the average of the past: with equal weights, a user of large jobs gets
#: too little, being next only with next to no usage. Chosen: with 1 the furthest of ten users was 8 % off its
#: share, with 10 half of that.
PAST = 10.0
#: Number of steps of a half-life; events in a step happen, as far as the past is concerned, when it begins:
#: so shares change only then, and with present usage. Forgotten late by this are four percent.
_STEPS = 16
#: Decimals by which shares are compared: sums of the same amounts in another order are the same share.
_DECIMALS = 12
#: Of a dollar, in which prices are added up.
_PARTS = 10**12
#: A share of the cluster that is forgotten altogether.
_DUST = 1e-6


class JobHolding(NamedTuple):
    """Resources that a job holds now, and their cost, dollars per hour; not `new` for a job's added ones."""

    queue: str
    user: str
    held: Resources
    per_hour: float
    new: bool = True

    @property
    def picodollars(self) -> int:
        """The cost in integer fractions of a dollar: sums of these are the same in any order."""
        return round(self.per_hour * _PARTS)


class Use(NamedTuple):
    """Resources held now, the number of jobs, the price per hour, and past usage.

    `past` is the mean of past holdings, by name in thousandths, with older ones weighted less: by half
    for every half-life. It is that of the time `at`, seconds.
    """

    held: Resources = NOTHING
    running: int = 0
    picodollars: int = 0
    past: Mapping[str, float] = {}
    at: float = 0.0

    @property
    def per_hour(self) -> float:
        """Cost, dollars per hour."""
        return self.picodollars / _PARTS

    def past_at(self, at: float, half_life: float) -> Mapping[str, float]:
        """Value of `past` at a later time, if holdings have not changed."""
        if half_life <= 0.0:
            return {}
        held = self.held.thousandths
        if at <= self.at and held.keys() <= self.past.keys():
            return self.past
        left = 2.0 ** (-max(at - self.at, 0.0) / half_life)
        names = {**held, **self.past}
        return {name: _mixed(held.get(name, 0), self.past.get(name, 0.0), left) for name in names}


def _mixed(held: float, past: float, left: float) -> float:
    return held + (past - held) * left


_NOTHING_SPENT: Mapping[Scope, float] = {}
#: The path that stands for all queues in the scopes of users with limits over them.
ALL_QUEUES = ""
_ALL = Queue(ALL_QUEUES)
#: Usage of a scope that never held anything.
NO_USE = Use()
#: Usage of queues (None) and their users, by the path of the queue.
Uses = Mapping[str, Mapping[str | None, Use]]
_NOBODY: Mapping[str | None, Use] = {}


class PastUsage(NamedTuple):
    """Saved state of a queue or user beyond its holdings: `Use.past`, and `Use.at`."""

    queue: str
    user: str | None
    past: tuple[tuple[str, float], ...]
    at: float


class Spent(NamedTuple):
    """Charges of a queue or one of its users on a day (2026-11-22), or in a month (2026-11), dollars."""

    day: str
    queue: str
    user: str | None
    dollars: float


@dataclass(frozen=True, slots=True)
class Standings:
    """Shares at one moment, by which a round is ordered. Never changed.

    `whole` is the cluster's total. `spent` are today's charges, dollars, `months` those of this month where
    anything limits them. `placed` replaces `uses` where something was placed since. `step` is when the step
    of now began: no share changes for time alone before the next one does.
    """

    sharing: Sharing
    uses: Uses
    spent: Mapping[Scope, float]
    whole: Resources
    at: float
    placed: Mapping[Scope, Use] = field(default_factory=dict)
    months: Mapping[Scope, float] = field(default_factory=dict)
    step: float = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "step", step_of(self.at, self.sharing.half_life))

    def of(self, scope: Scope) -> Use:
        """Usage of a queue or user."""
        return self.placed.get(scope) or self.uses.get(scope[0], _NOBODY).get(scope[1], NO_USE)

    def users(self, path: str) -> Mapping[str | None, Use]:
        """Usage of a queue and its users."""
        uses = self.uses.get(path, _NOBODY)
        if self.placed:
            since = {user: use for (queue, user), use in self.placed.items() if queue == path}
            return {**uses, **since}
        return uses

    def every(self) -> Iterator[tuple[Scope, Use]]:
        """All scopes with usage before any placement of the round."""
        return _every(self.uses)

    def with_more(self, more: Iterable[JobHolding]) -> "Standings":
        """The same when these jobs have been placed."""
        placed = dict(self.placed)
        for holding in more:
            for scope in scopes(self.sharing, holding.queue, holding.user):
                use = placed.get(scope) or self.of(scope)
                placed[scope] = Use(
                    use.held + holding.held,
                    use.running + holding.new,
                    use.picodollars + holding.picodollars,
                    use.past_at(self.step, self.sharing.half_life),
                    max(self.step, use.at),
                )
        return replace(self, placed=placed)

    def vector(self, use: Use) -> list[float]:
        """Present holdings plus `PAST` times the mean past ones, as parts of the whole, by resource."""
        held, names = use.held.thousandths, self.whole.thousandths
        half_life = self.sharing.half_life
        if half_life <= 0.0 or not (use.past or held):
            return [held.get(name, 0) / whole for name, whole in names.items()]
        left = 2.0 ** (-max(self.step - use.at, 0.0) / half_life)
        past = use.past
        return [
            (held.get(name, 0) * (1.0 + PAST * (1.0 - left)) + PAST * past.get(name, 0.0) * left) / whole
            for name, whole in names.items()
        ]

    def part(self, past: Mapping[str, float]) -> float:
        """The largest part of the whole in so much, thousandths by name; 0 where that is next to nothing."""
        whole = self.whole.thousandths
        part = max((amount / whole[name] for name, amount in past.items() if whole.get(name)), default=0.0)
        return part if part > _DUST else 0.0

    def share(self, path: str) -> float:
        """A queue's dominant share (Ghodsi 2011) of present and past usage, divided by its weight."""
        return dominant(self.vector(self.of((path, None))), self.weight(path))

    def weight(self, path: str) -> float:
        """A queue's weight."""
        return self.sharing.queues.line(path)[-1].weight

    def times_its_share(self, path: str, others: Iterable[str]) -> float | None:
        """Usage of a queue as a multiple of its due share beside these queues; None if none had any.

        By weight alone, as in the order: `environment.simulation.results.fairness` judges a finished run with
        guarantees, limits and demands.
        """
        had = {other: self.share(other) * self.weight(other) for other in {path, *others}}
        everything = math.fsum(had.values())  # in whichever order
        if not everything:
            return None
        due = self.weight(path) / math.fsum(map(self.weight, had))
        return had[path] / everything / due


def _every(uses: Uses) -> Iterator[tuple[Scope, Use]]:
    return (((queue, user), use) for queue, users in uses.items() for user, use in users.items())


def step_of(at: float, half_life: float) -> float:
    """When the step began in which a time is, seconds."""
    step = half_life / _STEPS
    return at // step * step if step > 0.0 else 0.0


def dominant(had: Sequence[float], weight: float) -> float:
    """Dominant share (Ghodsi 2011) of these parts of the whole, divided by the weight."""
    return round(max(had) / weight, _DECIMALS) if had else 0.0


def scopes(sharing: Sharing, queue: str, user: str) -> tuple[Scope, ...]:
    """Scopes charged for a job of that queue and user: queues from the top, and the user in each.

    Where users have limits over all queues, `ALL_QUEUES` is on top.
    """
    line = sharing.queues.line(queue)
    if sharing.most_per_user:
        line = (_ALL, *line)
    return (*((each.path, None) for each in line), *((each.path, user) for each in line))


class Shares:
    """Accounts of jobs' holdings; call `holds` at every change."""

    def __init__(self, sharing: Sharing) -> None:
        self._sharing = sharing
        self._uses: dict[str, dict[str | None, Use]] = {}
        #: The queues of which nothing was handed out since it was changed.
        self._mine: set[str] = set()
        self._holdings: dict[str, JobHolding] = {}
        self._spent: dict[Scope, float] = {}
        #: The same of the month of that day.
        self._months: dict[Scope, float] = {}
        #: Whether anything limits the charges of a month.
        bounds = (most for queue in sharing.queues for most in (queue.most, queue.most_per_user))
        self._monthly = any(most.dollars_per_month is not None for most in (*bounds, sharing.most_per_user))
        self._day = ""
        self._standings: Standings | None = None

    def holds(self, job_id: str, holding: JobHolding, at: float) -> None:
        """Set the job's holdings from now on; an empty holding removes them."""
        before = self._holdings.get(job_id)
        if before == holding or (before is None and not holding.held):
            return
        if before is not None:
            self._add(before, at, -1)
            del self._holdings[job_id]
        if holding.held:
            self._add(holding, at, 1)
            self._holdings[job_id] = holding

    def _add(self, holding: JobHolding, at: float, times: int) -> None:
        self._standings, at = None, step_of(at, self._sharing.half_life)
        for queue, user in scopes(self._sharing, holding.queue, holding.user):
            users = self._own(queue)
            use = users.get(user, NO_USE)
            held = use.held + holding.held if times > 0 else use.held - holding.held
            users[user] = Use(
                held,
                use.running + times,
                use.picodollars + times * holding.picodollars,
                use.past_at(at, self._sharing.half_life),
                max(at, use.at),
            )

    def _own(self, queue: str) -> dict[str | None, Use]:
        """Usage of a queue and its users, copied before a change if it was handed out."""
        if queue not in self._mine:
            self._uses[queue] = dict(self._uses.get(queue, _NOBODY))
            self._mine.add(queue)
        return self._uses[queue]

    def spends(self, queue: str, user: str, day: str, dollars: float) -> None:
        """Add charges of a day for a job of that queue and user."""
        if day < self._day:
            return
        if day > self._day:
            self._months = self._months if month_of(day) == month_of(self._day) else {}
            self._day, self._spent = day, {}
        self._standings = None
        for scope in scopes(self._sharing, queue, user):
            self._spent[scope] = self._spent.get(scope, 0.0) + dollars
            self._months[scope] = self._months.get(scope, 0.0) + dollars

    def standings(self, whole: Resources, at: float, day: str = "") -> Standings:
        """The shares of now, in a cluster that has that much in all; `day` is that of the time."""
        known = self._standings
        if known is None or known.whole != whole:
            months = dict(self._months) if self._monthly else _NOTHING_SPENT
            known = Standings(self._sharing, dict(self._uses), dict(self._spent), whole, at, months=months)
            self._standings = known
            self._mine.clear()
        spent = known.spent if day == self._day else _NOTHING_SPENT
        months = known.months if month_of(day) == month_of(self._day) else _NOTHING_SPENT
        same = known.at == at and spent is known.spent and months is known.months
        return known if same else replace(known, at=at, spent=spent, months=months)

    def state(self) -> tuple[PastUsage, ...]:
        """State that jobs' present holdings do not contain."""
        return tuple(
            PastUsage(queue, user, tuple(use.past.items()), use.at)
            for (queue, user), use in _every(self._uses)
        )

    def spent(self) -> tuple[Spent, ...]:
        """Charges of the last day with any charge, and of its month."""
        sums = ((self._day, self._spent), (month_of(self._day), self._months))
        return tuple(Spent(when, *scope, dollars) for when, of in sums for scope, dollars in of.items())

    def resume(
        self, used: Iterable[PastUsage], spent: Iterable[Spent], holdings: Mapping[str, JobHolding], at: float
    ) -> None:
        """Restore the state, with these holdings of jobs at that time; a new queue has no past."""
        # Earlier entries come first, in their order: so the state is the same as if nothing had ended.
        known = {(queue, user): Use(past=dict(past), at=since) for queue, user, past, since in used}
        self._standings, self._uses, self._holdings = None, {}, {}
        self._mine.clear()
        for queue, user in known:
            self._own(queue)[user] = NO_USE
        for job_id, holding in holdings.items():
            self.holds(job_id, holding, at)
        new = Use(at=step_of(at, self._sharing.half_life))
        for (queue, user), use in list(_every(self._uses)):
            before = known.get((queue, user), new)
            self._own(queue)[user] = use._replace(past=before.past, at=before.at)
        found = tuple(spent)
        # Where nothing was charged today, the month is known by itself.
        days = (f"{each.day}-00" if each.day == month_of(each.day) else each.day for each in found)
        self._day = max(days, default=self._day)
        self._spent = {(each.queue, each.user): each.dollars for each in found if each.day == self._day}
        self._months = dict(self._spent)  # as logs of earlier versions have no months
        month = month_of(self._day)
        self._months |= {(each.queue, each.user): each.dollars for each in found if each.day == month}

    def forget(self, whole: Resources, at: float) -> None:
        """Forget queues and users that hold nothing and have next to no past usage."""
        self._standings = None
        for (queue, user), use in list(_every(self._uses)):
            past = use.past_at(at, self._sharing.half_life)
            if not use.held and all(amount <= _DUST * whole.get(name) for name, amount in past.items()):
                del self._own(queue)[user]
        for queue in [queue for queue, users in self._uses.items() if not users]:
            del self._uses[queue]
            self._mine.discard(queue)


def below_guarantee(queue: Queue, held: Resources) -> float | None:
    """Fulfilled part of a queue's guarantee, from 0 to 1, at its largest resource; None when all of it."""
    if not queue.guaranteed:
        return None
    part = max(held.get(name) / amount for name, amount in queue.guaranteed.thousandths.items())
    return part if part < 1.0 else None
