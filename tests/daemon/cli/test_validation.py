"""A workload is submitted when it is due, its apps and sizes are right, and a simulation stands beside it."""

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from daemon.cli import main, validation
from daemon.cli.measuring import Bench
from environment.simulation.fitted import write_model
from environment.simulation.fitting import fit
from profiles.runs import MeasuredRun, write_runs
from tests.profiles.measured import make_run

WORKLOAD = """submitted_at,type,cpus,memory_mib,executors,duration,name,input_mib
0,wordcount,1,1024,2,9,one,16
0.2,sort,1,1024,2,9,two,16
"""


class Cluster:
    """A daemon on which every job takes 22 s on one VM: what is asked of it, and what it tells."""

    def __init__(self) -> None:
        self.submitted: list[Any] = []
        self.policies: list[tuple[str, Any]] = []

    def set_policy(self, name: str, options: Any) -> None:
        """Note who is to decide."""
        self.policies.append((name, options))

    def submit(self, spec: Any) -> Any:
        """Note the job."""
        self.submitted.append(spec)
        return {"id": f"job-{len(self.submitted)}"}

    def job(self, job_id: str) -> Any:
        """Every job is over at once."""
        return {"id": job_id, "state": "finished", "tasks": [{"ended_at": 1.0}]}

    def run(self, job_id: str, beside: Any, name: str, copy: int) -> MeasuredRun:
        """What became of it."""
        spec = self.submitted[int(job_id[4:]) - 1]
        where = ("m1.large-1", "m1.large-1")
        return make_run(name=name, copy=copy, type=spec["type"], placement=where, launching=0, duration=22.0)


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Cluster:
    """The cluster instead of real Spark, which takes half a minute a job."""
    made = Cluster()

    @contextlib.contextmanager
    def bench(*_: object, **__: object) -> Iterator[Bench]:
        yield Bench(made, made, {}, "on: for the test", lambda: None)  # type: ignore[arg-type]

    monkeypatch.setattr(validation, "own_bench", bench)
    return made


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


def test_a_workload_runs_in_both_worlds(
    cluster: Cluster, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Apps, sizes and policy are those asked for; errors are those of 20 s for 22 s; there is a report."""
    jobs, out = folder / "jobs.csv", folder / "fidelity.md"
    jobs.write_text(WORKLOAD)
    arguments = [str(folder), "--workload", str(jobs), "--policy", "aep", "--out", str(out), "-o", "json"]
    assert main(["profile", "validate", *arguments]) == 0
    found = json.loads(capsys.readouterr().out)
    assert cluster.policies == [("aep", {})]
    first, second = cluster.submitted
    assert first["app"].endswith("profiles/apps/wordcount.py")
    assert first["args"] == second["args"] == ["--size", "16", "--seed", "3"]
    assert (second["name"], second["type"], second["executors"]) == ("two", "sort", 2)
    assert found["errors"]["all"]["duration"] == pytest.approx(2 / 22)
    assert [job["duration"] for job in found["jobs"]] == pytest.approx([20, 20])
    assert "Isolation of VMs on: for the test." in out.read_text()


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("kmeans", "one: kmeans is not in the model of .*; known are sort, wordcount"),
        ("tetris", "tetris: no such app"),
    ],
)
def test_what_cannot_be_validated(
    kind: str, message: str, cluster: Cluster, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A type that is no app, or was not measured; nothing is submitted then."""
    jobs = folder / "jobs.csv"
    jobs.write_text(WORKLOAD.replace("wordcount", kind))
    assert main(["profile", "validate", str(folder), "--workload", str(jobs)]) == 2
    import re

    assert re.search(message, capsys.readouterr().err)
    assert not cluster.submitted
