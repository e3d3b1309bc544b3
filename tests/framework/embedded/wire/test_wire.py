"""The bytes on the connection are those of a real master: heads, chunks, records, open connections."""

import json
import re
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from framework.embedded.messages import TERMINAL
from tests.framework.embedded.running import Mesos, Subscription, framework_info, running, task
from tests.waiting import PATIENCE

TRANSCRIPTS = Path(__file__).resolve().parents[5] / "shared" / "mesos-wire"


@pytest.fixture(scope="module")
def mesos(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mesos]:
    """Run one embedded Mesos for all tests here."""
    with running(tmp_path_factory.mktemp("mesos")) as mesos:
        yield mesos


def recorded(name: str) -> Any:
    """A recording."""
    path = TRANSCRIPTS / f"{name}.json"
    if not path.is_file():
        pytest.skip(f"the recorded sessions are not here: {path}")
    return json.loads(path.read_text())


@contextmanager
def connected(mesos: Mesos) -> Iterator[socket.socket]:
    """Open a connection."""
    host, port = mesos.address.split(":")
    with socket.create_connection((host, int(port)), timeout=PATIENCE) as connection:
        yield connection


def receive(connection: socket.socket, until: bytes, times: int = 1) -> bytes:
    """Bytes received until a piece of text came so many times."""
    received = b""
    while received.count(until) < times:
        data = connection.recv(65536)
        if not data:
            break
        received += data
    return received


def still_open(connection: socket.socket) -> bool:
    """Whether the master keeps the connection open."""
    connection.settimeout(0.2)
    try:
        return connection.recv(1) != b""
    except TimeoutError:
        return True


def post(body: object, *headers: str) -> bytes:
    """A request to the scheduler API."""
    data = json.dumps(body)
    head = ["POST /api/v1/scheduler HTTP/1.1", "Host: localhost", "Content-Type: application/json", *headers]
    return "\r\n".join([*head, f"Content-Length: {len(data)}", "", data]).encode()


def subscribe(**fields: Any) -> dict[str, Any]:
    """A SUBSCRIBE call."""
    info = framework_info(failover_timeout=60.0, **fields)
    call: dict[str, Any] = {"type": "SUBSCRIBE", "subscribe": {"framework_info": info}}
    return call | ({"framework_id": info["id"]} if "id" in info else {})


def shape(data: bytes) -> tuple[list[str], list[tuple[str, bool]]]:
    """Status and header names, and of every chunk the event and whether its sizes are right."""
    head, _, rest = data.partition(b"\r\n\r\n")
    lines = head.decode().split("\r\n")
    chunks = []
    while match := re.match(rb"([0-9a-f]+)\r\n", rest):
        size = int(match.group(1), 16)
        chunk = rest[match.end() : match.end() + size]
        length, _, record = chunk.partition(b"\n")
        whole = rest[match.end() + size :].startswith(b"\r\n") and int(length) == len(record)
        chunks.append((json.loads(record)["type"], whole))
        rest = rest[match.end() + size + 2 :]
    return [lines[0], *[line.split(":")[0] for line in lines[1:]]], chunks


def test_subscription_is_the_recorded_one_byte_for_byte(mesos: Mesos) -> None:
    """Head, chunking and records are those of the recording; lengths and ids are their own."""
    recording = recorded("01b-subscribe-raw-bytes")
    real = "".join(part["bytes"] for part in recording["received_by_recv_call"][:2]).encode("latin-1")
    with connected(mesos) as connection:
        connection.sendall(recording["sent"].encode("latin-1"))
        ours = receive(connection, b"]}}\r\n")
    assert shape(ours) == shape(real)


