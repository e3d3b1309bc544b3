"""Copies of a store that is written to: each is one state of it, and becomes the store again."""

import contextlib
import os
import sqlite3
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from daemon.maintenance.backup import BackupError, back_up, check, restore
from daemon.store.job_store import Store
from daemon.store.migrations import SCHEMA_VERSION
from daemon.store.rows.database import StoreError
from daemon.store.sqlite_schema import foreign_object, foreign_store
from environment.model.cluster_model import Changes
from tests.daemon.store.rows.test_sqlite_file import journal_naming
from tests.daemon.store.test_job_store import make_task, submit, url_of


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """A store with three jobs, one of them over."""
    with contextlib.closing(Store(url_of(tmp_path), at=1.0)) as store:
        records = [submit(store, f"key-{n}") for n in range(3)]
        over = replace(records[0], state="finished", finished_at=9.0, cost=0.5)
        store.changes.save(Changes((over,), (make_task("job-1", 0, state="finished"),)))
        yield store


def test_a_copy_of_a_busy_store_is_one_state_of_it(store: Store, tmp_path: Path) -> None:
    """However much is written meanwhile: the copy has a job if it has all before it, and it reads well."""
    stopping = threading.Event()

    def write() -> None:
        while not stopping.is_set():
            record = submit(store)
            store.changes.save(Changes((replace(record, state="running"),), (make_task(record.job.id, 0),)))

    threads = [threading.Thread(target=write) for _ in range(4)]
    for thread in threads:
        thread.start()
    told: list[tuple[int, int]] = []
    try:
        for n in range(5):
            target = tmp_path / f"copy-{n}.db"
            copied = back_up(tmp_path / "stoker.db", target, progress=lambda *so_far: told.append(so_far))
            assert copied == check(target)
            assert target.stat().st_mode & 0o077 == 0
    finally:
        stopping.set()
        for thread in threads:
            thread.join()
    assert all(0 <= done <= total for done, total in told)
    assert not list(tmp_path.glob(".stoker-backup*")), "no draft is left"
    (tmp_path / "alone").mkdir()
    target.rename(tmp_path / "alone" / "stoker.db")
    with contextlib.closing(Store(url_of(tmp_path / "alone"))) as copy:
        jobs = copy.jobs.page(limit=10**6, newest_first=False)
        assert [job.job.id for job in jobs] == [f"job-{n}" for n in range(1, len(jobs) + 1)]
        running = [job.job.id for job in jobs if job.state == "running"]
        assert all(len(copy.jobs.executors(job_id)) == 1 for job_id in running)
        assert copy.damages.all() == ()


def test_a_copy_does_not_replace_anything_unasked(store: Store, tmp_path: Path) -> None:
    """Nor is half a copy ever under the name."""
    target = tmp_path / "copy.db"
    target.write_text("mine")
    with pytest.raises(BackupError, match="exists already"):
        back_up(tmp_path / "stoker.db", target)
    assert target.read_text() == "mine"
    assert back_up(tmp_path / "stoker.db", target, replace=True).jobs == 3
    with pytest.raises(BackupError, match="cannot be written: No such file"):
        back_up(tmp_path / "stoker.db", tmp_path / "nowhere" / "copy.db")
    with pytest.raises(BackupError, match="there is no job store"):
        back_up(tmp_path / "other.db", tmp_path / "copy-2.db")


def test_a_restored_store_goes_on_where_the_copy_was_made(store: Store, tmp_path: Path) -> None:
    """Numbers of lost jobs are not reused after a restore, and the replaced store is saved."""
    target = tmp_path / "copy.db"
    back_up(tmp_path / "stoker.db", target)
    for _ in range(4):
        submit(store)  # job-4 to job-7 are in no copy
    (tmp_path / "jobs" / "job-9").mkdir(parents=True)  # nor is this one, of which only a folder is left
    store.close()
    copied, aside = restore(target, tmp_path / "stoker.db", tmp_path)
    assert copied.jobs == 3
    assert aside is not None
    with contextlib.closing(Store(url_of(tmp_path))) as restored:
        assert [job.state for job in restored.jobs.page()] == ["queued", "queued", "finished"]
        assert len(restored.jobs.executors("job-1")) == 1
        assert submit(restored).job.id == "job-10"
    with contextlib.closing(sqlite3.connect(aside)) as before:
        assert before.execute("SELECT count(*) FROM jobs").fetchone() == (7,)


