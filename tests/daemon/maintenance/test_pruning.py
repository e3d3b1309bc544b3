"""Retention of ended jobs: the rules, the data removed with a job, and the data never touched."""

import contextlib
import errno
import math
import os
import sqlite3
import subprocess
import time
import tracemalloc
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from conf.schema import Retention, UploadsSection
from conf.util.utc_days import day_of
from daemon.core.clock import Clock
from daemon.core.shadow_comparison import Comparison, Outcome
from daemon.disk.job_folders import measure, remove, temporary_folder
from daemon.disk.uploads import Uploads
from daemon.maintenance.pruning import Pruner, PruningResult, prune_all, retention
from daemon.store.job_store import Store
from environment.model.cluster_model import Changes
from environment.model.messages.vm_accounts import Charge
from tests.daemon.store.test_job_store import SPEC, make_explanation, make_job, make_task, submit, url_of

NOW = 1_000_000.0
DAY = 86_400.0
NOTHING = Retention(jobs=None)


@pytest.fixture(params=["sqlite", "postgresql"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    """Ten jobs: 1 to 7 are over, one a day, job-7 today; job-8 is killed with an executor that still runs."""
    url = url_of(tmp_path) if request.param == "sqlite" else request.getfixturevalue("postgresql_url")
    with contextlib.closing(Store(url, at=1.0)) as store:
        records = [submit(store, f"key-{n}") for n in range(1, 11)]
        over = [
            replace(record, state="finished", finished_at=NOW - (7 - n) * DAY - 100, cost=0.25)
            for n, record in enumerate(records[:7], 1)
        ]
        killed = replace(records[7], state="killed", finished_at=NOW - 90 * DAY)
        running = replace(records[8], state="running")
        tasks = [make_task(f"job-{n}", 0, state="finished" if n < 8 else "running") for n in range(1, 10)]
        store.changes.save(
            Changes((*over, killed, running), tuple(tasks)),
            [make_explanation(f"job-{n}") for n in range(1, 10)],
        )
        sides = Outcome("ff", {"vm-1": 2}, "", 0.24), Outcome("rr", None, "full", 0.0)
        store.comparisons.add([Comparison(7.0, f"job-{n}", *sides) for n in range(1, 10)])
        for n in range(1, 11):
            for kind in ("jobs", "records"):
                folder = tmp_path / kind / f"job-{n}" / "driver"
                folder.mkdir(parents=True)
                (folder / "stdout").write_bytes(b"x" * 100_000)
        yield store


def left(store: Store) -> list[int]:
    """The numbers of all jobs."""
    return [int(job.job.id[4:]) for job in store.jobs.page(limit=1000, newest_first=False)]


def prune(store: Store, folder: Path, rules: Retention) -> PruningResult:
    """Prune by the rules."""
    return prune_all(Pruner(store, folder, rules), NOW, lambda _: None)


@pytest.mark.parametrize(
    ("rules", "stay"),
    [
        (NOTHING, [1, 2, 3, 4, 5, 6, 7]),
        (Retention(jobs=None, age=3.5), [4, 5, 6, 7]),
        (Retention(jobs=3), [6, 7]),  # job-8 counts, though it cannot go yet
        (Retention(jobs=0), []),
        (Retention(jobs=None, size=1), [4, 5, 6, 7]),  # of a bit more than 200 kB each
        (Retention(jobs=6, age=5.5), [3, 4, 5, 6, 7]),
    ],
)
def test_what_is_beyond_a_rule_goes(store: Store, tmp_path: Path, rules: Retention, stay: list[int]) -> None:
    """Jobs beyond an age, number or size limit are removed with all their data, oldest first.

    Jobs that have not ended stay.
    """
    if rules.jobs == 6:
        rules = Retention(jobs=6, age=5.5)
    pruned = prune(store, tmp_path, rules)
    assert left(store) == [*stay, 8, 9, 10]
    assert (pruned.jobs, pruned.troubles) == (7 - len(stay), ())
    for kind in ("jobs", "records"):
        kept = {f"job-{n}" for n in (*stay, 8, 9, 10)}
        assert {path.name for path in (tmp_path / kind).iterdir()} == kept
    for n in set(range(1, 8)) - set(stay):
        assert store.jobs.executors(f"job-{n}") == []
        assert store.jobs.explanations(f"job-{n}") == []
    assert sorted(int(c.job_id[4:]) for c, _ in store.comparisons.kept()) == [*stay, 8, 9]
    assert store.jobs.totals().cost == 7 * 0.25, "what was paid was paid"
    assert store.jobs.count_by_state().get("finished", 0) == len(stay)


def test_a_number_is_never_given_again(store: Store, tmp_path: Path) -> None:
    """A job number is never reused, even after the last jobs are pruned.

    Outside systems may know the old jobs. Keys are free again.
    """
    over = [replace(job, state="killed", finished_at=NOW - DAY) for job in store.jobs.page() if not job.ended]
    tasks = (make_task("job-8", 0, state="killed"), make_task("job-9", 0, state="killed"))
    store.changes.save(Changes(tuple(over), tasks))
    assert prune(store, tmp_path, Retention(jobs=0)).jobs == 10
    record, new = store.jobs.new.add_one(SPEC, make_job, "key-10", 5.0)
    assert (record.job.id, new) == ("job-11", True)


def test_a_job_that_has_just_ended_or_is_remembered_stays(store: Store, tmp_path: Path) -> None:
    """Its processes may still be ending, and its daemon may still have something to do with it."""
    (tmp_path / "records" / "job-2" / "launch.json").touch()
    (tmp_path / "jobs" / "job-3" / "launch.json").touch()  # which a job may make
    just_now = replace(store.jobs.page(states=("queued",))[0], state="killed", finished_at=NOW - 5.0)
    store.changes.save(Changes((just_now,), ()))
    assert prune(store, tmp_path, Retention(jobs=0)).jobs == 6
    assert left(store) == [2, 8, 9, 10]


def test_sandboxes_on_this_host_go_along(store: Store, tmp_path: Path) -> None:
    """Those that the embedded Mesos made for the job's tasks."""
    executors = tmp_path / "mesos" / "work" / "agents" / "S1" / "frameworks" / "F" / "executors"
    for n in (1, 8):
        (executors / f"job-{n}.0" / "runs" / "c").mkdir(parents=True)
    prune(store, tmp_path, Retention(jobs=0))
    assert [path.name for path in executors.iterdir()] == ["job-8.0"]


def test_a_jump_of_the_clock_ages_no_job(store: Store, tmp_path: Path) -> None:
    """An idle daemon follows a clock that jumps ahead by a year, and keeps the jobs of the last week."""
    wall, boot = [NOW], [50.0]
    clock = Clock(shared=lambda: NOW, wall=lambda: wall[0], boot=lambda: boot[0], boot_id="first")
    wall[0] += 365 * DAY
    assert clock.look(idle=True) == 365 * DAY
    pruner = Pruner(store, tmp_path, Retention(jobs=None, age=30))
    assert pruner.step(clock.now(), clock.lived()) == PruningResult()
    boot[0] += 31 * DAY  # which pass
    assert pruner.step(clock.now(), clock.lived()).jobs == 7


def test_what_could_not_be_removed_at_once_is_tried_again(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A folder with more files than can be removed at a time goes later, without a restart."""
    pruner = Pruner(store, tmp_path, Retention(jobs=0))
    monkeypatch.setattr("daemon.maintenance.pruning.remove", lambda folder: remove(folder, -1.0))
    assert len(pruner.step(NOW).troubles) == 7
    monkeypatch.undo()
    assert pruner.step(NOW) == PruningResult()
    now = time.monotonic() + 3600
    monkeypatch.setattr("daemon.maintenance.pruning.time.monotonic", lambda: now)
    assert pruner.step(NOW).jobs == 7


def test_what_cannot_be_removed_is_told_and_holds_nobody_up(store: Store, tmp_path: Path) -> None:
    """A folder that is none of ours to remove stays, with its job; the others go."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "keep").touch()
    folder = tmp_path / "jobs" / "job-3" / "driver"
    (folder / "stdout").unlink()
    folder.rmdir()
    folder.parent.rmdir()
    folder.parent.symlink_to(outside)
    assert prune(store, tmp_path, Retention(jobs=0)).jobs == 7
    assert (outside / "keep").exists()


def test_no_query_looks_through_all_jobs(store: Store, tmp_path: Path) -> None:
    """Lists, sums, loads at start and pruning use indexes in their order."""
    if store.database.shared:
        pytest.skip("PostgreSQL decides by what it counted of the tables")
    asked: list[tuple[str, Any]] = []
    engine = store.database._engine
    sa.event.listen(engine, "before_cursor_execute", lambda *given: asked.append((given[2], given[3])))
    store.jobs.page(limit=10)
    store.jobs.page(limit=10, states=("finished", "failed"), before="job-9")
    store.jobs.page(limit=10, owners=("alice", "bob"))
    store.jobs.page(limit=10, queues=("night",), states=("failed",), before="job-9")
    store.jobs.page(limit=10, owners=("alice",), queues=("night", "day"), newest_first=False)
    store.jobs.page(limit=10, types=("sort",), queues=("night",), before="job-9")
    store.jobs.page(limit=10, owners=("alice",), queues=("night",), types=("sort", "count"))
    store.jobs.positions(["job-7", "job-9"])
    store.jobs.open.unfinished()
    store.jobs.count_by_state()
    store.jobs.totals()
    store.jobs.head()
    store.jobs.recent.ended(0.0, (), 5)
    store.jobs.recent.ended(0.0, ("alice",), 5)
    store.jobs.ended.kept()
    last = store.jobs.ended.oldest(2)[-1]
    store.jobs.ended.oldest(2, last)
    store.jobs.ended.unmeasured(5)
    store.jobs.ended.prune(["job-1"])
    plans: list[str] = []
    with contextlib.closing(sqlite3.connect(tmp_path / "stoker.db")) as sql:
        for statement, values in asked:
            if statement.startswith(("SELECT", "DELETE")):
                plan = sql.execute(f"EXPLAIN QUERY PLAN {statement}", values).fetchall()
                plans += [f"{row[3]} in {statement}" for row in plan]
    assert len(asked) > 15
    whole = ("SCAN jobs", "SCAN executors", "SCAN explanations", "SCAN comparisons")
    # Tables are walked in the order of their numbers until a page is full, and indexes until theirs is.
    walks = [p for p in plans if p.startswith(whole) and "USING" not in p and "ORDER BY jobs.number" not in p]
    assert walks == []
    assert [p for p in plans if "jobs_by_state" in p and "finished_at" in p] == []
    # What there is of an owner, a queue or a type in a state is in order in an index: it is read until a page
    # is full.
    searches = {p.partition(" in ")[0] for p in plans if p.startswith("SEARCH jobs USING COVERING")}
    for name in ("owner", "queue", "type"):
        found = [p for p in searches if f"jobs_by_{name} ({name}=? AND state=?" in p]
        assert len(found) == len([p for p in searches if f"jobs_by_{name} " in p]) > 0


def test_a_daemon_keeps_to_the_rules_by_itself(store: Store, tmp_path: Path) -> None:
    """In a thread of its own, soon after its start."""
    uploads = Uploads(tmp_path / "uploads", UploadsSection())
    with retention(store, tmp_path, Retention(jobs=2), uploads, Clock()):
        deadline = time.monotonic() + 300
        while left(store) != [7, 8, 9, 10] and time.monotonic() < deadline:
            time.sleep(0.05)
    assert left(store) == [7, 8, 9, 10]


def test_a_disk_that_fails_for_a_while_does_not_end_it(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such as one that lists no folder, or a daemon without another file: it goes on when that is over."""
    fails = iter([True, False])

    def task_folders(data_dir: Path, task_ids: Iterable[str]) -> Iterator[Path]:
        if next(fails, False):
            raise OSError(errno.EMFILE, "Too many open files")
        return iter(())

    monkeypatch.setattr("daemon.disk.job_folders.task_folders", task_folders)
    monkeypatch.setattr("daemon.maintenance.pruning._PAUSE", 0.05)
    uploads = Uploads(tmp_path / "uploads", UploadsSection())
    with retention(store, tmp_path, Retention(jobs=2, size=1000), uploads, Clock()):
        deadline = time.monotonic() + 60
        while left(store) != [7, 8, 9, 10] and time.monotonic() < deadline:
            time.sleep(0.05)
    assert left(store) == [7, 8, 9, 10]


@pytest.mark.parametrize("days", [0, 40])
def test_the_bill_of_each_job_on_each_vm_is_stored_for_some_days(
    store: Store, tmp_path: Path, days: int
) -> None:
    """Charges by VM and job are stored while the rules ask for them, and then forgotten."""
    now = time.time()
    long_ago, recent = day_of(now - 42 * 86_400), day_of(now - 38 * 86_400)
    charges = [
        Charge(day, "vm-1", "", "m1", "job-1", "ann", "etl", "ff", "used", 0.5, hours=2.0)
        for day in (long_ago, recent)
    ]

    def vms_of(day: str) -> list[str]:
        return [charge.vm for charge in store.vms.charges_of(day, 10).found]

    store.vms.stores_uses = True
    store.changes.save(Changes((), (), charges=tuple(charges)))
    uploads = Uploads(tmp_path / "uploads", UploadsSection())
    with retention(store, tmp_path, Retention(bill=days), uploads, Clock()):
        assert store.vms.stores_uses is (days > 0)
        deadline = time.monotonic() + 300
        while vms_of(long_ago) != [""] and time.monotonic() < deadline:
            time.sleep(0.05)
    assert (vms_of(long_ago), vms_of(recent)) == ([""], ["vm-1" if days else ""])
    assert [charge.hours for charge in store.vms.charges_of(long_ago, 10).found] == [2.0]


def test_a_file_with_many_names_counts_once(tmp_path: Path) -> None:
    """And a link none of what it leads to: else one job's names would have all others' jobs deleted."""
    folder, other = tmp_path / "job", tmp_path / "other"
    (folder / "below").mkdir(parents=True)
    other.mkdir()
    for place in (folder, other):
        (place / "file").write_bytes(bytes(1 << 20))
    once = measure(folder)
    assert 1 << 20 <= once < 2 << 20
    for number in range(100):
        os.link(folder / "file", folder / "below" / str(number))
    (folder / "link").symlink_to(other)
    assert once - 4096 < measure(folder) < once + (1 << 19)
    os.link(folder / "file", other / "link")
    (folder / "below" / "own").write_bytes(bytes(1 << 20))
    assert measure(folder) > once + (1 << 20) - (1 << 16)
    assert measure(folder) + measure(other) < 4 << 20
    assert measure(folder / "link") == 0


def test_a_folder_full_of_traps_is_removed(tmp_path: Path) -> None:
    """Deeper than Python recurses, links to elsewhere, folders without rights, FIFOs: all go, alone."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "keep").write_text("kept")
    folder = tmp_path / "job-1"
    folder.mkdir()
    (folder / "link").symlink_to(outside)
    (folder / "file").symlink_to(outside / "keep")
    os.mkfifo(folder / "fifo")
    (folder / "..1").mkdir()
    (folder / "sealed" / "inner").mkdir(parents=True)
    (folder / "sealed" / "inner").chmod(0)
    (folder / "sealed").chmod(0)
    nest(folder, 3000)
    try:
        assert measure(folder) < 10 << 20
        remove(folder, math.inf)
        assert not folder.exists()
    finally:  # pytest could not
        subprocess.run(["rm", "-rf", str(folder)], check=True)
    assert (outside / "keep").read_text() == "kept"
    remove(folder)  # what is gone is gone


def nest(folder: Path, levels: int) -> None:
    """Nest folders deeper than Python may nest calls, or any path may be long."""
    at = os.open(folder, os.O_RDONLY)
    for _ in range(levels):
        os.mkdir("d", dir_fd=at)
        inner = os.open("d", os.O_RDONLY | os.O_DIRECTORY, dir_fd=at)
        os.close(at)
        at = inner
    os.close(at)


def test_a_temporary_folder_of_jobs_goes_in_the_end() -> None:
    """However deep one nested folders in it, as a job beside Spark's history server can."""
    with temporary_folder("stoker-test-") as folder:
        nest(folder, 1200)
        (folder / "link").symlink_to("/")
    assert not folder.exists()


@pytest.mark.parametrize("below", [".", "wide"])
def test_a_wide_folder_takes_no_memory(tmp_path: Path, below: str) -> None:
    """A job can make millions of files in a folder: their names are never in memory at the same time."""
    folder = tmp_path / "job-1" / below
    folder.mkdir(parents=True)
    for n in range(10_000):
        os.mknod(folder / f"{n:0200}")
    tracemalloc.start()
    try:
        remove(tmp_path / "job-1", math.inf)
        assert tracemalloc.get_traced_memory()[1] < 500_000
    finally:
        tracemalloc.stop()
    assert not (tmp_path / "job-1").exists()


def test_a_link_in_a_folders_stead_is_not_followed(tmp_path: Path) -> None:
    """Neither opened nor removed."""
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "keep").touch()
    (tmp_path / "job-1").symlink_to(tmp_path / "outside")
    with pytest.raises(OSError, match=r".*"):
        remove(tmp_path / "job-1")
    assert (tmp_path / "outside" / "keep").exists()


def test_a_folder_that_is_filled_meanwhile_ends_in_time(tmp_path: Path) -> None:
    """A removal that exceeds its time raises an error and continues later."""
    (tmp_path / "job-1" / "a").mkdir(parents=True)
    with pytest.raises(OSError, match="too large to be removed"):
        remove(tmp_path / "job-1", seconds=-1.0)
    remove(tmp_path / "job-1")
