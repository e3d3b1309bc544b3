"""The server in front of the API, over real sockets: limits of clients that only connect."""

import asyncio
import contextlib
import json
import resource
import socket
import subprocess
import sys
import threading
import time
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from structlog.testing import capture_logs

from conf.schema import Http
from daemon.http.server.connections import Connections, Visit, allow_many_files
from daemon.http.server.gate import Gate
from daemon.http.server.http_protocol import Connection
from daemon.http.server.uvicorn_server import make_server
from tests.daemon.auth.bare_entrance import bare_entrance
from tests.waiting import PATIENCE

#: So long may a test wait for what should come soon.
ASK = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"
POST = b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"


async def answer(scope: Any, receive: Any, send: Any) -> None:
    """Say how long the body was, or something large."""
    request = Request(scope, receive)
    if request.url.path == "/large":
        await Response(b"x" * (32 << 20))(scope, receive, send)
        return
    length = 0 if request.method == "GET" else len(await request.body())
    await PlainTextResponse(f"{length}")(scope, receive, send)


@contextlib.contextmanager
def served(limits: Http, app: Any = None) -> Iterator[tuple[str, int]]:
    """The server in a thread; its address."""
    app = app or Gate(answer, entrance=bare_entrance(), observe=lambda *_: None, most=200)
    with socket.create_server(("127.0.0.1", 0), backlog=512) as listener:
        address = listener.getsockname()
        server = make_server(app, listener, limits)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        try:
            yield address
        finally:
            server.should_exit = True
            thread.join()


def connect(address: tuple[str, int]) -> socket.socket:
    """A connection with a time-out for its operations."""
    return socket.create_connection(address, PATIENCE)


def talk(address: tuple[str, int], request: bytes) -> bytes:
    """Send a request on a connection of its own, and take all that comes."""
    with connect(address) as connection:
        with contextlib.suppress(OSError):
            connection.sendall(request)
        return rest(connection)


def rest(connection: socket.socket) -> bytes:
    """All that comes until the other side closes."""
    answer = b""
    with contextlib.suppress(ConnectionError):
        while part := connection.recv(65536):
            answer += part
    return answer


def status(answer: bytes) -> int:
    """The status of an answer."""
    return int(answer.split(b" ", 2)[1])


