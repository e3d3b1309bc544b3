"""Waiting jobs in sorted lines that a round may go on reading while the next jobs join and leave.

A line is that of one class of jobs, one queue and one of its users; `keys` defines the class, and the order
within a line. `queue_tree` decides which line is next.
"""

import math
from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import chain
from typing import Any, NamedTuple

from conf.schema.sharing import Criterion
from environment.queues.types import Sharing
from environment.resources import Resources, total
from environment.types import Job, PlacementRequest

Key = tuple[Any, ...]
#: Class, queue, user.
Path = tuple[Key, str, str]
#: Lines by class, queue and user.
Tree = Mapping[Key, Mapping[str, Mapping[str, "SortedJobs"]]]
#: Maximum number of entries of a piece of a row.
_PIECE = 128


class WaitingJob(NamedTuple):
    """A job that waits: where it stands in its line, all that it asks for, and the least on which it runs."""

    key: Key
    request: PlacementRequest
    takes: Resources
    least: Resources


class SortedJobs:
    """Entries in order, in pieces.

    A copy and its original may both be changed: the piece that changes is copied first. So adding a job
    costs no more in a long line, neither here nor where the garbage collector goes over new lists.
    """

    __slots__ = ("_mine", "_pieces")

    def __init__(self, pieces: Iterable[list[WaitingJob]] = ()) -> None:
        self._pieces = list(pieces)
        #: The pieces that no copy shares, by their ids.
        self._mine: set[int] = set()

    def __bool__(self) -> bool:
        return bool(self._pieces)

    def __iter__(self) -> Iterator[WaitingJob]:
        return chain.from_iterable(self._pieces)

    @property
    def first(self) -> WaitingJob:
        """The first; IndexError where there is none."""
        return self._pieces[0][0]

    def copy(self) -> "SortedJobs":
        """The same, to be changed."""
        return SortedJobs(self._pieces)

    def add(self, entry: WaitingJob) -> None:
        """An entry joins."""
        if not self._pieces:
            self._pieces.append([])
        number = self._number_of(entry.key)
        piece = self._own(number)
        insort(piece, entry)
        if len(piece) > _PIECE:
            # Most jobs join at the end, and leave the entries in front of them as they are.
            half = len(piece) - 1 if piece[-1] is entry else len(piece) // 2
            parts = piece[:half], piece[half:]
            self._mine.discard(id(piece))
            self._mine.update(map(id, parts))
            self._pieces[number : number + 1] = parts

    def remove(self, key: Key) -> None:
        """The entry with that key leaves."""
        number = self._number_of(key)
        piece = self._own(number)
        del piece[bisect_left(piece, (key,))]
        if not piece:
            self._mine.discard(id(piece))
            del self._pieces[number]

    def _number_of(self, key: Key) -> int:
        """Index of the piece that has, or would have, an entry with that key."""
        pieces = self._pieces
        if not pieces[-1] or pieces[-1][0].key <= key:
            return len(pieces) - 1
        return max(bisect_right(pieces, key, key=lambda piece: piece[0].key) - 1, 0)

    def _own(self, number: int) -> list[WaitingJob]:
        """A piece, to be changed."""
        piece = self._pieces[number]
        if id(piece) not in self._mine:
            piece = self._pieces[number] = piece.copy()
            self._mine.add(id(piece))
        return piece


@lru_cache(maxsize=4096)
def _sum(sizes: tuple[Resources, ...], size: Resources, count: int, driver: Resources | None) -> Resources:
    taken = total(sizes[:count]) if sizes else size * count
    return taken if driver is None else taken + driver


def demand(request: PlacementRequest) -> tuple[Resources, Resources]:
    """All that a request asks for, and the least with which it may be placed; its driver is part of both."""
    driver, size = None if request.joins else request.job.driver, request.job.size
    every = _sum(request.sizes, size, request.count, driver)
    least = every if request.fewest == request.count else _sum(request.sizes, size, request.fewest, driver)
    return every, least


def latest_start(job: Job) -> float:
    """Latest start of a job that meets its deadline, by its expected duration; infinity without one."""
    return math.inf if job.deadline is None else job.deadline - (job.expected_duration or 0.0)


def _stands(criterion: Criterion, job: Job, now: float) -> Key:
    match criterion:
        case "priority":
            return (-job.priority,)
        case "deadline":
            return (latest_start(job) < now, math.inf if job.deadline is None else job.deadline)
        case "shortest":
            return (math.inf if job.expected_duration is None else job.expected_duration,)
        case _:
            return ()


def keys(sharing: Sharing, job: Job, at: float, number: int, now: float) -> tuple[Path, Key]:
    """Line of a job that came at `at` as that number, and its key in the line.

    Criteria before `fair` in the order divide jobs in classes; without it there is a line for
    each queue.
    """
    order, queue = sharing.order, sharing.queues.leaf(job.queue)
    fair = order.index("fair") if "fair" in order else -1
    stand = [_stands(criterion, job, now) for criterion in order]
    within = sum(stand[fair + 1 :], ())
    if fair < 0:
        return ((), queue, ""), (*within, at, number)
    return (sum(stand[:fair], ()), queue, job.owner), (*within, at, number)


class Lines:
    """Lines by path; a tree that was handed out is never changed."""

    def __init__(self, tree: Tree | None = None, classes: Sequence[Key] = ()) -> None:
        self._tree: dict[Any, Any] = dict(tree or {})
        self._classes = list(classes)
        #: Entries that were not handed out since they were made, and may be changed.
        self._mine: set[tuple[Any, ...]] = set()

    def add(self, path: Path, entry: WaitingJob) -> None:
        """An entry joins a line."""
        self._line(path).add(entry)

    def remove(self, path: Path, key: Key) -> None:
        """The entry with that key leaves its line."""
        line = self._line(path)
        line.remove(key)
        if line:
            return
        kind, queue, user = path
        queues = self._tree[kind]
        del queues[queue][user]
        self._mine.discard(path)
        if not queues[queue]:
            del queues[queue]
            self._mine.discard((kind, queue))
        if not queues:
            del self._tree[kind]
            self._mine.discard((kind,))
            del self._classes[bisect_left(self._classes, kind)]

    def hand_out(self) -> tuple[Tree, Sequence[Key]]:
        """All lines as they are now, and their classes in order."""
        self._mine.clear()
        return self._tree, self._classes

    def copy(self) -> "Lines":
        """The same lines, of which others may be changed."""
        return Lines(*self.hand_out())

    def _line(self, path: Path) -> SortedJobs:
        """A line, to be changed."""
        if () not in self._mine:
            self._tree, self._classes = dict(self._tree), list(self._classes)
            self._mine.add(())
        if path[0] not in self._tree:
            insort(self._classes, path[0])
        at: Any = self._tree
        for depth, name in enumerate(path, 1):
            if path[:depth] not in self._mine:
                empty: Any = SortedJobs() if depth == len(path) else {}
                at[name] = at[name].copy() if name in at else empty
                self._mine.add(path[:depth])
            at = at[name]
        line: SortedJobs = at
        return line
