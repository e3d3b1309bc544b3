"""Plays the candidates of a decision: between the policy and the compiled rollouts.

Importing this module imports numba; a `CandidatePlayer` compiles, or loads code that an earlier process
compiled.
"""

from collections.abc import Sequence
from itertools import islice
from time import perf_counter
from typing import TYPE_CHECKING, NamedTuple
from zlib import crc32

import numpy as np

from agents.estimates import dollars_per_cpu_second
from agents.lookahead.draws import NO_DRAWS, Draws
from agents.lookahead.narrowing import vms_to_play
from agents.lookahead.plans import (
    ADAPTIVE,
    BASE,
    FIRST_FIT,
    FIRST_VARIATION,
    GENE,
    NEAR_ILP,
    NOBODY,
    NOTHING,
    ORDER,
    PlanAim,
    Search,
    make_arrays,
)
from agents.lookahead.rollout import replay, score, search
from agents.lookahead.situation import Situations, grain_of
from agents.warm_up import smallest
from conf.units import SECONDS_PER_HOUR
from environment.kernel.state import Batch, Rules
from environment.types import FloatArray, IntArray, PlacementRequest
from environment.view import ClusterView

if TYPE_CHECKING:
    from agents.drl.model_folder import TrainedModel
    from agents.lookahead.judging import Judge

#: Base policies that place the jobs of a candidate. A network judges the outcome.
BASES = {"near_ilp": NEAR_ILP, "ff": FIRST_FIT, "aep": ADAPTIVE, "reinforce": NEAR_ILP}

#: Neither cost nor time ever counts for nothing. Chosen: with less, jobs wait for ever smaller gains.
_LEAST_WEIGHT = 0.05
#: Maximum number of VMs that plans are played on: of more, those that `vms_to_play` selects.
_MOST_VMS = 96
#: Maximum number of jobs times VMs that are played, and the least number of jobs.
_WORK, _LEAST_JOBS = 2048, 16
#: Maximum number of candidates times jobs times VMs that are played, and the least number of candidates.
_MOST_WORK, _LEAST_CANDIDATES = 120_000, 24
#: Share of the candidates that are played where durations are drawn. Chosen: most are surely worse after a
#: few draws, so that decisions take less than twice as long as without any. On bursts whose durations err by
#: 20 %, a quarter of them with 16 draws are 1.0 % cheaper and 2.3 % sooner, all with 8 draws 0.9 and 1.0 %.
_DRAWN = 0.27
#: Number of draws after which a candidate may be surely worse. Chosen.
_FEWEST = 4
#: How many candidates are played between two looks at the clock.
_AT_ONCE = 16


class Found(NamedTuple):
    """The best candidate: the job of the queue it places, none for a wait, its VMs, and its comparison.

    `value` is that of the aim (less is better; infinite if nothing can be done), `rival` that of the best
    placement if this is a wait, and of waiting if this is a placement (infinite if there is none). `base` is
    the value of the base policy, first come first served, `least` the least value of all, which is less than
    `value` where a network judged otherwise, and `played` counts the candidates. `cut_short` is true if there
    was no time for all of them.
    """

    job: int | None
    placement: tuple[int, ...]
    value: float
    rival: float
    base: float
    least: float
    played: int
    cut_short: bool
    #: Idle VMs, by index, that are used later by a plan that begins with a wait, and in how many seconds.
    later: tuple[tuple[int, float], ...] = ()


