"""Queues as users see them: what holds for each, what it has, who waits there."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from conf.schema import QueueSettings
from environment.queues.types import Queue, Queues
from environment.resources import NOTHING, Resources


@dataclass(frozen=True, slots=True)
class QueueUse:
    """What jobs in a queue, and in those below it, have and wait for.

    `share` is the largest fraction of anything in the cluster that they hold, `used` the same with what they
    have held of late. `waits` is the job that waits longest, since `waits_since` (seconds since the epoch).
    """

    held: Resources = NOTHING
    share: float = 0.0
    used: float = 0.0
    running: int = 0
    waiting: int = 0
    dollars_today: float = 0.0
    waits: str = ""
    waits_since: float | None = None


@dataclass(frozen=True, slots=True)
class QueueStatus:
    """A queue: what it says of itself, what holds for it, and how it does.

    `due` is the fraction of the cluster that is its own by weights alone, if all queues have enough to do.
    `changed`: it is another than the config says. One that is not `known` was left out by a config when it
    had jobs; it takes no others.
    """

    queue: Queue
    settings: QueueSettings
    leaf: bool = True
    changed: bool = False
    known: bool = True
    due: float = 0.0
    use: QueueUse = field(default_factory=QueueUse)


@dataclass(frozen=True, slots=True)
class QueuesStatus:
    """All queues, those above before those below them; and the order of jobs over all of them."""

    queues: tuple[QueueStatus, ...] = ()
    order: tuple[str, ...] = ()


def dues(queues: Queues) -> Mapping[str, float]:
    """The fraction of the cluster that each queue's weight makes its own, by path."""
    found: dict[str, float] = {"": 1.0}
    weights: dict[str, float] = {}
    for queue in queues:
        weights[queue.above] = weights.get(queue.above, 0.0) + queue.weight
    for queue in queues:  # those above come before
        found[queue.path] = found[queue.above] * queue.weight / weights[queue.above]
    return found
