"""A master's state in its read-only endpoints: `/state`, `/slaves`, `/metrics/snapshot`, ... Pure."""

import time
from collections import Counter
from collections.abc import Iterable, Iterator

from framework.embedded.master.offers import AGENT_PORT
from framework.embedded.master.state import (
    VERSION,
    AgentRecord,
    Framework,
    MasterState,
    OutstandingOffer,
    TaskState,
)
from framework.embedded.resource_messages import EMPTY, Amount, Json, legacy, to_json, total

MASTER_CAPABILITIES = ("AGENT_UPDATE", "AGENT_DRAINING", "QUOTA_V2")
AGENT_CAPABILITIES = (
    "MULTI_ROLE",
    "HIERARCHICAL_ROLE",
    "RESERVATION_REFINEMENT",
    "RESOURCE_PROVIDER",
    "RESIZE_VOLUME",
    "AGENT_OPERATION_FEEDBACK",
    "AGENT_DRAINING",
    "TASK_RESOURCE_LIMITS",
)
_SUMMARISED = frozenset(
    {
        "id",
        "name",
        "used_resources",
        "offered_resources",
        "capabilities",
        "hostname",
        "webui_url",
        "active",
        "connected",
        "recovered",
    }
)
_COUNTED_STATES = (
    "TASK_STAGING",
    "TASK_STARTING",
    "TASK_RUNNING",
    "TASK_KILLING",
    "TASK_FINISHED",
    "TASK_KILLED",
    "TASK_FAILED",
    "TASK_LOST",
    "TASK_ERROR",
    "TASK_UNREACHABLE",
)


def version() -> Json:
    """`/version`; plain digits only, which pymesos insists on."""
    return {
        "build_date": "2024-08-23 00:00:00 UTC",
        "build_time": 1724371200.0,
        "build_user": "stoker",
        "git_sha": "embedded",
        "version": VERSION,
    }


def flags(state: MasterState) -> dict[str, str]:
    """The flags of a real master that have a meaning here."""
    options = state.options
    timeout = {} if options.offer_timeout is None else {"offer_timeout": f"{options.offer_timeout:g}secs"}
    return {
        "agent_ping_timeout": f"{options.agent_ping_timeout:g}secs",
        "allocation_interval": f"{options.allocation_interval:g}secs",
        "allocator": "hierarchical",
        "framework_sorter": "drf",
        "hostname": state.hostname,
        "ip": state.host,
        "max_agent_ping_timeouts": str(options.max_agent_ping_timeouts),
        "max_completed_frameworks": "50",
        "max_completed_tasks_per_framework": "1000",
        "min_allocatable_resources": "cpus:0.01|mem:32",
        **timeout,
        "port": str(state.port),
        "registry": "in_memory",
        "role_sorter": "drf",
    }


def whole_state(state: MasterState) -> Json:
    """`/state`."""
    pid = f"master@{state.host}:{state.port}"
    leader = {"id": state.id, "pid": pid, "port": state.port, "hostname": state.hostname}
    active = sum(agent.connected for agent in state.agents.values())
    return version() | {
        "start_time": state.started_at,
        "elected_time": state.started_at,
        "id": state.id,
        "pid": pid,
        "hostname": state.hostname,
        "capabilities": list(MASTER_CAPABILITIES),
        "activated_slaves": float(active),
        "deactivated_slaves": float(len(state.agents) - active),
        "unreachable_slaves": float(len(state.unreachable)),
        "leader": pid,
        "leader_info": leader,
        "flags": flags(state),
        "slaves": [_agent(state, agent) for agent in state.agents.values()],
        "recovered_slaves": [],
        "frameworks": frameworks(state)["frameworks"],
        "completed_frameworks": [_framework(state, framework) for framework in state.completed.values()],
        "orphan_tasks": [],
        "unregistered_frameworks": [],
    }


def slaves(state: MasterState) -> Json:
    """`/slaves`."""
    entries = []
    for agent in state.agents.values():
        offered = [offer for offer in state.offers.values() if offer.agent_id == agent.id]
        entries.append(
            _agent(state, agent)
            | {
                "reserved_resources_full": {},
                "unreserved_resources_full": to_json(agent.total, ports_first=False),
                "used_resources_full": _used_by_role(state, agent),
                "offered_resources_full": [
                    r for offer in offered for r in to_json(offer.resources, offer.role)
                ],
            }
        )
    return {"slaves": entries, "recovered_slaves": []}


def frameworks(state: MasterState) -> Json:
    """`/frameworks`."""
    return {
        "frameworks": [_framework(state, framework) for framework in state.frameworks.values()],
        "completed_frameworks": [_framework(state, framework) for framework in state.completed.values()],
        "unregistered_frameworks": [],
    }


