"""Overtaking (backfilling): a policy that places the head of a queue alone, also called for later jobs.

That policy chooses a job's VMs; this module chooses the job. `reservation.py` reserves room for the head,
`placement_value.py` compares placements of different jobs, and `environment.decisions.starvation` limits
overtaking.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Literal, NamedTuple

import numpy as np

from agents.estimates import MOST_JOBS, check_limit, check_seconds, check_share, duration_of
from agents.overtaking.placement_value import Worth
from agents.overtaking.reservation import Reservation
from conf.defaults import UNKNOWN_DURATION
from environment.decisions.decision_round import beside_driver
from environment.decisions.starvation import PatienceLimits, StarvationGuard
from environment.number_format import clock
from environment.policy import Policy, StatefulPolicy, TimedPolicy
from environment.types import Decision, IntArray, Place, PlacementRequest, Wait
from environment.view import ClusterView

#: Further inputs of decisions, by the way of overtaking.
KNOWN_TO: Mapping[str, tuple[str, ...]] = {
    "easy": ("queue", "durations", "ends", "preferences"),
    "first_fit": ("queue",),
    "best": ("queue", "durations", "ends", "preferences", "prices"),
    "shortest": ("queue", "durations"),
}


@dataclass(frozen=True, slots=True)
class OvertakingOptions:
    """Options of overtaking, which every policy takes that places the head of the queue alone."""

    #: Jobs that may overtake the head of the queue. `none`: first come, first served. `first_fit`: the first
    #: that fits, when the head does not. `easy`: of those the first that does not delay the head, by the
    #: expected ends of running jobs. `best`: of all that fit, the head among them, the one that is placed
    #: best. `shortest`: of these the one that is expected to take the least time.
    overtake: Literal["none", "easy", "first_fit", "best", "shortest"] = "none"
    #: How many jobs of the queue are looked at.
    window: int = 256
    #: How many later jobs may be placed before one while it is the oldest; 0 is first come, first served.
    overtaken_at_most: int = 128
    #: Weight of cost in the best placement; the rest is time.
    beta: float = 0.5
    #: Seconds that a job takes, or a VM is held, of which that is not known.
    unknown_duration: float = UNKNOWN_DURATION

    def __post_init__(self) -> None:
        check_limit("window", self.window, least=1, most=MOST_JOBS)
        check_share("beta", self.beta)
        check_seconds("unknown_duration", self.unknown_duration)
        _ = self.limits  # which are checked there

    @property
    def limits(self) -> PatienceLimits:
        """Limit on the times that a job may be overtaken; ValueError for an invalid one."""
        return PatienceLimits(self.overtaken_at_most)

    def check_given(self, names: Collection[str]) -> None:
        """ValueError when one of these options, which were given, has no effect."""
        ways = {
            "window": ("easy", "first_fit", "best", "shortest"),
            "overtaken_at_most": ("easy", "first_fit", "best", "shortest"),
            "unknown_duration": ("easy", "best", "shortest"),
            "beta": ("best",),
        }
        for name in names:
            if name in ways and self.overtake not in ways[name]:
                raise ValueError(
                    f"{name}: requires overtake {' or '.join(ways[name])}, found {self.overtake}"
                )


class _Decision(NamedTuple):
    """The policy's decision about a request, and its turn after that."""

    request: PlacementRequest
    place: Place
    turn: object


