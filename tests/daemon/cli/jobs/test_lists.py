"""Lists by command: filters and order of jobs, the forms of output, and tables that fit 80 columns."""

import json
import time
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
import yaml

from daemon.cli.jobs.job_list import moment
from tests.daemon.cli.conftest import Daemon

Capture = pytest.CaptureFixture[str]
LONG = "no VM has room for its executors, of which each needs 4 cpus and 8 GiB of memory free"


@pytest.fixture
def filled(daemon: Daemon, tmp_path: Path, capsys: Capture) -> Daemon:
    """Three jobs: two that wait for the same reason, and one that failed."""
    app = tmp_path / "count_words_in_all_the_logs_of_a_year.py"
    app.write_text("")
    for kind, queue in (("sort", "etl"), ("sort", "adhoc"), ("wordcount", "etl")):
        assert daemon.run("submit", "--type", kind, "--queue", queue, "--owner", "ann", str(app)) == 0
    for number, cost in ((1, 2.0), (2, 3.0)):
        daemon.cast.put(f"job-{number}", "queued", LONG, cost=cost)
    daemon.cast.put("job-3", "failed", "exit code 1", finished_at=time.time(), cost=1.0)
    capsys.readouterr()
    return daemon


def printed(daemon: Daemon, capsys: Capture, *arguments: str) -> str:
    """Run a command that succeeds and return its output."""
    assert daemon.run(*arguments) == 0
    return capsys.readouterr().out


@pytest.mark.parametrize(
    ("flags", "found"),
    [
        ([], "321"),
        (["-r"], "123"),
        (["--type", "sort"], "21"),
        (["--type", "sort", "--limit", "1"], "2"),
        (["--queue", "etl", "--type", "sort"], "1"),
        (["--user", "ann", "--state", "failed"], "3"),
        (["--since", "1h"], "321"),
        (["--since", "2100-01-01"], ""),
        (["--sort", "cost"], "312"),
        (["--sort", "cost", "-r"], "213"),
        (["--sort", "finished"], "321"),
    ],
)
def test_jobs_are_found_and_ordered(filled: Daemon, capsys: Capture, flags: list[str], found: str) -> None:
    """Jobs are filtered by the API and by the command alike, sorted, and printed as ids alone."""
    assert printed(filled, capsys, "jobs", "-o", "name", *flags).split() == [f"job-{each}" for each in found]


def test_pages_are_read_until_enough_are_found(
    filled: Daemon, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However few a page holds."""
    monkeypatch.setattr("daemon.cli.jobs.job_list._PAGE", 1)
    assert printed(filled, capsys, "jobs", "-o", "name", "--type", "sort").split() == ["job-2", "job-1"]


def test_more_jobs_than_are_listed_are_told(filled: Daemon, capsys: Capture) -> None:
    """And not where all are."""
    assert "There are more: these are the newest 2" in printed(filled, capsys, "jobs", "--limit", "2")
    assert "There are more" not in printed(filled, capsys, "jobs", "--limit", "3")


def test_where_none_is_found_the_filters_are_told(filled: Daemon, capsys: Capture) -> None:
    """An empty result names the filters; an unknown value is reported with the known ones."""
    assert printed(filled, capsys, "jobs", "--state", "running") == "No such jobs: state running.\n"
    assert filled.run("jobs", "--type", "nosuch", "--queue", "prod") == 0
    said = capsys.readouterr()
    assert said.out == "No such jobs: queue prod, type nosuch.\n"
    assert "--type nosuch: unknown; known are sort, wordcount" in said.err
    assert "--queue prod: unknown; known are adhoc, etl" in said.err
    assert filled.run("jobs", "--since", "someday") == 2
    assert "yesterday" in capsys.readouterr().err


def test_a_reason_is_told_once_and_wide_in_each_row(filled: Daemon, capsys: Capture) -> None:
    """A reason is printed once below the table with its jobs; -o wide prints it in every row."""
    for number in (1, 2):
        filled.cast.put(f"job-{number}", "failed", LONG)
    narrow, wide = printed(filled, capsys, "jobs"), printed(filled, capsys, "jobs", "-o", "wide")
    assert f"job-2, job-1: {LONG}\n" in narrow
    assert (narrow.count(LONG), wide.count(LONG)) == (1, 2)


@pytest.mark.parametrize("command", [["jobs"], ["cluster"], ["policy", "list"], ["queue", "list"]])
def test_tables_fit_a_terminal_and_are_whole_in_a_pipe(
    filled: Daemon, capsys: Capture, monkeypatch: pytest.MonkeyPatch, command: list[str]
) -> None:
    """Of 80 columns; a pipe, and the wide ones, have everything."""
    monkeypatch.setenv("COLUMNS", "80")
    assert filled.run("queue", "set", "a_queue_with_a_very_long_name_that_nobody_wants", "weight=3") == 0
    capsys.readouterr()
    lines = printed(filled, capsys, *command).splitlines()
    table = lines[: lines.index("")] if "" in lines else lines
    assert max(len(line.rstrip()) for line in table) <= 80
    name = "count_words_in_all_the_logs_of_a_year"
    if command == ["jobs"]:
        assert "\N{HORIZONTAL ELLIPSIS}" in table[2]
        assert name in printed(filled, capsys, "jobs", "-o", "wide")
    monkeypatch.delenv("COLUMNS")
    piped = printed(filled, capsys, *command)
    heads = piped.splitlines()[0].split("  ")
    wide = printed(filled, capsys, *command, "-o", "wide").splitlines()[0]
    assert "\N{HORIZONTAL ELLIPSIS}" not in piped
    assert len(piped.splitlines()) <= len(lines)
    if command == ["jobs"]:
        assert [name in line for line in piped.splitlines()].count(True) == 3
        assert {"executors", "duration", "submitted", "type", "owner", "queue"} <= {
            each.strip() for each in heads
        }
    elif command == ["queue", "list"]:
        assert piped.splitlines()[0] == wide


@pytest.mark.parametrize(
    ("command", "name"),
    [
        (["jobs"], "job-1"),
        (["job", "job-1"], "job-1"),
        (["cluster"], "m1.large-2"),
        (["policy", "list"], "ff"),
    ],
)
def test_every_form_of_output(filled: Daemon, capsys: Capture, command: list[str], name: str) -> None:
    """YAML says the same as JSON; names are alone in their lines."""

    def form(output: str) -> Any:
        return printed(filled, capsys, *command, "-o", output)

    assert yaml.safe_load(form("yaml")) == json.loads(form("json"))
    assert name in form("name").splitlines()


def test_days_are_those_of_bills() -> None:
    """East of Greenwich a day of UTC goes on after midnight; a time without a zone is one of this machine."""
    now = datetime(2026, 11, 22, 1, tzinfo=timezone(timedelta(hours=5)))
    day = datetime(2026, 11, 21, tzinfo=UTC)
    assert moment("today", now) == moment("2026-11-21", now) == day.timestamp()
    assert moment("yesterday", now) == (day - timedelta(days=1)).timestamp()
    assert moment("2h", now) == now.timestamp() - 7200
    assert moment("2026-11-21T18:00", now) == datetime(2026, 11, 21, 18).timestamp()
