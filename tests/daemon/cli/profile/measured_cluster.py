"""A cluster that measures in no time, and a folder of runs with their model.

Real Spark, which takes half a minute a job, is measured in `test_profile`.
"""

import contextlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from daemon.cli.profile.measure import Bench
from environment.simulation.durations.fitted_model import write_model
from environment.simulation.durations.fitting import fit
from profiles.runs import MeasuredRun, write_runs
from profiles.workloads.generators import load_workload
from profiles.workloads.workload import Workload
from tests.profiles.measured import make_run

WORKLOAD = """submitted_at,type,cpus,memory_mib,executors,duration,name,input_mib
0,wordcount,1,1024,2,9,one,16
0.2,sort,1,1024,2,9,two,16
"""


def workload_short_of(lost: str, path: str, *_: object) -> Workload:
    """The workload of a file, of which something was left out."""
    return replace(load_workload(path), left_out=(lost,))


class Cluster:
    """A daemon on which every job takes 22 s on one VM; it records requests and answers them."""

    def __init__(self) -> None:
        self.submitted: list[Any] = []
        self.policies: list[tuple[str, Any]] = []
        self.sections: list[dict[str, object]] = []

    def set_policy(self, name: str, options: Any) -> Any:
        """Record the policy and its options."""
        self.policies.append((name, options))
        return {"placed": 0, "waited": 0, "faults": 0}

    def policy(self) -> Any:
        """How that went: each third policy fails in three of four decisions."""
        return {"placed": 2, "waited": 2, "faults": 3 if len(self.policies) % 3 == 0 else 0}

    def submit_spec(self, spec: Any) -> Any:
        """Note the job."""
        self.submitted.append(spec)
        return {"id": f"job-{len(self.submitted)}"}

    def job(self, job_id: str) -> Any:
        """Every job is over at once."""
        return {"id": job_id, "state": "finished", "tasks": [{"ended_at": 1.0}]}

    def run(self, job_id: str, beside: Any, name: str, copy: int) -> MeasuredRun:
        """The measured run of a job."""
        spec = self.submitted[int(job_id[4:]) - 1]
        where = ("m1.large-1", "m1.large-1")
        return make_run(name=name, copy=copy, type=spec["type"], placement=where, launching=0, duration=22.0)

    @contextlib.contextmanager
    def bench(self, *_: object, **sections: object) -> Iterator[Bench]:
        """Instead of a daemon of one's own with an embedded Mesos; its config's sections are noted."""
        self.sections.append(sections)
        yield Bench(self, self, {}, "on: for the test", lambda: None, Path())  # type: ignore[arg-type]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Runs of two types that took 20 s, and their model."""
    plan = {
        "cluster": "clusters/testbed.yaml",
        "grids": [{"apps": {"sort": [16.0]}, "args": ["--seed", "3"]}],
    }
    runs = [
        make_run(name=f"{kind}-r{i}", type=kind, launching=0.0, duration=20.0)
        for kind in ("wordcount", "sort")
        for i in (0, 1)
    ]
    write_runs(tmp_path, runs, {"plan": plan, "machine": {}})
    write_model(tmp_path, fit(runs)[0])
    return tmp_path
