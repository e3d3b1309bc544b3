"""systemd is told when the daemon is ready and when it stops, and jobs cannot speak in its name."""

import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from daemon.maintenance.systemd import Notifier
from tests.daemon.fleet import Starter, fleets


@pytest.fixture
def told(tmp_path: Path) -> Iterator[socket.socket]:
    """Where systemd listens."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind(str(tmp_path / "notify"))
        listener.settimeout(60)
        yield listener


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[Starter]:
    """A Mesos and a factory of daemons on it."""
    with fleets(tmp_path) as make:
        yield make


def test_a_daemon_says_when_it_is_ready_and_when_it_stops(
    told: socket.socket, fleet: Starter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And its children do not know where."""
    monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
    made = fleet()
    daemon = made.add()
    assert told.recv(100) == b"READY=1"
    made.wait(daemon, made.submit(daemon, 60), "running")
    environments = [environment_of(process) for process in Path("/proc").glob("[0-9]*")]
    assert [it for it in environments if b"CHAOS_KEY=key" in it]
    assert not [it for it in environments if b"CHAOS_KEY=key" in it and b"NOTIFY_SOCKET" in it]
    daemon.end(signal.SIGTERM)
    assert told.recv(100) == b"STOPPING=1"


def environment_of(process: Path) -> bytes:
    """Environment at the start of a process; empty for an ended one."""
    try:
        return (process / "environ").read_bytes()
    except OSError:
        return b""


def test_an_abstract_socket_is_spoken_to() -> None:
    """Its name begins with @ in the environment."""
    name = f"stoker-test-{id(object())}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind(f"\0{name}")
        notifier = Notifier({"NOTIFY_SOCKET": f"@{name}"})
        notifier.ready()
        notifier.ready()
        notifier.stopping()
        assert [listener.recv(100), listener.recv(100)] == [b"READY=1", b"STOPPING=1"]


@pytest.mark.parametrize("name", ["", "/nowhere/notify", "x" * 200])
def test_where_nobody_listens_nothing_happens(name: str) -> None:
    """The daemon goes on."""
    environment = {"NOTIFY_SOCKET": name, "OTHER": "x"}
    Notifier(environment).ready()
    assert environment == {"OTHER": "x"}
