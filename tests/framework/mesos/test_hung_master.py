"""A master that hangs: nobody waits for it, it is told from one that answers, the next leader is followed."""

import contextlib
import ctypes
import json
import os
import shutil
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from kazoo.client import KazooClient

from conf.util.backoff import Backoff
from environment.model.messages import commands as cmd
from environment.model.messages import events as ev
from framework.mesos import master_link as link_module
from framework.mesos.call_queue import Calls, FencedError, QueuedCall
from framework.mesos.session import Session
from tests.daemon.conftest import ZooKeeper
from tests.framework.embedded.running import Mesos, running
from tests.framework.mesos.test_hostile_master import GOOD, HEAD, chunk, record
from tests.framework.mesos.test_master_link import Framework, mesos_and_framework, task, undescribed
from tests.waiting import PATIENCE, until


@contextlib.contextmanager
def stopped(mesos: Mesos) -> Iterator[None]:
    """The master's process does nothing meanwhile; its connections stay, and new ones are accepted."""
    mesos.hang()
    try:
        yield
    finally:
        mesos.go_on()


def test_nobody_waits_for_a_master_that_hangs(tmp_path: Path) -> None:
    """Calls return at once; then the hang is reported, unsent calls are dropped, and the rest is found."""
    with mesos_and_framework(tmp_path, call_timeout=1.0) as (mesos, framework):
        first, second, third = framework.wait(ev.OffersReceived).offers
        framework.launch(first, task("job-1.0", first.ports[0][0]), script="sleep 600")
        framework.until("job-1.0", "running")
        with stopped(mesos):
            framework.launch(second, task("job-2.0", second.ports[0][0]))
            framework.launch(third, task("job-3.0", third.ports[0][0]))
            framework.link.execute(cmd.KillTask(1, "job-1.0", first.vm.id), undescribed)
            session = framework.link._session
            assert session is not None
            until(lambda: session._calls.pending(time.monotonic()) > 0, "a call waits for its answer")
            until(lambda: "may hang" in framework.link.state, "it is told while the connection stands")
            assert not framework.link.subscribed
            # The one that was sent may have arrived; the other has not.
            assert "connection to the master was lost" in framework.until("job-3.0", "dropped").message
            assert framework.kinds.count(ev.Disconnected) == 1, "the loss was told before"
            until(lambda: "not connected" in framework.link.state, "it was given up")
        framework.wait(ev.Subscribed)
        framework.link.execute(cmd.Reconcile(1, (("job-2.0", second.vm.id),)), undescribed)
        # It ran if it had arrived, and is gone if it had not.
        while framework.wait(ev.TaskChanged).task_id != "job-2.0":
            pass


def test_a_link_ends_while_its_master_hangs(tmp_path: Path) -> None:
    """Calls that wait for an answer are left behind, and end by themselves."""
    with running(tmp_path / "work") as mesos:
        framework = Framework(mesos.address, call_timeout=3600.0)
        with framework:
            framework.wait(ev.OffersReceived)
            session = framework.link._session
            assert session is not None
            mesos.hang()
            framework.link.execute(cmd.Revive(1), undescribed)
            until(lambda: session._calls.pending(time.monotonic()) > 0, "the call waits")
        try:
            assert not framework.link._thread.is_alive()
            until(lambda: session.over, "its threads are gone, although nothing was answered")
        finally:
            mesos.go_on()


class Mute:
    """A listener that accepts connections, answers each with some bytes or none, and says no more."""

    def __init__(self, *answers: bytes, server: socket.socket | None = None) -> None:
        self._server = server or socket.create_server(("127.0.0.1", 0))
        self._answers = list(answers)
        self.address = "{}:{}".format(*self._server.getsockname())
        self.connections: list[socket.socket] = []
        self._thread = threading.Thread(target=self._accept)
        self._thread.start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._server.accept()
                self.connections.append(connection)
                if self._answers:
                    connection.recv(65536)
                    connection.sendall(self._answers.pop(0))

    def __enter__(self) -> "Mute":
        return self

    def __exit__(self, *exc: object) -> None:
        self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()
        self._thread.join()
        for connection in self.connections:
            connection.close()


