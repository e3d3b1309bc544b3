"""The operator's side of the embedded Mesos: its reports of state, and its calls."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.framework.embedded.running import Mesos, Subscription, framework_info, running, task
from tests.framework.embedded.wire.replaying import Replay

TRANSCRIPTS = Path(__file__).resolve().parents[5] / "shared" / "mesos-wire"


@contextmanager
def one_running_one_finished(folder: Path) -> Iterator[tuple[Mesos, Subscription]]:
    """Run the recordings' setup: a framework, a running task, a finished one, three offers."""
    info = framework_info("oper", failover_timeout=60.0)
    with running(folder, allocation_interval=1000.0) as mesos, Subscription(mesos, info) as scheduler:
        offer = next(offer for offer in scheduler.offers() if offer["hostname"] == "host1.example")
        scheduler.launch(offer, task("long", "sleep 600"), task("short"))
        states = {"long": "", "short": ""}
        while states != {"long": "TASK_RUNNING", "short": "TASK_FINISHED"}:
            status = scheduler.wait("UPDATE")["status"]
            scheduler.acknowledge(status)
            states[status["task_id"]["value"]] = status["state"]
        scheduler.call("REVIVE")
        scheduler.offers()
        yield mesos, scheduler


def recorded(name: str) -> list[dict[str, Any]]:
    """The steps of a recording."""
    path = TRANSCRIPTS / f"{name}.json"
    if not path.is_file():
        pytest.skip(f"the recorded sessions are not here: {path}")
    steps: list[dict[str, Any]] = json.loads(path.read_text())
    return steps


