"""Access: the secret is required, other sites' pages are refused; faults exist only if a test wants them."""

import base64
import contextlib
import json
import os
import pwd
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from framework.embedded.credentials import CredentialsError, own_secret, read_credentials
from framework.embedded.master.http_server import MasterConnection, text_response
from tests.framework.embedded.running import Mesos, Subscription, framework_info, running

SUBSCRIBE = {"type": "SUBSCRIBE", "subscribe": {"framework_info": framework_info()}}
RIGHT = {"Authorization": "Basic " + base64.b64encode(b"stoker:right").decode()}

#: What a program of another user does that has found the port: exit code 0 when it gets in.
INTRUDER = """
import base64, encodings.idna, json, os, sys, urllib.request
address, file, user = sys.argv[1:]
os.setgroups([])
os.setgid(int(user))
os.setuid(int(user))
secrets = ["", "stoker", "guess"]
try:
    secrets.append(open(file).read().strip())
except OSError:
    pass
for secret in secrets:
    for path in ("/api/v1/scheduler", "/api/v1", "/state", "/slaves", "/stoker/faults", "/master/tasks"):
        request = urllib.request.Request(f"http://{address}{path}")
        request.add_header("Authorization", "Basic " + base64.b64encode(f"stoker:{secret}".encode()).decode())
        if path.startswith("/api"):
            request.data = json.dumps({"type": "SUBSCRIBE", "subscribe": {"framework_info": {"user": "root", "name": "x"}}}).encode()
            request.add_header("Content-Type", "application/json")
        try:
            urllib.request.urlopen(request, timeout=100)
            sys.exit(0)
        except urllib.error.HTTPError as error:
            if error.code not in (401, 404):
                sys.exit(0)
sys.exit(3)
"""  # noqa: E501


@pytest.fixture(scope="module")
def mesos(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mesos]:
    """One that asks for a secret, and misbehaves for nobody."""
    work = tmp_path_factory.mktemp("mesos")
    with running(work, credentials={"stoker": "right"}, may_fail=False) as mesos:
        yield mesos


def test_a_program_of_another_user_does_not_get_in(tmp_path: Path) -> None:
    """It can reach the port, but not read the secret."""
    if os.geteuid() != 0:
        pytest.skip("only root can run a program as another user")
    other = pwd.getpwnam("nobody")
    tmp_path.chmod(0o755)
    file = tmp_path / "secret"
    secret = own_secret(file)
    with running(tmp_path / "work", credentials={"stoker": secret}, may_fail=False) as mesos:

        def attempt(user: int) -> int:
            command = [sys.executable, "-c", INTRUDER, mesos.address, str(file), str(user)]
            return subprocess.run(command, cwd="/", env={}, check=False).returncode

        assert attempt(other.pw_uid) == 3
        assert attempt(0) == 0  # as ourselves it does: the attempt is a real one


@pytest.mark.parametrize("path", ["/state", "/api/v1/scheduler", "/api/v1", "/health", "/version", "/tasks"])
@pytest.mark.parametrize("host", ["evil.example", "evil.example:5050", "127.0.0.1.evil.example"])
def test_a_foreign_host_is_refused(mesos: Mesos, path: str, host: str) -> None:
    """A page under a name that leads here (DNS rebinding) learns nothing, even with the secret."""
    method = "POST" if path.startswith("/api") else "GET"
    assert mesos.request(method, path, SUBSCRIBE, Host=host, **RIGHT)[0] == 421


def test_a_second_host_hides_nothing(mesos: Mesos) -> None:
    """Two Host headers are no host that is known."""
    host, port = mesos.address.split(":")
    with socket.create_connection((host, int(port)), 10.0) as connection:
        connection.sendall(b"GET /health HTTP/1.1\r\nHost: evil.example\r\nHost: localhost\r\n\r\n")
        assert connection.recv(1000).startswith(b"HTTP/1.1 4")


def connected(mesos: Mesos) -> socket.socket:
    """A connection to the master."""
    host, port = mesos.address.split(":")
    return socket.create_connection((host, int(port)), 20.0)


def test_a_body_of_a_stranger_is_not_kept(mesos: Mesos) -> None:
    """A job's code could otherwise fill the memory of the Mesos on which everybody's tasks run."""
    size = 65 << 20
    with connected(mesos) as connection:
        head = f"POST /api/v1/scheduler HTTP/1.1\r\nHost: localhost\r\nContent-Length: {size}\r\n\r\n"
        connection.sendall(head.encode())
        for _ in range(size >> 20):
            connection.sendall(bytes(1 << 20))
        assert connection.recv(1000).startswith(b"HTTP/1.1 401")  # not 413: nothing of it was there


