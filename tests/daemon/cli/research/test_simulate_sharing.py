"""`stoker simulate --sharing`, `--order`, `--by`: shares of a cluster as tables, JSON and pictures."""

import json
from pathlib import Path

import pytest

from daemon.cli import main

TEAMS = ["simulate", "--workload", "teams", "--jobs", "40"]


def test_queues_and_users_are_shown_where_asked_for(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each policy has a table in 80 columns, with the order and the policy's knowledge."""
    monkeypatch.setenv("COLUMNS", "80")
    assert main([*TEAMS, "--policy", "ff,greedy", "--seeds", "2", "--sharing", "teams"]) == 0
    told = capsys.readouterr().out
    assert max(map(len, told.splitlines())) <= 80
    assert "Order: priority, fair; the same for all policies." in told
    assert "\nff (knows -): Jain " in told
    assert "\ngreedy (knows q d e p $): Jain " in told
    rows = [line.split() for line in told.splitlines() if line.startswith(("reports", "science"))]
    assert [row[:2] for row in rows] == [["reports", "4"], ["science", "3"]] * 2
    assert main([*TEAMS, "--policy", "ff", "--by", "user"]) == 0
    told = capsys.readouterr().out
    assert "ann in" in told
    assert "fifo over all queues" in told
    assert main([*TEAMS, "--policy", "ff"]) == 0
    assert "Jain" not in capsys.readouterr().out


def test_seeds_by_which_nothing_is_drawn_give_shares_no_spread(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A workload that is a file is one run: its deadlines are not counted once more for each seed."""
    own = tmp_path / "own.csv"
    own.write_text(
        "submitted_at,type,cpus,memory_mib,executors,duration,name,deadline\n"
        "0,sort,1,1024,2,120,a,900\n10,sort,1,1024,2,100,b,\n"
    )
    assert (
        main(["simulate", "--workload", str(own), "--policy", "ff", "--seeds", "3", "--order", "fair"]) == 0
    )
    told = capsys.readouterr().out
    assert "±" not in told
    assert "1 of 1 deadlines met" in told


def test_all_of_it_is_in_the_json(capsys: pytest.CaptureFixture[str]) -> None:
    """By run: the index, and for each party its shares, slowdown, waits, deadlines and cost."""
    assert main([*TEAMS, "--policy", "ff", "--order", "priority,fair", "-o", "json"]) == 0
    (run,) = json.loads(capsys.readouterr().out)
    told = run["sharing"]
    assert (told["order"], told["by"]) == (["priority", "fair"], "queue")
    assert 0.0 < told["jain"] <= 1.0
    assert {party["queue"] for party in told["parties"]} == {job["queue"] for job in run["jobs"]}
    assert sum(party["cost"] for party in told["parties"]) == pytest.approx(run["cost"])
    due = [job["ended_at"] <= job["deadline"] for job in run["jobs"] if job["deadline"] is not None]
    assert (told["in_time"], told["late"]) == (sum(due), len(due) - sum(due))


def test_a_daemons_config_says_how_to_share(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Its two sections are read and the rest is left; the order of the command line goes before its own."""
    config = tmp_path / "stoker.yaml"
    config.write_text("policy: {name: rr}\nqueues: {reports: {weight: 7}}\nsharing: {order: fair}\n")
    given = [*TEAMS, "--policy", "ff", "--sharing", str(config)]
    assert main(given) == 0
    told = capsys.readouterr().out
    assert "Order: fair;" in told
    assert "reports        7" in told
    assert main([*given, "--order", "shortest"]) == 0
    assert "Order: shortest;" in capsys.readouterr().out


def test_commitments_of_a_config_are_paid_and_used_first(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The table has the bill with them; JSON has the part of each that was used."""
    config = tmp_path / "stoker.yaml"
    year = "{type: m1.large, vms: 2, price_per_hour: 0.1, since: 2026-01-01, until: 2026-12-31}"
    config.write_text(f"commitments: {{year: {year}}}\n")
    given = ["simulate", "--workload", "normal", "--jobs", "10", "--cluster", "elastic", "--policy", "greedy"]
    given += ["--sharing", str(config)]
    assert main(given) == 0
    assert "committed and bill $" in capsys.readouterr().out
    assert main([*given, "-o", "json"]) == 0
    (run,) = json.loads(capsys.readouterr().out)
    (use,) = run["commitments"]
    assert 0.0 < use["used"] <= use["committed"]
    paid = run["bill"] + use["committed"] - use["list_cost"]
    assert run["with_commitments"] == pytest.approx(paid)


@pytest.mark.parametrize("suffix", [".png", ".svg"])
def test_shares_over_time_are_drawn(tmp_path: Path, suffix: str) -> None:
    """A panel for each policy, in the kind of file that the name says."""
    path = tmp_path / f"shares{suffix}"
    assert main([*TEAMS, "--policy", "ff,rr", "--plot-shares", str(path)]) == 0
    assert path.read_bytes().startswith(b"\x89PNG" if suffix == ".png" else b"<?xml")


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        (["--order", "oldest"], "--order: order.0: "),
        (["--order", "fifo,fair"], "fifo: leaves no ties"),
        (["--sharing", "nothing"], "--sharing nothing: no such file; known are teams, or a .yaml file"),
        (["--sharing", "clusters/paper.yaml"], "unknown key"),
        (["--plot-shares", "/nowhere/x.png"], "--plot-shares /nowhere/x.png"),
    ],
)
def test_what_cannot_be_is_told(given: list[str], complaint: str, capsys: pytest.CaptureFixture[str]) -> None:
    """In one line, with exit code 2."""
    assert main([*TEAMS, "--policy", "ff", "--jobs", "5", *given]) == 2
    assert complaint in capsys.readouterr().err


def test_a_file_without_either_section(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Says nothing of sharing, which is told."""
    (tmp_path / "empty.yaml").write_text("policy: {name: ff}\n")
    assert main([*TEAMS, "--policy", "ff", "--sharing", str(tmp_path / "empty.yaml")]) == 2
    assert "has neither queues nor sharing" in capsys.readouterr().err


def test_limits_of_a_config_are_played(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Those per hour and per day; one per hour below the cheapest VM is an error, as is an unknown pool."""
    config = tmp_path / "stoker.yaml"
    command = ["simulate", "--cluster", "elastic", "--policy", "ff", "--jobs", "12", "--sharing", str(config)]
    seconds = []
    for text in ("100.0", "2.0", "2.0, dollars_per_day: 0.2", "2.0, hold: false, dollars_per_day: 0.2"):
        config.write_text(f"budget: {{dollars_per_hour: {text}}}\n")
        assert main([*command, "-o", "json"]) == 0
        seconds.append(json.loads(capsys.readouterr().out)[0]["average_completion"])
    assert seconds[0] < seconds[1] == seconds[3]
    assert seconds[2] > 20_000.0
    config.write_text("budget: {pools: {none.such: {dollars_per_day: 5}}}\n")
    assert main(command) == 2
    assert "budget: pools.none.such: there is no such pool" in capsys.readouterr().err
    config.write_text("budget: {pools: {m1.large: {dollars_per_hour: 0.1}}}\n")
    assert main(command) == 2
    told = "budget: pools.m1.large.dollars_per_hour: 0.1 is less than the cheapest VM costs, $0.24"
    assert told in capsys.readouterr().err


def test_users_are_columns_of_a_workload(capsys: pytest.CaptureFixture[str]) -> None:
    """And when its jobs are due, where any is."""
    assert main(["workload", "teams", "--jobs", "30"]) == 0
    head, *_ = capsys.readouterr().out.splitlines()
    assert head.split()[-4:] == ["user", "queue", "due", "within"]
    assert main(["workload", "burst", "--jobs", "3"]) == 0
    assert "queue" not in capsys.readouterr().out
