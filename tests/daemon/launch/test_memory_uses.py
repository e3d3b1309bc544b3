"""Memory that ended jobs used: read from their event logs, stored with them, counted."""

import json
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from conf.schema import JobSpec
from daemon.cli.shared.job_tables import memory_line
from daemon.core.cluster_status import MemorySeconds
from daemon.launch import memory_uses
from daemon.launch.memory_uses import MemoryUses
from daemon.schemas.job_bodies import job_body
from daemon.store.job_store import Store
from environment.model.cluster_model import Changes
from environment.model.messages.records import ExecutorRecord, JobRecord
from environment.resources import Resources
from environment.types import Job
from profiles.memory_peaks import MemoryPeak

MIB = 1 << 20


def stage_end(executor: str, stage: int = 0, **mib: float) -> dict[str, Any]:
    """The event of an executor's peaks in a stage, MiB by Spark's names."""
    metrics = {name: int(amount * MIB) for name, amount in mib.items()}
    return {
        "Event": "SparkListenerStageExecutorMetrics",
        "Executor ID": executor,
        "Stage ID": stage,
        "Stage Attempt ID": 0,
        "Executor Metrics": metrics,
    }


#: Executor 1 reports nothing; what the driver used is not that of executors.
EVENTS = [
    stage_end("driver", JVMHeapMemory=5000),
    stage_end("0", JVMHeapMemory=300, JVMOffHeapMemory=60, DirectPoolMemory=4, ProcessTreeJVMRSSMemory=700),
    stage_end("1"),
    stage_end("0", 1, JVMHeapMemory=200, JVMOffHeapMemory=80, OffHeapUnifiedMemory=16),
]


