"""Connections to the API and their limits: accepts them, counts them by address, makes room.

asyncio's own accepting knows no limits, and with no file descriptor left it tries again as often as its
backlog is long, with a line in the log each time. `http_protocol.py` reads the requests of a connection.
"""

import asyncio
import errno
import json
import resource
import socket
import ssl
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from typing import Protocol

import structlog

from conf.schema import Http
from framework.host.request_guard import is_loopback

log = structlog.get_logger("api")

#: Connections accepted in one turn of the event loop, so that open ones are served in between.
_AT_ONCE = 32
#: Seconds without accepting, after which there may be file descriptors again.
_PAUSE = 0.5
#: File descriptors that are not for connections: the store, logs, Mesos, drivers that are started.
_OTHER_FILES = 128
#: File descriptors that are enough for anything here, where the system sets no limit.
_ENOUGH_FILES = 1 << 20
_NO_FILES = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})


class CountedConnection(Protocol):
    """A connection, as far as it is counted."""

    def idle_since(self) -> float | None:
        """Since when (the event loop's clock) it waits for its client to ask or to read; None if for none."""

    def check(self, now: float) -> None:
        """End it if it takes too long over anything."""

    def drop(self) -> None:
        """Cut it off."""


@dataclass(slots=True, eq=False)
class Visit:
    """One accepted connection; while TLS is agreed on there is nobody to talk to yet."""

    address: str
    since: float
    visitor: CountedConnection | None = None
    greeting: "asyncio.Task[None] | None" = None
    taken: bool = False  # the event loop will close its socket

    def idle_since(self) -> float | None:
        """See `CountedConnection`."""
        return self.since if self.visitor is None else self.visitor.idle_since()

    def drop(self) -> None:
        """See `CountedConnection`."""
        if self.visitor is not None:
            self.visitor.drop()
        elif self.greeting is not None:
            self.greeting.cancel()


