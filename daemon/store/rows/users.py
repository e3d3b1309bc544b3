"""Users in the job store, with records of their tokens and the last use of these."""

from collections.abc import Callable, Mapping
from secrets import token_hex

import sqlalchemy as sa

from daemon.core.identity import UserRecord
from daemon.store.rows import tables
from daemon.store.rows.access import StoreAccess
from daemon.store.rows.record_tables import USERS
from daemon.store.rows.tables import facts, token_uses, upsert

#: A fact that is another one after each change, so that other daemons on the store notice.
_VERSION = "users"


class UserRows:
    """The users of a store. Every method may be called from any thread; all raise StoreError."""

    def __init__(self, access: StoreAccess) -> None:
        self._access = access

    def all(self) -> list[UserRecord]:
        """All users in order of their names; users with damaged rows are left out."""
        with self._access.read() as connection:
            return USERS.all(connection, self._access.damages)

    def version(self) -> str:
        """Another text after each change."""
        with self._access.read() as connection:
            return connection.scalar(sa.select(facts.c.value).where(facts.c.key == _VERSION)) or ""

    def change(
        self, name: str, change: Callable[[UserRecord | None], UserRecord | None]
    ) -> UserRecord | None:
        """Apply `change` to a user's record (None when missing); return the result, which is on disk then.

        An exception of `change` is passed on, and nothing is stored.
        """

        def work(connection: sa.Connection) -> UserRecord | None:
            query = sa.select(tables.users.c.record).where(tables.users.c.id == name).with_for_update()
            text = connection.scalar(query)
            found = change(None if text is None else USERS.look(self._access.damages, name, text))
            USERS.save(connection, {name: found})
            upsert(connection, facts, [{"key": _VERSION, "value": token_hex(8)}])
            return found

        return self._access.write(work)

    def uses(self) -> dict[str, str]:
        """The day (UTC, 2026-11-22) on which each token was used last, by its id."""
        with self._access.read() as connection:
            return {use.id: use.day for use in connection.execute(sa.select(token_uses))}

    def note_uses(self, days: Mapping[str, str]) -> None:
        """Store the days of tokens' last uses, by token id."""
        rows = [{"id": key, "day": day} for key, day in days.items()]
        self._access.write(lambda connection: upsert(connection, token_uses, rows))