def test_a_master_that_accepts_and_never_answers_is_left() -> None:
    """The link retries long before heartbeats would be missed; abandoned sessions end."""
    with Mute() as mute, Framework(mute.address, call_timeout=0.2) as framework:
        until(lambda: len(mute.connections) > 2, "it is tried again")
        assert "no message" in framework.link.state
        assert not framework.link.subscribed
        until(lambda: len(framework.link._abandoned) < 2, "what was given up ends")
        assert set(framework.kinds) == {ev.Disconnected}


def test_an_answer_that_drips_in_is_waited_for_as_long_as_for_none() -> None:
    """Each byte is in time, and the whole never comes: that is a hang as well."""
    subscribed = HEAD + chunk(record(GOOD))
    with Mute(subscribed) as mute, Framework(mute.address, call_timeout=0.5) as framework:
        framework.wait(ev.Subscribed)
        until(lambda: len(mute.connections) > 1, "its sizes are asked for")
        framework.link.execute(cmd.Revive(1), undescribed)
        dripping = threading.Event()

        def drip() -> None:
            while not dripping.wait(0.05):
                for connection in mute.connections[1:]:
                    with contextlib.suppress(OSError):
                        connection.send(b"H")

        thread = threading.Thread(target=drip)
        thread.start()
        try:
            framework.wait(ev.Disconnected)
            assert "was not answered" in framework.link.state
        finally:
            dripping.set()
            thread.join()


