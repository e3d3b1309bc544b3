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


def test_an_environment_can_be_kept(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What ran on a saved environment earns the same as where it was saved."""
    file = tmp_path / "environment.npz"
    asked = ["--policy", "oga,stationary,optimum", "-o", "json"]
    assert main(["oga", "run", *SMALL, *asked, "--save", str(file)]) == 0
    first = json.loads(capsys.readouterr().out)
    assert main(["oga", "run", *asked, "--load", str(file)]) == 0
    second = json.loads(capsys.readouterr().out)
    assert [r["average_reward"] for r in first] == [r["average_reward"] for r in second]
    assert first[0]["average_reward"] < first[1]["average_reward"] < first[2]["average_reward"]


def test_a_setting_is_swept(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A row for each value, a column for each policy."""
    picture = tmp_path / "sweep.png"
    over = ["--over", "contention", "--values", "1,10"]
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
        (["run", "--load", "a.npz", "--seeds", "2"], "--load"),
        (["run", "--save", "a.npz", "--seeds", "2"], "--save"),
        (["run", *SMALL, "--policy", "drf", "--plot", "/nowhere/x.png"], "--plot /nowhere/x.png"),
        (["run", "--request", "each"], "'each' is not one of"),
        (["run", "--threads", "0"], "--threads"),
        (["sweep", "--over", "colour", "--values", "1"], "--over colour: unknown"),
        (["sweep", "--over", "types", "--values", "many"], "--values many: types is a number"),
    ],
)
def test_bad_input_is_one_line(
    arguments: list[str], complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """What is wrong goes to stderr in one line, and the exit code is 2."""
    assert main(["oga", *arguments]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert complaint in line
