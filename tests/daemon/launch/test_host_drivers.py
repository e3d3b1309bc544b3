"""Drivers on the daemon's host: jobs cannot stop one another, and the host's faults are not charged."""

import math
import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from conf.schema import Config, Driver, JobSpec
from conf.util.backoff import Backoff
from daemon.core.job_workers import JobWorkers
from daemon.disk import launch_records
from daemon.disk.launch_records import LaunchRecords, RecordsError
from daemon.launch import host_drivers as drivers_module
from daemon.launch.application_records import launched_key
from daemon.launch.host_drivers import HostDrivers
from daemon.launch.launcher import Launcher
from daemon.store.job_store import Store
from daemon.store.rows.database import StoreError
from environment.model.messages import events as ev
from environment.model.messages.records import ExecutorRecord, JobRecord
from environment.resources import Resources
from environment.types import Job
from framework.host.untrusted_files import read_tail
from framework.spark import (
    DriverPlace,
    DriverStatus,
    HostError,
    ProcessSpec,
    TooLateError,
    command_lines,
    driver_status,
    start_driver,
    ui_key,
)
from framework.spark.driver.supervisor import EXIT_CODE_FILE, PROCESS_FILE
from tests.builders import make_job
from tests.waiting import PATIENCE, until


class ShellLauncher(Launcher):
    """Its drivers are shell scripts, by job; the rest is as it is."""

    def __init__(self, folder: Path) -> None:
        super().__init__(Config(data_dir=str(folder)), folder, "127.0.0.1")
        self.scripts: dict[str, str] = {}

    def launch(self, job_id: str, script: str) -> tuple[int, int, int]:
        """As if its executors were launched; its ports."""
        self.scripts[job_id] = script
        return self._launches.of(job_id).ports


class Stage:
    """Drivers, and the events that came of them."""

    def __init__(self, folder: Path, store: Store) -> None:
        self.folder = folder
        self.store = store
        self.events: list[ev.Event] = []
        self.launcher = ShellLauncher(folder)
        self.retries_left = 0
        self.drivers = HostDrivers(
            self.launcher,
            store,
            self.events.append,
            lambda _: (),
            retries_left=lambda *_: self.retries_left,
            requeue=False,
        )

    def start(self, script: str) -> Job:
        """A driver that runs this script."""
        spec = JobSpec(app="/apps/a.py")
        record, _ = self.store.jobs.new.add_one(spec, lambda job_id: make_job(job_id), None, 100.0)
        self.launcher.launch(record.job.id, script)
        self.drivers.start(record.job)
        return record.job

    def of(self, job: Job, kind: type[ev.Event]) -> list[ev.Event]:
        """The events of a kind about a job."""
        return [
            event for event in self.events if type(event) is kind and getattr(event, "job_id", "") == job.id
        ]

    def started(self, job: Job) -> Path:
        """Wait until its driver runs; its records."""
        until(lambda: self.of(job, ev.DriverStarted))
        return self.folder / "records" / job.id / "driver"

    def end_of(self, job: Job) -> ev.DriverEnded:
        """Wait for its driver's end."""

        def ended() -> bool:
            self.drivers.tend()
            return bool(self.of(job, ev.DriverEnded))

        until(ended)
        (event,) = self.of(job, ev.DriverEnded)
        assert isinstance(event, ev.DriverEnded)
        return event


@pytest.fixture
def stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stage]:
    """Drivers that are shell processes, ended afterwards."""
    store = Store(f"sqlite:///{tmp_path / 'stoker.db'}")
    stage = Stage(tmp_path, store)

    def process(name: str, *_: object, **__: object) -> ProcessSpec:
        script = next(reversed(stage.launcher.scripts.values()))
        return ProcessSpec(("bash", "-c", script), {}, {})

    monkeypatch.setattr("daemon.launch.launcher.driver_process", process)
    yield stage
    for records in (tmp_path / "records").glob("*/driver*"):
        for pid in supervisors_of(records):
            os.kill(pid, signal.SIGTERM)
    stage.drivers.close()
    store.close()