def test_too_many_connections_that_hang_are_not_added_to(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that were given up and do not end are counted; over the limit no other is made."""
    monkeypatch.setattr(link_module, "_MOST_ABANDONED", 1)
    monkeypatch.setattr(Session, "over", False)
    with Mute() as mute, Framework(mute.address, call_timeout=0.1) as framework:
        until(lambda: "earlier connections hang" in framework.link.state, "it says so")
        assert len(framework.link._abandoned) == 2


def test_calls_are_made_in_order_and_only_by_who_leads() -> None:
    """Calls not made are reported as such; calls beyond the limit are refused."""
    leads, made, unsent = [True], list[int](), list[tuple[int, str]]()

    def call(number: int) -> QueuedCall:
        return QueuedCall(f"{number}", lambda: made.append(number), lambda why: unsent.append((number, why)))

    calls = Calls(lambda: leads[0], lambda _: None)
    for number in range(4):
        calls.put(call(number))
    calls.put(QueuedCall("depose", lambda: leads.__setitem__(0, False)))
    calls.put(call(4))
    thread = threading.Thread(target=calls.run, daemon=True)
    thread.start()
    until(lambda: made == [0, 1, 2, 3] and not calls._waiting, "the last one is not made")
    calls.close("another daemon leads")
    calls.put(call(5))
    thread.join()
    assert made == [0, 1, 2, 3]
    assert sorted(unsent) == [(4, "another daemon leads"), (5, "another daemon leads")]


def test_a_call_waits_for_the_lease() -> None:
    """One that ended before the call, or on the way, and is renewed; the master is not blamed meanwhile."""
    asked, made, unsent = list[int](), list[str](), list[str]()

    def may_call() -> bool:
        asked.append(1)
        return len(asked) > 2  # not at first

    def fenced_once() -> None:
        made.append("begun")
        if len(made) == 1:
            assert calls.pending(time.monotonic()) < PATIENCE
            raise FencedError

    calls = Calls(may_call, lambda _: None)
    calls.put(QueuedCall("ACCEPT", fenced_once, unsent.append))
    thread = threading.Thread(target=calls.run, daemon=True)
    thread.start()
    until(lambda: made == ["begun", "begun"], "it is made again")
    calls.close("over")
    thread.join()
    assert not unsent
    assert calls.pending(time.monotonic()) == 0


def test_a_call_that_may_not_be_made_is_not_taken_for_a_master_that_hangs() -> None:
    """However long that lasts; and it is told that it was not made."""
    asked, unsent = list[int](), list[str]()

    def may_call() -> bool:
        asked.append(1)
        return False

    calls = Calls(may_call, lambda _: None)
    calls.put(QueuedCall("ACCEPT", lambda: None, unsent.append))
    thread = threading.Thread(target=calls.run, daemon=True)
    thread.start()
    until(lambda: len(asked) > 2, "it is asked again and again")
    assert calls.pending(time.monotonic() + 3600) == 0
    calls.close("the daemon stops")
    thread.join()
    assert unsent == ["the daemon stops"]


def test_a_call_that_waits_for_the_lease_is_drained_too() -> None:
    """A daemon that ends while its lease is renewed late loses no launch by it."""
    asked, made, renewed = list[int](), list[str](), threading.Event()

    def may_call() -> bool:
        asked.append(1)
        return renewed.is_set()

    calls = Calls(may_call, lambda _: None)
    calls.put(QueuedCall("ACCEPT", lambda: made.append("ACCEPT")))
    thread = threading.Thread(target=calls.run, daemon=True)
    thread.start()
    until(lambda: len(asked) > 2, "it waits for the lease")
    calls.drain(0.01)
    assert not made

    def drain() -> None:
        calls.drain(PATIENCE)
        made.append("drained")

    draining = threading.Thread(target=drain, daemon=True)
    draining.start()
    draining.join(0.3)
    assert not made, "it is not drained while a call waits"
    renewed.set()
    draining.join()
    assert made == ["ACCEPT", "drained"]
    calls.close("over")
    thread.join()


def test_calls_that_pile_up_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Calls without room are reported at once; waiting calls are reported at the end."""
    monkeypatch.setattr("framework.mesos.call_queue.MOST_WAITING", 2)
    unsent: list[str] = []
    calls = Calls(lambda: True, lambda _: None)
    for _ in range(3):
        calls.put(QueuedCall("x", lambda: None, unsent.append))
    assert unsent == ["2 calls to the master are already waiting"]
    calls.close("over")
    assert unsent[1:] == ["over", "over"]


# ---- over a network ----------------------------------------------------------------------------------


def ip(arguments: str) -> None:
    """Change the network; iproute2's words."""
    subprocess.run(["ip", *arguments.split()], check=True, capture_output=True, timeout=PATIENCE)


def listen_inside(namespace: str, address: str) -> socket.socket:
    """A listener in another network namespace: sockets that a thread opens there stay there."""
    found: list[socket.socket] = []

    def listen() -> None:
        with Path(f"/run/netns/{namespace}").open() as file:
            if ctypes.CDLL(None, use_errno=True).setns(file.fileno(), 0x40000000):  # CLONE_NEWNET
                return
            found.append(socket.create_server((address, 0)))

    thread = threading.Thread(target=listen)
    thread.start()
    thread.join()
    return found[0]


@pytest.fixture
def elsewhere() -> Iterator[tuple[str, str]]:
    """A host of its own behind a cable: the network namespace that it is, and its address."""
    name, card = f"stoker-test-{os.getpid()}", f"st{os.getpid()}"
    net = f"10.231.{os.getpid() % 250}"
    if os.geteuid() != 0 or shutil.which("ip") is None:
        pytest.skip("a network of its own takes root and iproute2")
    with contextlib.ExitStack() as stack:
        try:
            ip(f"netns add {name}")
            stack.callback(ip, f"netns del {name}")
            ip(f"link add {card} type veth peer name eth0 netns {name}")
            stack.callback(ip, f"link del {card}")  # with its namespace it would go some time later
            ip(f"addr add {net}.1/30 dev {card}")
            ip(f"link set {card} up")
            ip(f"-n {name} addr add {net}.2/30 dev eth0")
            ip(f"-n {name} link set eth0 up")
        except subprocess.CalledProcessError as error:
            pytest.skip(f"no network namespaces here: {error.stderr.decode().strip()}")
        yield name, f"{net}.2"


@pytest.mark.parametrize("calling", [False, True])
def test_a_host_that_vanishes_is_left(elsewhere: tuple[str, str], calling: bool) -> None:
    """No packet comes any more, no RST either; the link leaves it, and comes back when it is back."""
    name, address = elsewhere
    subscribed = HEAD + chunk(record(GOOD))
    with Mute(subscribed, server=listen_inside(name, address)) as mute:
        heartbeat = 60.0 if calling else 0.4
        with Framework(mute.address, call_timeout=0.5, heartbeat_seconds=heartbeat) as framework:
            framework.wait(ev.Subscribed)
            ip(f"-n {name} link set eth0 down")
            vanished = time.monotonic()
            if calling:
                framework.link.execute(cmd.Revive(1), undescribed)
            framework.wait(ev.Disconnected)
            print(f"left after {time.monotonic() - vanished:.2f} s")
            until(lambda: "not connected" in framework.link.state, "it was given up")
            mute._answers += [subscribed] * 20
            ip(f"-n {name} link set eth0 up")
            framework.wait(ev.Subscribed)


# ---- with ZooKeeper ----------------------------------------------------------------------------------


class Announcer:
    """Announces masters in ZooKeeper, as they do themselves."""

    def __init__(self, address: str) -> None:
        self._client = KazooClient(address)
        self._client.start()

    def announce(self, master: str) -> str:
        """The master stands for election; its znode."""
        host, _, port = master.partition(":")
        told = {"address": {"hostname": host, "ip": host, "port": int(port)}, "version": "1.12.0"}
        data = json.dumps(told).encode()
        return str(self._client.create("/mesos/json.info_", data, sequence=True, makepath=True))

    def withdraw(self, znode: str) -> None:
        """Its session is over."""
        self._client.delete(znode)

    def close(self) -> None:
        """End."""
        self._client.stop()
        self._client.close()


@pytest.fixture
def announcer(zookeeper: ZooKeeper) -> Iterator[Announcer]:
    """Announces masters in a ZooKeeper of its own."""
    announcer = Announcer(zookeeper.address)
    yield announcer
    announcer.close()


@pytest.mark.parametrize("how", ["stopped", "killed"])
def test_a_new_leader_is_followed_at_once(
    tmp_path: Path, zookeeper: ZooKeeper, announcer: Announcer, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    """The old leader's connections and the pause between attempts cause no delay."""
    monkeypatch.setattr(link_module, "BACKOFF", Backoff(first=3600.0, longest=3600.0))
    with running(tmp_path / "a") as one, running(tmp_path / "b") as other:
        with Framework(f"zk://{zookeeper.address}/mesos") as framework:
            until(lambda: "no master is announced" in framework.link.state, "it waits for one")
            znode = announcer.announce(one.address)
            announcer.announce(other.address)
            framework.wait(ev.OffersReceived)
            assert framework.link.state == f"subscribed to {one.address}"
            if how == "stopped":
                one.hang()
                framework.link.execute(cmd.Revive(1), undescribed)
            else:
                one.process.send_signal(signal.SIGKILL)
                framework.wait(ev.Disconnected)
            announcer.withdraw(znode)
            elected = time.monotonic()
            framework.wait(ev.Subscribed)
            print(f"subscribed {time.monotonic() - elected:.2f} s after the election")
            assert framework.link.state == f"subscribed to {other.address}"
            offer = framework.wait(ev.OffersReceived).offers[0]
            print(f"offers {time.monotonic() - elected:.2f} s after the election")
            framework.launch(offer, task("job-1.0", offer.ports[0][0]))
            framework.until("job-1.0", "finished")
        one.go_on()
    assert framework.kinds.count(ev.Disconnected) == 1


def test_without_zookeeper_the_leader_is_kept(
    tmp_path: Path, zookeeper: ZooKeeper, announcer: Announcer
) -> None:
    """It may well lead on; a leader elected meanwhile is found when ZooKeeper is back."""
    with running(tmp_path / "a") as one, Framework(f"zk://{zookeeper.address}/mesos") as framework:
        until(lambda: "no master is announced" in framework.link.state, "it waits for one")
        announcer.announce(one.address)
        framework.wait(ev.Subscribed)
        zookeeper.stop()
        detector = framework.link._detector
        assert detector is not None
        until(lambda: "does not answer" in detector.state, "it notices")
        assert framework.link.subscribed
        zookeeper.start()
        until(lambda: not detector.state, "it is back")
        assert framework.kinds.count(ev.Subscribed) == 1


def test_what_is_no_master_is_told(zookeeper: ZooKeeper, announcer: Announcer) -> None:
    """The link reports the fault of any data in ZooKeeper and goes on."""
    with Framework(f"zk://someone:hush@{zookeeper.address}/mesos") as framework:
        wrong = (b"", b"[]", b'{"address": {"ip": 7, "port": 1}}', b'{"address": {"ip": "a", "port": 0}}')
        for data in wrong:
            znode = announcer._client.create("/mesos/json.info_", data, sequence=True, makepath=True)
            until(lambda: "is not a Mesos master" in framework.link.state, "it is told")
            announcer.withdraw(znode)
            until(lambda: "no master is announced" in framework.link.state, "it went")
        assert "hush" not in framework.link.state
        assert f"the leading master of zk://{zookeeper.address}/mesos:" in framework.link.state
