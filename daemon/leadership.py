"""Who of several daemons leads: elections on the store's lock, and by ZooKeeper.

An election is tried until it is won, watched as long as it holds, and given up. Whoever elects, the leader
also holds the store's lock, so that never two write. What a daemon does while it leads or waits is in
`candidate.py`.
"""

import contextlib
import logging
import threading
import time
from typing import Any, Protocol

from kazoo.client import KazooClient, KazooState
from kazoo.exceptions import KazooException
from kazoo.handlers.threading import KazooTimeoutError

from daemon.store import Store, StoreBusyError, StoreError

#: Seconds between two tries.
RETRY = 0.5
#: Seconds after which ZooKeeper takes a silent leader for gone. Its default tick allows 4 at least.
SESSION = 4.0

# ZooKeeper's absence is told by `state`; kazoo would tell it again and again.
logging.getLogger("kazoo").setLevel(logging.CRITICAL)


class Election(Protocol):
    """One way to find the leader. For one thread, but for `state`, which says in words how it goes."""

    state: str

    def won(self) -> bool:
        """Try to become the leader, for about `RETRY` seconds."""

    def lost(self, seconds: float) -> str:
        """Watch for so long, or until the lead is lost; why it is, empty while it holds."""

    def resign(self) -> None:
        """Let another one lead."""

    def close(self) -> None:
        """Let go of everything."""


class StoreElection:
    """Whoever has the store's lock leads."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.state = ""

    def won(self) -> bool:
        """Try to take the lock."""
        try:
            self._store.lock()
        except StoreBusyError:
            self.state = "another daemon leads"
        except StoreError as error:
            self.state = str(error)
        else:
            self.state = "leads"
            return True
        time.sleep(RETRY)
        return False

    def lost(self, seconds: float) -> str:
        """Watch the lock."""
        return self._store.lock_lost(seconds)

    def resign(self) -> None:
        """Give the lock up."""
        self._store.unlock()

    def close(self) -> None:
        """Give the lock up."""
        self.resign()


class ZooKeeperElection:
    """Whoever has ZooKeeper's lock and the store's leads; a connection in doubt is a lead that is lost."""

    def __init__(self, address: str, store: Store) -> None:
        """Elect under `host:port,.../path`; ZooKeeper may come later."""
        self._hosts, _, self._path = address.partition("/")
        self._on_store = StoreElection(store)
        self._session: _Session | None = None
        self.state = f"connecting to ZooKeeper at {self._hosts}"

    def won(self) -> bool:
        """Try to take both locks."""
        if self._session is not None and self._session.doubtful:
            self._end_session()
        if self._session is None:
            self._session = _Session(self._hosts, f"/{self._path}")
        locked = self._session.locked()
        if not locked:
            connected = self._session.connected
            self.state = (
                "another daemon leads" if connected else f"ZooKeeper at {self._hosts} does not answer"
            )
            return False
        won = self._on_store.won()
        self.state = self._on_store.state
        return won

    def lost(self, seconds: float) -> str:
        """Watch the session and the store's lock."""
        if self._session is None or self._session.doubtful:
            return f"the connection to ZooKeeper at {self._hosts} is in doubt"
        return self._on_store.lost(seconds)

    def resign(self) -> None:
        """Give both locks up."""
        self._on_store.resign()
        self._end_session()

    def close(self) -> None:
        """Give both locks up."""
        self.resign()

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
        """Whether the lock may have gone to another: nobody knows while there is no connection."""
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
