"""How fast learned policies decide and play, with the ratio to the network in numpy, step by step."""

import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from agents.drl.collecting import Rollouts
from agents.drl.kernel.acting import Play
from agents.drl.learned_policy import LearnedOptions, LearnedPolicy
from agents.drl.model_folder import TrainedModel
from agents.drl.network import network_of
from agents.registry import create
from environment.clusters.cluster_files import load_cluster
from environment.kernel.batch_step import Stepper
from environment.kernel.rule_options import DurationOptions, RewardOptions, rules
from environment.kernel.state import make_batch
from environment.simulation.simulator import simulate
from environment.training.episodes import episodes
from environment.training.view_encoding import mask, observation, put, scene_of
from environment.types import Decision, Place, PlacementRequest
from environment.view import ClusterView
from profiles.workloads.generators import load_workload
from tests.agents.drl.models import SEEN, make_folder, make_model, scores, that_waits
from tests.benchmarks.conftest import Show
from tests.benchmarks.measuring import timed

#: A moment in which a job was placed.
Moment = tuple[ClusterView, list[PlacementRequest]]
RULES = rules(RewardOptions(), DurationOptions())


@pytest.fixture(scope="module")
def model() -> TrainedModel:
    """A model as large as those that ship; it places all fitting jobs, so decisions concern executors."""
    return that_waits(make_model(hidden=32), -1e6)


class Recorder:
    """A policy that keeps the moments in which it placed a job."""

    def __init__(self) -> None:
        self._policy = create("best_fit")
        self.moments: list[Moment] = []

    def decide(self, view: ClusterView, queue: Sequence[PlacementRequest]) -> Decision:
        """As best fit does."""
        decision = self._policy.decide(view, queue)
        if isinstance(decision, Place):
            self.moments.append((view, list(queue)))
        return decision


def moments_on(cluster: str) -> list[Moment]:
    """Of a burst of 100 jobs."""
    recorder = Recorder()
    simulate(recorder, load_workload("burst", 1), load_cluster(cluster))
    return recorder.moments


def by_numpy(model: TrainedModel, view: ClusterView, queue: list[PlacementRequest]) -> None:
    """The same decision, the network in numpy."""
    options = model.spec.options
    scene = scene_of(view, queue, options)
    for _ in range(queue[0].count):
        found = scores(model.weights, observation(scene, options), len(view.vms))
        scene = put(scene, int(np.where(mask(scene), found, -np.inf)[1:].argmax()))


@pytest.mark.parametrize(("cluster", "target"), [("paper", 100), ("thousand", 2000)])
def test_microseconds_per_executor(
    cluster: str, target: int, model: TrainedModel, tmp_path: Path, benchmark: BenchmarkFixture, show: Show
) -> None:
    """Median decision time over the jobs of a burst, divided by the executors placed by it."""
    policy = LearnedPolicy("reinforce", LearnedOptions(make_folder(tmp_path / "model", model)))
    taken: dict[str, list[float]] = {"policy": [], "numpy": []}

    def decide_all() -> None:
        for view, queue in moments:
            for name in taken:
                began = time.perf_counter()
                if name == "policy":
                    assert isinstance(policy.decide(view, queue), Place)
                else:
                    by_numpy(model, view, queue)
                taken[name].append((time.perf_counter() - began) / queue[0].count)

    moments = moments_on(cluster)
    timed(benchmark, decide_all, rounds=3)
    ours, numpy = (float(np.median(seconds)) * 1e6 for seconds in taken.values())
    show(
        f"{len(moments[0][0].vms)} VMs: {ours:.0f} us per executor (median; target {target}), "
        f"{numpy / ours:.1f} times as fast as the network in numpy"
    )


@pytest.mark.parametrize("threads", [1, 2])
def test_steps_per_second_of_whole_episodes(
    threads: int, model: TrainedModel, benchmark: BenchmarkFixture, show: Show
) -> None:
    """Of bursts of 100 jobs on the paper's cluster, written down for training."""
    found = [episodes("burst", "paper", SEEN.types)(seed) for seed in range(8)]
    network, how = network_of(model.weights), Play(temperature=1.0)
    with Rollouts(found * 4, range(32), RULES, model.spec.options, threads=threads) as rows:
        rates: list[float] = []

        def play() -> None:
            began = time.perf_counter()
            rows.begin(found * 4, range(32 * len(rates), 32 * (len(rates) + 1)))
            steps = int(rows.play(network, how).length.sum())
            rates.append(steps / (time.perf_counter() - began))

        timed(benchmark, play, rounds=6)
    stepped = steps_of_numpy(model, 2000)
    show(
        f"{threads} threads: {max(rates):,.0f} steps per second (target 50,000 in training), "
        f"{max(rates) / stepped:.0f} times those of a `Stepper` and the network in numpy"
    )


def steps_of_numpy(model: TrainedModel, steps: int) -> float:
    """Steps per second of one episode after the other, the network in numpy."""
    batch = make_batch([episodes("burst", "paper", SEEN.types)(0)], RULES)
    with Stepper(batch, whole=True, observation=model.spec.options.layout) as stepper:
        began = time.perf_counter()
        for _ in range(steps):
            if stepper.done[0]:
                stepper.reset()
            found = scores(model.weights, stepper.observations[0], 12)
            stepper.step(np.array([np.where(stepper.masks[0], found, -np.inf).argmax()]))
        return steps / (time.perf_counter() - began)