def tasks(state: MasterState) -> Json:
    """`/tasks`."""
    return {
        "tasks": [task_view(task) for framework in all_frameworks(state) for task in _all_tasks(framework)]
    }


def roles(state: MasterState) -> Json:
    """`/roles`."""
    names = sorted({role for framework in state.frameworks.values() for role in framework.info.roles})
    return {"roles": [_role(state, name) for name in names]}


def summary(state: MasterState) -> Json:
    """`/state-summary`."""
    by_agent: dict[str, Counter[str]] = {}
    owners: dict[str, list[str]] = {}
    for framework in all_frameworks(state):
        for task in _all_tasks(framework):
            by_agent.setdefault(task.agent_id, Counter())[task.state] += 1
            if framework.id not in owners.setdefault(task.agent_id, []):
                owners[task.agent_id].append(framework.id)
    agents = [
        _agent(state, agent)
        | {name: by_agent.get(agent.id, Counter())[name] for name in _COUNTED_STATES}
        | {"framework_ids": owners.get(agent.id, [])}
        for agent in state.agents.values()
    ]
    entries = []
    for framework in state.frameworks.values():
        counted = Counter(task.state for task in _all_tasks(framework))
        view = {name: value for name, value in _framework(state, framework).items() if name in _SUMMARISED}
        on = sorted({task.agent_id for task in framework.tasks.values()})
        entries.append(view | {name: counted[name] for name in _COUNTED_STATES} | {"slave_ids": on})
    return {"hostname": state.hostname, "slaves": agents, "frameworks": entries}


def metrics(state: MasterState) -> dict[str, float]:
    """`/metrics/snapshot`: the numbers that a master of this kind has."""
    everything = [task for framework in state.frameworks.values() for task in framework.tasks.values()]
    counted = Counter(task.state for task in everything)
    connected = sum(framework.stream is not None for framework in state.frameworks.values())
    active = sum(agent.connected for agent in state.agents.values())
    result: dict[str, float] = {
        "master/elected": 1.0,
        "master/uptime_secs": time.time() - state.started_at,
        "master/frameworks_active": connected,
        "master/frameworks_connected": connected,
        "master/frameworks_disconnected": len(state.frameworks) - connected,
        "master/slaves_active": active,
        "master/slaves_connected": active,
        "master/slaves_disconnected": len(state.agents) - active,
        "master/slaves_unreachable": len(state.unreachable),
        "master/outstanding_offers": len(state.offers),
        "master/tasks_staging": counted["TASK_STAGING"],
        "master/tasks_starting": counted["TASK_STARTING"],
        "master/tasks_running": counted["TASK_RUNNING"],
        **state.counters,
    }
    whole = total(agent.total for agent in state.agents.values())
    used = total(used_on(state, agent) for agent in state.agents.values())
    for name in ("cpus", "mem", "disk"):
        amount = whole.scalars.amount(name)
        result[f"master/{name}_total"] = amount
        result[f"master/{name}_used"] = used.scalars.amount(name)
        result[f"master/{name}_percent"] = used.scalars.amount(name) / amount if amount else 0.0
    return {name: float(value) for name, value in result.items()}


def all_frameworks(state: MasterState) -> Iterator[Framework]:
    """Yield the present and the completed frameworks."""
    yield from state.frameworks.values()
    yield from state.completed.values()


def used_on(state: MasterState, agent: AgentRecord) -> Amount:
    """Resources that tasks and executors take of an agent."""
    offered = total(offer.resources for offer in state.offers.values() if offer.agent_id == agent.id)
    return agent.allocated - offered


def _used_by_role(state: MasterState, agent: AgentRecord) -> list[Json]:
    """Resources that tasks take of an agent, each role's share by itself."""
    shares: dict[str, Amount] = {}
    for _, task in state.tasks_of(agent.id):
        if not task.released:
            shares[task.role] = shares.get(task.role, EMPTY) + task.resources
    return [entry for role, amount in shares.items() for entry in to_json(amount, role, ports_first=False)]


def used_by(framework: Framework) -> Amount:
    """Resources that a framework's tasks take."""
    return total(task.resources for task in framework.tasks.values() if not task.released)


def offered_to(framework: Framework) -> Amount:
    """Resources that are offered to a framework."""
    return total(offer.resources for offer in framework.offers.values())


