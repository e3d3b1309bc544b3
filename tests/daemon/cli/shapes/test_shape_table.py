"""`stoker shapes`: the table of shapes of a type, from each kind of source."""

import json
import os
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from stoker.bounded_read import read_bounded

from daemon.cli import main
from profiles.runs import MeasuredRun, write_runs
from profiles.shapes.belief import ShapeBelief, believe
from profiles.shapes.law import Law
from profiles.shapes.runs import JobShape
from tests.audit.made_logs import added, app_end, app_start, environment, log_start, task, written

_LAW = Law(0.002, 0.002, 3.0, 1.0, 0.02, 3.0)
_SIZES = ((2, 2, 4), (2, 2, 8), (4, 2, 8))


def _seconds(executors: int, cpus: float, memory: float) -> float:
    return 50 * float(_LAW.seconds(JobShape("", executors, cpus, memory, 1.0), 10.0))


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """Runs of two types, with prices."""
    lines = ["type,input_gib,executors,cpus,memory_gib,vm,dollars_per_hour,seconds"]
    lines += [
        f"{name},10,{n},{c},{m},vm{c}x{m},{n * c * 0.05},{_seconds(n, c, m):.3f}"
        for name in ("etl", "sort")
        for n, c, m in _SIZES
    ]
    path = tmp_path / "runs.csv"
    path.write_text("\n".join(lines) + "\n")
    return path


