"""In which order jobs of one moment are placed, found one after the other: progressive filling (Ghodsi 2011).

Jobs stand as if those before them had been placed: where the order is `fair`, each takes its part of its
queue's and user's share before the next is chosen. Limits are those of what is held when the order begins.
What a policy is shown of it, and what becomes of it with each placement, is in `turns`.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from heapq import heapify, heappop, heapreplace
from operator import add
from threading import Lock
from typing import Any

from environment.resources import Resources
from environment.sharing.known import Known, Overs
from environment.sharing.limits import Over, ShareLimits
from environment.sharing.lines import Entry, Key, Tree, demand
from environment.sharing.shares import Holding, Scope, Standings, below_guarantee, dominant, scopes
from environment.sharing.terms import Queue
from environment.sharing.tree import Answer, Branch, Rank, Standing
from environment.types import PlacementRequest

#: Lets in the first of some jobs, when so many JVMs were placed since it was asked first.
Gate = Callable[[Iterable[PlacementRequest], int], Iterator[PlacementRequest]]


def every(requests: Iterable[PlacementRequest], _: int) -> Iterator[PlacementRequest]:
    """The gate that lets all in."""
    return iter(requests)


@dataclass(frozen=True)
class FillingScene:
    """What does not change in a round: who waits, and by which terms. Seconds.

    `ages` has the same jobs as the lines, by queue, the oldest first. `first` go before all others; `skipped`
    are not placed now, whoever they are. `overtaken` says how often who was.
    """

    tree: Tree
    classes: Sequence[Key]
    ages: Mapping[str, Sequence[Entry]]
    limits: ShareLimits
    first: tuple[PlacementRequest, ...] = ()
    skipped: frozenset[str] = frozenset()
    gate: Gate = every
    avoided: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    overtaken: Mapping[str, int] = field(default_factory=dict)
    #: The queues of jobs that grow, for which a limit of running jobs is none.
    grow_in: frozenset[str] = frozenset()
    known: Known = field(default_factory=Known)

    def left(self, standings: Standings, request: PlacementRequest) -> int | None:
        """How many executors limits leave for a request beside its driver; None: any number."""
        job = request.job
        if job.driver is not None and not request.joins:
            standings = standings.with_more([Holding(job.queue, job.owner, job.driver, 0.0)])
        return self.limits.left(standings, job.queue, job.owner, request.size)

    def crosses(self, standings: Standings, request: PlacementRequest) -> bool:
        """Whether, by these shares, a limit is in the way of a request as it was found."""
        job, (_, least) = request.job, demand(request)
        if self.limits.over(standings, job.queue, job.owner, least, more_jobs=int(not request.joins)):
            return True
        if request.fewest == request.count:
            return False
        left = self.left(standings, request)
        return left is not None and left < request.count


class Order:
    """Jobs in order, found as far as they are asked for."""

    def __init__(self, scene: FillingScene, standings: Standings, gone: frozenset[str], begun: int) -> None:
        self.scene, self.standings = scene, standings
        self.found: list[PlacementRequest] = []
        #: Jobs that limits leave fewer executors than they want.
        self._cut: set[str] = set()
        self._gone = gone | scene.skipped if scene.skipped else gone
        #: Whether a limit is in the way of a job that starves: it may be another after a placement.
        self.blocked = False
        #: Of whom a job that starves needs all that is left.
        self._kept: dict[Scope, str] = {}
        #: Jobs that were found because they starve.
        self._early: set[str] = set()
        self._overs: dict[Scope, Overs] = {}
        self._by_user: dict[str, bool] = {}
        #: Parts of the whole: what scopes have, with those found so far, and what requests take.
        self._vectors: dict[Scope, list[float]] = {}
        #: Queues of jobs of which some were found.
        self._touched: set[str] = set()
        self._chains: dict[str, list[tuple[Queue, list[float]]]] = {}
        self._parts: dict[int, tuple[Resources, list[float]]] = {}
        self._bounded = scene.limits.any
        #: Whether whoever waits may be placed, so that who is next is known without looking.
        self.sure = not (self._bounded or self._gone)
        #: Who decides and who only watches may look at the same queue, each in a thread of its own.
        self._finding = Lock()
        self._rest = scene.gate(self._shown(), begun)

    def reach(self, count: int) -> int:
        """How many are found, when so many were looked for."""
        found = self.found
        if len(found) < count:
            with self._finding:
                while len(found) < count and (request := next(self._rest, None)) is not None:
                    found.append(request)
        return len(found)

    def goes_on(self, request: PlacementRequest, held: Resources) -> bool:
        """Whether the others stood in order as if this one had been placed with so much.

        So they still do, as far as no limit is in the way of any of them that was in nobody's way before.
        """
        return request.job.id not in self._cut and held == demand(request)[0]

    def _shown(self) -> Iterator[PlacementRequest]:
        for entry in self._entries():
            request = entry.request
            if self._bounded and request.fewest < request.count:
                left = self.scene.left(self.standings, request)
                if left is not None and left < request.count:
                    self._cut.add(request.job.id)
                    request = request.first(max(left, request.fewest))
            if self.scene.avoided and request.job.id in self.scene.avoided:
                request = replace(request, avoided=self.scene.avoided[request.job.id])
            yield request

    def _entries(self) -> Iterator[Entry]:
        for entry in self._starving():
            self._early.add(entry.request.job.id)
            self.sure = False
            yield self.added(entry)
        fair = "fair" in self.standings.sharing.order
        for kind in self.scene.classes:
            queues = self.scene.tree[kind]
            if not fair:
                yield from self._merged({queue: users[""] for queue, users in queues.items()})
                continue
            root = Branch(self, kind, "", self._below(queues))
            while root if self.sure else root.settle():
                yield root.take()

    def _merged(self, lines: Mapping[str, Sequence[Entry]]) -> Iterator[Entry]:
        """Who may be placed of these lines, one of each queue, whoever stands before others."""
        heap = [(line[0].key, queue, 0) for queue, line in lines.items()]
        heapify(heap)
        looks = dict.fromkeys(lines, 0)
        while heap:
            _, queue, number = heap[0]
            line = lines[queue]
            answer = self.look(line[number])
            looks[queue] = 0 if answer is Answer.MAY else looks[queue] + (answer is not Answer.GONE)
            ends = answer is Answer.QUEUE_FULL or looks[queue] > self.standings.sharing.window
            if number + 1 < len(line) and not ends:
                heapreplace(heap, (line[number + 1].key, queue, number + 1))
            else:
                heappop(heap)
            if answer is Answer.MAY:
                yield line[number]

    # ---- who may be placed -------------------------------------------------------------------------

    def look(self, entry: Entry) -> Answer:
        """Whether an entry may be placed now, as far as limits and others go, or who in its place might."""
        job = entry.request.job
        if job.id in self._gone or job.id in self._early:
            return Answer.GONE
        if (scope := self._kept_from(entry)) is not None:
            return Answer.QUEUE_FULL if scope[1] is None else Answer.USER_FULL
        if not self._bounded or (over := self.over(entry)) is None:
            return Answer.MAY
        if not over.full or job.queue in self.scene.grow_in:
            return Answer.OVER
        return Answer.QUEUE_FULL if over.scope[1] is None else Answer.USER_FULL

    def _kept_from(self, entry: Entry) -> Scope | None:
        """The queue or user of the entry's of whom all that is left is kept for somebody; None for none."""
        if not self._kept:
            return None
        job = entry.request.job
        of = scopes(self.standings.sharing.queues, job.queue, job.owner)
        return next((scope for scope in of if scope in self._kept), None)

    def over(self, entry: Entry) -> Over | None:
        """Which limit keeps an entry from being placed; None when none does."""
        job, request, least = entry.request.job, entry.request, entry.least
        limits, queue = self.scene.limits, job.queue
        if queue not in self._by_user:
            self._by_user[queue] = limits.by_user(queue)
        user = job.owner if self._by_user[queue] else ""
        overs = self._overs.get((queue, user))
        if overs is None:
            overs = self._overs[queue, user] = self.scene.known.overs(self.standings, limits, queue, user)
        found = overs.get((id(least), request.joins))
        if found is None:
            over = limits.over(self.standings, queue, user, least, more_jobs=int(not request.joins))
            found = overs[id(least), request.joins] = least, over  # which is kept, so that its id is
        return found[1]

    def _starving(self) -> Iterator[Entry]:
        """Who has waited for too long, the oldest first; what a limit keeps from one is kept for him.

        Who waits for one of whom this is so has no more kept for him: it will be, when he is the oldest.
        """
        since = self.standings.at - self.standings.sharing.starves_after
        heap = [
            (entries[0].key, queue, 0)
            for queue, entries in self.scene.ages.items()
            if entries[0].key[0] <= since
        ]
        heapify(heap)
        while heap:
            _, queue, number = heap[0]
            entries = self.scene.ages[queue]
            entry, number = entries[number], number + 1
            if number < len(entries) and entries[number].key[0] <= since:
                heapreplace(heap, (entries[number].key, queue, number))
            else:
                heappop(heap)
            answer = self.look(entry)
            if answer is Answer.MAY:
                yield entry
            elif answer is not Answer.GONE and self._bounded:
                self.blocked = True
                over = self.over(entry)
                if over is not None and over.ever and self._kept_from(entry) is None:
                    self._kept.setdefault(over.scope, entry.request.job.id)
                    if over.scope[1] is None:  # nobody of the queue goes before him
                        heap = [each for each in heap if each[1] != queue]
                        heapify(heap)

    # ---- fair --------------------------------------------------------------------------------------

    def vector(self, scope: Scope) -> list[float]:
        """What a queue or user has, with what was found of it so far, as parts of the whole."""
        found = self._vectors.get(scope)
        if found is None:
            found = self._vectors[scope] = list(self.scene.known.vector(self.standings, scope))
        return found

    def chain(self, path: str) -> list[tuple[Queue, list[float]]]:
        """A queue behind those above it, and what each has, as `vector` has it."""
        found = self._chains.get(path)
        if found is None:
            line = self.standings.sharing.queues.line(path)
            found = self._chains[path] = [(queue, self.vector((queue.path, None))) for queue in line]
        return found

    def added(self, entry: Entry) -> Entry:
        """The entry, which was found: those after it are chosen as if it had been placed."""
        job = entry.request.job
        chain = self.chain(job.queue)
        leaf = chain[-1][0].path
        self._touched.add(leaf)
        parts = self.parts(entry.takes)
        for had in (*(had for _, had in chain), self.vector((leaf, job.owner))):
            had[:] = map(add, had, parts)
        return entry

    def parts(self, takes: Resources) -> Sequence[float]:
        """So much as parts of the whole."""
        known = self._parts.get(id(takes))
        if known is None:
            taken, whole = takes.thousandths, self.standings.whole.thousandths
            parts = [taken.get(name, 0) / amount for name, amount in whole.items()]
            known = self._parts[id(takes)] = takes, parts
        return known[1]

    def standing(self, kind: Key, path: str) -> Standing:
        """How a queue of jobs stands among its neighbours, at least as far in front as it should."""
        queue = self.standings.sharing.queues.line(path)[-1]
        if path in self._touched or queue.guaranteed:
            rank, users = self.rank(*self.chain(path)[-1]), self.users(kind, path)
        else:  # what is known of it from a round before is true still
            lines = self.scene.tree[kind][path]
            rank = 1, self.scene.known.share(self.standings, queue)
            users = self.scene.known.users(self.standings, kind, queue, lines)
        return (*rank, users[0][1][-2:] if self.sure else ())

    def rank(self, queue: Queue, had: Sequence[float]) -> Rank:
        """How a queue that has so much stands among its neighbours."""
        if queue.guaranteed:
            part = below_guarantee(queue, self._held(queue.path, had))
            if part is not None:
                return 0, part
        return 1, dominant(had, queue.weight)

    def _held(self, path: str, had: Sequence[float]) -> Resources:
        """What a queue holds, with those found so far."""
        scope, whole = (path, None), self.standings.whole.thousandths
        was = self.scene.known.vector(self.standings, scope)
        more = {
            name: round((now - before) * amount)
            for (name, amount), now, before in zip(whole.items(), had, was, strict=True)
        }
        return self.standings.of(scope).held + Resources(more)

    def touch(self, path: str) -> None:
        """Some of a queue of jobs are about to be found."""
        self._touched.add(path)

    def users(self, kind: Key, path: str) -> Sequence[Any]:
        """The users of a queue of jobs by share: that, where the first of each stands, who, and 0."""
        lines, queue = self.scene.tree[kind][path], self.chain(path)[-1][0]
        if path not in self._touched:
            return self.scene.known.users(self.standings, kind, queue, lines)
        return sorted(
            (dominant(self.vector((path, user)), queue.weight_of(user)), line[0].key, user, 0)
            for user, line in lines.items()
        )

    def _below(self, queues: Mapping[str, Any]) -> Mapping[str, Any]:
        """The tree of queues in which jobs of a class wait: by path those below, an empty one for none."""
        return self.scene.known.below(self.standings, tuple(queues))
