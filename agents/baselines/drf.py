"""Ordering by dominant resource fairness (Ghodsi 2011): the job type with the smallest share is next.

One of the other baselines chooses the VMs of a job's executors.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import ClassVar, Literal

from agents.baselines.first_fit import FirstFit
from agents.baselines.scored import LeastAllocated
from agents.estimates import MOST_JOBS, check_limit
from conf.util.counted import counted
from environment.decisions.decision_round import room_for_driver
from environment.decisions.feasibility import shortage
from environment.decisions.starvation import PatienceLimits, StarvationGuard
from environment.policy import Policy
from environment.resources import NOTHING, Resources, total
from environment.types import Decision, Place, PlacementRequest, Wait
from environment.view import ClusterView

#: Number of types that a reason names when there are more. Chosen: a line or two of text.
_TYPES_NAMED = 5

_PLACEMENTS: Mapping[str, type[FirstFit] | type[LeastAllocated]] = {
    "first_fit": FirstFit,
    "least_allocated": LeastAllocated,
}


@dataclass(frozen=True, slots=True)
class DrfOptions:
    """Options of dominant resource fairness."""

    #: Which VMs the executors of the job that is next go to.
    placement: Literal["first_fit", "least_allocated"] = "first_fit"
    #: How many jobs of the queue are looked at.
    window: int = 256
    #: How many later jobs may be placed before one while it is the oldest; 0 is first come, first served.
    overtaken_at_most: int = 128

    INSTEAD: ClassVar[Mapping[str, str]] = {
        "overtake": "it orders the queue itself; window and overtaken_at_most bound that"
    }

    def __post_init__(self) -> None:
        check_limit("window", self.window, least=1, most=MOST_JOBS)
        PatienceLimits(self.overtaken_at_most)


class DominantResourceFairness:
    """Dominant resource fairness: the job type with the smallest dominant share is served first.

    Shares belong to job types, since Stoker knows no users. A type's dominant share is the largest of its
    shares of the cluster's cpus, memory and other requested resources, counted over its running executors.
    Only the oldest job of each type is considered: first that of the type with the smallest share, and when
    there is no room for that job or its driver, the next (progressive filling). Lost executors come before
    new jobs, since their job was already ordered once.

    No room is reserved for a job that does not fit. A large job, and all later jobs of its type, wait while
    others fill the cluster, until the permitted number of jobs was placed before it.
    """

    def __init__(self, options: DrfOptions) -> None:
        self._within: Policy = _PLACEMENTS[options.placement]()
        self._window, self._patience = (
            options.window,
            StarvationGuard(PatienceLimits(options.overtaken_at_most)),
        )

    def decide(self, view: ClusterView, queue: Sequence[PlacementRequest]) -> Decision:
        """Place the oldest job of the first type, by share, that has room for it, or wait."""
        oldest: dict[str, PlacementRequest] = {}
        known = list(islice(queue, self._window))
        known = known[: self._patience.reach(known)]
        for request in known:
            oldest.setdefault(request.job.type, request)
        shares = dominant_shares(view)
        # Sorting keeps the order of the queue among equals.
        order = sorted(oldest.values(), key=lambda r: (not r.again, shares.get(r.job.type, 0.0)))
        driverless: dict[str, str] = {}
        for rank, request in enumerate(order):
            decision = self._within.decide(view, [request])
            if isinstance(decision, Place):
                room = room_for_driver(view, request, decision)
                if not isinstance(room, str):
                    self._patience.let_pass(known, known.index(request))
                    return _explained(decision, order, rank, shares)
                driverless[request.job.id] = room
        why = driverless.get(queue[0].job.id) or shortage(view, queue[0])
        if len(order) > 1:
            why += "; nor is there room for the oldest job of any other type"
        return Wait(why)


def dominant_shares(view: ClusterView) -> dict[str, float]:
    """Return the dominant share of every running job type over all its resources: from 0 to 1, by type."""
    taken: dict[str, Resources] = {}
    for running in view.running:
        kind = running.job.type
        taken[kind] = taken.get(kind, NOTHING) + total(running.taken)
    whole = view.capacity.total()
    return {kind: amount.share_of(whole) for kind, amount in taken.items()}


def _explained(
    place: Place, order: Sequence[PlacementRequest], rank: int, shares: Mapping[str, float]
) -> Place:
    """The placement, with the shares that made its job the next before every reason."""
    types = [request.job.type for request in order]
    named = [f"{kind} {shares.get(kind, 0.0):.1%}" for kind in types[:_TYPES_NAMED]]
    if len(types) > _TYPES_NAMED:
        named.append(f"and {counted(len(types) - _TYPES_NAMED, 'more type')}")
    first = f"{types[rank]} is next by dominant share"
    if order[rank].again:
        first = "lost executors come first"
    elif rank:
        first += f", as there is no room for {types[0]}" + (f" and {rank - 1} more" if rank > 1 else "")
    shown = f"{first} ({', '.join(named)}); "
    return replace(place, why=tuple(shown + why for why in place.why))
