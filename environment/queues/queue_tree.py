"""The queues of a tree in one order of `progressive_filling`: the next queue and its next job.

Each queue is a stream of jobs, found as they are asked for. Its content does not depend on its neighbours:
the standing of each before its next job decides which of these is next. So a later order goes on
with the stream as it was found, as long as nothing of the queue and those below has changed (`known`); and
where few of several queues have changed, with how the others were merged.
"""

from collections.abc import Iterator, Sequence
from enum import Enum
from heapq import heapify, heappop, heappush, heapreplace
from itertools import chain
from operator import add
from typing import TYPE_CHECKING, Any, NamedTuple

from environment.queues.shares import Scope, dominant
from environment.queues.sorted_lines import Key, SortedJobs, WaitingJob

if TYPE_CHECKING:
    from environment.queues.progressive_filling import ProgressiveFilling

#: Rank of a queue among its neighbours: those below their guarantee are first, then those with the least; of
#: equals, the one with the older next job. Where the order is not fair, the rank of its next job.
Rank = tuple[int, float]
Standing = tuple[Any, ...]
#: How a queue stood before a job of it was found, its path, and that job.
Found = tuple[Standing, str, WaitingJob]


class Beneath(NamedTuple):
    """A queue with waiting jobs, and those below it; `leaves` are those that have jobs, by path."""

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


class JobStream:
    """Jobs found of a queue so far. Used by one order at a time, of those to which it is the same."""

    __slots__ = ("found",)

    def __init__(self) -> None:
        self.found: list[Found] = []

    def at(self, filling: "ProgressiveFilling", number: int) -> Found | None:
        """The found job with that number, from 0; None when there are not so many."""
        found = self.found
        while len(found) <= number:
            if not self._more(filling):
                return None
        return found[number]

    def _more(self, filling: "ProgressiveFilling") -> bool:
        """Find the next; whether there is one."""
        raise NotImplementedError


class SingleLine(JobStream):
    """A queue with its jobs in one line, of all users."""

    __slots__ = ("_path", "_rest")

    def __init__(self, path: str, row: SortedJobs) -> None:
        super().__init__()
        self._path, self._rest = path, iter(row)

    def _more(self, filling: "ProgressiveFilling") -> bool:
        looks = 0
        for entry in self._rest:
            answer = filling.look(entry)
            if answer is Answer.MAY:
                self.found.append((entry.key, self._path, entry))
                return True
            looks += answer is not Answer.GONE
            if answer is Answer.QUEUE_FULL or looks > filling.window:
                self._rest = iter(())
        return False


class UserStream(JobStream):
    """A queue of jobs: the user with the least share is next, among those that no limit blocks."""

    __slots__ = ("_had", "_heap", "_next", "_queue", "_rows", "_users")

    def __init__(self, filling: "ProgressiveFilling", kind: Key, path: str) -> None:
        super().__init__()
        self._queue = filling.queue(path)
        self._had = list(filling.had((path, None)))
        self._rows = filling.scene.tree[kind][path]
        self._heap = list(filling.users(kind, path))  # the sorted list is a heap
        #: The next job of users that were looked at, and those behind it.
        self._next: dict[str, tuple[WaitingJob, Iterator[WaitingJob]]] = {}
        #: Usage of users with found jobs.
        self._users: dict[str, list[float]] = {}

    def _more(self, filling: "ProgressiveFilling") -> bool:
        heap, look, most = self._heap, filling.look, filling.window
        while heap:
            share, _, user = heap[0]
            first, rest = self._next.get(user) or self._begin(user)
            looks = 0
            for entry in chain((first,), rest):
                answer = look(entry)
                if answer is Answer.MAY:
                    if entry is first:
                        self._take(filling, user, entry, rest)
                        return True
                    self._next[user] = entry, rest
                    heapreplace(heap, (share, entry.key, user))
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

    def _begin(self, user: str) -> tuple[WaitingJob, Iterator[WaitingJob]]:
        rest = iter(self._rows[user])
        return next(rest), rest

    def _take(
        self, filling: "ProgressiveFilling", user: str, entry: WaitingJob, rest: Iterator[WaitingJob]
    ) -> None:
        """Find an entry, which is that user's first."""
        queue = self._queue
        self.found.append(((*filling.rank(queue, self._had), entry.key[-2:]), queue.path, entry))
        parts = filling.parts(entry.takes)
        self._had[:] = map(add, self._had, parts)
        scope: Scope = (queue.path, user)
        self._users[user] = had = [*map(add, self._users.get(user) or filling.had(scope), parts)]
        after = next(rest, None)
        if after is None:
            heappop(self._heap)
        else:
            self._next[user] = after, rest
            heapreplace(self._heap, (dominant(had, queue.weight_of(user)), after.key, user))