def test_numbers_of_pruned_jobs_are_not_reused_either(store: Store, tmp_path: Path) -> None:
    """Neither a row nor a folder is left of them: the store that is replaced knows the highest."""
    target = tmp_path / "copy.db"
    back_up(tmp_path / "stoker.db", target)
    for _ in range(4):
        record = submit(store)
        store.changes.save(Changes((replace(record, state="finished", finished_at=9.0),), ()))
    assert store.jobs.ended.prune([f"job-{n}" for n in range(4, 8)]) == 4
    store.close()
    restore(target, tmp_path / "stoker.db", tmp_path)
    with contextlib.closing(Store(url_of(tmp_path))) as restored:
        assert submit(restored).job.id == "job-8"


def test_two_restores_in_a_second_replace_no_store_that_was_put_aside(store: Store, tmp_path: Path) -> None:
    """The second would put the copy in the place of the store that the first has put aside."""
    target = tmp_path / "copy.db"
    back_up(tmp_path / "stoker.db", target)
    submit(store)
    store.close()
    places = [restore(target, tmp_path / "stoker.db", tmp_path)[1] for _ in range(3)]
    assert len(set(places)) == 3
    assert places[0] is not None
    with contextlib.closing(sqlite3.connect(places[0])) as before:
        assert before.execute("SELECT count(*) FROM jobs").fetchone() == (4,)


@pytest.mark.parametrize("dump", sorted((Path(__file__).parents[1] / "store/stores").glob("*.sql")))
def test_a_copy_of_an_earlier_stoker_reuses_no_number_either(
    store: Store, tmp_path: Path, dump: Path
) -> None:
    """A new job in the folder of a lost one would be taken for it, with its end."""
    with contextlib.closing(sqlite3.connect(tmp_path / "copy.db")) as copy:
        copy.executescript(dump.read_text())
    (tmp_path / "jobs" / "job-900").mkdir(parents=True)
    store.close()
    copied, _ = restore(tmp_path / "copy.db", tmp_path / "stoker.db", tmp_path)
    assert copied.schema < SCHEMA_VERSION
    assert not list(tmp_path.glob("*.restoring*"))
    with contextlib.closing(Store(url_of(tmp_path))) as restored:
        assert submit(restored).job.id == "job-901"


def test_a_store_is_restored_over_whatever_is_there(store: Store, tmp_path: Path) -> None:
    """Nothing, or rubbish with a log beside it, which must not be played into the copy."""
    target = tmp_path / "copy.db"
    back_up(tmp_path / "stoker.db", target)
    store.close()
    path = tmp_path / "stoker.db"
    path.unlink()
    assert restore(target, path, tmp_path)[1] is None
    path.write_bytes(b"")
    (tmp_path / "stoker.db-wal").write_bytes(os.urandom(10_000))
    restore(target, path, tmp_path)
    assert not (tmp_path / "stoker.db-wal").exists()
    with contextlib.closing(Store(url_of(tmp_path))) as restored:
        assert len(restored.jobs.page()) == 3


def test_a_store_in_use_is_not_replaced(store: Store, tmp_path: Path) -> None:
    """A daemon would go on writing into the old one."""
    target = tmp_path / "copy.db"
    back_up(tmp_path / "stoker.db", target)
    store.database.lock()
    with pytest.raises(BackupError, match=f"in use by a daemon .*pid {os.getpid()}"):
        restore(target, tmp_path / "stoker.db", tmp_path)


@pytest.mark.parametrize("rubbish", [b"", b"SQLite format 3\0" + bytes(5000), b"text"])
def test_only_a_good_copy_is_restored(store: Store, tmp_path: Path, rubbish: bytes) -> None:
    """Any other file is refused, and the store is unchanged."""
    store.close()
    (tmp_path / "copy.db").write_bytes(rubbish)
    before = (tmp_path / "stoker.db").read_bytes()
    with pytest.raises(BackupError, match=r"copy\.db"):
        restore(tmp_path / "copy.db", tmp_path / "stoker.db", tmp_path)
    assert (tmp_path / "stoker.db").read_bytes() == before


