"""Arrays for playing learned policies in compiled code, and the text of their decisions."""

from collections.abc import Mapping, Sequence

import numpy as np

from agents.baselines.scored import LEAST_FREE, why_filled
from agents.compiled.waits import WaitLimits, beliefs_of, blank_counts, expects_of
from agents.drl.adviser import Adviser
from agents.drl.kernel.placing import Choices, QueuedJobs, make_desk, make_draft
from agents.drl.learned_policy import LearnedPolicy, told_placed, told_wait
from agents.drl.play.arrays import (
    GUARD,
    NETWORK,
    DecisionNotes,
    NetworkBeliefs,
    NetworkLimits,
    NetworkState,
    Space,
)
from agents.drl.play.playing import play_learned
from agents.starvation_guard import WATCHED, Guard
from environment.decisions.starvation import PatienceLimits
from environment.kernel.play_loop import Trace
from environment.kernel.resized_jobs import SparedResources
from environment.kernel.state import PREFERENCES, Batch
from environment.types import IntArray, Job, Place, Vm, Wait
from environment.view import RunningJob


class LearnedPlayer:
    """A learned policy behind its guard, in a world that the kernel knows whole: `Player`.

    The guard's fallback is best fit, and the network considers more jobs than one.
    """

    def __init__(
        self,
        guard: Guard,
        policy: LearnedPolicy,
        jobs: Sequence[Job],
        vms: Sequence[Vm],
        running: Mapping[int, RunningJob],
        *,
        exact: bool,
    ) -> None:
        """`jobs` by arrival, with the beliefs about them; some run already, by their numbers."""
        self._guard, self._jobs, self._vms = guard, jobs, vms
        self._adviser, self._limits = policy.adviser, policy.patience.limits
        adviser, limits, count = self._adviser, self._limits, len(jobs)
        self._believed = _believed(jobs, limits, adviser)
        self._means = NetworkLimits(
            WaitLimits(limits.overtaken_at_most, float(adviser.options.unknown_seconds), exact),
            policy.considered,
            int(limits.wait_limit),
            0 if guard.idle is None else WATCHED,
            0.0 if guard.idle is None else float(guard.idle),
        )
        self._desk = make_desk(adviser.network, adviser.options.layout, len(vms))
        most = max((job.executors for job in jobs), default=1)
        self._draft = make_draft(len(vms), np.zeros(0, np.int32), most)
        counts = blank_counts(self._believed.jobs)
        self._borne = NetworkState(
            counts=counts,
            expects=expects_of(running, count),
            waits=np.zeros(count, np.int64),
            fits=np.zeros(max(self._means.considered, self._means.watched), np.bool_),
            fitting=np.zeros(len(counts.noted), np.bool_),
            oldest=np.full(2, -1),
            stands=np.full(3, -1),
        )
        self._said = _nothing_said(3 * count + 1, sum(job.executors for job in jobs))
        self._space = _make_space(count, len(vms), policy.considered, adviser.options.layout.upcoming)
        self._space.running[0] = len(running)
        self._space.runs[: len(running)] = sorted(running)

    @property
    def order(self) -> IntArray:
        """The numbers by arrival of the jobs, by those of the kernel; int64 [M]."""
        return self._borne.counts.order

    def play(self, batch: Batch, spared: SparedResources, trace: Trace, until: int) -> bool:
        """Play row 0 until `until` jobs are placed; False when the head waits and no event will follow."""
        adviser, before = self._adviser, int(self._said.counts[1])
        done = play_learned(
            batch, spared, trace, until, self._believed, self._means, self._borne, self._said,
            adviser.options.layout, adviser.network, self._desk, self._draft, self._space,
        )  # fmt: skip
        self._guard.guarded += int(self._said.counts[1]) - before
        return bool(done)

    def place(self, number: int, job: Job, placement: tuple[int, ...]) -> Place:
        """The decision of that number, which placed the job there."""
        said, passed = self._said, int(self._said.passed[number])
        oldest = self._jobs[said.oldest[number]].id
        overtakes = self._limits.told(oldest, passed) if passed else ""
        if said.by[number] == GUARD:
            whys = tuple(why_filled(self._vms[vm].name, LEAST_FREE) for vm in placement)
            waited, idle = float(said.waited[number]), float(said.idle[number])
            return self._guard.told(Place(job.id, placement, whys), waited, idle, overtakes)
        begin, count = int(said.begin[number]), len(placement)
        choices = _part(said.choices, begin, count)
        more = told_placed(
            self._limits, int(said.held_back[number]), int(said.fitted[number]), overtakes
        )  # fmt: skip
        says = (self._adviser.says(choices, i, self._vms) for i in range(count))
        return Place(job.id, placement, tuple(f"{what}{more}" for what in says))

    def wait(self, number: int, shortage: str) -> Wait:
        """The decision of that number, to wait; there is no shortage where the job fitted."""
        if self._said.by[number] != NETWORK:
            return Wait(shortage)
        begin = int(self._said.begin[number])
        choices = _part(self._said.choices, begin, 1)
        return Wait(told_wait(shortage, self._adviser.says(choices, 0, self._vms)))