class CandidatePlayer:
    """Finds the best of its candidates by playing them forward.

    The result depends only on the arguments and on the plan found last, as long
    as no decision takes longer than the time limit.
    """

    def __init__(
        self,
        rules: Rules,
        *,
        base: str,
        beta: float,
        candidates: int,
        time_limit: float,
        unknown: float,
        model: "TrainedModel | None" = None,
        draws: Draws = NO_DRAWS,
        tails: bool = False,
    ) -> None:
        """`model` is the model of a base that is a trained policy; `draws` are played beside beliefs.

        With `tails` durations may be far longer than believed: every candidate is played on all draws, since
        few of them do not show that.
        """
        self._base = BASES[base]
        self._judge: Judge | None = None
        if model is not None:
            from agents.lookahead import judging  # here, since the other bases do without networks

            self._judge = judging.Judge(model, beta)
        self._situations, self._unknown = Situations(rules, unknown, draws), unknown
        # Floats, for any type of argument: code is compiled for types.
        self._weights = float(max(beta, _LEAST_WEIGHT)), float(max(1 - beta, _LEAST_WEIGHT))
        self._candidates = candidates + FIRST_VARIATION
        self._time_limit = time_limit
        self._fewest = draws.count + 1 if tails else _FEWEST
        self._arrays: Search | None = None
        #: Genes of the jobs that the last plan went over.
        self._plan: dict[str, int] = {}
        #: How many decisions took longer than the time limit.
        self.cut_short = 0
        self.play(*smallest(), seed=0, may_wait=True)  # which compiles it
        self.cut_short = 0  # that was no decision

    def play(
        self,
        view: ClusterView,
        queue: Sequence[PlacementRequest],
        *,
        seed: int,
        may_wait: bool,
        reach: int = 0,
        whole: bool = True,
    ) -> Found:
        """Play candidates over the queue; no job of it after number `reach` is placed now.

        On a large cluster only some VMs are played, of a long queue only some jobs. Where this is not the
        `whole` queue, a network is not consulted: the following jobs are known, if not planned.
        """
        began = perf_counter()
        vms = vms_to_play(view, queue[0], _MOST_VMS, self._unknown)
        if vms is not None:
            found = self._play(view.of_vms(vms), queue, seed, may_wait, reach, whole=False, began=began)
            return found._replace(
                placement=tuple(vms[list(found.placement)].tolist()),
                later=tuple((int(vms[vm]), seconds) for vm, seconds in found.later),
            )
        return self._play(view, queue, seed, may_wait, reach, whole=whole, began=began)

    def _play(
        self,
        view: ClusterView,
        queue: Sequence[PlacementRequest],
        seed: int,
        may_wait: bool,
        reach: int,
        *,
        whole: bool,
        began: float,
    ) -> Found:
        """The same on all of the VMs."""
        most = max(_WORK // len(view.vms), _LEAST_JOBS)
        if len(queue) > most:
            shown = self._shortlist(view, queue, reach, most)
            queue = [queue[number] for number in shown]
            within = sum(number <= reach for number in shown) - 1
            best = self._play(view, queue, seed, may_wait, within, whole=False, began=began)
            return best if best.job is None else best._replace(job=shown[best.job])
        batch = self._situations.load(view, queue)
        ends, factors = self._situations.drawn(view, queue)
        by_draw = np.zeros((2, 1 + len(factors)))
        found = self._arrays_for(batch)._replace(
            most=_most(view, queue),
            ends=ends,
            factors=factors,
            trial_values=by_draw[0],
            best_values=by_draw[1],
        )
        self._take_up(found, queue)
        aim = self._aim(view, seed, may_wait, reach, _shown(batch, queue, self._unknown))
        candidates = min(self._candidates, _MOST_WORK // (len(view.vms) * len(queue)))
        candidates = round(_DRAWN * candidates) if len(factors) else candidates
        candidates = min(self._candidates, max(candidates, _LEAST_CANDIDATES))
        for first in range(0, candidates, _AT_ONCE):
            last = min(first + _AT_ONCE, candidates)
            search(batch, aim, found, first, last)
            if perf_counter() - began > self._time_limit:
                break
        self.cut_short += last < candidates
        order, genes = found.best[:, : len(queue)].tolist()
        self._plan = {queue[i].job.id: genes[i] for i in order}
        values = found.values[:last]
        judged = values
        if self._judge is not None and whole:
            judged = self._judge.weigh(values, found.firsts, found.placements, view, queue)
        chosen = _chosen(values, int(np.argmin(judged)), found, queue)._replace(cut_short=last < candidates)
        if chosen.job is None and view.openings is not None:
            replay(batch, aim, found)
            chosen = chosen._replace(later=_later(batch, view))
        return chosen

    def _shortlist(
        self, view: ClusterView, queue: Sequence[PlacementRequest], reach: int, most: int
    ) -> list[int]:
        """The numbers of the jobs to play, ascending.

        The oldest, then those with the best place now; and the oldest of the others, half of
        all at least.
        """
        batch, scores = self._situations.load(view, queue), np.full(len(queue), np.inf)
        found = self._arrays_for(batch)._replace(most=_most(view, queue))
        score(batch, self._aim(view, 0, False, reach, 0), found, scores)
        scores[0] = -np.inf
        scores[reach + 1 :] = np.inf
        best = np.argsort(scores, kind="stable")[: most // 2]
        taken = set(best[np.isfinite(scores[best])].tolist()) | {0}
        others = (number for number in range(len(queue)) if number not in taken)
        return sorted((*taken, *islice(others, most - len(taken))))

    def _take_up(self, found: Search, queue: Sequence[PlacementRequest]) -> None:
        """Write the plan of the last decision, with new jobs at the end, as one of these jobs."""
        numbers = {request.job.id: number for number, request in enumerate(queue)}
        planned = {job_id: gene for job_id, gene in self._plan.items() if job_id in numbers}
        planned |= {job_id: 0 for job_id in numbers if job_id not in planned}
        for at, (job_id, gene) in enumerate(planned.items()):
            found.plan[ORDER, at] = numbers[job_id]
            found.plan[GENE, numbers[job_id]] = gene

    def _aim(self, view: ClusterView, seed: int, may_wait: bool, reach: int, shown: int) -> PlanAim:
        drawn = (seed % 2**24) << 32 | shown
        price = dollars_per_cpu_second(view) * SECONDS_PER_HOUR
        dearest = float(view.prices_per_hour.max())
        return PlanAim(*self._weights, price, dearest, self._base, may_wait, reach, drawn, self._fewest)

    def _arrays_for(self, batch: Batch) -> Search:
        found, vms = self._arrays, batch.machines.milli_cpus.shape[1]
        executors, jobs = batch.state.placement.shape[1], batch.jobs.arrival.shape[1]
        if (
            found is None
            or len(found.room) != vms
            or len(found.placement) < executors
            or found.plan.shape[1] <= jobs
        ):
            found = make_arrays(self._candidates, vms, executors, jobs)
            self._arrays = found
        return found


def _shown(batch: Batch, queue: Sequence[PlacementRequest], unknown: float) -> int:
    """Hash of 32 bits of the situation: the head, and the ends of running executors, counted from now."""
    grains = batch.state.end[0, : batch.state.running[0]] / grain_of(queue, unknown)
    return crc32(queue[0].job.id.encode(), crc32(np.rint(grains).astype("<i8").tobytes()))


def _most(view: ClusterView, queue: Sequence[PlacementRequest]) -> IntArray:
    """`Search.most` of a queue."""
    limits = [view.most_for(request) for request in queue]
    if all(most is None for most in limits):
        return np.zeros((0, len(view.vms)), np.int64)
    every = np.full(len(view.vms), np.iinfo(np.int64).max)
    return np.array([every if most is None else most for most in limits])


def _later(batch: Batch, view: ClusterView) -> tuple[tuple[int, float], ...]:
    """`Found.later` of the plan that was played in row 1."""
    state, jobs, wanted = batch.state, batch.jobs, dict[int, float]()
    for job in range(int(state.head[0]), int(jobs.jobs[0])):
        first = int(jobs.first[1, job])
        for vm in set(state.placement[1, first : first + int(jobs.executors[1, job])].tolist()):
            if view.executors[vm] == 0:
                wanted[vm] = max(wanted.get(vm, 0.0), float(state.start[1, job]))
    return tuple(wanted.items())


def _chosen(values: FloatArray, best: int, found: Search, queue: Sequence[PlacementRequest]) -> Found:
    """The result for the chosen candidate `best`."""
    first = int(found.firsts[best])
    waits = found.firsts[: len(values)] == NOBODY
    others = values[waits != waits[best]]
    return Found(
        job=None if first == NOBODY else first,
        placement=() if first == NOBODY else tuple(found.placements[best, : queue[first].count].tolist()),
        value=float(values[best]),
        rival=float(others.min(initial=NOTHING)),
        base=float(values[BASE]),
        least=float(values.min()),
        played=int(np.isfinite(values).sum()),
        cut_short=False,
    )
