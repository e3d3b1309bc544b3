"""The queue of a round of decisions: jobs in the order of a `Sharing`, as they are placed.

It is ordered lazily, and holds nothing that others change: a policy may read it in a thread of its own.
A policy is shown the order alone: neither shares nor limits, priorities or deadlines.
"""

import math
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import islice
from types import MappingProxyType
from typing import NamedTuple, overload

from environment.decisions.decision_round import Verdict, WaitingRequests
from environment.queues.progressive_filling import FillingScene, JobsByQueue, ProgressiveFilling
from environment.queues.shares import ALL_QUEUES, JobHolding, Scope, Standings
from environment.queues.sorted_lines import demand
from environment.queues.types import Sharing
from environment.resources import Resources, total
from environment.types import Job, Place, PlacementRequest
from environment.view import ClusterView


def others(sharing: Sharing, head: Job, job: Job) -> bool:
    """Whether a job is another user's than the head of the queue, or in another queue."""
    leaf = sharing.queues.leaf
    return (leaf(job.queue), job.owner) != (leaf(head.queue), head.owner)


class OrderedQueue(WaitingRequests):
    """The jobs that may be placed now, in order, as many as the window has."""

    def __init__(
        self,
        scene: FillingScene,
        standings: Standings,
        *,
        first: tuple[PlacementRequest, ...] | None = None,
        placed: tuple[JobHolding, ...] = (),
        gone: JobsByQueue = MappingProxyType({}),
        begun: int = 0,
        found: "_Found | None" = None,
    ) -> None:
        """`placed` was placed since `standings`, `gone` are all jobs that were in this round."""
        super().__init__(())
        self._scene = scene
        self._standings, self._placed = standings, placed
        self._first = scene.first if first is None else first
        self._gone = gone
        self._begun = begun
        self._found = found or _Found(Order(scene, self._now, gone, begun))
        self._window = standings.sharing.window

    def __bool__(self) -> bool:
        return bool(self._first) or self._at(0) is not None

    def __len__(self) -> int:
        if self._own is not None:
            return len(self._first) + len(self._own)
        return len(self._first) + len(self._look(self._window))

    def __iter__(self) -> Iterator[PlacementRequest]:
        yield from self._first
        if self._own is not None:
            yield from self._own
            return
        number = 0
        while number < self._window:
            # A reader that looks further mostly goes on, so as many again are looked for as there were.
            found, last = self._reach(min(max(2 * number, 1), self._window))
            if last <= found.start + number:
                return
            yield from found.order.found[found.start + number : last]
            number = last - found.start

    def _look(self, count: int) -> Sequence[PlacementRequest]:
        """The first so many, as far as there are so many."""
        found, last = self._reach(count)
        return found.order.found[found.start : last]

    def _at(self, number: int) -> PlacementRequest | None:
        """The one with that number; None when there are not so many."""
        found, last = self._reach(number + 1)
        return found.order.found[found.start + number] if last > found.start + number else None

    def _reach(self, count: int) -> "tuple[_Found, int]":
        """Search for this many jobs; return the found order, and the end index of the jobs in it."""
        found = self._found
        last = min(found.order.reach(found.start + count), found.start + count)
        if not found.changed or last <= found.sound:
            return found, last
        if found.order.blocked or self._any_crosses(found.order.found[found.sound : last], found.changed):
            # The jobs before stay as they are: as long as no limit blocks a job, the order is the same.
            self._found = _Found(Order(self._scene, self._now, self._gone, self._begun))
            return self._reach(count)
        self._found = found._replace(sound=last)
        return self._found, last

    def _any_crosses(self, requests: Iterable[PlacementRequest], changed: frozenset[Scope]) -> bool:
        """Whether a limit, of a scope with more usage since these were found, blocks one of the requests."""
        limits, queues = self._scene.limits, {queue for queue, _ in changed}
        below = tuple(f"{queue}." for queue in queues.difference(self._standings.sharing.queues.leaves))
        near = [
            each
            for each in requests
            if each.job.queue in queues or (below and each.job.queue.startswith(below))
        ]
        return any(
            not changed.isdisjoint(limits.scopes(request.job.queue, request.job.owner))
            and self._scene.crosses(self._now, request)
            for request in near
        )

    @overload
    def __getitem__(self, index: int) -> PlacementRequest: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[PlacementRequest]: ...
    def __getitem__(self, index: int | slice) -> PlacementRequest | Sequence[PlacementRequest]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        if index < 0:
            index += len(self)
        if 0 <= index < len(self._first):
            return self._first[index]
        number = index - len(self._first)
        if number > 0 and self._own is not None:
            return self._own[number]
        found = self._at(number) if 0 <= number < self._window else None
        if found is None:
            raise IndexError(index)
        return found

    @cached_property
    def _own(self) -> list[PlacementRequest] | None:
        """Where jobs of others went before the head as often as they may: those of its user alone."""
        most, head = self._standings.sharing.overtaken_by_others, self.head
        if most is None or head is None or self._scene.overtaken.get(head.job.id, 0) < most:
            return None
        sharing = self._standings.sharing
        return [each for each in self._look(self._window) if not others(sharing, head.job, each.job)]

    @property
    def head(self) -> PlacementRequest | None:
        """The first of the jobs that wait as a whole, or grow; None without any."""
        return self._at(0)

    @cached_property
    def _now(self) -> Standings:
        """Shares including the jobs placed since."""
        return self._standings.with_more(self._placed) if self._placed else self._standings

    def refuses(self, view: ClusterView, request: PlacementRequest, place: Place) -> str:
        """Which limit the placement would cross; empty when none."""
        job, holding = request.job, _holding(view, request, place)
        if not self._scene.limits.bounded(job.queue):
            return ""
        more_jobs = int(not request.joins)
        over = self._scene.limits.over(
            self._now, job.queue, job.owner, holding.held, more_jobs=more_jobs, per_hour=holding.per_hour
        )
        return over.why if over else ""

    def without(self, request: PlacementRequest) -> "OrderedQueue":
        """The queue without one of its requests."""
        first = tuple(each for each in self._first if each is not request)
        return self._changed(self._scene, first, self._without([request.job]))

    def without_user(self, request: PlacementRequest) -> "OrderedQueue":
        """The queue without all requests of the same queue and user, also those that it does not show."""
        job, sharing = request.job, self._standings.sharing
        return self._leaving_out({(sharing.queues.leaf(job.queue), job.owner)})

    def without_owners(self, owners: Collection[str]) -> "OrderedQueue":
        """The queue without all requests of these users, also those that it does not show."""
        return self._leaving_out({(ALL_QUEUES, owner) for owner in owners})

    def _leaving_out(self, scopes: Collection[Scope]) -> "OrderedQueue":
        scene = replace(self._scene, left_out=self._scene.left_out.union(scopes))
        leaf = self._standings.sharing.queues.leaf
        first = tuple(each for each in self._first if not scene.leaves_out(each.job, leaf(each.job.queue)))
        return self._changed(scene, first, self._gone)

    def _changed(
        self, scene: FillingScene, first: tuple[PlacementRequest, ...], gone: JobsByQueue
    ) -> "OrderedQueue":
        return OrderedQueue(
            scene, self._standings, first=first, placed=self._placed, gone=gone, begun=self._begun
        )

    def _without(self, jobs: Iterable[Job]) -> JobsByQueue:
        gone, leaf = dict(self._gone), self._standings.sharing.queues.leaf
        for job in jobs:
            queue = leaf(job.queue)
            gone[queue] = gone.get(queue, frozenset()) | {job.id}
        return gone

    def after(self, verdict: Verdict) -> "OrderedQueue":
        """The queue after placing the verdict's job: the others by the holdings of then."""
        request, place = verdict.request, verdict.decision
        if not isinstance(place, Place):
            return self
        holding = _holding(verdict.view, request, place)
        begun = self._begun + len(place.placement) + (not request.joins)
        head, gone = self.head, self._without([request.job])
        scene, found = self._scene, self._found
        standings, placed = self._standings, (*self._placed, holding)
        if scene.limits.any:  # which need them as they are now
            standings, placed = self._now, (holding,)
        if not self._first and request is head and found.order.goes_on(request, holding.held):
            more = frozenset(scene.limits.scopes(request.job.queue, request.job.owner))
            rest = found.after(more)
            turns = OrderedQueue(
                scene, standings, first=(), placed=placed, gone=gone, begun=begun, found=rest
            )
            known = rest.order.found[rest.start : rest.sound]
            if not more or not (rest.order.blocked or turns._any_crosses(known, more)):
                return turns
        if head is not None and not request.again and others(self._standings.sharing, head.job, request.job):
            times = scene.overtaken.get(head.job.id, 0) + 1
            scene = replace(scene, overtaken={**scene.overtaken, head.job.id: times})
        first = tuple(each for each in self._first if each is not request)
        return OrderedQueue(scene, standings, first=first, placed=placed, gone=gone, begun=begun)


