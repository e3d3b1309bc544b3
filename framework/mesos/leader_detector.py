"""Detection of the leading master, as masters announce it in ZooKeeper, and notice of a change.

pymesos has a detector of its own, one for each connection to a master. It does not recover when ZooKeeper
was away at its start, and reports a new leader through the lock that a call to the old one may hold.
"""

import logging
import threading
from collections.abc import Callable
from typing import Any

import structlog
from kazoo.client import KazooClient
from kazoo.exceptions import KazooException, NoNodeError
from kazoo.handlers.threading import KazooTimeoutError

from conf.util.foreign_json import foreign_json

log = structlog.get_logger("mesos")

#: Seconds after which ZooKeeper is asked again, whether it reported a change or not.
_LOOK_AGAIN = 1.0
#: Seconds that ZooKeeper has to answer.
_PATIENCE = 5.0
#: How masters announce themselves; the lowest number leads. The bytes are MasterInfo as JSON.
_PREFIX = "json.info_"

# `state` reports ZooKeeper's absence; kazoo would log it again and again.
logging.getLogger("kazoo").setLevel(logging.CRITICAL)


def is_zookeeper(master: str) -> bool:
    """Whether a master is to be found through ZooKeeper."""
    return master.startswith(("zk://", "zoo://"))


class Detector:
    """Follows the leading master under `zk://[user:password@]host:port,.../path`, in a thread of its own.

    `leader` is `host:port`, or empty while none is announced. While ZooKeeper does not answer, it is the one
    that was announced last: it may well lead on.
    """

    def __init__(self, address: str, changed: Callable[[], None]) -> None:
        """`changed` is called, in the detector's thread, when `leader` has changed."""
        hosts, _, path = address.partition("://")[2].partition("/")
        credentials, _, self._hosts = hosts.rpartition("@")
        self._path = f"/{path}"
        self._changed = changed
        self._look = threading.Event()
        self._stopping = False
        self._client = KazooClient(
            self._hosts, timeout=10.0, auth_data=[("digest", credentials)] if credentials else None
        )
        self.leader = ""
        #: In words, why there is no leader.
        self.state = f"ZooKeeper at {self._hosts} has not answered yet"

    def start(self) -> None:
        """Begin to follow."""
        threading.Thread(target=self._run, name="mesos-detector", daemon=True).start()

    def stop(self) -> None:
        """Follow no more. Does not wait: ZooKeeper may hang."""
        self._stopping = True
        self._look.set()

    def _run(self) -> None:
        self._client.start_async()
        while not self._stopping:
            self._look.clear()
            try:
                self._see()
            except (KazooException, KazooTimeoutError, OSError) as error:
                why = f" ({type(error).__name__})" if self._client.connected else ""
                self.state = f"ZooKeeper at {self._hosts} does not answer{why}"
            except ValueError as error:
                self._tell("", f"the entry at {self._path} is not a Mesos master: {error}")
            self._look.wait(_LOOK_AGAIN)
        try:
            self._client.stop()
            self._client.close()
        except (KazooException, KazooTimeoutError, OSError) as error:
            log.debug("ZooKeeper", error=str(error))

    def _see(self) -> None:
        if not self._client.connected:
            raise KazooTimeoutError("not connected")
        nobody = f"no master is announced at {self._path} of ZooKeeper at {self._hosts}"
        try:
            children = self._client.get_children_async(self._path, watch=self._wake).get(timeout=_PATIENCE)
            names = sorted(name for name in children if name.startswith(_PREFIX))
            if not names:
                self._tell("", nobody)
                return
            data, _ = self._client.get_async(f"{self._path.rstrip('/')}/{names[0]}").get(timeout=_PATIENCE)
        except NoNodeError:
            # The path is not there yet, or the leader went in between; then the next look finds the next.
            self._tell("", nobody)
            return
        self._tell(_address(data), "")

    def _wake(self, _: Any) -> None:
        self._look.set()

    def _tell(self, leader: str, state: str) -> None:
        self.state = state
        if leader != self.leader:
            log.info("leading master", address=leader or "none", zookeeper=self._hosts)
            self.leader = leader
            self._changed()


def _address(data: bytes) -> str:
    """Read `host:port` out of MasterInfo as JSON; ValueError when it is not there."""
    try:
        address = foreign_json(data)["address"]
        host, port = address.get("ip") or address["hostname"], int(address["port"])
    except (KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(f"{data[:100]!r} has no address with ip and port") from error
    if not isinstance(host, str) or not 0 < port < 65536:
        raise ValueError(f"{data[:100]!r} has no address with ip and port")
    return f"{host}:{port}"
