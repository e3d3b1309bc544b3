"""Every state and reason seen from a real master, and the consequences for executor and job."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from environment.model.messages.commands import KillTask
from framework.mesos.translate import task_changed_from_json
from tests.builders import make_job, make_vms
from tests.environment.two_worlds.world import World

RECORDINGS = Path(__file__).parents[3] / "../shared/mesos-wire"

#: (state, reason): what the executor is then, what its job, and does it count towards the job's failure?
MEANINGS = {
    ("STAGING", "RECONCILIATION"): ("running", "running", False),
    ("STARTING", ""): ("running", "running", False),
    ("STARTING", "RECONCILIATION"): ("running", "running", False),
    ("RUNNING", ""): ("running", "running", False),
    ("RUNNING", "AGENT_REREGISTERED"): ("running", "running", False),
    ("RUNNING", "RECONCILIATION"): ("running", "running", False),
    ("RUNNING", "TASK_CHECK_STATUS_UPDATED"): ("running", "running", False),
    ("RUNNING", "TASK_HEALTH_CHECK_STATUS_UPDATED"): ("running", "running", False),
    # It may still run, so it is waited for.
    ("UNREACHABLE", "AGENT_REMOVED"): ("unreachable", "running", False),
    ("UNREACHABLE", "RECONCILIATION"): ("unreachable", "running", False),
    ("UNKNOWN", "RECONCILIATION"): ("unreachable", "running", False),
    # Its driver told it to stop.
    ("FINISHED", ""): ("finished", "running", False),
    # Its own doing.
    ("FAILED", ""): ("failed", "relaunching", True),
    ("FAILED", "CONTAINER_LAUNCH_FAILED"): ("failed", "relaunching", True),
    ("FAILED", "EXECUTOR_TERMINATED"): ("failed", "relaunching", True),
    ("FAILED", "MAX_COMPLETION_TIME_REACHED"): ("failed", "relaunching", True),
    ("ERROR", "TASK_INVALID"): ("lost", "relaunching", True),
    ("ERROR", "TASK_GROUP_INVALID"): ("lost", "relaunching", True),
    ("KILLED", ""): ("killed", "relaunching", True),
    ("KILLED", "TASK_KILLED_DURING_LAUNCH"): ("killed", "relaunching", True),
    # The cluster's doing.
    ("KILLED", "AGENT_DRAINING"): ("lost", "relaunching", False),
    ("KILLED", "FRAMEWORK_REMOVED"): ("lost", "relaunching", False),
    ("LOST", "AGENT_DISCONNECTED"): ("lost", "relaunching", False),
    ("LOST", "AGENT_REMOVED"): ("lost", "relaunching", False),
    ("LOST", "EXECUTOR_TERMINATED"): ("lost", "relaunching", False),
    ("LOST", "INVALID_OFFERS"): ("lost", "relaunching", False),
    ("LOST", "RECONCILIATION"): ("lost", "relaunching", False),
    ("DROPPED", "INVALID_OFFERS"): ("lost", "relaunching", False),
    ("GONE", "RECONCILIATION"): ("lost", "relaunching", False),
    ("GONE_BY_OPERATOR", "AGENT_DRAINING"): ("lost", "relaunching", False),
    ("GONE_BY_OPERATOR", "AGENT_REMOVED_BY_OPERATOR"): ("lost", "relaunching", False),
    ("GONE_BY_OPERATOR", "RECONCILIATION"): ("lost", "relaunching", False),
}


def status(state: str, reason: str) -> dict[str, Any]:
    """An update about the first executor of the job."""
    told = {"task_id": {"value": "job-1.0"}, "state": f"TASK_{state}", "agent_id": {"value": "id-vm-1"}}
    return {**told, "reason": f"REASON_{reason}"} if reason else told


@pytest.mark.parametrize(("state", "reason"), MEANINGS, ids=lambda word: word or "no-reason")
def test_an_update_means_one_thing(state: str, reason: str) -> None:
    """Told of a running executor, and told again, it leads to the states of the table."""
    world = World(make_vms(3))
    world.run(make_job(executors=2))
    for _ in range(2):
        world.send(task_changed_from_json(status(state, reason), world.now))
    executor, job, counts = MEANINGS[state, reason]
    task = world.model.task("job-1.0")
    assert task is not None
    assert (task.state, world.job().state, world.job().failures) == (executor, job, int(counts))


@pytest.mark.parametrize(("state", "reason"), MEANINGS, ids=lambda word: word or "no-reason")
def test_an_update_about_a_task_that_is_over_only_ever_kills(state: str, reason: str) -> None:
    """An ended task stays ended; one that turns up alive all the same is killed."""
    world = World(make_vms(3))
    world.run(make_job(executors=2))
    world.tell("gone", "job-1.0")
    before = world.job()
    commands = world.send(task_changed_from_json(status(state, reason), world.now))
    alive = state in ("STAGING", "STARTING", "RUNNING")
    assert [type(command) for command in commands] == ([KillTask] if alive else [])
    assert world.job() == before


def test_the_table_knows_all_that_was_recorded() -> None:
    """No state and reason in the recordings of a real master is missing."""
    if not RECORDINGS.is_dir():
        pytest.skip(f"the recordings of a real master are not at {RECORDINGS}")
    seen = set()
    for path in RECORDINGS.glob("*.json"):
        for told in statuses(json.loads(path.read_text())):
            seen.add((told["state"].removeprefix("TASK_"), told.get("reason", "").removeprefix("REASON_")))
    assert len(seen) > 20
    assert seen <= MEANINGS.keys()


def statuses(value: Any) -> Iterator[dict[str, Any]]:
    """All status updates in a recording."""
    if isinstance(value, dict):
        if str(value.get("state", "")).startswith("TASK_") and {"task_id", "source"} <= value.keys():
            yield value
        value = list(value.values())
    if isinstance(value, list):
        for part in value:
            yield from statuses(part)
