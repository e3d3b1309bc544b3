"""Leader election among several daemons: by a file's lock, by a lease in the store, and by ZooKeeper.

A daemon tries an election until it wins, watches it while it holds, and resigns. With any of them, the leader
begins a term in the store (`terms.py`), so that never two write. `leader_or_standby.py` runs a leading or
waiting daemon.
"""

import contextlib
import logging
import threading
import time
from typing import Any, Protocol

import structlog
from kazoo.client import KazooClient, KazooState
from kazoo.exceptions import KazooException
from kazoo.handlers.threading import KazooTimeoutError

from conf.schema import Leader
from daemon.store.job_store import Store
from daemon.store.rows.database import StoreBusyError, StoreError, StoreStuckError
from daemon.store.rows.terms import Term

log = structlog.get_logger("leader")

#: Seconds between two tries.
RETRY = 0.5
#: Seconds after which ZooKeeper takes a silent leader for gone. Its default tick allows 4 at least.
SESSION = 4.0

# `state` reports ZooKeeper's absence; kazoo would log it again and again.
logging.getLogger("kazoo").setLevel(logging.CRITICAL)


class Election(Protocol):
    """One way to find the leader. For one thread, but for `state`, which says in words how it goes."""

    state: str

    def won(self, url: str) -> Term | None:
        """Try to become the leader, for about `RETRY` seconds; None while another one may be."""

    def lost(self, seconds: float) -> str:
        """Watch for so long, or until the lead is lost; why it is, empty while nothing speaks against it."""

    def resign(self) -> None:
        """Give up the lead."""


def election_on(store: Store, config: Leader) -> Election:
    """Make the election for this store; StoreBusyError when this daemon could never lead."""
    if config.zookeeper:
        store.database.lock(shared=True)
        return ZooKeeperElection(config.zookeeper, store, config.lease)
    if store.database.shared:
        return LeaseElection(store, config.lease)
    store.database.lock()
    return FileElection(store)


class _StoreElection:
    """Election by a term of the store: its holder leads."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._term: Term | None = None
        self.state = ""

    def lost(self, seconds: float) -> str:
        """Wait; the lead is never lost here, as the store rejects writes after the term's end.

        Until then the daemon does nothing without the store.
        """
        time.sleep(seconds)
        return ""

    def resign(self) -> None:
        """End the term."""
        term, self._term = self._term, None
        if term is not None:
            term.end()


class FileElection(_StoreElection):
    """Election by a lock on the store's file, which cannot be taken from a living process."""

    def won(self, url: str) -> Term | None:
        """Try to take the lock."""
        try:
            self._store.database.lock()
            self._term = self._store.terms.begin(url)
        except StoreBusyError:
            self.state = "another daemon leads"
        except StoreError as error:
            self.state = str(error)
        else:
            self.state = "leads"
            return self._term
        time.sleep(RETRY)
        return None

    def resign(self) -> None:
        """End the term and give the lock up."""
        super().resign()
        self._store.database.unlock()


class LeaseElection(_StoreElection):
    """Election by the lease in the store, for as long as the leader's loop renews it."""

    def __init__(self, store: Store, seconds: float) -> None:
        """With leases of so many seconds."""
        super().__init__(store)
        self._seconds = seconds
        self._vigil = store.terms.watch()

    @property
    def lapsed(self) -> bool:
        """Whether the won term was not renewed in time."""
        return self._term is not None and not self._term.holds

    def won(self, url: str) -> Term | None:
        """Begin a term, if no other one holds."""
        self.state = "another daemon leads"
        try:
            if (over := self._vigil.over()) is not None:
                self._term = self._store.terms.begin(url, self._seconds, over)
                self.state = "leads"
                return self._term
        except StoreBusyError:
            pass  # another process was quicker
        except StoreStuckError as error:
            log.warning("the previous leader blocks the store, and is ended", why=str(error))
            self._clear()
        except StoreError as error:
            self.state = str(error)
        time.sleep(RETRY)
        return None

    def look(self) -> None:
        """Observe the lease, so that its expiry is known by the time of our turn."""
        with contextlib.suppress(StoreError):
            self._vigil.over()

    def _clear(self) -> None:
        try:
            self._vigil.clear()
        except (StoreError, OSError) as error:
            self.state = f"the leader is gone, but blocks the store: {error}"


class ZooKeeperElection:
    """Election by ZooKeeper's lock together with the store's lease.

    A connection in doubt or an expired lease means that the lead is lost: where the loop hangs, others must
    get the lock, which ZooKeeper would not take from a living process.
    """

    def __init__(self, address: str, store: Store, seconds: float) -> None:
        """Elect under `host:port,.../path`; ZooKeeper may come later."""
        self._hosts, _, self._path = address.partition("/")
        self._lease = LeaseElection(store, seconds)
        self._session: _Session | None = None
        self.state = f"connecting to ZooKeeper at {self._hosts}"

    def won(self, url: str) -> Term | None:
        """Try to take both."""
        if self._session is not None and self._session.doubtful:
            self._end_session()
        if self._session is None:
            self._session = _Session(self._hosts, f"/{self._path}")
        self._lease.look()
        locked = self._session.locked()
        if not locked:
            connected = self._session.connected
            self.state = (
                "another daemon leads" if connected else f"ZooKeeper at {self._hosts} does not answer"
            )
            return None
        term = self._lease.won(url)
        self.state = self._lease.state
        return term

    def lost(self, seconds: float) -> str:
        """Watch the session and the lease."""
        if self._session is None or self._session.doubtful:
            return f"the connection to ZooKeeper at {self._hosts} is in doubt"
        if self._lease.lapsed:
            self._end_session()
            return "the lease was not renewed: the scheduling loop hangs, or the store does"
        return self._lease.lost(seconds)

    def resign(self) -> None:
        """Give up the lock and the lease."""
        self._lease.resign()
        self._end_session()

    def _end_session(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            session.close()


class _Session:
    """One session with ZooKeeper and its lock; never mended, since with the session goes the lock."""

    def __init__(self, hosts: str, path: str) -> None:
        self._doubt = threading.Event()
        self._client = KazooClient(hosts, timeout=SESSION)
        self._client.add_listener(self._changed)
        self._lock: Any = self._client.Lock(path)
        self._client.start_async()

    @property
    def connected(self) -> bool:
        return bool(self._client.connected)

    @property
    def doubtful(self) -> bool:
        """Whether another daemon may have the lock: unknown without a connection."""
        return self._doubt.is_set()

    def locked(self) -> bool:
        """Try to take the lock, for about `RETRY` seconds; whether this session has it."""
        if not self.connected:
            time.sleep(RETRY)
            return False
        with contextlib.suppress(KazooException, KazooTimeoutError):
            return bool(self._lock.is_acquired or self._lock.acquire(timeout=RETRY)) and not self.doubtful
        return False

    def close(self) -> None:
        with contextlib.suppress(KazooException, KazooTimeoutError):
            self._client.stop()
            self._client.close()

    def _changed(self, state: str) -> None:
        if state != KazooState.CONNECTED:
            self._doubt.set()
