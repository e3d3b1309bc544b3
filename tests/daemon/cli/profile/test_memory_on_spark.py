"""Ways of asking for memory on real Spark: the same jobs in each, and a report of failures and costs."""

import json
from pathlib import Path
from typing import Any

import pytest

from agents.experiments.memory.runs import RUNS, WAYS, MemoryRunsError, read_memory_runs
from conf.loader import find
from daemon.cli import main
from daemon.cli.operate.orphans import descendants
from daemon.cli.profile import measure
from daemon.cli.profile.measure import planned
from tests.daemon.cli.profile.measured_cluster import Cluster
from tests.real_daemon import QUICK_JAVA

PLAN = """
cluster: clusters/memory.yaml
isolation: {isolation}
isolation_scale: 0.5
conf: {conf}
grids:
  - apps: {apps}
    executors: [1]
    memory: {memory}
    placement: [consolidated]
    args: [--partitions, 2]
"""


def plan(folder: Path, apps: str = "{sort: [10, 20, 30], sql: [40]}", **values: object) -> Path:
    """A plan file of two types."""
    path = folder / "plan.yaml"
    path.write_text(
        PLAN.format(**{"apps": apps, "isolation": "none", "conf": "{}", "memory": "[4g]", **values})
    )
    return path


class Needy(Cluster):
    """A daemon on which a job needs 100 MiB for each MiB of its input; with less it restarts with 8 GiB.

    Jobs whose memory is auto get 2.5 GiB. Each holds its memory for 10 s in each attempt.
    """

    broken = ""

    def job(self, job_id: str) -> Any:
        """It is over."""
        spec = self.submitted[int(job_id[4:]) - 1]
        had = 2560 if spec["memory"] == "auto" else spec["memory"]
        sizes, state = [had], "finished"
        if had < 100 * float(spec["args"][1]):
            sizes, state = ([had, 8192], "finished") if spec["memory_retry"] else ([had], "failed")
        failed = had < 100 * float(spec["args"][1])
        if spec["type"] == self.broken:
            state, failed = "failed", False
        return {
            "id": job_id,
            "state": state,
            "reason": "made to fail",
            "submitted_at": 0.0,
            "finished_at": 10.0 * len(sizes),
            "memory_mib": sizes[-1],
            "attempts": [{"fault": "memory"}] if failed else [],
            "tasks": [
                {"number": 0, "memory_mib": size, "launched_at": 10.0 * k, "ended_at": 10.0 * k + 10.0}
                for k, size in enumerate(sizes)
            ],
        }


@pytest.fixture
def needy(monkeypatch: pytest.MonkeyPatch) -> Needy:
    """The daemon instead of a real one."""
    made = Needy()
    monkeypatch.setattr(measure, "own_bench", made.bench)
    return made


def memory(folder: Path, *more: str) -> list[str]:
    """The command line."""
    words = ["profile", "memory", str(folder / "runs"), "--plan", str(folder / "plan.yaml")]
    return [*words, "--out", str(folder / "memory.md"), *more]


def test_each_way_has_the_same_jobs(needy: Needy, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """By hand: sort of 20 MiB needs 2,000 MiB, 2,048 in steps of 128; sql of 40 MiB needs 4,000, so 4,096."""
    plan(tmp_path)
    assert main(memory(tmp_path, "-o", "json")) == 0
    told = json.loads(capsys.readouterr().out)
    runs = read_memory_runs(tmp_path / "runs")
    assert runs.needs == {"sort": 2048, "sql": 4096}
    inputs = {way: [(job.type, job.input_mib) for job in runs.ways[way]] for way in WAYS}
    assert inputs["asked"] == inputs["median"] == inputs["auto"]
    assert sorted(inputs["auto"]) == [("sort", 10.0), ("sort", 20.0), ("sort", 30.0), ("sql", 40.0)]
    failures = {of["way"]: of["failures"] for of in told["all"]}
    assert failures == {"asked": 0, "median": 1, "auto": 2}
    assert told["fewer_failures"] == pytest.approx(-1.0)
    paid = {of["way"]: of["gib_hours"] * 360 for of in told["all"]}  # all hold it for 10 s
    assert paid["asked"] == pytest.approx(16)
    assert paid["median"] == pytest.approx(2 + 2 + 2 + 8 + 4)
    assert paid["auto"] == pytest.approx(4 * 2.5 + 2 * 8)
    assert {spec["type"] for spec in needy.submitted} == {
        f"{app}-{way}" for app in ("sort", "sql") for way in (*WAYS, "need")
    }
    page = (tmp_path / "memory.md").read_text()
    assert page.splitlines()[2].startswith("Of ")
    assert "Failures for memory: -100% fewer" in page
    assert "not reached" in page
    assert "sort 2048 MiB, sql 4096 MiB" in page
    assert (tmp_path / "memory.png").stat().st_size > 1000

    before = len(needy.submitted)
    assert main(memory(tmp_path)) == 0
    assert len(needy.submitted) == before
    assert "sort" in capsys.readouterr().out
    plan(tmp_path, "{sort: [10, 20]}")
    assert main(memory(tmp_path)) == 2
    assert "holds runs of another plan; choose another folder" in capsys.readouterr().err


def test_a_way_that_was_completed_is_not_repeated(
    needy: Needy, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A job that fails otherwise is an error, and what is done is kept."""
    plan(tmp_path)
    needy.broken = "sql-auto"
    assert main(memory(tmp_path)) == 1
    assert "sql-40m-1x1x4096-on1-beside0-r0: failed: made to fail" in capsys.readouterr().err
    assert set(read_memory_runs(tmp_path / "runs").ways) == {"asked", "median"}
    needy.broken, before = "", len(needy.submitted)
    assert main(memory(tmp_path)) == 0
    assert len(needy.submitted) == before + 4


def test_bad_plans_and_folders_are_errors(
    needy: Needy, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each in one line."""
    plan(tmp_path, memory="[2g, 4g]")
    assert main(memory(tmp_path)) == 2
    assert "sort: should differ in its input only, as in profiles/memory.yaml" in capsys.readouterr().err
    assert not needy.submitted
    (tmp_path / RUNS).write_text('{"ways": 1}')
    with pytest.raises(MemoryRunsError, match=r"runs\.json: cannot be read"):
        read_memory_runs(tmp_path)


def test_the_plan_that_ships_has_four_types() -> None:
    """Of twelve jobs each, on VMs for all of them at once."""
    _, _, runs = planned(find("profiles/memory.yaml"))
    assert len(runs) == 48
    assert len({run.app for run in runs}) == 4
    assert {run.memory_mib for run in runs} == {4096}


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_real_spark_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Two jobs with room enough: both finish in each way, and nothing is left running."""
    plan(tmp_path, "{gather: [0.5, 1]}", memory="[1g]", conf=json.dumps(QUICK_JAVA))
    before = set(descendants())
    assert main(memory(tmp_path, "-o", "json")) == 0
    told = json.loads(capsys.readouterr().out)
    assert [(of["finished"], of["failures"]) for of in told["all"]] == [(2, 0)] * 3
    assert all(of["gib_hours"] > 0 for of in told["all"])
    assert set(descendants()) <= before
