"""The scheduling loop's start and end: resumed, skipped and stored work."""

import contextlib
import json
import os
import sqlite3
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from conf.schema import Config, EventLogSection, JobSpec
from daemon.core.errors import RejectedError
from daemon.core.event_queue import Item
from daemon.launch.host_drivers import HostDrivers
from daemon.launch.launcher import Launcher
from daemon.scheduler.build import service_of
from daemon.scheduler.foundation import TermInputs
from daemon.scheduler.service import Service
from daemon.scheduler.timers import CHARGED_AT_ONCE
from daemon.store.job_store import Store
from daemon.store.model_changes import ModelChanges
from daemon.store.queries.stored_jobs import StoredJobs
from daemon.store.rows.bill import AskedBill
from daemon.store.rows.database import DeposedError, StoreError
from environment.model.cluster_model import Changes, ClusterModel
from environment.model.event_log import replay
from environment.model.messages import events as ev
from environment.model.messages.records import ExecutorRecord, JobRecord
from environment.types import Dynamic, Job
from framework.embedded import AgentSpec
from framework.host.process_tree import identity
from framework.mesos.master_link import MasterLink
from framework.mesos.session import SessionOptions
from framework.spark import DriverPlace, ProcessSpec, driver_status, start_driver
from framework.spark.driver.supervisor import PROCESS_FILE
from tests.benchmarks.daemon_of_commands import CommandLauncher
from tests.builders import make_job, make_vms
from tests.daemon.ports import free_port
from tests.framework.embedded.running import running as running_mesos
from tests.waiting import PATIENCE


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """An empty store."""
    store = Store(f"sqlite:///{tmp_path / 'stoker.db'}")
    yield store
    store.close()


def make_service(store: Store, tmp_path: Path) -> Service:
    """A service with an unresponsive master."""
    config = Config(data_dir=str(tmp_path))
    connect = partial(MasterLink, SessionOptions(master=f"127.0.0.1:{free_port()}"))
    return service_of(
        TermInputs(config, store, Launcher(config, tmp_path, "127.0.0.1"), connect, data_dir=tmp_path)
    )


def known(store: Store, job_id: str) -> JobRecord:
    """A job that is in the store."""
    record = store.jobs.get(job_id)
    assert record is not None
    return record


@contextmanager
def running(service: Service) -> Iterator[None]:
    """Let the loop run."""
    loop = threading.Thread(target=service.run)
    loop.start()
    try:
        yield
    finally:
        service.stop()
        loop.join()


def keep(store: Store, state: str) -> JobRecord:
    """Store a job with executors that ran, now in this state; return its record."""
    spec = JobSpec(app="/apps/a.py")
    record, _ = store.jobs.new.add_one(spec, lambda job_id: make_job(job_id), None, 100.0)
    record = replace(record, state=state, started_at=110.0, next_executor=1)  # type: ignore[arg-type]  # any text
    store.changes.save(Changes((record,), ()))
    return record


def drive(tmp_path: Path, job_id: str) -> Path:
    """A driver of the job as an earlier daemon left it: its records."""
    folder = tmp_path / "jobs" / job_id
    spec = ProcessSpec(("sleep", "600"), {}, {})
    records = tmp_path / "records" / job_id
    start_driver(spec, DriverPlace(folder / "driver", records / "driver"), os.environ, grace_seconds=1.0)
    (records / "launch.json").write_text('{"secret": "s", "ports": [1, 2, 3]}')
    return records


def eventually_ends(folder: Path) -> None:
    """Wait for the driver's end."""
    deadline = time.monotonic() + PATIENCE
    while driver_status(folder / "driver").state == "running":
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_a_driver_whose_kill_was_lost_with_the_daemon_is_ended(store: Store, tmp_path: Path) -> None:
    """The job was killed on disk, but the daemon died before it told the driver: the next one does."""
    folder = drive(tmp_path, keep(store, "killed").job.id)
    with running(make_service(store, tmp_path)):
        eventually_ends(folder)
    assert not (folder / "launch.json").exists()


def test_a_driver_of_a_job_that_goes_on_is_found_again(store: Store, tmp_path: Path) -> None:
    """It is not started a second time, and its end is the job's."""
    record = keep(store, "running")
    folder = drive(tmp_path, record.job.id)
    before = (folder / "driver" / PROCESS_FILE).read_text()
    with running(make_service(store, tmp_path)):
        os.kill(json.loads(before)["driver"]["pid"], 15)
        deadline = time.monotonic() + PATIENCE
        while (job := store.jobs.get(record.job.id)) and not job.ended:
            assert time.monotonic() < deadline
            time.sleep(0.02)
    assert (folder / "driver" / PROCESS_FILE).read_text() == before
    assert job is not None
    assert (job.state, job.exit_code) == ("failed", 143)


