"""The v1 operator API, as far as it makes sense without reservations, quotas and maintenance."""

import time
from collections.abc import Callable

from framework.embedded.master import state_views
from framework.embedded.master.calls import CallError, parse_operator_call
from framework.embedded.master.http_server import Response, json_response, text_response
from framework.embedded.master.master import Master
from framework.embedded.master.offers import attributes
from framework.embedded.master.state import VERSION, AgentRecord, Framework, TaskState
from framework.embedded.resource_messages import Json, to_json, total

_NANO = 1e9
_EMPTY_ANSWERS: dict[str, Json] = {
    "GET_LOGGING_LEVEL": {"get_logging_level": {"level": 0}},
    "GET_WEIGHTS": {},
    "GET_QUOTA": {"get_quota": {"status": {}}},
    "GET_MAINTENANCE_STATUS": {"get_maintenance_status": {"status": {}}},
    "GET_MAINTENANCE_SCHEDULE": {"get_maintenance_schedule": {"schedule": {}}},
    "GET_OPERATIONS": {"get_operations": {}},
}


class OperatorApi:
    """Answers the operator calls to one master."""

    def __init__(self, master: Master) -> None:
        self._master = master
        self._state = master.state
        self._queries: dict[str, Callable[[], Json]] = {
            "GET_HEALTH": lambda: {"healthy": True},
            "GET_VERSION": lambda: {"version_info": state_views.version()},
            "GET_FLAGS": self._flags,
            "GET_METRICS": self._metrics,
            "GET_MASTER": self._get_master,
            "GET_AGENTS": self._agents,
            "GET_FRAMEWORKS": self._frameworks,
            "GET_EXECUTORS": self._executors,
            "GET_TASKS": self._tasks,
            "GET_ROLES": self._roles,
            "GET_STATE": self._get_state,
        }

    def handle(self, body: bytes) -> Response:
        """Answer one call."""
        try:
            kind, message = parse_operator_call(body)
        except CallError as error:
            return text_response(400, str(error))
        if kind in self._queries:
            return json_response({"type": kind, kind.lower(): self._queries[kind]()})
        if kind in _EMPTY_ANSWERS:
            return json_response({"type": kind} | _EMPTY_ANSWERS[kind])
        return self._act(kind, message)

    def _act(self, kind: str, message: Json) -> Response:
        if kind == "TEARDOWN":
            return teardown(self._master, message["framework_id"]["value"])
        if kind == "MARK_AGENT_GONE":
            return self._mark_gone(message["agent_id"]["value"])
        if kind in {"DEACTIVATE_AGENT", "REACTIVATE_AGENT"}:
            return self._set_deactivated(message["agent_id"]["value"], kind == "DEACTIVATE_AGENT")
        return text_response(501, f"{kind} is not part of the embedded Mesos")

    def _mark_gone(self, agent_id: str) -> Response:
        if agent_id in self._state.gone or self._master.agents.mark_gone(agent_id):
            return Response(200)
        return text_response(404, f"Agent '{agent_id}' not found")

    def _set_deactivated(self, agent_id: str, deactivated: bool) -> Response:
        agent = self._state.agents.get(agent_id)
        if agent is None:
            return text_response(400, "Unknown agent")
        if not deactivated and not agent.deactivated:
            return text_response(400, "Agent is not deactivated")
        self._master.agents.set_deactivated(agent, deactivated)
        return Response(200)

    def _flags(self) -> Json:
        told = state_views.flags(self._state)
        return {"flags": [{"name": name, "value": value} for name, value in told.items()]}

    def _metrics(self) -> Json:
        told = state_views.metrics(self._state)
        return {"metrics": [{"name": name, "value": told[name]} for name in sorted(told)]}

    def _get_master(self) -> Json:
        started = self._state.started_at
        info = self._master.frameworks.master_info()
        return {"master_info": info, "start_time": started, "elected_time": started}

    def _agents(self) -> Json:
        return {
            "agents": [self._agent(agent) for agent in self._state.agents.values()],
            "recovered_agents": [],
        }

    def _agent(self, agent: AgentRecord) -> Json:
        spec = agent.spec
        offered = total(o.resources for o in self._state.offers.values() if o.agent_id == agent.id)
        allocated = agent.allocated - offered
        whole = to_json(agent.total, ports_first=False)
        info = {
            "hostname": spec.name,
            "port": 5051,
            "resources": _endpoint_form(whole),
            "attributes": attributes(agent),
            "id": {"value": agent.id},
            "checkpoint": True,
        }
        result: Json = {
            "agent_info": info,
            "active": agent.connected,
            "deactivated": agent.deactivated,
            "version": VERSION,
            "pid": state_views.agent_pid(agent),
            "registered_time": _nanoseconds(agent.registered_at),
            "total_resources": whole,
            "capabilities": [{"type": name} for name in state_views.AGENT_CAPABILITIES],
        }
        if allocated:
            result["allocated_resources"] = to_json(allocated, self._role(agent))
        if offered:
            result["offered_resources"] = to_json(offered, self._role(agent))
        return result

    def _role(self, agent: AgentRecord) -> str | None:
        """The role that an agent's resources are allocated to, when it is one."""
        roles = {offer.role for offer in self._state.offers.values() if offer.agent_id == agent.id}
        roles |= {task.role for _, task in self._state.tasks_of(agent.id)}
        return roles.pop() if len(roles) == 1 else None

    def _frameworks(self) -> Json:
        present = [self._framework(framework) for framework in self._state.frameworks.values()]
        completed = [self._framework(framework) for framework in self._state.completed.values()]
        return {"frameworks": present, "completed_frameworks": completed}

    def _framework(self, framework: Framework) -> Json:
        connected = framework.stream is not None
        info = {"id": {"value": framework.id}, "checkpoint": framework.info.checkpoint}
        result: Json = {
            "framework_info": framework.info.message | info,
            "active": connected,
            "connected": connected,
            "recovered": False,
            "registered_time": _nanoseconds(framework.registered_at),
            "reregistered_time": _nanoseconds(framework.reregistered_at),
        }
        role = framework.info.roles[0] if len(framework.info.roles) == 1 else None
        used, offered = state_views.used_by(framework), state_views.offered_to(framework)
        if framework.offers:
            offers = [self._master.offers.to_json(offer) for offer in framework.offers.values()]
            result["offers"] = [o | {"resources": _endpoint_form(o["resources"])} for o in offers]
        if used:
            result["allocated_resources"] = to_json(used, role)
        if offered:
            result["offered_resources"] = to_json(offered, role)
        return result | {"offer_constraints": {}}

    def _executors(self) -> Json:
        entries = [
            {
                "agent_id": {"value": agent.id},
                "executor_info": {
                    "executor_id": {"value": executor_id},
                    "framework_id": {"value": framework_id},
                    "resources": to_json(amount),
                },
            }
            for agent in self._state.agents.values()
            for (framework_id, executor_id), amount in agent.executors.items()
        ]
        return {"executors": entries}

    def _tasks(self) -> Json:
        everything = list(state_views.all_frameworks(self._state))
        return {
            "tasks": [_task(t) for f in everything for t in f.tasks.values()],
            "unreachable_tasks": [_task(t) for f in everything for t in f.unreachable_tasks.values()],
            "completed_tasks": [_task(t) for f in everything for t in f.completed_tasks],
        }

    def _roles(self) -> Json:
        entries = []
        for role in state_views.roles(self._state)["roles"]:
            scalars = [
                {"name": name, "type": "SCALAR", "scalar": {"value": value}}
                for name, value in role["resources"].items()
                if name != "ports"
            ]
            ids = [{"value": framework_id} for framework_id in role["frameworks"]]
            if not ids and role["name"] == "*":
                continue  # it is always there for /roles, and only when used here
            entries.append({"name": role["name"], "weight": 1.0, "frameworks": ids, "resources": scalars})
        return {"roles": entries} if entries else {}

    def _get_state(self) -> Json:
        return {
            "get_tasks": self._tasks(),
            "get_executors": self._executors(),
            "get_frameworks": self._frameworks(),
            "get_agents": self._agents(),
        }


def teardown(master: Master, framework_id: str) -> Response:
    """End a framework with all of its tasks."""
    framework = master.state.frameworks.get(framework_id)
    if framework is None:
        return text_response(400, "No framework found with specified ID")
    master.frameworks.remove(framework)
    return Response(200)


def _task(task: TaskState) -> Json:
    result: Json = {
        "name": task.info["name"],
        "task_id": {"value": task.id},
        "framework_id": {"value": task.framework_id},
        "agent_id": {"value": task.agent_id},
        "state": task.state,
        "resources": _endpoint_form(to_json(task.resources, task.role, ports_first=False)),
        "statuses": task.statuses,
    }
    if task.executor_id:
        result["executor_id"] = {"value": task.executor_id}
    if task.update_state is not None:
        result |= {"status_update_state": task.update_state, "status_update_uuid": task.update_uuid}
    return result


def _endpoint_form(resources: list[Json]) -> list[Json]:
    """Resources as an agent or a framework would state them: without the role that a master adds."""
    return [{name: value for name, value in entry.items() if name != "role"} for entry in resources]


def _nanoseconds(when: float) -> Json:
    return {"nanoseconds": int((when or time.time()) * _NANO)}
