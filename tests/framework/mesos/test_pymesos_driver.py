"""A driver that may no longer speak for the framework sends nothing, wherever it was stopped."""

import contextlib
import socket
from collections.abc import Iterator
from http.client import ResponseNotReady
from pathlib import Path
from types import SimpleNamespace

import pytest

from framework.mesos.call_queue import FencedError
from framework.mesos.master_link import MasterLink
from framework.mesos.pymesos_driver import CallConnection, SchedulerDriver
from framework.mesos.session import Session, SessionOptions
from tests.framework.embedded.running import Mesos, running
from tests.waiting import until


@pytest.fixture
def mesos(tmp_path: Path) -> Iterator[Mesos]:
    """A running master."""
    with running(tmp_path / "mesos") as mesos:
        yield mesos


def test_a_call_is_not_sent_nor_the_rest_of_one() -> None:
    """The answer to "may I" is asked for each part."""
    allowed = iter([True, False])
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
        with contextlib.closing(CallConnection(address, 5.0, lambda: next(allowed))) as connection:
            connection.send(b"the head")
            with pytest.raises(FencedError):
                connection.send(b" and the body")
        accepted, _ = server.accept()
        with accepted:
            assert accepted.recv(100) == b"the head"
            assert accepted.recv(100) == b""


def test_a_connection_that_is_lost_in_the_middle_of_a_call_stays_closed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The thread of events closes it; the call, which goes on, opens it again: nobody would close that."""
    send = CallConnection.send
    opened: list[socket.socket] = []

    def lose(connection: CallConnection, data: object) -> None:
        if not opened:
            driver._close()
        send(connection, data)
        opened.append(connection.sock)

    with socket.create_server(("127.0.0.1", 0)) as server:
        monkeypatch.setattr(SchedulerDriver, "connected", True)
        monkeypatch.setattr(SchedulerDriver, "master", f"127.0.0.1:{server.getsockname()[1]}")
        monkeypatch.setattr(CallConnection, "send", lose)
        driver = SchedulerDriver(SimpleNamespace(may_call=lambda: True), {}, "")
        with pytest.raises(ResponseNotReady):
            driver._send({"type": "ACKNOWLEDGE"})
    assert opened
    assert {sock.fileno() for sock in opened} == {-1}


def test_nobody_subscribes_who_may_not(mesos: Mesos) -> None:
    """Not even on a connection that was begun while it was allowed: the master hears nothing."""

    class Listener:
        def __getattr__(self, name: str) -> object:
            return lambda *_: None

    session = Session(Listener(), SessionOptions(mesos.address), mesos.address, None, lambda: False)  # type: ignore[arg-type]  # hears nothing
    session.start()
    until(lambda: bool(session.trouble(0.0)), "the connection is given up")
    session.close("the test is over")
    assert mesos.get("/master/state")["frameworks"] == []


def test_a_link_does_not_connect_before_it_may(mesos: Mesos) -> None:
    """It says why, and connects as soon as it is allowed."""
    allowed: list[bool] = []
    link = MasterLink(SessionOptions(mesos.address), lambda *_: None, None, lambda: bool(allowed))
    link.start()
    try:
        until(lambda: "another daemon may lead" in link.state, "it says why")
        allowed.append(True)
        until(lambda: link.subscribed, "it connects")
    finally:
        link.stop()