class Overtaking:
    """Asks a policy that places the head alone about one request at a time, until one may be placed."""

    def __init__(self, policy: Policy, options: OvertakingOptions, *, by_duration: bool) -> None:
        """`by_duration` is true if the policy's placement of a job depends on the job's duration."""
        self._policy, self._options, self._by_duration = policy, options, by_duration
        self._patience = StarvationGuard(options.limits)

    @property
    def cut_short(self) -> int:
        """Number of decisions that a safety stop of the policy cut short."""
        return self._policy.cut_short if isinstance(self._policy, TimedPolicy) else 0

    def decide(self, view: ClusterView, queue: Sequence[PlacementRequest]) -> Decision:
        """Place a job of the window, the head if it fits and no other is better, or wait."""
        if self._options.overtake in ("best", "shortest"):
            return self._best(view, self._shown(queue))
        head = queue[0]
        decision = self._ask(view, head)
        if isinstance(decision, Place):
            self._patience.let_pass([head], 0)
            return decision
        shown, kept, delaying = self._shown(queue), None, 0
        if self._options.overtake == "easy":
            kept = Reservation(view, head, self._options.unknown_duration)
        for number, asked in self._that_fit(view, shown, first=1):
            if kept is not None and kept.is_delayed_by(shown[number], asked.place):
                delaying += 1
                continue
            said = f"; it overtakes {self._patience.told(shown, number)}"
            if kept is not None and kept.starts is not None:
                said += f", and {head.job.id} is still expected to start by {clock(round(kept.starts))}"
            return self._placed(view, shown, number, asked, said)
        return decision if kept is None else Wait(decision.reason + _kept_for(kept, delaying))

    def _shown(self, queue: Sequence[PlacementRequest]) -> list[PlacementRequest]:
        """Those of the window that may be placed as far as overtaking goes, the head among them."""
        shown = list(islice(queue, self._options.window))
        return shown[: self._patience.reach(shown)]

    def _best(self, view: ClusterView, shown: Sequence[PlacementRequest]) -> Decision:
        """Place the best placed or the shortest job of all that fit, the oldest of several."""
        shortest, unknown = self._options.overtake == "shortest", self._options.unknown_duration
        worth: dict[int, Worth] = {}
        best: tuple[float, int, _Decision] | None = None
        fits = 0
        for number, asked in self._that_fit(view, shown):
            fits += 1
            if shortest:
                value = duration_of(shown[number].job, unknown)
            else:
                key = id(asked)
                if key not in worth:
                    worth[key] = Worth(view, asked.request, asked.place, unknown)
                value = worth[key].of(shown[number].job, self._options.beta)
            if best is None or value < best[0]:
                best = value, number, asked
        if best is None:
            return self._ask(view, shown[0])
        _, number, asked = best
        which = "the shortest" if shortest else f"the best (beta {self._options.beta:g})"
        said = f"; of {fits} jobs that fit it is {which}" if fits > 1 else ""
        said += f"; it overtakes {self._patience.told(shown, number)}" if number else ""
        return self._placed(view, shown, number, asked, said)

    def _that_fit(
        self, view: ClusterView, shown: Sequence[PlacementRequest], first: int = 0
    ) -> Iterator[tuple[int, _Decision]]:
        """Numbers of the requests that could be placed now, with the decision about one that is alike.

        The policy decides once about each kind, and its turn is reset afterwards.
        """
        rooms: dict[object, IntArray] = {}
        known: dict[object, _Decision | None] = {}
        for number, request in enumerate(islice(shown, first, None), first):
            kind = (request.kind, request.job.expected_duration) if self._by_duration else request.kind
            if kind not in known:
                known[kind] = self._try(view, request, rooms)
            asked = known[kind]
            if asked is not None:
                yield number, asked

    def _try(
        self, view: ClusterView, request: PlacementRequest, rooms: dict[object, IntArray]
    ) -> _Decision | None:
        """The policy's decision about the request; None when it would wait."""
        size = (request.size, request.avoided, request.job.uses)
        if view.leaves_at or view.extras or size not in rooms:
            rooms[size] = view.room_for(request)
        if np.minimum(rooms[size], request.count).sum() < request.count:
            return None
        turn = self._turn
        decision = self._ask(view, request)
        asked = _Decision(request, decision, self._turn) if isinstance(decision, Place) else None
        self._turn = turn
        return asked

    def _ask(self, view: ClusterView, request: PlacementRequest) -> Decision:
        """The policy's decision about the request alone, with room for its driver."""
        decision = self._policy.decide(view, [request])
        if isinstance(decision, Wait):
            return decision
        found = beside_driver(view, request, decision)
        return Wait(found) if isinstance(found, str) else found

    def _placed(
        self, view: ClusterView, shown: Sequence[PlacementRequest], number: int, asked: _Decision, said: str
    ) -> Decision:
        """Apply the decision about a request, or decide again for a request that is alike."""
        if asked.request is shown[number]:
            decision: Decision = asked.place
            self._turn = asked.turn
        else:
            decision = self._ask(view, shown[number])
        if isinstance(decision, Place):
            self._patience.let_pass(shown, number)
            return replace(decision, why=tuple(f"{why}{said}" for why in decision.why))
        return decision

    @property
    def _turn(self) -> object:
        return self._policy.turn if isinstance(self._policy, StatefulPolicy) else None

    @_turn.setter
    def _turn(self, turn: object) -> None:
        if isinstance(self._policy, StatefulPolicy):
            self._policy.turn = turn


def _kept_for(kept: Reservation, delaying: int) -> str:
    """Text for the head that waits."""
    if kept.starts is None:
        return "; its start is unknown, so no job overtakes it"
    said = f"; it is expected to start by {clock(round(kept.starts))}"
    jobs = "job" if delaying == 1 else "jobs"
    return f"{said}, and {delaying} {jobs} behind it that fit would delay it" if delaying else said


def overtaking_of(policy: Policy, options: OvertakingOptions, knows: Collection[str]) -> Policy:
    """The policy with overtaking, where `options` enable it; `knows` names the inputs of its decisions."""
    if options.overtake == "none":
        return policy
    return Overtaking(policy, options, by_duration="durations" in knows)
