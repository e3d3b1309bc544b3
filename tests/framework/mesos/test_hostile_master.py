"""A master that sends garbage: the session ends, in words, and the next one may find a better master."""

import contextlib
import json
import queue
import re
import socket
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from environment.model.messages import commands as cmd
from environment.model.messages import events as ev
from framework.mesos.master_link import MasterLink
from framework.mesos.session import Session, SessionOptions
from tests.waiting import PATIENCE

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
GOOD = {
    "type": "SUBSCRIBED",
    "subscribed": {
        "framework_id": {"value": "framework-1"},
        "master_info": {"id": "m", "ip": 1, "port": 5050, "hostname": "localhost"},
    },
}


class Master:
    """Answers each connection with the next of some bytes, and then closes it or says no more."""

    def __init__(self) -> None:
        self.answers: queue.Queue[tuple[bytes, bool]] = queue.Queue()
        self.requests: list[bytes] = []
        self._silent: list[socket.socket] = []
        self._server = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._server.getsockname()[1]}"
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def _serve(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._server.accept()
                with contextlib.suppress(queue.Empty, ConnectionError):
                    if self._answer(connection):
                        self._silent.append(connection)
                        continue
                connection.close()

    def _answer(self, connection: socket.socket) -> bool:
        """Answer the request, if one comes; whether the connection is to stay open."""
        if not (request := connection.recv(65536)):
            return False
        if request.startswith(b"GET /slaves"):
            connection.sendall(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n")
            return False
        while not whole(request) and (more := connection.recv(65536)):
            request += more
        self.requests.append(request)
        answer, closes = self.answers.get_nowait()
        connection.sendall(answer)
        return not closes

    def close(self) -> None:
        """End the server and all connections."""
        self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()
        self._thread.join()
        for connection in self._silent:
            connection.close()


def whole(request: bytes) -> bool:
    """Whether all of a request is there that says how long it is."""
    head, _, body = request.partition(b"\r\n\r\n")
    length = re.search(rb"(?i)content-length: (\d+)", head)
    return length is None or len(body) >= int(length[1])


@pytest.fixture(scope="module")
def master() -> Iterator[Master]:
    """One master for all tests."""
    master = Master()
    yield master
    master.close()


def chunk(data: bytes) -> bytes:
    """One chunk of a chunked body."""
    return b"%x\r\n%s\r\n" % (len(data), data)


def record(event: object) -> bytes:
    """One RecordIO record."""
    data = json.dumps(event).encode()
    return b"%d\n%s" % (len(data), data)


class Deaf:
    """Hears events as the link does, and keeps their number only."""

    def __init__(self) -> None:
        self.link = MasterLink(SessionOptions("127.0.0.1:1"), self.take, None)
        self.heard = 0

    def take(self, event: ev.Event, stored: Any) -> None:
        """Take an event; to be stored, it must be of its type."""
        assert isinstance(event, ev.Event)
        self.heard += 1


def ends(master: Master, answer: bytes, *, closes: bool = True, heartbeat_seconds: float = 60.0) -> str:
    """Let a session hear this answer, and wait for its end: why it ended."""
    master.answers.put((answer, closes))
    options = SessionOptions(master.address, heartbeat_seconds=heartbeat_seconds)
    session = Session(Deaf().link, options, master.address, None)
    session.start()
    deadline = time.monotonic() + PATIENCE
    while not (why := session.trouble(time.monotonic())):
        assert time.monotonic() < deadline
        time.sleep(0.002)
    session.close("the test is over")
    session._driver.join()
    return why


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
names = st.sampled_from(
    [
        "SUBSCRIBED",
        "HEARTBEAT",
        "OFFERS",
        "RESCIND",
        "UPDATE",
        "FAILURE",
        "ERROR",
        "MESSAGE",
        "NEW",
        "UNKNOWN",
    ]
)
bodies = st.dictionaries(
    st.sampled_from(["offers", "status", "offer_id", "framework_id", "agent_id", "message", "value"]),
    values,
    max_size=3,
)
events = st.builds(lambda name, body: {"type": name, name.lower(): body}, names, bodies)
records = st.one_of(
    events.map(record),
    values.map(record),
    st.binary(max_size=40),
    st.tuples(st.integers(0, 50), st.binary(max_size=40)).map(lambda pair: b"%d\n%s" % pair),
)
quick = settings(
    max_examples=150,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
    database=None,
)


@quick
@given(parts=st.lists(records, min_size=1, max_size=4), subscribed=st.booleans())
def test_garbage_in_the_stream_ends_the_session(master: Master, parts: list[bytes], subscribed: bool) -> None:
    """The session ends with a reason for any records, and no thread dies of it unseen."""
    first = [record(GOOD)] if subscribed else []
    assert ends(master, HEAD + b"".join(map(chunk, [*first, *parts])))


@quick
@given(answer=st.binary(max_size=200))
def test_garbage_instead_of_http_ends_the_session(master: Master, answer: bytes) -> None:
    """The session ends with a reason for anything but an answer."""
    assert ends(master, answer)


@pytest.mark.parametrize(
    "stuck",
    [
        b"",
        b"HTTP/1.1 200",
        HEAD + chunk(b"no length"),
        HEAD + chunk(b"999999999999\n{"),
        HEAD + b"7fffffff\r\n",
    ],
    ids=["nothing", "half a line", "no length", "a length without end", "a chunk without end"],
)
def test_a_stream_that_says_nothing_more_ends_by_its_silence(master: Master, stuck: bytes) -> None:
    """Records neither wrong nor whole are awaited as long as missing heartbeats."""
    assert "no message" in ends(master, stuck, closes=False, heartbeat_seconds=0.1)


@pytest.mark.parametrize(
    ("answer", "complaint"),
    [
        (HEAD + chunk(b'5\n{"a":'), "Expecting"),
        (HEAD + chunk(b"9" * 5000 + b"\n"), "integer string conversion"),
        (HEAD + chunk(b"100000\n" + b"[" * 100_000), "recursion"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}", "not chunked"),
        (b"HTTP/1.1 307 Temporary Redirect\r\n\r\n", "it redirects without a Location"),
        (b"HTTP/1.1 307 T\r\nLocation: //[bad/x\r\n\r\n", "a Location that is no URL"),
        (HEAD + chunk(record(GOOD)) * 2, "SUBSCRIBED twice"),
        (b"HTTP/1.1 500 Oops\r\nContent-Length: 4\r\n\r\nboom", "boom"),
        (b"\x16\x03\x01\x02\x00", "Failed to parse"),
    ],
    ids=["no JSON", "no number", "nested", "not chunked", "nowhere", "no URL", "twice", "500", "TLS"],
)
def test_garbage_is_told_in_words(master: Master, answer: bytes, complaint: str) -> None:
    """The reason, which /readyz shows, states the fault."""
    assert complaint in ends(master, answer, closes=False)


def test_a_master_that_redirects_to_itself_is_told_so(master: Master) -> None:
    """Not that it does not accept the connection."""
    answer = b"HTTP/1.1 307 T\r\nLocation: //%s/x\r\n\r\n" % master.address.encode()
    assert ends(master, answer, closes=False) == "it redirects to itself (HTTP 307)"


def test_a_master_that_does_not_lead_is_left_for_the_one_it_names(master: Master) -> None:
    """A 307 is followed at once; after the loss of that one, the configured master is asked again."""
    leader = Master()
    try:
        place = leader.address.encode()
        master.answers.put(
            (b"HTTP/1.1 307 T\r\nLocation: //%s/master/api/v1/scheduler\r\n\r\n" % place, True)
        )
        leader.answers.put((HEAD + chunk(record(GOOD)), True))
        master.answers.put((HEAD + chunk(record(GOOD)), False))
        assert follow(master, ["Subscribed", "Disconnected", "Subscribed"]).framework_id == "framework-1"
    finally:
        leader.close()
    assert leader.requests[-1].startswith(b"POST /api/v1/scheduler")


def test_the_version_is_not_asked_for(master: Master) -> None:
    """Its text may be anything, and pymesos would end over one such as 1.12.0-dev."""
    master.requests.clear()
    ends(master, HEAD)
    assert [request.split(b" ")[1] for request in master.requests] == [b"/api/v1/scheduler"]


def test_after_garbage_a_good_master_is_found(master: Master) -> None:
    """The link goes on: a bad answer, a bad event after a good subscription, and then all is well."""
    bad_offers = record({"type": "OFFERS", "offers": {"offers": [{"id": {}}]}})
    master.answers.put((b"\x00\x01\x02", True))
    master.answers.put((HEAD + chunk(record(GOOD)) + chunk(bad_offers), False))
    master.answers.put((HEAD + chunk(record(GOOD)), False))
    told = ["Disconnected", "Subscribed", "Disconnected", "Subscribed"]
    assert follow(master, told).framework_id == "framework-1"


def follow(master: Master, expected: list[str]) -> MasterLink:
    """Tend a link until it has reported these events, no more and no others, and stop it."""
    inbox: queue.Queue[ev.Event] = queue.Queue()
    link = MasterLink(SessionOptions(master.address), lambda event, _: inbox.put(event), None)
    link.start()
    heard: list[str] = []
    deadline = time.monotonic() + PATIENCE
    while heard != expected:
        assert heard == expected[: len(heard)]
        assert time.monotonic() < deadline, heard
        with contextlib.suppress(queue.Empty):
            heard.append(type(inbox.get(timeout=0.02)).__name__)
    link.stop()
    return link


def test_texts_that_nothing_can_hold_are_mended(master: Master) -> None:
    """No store holds half a surrogate pair, no PostgreSQL NUL: the loop would end, or never go on."""
    status = {
        "task_id": {"value": "a\ud800"},
        "state": "TASK_FAILED",
        "message": "\0b",
        "agent_id": {"value": "A"},
    }
    update = {"type": "UPDATE", "update": {"status": status}}
    master.answers.put((HEAD + chunk(record(GOOD)) + chunk(record(update)), False))
    inbox: queue.Queue[ev.Event] = queue.Queue()
    link = MasterLink(SessionOptions(master.address), lambda event, _: inbox.put(event), None)
    link.start()
    try:
        while not isinstance(event := inbox.get(timeout=PATIENCE), ev.TaskChanged):
            pass
    finally:
        link.stop()
    assert (event.task_id, event.message) == ("a\ufffd", "\ufffdb")


def test_an_inverse_offer_is_heard(master: Master) -> None:
    """The master tells which agent it wants back, and when, as a real one does."""
    window = {"start": {"nanoseconds": 1795222368990713088}, "duration": {"nanoseconds": 3600000000000}}
    inverse = {"id": {"value": "O15"}, "agent_id": {"value": "S1"}, "unavailability": window}
    wish = {"type": "INVERSE_OFFERS", "inverse_offers": {"inverse_offers": [inverse]}}
    master.answers.put((HEAD + chunk(record(GOOD)) + chunk(record(wish)), False))
    follow(master, ["Subscribed", "InverseOffersReceived"])


def test_inverse_offers_are_answered_as_the_api_wants_it() -> None:
    """Byte for byte as in v1/scheduler.proto: a master must understand calls never seen elsewhere."""
    told = {
        "id": {"value": "O15"},
        "framework_id": {"value": "framework-1"},
        "agent_id": {"value": "S1"},
        "unavailability": {
            "start": {"nanoseconds": 1795222368990713088},
            "duration": {"nanoseconds": 3600000000000},
        },
    }
    events: queue.Queue[ev.Event] = queue.Queue()
    inverse = {"type": "INVERSE_OFFERS", "inverse_offers": {"inverse_offers": [told]}}
    master = Master()
    link = MasterLink(SessionOptions(master.address), lambda event, _: events.put(event), None)
    master.answers.put((HEAD + chunk(record(GOOD)) + chunk(record(inverse)), False))
    for _ in range(2):
        master.answers.put((b"HTTP/1.1 202 Accepted\r\nConnection: close\r\nContent-Length: 0\r\n\r\n", True))
    link.start()
    try:
        while not isinstance(event := events.get(timeout=PATIENCE), ev.InverseOffersReceived):
            pass
        (offer,) = event.offers
        assert (offer.id, offer.vm_id) == ("O15", "S1")
        assert offer.unavailable == pytest.approx((1795222368.990713, 3600.0))
        bodies = []
        for number, accept in enumerate((True, False), 2):
            link.execute(cmd.AnswerInverse(1, (offer.id, "O16"), accept), lambda task: pytest.fail(f"{task}"))
            deadline = time.monotonic() + PATIENCE
            while len(master.requests) < number:
                assert time.monotonic() < deadline
                time.sleep(0.002)
            head, _, body = master.requests[-1].partition(b"\r\n\r\n")
            assert head.startswith(b"POST /api/v1/scheduler HTTP/1.1\r\n")
            bodies.append(json.loads(body))
    finally:
        link.stop()
        master.close()
    ids = {"inverse_offer_ids": [{"value": "O15"}, {"value": "O16"}]}
    framework = {"framework_id": {"value": "framework-1"}}
    assert bodies == [
        {"type": "ACCEPT_INVERSE_OFFERS", **framework, "accept_inverse_offers": ids},
        {"type": "DECLINE_INVERSE_OFFERS", **framework, "decline_inverse_offers": ids},
    ]
