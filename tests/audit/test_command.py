"""The command `stoker audit`: its output, and one line for each bad input."""

import csv
import io
import json
import os
import signal
import subprocess
import sys
import tarfile
from datetime import UTC, datetime
from pathlib import Path

import pytest

from daemon.cli import main
from tests.audit.made_logs import BEGAN, ETL, added, app_end, app_start, environment, text_of, written
from tests.waiting import until


def test_the_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Dollars by cause and application, and what was not read or had to be assumed."""
    written(tmp_path, ETL)
    written(tmp_path, [app_start(attempt="2"), *ETL[:2], *ETL[3:-1]], "app-1.inprogress")
    (tmp_path / "notes.txt").write_text("no log\n")
    assert main(["audit", str(tmp_path), "--vm", "m5.xlarge"]) == 0
    text = capsys.readouterr().out
    assert "for 1 application in 2 attempts" in text
    assert "tasks that were done" in text
    assert "cut off before the application's end: 1 of 2 logs" in text
    assert "1 file not read: " in text
    assert "without a VM type" not in text


def test_a_cut_part_of_a_log_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """In the table, in JSON and in the report."""
    folder, report = tmp_path / "eventlog_v2_app-1", tmp_path / "report.html"
    written(folder, ETL[:6], "events_1_app-1")
    (folder / "events_2_app-1").touch()
    written(folder, ETL[6:], "events_3_app-1")
    assert main(["audit", str(folder), "--html", str(report)]) == 0
    text = capsys.readouterr().out
    missing = f"events are missing: 1 of 1 log: {folder} (events_2_app-1)"
    assert missing in text.replace("\n", "")
    assert "cut off" not in text
    assert "events_2_app-1 of it is empty or cut short" in report.read_text()
    assert main(["audit", str(folder), "-o", "json"]) == 0
    (told,) = json.loads(capsys.readouterr().out)["each"]
    assert told["cut_short"]
    assert told["notes"] == ["events_2_app-1 of its log is empty or cut short: events are missing"]


def test_json_and_csv(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Both have the dollars: half of an m5.xlarge, which costs 0.192 dollars an hour, for 93 seconds."""
    written(tmp_path, ETL)
    assert main(["audit", str(tmp_path), "--vm", "m5.xlarge", "-o", "json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["total"]["dollars"] == pytest.approx(93 * 0.192 / 2 / 3600, rel=1e-3)
    assert told["total"]["core_seconds_by_cause"]["work"] == 50
    assert told["each"][0]["vm_types"] == ["m5.xlarge"]
    assert main(["audit", str(tmp_path), "--vm", "m5.xlarge", "-o", "csv", "--by", "user"]) == 0
    (row,) = csv.DictReader(io.StringIO(capsys.readouterr().out))
    assert (row["user"], row["runs"]) == ("ann", "1")
    assert float(row["dollars"]) == told["total"]["dollars"]


def test_names_in_csv_are_no_formulas_and_steer_no_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """An application writes its log itself."""
    written(tmp_path, [*ETL[:2], app_start("=1+1"), *ETL[3:]])
    written(tmp_path, [*ETL[:2], app_start("\x1b]0;owned\x07"), *ETL[3:]], "app-2")
    arguments = ["audit", str(tmp_path), "--vm", "m5.xlarge", "-o", "csv", "--by", "application"]
    assert main(arguments) == 0
    rows = [line.partition(",")[0] for line in capsys.readouterr().out.splitlines()]
    assert sorted(rows) == ["'=1+1", r"\x1b]0;owned\x07", "application"]


def test_runs_that_began_before_since_are_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """They are counted whole: in the table, in JSON and in the report the part before it is named."""
    day, report = 86_400, tmp_path / "report.html"
    log = [environment(executor__memory="1g"), app_start(), added("1", 0), app_end(4 * day)]
    arguments = ["audit", str(written(tmp_path / "logs", log)), "--vm", "m5.xlarge", "--no-savings"]
    since = [*arguments, "--since", datetime.fromtimestamp(BEGAN + day, UTC).date().isoformat()]
    assert main([*since, "--html", str(report)]) == 0
    assert "began before --since: 1 of 1 log, counted whole ($2.30 of it before)" in capsys.readouterr().out
    assert "1 of 1 logs begin before the day" in report.read_text()
    assert main([*since, "-o", "json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["began_before_since"], told["dollars_before_since"]) == (
        1,
        pytest.approx(told["total"]["dollars"] / 4),
    )
    assert main([*arguments, "--html", str(report)]) == 0
    assert "before the day" not in report.read_text()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_leaves_no_unpacked_archive(tmp_path: Path, number: signal.Signals) -> None:
    """As Ctrl-C does: archives are unpacked below the folder for temporary files."""
    archive, scratch = tmp_path / "logs.tar", tmp_path / "scratch"
    scratch.mkdir()
    log = tmp_path / "app-1"
    log.write_text(text_of(ETL) * 15_000)  # to read it takes much longer than to be seen
    with tarfile.open(archive, "w") as made:
        made.add(log)
    undisturbed = ["env", f"--default-signal={number.name.removeprefix('SIG')}"]  # as nohup may run the tests
    command = [*undisturbed, sys.executable, "-m", "daemon.cli", "audit", str(archive), "--vm", "m5.xlarge"]
    with subprocess.Popen(
        command, env={**os.environ, "TMPDIR": str(scratch)}, stderr=subprocess.PIPE
    ) as running:
        until(lambda: running.poll() is not None or any(scratch.rglob("*/*")))
        running.send_signal(number)
        running.communicate(timeout=300)
    assert running.returncode == 128 + number
    assert not list(scratch.iterdir())


def test_bad_input(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each is one line with what to do, and exit code 2."""
    empty, idle = tmp_path / "empty", tmp_path / "idle"
    empty.mkdir()
    written(idle, [app_start(), app_end(9)])
    types = tmp_path / "types.csv"
    types.write_text("type,cpus,memory,price_per_hour\nbig,4,8g,1\n")
    log = str(written(tmp_path / "logs", ETL))
    for arguments, text in (
        ([str(empty)], "holds no event log; name the folder of spark.eventLog.dir"),
        ([str(tmp_path / "none")], "does not exist; name a folder"),
        ([str(idle)], "an executor is in none of 1 log,"),
        ([log, "--prices", str(types)], "no VM type is known in the prices"),
        ([log, "--prices", "mars"], "known are ec2-us-east-1"),
        ([log, "--vm", "m9.huge"], "add its price there"),
        ([log, "--since", "soon"], "should be a day such as"),
    ):
        assert main(["audit", *arguments]) == 2
        out, error = capsys.readouterr()
        assert text in error
        assert error.count("\n") == 1
        assert not out
