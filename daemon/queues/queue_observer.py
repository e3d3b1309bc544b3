"""Observes queues at intervals for the scheduling loop, and collects events and facts about them.

`queue_snapshot.py` makes snapshots, `waiting_counts.py` counts waiting jobs, `past_usage.py` stores past use,
`spending_limits.py` detects used-up allowances.
"""

import time
from collections.abc import Callable

from daemon.queues.past_usage import PastUse
from daemon.queues.queue_snapshot import QueueSnapshot, next_look, sight_of
from daemon.queues.spending_limits import SpendingLimits
from daemon.queues.waiting_counts import WaitingBook
from daemon.store.rows.event_recorder import HistoryEvent
from environment.model.cluster_model import ClusterModel


class QueueWatch:
    """Used by the thread that owns the model; the last snapshot may be read from any thread."""

    def __init__(
        self, book: WaitingBook, now: Callable[[], float], read: Callable[[str], str | None]
    ) -> None:
        """`book` counts waiting jobs; `read` returns facts of the store by their keys."""
        self._book, self._past_use, self._allowances = book, PastUse(), SpendingLimits(now, read)
        self._next_look = 0.0
        #: How queues were seen last; None where the cluster is not shared.
        self.sight: QueueSnapshot | None = None
        #: Since when the longest waiting job has waited, as of the last check.
        self.waits_since: float | None = None

    def look(self, model: ClusterModel) -> None:
        """Take a snapshot of queues and order at intervals: it passes over the first waiting jobs."""
        if (began := time.monotonic()) < self._next_look:
            return
        self.sight = sight_of(model, self._book)
        if self.sight is not None:
            self._allowances.observe(self.sight.standings)
        self.waits_since = self._book.waits_since()
        self._next_look = next_look(began, time.monotonic())

    def take_news(self, model: ClusterModel) -> tuple[list[HistoryEvent], dict[str, str]]:
        """Return events since the last call, and facts for the store."""
        happened, told = self._allowances.take_news()
        return happened, {**self._past_use.facts(model.standings), **told}

    def come_due(self) -> None:
        """The next news have all that is to be remembered."""
        self._past_use.come_due()