class Order:
    """Jobs in order, found as far as they are asked for.

    `ProgressiveFilling` has no reference to it: a circle would delay freeing all that an order has found
    until the garbage collector runs.
    """

    def __init__(self, scene: FillingScene, standings: Standings, gone: JobsByQueue, begun: int) -> None:
        self.found: list[PlacementRequest] = []
        self._known = scene.known
        self._filling = ProgressiveFilling(scene, standings, gone)
        self._rest = scene.gate(self._filling.shown(), begun)

    @property
    def blocked(self) -> bool:
        """Whether a limit is in the way of a job that starves: it may be another after a placement."""
        return self._filling.blocked

    def reach(self, count: int) -> int:
        """Search for this many jobs; return the number found."""
        found = self.found
        if len(found) < count:
            # The acting policy and the shadow may look at the same queue, each in a thread of its own.
            with self._known.finding:
                try:
                    found.extend(islice(self._rest, count - len(found)))
                except BaseException:  # half-found results are found anew by the next
                    self._known.forget()
                    raise
        return len(found)

    def goes_on(self, request: PlacementRequest, held: Resources) -> bool:
        """Whether the others would stand in the same order had this one been placed with `held`.

        They still do if no limit blocks any of them that was not blocked before.
        """
        return request.job.id not in self._filling.cut and held == demand(request)[0]