@pytest.fixture
def readings(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[MemoryUses]:
    """A reader that looks thrice in quick succession."""
    monkeypatch.setattr(memory_uses, "_LOOKS", (0.0, 0.05, 0.1))
    found = MemoryUses(store, tmp_path)
    yield found
    found.close()


def ended_job(store: Store, folder: Path, *events: dict[str, Any], app: str = "/a.jar") -> JobRecord:
    """A job of two executors of 2 GiB for 100 s each, with this event log."""
    at = time.time() - 200
    size = Resources.of(1.0, 2048)
    spec = JobSpec(app=app, type="etl", main_class="Etl" if app.endswith(".jar") else None)
    job = store.jobs.new.add_one(spec, lambda job_id: Job(job_id, "etl", size, 2, at), None, at)[0].job
    done = JobRecord(job, "finished", "", at, at, at + 100, 0, 2)
    tasks = tuple(
        ExecutorRecord(
            f"{job.id}.{number}", job.id, number, "S1", "vm-1", "m1.large", "a", 0.1, size, (), at, "finished"
        )
        for number in range(2)
    )
    tasks = tuple(replace(task, ended_at=at + 100) for task in tasks)
    store.changes.save(Changes((done,), tasks), (), {})
    if events:
        driver = folder / "jobs" / job.id / "driver" / "events"
        driver.mkdir(parents=True)
        (driver / f"app-{job.id}").write_text("".join(json.dumps(each) + "\n" for each in events))
    return done


def waited(store: Store, job_id: str) -> JobRecord:
    """The job's record, once the memory that it used is in it."""
    until = time.monotonic() + 10
    while time.monotonic() < until:
        record = store.jobs.get(job_id)
        assert record is not None
        if record.memory_use is not None:
            return record
        time.sleep(0.02)
    raise AssertionError("its memory was not read")


def test_peaks_of_a_log_are_stored_with_the_job(store: Store, tmp_path: Path, readings: MemoryUses) -> None:
    """Jobs that ended before the daemon began are read too; the API has the peak, and all over time."""
    job = ended_job(store, tmp_path, *EVENTS)
    readings.begin()
    record = waited(store, job.job.id)
    use = record.memory_use
    assert use is not None
    # Heap and the rest are of different stages; nothing is known of Python in the later one.
    assert use.peak == MemoryPeak(300, 96, 0)
    assert (use.paid, use.reported, use.used) == (2 * 204800, 204800, 39600)
    # Its heap would be full beside an overhead of 384 MiB.
    assert use.full_mib == 300 + 384
    assert replace(record, memory_use=None) == job
    body = job_body(record).memory_use
    assert body is not None
    assert (body.peak_mib, body.heap_mib, body.python_mib) == (396, 300, 0)
    assert readings.total == (use.paid, use.reported, use.used)
    line = "396 MiB of 2 GiB (heap 300 MiB, JVM beside it 96 MiB, Python 0 MiB)"
    assert memory_line(job_body(record).model_dump()) == f"{line}; 19% of the memory that is paid for"
    assert memory_line(job_body(job).model_dump()) == "not reported"


def test_what_is_not_reported_stays_unknown(store: Store, tmp_path: Path, readings: MemoryUses) -> None:
    """Without a log, with no sample, or where no Spark wrote it: null, but paid for."""
    jobs = [ended_job(store, tmp_path), ended_job(store, tmp_path, stage_end("0"))]
    jobs.append(ended_job(store, tmp_path, {"Event": "SparkListenerStageExecutorMetrics"}))
    jobs.append(ended_job(store, tmp_path, EVENTS[1] | {"Note": "x" * 70_000}))
    jobs.append(ended_job(store, tmp_path, stage_end("7", JVMHeapMemory=300)))
    readings.begin()
    readings.over([job.job.id for job in jobs])
    until = time.monotonic() + 10
    while time.monotonic() < until and readings.total.paid < 5 * 409600:
        time.sleep(0.02)
    assert readings.total == MemorySeconds(5 * 409600)
    for job in jobs:
        record = store.jobs.get(job.job.id)
        assert record is not None
        assert record == job
        assert job_body(record).memory_use is None


def test_a_log_that_comes_late_is_read(store: Store, tmp_path: Path, readings: MemoryUses) -> None:
    """A driver's VM sends it after the job's end."""
    readings.begin()
    job = ended_job(store, tmp_path)
    memory_uses._LOOKS = (0.0, 0.5, 1.0)
    readings.over([job.job.id])
    time.sleep(0.2)
    folder = tmp_path / "records" / job.job.id / "logs" / "task" / "events"
    folder.mkdir(parents=True)
    (folder / "app-1").write_text(json.dumps(EVENTS[1]) + "\n")
    assert waited(store, job.job.id).memory_use is not None


def test_the_log_of_an_earlier_attempt_is_not_the_last_ones(
    store: Store, tmp_path: Path, readings: MemoryUses
) -> None:
    """It may have had less memory, and its log comes first."""
    job = ended_job(store, tmp_path, stage_end("5", JVMHeapMemory=300))
    task = store.jobs.executors(job.job.id)[0]
    earlier = replace(task, task_id=f"{job.job.id}.5", number=5, launched_at=task.launched_at - 50)
    store.changes.save(Changes((), (earlier,)), (), {})
    assert not readings._look(job.job.id, counts=True, last=False)
    assert store.jobs.get(job.job.id) == job


def test_python_without_its_workers_is_never_full(store: Store, tmp_path: Path, readings: MemoryUses) -> None:
    """Spark looks at processes only where it is told to: the heap alone bounds no Python app."""
    jobs = [
        ended_job(store, tmp_path, stage_end("0", JVMHeapMemory=300), app="/a.py"),
        ended_job(
            store,
            tmp_path,
            stage_end("0", JVMHeapMemory=300, ProcessTreeJVMRSSMemory=400, ProcessTreePythonRSSMemory=900),
            app="/a.py",
        ),
    ]
    readings.begin()
    uses = [waited(store, job.job.id).memory_use for job in jobs]
    assert [(use.peak.python_mib, use.full_mib) for use in uses if use] == [(None, None), (900, 1200)]


def test_a_job_with_running_parts_is_left_alone(store: Store, tmp_path: Path) -> None:
    """Its record may still change: the model owns it."""
    job = ended_job(store, tmp_path, *EVENTS)
    task = replace(store.jobs.executors(job.job.id)[0], state="running", ended_at=None)
    store.changes.save(Changes((), (task,)), (), {})
    use = memory_uses.memory_use(job, None, [task], {"0": MemoryPeak(1, 1)})
    assert use is not None
    assert not store.jobs.ended.note_memory(job.job.id, use)
    assert store.jobs.get(job.job.id) == job