def test_a_job_that_was_accepted_goes_on_though_it_would_be_refused_by_now(
    store: Store, tmp_path: Path
) -> None:
    """An earlier Stoker took its name and its settings: its driver is found, and its end is the job's."""
    record = keep(store, "running")
    spec = json.loads(JobSpec(app="/apps/a.py").model_dump_json())
    spec |= {"app": "/apps/\u200ba.py", "name": "odd\u202ename", "conf": {"spark.x": "x" * 40_000}}
    with contextlib.closing(sqlite3.connect(tmp_path / "stoker.db")) as sql:
        sql.execute("UPDATE jobs SET spec = ?", (json.dumps(spec),))
        sql.commit()
    folder = drive(tmp_path, record.job.id)
    pid = json.loads((folder / "driver" / PROCESS_FILE).read_text())["driver"]["pid"]
    with running(make_service(store, tmp_path)):
        os.kill(pid, 15)
        deadline = time.monotonic() + PATIENCE
        while not (job := known(store, record.job.id)).ended:
            assert time.monotonic() < deadline
            time.sleep(0.02)
    assert (job.state, job.exit_code) == ("failed", 143)
    kept = store.jobs.spec(record.job.id)
    assert kept is not None
    assert (kept.label, len(kept.conf["spark.x"])) == ("odd\u202ename", 40_000)
    assert not store.damages.all()


def test_a_driver_that_lost_its_supervisor_is_ended_with_its_job(store: Store, tmp_path: Path) -> None:
    """Nobody could say how it ends, so the job fails; the driver does not run on."""
    record = keep(store, "running")
    folder = drive(tmp_path, record.job.id)
    processes = json.loads((folder / "driver" / PROCESS_FILE).read_text())
    with running(make_service(store, tmp_path)):
        os.kill(processes["supervisor"]["pid"], 9)
        deadline = time.monotonic() + PATIENCE
        while identity(processes["driver"]["pid"]) is not None:
            assert time.monotonic() < deadline
            time.sleep(0.02)
    job = store.jobs.get(record.job.id)
    assert job is not None
    assert (job.state, job.exit_code) == ("failed", None)
    assert "vanished" in job.reason


def test_a_job_launched_for_a_driver_elsewhere_starts_afresh(store: Store, tmp_path: Path) -> None:
    """Its executors were told of a driver on the host of an earlier leader, and would not find ours."""
    record = replace(keep(store, "placing"), started_at=None, placed_at=105.0, driver_on="abc@elsewhere")
    store.changes.save(Changes((record,), ()))
    with running(make_service(store, tmp_path)):
        deadline = time.monotonic() + PATIENCE
        while (job := store.jobs.get(record.job.id)) and job.state != "queued":
            assert time.monotonic() < deadline
            time.sleep(0.02)


def test_what_is_handled_while_the_daemon_stops_is_kept(store: Store, tmp_path: Path) -> None:
    """A batch that was taken before the word to stop is stored before anything comes of it."""
    record = keep(store, "queued")
    service = make_service(store, tmp_path)
    service._loop._restore()
    service.stop()
    service._loop._handle([Item(ev.KillRequested(time.time(), record.job.id))])
    service.run()  # to its end, at once
    job = store.jobs.get(record.job.id)
    assert job is not None
    assert job.state == "killed"


def test_a_job_whose_record_is_damaged_fails_and_the_others_go_on(store: Store, tmp_path: Path) -> None:
    """A damaged job's driver is ended, the next job resumes, and readiness names the damage."""
    damaged, other = keep(store, "running"), keep(store, "running")
    folders = [drive(tmp_path, record.job.id) for record in (damaged, other)]
    with contextlib.closing(sqlite3.connect(tmp_path / "stoker.db")) as sql:
        sql.execute("UPDATE jobs SET record = replace(record, 'running', 'runnjng') WHERE number = 1")
        sql.commit()
    service = make_service(store, tmp_path)
    with running(service):
        eventually_ends(folders[0])
        service.kill(other.job.id)
        eventually_ends(folders[1])
    failed = store.jobs.get(damaged.job.id)
    assert failed is not None
    assert failed.state == "failed"
    assert "its record in the job store was damaged" in failed.reason
    with contextlib.closing(sqlite3.connect(tmp_path / "stoker.db")) as sql:
        sql.execute("UPDATE jobs SET record = replace(record, 'failed', 'fajled') WHERE number = 1")
        sql.commit()
    assert len(store.jobs.page()) == 2
    assert "1 cannot be read (jobs job-1: " in service.health().checks["rows"]


