"""A daemon takes over the store and the running jobs of an earlier version killed midway.

`record_store.py` records a version's store. Executors are real processes on the embedded Mesos;
`test_service.py` tests how drivers on the host are found again.
"""

import contextlib
import sqlite3
import threading
import time
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from conf.schema import Config, JobSpec
from daemon.cli import main
from daemon.scheduler.build import service_of
from daemon.scheduler.foundation import TermInputs
from daemon.store.job_store import Store
from daemon.store.queries.insert_jobs import SubmittedSpec
from environment.model.messages.records import ExecutorRecord
from environment.types import Job
from framework.mesos.master_link import MasterLink
from framework.mesos.session import SessionOptions
from framework.spark import ProcessSpec
from tests.benchmarks.daemon_of_commands import CommandLauncher
from tests.daemon.store.record_store import AGENTS, JOBS, MASTER, STORES
from tests.framework.embedded.running import Mesos, Subscription, framework_info, running, task
from tests.waiting import until

SLEEP = "sleep 3600"


class Witness(CommandLauncher):
    """Launches sleeping processes and records the launches requested."""

    command = tuple(SLEEP.split())

    def __init__(self, folder: Path) -> None:
        super().__init__(Config(data_dir=str(folder)), folder, "127.0.0.1")
        self.tasks: list[str] = []

    def describe(
        self, task: ExecutorRecord, job: Job, spec: JobSpec, tasks: Sequence[ExecutorRecord]
    ) -> tuple[ProcessSpec, str]:
        """Note the task."""
        self.tasks.append(task.task_id)
        return super().describe(task, job, spec, tasks)


