"""Episodes played by compiled code, against the same episodes played step by step."""

import numpy as np
import pytest

from agents.drl.collecting import Rollouts
from agents.drl.kernel.acting import Play, Record
from agents.drl.kernel.objective import Objective
from agents.drl.network import Network, network_of
from environment.kernel.batch_step import Stepper
from environment.kernel.rewards import cost
from environment.kernel.rule_options import DurationOptions, ObservationOptions, RewardOptions, rules
from environment.kernel.state import Episode, make_batch
from environment.training.episodes import episodes
from environment.types import FloatArray
from tests.agents.drl.models import SEEN, make_model, scores, that_waits
from tests.arrays import each, same

OPTIONS = ObservationOptions(SEEN.name, SEEN.types, SEEN.upcoming)
RULES = rules(RewardOptions(), DurationOptions())
EPISODES = [episodes(name, "paper", SEEN.types)(seed) for name in ("burst", "normal") for seed in (1, 2)]
MODEL = make_model()
NETWORK = network_of(MODEL.weights)


def rollouts(
    found: list[Episode] | None = None, steps: int | None = None, threads: int = 1, considered: int = 1
) -> Rollouts:
    """With seeds 10, 11, ..."""
    found, seeds = EPISODES if found is None else found, range(10, 10 + len(found or EPISODES))
    return Rollouts(found, seeds, RULES, OPTIONS, steps=steps, considered=considered, threads=threads)


def played(how: Play, network: Network = NETWORK, steps: int | None = None, threads: int = 1) -> Record:
    """A copy of the record of the four episodes."""
    with rollouts(steps=steps, threads=threads) as rows:
        return each(np.copy, rows.play(network, how))


@pytest.mark.parametrize("kind", ["shared", "flat"])
def test_rollouts_are_what_single_steps_are(kind: str) -> None:
    """The best action by numpy, taken in a `Stepper`: the same observations, masks, actions and rewards."""
    model = make_model(kind)  # type: ignore[arg-type]
    record = played(Play(paper_rewards=True, gamma=0.9, per_job=False), network_of(model.weights))
    for row, episode in enumerate(EPISODES[:3]):
        stepper = Stepper(make_batch([episode], RULES), whole=True, observation=OPTIONS.layout)
        for t in range(record.length[row]):
            assert record.observations[row, t].tolist() == stepper.observations[0].tolist()
            assert record.masks[row, t].tolist() == stepper.masks[0].tolist()
            found = np.where(stepper.masks[0], scores(model.weights, stepper.observations[0], 12), -np.inf)
            action = record.actions[row, t]
            assert found[action] == pytest.approx(found.max(), abs=1e-5)
            assert record.heads[row, t] == stepper.batch.state.head[0]
            stepper.step(np.array([action], np.int64))
            assert record.rewards[row, t] == np.float32(stepper.rewards[0])
            assert record.discounts[row, t] == np.float32(0.0 if stepper.done[0] else 0.9)
        assert stepper.done.all()
        assert record.masks[row, record.length[row]].tolist() == [True] + [False] * 12


@pytest.mark.parametrize(
    "how", [Play(temperature=1.0), Play(temperature=0.5, epsilon=0.3), Play(epsilon=1.0)]
)
def test_chance_comes_from_the_seeds_alone(how: Play) -> None:
    """Not from the number of threads, nor from where a record ends; another seed plays otherwise."""
    record = played(how)
    assert same(record, played(how, threads=3))
    with rollouts(steps=7) as rows:
        taken: list[list[int]] = [[] for _ in EPISODES]
        while not rows.over.all():
            part = rows.play(NETWORK, how)
            for row, length in enumerate(part.length):
                taken[row] += part.actions[row, :length].tolist()
    for row, length in enumerate(record.length):
        assert taken[row] == record.actions[row, :length].tolist()
    with rollouts([EPISODES[0]] * 2) as rows:
        twins = rows.play(NETWORK, how)
        assert twins.actions[0].tolist() != twins.actions[1].tolist()


def bound(episode: Episode) -> float:
    """Dollars that perfect packing on the cheapest cores would cost for the episode's jobs."""
    machines, jobs = episode
    core = (1000 * machines.price_per_hour / machines.milli_cpus).min()
    cores = jobs.milli_cpus / 1000 * jobs.executors
    return float((jobs.duration * cores).sum() * core / 3600)


@pytest.mark.parametrize("considered", [1, 8])
def test_dense_rewards_sum_to_what_the_episode_cost_and_took(considered: int) -> None:
    """The sum is weighted and excludes the unavoidable part, for any order in which jobs are placed."""
    goal = Objective(cost=3.0, duration=0.01, completion=0.002)
    how = Play(temperature=1.0, objective=goal, gamma=0.5, considered=considered, overtaken_at_most=32)
    with rollouts(considered=considered) as rows:
        record, batch = rows.play(NETWORK, how), rows.batch
        outcome = rows.outcome()
        for row, length in enumerate(record.length):
            jobs = len(EPISODES[row].jobs.arrival)
            took = batch.state.end[row, :jobs] - batch.state.start[row, :jobs]
            completed = batch.state.end[row, :jobs] - batch.jobs.arrival[row, :jobs]
            least = batch.jobs.duration[row, :jobs]
            longer = 0.01 * (took - least).sum() + 0.002 * (completed - least).sum()
            expected = 3.0 * (cost(batch, row) - bound(EPISODES[row])) + longer
            assert record.rewards[row, :length].sum(dtype=float) == pytest.approx(-expected, rel=1e-5)
            assert (outcome.cost[row], outcome.placed[row]) == (cost(batch, row), jobs)
            assert outcome.duration[row] == pytest.approx(took.mean())
            assert outcome.completion[row] == pytest.approx(completed.mean())
            last = np.append(np.diff(record.heads[row, :length]) > 0, True)
            waits = record.actions[row, :length] == 0
            assert (record.rewards[row, :length][~last & ~waits] == 0).all()
            assert record.discounts[row, :length].tolist() == [*np.where(last, 0.5, 1.0)[:-1], 0.0]
        assert not outcome.violated.any()