def test_a_kill_is_kept_before_it_is_answered(store: Store, tmp_path: Path) -> None:
    """A kill is stored before it is answered, so it holds even if the daemon dies then."""
    record = keep(store, "queued")
    service = make_service(store, tmp_path)
    with running(service):
        assert service.kill(record.job.id).state == "killed"
        job = store.jobs.get(record.job.id)
        assert job is not None
        assert job.state == "killed"
        assert service.kill(record.job.id) == job


def test_a_kill_that_is_not_kept_in_time_is_not_answered_well(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While the loop is held up, the user is told to try again."""
    monkeypatch.setattr("daemon.scheduler.service.KILL_PATIENCE", 0.05)
    record = keep(store, "queued")
    service = make_service(store, tmp_path)
    with pytest.raises(RejectedError, match="try again") as refused:
        service.kill(record.job.id)
    assert refused.value.status == 503
    service.stop()
    service.run()


def test_the_framework_id_is_stored_before_anything_comes_of_it(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While the store refuses, nothing goes to the master, and the link lives; then the id is kept."""
    save, refusals = ModelChanges.save, iter([StoreError("no room")] * 2)
    commands: list[str | None] = []

    def refusing(self: ModelChanges, *arguments: Any) -> None:
        if arguments[2] and (error := next(refusals, None)):
            raise error
        save(self, *arguments)

    monkeypatch.setattr(ModelChanges, "save", refusing)
    monkeypatch.setattr(MasterLink, "execute", lambda *_: commands.append(store.facts.get("framework_id")))
    with running_mesos(tmp_path / "mesos") as mesos:
        config = Config(data_dir=str(tmp_path))
        launcher = Launcher(config, tmp_path, "127.0.0.1")
        service = service_of(
            TermInputs(
                config,
                store,
                launcher,
                partial(MasterLink, SessionOptions(mesos.address, user="root")),
                data_dir=tmp_path,
            )
        )
        with running(service):
            deadline = time.monotonic() + PATIENCE
            while not commands:
                assert time.monotonic() < deadline
                time.sleep(0.02)
            assert service._parts.substrate.subscribed
    assert next(refusals, None) is None
    assert set(commands) == {store.facts.get("framework_id")}
    again: Any = make_service(store, tmp_path)._parts.substrate
    assert again.framework_id == store.facts.get("framework_id") is not None


def test_a_driver_is_started_when_the_store_can_be_read_again(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That the store was silent at the moment is no failure of the job."""
    config, events = Config(data_dir=str(tmp_path)), list[ev.Event]()
    launcher = CommandLauncher(config, tmp_path, "127.0.0.1")
    drivers = HostDrivers(launcher, store, events.append, lambda _: (), requeue=False)
    job, spec = keep(store, "running").job, StoredJobs.spec
    with monkeypatch.context() as silent:
        silent.setattr(StoredJobs, "spec", lambda *_: (_ for _ in ()).throw(StoreError("gone")))
        drivers.start(job)
        drivers.tend()
    assert StoredJobs.spec is spec
    drivers.tend()
    deadline = time.monotonic() + PATIENCE
    while not events:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    drivers.close()
    # Started once, and nothing else but that it has ended meanwhile.
    assert [type(event) for event in events] in ([ev.DriverStarted], [ev.DriverStarted, ev.DriverEnded])


def test_the_event_log_ends_and_begins_again(store: Store, tmp_path: Path) -> None:
    """Over the size a file is put aside; each, through an empty model, gives the recorded commands."""
    config = Config(data_dir=str(tmp_path), event_log=EventLogSection(size=1, earlier=9))
    connect = partial(MasterLink, SessionOptions(master=f"127.0.0.1:{free_port()}"))
    service = service_of(
        TermInputs(config, store, Launcher(config, tmp_path, "127.0.0.1"), connect, data_dir=tmp_path)
    )
    service._loop._restore()
    for number in range(1, 41):
        job = replace(make_job(f"job-{number}"), name="n" * 40_000)
        service._loop._handle([Item(ev.JobSubmitted(float(number), job))])
        service._loop._handle([Item(ev.KillRequested(float(number), job.id))])
    service._loop._handle([Item(ev.Subscribed(50.0)), Item(ev.JobSubmitted(51.0, make_job("job-99")))])
    service.stop()
    service.run()
    files = sorted(tmp_path.glob("events*.jsonl"))
    assert [file.name for file in files] == ["events.1.jsonl", "events.jsonl"]
    for file in files:
        model, count = ClusterModel(), 0
        with file.open() as lines:
            for event, commands in replay(lines):
                assert model.handle(event) == commands
                count += 1
        assert count > 1


class Witness(CommandLauncher):
    """Launches `true` and records the stored state of a task when its launch message is made."""

    def __init__(self, store: Store, config: Config, folder: Path) -> None:
        super().__init__(config, folder, "127.0.0.1")
        self.store = store
        self.at_launch: list[tuple[str, str]] = []

    def describe(
        self, task: ExecutorRecord, job: Job, spec: JobSpec, tasks: Sequence[ExecutorRecord]
    ) -> tuple[ProcessSpec, str]:
        """Look into the store first."""
        self.at_launch += [(kept.task_id, kept.state) for kept in self.store.jobs.executors(job.id)]
        return super().describe(task, job, spec, tasks)


def test_nothing_is_launched_or_acknowledged_before_it_is_stored(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The launch is in the store when its message is made, each update when it is acknowledged."""
    acknowledged: list[tuple[str, str]] = []
    acknowledge = MasterLink.acknowledge

    def witnessed(link: MasterLink, status: dict[str, Any]) -> None:
        (task,) = store.jobs.executors("job-1")
        acknowledged.append((status["state"].removeprefix("TASK_").lower(), task.state))
        acknowledge(link, status)

    monkeypatch.setattr(MasterLink, "acknowledge", witnessed)
    store.jobs.new.add_one(JobSpec(app="/apps/a.py"), lambda job_id: make_job(job_id), None, 100.0)
    with running_mesos(tmp_path / "mesos") as mesos:
        config = Config(data_dir=str(tmp_path))
        witness = Witness(store, config, tmp_path)
        connect = partial(MasterLink, SessionOptions(master=mesos.address, user="root"))
        with running(service_of(TermInputs(config, store, witness, connect, data_dir=tmp_path))):
            deadline = time.monotonic() + PATIENCE
            while store.jobs.open.unfinished() != ([], []):
                assert time.monotonic() < deadline
                time.sleep(0.02)
    assert witness.at_launch == [("job-1.0", "launching")]
    assert acknowledged == [(state, state) for state in ("starting", "running", "finished")]


def test_launches_that_agents_drop_pause_and_are_logged(
    store: Store, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its user is unknown on every agent: another is tried at once, then after a second, and so on."""
    store.jobs.new.add_one(JobSpec(app="/apps/a.py"), make_job, None, 100.0)
    with running_mesos(tmp_path / "mesos") as mesos:
        config = Config(data_dir=str(tmp_path))
        connect = partial(
            MasterLink, SessionOptions(master=mesos.address, user="root", task_user="nosuchuser")
        )
        launcher = CommandLauncher(config, tmp_path, "127.0.0.1")
        with running(service_of(TermInputs(config, store, launcher, connect, data_dir=tmp_path))):
            deadline = time.monotonic() + PATIENCE
            said = "launches of it in a row came to nothing"
            while len(store.jobs.executors("job-1")) < 3 or said not in (job := known(store, "job-1")).reason:
                assert time.monotonic() < deadline
                time.sleep(0.02)
    assert job.state == "queued"
    assert "No such user 'nosuchuser'" in job.reason
    _, second, third = store.jobs.executors("job-1")[:3]
    assert third.launched_at - second.launched_at > 0.9
    # Where logs go depends on whether another test has set them up in this process.
    assert "never ran" in "".join(capsys.readouterr())


ONE_VM = AgentSpec("vm-1", "m1.large", 4, 8192, 0.24, "127.0.1.1", (20_000, 20_199))


def test_a_job_whose_specification_was_damaged_fails_and_takes_nobody_along(
    store: Store, tmp_path: Path
) -> None:
    """It is launched on the same VM in the same message as others: they run."""
    with running_mesos(tmp_path / "mesos", [ONE_VM]) as mesos:
        config = Config(data_dir=str(tmp_path))
        connect = partial(MasterLink, SessionOptions(master=mesos.address, user="root"))
        service = service_of(
            TermInputs(
                config, store, CommandLauncher(config, tmp_path, "127.0.0.1"), connect, data_dir=tmp_path
            )
        )
        jobs = [
            store.jobs.new.add_one(JobSpec(app="/apps/a.py"), make_job, None, 100.0)[0].job for _ in range(3)
        ]
        with contextlib.closing(sqlite3.connect(tmp_path / "stoker.db")) as sql:
            sql.execute("UPDATE jobs SET spec = replace(spec, 'apps', 'aqps') WHERE number = 1")
            sql.commit()
        with running(service):
            for job in jobs:
                service._parts.submissions._arrive(100.0, job)
            deadline = time.monotonic() + PATIENCE
            while store.jobs.open.unfinished() != ([], []):
                assert time.monotonic() < deadline
                time.sleep(0.02)
    damaged, *others = (known(store, job.id) for job in jobs)
    assert damaged.state == "failed"
    assert "no specification of job-1 that can be read" in damaged.reason
    assert [job.state for job in others] == ["finished"] * 2
    assert [len(store.jobs.executors(job.job.id)) for job in others] == [1, 1]


def test_what_a_leader_handles_after_its_term_comes_to_nothing(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Stopped in the middle of a turn and continued: no line in the log that it may share, no driver."""
    record = keep(store, "running")
    term = store.terms.begin("http://one", 1.0)
    config, connect = (
        Config(data_dir=str(tmp_path)),
        partial(MasterLink, SessionOptions(master=f"127.0.0.1:{free_port()}")),
    )
    launcher = Launcher(config, tmp_path, "127.0.0.1")
    service = service_of(
        TermInputs(config, store.during(term), launcher, connect, term=term, data_dir=tmp_path)
    )
    now = time.clock_gettime(time.CLOCK_BOOTTIME)
    monkeypatch.setattr("daemon.store.rows.terms.boot_seconds", lambda: now + 60)
    service._parts.launching.drivers.start(record.job)
    store.terms.begin("http://other", 1.0)
    service._loop._handle([Item(ev.VmLost(time.time(), "vm-1"))])
    assert (tmp_path / "events.jsonl").read_text() == ""
    assert not service.health().ready
    assert "not certain that this daemon leads" in service.health().checks["leader"]
    with contextlib.suppress(DeposedError):
        service.run()  # to its end, at once
    assert not list(tmp_path.glob("records/*")), "not even a launch was written"


def test_nothing_is_decided_while_the_disk_is_full(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a full disk nothing is decided, and the job and /readyz say so; with room decisions resume."""
    record, _ = store.jobs.new.add_one(JobSpec(app="/apps/a.py"), make_job, None, 100.0)
    service = make_service(store, tmp_path)
    service._loop._restore()
    decided: list[object] = []

    def decide(*seen: object) -> tuple[ev.Decided, tuple[()]]:
        decided.append(seen)
        return ev.Decided(0.0, ()), ()

    monkeypatch.setattr(service._parts.policies.acting(), "decide", decide)
    (tmp_path / "probe").mkdir()
    service._parts.saver.disk.look()
    service._loop._decide()
    job = store.jobs.get(record.job.id)
    assert job is not None
    assert job.reason == f"nothing is launched: {tmp_path} cannot be written: Is a directory"
    assert service.health().checks["disk"] == f"{tmp_path} cannot be written: Is a directory"
    health = service.health()
    assert not health.ready
    assert health.bad & {"disk", "store", "loop"} == frozenset({"disk"})
    assert not decided
    (tmp_path / "probe").rmdir()
    service._parts.saver.disk.look()
    service._loop._turn()
    service._loop._decide()
    assert decided
    samples = next(iter(service.stages.collect())).samples
    assert next(each.value for each in samples if each.labels == {"stage": "order"}) > 0
    assert "disk" not in service.health().bad
    assert "disk" not in service.health().checks
    service.stop()
    service.run()


def test_why_a_job_waits_is_told_though_nothing_changes(store: Store, tmp_path: Path) -> None:
    """The reason came too soon to be told at once; and once it is told, nothing more is."""
    record, service = keep(store, "queued"), make_service(store, tmp_path)
    before = service._clock.now() - 10.0
    for at, reason in ((0.0, "waits for its turn"), (1.0, "vm-1 has no room")):
        service._parts.saver.recorder.tell(before + at, Changes((replace(record, reason=reason),), ()))
    service._loop._handle([])
    service._loop._handle([])
    told = store.events.read(10, job_id=record.job.id).found
    assert [each.happening.text for each in told if each.happening.kind == "waits"] == ["vm-1 has no room"]
    service.stop()
    service.run()


def test_executors_are_given_up_by_drivers_that_run(store: Store, tmp_path: Path) -> None:
    """Impossible decommissions are refused before any effect; a possible one is stored when answered."""
    waits, dynamic = keep(store, "queued"), keep(store, "running")
    job = replace(dynamic.job, dynamic=Dynamic(0, 1), client_driver="127.0.0.1", executors=4)
    task = ExecutorRecord(
        f"{job.id}.0", job.id, 0, "v", "vm-1", "t", "127.0.0.1", 1.0, job.size, (31000,), 105.0, "running"
    )
    store.changes.save(Changes((replace(dynamic, job=job), replace(waits, started_at=None)), (task,)))
    service = make_service(store, tmp_path)
    with running(service):
        with pytest.raises(RejectedError, match=f"{waits.job.id} is queued: "):
            service.decommission(waits.job.id, (0,), "")
        with pytest.raises(RejectedError, match="has no running executor 3; it has 0"):
            service.decommission(job.id, (0, 3), "")
        assert service.decommission(job.id, (0,), "vm-1 is emptied").state == "running"
    (kept,) = store.jobs.executors(job.id)
    assert kept.decommissioned_at is not None
    assert kept.message == "is to end, once its blocks are elsewhere: vm-1 is emptied"


def test_who_was_not_charged_for_long_is_a_part_at_a_time(store: Store, tmp_path: Path) -> None:
    """VMs not charged for long are charged in parts, as a thousand at once would block the loop.

    A request for the bill charges all of them.
    """
    vms = make_vms(3 * CHARGED_AT_ONCE // 2)
    config = Config(data_dir=str(tmp_path))
    connect = partial(MasterLink, SessionOptions("nowhere", user="root"))
    service = service_of(
        TermInputs(config, store, Launcher(config, tmp_path, "127.0.0.1"), connect, data_dir=tmp_path)
    )
    service._loop._handle([Item(ev.VmsMeasured(service._clock.now() - 100.0, (), vms))])
    handled = []
    for _ in range(3):
        service._parts.timers._next_charge = 0.0
        due = service._parts.timers._charges()
        handled.append(len(due))
        service._loop._handle([*map(Item, due)])
    assert handled == [1, 1, 0]
    assert not service._parts.timers._charges()
    before = {account.until for account in store.vms.accounts()}
    with ThreadPoolExecutor() as pool:
        asked = pool.submit(service.charge)
        for _ in range(2):
            (item,) = service._inbox.take(PATIENCE)
            service._loop._handle([item])
        asked.result(PATIENCE)
    assert len(before) == 2
    assert len({account.until for account in store.vms.accounts()} & before) == 0
    service._parts.policies.close()
    service._parts.saver.event_log.close()


def test_a_fixed_cluster_is_paid_for_used_or_not_and_through_restarts(store: Store, tmp_path: Path) -> None:
    """The VMs of an idle cluster cost idle dollars, by VM and in sum, from first seen until now."""
    config = Config(data_dir=str(tmp_path))
    launcher = Launcher(config, tmp_path, "127.0.0.1")
    with running_mesos(tmp_path / "mesos") as mesos:
        for _ in range(2):
            connect = partial(MasterLink, SessionOptions(mesos.address, user="root"))
            service = service_of(TermInputs(config, store, launcher, connect, data_dir=tmp_path))
            with running(service):
                deadline = time.monotonic() + PATIENCE
                while not store.vms.accounts() or not service.cluster().vms:
                    assert time.monotonic() < deadline
                    time.sleep(0.02)
                time.sleep(0.3)
                service.charge()
                accounts, bill = store.vms.accounts(), store.vms.bill(AskedBill("vm"))
    assert {line.key: set(line.dollars) for line in bill.lines} == {a.name: {"idle"} for a in accounts}
    paid = {a.name: a.price_per_hour / 3600 * (a.until - a.opened_at) for a in accounts}
    assert {line.key: line.total for line in bill.lines} == pytest.approx(paid)
    assert [a.until for a in accounts] == [max(a.until for a in accounts)] * len(accounts)
    later = {a.name: a.until for a in store.vms.accounts()}
    assert all(later[a.name] > a.until for a in accounts), "it is charged for when the daemon ends, too"