def test_two_calls_pipelined(mesos: Mesos) -> None:
    """Both are answered in order, with the recorded heads, and the connection stays open."""
    real = {entry["what"]: entry for entry in recorded("11d-connections-raw")}
    with Subscription(mesos, framework_info()) as scheduler, connected(mesos) as connection:
        call = {"type": "SUPPRESS", "framework_id": {"value": scheduler.framework_id}}
        request = post(call, f"mesos-stream-id: {scheduler.stream_id}")
        connection.sendall(2 * request)
        ours = receive(connection, b"\r\n\r\n", 2).decode()
        date = re.compile("Date: [^\r]*")
        expected = real["two calls pipelined on one keep-alive connection"]["received"]
        assert date.sub("", ours) == date.sub("", expected)
        assert still_open(connection)


def test_connection_close_is_obeyed(mesos: Mesos) -> None:
    """A call that asks for it is the last on its connection."""
    with Subscription(mesos, framework_info()) as scheduler, connected(mesos) as connection:
        call = {"type": "SUPPRESS", "framework_id": {"value": scheduler.framework_id}}
        connection.sendall(post(call, f"Mesos-Stream-Id: {scheduler.stream_id}", "Connection: close"))
        assert receive(connection, b"never").startswith(b"HTTP/1.1 202 Accepted\r\n")


def test_stream_ends_with_the_last_chunk_and_the_connection_lives_on(mesos: Mesos) -> None:
    """After TEARDOWN, refusal and failover the body ends and the connection serves further calls."""
    with connected(mesos) as first, connected(mesos) as second, connected(mesos) as third:
        first.sendall(post(subscribe()))
        head = receive(first, b'"SUBSCRIBED"').decode()
        framework_id = {"value": re.search(r'"framework_id":{"value":"([^"]+)"', head).group(1)}  # type: ignore[union-attr]  # it is there
        second.sendall(post(subscribe(id=framework_id)))
        assert b"Framework failed over" in receive(first, b"0\r\n\r\n")
        assert still_open(first)
        stream_id = re.search("Mesos-Stream-Id: (.*)\r", receive(second, b'"SUBSCRIBED"').decode()).group(1)  # type: ignore[union-attr]  # likewise
        first.sendall(
            post({"type": "TEARDOWN", "framework_id": framework_id}, f"Mesos-Stream-Id: {stream_id}")
        )
        assert receive(first, b"\r\n\r\n").startswith(b"HTTP/1.1 202 Accepted")
        assert receive(second, b"0\r\n\r\n").endswith(b"0\r\n\r\n")
        assert still_open(second)
        third.sendall(post(subscribe(id=framework_id)))
        expected = b'44\r\n65\n{"type":"ERROR","error":{"message":"Framework has been removed"}}\r\n0\r\n\r\n'
        assert receive(third, b"0\r\n\r\n").endswith(expected)
        assert still_open(third)


def test_gzip_on_request(mesos: Mesos) -> None:
    """A large answer is compressed for a client that takes it."""
    with connected(mesos) as connection:
        connection.sendall(b"GET /state HTTP/1.1\r\nHost: localhost\r\nAccept-Encoding: gzip\r\n\r\n")
        assert b"Content-Encoding: gzip\r\n" in receive(connection, b"\r\n\r\n")


