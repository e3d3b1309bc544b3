"""Trials from moments of an episode: the same moment each time, and no trace of them in the episode."""

import numpy as np
import pytest

from agents.drl.collecting import Rollouts
from agents.drl.kernel.acting import Play
from agents.drl.kernel.branching import Branching, Trials
from agents.drl.kernel.objective import Objective
from agents.drl.network import network_of
from environment.kernel.copy_episode import copy_row
from environment.kernel.rule_options import DurationOptions, ObservationOptions, RewardOptions, rules
from environment.kernel.rules import step_episode
from environment.kernel.state import RUNNING, make_batch
from environment.training.episodes import episodes
from tests.agents.drl.models import SEEN, make_model
from tests.arrays import each, same

OPTIONS = ObservationOptions(SEEN.name, SEEN.types, SEEN.upcoming)
RULES = rules(RewardOptions(), DurationOptions())
EPISODES = [episodes("burst", "paper", SEEN.types)(seed) for seed in (1, 2)]
NETWORK = network_of(make_model().weights)
CHANCE = Play(temperature=1.0, objective=Objective(10.0, 0.001, 0.0001), considered=4, overtaken_at_most=8)
BEST = CHANCE._replace(temperature=0.0)


def explored(branching: Branching, threads: int = 1) -> tuple[Trials, list[float]]:
    """A copy of the trials, and the episodes' costs."""
    twice = [episode for episode in EPISODES for _ in range(2)]
    with Rollouts(twice, [7, 7, 8, 8], RULES, OPTIONS, steps=0, considered=4, threads=threads) as rows:
        trials = rows.explore(NETWORK, (CHANCE, BEST), branching, 4)
        return each(np.copy, trials), rows.outcome().cost[::2].tolist()


@pytest.mark.slow
def test_trials_leave_no_trace_in_the_episode() -> None:
    """It goes on as without them, for any number of threads."""
    with Rollouts(EPISODES, [7, 8], RULES, OPTIONS, steps=0, considered=4) as rows:
        rows.play(NETWORK, CHANCE)
        alone = rows.outcome().cost.tolist()
    trials, cost = explored(Branching(0.5, 5, 0.9))
    assert cost == alone
    assert (trials.length > 0).all()
    again, _ = explored(Branching(0.5, 5, 0.9), threads=2)
    assert same(trials, again)
    assert explored(Branching(0.0, 5, 0.9))[0].length.tolist() == [0, 0]


def test_advantages_compare_trials_of_one_moment() -> None:
    """All begin with the same observation, and the gains of some are the losses of the others."""
    trials, _ = explored(Branching(1.0, 3, 0.9))
    begins = trials.begins[0]
    assert begins[-1] == trials.length[0]
    seen = [trials.observations[0, at].tolist() for at in begins[:-1]]
    assert all(first == seen[0] for first in seen)
    found = [trials.advantages[0, at] for at in begins[:-1]]
    assert sum(found) == pytest.approx(0.0, abs=1e-9)
    assert max(found) > 0.0
    values = trials.values[0]
    assert found == pytest.approx((values - values.mean()) * 4 / 3)
    for k in range(4):
        assert set(trials.advantages[0, begins[k] : begins[k + 1]]) == {found[k]}
    steps = np.arange(trials.length[0])
    assert trials.masks[0, steps, trials.actions[0, steps]].all()
    assert (trials.masks[0, steps].sum(axis=1) > 1).all()


def test_a_copied_row_goes_on_alike() -> None:
    """To the end of the episode, and without a trace in the one that it was copied from."""
    batch = make_batch([EPISODES[0], EPISODES[1]], RULES)
    random = np.random.default_rng(0)
    with Rollouts(EPISODES, [1, 2], RULES, OPTIONS, steps=40) as rows:
        rows.play(NETWORK, CHANCE._replace(considered=1))
        batch = rows.batch
        copy_row(batch, 0, 1)
        before = [array[0].tolist() for array in (*batch.state, *batch.jobs)]
        assert before == [array[1].tolist() for array in (*batch.state, *batch.jobs)]
        actions = []
        while batch.state.over[1] == RUNNING:
            actions.append(int(random.integers(0, 13)))
            step_episode(batch, 1, actions[-1])
        assert before == [array[0].tolist() for array in (*batch.state, *batch.jobs)]
        for action in actions:
            step_episode(batch, 0, action)
    assert [array[0].tolist() for array in batch.state] == [array[1].tolist() for array in batch.state]
