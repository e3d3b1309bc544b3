"""What was found of shares in one round, and is as true in the next."""

from collections.abc import Mapping, Sequence
from typing import Any

from environment.resources import Resources
from environment.sharing.limits import Over, ShareLimits
from environment.sharing.lines import Entry, Key
from environment.sharing.shares import Scope, Standings, Use, dominant
from environment.sharing.terms import Queue

#: Of so many queues and users it is kept what was found, at most.
_KEPT = 100_000
#: And of so many sets of queues in which somebody waits.
_TREES = 100
#: By what jobs take at least, as objects, and whether they run already: that, and what is in their way.
Overs = dict[tuple[int, bool], tuple[Resources, Over | None]]


class Known:
    """What was found of shares in one round, and is as true in the next as long as nothing of it changes.

    May be used by several threads at once, each of which finds the same again where it finds nothing.
    """

    def __init__(self) -> None:
        self._vectors: dict[Scope, tuple[Use, float, Resources, list[float]]] = {}
        self._shares: dict[str, tuple[Use, float, Resources, float]] = {}
        self._overs: dict[Scope, tuple[object, Overs]] = {}
        self._trees: dict[tuple[str, ...], dict[str, Any]] = {}
        self._users: dict[tuple[Key, str], tuple[object, Use | None, float, Resources, list[Any]]] = {}

    def vector(self, standings: Standings, scope: Scope) -> Sequence[float]:
        """What a queue or user has and has had, as parts of the whole."""
        use, step, whole = standings.of(scope), standings.step, standings.whole
        known = self._vectors.get(scope)
        if known is None or known[0] is not use or known[1] != step or known[2] is not whole:
            if len(self._vectors) > _KEPT:
                self._vectors = {}
            known = self._vectors[scope] = use, step, whole, standings.vector(use)
        return known[3]

    def overs(self, standings: Standings, limits: ShareLimits, queue: str, user: str) -> Overs:
        """What was found of limits for jobs of that queue and user, who have what they had then; to add to.

        What holds for any user of the queue is that of the user "".
        """
        of = tuple((standings.of(scope), standings.spent.get(scope)) for scope in limits.scopes(queue, user))
        known = self._overs.get((queue, user))
        if known is None or known[0] != of:
            if len(self._overs) > _KEPT // 100:
                self._overs = {}
            known = self._overs[queue, user] = of, {}
        return known[1]

    def below(self, standings: Standings, paths: tuple[str, ...]) -> Mapping[str, Any]:
        """The tree of these queues and those above them."""
        found = self._trees.get(paths)
        if found is None:
            found = {}
            for path in paths:
                at = found
                for queue in standings.sharing.queues.line(path):
                    at = at.setdefault(queue.path, {})
            if len(self._trees) > _TREES:
                self._trees = {}
            self._trees[paths] = found
        return found

    def share(self, standings: Standings, queue: Queue) -> float:
        """A queue's share for its weight."""
        use, step, whole = standings.of((queue.path, None)), standings.step, standings.whole
        known = self._shares.get(queue.path)
        if known is None or known[0] is not use or known[1] != step or known[2] is not whole:
            share = dominant(self.vector(standings, (queue.path, None)), queue.weight)
            known = self._shares[queue.path] = use, step, whole, share
        return known[3]

    def users(
        self, standings: Standings, kind: Key, queue: Queue, lines: Mapping[str, Sequence[Entry]]
    ) -> Sequence[Any]:
        """The users of a queue of jobs by share: that, where the first of each stands, who, and 0."""
        # Of whatever changes of its users, the queue has a part.
        use, step, whole = standings.of((queue.path, None)), standings.step, standings.whole
        known = self._users.get((kind, queue.path))
        if known is None or known[0] is not lines or known[1] is not use or known[2:4] != (step, whole):
            if len(self._users) > _KEPT:
                self._users = {}
            found = []
            for user, line in lines.items():
                share = dominant(self.vector(standings, (queue.path, user)), queue.weight_of(user))
                found.append((share, line[0].key, user, 0))
            found.sort()
            known = self._users[kind, queue.path] = lines, use, step, whole, found
        return known[4]
