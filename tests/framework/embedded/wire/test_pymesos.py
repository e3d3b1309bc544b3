"""Unmodified pymesos drives the embedded Mesos: the whole main path."""

import queue
import time
from pathlib import Path
from typing import Any

import pytest

from framework.http_parser import install
from tests.framework.embedded.running import Json, Mesos, running, scalar, task
from tests.waiting import PATIENCE

install()

from pymesos import MesosSchedulerDriver, Scheduler  # noqa: E402 (needs the parser)


class Recorder(Scheduler):  # type: ignore[misc]  # pymesos is not typed
    """Puts every callback that matters into a queue, as (name, value)."""

    def __init__(self) -> None:
        self.queue: queue.Queue[tuple[str, Any]] = queue.Queue()

    def registered(self, driver: Any, framework_id: Json, master_info: Json) -> None:
        """Subscribed for the first time."""
        self.queue.put(("registered", framework_id["value"]))

    def reregistered(self, driver: Any, master_info: Json) -> None:
        """Subscribed again."""
        self.queue.put(("reregistered", master_info["version"]))

    def resourceOffers(self, driver: Any, offers: list[Json]) -> None:  # noqa: N802 (pymesos' name)
        """Offers."""
        self.queue.put(("offers", offers))

    def statusUpdate(self, driver: Any, update: Json) -> None:  # noqa: N802 (pymesos' name)
        """A status update."""
        self.queue.put((update["state"], update))

    def processHeartBeat(self, driver: Any) -> None:  # noqa: N802 (pymesos' name)
        """A heartbeat."""
        self.queue.put(("heartbeat", None))

    def error(self, driver: Any, message: str) -> None:
        """An ERROR event."""
        self.queue.put(("error", message))

    def wait(self, name: str) -> Any:
        """The value of the next callback of that name; others are passed over."""
        deadline = time.monotonic() + PATIENCE  # heartbeats must not prolong it
        while True:
            got, value = self.queue.get(timeout=deadline - time.monotonic())
            if got == name:
                return value


def connect(mesos: Mesos, framework: Json | None = None, **options: Any) -> tuple[Any, Recorder]:
    """Start a driver."""
    recorder = Recorder()
    info = framework or {
        "user": "root",
        "name": "py",
        "roles": ["r"],
        "capabilities": [{"type": "MULTI_ROLE"}],
    }
    driver = MesosSchedulerDriver(recorder, info, mesos.address, **options)
    driver.start()
    return driver, recorder


def stop(driver: Any, *, failover: bool = False) -> None:
    """Stop a driver, with TEARDOWN unless it fails over."""
    driver.stop(failover)
    driver.join()


def on(offer: Json, info: Json) -> Json:
    """A task for the agent of an offer."""
    return info | {"agent_id": offer["agent_id"]}


def test_main_path(tmp_path: Path) -> None:
    """Subscribe, launch a fractional task, see it end, get the remainder and the rest back."""
    until_told = "until [ -e told ]; do sleep 0.05; done"
    with running(tmp_path, allocation_interval=0.05) as mesos:
        driver, recorder = connect(mesos)
        assert recorder.wait("registered")
        first, *rest = recorder.wait("offers")
        assert len(rest) == 2
        driver.launchTasks(
            first["id"], [on(first, task("t", f"echo hi; {until_told}", cpus=1.37))], {"refuse_seconds": 0}
        )
        # The rest of the VM is offered before the task runs, or after that.
        came: dict[str, Any] = {}
        while not came.keys() >= {"TASK_STARTING", "TASK_RUNNING", "offers"}:
            came.update([recorder.queue.get(timeout=PATIENCE)])
        assert came["TASK_STARTING"]["source"] == "SOURCE_EXECUTOR"
        (remainder,) = came["offers"]
        assert scalar(remainder, "cpus") == 2.63
        (mesos.sandbox("t") / "told").touch()
        assert recorder.wait("TASK_FINISHED")["message"] == "Command exited with status 0"
        (returned,) = recorder.wait("offers")
        assert scalar(returned, "cpus") == 1.37
        assert (mesos.sandbox("t") / "stdout").read_text() == "hi\n"
        stop(driver)


