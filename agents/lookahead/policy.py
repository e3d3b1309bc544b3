"""Lookahead, the policy: its options, how long it holds a job back, and what it says.

How candidates are played is in `player.py` and `rollout.py`; numba is imported when the policy is made.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Literal

import numpy as np

from agents.baselines.first_fit import FirstFit
from agents.estimates import (
    BAD_PLACEMENT_FACTOR,
    UNKNOWN_DURATION,
    check_factor,
    check_seconds,
    check_share,
)
from environment.check import check, shortage
from environment.options import DurationOptions, RewardOptions, rules
from environment.types import ClusterView, Decision, Place, PlacementRequest, Wait


@dataclass(frozen=True, slots=True)
class LookaheadOptions:
    """Options of lookahead."""

    #: How much cost counts; the rest is time, both of running and until the end.
    beta: float = 0.5
    #: How many variations are played. Chosen: about ten milliseconds' work for a job on a dozen VMs. With 300
    #: schedules are nearly 1 % dearer, with 3,000 a third of a percent cheaper.
    candidates: int = 1000
    #: How many jobs behind the head of the queue are played.
    jobs_ahead: int = 16
    #: What is assumed to place them.
    base: Literal["near_ilp", "ff", "aep"] = "near_ilp"
    #: Seconds after which no further candidates are tried.
    time_budget: float = 1.0
    #: Seconds for which a job that fits is held back for a better moment.
    patience: float = 600.0
    #: How much longer a job takes where it is not placed as its type prefers.
    bad_placement_factor: float = BAD_PLACEMENT_FACTOR
    #: Seconds that a job takes, or a VM is held, of which that is not known.
    unknown_duration: float = UNKNOWN_DURATION
    #: Another seed gives other candidates.
    seed: int = 0

    def __post_init__(self) -> None:
        check_share("beta", self.beta)
        for name in ("time_budget", "unknown_duration"):
            check_seconds(name, getattr(self, name))
        check_factor("bad_placement_factor", self.bad_placement_factor)
        for name in ("candidates", "jobs_ahead", "patience", "seed"):
            if not getattr(self, name) >= 0:
                raise ValueError(f"{name}: should be 0 or more, found {getattr(self, name)}")


class Lookahead:
    """Lookahead: plays candidate placements, and waiting, forward over the queue and takes the best."""

    def __init__(self, options: LookaheadOptions) -> None:
        from agents.lookahead.player import Player  # here, since it brings numba, which others do not need

        self._options = options
        self._player = Player(
            rules(RewardOptions(), DurationOptions(penalty=options.bad_placement_factor)),
            base=options.base,
            beta=options.beta,
            candidates=options.candidates,
            time_budget=options.time_budget,
            unknown=options.unknown_duration,
        )
        #: The job that was held back last, and since when.
        self._held_back = ("", 0.0)

    def decide(self, view: ClusterView, queue: Sequence[PlacementRequest]) -> Decision:
        """Place the head of the queue where that is best for it and those behind it, or wait."""
        request, options = queue[0], self._options
        if np.minimum(view.room_for(request), request.count).sum() < request.count:
            return Wait(shortage(view, request))
        known = list(islice(queue, options.jobs_ahead + 1))
        waited = self._waited(view, request)
        found = self._player.play(view, known, seed=options.seed, may_wait=waited < options.patience)
        over = f"played over {len(known)} job{'s' if len(known) > 1 else ''}"
        if found.placement is None:
            self._held_back = (request.job.id, view.at - waited)
            gain = f"{_percent(found.value, found.rival)} better than the best placement now"
            return Wait(f"waiting for the next job to end is {gain}, {over}")
        gain = f"{_percent(found.value, found.base)} better than {options.base}'s"
        why = f"is part of the best of {found.played} ways {over}, {gain}"
        place = Place(
            request.job.id, found.placement, tuple(f"{view.vms[i].name} {why}" for i in found.placement)
        )
        return _first_fit(view, queue) if check(view, request, place) else place

    def _waited(self, view: ClusterView, request: PlacementRequest) -> float:
        """For how many seconds the job has been held back."""
        job_id, since = self._held_back
        return view.at - since if job_id == request.job.id else 0.0


def _first_fit(view: ClusterView, queue: Sequence[PlacementRequest]) -> Decision:
    """What is done when cpus in finer parts than thousandths, in which candidates are played, do not fit."""
    decision = FirstFit().decide(view, queue)
    if isinstance(decision, Wait):
        return decision
    return replace(
        decision, why=tuple(f"as played it would not fit, so first fit: {w}" for w in decision.why)
    )


def _percent(value: float, other: float) -> str:
    return f"{100 * (1 - value / other):.1f} %"