def asked(address: tuple[str, int]) -> int:
    """The status of an ordinary request."""
    return status(talk(address, ASK.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")))


def test_idle_connections_keep_nobody_out() -> None:
    """More connections than there may be, none of which asks for anything: others are answered."""
    with served(Http(connections=20)) as address, contextlib.ExitStack() as stack:
        idle = [stack.enter_context(connect(address)) for _ in range(60)]
        assert [asked(address) for _ in range(5)] == [200] * 5
        assert rest(idle[0]) == b""  # the first of them had to go
        idle[-1].sendall(ASK)
        assert status(idle[-1].recv(4096)) == 200


def test_half_a_request_is_no_reason_to_wait() -> None:
    """A client sending a header or body byte by byte counts as one without a request."""
    with served(Http(connections=10)) as address, contextlib.ExitStack() as stack:
        for begin in (b"GET / HT", b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\n{"):
            for _ in range(20):
                stack.enter_context(connect(address)).sendall(begin)
        assert [asked(address) for _ in range(5)] == [200] * 5


def test_connections_that_are_all_busy_are_a_503() -> None:
    """No connection with a request in progress is dropped for a new one."""
    entered, release = threading.Semaphore(0), threading.Event()

    async def slow(scope: Any, receive: Any, send: Any) -> None:
        entered.release()
        while not release.is_set():
            await asyncio.sleep(0.01)
        await answer(scope, receive, send)

    with served(Http(connections=2), slow) as address, contextlib.ExitStack() as stack:
        busy = [stack.enter_context(connect(address)) for _ in range(2)]
        for connection in busy:
            connection.sendall(ASK)
            assert entered.acquire(timeout=PATIENCE)
        refused = talk(address, b"")
        release.set()
        assert status(refused) == 503
        assert b"retry-after: 1" in refused
        assert "http.connections" in json.loads(refused.partition(b"\r\n\r\n")[2])["detail"]
        assert [status(connection.recv(4096)) for connection in busy] == [200, 200]


def test_one_address_has_only_so_many_connections() -> None:
    """Others have theirs; on loopback, where all have one address, there is no such limit."""
    connections = Connections(Http(connections=50, connections_per_address=3))
    first = [connections.admit("192.0.2.1", 0.0) for _ in range(3)]
    assert all(isinstance(visit, Visit) for visit in first)
    refused = connections.admit("192.0.2.1", 0.0)
    assert isinstance(refused, tuple)
    assert refused[0] == 429
    assert isinstance(connections.admit("192.0.2.2", 0.0), Visit)
    for address in ("127.0.0.1", "::1", "::ffff:127.0.0.1"):
        assert all(isinstance(connections.admit(address, 0.0), Visit) for _ in range(5))
    assert isinstance(first[0], Visit)
    connections.leave(first[0])
    connections.leave(first[0])
    assert isinstance(connections.admit("192.0.2.1", 0.0), Visit)
    assert isinstance(connections.admit("192.0.2.1", 0.0), tuple)


def test_an_endless_header_is_refused_and_takes_no_memory() -> None:
    """A header that never ends, and headers without end, get a 431 after some kilobytes."""
    begin = b"GET / HTTP/1.1\r\nHost: localhost\r\n"
    endless = [
        begin + b"X: " + b"a" * 40_000_000,
        begin + b"X: a\r\n" * 2_000_000,
        b"GET /" + b"a" * 40_000_000,
    ]
    with served(Http()) as address:
        assert asked(address) == 200
        tracemalloc.start()
        try:
            for request in endless:
                assert talk(address, request)[:12] in (b"HTTP/1.1 431", b""), request[:40]
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert peak < 4 << 20
        assert status(talk(address, begin + b"X: " + b"a" * 35_000 + b"\r\n\r\n")) == 431
        assert status(talk(address, begin + b"X: " + b"a" * 30_000 + b"\r\nConnection: close\r\n\r\n")) == 200


def test_trailers_count_as_what_they_are() -> None:
    """A chunk's headers and the text behind a body are bounded."""
    begin = POST + b"Transfer-Encoding: chunked\r\n\r\n"
    with served(Http()) as address:
        for request in (begin + b"0\r\nX: " + b"a" * 40_000_000, begin + b"1;" + b"a" * 40_000_000):
            answer = talk(address, request)
            assert answer == b"" or status(answer) in (400, 413)
        assert asked(address) == 200


async def names_of_headers(scope: Any, receive: Any, send: Any) -> None:
    """Name the request's headers, once all of it is there."""
    await Request(scope, receive).body()
    await asyncio.sleep(0)
    names = b" ".join(name for name, _ in scope["headers"])
    await PlainTextResponse(names)(scope, receive, send)


def test_what_follows_a_body_is_no_header() -> None:
    """A client behind a proxy could say so what the proxy removes or sets: its user, its role."""
    trailers = b"X-Role: admin\r\nAuthorization: Bearer x\r\nCookie: a=b\r\n\r\n"
    chunked = POST + b"Transfer-Encoding: chunked\r\n"
    with served(Http(), names_of_headers) as address:
        for before in (b"", ASK, ASK * 5):
            last = chunked + b"Connection: close\r\n\r\n2\r\n{}\r\n0\r\n" + trailers
            told = talk(address, before + last)
            assert told.count(b"HTTP/1.1 200") == before.count(b"GET") + 1
            assert b"transfer-encoding" in told
            assert b"x-role" not in told
            assert b"authorization" not in told
        told = talk(
            address, chunked + b"\r\n0\r\n" + trailers + ASK.replace(b"\r\n\r\n", b"\r\nX-Own: 1\r\n\r\n")
        )
        assert b"x-own" in told


def test_a_body_of_many_small_chunks_is_refused() -> None:
    """Before all of it came: each costs the event loop time; some are taken."""
    begin = POST + b"Connection: close\r\nTransfer-Encoding: chunked\r\n\r\n"
    with served(Http()) as address:
        assert status(talk(address, begin + b"1\r\n \r\n" * 3000 + b"2\r\n{}\r\n0\r\n\r\n")) == 200
        answer = talk(address, begin + b"1\r\n \r\n" * 5000 + b"0\r\n\r\n")
        assert answer == b"" or status(answer) == 413
        assert asked(address) == 200


def test_a_body_that_nobody_waits_for_ends_the_connection() -> None:
    """A GET is answered without its body; the connection ends, and the rest is not read for ever.

    Some of it is, or the answer would be lost to a client that sends all before it reads.
    """
    head = b"GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 7000000\r\n\r\n"
    with served(Http()) as address:
        for sent in (b"{", b"x" * 6_000_000):
            assert status(talk(address, head + sent)) == 200
        endless = head.replace(b"7000000", b"70000000") + b"x" * 60_000_000
        assert talk(address, endless).count(b"HTTP/1.1 ") <= 1
        assert asked(address) == 200


def test_a_request_that_does_not_come_ends_the_connection() -> None:
    """Without a byte, with half a header, and with half a second one."""
    with served(Http(header_timeout=0.2, idle_timeout=1)) as address:
        assert status(talk(address, b"")) == 408
        assert status(talk(address, b"GET / HTTP/1.1\r\nHo")) == 408
        both = talk(address, ASK + b"GET / HTTP/1.1\r\nHo")
        assert both.count(b"HTTP/1.1 ") == 2
        assert b"HTTP/1.1 408" in both
        answer = talk(address, ASK)  # and nothing after it
        assert answer.count(b"HTTP/1.1 ") == 1


def test_what_is_no_http_is_a_problem() -> None:
    """Old, wrong or ambiguous requests get a 400 with its reasons, as problem details."""
    wrong = [
        b"GET /\r\n\r\n",
        b"GET / HTTP/0.9\r\nHost: localhost\r\n\r\n",
        b"GET / HTTP/2.0\r\nHost: localhost\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\x00" * 50,
        b"GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: evil@127.0.0.1\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost/evil\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: localhost\r\nOrigin: http://localhost\r\nOrigin: http://a\r\n\r\n",
    ]
    with served(Http(idle_timeout=1)) as address:
        for request in wrong:
            answer = talk(address, request)
            assert status(answer) == 400, request
            assert b"application/problem+json" in answer, request
        assert status(talk(address, b"GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n")) == 421
        upgrade = ASK.replace(b"\r\n\r\n", b"\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n")
        assert status(talk(address, upgrade)) == 200


def test_many_requests_at_once_on_one_connection_are_bounded() -> None:
    """A few behind each other are answered; thousands cut the connection, not the server."""
    with served(Http(idle_timeout=1)) as address:
        assert talk(address, ASK * 5).count(b"HTTP/1.1 200") == 5
        assert talk(address, ASK * 5000).count(b"HTTP/1.1 200") < 5000
        assert asked(address) == 200


def test_bodies_that_are_held_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many large bodies that do not end get a 429 before they fill the memory; small ones go on."""
    monkeypatch.setattr("daemon.http.server.gate._MOST_BODIES", 3 << 20)
    head = POST + b"Content-Length: 1000000\r\n\r\n"
    with served(Http()) as address, contextlib.ExitStack() as stack:
        held = [stack.enter_context(connect(address)) for _ in range(4)]
        for connection in held:
            connection.sendall(head + b" " * 999_000)
        answers = []

        def wait(connection: socket.socket) -> None:
            answers.append(rest(connection))

        waiting = [threading.Thread(target=wait, args=(connection,)) for connection in held]
        for thread in waiting:
            thread.start()
        deadline = time.monotonic() + PATIENCE
        while not answers and time.monotonic() < deadline:
            time.sleep(0.01)
        assert answers
        assert status(answers[0]) == 429
        for connection in held:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        for thread in waiting:
            thread.join()
        whole = POST + b"Content-Length: 2\r\nConnection: close\r\n\r\n[]"
        assert status(talk(address, whole)) == 200


#: A server that is left with few file descriptors, from its first line of input to the second.
_SCARCE = """
import json, resource, socket, sys, threading, time
from tests.daemon.http.server.test_uvicorn_server import Http, answer, make_server
from daemon.core.logging import configure_logging
configure_logging("info", 1e6)
listener = socket.create_server(("127.0.0.1", 0), backlog=512)
server = make_server(answer, listener, Http(header_timeout=60))
thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
thread.start()
while not server.started:
    time.sleep(0.01)
print(json.dumps(listener.getsockname()[1]), flush=True)
resource.setrlimit(resource.RLIMIT_NOFILE, (60, 60))
sys.stdin.readline()
print(flush=True)
sys.stdin.readline()
server.should_exit = True
thread.join()
"""


def test_no_file_descriptors_left_is_no_reason_to_spin(tmp_path: Path) -> None:
    """With more connections than descriptors the server waits, logs a few lines, and answers."""
    with (tmp_path / "log").open("wb") as log, subprocess.Popen(
        [sys.executable, "-c", _SCARCE], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True
    ) as process, contextlib.ExitStack() as stack:  # fmt: skip
        told, tells = process.stdin, process.stdout
        assert told is not None
        assert tells is not None

        def tell() -> None:
            told.write("\n")
            told.flush()

        address = ("127.0.0.1", int(tells.readline()))
        try:
            tell()
            tells.readline()
            for _ in range(200):
                stack.enter_context(connect(address))
            assert [asked(address) for _ in range(3)] == [200] * 3
            tell()
        finally:
            told.close()
            process.wait(PATIENCE)
    failures = (tmp_path / "log").read_text().count("cannot accept a connection")
    assert 0 < failures < 100  # two a second; asyncio by itself would make it two thousand


def test_a_client_that_does_not_read_its_answer_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """An unread answer is held for a limited time."""
    monkeypatch.setattr("daemon.http.server.http_protocol._SLOWEST_READER", 0.2)
    drop, dropped = Connection.drop, threading.Event()

    def dropping(left: Connection) -> None:
        drop(left)
        dropped.set()

    monkeypatch.setattr(Connection, "drop", dropping)
    with served(Http()) as address, connect(address) as connection:
        connection.sendall(b"GET /large HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert dropped.wait(PATIENCE)
        assert len(rest(connection)) < 32 << 20


def test_clients_that_do_not_read_their_answers_keep_nobody_out() -> None:
    """As many as there may be connections: the first of them has to go."""

    async def parts(scope: Any, receive: Any, send: Any) -> None:
        many = iter([b"x" * (1 << 20)] * (32 if scope["path"] == "/large" else 1))
        await StreamingResponse(many)(scope, receive, send)

    with served(Http(connections=5), parts) as address, contextlib.ExitStack() as stack:
        for _ in range(5):
            connection = stack.enter_context(connect(address))
            connection.sendall(b"GET /large HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert status(connection.recv(4096)) == 200
        until = time.monotonic() + PATIENCE
        while (status_now := asked(address)) != 200 and time.monotonic() < until:
            time.sleep(0.1)
        assert status_now == 200


def test_the_limit_of_open_files_is_raised() -> None:
    """As far as the system lets us."""
    code = (
        "import resource as r; from daemon.http.server.connections import allow_many_files as a; "
        "_, h = r.getrlimit(r.RLIMIT_NOFILE); r.setrlimit(r.RLIMIT_NOFILE, (100, h)); a(); "
        "print(r.getrlimit(r.RLIMIT_NOFILE)[0])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    assert int(done.stdout) == (1 << 20 if hard == resource.RLIM_INFINITY else hard)
    allow_many_files()  # again is no error


def test_the_limit_of_open_files_limits_connections(monkeypatch: pytest.MonkeyPatch) -> None:
    """The daemon needs some for itself, and says so."""
    monkeypatch.setattr(resource, "getrlimit", lambda _: (256, 256))
    with capture_logs() as logs:
        assert Connections(Http(connections=1000)).most == 128
    assert logs[0]["event"] == "the limit of open files allows fewer connections"
