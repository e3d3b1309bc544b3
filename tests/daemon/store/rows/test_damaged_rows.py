"""A damaged row affects no other, is reported, and gets an end and a reason if it had not ended."""

import contextlib
import sqlite3
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import sqlalchemy as sa

from daemon.core.shadow_comparison import Comparison, Outcome
from daemon.store.job_store import Store
from daemon.store.rows import tables
from environment.model.cluster_model import Changes
from tests.daemon.store.test_job_store import SPEC, make_explanation, make_job, make_task, submit, url_of


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """A store with a job that is over, one that runs on two executors, and one that waits."""
    with contextlib.closing(Store(url_of(tmp_path), at=1.0)) as store:
        over, running, _ = (submit(store, f"key-{n}") for n in (1, 2, 3))
        store.changes.save(
            Changes(
                (
                    replace(over, state="finished", finished_at=9.5, cost=0.5),
                    replace(running, state="running", placed_at=6.0, started_at=7.0),
                ),
                (
                    make_task("job-1", 0, state="finished"),
                    make_task("job-2", 0, state="running"),
                    make_task("job-2", 1, state="running"),
                ),
            ),
            [make_explanation("job-1"), make_explanation("job-1", at=8.0)],
        )
        sides = Outcome("ff", {"vm-1": 2}, "", 0.24), Outcome("rr", None, "full", 0.0)
        store.comparisons.add([Comparison(7.0, "job-1", *sides), Comparison(8.0, "job-2", *sides)])
        yield store


def flip(folder: Path, table: str, column: str, where: str, byte: int = 40, bit: int = 0) -> None:
    """Change one bit of one value, as a disk does."""
    with contextlib.closing(sqlite3.connect(folder / "stoker.db")) as sql:
        query = f"SELECT CAST({column} AS BLOB), typeof({column}) FROM {table} WHERE {where}"  # noqa: S608
        body, kind = sql.execute(query).fetchone()
        changed = bytearray(body)
        changed[byte] ^= 1 << bit
        new = "CAST(? AS TEXT)" if kind == "text" else "?"
        sql.execute(f"UPDATE {table} SET {column} = {new} WHERE {where}", (bytes(changed),))  # noqa: S608
        sql.commit()


@pytest.mark.parametrize("bit", range(8))
@pytest.mark.parametrize("byte", [0, 40, 151, -1])
def test_a_flipped_bit_in_a_record_spares_all_other_rows(
    store: Store, tmp_path: Path, byte: int, bit: int
) -> None:
    """Whichever bit it is, the lists come; the job is there in its state, and says that it is damaged."""
    flip(tmp_path, "jobs", "record", "number = 1", byte, bit)
    assert [(job.job.id, job.state) for job in store.jobs.page()] == [
        ("job-3", "queued"),
        ("job-2", "running"),
        ("job-1", "finished"),
    ]
    job = store.jobs.get("job-1")
    assert job is not None
    assert (job.cost, job.finished_at, job.job.name) == (0.5, 9.5, "count")
    assert "is damaged; `stoker doctor`" in job.reason
    assert [(d.table, d.key, d.job_id) for d in store.damages.all()] == [("jobs", "job-1", "job-1")]
    assert store.jobs.executors("job-1") == [make_task("job-1", 0, state="finished")]
    assert [record.job.id for _, record in store.comparisons.kept()] == ["job-2", "job-1"]
    assert not store.jobs.new.add_one(SPEC, make_job, "key-1", 5.0)[1], "its key is still known"
    flip(tmp_path, "jobs", "record", "number = 1", byte, bit)
    store.jobs.page()
    assert store.damages.all() == (), "it is well again"


def test_other_damaged_rows_are_left_out_and_told(store: Store, tmp_path: Path) -> None:
    """Executors, explanations, comparisons and specifications: those that can be read come."""
    flip(tmp_path, "executors", "record", "task_id = 'job-2.1'")
    flip(tmp_path, "explanations", "body", "number = 1")
    flip(tmp_path, "comparisons", "body", "number = 2")
    flip(tmp_path, "jobs", "spec", "number = 3")
    assert [task.task_id for task in store.jobs.executors("job-2")] == ["job-2.0"]
    assert [explanation.at for explanation in store.jobs.explanations("job-1")] == [8.0]
    assert [comparison.job_id for comparison, _ in store.comparisons.kept()] == ["job-1"]
    assert store.jobs.spec("job-3") is None
    assert {(d.table, d.job_id) for d in store.damages.all()} == {
        ("executors", "job-2"),
        ("explanations", "job-1"),
        ("comparisons", "job-2"),
        ("specs", "job-3"),
    }
    assert [d.table for d in store.damages.of("job-3")] == ["specs"]


def test_a_record_under_another_number_is_damaged(store: Store, tmp_path: Path) -> None:
    """A record names its own job, so one under another number is damaged."""
    with contextlib.closing(sqlite3.connect(tmp_path / "stoker.db")) as sql:
        sql.execute("UPDATE jobs SET record = (SELECT record FROM jobs WHERE number = 3) WHERE number = 1")
        sql.commit()
    assert [job.state for job in store.jobs.page()] == ["queued", "running", "finished"]
    assert [str(d) for d in store.damages.all()] == ["jobs job-1: it is that of job-3"]


@pytest.mark.parametrize(
    ("table", "column", "where", "job", "why"),
    [
        ("jobs", "record", "number = 2", "job-2", "its record in the job store was damaged"),
        ("executors", "record", "task_id = 'job-2.1'", "job-2", "the record of its task job-2.1"),
        ("jobs", "record", "number = 3", "job-3", "its record in the job store was damaged"),
        ("jobs", "spec", "number = 3", "job-3", "its specification in the job store is damaged"),
    ],
)
def test_a_damaged_job_that_was_not_over_fails(
    store: Store, tmp_path: Path, table: str, column: str, where: str, job: str, why: str
) -> None:
    """A daemon takes up the others; that one has an end, a reason, and its tasks are to be killed."""
    flip(tmp_path, table, column, where)
    found = store.jobs.open.take_up(50.0)
    assert len(found.damages) == 1
    failed = store.jobs.get(job)
    assert failed is not None
    assert (failed.state, failed.finished_at) == ("failed", 50.0)
    assert why in failed.reason
    taken_up, tasks = store.jobs.open.unfinished()
    assert (found.jobs, found.tasks) == (taken_up, tasks)
    assert ("job-3" in [record.job.id for record in taken_up]) == (job != "job-3")
    for task in tasks:
        assert task.killed_at == (50.0 if job == "job-2" else None)
    again = store.jobs.open.take_up(51.0)
    assert again.damages == (), "what was put aside is not found again"
    assert (again.jobs, again.tasks) == (taken_up, tasks)
    assert store.jobs.count_by_state()["failed"] == 1
    with store.database.read() as connection:
        kept = connection.execute(sa.select(tables.quarantine)).all()
    assert len(kept) == (0 if column == "spec" else 1)


def test_a_damaged_end_of_a_task_costs_nothing_else(store: Store, tmp_path: Path) -> None:
    """The row of an executor that was over goes; its job goes on."""
    store.changes.save(Changes((), (make_task("job-2", 0, state="lost", replaced=True),)))
    flip(tmp_path, "executors", "record", "task_id = 'job-2.0'")
    assert len(store.jobs.open.take_up(50.0).damages) == 1
    jobs, tasks = store.jobs.open.unfinished()
    assert [job.state for job in jobs] == ["running", "queued"]
    assert [(task.task_id, task.killed_at) for task in tasks] == [("job-2.1", None)]
