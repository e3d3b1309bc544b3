"""HTTP/1.1 as a master speaks it: requests in, answers out, RecordIO event streams, one record per chunk.

Paths are not routed here; the given handler is called in the order of a connection's requests.
"""

import asyncio
import gzip
import json
import uuid
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from email.utils import formatdate
from http import HTTPStatus
from typing import Any, cast
from urllib.parse import parse_qsl, unquote, urlsplit

import httptools

_LONGEST_REQUEST = 64 * 2**20  # chosen: far above any ACCEPT, small enough to stay harmless
_LONGEST_HEAD = 64 * 2**10  # chosen: target and headers; no client of a master comes near it
_LONGEST_FRAMING = 2**20  # chosen: lengths of chunks and trailers, beside a body
_LONGEST_BACKLOG = 256 * 2**20  # chosen: a client that leaves so much unread is cut off
#: Of strangers, such as the code of jobs on this machine: no bodies, so much that they leave unread, and so
#: many connections together; of more, the one that is open longest is cut.
_STRANGERS_BACKLOG, _STRANGERS = 64 * 2**10, 512
#: And one request on each connection, with so long a head: of thousands in one read, all would be answered
#: before anybody else's.
_STRANGERS_HEAD = 8 * 2**10


@dataclass(frozen=True, slots=True)
class Request:
    """One request; header names are in lower case."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: bytes
    connection: "MasterConnection"


@dataclass(frozen=True, slots=True)
class Response:
    """One whole answer."""

    status: int
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)


Handler = Callable[[Request], Response | None]
"""Answers a request; None when it opened an event stream instead."""

Admission = Callable[[str, Mapping[str, str]], bool]
"""Whether a caller is known by method and headers; a request of a stranger is handled without its body."""


def text_response(status: int, text: str, **headers: str) -> Response:
    """An answer of plain text."""
    kind = {"Content-Type": "text/plain; charset=utf-8"}
    return Response(
        status, text.encode("utf-8", "replace"), {k.replace("_", "-"): v for k, v in headers.items()} | kind
    )


def json_response(value: object, status: int = 200) -> Response:
    """An answer of JSON."""
    return Response(status, encode(value), {"Content-Type": "application/json"})


def encode(value: object) -> bytes:
    """Compact JSON."""
    return json.dumps(value, separators=(",", ":")).encode()


class EventStream:
    """The open answer to a SUBSCRIBE; its owner sends events and is notified once the client has gone."""

    def __init__(self, connection: "MasterConnection", identity: str) -> None:
        self.id = identity
        self.on_gone: Callable[[], None] | None = None
        self._connection: MasterConnection | None = connection

    def send(self, event: Mapping[str, Any]) -> None:
        """Write one event as one record in one chunk; does nothing after the end."""
        if self._connection is not None:
            data = encode(event)
            record = b"%d\n%s" % (len(data), data)
            self._connection.write(b"%x\r\n%s\r\n" % (len(record), record))

    def end(self) -> None:
        """End the body properly; the connection stays open unless the request asked to close it."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.write(b"0\r\n\r\n")
            connection.stream_ended()

    def cut(self) -> None:
        """Break the connection in the middle of the body."""
        if self._connection is not None:
            self._connection.abort()

    def lost(self) -> None:
        """Record that the connection has gone, and notify the owner."""
        if self._connection is not None:
            self._connection = None
            if self.on_gone is not None:
                self.on_gone()