def supervisors_of(records: Path) -> list[int]:
    """The supervisors at work there."""
    from framework.spark.driver.driver import _supervisors

    return list(_supervisors(records))


@pytest.mark.parametrize("name", [PROCESS_FILE, EXIT_CODE_FILE])
@pytest.mark.parametrize("nonsense", ["ok", "[]", "fifo"])
def test_nonsense_in_records_fails_that_job_alone(stage: Stage, name: str, nonsense: str) -> None:
    """With a reason; its driver is ended, and another job's goes on to its end."""
    bad, good = stage.start("sleep 1000"), None
    records = stage.started(bad)
    good = stage.start("until [ -e go ]; do sleep 0.02; done; exit 5")
    stage.started(good)
    (records / name).unlink(missing_ok=True)
    if nonsense == "fifo":
        os.mkfifo(records / name)
    else:
        (records / name).write_text(nonsense)
    end = stage.end_of(bad)
    assert end.exit_code is None
    assert not end.requeue
    assert name in end.message
    until(lambda: not supervisors_of(records))
    (stage.folder / "jobs" / good.id / "driver" / "go").touch()
    assert stage.end_of(good).exit_code == 5


@pytest.mark.parametrize("name", [PROCESS_FILE, "../launch.json"])
def test_a_job_whose_records_are_nonsense_is_taken_up_and_fails_alone(stage: Stage, name: str) -> None:
    """A daemon with a nonsense record starts, resumes the other jobs and can end the bad job's processes."""
    bad = stage.start("sleep 1000")
    records = stage.started(bad)
    good = stage.start("until [ -e go ]; do sleep 0.02; done; exit 5")
    stage.started(good)
    (records / name).unlink()
    os.mkfifo(records / name)
    kept = [JobRecord(job, "running", "", 100.0, 101.0) for job in (bad, good)]
    later = HostDrivers(stage.launcher, stage.store, stage.events.append, lambda _: (), requeue=False)
    stage.drivers.close()
    stage.drivers = later
    stage.events.clear()
    later.take_up(kept)
    if name == PROCESS_FILE:
        assert PROCESS_FILE in stage.end_of(bad).message
    else:
        later.stop(bad.id)  # its driver is found by its own records
        assert stage.end_of(bad).exit_code == 128 + signal.SIGTERM
    until(lambda: not supervisors_of(records))
    (stage.folder / "jobs" / good.id / "driver" / "go").touch()
    assert stage.end_of(good).exit_code == 5


def test_records_that_vanish_fail_the_job(stage: Stage) -> None:
    """The driver is not said to have finished, and does not run on."""
    job = stage.start("sleep 1000")
    records = stage.started(job)
    (records / PROCESS_FILE).unlink()
    assert "records vanished" in stage.end_of(job).message
    until(lambda: not supervisors_of(records))


@pytest.mark.parametrize(
    ("script", "why"),
    [
        ("echo 'ValueError: no rows' >&2; exit 3", "its driver exited with code 3: ValueError: no rows"),
        (
            "echo Traceback '(most recent call last):'; echo 'KeyError: 1'; exit 1",
            "its driver exited with code 1: KeyError: 1",
        ),
        ("echo key=SECRET SECRET >&2; exit 1", "its driver exited with code 1; it printed last: key=*** ***"),
        ("exit 3", "its driver exited with code 3"),
        (
            "echo my program >&2; kill -9 $$",
            "its driver exited with code 137 (SIGKILL: usually sent by the kernel when memory is short, "
            "as dmesg says, by a limit of its container, or by kill -9)",
        ),
        ("rm stderr; ln -s ../../../stoker.db stderr; exit 3", "its driver exited with code 3"),
        ("rm stderr; mkfifo stderr; exit 3", "its driver exited with code 3"),
        ("rm stderr; truncate -s 1T stderr; exit 3", "its driver exited with code 3"),
        ("exit 0", ""),
    ],
)
def test_a_failed_driver_says_why(stage: Stage, script: str, why: str) -> None:
    """A failed driver's reason has the last error that it printed, even if its log was replaced."""
    own = '$(grep -oP \'(?<="secret": ")[^"]+\' ../../../records/job-1/launch.json)'
    event = stage.end_of(stage.start(script.replace("SECRET", own)))
    assert event.message == why


