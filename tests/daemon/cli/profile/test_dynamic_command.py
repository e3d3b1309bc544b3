"""Jobs with fixed executors and with dynamic allocation, in turn, and the report of both."""

import contextlib
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from audit.applications import LoggedApplication
from conf.loader import ConfigError
from daemon.cli import main
from daemon.cli.profile import audit_on_spark
from daemon.cli.profile.audit_on_spark import both_ways
from daemon.cli.profile.measure import Bench, planned
from tests.audit.test_real_savings import application
from tests.daemon.cli.profile.measured_cluster import Cluster

PLAN = """
cluster: clusters/four.yaml
isolation: none
grids:
  - apps: {apps}
    executors: {executors}
    placement: [spread]
    repeats: 2
"""


def plan(folder: Path, apps: str = "{sort: [16], sql: [16]}", executors: str = "[4]") -> Path:
    """A plan file of two apps and two rounds."""
    path = folder / "plan.yaml"
    path.write_text(PLAN.format(apps=apps, executors=executors))
    return path


class Spark(Cluster):
    """A daemon on which jobs take no time; logs are made."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.folder = folder

    def job(self, job_id: str) -> Any:
        """It is over."""
        return {"id": job_id, "state": "finished", "reason": "", "tasks": [{"ended_at": 1.0}]}

    def logged(self, _: Path, job_id: str) -> LoggedApplication:
        """The log of a job of 20 core-seconds: with dynamic allocation on half of the executors."""
        spec = self.submitted[int(job_id[4:]) - 1]
        asked = spec["executors"]
        return application(self.folder, spec["name"], asked if isinstance(asked, int) else 2, 20, 20)

    @contextlib.contextmanager
    def bench(self, *_: object, **sections: object) -> Iterator[Bench]:
        """Instead of a daemon of one's own."""
        with super().bench(*_, **sections) as bench:
            yield replace(bench, data_dir=self.folder)


def test_both_ways_take_turns_and_what_is_done_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A job has bounds and a time for idle executors, or a number; a second start repeats none."""
    spark = Spark(tmp_path)
    monkeypatch.setattr(audit_on_spark, "own_bench", spark.bench)
    monkeypatch.setattr(audit_on_spark, "logged", spark.logged)
    words = ["profile", "dynamic", str(tmp_path / "runs"), "--plan", str(plan(tmp_path)), "--idle", "7"]
    command = [*words, "--out", str(tmp_path / "dynamic.md")]
    assert main([*command, "-o", "json"]) == 0
    cases = json.loads(capsys.readouterr().out)
    assert {case["type"]: (case["rounds"], case["idle"]) for case in cases} == {
        "sort": (2, 7.0),
        "sql": (2, 7.0),
    }
    ran = [(spec["type"], spec["executors"]) for spec in spark.submitted]
    assert len(ran) == 8
    assert [one[0] == other[0] for one, other in zip(ran[::2], ran[1::2], strict=True)] == [True] * 4
    of_sort = [asked for kind, asked in ran if kind == "sort"]
    assert of_sort in (
        [4, {"min": 1, "max": 4}, {"min": 1, "max": 4}, 4],
        [{"min": 1, "max": 4}, 4, 4, {"min": 1, "max": 4}],
    )
    times = {str(spec["conf"].get("spark.dynamicAllocation.executorIdleTimeout")) for spec in spark.submitted}
    assert times == {"7s", "None"}
    assert "Dynamic allocation in the simulator" in (tmp_path / "dynamic.md").read_text()
    assert main(command) == 0
    assert len(spark.submitted) == 8
    assert "The report is in" in capsys.readouterr().out


def test_an_app_has_one_size(tmp_path: Path) -> None:
    """Else it is not known which one is to be saved."""
    _, _, runs = planned(plan(tmp_path, executors="[4, 2]"))
    with pytest.raises(ConfigError, match="should have one number of executors"):
        both_ways(runs, 10)
