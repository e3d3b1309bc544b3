"""Decision times with a thousand VMs that come and go, beside those of a plain rule. Prints only."""

from collections.abc import Sequence
from dataclasses import replace
from time import process_time

import numpy as np
import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from agents.experiments.elastic.runs import pools_of
from agents.registry import create
from environment.clusters.cluster_files import load_cluster
from environment.policy import Policy
from environment.simulation.options import SimulationOptions
from environment.simulation.simulator import simulate
from environment.types import Decision, PlacementRequest, Vm
from environment.view import ClusterView
from profiles.workloads.generators import load_workload
from profiles.workloads.workload import Workload
from tests.benchmarks.conftest import Show
from tests.benchmarks.measuring import timed

#: Arrivals are so many times as close as in the Facebook day: nearly all of the VMs are open then.
_TIMES = 25.0
JOBS = 1200


def thousand() -> tuple[Vm, ...]:
    """The thousand VMs of the shipped cluster, as pools that boot for a minute."""
    return pools_of(load_cluster("thousand"), 60.0)


def crowd() -> Workload:
    """The first jobs of a Facebook day, closer together."""
    jobs = load_workload("facebook-day", 1).first(JOBS).jobs
    return Workload(tuple(replace(job, submitted_at=job.submitted_at / _TIMES) for job in jobs))


class Clocked:
    """A policy with timed decisions, in milliseconds of this process, despite other load."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self.took: list[float] = []

    def decide(self, view: ClusterView, queue: Sequence[PlacementRequest]) -> Decision:
        """As the policy does."""
        began = process_time()
        try:
            return self._policy.decide(view, queue)
        finally:
            self.took.append(1e3 * (process_time() - began))


def decisions(policy: str, workload: Workload) -> tuple[list[float], int]:
    """Milliseconds of each decision on them, and how often VMs were opened."""
    clocked = Clocked(create(policy))
    result = simulate(clocked, workload, thousand(), options=SimulationOptions())
    return clocked.took, result.bill.openings


@pytest.mark.parametrize("policy", ["greedy", "lookahead"])
def test_decisions_on_a_thousand_vms(policy: str, benchmark: BenchmarkFixture, show: Show) -> None:
    """Median and 99th percentile, and how many times as long as the rule of Karpenter takes in this run."""
    create(policy)  # what is compiled is compiled before it is timed
    workload = crowd() if policy == "greedy" else crowd().first(JOBS // 8)
    plain, _ = decisions("karpenter", workload)
    found, openings = timed(benchmark, lambda: decisions(policy, workload))
    median, slow = np.percentile(found, (50, 99))
    show(
        f"{policy} on a thousand VMs that were opened {openings} times: {median:.2f} ms a decision (median; "
        f"99 of 100 within {slow:.2f} ms), {median / np.median(plain):.0f} times karpenter's"
    )
    assert openings > 0
