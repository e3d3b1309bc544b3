"""`make results`: all reports in one run, which continues after a kill; here with few jobs."""

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from agents.experiments.results import all_reports
from agents.experiments.results.all_reports import REPORTS, make_results
from agents.experiments.seed_register import register
from daemon.cli import main
from tests.profiles.workloads.test_traces import needs_traces

REPOSITORY = Path(__file__).parents[3]
#: Published reports that are not made here, with what each needs: real Spark, or tables of others.
ELSEWHERE = {
    "audit": "stoker profile audit",
    "audit-first": "stoker profile audit",
    "dynamic": "stoker profile dynamic",
    "dynamic-first": "stoker profile dynamic",
    "estimates-live": "stoker up",
    "fidelity": "stoker profile validate",
    "memory": "stoker profile memory",
    "memory-first": "stoker profile memory",
    "real": "stoker profile compare",
    "real-tpch": "stoker profile compare",
    "shapes": "stoker reproduce shapes",
    "sizes": "stoker profile compare",
    "spot": "stoker reproduce spot",
}


def test_every_published_report_is_one_of_these() -> None:
    """Or it is made elsewhere, and names its command."""
    published = {path.stem for path in (REPOSITORY / "docs/results").glob("*.md")}
    assert published - {report.name for report in REPORTS} - {"README"} == ELSEWHERE.keys()
    assert {report.name for report in REPORTS} == register().blocks.keys() - {"rehearsal", "spot"}


@pytest.mark.parametrize("name", [report.name for report in REPORTS])
def test_published_reports_say_whether_their_seeds_are_free(name: str) -> None:
    """Of the report's block, or registered as used."""
    text = (REPOSITORY / f"docs/results/{name}.md").read_text(encoding="utf-8")
    assert ("of the block of this report" in text) != ("registered as used" in text)


def test_each_report_has_seeds_enough_to_be_judged() -> None:
    """Twelve, or four days."""
    assert all(report.seeds >= (4 if report.name == "estimates" else 12) for report in REPORTS)


@needs_traces
@pytest.mark.slow
def test_all_reports_are_made_quickly(tmp_path: Path) -> None:
    """With revision, seeds, belief and truth; none on seeds of a published block.

    The two that take half of the time are left to tests of their own, and to `make results QUICK=1`.
    """
    names = tuple(report.name for report in REPORTS if report.name not in ("decisions", "zhao2023"))
    paths = make_results(tmp_path, quick=True, only=names, workers=0)
    assert [path.stem for path in paths] == list(names)
    for path in paths:
        text = path.read_text(encoding="utf-8")
        assert "\nOf revision " in text or "\nOf a revision that is not known" in text
        assert "seeds 90000 to 90001" in text or "seeds 90000 to 90000" in text
        assert "ruth" in text
        assert "elie" in text
        assert "standard error" in text


#: The command in a process that is killed when ten runs are stored.
KILLED = """
import os, signal, sys
from agents.experiments.runner import Runner
from daemon.cli import main

store, stored = Runner._store, []

def store_ten(runner, call, result):
    store(runner, call, result)
    stored.append(call)
    if len(stored) == 10:
        os.kill(os.getpid(), signal.SIGKILL)

Runner._store = store_ten
main(sys.argv[1:])
"""


def test_a_killed_run_continues(tmp_path: Path) -> None:
    """What ended before the kill is not made again, and the report is the same as without it."""
    command = ["reproduce", "results", "--quick", "--only", "sharing"]
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    make_results(whole, quick=True, only=("sharing",), workers=0)
    process = subprocess.Popen(
        [sys.executable, "-c", KILLED, *command, "--out", str(killed)], cwd=REPOSITORY, start_new_session=True
    )
    assert process.wait() == -signal.SIGKILL
    os.killpg(process.pid, signal.SIGKILL)  # those that made the runs
    before = {path: path.stat().st_mtime_ns for path in killed.rglob(".runs/*/*") if len(path.name) == 64}
    assert len(before) == 10
    assert not (killed / "sharing.md").exists()
    assert main([*command, "--out", str(killed)]) == 0
    assert {path: path.stat().st_mtime_ns for path in before} == before
    assert (killed / "sharing.md").read_text() == (whole / "sharing.md").read_text()


def test_an_unknown_report_is_refused(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """The error lists the known ones."""
    assert main(["reproduce", "results", "--only", "zork", "--out", str(tmp_path)]) == 2
    assert "--only zork: unknown; known are baselines, belief" in capsys.readouterr().err


def test_progress_is_a_part_of_all() -> None:
    """In tenths of minutes, those of earlier reports included."""
    told: list[tuple[int, int, str]] = []

    class Told:
        def __call__(self, done: int, total: int, what: str) -> None:
            told.append((done, total, what))

        def begin(self, done: int, total: int, what: str) -> None:
            told.append((done, total, what))

    progress = all_reports._ReportProgress(Told(), 10.0, 20.0, 40.0, "elastic")
    progress.begin(1, 4, "stored")
    progress(4, 4, "burst")
    assert told == [(150, 400, "elastic: stored"), (300, 400, "elastic: burst")]


def test_make_results_is_the_command() -> None:
    """A quick run goes elsewhere than docs/results."""
    make = shutil.which("make")
    if make is None:
        pytest.skip("no make here")
    for words, said in (
        ((), "stoker reproduce results --out docs/results"),
        (("QUICK=1", "ONLY=elastic"), "stoker reproduce results --out build/results --quick --only elastic"),
    ):
        printed = subprocess.run(
            [make, "-n", "results", *words], cwd=REPOSITORY, capture_output=True, text=True, check=True
        ).stdout
        assert said in printed
