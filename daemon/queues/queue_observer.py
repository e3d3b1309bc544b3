"""How the scheduling loop sees queues now and then, and what it tells of them besides.

What is seen is said in `queue_snapshot.py`, who waits in `waiting.py`, what is remembered over restarts in
`past_usage.py`, whose allowance is used up in `spending_limits.py`.
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
    """Watched by the thread that owns the model; what was seen, anybody may read."""

    def __init__(
        self, book: WaitingBook, now: Callable[[], float], read: Callable[[str], str | None]
    ) -> None:
        """`book` says who waits; `read` gives facts of the store by their keys."""
        self._book, self._past_use, self._allowances = book, PastUse(), SpendingLimits(now, read)
        self._next_look = 0.0
        #: How queues were seen last; None where the cluster is not shared.
        self.sight: QueueSnapshot | None = None
        #: Since when who waits longest has waited, as it was seen then.
        self.waits_since: float | None = None

    def look(self, model: ClusterModel) -> None:
        """See how queues and the order are, now and then: it goes through the first who wait."""
        if (began := time.monotonic()) < self._next_look:
            return
        self.sight = sight_of(model, self._book)
        if self.sight is not None:
            self._allowances.observe(self.sight.standings)
        self.waits_since = min((since for _, since in self._book.longest().values()), default=None)
        self._next_look = next_look(began, time.monotonic())

    def take_news(self, model: ClusterModel) -> tuple[list[HistoryEvent], dict[str, str]]:
        """What has happened since it was taken last, and facts for the store."""
        happened, told = self._allowances.take_news()
        return happened, {**self._past_use.facts(model.standings), **told}

    def come_due(self) -> None:
        """The next news have all that is to be remembered."""
        self._past_use.come_due()
