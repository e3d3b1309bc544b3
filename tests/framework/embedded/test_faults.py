"""The embedded Mesos misbehaves on request, and only then."""

from pathlib import Path
from typing import Any

import pytest

from tests.framework.embedded.running import Mesos, Subscription, framework_info, running, task
from tests.waiting import until

QUICK: dict[str, Any] = {
    "allocation_interval": 0.05,
    "agent_ping_timeout": 0.05,
    "max_agent_ping_timeouts": 2,
}


def durable(name: str = "durable") -> dict[str, object]:
    """A framework that outlives its connection and its agents."""
    capabilities = [{"type": "MULTI_ROLE"}, {"type": "PARTITION_AWARE"}]
    return framework_info(name, failover_timeout=600.0, checkpoint=True, capabilities=capabilities)


def test_dropped_stream_breaks_without_an_end(tmp_path: Path) -> None:
    """The connection is cut; the framework stays and may come back."""
    with running(tmp_path) as mesos, Subscription(mesos, durable()) as scheduler:
        scheduler.offers()
        mesos.fault("drop_stream", framework_id=scheduler.framework_id)
        assert scheduler.next_event() is None
        again = durable() | {"id": {"value": scheduler.framework_id}}
        with Subscription(mesos, again) as back:
            assert len(back.offers()) == 3


def test_lost_call_is_answered_but_not_done(tmp_path: Path) -> None:
    """A lost ACCEPT gets its 202, and its task is unknown."""
    with running(tmp_path) as mesos, Subscription(mesos, durable()) as scheduler:
        offer, other, _ = scheduler.offers()
        mesos.fault("lose", what="calls", type="ACCEPT", count=1)
        scheduler.launch(offer, task("lost"))
        scheduler.call("RECONCILE", {"tasks": [{"task_id": {"value": "lost"}}]})
        assert scheduler.wait("UPDATE")["status"]["state"] == "TASK_UNKNOWN"
        scheduler.launch(other, task("found"))
        scheduler.update("found", "TASK_FINISHED")


def test_lost_update_comes_again(tmp_path: Path) -> None:
    """An update that got lost is sent again, and the task goes on."""
    with running(tmp_path, update_retry=0.1) as mesos, Subscription(mesos, durable()) as scheduler:
        mesos.fault("lose", what="events", type="UPDATE", count=1)
        scheduler.launch(scheduler.offers()[0], task("t"))
        scheduler.update("t", "TASK_FINISHED")
        assert mesos.get("/stoker/faults")["losses"] == []


def test_delayed_events_keep_their_order(tmp_path: Path) -> None:
    """Delayed events come later, in the order in which they were sent."""
    with running(tmp_path) as mesos, Subscription(mesos, durable()) as scheduler:
        offers = scheduler.offers()
        mesos.fault("delay", what="events", seconds=0.2)
        scheduler.launch(offers[0], task("t", "sleep 600"))
        mesos.fault("delay", what="calls", seconds=0.05)
        scheduler.call("RECONCILE", {"tasks": [{"task_id": {"value": "ghost"}}]})
        mesos.fault("reset")
        scheduler.update("t", "TASK_STARTING", acknowledge=False)
        scheduler.update("ghost", "TASK_UNKNOWN")


def test_killed_agent_comes_back_with_its_tasks(tmp_path: Path) -> None:
    """Silence makes the task unreachable; the agent's return brings it back; its end is told then."""
    with running(tmp_path, **QUICK) as mesos, Subscription(mesos, durable()) as scheduler:
        offer = scheduler.offers()[0]
        go = tmp_path / "go"
        scheduler.launch(offer, task("t", f"until test -e {go}; do sleep 0.01; done; exit 3"))
        scheduler.update("t", "TASK_RUNNING")
        mesos.fault("kill_agent", agent=offer["hostname"])
        scheduler.update("t", "TASK_UNREACHABLE")
        assert scheduler.wait("FAILURE") == {"agent_id": offer["agent_id"]}
        mesos.fault("start_agent", agent=offer["hostname"])
        back = scheduler.update("t", "TASK_RUNNING")
        assert back["reason"] == "REASON_AGENT_REREGISTERED"
        go.touch()
        assert scheduler.update("t", "TASK_FAILED")["message"] == "Command exited with status 3"