def _json(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, object]:
    assert main(["shapes", "etl", *arguments, "-o", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert isinstance(found, dict)
    return found


def test_the_shapes_of_a_table_with_the_choice_marked(
    table: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without a cluster, those that were run."""
    assert main(["shapes", "etl", "--runs", str(table)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "Learned from 3 runs of type etl on 3 shapes."
    assert len([line for line in lines if line.startswith("*")]) == 1
    assert lines[1].split() == ["executors", "cpus", "memory", "VM", "seconds", "dollars", "excess"]
    assert len(lines) == 3 + len(_SIZES)


def test_json_has_every_shape_with_its_interval(table: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With a cluster all that it has room for, within the bounds."""
    found = _json(
        capsys, "--runs", str(table), "--cluster", "paper", "--executors", "auto:2-6", "--memory", "8g"
    )
    shapes = found["shapes"]
    assert isinstance(shapes, list)
    assert {shape["executors"] for shape in shapes} == {2, 3, 4, 6}
    assert {shape["memory_mib"] for shape in shapes} == {8192}
    assert [shape["chosen"] for shape in shapes] == [True] + [False] * (len(shapes) - 1)
    low, high = shapes[0]["seconds_between"]
    assert low < shapes[0]["seconds"] < high
    assert shapes[0]["dollars_between"][0] < shapes[0]["dollars"] < shapes[0]["dollars_between"][1]
    assert (found["runs"], found["shapes_run"], found["learned"]) == (3, 3, True)


def test_a_folder_of_profiles_is_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As `stoker profile run` leaves it; runs that failed are left out."""
    runs = [
        MeasuredRun(
            name=f"{number}",
            copy=0,
            type="etl",
            input_mib=10 * 1024,
            executors=n,
            cpus=c,
            memory_mib=m * 1024,
            placement=("vm",) * n,
            shared=0.0,
            state=state,
            submitted_at=0.0,
            ended_at=100.0,
            launching=1.0,
            duration=_seconds(n, c, m),
            startup=None,
            cost=0.1,
            losses=0,
        )
        for number, (n, c, m, state) in enumerate([*((*s, "finished") for s in _SIZES), (8, 1, 1, "failed")])
    ]
    write_runs(tmp_path, runs, {})
    assert _json(capsys, "--runs", str(tmp_path), "--cluster", "paper")["shapes_run"] == len(_SIZES)


def test_a_table_as_other_programs_write_it(table: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With a byte order mark, and whole numbers with a fraction."""
    table.write_text("\ufeff" + table.read_text().replace("etl,10,2,", "etl,10,2.0,"))
    assert _json(capsys, "--runs", str(table), "--cluster", "paper")["shapes_run"] == len(_SIZES)


def test_event_logs_are_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """By the name of the application, without its date; runs with dynamic allocation have no one shape."""
    for number, (executors, dynamic) in enumerate([(1, "false"), (2, "false"), (4, "true")]):
        events = [
            log_start(),
            app_start(f"etl 2026-11-0{number + 1}", at=0, app=f"app-{number}"),
            environment(executor__memory="2g", dynamicAllocation__enabled=dynamic),
            *(added(f"{name}", at=1) for name in range(executors)),
            *(task(f"{name}", 2, 50) for name in range(executors)),
            app_end(60 / executors + 10),
        ]
        written(tmp_path, events, f"app-{number}")
    (tmp_path / "notes.txt").write_text("no log\n")
    assert main(["shapes", "etl", "--runs", str(tmp_path), "--cluster", "paper", "-o", "json"]) == 0
    out, error = capsys.readouterr()
    found = json.loads(out)
    assert (found["runs"], found["shapes_run"]) == (2, 2)
    assert f"1 file not read: {tmp_path}/notes.txt: no application has started in it" in error
    assert "1 of 3 applications left out: cut off, or with executors that changed" in error


def test_one_shape_is_too_few(table: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The one to try next is marked."""
    table.write_text("\n".join(table.read_text().splitlines()[:2]) + "\n")
    assert main(["shapes", "etl", "--runs", str(table), "--cluster", "paper"]) == 0
    text = capsys.readouterr().out
    assert "Only 1 run of type etl on 1 shape" in text
    chosen = next(line for line in text.splitlines() if line.startswith("*"))
    assert chosen.split()[1:4] == ["2", "2", "8"]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--executors", "auto:8-2"], "--executors: the minimum is above the maximum in 'auto:8-2'"),
        (["--executors", "many"], "--executors: should be a number of executors from 1 to 10000"),
        (["--cpus", "auto:x-"], "--cpus: should be a number of cpus above 0"),
        (["--memory", "auto:4"], "--memory: should be auto, auto:MIN-MAX, auto:MIN- or auto:-MAX"),
        (["--cpus", "64", "--cluster", "paper"], "no pool or VM type has room for 1 x 64 cpus"),
        (["--cpus", "64"], "none of the shapes that were run is within these bounds"),
        (["--input", "-1"], "--input: should be more than 0 GiB"),
        (["--cluster", "papper"], "papper: no such cluster"),
    ],
)
def test_bad_input_is_one_line(
    table: Path, arguments: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """It names the option, and exits with 2."""
    assert main(["shapes", "etl", "--runs", str(table), *arguments]) == 2
    error = capsys.readouterr().err
    assert told in error
    assert len(error.strip().splitlines()) == 1


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("type,", "kind,", "runs.csv: has no column type; should have type, executors, cpus"),
        (",vm,", ",machine,", "column machine is unknown; known are type"),
        ("etl,10,2,", "etl,1,0,2,", "runs.csv, line 2: should have 8 columns, as its header"),
        ("etl,10,2,", "etl,10,2.5,", "runs.csv, line 2: executors: should be a whole number, found 2.5"),
        ("etl,10,2,", 'etl,10,"2"x,', "runs.csv: cannot be read: ',' expected after '\"'"),
        ("etl,10,2,2,4", "etl,10,0,2,4", "line 2: shape vm2x4: executors: 0 should be a number above 0"),
        ("etl,10,2,2,4", "etl,10,2,2,", "line 2: "),
    ],
)
def test_a_wrong_table_is_an_error_with_its_line(
    table: Path, old: str, new: str, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The first mistake counts."""
    table.write_text(table.read_text().replace(old, new, 1))
    assert main(["shapes", "etl", "--runs", str(table)]) == 2
    assert told in capsys.readouterr().err


def test_an_unknown_type_and_shapes_without_prices(table: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The errors tell what there is, and what to add."""
    assert main(["shapes", "etll", "--runs", str(table)]) == 2
    assert "no run of type etll; there are runs of etl, sort" in capsys.readouterr().err
    lines = [",".join(line.split(",")[:5] + line.split(",")[7:]) for line in table.read_text().splitlines()]
    table.write_text("\n".join(lines) + "\n")
    assert main(["shapes", "etl", "--runs", str(table)]) == 2
    assert "--cluster: names the VMs to choose from" in capsys.readouterr().err


def test_a_table_is_bounded(
    table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pipe without a writer, a device without an end and more runs than are used are errors of one line."""
    monkeypatch.setattr("profiles.shapes.sources.read_bounded", partial(read_bounded, patience=0.1))
    pipe, endless, many = (tmp_path / name for name in ("pipe.csv", "endless.csv", "many.csv"))
    os.mkfifo(pipe)
    endless.symlink_to("/dev/zero")
    header, *lines = table.read_text().splitlines()
    many.write_text("\n".join([header, *(lines * 1000)]))
    for path, why in (
        (pipe, "cannot be read: no end within 0.1 s"),
        (endless, "cannot be read: too long"),
        (many, "should have at most 5000 runs, such as the newest"),
    ):
        assert main(["shapes", "etl", "--runs", str(path)]) == 2
        error = capsys.readouterr().err
        assert why in error
        assert error.count("\n") == 1


def test_the_error_of_many_runs_takes_a_bounded_number_of_beliefs(
    table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Parts that are left out are drawn: two hundred runs take no four times as long as a hundred."""
    believed = []

    def counted(*arguments: Any) -> ShapeBelief:
        believed.append(arguments)
        return believe(*arguments)

    monkeypatch.setattr("profiles.shapes.errors.believe", counted)
    header, *lines = table.read_text().splitlines()
    many = tmp_path / "many.csv"
    many.write_text("\n".join([header, *(lines[:3] * 100)]))
    assert main(["shapes", "etl", "--runs", str(many)]) == 0
    capsys.readouterr()
    assert len(believed) <= 200
