"""Logs that outlive the VM: kept when a task ends, read afterwards, and looked into when a driver fails."""

import os
import shutil
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from conf.schema import Config, Driver, JobSpec
from daemon.core.errors import RejectedError
from daemon.core.status import LogChunk
from daemon.disk import log_archive
from daemon.disk.log_archive import KeptLogs
from daemon.launch import log_collector
from daemon.launch.launcher import Launcher
from daemon.launch.log_collector import LogKeeper
from daemon.launch.log_reader import Logs
from daemon.store.job_store import Store
from environment.model.cluster_model import Changes
from environment.model.messages import events as ev
from environment.model.messages.records import ExecutorRecord, JobRecord
from environment.resources import Resources
from framework.mesos.master_link import MasterLink
from framework.mesos.session import SessionOptions
from tests.builders import make_job
from tests.waiting import until

EXECUTOR, DRIVER = "job-1.0", "job-1.driver-1"


class Stage:
    """A job with a driver and an executor on a VM of an embedded Mesos, and its log archive."""

    def __init__(self, folder: Path) -> None:
        self.agents = folder / "agents"
        self.store = Store(f"sqlite:///{folder / 'stoker.db'}")
        spec = JobSpec(app="/a.py", driver=Driver(on="cluster"), env={"DB_PASSWORD": "4711"})
        self.job, _ = self.store.jobs.new.add_one(spec, self._job, None, 100.0)
        self.tasks = {
            task_id: ExecutorRecord(
                task_id, "job-1", number, "S1", "vm-1", "m1.large", "10.0.0.1", 0.2, Resources.of(1.0, 1024),
                (), 1.0, state="running", running_at=2.0,
            )
            for task_id, number in ((EXECUTOR, 0), (DRIVER, None))
        }  # fmt: skip
        self.store.changes.save(Changes((), tuple(self.tasks.values())))
        self.kept = KeptLogs(folder)
        local: Any = SimpleNamespace(agents=self.agents)
        self.link = MasterLink(SessionOptions("nowhere"), lambda *_: None, "F", local=local)
        self.launcher = Launcher(Config(data_dir=str(folder)), folder, "127.0.0.1")
        self.events: list[ev.Event] = []
        self.keeper = LogKeeper(
            self.kept,
            self.launcher,
            self.store,
            self.link.sandbox,
            lambda event, _: self.events.append(event),
        )
        self.logs = Logs(self.launcher, self.store, self.link.sandbox, self.kept)

    @staticmethod
    def _job(job_id: str) -> Any:
        return make_job(job_id, driver=Resources.of(1.0, 1024))

    def sandbox(self, task_id: str = EXECUTOR) -> Path:
        """The folder of a task."""
        run = self.agents / f"vm-1/frameworks/F/executors/{task_id}/runs/only"
        run.mkdir(parents=True, exist_ok=True)
        return run

    def end(self, task_id: str = EXECUTOR) -> ExecutorRecord:
        """Tell that a task has ended, and wait until its logs were kept or not."""
        task = self.tasks[task_id]
        task.state, task.ended_at = "failed", 3.0
        self.keeper.ended([task])
        until(lambda: self.kept.find("job-1", task_id, "stderr") or self.kept.why("job-1", task_id))
        self.rest()
        return task

    def rest(self) -> None:
        """Wait until nothing is being done."""
        until(lambda: not self.keeper._crew._busy and not self.keeper._crew._waiting)

    def read(self, task: ExecutorRecord, offset: int = 0, stream: str = "stdout") -> LogChunk:
        """Read a log as the API does."""
        return self.logs.read(self.job, task, stream, offset, 1 << 16)

    def fail(self) -> None:
        """The master tells that the driver has failed."""
        self.keeper.take(ev.TaskChanged(5.0, DRIVER, "failed", "S1", "", "Command exited with status 1"))


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    """See `Stage`."""
    stage = Stage(tmp_path)
    yield stage
    stage.keeper.close()
    stage.store.close()


