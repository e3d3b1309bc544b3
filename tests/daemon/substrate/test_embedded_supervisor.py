"""An embedded Mesos that is killed is started again, and its jobs go on."""

import contextlib
import errno
import json
import os
import signal
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest
from stoker import Stoker

from conf.util.backoff import Backoff
from daemon.cli.operate.orphans import descendants, end_all
from daemon.substrate import embedded_supervisor
from daemon.substrate.embedded_mesos import EmbeddedError, EmbeddedMesos, find_embedded, start_embedded
from daemon.substrate.embedded_supervisor import EmbeddedWatch
from framework.host.process_tree import adopt_orphans, children, identity
from tests.chaos.scene import SPARK
from tests.daemon.fleet import Daemon
from tests.waiting import until

CLUSTER = "vms: [{type: small, count: 2, cpus: 2, memory: 4g, price_per_hour: 0.1}]"


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Daemon]:
    """A daemon with an embedded Mesos; nothing of them is left afterwards."""
    adopt_orphans()
    before = set(descendants())
    (tmp_path / "cluster.yaml").write_text(CLUSTER)
    config = {
        "data_dir": str(tmp_path / "data"),
        "policy": {"name": "rr"},
        "mesos": {"cluster": str(tmp_path / "cluster.yaml"), "port": 0},
        "spark": {"driver_host": "127.0.0.1"},
    }
    daemon = Daemon(tmp_path, "daemon", config)
    daemon.up()
    yield daemon
    daemon.end(signal.SIGKILL)
    end_all(lambda: [pid for pid in descendants() if pid not in before])


@pytest.mark.slow
def test_a_job_goes_on_when_the_embedded_mesos_is_killed(daemon: Daemon) -> None:
    """Executors are found gone and placed again, uncharged; /readyz tells; the API answers on."""
    until(daemon.leads, daemon.log)
    started = daemon.folder / "started"
    started.touch()
    spec = {
        "app": str(SPARK / "home/driver.py"), "args": ["1.0", "0"], "executors": 2, "cpus": 0.5,
        "env": {"CHAOS_LOG": str(started), "CHAOS_KEY": "key"},
    }  # fmt: skip
    with Stoker(daemon.url) as client:

        def job() -> Any:
            return client.job(job_id)

        job_id = str(client.submit_spec(spec | {"args": ["5.0", "0"]})["id"])
        until(lambda: sum(e["state"] == "running" for e in job()["tasks"]) == 2, daemon.log)
        old = find_embedded(daemon.folder / "data")
        assert old is not None
        os.kill(old.pid, signal.SIGKILL)
        slowest, end = 0.0, time.monotonic() + 600.0
        while len(job()["tasks"]) < 4 or job()["tasks"][-1]["state"] != "running":
            asked = time.monotonic()
            assert client.job(job_id)["state"] in ("running", "relaunching", "launching")
            slowest = max(slowest, time.monotonic() - asked)
            assert asked < end, daemon.log()
        print(f"the slowest answer took {slowest:.2f} s")
        lost, again = job()["tasks"][:2], job()["tasks"][2:]
        assert [e["state"] for e in lost] == ["lost", "lost"]
        assert "the embedded Mesos ended" in str(lost[0])
        assert {e["state"] for e in again} <= {"launching", "running"}
        ready = daemon.get("/readyz")
        assert ready is not None
        assert ready.json()["checks"]["embedded mesos"] == "ok, started again once"
        new = find_embedded(daemon.folder / "data")
        assert new is not None
        assert (new.pid != old.pid, new.address, new.secret) == (True, old.address, old.secret)
        until(lambda: job()["state"] in ("finished", "failed"), daemon.log)
        assert (job()["state"], job()["exit_code"]) == ("finished", 0)


