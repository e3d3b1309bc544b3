"""A damaged or foreign store file: refused in words, never taken for a new store."""

import contextlib
import os
import re
import shutil
import sqlite3
import struct
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from daemon.store.job_store import Store
from daemon.store.rows.database import StoreError
from daemon.store.rows.sqlite_file import BESIDE, note, note_of
from daemon.store.rows.wal_log import damaged_at
from tests.daemon.store.test_job_store import submit, url_of


def make(folder: Path, jobs: int = 100) -> Path:
    """A store with jobs; its file."""
    with contextlib.closing(Store(url_of(folder))) as store:
        for _ in range(jobs):
            submit(store)
    return folder / "stoker.db"


def test_a_store_that_was_emptied_is_refused(tmp_path: Path) -> None:
    """0 bytes are no new store where one was made, and stay 0 bytes; without the note a new one begins."""
    path = make(tmp_path)
    path.write_bytes(b"")
    with pytest.raises(
        StoreError, match=r"stoker\.db is empty, but had been made .* restore a backup"
    ) as error:
        Store(url_of(tmp_path))
    assert path.stat().st_size == 0
    note = tmp_path / "stoker.db.made"
    assert f"or remove {note} to begin with no jobs" in str(error.value)
    assert note.stat().st_mode & 0o077 == 0
    note.unlink()
    with contextlib.closing(Store(url_of(tmp_path))) as store:
        assert store.jobs.page() == []


def test_a_store_that_is_gone_is_refused(tmp_path: Path) -> None:
    """A file that was removed is not made anew without a word."""
    make(tmp_path).unlink()
    with pytest.raises(StoreError, match=r"stoker\.db is gone, but had been made"):
        Store(url_of(tmp_path))
    assert not (tmp_path / "stoker.db").exists()


@pytest.mark.parametrize("left", [1, 50, 4096, 5000, 20_480])
def test_a_store_that_was_cut_off_is_refused(tmp_path: Path, left: int) -> None:
    """A file that is shorter than it says it is."""
    path = make(tmp_path)
    assert path.stat().st_size > 20_480
    with path.open("r+b") as file:
        file.truncate(left)
    with pytest.raises(StoreError, match="corrupt: cut off after" if left >= 4096 else "corrupt"):
        Store(url_of(tmp_path))
    assert path.stat().st_size == left


def test_a_store_of_another_kind_is_refused(tmp_path: Path) -> None:
    """A file of zeros is no store either."""
    path = make(tmp_path)
    path.write_bytes(bytes(path.stat().st_size))
    with pytest.raises(StoreError, match="corrupt, or no SQLite file"):
        Store(url_of(tmp_path))


def test_a_daemon_that_died_at_its_very_first_start_starts_again(tmp_path: Path) -> None:
    """A file of 0 bytes where nothing was ever kept is a new store."""
    (tmp_path / "stoker.db").touch()
    with contextlib.closing(Store(url_of(tmp_path))) as store:
        assert submit(store).job.id == "job-1"


def killed(folder: Path, jobs: int) -> Path:
    """The log that a daemon of a store with so many jobs leaves when it is killed, beside its store."""
    with contextlib.closing(Store(url_of(folder))) as store:
        for _ in range(jobs):
            submit(store)
        (folder / "killed").mkdir()
        for name in ("stoker.db", "stoker.db-wal", "stoker.db.made"):
            shutil.copy(folder / name, folder / "killed")
    return folder / "killed/stoker.db-wal"


