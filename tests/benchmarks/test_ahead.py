"""CPU time to play queues forward, by policy: `make bench` prints it with ratios to ff."""

import time
from dataclasses import replace

import numpy as np
import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from agents.registry import create
from conf.schema.workload import WorkloadSpec
from environment.clusters.cluster_files import load_cluster
from environment.kernel.arrays import jobs_of
from environment.resource_arrays import ResourceArrays
from environment.simulation.forecast.play_forward import play_ahead
from environment.types import PlacementRequest
from environment.view import ClusterView
from profiles.job_profile import load_profiles
from profiles.workloads.generators import generate
from tests.benchmarks.measuring import fastest, timed
from tests.benchmarks.test_simulator import report


def moment(jobs: int) -> tuple[ClusterView, list[PlacementRequest]]:
    """A hundred idle VMs, and so many waiting jobs, with durations believed within a fifth or so."""
    spec = {"jobs": jobs, "arrivals": {"kind": "poisson", "jobs_per_hour": 8000.0}}
    found = jobs_of(generate(WorkloadSpec.model_validate(spec)), load_profiles())
    vms = load_cluster("hundred")
    free = ResourceArrays.of([vm.resources for vm in vms])
    view = ClusterView(0.0, vms, free, np.zeros(len(vms), np.int64))
    return view, [PlacementRequest(replace(job, spread=0.2), job.executors) for job in found]


@pytest.mark.benchmark(timer=time.process_time)  # others may have work for the cores meanwhile
@pytest.mark.parametrize("policy", ["ff", "aep", "greedy", "reinforce"])
def test_a_draw_of_five_hundred_jobs_on_a_hundred_vms(benchmark: BenchmarkFixture, policy: str) -> None:
    """Seconds of a core for one draw; twenty draws of all four are to take ten."""
    view, queue = moment(500)

    def draw(name: str) -> None:
        play_ahead(create(name), view, queue, seed=1)

    draw(policy)
    timed(benchmark, lambda: draw(policy), rounds=3)
    began = time.process_time()
    draw("ff")
    report(benchmark, seconds=fastest(benchmark), times_ff=fastest(benchmark) / (time.process_time() - began))
