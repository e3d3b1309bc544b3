"""The link to a master, through unmodified pymesos, on an embedded Mesos in a process of its own."""

import gc
import queue
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from environment.model.messages import commands as cmd
from environment.model.messages import events as ev
from environment.model.messages.records import ExecutorRecord
from environment.model.messages.snapshot import Offer
from environment.resources import Resources
from framework.mesos.agent_sizes import _size
from framework.mesos.master_link import MasterLink
from framework.mesos.session import Session, SessionOptions
from framework.spark import ProcessSpec
from tests.daemon.ports import free_port
from tests.framework.embedded.running import Mesos, running
from tests.waiting import PATIENCE, until


class Framework:
    """A link, and its recorded events."""

    def __init__(self, master: str, framework_id: str | None = None, **options: Any) -> None:
        self.inbox: queue.Queue[tuple[ev.Event, Any]] = queue.Queue()
        self.ids: list[str] = []  # under which it was subscribed
        self.kinds: list[type[ev.Event]] = []  # of all that was told
        self.measured = ev.VmsMeasured(0.0, ())  # what was told last
        self.fails = False
        settings = SessionOptions(master=master, user="root", roles=("role-a",), **options)
        self.link = MasterLink(settings, self._take, framework_id)

    def _take(self, event: ev.Event, stored: Any = None) -> None:
        if self.fails and isinstance(event, ev.TaskChanged):
            raise OSError("no room")
        self.kinds.append(type(event))
        if isinstance(event, ev.VmsMeasured):
            self.measured = event
        if isinstance(event, ev.Subscribed):
            self.ids.append(event.framework_id)
        self.inbox.put((event, stored))

    def wait(self, kind: type[ev.Event]) -> Any:
        """The next event of a kind; updates on the way are acknowledged."""
        while True:
            event, stored = self.inbox.get(timeout=PATIENCE)
            if stored is not None:
                stored()
            if isinstance(event, kind):
                return event

    def until(self, task_id: str, state: str) -> Any:
        """The update by which a task gets to a state."""
        while (event := self.wait(ev.TaskChanged)).task_id != task_id or event.state != state:
            pass
        return event

    def launch(self, offer: Offer, *tasks: ExecutorRecord, script: str = "true") -> None:
        """Launch tasks on an offer."""
        process = ProcessSpec(("bash", "-c", script), {"PLAIN": "1"}, {"HIDDEN": "hush"})
        known = {task.task_id: replace(task, vm_id=offer.vm.id) for task in tasks}
        command = cmd.Launch(1, offer.vm, (offer.id,), tuple(known))
        self.link.execute(command, lambda task_id: (known[task_id], process, f"test: {task_id}"))

    def __enter__(self) -> "Framework":
        self.link.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self.link.stop()


def undescribed(task_id: str) -> tuple[ExecutorRecord, ProcessSpec, str]:
    """For commands that launch nothing."""
    raise AssertionError(task_id)


def task(task_id: str, port: int, cpus: float = 1.0) -> ExecutorRecord:
    """A task of 64 MiB with one port."""
    return ExecutorRecord(task_id, "job-1", 0, "", "", "", "", 0.0, Resources.of(cpus, 64), (port,), 0.0)


@contextmanager
def mesos_and_framework(tmp_path: Path, **options: Any) -> Iterator[tuple[Mesos, Framework]]:
    """An embedded Mesos with three agents, and a framework on it."""
    with running(tmp_path / "work") as mesos, Framework(mesos.address, **options) as framework:
        yield mesos, framework


def test_a_task_is_launched_runs_and_ends(tmp_path: Path) -> None:
    """An offer becomes a launch, its secret reaches the task, and every update comes as an event."""
    with mesos_and_framework(tmp_path, secret_variables=True) as (mesos, framework):
        framework.wait(ev.Subscribed)
        offers = framework.wait(ev.OffersReceived).offers
        assert {o.vm.name: (o.resources.cpus, o.vm.price_per_hour) for o in offers} == {
            "host1.example": (4.0, 0.24),
            "host2.example": (8.0, 0.48),
            "host3.example": (12.0, 0.58),
        }
        offer = offers[0]
        framework.launch(offer, task("job-1.0", offer.ports[0][0]), script='echo "$PLAIN $HIDDEN"')
        for state in ("starting", "running", "finished"):
            framework.until("job-1.0", state)
        assert (mesos.sandbox("job-1.0") / "stdout").read_text() == "1 hush\n"
        assert framework.ids == [framework.link.framework_id]
        assert framework.link.agent_url(offer.vm.id)


