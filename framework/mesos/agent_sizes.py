"""The agents of a cluster, from its master's operator API: offers show only free resources."""

import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import Any

from conf.units import MOST_AMOUNT
from environment.model.messages.events import VmsMeasured
from environment.model.messages.snapshot import VmSize
from environment.resources import BASIC, Resources
from framework.mesos.bounded_http import Credentials, RefusedAnswerError, read_json
from framework.mesos.translate import agent_from_json, amount_of, total_of

#: Seconds that the master has for each answer.
PATIENCE = 10.0
#: Why nothing is placed on an agent that the master still counts and cannot speak to.
AWAY = "accepts no new tasks: its agent has lost its connection to the master"
#: Bytes of an answer: an agent has some thousand.
_MOST = 256 << 20


def read_agents(
    master: str, roles: Collection[str], credentials: Credentials, *, gpus: bool = True
) -> VmsMeasured:
    """Read the agents of the master at `host:port` that these roles may use, and the roles' limits.

    Without `gpus`, agents with gpus are left out. Raises OSError when the master cannot be reached or
    refuses, ValueError for an unexpected answer. The caller adds the time of the answer, and the time since
    which agents are `AWAY`.
    """
    url = f"http://{master}"
    agents = read_json(f"{url}/slaves", credentials, seconds=PATIENCE, most=_MOST)
    try:
        told = read_json(f"{url}/roles", credentials, seconds=PATIENCE, most=_MOST)
        limits, quota = quotas(told, roles), quota_in_all(told, roles)
    except RefusedAnswerError:
        limits, quota = (), {}  # then they are not reported
    return replace(measured(agents, roles, gpus=gpus), limits=limits, quota=quota)


def measured(told: Any, roles: Collection[str], *, gpus: bool) -> VmsMeasured:
    """Parse a master's answer to GET /slaves; ValueError for an unexpected answer."""
    try:
        # A VM of a pool is there when its agent is: others wait for that.
        there = [agent for agent in told["slaves"] if not (_is_away(agent) and _lease(agent))]
        sizes = {str(agent["id"]): _size(agent, roles) for agent in there}
        # Agents that are not ours at all would be waited for in vain.
        ours = [agent for agent in there if _is_ours(sizes[str(agent["id"])], gpus=gpus)]
        vms = tuple(agent_from_json(agent, sizes[str(agent["id"])]) for agent in ours)
        closed = tuple((str(agent["id"]), _closed(agent)) for agent in ours if _takes_nothing(agent))
        # Where something is reserved for other roles, it may be that which is used.
        used = tuple(
            VmSize(str(agent["id"]), _sum([agent["used_resources"]]))
            for agent in ours
            if "used_resources" in agent and agent["reserved_resources"].keys() <= set(roles)
        )
        return VmsMeasured(0.0, tuple(sizes.values()), vms, closed, used=used)
    except (KeyError, TypeError, AttributeError, OverflowError) as error:
        raise ValueError(f"its /slaves is not the answer of a Mesos master: {error!r}") from error


def quotas(told: Any, roles: Collection[str]) -> tuple[str, ...]:
    """Quotas of our roles in a master's answer to GET /roles, a sentence for each role with one."""
    ours = {name for role in roles for name in _lineage(role)}
    return tuple(
        f"the master's quota grants role {name} {_parts(quota['limit'])}, of which {_used(quota)} are used"
        for name, quota in _quotas(told).items()
        if name in ours
    )


def quota_in_all(told: Any, roles: Collection[str]) -> dict[str, float]:
    """The total limit of our roles by a master's answer to GET /roles, by Mesos' names.

    Unlimited resources are left out. A role's limit covers all roles below it together, since their resources
    count as the role's, too.
    """
    limits = {name: quota["limit"] for name, quota in _quotas(told).items()}
    top = {role.partition("/")[0] for role in roles}
    names = sorted({name for limit in limits.values() for name in limit})
    most = {name: sum(_most(role, roles, limits, name) for role in top) for name in names}
    return {name: round(amount, 3) for name, amount in most.items() if top and amount < MOST_AMOUNT}


def _most(role: str, roles: Collection[str], limits: Mapping[str, Mapping[str, float]], name: str) -> float:
    """The most of a resource that those of our roles may have together which are this one, or below it."""
    own = limits.get(role, {}).get(name, math.inf)
    if role in roles:
        return own
    below = {
        "/".join(each.split("/")[: role.count("/") + 2]) for each in roles if each.startswith(f"{role}/")
    }
    return min(own, sum(_most(each, roles, limits, name) for each in below))


def _quotas(told: Any) -> dict[str, dict[str, dict[str, float]]]:
    """The quotas that limit something, by role."""
    try:
        return {
            str(role["name"]): {
                part: {str(n): amount_of(v) for n, v in role["quota"].get(part, {}).items()}
                for part in ("limit", "consumed")
            }
            for role in told["roles"]
            if role.get("quota", {}).get("limit")
        }
    except (KeyError, TypeError, AttributeError, ValueError, OverflowError) as error:
        raise ValueError(f"its /roles is not the answer of a Mesos master: {error!r}") from error


def _lineage(role: str) -> tuple[str, ...]:
    """The role and those above it: a/b/c, a/b, a."""
    parts = role.split("/")
    return tuple("/".join(parts[:depth]) for depth in range(len(parts), 0, -1))


def _parts(amounts: Mapping[str, float]) -> str:
    return " and ".join(f"{amount:.10g} {name}" for name, amount in sorted(amounts.items()))


def _used(quota: Mapping[str, Mapping[str, float]]) -> str:
    return _parts({name: quota["consumed"].get(name, 0.0) for name in quota["limit"]})


def _is_away(agent: Mapping[str, Any]) -> bool:
    return not (agent.get("active", True) or agent.get("deactivated"))


def _takes_nothing(agent: Mapping[str, Any]) -> bool:
    return bool(agent.get("deactivated")) or _is_away(agent)


def _lease(agent: Mapping[str, Any]) -> object:
    return agent.get("attributes", {}).get("lease")


def _closed(agent: Mapping[str, Any]) -> str:
    if _is_away(agent):
        return AWAY
    state = str((agent.get("drain_info") or {}).get("state", "")).lower()
    how = {"draining": "it is being drained", "drained": "it was drained"}.get(state, "it was deactivated")
    return f"accepts no new tasks: {how} by an operator"


def _is_ours(size: VmSize, *, gpus: bool) -> bool:
    return all(map(size.resources.get, BASIC)) and (gpus or not size.resources.get("gpus"))


def _size(agent: Mapping[str, Any], roles: Collection[str]) -> VmSize:
    reserved = agent["reserved_resources"]
    ours = [agent["unreserved_resources"], *(reserved[role] for role in roles if role in reserved)]
    return VmSize(str(agent["id"]), _sum(ours))


def _sum(parts: Iterable[Mapping[str, Any]]) -> Resources:
    # Values that are no numbers, such as ports, are text here.
    return total_of((n, v) for part in parts for n, v in part.items() if not isinstance(v, str))