class Connections:
    """All that are connected, within limits."""

    def __init__(self, limits: Http) -> None:
        soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        files = _ENOUGH_FILES if soft == resource.RLIM_INFINITY else soft
        self.most = max(1, min(limits.connections, files - _OTHER_FILES))
        if self.most < limits.connections:
            log.warning(
                "the limit of open files allows fewer connections", files=files, connections=self.most
            )
        self._allowed = self.most
        self._of_one_address = limits.connections_per_address
        self._visits: set[Visit] = set()
        self._by_address: Counter[str] = Counter()

    def __len__(self) -> int:
        return len(self._visits)

    def __iter__(self) -> Iterator[Visit]:
        return iter(list(self._visits))

    def admit(self, address: str, now: float) -> Visit | tuple[int, str]:
        """Count a connection from an address, or return the status and the reason of its rejection.

        When all places are taken, the connection that has waited longest for its client has to go. On
        loopback everybody has the same address, whether users of this machine or those behind a proxy on it:
        there only that rule holds.
        """
        if self._by_address[address] >= self._of_one_address and not is_loopback(address):
            return (
                429,
                f"{address} has {self._by_address[address]} connections (http.connections_per_address)",
            )
        if len(self._visits) >= self._allowed and not self.make_room():
            return 503, f"{self._allowed} connections are open and busy (http.connections)"
        visit = Visit(address, now)
        self._visits.add(visit)
        self._by_address[address] += 1
        return visit

    def leave(self, visit: Visit) -> None:
        """Forget a connection that is over; twice is once."""
        if visit in self._visits:
            self._visits.discard(visit)
            self._by_address[visit.address] -= 1
            if not self._by_address[visit.address]:
                del self._by_address[visit.address]

    def make_room(self) -> bool:
        """Drop the one that asks or reads nothing longest; False when each of them is being answered."""
        idle = [(since, visit) for visit in self._visits if (since := visit.idle_since()) is not None]
        if not idle:
            return False
        _, visit = min(idle, key=lambda found: found[0])
        self.leave(visit)
        visit.drop()
        log.info("too many connections: the longest idle one was dropped", address=visit.address)
        return True

    def shrink(self) -> None:
        """Allow fewer than there are, for a while: there is nothing to serve them with."""
        self._allowed = max(1, len(self._visits) * 3 // 4)
        while len(self._visits) > self._allowed and self.make_room():
            pass

    def check(self, now: float) -> None:
        """End those that take too long; to be called now and then."""
        self._allowed = min(self.most, self._allowed + 1)
        for visit in self:
            if visit.visitor is not None:
                visit.visitor.check(now)


class Acceptor:
    """Takes connections from a listening socket; to be made within the event loop."""

    def __init__(
        self,
        listener: socket.socket,
        connections: Connections,
        protocol: Callable[[Visit], asyncio.Protocol],
        tls: Callable[[], ssl.SSLContext | None],
        patience: float,
    ) -> None:
        self._listener = listener
        self._connections = connections
        self._protocol = protocol
        self._tls = tls
        self._patience = patience
        self._loop = asyncio.get_running_loop()
        self._waiting: asyncio.TimerHandle | None = None
        self._greetings: set[asyncio.Task[None]] = set()
        listener.setblocking(False)
        self._loop.add_reader(listener.fileno(), self._accept)

    def close(self) -> None:
        """Accept no more."""
        if self._waiting is not None:
            self._waiting.cancel()
        if self._listener.fileno() >= 0:
            self._loop.remove_reader(self._listener.fileno())
        for greeting in self._greetings:
            greeting.cancel()

    async def wait_closed(self) -> None:
        """Nothing is left to wait for."""

    def _accept(self) -> None:
        for _ in range(_AT_ONCE):
            try:
                connection, address = self._listener.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                self._pause(error)
                return
            self._receive(connection, str(address[0]))

    def _pause(self, error: OSError) -> None:
        """Stop accepting for a while; the kernel queues connections up to the listener's backlog."""
        log.warning("cannot accept a connection", error=error.strerror, connections=len(self._connections))
        if error.errno in _NO_FILES:
            self._connections.shrink()
        self._loop.remove_reader(self._listener.fileno())
        self._waiting = self._loop.call_later(_PAUSE, self._resume)

    def _resume(self) -> None:
        self._loop.add_reader(self._listener.fileno(), self._accept)

    def _receive(self, connection: socket.socket, address: str) -> None:
        connection.setblocking(False)
        visit = self._connections.admit(address, self._loop.time())
        if isinstance(visit, Visit):
            visit.greeting = self._loop.create_task(self._greet(connection, visit))
            self._greetings.add(visit.greeting)
            visit.greeting.add_done_callback(partial(self._greeted, connection, visit))
            return
        status, why = visit
        log.warning("a connection was turned away", why=why)
        with connection:
            if self._tls() is None:
                _say(connection, refusal(status, why))

    async def _greet(self, connection: socket.socket, visit: Visit) -> None:
        def protocol() -> asyncio.Protocol:
            visit.taken = True
            return self._protocol(visit)

        context = self._tls()
        patience = self._patience if context else None
        try:
            await self._loop.connect_accepted_socket(
                protocol, connection, ssl=context, ssl_handshake_timeout=patience
            )
        except OSError as error:  # such as TLS errors
            log.debug("a connection was not established", address=visit.address, error=repr(error))

    def _greeted(self, connection: socket.socket, visit: Visit, greeting: "asyncio.Task[None]") -> None:
        self._greetings.discard(greeting)
        if not visit.taken:
            connection.close()
        if visit.visitor is None:
            self._connections.leave(visit)


def allow_many_files() -> None:
    """Raise this process' limit of open files to the most that it may have."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _ENOUGH_FILES if hard == resource.RLIM_INFINITY else hard
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def refusal(status: int, detail: str) -> bytes:
    """A whole answer to an unread request; the connection ends with it."""
    phrase = HTTPStatus(status).phrase
    problem = {"type": "about:blank", "title": phrase, "status": status, "detail": detail}
    body = json.dumps(problem).encode()
    head = (
        f"HTTP/1.1 {status} {phrase}\r\ncontent-type: application/problem+json\r\n"
        f"content-length: {len(body)}\r\nconnection: close\r\n"
    )
    again = "retry-after: 1\r\n" if status in (429, 503) else ""
    return f"{head}{again}\r\n".encode() + body


def _say(connection: socket.socket, answer: bytes) -> None:
    try:
        connection.send(answer, socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL)
        connection.shutdown(socket.SHUT_WR)
    except OSError:
        return  # it did not want to hear it
