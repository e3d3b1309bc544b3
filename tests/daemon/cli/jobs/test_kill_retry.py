"""Job commands, also for several jobs: kill, wait, logs, retry and describe."""

import json
import re
import time
from pathlib import Path
from typing import Any

import pytest

from daemon.cli import main
from daemon.store.queries.insert_jobs import SubmittedSpec
from daemon.store.rows.event_recorder import HistoryEvent
from tests.daemon.cli.conftest import Daemon

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def two(daemon: Daemon, tmp_path: Path, capsys: Capture) -> Daemon:
    """Two jobs that wait."""
    app = tmp_path / "count.py"
    app.write_text("")
    conf = ["--conf", "spark.a=1", "--conf", "spark.b=2"]
    for _ in range(2):
        assert daemon.run("submit", "--executors", "3", "--memory", "1g", *conf, str(app), "in", "out") == 0
    capsys.readouterr()
    return daemon


def test_several_are_killed_whichever_is_not_there(two: Daemon, capsys: Capture) -> None:
    """One that is not there is told, and the others end."""
    assert two.run("kill", "job-1", "job-9", "job-2") == 2
    said = capsys.readouterr()
    assert "job-9" in said.err
    assert [line.split()[1] for line in said.out.splitlines()] == ["job-1", "job-2"]


def test_a_name_with_two_meanings_kills_neither(daemon: Daemon, tmp_path: Path, capsys: Capture) -> None:
    """A group, and a job outside of it that is called so; one of its own jobs may be called so."""
    app = tmp_path / "count.py"
    app.write_text("")
    assert daemon.run("submit", "--name", "etl", str(app)) == 0
    assert daemon.run("submit", "--name", "load", "--group", "etl", str(app)) == 0
    assert daemon.run("submit", "--name", "nightly", "--group", "nightly", str(app)) == 0
    capsys.readouterr()
    assert daemon.run("kill", "etl") == 2
    assert "etl is a group, and job-1 is called so, too: give the job's id" in capsys.readouterr().err
    assert [job.state for job in daemon.cast.store.jobs.page(limit=3)] == ["queued"] * 3
    assert daemon.run("kill", "nightly") == 0
    assert capsys.readouterr().out == "Group nightly has ended: killed.\n"
    daemon.cast.put("job-1", "finished", "", finished_at=time.time())
    assert daemon.run("kill", "etl") == 0


def test_several_are_waited_for(two: Daemon, capsys: Capture) -> None:
    """All of them are told, and one that failed decides."""
    two.cast.put("job-1", "failed", "no", finished_at=time.time())
    two.cast.put("job-2", "finished", "", finished_at=time.time())
    assert two.run("wait", "job-1", "job-2") == 1
    assert len(capsys.readouterr().out.splitlines()) == 2
    assert two.run("wait", "job-2") == 0


def test_logs_of_several_are_told_apart(two: Daemon, capsys: Capture) -> None:
    """On stderr, so that only logs are on stdout."""
    two.cast.logs = {"driver stdout": "hello\n"}
    assert two.run("logs", "job-1", "job-2") == 0
    said = capsys.readouterr()
    assert said.out == "hello\nhello\n"
    assert "the log of job-2:" in said.err


def test_a_job_is_submitted_again_with_what_changed(two: Daemon, capsys: Capture) -> None:
    """All that is not named stays; the new id is told."""
    assert two.run("retry", "job-1", "--memory", "2g", "--conf", "spark.b=3") == 0
    said = "Job job-3 (count) submitted, as job-1 was: 3 executors of 1 cpu, 2 GiB.\n"
    assert capsys.readouterr().out == said
    old, new = two.cast.store.jobs.spec("job-1"), two.cast.store.jobs.spec("job-3")
    assert old is not None
    assert new is not None
    assert new.conf == {"spark.a": "1", "spark.b": "3"}
    assert new.model_dump(exclude={"conf", "memory"}) == old.model_dump(exclude={"conf", "memory"})


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"env": {"API_TOKEN": "hidden"}}, "it has secrets that the daemon does not show"),
        (
            {"files": ("stoker-file:" + "0" * 64 + "/gone.txt",)},
            "gone.txt was uploaded for it and has been removed",
        ),
    ],
)
def test_a_job_that_cannot_be_the_same_is_refused(
    two: Daemon, capsys: Capture, change: dict[str, Any], why: str
) -> None:
    """It says why, and nothing is submitted."""
    spec = two.cast.store.jobs.spec("job-1")
    assert spec is not None
    (answer,) = two.cast.submit([SubmittedSpec(spec.model_copy(update=change), None)])
    assert answer
    assert two.run("retry", "job-3") == 2
    assert why in capsys.readouterr().err
    assert two.cast.store.jobs.get("job-4") is None


