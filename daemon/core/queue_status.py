"""Status of queues for users: settings, resources in use, waiting jobs."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from conf.schema import QueueSettings
from environment.queues.types import Queue, Queues
from environment.resources import NOTHING, Resources


@dataclass(frozen=True, slots=True)
class QueueUse:
    """Resources and waiting jobs of a queue and of those below it.

    `share` is the largest fraction of any resource of the cluster that their jobs hold, `used` the same with
    recent use included. `waits` is the job that has waited longest, since `waits_since` (seconds since the
    epoch).
    """

    held: Resources = NOTHING
    share: float = 0.0
    used: float = 0.0
    running: int = 0
    waiting: int = 0
    dollars_today: float = 0.0
    #: Of this month; None where nothing limits it.
    dollars_this_month: float | None = None
    waits: str = ""
    waits_since: float | None = None


@dataclass(frozen=True, slots=True)
class QueueStatus:
    """Status of a queue: its own settings, the ones that apply to it, and its use.

    `due` is the fraction of the cluster that is its own by weights alone, if all queues have enough to do.
    `changed`: it differs from the config. A queue that is not `known` was removed from the config while it
    had jobs; it accepts no new ones.
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
