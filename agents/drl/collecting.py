"""Episodes played by a network, many at once: training learns from them, evaluation counts them.

Compiled code alone plays episodes one step after the other, so single steps cost no call. Importing this
module imports numba, but not TensorFlow. `kernel/playing.py` plays an episode.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from agents.drl.kernel.acting import Play, Record, make_cursor, make_workspace, play
from agents.drl.kernel.branching import Branching, Trials, explore, make_trials
from agents.drl.kernel.reference import dollars_of
from agents.drl.network import Network
from environment.kernel.observation import observation_length
from environment.kernel.rule_options import ObservationOptions
from environment.kernel.rules import reset
from environment.kernel.state import (
    VIOLATED,
    Batch,
    BoolArray,
    Episode,
    Rules,
    enlarged,
    load_episode,
    longest,
    make_batch,
)
from environment.kernel.threads import ThreadedRows
from environment.types import FloatArray, IntArray

#: Steps of a trial until its first job is placed; where there are more, it ends.
_STEPS_OF_TRIAL = 64


class EpisodeOutcome(NamedTuple):
    """Results of episodes, each [B]; the means are over the placed jobs."""

    cost: FloatArray  # dollars
    duration: FloatArray  # mean seconds from start to end
    completion: FloatArray  # mean seconds from submission to end
    waits: IntArray  # how often it was waited
    placed: IntArray  # jobs
    violated: BoolArray  # whether it ended by an action against the rules
    gained: FloatArray  # sum of the rewards


class Rollouts(ThreadedRows):
    """Rows of episodes that a network plays. Close it when done, or use it in a `with`.

    Nothing depends on the number of threads: each row has its own random numbers, by its seed.
    """

    def __init__(
        self,
        episodes: Sequence[Episode],
        seeds: Sequence[int],
        rules: Rules,
        observation: ObservationOptions,
        *,
        steps: int | None = None,
        considered: int = 1,
        threads: int = 1,
    ) -> None:
        """Begin an episode in each row, with that row's seed for random choices.

        Each call of `play` records `steps` steps and ends then; 0 records none, but plays whole episodes;
        None records as many as an episode can take, when at most `considered` jobs are considered.
        """
        size = len(episodes)
        # Rows may belong together two by two, see `explore`.
        super().__init__(size, threads, together=2)
        self.batch: Batch = make_batch(episodes, rules)
        self._observation, self._steps, self._considered = observation, steps, considered
        self._cursor = make_cursor(size, considered)
        self._record = self._make_record()
        self._trials: Trials | None = None
        self.begin(episodes, seeds)

    @property
    def over(self) -> BoolArray:
        """Mask of the episodes that are over, bool [B]."""
        ended: BoolArray = self.batch.state.over != 0
        return ended

    def begin(
        self, episodes: Sequence[Episode], seeds: Sequence[int], rows: Sequence[int] | None = None
    ) -> None:
        """Begin other episodes in these rows, or in all; arrays grow when one is longer than any before."""
        most_jobs, most_executors = self.batch.jobs.arrival.shape[1], self.batch.state.placement.shape[1]
        jobs, executors = longest(episodes)
        if jobs > most_jobs or executors > most_executors:
            self.batch = enlarged(self.batch, max(jobs, most_jobs), max(executors, most_executors))
            self._record = self._make_record()
        for row, episode, seed in zip(
            range(len(episodes)) if rows is None else rows, episodes, seeds, strict=True
        ):
            load_episode(self.batch, row, episode)
            reset(self.batch, row)
            for counted in self._cursor:
                counted[row] = 0
            self._cursor.seed[row] = seed

    def play(self, network: Network, how: Play) -> Record:
        """Play on in all rows, until the episode is over or the record is full.

        The record's arrays are the same at every call (until `begin` has made them longer). ValueError when
        more jobs are considered than the arrays have room for.
        """
        self._check(how)
        vms = self.batch.machines.milli_cpus.shape[1]

        def work(low: int, high: int) -> None:
            space = make_workspace(network, self._observation.layout, vms, self._considered)
            seen = self._observation.layout
            play(self.batch, (low, high), seen, network, how, self._cursor, self._record, space)

        self._share(work)
        return self._record

    def explore(
        self, network: Network, plays: tuple[Play, Play], branching: Branching, trials: int
    ) -> Trials:
        """Play every second row to its end, with occasional trials in the other rows.

        The rows must hold the same episodes two by two. The first of `plays` draws actions at random, the
        second takes the best ones. The returned arrays are the same at every call. ValueError as in `play`.
        """
        self._check(plays[0])
        size, vms = self.batch.machines.milli_cpus.shape
        length = observation_length(vms, self._observation.layout)
        if self._trials is None:
            kept = 40 * trials * self.batch.jobs.arrival.shape[1]
            self._trials = make_trials(size // 2, trials, kept, length, vms + 1)
            self._tried = make_record(size, _STEPS_OF_TRIAL, length, vms)
        kept_trials, tried, unwritten = self._trials, self._tried, make_record(size, 0, length, vms)

        def work(low: int, high: int) -> None:
            space = make_workspace(network, self._observation.layout, vms, self._considered)
            explore(
                self.batch, (low // 2, high // 2), self._observation.layout, network, plays, branching,
                self._cursor, (tried, unwritten), kept_trials, space,
            )  # fmt: skip

        self._share(work)
        return kept_trials

    def _check(self, how: Play) -> None:
        if how.considered > self._considered:
            raise ValueError(
                f"considered: should be no more than the {self._considered} that the rollouts were made for, "
                f"found {how.considered}"
            )

    def outcome(self) -> EpisodeOutcome:
        """Results of the episodes so far."""
        jobs, state = self.batch.jobs, self.batch.state
        placed = np.arange(jobs.arrival.shape[1]) < state.head[:, None]
        count = np.maximum(1, state.head)
        return EpisodeOutcome(
            cost=np.array([dollars_of(self.batch, row) for row in range(len(state.over))]),
            duration=np.where(placed, state.end - state.start, 0.0).sum(axis=1) / count,
            completion=np.where(placed, state.end - jobs.arrival, 0.0).sum(axis=1) / count,
            waits=state.waits.copy(),
            placed=state.head.copy(),
            violated=state.over == VIOLATED,
            gained=self._cursor.gained.copy(),
        )

    def _make_record(self) -> Record:
        size, vms = self.batch.machines.milli_cpus.shape
        length = observation_length(vms, self._observation.layout)
        # Every step places an executor, or passes over a job: so many of them, until one is placed or at
        # least one more has ended (or arrived, where more than one is considered).
        jobs = self.batch.jobs.arrival.shape[1]
        looks = jobs if self._considered == 1 else 3 * jobs * min(self._considered, jobs)
        longest = self.batch.state.placement.shape[1] + looks
        steps = longest if self._steps is None else self._steps
        return make_record(size, steps, length, vms)


def make_record(rows: int, steps: int, length: int, vms: int) -> Record:
    """Arrays for `steps` steps in each row."""
    return Record(
        length=np.zeros(rows, np.int64),
        observations=np.zeros((rows, steps + 1, length), np.float32),
        masks=np.zeros((rows, steps + 1, vms + 1), np.bool_),
        actions=np.zeros((rows, steps), np.int32),
        rewards=np.zeros((rows, steps), np.float32),
        discounts=np.zeros((rows, steps), np.float32),
        heads=np.zeros((rows, steps), np.int32),
    )
