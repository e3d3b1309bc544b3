"""One connection to the API: uvicorn's protocol, with limits on the requests of slow and large clients.

uvicorn waits for ever for a request's first byte and for its last, and buffers all data meanwhile.
"""

import asyncio
from typing import Any

from uvicorn import Config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle
from uvicorn.server import ServerState

from conf.schema import Http
from daemon.http.server.connections import Connections, Visit, refusal

#: Bytes that are parsed between two checks of the result.
_STEP = 16 * 1024
#: Bytes after the headers of one request, for any body and any chunks.
_LONGEST_REST = 8 * 2**20
#: Pieces of a body below so many bytes, of one request: each costs the event loop microseconds. Our clients
#: send larger ones.
_SMALL_PIECE, _MOST_SMALL = 256, 4096
#: Requests that may wait behind another on one connection; no client of ours sends a second one.
_MOST_WAITING = 16
#: Seconds in which an answer, or some of a long one, has to be taken, from when it began to wait for that.
_SLOWEST_READER = 60.0
#: Seconds from the last answer to the end of the connection.
_GOODBYE = 5.0


class Connection(HttpToolsProtocol):
    """Reads requests within limits."""

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        limits: Http,
        connections: Connections,
        visit: Visit,
    ) -> None:
        super().__init__(config, server_state, app_state)
        self._limits = limits
        self._all = connections
        self._visit = visit
        #: When the connection's present step began, by the event loop's clock.
        self._since = self.loop.time()
        #: Whether a request arrives, or the first one is awaited, whose headers are not complete yet.
        self._asking = True
        #: Bytes of the request that is arriving.
        self._received = self._header_bytes = 0
        #: Small pieces of its body.
        self._small = 0
        #: Whether its headers are complete.
        self._headed = False
        #: Whether the client was sent an answer that ends the connection; nothing of it is read any more.
        self._refused = False
        self._unsent_since: float | None = None

    # ---- asyncio

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn
        """See `asyncio.Protocol`."""
        super().connection_made(transport)
        self._visit.visitor = self
        self._since = self.loop.time()

    def resume_writing(self) -> None:
        """See `asyncio.Protocol`: some of a long answer was taken."""
        self._unsent_since = None
        super().resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        """See `asyncio.Protocol`."""
        self._all.leave(self._visit)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Parse, as long as it stays within the limits."""
        if self._refused:
            self._received += len(data)
            if self._received > _LONGEST_REST:
                self.drop()
            return
        for begin in range(0, len(data), _STEP):
            if self._over:
                return
            if not self._asking and not self._busy:
                self._ask()
            part = data[begin : begin + _STEP]
            self._received += len(part)
            super().data_received(part)
            if self._asking and self._received > self._limits.header_size + _STEP:
                self._too_large()
            elif self._received > self._limits.header_size + _LONGEST_REST:
                self._refuse(413, f"a request may have {_LONGEST_REST} bytes after its headers")

    # ---- httptools

    def on_message_begin(self) -> None:
        """A request begins."""
        super().on_message_begin()
        self._received = self._header_bytes = self._small = 0
        self._headed = False
        if not self._asking:
            self._ask()

    def on_url(self, url: bytes) -> None:
        """Take a piece of the target."""
        self._header_bytes += len(url)
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header; one after the body is left out, as proxies check and set those before it."""
        self._header_bytes += len(name) + len(value) + 4
        if not self._headed and self._header_bytes <= self._limits.header_size:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Let the request be served, unless it cannot be."""
        self._headed = True
        if self._refused:
            return
        if self._header_bytes > self._limits.header_size:
            self._too_large()
            return
        if self.parser.get_http_version() not in ("1.0", "1.1"):
            self._refuse(400, "this server speaks HTTP/1.1")
            return
        if len(self.pipeline) >= _MOST_WAITING:
            self.drop()
            return
        super().on_headers_complete()
        self._asking = False
        if self.parser.should_upgrade():
            self.cycle.keep_alive = False

    def on_body(self, body: bytes) -> None:
        """Take a piece of the body."""
        if self._refused:
            return
        super().on_body(body)
        self._small += len(body) < _SMALL_PIECE
        if self._small > _MOST_SMALL:
            self._refuse(413, f"a body may have {_MOST_SMALL} pieces below {_SMALL_PIECE} bytes")

    def on_message_complete(self) -> None:
        """The request is complete."""
        if not self._refused:
            super().on_message_complete()

    # ---- uvicorn

    def on_response_complete(self) -> None:
        """Wait for the next request; a client that still sends the body of the last one has its answer."""
        super().on_response_complete()
        if self.transport.is_closing() or self._busy:
            return
        self._since = self.loop.time()
        if self.cycle.more_body:
            self._end()

    def send_400_response(self, msg: str) -> None:
        """Answer data that is not HTTP."""
        self._refuse(400, msg)

    def _unsupported_upgrade_warning(self) -> None:
        """An upgrade that is not wanted is no event, and the request is answered without."""

    # ---- limits

    def idle_since(self) -> float | None:
        """See `connections.CountedConnection`."""
        arriving = self._busy and self.cycle.more_body
        return self._since if arriving or not self._busy else self._unsent_since

    def check(self, now: float) -> None:
        """See `connections.CountedConnection`."""
        waiting = self.transport.get_write_buffer_size() > 0
        self._unsent_since = (self._unsent_since or now) if waiting else None
        if self._unsent_since is not None and now - self._unsent_since > _SLOWEST_READER:
            self.drop()
        elif self._refused or self.transport.is_closing():
            if now - self._since > _GOODBYE and self._unsent_since is None:
                self.drop()
        elif not self._busy and self._asking and now - self._since > self._limits.header_timeout:
            self._refuse(
                408, f"no request arrived within {self._limits.header_timeout:g} s (http.header_timeout)"
            )

    def drop(self) -> None:
        """See `connections.CountedConnection`."""
        self._refused = True
        self.transport.abort()

    @property
    def _over(self) -> bool:
        """Whether nothing that comes is looked at any more."""
        return self._refused or self.transport.is_closing()

    @property
    def _busy(self) -> bool:
        """Whether a request is being answered."""
        cycle: RequestResponseCycle | None = self.cycle
        return cycle is not None and (not cycle.response_complete or bool(self.pipeline))

    def _ask(self) -> None:
        self._asking, self._since = True, self.loop.time()

    def _too_large(self) -> None:
        size = self._limits.header_size
        self._refuse(431, f"the target and headers of a request may have {size} bytes (http.header_size)")

    def _refuse(self, status: int, detail: str) -> None:
        """Answer for good, unless another answer is on its way."""
        if self._refused:
            return
        self._since = self.loop.time()
        if self._busy:
            self.drop()
            return
        self.transport.write(refusal(status, detail))
        self._end()

    def _end(self) -> None:
        """Send nothing more.

        Data that comes after that is read and dropped until the client has gone, for some seconds and
        bytes: closing with unread data would lose the answer.
        """
        self._refused = True
        if self.transport.can_write_eof():
            self.transport.write_eof()
        else:
            self.transport.close()
