"""`stoker oga`, as a user runs it."""

import json
from pathlib import Path

import pytest

from daemon.cli import main

SMALL = ["--types", "4", "--instances", "8", "--resources", "3", "--slots", "30"]


def test_every_policy_tells_its_rewards(capsys: pytest.CaptureFixture[str]) -> None:
    """-o json has a record for each policy: name, average and cumulative reward, seconds a slot."""
    assert main(["oga", "run", *SMALL, "--policy", "oga,fairness", "-o", "json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert [record["policy"] for record in told] == ["oga", "fairness"]
    for record in told:
        assert record["cumulative_reward"] == pytest.approx(30 * record["average_reward"])
        assert 0 < record["seconds_per_slot"] < 10


def test_several_seeds_have_a_spread(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Means and standard deviations, in the table and in JSON; --plot draws."""
    picture = tmp_path / "rewards.png"
    asked = ["oga", "run", *SMALL, "--seeds", "2", "--policy", "oga-conserving,drf"]
    assert main([*asked, "--plot", str(picture)]) == 0
    assert picture.read_bytes().startswith(b"\x89PNG")
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines[2:4]] == ["oga-conserving", "drf"]
    assert "±" in lines[2]
    assert main([*asked, "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out)[0]["seeds"] == [0, 1]


def test_gangs_start_together_or_not(capsys: pytest.CaptureFixture[str]) -> None:
    """Several jobs of a type, each of tasks: how many came and started, the same minimum for every policy."""
    asked = ["oga", "run", *SMALL, "--request", "total", "--policy", "oga-conserving,drf", "-o", "json"]
    several = ["--jobs-per-type", "3", "--contention", "2"]
    counts = {}
    for gang in ("0", "2", "4"):
        assert main([*asked, *several, "--tasks", "4", "--gang", gang]) == 0
        counts[gang] = json.loads(capsys.readouterr().out)
        for record in counts[gang]:
            assert 30 * 4 < record["jobs_came"] <= 30 * 4 * 3
            assert 0 < record["jobs_started"] < record["jobs_came"]
    for policy in (0, 1):
        few, all_ = (counts[gang][policy] for gang in ("2", "4"))
        assert few["jobs_started"] > all_["jobs_started"]
        assert all_["tasks_scheduled"] == pytest.approx(all_["jobs_started"] / all_["jobs_came"])
    assert main([*asked, *several, "--tasks", "4"]) == 0
    assert [r["jobs_started"] for r in json.loads(capsys.readouterr().out)] == [
        r["jobs_started"] for r in counts["4"]
    ], "all tasks of a job, unless told otherwise"


def test_the_table_tells_of_jobs(capsys: pytest.CaptureFixture[str]) -> None:
    """Started and scheduled for each policy, and below how many came."""
    asked = ["oga", "run", *SMALL, "--policy", "drf", "--jobs-per-type", "2", "--tasks", "3", "--gang", "1"]
    assert main(asked) == 0
    head, _, row, *_, foot = capsys.readouterr().out.splitlines()
    assert " ".join(head.split()).endswith("jobs started tasks scheduled µs a slot")
    assert row.split()[5].endswith("%")
    assert ", up to 2 jobs of a type, 3 tasks a job, gangs of 1, 30 slots, " in foot


@pytest.mark.parametrize("jobs", [[], ["--jobs-per-type", "2", "--tasks", "3", "--gang", "2"]])
def test_an_environment_can_be_kept(
    jobs: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Runs on a saved environment earn the same as the runs that saved it."""
    file = tmp_path / "environment.npz"
    asked = ["--policy", "oga,stationary,optimum", "-o", "json"]
    assert main(["oga", "run", *SMALL, *jobs, *asked, "--save", str(file)]) == 0
    first = json.loads(capsys.readouterr().out)
    assert main(["oga", "run", *asked, "--load", str(file)]) == 0
    second = json.loads(capsys.readouterr().out)
    assert [r["average_reward"] for r in first] == [r["average_reward"] for r in second]
    for name in ("environment", "jobs_came", "jobs_started", "tasks_scheduled"):
        assert first[0][name] == second[0][name]
    if not jobs:
        assert first[0]["average_reward"] < first[1]["average_reward"] < first[2]["average_reward"]


def test_a_setting_is_swept(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A row for each value, a column for each policy."""
    picture = tmp_path / "sweep.png"
    over = ["--over", "contention", "--values", "1,10", "--jobs-per-type", "2"]
    asked = ["oga", "sweep", *SMALL, *over, "--policy", "oga,drf", "--threads", "2"]
    assert main([*asked, "--plot", str(picture)]) == 0
    assert picture.read_bytes().startswith(b"\x89PNG")
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["contention", "oga", "drf"]
    assert [line.split()[0] for line in lines[2:]] == ["1", "10"]
    assert main([*asked, "-o", "json"]) == 0
    assert [r["contention"] for r in json.loads(capsys.readouterr().out)] == ["1", "1", "10", "10"]


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["run", "--policy", "zork"], "--policy zork: unknown"),
        (["run", *SMALL, "--density", "9"], "density"),
        (["run", *SMALL, "--utility", "cubic"], "utility"),
        (["run", "--load", "/nowhere.npz"], "/nowhere.npz"),
        (["run", "--alibaba", "/nowhere"], "/nowhere"),
        (["run", "--load", "a.npz", "--seeds", "2"], "--load: goes without --seeds"),
        (["run", "--load", "a.npz", "--jobs-per-type", "2"], "--load: goes without --jobs-per-type"),
        (["run", "--load", "a.npz", "--alibaba", "d"], "--load: goes without --alibaba"),
        (["run", *SMALL, "--gang", "2"], "gang: between 0 and the 1 task of a job, found 2"),
        (["run", *SMALL, "--tasks", "0"], "tasks: at least 1 expected, found 0"),
        (["run", *SMALL, "--tasks", "4", "--floor", "1.5"], "floor: more than 0 and at most 1"),
        (["run", *SMALL, "--jobs-per-type", "300"], "jobs_per_type: between 1 and 255, found 300"),
        (["sweep", "--over", "gang", "--values", "1,5", "--tasks", "4", *SMALL], "gang: between 0 and the 4"),
        (["run", "--save", "a.npz", "--seeds", "2"], "--save"),
        (["run", *SMALL, "--policy", "drf", "--plot", "/nowhere/x.png"], "--plot /nowhere/x.png"),
        (["run", "--request", "each"], "--request: should be one of "),
        (["run", "--threads", "0"], "--threads"),
        (["sweep", "--over", "colour", "--values", "1"], "--over colour: unknown"),
        (["sweep", "--over", "types", "--values", "many"], "--values many: types is a number"),
    ],
)
def test_bad_input_is_one_line(
    arguments: list[str], complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Bad input is one line on stderr and exit code 2."""
    assert main(["oga", *arguments]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert complaint in line
