"""Environments for TF-Agents and Gymnasium: worked by hand, alike, repeatable, and as their makers ask."""

from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

import environment.training.gym as registered
from conf.loader import ConfigError
from environment.kernel.rule_options import DurationOptions, ObservationOptions, RewardOptions, rules
from environment.kernel.rules import reset, step_episode
from environment.kernel.state import make_batch
from environment.resources import Resources
from environment.training.episodes import FIRST_TRAINING_SEED, episodes, training_seeds
from environment.training.gym import make_arena
from environment.training.vector_episodes import Arena
from environment.types import Vm
from profiles.workloads.workload import Workload, WorkloadJob

#: What importing TensorFlow and TF-Agents says.
QUIET = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::SyntaxWarning")

ID = "stoker/Cluster-v0"


def job(name: str, cpus: float, gib: int, executors: int, seconds: float, kind: str = "plain") -> WorkloadJob:
    """A job that is there from the beginning."""
    return WorkloadJob(name, 0.0, kind, cpus, gib * 1024, executors, seconds)


#: Islam 2022, Fig. 2, with prices and durations.
FIGURE_2 = (
    Workload((job("a", 4, 8, 2, 60), job("b", 6, 10, 1, 30))),
    (Vm("1", "1", "m", Resources.of(4, 8 * 1024), 0.24), Vm("2", "2", "m", Resources.of(8, 16 * 1024), 0.48)),
)
#: A network-bound job, which takes 130 s instead of 100 when its executors are apart.
CONSOLIDATED = (
    Workload((job("a", 2, 4, 2, 100, "pagerank"),)),
    (Vm("1", "1", "m", Resources.of(4, 8 * 1024), 0.36), Vm("2", "2", "m", Resources.of(4, 8 * 1024), 0.36)),
)

World = tuple[Workload, tuple[Vm, ...]]
Play = Callable[[World, Sequence[int]], tuple[list[float], list[bool]]]


def in_kernel(world: World, actions: Sequence[int]) -> tuple[list[float], list[bool]]:
    """Rewards, and whether the episode is over after each action."""
    batch = make_batch([episodes(*world)(0)], rules(RewardOptions(), DurationOptions()))
    reset(batch, 0)
    taken = [(step_episode(batch, 0, action), bool(batch.state.over[0])) for action in actions]
    return [reward for reward, _ in taken], [over for _, over in taken]


def in_gymnasium(world: World, actions: Sequence[int]) -> tuple[list[float], list[bool]]:
    """The same of the environment for Gymnasium."""
    env = gymnasium.make(ID, workload=world[0], cluster=world[1], disable_env_checker=True)
    env.reset(seed=0)
    taken = [env.step(np.int64(action)) for action in actions]
    return [float(step[1]) for step in taken], [step[2] for step in taken]


def in_vector(world: World, actions: Sequence[int]) -> tuple[list[float], list[bool]]:
    """The same of the second of three in the vector form; the others wait, which is not allowed at first."""
    envs = vector(3, workload=world[0], cluster=world[1])
    envs.reset(seed=0)
    taken = [envs.step(np.array([0, action, 0])) for action in actions]
    return [float(step[1][1]) for step in taken], [bool(step[2][1]) for step in taken]


def in_tf_agents(world: World, actions: Sequence[int]) -> tuple[list[float], list[bool]]:
    """The same of the environment for TF-Agents."""
    from environment.training.tf import ClusterEnvironment

    env = ClusterEnvironment(episodes(*world), training_seeds(0), 2)
    env.reset()
    taken = [env.step(np.array([0, action], np.int32)) for action in actions]
    return [float(step.reward[1]) for step in taken], [bool(step.is_last()[1]) for step in taken]


def vector(size: int, **options: Any) -> gymnasium.vector.VectorEnv[Any, Any, Any]:
    """The vector form."""
    return gymnasium.make_vec(ID, size, vectorization_mode="vector_entry_point", **options)


@QUIET
@pytest.mark.parametrize("play", [in_kernel, in_gymnasium, in_vector, in_tf_agents])
@pytest.mark.parametrize(
    ("world", "actions", "rewards"),
    [
        # 60 s of VM 1 and 90 s of VM 2 are 0.016 dollars of at most 90 s of both, 0.018.
        (FIGURE_2, [1, 2, 0, 2], [1, 1, -1, 10_000 * (0.5 * (1 - 16 / 18) + 0.5)]),
        (FIGURE_2, [1, 1], [1, -200]),  # VM 1 is full
        (FIGURE_2, [1, 0], [1, -200]),  # half placed
        (FIGURE_2, [0], [-200]),  # nothing runs
        # Together: 100 s of one VM, 0.01 dollars of at most 130 s of both, 0.026; and the shortest time.
        (CONSOLIDATED, [2, 2], [1, 10_000 * (0.5 * (1 - 10 / 26) + 0.5)]),
        (CONSOLIDATED, [2, 1], [1, 0]),  # the most it can cost, in the longest time
    ],
)
def test_rewards_by_hand(play: Play, world: World, actions: list[int], rewards: list[float]) -> None:
    """Table 3 and eq. 7 to 14 of Islam 2022, the same everywhere; the last action ends the episode."""
    found, over = play(world, actions)
    assert found == pytest.approx(rewards, rel=1e-6, abs=1e-6)
    assert over == [False] * (len(actions) - 1) + [True]


