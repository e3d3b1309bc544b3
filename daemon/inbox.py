"""The scheduling loop's inbox: events from any thread, taken out in batches by the one that schedules."""

import queue
import threading
from dataclasses import dataclass, field

from environment.model import events as ev
from framework.translate import Json

#: Events that are handled as one batch, with one write to the store.
BATCH = 1000


@dataclass(frozen=True, slots=True)
class Item:
    """An event in the inbox, with the status update that it acknowledges once it is stored."""

    event: ev.Event
    status: Json | None = field(default=None, repr=False)
    #: Set when what came of the event is stored.
    kept: threading.Event | None = field(default=None, repr=False)


class Inbox:
    """Keeps the order in which events came. `take` is for the loop's thread, the rest for any."""

    def __init__(self) -> None:
        self._items: queue.SimpleQueue[Item] = queue.SimpleQueue()

    def put(self, event: ev.Event, status: Json | None = None) -> None:
        """Have an event handled, and acknowledge the status update that told of it."""
        self._items.put(Item(event, status))

    def put_and_wait(self, event: ev.Event, seconds: float) -> bool:
        """Have an event handled, and wait so long for it; whether what came of it is stored by then."""
        kept = threading.Event()
        self._items.put(Item(event, kept=kept))
        return kept.wait(seconds)

    def take(self, seconds: float) -> list[Item]:
        """What is there, at most a batch; an empty inbox is waited for so long."""
        items: list[Item] = []
        try:
            items.append(self._items.get(timeout=seconds))
            while len(items) < BATCH:
                items.append(self._items.get_nowait())
        except queue.Empty:
            pass
        return items
