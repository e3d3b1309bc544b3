"""Queues of one term behind one object: as configured, as waited in, as observed, as shown."""

from collections.abc import Callable

from conf.schema import Config
from daemon.queues.live_queues import LiveQueues
from daemon.queues.queue_observer import QueueWatch
from daemon.queues.queue_service import QueueService
from daemon.queues.waiting_counts import WaitingBook
from daemon.store.job_store import Store
from environment.model.messages.events import Event, SharingChanged
from environment.model.vms.job_registry import Changes

#: Seconds for which a change of queues waits until it holds; by then it is on disk.
_SHARE_PATIENCE = 2.0


class DaemonQueues:
    """`waiting` and `watch` are for the loop's thread, `live` and `service` for any."""

    def __init__(
        self,
        config: Config,
        store: Store,
        put_and_wait: Callable[[Event, float], bool],
        now: Callable[[], float],
    ) -> None:
        """`put_and_wait` takes an event for the loop, and waits so many seconds until it is handled."""
        self._put_and_wait, self._now = put_and_wait, now
        self.waiting = WaitingBook()
        self.watch = QueueWatch(self.waiting, now, store.facts.get)
        self.live = LiveQueues(config, store, self._share)
        self.service = QueueService(self.live, lambda: self.watch.sight)

    def _share(self) -> None:
        self._put_and_wait(SharingChanged(self._now(), self.live.sharing()), _SHARE_PATIENCE)

    def observe(self, changes: Changes) -> None:
        """Count jobs that wait by queue and user."""
        self.waiting.note(changes.jobs)