def pairs(steps: list[dict[str, Any]]) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Yield every request with its answer."""
    sent: dict[str, Any] = {}
    for step in steps:
        if "send" in step:
            sent = step
        elif "recv" in step:
            yield sent, step


def same_ids(mesos: Mesos, scheduler: Subscription, agents: list[tuple[str, str]]) -> dict[str, str]:
    """Present ids by recorded ones; `agents` are recorded ids and names."""
    present = {entry["hostname"]: entry["id"] for entry in mesos.get("/slaves")["slaves"]}
    master = agents[0][0].rpartition("-")[0]
    state = mesos.get("/state")
    return {identity: present[name] for identity, name in agents} | {
        master: state["id"],
        f"{master}-0000": scheduler.framework_id,
    }


@pytest.mark.parametrize("name", ["08a-operator-api", "08b-legacy-endpoints"])
def test_answers_are_those_of_a_real_master(name: str, tmp_path: Path) -> None:
    """Every answer has the recorded status, fields and values; only flags and metrics are fewer."""
    left_out = {"/", "/help", "/flags", "/metrics/snapshot", "GET_FLAGS", "GET_METRICS", "/slaves?jsonp=cb"}
    steps = recorded(name)
    end = next((s["t"] for s in steps if s.get("note") == "agent endpoints"), 1e9)
    kept = [
        step
        for sent, got in pairs([step for step in steps if step["t"] <= end])
        if sent["send"]["path"] not in left_out
        and not (isinstance(sent["send"].get("body"), dict) and sent["send"]["body"].get("type") in left_out)
        for step in (sent, got)
    ]
    agents = _recorded_agents(steps)
    with one_running_one_finished(tmp_path) as (mesos, scheduler):
        known = same_ids(mesos, scheduler, agents)
        ignored = frozenset({"flags", "ports"})
        replay = Replay(mesos, kept, scale=0.0, known=known, ignored=ignored)
        replay.run()
    assert not replay.problems, "\n".join(replay.problems)


def _recorded_agents(steps: list[dict[str, Any]]) -> list[tuple[str, str]]:
    for _, got in pairs(steps):
        body = got["recv"].get("body")
        if isinstance(body, dict) and body.get("type") == "GET_AGENTS":
            infos = [agent["agent_info"] for agent in body["get_agents"]["agents"]]
            return [(info["id"]["value"], info["hostname"]) for info in infos]
        if isinstance(body, dict) and "slaves" in body:
            return [(agent["id"], agent["hostname"]) for agent in body["slaves"]]
    raise AssertionError("no agents in this recording")


def test_metrics(tmp_path: Path) -> None:
    """The gauges report total and used resources, and the number of running tasks."""
    with one_running_one_finished(tmp_path) as (mesos, _):
        told = mesos.get("/metrics/snapshot")
    assert told["master/cpus_total"] == 24.0
    assert told["master/cpus_used"] == 0.5
    assert told["master/cpus_percent"] == 0.5 / 24
    assert told["master/tasks_running"] == 1.0
    assert told["master/outstanding_offers"] == 3.0
    assert told["master/elected"] == 1.0


def operate(mesos: Mesos, kind: str, agent_id: str) -> tuple[int, Any]:
    """Make an operator call about an agent."""
    body = {"type": kind, kind.lower(): {"agent_id": {"value": agent_id}}}
    return mesos.request("POST", "/api/v1", body)


def test_deactivated_agent_is_not_offered(tmp_path: Path) -> None:
    """Deactivation takes the offer back, reactivation makes a new one; wrong calls are refused."""
    with running(tmp_path) as mesos, Subscription(mesos, framework_info()) as scheduler:
        offer = scheduler.offers()[0]
        agent_id = offer["agent_id"]["value"]
        assert operate(mesos, "DEACTIVATE_AGENT", agent_id)[0] == 200
        assert scheduler.wait("RESCIND")["offer_id"] == offer["id"]
        assert operate(mesos, "REACTIVATE_AGENT", agent_id)[0] == 200
        assert scheduler.offers()[0]["agent_id"]["value"] == agent_id
        assert operate(mesos, "REACTIVATE_AGENT", agent_id) == (400, "Agent is not deactivated")
        assert operate(mesos, "DEACTIVATE_AGENT", "nosuch") == (400, "Unknown agent")


def test_agent_marked_gone(tmp_path: Path) -> None:
    """Its tasks are gone by the operator, and stay so when asked for."""
    info = framework_info(capabilities=[{"type": "MULTI_ROLE"}, {"type": "PARTITION_AWARE"}])
    with running(tmp_path) as mesos, Subscription(mesos, info) as scheduler:
        offer = scheduler.offers()[0]
        agent_id = offer["agent_id"]["value"]
        scheduler.launch(offer, task("t", "sleep 600"))
        scheduler.update("t", "TASK_RUNNING")
        assert operate(mesos, "MARK_AGENT_GONE", agent_id)[0] == 200
        status = scheduler.update("t", "TASK_GONE_BY_OPERATOR")
        assert status["message"] == "Agent has been marked gone"
        assert status["reason"] == "REASON_AGENT_REMOVED_BY_OPERATOR"
        assert scheduler.wait("FAILURE") == {"agent_id": {"value": agent_id}}
        assert operate(mesos, "MARK_AGENT_GONE", agent_id)[0] == 200
        assert operate(mesos, "MARK_AGENT_GONE", "nosuch") == (404, "Agent 'nosuch' not found")
        asked = {"tasks": [{"task_id": {"value": "t"}, "agent_id": {"value": agent_id}}]}
        scheduler.call("RECONCILE", asked)
        assert scheduler.wait("UPDATE")["status"]["message"] == "Reconciliation: Task is gone"


def test_operator_tears_a_framework_down(tmp_path: Path) -> None:
    """The stream ends, and the id is never taken again."""
    with running(tmp_path) as mesos, Subscription(mesos, framework_info(failover_timeout=60.0)) as scheduler:
        scheduler.offers()
        body = {"type": "TEARDOWN", "teardown": {"framework_id": {"value": scheduler.framework_id}}}
        assert mesos.request("POST", "/api/v1", body)[0] == 200
        assert scheduler.next_event() is None
        again = framework_info(id={"value": scheduler.framework_id})
        with Subscription(mesos, again) as late:
            assert late.seen == [{"type": "ERROR", "error": {"message": "Framework has been removed"}}]