class _Found(NamedTuple):
    """Jobs in an order, from `start` on.

    `changed` are the scopes with limits that have more than when the order began; the jobs before `sound` are
    known not to be blocked by that.
    """

    order: Order
    start: int = 0
    sound: int = 0
    changed: frozenset[Scope] = frozenset()

    def after(self, more: frozenset[Scope]) -> "_Found":
        """The same when the first has been placed, and these have more, which is to be looked at."""
        sound = self.sound if self.changed else len(self.order.found)
        return _Found(self.order, self.start + 1, max(sound, self.start + 1), self.changed | more)


def order_of(scene: FillingScene, standings: Standings) -> Iterator[PlacementRequest]:
    """All jobs that may be placed, in order, found one after the other."""
    order = Order(scene, standings, {}, 0)
    number = 0
    while order.reach(number + 1) > number:
        yield order.found[number]
        number += 1


def _holding(view: ClusterView, request: PlacementRequest, place: Place) -> JobHolding:
    """Resources that a placement takes, with their cost."""
    job, sizes = request.job, request.granted(place)
    on = list(zip(sizes, place.placement, strict=True))
    if job.driver is not None and not request.joins:
        sizes = (*sizes, job.driver)
        if place.driver is not None:  # a round finds its place last
            on.append((job.driver, place.driver))
    prices = (
        view.vms[vm].price_per_hour * min(size.share_of(view.vms[vm].resources), 1.0) for size, vm in on
    )
    return JobHolding(job.queue, job.owner, total(sizes), math.fsum(prices), new=not request.joins)
