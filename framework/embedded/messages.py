"""Messages between master, agents and frameworks: statuses, updates, events. Values only."""

import base64
import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

Json = dict[str, Any]

TERMINAL = frozenset(
    {
        "TASK_FINISHED",
        "TASK_FAILED",
        "TASK_KILLED",
        "TASK_ERROR",
        "TASK_LOST",
        "TASK_DROPPED",
        "TASK_GONE",
        "TASK_GONE_BY_OPERATOR",
    }
)


@dataclass(frozen=True, slots=True)
class StatusUpdate:
    """One `TaskStatus` on its way from an agent, with the newest state that the agent knows of the task."""

    framework_id: str
    task_id: str
    status: Json
    latest_state: str


@dataclass(frozen=True, slots=True)
class TaskReport:
    """A returning agent's report of one task; the resources as `Resource` messages."""

    framework_id: str
    task: Json
    state: str
    executor_id: str
    container_status: Json | None


def new_uuid() -> str:
    """A random UUID as the base64 text that updates carry."""
    return base64.b64encode(uuid.uuid4().bytes).decode()


def status(task_id: str, state: str, *, source: str, agent_id: str | None = None, **fields: Any) -> Json:
    """A `TaskStatus`; fields that are None are left out, the order is that of a master."""
    result: Json = {"task_id": {"value": task_id}, "state": state}
    if fields.get("message") is not None:
        result["message"] = fields.pop("message")
    result["source"] = source
    if fields.get("reason") is not None:
        result["reason"] = fields.pop("reason")
    if agent_id is not None:
        result["agent_id"] = {"value": agent_id}
    if fields.get("executor_id") is not None:
        result["executor_id"] = {"value": fields.pop("executor_id")}
    result["timestamp"] = time.time()
    return result | {name: value for name, value in fields.items() if value is not None}


def master_status(task_id: str, state: str, **fields: Any) -> Json:
    """A `TaskStatus` that the master makes itself: no uuid, nothing to acknowledge."""
    return status(task_id, state, source="SOURCE_MASTER", **fields)


def update_event(task_status: Json) -> Json:
    """An UPDATE event."""
    return {"type": "UPDATE", "update": {"status": task_status}}


def offers_event(offers: list[Json]) -> Json:
    """An OFFERS event."""
    return {"type": "OFFERS", "offers": {"offers": offers}}


def rescind_event(offer_id: str) -> Json:
    """A RESCIND event."""
    return {"type": "RESCIND", "rescind": {"offer_id": {"value": offer_id}}}


def error_event(message: str) -> Json:
    """An ERROR event."""
    return {"type": "ERROR", "error": {"message": message}}


def failure_event(agent_id: str, executor_id: str | None = None, wait_status: int | None = None) -> Json:
    """A FAILURE event of an agent, or of an executor with its wait status."""
    failure: Json = {"agent_id": {"value": agent_id}}
    if executor_id is not None:
        failure |= {"executor_id": {"value": executor_id}, "status": wait_status}
    return {"type": "FAILURE", "failure": failure}


HEARTBEAT: Mapping[str, str] = {"type": "HEARTBEAT"}
