"""How fast the simulator is: `make bench` prints it, with the ratio to plain Python in the same run."""

import math
import random
import time
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from agents.registry import create
from conf.schema.workload import WorkloadSpec
from environment.clusters.cluster_files import load_cluster
from environment.kernel.arrays import episode_of, jobs_of
from environment.kernel.batch_step import Stepper
from environment.kernel.compiled import njit
from environment.kernel.rule_options import DurationOptions, RewardOptions, rules
from environment.kernel.state import RICH_STATE, Batch, BoolArray, Layout, make_batch
from environment.pools import SpotTerms, Terms
from environment.simulation.simulator import simulate
from environment.types import IntArray, Vm
from profiles.job_profile import load_profiles
from profiles.workloads.generators import generate, load_workload
from tests.benchmarks.measuring import fastest, timed
from tests.environment.simulation.reference import Machine, Reference, Work

EPISODES = 4096
STEPS = 50


@njit(entry=True)
def choose(masks: BoolArray, actions: IntArray, seed: int) -> int:
    """Draw a legal action for every episode; return the next seed."""
    for b in range(len(actions)):
        seed = (seed * 1103515245 + 12345) % 2147483648
        allowed = 0
        for action in range(masks.shape[1]):
            allowed += masks[b, action]
        left = (seed // 65536) % max(allowed, 1)
        actions[b] = 0
        for action in range(masks.shape[1]):
            if masks[b, action]:
                if left == 0:
                    actions[b] = action
                    break
                left -= 1
    return seed


def paper_batch(size: int, vms: tuple[Vm, ...]) -> Batch:
    """Bursts of the paper's jobs on these VMs, thirty-two different ones over and over."""
    profiles = load_profiles()
    episodes = [episode_of(jobs_of(load_workload("burst", seed), profiles), vms) for seed in range(32)]
    return make_batch(
        [episodes[i % len(episodes)] for i in range(size)], rules(RewardOptions(), DurationOptions())
    )


class Walk:
    """Random legal actions, episodes begun anew when they are over; observations and masks always written."""

    def __init__(self, stepper: Stepper) -> None:
        self.stepper = stepper
        self.actions = np.zeros(len(stepper.done), np.int64)
        self.seed = choose(stepper.masks, self.actions, 1)

    def go(self, steps: int) -> float:
        """Take so many steps in every episode; return the seconds that they took, choosing not counted."""
        seconds = 0.0
        for _ in range(steps):
            self.seed = choose(self.stepper.masks, self.actions, self.seed)
            began = time.perf_counter()
            self.stepper.step(self.actions)
            if self.stepper.done.any():
                self.stepper.reset(self.stepper.done)
            seconds += time.perf_counter() - began
        return seconds


def plain_python(steps: int) -> float:
    """Transitions a second of the reference, observation and mask included."""
    vms, jobs = load_cluster("paper"), jobs_of(load_workload("burst", 0), load_profiles())
    chance, taken, seconds = random.Random(0), 0, 0.0  # noqa: S311  no secrets
    reference = None
    while taken < steps:
        if reference is None or reference.over:
            machines = [Machine(round(vm.cpus * 1000), vm.memory_mib, vm.price_per_hour) for vm in vms]
            work = [
                Work(
                    job.submitted_at,
                    round(job.cpus * 1000),
                    job.memory_mib,
                    job.executors,
                    job.prefers or "",
                    job.expected_duration or 0.0,
                )
                for job in jobs
            ]
            reference = Reference(machines, work, RewardOptions(), DurationOptions())
        began = time.perf_counter()
        legal = reference.legal()
        reference.observation()
        seconds += time.perf_counter() - began
        action = chance.choice([i for i, is_legal in enumerate(legal) if is_legal] or [0])
        began = time.perf_counter()
        reference.step(action)
        seconds += time.perf_counter() - began
        taken += 1
    return taken / seconds


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(
    "observation", [Layout(), Layout(RICH_STATE, types=3, upcoming=3)], ids=["paper", "rich"]
)
def test_transitions_per_second(benchmark: BenchmarkFixture, threads: int, observation: Layout) -> None:
    """Batches of paper-size episodes make at least two million transitions a second on two idle cores."""
    batch = paper_batch(EPISODES, load_cluster("paper"))
    with Stepper(batch, threads=threads, whole=True, observation=observation) as stepper:
        walk = Walk(stepper)
        walk.go(STEPS)
        seconds: list[float] = []
        timed(benchmark, lambda: seconds.append(walk.go(STEPS)), rounds=10)
    rate, reference = EPISODES * STEPS / min(seconds), plain_python(3000)
    report(benchmark, transitions_per_second=rate, plain_python=reference, ratio=rate / reference)


def test_pools_and_interruptions_cost_little(benchmark: BenchmarkFixture) -> None:
    """VMs that come and go are a little slower to play than those that are always there."""
    terms = Terms("pool", boot=60.0, minimum=60.0, granularity=1.0)
    kinds = {"fixed": None, "pools": terms, "spot": replace(terms, spot=SpotTerms(0.2))}
    batches = {
        name: paper_batch(1024, tuple(replace(vm, terms=of) for vm in load_cluster("paper")))
        for name, of in kinds.items()
    }
    walks = {name: Walk(Stepper(batch, whole=True)) for name, batch in batches.items()}
    best = dict.fromkeys(walks, math.inf)

    def turn() -> None:
        for name, walk in walks.items():  # in turns, so that the machine's moods are shared
            best[name] = min(best[name], walk.go(STEPS))

    turn()
    timed(benchmark, turn, rounds=20)
    report(benchmark, pools=best["fixed"] / best["pools"], spot=best["fixed"] / best["spot"])


@pytest.mark.parametrize("cluster", ["paper", "hundred", "thousand"])
def test_a_step_costs_no_more_than_linearly(benchmark: BenchmarkFixture, cluster: str) -> None:
    """Nanoseconds per transition and VM do not grow with the cluster."""
    vms = load_cluster(cluster)
    stepper = Stepper(paper_batch(128, vms), whole=True)
    walk, seconds = Walk(stepper), []
    walk.go(STEPS)
    timed(benchmark, lambda: seconds.append(walk.go(STEPS)), rounds=5)
    per_step = min(seconds) / (128 * STEPS) * 1e9
    report(benchmark, nanoseconds_per_step=per_step, per_vm=per_step / len(vms))


@pytest.mark.benchmark(timer=time.process_time)  # others may have work for the cores meanwhile
@pytest.mark.parametrize(
    ("policy", "jobs", "jobs_per_hour"),
    [
        ("ff", 100_000, 8_000.0),
        ("ff", 100_000, 12_000.0),
        ("greedy", 10_000, 8_000.0),
        ("ff", 1_000_000, 8_000.0),
        ("greedy", 1_000_000, 8_000.0),
    ],
    ids=["ff keeping up", "ff overloaded", "greedy keeping up", "ff, a million", "greedy, a million"],
)
def test_many_jobs(benchmark: BenchmarkFixture, policy: str, jobs: int, jobs_per_hour: float) -> None:
    """Very many jobs on a thousand VMs in compiled code, beside some asked for one by one: CPU time."""
    spec = {"jobs": jobs, "arrivals": {"kind": "poisson", "jobs_per_hour": jobs_per_hour}}
    workload, cluster = generate(WorkloadSpec.model_validate(spec)), load_cluster("thousand")
    few = workload.first(2_000)
    simulate(create(policy), workload.first(100), cluster, compiled=True)
    began = time.process_time()
    simulate(create(policy), few, cluster, compiled=False)
    asked = (time.process_time() - began) / len(few)
    result = timed(benchmark, lambda: simulate(create(policy), workload, cluster))
    played = fastest(benchmark) / len(workload)
    report(
        benchmark,
        decisions=len(result.decisions),
        utilisation=result.utilisation,
        microseconds_a_job=played * 1e6,
        asked_one_by_one=asked * 1e6,
        ratio=asked / played,
    )


def report(benchmark: BenchmarkFixture, **values: float) -> None:
    """Print the figures and keep them with the benchmark."""
    extra: dict[str, Any] = benchmark.extra_info
    extra.update(values)
    print("\n" + ", ".join(f"{name} {value:,.4g}" for name, value in values.items()))