def test_the_master_tells_how_large_its_agents_are(tmp_path: Path) -> None:
    """The master reports total sizes, however much is free, each time that it accepts the framework."""
    with mesos_and_framework(tmp_path) as (mesos, framework):
        offers = {offer.vm.name: offer for offer in framework.wait(ev.OffersReceived).offers}
        first = offers["host1.example"]
        framework.launch(first, task("job-1.0", first.ports[0][0]), script="sleep 600")
        framework.until("job-1.0", "running")
        mesos.fault("drop_stream")
        framework.wait(ev.Disconnected)
        sizes = dict(framework.wait(ev.VmsMeasured).sizes)
        assert sizes == {o.vm.id: o.resources for o in offers.values()}


def test_what_is_reserved_for_others_is_not_ours() -> None:
    """Only an agent's unreserved resources and those reserved for our roles count."""
    agent = {
        "id": "S1",
        "unreserved_resources": {"cpus": 1.5, "mem": 1024.0, "gpus": 0.0, "fpgas": 2.0, "ports": "[1-2]"},
        "reserved_resources": {"role-a": {"cpus": 2.0, "fpgas": 1.0}, "role-b": {"cpus": 4.0, "mem": 64.0}},
    }
    assert _size(agent, ("role-a", "role-c")) == ("S1", Resources.of(3.5, 1024, {"fpgas": 3.0}))


def test_an_update_that_is_not_acknowledged_is_told_again(tmp_path: Path) -> None:
    """Until it is stored here and said so, nothing later of the task is told."""
    with mesos_and_framework(tmp_path) as (mesos, framework):
        offer = framework.wait(ev.OffersReceived).offers[0]
        framework.launch(offer, task("job-1.0", offer.ports[0][0]), script="sleep 600")
        told = []
        for _ in range(2):
            while (stored := framework.inbox.get(timeout=PATIENCE)[1]) is None:
                pass
            (status,) = stored.args
            told.append((status["state"], status["uuid"]))
            time.sleep(0.2)  # for an acknowledgement that must not come
            mesos.fault("drop_stream")
            framework.wait(ev.Subscribed)
        assert told[0] == told[1]


def test_a_task_is_killed(tmp_path: Path) -> None:
    """A KillTask ends a task that would run on."""
    with mesos_and_framework(tmp_path) as (_, framework):
        offer = framework.wait(ev.OffersReceived).offers[0]
        framework.launch(offer, task("job-1.0", offer.ports[0][0]), script="sleep 600")
        framework.until("job-1.0", "running")
        framework.link.execute(cmd.KillTask(1, "job-1.0", offer.vm.id), undescribed)
        framework.until("job-1.0", "killed")


def test_what_cannot_be_launched_is_reported_as_never_run(tmp_path: Path) -> None:
    """An offer that is gone, or lacks a task's resources, causes a dropped task and no exception."""
    with mesos_and_framework(tmp_path) as (_, framework):
        first, second, *_ = framework.wait(ev.OffersReceived).offers
        framework.launch(first, task("job-1.0", 1))
        assert "port 1 is not offered" in framework.until("job-1.0", "dropped").message
        framework.launch(first, task("job-1.1", first.ports[0][0]))
        assert "rescinded" in framework.until("job-1.1", "dropped").message
        framework.launch(second, task("job-1.2", second.ports[0][0], cpus=99.0))
        assert "lack" in framework.until("job-1.2", "dropped").message


def test_a_task_that_cannot_be_described_takes_no_other_along(tmp_path: Path) -> None:
    """It is reported as never run; one of another job, launched on the same VM at once, runs."""
    process = ProcessSpec(("true",), {}, {})

    def describe(task_id: str) -> tuple[ExecutorRecord, ProcessSpec, str]:
        if task_id == "job-1.0":
            raise ValueError("no specification")
        return tasks[task_id], process, task_id

    with mesos_and_framework(tmp_path) as (_, framework):
        offer = framework.wait(ev.OffersReceived).offers[0]
        ports = range(offer.ports[0][0], offer.ports[0][0] + 2)
        made = [task(f"job-{n}.0", port) for n, port in enumerate(ports, start=1)]
        tasks = {each.task_id: replace(each, vm_id=offer.vm.id) for each in made}
        framework.link.execute(cmd.Launch(1, offer.vm, (offer.id,), tuple(tasks)), describe)
        assert framework.until("job-1.0", "dropped").message == "no specification"
        framework.until("job-2.0", "finished")