def test_a_restore_touches_no_file_that_a_backup_names(store: Store, tmp_path: Path) -> None:
    """A journal beside the backup may be a stranger's, and would have SQLite delete any file."""
    (tmp_path / "theirs").mkdir()
    target, victim = tmp_path / "theirs" / "copy.db", tmp_path / "victim"
    back_up(tmp_path / "stoker.db", target)
    victim.write_text("precious")
    store.close()
    journal = target.with_name("copy.db-journal")
    for content in (journal_naming(target, victim), b"a journal"):
        journal.write_bytes(content)
        with pytest.raises(BackupError, match=r"copy\.db.*-journal"):
            restore(target, tmp_path / "stoker.db", tmp_path)
    assert (victim.read_text(), journal.exists()) == ("precious", True)
    assert not list(tmp_path.glob("*.restoring*"))


def test_a_backup_is_never_opened_where_it_lies(store: Store, tmp_path: Path) -> None:
    """Others may change it, and what is beside it, at any time; a log beside it belongs to it."""
    target = tmp_path / "copy.db"
    back_up(tmp_path / "stoker.db", target)
    with contextlib.closing(sqlite3.connect(target)) as writing:
        writing.execute("PRAGMA journal_mode = WAL")
        writing.execute("DELETE FROM executors")
        writing.execute("DELETE FROM jobs WHERE number = 3")
        writing.commit()
        for name in ("copy.db", "copy.db-wal"):
            (tmp_path / f"taken-{name}").write_bytes((tmp_path / name).read_bytes())
    store.close()
    taken = tmp_path / "taken-copy.db"
    before = taken.read_bytes()
    assert restore(taken, tmp_path / "stoker.db", tmp_path)[0].jobs == 2
    assert taken.read_bytes() == before
    with contextlib.closing(Store(url_of(tmp_path))) as restored:
        assert len(restored.jobs.page()) == 2


_ENDLESS = "WITH RECURSIVE n(key) AS (SELECT 1 UNION ALL SELECT key + 1 FROM n) SELECT"


@pytest.mark.parametrize(
    ("statements", "found"),
    [
        (("DROP TABLE facts", f"CREATE VIEW facts AS {_ENDLESS} key, key value FROM n"), "view 'facts'"),
        (
            (f"CREATE TRIGGER jobs_seen AFTER INSERT ON sums BEGIN {_ENDLESS} count(*) FROM n; END",),
            "trigger 'jobs_seen'",
        ),
        (("DROP TRIGGER jobs_added", "CREATE TRIGGER jobs_added AFTER INSERT ON jobs BEGIN SELECT 1; END"),
         "trigger 'jobs_added'"),
        (("CREATE TABLE more (a, b AS (hex(zeroblob(a))))",), "table 'more'"),
        (("CREATE TABLE more (a CHECK (length(hex(zeroblob(a))) > 0))",), "table 'more'"),
        (("CREATE INDEX more ON jobs (hex(zeroblob(number)))",), "index 'more'"),
        (("CREATE INDEX more ON facts (value LIKE '%a%a%b')",), "index 'more'"),
        (("CREATE INDEX more ON facts (key) WHERE value GLOB '*a*a*b'",), "index 'more'"),
        (("CREATE INDEX more ON facts (key COLLATE NOCASE)",), "index 'more'"),
    ],
)  # fmt: skip
def test_a_store_that_runs_sql_of_its_author_is_refused(
    store: Store, tmp_path: Path, statements: tuple[str, ...], found: str
) -> None:
    """Restored or read it may run without end, in C, where not even Ctrl-C is handled."""
    target = tmp_path / "copy.db"
    back_up(tmp_path / "stoker.db", target)
    foreign_store(target).close()
    with contextlib.closing(sqlite3.connect(target)) as writing:
        for statement in statements:
            writing.execute(statement)
    with pytest.raises(BackupError, match=found):
        check(target)
    with pytest.raises(StoreError, match=found):
        foreign_store(target)


