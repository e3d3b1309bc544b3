"""Order in which jobs of one moment are placed, found one after the other: progressive filling (Ghodsi 2011).

Jobs stand as if those before them had been placed: where the order is `fair`, each takes its part of its
queue's and user's share before the next is chosen. Limits apply to the holdings at the start of the order.
`ordered_queue` defines how far jobs are found, the part that a policy is shown, and the order after each
placement.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from heapq import heapify, heappop, heapreplace
from itertools import islice
from operator import add
from typing import Any

from conf.units import SECONDS_PER_DAY
from environment.queues.limits import LimitRoom, Over, ShareLimits
from environment.queues.merge_cache import CacheKey, MergeCache
from environment.queues.queue_tree import (
    Answer,
    Beneath,
    Branch,
    JobStream,
    MergedStream,
    Rank,
    SingleLine,
    Standing,
    UserStream,
)
from environment.queues.shares import (
    ALL_QUEUES,
    JobHolding,
    Scope,
    Standings,
    below_guarantee,
    dominant,
    scopes,
)
from environment.queues.sorted_lines import Key, SortedJobs, Tree, WaitingJob, demand
from environment.queues.types import Queue
from environment.resources import Resources
from environment.types import Job, PlacementRequest

#: Lets in the first of some jobs, when so many JVMs were placed since it was asked first.
Gate = Callable[[Iterable[PlacementRequest], int], Iterator[PlacementRequest]]
#: Ids of jobs, by the path of their queue.
JobsByQueue = Mapping[str, frozenset[str]]
_NONE: list[Any] = []


def every(requests: Iterable[PlacementRequest], _: int) -> Iterator[PlacementRequest]:
    """The gate that lets all in."""
    return iter(requests)


@dataclass(frozen=True)
class FillingScene:
    """Constants of a round: waiting jobs, limits and terms. Seconds.

    `ages` has the same jobs as the lines, by queue, the oldest first. `first` go before all others; `skipped`
    are not placed now, by queue, nor are jobs of users in `left_out`, of a queue or of all. `overtaken` has
    the number of overtakings by job id.
    """

    tree: Tree
    classes: Sequence[Key]
    ages: Mapping[str, SortedJobs]
    limits: ShareLimits
    first: tuple[PlacementRequest, ...] = ()
    skipped: JobsByQueue = field(default_factory=dict)
    left_out: frozenset[Scope] = frozenset()
    gate: Gate = every
    avoided: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    overtaken: Mapping[str, int] = field(default_factory=dict)
    #: The queues of jobs that grow, for which a limit of running jobs is none.
    grow_in: frozenset[str] = frozenset()
    known: MergeCache = field(default_factory=MergeCache)

    @cached_property
    def oldest(self) -> float:
        """Time since when the first of all waits, seconds; infinity when none does."""
        first: Key = min((row.first.key for row in self.ages.values()), default=(math.inf,))
        since: float = first[0]
        return since

    def leaves_out(self, job: Job, leaf: str) -> bool:
        """Whether the user of a job, in that queue or in all, is left out."""
        return (leaf, job.owner) in self.left_out or (ALL_QUEUES, job.owner) in self.left_out

    def left(self, standings: Standings, request: PlacementRequest) -> int | None:
        """How many executors limits leave for a request beside its driver; None: any number."""
        job = request.job
        if job.driver is not None and not request.joins:
            standings = standings.with_more([JobHolding(job.queue, job.owner, job.driver, 0.0)])
        return self.limits.left(standings, job.queue, job.owner, request.size)

    def over(self, standings: Standings, request: PlacementRequest) -> Over | None:
        """Which limit keeps a request from being placed with the least on which it runs; None when none."""
        job, (_, least) = request.job, demand(request)
        return self.limits.over(standings, job.queue, job.owner, least, more_jobs=int(not request.joins))

    def crosses(self, standings: Standings, request: PlacementRequest) -> bool:
        """Whether, by these shares, a limit is in the way of a request as it was found."""
        job, (_, least) = request.job, demand(request)
        rooms = self.known.rooms(standings, self.limits, job.queue, job.owner)
        if any(room.crossed(least, int(not request.joins)) for room in rooms):
            return True
        if request.fewest == request.count:
            return False
        left = self.left(standings, request)
        return left is not None and left < request.count


class ProgressiveFilling:
    """Jobs in order: the jobs found so far of each queue, and the usage including them."""

    def __init__(self, scene: FillingScene, standings: Standings, gone: JobsByQueue) -> None:
        self.scene, self.standings = scene, standings
        #: Jobs that limits leave fewer executors than they want.
        self.cut: set[str] = set()
        self._gone = _both(gone, scene.skipped)
        #: Whether a limit is in the way of a job that starves: it may be another after a placement.
        self.blocked = False
        #: Queues and users whose remaining room a starving job needs in full.
        self._kept: dict[Scope, str] = {}
        #: Jobs that were found because they starve.
        self._early: set[str] = set()
        #: Room left by limits, by queue, or by user for limits of each user.
        self._rooms: dict[str | Scope, tuple[LimitRoom, ...]] = {}
        #: Usage of scopes, with the jobs found so far, as parts of the whole.
        self._vectors: dict[Scope, list[float]] = {}
        #: Queues of which some were found in another way than by their streams, and those above them.
        self._touched: set[str] = set()
        self._parts = scene.known.parts(standings.whole)
        self._chains: dict[str, list[tuple[Queue, list[float]]]] = {}
        self._bounded, self._step = scene.limits.any, standings.step
        self._fair = "fair" in standings.sharing.order
        #: Number of jobs in a line that may not be placed and are checked before the search ends.
        self.window = standings.sharing.window

    def shown(self) -> Iterator[PlacementRequest]:
        """The jobs one after the other, each with as many executors as limits leave."""
        for entry in self._entries():
            request = entry.request
            if self._bounded and entry.least is not entry.takes:
                left = self.scene.left(self.standings, request)
                if left is not None and left < request.count:
                    self.cut.add(request.job.id)
                    request = request.first(max(left, request.fewest))
            if self.scene.avoided and request.job.id in self.scene.avoided:
                request = replace(request, avoided=self.scene.avoided[request.job.id])
            yield request

    def _entries(self) -> Iterator[WaitingJob]:
        for entry in self._starving():
            self._early.add(entry.request.job.id)
            yield self.added(entry)
        for kind in self.scene.classes:
            merged, number = self.merged(kind, "", self._beneath(kind)), 0
            while merged.at(self, number) is not None:
                for _, _, entry in merged.found[number:]:
                    yield entry
                number = len(merged.found)
            for _, _, entry in merged.found:  # the next class stands behind it
                self.added(entry)

    # ---- jobs that may be placed -------------------------------------------------------------------------

    def look(self, entry: WaitingJob) -> Answer:
        """Whether limits and other jobs allow an entry now, or else another of its user or queue."""
        job = entry.request.job
        leaf = self.standings.sharing.queues.leaf
        if self.scene.left_out and self.scene.leaves_out(job, leaf(job.queue)):
            return Answer.GONE
        if (self._gone and job.id in self._gone.get(leaf(job.queue), ())) or job.id in self._early:
            return Answer.GONE
        if self._kept and (scope := self._kept_from(entry)) is not None:
            return Answer.QUEUE_FULL if scope[1] is None else Answer.USER_FULL
        if not self._bounded or (room := self._in_the_way(entry)) is None:
            return Answer.MAY
        if not room.full or leaf(job.queue) in self.scene.grow_in:
            return Answer.OVER
        return Answer.QUEUE_FULL if room.scope[1] is None else Answer.USER_FULL

    def _kept_from(self, entry: WaitingJob) -> Scope | None:
        """The entry's queue or user with all its room reserved for a starving job; None for none."""
        job = entry.request.job
        of = scopes(self.standings.sharing, job.queue, job.owner)
        return next((scope for scope in of if scope in self._kept), None)

    def _in_the_way(self, entry: WaitingJob) -> LimitRoom | None:
        """Room below the limit that keeps an entry from being placed; None when none does."""
        request, least = entry.request, entry.least
        more_jobs = int(not request.joins)
        rooms = self._rooms.get(request.job.queue)
        for room in self._rooms_of(request.job) if rooms is None else rooms:
            if room.crossed(least, more_jobs):
                return room
        return None

    def _rooms_of(self, job: Job) -> tuple[LimitRoom, ...]:
        limits, queue = self.scene.limits, job.queue
        by_user = limits.by_user(queue)
        key = (queue, job.owner) if by_user else queue
        found = self._rooms.get(key)
        if found is None:
            user = job.owner if by_user else ""
            found = self._rooms[key] = self.scene.known.rooms(self.standings, limits, queue, user)
        return found

    def _starving(self) -> Iterator[WaitingJob]:
        """Jobs that have waited for too long, the oldest first; a limit's room is kept for a blocked one.

        A job that waits for a scope already kept has no more kept for it: it will be, once it is the oldest.
        Where jobs of its own user leave it too little, whatever others hold, only that user's room is kept.
        """
        since = self.standings.at - self.standings.sharing.starves_after
        if self.scene.oldest > since:
            return
        rows = ((queue, iter(row)) for queue, row in self.scene.ages.items() if row.first.key[0] <= since)
        heap = [(first.key, queue, first, rest) for queue, rest in rows for first in islice(rest, 1)]
        heapify(heap)
        while heap:
            _, queue, entry, rest = heap[0]
            after = next(rest, None)
            if after is not None and after.key[0] <= since:
                heapreplace(heap, (after.key, queue, after, rest))
            else:
                heappop(heap)
            answer = self.look(entry)
            if answer is Answer.MAY:
                yield entry
            elif answer is not Answer.GONE and self._bounded:
                self.blocked = True
                over = None if self._kept_from(entry) else self.scene.over(self.standings, entry.request)
                if over is not None and over.ever:
                    scope = (over.scope[0], entry.request.job.owner) if self._own_full(entry) else over.scope
                    self._kept[scope] = entry.request.job.id
                    if scope[1] is None:  # no job of the queue goes before it
                        heap = [each for each in heap if each[1] != queue]
                        heapify(heap)

    def _own_full(self, entry: WaitingJob) -> bool:
        job, limits = entry.request.job, self.scene.limits
        if not job.owner or entry.request.joins:
            return False
        return limits.crossed_alone(self.standings, job.queue, job.owner, entry.least)

    # ---- fair --------------------------------------------------------------------------------------

    def vector(self, scope: Scope) -> list[float]:
        """Usage of a queue or user, including its jobs found so far, as parts of the whole."""
        found = self._vectors.get(scope)
        if found is None:
            found = self._vectors[scope] = list(self.scene.known.vector(self.standings, scope))
        return found

    def chain(self, path: str) -> list[tuple[Queue, list[float]]]:
        """A queue behind those above it, each with its usage as in `vector`."""
        found = self._chains.get(path)
        if found is None:
            line = self.standings.sharing.queues.line(path)
            found = self._chains[path] = [(queue, self.vector((queue.path, None))) for queue in line]
        return found

    def added(self, entry: WaitingJob) -> WaitingJob:
        """The entry, which was found: those after it are chosen as if it had been placed."""
        job = entry.request.job
        chain = self.chain(job.queue)
        leaf = chain[-1][0].path
        self._touched.update(queue.path for queue, _ in chain)
        parts = self.parts(entry.takes)
        for had in (*(had for _, had in chain), self.vector((leaf, job.owner))):
            had[:] = map(add, had, parts)
        return entry

    def parts(self, takes: Resources) -> Sequence[float]:
        """Amounts of `takes` as parts of the whole."""
        found = self._parts.get(id(takes))
        if found is None:
            amounts, whole = takes.thousandths, self.standings.whole.thousandths
            parts = [amounts.get(name, 0) / amount for name, amount in whole.items()]
            found = self._parts[id(takes)] = takes, parts
        return found[1]

    def queue(self, path: str) -> Queue:
        """The queue of that path."""
        return self.standings.sharing.queues.line(path)[-1]

    def had(self, scope: Scope) -> Sequence[float]:
        """Usage of a queue or user at the start of the streams, as parts of the whole."""
        found = self._vectors.get(scope)
        return self.scene.known.vector(self.standings, scope) if found is None else found

    def standing(self, kind: Key, path: str) -> Standing:
        """Standing of a queue of jobs among its neighbours, at least as far in front as it should be."""
        queue = self.queue(path)
        if not self._fair:
            return self.scene.tree[kind][path][""].first.key
        if path in self._touched or queue.guaranteed:
            return (*self.rank(queue, self.had((path, None))), ())
        return 1, self.scene.known.share(self.standings, (path, None), queue.weight), ()

    def leaf(self, kind: Key, path: str) -> JobStream:
        """A queue of jobs, as far as it was found."""
        if (known := self.known_leaf(kind, path)) is not None:
            return known
        leaf = (
            UserStream(self, kind, path) if self._fair else SingleLine(path, self.scene.tree[kind][path][""])
        )
        return self._see(kind, path, (path,), leaf)

    def branch(self, kind: Key, of: Beneath) -> JobStream:
        """A queue of queues, as far as it was found."""
        known = self._known(kind, of.path, of.leaves)
        return known or self._see(kind, of.path, of.leaves, Branch(self, kind, of))

    def merged(self, kind: Key, path: str, below: Sequence[Beneath]) -> MergedStream:
        """All that are below a queue, or the topmost."""
        known = self.scene.known
        return known.merge(kind, path, MergedStream(self, kind, below, known.merged(kind, path)))

    def known_leaf(self, kind: Key, path: str) -> JobStream | None:
        """A queue of jobs as an earlier order found it, where it would be found so again."""
        return self._known(kind, path, (path,))

    def _known(self, kind: Key, path: str, leaves: Sequence[str]) -> JobStream | None:
        if self._kept or path in self._touched:
            return None
        seen = self.scene.known.seen(kind, path)
        if seen is None or not seen.holds(self.standings, self.scene.tree[kind], self._like(path, leaves)):
            return None
        return seen.stream

    def _see(self, kind: Key, path: str, leaves: Sequence[str], stream: JobStream) -> JobStream:
        """The stream, which was found: later orders may go on with it."""
        if not self._kept and path not in self._touched:
            lines, standings = self.scene.tree[kind], self.standings
            of = tuple((leaf, lines[leaf]) for leaf in leaves)
            # All usage of any of them or of their users is part of the topmost queue's usage.
            uses = tuple((scope, standings.of(scope)) for scope in self.scene.limits.above(path))
            self.scene.known.see(kind, path, CacheKey(stream, of, uses, self._like(path, leaves)))
        return stream

    def _like(self, path: str, leaves: Sequence[str]) -> tuple[object, ...]:
        """Other inputs of the stream of a queue with these leaves, as a key."""
        scene, gone = self.scene, self._gone
        return (
            self._step,
            self.standings.whole,
            leaves,
            scene.left_out,
            [gone[leaf] for leaf in leaves if leaf in gone] if gone else _NONE,
            [leaf for leaf in leaves if leaf in scene.grow_in] if scene.grow_in else _NONE,
            self._spent(scene.limits.above(path)) if scene.limits.by_time else (),
        )

    def _spent(self, scopes: Iterable[Scope]) -> tuple[float | None, ...]:
        """Number of the day, and the charges of these scopes today and in this month."""
        sums, scopes = (self.standings.spent, self.standings.months), tuple(scopes)
        return self.standings.at // SECONDS_PER_DAY, *(of.get(scope) for of in sums for scope in scopes)

    def rank(self, queue: Queue, had: Sequence[float]) -> Rank:
        """Rank of a queue with this usage among its neighbours."""
        if queue.guaranteed:
            part = below_guarantee(queue, self._held(queue.path, had))
            if part is not None:
                return 0, part
        return 1, dominant(had, queue.weight)

    def _held(self, path: str, had: Sequence[float]) -> Resources:
        """Resources that a queue holds, including the jobs found so far."""
        scope, whole = (path, None), self.standings.whole.thousandths
        was = self.scene.known.vector(self.standings, scope)
        more = {
            name: round((now - before) * amount)
            for (name, amount), now, before in zip(whole.items(), had, was, strict=True)
        }
        return self.standings.of(scope).held + Resources(more)

    def users(self, kind: Key, path: str) -> Sequence[Any]:
        """Users of a queue of jobs by share, each with the key of its first job."""
        lines, queue = self.scene.tree[kind][path], self.queue(path)
        if path not in self._touched:
            return self.scene.known.users(self.standings, kind, queue, lines)
        return sorted(
            (dominant(self.had((path, user)), queue.weight_of(user)), line.first.key, user)
            for user, line in lines.items()
        )

    def _beneath(self, kind: Key) -> Sequence[Beneath]:
        """The queues in which jobs of a class wait: as a tree where the order is fair."""
        paths = tuple(self.scene.tree[kind])
        if not self._fair:
            return [Beneath(path, (path,), ()) for path in paths]
        return self.scene.known.beneath(self.standings, paths)


def _both(some: JobsByQueue, others: JobsByQueue) -> JobsByQueue:
    """The jobs of both."""
    if not (some and others):
        return some or others
    return {
        queue: some.get(queue, frozenset()) | others.get(queue, frozenset()) for queue in {*some, *others}
    }