class MergedStream(JobStream):
    """Several queues as one. Each stands at least as far in front as it should, until its stream is opened.

    Jobs found earlier are reused, except for queues that have changed since.
    """

    __slots__ = ("_heap", "_kind", "_looked_at")

    def __init__(
        self,
        filling: "ProgressiveFilling",
        kind: Key,
        below: Sequence[Beneath],
        before: "MergedStream | None" = None,
    ) -> None:
        super().__init__()
        self._kind = kind
        #: By path; most queues of jobs are never looked at.
        self._looked_at: dict[str, JobStream] = {}
        #: How each stands, its path, the number of its next job, and its stream if it was looked at.
        self._heap: list[tuple[Any, ...]] = []
        looked_at = before._looked_at if before else {}
        same = set()
        for child in below:
            path, was = child.path, looked_at.get(child.path)
            now = filling.branch(kind, child) if child.below else was and filling.known_leaf(kind, path)
            if now is not None and now is was:
                same.add(path)
                self._looked_at[path] = now
            elif now is not None and child.below:
                self._look_at(filling, path, now)
            else:
                self._heap.append((filling.standing(kind, path), path, 0, None))
        heapify(self._heap)
        if before is not None and same:
            self._go_on(filling, before, same)

    def _go_on(self, filling: "ProgressiveFilling", before: "MergedStream", same: set[str]) -> None:
        """Merge the found jobs of unchanged queues with the others, up to the point reached before."""
        found, heap = self.found, self._heap
        for each in before.found:
            if each[1] in same:
                while heap and heap[0] < each:
                    self._step(filling)
                found.append(each)
        heap += (waits for waits in before._heap if waits[1] in same)
        heapify(heap)

    def _more(self, filling: "ProgressiveFilling") -> bool:
        heap = self._heap
        while heap:
            if self._step(filling):
                return True
        return False

    def _step(self, filling: "ProgressiveFilling") -> bool:
        """Find the first of them, if it was looked at; else look at it, for it may stand further behind."""
        _, path, number, stream = self._heap[0]
        if stream is None:
            heappop(self._heap)
            self._look_at(filling, path, filling.leaf(self._kind, path))
            return False
        known = stream.found
        self.found.append(known[number])
        number += 1
        after = known[number] if number < len(known) else stream.at(filling, number)
        if after is None:
            heappop(self._heap)
        else:
            heapreplace(self._heap, (after[0], path, number, stream))
        return True

    def _look_at(self, filling: "ProgressiveFilling", path: str, stream: JobStream) -> None:
        self._looked_at[path] = stream
        if (first := stream.at(filling, 0)) is not None:
            heappush(self._heap, (first[0], path, 0, stream))


class Branch(JobStream):
    """A queue of queues: one below its guarantee is next, then the one with the least for its weight."""

    __slots__ = ("_among", "_had", "_queue")

    def __init__(self, filling: "ProgressiveFilling", kind: Key, of: Beneath) -> None:
        super().__init__()
        self._among = filling.merged(kind, of.path, of.below)
        self._queue = filling.queue(of.path)
        self._had = list(filling.had((of.path, None)))

    def _more(self, filling: "ProgressiveFilling") -> bool:
        """Find the next job; the queue is below its guarantee also when one in it is below its own."""
        number, known = len(self.found), self._among.found
        found = known[number] if number < len(known) else self._among.at(filling, number)
        if found is None:
            return False
        (below, part, age), _, entry = found
        queue, had = self._queue, self._had
        rank = filling.rank(queue, had)
        if below == 0 and rank[0] != 0:
            rank = 0, part
        self._had = [*map(add, had, filling.parts(entry.takes))]
        self.found.append(((*rank, age), queue.path, entry))
        return True
