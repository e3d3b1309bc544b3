"""Jobs are measured by real runs and shown; an interrupted plan is resumed."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from conf.loader import build, parse
from conf.schema import Config
from conf.schema.measuring_plan import MeasuringPlan
from daemon.cli import main
from daemon.cli.operate.orphans import descendants
from daemon.cli.profile.measure import mesos_of
from environment.simulation.durations.fitted_model import read_model
from profiles.job_profile import load_profiles
from profiles.runs import RUNS, read_runs, write_runs
from tests.profiles.measured import make_run
from tests.real_daemon import QUICK_JAVA

PLAN = """
cluster: {cluster}
isolation: none
conf: {conf}
grids:
  - apps: {{wordcount: [0.2]}}
    executors: [2]
    placement: [consolidated]
    repeats: 2
    args: [--partitions, 2]
"""
CLUSTER = "vms: [{type: small, cpus: 2, memory: 4g, price_per_hour: 3.6, count: 2}]"


def stoker(*arguments: str) -> list[str]:
    """The command line of a stoker of its own."""
    return [sys.executable, "-m", "daemon.cli", *arguments]


def run_until_first(command: Sequence[str], folder: Path) -> None:
    """Run until one job is measured, then kill it without warning."""
    with subprocess.Popen(command) as process:
        while not (folder / RUNS).is_file():
            assert process.poll() is None
            time.sleep(0.02)
        process.send_signal(signal.SIGKILL)


def test_no_run_waits_for_what_the_machine_carries() -> None:
    """The machine's JVM limit delays no run, as the number of parallel jobs is measured."""
    plan = parse(PLAN.format(cluster="a.yaml", conf="{}"), MeasuringPlan, "plan.yaml")
    mesos = build(Config, {"mesos": mesos_of(plan)}, "config").mesos
    assert mesos.jvms is not None
    copies = 1 + 100  # the most beside a job, see Grid
    assert mesos.jvms >= copies * (1000 + 1)


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_a_plan_is_measured_and_taken_up(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Killed after the first of two runs, it does the second alone, and leaves nothing running."""
    (tmp_path / "cluster.yaml").write_text(CLUSTER)
    plan = tmp_path / "plan.yaml"
    text = PLAN.format(cluster="cluster.yaml", conf=json.dumps(QUICK_JAVA))
    plan.write_text(text)
    out = tmp_path / "out"
    command = ["profile", "run", "--plan", str(plan), "--out", str(out)]
    run_until_first(stoker(*command), out)
    (first,) = read_runs(out)

    before = list(descendants())
    ended = subprocess.run(stoker(*command), check=False, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
    assert "To do: 1 of 2," in ended.stdout
    assert read_runs(out)[0] == first
    runs = read_runs(out)
    assert [run.name.rpartition("-")[2] for run in runs] == ["r0", "r1"]
    assert set(descendants()) <= set(before)
    assert not any(str(out) in line for line in command_lines())
    about = json.loads((out / "about.json").read_text())
    assert about["plan"]["conf"] == QUICK_JAVA
    for run in runs:
        # Not so the losses: executors that end a moment before their driver is seen to end count as lost.
        assert (run.state, run.vms, run.shared) == ("finished", 1, 0.0)
        assert run.placement == ("small-1", "small-1")
        assert run.startup is not None
        assert 0 < run.startup < run.duration
        assert run.total("task_seconds") > 0
        assert run.total("shuffle_write_mib") > 0
        # A VM for 3.6 dollars an hour costs a tenth of a cent a second.
        assert run.cost == pytest.approx(run.held / 1000, rel=0.5)

    assert main(["profile", "run", "--plan", str(plan), "--out", str(out)]) == 0
    assert "Runs: 2, in" in capsys.readouterr().out
    plan.write_text(text.replace("0.2", "0.3"))
    assert main(["profile", "run", "--plan", str(plan), "--out", str(out)]) == 2
    assert "holds runs of another plan" in capsys.readouterr().err


def command_lines() -> list[str]:
    """The command lines of all processes."""
    lines = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        if int(path.parent.name) != os.getpid():
            try:
                lines.append(path.read_bytes().decode(errors="replace"))
            except (FileNotFoundError, ProcessLookupError):
                continue
    return lines


def kept(tmp_path: Path) -> Path:
    """A folder with five equal runs, one of them an outlier, and a failed one."""
    runs = [make_run(name=f"a-r{i}", duration=40.0 if i == 2 else 20.0 + i / 10) for i in range(5)]
    write_runs(tmp_path, [*runs, make_run(name="a-r5", state="failed")], {"isolation": "none", "machine": {}})
    return tmp_path


def test_runs_are_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A row each, the outlier and the failed one marked, and all of it as JSON."""
    folder = str(kept(tmp_path))
    assert main(["profile", "show", folder]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[-1] for line in lines if "wordcount" in line].count("outlier") == 1
    assert sum("failed" in line for line in lines) == 1
    assert main(["profile", "show", folder, "-o", "json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert [run["outlier"] for run in shown["runs"]] == [False, False, True, False, False, False]
    assert shown["about"]["isolation"] == "none"


def measured_both_ways(tmp_path: Path) -> str:
    """A folder with two types, on one VM and on two, and one run of a third."""
    runs = [
        make_run(name=f"{kind}-on{len(set(where))}-r{i}", type=kind, placement=where, duration=seconds + i)
        for kind, where, seconds in (
            ("wordcount", ("a", "a"), 30.0),
            ("wordcount", ("a", "b"), 20.0),
            ("pagerank", ("a", "a"), 20.0),
            ("pagerank", ("a", "b"), 40.0),
        )
        for i in range(3)
    ]
    write_runs(tmp_path, [*runs, make_run(type="sort")], {"machine": {"cores": 2, "cpu": "a cpu"}})
    return str(tmp_path)


def test_a_model_is_fitted_and_used(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A fitted model is shown, stored and drives a simulation; a type with one run has no model."""
    folder = measured_both_ways(tmp_path)
    assert main(["profile", "fit", folder]) == 0
    shown = capsys.readouterr().out
    assert "sort has no model: 1 finished run, 2 are needed" in shown
    assert main(["profile", "fit", folder, "-o", "json"]) == 0
    fitted = json.loads(capsys.readouterr().out)
    assert fitted["types"]["pagerank"]["placement_ratio"] == pytest.approx(41.5 / 21.5)
    assert read_model(tmp_path).types.keys() == {"pagerank", "wordcount"}

    jobs = tmp_path / "jobs.csv"
    jobs.write_text("submitted_at,type,cpus,memory_mib,executors,duration\n0,pagerank,1,1024,2,500\n")
    durations = {}
    for draw, policy in (("mean", "rr"), ("mean", "ff"), ("sample", "ff")):
        options = ("--policy", policy, "--durations", folder, "--draw", draw, "-o", "json")
        assert main(["simulate", "--workload", str(jobs), *options]) == 0
        (run,) = json.loads(capsys.readouterr().out)
        durations[draw, policy] = run["average_duration"]
    assert durations["mean", "ff"] == pytest.approx(21.5, rel=0.05)
    assert durations["mean", "rr"] == pytest.approx(41.5, rel=0.05)
    assert durations["sample", "ff"] != durations["mean", "ff"]


def test_profiles_are_exported_and_runs_drawn(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """YAML that can be read back, on the terminal or in a file, and a picture."""
    folder, out = measured_both_ways(tmp_path), tmp_path / "measured.yaml"
    assert main(["profile", "export", folder]) == 0
    printed = capsys.readouterr().out
    assert main(["profile", "export", folder, "--out", str(out)]) == 0
    assert out.read_text() == printed
    found = load_profiles(str(out))
    assert {name: profile.prefers for name, profile in found.items()} == {
        "wordcount": "spread", "pagerank": "consolidate", "sort": "spread",
    }  # fmt: skip
    assert main(["profile", "plot", folder, "--out", str(tmp_path / "runs.png")]) == 0
    assert (tmp_path / "runs.png").read_bytes().startswith(b"\x89PNG")


def test_what_sizes_did_is_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Sizes are shown one a row with the effect of half the cores; as JSON with the law."""
    runs = [
        make_run(
            name=f"{n}x{c}-r0", executors=n, cpus=c, placement=("a", "b")[:n], duration=14.5 + 40 / n / c
        )
        for n, c in ((1, 1.0), (1, 2.0), (1, 4.0), (2, 1.0))
    ]
    write_runs(tmp_path, runs, {"machine": {}})
    assert main(["profile", "curve", str(tmp_path)]) == 0
    told = capsys.readouterr().out
    assert "2 x 1" in told
    assert "0% off the sizes that it was fitted to, 0% off held-out sizes" in told
    assert "1 x 4 to 1 x 2" in told
    assert main(["profile", "curve", str(tmp_path), "-o", "json"]) == 0
    (found,) = json.loads(capsys.readouterr().out).values()
    assert found["law"] == "Amdahl"
    assert [size["cpus"] for size in found["sizes"]] == [1, 2, 1, 4]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("curve", "nowhere"), "contains no profiles"),
        (("show", "nowhere"), "stoker: nowhere: contains no profiles: runs.parquet does not exist\n"),
        (("run", "--plan", "nowhere.yaml"), "nowhere.yaml: no such file"),
        (("fit", "nowhere"), "contains no profiles"),
        (("export", "nowhere"), "contains no profiles"),
        (("validate", "nowhere", "--workload", "burst"), "`stoker profile fit DIR` makes one"),
        (("run", "--url", "http://127.0.0.1:1"), "--url and --data-dir go together"),
    ],
)
def test_mistakes(arguments: Sequence[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    """One line on stderr, exit code 2."""
    assert main(["profile", *arguments]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
