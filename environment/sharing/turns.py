"""The queue of a round of decisions: jobs in the order of a `Sharing`, as they are placed.

It is put in order only as far as somebody looks, and holds nothing that others change: a policy may look at
it in a thread of its own. A policy is shown the order alone: neither shares nor limits, priorities or
deadlines.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from typing import overload

from environment.resources import total
from environment.rounds import Queue, Verdict
from environment.sharing.filling import Order, Scene
from environment.sharing.shares import Holding, Standings
from environment.types import Job, Place, PlacementRequest
from environment.view import ClusterView


def others(head: Job, job: Job) -> bool:
    """Whether a job is another user's than the head of the queue, or in another queue."""
    return (job.queue, job.owner) != (head.queue, head.owner)


class Turns(Queue):
    """The jobs that may be placed now, in order, as many as the window has."""

    def __init__(
        self,
        scene: Scene,
        standings: Standings,
        *,
        first: tuple[PlacementRequest, ...] | None = None,
        placed: tuple[Holding, ...] = (),
        gone: frozenset[str] = frozenset(),
        order: "Order | None" = None,
        start: int = 0,
        begun: int = 0,
    ) -> None:
        super().__init__(())
        self._scene = scene
        #: As of when the order was found.
        self._standings = standings
        self._first = scene.first if first is None else first
        #: What was placed since then, and all jobs that were placed in this round.
        self._placed, self._gone = placed, gone
        self._order = order or Order(scene, standings, gone, begun)
        self._at = start
        self._begun = begun
        self._window = standings.sharing.window

    def __bool__(self) -> bool:
        return bool(self._first) or self._order.reach(self._at + 1) > self._at

    def __len__(self) -> int:
        if self._own is not None:
            return len(self._first) + len(self._own)
        return len(self._first) + min(self._order.reach(self._at + self._window) - self._at, self._window)

    def __iter__(self) -> Iterator[PlacementRequest]:
        yield from self._first
        if self._own is not None:
            yield from self._own
            return
        for number in range(self._at, self._at + self._window):
            if self._order.reach(number + 1) <= number:
                return
            yield self._order.found[number]

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
        if not 0 <= number < self._window or self._order.reach(self._at + number + 1) <= self._at + number:
            raise IndexError(index)
        return self._order.found[self._at + number]

    @cached_property
    def _own(self) -> list[PlacementRequest] | None:
        """Where jobs of others went before the head as often as they may: those of its user alone."""
        most, head = self._standings.sharing.overtaken_by_others, self.head
        if most is None or head is None or self._scene.overtaken.get(head.job.id, 0) < most:
            return None
        last = self._order.reach(self._at + self._window)
        return [each for each in self._order.found[self._at : last] if not others(head.job, each.job)]

    @property
    def head(self) -> PlacementRequest | None:
        """The first of the jobs that wait as a whole, or grow; None without any."""
        there = self._order.reach(self._at + 1) > self._at
        return self._order.found[self._at] if there else None

    @cached_property
    def _now(self) -> Standings:
        """The shares with what was placed since."""
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

    def after(self, verdict: Verdict) -> "Turns":
        """The queue when the verdict's job has been placed: the others by what is held then."""
        request, place = verdict.request, verdict.decision
        if not isinstance(place, Place):
            return self
        holding = _holding(verdict.view, request, place)
        placed, begun = (*self._placed, holding), self._begun + len(place.placement) + (not request.joins)
        gone = self._gone | {request.job.id}
        head = self.head
        if not self._first and request is head and self._order.goes_on(request, holding.held):
            return Turns(
                self._scene, self._standings, first=(), placed=placed, gone=gone,
                order=self._order, start=self._at + 1, begun=begun,
            )  # fmt: skip
        scene = self._scene
        if head is not None and not request.again and others(head.job, request.job):
            times = scene.overtaken.get(head.job.id, 0) + 1
            scene = replace(scene, overtaken={**scene.overtaken, head.job.id: times})
        first = tuple(each for each in self._first if each is not request)
        standings = self._standings.with_more(placed)
        return Turns(scene, standings, first=first, gone=gone, begun=begun)


def order_of(scene: Scene, standings: Standings) -> Iterator[PlacementRequest]:
    """All who may be placed, in order, found one after the other."""
    order = Order(scene, standings, frozenset(), 0)
    number = 0
    while order.reach(number + 1) > number:
        yield order.found[number]
        number += 1


def _holding(view: ClusterView, request: PlacementRequest, place: Place) -> Holding:
    """What a placement takes, and what that costs."""
    job, sizes = request.job, request.granted(place)
    on = list(zip(sizes, place.placement, strict=True))
    if job.driver is not None and not request.joins:
        sizes = (*sizes, job.driver)
        if place.driver is not None:  # a round finds its place last
            on.append((job.driver, place.driver))
    prices = (
        view.vms[vm].price_per_hour * min(size.share_of(view.vms[vm].resources), 1.0) for size, vm in on
    )
    return Holding(job.queue, job.owner, total(sizes), sum(prices), new=not request.joins)