def test_a_reason_has_none_of_the_launchs_keys(stage: Stage) -> None:
    """Neither its secret, nor the key of its UI, nor the one that speaks for the job: others read it."""
    job = stage.start("sleep 60")
    stage.started(job)
    launch = stage.launcher.applications.launch(job.id)
    assert launch is not None
    printed = f"Error: {launch.secret} {ui_key(launch.secret)} {launched_key(job.id, launch)}"
    assert stage.launcher.failure_in(job.id, None, printed.encode(), b"") == ": Error: *** *** ***"
    stage.drivers.stop(job.id)


def test_a_driver_that_is_to_be_started_again_leaves_no_launch(stage: Stage) -> None:
    """A driver to be retried leaves its logs and no launch; after the last retry the launch stays."""
    stage.retries_left = 1
    job = stage.start("echo first; exit 3")
    event = stage.end_of(job)
    assert (event.exit_code, event.cleared, event.requeue) == (3, True, False)
    assert stage.launcher.driver_status(job.id).state == "absent"
    assert (stage.folder / "jobs" / job.id / "driver.0/stdout").read_text() == "first\n"
    stage.events.clear()
    stage.retries_left = 0
    stage.launcher.launch(job.id, "echo second; exit 4")
    stage.drivers.start(job)
    event = stage.end_of(job)
    assert (event.exit_code, event.cleared) == (4, False)
    assert (stage.folder / "jobs" / job.id / "driver/stdout").read_text() == "second\n"


def test_a_driver_that_gives_way_is_put_aside_and_no_failure(stage: Stage) -> None:
    """It is ended, and the job may start here anew: its old launch is not taken for the new one."""
    job = stage.start("sleep 60")
    records = stage.started(job)
    stage.drivers.give_way(job.id)
    event = stage.end_of(job)
    assert (event.requeue, event.exit_code, event.cleared) == (True, None, False)
    assert not records.exists()


def test_a_driver_that_has_ended_by_itself_does_not_give_way(stage: Stage) -> None:
    """A driver that has ended by itself does not give way, so its work is not repeated."""
    job = stage.start("exit 0")
    until(lambda: stage.launcher.driver_status(job.id).state == "ended")
    stage.drivers.give_way(job.id)
    until(lambda: not stage.drivers._crew._busy and not stage.drivers._crew._waiting)
    event = stage.end_of(job)
    assert (event.requeue, event.exit_code) == (False, 0)


def test_a_driver_whose_end_is_seen_before_it_is_told_does_not_give_way(stage: Stage) -> None:
    """Its end is news of the job's own, though it was to be ended."""
    job = stage.start("exit 0")
    until(lambda: stage.launcher.driver_status(job.id).state == "ended")
    looked = threading.Event()

    def wait() -> None:
        looked.wait(PATIENCE)

    try:
        stage.drivers._hand(job.id, wait)
        stage.drivers.give_way(job.id)
        event = stage.end_of(job)
    finally:
        looked.set()
    assert (event.requeue, event.exit_code) == (False, 0)


def test_a_driver_that_does_well_while_it_is_told_does_not_give_way(stage: Stage) -> None:
    """A driver that succeeds between the check and its end does not give way."""
    go, stop = stage.folder / "go", stage.launcher.stop_driver
    job = stage.start(f"until [ -e {go} ]; do sleep 0.01; done")
    stage.started(job)

    def stop_late(job_id: str) -> None:
        go.touch()
        until(lambda: stage.launcher.driver_status(job_id).state == "ended")
        stop(job_id)

    stage.launcher.stop_driver = stop_late  # type: ignore[method-assign]
    stage.drivers.give_way(job.id)
    event = stage.end_of(job)
    assert (event.requeue, event.exit_code) == (False, 0)


