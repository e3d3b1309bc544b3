"""Small facts in the store, such as the framework's id or the day's spending: texts by key."""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import sqlalchemy as sa
import structlog
from sqlalchemy.engine import Connection

from daemon.store.rows import events
from daemon.store.rows.access import StoreAccess
from daemon.store.rows.event_recorder import HistoryEvent
from daemon.store.rows.tables import facts, upsert

log = structlog.get_logger("store")

#: Facts that are JSON objects, and without which a daemon can go on.
OBJECTS = ("clock", "policy", "shadow", "queues", "webhooks", "provider")


class Facts:
    """Reads and stores them. For any thread; StoreError."""

    def __init__(self, access: StoreAccess) -> None:
        self._access = access

    def get(self, key: str) -> str | None:
        """A fact that was put; None when it was not."""
        with self._access.read() as connection:
            return connection.scalar(sa.select(facts.c.value).where(facts.c.key == key))

    def values(self, key: str) -> dict[str, Any]:
        """A fact that is a JSON object; empty when it was not put, or when it cannot be read any more."""
        return fact_values(key, self.get(key))

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


def fact_values(key: str, text: str | None) -> dict[str, Any]:
    """The JSON object in a fact's text; empty when there is none, or when it cannot be read any more.

    A disk may have changed it: the daemon goes on without it, as with other rows that cannot be read.
    """
    try:
        return decoded(text)
    except ValueError as error:
        log.error("a fact of the job store cannot be read and is forgotten", fact=key, why=str(error))
        return {}


def decoded(text: str | None) -> dict[str, Any]:
    """The JSON object in a fact's text; ValueError when it is none."""
    try:
        found = json.loads(text or "{}")
    except RecursionError as error:
        raise ValueError("nested too deeply") from error
    if not isinstance(found, dict):
        raise ValueError("no JSON object")
    return found