def test_a_framework_comes_back_under_its_id(tmp_path: Path) -> None:
    """A link that stops leaves its tasks alone; another one with the same id finds them by reconciliation."""
    with running(tmp_path / "work") as mesos:
        with Framework(mesos.address) as framework:
            offer = framework.wait(ev.OffersReceived).offers[0]
            framework.launch(offer, task("job-1.0", offer.ports[0][0]), script="sleep 600")
            framework.until("job-1.0", "running")
            framework_id = framework.link.framework_id
        with Framework(mesos.address, framework_id) as again:
            again.wait(ev.Subscribed)
            assert again.ids == [framework_id]
            command = cmd.Reconcile(1, (("job-1.0", offer.vm.id), ("job-9.0", offer.vm.id)))
            again.link.execute(command, undescribed)
            states = {e.task_id: e.state for e in (again.wait(ev.TaskChanged) for _ in range(2))}
            assert states == {"job-1.0": "running", "job-9.0": "gone"}


def test_a_lost_master_is_noticed_and_tried_again(tmp_path: Path) -> None:
    """The end of the connection is an event, the state says so, and the offers are void."""
    with mesos_and_framework(tmp_path) as (mesos, framework):
        framework.wait(ev.OffersReceived)
        mesos.process.send_signal(signal.SIGKILL)
        framework.wait(ev.Disconnected)
        assert not framework.link.subscribed
        assert "not connected" in framework.link.state


def test_a_master_that_refuses_is_not_asked_in_a_loop(tmp_path: Path) -> None:
    """With a wrong secret the state says 401, and attempts are paced."""
    credentials = {"stoker": "right"}
    with (
        running(tmp_path / "work", credentials=credentials) as mesos,
        Framework(mesos.address, principal="stoker", secret="wrong") as framework,
    ):
        deadline = time.monotonic() + PATIENCE
        # The pause grows with each attempt.
        while "401" not in framework.link.state or framework.link._pause <= 0.5:
            assert time.monotonic() < deadline, framework.link.state
            time.sleep(0.02)
        assert set(framework.kinds) == {ev.Disconnected}, "why there is no connection is told, and no more"


def test_a_removed_framework_begins_anew(tmp_path: Path) -> None:
    """An id that the master has removed is given up for a new one, under which the old tasks are gone."""
    with running(tmp_path / "work") as mesos:
        with Framework(mesos.address) as framework:
            offer = framework.wait(ev.OffersReceived).offers[0]
            framework.launch(offer, task("job-1.0", offer.ports[0][0]), script="sleep 600")
            framework.until("job-1.0", "running")
            old = framework.link.framework_id
        call = {"type": "TEARDOWN", "teardown": {"framework_id": {"value": old}}}
        assert mesos.request("POST", "/api/v1", call)[0] in (200, 202)
        with Framework(mesos.address, old) as again:
            again.wait(ev.Subscribed)
            assert again.link.framework_id != old
            assert again.ids == [again.link.framework_id]
            again.link.execute(cmd.Reconcile(1, (("job-1.0", offer.vm.id),)), undescribed)
            assert again.wait(ev.TaskChanged).state == "gone"


def test_a_silent_master_is_left(tmp_path: Path) -> None:
    """Three heartbeats missed, on a connection that still stands, are a loss; then it is tried again."""
    with mesos_and_framework(tmp_path, heartbeat_seconds=0.2) as (mesos, framework):
        framework.wait(ev.Subscribed)
        mesos.hang()
        try:
            framework.wait(ev.Disconnected)
            assert "no message" in framework.link.state
        finally:
            mesos.go_on()
        framework.wait(ev.Subscribed)


def test_two_with_one_id_do_not_evict_each_other_in_a_loop(tmp_path: Path) -> None:
    """Each subscription ends the other's with an ERROR; the pauses grow all the same."""
    with running(tmp_path / "work") as mesos, Framework(mesos.address) as first:
        first.wait(ev.Subscribed)
        with Framework(mesos.address, first.link.framework_id) as second:
            for _ in range(3):
                first.wait(ev.Disconnected)
                second.wait(ev.Disconnected)
            assert min(first.link._pause, second.link._pause) >= 1.0


