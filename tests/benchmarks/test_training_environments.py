"""How fast training gets its steps and its workloads: `make bench` prints it, with ratios in the same run."""

import time
from collections.abc import Callable

import gymnasium
import numpy as np
import pytest
from pytest_benchmark.fixture import BenchmarkFixture

import environment.training.gym  # noqa: F401  registers it
from environment.clusters.cluster_files import load_cluster
from environment.kernel.batch_step import Stepper
from environment.kernel.rule_options import ObservationOptions
from environment.kernel.state import BoolArray
from environment.training.episodes import episodes, training_seeds
from environment.types import IntArray
from tests.benchmarks.measuring import fastest, timed
from tests.benchmarks.test_simulator import Walk, choose, paper_batch, report

EPISODES = 1024
STEPS = 100
TYPES = ("wordcount", "pagerank", "sort")
RICH = ObservationOptions("rich", TYPES)


class Steps:
    """Random legal actions in any of the environments, fresh workloads where an episode is over."""

    def __init__(self, masks: BoolArray, step: Callable[[IntArray], BoolArray]) -> None:
        self.masks, self.step = masks, step
        self.seed = 1

    def go(self) -> float:
        """Steps per second; choosing is not counted."""
        seconds, actions = 0.0, np.zeros(EPISODES, np.int64)
        for _ in range(STEPS):
            self.seed = choose(self.masks, actions, self.seed)
            began = time.perf_counter()
            self.masks = self.step(actions)
            seconds += time.perf_counter() - began
        return EPISODES * STEPS / seconds


def kernel_alone() -> float:
    """Steps per second of the same without fresh workloads and copies."""
    with Stepper(
        paper_batch(EPISODES, load_cluster("paper")), whole=True, observation=RICH.layout
    ) as stepper:
        walk = Walk(stepper)
        walk.go(10)
        return EPISODES * STEPS / walk.go(STEPS)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_steps_of_tf_agents(benchmark: BenchmarkFixture) -> None:
    """The `PyEnvironment` gives many times the 50,000 steps a second that training is to collect."""
    from environment.training.tf import ClusterEnvironment

    env = ClusterEnvironment(episodes("burst", "paper", TYPES), training_seeds(0), EPISODES, observation=RICH)
    steps = Steps(env.reset().observation["mask"], lambda actions: env.step(actions).observation["mask"])
    tell(benchmark, steps)


def test_steps_of_gymnasium(benchmark: BenchmarkFixture) -> None:
    """The vector form, as above."""
    envs = gymnasium.make_vec(
        "stoker/Cluster-v0",
        EPISODES,
        vectorization_mode="vector_entry_point",
        workload="burst",
        observation="rich",
    )
    steps = Steps(envs.reset(seed=0)[1]["action_mask"], lambda actions: envs.step(actions)[4]["action_mask"])
    tell(benchmark, steps)


def tell(benchmark: BenchmarkFixture, steps: Steps) -> None:
    """Report the speed with its share of the kernel's own."""
    rates: list[float] = []
    timed(benchmark, lambda: rates.append(steps.go()), rounds=10)
    alone = kernel_alone()
    report(benchmark, steps_per_second=max(rates), kernel_alone=alone, ratio=max(rates) / alone)


def test_fresh_workloads(benchmark: BenchmarkFixture) -> None:
    """A burst of a hundred jobs for every seed, as arrays for the kernel: about a millisecond each."""
    made, seeds = episodes("burst", "paper", TYPES), training_seeds(0)
    timed(benchmark, lambda: [made(next(seeds)) for _ in range(100)], rounds=5)
    report(benchmark, milliseconds_each=fastest(benchmark) * 10)