def test_one_that_hangs_is_ended_and_started_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is told how long it has not answered; its tasks count as gone, and another is where it was."""
    monkeypatch.setattr(embedded_supervisor, "PERIOD", 0.2)
    monkeypatch.setattr(embedded_supervisor, "MOST_UNANSWERED", 2)
    (tmp_path / "cluster.yaml").write_text(CLUSTER)

    def start(ended: EmbeddedMesos | None = None) -> EmbeddedMesos:
        listener = None if ended is None else ended.listener
        return start_embedded(tmp_path / "cluster.yaml", 0, tmp_path, listener=listener)

    watch = EmbeddedWatch(first := start(), start)
    try:
        (worker,) = children(first.pid)
        until(lambda: watch._next_question > 0)
        assert watch.state == "ok"
        os.kill(worker, signal.SIGSTOP)
        until(lambda: "it has not answered for" in watch.state, lambda: watch.state)
        until(lambda: watch.state == "ok, started again once", lambda: watch.state)
        assert watch.took_its_tasks()
        assert (watch.embedded.pid != first.pid, watch.embedded.address) == (True, first.address)
        assert watch.embedded.answers()
        assert not Path(f"/proc/{worker}").exists()
    finally:
        watch.stop().stop()


@pytest.mark.parametrize("taken_over", [False, True])
def test_the_port_of_one_that_ended_is_nobody_elses(tmp_path: Path, taken_over: bool) -> None:
    """A job that listened there would be sent the secret; one that was taken over is no exception."""
    (tmp_path / "cluster.yaml").write_text(CLUSTER)
    tried, got = threading.Event(), list[int]()

    def start(ended: EmbeddedMesos | None = None) -> EmbeddedMesos:
        if ended is not None:
            assert tried.wait(60.0)
        listener = None if ended is None else ended.listener
        return start_embedded(tmp_path / "cluster.yaml", 0, tmp_path, listener=listener)

    first = start()
    embedded = start_embedded(tmp_path / "cluster.yaml", 0, tmp_path) if taken_over else first
    if embedded.listener is None:
        first.stop()
        pytest.skip("this machine does not permit a look at a process's sockets")
    if taken_over:
        first.leave()
    watch = EmbeddedWatch(embedded, start)
    try:
        host, _, port = first.address.rpartition(":")
        os.kill(first.pid, signal.SIGKILL)
        until(lambda: "it has ended" in watch.state, lambda: watch.state)
        for _ in range(20):
            with socket.socket() as stranger:
                stranger.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                with contextlib.suppress(OSError):
                    stranger.bind((host, int(port)))
                    stranger.listen()
                    got.append(int(port))
        tried.set()
        until(lambda: watch.state == "ok, started again once", lambda: watch.state)
        assert (got, watch.embedded.address) == ([], first.address)
        assert watch.embedded.answers()
    finally:
        tried.set()
        watch.stop().stop()
        first.alive()


def test_one_that_is_stopped_for_a_while_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that answers again has lost nothing."""
    monkeypatch.setattr(embedded_supervisor, "PERIOD", 0.2)
    monkeypatch.setattr(embedded_supervisor, "MOST_UNANSWERED", 1000)
    (tmp_path / "cluster.yaml").write_text(CLUSTER)
    embedded = start_embedded(tmp_path / "cluster.yaml", 0, tmp_path)
    watch = EmbeddedWatch(embedded, lambda _: embedded)
    try:
        (worker,) = children(embedded.pid)
        os.kill(worker, signal.SIGSTOP)
        until(lambda: "it has not answered for" in watch.state, lambda: watch.state)
        os.kill(worker, signal.SIGCONT)
        until(lambda: watch.state == "ok", lambda: watch.state)
        assert not watch.took_its_tasks()
        assert children(embedded.pid) == [worker]
    finally:
        watch.stop().stop()


