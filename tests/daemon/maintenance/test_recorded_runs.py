"""Recorded jobs become runs, a workload and trajectories."""

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet
import pytest

from conf.schema import JobSpec
from daemon.cli import main
from daemon.maintenance.recorded_runs import History, input_of, workload_of_runs
from daemon.store.job_store import Store
from environment.decisions.explain import CandidateVm, Choice, Explanation
from environment.model.cluster_model import Changes
from environment.model.messages.records import ExecutorRecord, JobRecord
from environment.resources import Resources
from environment.types import Job
from profiles.runs import read_runs
from profiles.trajectories import TRAJECTORIES
from profiles.workloads.workload_files import read_workload
from tests.profiles.test_spark_event_log import RECORDED

AT = 1_795_268_400.0


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """A store with two jobs that ran beside each other for half of the time, and one that waits."""
    store = Store(f"sqlite:///{tmp_path / 'stoker.db'}")
    add_job(store, AT, "sort", ("vm-1", "vm-2"), 20.0)
    add_job(store, AT + 10, "wordcount", ("vm-2",), 20.0)
    spec = JobSpec(app="/a.py", type="sort")
    store.jobs.new.add_one(
        spec, lambda job_id: Job(job_id, "sort", Resources.of(1.0, 1024), 1, AT + 30), None, AT + 30
    )
    events = tmp_path / "jobs" / "job-1" / "driver" / "events"
    events.mkdir(parents=True)
    shutil.copy(RECORDED, events / "app-1")
    yield store
    store.close()


def add_job(store: Store, at: float, kind: str, vms: tuple[str, ...], seconds: float) -> None:
    """A job that was placed at once and took so long; one executor was lost and replaced."""
    spec = JobSpec(app="/a.py", type=kind, executors=len(vms), args=("--size", "8"))
    count = len(vms)
    record, _ = store.jobs.new.add_one(
        spec, lambda job_id: Job(job_id, kind, Resources.of(1.0, 1024), count, at), None, at
    )
    job = record.job
    done = JobRecord(
        job, "finished", "its driver exited with code 0", at, at + 1, at + seconds, 0, count, 1, 1, 0.02
    )
    tasks = tuple(
        ExecutorRecord(
            f"{job.id}.{n}", job.id, n, vm, vm, "m1.large", "127.0.0.1", 0.24,
            Resources.of(1.0, 1024), (1,), at, "finished", at + 1, at + seconds,
        )
        for n, vm in enumerate((*vms, "vm-4"))
    )  # fmt: skip
    seen = tuple(
        CandidateVm(f"vm-{i}", "m1.large", {"cpus": 4.0, "mem": 8192}, (), None, f"vm-{i}" == vms[0])
        for i in (1, 2)
    )
    choices = tuple(Choice(n, vm, "there is room", seen, 0) for n, vm in enumerate(vms))
    placed = Explanation(at, job.id, "rr", "place", "placed", (), choices)
    store.changes.save(Changes((done,), tasks), (placed,), {})


def test_jobs_become_runs(store: Store, tmp_path: Path) -> None:
    """With Spark's log where there is one; executors of later numbers are no part of the placement."""
    history = History(store, tmp_path, {f"vm-{i}": 4.0 for i in (1, 2, 3, 4)})
    first, second = (run for run, _ in history.runs())
    assert (first.type, first.placement, first.input_mib) == ("sort", ("vm-1", "vm-2"), 8.0)
    assert (first.launching, first.duration, first.cost, first.losses) == (1.0, 19.0, 0.02, 1)
    assert len(first.stages) == 5
    assert first.startup == pytest.approx(1795268417.469 - (AT + 1))
    assert (second.stages, second.startup) == ((), None)
    # The second held one of four cpus of one of the first's VMs and of its spare one, half of the time; the
    # other way round it was one of four on its own VM and on the spare one.
    assert first.shared == pytest.approx(0.5 * (0.25 + 0.25) / 3)
    assert second.shared == pytest.approx(0.5 * (0.25 + 0.25) / 2)


def test_jobs_become_a_workload(store: Store, tmp_path: Path) -> None:
    """Finished jobs become a workload with their durations from placement on."""
    workload = workload_of_runs(History(store, tmp_path, {}).runs())
    jobs = [(job.name, job.submitted_at, job.duration, job.input_mib) for job in workload.jobs]
    assert jobs == [("job-1", 0.0, 20.0, 8.0), ("job-2", 10.0, 20.0, 8.0)]
    with pytest.raises(ValueError, match="no job has finished"):
        workload_of_runs([])