class MasterConnection(asyncio.Protocol):
    """One client connection: parses requests, answers them one after the other.

    `connections` are all that are open, `strangers` those of them without a request of a known caller, the
    oldest first.
    """

    def __init__(
        self,
        handler: Handler,
        admission: Admission,
        connections: set["MasterConnection"],
        strangers: dict["MasterConnection", None],
    ) -> None:
        self._handler = handler
        self._admission = admission
        self._connections = connections
        self._strangers = strangers
        #: Whether the caller of the present request is known.
        self._known = False
        self._parser = httptools.HttpRequestParser(self)
        self._transport: asyncio.Transport | None = None
        #: Requests that came while a stream is open on this connection; answered after its end.
        self._waiting: deque[tuple[Request, bool]] = deque()
        #: The open event stream, if any.
        self._stream: EventStream | None = None
        self._close_after_stream = False
        self._url = b""
        self._headers: dict[str, str] = {}
        self._body = bytearray()
        self._in_head = True
        #: Of the head, or since its end without the body.
        self._bytes = 0

    # asyncio

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Remember the transport."""
        self._transport = cast(asyncio.Transport, transport)
        self._connections.add(self)
        self._strangers[self] = None
        if len(self._strangers) > _STRANGERS:
            next(iter(self._strangers)).abort()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 (asyncio's signature)
        """Notify the open stream."""
        self._connections.discard(self)
        self._strangers.pop(self, None)
        self._transport = None
        stream, self._stream = self._stream, None
        if stream is not None:
            stream.lost()

    def data_received(self, data: bytes) -> None:
        """Parse; garbage ends the connection, and so does a head without end.

        What a stranger sends behind its request is dropped.
        """
        if self in self._strangers:
            first = max(1, _STRANGERS_HEAD - self._bytes)
            self._feed(data[:first])
            if self in self._strangers and self._in_head and self._bytes >= _STRANGERS_HEAD:
                self._answer(text_response(431, f"headers longer than {_STRANGERS_HEAD} bytes"), keep=False)
            data = data[first:]
        if data:
            self._feed(data)

    def _feed(self, data: bytes) -> None:
        if self._transport is None or self._transport.is_closing():
            return
        self._bytes += len(data)
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade, UnicodeDecodeError):
            if self._transport.is_closing():  # one behind a stranger's
                return
            self._answer(text_response(400, "Failed to decode the request"), keep=False)
        longest = _LONGEST_HEAD if self._in_head else _LONGEST_FRAMING
        if self._bytes > longest:
            self._answer(text_response(431, f"headers longer than {longest} bytes"), keep=False)
        if len(self._body) > _LONGEST_REQUEST:
            self._answer(text_response(413, f"request longer than {_LONGEST_REQUEST} bytes"), keep=False)

    # httptools

    def on_message_begin(self) -> None:
        """Start a request; one behind a stranger's is not read, which ends the parser."""
        if self._transport is None or self._transport.is_closing():
            raise ValueError("no further request is read")
        self._url, self._headers, self._body, self._in_head = b"", {}, bytearray(), True

    def on_url(self, url: bytes) -> None:
        """Take a piece of the target."""
        self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take one header; those of one name are joined, so that a second Host or Origin hides nothing.

        Trailers, behind the body, are left out.
        """
        if not self._in_head:
            return
        key, text = name.decode("latin-1").lower(), value.decode("latin-1")
        self._headers[key] = f"{self._headers[key]}, {text}" if key in self._headers else text

    def on_headers_complete(self) -> None:
        """Note that the body begins."""
        self._in_head, self._bytes = False, 0
        self._known = self._admission(self._parser.get_method().decode("latin-1"), self._headers)
        if self._known:
            self._strangers.pop(self, None)

    def on_body(self, body: bytes) -> None:
        """Take a piece of a known caller's body."""
        self._bytes -= len(body)
        if self._known:
            self._body += body

    def on_message_complete(self) -> None:
        """Queue the request, and answer it unless a stream is open; of strangers, the first one alone."""
        if self._transport is None or self._transport.is_closing():
            return
        target = urlsplit(self._url.decode("latin-1"))
        request = Request(
            method=self._parser.get_method().decode("latin-1"),
            path=unquote(target.path),
            query=dict(parse_qsl(target.query)),
            headers=self._headers,
            body=bytes(self._body),
            connection=self,
        )
        self._body, self._in_head, self._bytes = bytearray(), True, 0
        keep = self._parser.should_keep_alive() and self not in self._strangers
        self._waiting.append((request, keep))
        self._serve_waiting()

    # used by handlers and streams

    def open_stream(self, *, close_after: bool) -> EventStream:
        """Answer the present request with the head of an event stream."""
        stream = EventStream(self, str(uuid.uuid4()))
        self._stream, self._close_after_stream = stream, close_after
        head = {
            "Transfer-Encoding": "chunked",
            "Mesos-Stream-Id": stream.id,
            "Content-Type": "application/json",
        }
        self.write(_head(200, head))
        return stream

    def stream_ended(self) -> None:
        """Go on with requests that waited behind the stream, or close."""
        self._stream = None
        if self._close_after_stream:
            self._close()
        else:
            self._serve_waiting()

    def write(self, data: bytes) -> None:
        """Write, and cut off a client that does not read."""
        if self._transport is None or self._transport.is_closing():
            return
        self._transport.write(data)
        longest = _STRANGERS_BACKLOG if self in self._strangers else _LONGEST_BACKLOG
        if self._transport.get_write_buffer_size() > longest:
            self.abort()

    def abort(self) -> None:
        """Break the connection and discard the buffered output."""
        if self._transport is not None:
            self._transport.abort()

    def _close(self) -> None:
        if self._transport is not None:
            self._transport.close()

    def _serve_waiting(self) -> None:
        while self._waiting and self._stream is None and self._transport is not None:
            request, keep = self._waiting.popleft()
            response = self._handler(request)
            if response is not None:
                self._answer(_compressed(request, response), keep=keep, head_only=request.method == "HEAD")

    def _answer(self, response: Response, *, keep: bool, head_only: bool = False) -> None:
        headers = response.headers | {"Content-Length": str(len(response.body))}
        self.write(_head(response.status, headers) + (b"" if head_only else response.body))
        if not keep:
            self._close()


def _head(status: int, headers: dict[str, str]) -> bytes:
    lines = [f"HTTP/1.1 {status} {HTTPStatus(status).phrase}", f"Date: {formatdate(usegmt=True)}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


def _compressed(request: Request, response: Response) -> Response:
    """Compress JSON of more than a packet for a client that takes gzip, as a master does."""
    takes = "gzip" in request.headers.get("accept-encoding", "")
    if not takes or len(response.body) < 1024 or response.status != 200:
        return response
    body = gzip.compress(response.body, compresslevel=1)
    return Response(response.status, body, {"Content-Encoding": "gzip"} | response.headers)
