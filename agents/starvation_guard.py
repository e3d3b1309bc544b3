"""A guard behind learned policies: no job that fits waits for long while much of the cluster is idle.

A network in an unfamiliar situation may wait for ever, or nearly so. The guard needs no learning: it counts
the time for which each job of the queue has fitted without being placed. When the policy waits, a job has
fitted for longer than its patience, and at least a share of the cluster's cpus is idle, a fallback places
that job. Any policy can be guarded. The oldest job is overtaken no more often because of the guard:
`environment.decisions.starvation`.
"""

from collections.abc import Sequence
from dataclasses import replace
from itertools import islice

import numpy as np

from environment.decisions.decision_round import beside_driver, which_have_room
from environment.decisions.starvation import StarvationGuard
from environment.policy import Policy
from environment.resources import CPUS
from environment.types import Decision, Place, PlacementRequest
from environment.view import ClusterView

#: Number of jobs of the queue that are watched, the oldest of them.
WATCHED = 256


class Guard:
    """A policy that decides as another does, but for jobs that have fitted for too long."""

    def __init__(
        self, policy: Policy, fallback: Policy, name: str, patience: StarvationGuard, idle: float | None
    ) -> None:
        """`name` is the fallback's, for explanations; `patience` also records the policy's placements.

        `idle` is the share of the cluster's cpus that must be idle, including closed VMs, for the guard to
        step in; None: it never does.
        """
        self._policy, self._fallback, self._name = policy, fallback, name
        self._patience, self.idle = patience, idle
        #: How many decisions the guard has taken.
        self.guarded = 0

    def decide(self, view: ClusterView, queue: Sequence[PlacementRequest]) -> Decision:
        """Decide as the policy; where it waits and a job has fitted too long, the fallback places the job."""
        if self.idle is None:
            return self._policy.decide(view, queue)
        watched = list(islice(queue, WATCHED))
        self._notice(view, watched)
        decision = self._policy.decide(view, queue)
        if isinstance(decision, Place) or _idle(view) < self.idle:
            return decision
        for number in range(self._patience.reach(watched)):
            waited = self._patience.held_for(watched[number], view.at)
            if waited > 0.0 and self._patience.is_late(watched[number], view.at):
                place = self._fallback.decide(view, [watched[number]])
                found = beside_driver(view, watched[number], place) if isinstance(place, Place) else None
                if isinstance(found, Place):
                    return self._instead(view, watched, number, waited, found)
        return decision

    def _instead(
        self, view: ClusterView, watched: Sequence[PlacementRequest], number: int, waited: float, place: Place
    ) -> Place:
        """The fallback's placement of the job of that number, and why it is placed."""
        overtakes = self._patience.told(watched, number) if number else ""
        self.guarded += 1
        self._patience.let_pass(watched, number)
        return self.told(place, waited, _idle(view), overtakes)

    def told(self, place: Place, waited: float, idle: float, overtakes: str) -> Place:
        """The fallback's placement of a job that had fitted for `waited` seconds, with the reason for it.

        `idle` is the idle share of the cluster; `overtakes` is the text for the overtaken jobs, empty for
        none.
        """
        why = (
            f"the guard: it has fitted for {waited:.0f} s and waits no longer with {idle:.0%} "
            f"of the cluster idle, so {self._name} places it"
        )
        if overtakes:
            why += f", which overtakes {overtakes}"
        reasons = place.why or ("it gave no reason",) * len(place.placement)
        return replace(place, why=tuple(f"{why}: {reason}" for reason in reasons))

    def _notice(self, view: ClusterView, watched: Sequence[PlacementRequest]) -> None:
        """Record for each request whether it fits."""
        self._patience.notice_all(watched, view.at, which_have_room(view, watched))


def _idle(view: ClusterView) -> float:
    """Idle share of the cluster's cpus."""
    total = float(view.capacity.get(CPUS).sum())
    return float(np.maximum(view.free.get(CPUS), 0).sum()) / total if total else 0.0
