"""The report on recorded spot VMs, on small records."""

import json
from pathlib import Path

import pytest

from agents.experiments.spot.report import deadlines_kept, table
from agents.experiments.spot.runs import (
    ENDLESS,
    ON_DEMAND,
    SETUPS,
    SpotRun,
    SpotScene,
    play_one,
    read_records,
    scenes,
    vms_of_world,
    worlds,
)
from daemon.cli import main

GREEDY = SETUPS[1].label


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Records: a zone with VMs, and two without, of which one was not taken at the same times."""
    folder = tmp_path / "records"
    folder.mkdir()
    for name, counts in {"a-full": [1, 1], "b-empty": [0, 0], "c-other": [0, 0, 0]}.items():
        record = {"metadata": {"gap_seconds": 60}, "data": counts}
        (folder / f"{name}.json").write_text(json.dumps(record))
    return folder


def test_worlds_are_each_record_and_the_zones_that_were_recorded_together(data: Path) -> None:
    """In two zones each pool has half of its VMs in either."""
    found = worlds(read_records(data))
    assert [world.name for world in found] == [
        ON_DEMAND,
        ENDLESS,
        "a-full",
        "b-empty",
        "c-other",
        "a-full and b-empty",
    ]
    vms, traces = vms_of_world(found[-1])
    of_type = [vm.terms.pool for vm in vms if vm.spot and vm.type == "m1.large" and vm.terms is not None]
    assert {pool: of_type.count(pool) for pool in of_type} == {
        "m1.large-spot a-full": 17,
        "m1.large-spot b-empty": 17,
    }
    assert traces["m1.large-spot a-full"].counts == (34, 34)
    assert {vm.id for vm in vms} == {vm.id for vm in vms_of_world(found[1])[0]}


def test_a_record_decides_which_vms_can_be_opened(data: Path) -> None:
    """Where it has none, jobs run on demand, and no later; where it has all, as if there were no record."""
    of = {world.name: world for world in worlds(read_records(data))}
    runs = {name: play_one("normal", world, GREEDY, 90000, 12) for name, world in of.items()}
    demand, empty, full = runs[ON_DEMAND], runs["b-empty"], runs["a-full"]
    assert empty.numbers["refused"] > 0
    assert demand.numbers["refused"] == full.numbers["refused"] == full.numbers["interruptions"] == 0
    assert full.numbers["bill"] < 0.5 * demand.numbers["bill"] < empty.numbers["bill"]
    assert demand.met == full.met
    assert all(run.numbers["unfinished"] == 0 for run in runs.values())


def _run(world: str, seed: int, bill: float, met: str) -> SpotRun:
    numbers = dict.fromkeys(("completion", "interruptions", "refused", "lost", "unfinished"), 0.0)
    return SpotRun("normal", world, GREEDY, seed, {"bill": bill, **numbers}, frozenset(met))


@pytest.mark.parametrize(
    ("bill", "met", "word"), [(5.0, "abcd", "yes"), (5.6, "abcd", "no"), (5.0, "abc", "no")]
)
def test_both_aims_are_judged(bill: float, met: str, word: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """45 % less than on demand, and 99 of 100 deadlines that are met there; others do not count."""
    monkeypatch.setattr("agents.experiments.spot.report.SETUPS", SETUPS[1:2])
    runs = [
        run
        for seed in range(12)
        for run in (_run(ON_DEMAND, seed, 10.0, "abcd"), _run("zone", seed, bill, met + "x"))
    ]
    scene: SpotScene = scenes()[0]
    assert table(scene, runs).splitlines()[-1].endswith(f"| {word} |")
    here, there = ({run.seed: run for run in runs if run.world == name} for name in ("zone", ON_DEMAND))
    assert deadlines_kept(here, there, 12).mean == len(met) / 4


def test_the_command_writes_the_report(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With the digest of each record; records are not needed to be of one length."""
    out = data.parent / "out"
    command = ["reproduce", "spot", "--data", str(data), "--out", str(out), "--seed", "90000", "--seeds", "2"]
    assert main([*command, "--jobs", "4"]) == 0
    assert capsys.readouterr().out.strip() == str(out / "spot.md")
    text = (out / "spot.md").read_text()
    assert text.count("| b-empty | `greedy, planned` |") == len(scenes())
    assert "* `c-other`: VMs for 0% of the time, which saves 0% at most, " in text
    assert "* `a-full`: VMs for 100% of the time, which saves 67% at most, " in text


@pytest.mark.parametrize(("content", "why"), [(None, "has no *.json"), ("{", "cannot be read")])
def test_records_that_cannot_be_used_are_named(
    content: str | None, why: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One line, exit code 2."""
    if content is not None:
        (tmp_path / "zone.json").write_text(content)
    assert main(["reproduce", "spot", "--data", str(tmp_path), "--out", str(tmp_path / "out")]) == 2
    error = capsys.readouterr().err
    assert why in error
    assert error.count("\n") == 1