def test_one_command_shows_why_when_where_and_what_it_costs(two: Daemon, capsys: Capture) -> None:
    """`job` prints a job's facts, executors, decisions and last events; JSON is the API's answer."""
    two.cast.place("job-1")

    def printed(*words: str) -> str:
        assert two.run(*words) == 0
        return capsys.readouterr().out

    said = printed("job", "job-1")
    for part in (
        "3 executors of 1 cpu",
        "submitted ",
        "cost ",
        "m1.large-1",
        "ff decided to place",
        "Executor 0 on m1.large-1: the first with room",
        "job-1    submitted: ",
    ):
        assert part in said
    assert json.loads(printed("job", "job-1", "-o", "json"))["id"] == "job-1"
    happened = [HistoryEvent(10.0 + number, "job-1", "decided", f"round {number}") for number in range(20)]
    two.cast.store.facts.put("x", "y", happened)
    shown = printed("job", "job-1").splitlines()
    assert shown[-1].endswith("job-1    decided: round 19")
    assert "... 11 earlier events: `stoker job job-1 --events`" in shown


def test_parts_of_a_job_have_older_names(two: Daemon, capsys: Capture) -> None:
    """`explain` is `job --why`, `events ID` is `job ID --events`; help lists `events` alone of them."""
    two.cast.place("job-1")

    def printed(*words: str) -> str:
        assert two.run(*words) == 0
        return capsys.readouterr().out

    assert printed("job", "job-1", "--why") == printed("explain", "job-1")
    assert printed("job", "job-1", "--events") == printed("events", "job-1")
    assert printed("describe", "job-1") == printed("job", "job-1")
    why = json.loads(printed("job", "job-1", "--why", "-o", "json"))
    assert why == json.loads(printed("explain", "job-1", "-o", "json"))
    happened = json.loads(printed("job", "job-1", "--events", "-o", "json"))
    assert [event["kind"] for event in happened] == ["submitted"]
    both = json.loads(printed("job", "job-1", "--why", "--events", "-o", "json"))
    assert both == {"explanation": why, "events": happened}
    assert printed("job", "job-1", "--why", "-o", "name") == "job-1\n"
    assert sorted(json.loads(printed("describe", "job-1", "-o", "json"))) == ["events", "explanation", "job"]
    listed = printed("--help")
    assert re.search("^  job ", listed, re.MULTILINE)
    assert not re.search("^  (explain|describe) ", listed, re.MULTILINE)


def test_a_failure_is_explained(two: Daemon, capsys: Capture) -> None:
    """Why it failed, and where there is more."""
    two.cast.put("job-1", "failed", "its driver ended with exit code 1")
    assert two.run("explain", "job-1") == 0
    said = capsys.readouterr().out
    assert "job-1 is failed: its driver ended with exit code 1" in said
    assert "`stoker logs job-1 --stderr`" in said
    two.cast.put("job-1", "failed", "lost 4 executors; the last, executor 3: Command exited with status 1")
    assert two.run("explain", "job-1") == 0
    assert "`stoker logs job-1 --executor N`" in capsys.readouterr().out


def test_completion_knows_commands(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As shells ask for it; the script that makes them ask is printed by the command."""
    monkeypatch.setenv("_STOKER_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", "stoker ret")
    monkeypatch.setenv("COMP_CWORD", "1")
    with pytest.raises(SystemExit):
        main(None)
    assert capfd.readouterr().out.split() == ["retry"]
    monkeypatch.delenv("_STOKER_COMPLETE")
    assert main(["completion", "bash"]) == 0
    assert "_STOKER_COMPLETE=complete_bash" in capfd.readouterr().out
    assert main(["--help"]) == 0
    assert "stoker completion bash" in capfd.readouterr().out
