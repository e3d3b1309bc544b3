"""Lookahead, the policy: its options, and its reasons.

`search.py` and `rollout.py` play candidates; numba is imported when the policy is made.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np

from agents.estimates import (
    MOST_JOBS,
    MOST_SECONDS,
    MOST_SEED,
    check_factor,
    check_limit,
    check_seconds,
    check_share,
)
from agents.lookahead.draws import Draws
from conf.defaults import BAD_PLACEMENT_FACTOR, UNKNOWN_DURATION
from environment.decisions.feasibility import shortage
from environment.decisions.starvation import PatienceLimits, StarvationGuard
from environment.kernel.rule_options import DurationOptions, RewardOptions, rules
from environment.types import Decision, Place, PlacementRequest, Wait
from environment.view import ClusterView

if TYPE_CHECKING:
    from agents.drl.model_folder import TrainedModel
    from agents.lookahead.search import Found


#: An idle VM that the plan uses is kept for so many times as long as it is until then: jobs may last longer.
_LATER = 2.0
#: On how many draws of durations plans are played at least where one is unknown. Chosen: of 0, 8 and 32 on
#: windows of Alibaba's tasks: 1.12, 1.01 and 1.00 times the cost of first fit, ends later by 0, 2 and 6 %.
_DOUBTFUL = 8
#: Maxima of two options, a hundred times their defaults and about sixty: more takes minutes for a decision.
_MOST_CANDIDATES, _MOST_DRAWS = 10_000, 1000


@dataclass(frozen=True, slots=True)
class LookaheadOptions:
    """Options of lookahead."""

    INSTEAD: ClassVar[Mapping[str, str]] = {
        "jobs_ahead": "window counts the first job of the queue, too",
        "time_budget": "candidates bounds the work for a decision, time_limit stops one that takes too long",
    }

    #: How much cost counts; the rest is time, both of running and until the end.
    beta: float = 0.5
    #: How many variations are played: the work that is done for a decision. Chosen: a few milliseconds for a
    #: job on a dozen VMs. With 200 schedules are 1 % cheaper.
    candidates: int = 100
    #: Number of draws of the jobs' durations on which a candidate is played, besides on the beliefs, where
    #: these err; a quarter of the candidates suffices then. Chosen: on 40 bursts with errors of 20 %, 16 are
    #: 1.0 % cheaper and 2.3 % sooner than none at 1.8 times the time; 50 jobs an hour cost the same.
    draws: int = 16
    #: How many jobs of the queue are looked at. On large clusters those are played of them that could best be
    #: placed, and the oldest.
    window: int = 256
    #: The policy that is assumed to place them. `reinforce`: near_ilp does, but where all jobs of the queue
    #: are played, a plan that begins as a trained network would counts as cheaper, for the sake of jobs yet
    #: to come.
    base: Literal["near_ilp", "ff", "aep", "reinforce"] = "near_ilp"
    #: For base reinforce: a shipped model by its name, or the folder of any. Without it the shipped one whose
    #: beta is nearest.
    model: str | None = None
    #: Seconds after which a decision is cut short, as a safety stop: the decision then depends on how fast
    #: the machine is.
    time_limit: float = 30.0
    #: For how long the oldest job may be held back though it fits, for a better moment: in seconds, or as a
    #: multiple of its expected duration.
    patience: float | str = "2x"
    #: How many later jobs may be placed before one while it is the oldest: then it is next at any cost; 0 is
    #: first come, first served.
    overtaken_at_most: int = 128
    #: How much longer a job takes where it is not placed as its type prefers.
    bad_placement_factor: float = BAD_PLACEMENT_FACTOR
    #: Seconds that a job takes, or a VM is held, of which that is not known.
    unknown_duration: float = UNKNOWN_DURATION
    #: Another seed gives other candidates.
    seed: int = 0

    def __post_init__(self) -> None:
        check_share("beta", self.beta)
        if self.model is not None and self.base != "reinforce":
            raise ValueError(f"model: requires base reinforce, found {self.base}")
        check_seconds("time_limit", self.time_limit, MOST_SECONDS)
        check_seconds("unknown_duration", self.unknown_duration)
        check_factor("bad_placement_factor", self.bad_placement_factor)
        check_limit("candidates", self.candidates, most=_MOST_CANDIDATES)
        check_limit("draws", self.draws, most=_MOST_DRAWS)
        check_limit("seed", self.seed, most=MOST_SEED)
        check_limit("window", self.window, 1, most=MOST_JOBS)
        _ = self.limits  # which are checked there

    @property
    def limits(self) -> PatienceLimits:
        """Limits on the time and number of waits of a job; ValueError for invalid ones."""
        return PatienceLimits(self.overtaken_at_most, patience=self.patience, unknown=self.unknown_duration)


class Lookahead:
    """Lookahead: plays plans for the known queue forward, and takes the first step of the best.

    That may be to place a later job before older ones, or to wait. No job waits for ever for that, as
    `environment.decisions.starvation` has it.
    """

    def __init__(self, options: LookaheadOptions) -> None:
        from agents.lookahead.search import (
            CandidatePlayer,  # here, since it brings numba, which others do not need
        )

        self._options = options
        self._plays = "near_ilp" if options.base == "reinforce" else options.base

        def player(draws: int, *, tails: bool = False) -> CandidatePlayer:
            return CandidatePlayer(
                rules(RewardOptions(), DurationOptions(penalty=options.bad_placement_factor)),
                base=options.base,
                beta=options.beta,
                candidates=options.candidates,
                time_limit=options.time_limit,
                unknown=options.unknown_duration,
                model=model,
                draws=Draws(draws, options.seed, options.unknown_duration),
                tails=tails,
            )

        model = _model(options)
        self._player = player(options.draws)
        #: For unknown durations. Played on assumed ones instead, a job that takes a hundred times as long
        #: counts for nothing, and holds the largest VM.
        self._doubtful = player(max(options.draws, _DOUBTFUL), tails=True)
        self._patience = StarvationGuard(options.limits)

    @property
    def cut_short(self) -> int:
        """Number of decisions that the time limit cut short."""
        return sum(player.cut_short for player in {self._player, self._doubtful})

    @property
    def bounds_waits(self) -> bool:
        """Whether its patience ends."""
        return self._options.limits.ends

    def decide(self, view: ClusterView, queue: Sequence[PlacementRequest]) -> Decision:
        """Place the job of the queue with which its jobs together fare best, or wait."""
        options = self._options
        known = list(islice(queue, options.window))
        reached = known[: self._patience.reach(known)]
        fits = _fits(view, queue[0])
        now = self._patience.notice(queue[0], view.at, fits=fits)
        if not (fits or _any_fits(view, reached)):
            return Wait(shortage(view, queue[0]))
        reach, whole = 0 if now else len(reached) - 1, len(known) == len(queue)
        player = self._doubtful if _doubtful(view, known) else self._player
        found = player.play(view, known, seed=options.seed, may_wait=not now, reach=reach, whole=whole)
        over = f"played over {len(known)} job{'s' if len(known) > 1 else ''}"
        if found.cut_short:
            over += f", cut short after {options.time_limit:g} s"
        if found.job is None and found.value < np.inf:
            keeps = tuple((vm, view.at + _LATER * seconds) for vm, seconds in found.later)
            if not fits:
                return Wait(
                    f"{shortage(view, queue[0])}; to place a later job first is no better, {over}", keeps
                )
            self._patience.hold_back(queue[0])
            gain = f"{_better(found.value, found.rival)} than the best placement now"
            return Wait(f"waiting for the next job to end is {gain}, {over}{_judged(found)}", keeps)
        first = found.job or 0
        gain = f"{_better(found.value, found.base)} than {self._plays}'s{_judged(found)}"
        why = f"is part of the best of {found.played} ways {over}, {gain}{self._overtaking(known, first)}"
        whys = tuple(f"{view.vms[i].name} {why}" for i in found.placement)
        place = Place(known[first].job.id, found.placement, whys)
        self._patience.let_pass(known, first)
        return place

    def _overtaking(self, known: Sequence[PlacementRequest], number: int) -> str:
        """Text for a job that is placed before others."""
        return f"; it overtakes {self._patience.told(known, number)}" if number else ""


def _model(options: LookaheadOptions) -> "TrainedModel | None":
    """The model of a trained base; PolicyError for an invalid one."""
    if options.base != "reinforce":
        return None
    from agents.drl.model_folder import (  # here, since other bases do without
        TrainedModelError,
        model_for,
        nearest_beta,
    )
    from agents.registry import PolicyError  # here, since the registry names this module

    try:
        model = model_for("reinforce", options.model, nearest_beta("reinforce", options.beta))
    except TrainedModelError as error:
        raise PolicyError(f"policy lookahead: model: {error}") from error
    if model.spec.vms is not None:
        raise PolicyError(f"policy lookahead: model: should be for any number of VMs, not {model.spec.vms}")
    return model


def _doubtful(view: ClusterView, known: Sequence[PlacementRequest]) -> bool:
    """Whether a job that waits or runs is of unknown duration."""
    waiting = any(request.job.expected_duration is None for request in known)
    return waiting or any(running.expected is None for running in view.running)


def _fits(view: ClusterView, request: PlacementRequest) -> bool:
    return bool(np.minimum(view.room_for(request), request.count).sum() >= request.count)


def _any_fits(view: ClusterView, requests: Sequence[PlacementRequest]) -> bool:
    rooms = view.usable.rooms([request.size for request in requests]).tolist()
    return any(
        room >= request.count and _fits(view, request) for room, request in zip(rooms, requests, strict=True)
    )


def _better(value: float, other: float) -> str:
    if value > other:
        return f"{100 * (value / other - 1):.1f} % worse"
    return f"{100 * (1 - value / other):.1f} % better"


def _judged(found: "Found") -> str:
    """Text for a network's choice that differs from the best one for the known jobs."""
    if found.value <= found.least:
        return ""
    return f"; {_better(found.value, found.least)} than the best for these jobs, but reinforce would begin so"