def test_masks_and_the_end_are_in_the_info() -> None:
    """The legal actions before each action, the outcome at the end; then a reset is required."""
    env = gymnasium.make(ID, workload=FIGURE_2[0], cluster=FIGURE_2[1], disable_env_checker=True)
    observation, info = env.reset()
    assert observation == pytest.approx([4, 8, 0.24, 8, 16, 0.48, 1, 4, 8, 2])
    masks = [info["action_mask"].tolist()]
    for action in (1, 2, 0, 2):
        *_, info = env.step(action)
        masks.append(info["action_mask"].tolist())
        assert env.get_wrapper_attr("action_masks")().tolist() == masks[-1]
    assert masks == [
        [False, True, True],
        [False, False, True],
        [True, False, False],
        [False, False, True],
        [True, False, False],  # the episode is over
    ]
    assert (info["clock"], info["violated"]) == (90, False)
    assert info["cost"] == pytest.approx(0.016)
    with pytest.raises(gymnasium.error.ResetNeeded):
        env.unwrapped.step(1)


def test_gymnasium_accepts_it() -> None:
    """Its own check, in which warnings are errors; and there is a vector form of other episodes."""
    for env in (gymnasium.make(ID), gymnasium.make(ID, observation="rich", workload="burst")):
        check_env(env.unwrapped, skip_render_check=True)
    envs = vector(5, observation="rich")
    observations, infos = envs.reset(seed=3)
    assert envs.observation_space.contains(observations)
    assert infos["action_mask"].shape == (5, 13)
    assert len(np.unique(observations, axis=0)) == 5
    assert registered.make_arena(1).observations.shape == (1, 40)


@QUIET
def test_tf_agents_accepts_it() -> None:
    """Its own check with random legal actions, and with any; and it can be wrapped."""
    from tf_agents.environments import tf_py_environment, utils

    from environment.training.tf import ClusterEnvironment

    made = episodes("normal", "paper", ("sort",))
    seen = ObservationOptions("rich", ("sort",))
    with ClusterEnvironment(made, training_seeds(0), 3, observation=seen, discount=0.9) as env:
        utils.validate_py_environment(
            env,
            4,
            observation_and_action_constraint_splitter=lambda seen: (seen["observation"], seen["mask"]),
        )
    plain = ClusterEnvironment(made, training_seeds(0), 3, mask=False)
    utils.validate_py_environment(plain, 20)
    wrapped = tf_py_environment.TFPyEnvironment(plain)
    assert wrapped.batch_size == 3
    assert wrapped.reset().observation.shape == (3, 40)
    assert wrapped.step(np.zeros(3, np.int32)).reward.numpy().tolist() == [-200] * 3


@QUIET
def test_episodes_of_a_batch_begin_anew_on_their_own() -> None:
    """The step after the last ignores its action, earns nothing and is the first of another workload's."""
    from environment.training.tf import ClusterEnvironment

    env = ClusterEnvironment(episodes(*FIGURE_2), training_seeds(0), 2, discount=0.5)
    kinds, discounts, rewards = [], [], []
    step = env.reset()
    for actions in ([1, 0], [2, 0], [0, 1]):
        before, step = step.observation["observation"].copy(), env.step(np.array(actions))
        kinds.append(step.step_type.tolist())
        discounts.append(step.discount.tolist())
        rewards.append(step.reward.tolist())
        assert (step.observation["observation"] != before).any()
    assert kinds == [[1, 2], [1, 0], [1, 1]]
    assert discounts == [[0.5, 0], [0.5, 1], [0.5, 0.5]]
    assert rewards == [[1, -200], [1, 0], [-1, 1]]


def walk(envs: gymnasium.vector.VectorEnv[Any, Any, Any], seed: int, steps: int = 400) -> list[Any]:
    """Random legal actions; all that came back."""
    chance = np.random.default_rng(7)
    observations, infos = envs.reset(seed=seed)
    found = [observations.tolist()]
    for _ in range(steps):
        drawn = chance.random(infos["action_mask"].shape) * infos["action_mask"]
        observations, rewards, done, _, infos = envs.step(drawn.argmax(1))
        found.append((observations.tolist(), rewards.tolist(), done.tolist()))
    return found


def test_a_seed_gives_the_same_again() -> None:
    """Also in a vector that has played before, with threads, and over the ends of episodes."""
    first, second = vector(4, observation="rich"), vector(4, observation="rich", seed=9, threads=2)
    walk(second, 5, steps=3)
    found = walk(first, 1)
    assert sum(any(done) for _, _, done in found[1:]) > 2
    assert walk(second, 1) == found
    assert walk(second, 2) != found
    second.close()


