"""A workload is submitted when it is due, its apps and sizes are right, and a simulation stands beside it."""

import json
import re
from functools import partial
from pathlib import Path

import pytest

from daemon.cli import main
from daemon.cli.profile import validate_simulator
from profiles.workloads import generators
from tests.daemon.cli.profile.measured_cluster import WORKLOAD, Cluster, folder, workload_short_of

__all__ = ["folder"]


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Cluster:
    """The cluster instead of real Spark."""
    made = Cluster()
    monkeypatch.setattr(validate_simulator, "own_bench", made.bench)
    return made


def test_a_workload_runs_in_both_worlds(
    cluster: Cluster, folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Apps, sizes and policy are those asked for; errors are those of 20 s for 22 s; there is a report."""
    monkeypatch.setattr(generators, "load_workload", partial(workload_short_of, "trace.csv: 3 paths"))
    jobs, out = folder / "jobs.csv", folder / "fidelity.md"
    jobs.write_text(WORKLOAD)
    arguments = [str(folder), "--workload", str(jobs), "--policy", "aep", "--out", str(out), "-o", "json"]
    assert main(["profile", "validate", *arguments]) == 0
    printed = capsys.readouterr()
    assert "stoker: left out of the workload: trace.csv: 3 paths\n" in printed.err
    found = json.loads(printed.out)
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
    assert re.search(message, capsys.readouterr().err)
    assert not cluster.submitted