def test_a_launch_without_a_connection_is_reported_as_never_run(tmp_path: Path) -> None:
    """Launches decided before the loss was known are dropped at once, not left to a timeout."""
    with mesos_and_framework(tmp_path) as (mesos, framework):
        offer = framework.wait(ev.OffersReceived).offers[0]
        mesos.process.send_signal(signal.SIGKILL)
        framework.wait(ev.Disconnected)
        framework.launch(offer, task("job-1.0", offer.ports[0][0]))
        assert "connection to the master was lost" in framework.until("job-1.0", "dropped").message


def test_the_master_is_told_to_keep_us(tmp_path: Path) -> None:
    """A week to come back in, tasks that outlive their agent, partitions told apart, and gpus known."""
    with mesos_and_framework(tmp_path) as (mesos, framework):
        framework.wait(ev.Subscribed)
        (info,) = mesos.get("/master/frameworks")["frameworks"]
        assert (info["failover_timeout"], info["checkpoint"]) == (7 * 24 * 3600.0, True)
        assert sorted(info["capabilities"]) == ["GPU_RESOURCES", "MULTI_ROLE", "PARTITION_AWARE"]


def test_a_master_that_comes_back_finds_our_tasks_running(tmp_path: Path) -> None:
    """Silence after a failover is no loss: running tasks are reported with their agent, under the same id."""
    with mesos_and_framework(tmp_path) as (mesos, framework):
        offer = framework.wait(ev.OffersReceived).offers[0]
        framework.launch(offer, task("job-1.0", offer.ports[0][0]), script="sleep 600")
        framework.until("job-1.0", "running")
        before = framework.link.framework_id
        mesos.fault("restart_master", away_seconds=0.2, agents_after_seconds=0.5)
        framework.wait(ev.Disconnected)
        framework.wait(ev.Subscribed)
        assert framework.link.framework_id == before
        framework.link.execute(cmd.Reconcile(1, (("job-1.0", offer.vm.id),)), undescribed)
        framework.until("job-1.0", "running")


def test_an_agent_that_is_lost_and_comes_back_tells_of_its_tasks(tmp_path: Path) -> None:
    """Out of reach at first, running again later: so nothing is taken for dead that is not."""
    with (
        running(tmp_path / "work", agent_ping_timeout=0.1, max_agent_ping_timeouts=2) as mesos,
        Framework(mesos.address) as framework,
    ):
        offer = framework.wait(ev.OffersReceived).offers[0]
        framework.launch(offer, task("job-1.0", offer.ports[0][0]), script="sleep 600")
        framework.until("job-1.0", "running")
        mesos.fault("kill_agent", agent=offer.vm.name)
        framework.until("job-1.0", "unreachable")
        assert framework.wait(ev.VmLost).vm_id == offer.vm.id
        mesos.fault("start_agent", agent=offer.vm.name)
        assert framework.until("job-1.0", "running").reason == "agent_reregistered"


def test_an_agent_without_a_connection_is_told_as_closed_until_it_is_back(tmp_path: Path) -> None:
    """Before the master gives it up, which takes minutes: since when, the same at every look."""
    with mesos_and_framework(tmp_path) as (mesos, framework):
        offer = framework.wait(ev.OffersReceived).offers[0]
        mesos.fault("kill_agent", agent=offer.vm.name)
        framework.link.measure(PATIENCE)
        ((vm_id, why),) = framework.measured.closed
        assert vm_id == offer.vm.id
        assert why.startswith(
            "accepts no new tasks: its agent has lost its connection to the master since 20"
        )
        assert framework.link._read_agents() == replace(framework.measured, at=0.0)
        assert offer.vm.id in {vm.id for vm in framework.measured.vms}
        mesos.fault("start_agent", agent=offer.vm.name)
        until(lambda: not framework.measured.closed, "it is offered, so the master is asked")


def test_a_launch_that_got_lost_is_found_to_be_gone(tmp_path: Path) -> None:
    """The master answered 202 and did nothing; asked about it with its agent, it is sure."""
    with mesos_and_framework(tmp_path) as (mesos, framework):
        offer = framework.wait(ev.OffersReceived).offers[0]
        mesos.fault("lose", what="calls", type="ACCEPT", count=1)
        framework.launch(offer, task("job-1.0", offer.ports[0][0]))
        framework.link.execute(cmd.Reconcile(1, (("job-1.0", offer.vm.id),)), undescribed)
        assert framework.wait(ev.TaskChanged).state == "gone"