@pytest.mark.parametrize("at", [0, 9, 17, 24, 33, 41, 50, 56 + 2000])
def test_a_log_with_a_flipped_bit_is_refused(tmp_path: Path, at: int) -> None:
    """SQLite reads it up to there, and forgets all accepted jobs behind without a word.

    In its header, or in number, salt, checksum and page of a frame in its middle.
    """
    log = killed(tmp_path, jobs=8)
    content = bytearray(log.read_bytes())
    frame = 24 + 4096
    place = at if at < 32 else at + frame * (len(content) // frame // 2)
    content[place] ^= 4
    log.write_bytes(content)
    with pytest.raises(StoreError, match=r"stoker\.db-wal was changed at byte (\d+), and the") as error:
        Store(url_of(log.parent))
    assert log.read_bytes() == content
    found = re.search("truncate --size=([0-9]+)", str(error.value))
    assert found is not None
    os.truncate(log, int(found[1]))
    if at < 32:
        return  # of so young a store nothing is left
    with contextlib.closing(Store(url_of(log.parent))) as store:
        assert len(store.jobs.page()) < 8


def test_the_end_of_a_log_may_be_missing(tmp_path: Path) -> None:
    """As much of the last transaction as came to the disk before the machine went down, in any order."""
    log = killed(tmp_path, jobs=4)
    content = log.read_bytes()
    assert damaged_at(log) is None
    frame = 24 + 4096
    for cut in (1, frame - 1, frame + 5):
        log.write_bytes(content[:-cut])
        assert damaged_at(log) is None
    log.write_bytes(content[: -2 * frame] + bytes(frame) + content[-frame:])
    assert damaged_at(log) is None
    log.write_bytes(bytes(len(content)))
    assert damaged_at(log) is None


def test_a_log_that_begins_again_is_good(tmp_path: Path) -> None:
    """Behind its end are transactions of the log before it, which are in the store's file."""
    with contextlib.closing(Store(url_of(tmp_path))) as store:
        for _ in range(6):
            submit(store)
        with store.database.read() as connection:
            connection.exec_driver_sql("COMMIT")
            connection.exec_driver_sql("PRAGMA wal_checkpoint(RESTART)")
            connection.exec_driver_sql("BEGIN")
        submit(store)
        assert damaged_at(tmp_path / "stoker.db-wal") is None


def test_a_log_is_read_while_a_daemon_writes_it(tmp_path: Path) -> None:
    """A frame that is half written is no damage."""
    stopping = threading.Event()
    with contextlib.closing(Store(url_of(tmp_path))) as store:

        def write() -> None:
            while not stopping.is_set():
                submit(store)

        thread = threading.Thread(target=write)
        thread.start()
        try:
            for _ in range(20):
                assert damaged_at(tmp_path / "stoker.db-wal") is None
        finally:
            stopping.set()
            thread.join()


def test_a_store_whose_log_holds_the_newest_pages_is_good(tmp_path: Path) -> None:
    """Pages still in the write-ahead log are no damage, as after kill -9."""
    with contextlib.closing(Store(url_of(tmp_path))) as store:
        for _ in range(100):
            submit(store)
        copy = tmp_path / "copy"
        copy.mkdir()
        for name in ("stoker.db", "stoker.db-wal", "stoker.db.made"):
            (copy / name).write_bytes((tmp_path / name).read_bytes())
    with contextlib.closing(Store(url_of(copy))) as store:
        assert len(store.jobs.page(limit=1000)) == 100


def journal_naming(store: Path, named: Path) -> bytes:
    """A rollback journal of a store: by its rollback SQLite deletes a file."""
    data, name = store.read_bytes(), os.fsencode(named)
    size = int.from_bytes(data[16:18], "big")
    page = data[:size]
    checksum = sum(page[at] for at in range(size - 200, 0, -200))
    magic = bytes.fromhex("d9d505f920a163d7")
    header = magic + struct.pack(">5I", 1, 0, len(data) // size, 512, size)
    journal = header.ljust(512, b"\0") + struct.pack(">I", 1) + page + struct.pack(">I", checksum)
    return journal + struct.pack(f">I{len(name)}s2I", 2**30 // size + 1, name, len(name), sum(name)) + magic


def test_sqlite_deletes_what_a_journal_names(tmp_path: Path) -> None:
    """So such a journal of a stranger must never be seen by it."""
    path, victim = make(tmp_path), tmp_path / "victim"
    with contextlib.closing(sqlite3.connect(path)) as store:
        store.execute("PRAGMA journal_mode = DELETE")
    victim.write_text("precious")
    (tmp_path / "stoker.db-journal").write_bytes(journal_naming(path, victim))
    with contextlib.closing(sqlite3.connect(path)) as store:
        store.execute("SELECT count(*) FROM jobs")
    assert not victim.exists()


def test_a_journal_that_names_another_file_is_refused(tmp_path: Path) -> None:
    """Before SQLite sees it, also beside the file that a link leads to."""
    (tmp_path / "there").mkdir()
    path, victim = make(tmp_path / "there"), tmp_path / "victim"
    with contextlib.closing(sqlite3.connect(path)) as store:
        store.execute("PRAGMA journal_mode = DELETE")
    victim.write_text("precious")
    path.with_name("stoker.db-journal").write_bytes(journal_naming(path, victim))
    (tmp_path / "stoker.db").symlink_to(path)
    for folder in (tmp_path / "there", tmp_path):
        with pytest.raises(StoreError, match=r"stoker\.db-journal names another file, and is not Stoker's"):
            Store(url_of(folder))
    assert victim.read_text() == "precious"


@pytest.mark.parametrize("link", [Path.symlink_to, Path.hardlink_to])
@pytest.mark.parametrize("ending", [*BESIDE, ".lock", ".made"])
def test_links_beside_a_store_are_not_followed(
    tmp_path: Path, ending: str, link: Callable[[Path, Path], None]
) -> None:
    """SQLite would write its log to the file that the link leads to, and Stoker its name."""
    path, victim = make(tmp_path), tmp_path / "victim"
    victim.write_text("precious")
    path.with_name(path.name + ending).unlink(missing_ok=True)
    link(path.with_name(path.name + ending), victim)
    with pytest.raises(StoreError, match=rf"stoker\.db{ending} is a link or no regular file"):
        Store(url_of(tmp_path))
    assert victim.read_text() == "precious"


@pytest.mark.parametrize("name", ["stoker.db", "stoker.db.lock"])
def test_nothing_is_made_where_a_link_leads(tmp_path: Path, name: str) -> None:
    """A link that leads nowhere would have a file made at a place of a stranger's choice."""
    make(tmp_path)
    for ending in ("", ".lock", ".made"):
        (tmp_path / f"stoker.db{ending}").unlink(missing_ok=True)
    (tmp_path / name).symlink_to(tmp_path / "made")
    with pytest.raises(StoreError):
        Store(url_of(tmp_path))
    assert not (tmp_path / "made").exists()


def test_the_note_is_written_through_no_link(tmp_path: Path) -> None:
    """Its draft has a name that nobody can foresee."""
    path, victim = make(tmp_path), tmp_path / "victim"
    victim.write_text("precious")
    note_of(path).unlink()
    path.with_name(f"stoker.db.made.{os.getpid()}").symlink_to(victim)
    note(path, "now")
    assert victim.read_text() == "precious"
    assert note_of(path).read_text().startswith("The job store stoker.db was made here at now.")


@pytest.mark.parametrize("beside", [".lock", ".made"])
def test_a_fifo_beside_a_store_is_not_waited_for(tmp_path: Path, beside: str) -> None:
    """Neither read nor written."""
    path = make(tmp_path)
    path.with_name(path.name + beside).unlink(missing_ok=True)
    os.mkfifo(path.with_name(path.name + beside))
    with pytest.raises(StoreError, match=rf"stoker\.db{beside} is a link or no regular file"):
        Store(url_of(tmp_path))


def test_a_store_that_is_no_regular_file_is_not_waited_for(tmp_path: Path) -> None:
    """A FIFO without a writer."""
    os.mkfifo(tmp_path / "stoker.db")
    with pytest.raises(StoreError, match="cannot be opened: not a regular file"):
        Store(url_of(tmp_path))


def test_a_store_whose_log_is_gone_is_not_taken_for_a_new_one(tmp_path: Path) -> None:
    """After kill -9 a young store has its tables in the log alone, which a copy of one file leaves behind."""
    with contextlib.closing(Store(url_of(tmp_path))) as store:
        submit(store)
        copy = tmp_path / "copy"
        copy.mkdir()
        for name in ("stoker.db", "stoker.db.made"):
            (copy / name).write_bytes((tmp_path / name).read_bytes())
    with pytest.raises(StoreError, match=r"stoker\.db is empty, but had been made .* restore a backup"):
        Store(url_of(copy))