def test_client_that_goes_is_noticed(tmp_path: Path) -> None:
    """A framework without failover timeout is removed when its connection breaks, with its tasks."""
    with running(tmp_path) as mesos:
        with Subscription(mesos, framework_info()) as scheduler:
            scheduler.launch(scheduler.offers()[0], task("t", "sleep 600"))
            scheduler.update("t", "TASK_RUNNING")
        deadline = time.monotonic() + PATIENCE
        while mesos.get("/state")["frameworks"] and time.monotonic() < deadline:
            time.sleep(0.01)
        (completed,) = mesos.get("/state")["completed_frameworks"]
        assert completed["completed_tasks"][0]["state"] == "TASK_KILLED"


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
NAMES = [
    "subscribe",
    "accept",
    "decline",
    "kill",
    "acknowledge",
    "reconcile",
    "message",
    "framework_info",
    "user",
]
NAMES += ["name", "roles", "id", "value", "operations", "type", "launch", "task_infos", "task_id", "agent_id"]
NAMES += ["resources", "scalar", "command", "offer_ids", "filters", "refuse_seconds", "framework_id", "uuid"]
CALLS = st.recursive(
    JSON,
    lambda inner: st.dictionaries(st.sampled_from(NAMES), inner, max_size=5) | st.lists(inner, max_size=2),
    max_leaves=12,
)
KINDS = st.sampled_from(
    ["SUBSCRIBE", "ACCEPT", "DECLINE", "KILL", "ACKNOWLEDGE", "RECONCILE", "MESSAGE", "REVIVE"]
)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(kind=KINDS, body=st.dictionaries(st.sampled_from(NAMES), CALLS, max_size=5))
def test_no_call_breaks_the_master(mesos: Mesos, kind: str, body: dict[str, Any]) -> None:
    """The answer to any JSON is one of the API's statuses and the master lives on."""
    with connected(mesos) as connection:
        connection.sendall(post(body | {"type": kind}, "Connection: close"))
        status = receive(connection, b"\r\n").split(b" ")[1]
    assert status in {b"200", b"202", b"400", b"403"}


RICH_TASK: dict[str, Any] = task(
    "t",
    kill_policy={"grace_period": {"nanoseconds": 1000}},
    max_completion_time={"nanoseconds": 10**9},
    health_check={"type": "COMMAND", "command": {"value": "true"}, "delay_seconds": 0.0},
    check={"type": "COMMAND", "command": {"command": {"value": "true"}}, "interval_seconds": 1.0},
    container={"type": "MESOS", "mesos": {}},
    labels={"labels": [{"key": "k", "value": "v"}]},
    command_fields={
        "environment": {"variables": [{"name": "A", "value": "b", "type": "VALUE"}]},
        "uris": [{"value": "/etc/hostname", "output_file": "h"}],
        "arguments": ["true"],
    },
)


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the path of everything inside a value."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield (*path, key)
        yield from places(inner, (*path, key))


def changed(value: Any, path: tuple[Any, ...], new: Any) -> Any:
    """A copy of a value with one place changed."""
    if not path:
        return new
    copy = value.copy()
    copy[path[0]] = changed(value[path[0]], path[1:], new)
    return copy


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(path=st.sampled_from(list(places(RICH_TASK))), new=CALLS | st.text() | st.floats(allow_nan=False))
def test_no_launch_breaks_the_master(mesos: Mesos, path: tuple[Any, ...], new: Any) -> None:
    """A task with any value anywhere is refused or ends, and the master lives on."""
    with Subscription(mesos, framework_info()) as scheduler:
        offer = scheduler.offers()[0]
        info = changed(RICH_TASK, path, new) | {"agent_id": offer["agent_id"]}
        operation = {"type": "LAUNCH", "launch": {"task_infos": [info]}}
        body = {"operations": [operation], "offer_ids": [offer["id"]]}
        message = {"type": "ACCEPT", "framework_id": {"value": scheduler.framework_id}, "accept": body}
        head = {"Mesos-Stream-Id": scheduler.stream_id}
        status, _ = mesos.request("POST", "/api/v1/scheduler", message, **head)
        assert status in {202, 400}
        state = "" if status == 202 else "TASK_ERROR"
        while state not in TERMINAL:
            update = scheduler.wait("UPDATE")["status"]
            if "uuid" in update:
                scheduler.acknowledge(update)
            state = update["state"]
        assert mesos.get("/state")["activated_slaves"] == 3.0


@pytest.mark.parametrize(
    "data", [b"\x00\x01garbage\r\n\r\n", b"GET  HTTP/9\r\n\r\n", b"POST //[ HTTP/1.1\r\n\r\n"]
)
def test_garbage_is_refused(mesos: Mesos, data: bytes) -> None:
    """Bytes that are no HTTP get 400 and the end of the connection."""
    with connected(mesos) as connection:
        connection.sendall(data)
        assert receive(connection, b"never").startswith(b"HTTP/1.1 400 Bad Request")
