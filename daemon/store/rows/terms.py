"""LeaderTerms of leadership: each has a number in the store and a lease that needs renewal.

The number fences: a leader's write first checks, in the same transaction, that no later term has begun.
The lease limits the time: a leader that does not renew it (frozen, hung or cut off) makes no more calls and
starts no more drivers, and soon another daemon may begin the next term.

No clocks are compared. The leader counts from the moment before it requested the lease, a standby from the
moment after it saw the lease: so the leader's time always ends first. Both count by CLOCK_BOOTTIME, which
goes on while a process is stopped or the machine sleeps.
"""

import contextlib
import json
import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from daemon.core.clock import boot_seconds
from daemon.store.rows.database import Database, DeposedError, StoreBusyError, StoreError, notes
from daemon.store.rows.tables import facts
from framework.host.process_tree import identity

#: Seconds that a daemon gets from the beginning of its term until its loop renews the lease.
START = 30.0
#: The share of a lease after which its holder does nothing any more, and the one after which it is renewed.
_SAFE, _RENEWED = 0.8, 0.2
#: How long PostgreSQL waits for other holders of the term's row; a frozen one would hold it for ever.
_PATIENCE = "SET LOCAL lock_timeout = '2s'"
_CURE = "restore a backup of it"


class Term:
    """One time that a daemon leads. `renew` and `end` are for the loop's thread, the rest for any."""

    def __init__(
        self,
        database: Database,
        number: int,
        lease: Mapping[str, Any] | None,
        asked_at: float,
        seconds: float,
    ) -> None:
        self.number = number
        self._database = database
        self._lease = lease
        self._seconds = seconds
        self._renew_at = asked_at
        self._holds_until = asked_at + START * _SAFE if lease else float("inf")

    @property
    def holds_until(self) -> float:
        """The `boot_seconds` from which on others may lead; for processes that act for us."""
        return self._holds_until

    @property
    def holds(self) -> bool:
        """Whether outside actions are safe: no other term can have begun."""
        return boot_seconds() < self._holds_until

    def renew(self) -> bool:
        """Go on leading; does something only when it is time to. Whether the lease was written.

        DeposedError when another daemon leads; StoreError when that is not known, and `holds` soon not true.
        """
        now = boot_seconds()
        if self._lease is None or now < self._renew_at:
            return False
        lease = {**self._lease, "beat": self._lease["beat"] + 1, "seconds": self._seconds}

        def work(connection: Connection) -> None:
            self.fence(connection)
            _put(connection, lease=_encode(lease))

        self._renew_at = now + self._seconds * _RENEWED  # also when it comes to nothing
        self._database.write(work, first=True)
        self._lease, self._holds_until = lease, now + self._seconds * _SAFE
        return True

    def fence(self, connection: Connection) -> None:
        """To be called in each transaction of this term that writes; DeposedError when it is over."""
        if _current(connection) != str(self.number):
            self._holds_until = float("-inf")
            raise DeposedError(f"another daemon leads on the job store {self._database.name} now")

    def end(self) -> None:
        """Lead no more; another may at once."""

        def work(connection: Connection) -> None:
            self.fence(connection)
            _put(connection, leader="", lease="")

        with contextlib.suppress(StoreError):
            self._database.write(work)
        self._holds_until = float("-inf")


class LeaderTerms:
    """Begins terms on a store, and watches those of other daemons. For any thread."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def begin(self, url: str, seconds: float | None = None, instead_of: str | None = None) -> Term:
        """Begin to lead, with an API at this URL: the former leader's writes fail from then on.

        `seconds` is the duration of the lease; without it, no other daemon can lead on this store, and no
        lease is needed. `instead_of` is the expired lease; StoreBusyError when the store now has another one.
        """
        lease: dict[str, Any] | None = None
        if seconds is not None:
            lease = {"holder": me(), "session": self._database.session, "beat": 0, "seconds": START}

        def work(connection: Connection) -> int:
            if connection.dialect.name == "postgresql":
                connection.exec_driver_sql(_PATIENCE)
            number = _number(connection.scalar(_TERM.with_for_update()), self._database) + 1
            if instead_of is not None and connection.scalar(_of("lease")) != instead_of:
                raise StoreBusyError(f"another daemon leads on the job store {self._database.name} now")
            _put(connection, term=str(number), leader=url, lease=_encode(lease and {**lease, "term": number}))
            notes(connection)["term"] = str(number)
            return number

        asked_at = boot_seconds()
        number = self._database.write(work)
        return Term(self._database, number, lease and {**lease, "term": number}, asked_at, seconds or 0.0)

    def watch(self) -> "LeaseWatch":
        """Watch over the leader's lease."""
        return LeaseWatch(self._database)

    def leader(self) -> str:
        """URL of the leading daemon, as last stored; empty when none is known. StoreError."""
        with self._database.read() as connection:
            return connection.scalar(_of("leader")) or ""


