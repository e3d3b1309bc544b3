"""Tasks as the master handles them: offers become launches, updates are forwarded, questions answered."""

from typing import Any

from framework.embedded.master.launch_checks import (
    group_problem,
    new_executor_resources,
    offers_problem,
    task_problem,
)
from framework.embedded.master.offers import MasterOffers
from framework.embedded.master.state import AgentRecord, Framework, MasterState, OutstandingOffer, TaskState
from framework.embedded.messages import TERMINAL, Json, StatusUpdate, master_status, update_event
from framework.embedded.resource_messages import EMPTY, Amount, parse

_NANO = 1e9


class EmbeddedTasks:
    """The tasks of a state's frameworks; the only code that adds, changes or removes one."""

    def __init__(self, state: MasterState, offers: MasterOffers) -> None:
        self._state = state
        self._offers = offers

    # calls

    def accept(self, framework: Framework, body: Json) -> None:
        """Launch the tasks of an ACCEPT, and treat the rest of its offers as refused."""
        ids = [entry["value"] for entry in body.get("offer_ids", [])]
        operations = body.get("operations", [])
        problem = offers_problem(ids, framework.offers)
        if problem is not None:
            self._offers.take_all([framework.offers[i] for i in dict.fromkeys(ids) if i in framework.offers])
            self._drop_launches(framework, operations, problem)
            return
        used = [framework.offers[offer_id] for offer_id in ids]
        self._offers.use(used)
        remaining = sum((offer.resources for offer in used), EMPTY)
        for operation in operations:
            remaining = self._operate(framework, used[0], operation, remaining)
        self._offers.refuse(framework, used[0], remaining, body.get("filters", {}))

    def kill(self, framework: Framework, body: Json) -> None:
        """End a task; an unknown one is answered as in a reconciliation."""
        task = framework.tasks.get(body["task_id"]["value"])
        if task is None:
            self._reconcile_one(framework, body)
            return
        agent = self._state.agents.get(task.agent_id)
        if agent is not None and agent.connected:
            agent.link.kill_task(framework.id, task.id, _seconds(body.get("kill_policy", {})))

    def reconcile(self, framework: Framework, body: Json) -> None:
        """Send the states of the named tasks, or of all known ones when none is named."""
        for entry in body.get("tasks", []):
            self._reconcile_one(framework, entry)
        if not body.get("tasks"):
            for task in framework.tasks.values():
                framework.send(update_event(_latest(task)))

    def acknowledge(self, framework: Framework, body: Json) -> None:
        """Pass an acknowledgement on; a task is forgotten once its end is acknowledged."""
        task = framework.tasks.get(body["task_id"]["value"])
        agent = self._state.agents.get(body["agent_id"]["value"])
        if task is not None and task.update_uuid == body["uuid"] and task.update_state in TERMINAL:
            self.forget(framework, task)
        if agent is not None and agent.connected:
            agent.link.acknowledge(framework.id, body["task_id"]["value"], body["uuid"])

    # messages of agents

    def update(self, agent_id: str, update: StatusUpdate) -> None:
        """Take an update of an agent and forward it."""
        framework = self._state.frameworks.get(update.framework_id)
        if framework is None or agent_id not in self._state.agents:
            return
        self._state.count("master/valid_status_updates")
        framework.send(update_event(update.status))
        task = framework.tasks.get(update.task_id)
        if task is None or task.agent_id != agent_id:
            return
        task.update_state, task.update_uuid = update.status["state"], update.status.get("uuid")
        if task.state not in TERMINAL:
            task.state = update.latest_state
        if not task.statuses or task.statuses[-1].get("uuid") != update.status.get("uuid"):
            task.statuses.append(update.status)
        if update.latest_state in TERMINAL:
            self.release(task)

    def lose(self, framework: Framework, task: TaskState, state: str, **fields: Any) -> None:
        """Notify a framework that a task is lost with its agent, and forget the task."""
        self._state.count(f"master/{state.lower()}")
        task.state = state
        self.forget(framework, task)
        framework.send(update_event(master_status(task.id, state, agent_id=task.agent_id, **fields)))

    def release(self, task: TaskState) -> None:
        """Return a task's resources, once."""
        if not task.released:
            task.released = True
            self._offers.give_back(task.agent_id, task.resources)

    def forget(self, framework: Framework, task: TaskState) -> None:
        """Move a task to the completed ones."""
        self.release(task)
        framework.tasks.pop(task.id, None)
        framework.completed_tasks.append(task)

    def restore(self, framework: Framework, agent: AgentRecord, task: TaskState) -> None:
        """Add a task that a returning agent reports."""
        framework.unreachable_tasks.pop(task.id, None)
        if task.id in framework.tasks:
            return
        framework.tasks[task.id] = task
        if task.released:
            return
        agent.allocated = agent.allocated + task.resources

    # inside

    def _operate(
        self, framework: Framework, offer: OutstandingOffer, operation: Json, remaining: Amount
    ) -> Amount:
        """Do one operation and return the remaining resources of the offers."""
        kind = operation.get("type")
        if kind == "LAUNCH":
            for task in operation.get("launch", {}).get("task_infos", []):
                remaining = self._launch(framework, offer, task, remaining)
        elif kind == "LAUNCH_GROUP" and "launch_group" in operation:
            remaining = self._launch_group(framework, offer, operation["launch_group"], remaining)
        return remaining

    def _launch(self, framework: Framework, offer: OutstandingOffer, task: Json, remaining: Amount) -> Amount:
        agent = self._state.agents[offer.agent_id]
        problem = task_problem(task, framework, agent, offer.role, remaining)
        if problem is not None:
            agent_id = task["agent_id"]["value"]
            self._refuse_task(framework, task, agent_id, problem, "REASON_TASK_INVALID")
            return remaining
        taken = self._add(framework, agent, offer.role, task, task.get("executor"))
        agent.link.launch(framework, task, offer.role)
        return remaining - taken

    def _launch_group(
        self, framework: Framework, offer: OutstandingOffer, group: Json, remaining: Amount
    ) -> Amount:
        agent = self._state.agents[offer.agent_id]
        tasks = group["task_group"].get("tasks", [])
        problem = group_problem(group, framework, agent, offer.role, remaining)
        if problem is not None:
            for task in tasks:
                self._refuse_task(framework, task, agent.id, problem, "REASON_TASK_GROUP_INVALID")
            return remaining
        taken = EMPTY
        for task in tasks:
            taken = taken + self._add(framework, agent, offer.role, task, group["executor"])
        agent.link.launch_group(framework, group["executor"], tasks, offer.role)
        return remaining - taken

    def _refuse_task(
        self, framework: Framework, task: Json, agent_id: str, problem: str, reason: str
    ) -> None:
        self._state.count("master/tasks_error")
        task_id = task["task_id"]["value"]
        answer = master_status(task_id, "TASK_ERROR", message=problem, reason=reason, agent_id=agent_id)
        framework.send(update_event(answer))

    def _add(
        self, framework: Framework, agent: AgentRecord, role: str, info: Json, executor: Json | None
    ) -> Amount:
        """Record a task, and its executor when that is new; return the resources that both take."""
        extra = EMPTY
        executor_id = ""
        if executor is not None:
            executor_id = executor["executor_id"]["value"]
            extra = parse(new_executor_resources(executor, framework, agent))
            agent.executors.setdefault((framework.id, executor_id), extra)
        resources = parse(info["resources"])
        task_id = info["task_id"]["value"]
        framework.tasks[task_id] = TaskState(
            task_id, framework.id, agent.id, executor_id, role, info, resources
        )
        self._state.count("master/tasks_launched")
        return resources + extra

    def _drop_launches(self, framework: Framework, operations: list[Json], problem: str) -> None:
        state = "TASK_DROPPED" if framework.partition_aware else "TASK_LOST"
        fields = {
            "message": f"Task launched with invalid offers: {problem}",
            "reason": "REASON_INVALID_OFFERS",
        }
        for operation in operations:
            tasks = operation.get("launch", {}).get("task_infos", [])
            tasks += operation.get("launch_group", {}).get("task_group", {}).get("tasks", [])
            for task in tasks:
                agent_id = task["agent_id"]["value"]
                answer = master_status(task["task_id"]["value"], state, agent_id=agent_id, **fields)
                framework.send(update_event(answer))

    def _reconcile_one(self, framework: Framework, entry: Json) -> None:
        task_id = entry["task_id"]["value"]
        task = framework.tasks.get(task_id)
        if task is not None:
            framework.send(update_event(_latest(task)))
            return
        agent_id = entry.get("agent_id", {}).get("value")
        if agent_id is None and task_id in framework.unreachable_tasks:
            agent_id = framework.unreachable_tasks[task_id].agent_id
        aware, told = self._absent(agent_id)
        state = aware if framework.partition_aware else "TASK_LOST"
        fields = {"message": told, "reason": "REASON_RECONCILIATION", "agent_id": agent_id}
        since = self._state.unreachable.get(agent_id or "")
        if since is not None:
            fields["unreachable_time"] = {"nanoseconds": int(since * _NANO)}
        framework.send(update_event(master_status(task_id, state, **fields)))

    def _absent(self, agent_id: str | None) -> tuple[str, str]:
        """State (for partition-aware frameworks) and message for an unknown task."""
        if agent_id in self._state.agents:
            return "TASK_GONE", "Reconciliation: Task is unknown to the agent"
        if agent_id in self._state.unreachable:
            return "TASK_UNREACHABLE", "Reconciliation: Task is unreachable"
        if agent_id in self._state.gone:
            return "TASK_GONE_BY_OPERATOR", "Reconciliation: Task is gone"
        return "TASK_UNKNOWN", "Reconciliation: Task is unknown"


def _latest(task: TaskState) -> Json:
    last = task.statuses[-1] if task.statuses else {}
    return master_status(
        task.id,
        task.update_state or task.state,
        message="Reconciliation: Latest task state",
        reason="REASON_RECONCILIATION",
        agent_id=task.agent_id,
        healthy=last.get("healthy"),
        check_status=last.get("check_status"),
        container_status=last.get("container_status"),
    )


def _seconds(kill_policy: Json) -> float | None:
    grace = kill_policy.get("grace_period")
    return None if grace is None else max(0.0, grace["nanoseconds"] / _NANO)
