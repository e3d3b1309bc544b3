"""Sizes that jobs leave to Stoker: the daemon and the simulator choose the same ones from the same runs."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agents.registry import create
from environment.simulation.simulator import simulate
from profiles.workloads.workload import WorkloadJob, workload_of
from tests.builders import make_vms
from tests.daemon.submission.test_shapes import Shop

VMS = make_vms(8, cpus=8, memory_mib=32 * 1024)
AUTO: dict[str, Any] = {"executors": "auto:2-12", "cpus": "auto"}


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Shop]:
    """A daemon's admission without any ended job, over the same VMs."""
    shop = Shop(tmp_path)
    yield shop
    shop.store.close()


def test_both_worlds_choose_the_same_sizes_from_the_same_runs(shop: Shop) -> None:
    """Two types in turn, one job after the other: each is as large in the daemon as it was simulated."""
    jobs = [
        WorkloadJob(f"j{n}", 40.0 * n, ("sort", "etl")[n % 2], 2.0, 8192, 4, 9.0, auto=AUTO)
        for n in range(14)
    ]
    simulated = simulate(create("ff"), workload_of(jobs), VMS).jobs
    assert len({(job.executors, job.cpus) for job in simulated}) > 3, "it should not be a test of the default"
    for asked, job in zip(jobs, simulated, strict=True):
        record = shop.admit(type=asked.type, memory="8g", **AUTO)
        assert (record.job.executors, record.job.cpus) == (job.executors, job.cpus), asked.name
        shop.end(record, job.duration)


def test_a_measured_curve_bounds_the_executors_in_both_worlds(shop: Shop) -> None:
    """Where only their number is open, the policy chooses it among those that are worth having."""
    job = WorkloadJob("a", 0.0, "sort", 2.0, 8192, 4, 600.0, auto={"executors": "auto:2-"})
    admitted = shop.admit(type="sort", memory="8g", cpus=2, executors="auto:2-").job
    simulated = simulate(create("ff"), workload_of([job]), VMS).jobs
    assert simulated[0].executors == admitted.executors > 4
    most = replace(job, auto={"executors": "auto:2-3"})
    assert simulate(create("ff"), workload_of([most]), VMS).jobs[0].executors == 3
