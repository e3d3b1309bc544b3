"""How long OgaSched takes for a slot, against Algorithm 1 in plain Python in the same run. Prints only.

Time is the processor's where one thread computes, so that other load of the machine is not counted.
"""

import time
from contextlib import ExitStack
from typing import Any

import numpy as np
import pytest
from pytest_benchmark.fixture import BenchmarkFixture

import agents.oga.learner
from agents.oga.environments import Environment, EnvironmentOptions, generate
from agents.oga.learner import AllocationLearner, LearnerOptions, Variant
from tests.agents.oga.plain import Plain
from tests.benchmarks.conftest import Show
from tests.benchmarks.measuring import fastest, timed

pytestmark = pytest.mark.benchmark(timer=time.process_time)

#: Types, instances, resources, edges per instance (0: all), and the target in milliseconds a slot.
SIZES = {
    "10 x 128 x 6, density 3": (10, 128, 3.0, 0.1),
    "10 x 128 x 6, dense": (10, 128, 0.0, 0.1),
    "100 x 1024 x 6, density 3": (100, 1024, 3.0, 1.0),
    "100 x 1024 x 6, dense": (100, 1024, 0.0, 3.0),
}
VARIANTS: tuple[Variant, ...] = ("oga", "oga-reactive", "oga-conserving")


def environment(types: int, instances: int, density: float, slots: int = 10) -> Environment:
    """Table 2's, of this size."""
    return generate(EnvironmentOptions(types=types, instances=instances, density=density, slots=slots))


def steps(learner: AllocationLearner, arrivals: Any) -> None:
    """A step for every slot."""
    for x in arrivals:
        learner.step(x)


def _by_edge(learner: AllocationLearner) -> dict[tuple[int, int, int], float]:
    """The learner's y by (port, instance, resource)."""
    graph = learner.model.graph
    return {
        (int(graph.port[e]), int(graph.instance[e]), k): float(learner.y[k, e])
        for k, e in np.ndindex(*learner.model.shape)
    }


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("variant", VARIANTS)
def test_milliseconds_a_slot(variant: Variant, size: str, benchmark: BenchmarkFixture, show: Show) -> None:
    """The least of five rounds of ten slots, once the first slots are over."""
    types, instances, density, target = SIZES[size]
    made = environment(types, instances, density)
    learner = AllocationLearner(made.model, LearnerOptions(variant=variant))
    timed(benchmark, lambda: steps(learner, made.arrivals), rounds=5, warmup=1)
    slot = fastest(benchmark) / len(made.arrivals) * 1e3
    show(f"{variant}, {size}: {slot:.3f} ms a slot (target for oga: {target} ms)")


def test_against_plain_python(benchmark: BenchmarkFixture, show: Show) -> None:
    """Algorithm 1 with dictionaries and loops, 10 x 128 x 6, density 3: the same allocations, later."""
    made = environment(10, 128, 3.0, slots=6)
    model = made.model
    learner = AllocationLearner(model, LearnerOptions(variant="oga"))
    plain = Plain(model, _by_edge(learner), 25.0, 0.9999)

    def plainly() -> None:
        for x in made.arrivals:
            plain.step(x.tolist())

    timed(benchmark, plainly)
    seconds = fastest(benchmark) / len(made.arrivals)
    steps(learner, made.arrivals)
    off = [abs(plain.y[key] - value) for key, value in _by_edge(learner).items()]
    assert max(off) < 1e-6
    compiled = []
    for _ in range(20):
        begun = time.process_time()
        steps(learner, made.arrivals)
        compiled.append((time.process_time() - begun) / len(made.arrivals))
    show(
        f"plain Python {seconds * 1e3:.1f} ms a slot, compiled {min(compiled) * 1e3:.3f} ms: "
        f"{seconds / min(compiled):.0f} times as fast"
    )


def test_time_grows_with_edges(benchmark: BenchmarkFixture, show: Show) -> None:
    """Microseconds for a thousand values at 128 to 2048 instances of three edges: nearly the same."""
    told = []

    def measure() -> None:
        for instances in (128, 512, 2048):
            made = environment(20, instances, 3.0)
            learner = AllocationLearner(made.model, LearnerOptions(variant="oga"))
            steps(learner, made.arrivals)
            rounds = []
            for _ in range(8):
                begun = time.process_time()
                steps(learner, made.arrivals)
                rounds.append(time.process_time() - begun)
            values = made.model.graph.port.size * 6
            told.append(f"{instances}: {min(rounds) / len(made.arrivals) / values * 1e9:.1f} µs")

    timed(benchmark, measure)
    show("for a thousand values (edges x resources), by instances: " + ", ".join(told))


@pytest.mark.parametrize("size", ["100 x 1024 x 6, density 3", "100 x 1024 x 6, dense"])
def test_two_threads_against_one(
    size: str, benchmark: BenchmarkFixture, show: Show, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same steps, by the clock and in turns, also where threads are not used as they do not pay."""
    monkeypatch.setattr(agents.oga.learner, "_SHARED_FROM", 0)
    types, instances, density, _ = SIZES[size]
    made = environment(types, instances, density)
    best = {1: float("inf"), 2: float("inf")}

    def measure() -> None:
        with ExitStack() as closing:
            learners = {
                threads: closing.enter_context(
                    AllocationLearner(made.model, LearnerOptions(variant="oga", threads=threads))
                )
                for threads in best
            }
            for _ in range(12):
                for threads, learner in learners.items():
                    begun = time.perf_counter()
                    steps(learner, made.arrivals)
                    best[threads] = min(best[threads], time.perf_counter() - begun)

    timed(benchmark, measure, warmup=1)
    one, two = (seconds / len(made.arrivals) * 1e3 for seconds in best.values())
    show(f"{size}: one thread {one:.3f} ms a slot, two {two:.3f} ms: {one / two:.2f} times as fast")
