"""The `http_parser.http.HttpParser` that pymesos imports, as a thin adapter on httptools.

pymesos 0.3.15 depends on the package `http-parser`, whose C sources do not compile on Python 3.11. It uses
one class of it, to read the responses of a master; `install()` registers this adapter under the name pymesos
imports. pymesos itself reads records (RecordIO) and implements everything about Mesos.
"""

import sys
from types import ModuleType

import httptools

_PARSED = 0
_INVALID = 1


class HttpParser:
    """A parser of one HTTP response, fed piece by piece; the interface of `http_parser.http.HttpParser`.

    It must not have a public `errno`: pymesos takes a parser with one for the other parser of the package and
    imports that. An informational (1xx) response is passed over; the parser then reads on.
    """

    def __init__(self) -> None:
        self._parser = httptools.HttpResponseParser(self)
        self._headers: dict[str, str] = {}
        self._body: list[bytes] = []
        self._headers_complete = False
        self._message_complete = False
        self._error = _PARSED

    def execute(self, data: bytes, length: int) -> int:
        """Parse the first `length` bytes of `data`; return the parsed number: all, or 0 after an error.

        No bytes at all mean that the peer closed: that ends a body of unknown length.
        """
        if length == 0:
            self._message_complete |= self._headers_complete and not self._is_framed()
            return 0
        try:
            self._parser.feed_data(memoryview(data)[:length])
        except (httptools.HttpParserError, httptools.HttpParserUpgrade):
            self._error = _INVALID
            return 0
        return length

    def is_headers_complete(self) -> bool:
        """Whether the status line and all headers were read."""
        return self._headers_complete

    def is_message_complete(self) -> bool:
        """Whether the whole response was read."""
        return self._message_complete

    def is_chunked(self) -> bool:
        """Whether the body comes in chunks."""
        return "chunked" in self._header("transfer-encoding").lower()

    def is_partial_body(self) -> bool:
        """Whether there is body that `recv_body` has not handed out yet."""
        return bool(self._body)

    def get_status_code(self) -> int:
        """The status code, 0 before it was read."""
        return int(self._parser.get_status_code()) if self._headers_complete else 0

    def get_headers(self) -> dict[str, str]:
        """The headers; values of a repeated one are joined by a comma."""
        return dict(self._headers)

    def get_errno(self) -> int:
        """0 while everything parsed, another number after an error."""
        return self._error

    def recv_body(self) -> bytes:
        """The body read since the last call, which is forgotten here."""
        body = b"".join(self._body)
        self._body.clear()
        return body

    # Called by httptools.

    def on_message_begin(self) -> None:
        """Start a message; discard the rest of an informational message before it."""
        self._headers.clear()
        self._body.clear()
        self._headers_complete = self._message_complete = False

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take one header."""
        key, text = name.decode("latin-1"), value.decode("latin-1")
        self._headers[key] = f"{self._headers[key]}, {text}" if key in self._headers else text

    def on_headers_complete(self) -> None:
        """Note the end of the headers, unless the final response is still to come."""
        self._headers_complete = not 100 <= self._parser.get_status_code() < 200

    def on_body(self, body: bytes) -> None:
        """Take a piece of the body."""
        self._body.append(body)

    def on_message_complete(self) -> None:
        """Note the end of the response, unless it was an informational one."""
        self._message_complete = self._headers_complete

    def _is_framed(self) -> bool:
        return self.is_chunked() or bool(self._header("content-length"))

    def _header(self, name: str) -> str:
        return next((value for key, value in self._headers.items() if key.lower() == name), "")


def install() -> None:
    """Register this parser as `http_parser.http.HttpParser`; call it before the first import of pymesos."""
    package, module = ModuleType("http_parser"), ModuleType("http_parser.http")
    package.__path__ = []
    module.HttpParser = HttpParser  # type: ignore[attr-defined]  # a module made at run time has no declared names
    package.http = module  # type: ignore[attr-defined]  # likewise
    sys.modules["http_parser"] = package
    sys.modules["http_parser.http"] = module