def test_a_launch_on_an_offer_that_is_no_more_is_dropped(tmp_path: Path) -> None:
    """The word that the offer was taken back got lost; the master's answer to the launch is heard."""
    with mesos_and_framework(tmp_path) as (mesos, framework):
        offer = framework.wait(ev.OffersReceived).offers[0]
        mesos.fault("lose", what="events", type="RESCIND", count=1)
        mesos.fault("shutdown_agent", agent=offer.vm.name)
        framework.launch(offer, task("job-1.0", offer.ports[0][0]))
        assert framework.wait(ev.TaskChanged).state in ("dropped", "lost")


def test_all_that_the_master_knows_is_told_when_asked(tmp_path: Path) -> None:
    """An empty question is about all tasks, so that forgotten ones turn up."""
    with mesos_and_framework(tmp_path) as (_, framework):
        offer = framework.wait(ev.OffersReceived).offers[0]
        framework.launch(offer, task("job-1.0", offer.ports[0][0]), script="sleep 600")
        framework.until("job-1.0", "running")
        framework.link.execute(cmd.Reconcile(1, ()), undescribed)
        assert framework.wait(ev.TaskChanged).task_id == "job-1.0"


def test_a_call_that_the_master_refuses_raises_nothing(tmp_path: Path) -> None:
    """A 400 is logged; the link goes on, and the launched tasks are found to be gone."""
    with mesos_and_framework(tmp_path) as (_, framework):
        offer = framework.wait(ev.OffersReceived).offers[0]
        launch = cmd.Launch(1, offer.vm, (offer.id,), ("job-1.0",))
        wanted = replace(task("job-1.0", offer.ports[0][0]), vm_id=offer.vm.id)
        framework.link.execute(launch, lambda _: (wanted, ProcessSpec(("true",), {}, {}), 5))  # type: ignore[arg-type, return-value]  # no name
        framework.link.execute(cmd.Reconcile(1, (("job-1.0", offer.vm.id),)), undescribed)
        assert framework.wait(ev.TaskChanged).state == "gone"
        assert framework.link.subscribed


def test_a_loss_is_told_once(tmp_path: Path) -> None:
    """Where pymesos calls back two or three times for one cut, the model hears of it once."""
    with mesos_and_framework(tmp_path) as (mesos, framework):
        framework.wait(ev.OffersReceived)
        for _ in range(3):
            mesos.fault("drop_stream")
            framework.wait(ev.Disconnected)
            framework.wait(ev.Subscribed)
        framework.wait(ev.OffersReceived)
    assert framework.kinds.count(ev.Disconnected) == 3


def test_a_fault_of_ours_ends_no_task(tmp_path: Path) -> None:
    """An exception in a callback ends the thread of pymesos; it neither tears down nor ends the link."""
    with mesos_and_framework(tmp_path) as (mesos, framework):
        offer = framework.wait(ev.OffersReceived).offers[0]
        framework.launch(offer, task("job-1.0", offer.ports[0][0]), script="sleep 600")
        framework.until("job-1.0", "running")
        framework.fails = True
        mesos.fault("kill_executor", task_id="job-1.0")
        until(lambda: "no room" in framework.link.state, "the fault is told")
        framework.fails = False
        framework.wait(ev.Subscribed)
        framework.until("job-1.0", "failed")
        assert not mesos.get("/master/frameworks")["completed_frameworks"]