def test_jobs_overtake_only_so_often() -> None:
    """The oldest job that waits is overtaken no more often than is allowed; and it pays to be allowed."""
    completed = {}
    for most in (1, 4, 32):
        how = Play(temperature=1.0, considered=8, overtaken_at_most=most)
        with rollouts(considered=8) as rows:
            rows.play(NETWORK, how)
            arrival, completed[most] = rows.batch.jobs.arrival.copy(), rows.outcome().completion.mean()
        for row, episode in enumerate(EPISODES):
            order = arrival[row, : len(episode.jobs.arrival)]
            assert sorted(order) == episode.jobs.arrival.tolist()
            assert 0 < _overtaken(order) <= most
    assert completed[32] < completed[1]


def _overtaken(order: FloatArray) -> int:
    """The most jobs that were placed one after the other while an older one waited as the oldest."""
    most = 0
    for at in range(len(order)):
        oldest = order[at:].min()
        overtaking = next(i for i, arrival in enumerate(order[at:]) if arrival == oldest)
        most = max(most, overtaking)
    return most


def test_by_chance_other_jobs_are_shown_first() -> None:
    """Where actions are drawn, so is the order of the jobs; where the best are taken, chance has no part."""
    orders = {}
    for temperature in (0.0, 1.0):
        how = Play(temperature=temperature, considered=8, overtaken_at_most=32)
        with Rollouts([EPISODES[1]] * 4, range(4), RULES, OPTIONS, considered=8) as rows:
            rows.play(NETWORK, how)
            orders[temperature] = {tuple(arrival) for arrival in rows.batch.jobs.arrival.tolist()}
    assert len(orders[0.0]) == 1
    assert len(orders[1.0]) == 4


def test_no_more_jobs_are_looked_at_than_there_is_room_for() -> None:
    """Instead of writing elsewhere in memory."""
    with rollouts(considered=2) as rows, pytest.raises(ValueError, match=r"no more than the 2 .* found 3"):
        rows.play(NETWORK, Play(considered=3))


def test_probabilities_are_those_of_the_scores() -> None:
    """Over 4,000 seeds of a first step, actions come as often as exp(score / temperature) says."""
    count, temperature = 4000, 2.0
    with Rollouts([EPISODES[0]] * count, range(count), RULES, OPTIONS, steps=1) as rows:
        record = rows.play(NETWORK, Play(temperature=temperature))
    odds = np.where(record.masks[0, 0], scores(MODEL.weights, record.observations[0, 0], 12), -np.inf)
    odds = np.exp((odds - odds.max()) / temperature)
    found = np.bincount(record.actions[:, 0], minlength=13) / count
    assert found == pytest.approx(odds / odds.sum(), abs=0.03)


def test_no_job_waits_more_often_than_is_allowed() -> None:
    """A network that likes to wait may do so twice in a row for a job that fits, and not when it does not."""
    likes = that_waits(MODEL, 3.0).weights
    waits = {}
    for limit in (2, 100):
        record, waits[limit] = played(Play(temperature=1.0, wait_limit=limit), network_of(likes)), 0
        for row, length in enumerate(record.length):
            actions, heads = record.actions[row, :length], record.heads[row, :length]
            chosen = (actions == 0) & record.masks[row, :length, 1:].any(axis=1)
            waits[limit] = max(waits[limit], int(np.bincount(heads[chosen]).max()))
    assert waits[2] == 2
    assert waits[100] > 2


def test_without_a_mask_the_rules_are_learned_the_hard_way() -> None:
    """Every action is allowed, and one against the rules ends the episode at that action's cost."""
    with rollouts(steps=0) as rows:
        record = rows.play(NETWORK, Play(masked=False, temperature=1e6, paper_rewards=True))
        assert rows.outcome().violated.all()
        assert (record.length < 400).all()
    record = played(Play(masked=False, temperature=1e6, paper_rewards=True))
    ends = record.rewards[np.arange(4), record.length - 1]
    assert ends.tolist() == [-200.0] * 4
    assert record.masks[:, 0].all()


def test_rows_begin_anew_with_longer_episodes() -> None:
    """The arrays grow; other rows go on where they were."""
    short = episodes("burst", "paper", SEEN.types)(3)
    five = each(lambda array: array[:5] if array.ndim else array, short.jobs)
    short = short._replace(jobs=five._replace(jobs=np.array(5)))
    with rollouts([short, short], steps=3) as rows:
        rows.play(NETWORK, Play())
        rows.begin([EPISODES[0]], [10], [0])
        assert rows.play(NETWORK, Play()).length.tolist() == [3, 3]
        while not rows.over.all():
            rows.play(NETWORK, Play())
        outcome = rows.outcome()
    assert outcome.placed.tolist() == [100, 5]
    with rollouts([EPISODES[0], short], steps=0) as rows:
        rows.play(NETWORK, Play())
        assert rows.outcome().cost.tolist() == outcome.cost.tolist()
