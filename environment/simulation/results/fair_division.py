"""Fair shares by weights for each queue, or each user of a queue, at every moment of a run.

The total held is divided by the tree, between any two events of the run. `fairness` sums this up over the
run.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from environment.queues.types import Queue, Queues
from environment.resources import Resources
from environment.simulation.results.results import Result
from environment.types import FloatArray, IntArray

By = Literal["queue", "user"]

#: Numbers, moments times parties, that are computed at once.
_AT_ONCE = 2_000_000
#: Of shares; smaller ones are dust of adding and taking away.
DUST = 1e-9


def divided(
    amount: FloatArray, wanted: FloatArray, weights: FloatArray, floors: FloatArray | None = None
) -> FloatArray:
    """Amounts, [T], divided by weights, [G], to no party more than it wants, [T, G]: weighted max-min.

    No party that wants it gets less than its floor, [T, G], as long as there is that much for all; where
    there is not, floors are cut to the same part. The rest stays undivided where all have enough.
    """
    least = np.zeros_like(wanted) if floors is None else np.minimum(floors, wanted)
    sure = least.sum(axis=1)
    least = least * np.divide(amount, sure, out=np.ones_like(sure), where=sure > amount)[:, None]
    # Water rises: from the level at which it is above his floor each has his part of it, until he is served.
    levels = np.concatenate((least / weights, wanted / weights), axis=1)
    slopes = np.broadcast_to(np.concatenate((weights, -weights)), levels.shape)
    order = np.argsort(levels, axis=1, kind="stable")
    levels = np.take_along_axis(levels, order, 1)
    slope = np.cumsum(np.take_along_axis(slopes, order, 1), axis=1)
    risen = np.cumsum(slope[:, :-1] * np.diff(levels, axis=1), axis=1)
    filled = least.sum(axis=1)[:, None] + np.pad(risen, ((0, 0), (1, 0)))
    # The last of the levels that are reached, and how far the water rises above it.
    at = np.maximum((filled <= amount[:, None]).sum(axis=1) - 1, 0)
    rows = np.arange(len(amount))
    rises = np.where(slope[rows, at] > DUST, slope[rows, at], 1.0)
    level = levels[rows, at] + np.clip(amount - filled[rows, at], 0.0, None) / rises
    level = np.minimum(level, levels[rows, np.minimum(at + 1, levels.shape[1] - 1)])
    parts: FloatArray = np.clip(level[:, None] * weights, least, wanted)
    return parts


class Division:
    """Held and wanted amounts of each party at every moment of a run between two of its events."""

    def __init__(self, result: Result, queues: Queues, by: By) -> None:
        keys = [(job.queue, job.owner if by == "user" else None) for job in result.jobs]
        #: Queue and user of each party, those of a tree first, in its order.
        order = {queue.path: number for number, queue in enumerate(queues)}
        self.parties = sorted(
            set(keys), key=lambda key: (order.get(key[0], len(order)), key[0], key[1] or "")
        )
        numbers = {key: number for number, key in enumerate(self.parties)}
        #: The party of each job, [M].
        self.party: IntArray = np.array([numbers[key] for key in keys], np.int64)
        self._tree = _tree(self.parties, queues)
        self._whole = sum((vm.resources for vm in result.vms), Resources())
        self._names = sorted(self._whole.thousandths)
        self._events(result)

    def _events(self, result: Result) -> None:
        """Times of all changes, [E], the party of each, and the increments of held and wanted amounts."""
        held, count = result.held, len(result.jobs)
        there = (held.vm < len(result.vms)) & (held.end > held.start)
        kinds = np.array([self._shares(size) for size in held.kinds]).reshape(-1, len(self._names))
        taken, holders = kinds[held.kind[there]], self.party[held.job[there]]
        asked = np.array([self._shares(job.size * job.executors) for job in result.jobs])
        asked = asked.reshape(count, len(self._names))
        came = np.array([job.submitted_at for job in result.jobs])
        over = np.array([job.ended_at for job in result.jobs])
        at = np.concatenate((held.start[there], held.end[there], came, over))
        party = np.concatenate((holders, holders, self.party, self.party))
        nothing, none = np.zeros_like(taken), np.zeros_like(asked)
        holds = np.concatenate((taken, -taken, none, none))
        wants = np.concatenate((nothing, nothing, asked, -asked))
        order = np.argsort(at, kind="stable")
        self._at, self._event_party = at[order], party[order]
        self._holds, self._wants = holds[order], wants[order]

    def _shares(self, size: Resources) -> list[float]:
        """Shares of the whole cluster's amount of each resource."""
        return [size.get(name) / self._whole.get(name) for name in self._names]

    def moments(self) -> Iterator[tuple[FloatArray, FloatArray, FloatArray, FloatArray, FloatArray]]:
        """Begins and lengths, [T], of times without change; shares held, fair parts and wanted then, [T, G].

        In several pieces, so that a long run of many users needs no more memory than a short one.
        """
        parties = len(self.parties)
        times, which = np.unique(self._at, return_inverse=True)
        length = np.diff(times, append=times[-1:])
        had, wanted = np.zeros((2, parties, len(self._names)))
        rows = max(1, _AT_ONCE // max(1, parties * len(self._names)))
        for first in range(0, len(times), rows):
            last = min(first + rows, len(times))
            of = slice(np.searchsorted(which, first), np.searchsorted(which, last))
            changes = np.zeros((2, last - first, parties, len(self._names)))
            np.add.at(changes[0], (which[of] - first, self._event_party[of]), self._holds[of])
            np.add.at(changes[1], (which[of] - first, self._event_party[of]), self._wants[of])
            now = np.cumsum(changes, axis=1) + np.stack((had, wanted))[:, None]
            had, wanted = now[:, -1]
            now[now < DUST] = 0.0
            # Growth beyond the first request, and lost executors elsewhere, are wanted, too.
            asked = now.max(axis=0)
            held, wants = now[0].max(axis=2), asked.max(axis=2)
            fair = np.zeros_like(held)
            bounds: dict[int, tuple[FloatArray, FloatArray]] = {}
            self._bound(self._tree, asked, bounds)
            self._divide(self._tree, held.sum(axis=1), bounds, fair)
            yield times[first:last], length[first:last], held, fair, wants

    def _bound(
        self, node: "_Node", asked: FloatArray, bounds: dict[int, tuple[FloatArray, FloatArray]]
    ) -> tuple[FloatArray, FloatArray]:
        """Guaranteed amount of a node, and the most it wants and may have, [T]; `bounds` has both by id.

        From the amounts `asked`, [T, G, R]: guarantees and limits are met when one of their resources is.
        """
        if node.party is not None:
            most = asked[:, node.party].max(axis=1)
            sure = np.zeros_like(most)
        else:
            below = [self._bound(child, asked, bounds) for child in node.below]
            sure = np.sum([least for least, _ in below], axis=0)
            most = np.sum([each for _, each in below], axis=0)
        if node.guaranteed or node.limits:
            together = asked[:, node.members]
            everything, each = together.max(axis=2).sum(axis=1), together.sum(axis=1)
            sure = np.maximum(sure, everything * self._part(each, node.guaranteed))
            for limit in node.limits:
                most = np.minimum(most, everything * self._part(each, limit))
        bounds[id(node)] = np.minimum(sure, most), most
        return bounds[id(node)]

    def _part(self, asked: FloatArray, bound: Mapping[str, float]) -> FloatArray:
        """Part of the amounts asked, [T, R], that is within a bound, [T]."""
        part = np.ones(len(asked)) if bound else np.zeros(len(asked))
        for number, name in enumerate(self._names):
            if name in bound:
                share, some = bound[name] * 1000 / self._whole.get(name), asked[:, number] > 0.0
                part[some] = np.minimum(part[some], share / asked[some, number])
        return part

    def _divide(
        self,
        node: "_Node",
        amount: FloatArray,
        bounds: Mapping[int, tuple[FloatArray, FloatArray]],
        fair: FloatArray,
    ) -> None:
        """Divide a node's amount among its children, [T], down to the parties, [T, G]."""
        if node.party is not None:
            fair[:, node.party] = amount
            return
        least, most = (
            np.stack([bounds[id(child)][which] for child in node.below], axis=1) for which in (0, 1)
        )
        parts = divided(amount, most, np.array([child.weight for child in node.below]), least)
        for number, child in enumerate(node.below):
            self._divide(child, parts[:, number], bounds, fair)


@dataclass(slots=True)
class _Node:
    """A queue of the tree, or a party: then it has its number and nothing below it.

    `guaranteed` is its guarantee and `limits` are its maximums, by Mesos' names, as configured.
    """

    weight: float
    guaranteed: Mapping[str, float] = field(default_factory=dict)
    limits: tuple[Mapping[str, float], ...] = ()
    members: list[int] = field(default_factory=list)
    below: "list[_Node]" = field(default_factory=list)
    party: int | None = None


def _bounds(queue: Queue) -> tuple[Mapping[str, float], tuple[Mapping[str, float], ...]]:
    """Guaranteed and maximum amounts of a queue."""
    sure = {name: amount / 1000 for name, amount in queue.guaranteed.thousandths.items()}
    return sure, (queue.most.resources,) if queue.most.resources else ()


def _tree(parties: Sequence[tuple[str, str | None]], queues: Queues) -> _Node:
    """The queues above the parties, and these."""
    root, nodes = _Node(1.0), dict[str, _Node]()
    for number, (path, user) in enumerate(parties):
        above = root
        for queue in _line(queues, path):
            if queue.path not in nodes:
                nodes[queue.path] = _Node(queue.weight, *_bounds(queue))
                above.below.append(nodes[queue.path])
            above.members.append(number)
            above = nodes[queue.path]
        above.members.append(number)
        if user is not None:
            each = tuple(q.most_per_user.resources for q in _line(queues, path) if q.most_per_user.resources)
            above.below.append(_Node(weight_of(path, user, queues), {}, each, [number], party=number))
        else:
            above.party = number
    return root


def _line(queues: Queues, path: str) -> tuple[Queue, ...]:
    """The queue and those above it; without queues a name's jobs are compared with others' all the same."""
    return queues.line(path) if queues else (Queue(path),)


def weight_of(path: str, user: str | None, queues: Queues) -> float:
    """Weight of a user in a queue, or of the queue among its neighbours."""
    queue = _line(queues, path)[-1]
    return queue.weight if user is None else queue.weight_of(user)
