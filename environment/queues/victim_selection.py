"""Victims of a preemption: executors and jobs to take, so that a waiting job fits at the least loss.

Elastic jobs give executors; where these are not enough, whole jobs of the lowest priority go. No job gives
more than it can spare, no queue more than it has beyond its guarantee. `victim_cover` finds sets that make
room; `preemption` decides which jobs may be taken from at all.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from conf.util.counted import counted
from environment.queues.running_usage import BoolArray, Holders
from environment.queues.victim_cover import cover, room
from environment.resources import Resources
from environment.types import FloatArray, IntArray, PlacementRequest
from environment.view import ClusterView

#: How often it is looked anew for executors that may be taken together.
_TRIES = 8


class NothingTakenError(Exception):
    """Nothing is taken; the text says why."""


@dataclass(frozen=True, slots=True)
class QueueGuarantee:
    """A queue with its guarantee to preserve: its jobs, and their holdings (thousandths)."""

    guaranteed: Resources
    members: BoolArray
    holds: Mapping[str, int]

    def allows(self, taken: Mapping[str, int]) -> bool:
        """Whether it has all that is guaranteed of some resource without that."""
        return any(
            self.holds[name] - taken[name] >= amount for name, amount in self.guaranteed.thousandths.items()
        )


@dataclass(slots=True)
class Victims:
    """Resources to take: rows of executors, and jobs."""

    rows: IntArray = field(default_factory=lambda: np.zeros(0, np.int64))
    jobs: IntArray = field(default_factory=lambda: np.zeros(0, np.int64))


class VictimSelector:
    """Chooses victims for one request, on a view with all free resources usable.

    `worth` is the cost of each executor's work so far, dollars, [E].
    """

    def __init__(
        self,
        view: ClusterView,
        request: PlacementRequest,
        holders: Holders,
        worth: FloatArray,
        guards: list[QueueGuarantee],
    ) -> None:
        self._view, self._request, self._holders = view, request, holders
        self._worth, self._guards = worth, guards
        self._each = request.size
        self._closed: BoolArray = np.zeros(len(view.vms), np.bool_)
        if view.closes_some(request):
            self._closed = view.closed_to(request)
        self._free: dict[str, IntArray] = {name: view.free.get(name) for name in self._each}

    def choose(self, may: BoolArray, stoppable: BoolArray) -> tuple[Victims, int]:
        """Choose the victims; return them, and the number of executors that they make room for."""
        holders = self._holders
        there = ~holders.going & (holders.vm >= 0) & ~np.append(self._closed, True)[holders.vm]
        elastic = np.flatnonzero(may[holders.of] & (holders.spare[holders.of] > 0) & ~holders.driver & there)
        whole = np.flatnonzero((may & stoppable)[holders.of] & ~holders.going & (holders.vm >= 0))
        limited = self._within(elastic)
        need = self._needed()
        all_gone = np.unique(np.concatenate((limited, self._whole_within(whole))))
        driver, count = need - self._fewest(), self._fewest()
        most = self._room(limited) - driver
        if most < count:
            most = self._room(all_gone) - driver
        if self._request.grows:  # as much as elastic jobs have, and only else by stopping others
            count = max(min(self._request.count, most), count)
        if most < count:
            raise NothingTakenError(
                f"even if all jobs that it may preempt gave way, there would be room for {max(most, 0)} of "
                f"{counted(self._request.count, 'executor')} of {self._request.size}"
            )
        need += count - self._fewest()
        rows = self._elastic(elastic, need, self._free)
        if rows is None and self._room(limited) >= need:
            rows = self._cover(limited, need, self._free)
        if rows is not None:
            return Victims(rows), count
        for base in (limited, limited[:0]):
            if (choice := self._with_jobs(whole, elastic, base, need)) is not None:
                return choice, count
        raise NothingTakenError("the queues that it could preempt would have less than their guarantees")

    def _with_jobs(self, whole: IntArray, elastic: IntArray, base: IntArray, need: int) -> Victims | None:
        """Whole jobs that make room together with executors of elastic ones, with these if need be."""
        holders = self._holders
        jobs = self._jobs(whole, base, need)
        stopped = self._holders.are(jobs)
        of_jobs = np.flatnonzero(stopped[holders.of] & ~holders.going & (holders.vm >= 0))
        free = self._freed(of_jobs)
        if int(room(free, self._each, self._closed).sum()) >= need:
            return Victims(jobs=jobs)
        others, taken = elastic[~stopped[holders.of[elastic]]], _sums(holders, of_jobs, self._guards)
        rows = self._elastic(others, need, free, taken)
        if rows is None:
            rows = self._cover(self._within(others, taken), need, free)
        return None if rows is None else Victims(rows, jobs)

    def _fewest(self) -> int:
        return self._request.fewest

    def _needed(self) -> int:
        """For how many executors of `_each` there has to be room, one more for a driver beside them."""
        request, driver = self._request, self._request.job.driver
        if driver is None or request.joins:
            return self._fewest()
        had = room(self._free, request.size, self._closed)
        places = self._view.room_for_driver(request.job)
        for vm in np.flatnonzero(places).tolist():
            left = {name: int(self._free[name][vm]) - driver.get(name) for name in request.size}
            if min(left[name] // amount for name, amount in request.size.thousandths.items()) >= had[vm]:
                self._free = {name: amounts.copy() for name, amounts in self._free.items()}
                for name in request.size:
                    self._free[name][vm] = left[name]
                return self._fewest()
        self._each = request.size | driver
        for name in self._each:
            self._free.setdefault(name, self._view.free.get(name))
        return self._fewest() + 1

    def _freed(self, rows: BoolArray | IntArray) -> dict[str, IntArray]:
        """Free resources, by name, when these executors are gone; int64 [N]."""
        count = len(self._view.vms)
        return {name: had + self._holders.freed(rows, name, count) for name, had in self._free.items()}

    def _room(self, gone: IntArray) -> int:
        """For how many executors there is room when these are gone."""
        return int(room(self._freed(gone), self._each, self._closed).sum())

    def _cost(self, rows: IntArray) -> FloatArray:
        """Dollars that are lost with each executor that is drained."""
        found: FloatArray = self._worth[rows] * self._holders.drained[rows]
        return found

    def _cover(self, rows: IntArray, need: int, free: Mapping[str, IntArray]) -> IntArray | None:
        holders = self._holders
        amounts = {name: holders.sizes.get(name)[rows] for name in self._each}
        found = cover(free, self._each, self._closed, holders.vm[rows], amounts, self._cost(rows), need)
        return None if found is None else rows[found]

    def _elastic(
        self,
        rows: IntArray,
        need: int,
        free: Mapping[str, IntArray],
        taken: list[dict[str, int]] | None = None,
    ) -> IntArray | None:
        """Executors of elastic jobs that make room; None when those of others are needed, too."""
        for _ in range(_TRIES):
            chosen = self._cover(rows, need, free)
            if chosen is None:
                return None
            kept = self._within(chosen, taken)
            if len(kept) == len(chosen):
                return chosen
            # No other executor may be chosen instead from a holder of which too much was chosen.
            over = self._over(chosen, kept)
            rows = rows[~over[self._holders.of[rows]] | np.isin(rows, kept)]
        return None

    def _over(self, chosen: IntArray, kept: IntArray) -> BoolArray:
        """[J] jobs chosen unnecessarily, widened to every job of their queues."""
        over = np.zeros(len(self._holders.jobs), np.bool_)
        over[self._holders.of[np.setdiff1d(chosen, kept)]] = True
        spare = np.bincount(self._holders.of[chosen], minlength=len(over)) > self._holders.spare
        for guard in self._guards:
            if (guard.members & over & ~spare).any():
                over |= guard.members
        return over

    def _within(self, rows: IntArray, taken: list[dict[str, int]] | None = None) -> IntArray:
        """Executors that jobs and queues can spare, the cheapest first."""
        holders = self._holders
        order = rows[np.argsort(self._cost(rows), kind="stable")]
        by_job = order[np.argsort(holders.of[order], kind="stable")]
        first = np.concatenate(([True], holders.of[by_job][1:] != holders.of[by_job][:-1]))[: len(by_job)]
        at = np.arange(len(by_job))
        number = at - np.maximum.accumulate(np.where(first, at, 0)) if len(by_job) else at
        spared = by_job[number < holders.spare[holders.of[by_job]]]
        is_spared = np.zeros(len(holders.of), np.bool_)
        is_spared[spared] = True
        return self._guarded(order[is_spared[order]], holders.of, taken)

    def _guarded(
        self,
        rows: IntArray,
        unit: IntArray,
        taken: list[dict[str, int]] | None = None,
    ) -> IntArray:
        """Executors to keep: of a guarded queue's, those before the first that breaks its guarantee."""
        holders, jobs, keep = self._holders, unit[rows], np.ones(len(rows), np.bool_)
        for number, guard in enumerate(self._guards):
            at = np.flatnonzero(guard.members[jobs] & keep)
            enough = np.zeros(len(at), np.bool_)
            for name, amount in guard.guaranteed.thousandths.items():
                before = 0 if taken is None else taken[number][name]
                left = guard.holds[name] - before - np.cumsum(holders.sizes.get(name)[rows[at]])
                enough |= left >= amount
            short = np.flatnonzero(~enough)
            if len(short):
                keep[at[short[0] :]] = False
        return rows[keep]

    # ---- whole jobs --------------------------------------------------------------------------------------

    def _jobs_in_order(self, rows: IntArray) -> IntArray:
        """The jobs of these executors: by lowest priority, then least loss, then fewest executors."""
        holders = self._holders
        lost = np.bincount(holders.of[rows], self._worth[rows], len(holders.jobs))
        count = np.bincount(holders.of[rows], minlength=len(holders.jobs))
        jobs = np.flatnonzero(count)
        order: IntArray = jobs[np.lexsort((count[jobs], lost[jobs], holders.priorities[jobs]))]
        return order

    def _whole_within(self, rows: IntArray) -> IntArray:
        """Executors of the whole jobs, in order, that can go without breaking a queue's guarantee."""
        if not self._guards or not len(rows):
            return rows
        holders, guards, jobs = self._holders, self._guards, len(self._holders.jobs)
        of, names = holders.of[rows], {name for guard in guards for name in guard.guaranteed}
        held = {
            name: np.bincount(of, holders.sizes.get(name)[rows], jobs).astype(np.int64).tolist()
            for name in names
        }
        guarded = _by_job(guards, jobs)
        taken = [dict.fromkeys(guard.guaranteed, 0) for guard in guards]
        place = np.full(jobs, -1)
        for number, job in enumerate(self._jobs_in_order(rows).tolist()):
            sums = {
                at: {name: had + held[name][job] for name, had in taken[at].items()} for at in guarded[job]
            }
            if all(guards[at].allows(gone) for at, gone in sums.items()):
                for at, gone in sums.items():
                    taken[at] = gone
                place[job] = number
        kept = rows[place[of] >= 0]
        found: IntArray = kept[np.argsort(place[holders.of[kept]], kind="stable")]
        return found

    def _jobs(self, rows: IntArray, elastic: IntArray, need: int) -> IntArray:
        """The whole jobs that make room together with these executors of elastic ones."""
        holders = self._holders
        rows = self._whole_within(rows)
        rows = self._lowest(rows, elastic, need)
        order = self._jobs_in_order(rows)
        place = np.zeros(len(holders.jobs), np.int64)
        place[order] = np.arange(len(order))
        lost = np.bincount(holders.of[rows], self._worth[rows], len(holders.jobs))
        ranks = np.unique(holders.priorities[order], return_inverse=True)[1]
        dear = lost[order] + ranks * (1.0 + float(lost.sum()))
        cost = np.zeros(len(holders.jobs))
        cost[order] = dear
        candidates = rows[~np.append(self._closed, True)[holders.vm[rows]]]
        best: IntArray | None = None
        counts = np.bincount(holders.of[candidates], minlength=len(cost)).clip(1)
        amounts = {name: holders.sizes.get(name)[candidates] for name in self._each}
        for shared in (cost, cost / counts):
            # Of a job that is taken in any case no elastic executor is needed: they are counted once.
            apart = elastic[~self._holders.are(order)[holders.of[elastic]]]
            free = self._freed(apart)
            of = holders.of[candidates]
            found = cover(free, self._each, self._closed, holders.vm[candidates], amounts, shared[of], need)
            if found is None:
                continue
            jobs = self._fewest_jobs(np.unique(of[found]), rows, elastic, cost, need)
            if best is None or (cost[jobs].sum(), len(jobs)) < (cost[best].sum(), len(best)):
                best = jobs
        if best is None:
            best = self._fewest_jobs(order, rows, elastic, cost, need)
        return best

    def _lowest(self, rows: IntArray, elastic: IntArray, need: int) -> IntArray:
        """Executors of the jobs of the lowest priorities that are enough."""
        holders = self._holders
        levels = np.unique(holders.priorities[holders.of[rows]])
        low, high = 0, len(levels) - 1
        while low < high:
            middle = (low + high) // 2
            some = rows[holders.priorities[holders.of[rows]] <= levels[middle]]
            gone = np.unique(np.concatenate((some, elastic)))
            if self._room(gone) >= need:
                high = middle
            else:
                low = middle + 1
        return rows[holders.priorities[holders.of[rows]] <= levels[high]] if len(levels) else rows

    def _fewest_jobs(
        self, jobs: IntArray, rows: IntArray, elastic: IntArray, cost: FloatArray, need: int
    ) -> IntArray:
        """Jobs that are needed to make room: of the unneeded ones, the dearest is dropped first."""
        holders, each = self._holders, self._each.thousandths
        gone = np.zeros(len(holders.of), np.bool_)
        gone[elastic] = True
        elsewhere = gone.copy()
        gone[rows[self._holders.are(jobs)[holders.of[rows]]]] = True
        free = self._freed(gone)
        slack = int(room(free, self._each, self._closed).sum()) - need
        rows = rows[np.argsort(holders.of[rows], kind="stable")]
        begins = np.searchsorted(holders.of[rows], np.arange(len(holders.jobs) + 1))
        kept = []
        for job in jobs[np.argsort(-cost[jobs], kind="stable")].tolist():
            of_job = rows[begins[job] : begins[job + 1]]
            of_job = of_job[~elsewhere[of_job]]
            vms, at = np.unique(holders.vm[of_job], return_inverse=True)
            had, less = (np.full(len(vms), np.iinfo(np.int64).max) for _ in range(2))
            left = {}
            for name, amount in each.items():
                left[name] = free[name][vms] - _added(at, holders.sizes.get(name)[of_job], len(vms))
                had, less = np.minimum(had, free[name][vms] // amount), np.minimum(less, left[name] // amount)
            lost = int((np.maximum(had, 0) - np.maximum(less, 0))[~self._closed[vms]].sum())
            if lost <= slack:
                slack -= lost
                for name in each:
                    free[name][vms] = left[name]
            else:
                kept.append(job)
        return np.array(sorted(kept), np.int64)


def _added(at: IntArray, amounts: IntArray, count: int) -> IntArray:
    """Sum of the amounts at each index, [count]."""
    found = np.zeros(count, np.int64)
    np.add.at(found, at, amounts)
    return found


def _by_job(guards: Sequence[QueueGuarantee], jobs: int) -> list[list[int]]:
    """Guards of each job, by number."""
    found: list[list[int]] = [[] for _ in range(jobs)]
    for number, guard in enumerate(guards):
        for job in np.flatnonzero(guard.members).tolist():
            found[job].append(number)
    return found


def _sums(holders: Holders, rows: IntArray, guards: list[QueueGuarantee]) -> list[dict[str, int]]:
    """Guaranteed resources that these executors hold, for each guard's own jobs; thousandths."""
    found = []
    for guard in guards:
        of = rows[guard.members[holders.of[rows]]]
        found.append({name: int(holders.sizes.get(name)[of].sum()) for name in guard.guaranteed})
    return found
