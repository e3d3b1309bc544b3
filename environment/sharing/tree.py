"""The queues of a tree in one order of `filling`: whose turn it is at each, and which of its jobs is next.

Each queue is a stream of jobs, found as they are asked for. What stands in it does not depend on its
neighbours: who is next among these is said by how each stands before its next job. So a later order goes on
with the stream as it was found, as long as nothing of the queue and those below has changed (`known`).
"""

from collections.abc import Sequence
from enum import Enum
from heapq import heapify, heappop, heapreplace
from operator import add
from typing import TYPE_CHECKING, Any, NamedTuple

from environment.sharing.lines import Entry, Key
from environment.sharing.shares import Scope, dominant

if TYPE_CHECKING:
    from environment.sharing.filling import Order

#: How a queue stands among its neighbours: those below their guarantee are first, then those with the least;
#: of equals, whose next job is older. Where the order is not fair, as its next job does.
Rank = tuple[int, float]
Standing = tuple[Any, ...]
#: How a queue stood before a job of it was found, and that.
Found = tuple[Standing, Entry]


class Beneath(NamedTuple):
    """A queue and those below it in which somebody waits; `leaves` are those that have jobs, by path."""

    path: str
    leaves: tuple[str, ...]
    below: "tuple[Beneath, ...]"


class Answer(Enum):
    """Whether an entry may be placed."""

    MAY = 0
    #: It does not wait any more.
    GONE = 1
    #: A limit is in the way of this one.
    OVER = 2
    #: A limit is in the way of all of its user, or of its queue.
    USER_FULL = 3
    QUEUE_FULL = 4


class Stream:
    """What is found of a queue so far. Asked by one order at a time, of those to which it is the same."""

    __slots__ = ("found",)

    def __init__(self) -> None:
        self.found: list[Found] = []

    def at(self, order: "Order", number: int) -> Found | None:
        """What is found with that number, from 0; None when there are not so many."""
        found = self.found
        while len(found) <= number:
            if (more := self._next(order)) is None:
                return None
            found.append(more)
        return found[number]

    def _next(self, order: "Order") -> Found | None:
        raise NotImplementedError


class Line(Stream):
    """A queue whose jobs stand in one line, whosever they are."""

    __slots__ = ("_entries", "_number")

    def __init__(self, entries: Sequence[Entry]) -> None:
        super().__init__()
        self._entries, self._number = entries, 0

    def _next(self, order: "Order") -> Found | None:
        entries, looks, most = self._entries, 0, order.window
        for number in range(self._number, len(entries)):
            answer = order.look(entries[number])
            if answer is Answer.MAY:
                self._number = number + 1
                return entries[number].key, entries[number]
            looks += answer is not Answer.GONE
            if answer is Answer.QUEUE_FULL or looks > most:
                break
        self._number = len(entries)
        return None


class Users(Stream):
    """A queue of jobs whose user has least is next, of those in whose way no limit is."""

    __slots__ = ("_had", "_heap", "_lines", "_queue", "_users")

    def __init__(self, order: "Order", kind: Key, path: str) -> None:
        super().__init__()
        self._queue = order.queue(path)
        self._had = list(order.had((path, None)))
        self._lines = order.scene.tree[kind][path]
        self._heap = list(order.users(kind, path))  # what is sorted is a heap
        #: What users have of whom some was found.
        self._users: dict[str, list[float]] = {}

    def _next(self, order: "Order") -> Found | None:
        heap, look, most = self._heap, order.look, order.window
        while heap:
            share, _, user, number = heap[0]
            entries, looks = self._lines[user], 0
            for at in range(number, len(entries)):
                answer = look(entries[at])
                if answer is Answer.MAY:
                    if at == number:
                        return self._take(order, entries, user, number)
                    heapreplace(heap, (share, entries[at].key, user, at))
                    break
                if answer is Answer.QUEUE_FULL:
                    heap.clear()
                    return None
                looks += answer is Answer.OVER
                if answer is Answer.USER_FULL or looks > most:
                    heappop(heap)
                    break
            else:
                heappop(heap)
        return None

    def _take(self, order: "Order", entries: Sequence[Entry], user: str, number: int) -> Found:
        entry, queue = entries[number], self._queue
        standing = (*order.rank(queue, self._had), entry.key[-2:])
        parts = order.parts(entry.takes)
        self._had[:] = map(add, self._had, parts)
        scope: Scope = (queue.path, user)
        self._users[user] = had = [*map(add, self._users.get(user) or order.had(scope), parts)]
        number += 1
        if number < len(entries):
            share = dominant(had, queue.weight_of(user))
            heapreplace(self._heap, (share, entries[number].key, user, number))
        else:
            heappop(self._heap)
        return standing, entry


class Merged(Stream):
    """Several queues as one. Each stands at least as far in front as it should, until it is looked at."""

    __slots__ = ("_heap", "_kind")

    def __init__(self, order: "Order", kind: Key, below: Sequence[Beneath]) -> None:
        super().__init__()
        self._kind = kind
        heap: list[tuple[Standing, str, int, Stream | None]] = []
        for child in below:
            if not child.below:  # most are never looked at
                heap.append((order.standing(kind, child.path), child.path, 0, None))
                continue
            branch = order.branch(kind, child)
            if (first := branch.at(order, 0)) is not None:
                heap.append((first[0], child.path, 0, branch))
        heapify(heap)
        self._heap = heap

    def _next(self, order: "Order") -> Found | None:
        heap = self._heap
        while heap:
            standing, path, number, stream = heap[0]
            if stream is None:
                stream = order.leaf(self._kind, path)
                if (first := stream.at(order, 0)) is None:
                    heappop(heap)
                else:
                    heapreplace(heap, (first[0], path, 0, stream))
                continue
            found = standing, stream.found[number][1]
            number += 1
            known = stream.found
            after = known[number] if number < len(known) else stream.at(order, number)
            if after is None:
                heappop(heap)
            else:
                heapreplace(heap, (after[0], path, number, stream))
            return found
        return None


class Branch(Merged):
    """A queue of queues: who is below its guarantee is next, then who has least for its weight."""

    __slots__ = ("_had", "_queue")

    def __init__(self, order: "Order", kind: Key, of: Beneath) -> None:
        super().__init__(order, kind, of.below)
        self._queue = order.queue(of.path)
        self._had = list(order.had((of.path, None)))

    def _next(self, order: "Order") -> Found | None:
        """It is below its guarantee also when one in it is below its own."""
        if (found := super()._next(order)) is None:
            return None
        (below, part, age), entry = found
        rank = order.rank(self._queue, self._had)
        if below == 0 and rank[0] != 0:
            rank = 0, part
        self._had[:] = map(add, self._had, order.parts(entry.takes))
        return (*rank, age), entry
