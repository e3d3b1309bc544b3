"""Small facts in the store, such as the framework's id or the day's spending: texts by key."""

from collections.abc import Callable, Mapping, Sequence

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from daemon.store.rows import events
from daemon.store.rows.access import StoreAccess
from daemon.store.rows.event_recorder import HistoryEvent
from daemon.store.rows.tables import facts, upsert


class Facts:
    """Reads and stores them. For any thread; StoreError."""

    def __init__(self, access: StoreAccess) -> None:
        self._access = access

    def get(self, key: str) -> str | None:
        """A fact that was put; None when it was not."""
        with self._access.read() as connection:
            return connection.scalar(sa.select(facts.c.value).where(facts.c.key == key))

    def put(self, key: str, value: str, happened: Sequence[HistoryEvent] = ()) -> None:
        """Store a fact, and the events that go with it."""
        save = self.saving({key: value})

        def work(connection: Connection) -> None:
            save(connection)
            events.add(connection, happened)

        self._access.write(work)

    def saving(self, known: Mapping[str, str]) -> Callable[[Connection], None]:
        """Return a function that stores these in a caller's transaction."""
        rows = [{"key": key, "value": value} for key, value in known.items()]
        return lambda connection: upsert(connection, facts, rows)