def test_a_restore_writes_through_no_link(store: Store, tmp_path: Path) -> None:
    """The lock's file has the name of the process that holds it written into it."""
    back_up(tmp_path / "stoker.db", copy := tmp_path / "copy.db")
    folder, victim = tmp_path / "other", tmp_path / "victim"
    folder.mkdir()
    victim.write_text("precious")
    (folder / "stoker.db.lock").symlink_to(victim)
    with pytest.raises(BackupError, match=r"stoker\.db\.lock is a link or no regular file"):
        restore(copy, folder / "stoker.db", folder)
    assert victim.read_text() == "precious"


@pytest.mark.parametrize("renames", [1, 2, 3])
def test_a_restore_that_is_killed_loses_nothing(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, renames: int
) -> None:
    """After any number of renames: no daemon starts on a store without the log that has its last jobs."""
    target, theirs = tmp_path / "copy.db", tmp_path / "killed"
    back_up(tmp_path / "stoker.db", target)
    submit(store)
    theirs.mkdir()
    for name in ("stoker.db", "stoker.db-wal", "stoker.db-shm", "stoker.db.made"):
        (theirs / name).write_bytes((tmp_path / name).read_bytes())
    left, rename = renames, Path.rename

    def killed(path: Path, to: Path) -> Path:
        nonlocal left
        if not left:
            raise KeyboardInterrupt
        left -= 1
        return rename(path, to)

    monkeypatch.setattr(Path, "rename", killed)
    monkeypatch.setattr(Path, "replace", killed)
    with pytest.raises(KeyboardInterrupt):
        restore(target, theirs / "stoker.db", theirs)
    monkeypatch.undo()
    with pytest.raises(StoreError, match="is gone, but had been made"):
        Store(url_of(theirs))
    restore(target, theirs / "stoker.db", theirs)
    with contextlib.closing(Store(url_of(theirs))) as again:
        assert submit(again).job.id == "job-5", "its number had another job"


def test_a_copy_removes_the_drafts_of_killed_ones(store: Store, tmp_path: Path) -> None:
    """With their journals, for any target in the folder; not that of a copy that is being made."""
    source, copies = tmp_path / "stoker.db", tmp_path / "copies"
    copies.mkdir()
    for name in (".stoker-backup-1.db", ".stoker-backup-1.db-journal", "other.db"):
        (copies / name).write_bytes(b"half")
    begun: list[str] = []

    def beside(_: int, __: int) -> None:
        if not begun:
            begun.extend(path.name for path in copies.glob(".stoker-backup-*"))
            back_up(source, copies / "second.db")

    back_up(source, copies / "first.db", progress=beside)
    assert begun != []
    assert ".stoker-backup-1.db" not in begun
    assert sorted(path.name for path in copies.iterdir()) == ["first.db", "other.db", "second.db"]


@pytest.mark.parametrize("dump", sorted((Path(__file__).parents[1] / "store/stores").glob("*.sql")))
def test_no_store_of_an_earlier_stoker_is_foreign(tmp_path: Path, dump: Path) -> None:
    """Neither as it was written, nor as it is after its migration."""
    path = tmp_path / "stoker.db"
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.executescript(dump.read_text())
        assert not foreign_object(connection)
    foreign_store(path).close()
    with contextlib.closing(sqlite3.connect(path)) as connection:
        assert not foreign_object(connection)


@pytest.mark.parametrize("name", ["stoker.db", "stoker.db-wal", "stoker.db.lock", "./link"])
def test_a_copy_does_not_take_the_stores_own_place(store: Store, tmp_path: Path, name: str) -> None:
    """Not even where it is told to replace a file: the daemon would go on with the one that is gone."""
    (tmp_path / "link").symlink_to(tmp_path / "stoker.db")
    with pytest.raises(BackupError, match="is a file of the store itself; choose another name"):
        back_up(tmp_path / "stoker.db", tmp_path / name, replace=True)
    assert len(store.jobs.page()) == 3