@pytest.fixture(params=[path.stem for path in sorted(STORES.glob("*.sql"))])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A data folder with the store of an earlier version."""
    folder = tmp_path / "data"
    folder.mkdir(mode=0o700)
    with contextlib.closing(sqlite3.connect(folder / "stoker.db")) as sql:
        sql.executescript((STORES / f"{request.param}.sql").read_text())
    (folder / "stoker.db").chmod(0o600)
    return folder


@pytest.fixture
def mesos(folder: Path, tmp_path: Path) -> Iterator[Mesos]:
    """The master and agents that the store knows of, on which everything goes on that was running."""
    with contextlib.closing(sqlite3.connect(folder / "stoker.db")) as sql:
        query = "SELECT value FROM facts WHERE key = 'framework_id'"
        (framework_id,) = sql.execute(query).fetchone()
    launched = _tasks_of(folder, tmp_path / "look.db")
    with running(tmp_path / "mesos", AGENTS, master_id=MASTER) as mesos:
        info = framework_info("stoker", id={"value": framework_id}, roles=["stoker"], failover_timeout=3600.0)
        with Subscription(mesos, info) as before:
            offers = {offer["agent_id"]["value"]: offer for offer in before.offers()}
            while len(offers) < len(AGENTS):
                offers |= {offer["agent_id"]["value"]: offer for offer in before.offers()}
            for vm_id, tasks in launched.items():
                before.launch(offers[vm_id], *(_like(each) for each in tasks))
            # VMs tell of their tasks in any order.
            awaited = {each.task_id for tasks in launched.values() for each in tasks}
            while awaited:
                status = before.wait("UPDATE")["status"]
                before.acknowledge(status)
                if status["state"] == "TASK_RUNNING":
                    awaited.discard(status["task_id"]["value"])
        yield mesos


def _tasks_of(folder: Path, copy: Path) -> dict[str, list[ExecutorRecord]]:
    """The tasks that ran, by VM; the store itself is not touched."""
    copy.write_bytes((folder / "stoker.db").read_bytes())
    copy.chmod(0o600)
    found: dict[str, list[ExecutorRecord]] = {}
    with contextlib.closing(Store(f"sqlite:///{copy}")) as store:
        for record in store.jobs.open.unfinished()[1]:
            if not record.ended:
                found.setdefault(record.vm_id, []).append(record)
    return found


def _like(record: ExecutorRecord) -> dict[str, Any]:
    ports = {"ports": (min(record.ports), max(record.ports))} if record.ports else {}
    return task(record.task_id, SLEEP, cpus=record.resources.cpus, mem=record.resources.memory_mib, **ports)


def _raw(path: Path) -> list[tuple[object, ...]]:
    with contextlib.closing(sqlite3.connect(path)) as sql:
        return sql.execute("SELECT number, state, record, spec FROM jobs ORDER BY number").fetchall()


def test_a_store_of_an_earlier_version_is_backed_up_and_taken_over(
    folder: Path, mesos: Mesos, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """No job is lost or started twice, waiting jobs get their turn, and the backup can be restored."""
    copy, kept = tmp_path / "copy.db", _raw(folder / "stoker.db")
    assert main(["backup", str(copy), "--set", f"data_dir={folder}"]) == 0
    assert f"{len(JOBS)} jobs" in capsys.readouterr().out
    assert _raw(copy) == kept

    with contextlib.closing(Store(f"sqlite:///{folder / 'stoker.db'}")) as store:
        jobs = {record.job.id: record for record in store.jobs.page()}
        assert [jobs[f"job-{n}"].job.name for n in range(1, 6)] == [job["name"] for job in JOBS]
        assert {(record.job.owner, record.job.queue) for record in jobs.values()} == {("", "default")}
        assert [r.job.id for r in store.jobs.page(owners=("",), queues=("default",), states=("queued",))] == [
            "job-5", "job-4"
        ]  # fmt: skip
        assert [r.job.id for r in store.jobs.page(types=("sort",))] == ["job-2"]
        before = {job_id: store.jobs.executors(job_id) for job_id in jobs}
        # Its driver was on the host whose data folder this is.
        (folder / "host").write_text(jobs["job-2"].driver_on.partition("@")[0])
        witness = Witness(folder)
        connect = partial(MasterLink, SessionOptions(master=mesos.address, user="root"))
        service = service_of(
            TermInputs(Config(data_dir=str(folder)), store, witness, connect, data_dir=folder)
        )
        loop = threading.Thread(target=service.run)
        loop.start()
        try:
            until(lambda: service.health().ready, "it schedules")
            same = {"app": "/apps/sort.py", **next(job for job in JOBS if job["name"] == "here")}
            known = SubmittedSpec(JobSpec.model_validate(same), "here")
            later = SubmittedSpec(JobSpec(app="/apps/sort.py", cpus=0.5, owner="alice"))
            (added,) = service.submit([known, later])
            found = {
                each: (kept[0].job.id, kept[1]) for each, kept in added.items() if isinstance(kept, tuple)
            }
            assert found == {known: ("job-2", False), later: ("job-6", True)}
            time.sleep(1.0)  # in which it would do what it should not
            assert _states(store) == {**{i: known.state for i, known in jobs.items()}, "job-6": "queued"}
            assert witness.tasks == []
            service.kill("job-3")
            until(lambda: _states(store)["job-6"] == "running", "what waits has its turn")
        finally:
            service.stop()
            loop.join()
        after = {job_id: store.jobs.executors(job_id) for job_id in jobs}
        assert [task.task_id for task in after["job-2"]] == [task.task_id for task in before["job-2"]]
        assert {task.state for task in after["job-2"]} == {"running"}
        assert (after["job-1"], store.jobs.get("job-1")) == (before["job-1"], jobs["job-1"])
        waited = ["job-4", "job-5", "job-6"]
        assert sorted(witness.tasks) == [f"{job_id}.0" for job_id in waited]
        ended = {"job-1": "killed", "job-3": "killed"}
        assert _states(store) == {**ended, **dict.fromkeys(("job-2", *waited), "running")}
    assert main(["restore", str(copy), "--set", f"data_dir={folder}"]) == 0
    with contextlib.closing(Store(f"sqlite:///{folder / 'stoker.db'}")) as store:
        assert {record.job.id: record for record in store.jobs.page()} == jobs


def _states(store: Store) -> dict[str, str]:
    return {record.job.id: record.state for record in store.jobs.page()}
