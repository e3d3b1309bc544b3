"""The commands under `queue`, against the real API: for people, as JSON, and with bad input."""

import json
import time
from dataclasses import replace
from pathlib import Path

import pytest

from environment.model.cluster_model import Changes
from environment.queues.types import queues_of
from environment.resources import Resources
from tests.daemon.cli.conftest import Daemon
from tests.daemon.queues.snapshots import seen

Capture = pytest.CaptureFixture[str]


def test_queues_are_set_shown_and_removed(daemon: Daemon, capsys: Capture) -> None:
    """Settings not named remain; the tree shows the changes and the waiting jobs."""
    assert daemon.run("queue", "list") == 0
    assert "No queues: a job's queue may be any name" in capsys.readouterr().out
    assert (
        daemon.run("queue", "set", "prod", "weight=3", "most.cpus=16", "most.memory=32g", "submit=ann, bob")
        == 0
    )
    said = capsys.readouterr().out
    assert "\nQueue prod is new.\n" in said
    assert "most              16 cpus, 32 GiB" in said
    assert "may submit        ann, bob" in said
    assert (
        daemon.run("queue", "set", "prod.etl", "guaranteed={cpus: 2, gpus: 1}", "most.dollars_per_day=5") == 0
    )
    assert daemon.run("queue", "set", "prod", "most.memory=null", "-o", "json") == 0
    capsys.readouterr()
    job = ("prod.etl", "ann", Resources.of(1.0, 1024))
    daemon.cast.seen = seen(
        daemon.cast.queues._live.queues(), job, job, stray=["gone.x"], spent=0.75,
        waiting={"prod": 7, "gone.x": 1}, longest={"prod": ("job-4", time.time() - 100)},
    )  # fmt: skip
    assert daemon.run("queue", "list", "-o", "wide") == 0
    default, prod, etl, gone = (line.split() for line in capsys.readouterr().out.splitlines()[2:6])
    assert default == ["default", "1", "25.0", "%", "0.0", "%", "0.0", "%", *"---", "0", "0", "$0.0000", "-"]
    assert prod[:12] == ["prod", "*", "3", "75.0", "%", "25.0", "%", "12.5", "%", "-", "2", "cpus,"]
    assert prod[-10:-5] == ["16", "cpus", "2", "7", "$1.50"]
    assert prod[-5:-2] == ["job-4,", "1", "min"]
    assert etl[0] == "etl"
    assert "$5/day" in etl
    assert gone[0] == "[gone.x]"
    assert daemon.run("queue", "show", "prod.etl", "-o", "json") == 0
    shown = json.loads(capsys.readouterr().out)
    assert (shown["submit"], shown["settings"]["guaranteed"]["gpus"]) == (["ann", "bob"], 1)
    assert daemon.run("queue", "remove", "prod.etl") == 0
    assert capsys.readouterr().out.endswith("Queue prod.etl is removed.\n")


def test_a_job_says_where_it_stands(daemon: Daemon, tmp_path: Path, capsys: Capture) -> None:
    """Its queue, priority and place, and why it waits there; nothing of it where there is nothing to say."""
    app = tmp_path / "a.py"
    app.write_text("")
    for queue in ("prod", "default"):
        flags = ("--queue", queue, "--priority", "7", "--owner", "ann")
        assert daemon.run("submit", *flags, "--no-restartable", "--deadline", "2h", str(app)) == 0
    for job_id, priority in (("job-1", 7), ("job-2", 0)):
        record = daemon.cast.store.jobs.get(job_id)
        assert record is not None
        asked = daemon.cast.store.jobs.spec(job_id)
        assert asked is not None
        assert (asked.restartable, asked.deadline) == (False, 7200.0)
        daemon.cast.store.changes.save(
            Changes((replace(record, job=replace(record.job, priority=priority)),), ())
        )
    daemon.cast.seen = seen(queues_of({}), first=["job-2", "job-1"])
    capsys.readouterr()
    assert daemon.run("job", "job-1") == 0
    shown = capsys.readouterr().out
    assert "place       1 job before it" in shown
    assert "1 job is before it (order: priority, fair)" in shown
    assert daemon.run("explain", "job-1") == 0
    assert "It is in queue prod; its priority is 7; 1 job before it.\n" in capsys.readouterr().out
    assert daemon.run("explain", "job-2") == 0
    assert "It is in" not in capsys.readouterr().out
    assert daemon.run("jobs") == 0
    assert capsys.readouterr().out.splitlines()[0].split()[:6] == [
        "id",
        "name",
        "type",
        "owner",
        "queue",
        "priority",
    ]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("set", "prod", "weight=0"), "prod: weight: should be greater than 0, found 0"),
        (("set", "prod", "wieght=2"), "unknown key; did you mean weight?"),
        (("set", "prod", "weight"), "settings: should be key=value, found 'weight'"),
        (("set", "prod", "most=5", "most.cpus=2"), "most: given as a whole and in part"),
        (("set", "lab.x", "weight=2"), "lab does not exist: create it before lab.x"),
        (("remove", "prod"), "there are no queues"),
        (("show", "prod"), "there are no queues"),
    ],
)
def test_what_is_wrong_is_one_line(
    daemon: Daemon, capsys: Capture, arguments: tuple[str, ...], says: str
) -> None:
    """On stderr; the exit code is 2."""
    assert daemon.run("queue", *arguments) == 2
    error = capsys.readouterr().err
    assert says in error
    assert error.count("\n") == 1
