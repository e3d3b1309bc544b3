"""Allocation of offers: dominant-resource fairness over roles, then frameworks; whole agents at a time.

Pure: it changes nothing and reads only its arguments.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from environment.resources import THOUSANDTHS
from framework.embedded.master.state import AgentRecord, Framework
from framework.embedded.resource_messages import EMPTY, Amount, total

_LEAST_CPUS = THOUSANDTHS // 100  # Mesos' min_allocatable_resources: cpus:0.01|mem:32
_LEAST_MEMORY = 32 * THOUSANDTHS


@dataclass(frozen=True, slots=True)
class Grant:
    """Resources of one agent for one role of one framework."""

    framework_id: str
    agent_id: str
    role: str
    resources: Amount


def allocate(frameworks: Iterable[Framework], agents: Iterable[AgentRecord], now: float) -> list[Grant]:
    """Grants to frameworks; `now` (loop time) determines the refusals that still hold."""
    candidates = [
        (role, framework)
        for framework in frameworks
        if framework.stream is not None
        for role in framework.info.roles
        if role not in framework.suppressed
    ]
    agents = list(agents)
    shares = _Shares(candidates, total(agent.total for agent in agents))
    grants = []
    for agent in agents:
        available = agent.available if candidates and agent.offerable else EMPTY
        if not _worth_offering(available):
            continue
        for role, framework in shares.poorest_first():
            if _may_see(framework, agent) and not _refused(framework, role, agent.id, available, now):
                grants.append(Grant(framework.id, agent.id, role, available))
                shares.add(role, framework.id, available)
                break
    return grants


def _may_see(framework: Framework, agent: AgentRecord) -> bool:
    """Whether it may be offered the agent: one with gpus only if it knows of gpus (filter_gpu_resources)."""
    return "GPU_RESOURCES" in framework.info.capabilities or not agent.total.scalars.get("gpus")


def _worth_offering(amount: Amount) -> bool:
    return amount.scalars.get("cpus") >= _LEAST_CPUS or amount.scalars.get("mem") >= _LEAST_MEMORY


def _refused(framework: Framework, role: str, agent_id: str, amount: Amount, now: float) -> bool:
    return any(
        refusal.role == role
        and refusal.agent_id == agent_id
        and refusal.until > now
        and refusal.resources.contains(amount)
        for refusal in framework.filters
    )


class _Shares:
    """Dominant shares of roles and of frameworks within roles, updated during one allocation."""

    def __init__(self, candidates: list[tuple[str, Framework]], cluster: Amount) -> None:
        self._candidates = candidates
        self._cluster = cluster
        self._held: dict[tuple[str, str], Amount] = {}
        for _, framework in candidates:
            for role, amount in _holdings(framework):
                self._add(role, framework.id, amount)

    def add(self, role: str, framework_id: str, amount: Amount) -> None:
        """Count a grant."""
        self._add(role, framework_id, amount)

    def poorest_first(self) -> list[tuple[str, Framework]]:
        """The candidates, those with the smallest share first."""
        if len(self._candidates) == 1:
            return self._candidates
        return sorted(self._candidates, key=lambda item: self._key(item[0], item[1].id))

    def _key(self, role: str, framework_id: str) -> tuple[float, str, float, str]:
        return self._share(role, ""), role, self._share(role, framework_id), framework_id

    def _add(self, role: str, framework_id: str, amount: Amount) -> None:
        for owner in ("", framework_id):
            self._held[role, owner] = self._held.get((role, owner), EMPTY) + amount

    def _share(self, role: str, owner: str) -> float:
        held = self._held.get((role, owner), EMPTY)
        return held.scalars.share_of(self._cluster.scalars)


def _holdings(framework: Framework) -> list[tuple[str, Amount]]:
    offered = [(offer.role, offer.resources) for offer in framework.offers.values()]
    used = [(task.role, task.resources) for task in framework.tasks.values() if not task.released]
    return offered + used
