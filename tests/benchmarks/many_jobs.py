"""Stores with very many jobs that are over, made in seconds: rows are written past the store, in bulk."""

import contextlib
import sqlite3
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from conf.schema import JobSpec
from daemon.store.job_store import Store
from daemon.store.rows import checksummed, job_rows
from environment.decisions.explain import CandidateVm, Choice, Explanation
from environment.model.messages.records import ExecutorRecord, JobRecord
from environment.resources import Resources
from environment.types import Job

_SPEC = JobSpec(app="/apps/sort.py", type="sort", executors=1, args=("--size", "64"))
#: Rows of one insertion.
_STEP = 20_000


def fill(path: Path, count: int, *, ended_every: float = 1.0) -> None:
    """Keep so many jobs that are over in a new SQLite store: one ended every so many seconds, the last now.

    Each has an executor and the explanation of its placement.
    """
    Store(f"sqlite:///{path}").close()
    now = time.time()
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as sql:
        sql.execute("PRAGMA synchronous = OFF")
        for first in range(1, count + 1, _STEP):
            numbers = range(first, min(first + _STEP, count + 1))
            sql.execute("BEGIN")
            sql.executemany(
                "INSERT INTO jobs (number, state, cost, finished_at, record, spec, accepted_at,"
                " idempotency_key) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                _jobs(numbers, now - count * ended_every, ended_every),
            )
            sql.executemany(
                "INSERT INTO executors (task_id, job, state, launched_at, record) VALUES (?, ?, ?, ?, ?)",
                _executors(numbers),
            )
            sql.executemany(
                "INSERT INTO explanations (job, decision, body) VALUES (?, ?, ?)", _explanations(numbers)
            )
            sql.execute("COMMIT")


def _jobs(numbers: range, begin: float, ended_every: float) -> Iterator[tuple[object, ...]]:
    job = Job("job-0", "sort", Resources.of(1.0, 1024), 1, 12345.0, name="sort")
    record = JobRecord(job, "finished", "its driver exited with code 0", 1.0, 2.0, 54321.0, 0, 1, cost=0.01)
    row, spec = job_rows.job_row(replace(record, job=replace(job, id="job-1"))), _SPEC.model_dump_json()
    for number in numbers:
        at = begin + number * ended_every
        text = row["record"][:-9].replace('"job-1"', f'"job-{number}"')
        text = text.replace("12345.0", repr(at - 60)).replace("54321.0", repr(at))
        yield number, "finished", 0.01, at, checksummed.seal(text), spec, at - 60, f"key-{number}"


def _executors(numbers: range) -> Iterator[tuple[object, ...]]:
    task = ExecutorRecord(
        "job-1.0", "job-1", 0, "S1", "m1.large-1", "m1.large", "10.0.0.1", 0.24,
        Resources.of(1.0, 1024), (31000,), 6.0, "finished", 7.0, 8.0, "exited with status 0", 0.01, 8.0,
    )  # fmt: skip
    row = job_rows.executor_row(task)
    for number in numbers:
        record = checksummed.seal(row["record"][:-9].replace("job-1", f"job-{number}"))
        yield f"job-{number}.0", number, "finished", 6.0, record


def _explanations(numbers: range) -> Iterator[tuple[object, ...]]:
    seen = tuple(
        CandidateVm(f"m1.large-{n}", "m1.large", {"cpus": 4.0, "mem": 16384}, (), 1.0, not n)
        for n in range(4)
    )
    choice = Choice(0, "m1.large-0", "it is the first VM with room", seen, 8)
    row = job_rows.explanation_row(Explanation(7.0, "job-1", "ff", "place", "because", (), (choice,)))
    for number in numbers:
        yield number, "place", row["body"]
