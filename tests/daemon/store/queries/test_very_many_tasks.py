"""Drivers that ask for executors without end: a start and the day's bill do not read all of these."""

import contextlib
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
import sqlalchemy as sa

from conf.schema import Retention
from daemon.maintenance import pruning
from daemon.maintenance.pruning import Pruner
from daemon.store.job_store import Store
from daemon.store.queries import old_tasks
from daemon.store.rows import damaged_rows, tables
from environment.model.cluster_model import Changes
from environment.model.messages.records import ExecutorRecord
from environment.types import Dynamic
from tests.daemon.store.rows.test_damaged_rows import flip
from tests.daemon.store.test_job_store import make_explanation, make_task, submit, url_of

#: Seconds since the epoch, midnight of 2026-11-22 (UTC).
MIDNIGHT = 1_795_305_600.0


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """A store of which the first job has hundred executors: three run, one is to be placed again."""
    with contextlib.closing(Store(url_of(tmp_path), at=1.0)) as store:
        first, second = submit(store), submit(store)
        job = replace(first.job, dynamic=Dynamic(1, 1000))
        store.changes.save(
            Changes(
                (replace(first, job=job, state="running", cost=1.0), replace(second, state="running")),
                (*map(task, range(100)), make_task("job-2", 0), driver("job-1.driver-7")),
            )
        )
        yield store


def task(number: int) -> ExecutorRecord:
    """An executor that ran for 100 s, one each 10 s; the last began a minute before midnight."""
    launched = MIDNIGHT - 60.0 - 10.0 * (99 - number)
    ended = {"state": "killed", "ended_at": launched + 100.0, "replaced": number != 40}
    runs = {"state": "running"}
    return replace(
        make_task("job-1", number),
        launched_at=launched,
        cost=0.01,
        **(runs if number in (7, 50, 99) else ended),
    )


def driver(task_id: str) -> ExecutorRecord:
    """A driver on the cluster."""
    return replace(make_task("job-1", 0), task_id=task_id, number=None, launched_at=1.0)


def make_old(store: Store, count: int) -> None:
    """Let the first tasks by id be rows of an earlier version."""
    of = tables.executors.c
    some = sa.select(of.task_id).order_by(of.task_id).limit(count)
    change = sa.update(tables.executors).where(of.task_id.in_(some)).values(cost=None)
    store.database.write(lambda connection: connection.execute(change))


def test_a_start_reads_the_tasks_that_matter(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that run, or are to be placed again, the first and the last; of other jobs all."""
    everything = {f"job-1.{number}" for number in range(100)} | {"job-2.0", "job-1.driver-7"}
    assert {each.task_id for each in store.jobs.open.take_up(2.0).tasks} == everything
    for name, number in (("_ALL_READ", 20), ("FIRST_READ", 3), ("_LAST_READ", 4)):
        monkeypatch.setattr(damaged_rows, name, number)
    wanted = [7, 40, 50, *range(2), *range(96, 100)]
    expected = {f"job-1.{number}" for number in wanted} | {"job-2.0", "job-1.driver-7"}
    for found in (store.jobs.open.take_up(2.0).tasks, store.jobs.open.unfinished()[1]):
        assert {each.task_id for each in found} == expected
        assert [each.launched_at for each in found] == sorted(each.launched_at for each in found)


def test_a_damaged_task_of_very_many_fails_its_job_where_it_runs(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And the job is taken up as one that has failed, still without those that do not matter."""
    monkeypatch.setattr(damaged_rows, "_ALL_READ", 20)
    flip(tmp_path, "executors", "record", "task_id = 'job-1.50'")
    found = store.jobs.open.take_up(2.0)
    assert [(job.job.id, job.state) for job in found.jobs] == [("job-1", "failed"), ("job-2", "running")]


def test_costs_of_before_midnight_are_summed_where_they_are_stored(store: Store) -> None:
    """As by the records, of which rows of an earlier version have nothing else."""
    until = MIDNIGHT + 1000.0
    tasks = [each for each in store.jobs.executors("job-1") if each.number is not None]
    parts = [
        each.cost * min(1.0, (MIDNIGHT - each.launched_at) / ((each.ended_at or until) - each.launched_at))
        for each in tasks
    ]
    for old in (0, 30, 103):
        make_old(store, old)
        held, _ = store.jobs.recent.held("2026-11-22", MIDNIGHT, until)
        assert held == pytest.approx(1.0 - sum(parts))


def test_old_tasks_of_a_job_that_goes_on_are_deleted(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With folders, once their day is over; a start, the costs of a day and what is shown stay the same."""
    for module, name, number in (
        (old_tasks, "MOST_TASKS", 20),
        (old_tasks, "FIRST_READ", 3),
        (old_tasks, "_EXPLAINED", 2),
        (pruning, "_TASKS", 10),
        (damaged_rows, "_ALL_READ", 20),
        (damaged_rows, "FIRST_READ", 3),
        (damaged_rows, "_LAST_READ", 4),
    ):
        monkeypatch.setattr(module, name, number)
    executors_of = tmp_path / "mesos/work/agents/S1/frameworks/F1/executors"
    for number in (10, 95):
        (executors_of / f"job-1.{number}").mkdir(parents=True)
    store.changes.save(Changes((), ()), [make_explanation("job-1", at=float(n)) for n in range(5)])
    held = partial(store.jobs.recent.held, "2026-11-22", MIDNIGHT, MIDNIGHT + 1000.0)
    costs, starts, last = held(), store.jobs.open.take_up(2.0), store.jobs.executors("job-1")[-20:]
    pruner = Pruner(store, tmp_path, Retention())
    assert pruner.forget_tasks(MIDNIGHT - 1.0) == 0
    assert len(store.jobs.explanations("job-1")) == 5
    assert pruner.forget_tasks(MIDNIGHT + 1000.0) == 74
    assert pruner.forget_tasks(MIDNIGHT + 2000.0) == 0
    gone = {f"job-1.{number}" for number in range(3, 80)} - {"job-1.7", "job-1.40", "job-1.50"}
    assert gone.isdisjoint(store.jobs.task_ids("job-1"))
    assert len(store.jobs.task_ids("job-1")) == 101 - len(gone)
    dollars, since = held()
    assert dollars == pytest.approx(costs[0])
    assert since == costs[1]
    assert store.jobs.open.take_up(2.0) == starts
    assert store.jobs.executors("job-1")[-20:] == last
    assert [each.at for each in store.jobs.explanations("job-1")] == [3.0, 4.0]
    assert sorted(path.name for path in executors_of.iterdir()) == ["job-1.95"]


def test_parts_of_a_jobs_tasks_are_found_alone(store: Store) -> None:
    """Open ones, drivers, and ids."""
    open_ones = {f"job-1.{number}" for number in (7, 50, 99)} | {"job-1.driver-7"}
    assert {each.task_id for each in store.jobs.open_executors("job-1")} == open_ones
    assert [each.task_id for each in store.jobs.drivers("job-1")] == ["job-1.driver-7"]
    assert store.jobs.drivers("job-2") == []
    assert len(store.jobs.task_ids("job-1")) == 101
    recent = store.jobs.recent.since(MIDNIGHT - 55.0, 20, 1)
    assert [each.task_id for each in recent.tasks[:2]] == ["job-1.99", "job-1.98"]
    assert recent.left_out