def test_logs_outlive_the_folder_of_the_agent(stage: Stage) -> None:
    """An executor's log is readable byte by byte after its VM has gone."""
    run = stage.sandbox()
    (run / "stdout").write_text("all is well\n")
    (run / "stderr").write_text("")
    task = stage.end()
    shutil.rmtree(stage.agents)
    assert stage.read(task) == LogChunk("all is well\n", 12, True, "kept", "")
    assert stage.read(task, 4) == LogChunk("is well\n", 12, True, "kept", "")
    assert stage.read(task, stream="stderr") == LogChunk("", 0, True, "kept", "")


def test_of_a_long_log_the_end_is_kept(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """The end of a long log is archived: offsets are those of the whole log, and a note names lost bytes.

    While the sandbox exists, the whole log is read.
    """
    monkeypatch.setattr(log_archive, "_MOST", 10)
    run = stage.sandbox()
    (run / "stdout").write_text("0123456789" * 3)
    (run / "stderr").write_text("")
    task = stage.end()
    assert stage.read(task) == LogChunk("0123456789" * 3, 30, True, "sandbox", "")
    shutil.rmtree(stage.agents)
    gone = "the first 20 bytes are gone: the last 10 were stored"
    assert stage.read(task) == LogChunk("0123456789", 30, True, "kept", gone)
    assert stage.read(task, 25) == LogChunk("56789", 30, True, "kept", "")


def test_a_vm_that_goes_takes_a_minute_of_logs(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """The output of a lost VM's tasks is there up to the last refresh; a note reports the lost rest."""
    monkeypatch.setattr(log_archive, "_MOST", 10)
    run, task = stage.sandbox(), stage.tasks[EXECUTOR]
    assert not stage.keeper.due()
    for text in ("first\n", "first\nsecond\n", "first\nsecond\nthird\n"):
        (run / "stdout").write_text(text)
        (run / "stderr").write_text("")
        stage.keeper.refresh([task])
        stage.rest()
        assert stage.read(task) == LogChunk(text, len(text), False, "sandbox", "")
    shutil.rmtree(stage.agents)
    task.state, task.ended_at = "lost", 3.0
    stage.keeper.ended([task])
    stage.rest()
    chunk = stage.read(task)
    assert (chunk.text, chunk.source) == ("ond\nthird\n", "kept")
    assert chunk.note == (
        "the first 9 bytes are gone: the last 10 were stored; "
        "the text after the last read is lost: job-1.0 has no sandbox"
    )
    names = sorted(path.name for path in stage.kept._folder("job-1", EXECUTOR).iterdir())
    assert names == ["stderr.0", "stdout.9", "why"]
    monkeypatch.setattr(log_collector, "_REFRESH", 0.0)
    stage.keeper.refresh([])
    assert stage.keeper.due()


def test_tasks_that_run_are_looked_at_in_turn(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """So many at a time, however many run."""
    looked: list[str] = []
    monkeypatch.setattr(log_collector, "_AT_A_TIME", 1)
    monkeypatch.setattr(stage.keeper, "_keep", lambda task: looked.append(task.task_id))
    for _ in range(3):
        stage.keeper.refresh(list(stage.tasks.values()))
        stage.rest()
    assert looked == [EXECUTOR, DRIVER, EXECUTOR]


def test_it_is_said_why_nothing_is_there(stage: Stage) -> None:
    """A log that went with its VM is not silently empty; one that has not begun says that."""
    task = stage.tasks[EXECUTOR]
    assert stage.read(task) == LogChunk("", 0, False, "", "it has printed nothing yet")
    stage.end()
    chunk = stage.read(task)
    assert (chunk.complete, chunk.source) == (True, "")
    assert chunk.note == "none of it was stored when it ended: job-1.0 has no sandbox"


def test_what_a_job_put_in_place_of_its_log_is_not_kept(stage: Stage) -> None:
    """A link is not followed, a pipe not waited for; nor does a log without end fill the disk."""
    run = stage.sandbox()
    (run / "stdout").symlink_to("/etc/passwd")
    os.mkfifo(run / "stderr")
    task = stage.end()
    folder = stage.kept._folder("job-1", EXECUTOR)
    assert [path.name for path in folder.iterdir()] == ["why"]
    assert "is a link" in stage.kept.why("job-1", EXECUTOR)
    with pytest.raises(RejectedError, match="the job put it there"):
        stage.read(task)
    for stream in ("stdout", "stderr"):
        (run / stream).unlink()
        with (run / stream).open("wb") as file:
            file.truncate(1 << 40)
    stage.keeper.ended([task])
    until(lambda: stage.kept.find("job-1", EXECUTOR, "stderr"))
    sizes = [path.stat().st_size for path in folder.iterdir() if path.name != "why"]
    assert sizes == [log_archive._MOST] * 2


def test_the_event_log_of_a_driver_is_kept(stage: Stage) -> None:
    """A driver's event log is archived: a folder with Spark 4; non-files in it are skipped."""
    run = stage.sandbox(DRIVER)
    for name in ("stdout", "stderr"):
        (run / name).write_text("")
    (run / "events/eventlog_v2_app-1").mkdir(parents=True)
    (run / "events/eventlog_v2_app-1/events_1_app-1").write_text("{}\n" * 10)
    (run / "events/link").symlink_to("/etc/passwd")
    stage.end(DRIVER)
    events = stage.kept._folder("job-1", DRIVER) / "events"
    assert [str(path.relative_to(events)) for path in events.rglob("*") if path.is_file()] == [
        "eventlog_v2_app-1/events_1_app-1"
    ]
    assert (events / "eventlog_v2_app-1/events_1_app-1").read_text() == "{}\n" * 10


def test_an_event_log_without_end_is_cut(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """And is called unfinished then, as Spark calls one that may end in the middle of a line."""
    monkeypatch.setattr(log_archive, "_EVENTS", 10)
    run = stage.sandbox(DRIVER)
    for name in ("stdout", "stderr"):
        (run / name).write_text("")
    (run / "events").mkdir()
    (run / "events/app-1").write_text("{}\n" * 10)
    stage.end(DRIVER)
    kept = stage.kept._folder("job-1", DRIVER) / "events/app-1.inprogress"
    assert kept.read_text() == ("{}\n" * 10)[:10]


def test_the_more_executors_the_less_of_each_is_kept(stage: Stage) -> None:
    """A job of ten thousand does not fill the disk."""
    run = stage.sandbox()
    for name in ("stdout", "stderr"):
        (run / name).write_text("x" * (1 << 18))
    sandbox = stage.link.sandbox(stage.tasks[EXECUTOR])
    stage.kept.keep("job-1", EXECUTOR, sandbox, executors=4096, events=False)
    kept = stage.kept.find("job-1", EXECUTOR, "stdout")
    assert kept is not None
    assert kept.end - kept.first == 1 << 13


def test_of_executors_without_end_the_last_are_kept(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """A driver that gives back one after the other does not fill the disk; its own logs stay."""
    monkeypatch.setattr(log_archive, "_EXECUTORS", 5)
    monkeypatch.setattr(log_archive, "_LOOKS", 1)
    stage.store.changes.save(Changes((replace(stage.job, next_executor=12),), ()))
    tasks = [stage.tasks[DRIVER]]
    tasks += [
        replace(stage.tasks[EXECUTOR], task_id=f"job-1.{n}", number=n, state="killed") for n in range(12)
    ]
    for task in tasks:
        for name in ("stdout", "stderr"):
            (stage.sandbox(task.task_id) / name).write_text("x" * (1 << 18))
        stage.keeper.ended([task])
        stage.rest()
    kept = [stage.kept.find("job-1", task_id, "stdout") for task_id in (DRIVER, "job-1.11")]
    assert [None if each is None else each.end - each.first for each in kept] == [1 << 18, 1 << 18]
    there = [number for number in range(12) if stage.kept.find("job-1", f"job-1.{number}", "stdout")]
    assert there == [7, 8, 9, 10, 11]


def test_a_driver_on_the_cluster_that_failed_says_why(stage: Stage) -> None:
    """Its end is passed on with its last error, without secrets; told twice, it is passed on once."""
    run = stage.sandbox(DRIVER)
    (run / "stdout").write_text("Traceback (most recent call last):\nValueError: no account 4711\n")
    (run / "stderr").write_text("")
    stage.fail()
    stage.fail()
    until(lambda: stage.events)
    stage.rest()
    (event,) = stage.events
    assert isinstance(event, ev.TaskChanged)
    assert event.message == "Command exited with status 1: ValueError: no account ***"


def test_an_executor_that_failed_says_why(stage: Stage) -> None:
    """By its own error, read as a driver's and without secrets; what its code means stands before it."""
    run = stage.sandbox()
    (run / "stdout").write_text("")
    (run / "stderr").write_text(
        "Executor 0 joins app-1.\n26/01/02 03:04:05 ERROR SparkUncaughtExceptionHandler: Uncaught exception\n"
        "java.lang.OutOfMemoryError: Java heap space, 4711\n\tat org.example.Main$.main(Main.scala:3)\n"
    )
    said = "Command exited with status 52"
    stage.keeper.take(ev.TaskChanged(5.0, EXECUTOR, "failed", "S1", "", said, exit_code=52))
    until(lambda: stage.events)
    (event,) = stage.events
    assert isinstance(event, ev.TaskChanged)
    means = "Spark's code for OutOfMemoryError: the heap is too small"
    assert event.message == f"{said} ({means}): java.lang.OutOfMemoryError: Java heap space, ***"


def test_of_a_job_that_is_over_no_output_is_read(stage: Stage) -> None:
    """Its executors fail in hundreds since their driver is gone."""
    for stream in ("stdout", "stderr"):
        (stage.sandbox() / stream).write_text("Error: the driver is gone\n")
    stage.store.changes.save(Changes((replace(stage.job, state="failed"),), ()))
    stage.keeper.take(ev.TaskChanged(5.0, EXECUTOR, "failed", "S1", "", "Command exited with status 1"))
    until(lambda: stage.events)
    (event,) = stage.events
    assert isinstance(event, ev.TaskChanged)
    assert event.message == "Command exited with status 1"


def test_other_ends_are_passed_on_at_once(stage: Stage) -> None:
    """An executor that was killed, and a driver that finished."""
    ends = [ev.TaskChanged(5.0, EXECUTOR, "killed", "S1"), ev.TaskChanged(5.0, DRIVER, "finished", "S1")]
    for event in ends:
        stage.keeper.take(event)
    assert stage.events == ends


def test_an_agent_that_does_not_answer_holds_up_no_end(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a few seconds the driver's end is passed on without its last error."""
    hang = threading.Event()
    monkeypatch.setattr(stage.keeper, "_why", lambda _: str(hang.wait(300.0)))
    monkeypatch.setattr(log_collector, "_HELD", 0.1)
    stage.fail()
    stage.keeper.tend()
    assert not stage.events

    def told() -> bool:
        stage.keeper.tend()
        return bool(stage.events)

    until(told)
    hang.set()
    stage.rest()
    (event,) = stage.events
    assert isinstance(event, ev.TaskChanged)
    assert event.message == "Command exited with status 1"


@pytest.mark.parametrize(
    ("client", "driver_on", "note"),
    [
        ("laptop", "", "its driver is its user's own, on laptop, and prints there"),
        ("", "0123@elsewhere", "its driver ran on elsewhere, and its log is there"),
        ("", "", "its driver has not been started yet"),
    ],
)
def test_it_is_said_where_a_driver_prints(stage: Stage, client: str, driver_on: str, note: str) -> None:
    """One that is not on the cluster, and has no log here."""
    record = JobRecord(replace(make_job("job-7"), client_driver=client), driver_on=driver_on)
    assert stage.logs.read(record, None, "stdout", 0, 100) == LogChunk("", 0, False, "", note)


def test_nobody_knows_a_task_of_an_unknown_framework(stage: Stage) -> None:
    """Its log is not there, which is said and is no mistake of the daemon."""
    stage.link.framework_id = None
    assert stage.read(stage.tasks[EXECUTOR]).note == "it has printed nothing yet"
    record: JobRecord = stage.job
    assert stage.logs.read(record, None, "stdout", 0, 100).note == "it has printed nothing yet"