def test_importing_it_changes_nothing_of_the_process() -> None:
    """Left alone, pymesos would take SIGINT over and log to stderr."""
    code = (
        "import signal; before = signal.getsignal(signal.SIGINT); import framework.mesos.session, pymesos; "
        "assert signal.getsignal(signal.SIGINT) is before; assert not pymesos.logger.handlers"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


# pymesos leaves the socket that it did not get to use to the garbage collector.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_master_that_cannot_be_found_is_tried_again() -> None:
    """A name that nobody resolves ends pymesos' thread before it has a connection; the link notices."""
    with Framework("no-such-host.invalid:5050", call_timeout=3600.0) as framework:
        until(lambda: "trying again" in framework.link.state, "it gave up")
        assert set(framework.kinds) == {ev.Disconnected}, "why there is no connection is told, and no more"
    gc.collect()


def test_the_right_secret_is_let_in(tmp_path: Path) -> None:
    """Principal and secret authenticate the framework."""
    with (
        running(tmp_path / "work", credentials={"stoker": "right"}) as mesos,
        Framework(mesos.address, principal="stoker", secret="right") as framework,
    ):
        framework.wait(ev.Subscribed)


def test_a_moment_without_threads_is_not_the_last_try(monkeypatch: pytest.MonkeyPatch) -> None:
    """A job may leave none for a new connection; the link makes one later, and tells why it has none."""
    start, lacking, states = Session.start, [1, 2], list[str]()

    def failing(session: Session) -> None:
        if lacking:
            raise RuntimeError(f"can't start new thread {lacking.pop()}")
        states.append(framework.link.state)
        start(session)

    monkeypatch.setattr(Session, "start", failing)
    with Framework(f"127.0.0.1:{free_port()}") as framework:
        until(lambda: states, "it gave up")
        assert "can't start new thread" in states[0]
        until(lambda: "trying again" in framework.link.state, "it gave up")


def test_a_master_that_is_not_there_is_waited_for(tmp_path: Path) -> None:
    """Nobody listens: no exception, no busy loop, a state in words."""
    with Framework(f"127.0.0.1:{free_port()}") as framework:
        deadline = time.monotonic() + PATIENCE
        while "trying again" not in framework.link.state:
            assert time.monotonic() < deadline, framework.link.state
            time.sleep(0.02)
        assert not framework.link.subscribed


def test_a_master_without_leader_is_not_asked_in_a_loop() -> None:
    """503 over and over, to which pymesos alone comes back at once, costs a few connections and no more."""
    accepted = 0
    answer = b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n"
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0.1)
        with Framework(f"127.0.0.1:{server.getsockname()[1]}") as framework:
            end = time.monotonic() + 2.0
            while time.monotonic() < end:
                try:
                    connection, _ = server.accept()
                except TimeoutError:
                    continue
                with connection:
                    accepted += 1
                    connection.recv(65536)
                    connection.sendall(answer)
            assert not framework.link.subscribed
    assert 1 <= accepted <= 10


def test_what_was_decided_under_an_earlier_subscription_is_not_said_on_a_later_one(tmp_path: Path) -> None:
    """Its offers are others, and a SUPPRESS would silence them; kills and questions mean the same on both."""
    with mesos_and_framework(tmp_path) as (mesos, framework):
        first = framework.wait(ev.Subscribed).subscription
        offer = framework.wait(ev.OffersReceived).offers[0]
        framework.launch(offer, task("job-1.0", offer.ports[0][0]), script="sleep 600")
        framework.until("job-1.0", "running")
        mesos.fault("drop_stream")
        second = framework.wait(ev.Subscribed).subscription
        assert second == first + 1
        offer = framework.wait(ev.OffersReceived).offers[0]
        before = mesos.get("/frameworks")["frameworks"][0]["offers"]
        assert offer.id in {known["id"] for known in before}
        launch = cmd.Launch(1, offer.vm, (offer.id,), ("job-2.0",))
        for command in (cmd.Suppress(1), cmd.Decline(1, (offer.id,), 60.0), launch):
            framework.link.execute(command, undescribed, first)
        assert "decided under an earlier connection" in framework.until("job-2.0", "dropped").message
        framework.link.execute(cmd.Reconcile(1, (("job-1.0", offer.vm.id),)), undescribed, first)
        framework.until("job-1.0", "running")
        framework.link.execute(cmd.KillTask(1, "job-1.0", offer.vm.id), undescribed, first)
        framework.until("job-1.0", "killed")
        assert mesos.get("/frameworks")["frameworks"][0]["offers"][: len(before)] == before
        framework.link.execute(cmd.Decline(1, (offer.id,), 60.0), undescribed, second)
        until(lambda: mesos.get("/frameworks")["frameworks"][0]["offers"] != before, "it is declined")


def test_a_master_is_called_by_its_address_without_what_is_secret() -> None:
    """Also where it is found through ZooKeeper without a password."""
    for master, name in (
        ("zk://a:1,b:2/mesos", "the leading master of zk://a:1,b:2/mesos"),
        ("zoo://me:hush@a:1/mesos", "the leading master of zoo://a:1/mesos"),
        ("a:5050", "a:5050"),
    ):
        link = MasterLink(SessionOptions(master=master), lambda *_: None, None)
        assert link.state == f"connecting to {name}"