def test_task_that_ends_while_its_agent_is_down_is_told_of_later(tmp_path: Path) -> None:
    """The end is told when the agent is back, and the resources are offered again."""
    with running(tmp_path, allocation_interval=0.05) as mesos, Subscription(mesos, durable()) as scheduler:
        offer = scheduler.offers()[0]
        scheduler.launch(offer, task("t", "sleep 0.2; touch ended", cpus=4.0))
        scheduler.update("t", "TASK_RUNNING")
        mesos.fault("kill_agent", agent=offer["hostname"])
        until(lambda: (mesos.sandbox("t") / "ended").exists(), "the task ends")
        mesos.fault("start_agent", agent=offer["hostname"])
        scheduler.update("t", "TASK_FINISHED")
        assert any(o["hostname"] == offer["hostname"] for o in scheduler.offers())


def test_agent_without_checkpointing_takes_its_tasks_along(tmp_path: Path) -> None:
    """A killed agent's tasks of frameworks without checkpointing are lost, and their processes end."""
    info = framework_info(failover_timeout=600.0)
    with running(tmp_path) as mesos, Subscription(mesos, info) as scheduler:
        offer = scheduler.offers()[0]
        scheduler.launch(offer, task("t", "echo $$ > pid; exec sleep 600"))
        scheduler.update("t", "TASK_RUNNING")
        until(lambda: bool(pid_of(mesos)), "the task tells its pid")
        pid = pid_of(mesos)
        mesos.fault("kill_agent", agent=offer["hostname"])
        assert scheduler.update("t", "TASK_LOST")["reason"] == "REASON_AGENT_DISCONNECTED"
        until(lambda: not Path(f"/proc/{pid}").exists(), "the process ends")


def pid_of(mesos: Mesos) -> str:
    """The process id that task `t` wrote into its file `pid`; empty if there is no such file."""
    file = mesos.sandbox("t") / "pid"
    return file.read_text().strip() if file.exists() else ""


def test_restarted_master_finds_tasks_again(tmp_path: Path) -> None:
    """An empty master takes the framework back under its id, and its task when the agents return."""
    with running(tmp_path) as mesos, Subscription(mesos, durable()) as scheduler:
        scheduler.launch(scheduler.offers()[0], task("t", "sleep 600"))
        scheduler.update("t", "TASK_RUNNING")
        mesos.fault("restart_master", away_seconds=0.1, agents_after_seconds=0.2)
        assert scheduler.next_event() is None
        until(lambda: answers(mesos), "the master is back")
        again = durable() | {"id": {"value": scheduler.framework_id}}
        with Subscription(mesos, again) as back:
            assert back.framework_id == scheduler.framework_id
            status = back.update("t", "TASK_RUNNING")
            assert status["message"] == "Unknown agent reregistered"


def answers(mesos: Mesos) -> bool:
    """Whether the master takes connections."""
    try:
        return mesos.request("GET", "/health")[0] == 200
    except ConnectionError:
        return False


@pytest.mark.parametrize(
    ("body", "complaint"),
    [
        ({"fault": "nosuch"}, "Unknown fault 'nosuch'"),
        ({}, "Unknown fault None"),
        ({"fault": "kill_agent", "agent": "nosuch"}, "No agent 'nosuch'"),
        ({"fault": "delay", "what": "events", "seconds": -1}, "'seconds' must be a number"),
        ({"fault": "lose", "what": "cats"}, "'what' must be one of calls, events"),
        ({"fault": "kill_executor", "task_id": "x"}, "No running command task 'x'"),
        ({"fault": "drop_stream", "framework_id": "x"}, "No framework 'x'"),
        ([], "Expecting a JSON object"),
    ],
)
def test_wrong_wishes_are_explained(tmp_path: Path, body: object, complaint: str) -> None:
    """The answer to an invalid fault request explains the error."""
    with running(tmp_path) as mesos:
        status, text = mesos.request("POST", "/stoker/faults", body)
        assert status == 400
        assert text.startswith(complaint)