def test_a_stranger_has_one_answer_on_a_connection(mesos: Mesos) -> None:
    """Of thousands of requests in a read, all would be answered before those of the daemon."""
    one = "GET /health HTTP/1.1\r\nHost: localhost\r\n{}\r\n"
    for caller, answers in (("", 1), (f"Authorization: {RIGHT['Authorization']}\r\n", 3)):
        with connected(mesos) as connection:
            connection.sendall(one.format(caller).encode() * 3)
            said = b""
            with contextlib.suppress(ConnectionResetError):
                while said.count(b"HTTP/1.1 200") < 3 and (part := connection.recv(1 << 16)):
                    said += part
            assert said.count(b"HTTP/1.1 200") == answers


def test_a_long_head_of_a_stranger_is_not_read(mesos: Mesos) -> None:
    """Each header is work: of a few hundred connections, more than the loop may spend on them."""
    with connected(mesos) as connection:
        connection.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n" + b"a: b\r\n" * 2000 + b"\r\n")
        assert connection.recv(1000).startswith(b"HTTP/1.1 431")


@pytest.mark.parametrize("trailer", [b"X: y\r\n", b"y" * 1000])
@pytest.mark.parametrize("caller", [f"Authorization: {RIGHT['Authorization']}\r\n", ""])
def test_trailers_without_end_are_refused(mesos: Mesos, caller: str, trailer: bytes) -> None:
    """Many of them, or a long one."""
    with connected(mesos) as connection, pytest.raises(ConnectionError):  # noqa: PT012 - it ends at some send
        head = f"POST /api/v1/scheduler HTTP/1.1\r\nHost: localhost\r\n{caller}Transfer-Encoding: chunked"
        connection.sendall(f"{head}\r\n\r\n2\r\n{{}}\r\n0\r\nX: ".encode())
        for _ in range(4000):
            connection.sendall(trailer * (10_000 // len(trailer)))


def test_a_body_of_small_chunks_is_read(mesos: Mesos) -> None:
    """Their lengths are more than it."""
    body = json.dumps({"type": "GET_HEALTH"}).encode()
    chunks = b"".join(b"1\r\n%c\r\n" % each for each in body)
    headers = f"Authorization: {RIGHT['Authorization']}\r\nContent-Type: application/json\r\n"
    with connected(mesos) as connection:
        head = f"POST /api/v1 HTTP/1.1\r\nHost: localhost\r\n{headers}Transfer-Encoding: chunked\r\n\r\n"
        connection.sendall(head.encode() + chunks + b"0\r\nX: y\r\n\r\n")
        assert connection.recv(1000).startswith(b"HTTP/1.1 200")


class Unread:
    """A transport with 100,000 bytes that its client has not read."""

    def __init__(self) -> None:
        self.aborted = False

    def is_closing(self) -> bool:
        """Not before it is aborted."""
        return self.aborted

    def write(self, data: bytes) -> None:
        """Take an answer."""

    def get_write_buffer_size(self) -> int:
        """The unread bytes."""
        return 100_000

    def abort(self) -> None:
        """Cut the connection."""
        self.aborted = True


@pytest.mark.parametrize("known", [True, False])
def test_answers_that_a_stranger_does_not_read_are_not_kept(known: bool) -> None:
    """The connection is cut; that of a caller with the secret may lag behind."""
    transport: Any = Unread()
    connection = MasterConnection(
        lambda _: text_response(401, "401 Unauthorized."), lambda *_: known, set(), {}
    )
    connection.connection_made(transport)
    connection.data_received(b"GET /state HTTP/1.1\r\nHost: localhost\r\n\r\n")
    assert transport.aborted is not known


def test_strangers_have_few_connections(mesos: Mesos) -> None:
    """The oldest is cut; a connection of a caller with the secret is none of theirs."""
    state = f"GET /state HTTP/1.1\r\nHost: localhost\r\nAuthorization: {RIGHT['Authorization']}\r\n\r\n"
    with contextlib.ExitStack() as stack:
        ours, first = (stack.enter_context(connected(mesos)) for _ in range(2))
        ours.sendall(state.encode())
        assert ours.recv(1 << 20).startswith(b"HTTP/1.1 200")
        others = [stack.enter_context(connected(mesos)) for _ in range(520)]
        with contextlib.suppress(ConnectionResetError):
            assert first.recv(1) == b""
        for each in (ours, others[-1]):
            each.sendall(state.encode())
            assert each.recv(1 << 20)


def test_a_foreign_origin_is_refused(mesos: Mesos) -> None:
    """A page of another site may not subscribe, even where the browser knows the secret."""
    foreign = {"Origin": "http://evil.example"} | RIGHT
    assert mesos.request("POST", "/api/v1/scheduler", SUBSCRIBE, **foreign)[0] == 403
    assert mesos.request("POST", "/api/v1", {"type": "GET_STATE"}, **foreign)[0] == 403


def test_a_script_of_another_page_reads_nothing(tmp_path: Path, mesos: Mesos) -> None:
    """Answers as scripts (jsonp) need authentication, even where nothing else does."""
    assert mesos.request("GET", "/version?jsonp=leak")[0] == 403
    assert mesos.request("GET", "/state?jsonp=leak")[0] == 401
    status, body = mesos.request("GET", "/state?jsonp=leak", **RIGHT)
    assert (status, body[:5]) == (200, "leak(")
    with running(tmp_path) as everybodys:
        assert everybodys.request("GET", "/state")[0] == 200
        assert everybodys.request("GET", "/state?jsonp=leak")[0] == 403


def test_faults_are_not_there_unless_asked_for(mesos: Mesos) -> None:
    """The secret does not enable a client to make the master misbehave."""
    assert mesos.request("POST", "/stoker/faults", {"fault": "drop_stream"}, **RIGHT)[0] == 404
    assert mesos.request("GET", "/stoker/faults", **RIGHT)[0] == 404


def test_with_the_secret_all_is_as_ever(mesos: Mesos) -> None:
    """A framework that authenticates subscribes and is offered the free resources."""
    info = framework_info(principal="stoker")
    with Subscription(mesos, info, **RIGHT) as scheduler:
        assert len(scheduler.offers()) == 3


def test_a_head_without_end_is_cut_off(mesos: Mesos) -> None:
    """Nobody fills the memory with headers, one long or many."""
    host, port = mesos.address.split(":")
    for piece in (b"a" * 4096, b"X-A: b\r\n" * 512):
        with socket.create_connection((host, int(port)), 10.0) as connection:
            connection.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\nX-Long: ")
            cut = False
            for _ in range(1 << 14):  # 64 MiB, unless it is cut off
                try:
                    connection.sendall(piece)
                except OSError:
                    cut = True
                    break
        assert cut


def test_a_secret_is_made_once_and_is_private(tmp_path: Path) -> None:
    """It is kept; one that others could read, or that is elsewhere, is replaced."""
    file = tmp_path / "deep" / "secret"
    first = own_secret(file)
    assert (file.stat().st_mode & 0o777, len(first) > 32) == (0o600, True)
    assert own_secret(file) == first
    file.chmod(0o640)
    second = own_secret(file)
    assert (second != first, file.stat().st_mode & 0o777) == (True, 0o600)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_text("known to whoever put it there\n")
    elsewhere.chmod(0o600)
    file.unlink()
    file.symlink_to(elsewhere)
    assert own_secret(file) not in elsewhere.read_text()
    assert not file.is_symlink()
    assert list(file.parent.iterdir()) == [file]


def test_credentials_of_an_operator(tmp_path: Path) -> None:
    """Both forms of mesos-master are read; any other is refused with the file's name."""
    file = tmp_path / "credentials"
    file.write_text("spark abc\n\nother def\n")
    assert read_credentials(file) == {"spark": "abc", "other": "def"}
    file.write_text('{"credentials": [{"principal": "spark", "secret": "abc"}]}')
    assert read_credentials(file) == {"spark": "abc"}
    for text, why in {
        "": "is empty",
        '{"credentials": []}': "names no principal",
        "spark": "line 1: should be PRINCIPAL SECRET, not 1 words",
        "spark a:b": "without `:`",
        '{"credentials": 5}': "should be like",
        "{": "should be like",
    }.items():
        file.write_text(text)
        with pytest.raises(CredentialsError, match=f"{file}: .*{why}"):
            read_credentials(file)
    with pytest.raises(CredentialsError, match="cannot be read"):
        read_credentials(tmp_path / "nothing")
