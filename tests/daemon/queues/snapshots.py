"""Queue snapshots built from held resources."""

from collections.abc import Mapping, Sequence
from typing import Any

from daemon.queues.queue_snapshot import QueueSnapshot
from environment.queues.shares import JobHolding, Shares
from environment.queues.types import ANY, Most, Queues, Sharing
from environment.resources import Resources

WHOLE = Resources.of(8.0, 8192)


def seen(
    queues: Queues,
    *held: tuple[str, str, Resources],
    first: Sequence[str] = (),
    longest: Mapping[str, tuple[str, float]] | None = None,
    waiting: Mapping[str, int] | None = None,
    stray: Sequence[str] = (),
    spent: float = 0.0,
    order: Sequence[str] = ("priority", "fair"),
    window: int = 256,
    most_per_user: Most = ANY,
) -> QueueSnapshot:
    """Jobs of these queues and users hold so much of a cluster of 8 cpus and 8 GiB, since an hour ago.

    Each has cost so much today.
    """
    words: Any = tuple(order)
    sharing = Sharing(words, queues=queues, window=window, most_per_user=most_per_user)
    shares = Shares(sharing)
    for number, (queue, user, resources) in enumerate(held):
        shares.holds(f"job-{number}", JobHolding(queue, user, resources, 0.5), 0.0)
        shares.spends(queue, user, "2026-11-22", spent)
    standings = shares.standings(WHOLE, 3600.0, "2026-11-22")
    return QueueSnapshot(standings, first, waiting or {}, longest or {}, stray)
