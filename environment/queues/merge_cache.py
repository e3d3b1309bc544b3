"""Cache of shares and merged streams from one round to the next."""

from collections.abc import Mapping, Sequence
from threading import Lock
from typing import Any, NamedTuple

from environment.queues.limits import LimitRoom, ShareLimits, charges
from environment.queues.queue_tree import Beneath, JobStream, MergedStream
from environment.queues.shares import NO_USE, Scope, Standings, Use, dominant
from environment.queues.sorted_lines import Key, SortedJobs
from environment.queues.types import Queue
from environment.resources import NOTHING, Resources

#: Number of queues and users whose results are kept, at most.
_KEPT = 100_000
#: And number of sets of queues with waiting jobs, and of queues with their order of jobs.
_TREES, _STREAMS = 100, 10_000
#: An amount, which keeps its id while it is cached, and its share of the whole, of each resource.
Parts = tuple[Resources, Sequence[float]]


class CacheKey(NamedTuple):
    """A stream, and all that it depends on: where nothing of this has changed, it would be found again."""

    stream: JobStream
    #: The lines of jobs by queue, and the held resources, as far as they count: these very ones.
    lines: tuple[tuple[str, object], ...]
    uses: tuple[tuple[Scope, Use], ...]
    #: Further inputs.
    like: tuple[object, ...]

    def holds(self, standings: Standings, lines: Mapping[str, object], like: tuple[object, ...]) -> bool:
        """Whether it would be."""
        for scope, use in self.uses:
            if standings.of(scope) is not use:
                return False
        for queue, line in self.lines:
            if lines.get(queue) is not line:
                return False
        return self.like == like


class MergeCache:
    """Cache of shares and streams between rounds; an entry is valid as long as its inputs do not change.

    May be used by several threads at once: each computes the same result when an entry is missing.
    """

    def __init__(self) -> None:
        self._vectors: dict[Scope, tuple[Use, float, Resources, list[float]]] = {}
        self._shares: dict[Scope, tuple[Use, float, Resources, float]] = {}
        self._rooms: dict[Scope, tuple[LimitRoom, ...]] = {}
        self._trees: dict[tuple[str, ...], tuple[Beneath, ...]] = {}
        self._streams: dict[tuple[Key, str], CacheKey] = {}
        self._merged: dict[tuple[Key, str], MergedStream] = {}
        #: Held by the thread that extends a stream.
        self.finding = Lock()
        self._users: dict[tuple[Key, str], tuple[object, Use | None, float, Resources, list[Any]]] = {}
        #: Usage and line of each user, with their standing then, by class and queue.
        self._stood: dict[
            tuple[Key, str], tuple[float, Resources, dict[str, tuple[Use, SortedJobs, Any]]]
        ] = {}
        self._parts: tuple[Resources, dict[int, Parts]] = NOTHING, {}

    def vector(self, standings: Standings, scope: Scope) -> Sequence[float]:
        """Present and past usage of a queue or user, as parts of the whole."""
        use, step, whole = standings.of(scope), standings.step, standings.whole
        known = self._vectors.get(scope)
        if known is None or known[0] is not use or known[1] != step or known[2] is not whole:
            if len(self._vectors) > _KEPT:
                self._vectors = {}
            known = self._vectors[scope] = use, step, whole, standings.vector(use)
        return known[3]

    def rooms(
        self, standings: Standings, limits: ShareLimits, queue: str, user: str
    ) -> tuple[LimitRoom, ...]:
        """Room left for jobs of that queue and user below each limit."""
        known = self._rooms.get((queue, user))
        if known is None or not all(
            standings.of(room.scope) is room.use and charges(standings, room.scope) == room.charges
            for room in known
        ):
            if len(self._rooms) > _KEPT:
                self._rooms = {}
            known = self._rooms[queue, user] = limits.rooms(standings, queue, user)
        return known

    def beneath(self, standings: Standings, paths: tuple[str, ...]) -> tuple[Beneath, ...]:
        """The tree of these queues and those above them."""
        found = self._trees.get(paths)
        if found is None:
            if len(self._trees) > _TREES:
                self._trees = {}
            lines = [[queue.path for queue in standings.sharing.queues.line(path)] for path in paths]
            found = self._trees[paths] = _tree(lines, 0)
        return found

    def seen(self, kind: Key, path: str) -> CacheKey | None:
        """Last cached stream of the jobs of a class in a queue."""
        return self._streams.get((kind, path))

    def see(self, kind: Key, path: str, seen: CacheKey) -> None:
        """Store the stream."""
        if len(self._streams) > _STREAMS:
            self._streams = {}
        self._streams[kind, path] = seen

    def merged(self, kind: Key, path: str) -> MergedStream | None:
        """Last cached merge of all queues below a queue, or of the topmost, with jobs of a class."""
        return self._merged.get((kind, path))

    def merge(self, kind: Key, path: str, merged: MergedStream) -> MergedStream:
        """Store the merge, and return it."""
        if len(self._merged) > _STREAMS:
            self._merged = {}
        self._merged[kind, path] = merged
        return merged

    def forget(self) -> None:
        """Drop all streams, so that none is continued."""
        self._streams, self._merged = {}, {}

    def share(self, standings: Standings, scope: Scope, weight: float) -> float:
        """A queue's or user's share for its weight."""
        use, step, whole = standings.of(scope), standings.step, standings.whole
        known = self._shares.get(scope)
        if known is None or known[0] is not use or known[1] != step or known[2] is not whole:
            if len(self._shares) > _KEPT:
                self._shares = {}
            share = dominant(self.vector(standings, scope), weight)
            known = self._shares[scope] = use, step, whole, share
        return known[3]

    def users(
        self, standings: Standings, kind: Key, queue: Queue, lines: Mapping[str, SortedJobs]
    ) -> Sequence[Any]:
        """Users of a queue of jobs by share, each with the key of its first job."""
        # A queue includes every change of its users.
        use, step, whole = standings.of((queue.path, None)), standings.step, standings.whole
        known = self._users.get((kind, queue.path))
        if known is None or known[0] is not lines or known[1] is not use or known[2:4] != (step, whole):
            if len(self._users) > _KEPT:
                self._users = {}
            path, uses = queue.path, standings.users(queue.path)
            of = self._stood.get((kind, path))
            if of is None or of[:2] != (step, whole):
                of = self._stood[kind, path] = step, whole, {}
            stood, found = of[2], []
            for user, line in lines.items():
                now, was = uses.get(user, NO_USE), stood.get(user)
                if was is None or was[0] is not now or was[1] is not line:
                    share = dominant(self.vector(standings, (path, user)), queue.weight_of(user))
                    was = stood[user] = now, line, (share, line.first.key, user)
                found.append(was[2])
            found.sort()
            known = self._users[kind, path] = lines, use, step, whole, found
        return known[4]

    def parts(self, whole: Resources) -> dict[int, Parts]:
        """Amounts as parts of the whole, by their ids as objects; to add to."""
        known = self._parts
        if known[0] is not whole or len(known[1]) > _KEPT:
            known = self._parts = whole, {}
        return known[1]


def _tree(lines: Sequence[Sequence[str]], depth: int) -> tuple[Beneath, ...]:
    """Trees of the queues at that depth, each below the queues above it."""
    longer = [line for line in lines if len(line) > depth]
    below: dict[str, list[Sequence[str]]] = {}
    for line in longer:
        below.setdefault(line[depth], []).append(line)
    return tuple(
        Beneath(path, tuple(line[-1] for line in among), _tree(among, depth + 1))
        for path, among in below.items()
    )