class LeaseWatch:
    """A standby daemon's view of the leader's lease. For one thread."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._seen = ""
        self._since = 0.0

    def over(self) -> str | None:
        """The expired lease that the next term may replace; None while it may still hold."""
        with self._database.read() as connection:
            lease = connection.scalar(_of("lease")) or ""
        now = boot_seconds()
        if lease != self._seen:
            self._seen, self._since = lease, now
        if not lease:
            return lease
        known = _decoded(lease, self._database)
        mine = known["session"] == self._database.session  # a term of ours whose end could not be written
        gone = mine or _is_gone(known["holder"])
        return lease if gone or now - self._since > known["seconds"] else None

    def clear(self) -> None:
        """Detach the frozen holder of the expired lease from the store: end its session or kill it."""
        known = _decoded(self._seen, self._database) if self._seen else {}
        if self._database.path is None and known:
            self._database.end_session(known["session"])
        elif known and _lives_here(known["holder"]):
            os.kill(known["holder"]["pid"], 9)


def refuse_if_led(database: Database) -> None:
    """Raise StoreBusyError when a daemon leads by a lease, or did so a moment ago."""
    if LeaseWatch(database).over() is None:
        raise StoreBusyError(f"a daemon works on the job store {database.name}; stop it first")


def prepare(connection: Connection) -> None:
    """Create missing rows of a store."""
    known = set(connection.scalars(sa.select(facts.c.key).where(facts.c.key.in_(_NOBODY))))
    for key in _NOBODY.keys() - known:
        connection.execute(sa.insert(facts).values(key=key, value=_NOBODY[key]))


def me() -> dict[str, Any]:
    """Identity of this process, unique across hosts."""
    return {**(identity(os.getpid()) or {}), "namespace": str(Path("/proc/self/ns/pid").readlink())}


def _lives_here(holder: Mapping[str, Any]) -> bool:
    here = me()
    if any(holder.get(key) != here[key] for key in ("boot", "namespace")):
        return False  # of another machine, or not to be seen from here
    return {**(identity(holder["pid"]) or {}), "namespace": here["namespace"]} == holder


def _is_gone(holder: Mapping[str, Any]) -> bool:
    """Whether it is certain that the process has ended: one of this machine that is not there."""
    here = me()
    return all(holder.get(key) == here[key] for key in ("boot", "namespace")) and not _lives_here(holder)


_NOBODY = {"term": "0", "leader": "", "lease": ""}


def _of(key: str) -> "sa.Select[Any]":
    return sa.select(facts.c.value).where(facts.c.key == key)


_TERM = _of("term")


def _current(connection: Connection) -> str | None:
    """Number of the latest term; read once per transaction for all its writers."""
    known = notes(connection)
    if "term" not in known:
        # Read so that no other term can begin before this transaction is over.
        known["term"] = connection.scalar(_TERM.with_for_update(read=True))
    number: str | None = known["term"]
    return number


def _number(term: str | None, database: Database) -> int:
    """The number of a stored term; StoreError for anything else."""
    if term is None or (term.isascii() and term.isdecimal()):
        return int(term or 0)
    raise StoreError(f"the job store {database.name} is damaged: the leader's term is {term[:40]!r}; {_CURE}")


def _decoded(lease: str, database: Database) -> Mapping[str, Any]:
    """A stored lease; StoreError for anything else."""
    try:
        known = json.loads(lease)
        if {"holder", "session", "seconds"} <= known.keys() and math.isfinite(known["seconds"]):
            return dict(known)
    except (ValueError, TypeError, AttributeError, RecursionError):
        pass
    raise StoreError(f"the job store {database.name} is damaged: the leader's lease cannot be read; {_CURE}")


def _put(connection: Connection, **values: str) -> None:
    for key, value in values.items():
        connection.execute(sa.update(facts).where(facts.c.key == key).values(value=value))


def _encode(lease: Mapping[str, Any] | None) -> str:
    return "" if lease is None else json.dumps(lease, sort_keys=True)
