"""A guard behind learned policies: no job that fits waits for long while much of the cluster is idle.

A network that meets what it never saw may wait for ever, or nearly so. The guard needs no learning: it sees
for how long each job of the queue has fitted without being placed. Where the policy waits, and one has done
so for longer than its patience, a multiple of what that job itself is expected to take, while at least a
share of the cluster's cpus is idle, a fallback places it. The policy itself may be any.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import islice

import numpy as np

from environment.patience import Limits
from environment.policy import Policy
from environment.resources import CPUS
from environment.types import Decision, Place, PlacementRequest, Wait
from environment.view import ClusterView

#: So many jobs of the queue are watched, the oldest of them.
WATCHED = 256
#: What is lost of a time when it is computed, as a share of it: nobody waits for another moment for that.
_ROUNDED = 1e-6


@dataclass(frozen=True, slots=True)
class GuardLimits:
    """When the guard steps in."""

    #: Which share of the cluster's cpus must be idle, of VMs that are closed too.
    idle: float = 0.1
    #: For how long a job may fit and wait, as `environment.patience` has it: in seconds, or, as `2x`, times
    #: what it is expected to take.
    patience: float | str = "1x"

    def __post_init__(self) -> None:
        if not 0 <= self.idle <= 1:
            raise ValueError(f"idle: should be between 0 and 1, found {self.idle:g}")
        Limits(0, patience=self.patience)

    def patience_for(self, request: PlacementRequest) -> float:
        """Seconds for which the request may fit and wait."""
        return Limits(0, patience=self.patience).patience_with(request.job)


class Guard:
    """A policy that decides as another does, but for jobs that have fitted for too long."""

    def __init__(self, policy: Policy, fallback: Policy, name: str, limits: GuardLimits | None) -> None:
        """`name` is the fallback's, for explanations. Without limits it never steps in."""
        self._policy, self._fallback, self._name, self._limits = policy, fallback, name, limits
        #: Since when each job has fitted at every look, by id and whether it lost executors.
        self._since: dict[tuple[str, bool], float] = {}
        #: How many decisions the guard has taken.
        self.guarded = 0

    def decide(self, view: ClusterView, queue: Sequence[PlacementRequest]) -> Decision:
        """As the policy does; where it waits and a job has fitted for too long, the fallback places that."""
        if self._limits is None:
            return self._policy.decide(view, queue)
        watched = list(islice(queue, WATCHED))
        since = self._fitting_since(view, watched)
        decision = self._policy.decide(view, queue)
        if isinstance(decision, Place):
            since.pop(next((_key(r) for r in watched if r.job.id == decision.job_id), ("", False)), None)
        self._since = since
        if isinstance(decision, Place) or not since or _idle(view) < self._limits.idle:
            return decision
        for request in watched:
            waited = view.at - since.get(_key(request), view.at)
            if waited > 0.0 and waited >= (1.0 - _ROUNDED) * self._limits.patience_for(request):
                why = (
                    f"the guard: it has fitted for {waited:.0f} s and waits no longer with {_idle(view):.0%} "
                    f"of the cluster idle, so {self._name} places it: "
                )
                return self._instead(view, request, why, decision)
        return decision

    def _instead(self, view: ClusterView, request: PlacementRequest, why: str, wait: Wait) -> Decision:
        """The fallback's decision about the one job, if it places it."""
        decision = self._fallback.decide(view, [request])
        if isinstance(decision, Wait):
            return wait
        self.guarded += 1
        self._since.pop(_key(request), None)
        reasons = decision.why or ("it gave no reason",) * len(decision.placement)
        return replace(decision, why=tuple(f"{why}{reason}" for reason in reasons))

    def _fitting_since(
        self, view: ClusterView, watched: Sequence[PlacementRequest]
    ) -> dict[tuple[str, bool], float]:
        rooms: dict[object, int] = {}
        since = {}
        for request in watched:
            # Most jobs of a long queue are alike; what else limits a request is looked at one by one.
            alike = (request.size, request.job.spot) if not request.avoided else _key(request)
            if alike not in rooms:
                rooms[alike] = int(view.room_for(request).sum()) if view.vms else 0
            if rooms[alike] >= request.count:
                since[_key(request)] = self._since.get(_key(request), view.at)
        return since


def _idle(view: ClusterView) -> float:
    """Which share of the cluster's cpus nobody holds."""
    total = float(view.capacity.get(CPUS).sum())
    return float(np.maximum(view.free.get(CPUS), 0).sum()) / total if total else 0.0


def _key(request: PlacementRequest) -> tuple[str, bool]:
    return request.job.id, request.again