def test_decline_suppress_revive(tmp_path: Path) -> None:
    """A refused offer stays away until its time is over or REVIVE; SUPPRESS stops all offers."""
    with running(tmp_path, allocation_interval=0.05) as mesos:
        driver, recorder = connect(mesos)
        offers = recorder.wait("offers")
        driver.declineOffer([offer["id"] for offer in offers], {"refuse_seconds": 600})
        driver.reviveOffers()
        again = recorder.wait("offers")
        assert len(again) == 3
        driver.suppressOffers()
        driver.declineOffer([offer["id"] for offer in again], {"refuse_seconds": 0})
        driver.launchTasks([again[0]["id"]], [on(again[0], task("late"))])
        recorder.wait("TASK_LOST")
        assert not mesos.get("/state")["frameworks"][0]["offered_resources"]["cpus"]
        driver.reviveOffers()
        assert len(recorder.wait("offers")) == 3
        stop(driver)


def test_kill_and_reconcile(tmp_path: Path) -> None:
    """A running task is told of when asked, and killed."""
    with running(tmp_path) as mesos:
        driver, recorder = connect(mesos)
        offer = recorder.wait("offers")[0]
        driver.launchTasks(offer["id"], [on(offer, task("t", "sleep 1000"))])
        recorder.wait("TASK_RUNNING")
        driver.reconcileTasks([{"task_id": {"value": "t"}}])
        assert recorder.wait("TASK_RUNNING")["reason"] == "REASON_RECONCILIATION"
        driver.reconcileTasks([])
        assert recorder.wait("TASK_RUNNING")["reason"] == "REASON_RECONCILIATION"
        driver.killTask({"value": "t"})
        assert recorder.wait("TASK_KILLED")["message"] == "Command terminated with signal Terminated"
        stop(driver)


def test_failover_keeps_tasks(tmp_path: Path) -> None:
    """A stopped framework comes back under its id and finds its task running."""
    framework = {"user": "root", "name": "fo", "role": "r", "failover_timeout": 600.0}
    with running(tmp_path) as mesos:
        driver, recorder = connect(mesos, framework)
        framework_id = recorder.wait("registered")
        offer = recorder.wait("offers")[0]
        driver.launchTasks(offer["id"], [on(offer, task("t", "sleep 1000"))])
        recorder.wait("TASK_RUNNING")
        stop(driver, failover=True)
        driver, recorder = connect(mesos, framework | {"id": {"value": framework_id}})
        assert recorder.wait("reregistered") == "1.12.0"
        driver.reconcileTasks([])
        assert recorder.wait("TASK_RUNNING")["task_id"]["value"] == "t"
        stop(driver)
        assert mesos.get("/state")["completed_frameworks"][0]["id"] == framework_id


def test_heartbeats(tmp_path: Path) -> None:
    """Heartbeats keep coming."""
    with running(tmp_path, heartbeat_interval=0.05) as mesos:
        driver, recorder = connect(mesos)
        for _ in range(4):
            recorder.wait("heartbeat")
        stop(driver)


def test_authentication(tmp_path: Path) -> None:
    """The right principal and secret get in."""
    with running(tmp_path, credentials={"pr": "secret1"}) as mesos:
        driver, recorder = connect(mesos, principal="pr", secret="secret1")
        assert recorder.wait("registered")
        assert len(recorder.wait("offers")) == 3
        stop(driver)


def test_dropped_stream_is_taken_up_again(tmp_path: Path) -> None:
    """After a cut pymesos subscribes again, and an update that was not acknowledged comes again."""
    framework = {"user": "root", "name": "cut", "role": "r", "failover_timeout": 600.0}
    with running(tmp_path, allocation_interval=0.05) as mesos:
        driver, recorder = connect(mesos, framework, implicit_acknowledgements=False)
        offer = recorder.wait("offers")[0]
        driver.launchTasks(offer["id"], [on(offer, task("t", "true"))])
        first = recorder.wait("TASK_STARTING")
        mesos.fault("drop_stream")
        recorder.wait("reregistered")
        assert recorder.wait("TASK_STARTING") == first
        driver.acknowledgeStatusUpdate(first)
        recorder.wait("TASK_RUNNING")
        stop(driver)


@pytest.mark.parametrize(
    "path", ["/version", "/health", "/state", "/slaves", "/master/state", "/metrics/snapshot"]
)
def test_read_only_endpoints_answer(tmp_path: Path, path: str) -> None:
    """The endpoints that an operator's tools ask for are there."""
    with running(tmp_path) as mesos:
        assert mesos.request("GET", path)[0] == 200
        assert len(mesos.get("/slaves")["slaves"]) == 3
        assert mesos.get("/version")["version"] == "1.12.0"