def test_a_driver_that_did_well_is_not_started_again(stage: Stage) -> None:
    """However many retries are left."""
    stage.retries_left = 5
    event = stage.end_of(stage.start("exit 0"))
    assert (event.exit_code, event.cleared) == (0, False)


def test_what_a_job_writes_into_its_own_folder_says_nothing(stage: Stage) -> None:
    """Neither that it has ended, nor how, nor which process it is."""
    job = stage.start(
        "echo 0 > exit_code; echo '[]' > process.json; touch done\n"
        "until [ -e go ]; do sleep 0.02; done; exit 3"
    )
    stage.started(job)
    folder = stage.folder / "jobs" / job.id / "driver"
    until((folder / "done").exists)
    for _ in range(3):
        stage.drivers.tend()
        time.sleep(0.05)
    assert not stage.of(job, ev.DriverEnded)
    (folder / "go").touch()
    assert stage.end_of(job).exit_code == 3


def test_a_job_whose_start_hangs_holds_up_nobody(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """The loop goes on, others start beside it, the job is given up with a reason, and can be killed."""
    hangs, came_back, start = threading.Event(), threading.Event(), stage.launcher.start_driver

    def hanging(job: Job, *arguments: object) -> object:
        if job.id == "job-1":
            hangs.wait(4 * PATIENCE)
            came_back.set()
        return start(job, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(stage.launcher, "start_driver", hanging)
    try:
        bad = stage.start("sleep 1000")
        stage.drivers.tend()
        good = stage.start("exit 0")
        assert stage.end_of(good).exit_code == 0
        assert not came_back.is_set(), "somebody waited for it"
        with monkeypatch.context() as now:
            now.setattr(stage.drivers._crew, "_patience", 0.0)
            assert "no answer" in stage.end_of(bad).message
        stopped: list[str] = []
        monkeypatch.setattr(stage.launcher, "stop_driver", stopped.append)
        stage.drivers.stop(bad.id)
        until(lambda: bad.id in stopped)
    finally:
        hangs.set()


def test_a_host_that_cannot_start_a_driver_is_tried_again(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With growing pauses and a word about each; then the job runs as if nothing had been."""
    monkeypatch.setattr(drivers_module, "PAUSES", (0.01, 0.02, 0.03))
    start, troubles = stage.launcher.start_driver, iter(["too many open files", "no room"])

    def troubled(*arguments: object) -> object:
        if trouble := next(troubles, None):
            raise HostError(trouble)
        return start(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(stage.launcher, "start_driver", troubled)
    job = stage.start("exit 0")
    end = stage.end_of(job)
    assert (end.exit_code, end.requeue) == (0, False)
    said = [event.message for event in stage.of(job, ev.DriverDelayed) if isinstance(event, ev.DriverDelayed)]
    assert ["too many open files" in said[0], "try 2" in said[0]] == [True, True]
    assert ["no room" in said[1], "try 3" in said[1]] == [True, True]


def test_a_driver_without_its_port_is_launched_afresh(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its executors would look for it in vain elsewhere: they are launched anew, and it gets other ports."""
    monkeypatch.setattr(drivers_module, "FRESH_BACKOFF", Backoff(longest=0.05))
    ports = stage.launcher.launch("job-1", "exit 0")
    stage.launcher._launches.release("job-1")  # as when the daemon was restarted meanwhile
    with socket.create_server(("127.0.0.1", ports[1])):
        job = stage.start("exit 0")
        end = stage.end_of(job)
        # While it is taken; of ten thousand ports that are free again, any may be drawn once more.
        assert ports[1] not in stage.launcher.launch(job.id, "exit 0")
    assert end.requeue
    assert f"port {ports[1]}" in end.message
    assert "fresh start 1" in end.message
    stage.events.clear()
    stage.drivers.start(job)
    assert (stage.end_of(job).exit_code, stage.end_of(job).requeue) == (0, False)


def test_a_kill_that_this_host_cannot_do_now_is_done_later(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Too many open files at that moment do not leave the driver running."""
    job = stage.start("sleep 1000")
    stage.started(job)
    stop, troubles = stage.launcher.stop_driver, iter([OSError(24, "Too many open files")])

    def troubled(job_id: str) -> None:
        if trouble := next(troubles, None):
            raise trouble
        stop(job_id)

    monkeypatch.setattr(stage.launcher, "stop_driver", troubled)
    stage.drivers.stop(job.id)
    assert stage.end_of(job).exit_code == 128 + signal.SIGTERM


def test_output_that_cannot_be_read_holds_up_no_other_driver(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The job's user mounted a file system there that never answers."""
    answers = threading.Event()

    def read(folder: Path, name: str, limit: int) -> bytes:
        if folder.name == bad.id:
            assert answers.wait(60.0)
        return read_tail(folder, name, limit)

    monkeypatch.setattr("daemon.launch.launcher.read_tail", read)
    monkeypatch.setattr(stage.launcher.files, "_patience", 0.1)
    bad = stage.start("until [ -e go ]; do sleep 0.02; done; exit 3")
    stage.started(bad)
    good = stage.start("exit 5")
    try:
        (stage.folder / "jobs" / bad.id / "driver/go").touch()
        assert stage.end_of(bad).exit_code == 3
        assert stage.end_of(good).exit_code == 5
    finally:
        answers.set()


def test_a_secret_that_cannot_be_deleted_now_is_deleted_later(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The database was away just when the job's last task had ended."""
    forget, forgotten = stage.launcher.forget, threading.Event()
    troubles = iter([StoreError("the server closed the connection"), OSError(28, "No space left on device")])

    def troubled(job_id: str) -> None:
        if trouble := next(troubles, None):
            raise trouble
        forget(job_id)
        forgotten.set()

    monkeypatch.setattr(drivers_module, "_PAUSE", 0.01)
    monkeypatch.setattr(stage.launcher, "forget", troubled)
    job = stage.start("exit 0")
    stage.end_of(job)
    stage.drivers.over([JobRecord(job, "finished")])
    stage.drivers.forget(lambda _: None)

    def deleted() -> bool:
        stage.drivers.tend()
        return forgotten.is_set()

    until(deleted)
    assert stage.launcher._launches.kept(job.id) is None


def test_a_kill_that_has_to_wait_outlasts_other_work_that_has_to(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither the signal nor the job's secret is forgotten when both fail at first."""
    done: list[str] = []

    def troubled(name: str) -> Callable[[str], None]:
        troubles, work = iter([OSError(24, "Too many open files")]), getattr(stage.launcher, name)

        def troubled_once(job_id: str) -> None:
            if trouble := next(troubles, None):
                raise trouble
            work(job_id)
            done.append(name)

        return troubled_once

    for name in ("stop_driver", "forget"):
        monkeypatch.setattr(stage.launcher, name, troubled(name))
    job = stage.start("sleep 1000")
    stage.started(job)
    stage.drivers.over([JobRecord(job, "killed")])
    stage.drivers.stop(job.id)
    stage.drivers.forget(lambda _: None)
    assert stage.end_of(job).exit_code == 128 + signal.SIGTERM

    def both() -> bool:
        stage.drivers.tend()
        return {*done} == {"stop_driver", "forget"}

    until(both)


BIND = (
    "26/11/22 ERROR SparkContext: Error initializing SparkContext.\n"
    "java.net.BindException: Address already in use: Service 'sparkDriver' failed after 0 retries "
    "(starting from 10001)!\n"
)


def test_sparks_own_word_for_a_port_that_is_taken_is_understood(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A driver that could not listen is no failure of the job: so often, and then it is told."""
    monkeypatch.setattr(drivers_module, "FRESH_BACKOFF", Backoff(longest=0.01))
    monkeypatch.setattr(drivers_module, "FRESH_STARTS", 2)
    for attempt in range(3):
        stage.events.clear()
        if attempt == 0:
            job = stage.start(f"cat >&2 <<E\n{BIND}E\nexit 1")
        else:
            stage.launcher.launch(job.id, stage.launcher.scripts[job.id])
            stage.drivers.start(job)
        end = stage.end_of(job)
        assert end.requeue == (attempt < 2)
        assert "sparkDriver" in end.message
    assert "failed its driver 3 times" in end.message


def test_a_launch_that_was_given_up_is_not_started_with_other_ports(stage: Stage) -> None:
    """A daemon that died while it gave a launch up: the executors still wait where no driver will be."""
    job = stage.start("exit 0")
    assert stage.end_of(job).exit_code == 0
    stage.launcher.abandon(job.id, afresh=True)
    stage.events.clear()
    stage.drivers.start(job)
    assert stage.end_of(job).requeue


@pytest.mark.parametrize(
    "nonsense",
    ["", "[]", "{}", '{"secret": "s", "ports": [1, 2]}', '{"secret": "s", "ports": "123"}', "[" * 3000],
)
def test_nonsense_in_a_launch_is_told(tmp_path: Path, nonsense: str) -> None:
    """It fails the job that it belongs to."""
    launches = LaunchRecords(tmp_path, "127.0.0.1")
    launches.of("job-1")
    launches.release("job-1")
    (tmp_path / "records/job-1/launch.json").write_text(nonsense)
    with pytest.raises(RecordsError):
        launches.of("job-1")


def test_a_job_that_takes_all_ports_does_not_hold_up_the_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A thousand are tried now and then, and not for each launch; a driver elsewhere needs none."""
    tries = list[int]()
    monkeypatch.setattr(launch_records, "_hold", lambda _, port: tries.append(port))
    launches = LaunchRecords(tmp_path, "127.0.0.1")
    for number in range(3):
        with pytest.raises(ValueError, match="no free ports for a driver"):
            launches.of(f"job-{number}")
    assert len(tries) == launch_records._TRIED
    assert launches.of("job-3", elsewhere=True).ports == (0, 0, 0)
    assert launches.kept("job-3") == launches.of("job-3")


def test_what_is_written_of_jobs_is_for_the_daemon_alone(tmp_path: Path) -> None:
    """No other user may look into the folder; nothing of it lies in a job's own."""
    launches = LaunchRecords(tmp_path, "127.0.0.1")
    launches.of("job-1")
    launches.release("job-1")
    assert (tmp_path / "records").stat().st_mode & 0o777 == 0o700
    assert not (tmp_path / "jobs").exists()


def test_a_driver_of_an_earlier_version_is_found_again(stage: Stage, tmp_path: Path) -> None:
    """Its supervisor writes into the job's folder, where an upgrade finds it; its launch is moved."""
    folder = tmp_path / "old/jobs/job-1"
    place = DriverPlace(folder / "driver", folder / "driver")
    start_driver(
        ProcessSpec(("bash", "-c", "until [ -e go ]; do sleep 0.02; done; exit 4"), {}, {}), place, os.environ
    )
    (folder / "launch.json").write_text('{"secret": "s", "ports": [1, 2, 3]}')
    launches = LaunchRecords(tmp_path / "old", "127.0.0.1")
    assert launches.all() == ["job-1"]
    assert not (folder / "launch.json").exists()
    kept = launches.kept("job-1")
    assert kept is not None
    assert (kept.secret, kept.ports) == ("s", (1, 2, 3))
    for again in (launches, LaunchRecords(tmp_path / "old", "127.0.0.1")):
        assert driver_status(again.records("job-1")).state == "running"
    (folder / "driver/go").touch()
    until(lambda: driver_status(launches.records("job-1")).exit_code == 4)


def test_work_is_done_in_order_for_each_key_and_beside_others() -> None:
    """Work is done in order for each key, with any number of threads; an exception stops no other work."""
    crew, done, lock = JobWorkers(4, 60.0), list[tuple[int, int]](), threading.Lock()

    def work(key: int, number: int) -> None:
        with lock:
            done.append((key, number))
        if number == 1:
            raise RuntimeError("not every work goes well")

    for number in range(20):
        for key in range(10):
            crew.hand(str(key), lambda key=key, number=number: work(key, number))  # type: ignore[misc]
    until(lambda: len(done) == 200)
    crew.close(5.0)
    for key in range(10):
        assert [number for one, number in done if one == key] == list(range(20))


def test_threads_that_hang_are_replaced() -> None:
    """More work hangs than there are threads; later work is done, also for the same keys."""
    crew, hangs, done = JobWorkers(2, 0.05), threading.Event(), threading.Event()

    def hang() -> None:
        hangs.wait(PATIENCE)

    for key in "abcd":
        crew.hand(key, hang)
    late: list[str] = []

    def all_late() -> bool:
        late.extend(crew.overdue())
        return len(late) == 4

    until(all_late)
    crew.hand("a", done.set)
    until(done.is_set)
    hangs.set()
    crew.close(5.0)
    assert sorted(late) == ["a", "b", "c", "d"]


def test_nothing_is_done_to_a_driver_before_it_is_certain_who_leads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Work on drivers waits until this daemon leads, and is never done if it does not."""
    store = Store(f"sqlite:///{tmp_path / 'stoker.db'}")
    launcher, asked, allowed = ShellLauncher(tmp_path), threading.Event(), threading.Event()
    done: list[str] = []
    monkeypatch.setattr(launcher, "stop_driver", done.append)

    def holds_until() -> float:
        asked.set()
        return math.inf if allowed.is_set() else 0.0

    def drivers() -> HostDrivers:
        return HostDrivers(launcher, store, lambda _: None, lambda _: (), holds_until, requeue=False)

    deposed, leading = drivers(), drivers()
    deposed.stop("job-1")
    assert asked.wait(PATIENCE)
    deposed.close()
    leading.stop("job-2")
    allowed.set()
    until(lambda: done)
    assert done == ["job-2"]
    leading.close()
    store.close()


@pytest.mark.parametrize("blocked", ["spark.properties", "tmp", "stoker-ui", "events"])
def test_a_driver_that_finds_its_disk_full_is_launched_afresh(stage: Stage, blocked: str) -> None:
    """A failed write before Spark begins is the host's fault; the same exit code from the program is not."""
    script = (Path(command_lines.__file__).with_name("driver.sh")).read_text()
    nothing = "export SPARK_HOME=/nowhere JAVA_HOME=/nowhere STOKER_SPARK_PROPERTIES=x STOKER_UI_FILTER=y; "
    full = {
        "spark.properties": "ulimit -f 0; trap '' XFSZ; ",
        "tmp": "mkdir() { [[ $2 != tmp ]]; }; ",
        "stoker-ui": "printf() { [[ $1 != y ]] && builtin printf $*; }; ",
        "events": "mkdir() { [[ $2 != events ]] && command mkdir $*; }; ",
    }[blocked]
    end = stage.end_of(stage.start(nothing + full + script))
    assert (end.requeue, end.exit_code) == (True, None)
    assert "the disk may be full" in end.message
    end = stage.end_of(stage.start("mkdir events; exit 74"))
    assert (end.requeue, end.exit_code) == (False, 74)


def test_a_driver_is_to_be_started_while_its_daemon_leads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Until when that is, is asked at the last moment: a daemon that stands still would be late for it."""
    store, launcher = Store(f"sqlite:///{tmp_path / 'stoker.db'}"), ShellLauncher(tmp_path)
    told: list[object] = []

    def start_driver(*arguments: Any) -> DriverStatus:
        told.append(arguments[-1]())
        return DriverStatus("running")

    monkeypatch.setattr(launcher, "start_driver", start_driver)
    drivers = HostDrivers(launcher, store, lambda _: None, lambda _: (), lambda: 1e9, requeue=False)
    record, _ = store.jobs.new.add_one(
        JobSpec(app="/apps/a.py"), lambda job_id: make_job(job_id), None, 100.0
    )
    drivers.start(record.job)
    until(lambda: told)
    assert told == [1e9]
    drivers.close()
    store.close()


def test_a_start_that_is_too_late_is_no_try(
    tmp_path: Path, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However often the lease was about to end: the driver is started, and its executors are not given up."""
    launcher, events, times = ShellLauncher(tmp_path), list[ev.Event](), 3 * len(drivers_module.PAUSES)
    starts: list[int] = []

    def start_driver(*_: Any) -> DriverStatus:
        starts.append(1)
        if len(starts) < times:
            raise TooLateError("it is too late to start it")
        return DriverStatus("running")

    monkeypatch.setattr(launcher, "start_driver", start_driver)
    drivers = HostDrivers(launcher, store, events.append, lambda _: (), requeue=False)
    record, _ = store.jobs.new.add_one(
        JobSpec(app="/apps/a.py"), lambda job_id: make_job(job_id), None, 100.0
    )
    drivers.start(record.job)
    until(lambda: len(starts) == times)
    until(lambda: any(isinstance(event, ev.DriverStarted) for event in events))
    assert {type(event) for event in events} == {ev.DriverStarted, ev.DriverDelayed}
    drivers.close()


def test_what_waits_for_the_lease_is_not_given_up(
    tmp_path: Path, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A database that is away for minutes costs no job its driver."""
    monkeypatch.setattr(drivers_module, "PATIENCE", 0.5)
    launcher, events, asked = ShellLauncher(tmp_path), list[ev.Event](), list[int]()

    def holds_until() -> float:
        asked.append(1)
        return 0.0

    drivers = HostDrivers(launcher, store, events.append, lambda _: (), holds_until, requeue=False)
    record, _ = store.jobs.new.add_one(
        JobSpec(app="/apps/a.py"), lambda job_id: make_job(job_id), None, 100.0
    )
    drivers.start(record.job)
    until(lambda: len(asked) > 10)  # a tenth of a second each
    drivers.tend()
    assert not events
    drivers.close()


def test_ports_are_kept_for_drivers_on_this_host_alone(tmp_path: Path) -> None:
    """Ports are reserved for drivers on this host only; a driver on the cluster listens on its VM's ports.

    A job's reserved ports are released with its launch.
    """
    launcher = Launcher(Config(data_dir=str(tmp_path)), tmp_path, "127.0.0.1")
    job = make_job(executors=1)
    task = ExecutorRecord(
        "job-1.0",
        "job-1",
        0,
        "S1",
        "vm-1",
        "m1.large",
        "127.0.0.1",
        0.24,
        Resources.of(1.0, 1024),
        (20_001,),
        100.0,
    )
    driver = replace(task, task_id="job-1.driver", number=None, ports=(20_002, 20_003, 20_004))
    on_host, on_cluster = JobSpec(app="/a.py"), JobSpec(app="/a.py", driver=Driver(on="cluster"))
    process, _ = launcher.describe(task, job, on_host, [task])
    ports = launcher._launches.of("job-1").ports
    assert str(ports[0]) in process.argv
    with pytest.raises(OSError, match="in use"):
        _bind(ports[0])
    launcher.forget("job-1")
    _bind(ports[0])
    launcher.describe(task, job, on_cluster, [task, driver])
    _bind(launcher._launches.of("job-1").ports[0])


def _bind(port: int) -> None:
    """Bind a port without sharing it."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", port))
