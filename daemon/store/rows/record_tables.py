"""Tables of the job store with one sealed record by id each, which a daemon loads at its start.

Rows of jobs and tasks have more columns: see `tables.py`; so have leases, which are in `leases.py`.
"""

import json
from collections.abc import Mapping
from typing import Any, Generic, TypeVar

import sqlalchemy as sa
from pydantic import TypeAdapter, ValidationError
from sqlalchemy.engine import Connection

from daemon.core.identity import UserRecord
from daemon.store.rows import checksummed, tables
from daemon.store.rows.checksummed import UnreadableRowError
from daemon.store.rows.damaged_rows import Damage, Damages, keep
from daemon.store.rows.tables import upsert
from environment.model.messages.snapshot import PoolSetback, ReservedJob
from environment.model.messages.vm_accounts import Account

Kept = TypeVar("Kept")


class SealedRows(Generic[Kept]):
    """The records of one table."""

    def __init__(self, table: sa.Table, kind: type[Kept]) -> None:
        self.table = table
        self._adapter: TypeAdapter[Kept] = TypeAdapter(kind)

    def save(self, connection: Connection, changed: Mapping[str, Kept | None]) -> None:
        """Store these records by id; None deletes one."""
        rows = [
            {"id": key, "record": self.sealed(record)}
            for key, record in changed.items()
            if record is not None
        ]
        upsert(connection, self.table, rows)
        if gone := [key for key, record in changed.items() if record is None]:
            connection.execute(sa.delete(self.table).where(self.table.c.id.in_(gone)))

    def sealed(self, record: Kept) -> str:
        """The text of a record, as `read` takes it."""
        return checksummed.seal(json.dumps(self._adapter.dump_python(record), separators=(",", ":")))

    def read(self, text: str) -> Kept:
        """The record that `save` wrote; UnreadableRowError."""
        try:
            return checksummed.unseal(self._adapter.validate_python, text)
        except ValidationError as error:
            raise UnreadableRowError(str(error)) from error

    def look(self, damages: Damages, key: str, text: Any) -> Kept | None:
        """Record of a row; None, and a note of the damage, when it cannot be read."""
        return damages.read(self.table.name, key, None, self.read, text)

    def all(
        self, connection: Connection, damages: Damages, *where: sa.ColumnElement[bool], order: str = "id"
    ) -> list[Kept]:
        """All records (`where` these hold) in order of a column and their ids, but for damaged ones."""
        found = self._select(*where).order_by(self.table.c[order], self.table.c.id)
        records = (self.look(damages, key, text) for key, text in connection.execute(found).all())
        return [record for record in records if record is not None]

    def put_aside(
        self, connection: Connection, at: float, *where: sa.ColumnElement[bool]
    ) -> tuple[Damage, ...]:
        """Put damaged rows (`where` these hold) aside; return the damage."""
        damages = Damages()
        for key, text in connection.execute(self._select(*where)).all():
            if self.look(damages, key, text) is None:
                keep(connection, damages.all()[-1], text, at)
                connection.execute(sa.delete(self.table).where(self.table.c.id == key))
        return damages.all()

    def _select(self, *where: sa.ColumnElement[bool]) -> sa.Select[Any]:
        return sa.select(self.table.c.id, self.table.c.record).where(*where)


#: The VMs that are paid for; one that cannot be read is paid for from when its VM is seen again.
ACCOUNTS = SealedRows(tables.accounts, Account)
#: Resources reserved on VMs for jobs that wait for others to boot, by job; without it they are decided again.
RESERVATIONS = SealedRows(tables.reservations, ReservedJob)
#: For how long pools are left alone that refused, by pool.
POOL_SETBACKS = SealedRows(tables.pool_setbacks, PoolSetback)
#: Users by name; a user whose row cannot be read is not admitted.
USERS = SealedRows(tables.users, UserRecord)
#: All of them.
SEALED: tuple[SealedRows[Any], ...] = (ACCOUNTS, RESERVATIONS, POOL_SETBACKS, USERS)