def test_a_keeper_that_is_stopped_is_let_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its Mesos answers all the while, but nothing would see that one end; /readyz counts the stops."""
    monkeypatch.setattr(embedded_supervisor, "PERIOD", 0.2)
    (tmp_path / "cluster.yaml").write_text(CLUSTER)
    embedded = start_embedded(tmp_path / "cluster.yaml", 0, tmp_path)
    watch = EmbeddedWatch(embedded, lambda _: embedded)
    try:
        os.kill(embedded.pid, signal.SIGSTOP)
        until(lambda: watch.state == "ok, its supervisor was stopped once (SIGSTOP)", lambda: watch.state)
        until(lambda: not embedded.stopped())
        assert not watch.took_its_tasks()
    finally:
        watch.stop().stop()


def test_the_daemon_answers_and_ends_while_its_embedded_mesos_hangs(daemon: Daemon) -> None:
    """Kills are stored, /readyz names the hung part, and SIGTERM ends both; no process stays stopped."""
    until(daemon.leads, daemon.log)
    embedded = find_embedded(daemon.folder / "data")
    assert embedded is not None
    (worker,) = children(embedded.pid)
    os.kill(worker, signal.SIGSTOP)

    def told() -> bool:
        ready = daemon.get("/readyz")
        return ready is not None and "it has not answered" in ready.json()["checks"]["embedded mesos"]

    until(told, daemon.log)
    with Stoker(daemon.url) as client:
        spec = {"app": str(SPARK / "home/driver.py"), "executors": 2, "cpus": 0.5}
        assert client.kill(str(client.submit_spec(spec)["id"]))["state"] == "killed"
    asked = time.monotonic()
    daemon.end(signal.SIGTERM)
    print(f"ended {time.monotonic() - asked:.1f} s after SIGTERM")
    assert not Path(f"/proc/{worker}").exists()
    assert "Traceback" not in daemon.log()


class Dying:
    """A starter of Mesos that die soon, or never come up."""

    def __init__(self, *, comes_up: bool) -> None:
        self.comes_up = comes_up
        self.at: list[float] = []
        self.address = "127.0.0.1:1234"
        self.pid = 1
        self.enough = threading.Event()

    def alive(self) -> bool:
        """It died."""
        return False

    def start(self, ended: EmbeddedMesos) -> EmbeddedMesos:
        """Start another one, where the last one was."""
        assert ended.address == self.address
        self.at.append(time.monotonic())
        if len(self.at) == 4:
            self.enough.set()
        if not self.comes_up:
            raise EmbeddedError("the port is taken")
        return cast("EmbeddedMesos", self)


@pytest.mark.parametrize("comes_up", [True, False])
def test_one_that_does_not_stay_is_started_with_growing_pauses(
    comes_up: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is tried in a loop, and why it is not there is told."""
    monkeypatch.setattr(embedded_supervisor, "_LOOK", 0.001)
    monkeypatch.setattr(embedded_supervisor, "BACKOFF", Backoff(first=0.02))
    dying = Dying(comes_up=comes_up)
    watch = EmbeddedWatch(cast("EmbeddedMesos", dying), dying.start)
    assert dying.enough.wait(300.0)
    told = watch.state
    watch.stop()
    assert watch.took_its_tasks()
    assert not watch.took_its_tasks()
    pauses = [late - early for early, late in zip(dying.at, dying.at[1:], strict=False)][:3]
    assert all(pause >= wanted for pause, wanted in zip(pauses, (0.04, 0.08, 0.16), strict=True))
    if not comes_up:
        assert told == "it has ended, and is started again: the port is taken"


class Unseen:
    """A Mesos that cannot be looked at for a while, and ends later."""

    def __init__(self) -> None:
        self.address, self.pid = "127.0.0.1:1234", 1
        self.looks, self.ended = 0, False

    def alive(self) -> bool:
        """Whether it has not ended, from the fourth look on."""
        self.looks += 1
        if self.looks < 4:
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        return not self.ended

    def stopped(self) -> bool:
        """It cannot be told either, at first."""
        if self.looks < 6:
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        return False

    def answers(self) -> bool:
        """It is well."""
        return True


def test_a_moment_without_descriptors_ends_neither_watch_nor_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    """The watch goes on, no task counts as gone, and a later end is seen."""
    monkeypatch.setattr(embedded_supervisor, "_LOOK", 0.001)
    monkeypatch.setattr(embedded_supervisor, "PERIOD", 0.001)
    first, second = Unseen(), Unseen()
    second.looks = 10
    watch = EmbeddedWatch(cast("EmbeddedMesos", first), lambda _: cast("EmbeddedMesos", second))
    try:
        until(lambda: first.looks > 10, "it looks no more")
        assert not watch.took_its_tasks()
        first.ended = True
        until(lambda: watch.state == "ok, started again once", lambda: watch.state)
        assert watch.took_its_tasks()
    finally:
        watch.stop()


def test_one_that_cannot_be_looked_at_is_not_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that was taken over is known by a file, which no descriptor may be left for."""
    (tmp_path / "pid").write_text(json.dumps(identity(os.getpid())))
    taken = EmbeddedMesos("127.0.0.1:1234", os.getpid(), True, "127.0.0.1", "", "stoker", "secret", tmp_path)
    assert taken.alive()

    def lacking(path: Path, **_: object) -> str:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE), str(path))

    with monkeypatch.context() as patch:
        patch.setattr(Path, "read_text", lacking)
        with pytest.raises(OSError, match="Too many open files"):
            taken.alive()
    (tmp_path / "pid").unlink()
    assert not taken.alive()
