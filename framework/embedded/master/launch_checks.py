"""A master's checks before it launches: the offers named, then each task. Pure; texts are Mesos' own."""

from collections.abc import Mapping, Sequence

from framework.embedded.master.state import AgentRecord, Framework, OutstandingOffer
from framework.embedded.resource_messages import Amount, Json, describe, invalid, parse, to_json

_LONGEST_ID = 255


def offers_problem(offer_ids: Sequence[str], offers: Mapping[str, OutstandingOffer]) -> str | None:
    """Reason why these ids cannot be accepted together; `offers` are the framework's outstanding ones."""
    if not offer_ids:
        return "No offers specified"
    for index, offer_id in enumerate(offer_ids):
        if offer_id in offer_ids[:index]:
            return f"Duplicate offer {offer_id} in offer list"
    for offer_id in offer_ids:
        if offer_id not in offers:
            return f"Offer {offer_id} is no longer valid"
    first = offers[offer_ids[0]]
    for offer in (offers[offer_id] for offer_id in offer_ids):
        if offer.role != first.role:
            return f"Aggregated offers must be of one role. Offer {offer.id} uses role {offer.role}"
        if offer.agent_id != first.agent_id:
            return (
                "Aggregated offers must belong to one single agent. "
                f"Offer {offer.id} uses agent {offer.agent_id} and agent {first.agent_id}"
            )
    return None


def task_problem(
    task: Json, framework: Framework, agent: AgentRecord, role: str, remaining: Amount
) -> str | None:
    """Reason why a task cannot be launched from the rest of an offer; None when it can."""
    own = _task_problem(task, framework, agent)
    if own is not None:
        return own
    if ("command" in task) == ("executor" in task):
        return "Task should have at least one (but not both) of CommandInfo or ExecutorInfo present"
    executor = task.get("executor")
    needed = list(task["resources"])
    if executor is not None:
        problem = _executor_problem(executor)
        if problem is not None:
            return problem
        needed += new_executor_resources(executor, framework, agent)
    return _too_much(needed, remaining, role, "task and its executor")


def group_problem(
    group: Json, framework: Framework, agent: AgentRecord, role: str, remaining: Amount
) -> str | None:
    """Reason why a task group cannot be launched from the rest of an offer; None when it can."""
    executor, tasks = group["executor"], group["task_group"].get("tasks", [])
    if "framework_id" not in executor:
        return "'ExecutorInfo.framework_id' must be set"
    if executor["framework_id"]["value"] != framework.id:
        told = executor["framework_id"]["value"]
        return f"ExecutorInfo has an invalid FrameworkID (Actual: {told} vs Expected: {framework.id})"
    if executor.get("type") == "DEFAULT" and "command" in executor:
        return "'ExecutorInfo.command' must not be set for 'DEFAULT' executor"
    problem = id_problem(executor["executor_id"]["value"]) or invalid(executor.get("resources", []))
    if problem is not None:
        return problem
    for task in tasks:
        problem = _task_problem(task, framework, agent)
        if problem is None and "executor" in task:
            problem = "'TaskInfo.executor' must not be set"
        if problem is not None:
            return f"Task '{task['task_id']['value']}' is invalid: {problem}"
    needed = [item for task in tasks for item in task["resources"]]
    needed += new_executor_resources(executor, framework, agent)
    return _too_much(needed, remaining, role, "task group and its executor")


def new_executor_resources(executor: Json, framework: Framework, agent: AgentRecord) -> list[Json]:
    """Additional resources of an executor: none when it runs on the agent already."""
    key = (framework.id, executor["executor_id"]["value"])
    return [] if key in agent.executors else list(executor.get("resources", []))