def task_view(task: TaskState) -> Json:
    """A task as `/state` shows it: without its command and environment, which may hold secrets."""
    statuses = [
        {
            name: status[name]
            for name in ("state", "timestamp", "container_status", "healthy")
            if name in status
        }
        for status in task.statuses
    ]
    for status in statuses:
        if "container_status" in status:
            shown = status["container_status"]
            status["container_status"] = {k: v for k, v in shown.items() if k != "executor_pid"}
    return {
        "id": task.id,
        "name": task.info["name"],
        "framework_id": task.framework_id,
        "executor_id": task.executor_id,
        "slave_id": task.agent_id,
        "state": task.state,
        "resources": legacy(task.resources),
        "role": task.role,
        "statuses": statuses,
    } | ({"labels": task.info["labels"].get("labels", [])} if "labels" in task.info else {})


def _all_tasks(framework: Framework) -> Iterable[TaskState]:
    yield from framework.tasks.values()
    yield from framework.unreachable_tasks.values()
    yield from framework.completed_tasks


def _agent(state: MasterState, agent: AgentRecord) -> Json:
    offered = total(offer.resources for offer in state.offers.values() if offer.agent_id == agent.id)
    spec = agent.spec
    return {
        "id": agent.id,
        "hostname": spec.name,
        "port": AGENT_PORT,
        "attributes": {
            "vm": spec.type,
            "price": spec.price_per_hour,
            **({"lease": spec.lease} if spec.lease else {}),
        },
        "pid": agent_pid(agent),
        "registered_time": agent.registered_at,
        **({} if agent.reregistered_at is None else {"reregistered_time": agent.reregistered_at}),
        "resources": legacy(agent.total),
        "used_resources": legacy(agent.allocated - offered),
        "offered_resources": legacy(offered),
        "reserved_resources": {},
        "unreserved_resources": legacy(agent.total),
        "active": agent.connected,
        "deactivated": agent.deactivated,
        "version": VERSION,
        "capabilities": list(AGENT_CAPABILITIES),
    }


def agent_pid(agent: AgentRecord) -> str:
    """The address of an agent's process, as libprocess writes it."""
    return f"slave(1)@{agent.spec.address}:{AGENT_PORT}"


def _framework(state: MasterState, framework: Framework) -> Json:
    info = framework.info
    used, offered = used_by(framework), offered_to(framework)
    connected = framework.stream is not None
    return {
        "id": framework.id,
        "name": info.name,
        "used_resources": legacy(used),
        "offered_resources": legacy(offered),
        "capabilities": sorted(info.capabilities),
        "hostname": info.message.get("hostname", ""),
        "webui_url": info.message.get("webui_url", ""),
        "active": connected,
        "connected": connected,
        "recovered": False,
        "user": info.user,
        "failover_timeout": info.failover_timeout,
        "checkpoint": info.checkpoint,
        "registered_time": framework.registered_at,
        "unregistered_time": framework.unregistered_at,
        **({} if info.principal is None else {"principal": info.principal}),
        "resources": legacy(used + offered),
        **({"roles": list(info.roles)} if framework.multi_role else {"role": info.roles[0]}),
        "tasks": [task_view(task) for task in framework.tasks.values()],
        "unreachable_tasks": [task_view(task) for task in framework.unreachable_tasks.values()],
        "completed_tasks": [task_view(task) for task in framework.completed_tasks],
        "offers": [_offer(offer) for offer in framework.offers.values()],
        "executors": [
            {"executor_id": eid, "framework_id": fid, "slave_id": agent.id, "resources": legacy(amount)}
            for agent in state.agents.values()
            for (fid, eid), amount in agent.executors.items()
            if fid == framework.id
        ],
        "offer_constraints": {},
    }


def _offer(offer: OutstandingOffer) -> Json:
    return {
        "id": offer.id,
        "framework_id": offer.framework_id,
        "allocation_info": {"role": offer.role},
        "slave_id": offer.agent_id,
        "resources": legacy(offer.resources),
    }


def _role(state: MasterState, name: str) -> Json:
    members = [framework for framework in state.frameworks.values() if name in framework.info.roles]
    tasks_of = [t for f in members for t in f.tasks.values() if t.role == name and not t.released]
    used = total(task.resources for task in tasks_of)
    offered = total(offer.resources for offer in state.offers.values() if offer.role == name)
    return {
        "name": name,
        "weight": 1.0,
        "quota": {"role": name, "guarantee": {}, "limit": {}, "consumed": _counted(used)},
        "resources": _counted(used + offered),
        "allocated": _counted(used),
        "offered": _counted(offered),
        "reserved": _counted(EMPTY),
        "frameworks": [framework.id for framework in members],
    }


def _counted(amount: Amount) -> dict[str, float]:
    """Amounts by name, ports as their number."""
    ports = sum(end - begin + 1 for begin, end in amount.ports)
    scalars = dict(sorted(amount.scalars.amounts.items()))
    return scalars | ({"ports": float(ports)} if ports else {})
