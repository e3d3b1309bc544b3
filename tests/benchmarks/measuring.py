"""Rounds of work under pytest-benchmark, which has untyped functions."""

from collections.abc import Callable
from typing import Any, TypeVar

from pytest_benchmark.fixture import BenchmarkFixture

Result = TypeVar("Result")


def timed(
    benchmark: BenchmarkFixture, work: Callable[[], Result], rounds: int = 1, warmup: int = 0
) -> Result:
    """Do the work in so many timed rounds, after some untimed ones; return the last round's result."""
    untyped: Any = benchmark
    given: Result = untyped.pedantic(work, rounds=rounds, warmup_rounds=warmup)
    return given


def fastest(benchmark: BenchmarkFixture) -> float:
    """Seconds of the fastest round."""
    return _times(benchmark)[0]


def average(benchmark: BenchmarkFixture) -> float:
    """Mean seconds of a round."""
    return _times(benchmark)[1]


def _times(benchmark: BenchmarkFixture) -> tuple[float, float]:
    assert benchmark.stats is not None, "nothing was timed; --benchmark-disable leaves nothing to tell"
    return benchmark.stats.stats.min, benchmark.stats.stats.mean