def test_a_daemons_records_are_ingested(
    store: Store, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Runs, workload and trajectories are in the folder, and are read back."""
    assert store.jobs.get("job-3")
    cluster, out = tmp_path / "cluster.yaml", tmp_path / "out"
    cluster.write_text("vms: [{type: vm, cpus: 4, memory: 8g, price_per_hour: 0.24, count: 4}]")
    assert main(["profile", "ingest", str(tmp_path), "--out", str(out), "--cluster", str(cluster)]) == 0
    told = capsys.readouterr().out
    assert "Runs: 2, jobs: 2, decisions: 2, in" in told
    assert "1 of 2: without stages, as no event log was read: job-2: it has none" in told
    assert [run.name for run in read_runs(out)] == ["job-1", "job-2"]
    assert len(read_workload(out / "workload.csv")) == 2
    first, second = pyarrow.parquet.read_table(out / TRAJECTORIES).to_pylist()
    taken = {"job": "job-1", "policy": "rr", "decision": "place", "chosen": ["vm-1", "vm-2"]}
    seen = {"vms": ["vm-1", "vm-2"], "free_cpus": [4.0, 4.0], "free_memory_mib": [8192, 8192]}
    assert first == {**first, **taken, **seen}
    ended = {"at": AT + 10, "state": "finished", "finished_at": AT + 30, "cost": 0.02}
    assert second == {**second, **ended}
    assert "of one Spark application" not in told
    assert main(["profile", "show", str(out), "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["about"]["source"] == "a daemon's records"


def test_the_other_applications_of_a_driver_are_told_to_be_left_out(
    store: Store, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A driver with two SparkContexts has two event logs; one of an earlier driver is none of it."""
    events = tmp_path / "jobs" / "job-1" / "driver" / "events"
    shutil.copy(RECORDED, events / "app-2")
    os.utime(events / "app-1", (AT, AT))
    earlier = tmp_path / "jobs" / "job-2" / "driver"
    for folder in (earlier, earlier.with_name("driver.1")):
        (folder / "events").mkdir(parents=True)
        shutil.copy(RECORDED, folder / "events" / f"app-{folder.name}")
    assert main(["profile", "ingest", str(tmp_path), "--out", str(tmp_path / "out")]) == 0
    assert capsys.readouterr().out.splitlines()[1:] == [
        "1 of 2: with the stages of one Spark application, without those of the others: "
        "job-1: its driver had 2, app-2 is counted"
    ]


def test_what_cannot_be_ingested(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A folder without a store, and a store without a finished job."""
    out = str(tmp_path / "out")
    assert main(["profile", "ingest", str(tmp_path), "--out", out]) == 2
    assert "holds no job store" in capsys.readouterr().err
    Store(f"sqlite:///{tmp_path / 'stoker.db'}").close()
    assert main(["profile", "ingest", str(tmp_path), "--out", out]) == 2
    assert "nothing to learn from: no job has finished" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("args", "mib"),
    [(("--size", "2.5"), 2.5), (("--seed", "1"), None), (("--size", "big"), None), ((), None)],
)
def test_the_input_is_what_the_app_was_told(args: tuple[str, ...], mib: float | None) -> None:
    """By `--size`, as all apps take it."""
    assert input_of(JobSpec(app="/a.py", args=args)) == mib


@pytest.mark.parametrize("trick", ["fifo", "link"])
def test_a_log_that_a_job_replaced_is_none(store: Store, tmp_path: Path, trick: str) -> None:
    """A FIFO is not waited for, a link not followed; the run counts, without its stages."""
    log = tmp_path / "jobs" / "job-1" / "driver" / "events" / "app-1"
    log.unlink()
    if trick == "fifo":
        os.mkfifo(log)
    else:
        log.symlink_to(RECORDED.absolute())
    history = History(store, tmp_path, {})
    first, _ = (run for run, _ in history.runs())
    assert first.stages == ()
    assert set(history.unread) == {"job-1", "job-2"}


def test_a_log_with_a_cut_part_counts_as_unread(store: Store, tmp_path: Path) -> None:
    """Sums over a part of its stages would be taken for all of them."""
    folder = tmp_path / "jobs" / "job-1" / "driver" / "events"
    text = (folder / "app-1").read_bytes()
    (folder / "app-1").unlink()
    folder /= "eventlog_v2_app-1"
    folder.mkdir()
    (folder / "events_1_app-1").write_bytes(text[: len(text) // 2])
    (folder / "events_2_app-1").write_bytes(text)
    history = History(store, tmp_path, {})
    first, _ = (run for run, _ in history.runs())
    assert first.stages == ()
    assert "events_1_app-1 of it is empty or cut short" in history.unread["job-1"]


def test_packed_and_rolling_logs_are_read(store: Store, tmp_path: Path) -> None:
    """As with `spark.eventLog.compress` and `rolling.enabled`; the last driver's counts, on either host."""
    plain, _ = (run for run, _ in History(store, tmp_path, {}).runs())
    shutil.rmtree(tmp_path / "jobs")
    folder = tmp_path / "jobs" / "job-1" / "driver" / "events" / "eventlog_v2_app-1"
    folder.mkdir(parents=True)
    shutil.copy(RECORDED.with_name("eventlog.jsonl.zstd"), folder / "events_1_app-1.zstd")
    (folder / "appstatus_app-1").touch()
    kept = tmp_path / "records" / "job-2" / "logs" / "driver.1" / "events"
    kept.mkdir(parents=True)
    shutil.copy(RECORDED.with_name("eventlog.jsonl.lz4"), kept / "app-2.lz4")
    history = History(store, tmp_path, {})
    first, second = (run for run, _ in history.runs())
    assert first.stages == plain.stages == second.stages != ()
    assert not history.unread
