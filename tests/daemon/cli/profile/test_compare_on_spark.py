"""Policies alternate on real Spark: runs are stored, and the real gain stands beside the predicted one."""

import json
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from agents.experiments.real_runs import RealComparison, RealJob, RealRun, report
from agents.registry import create
from daemon.cli import main
from daemon.cli.profile import compare_on_spark
from environment.resources import Resources
from environment.simulation.options import SimulationOptions
from environment.simulation.simulator import simulate
from environment.types import Vm
from profiles.workloads import generators
from profiles.workloads.generators import load_workload
from tests.daemon.cli.profile.measured_cluster import WORKLOAD, Cluster, folder, workload_short_of

__all__ = ["folder"]


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Cluster:
    """The cluster instead of real Spark."""
    made = Cluster()
    monkeypatch.setattr(compare_on_spark, "own_bench", made.bench)
    return made


def compare(folder: Path, capsys: pytest.CaptureFixture[str], *more: str) -> Any:
    """JSON output of the command."""
    jobs = folder / "jobs.csv"
    if not jobs.exists():
        jobs.write_text(WORKLOAD)
    words = [str(folder), "--workload", str(jobs), "--out", str(folder / "real.md"), "-o", "json", *more]
    assert main(["profile", "compare", *words]) == 0
    return json.loads(capsys.readouterr().out)


def test_every_policy_has_its_turn_and_what_is_done_is_kept(
    cluster: Cluster, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each round starts with another policy; a later third round adds only that.

    Policies know the measured runs.
    """
    found = compare(folder, capsys, "--policy", "aep,greedy:beta=1", "--runs", "2")
    assert cluster.policies == [("aep", {}), ("greedy", {"beta": 1}), ("greedy", {"beta": 1}), ("aep", {})]
    assert len(cluster.submitted) == 8
    known = Path(str(cluster.sections[0]["profiles"])).read_text()
    assert {"sort:", "wordcount:"} <= set(known.split())
    assert [(run["policy"], run["round"]) for run in found["runs"]] == [
        ("aep", 0), ("greedy:beta=1", 0), ("greedy:beta=1", 1), ("aep", 1),
    ]  # fmt: skip
    assert found["policies"]["aep"]["real_cost"]["mean"] == pytest.approx(found["runs"][0]["cost"])
    assert [run["fallback_share"] for run in found["runs"]] == [0.0, 0.0, 0.75, 0.0]
    assert found["policies"]["greedy:beta=1"]["real_fallback_share"]["mean"] == 0.375
    assert found["policies"]["greedy:beta=1"]["fallback_share"]["mean"] == 0.0
    told = (folder / "real.md").read_text()
    assert told.splitlines()[2].startswith("Of ")
    assert "revision" in told.splitlines()[2]
    assert "stoker profile compare" in told
    (line,) = (
        line for line in told.splitlines() if line.startswith("| `greedy:beta=1` |") and "37.5 %" in line
    )
    assert line.endswith(" | 37.5 % | 0 % |")
    assert (folder / "real.png").stat().st_size > 1000

    again = compare(folder, capsys, "--policy", "aep,greedy:beta=1", "--runs", "3")
    assert len(cluster.submitted) == 12
    assert again["runs"][:4] == found["runs"]


def test_what_is_left_out_of_the_workload_is_told(
    cluster: Cluster, folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """On stderr, before anything runs."""
    monkeypatch.setattr(generators, "load_workload", partial(workload_short_of, "trace.csv: 3 paths"))
    words = ["--workload", str(folder / "jobs.csv"), "--policy", "none_such"]
    (folder / "jobs.csv").write_text(WORKLOAD)
    assert main(["profile", "compare", str(folder), *words]) == 2
    assert "stoker: left out of the workload: trace.csv: 3 paths\n" in capsys.readouterr().err
    assert not cluster.submitted


def test_runs_of_other_jobs_are_not_mixed(
    cluster: Cluster, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The same name with other jobs in it is refused before anything runs."""
    compare(folder, capsys, "--policy", "aep", "--runs", "1")
    (folder / "jobs.csv").write_text(WORKLOAD.replace("0.2,sort", "0.3,sort"))
    words = [str(folder), "--workload", str(folder / "jobs.csv"), "--policy", "aep"]
    assert main(["profile", "compare", *words]) == 2
    assert "holds runs of other jobs, VMs or settings" in capsys.readouterr().err
    assert len(cluster.submitted) == 2


@pytest.mark.parametrize(
    ("policy", "message"), [("aep,nobody", "nobody"), ("aep,,greedy", "policy"), ("ilp:beta=2", "beta")]
)
def test_policies_that_are_none(
    policy: str, message: str, cluster: Cluster, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One line that names it, and nothing is run."""
    (folder / "jobs.csv").write_text(WORKLOAD)
    words = [str(folder), "--workload", str(folder / "jobs.csv"), "--policy", policy]
    assert main(["profile", "compare", *words]) == 2
    assert message in capsys.readouterr().err
    assert not cluster.submitted


def test_who_failed_in_most_decisions_was_not_compared(
    cluster: Cluster, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """That is said on stderr, and the exit code is 1."""
    cluster.policies += [("before", {})] * 2
    (folder / "jobs.csv").write_text(WORKLOAD)
    words = [str(folder), "--workload", str(folder / "jobs.csv"), "--policy", "aep,ff", "--runs", "1"]
    assert main(["profile", "compare", *words, "--out", str(folder / "real.md")]) == 1
    told = capsys.readouterr()
    assert "aep failed in 75% of its decisions or placements: its numbers are not its own" in told.err
    assert "ff failed" not in told.err
    assert "75 %" in told.out


def made(policy: str, cost: float, state: str = "finished") -> RealRun:
    """A run of two jobs of which each costs half of it; the second waited 4 s."""
    first = RealJob("a", "sort", state, 0.0, 0.0, 10.0, cost / 2, ("s1-1",))
    return RealRun(policy, 0, 1.5, (first, replace(first, name="b", submitted=1.0, placed=5.0, ended=13.0)))


def test_what_of_the_gain_is_real(tmp_path: Path) -> None:
    """A predicted gain of 20 % and a real one of 10 % is half real; unfinished jobs are counted."""
    workload = tmp_path / "jobs.csv"
    workload.write_text(WORKLOAD)
    vms = [Vm("m1.large-1", "m1.large-1", "m1.large", Resources.of(4, 8192), 0.24)]
    result = simulate(create("ff", {}), load_workload(str(workload)), vms, options=SimulationOptions())
    runs = (made("aep", 2.0), made("greedy", 1.8, "failed"))
    comparison = RealComparison("jobs", "real.yaml", runs, {"aep": [result], "greedy": [result]}, {})
    row = comparison.rows()["greedy"]
    assert row["real_cost"] == pytest.approx((1.8, 0.0))
    assert row["real_completion"][0] == pytest.approx((10 + 12) / 2)
    assert row["real_longest_wait"][0] == pytest.approx(4.0)
    assert comparison.gain("greedy", "aep", "real_cost") == pytest.approx(0.1)
    report(comparison, tmp_path / "real.md", "command")
    told = (tmp_path / "real.md").read_text()
    assert "`greedy` is the cheapest of these: simulated 0.0% under `aep`, really 10.0% under `aep`." in told
    assert "| `greedy` | -10.0% | +0.0% | 1 of 1 | +0.0% | +0.0% | 0 of 1 |" in told
    assert "| 1 | `greedy` | 1.8000 | 11.0 | 9.0 | 4 | 2 | 1.5 |" in told