def test_a_workload_can_be_chosen() -> None:
    """A seed's workload for evaluation, after any play; then training goes on where it was."""
    envs, plain = vector(2), vector(2)
    chosen, _ = envs.reset(options={"workload_seed": 7})
    env = gymnasium.make(ID)
    for row in (0, 1):
        assert env.reset(options={"workload_seed": 7 + row})[0].tolist() == chosen[row].tolist()
    assert envs.reset()[0].tolist() == plain.reset()[0].tolist()


def test_training_never_sees_what_is_evaluated() -> None:
    """Seeds for training begin where those for evaluation end; a pool of them is drawn from over and over."""
    drawn = list(islice(training_seeds(0), 1000))
    assert min(drawn) >= FIRST_TRAINING_SEED
    assert len(set(drawn)) == 1000
    assert not set(drawn) & set(islice(training_seeds(1), 1000))
    assert len(set(islice(training_seeds(0, pool=3), 1000))) == 3


def test_episodes_may_grow() -> None:
    """A larger workload takes the row of a smaller one, and the other rows go on as they were."""
    small, large = (Workload(tuple(job(f"{i}", 1, 1, 1, 60.0) for i in range(count))) for count in (1, 5))

    def source(seed: int) -> Workload:
        return large if seed else small

    def seeds() -> Iterator[int]:
        yield from (0, 0, 1, 1)

    with Arena(episodes(source, FIGURE_2[1]), seeds(), 2) as arena:
        arena.begin()
        before = arena.observations[1].tolist()
        arena.step(np.array([1, 1]))
        assert arena.rewards.tolist() == [pytest.approx(8333.3, abs=0.1), 1]
        arena.step(np.array([0, 1]))
        arena.step(np.array([2, 2]))
        assert arena.rewards.tolist() == [1, 1]
        assert before == pytest.approx([4, 8, 0.24, 8, 16, 0.48, 1, 1, 1, 1])
        assert arena.observations[1].tolist() == pytest.approx([2, 6, 0.24, 7, 15, 0.48, 4, 1, 1, 1])


def test_jobs_that_never_fit_are_left_out() -> None:
    """As in the simulator; a workload of nothing else is an error."""
    giant = job("giant", 64, 1, 1, 60.0)
    made = episodes(Workload((giant, *FIGURE_2[0].jobs)), FIGURE_2[1])
    assert made(0).jobs.executors.tolist() == [2, 1]
    with pytest.raises(ValueError, match="an executor of 64 cpus and 1024 MiB fits no VM of the cluster"):
        episodes(Workload((giant,)), FIGURE_2[1])(0)


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"workload": "rush"}, "rush: no such workload; known are alibaba, burst"),
        ({"cluster": "moon"}, "moon: no such cluster; known are"),
        ({"observation": "all"}, "observation: should be paper or rich or natural, found 'all'"),
    ],
)
def test_bad_names_are_told(options: dict[str, Any], complaint: str) -> None:
    """The error names the missing item and the available ones."""
    with pytest.raises((ConfigError, ValueError), match=complaint):
        gymnasium.make(ID, **options)


def test_belief_is_all_that_an_agent_sees() -> None:
    """Actions cost the same under any belief; the observed ends differ."""
    seen, costs = {}, {}
    for belief in ("exact", "spread", 0.5, "constant"):
        options = {"workload": "burst", "observation": "rich", "belief": belief, "seed": 3}
        with make_arena(1, **options) as arena:  # type: ignore[arg-type]  # as a user writes them
            arena.begin()
            for _ in range(40):
                arena.step(np.array([np.flatnonzero(arena.masks[0])[-1]]))
            seen[belief], costs[belief] = arena.observations[0].copy(), arena.cost()[0]
    assert len(set(costs.values())) == 1
    assert len({values.tobytes() for values in seen.values()}) == 4
    with pytest.raises(ValueError, match="belief: should be exact"):
        make_arena(1, belief="much")


def test_other_types_are_told() -> None:
    """An observation of types that the episodes do not have would be of no type at all."""
    seen = ObservationOptions("rich", ("sort",))
    with pytest.raises(ValueError, match=r"types: the observation has \('sort',\), the episodes have \(\)"):
        Arena(episodes(*FIGURE_2), training_seeds(0), observation=seen)
    with pytest.raises(ValueError, match="size: should be 1 or more episodes, found 0"):
        Arena(episodes(*FIGURE_2), training_seeds(0), 0)


def test_bad_resets_are_told() -> None:
    """The error names the unknown option, and explains seeds."""
    env = gymnasium.make(ID)
    with pytest.raises(ValueError, match="speed: no such option of reset; known is workload_seed"):
        env.reset(options={"speed": 1})
    with pytest.raises(ValueError, match="workload_seed: should be a whole number of 0 or more, found -1"):
        env.reset(options={"workload_seed": -1})
