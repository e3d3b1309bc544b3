"""How long each policy thinks: decisions of a simulated day on the paper's cluster. Prints only."""

from collections.abc import Callable

import numpy as np
import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from agents.registry import POLICIES, create
from environment.clusters.cluster_files import load_cluster
from environment.simulation.results.results import Result
from environment.simulation.simulator import simulate
from environment.types import Place
from profiles.workloads.generators import load_workload
from tests.benchmarks.measuring import timed

SEEDS = range(3)
Show = Callable[[str], None]


@pytest.fixture
def show(capsys: pytest.CaptureFixture[str]) -> Show:
    """Print a line past pytest's capture."""

    def line(text: str) -> None:
        with capsys.disabled():
            print(f"\n{text}", end="")

    return line


def run(policy: str, workload: str) -> list[Result]:
    """A few seeds of a workload under a policy."""
    cluster = load_cluster("paper")
    return [simulate(create(policy), load_workload(workload, seed), cluster) for seed in SEEDS]


@pytest.mark.parametrize("workload", ["normal", "burst"])
@pytest.mark.parametrize("policy", POLICIES)
def test_seconds_per_decision(policy: str, workload: str, benchmark: BenchmarkFixture, show: Show) -> None:
    """Median and 99th percentile of the decisions that placed a job, and the time per placed job."""
    create(policy)  # what is compiled is compiled before it is timed
    results = timed(benchmark, lambda: run(policy, workload))
    seconds = np.concatenate([result.decision_seconds for result in results])
    placing = np.concatenate(
        [[isinstance(traced.decision, Place) for traced in result.decisions] for result in results]
    )
    median, slow = np.percentile(seconds[placing] * 1e3, (50, 99))
    per_job = 1e3 * seconds.sum() / placing.sum()
    show(
        f"{policy} in {workload}: {median:.3f} ms to place a job (median; 99 of 100 within {slow:.3f} ms), "
        f"{per_job:.3f} ms per job with its waits"
    )
