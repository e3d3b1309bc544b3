"""Whole episodes played for learners and for evaluation, and their steps one after the other."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from agents.drl.collecting import EpisodeOutcome, Rollouts
from agents.drl.kernel.acting import Play, Record
from agents.drl.kernel.branching import Branching
from agents.drl.kernel.objective import Objective
from agents.drl.network import Flat, SharedWeights, network_of
from agents.drl.training.worlds import Worlds
from conf.schema.training import ReinforceSpec, TrainingSpec
from environment.kernel.rule_options import DurationOptions, RewardOptions, rules
from environment.kernel.state import BoolArray, Episode, Float32Array, Rules, SmallIntArray
from environment.types import FloatArray, IntArray

_UNBOUNDED = 1 << 30


class Steps(NamedTuple):
    """Decisions of some episodes, episode after episode: S steps of B episodes with up to M jobs."""

    observation: Float32Array  # [S, L]
    mask: BoolArray  # [S, N + 1]
    action: SmallIntArray  # [S]
    reward: Float32Array  # [S]
    row: IntArray  # [S] the episode of each
    head: SmallIntArray  # [S] the job that is decided about
    length: IntArray  # [B] steps of each episode
    by_job: FloatArray  # [B, M] rewards of each job, of steps that were left out too
    played: int  # steps in all, with those that were left out

    @property
    def returns(self) -> FloatArray:
        """Sums of all rewards, [B]."""
        total: FloatArray = self.by_job.sum(1)
        return total


class TriedChoices(NamedTuple):
    """Trials at some moments of some episodes: S steps with more than one choice."""

    observation: Float32Array  # [S, L]
    mask: BoolArray  # [S, N + 1]
    action: SmallIntArray  # [S]
    advantage: FloatArray  # [S] of the step's trial over the others from the same moment
    value: float  # average return of the last trials of the episodes


def rules_of(spec: TrainingSpec) -> Rules:
    """The numbers of the simulated world, with the objective in the paper's rewards."""
    return rules(RewardOptions(beta=spec.objective.beta), DurationOptions())


def objective_of(spec: TrainingSpec) -> Objective:
    """Weights of a dollar, a second of duration and a second of completion in the objective."""
    goal = spec.objective
    completion = (1 - goal.beta) * goal.completion
    duration = 1 - goal.beta - completion
    return Objective(
        goal.beta / goal.dollars, duration / goal.seconds, (completion + goal.waiting) / goal.seconds
    )


def how_to_play(worlds: Worlds, temperature: float = 0.0, epsilon: float = 0.0) -> Play:
    """Playing rules of the training file; the best actions are taken by default."""
    spec = worlds.spec
    return Play(
        masked=spec.mask,
        temperature=temperature,
        epsilon=epsilon,
        wait_limit=_UNBOUNDED if spec.wait_limit is None else spec.wait_limit,
        paper_rewards=spec.rewards == "paper",
        objective=objective_of(spec),
        gamma=spec.discount,
        per_job=spec.rewards == "dense",
        considered=spec.considered,
        overtaken_at_most=spec.overtaken_at_most,
    )


def rollouts_of(
    worlds: Worlds, episodes: Sequence[Episode], seeds: Sequence[int], steps: int | None
) -> Rollouts:
    """Rows for these episodes, in the world of the training file; `steps` as in `Rollouts`."""
    spec, seen = worlds.spec, worlds.observation
    return Rollouts(
        episodes,
        seeds,
        rules_of(spec),
        seen,
        steps=steps,
        considered=spec.considered,
        threads=spec.threads,
    )


class EpisodePlayer:
    """Plays as many episodes at once as are given, again and again. Close it when done."""

    def __init__(self, worlds: Worlds) -> None:
        """Arrays are made at the first call, and again for clusters of another size."""
        self._worlds = worlds
        self._rollouts: Rollouts | None = None

    def play(
        self,
        episodes: Sequence[Episode],
        weights: SharedWeights | Flat,
        seeds: Sequence[int],
        *,
        choices_only: bool,
        beta: float | None = None,
    ) -> Steps:
        """Play these episodes, the same number every time, by the network's probabilities.

        `choices_only` leaves out the steps with only one legal action. `beta` is the weight of cost, where it
        differs from that in the training file.
        """
        worlds = self._worlds if beta is None else self._worlds.weighing(beta)
        rollouts = self._begun(worlds, episodes, seeds, steps=None)
        how = how_to_play(worlds, temperature=1.0)
        return _flattened(rollouts.play(network_of(weights), how), choices_only=choices_only)

    def explore(
        self,
        episodes: Sequence[Episode],
        weights: SharedWeights | Flat,
        seeds: Sequence[int],
        numbers: ReinforceSpec,
    ) -> TriedChoices:
        """Play these episodes, the same number every time, and try alternatives on the way."""
        twice = [episode for episode in episodes for _ in range(2)]
        chances = [seed for seed in seeds for _ in range(2)]
        branching = Branching(numbers.share, numbers.horizon, self._worlds.spec.discount)
        plays = how_to_play(self._worlds, temperature=1.0), how_to_play(self._worlds)
        rollouts = self._begun(self._worlds, twice, chances, steps=0)
        trials = rollouts.explore(network_of(weights), plays, branching, numbers.rollouts)
        used = np.arange(trials.actions.shape[1]) < trials.length[:, None]
        return TriedChoices(
            trials.observations[used],
            trials.masks[used],
            trials.actions[used],
            trials.advantages[used],
            float(trials.values.mean()),
        )

    def close(self) -> None:
        """End the threads."""
        if self._rollouts is not None:
            self._rollouts.close()

    def _begun(
        self, worlds: Worlds, episodes: Sequence[Episode], seeds: Sequence[int], steps: int | None
    ) -> Rollouts:
        """The episodes at their beginning, in rows that are made at the first call."""
        if worlds.spec.drawn is not None or self._rollouts is None:
            self.close()
            self._rollouts = rollouts_of(worlds, episodes, seeds, steps)
        else:
            self._rollouts.begin(episodes, seeds)
        return self._rollouts


def play_greedily(
    worlds: Worlds, episodes: Sequence[Episode], weights: SharedWeights | Flat
) -> EpisodeOutcome:
    """Play the episodes by the network's best actions; return their outcome."""
    with rollouts_of(worlds, episodes, [0] * len(episodes), 0) as rollouts:
        rollouts.play(network_of(weights), how_to_play(worlds))
        return rollouts.outcome()


def rewards_by_job(record: Record) -> FloatArray:
    """Sums of rewards of the steps that decide about the first job placed, the second, and so on, [B, M]."""
    used = np.arange(record.actions.shape[1]) < record.length[:, None]
    row, head = np.nonzero(used)[0], record.heads[used]
    by_job = np.zeros((len(record.length), int(head.max(initial=0)) + 1))
    np.add.at(by_job, (row, head), record.rewards[used])
    return by_job


def _flattened(record: Record, *, choices_only: bool) -> Steps:
    used = np.arange(record.actions.shape[1]) < record.length[:, None]
    row, head = np.nonzero(used)[0], record.heads[used]
    by_job = rewards_by_job(record)
    masks = record.masks[:, :-1]
    if choices_only:
        used &= masks.sum(2) > 1
        row, head = np.nonzero(used)[0], record.heads[used]
    return Steps(
        observation=record.observations[:, :-1][used],
        mask=masks[used],
        action=record.actions[used],
        reward=record.rewards[used],
        row=row,
        head=head,
        length=used.sum(1),
        by_job=by_job,
        played=int(record.length.sum()),
    )
