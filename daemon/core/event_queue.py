"""The scheduling loop's inbox: events from any thread, taken out in batches by the one that schedules."""

import queue
import threading
import time
from dataclasses import dataclass, field

from environment.model.messages import events as ev
from framework.substrate import Stored

#: Events that are handled as one batch, with one write to the store.
BATCH = 1000
#: Seconds from one batch with new jobs to the next that begins with one. Chosen: queueing jobs one by one
#: took twice as much computing, for which submitting clients had to wait.
_PACE = 0.02


@dataclass(frozen=True, slots=True)
class Item:
    """An event in the inbox; `stored` is called once its result is stored."""

    event: ev.Event
    stored: Stored | None = field(default=None, repr=False)


class Inbox:
    """Event queue in order of arrival. `take` is for the loop's thread, the rest for any."""

    def __init__(self) -> None:
        self._items: queue.SimpleQueue[Item] = queue.SimpleQueue()
        #: When a batch that begins with a new job was taken last, by the monotonic clock.
        self._arrived = -_PACE

    def put(self, event: ev.Event, stored: Stored | None = None) -> None:
        """Queue an event; `stored` is called in the loop's thread once its result is stored."""
        self._items.put(Item(event, stored))

    def put_and_wait(self, event: ev.Event, seconds: float) -> bool:
        """Queue an event and wait up to `seconds`; return whether its result is stored by then."""
        kept = threading.Event()
        self.put(event, kept.set)
        return kept.wait(seconds)

    def take(self, seconds: float) -> list[Item]:
        """Return the queued items, at most a batch; wait up to `seconds` while the inbox is empty.

        While jobs come one after the other, it waits for more of them; a single one never waits.
        """
        items: list[Item] = []
        try:
            items.append(self._items.get(timeout=seconds))
            if isinstance(items[0].event, ev.JobSubmitted):
                time.sleep(max(self._arrived + _PACE - time.monotonic(), 0.0))
                self._arrived = time.monotonic()
            while len(items) < BATCH:
                items.append(self._items.get_nowait())
        except queue.Empty:
            pass
        return items
