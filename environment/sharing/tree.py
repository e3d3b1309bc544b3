"""The queues of a tree in one order of `filling`: whose turn it is at each, and which of its jobs is next."""

from collections.abc import Mapping
from enum import Enum
from heapq import heapify, heappop, heapreplace
from operator import add
from typing import TYPE_CHECKING, Any

from environment.sharing.lines import Entry, Key
from environment.sharing.shares import dominant

if TYPE_CHECKING:
    from environment.sharing.filling import Order

#: How a queue stands among its neighbours: those below their guarantee are first, then those with the least;
#: of equals, whose next job is older.
Rank = tuple[int, float]
Standing = tuple[int, float, Key]


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


class _Leaf:
    """A queue of jobs: whose user has least is next.

    What stands in front is what would be next if no limit were in the way; `settle` sees to that.
    """

    __slots__ = ("_had", "_heap", "_lines", "_order", "_settled", "_vectors", "queue")

    def __init__(self, order: "Order", kind: Key, path: str) -> None:
        chain = order.chain(path)
        self.queue, self._had = chain[-1]
        self._vectors = [had for _, had in chain]
        self._order = order
        self._lines = order.scene.tree[kind][path]
        self._heap = list(order.users(kind, path))  # what is sorted is a heap
        #: Whether who is in front may be placed, which is so until he is taken.
        self._settled = False
        order.touch(path)

    @property
    def rank(self) -> Standing:
        """How it stands among its neighbours; of equals, whose next job is older."""
        return (*self._order.rank(self.queue, self._had), self._heap[0][1][-2:])

    def settle(self) -> bool:
        """Have somebody in front who may be placed; whether there is anybody."""
        if self._settled:
            return True
        heap, look, most = self._heap, self._order.look, self._order.standings.sharing.window
        while heap:
            share, _, user, number = heap[0]
            entries, looks = self._lines[user], 0
            for at in range(number, len(entries)):
                answer = look(entries[at])
                if answer is Answer.MAY:
                    if at == number:
                        self._settled = True
                        return True
                    heapreplace(heap, (share, entries[at].key, user, at))
                    break
                if answer is Answer.QUEUE_FULL:
                    heap.clear()
                    return False
                looks += answer is Answer.OVER
                if answer is Answer.USER_FULL or looks > most:
                    heappop(heap)
                    break
            else:
                heappop(heap)
        return False

    def take(self) -> Entry:
        """The next entry; to be called after `settle`."""
        self._settled = False
        heap = self._heap
        _, _, user, number = heap[0]
        entries = self._lines[user]
        entry: Entry = entries[number]
        parts = self._order.parts(entry.takes)
        for had in self._vectors:
            had[:] = map(add, had, parts)
        had = self._order.vector((self.queue.path, user))
        had[:] = map(add, had, parts)
        number += 1
        if number < len(entries):
            share = dominant(had, self.queue.weight_of(user))
            heapreplace(heap, (share, entries[number].key, user, number))
        else:
            heappop(heap)
        return entry

    def __bool__(self) -> bool:
        return bool(self._heap)


class Branch:
    """A queue of queues: who is below its guarantee is next, then who has least for its weight.

    Each stands at least as far in front as it should, until it is looked at.
    """

    __slots__ = ("_heap", "_order", "_settled", "path")

    def __init__(self, order: "Order", kind: Key, path: str, below: Mapping[str, Any]) -> None:
        self.path = path
        self._order = order
        heap: list[Any] = []
        for child, further in below.items():
            if further:
                branch = Branch(order, kind, child, further)
                heap.append(((*branch.rank[:2], branch.rank[2] if order.sure else ()), child, branch))
            else:
                heap.append((order.standing(kind, child), child, kind))
        heapify(heap)
        self._heap = heap
        #: Whether who is in front may be placed, which is so until he is taken.
        self._settled = False

    @property
    def rank(self) -> Standing:
        """How it stands among its neighbours; below its guarantee also when one in it is below its own."""
        below, part, age = self._heap[0][0]
        if below == 0:
            own = self._order.rank(*self._order.chain(self.path)[-1])
            return (*(own if own[0] == 0 else (0, part)), age)
        return (*self._order.rank(*self._order.chain(self.path)[-1]), age)

    def settle(self) -> bool:
        """Have somebody in front who may be placed; whether there is anybody."""
        if self._settled:
            return True
        heap = self._heap
        while heap:
            rank, path, child = heap[0]
            if isinstance(child, tuple):  # most are never looked at
                child = _Leaf(self._order, child, path)
            if not child.settle():
                heappop(heap)
                continue
            found = child.rank
            if found == rank:
                heap[0] = rank, path, child
                self._settled = True
                return True
            heapreplace(heap, (found, path, child))
        return False

    def take(self) -> Entry:
        """The next entry; to be called after `settle`."""
        self._settled = False
        heap = self._heap
        _, path, child = heap[0]
        if isinstance(child, tuple):
            child = _Leaf(self._order, child, path)
        entry: Entry = child.take()
        if child if self._order.sure else child.settle():
            heapreplace(heap, (child.rank, path, child))
        else:
            heappop(heap)
        return entry

    def __bool__(self) -> bool:
        return bool(self._heap)
