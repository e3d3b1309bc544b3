"""A receiver of webhooks, or of traces, that answers as a test says, over real HTTP."""

import json
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from queue import SimpleQueue
from typing import Any

import pytest

from daemon.notifications import event_sender, notification_service
from tests.waiting import PATIENCE


@dataclass
class Receiver:
    """Requests in order of arrival; `answers` reply to the first ones, `judge` has the status of others."""

    url: str
    answers: list[Callable[[BaseHTTPRequestHandler], None]] = field(default_factory=list)
    #: Requests as they come: headers, with the path under `:path`; body.
    came: "SimpleQueue[tuple[dict[str, str], bytes]]" = field(default_factory=SimpleQueue)
    #: The status of an answer to a body.
    judge: Callable[[bytes], int] = lambda _: 204
    #: Set at the end: those that hang do no more.
    over: threading.Event = field(default_factory=threading.Event)

    def next(self) -> dict[str, Any]:
        """The body of the next request."""
        found: dict[str, Any] = json.loads(self.raw()[1])
        return found

    def raw(self) -> tuple[dict[str, str], bytes]:
        """The next request."""
        return self.came.get(timeout=PATIENCE)

    def take(self, number: int) -> list[str]:
        """The messages of so many."""
        return [self.next()["message"] for _ in range(number)]

    def hang(self, _: BaseHTTPRequestHandler) -> None:
        """Do not answer."""
        self.over.wait(PATIENCE)

    def babble(self, handler: BaseHTTPRequestHandler) -> None:
        """Take it, and then say more and more."""
        handler.send_response(200)
        handler.end_headers()
        while not self.over.is_set():
            handler.wfile.write(b"x" * 65536)

    def mumble(self, handler: BaseHTTPRequestHandler) -> None:
        """Begin to answer, and never come to an end of that."""
        handler.wfile.write(b"HTTP/1.1 200 OK\r\n")
        while not self.over.wait(0.02):
            handler.wfile.write(b"X: y\r\n")
            handler.wfile.flush()


def look_often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make senders check for new events at once instead of twice a second."""
    for module in (notification_service, event_sender):
        monkeypatch.setattr(module, "_LOOK", 0.01)


def until(holds: Callable[[], bool]) -> None:
    """Wait until it holds."""
    end = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.01)


def status(code: int, said: bytes = b"", **headers: str) -> Callable[[BaseHTTPRequestHandler], None]:
    """An answer with that status, body and headers; `_` in a header's name is a dash."""

    def answer(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(code)
        for name, value in {"Content_Length": str(len(said)), **headers}.items():
            handler.send_header(name.replace("_", "-"), value)
        handler.end_headers()
        handler.wfile.write(said)

    return answer


@contextmanager
def receiving(answers: Sequence[Callable[[BaseHTTPRequestHandler], None]] = ()) -> Iterator[Receiver]:
    """A receiver at an address of its own."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            answer = receiver.answers.pop(0) if receiver.answers else status(receiver.judge(body))
            receiver.came.put(({**self.headers, ":path": self.path}, body))
            try:
                answer(self)
            except OSError:
                self.close_connection = True

        def do_GET(self) -> None:
            receiver.came.put(({}, b'{"message": "GET, as after a redirect"}'))

        def log_message(self, *_: Any) -> None:
            """Nothing."""

    class Server(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, *_: Any) -> None:
            """Ignore clients that have gone."""

    with Server(("127.0.0.1", 0), Handler) as server:
        receiver = Receiver(f"http://127.0.0.1:{server.server_address[1]}/hook/s3cret-path", [*answers])
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        try:
            yield receiver
        finally:
            receiver.over.set()
            server.shutdown()
            thread.join()
