"""Agents as the master sees them: registered, silent, disconnected, unreachable, back, gone."""

import time
from typing import TYPE_CHECKING

from framework.embedded.master.offers import MasterOffers
from framework.embedded.master.state import AgentRecord, Framework, MasterState, TaskState
from framework.embedded.master.tasks import EmbeddedTasks
from framework.embedded.messages import TERMINAL, TaskReport, failure_event, master_status, update_event
from framework.embedded.resource_messages import Amount, make, parse

if TYPE_CHECKING:
    from framework.embedded.agent.agent import Agent

_NANO = 1e9
Executors = dict[tuple[str, str], Amount]


class Agents:
    """A state's agents; agents call it as they would send messages to the master."""

    def __init__(self, state: MasterState, offers: MasterOffers, tasks: EmbeddedTasks) -> None:
        self._state = state
        self._offers = offers
        self._tasks = tasks

    # messages of agents

    def register(self, link: "Agent") -> str:
        """Take a new agent in and return its id."""
        agent_id = self._state.next_id("S")
        self._add(agent_id, link)
        self._offers.allocate_soon()
        return agent_id

    def reregister(
        self, link: "Agent", agent_id: str, reports: list[TaskReport], executors: Executors
    ) -> None:
        """Take a known agent back with the tasks that it still has."""
        known = self._state.agents.get(agent_id)
        if known is not None:
            self._reconnect(known, reports, executors)
        else:
            since = self._state.unreachable.pop(agent_id, None)
            agent = self._add(agent_id, link)
            agent.reregistered_at = time.time()
            self._set_executors(agent, executors)
            told = "Unknown agent reregistered" if since is None else "Unreachable agent re-reregistered"
            for report in reports:
                self._restore(agent, report, told)
        self._offers.allocate_soon()

    def unregister(self, agent_id: str) -> None:
        """Remove an agent that unregisters; its tasks are lost."""
        agent = self._state.agents.get(agent_id)
        if agent is not None:
            reason = f"Agent {agent.spec.name} removed: the agent unregistered"
            self._remove(agent, {"message": reason, "reason": "REASON_AGENT_REMOVED"})

    def disconnected(self, agent_id: str) -> None:
        """Note a broken connection: offers go, and so do tasks of frameworks without checkpointing."""
        agent = self._state.agents.get(agent_id)
        if agent is None:
            return
        agent.connected = False
        self._rescind_offers(agent)
        fields = {
            "message": f"Agent {agent.spec.name} disconnected",
            "reason": "REASON_AGENT_DISCONNECTED",
        }
        for framework, task in self._state.tasks_of(agent_id):
            if not framework.info.checkpoint:
                self._tasks.lose(framework, task, "TASK_LOST", **fields)
        for key in list(agent.executors):
            owner = self._state.frameworks.get(key[0])
            if owner is None or not owner.info.checkpoint:
                self._drop_executor(agent, key)

    def executor_exited(self, agent_id: str, framework_id: str, executor_id: str, wait_status: int) -> None:
        """Record an executor's end and notify its framework."""
        agent = self._state.agents.get(agent_id)
        framework = self._state.frameworks.get(framework_id)
        if agent is None:
            return
        self._drop_executor(agent, (framework_id, executor_id))
        if framework is not None:
            framework.send(failure_event(agent_id, executor_id, wait_status))

    # the master's own doing

    def ping_all(self) -> None:
        """Ping every agent; mark one as unreachable after too many missing answers."""
        for agent in list(self._state.agents.values()):
            agent.missed_pings = 0 if agent.link.ping() else agent.missed_pings + 1
            if agent.missed_pings >= self._state.options.max_agent_ping_timeouts:
                self._mark_unreachable(agent)

    def mark_gone(self, agent_id: str) -> bool:
        """Remove an agent for good at the operator's word; its id never comes back."""
        agent = self._state.agents.get(agent_id)
        if agent is None and agent_id not in self._state.unreachable:
            return False
        self._state.gone.add(agent_id)
        self._state.unreachable.pop(agent_id, None)
        if agent is not None:
            self._rescind_offers(agent)
            for framework, task in self._state.tasks_of(agent_id):
                state = "TASK_GONE_BY_OPERATOR" if framework.partition_aware else "TASK_LOST"
                fields = {
                    "message": "Agent has been marked gone",
                    "reason": "REASON_AGENT_REMOVED_BY_OPERATOR",
                }
                self._tasks.lose(framework, task, state, **fields)
            self._finish_removal(agent)
        return True

    def set_deactivated(self, agent: AgentRecord, deactivated: bool) -> None:
        """Stop or resume offering an agent."""
        agent.deactivated = deactivated
        if deactivated:
            self._rescind_offers(agent)
        else:
            self._offers.allocate_soon()

    # inside

    def _add(self, agent_id: str, link: "Agent") -> AgentRecord:
        spec = link.spec
        total = make(spec.cpus, spec.memory_mib, spec.resources, spec.ports)
        agent = AgentRecord(agent_id, link, total)
        self._state.agents[agent_id] = agent
        return agent

    def _reconnect(self, agent: AgentRecord, reports: list[TaskReport], executors: Executors) -> None:
        """Reconnect an agent before its removal; mark the tasks that it no longer has as lost."""
        agent.connected, agent.missed_pings, agent.reregistered_at = True, 0, time.time()
        kept = {(report.framework_id, report.task["task_id"]["value"]) for report in reports}
        for framework, task in self._state.tasks_of(agent.id):
            if (framework.id, task.id) not in kept and task.state not in TERMINAL:
                state = "TASK_DROPPED" if framework.partition_aware else "TASK_LOST"
                told = "Reconciliation: task unknown to the agent"
                self._tasks.lose(framework, task, state, message=told, reason="REASON_RECONCILIATION")
        for key in set(agent.executors) - set(executors):
            self._drop_executor(agent, key)

    def _restore(self, agent: AgentRecord, report: TaskReport, told: str) -> None:
        """Restore one task of a returning agent, and notify its framework that it runs."""
        framework = self._state.frameworks.get(report.framework_id)
        if framework is None:
            if report.framework_id in self._state.removed_ids:
                agent.link.shutdown_framework(report.framework_id)
            return
        task = _task_of(report, framework, agent.id)
        self._tasks.restore(framework, agent, task)
        answer = master_status(
            task.id,
            report.state,
            message=told,
            reason="REASON_AGENT_REREGISTERED",
            agent_id=agent.id,
            container_status=report.container_status,
        )
        framework.send(update_event(answer))

    def _set_executors(self, agent: AgentRecord, executors: Executors) -> None:
        for key, resources in executors.items():
            agent.executors[key] = resources
            agent.allocated = agent.allocated + resources

    def _drop_executor(self, agent: AgentRecord, key: tuple[str, str]) -> None:
        resources = agent.executors.pop(key, None)
        if resources is not None:
            agent.allocated = agent.allocated - resources

    def _mark_unreachable(self, agent: AgentRecord) -> None:
        now = time.time()
        self._state.unreachable[agent.id] = now
        self._rescind_offers(agent)
        fields = {
            "message": "health check timed out",
            "reason": "REASON_AGENT_REMOVED",
            "unreachable_time": {"nanoseconds": int(now * _NANO)},
        }
        for framework, task in self._state.tasks_of(agent.id):
            state = "TASK_UNREACHABLE" if framework.partition_aware else "TASK_LOST"
            task.unreachable_time = now
            self._tasks.lose(framework, task, state, **fields)
            framework.completed_tasks.remove(task)
            framework.unreachable_tasks[task.id] = task
        self._finish_removal(agent)

    def _remove(self, agent: AgentRecord, fields: dict[str, str]) -> None:
        self._rescind_offers(agent)
        for framework, task in self._state.tasks_of(agent.id):
            self._tasks.lose(framework, task, "TASK_LOST", **fields)
        self._finish_removal(agent)

    def _finish_removal(self, agent: AgentRecord) -> None:
        del self._state.agents[agent.id]
        for framework in self._state.frameworks.values():
            framework.filters = [entry for entry in framework.filters if entry.agent_id != agent.id]
            framework.send(failure_event(agent.id))

    def _rescind_offers(self, agent: AgentRecord) -> None:
        self._offers.rescind([o for o in self._state.offers.values() if o.agent_id == agent.id])


def _task_of(report: TaskReport, framework: Framework, agent_id: str) -> TaskState:
    roles = framework.info.roles
    container = report.container_status
    return TaskState(
        id=report.task["task_id"]["value"],
        framework_id=framework.id,
        agent_id=agent_id,
        executor_id=report.executor_id,
        role=roles[0] if roles else "*",
        info=report.task,
        resources=parse(report.task["resources"]),
        state=report.state,
        update_state=report.state,
        statuses=[] if container is None else [{"state": report.state, "container_status": container}],
        released=report.state in TERMINAL,
    )
