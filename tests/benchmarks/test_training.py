"""How fast training is, with the ratio to TF-Agents' own driver on the environment of single steps."""

import time
from collections.abc import Iterator

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from conf.loader import SHIPPED, load
from conf.schema.training import TrainingSpec
from environment.training.episodes import training_seeds
from tests.benchmarks.conftest import Show
from tests.benchmarks.measuring import average, timed

pytestmark = pytest.mark.filterwarnings("ignore")


def spec_of(name: str) -> TrainingSpec:
    """A shipped file, without the warm start."""
    spec = load(SHIPPED / "train" / f"{name}.yaml", TrainingSpec)
    return spec.model_copy(update={"imitation": None})


@pytest.fixture(scope="module")
def driven() -> Iterator[float]:
    """Steps per second that TF-Agents' driver takes, eight episodes side by side, by the agent's policy."""
    from tf_agents.drivers.py_driver import PyDriver
    from tf_agents.policies.py_tf_eager_policy import PyTFEagerPolicy

    from agents.drl.training.learners.learner import learner_of
    from agents.drl.training.worlds import worlds_of
    from environment.training.tf import ClusterEnvironment

    worlds = worlds_of(spec_of("reinforce-best"))
    learner = learner_of(worlds)
    episodes = worlds.by_workload["burst"]
    environment = ClusterEnvironment(episodes, training_seeds(0), 8, observation=worlds.observation)
    policy = PyTFEagerPolicy(learner.agent.collect_policy, use_tf_function=True)
    driver = PyDriver(environment, policy, [], max_steps=800)
    start = environment.reset()
    start, _ = driver.run(start)
    began = time.perf_counter()
    driver.run(start)
    yield 800 / (time.perf_counter() - began)
    environment.close()
    learner.close()


def test_steps_collected_in_reinforce_training(
    benchmark: BenchmarkFixture, driven: float, show: Show
) -> None:
    """Steps per second, with the training in it."""
    steps, seconds = measured(benchmark, spec_of("reinforce-best"), 10)
    show(
        f"REINFORCE, best: {steps / seconds:,.0f} steps/s; {steps / seconds / driven:.0f} x TF-Agents' driver"
    )


@pytest.mark.parametrize("name", ["dqn-best", "dqn-paper"])
def test_dqn_iterations(name: str, benchmark: BenchmarkFixture, driven: float, show: Show) -> None:
    """Iterations per second, with the ten steps that are collected for each."""
    steps, seconds = measured(benchmark, spec_of(name), 50)
    rate = steps / seconds
    show(f"{name}: {rate / 10:,.0f} iterations/s; {rate / driven:.1f} x the steps of TF-Agents' driver")


def test_reinforce_of_the_paper(benchmark: BenchmarkFixture, driven: float, show: Show) -> None:
    """Minutes that its 10,000 iterations would take if all episodes were as long as masked ones are."""
    spec = spec_of("reinforce-paper").model_copy(update={"mask": True})
    steps, seconds = measured(benchmark, spec, 20)
    show(f"REINFORCE, paper: {seconds * 10_000 / 60:.1f} minutes for 10,000 iterations of {steps:.0f} steps")
    show(f"  {steps / seconds / driven:.0f} x TF-Agents' driver")


def measured(benchmark: BenchmarkFixture, spec: TrainingSpec, rounds: int) -> tuple[float, float]:
    """Mean steps and seconds of a call of `learn`."""
    from agents.drl.training.learners.learner import learner_of
    from agents.drl.training.worlds import worlds_of

    learner, number, steps = learner_of(worlds_of(spec)), 0, 0.0

    def learn() -> None:
        nonlocal number, steps
        number, told = learner.learn(number)
        steps += told["steps"]

    for _ in range(3):
        learn()
    steps = 0.0
    timed(benchmark, learn, rounds=rounds)
    learner.close()
    return steps / rounds, average(benchmark)