def _task_problem(task: Json, framework: Framework, agent: AgentRecord) -> str | None:
    task_id = task["task_id"]["value"]
    problem = id_problem(task_id)
    if problem is not None:
        return problem
    if task_id in framework.tasks:
        return f"Task has duplicate ID: {task_id}"
    if task["agent_id"]["value"] != agent.id:
        return f"Task uses invalid agent {task['agent_id']['value']} while agent {agent.id} is expected"
    if task.get("kill_policy", {}).get("grace_period", {}).get("nanoseconds", 0) < 0:
        return "Task's 'kill_policy.grace_period' must be non-negative"
    if task.get("max_completion_time", {}).get("nanoseconds", 0) < 0:
        return "Task's `max_completion_time` must be non-negative"
    if not task.get("resources"):
        return "Task uses no resources"
    return (
        _command_problem("Task", task.get("command"))
        or _check_problem("health check", "HealthCheck", task.get("health_check"))
        or _check_problem("check", "CheckInfo", task.get("check"))
        or _resources_problem(task["resources"])
    )


def _resources_problem(items: list[Json]) -> str | None:
    problem = invalid(items)
    # Mesos says where this one was found, and not where others were.
    return f"Task uses invalid resources: {problem}" if problem and "'gpus'" in problem else problem


def _command_problem(subject: str, command: Json | None) -> str | None:
    """Reason why a command's environment is invalid."""
    for variable in (command or {}).get("environment", {}).get("variables", []):
        kind = variable.get("type", "VALUE")
        wanted, other = ("secret", "value") if kind == "SECRET" else ("value", "secret")
        about = (
            f"{subject}'s `CommandInfo` is invalid: "
            f"Environment variable '{variable['name']}' of type '{kind}'"
        )
        if wanted not in variable:
            return f"{about} must have a {wanted} set"
        if other in variable:
            return f"{about} must not have a {other} set"
    return None


def _check_problem(title: str, message_name: str, check: Json | None) -> str | None:
    """Reason why a check or health check is invalid: it must have the field that its type names."""
    if check is None:
        return None
    kind = check.get("type")
    if kind is None:
        return f"Task uses invalid {title}: {message_name} must specify 'type'"
    if kind.lower() not in check:
        return f"Task uses invalid {title}: Expecting '{kind.lower()}' to be set for {kind} {title}"
    return None


def id_problem(identity: str) -> str | None:
    """Reason why a text cannot be the id of a task or an executor."""
    if not identity:
        return "ID must not be empty"
    if len(identity) > _LONGEST_ID:
        return f"ID must not be greater than {_LONGEST_ID} characters"
    if identity in {".", ".."}:
        return f"'{identity}' is disallowed"
    if any(
        character in "/\\" or ord(character) < 32 or 0xD800 <= ord(character) < 0xE000
        for character in identity
    ):
        return f"'{identity}' contains invalid characters"
    return None


def _executor_problem(executor: Json) -> str | None:
    if executor.get("type") == "DEFAULT":
        return "'DEFAULT' executor can only be used in a task group"
    if "command" not in executor:
        return "'ExecutorInfo.command' must be set for 'CUSTOM' executor"
    return (
        id_problem(executor["executor_id"]["value"])
        or _command_problem("Executor", executor["command"])
        or invalid(executor.get("resources", []))
    )


def _too_much(needed: list[Json], remaining: Amount, role: str, consumer: str) -> str | None:
    other_role = any(item.get("allocation_info", {}).get("role", role) != role for item in needed)
    if not other_role and remaining.contains(parse(needed)):
        return None
    return (
        f"Total resources {describe(_merged(needed), role)} required by {consumer} "
        f"is more than available {describe(to_json(remaining), role)}"
    )


def _merged(items: list[Json]) -> list[Json]:
    """Sum scalars of one name and role, keeping the order of first mention."""
    merged: dict[tuple[str, str], Json] = {}
    for item in items:
        key = (item["name"], item.get("allocation_info", {}).get("role", ""))
        if key in merged and "scalar" in item:
            value = merged[key]["scalar"]["value"] + item["scalar"]["value"]
            merged[key] = merged[key] | {"scalar": {"value": value}}
        else:
            merged[key] = item
    return list(merged.values())
