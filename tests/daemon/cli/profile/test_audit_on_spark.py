"""An audit's savings are checked by real runs at both sizes, in turn; finished ones are kept."""

import contextlib
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from audit.applications import LoggedApplication
from audit.savings.real_runs import read_audited
from conf.loader import ConfigError, find
from daemon.cli import main
from daemon.cli.operate.orphans import descendants
from daemon.cli.profile import audit_on_spark
from daemon.cli.profile.audit_on_spark import in_turn, logged
from daemon.cli.profile.measure import Bench, planned
from tests.audit.test_real_savings import application
from tests.daemon.cli.profile.measured_cluster import Cluster
from tests.real_daemon import QUICK_JAVA

PLAN = """
cluster: clusters/sizes.yaml
isolation: none
conf: {conf}
grids:
  - apps: {apps}
    executors: {executors}
    placement: [spread]
    repeats: {repeats}
    args: [--partitions, 2]
"""


def plan(folder: Path, apps: str = "{sort: [16], sql: [16]}", **values: object) -> Path:
    """A plan file of two apps and two rounds."""
    path = folder / "plan.yaml"
    told = {"apps": apps, "executors": "[2, 1]", "repeats": 2, "conf": "{}", **values}
    path.write_text(PLAN.format(**told))
    return path


class Spark(Cluster):
    """A daemon on which jobs take no time; logs are made. Jobs of the types in `failing` fail."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.folder = folder
        self.failing: set[str] = set()

    def job(self, job_id: str) -> Any:
        """It is over; some have failed."""
        state = "failed" if self.spec(job_id)["type"] in self.failing else "finished"
        return {"id": job_id, "state": state, "reason": "made to fail", "tasks": [{"ended_at": 1.0}]}

    def spec(self, job_id: str) -> Any:
        """What was submitted."""
        return self.submitted[int(job_id[4:]) - 1]

    def logged(self, _: Path, job_id: str) -> LoggedApplication:
        """The log of a job of 20 core-seconds."""
        spec = self.spec(job_id)
        return application(self.folder, spec["name"], spec["executors"], 20, 20)

    @contextlib.contextmanager
    def bench(self, *_: object, **sections: object) -> Iterator[Bench]:
        """Instead of a daemon of one's own."""
        with super().bench(*_, **sections) as bench:
            yield replace(bench, data_dir=self.folder)


@pytest.fixture
def spark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Spark:
    """The daemon instead of a real one."""
    made = Spark(tmp_path)
    monkeypatch.setattr(audit_on_spark, "own_bench", made.bench)
    monkeypatch.setattr(audit_on_spark, "logged", made.logged)
    return made


def audit(folder: Path, *more: str) -> list[str]:
    """The command line."""
    words = ["profile", "audit", str(folder / "runs"), "--plan", str(folder / "plan.yaml")]
    return [*words, "--out", str(folder / "audit.md"), "-o", "json", *more]