def _part(choices: Choices, begin: int, count: int) -> Choices:
    """`count` of the choices from `begin` on."""
    part = slice(begin, begin + count)
    return Choices(
        choices.action[part],
        choices.score[part],
        choices.share[part],
        choices.other[part],
        choices.other_score[part],
        choices.other_share[part],
    )


def _believed(jobs: Sequence[Job], limits: PatienceLimits, adviser: Adviser) -> NetworkBeliefs:
    types = {name: number for number, name in enumerate(adviser.options.types, 1)}
    return NetworkBeliefs(
        beliefs_of(jobs, limits, lambda job: (job.size, job.executors)),
        np.array([types.get(job.type, 0) for job in jobs], np.int64),
        np.array([PREFERENCES[job.prefers] for job in jobs], np.int64),
    )


def _make_space(jobs: int, vms: int, considered: int, upcoming: int) -> Space:
    return Space(
        # Ended jobs are only left out when the network is asked.
        runs=np.zeros(jobs, np.int64),
        running=np.zeros(1, np.int64),
        seen=np.full(jobs, -1),
        numbers=np.zeros(considered, np.int64),
        gains=np.zeros(considered),
        asked=_blank(considered),
        shown=_blank(upcoming + 1),
        busy_until=np.zeros(vms),
        free_cpus=np.zeros(vms, np.int64),
        free_memory=np.zeros(vms, np.int64),
        held=np.zeros(vms, np.int64),
        used=np.zeros(vms, np.bool_),
        ready_at=np.zeros(0),
        is_open=np.zeros(0, np.int64),
    )


def _blank(jobs: int) -> QueuedJobs:
    """Empty arrays for `jobs` jobs."""
    reals = ("arrival", "seconds")
    return QueuedJobs(
        **{name: np.zeros(jobs, float if name in reals else np.int64) for name in QueuedJobs._fields}
    )


def _nothing_said(decisions: int, executors: int) -> DecisionNotes:
    most = executors + decisions
    return DecisionNotes(
        by=np.empty(decisions, np.int32),
        oldest=np.empty(decisions, np.int64),
        passed=np.empty(decisions, np.int64),
        held_back=np.empty(decisions, np.int64),
        fitted=np.empty(decisions, np.int64),
        waited=np.empty(decisions),
        idle=np.empty(decisions),
        begin=np.empty(decisions, np.int64),
        choices=Choices(
            action=np.empty(most, np.int32),
            score=np.empty(most, np.float32),
            share=np.empty(most, np.float32),
            other=np.empty(most, np.int32),
            other_score=np.empty(most, np.float32),
            other_share=np.empty(most, np.float32),
        ),
        counts=np.zeros(2, np.int64),
    )