def test_sizes_take_turns_and_what_is_done_is_kept(
    spark: Spark, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Both sizes of a type follow each other, in the next round in the other order, which is added later."""
    plan(tmp_path)
    assert main(audit(tmp_path, "--rounds", "1")) == 0
    found = json.loads(capsys.readouterr().out)
    assert len(spark.submitted) == 4
    assert main(audit(tmp_path)) == 0
    both = json.loads(capsys.readouterr().out)
    ran = [(spec["type"], spec["executors"]) for spec in spark.submitted]
    assert [ran[k][0] == ran[k + 1][0] for k in range(0, 8, 2)] == [True] * 4
    assert {ran[k][1] + ran[k + 1][1] for k in range(0, 8, 2)} == {3}
    firsts = {kind: [ran[k][1] for k in range(0, 8, 2) if ran[k][0] == kind] for kind in ("sort", "sql")}
    assert sorted(map(sorted, firsts.values())) == [[1, 2], [1, 2]]
    assert firsts["sort"] != firsts["sql"]
    assert [policy for _, policy in spark.policies] == [{"vms": executors} for _, executors in ran]
    assert [case["rounds"] for case in found["cases"]] == [1, 1]
    assert [(case["rounds"], case["inside"]) for case in both["cases"]] == [(2, True)] * 2
    assert both["inside"] == 2
    kept = read_audited(tmp_path / "runs")
    assert [(run.type, run.executors) for run in kept.runs] == ran
    assert kept.runs[0].application.log.startswith(kept.runs[0].type)
    told = (tmp_path / "audit.md").read_text()
    assert told.splitlines()[2].startswith("Of ")
    assert "**2 of 2 inside**" in told
    assert f"$ stoker profile audit {tmp_path / 'runs'} --plan" in told

    assert main(audit(tmp_path)) == 0
    assert len(spark.submitted) == 8
    capsys.readouterr()
    assert main([word for word in audit(tmp_path) if word not in ("-o", "json")]) == 0
    assert "2 of 2 inside" in capsys.readouterr().out


def test_a_failed_run_is_named_and_repeated(
    spark: Spark, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The others are compared; the exit code is 1 until a later start has it."""
    plan(tmp_path, repeats=1)
    spark.failing = {"sql"}
    assert main(audit(tmp_path)) == 1
    told = capsys.readouterr()
    assert "sql-16m-2x1x1024-on2-beside0-r0: failed: made to fail; start again to repeat it" in told.err
    assert [case["type"] for case in json.loads(told.out)["cases"]] == ["sort"]
    spark.failing.clear()
    assert main(audit(tmp_path)) == 0
    assert len(json.loads(capsys.readouterr().out)["cases"]) == 2
    assert len(spark.submitted) == 6


def test_nothing_is_reported_of_no_run(
    spark: Spark, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Where all have failed."""
    plan(tmp_path, repeats=1)
    spark.failing = {"sort", "sql"}
    assert main(audit(tmp_path)) == 1
    assert "no run has finished" in capsys.readouterr().err
    assert not (tmp_path / "audit.md").exists()


def test_runs_of_another_plan_are_not_mixed(
    spark: Spark, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """More rounds are the same plan, other inputs are not."""
    plan(tmp_path, repeats=1)
    assert main(audit(tmp_path)) == 0
    plan(tmp_path, repeats=2)
    assert main(audit(tmp_path)) == 0
    plan(tmp_path, "{sort: [17], sql: [16]}")
    assert main(audit(tmp_path)) == 2
    assert "holds runs of another plan; choose another folder" in capsys.readouterr().err
    assert len(spark.submitted) == 8


@pytest.mark.parametrize(
    ("apps", "executors"),
    [("{sort: [16, 32]}", "[2, 1]"), ("{sort: [16]}", "[2]"), ("{sort: [16]}", "[1, 2]")],
)
def test_plans_that_compare_no_sizes(apps: str, executors: str, tmp_path: Path) -> None:
    """An error that names the app and an example."""
    read, _, runs = planned(plan(tmp_path, apps, executors=executors))
    with pytest.raises(ConfigError, match=r"sort: should differ in its number of executors only"):
        in_turn(read, runs)


def test_the_plan_that_ships_has_ten_types() -> None:
    """In three rounds, two executors before one."""
    read, _, runs = planned(find("profiles/audit.yaml"))
    ordered = in_turn(read, runs)
    assert len(ordered) == 60
    assert len({run.planned.app for run in ordered}) == 10
    assert {(run.planned.executors, run.share) for run in ordered} == {(2, 1.0), (1, 0.5)}


def test_a_job_without_a_log_is_none(tmp_path: Path) -> None:
    """The reason says so."""
    found = logged(tmp_path, "job-1")
    assert isinstance(found, str)
    assert found


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_real_spark_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A tiny type at both sizes: the log of two executors predicts, and nothing is left running."""
    plan(tmp_path, "{wordcount: [0.2]}", conf=json.dumps(QUICK_JAVA))
    before = set(descendants())
    assert main(audit(tmp_path, "--rounds", "1")) == 0
    (case,) = json.loads(capsys.readouterr().out)["cases"]
    assert (case["type"], case["executors"], case["fewer"], case["rounds"]) == ("wordcount", 2, 1, 1)
    assert case["cost"] > 0
    assert 0 < case["predicted"]["middle"] < case["cost"]
    assert case["saving"] < case["cost"]
    assert set(descendants()) <= before
    for run in read_audited(tmp_path / "runs").runs:
        assert len(run.application.executors) == run.executors
        assert {each.cores for each in run.application.executors} == {1.0}
        assert run.application.tasks > 0
