"""Copies of a job store: made while a daemon runs, checked, and put in the store's place again.

For SQLite only: PostgreSQL has tools of its own, that do it better.
"""

import contextlib
import errno
import fcntl
import os
import sqlite3
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from itertools import chain, count
from pathlib import Path
from secrets import token_hex
from urllib.parse import quote

from conf.errors import ReportedError
from conf.util.counted import counted
from conf.util.regular_file import open_own, open_regular
from daemon.disk.job_folders import Folders
from daemon.store.migrations import FIRST, SCHEMA_VERSION
from daemon.store.opening import opened
from daemon.store.rows import sqlite_file
from daemon.store.rows.database import StoreError
from daemon.store.sqlite_schema import foreign_object

#: How the name of a copy begins that is not complete.
_DRAFT = ".stoker-backup-"
#: Pages that are copied at once: 16 MiB.
_STEP = 4096


class BackupError(ReportedError):
    """A copy that cannot be made, or that is not good; the text is fit for a user."""


@dataclass(frozen=True, slots=True)
class GoodBackup:
    """Contents of a good copy: number of jobs, schema, and size in bytes."""

    jobs: int
    schema: int
    size: int


def back_up(
    store: Path, target: Path, *, replace: bool = False, progress: Callable[[int, int], None] | None = None
) -> GoodBackup:
    """Copy the store as it is now, whether or not a daemon writes; on disk and checked on return.

    The copy is one file that only its owner can read. `progress` receives bytes copied and bytes in all.
    """
    _check_source(store)
    if target.resolve() in {path.resolve() for path in sqlite_file.files_of(store)}:
        raise BackupError(f"{target} is a file of the store itself; choose another name")
    if target.exists() and not replace:
        raise BackupError(f"{target} exists already; choose another name, or give --force")
    try:
        with _draft_in(target.absolute().parent) as draft:
            with _opened(store) as source, _opened(draft) as copy:
                # From here on one state is read, or a busy daemon would make it begin again and again.
                source.execute("BEGIN")
                source.execute("SELECT count(*) FROM facts").fetchone()
                page = source.execute("PRAGMA page_size").fetchone()[0]

                def tell(_: int, remaining: int, total: int) -> None:
                    if progress is not None:
                        progress((total - remaining) * page, total * page)

                source.backup(copy, pages=_STEP, progress=tell)
                copy.execute("PRAGMA journal_mode = DELETE")
                expected = source.execute("SELECT count(*) FROM jobs").fetchone()[0]
            copied = check(draft)
            if copied.jobs != expected:
                there = counted(copied.jobs, "job")
                raise BackupError(f"the copy has {there}, the store {expected}; the copy was removed")
            _sync(draft)
            if replace:
                draft.replace(target)
            else:
                os.link(draft, target)  # fails if another process was quicker
            sqlite_file.sync_folder(target.absolute().parent)
    except sqlite3.Error as error:
        raise BackupError(f"{store} cannot be copied to {target}: {error}") from error
    except OSError as error:
        raise BackupError(f"{target} cannot be written: {error.strerror or error}") from error
    return copied


@contextlib.contextmanager
def _draft_in(folder: Path) -> Iterator[Path]:
    """A new file in the folder, removed at the end, as are those that killed commands have left there."""
    for left in folder.glob(f"{_DRAFT}*.db"):
        with contextlib.suppress(OSError), _locked(left, os.O_RDWR):
            _remove(left)
    draft = folder / f"{_DRAFT}{token_hex(8)}.db"
    with _locked(draft, os.O_RDWR | os.O_CREAT | os.O_EXCL):
        try:
            yield draft
        finally:
            _remove(draft)


@contextlib.contextmanager
def _locked(draft: Path, flags: int) -> Iterator[None]:
    """Mark a draft as in use; OSError where it is."""
    file = os.open(draft, flags | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(file)


def check(path: Path) -> GoodBackup:
    """Read all of a copy; BackupError when it is not a good one."""
    _check_source(path)
    return _checked(path, str(path))


def _checked(path: Path, name: str) -> GoodBackup:
    """The result of `check`; `name` is the copy's in errors."""
    try:
        with _opened(path) as copy:
            if why := foreign_object(copy):
                raise BackupError(f"{name} is not a copy of a job store: {why}")
            found = copy.execute("PRAGMA integrity_check(1)").fetchone()[0]
            if found != "ok":
                raise BackupError(f"{name} is corrupt: {found}")
            (schema,) = copy.execute("SELECT value FROM facts WHERE key = 'schema'").fetchone() or ("none",)
            jobs = copy.execute("SELECT count(*) FROM jobs").fetchone()[0]
    except sqlite3.Error as error:
        raise BackupError(f"{name} is not a copy of a job store: {error}") from error
    if not str(schema).isdecimal() or not FIRST <= int(schema) <= SCHEMA_VERSION:
        raise BackupError(
            f"{name} has schema {schema}, this program knows schemas {FIRST} to {SCHEMA_VERSION}"
        )
    return GoodBackup(jobs, int(schema), path.stat().st_size)


def restore(backup: Path, store: Path, data_dir: Path) -> tuple[GoodBackup, Path | None]:
    """Put a copy in the store's place while no daemon runs; its contents, and the place of the old store.

    Jobs that are submitted from then on get numbers that no job had that left a trace here.
    """
    _check_source(backup)
    if _there(backup.with_name(f"{backup.name}-journal")):
        raise BackupError(f"{backup}-journal is beside it: the file was copied while it was written")
    with _alone(store):
        draft = store.with_name(f"{store.name}.restoring")
        _remove(draft)
        try:
            # What is checked is what is restored: others may be able to change the backup, and what is
            # beside it, at any time.
            _copy(backup, draft)
            if _there(log := backup.with_name(f"{backup.name}-wal")):
                _copy(log, draft.with_name(f"{draft.name}-wal"))
            copied = _checked(draft, str(backup))
            # Without a store, an earlier restore was killed that had put it aside.
            stores = [store] if store.exists() else store.parent.glob(f"{store.name}.before-*")
            highest = max(0, *map(_highest_in, stores), Folders(data_dir).highest())
            if copied.schema != SCHEMA_VERSION:  # as the next daemon would: older ones have no such numbers
                opened(f"sqlite:///{draft.absolute()}", None).close()
            _raise_numbers(draft, highest)
            aside = _put_aside(store)
            draft.replace(store)
            sqlite_file.note(store, _now())
            sqlite_file.sync_folder(store.absolute().parent)
        except (OSError, ValueError, sqlite3.Error, StoreError) as error:
            raise BackupError(f"{store} cannot be restored: {error}") from error
        finally:
            _remove(draft)
    return copied, aside


def _check_source(path: Path) -> None:
    if wrong := sqlite_file.fault(path):
        raise BackupError(f"{path} {wrong}")
    if not path.exists() or not path.stat().st_size:
        raise BackupError(f"{path}: there is no job store")


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[sqlite3.Connection]:
    uri = f"file:{quote(str(path.absolute()))}?mode=rw"
    with contextlib.closing(sqlite3.connect(uri, uri=True, isolation_level=None, timeout=10)) as connection:
        yield connection


@contextlib.contextmanager
def _alone(store: Path) -> Iterator[None]:
    """Keep daemons out."""
    lock = store.with_name(store.name + ".lock")
    try:
        opened = open_own(lock)
    except ValueError as error:
        raise BackupError(f"{lock} is {error}") from error
    with os.fdopen(opened, "r+b") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno not in (errno.EWOULDBLOCK, errno.EAGAIN):
                raise
            holder = file.read(200).decode("utf-8", "replace").strip()
            raise BackupError(f"{store} is in use by a daemon ({holder}); stop it first") from error
        yield


def _copy(source: Path, target: Path) -> None:
    with os.fdopen(open_regular(source), "rb") as reading:
        made = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        with os.fdopen(made, "wb") as writing:
            while part := reading.read(1 << 20):
                writing.write(part)
            writing.flush()
            os.fsync(writing.fileno())


def _sync(path: Path) -> None:
    with path.open("rb") as file:
        os.fsync(file.fileno())


def _put_aside(store: Path) -> Path | None:
    """Rename the store that is there, its log along: a log of one file would spoil another.

    The store goes first: after a kill in between none is there, which daemons notice, as they would not
    notice that changes are missing which were in the log alone.
    """
    name = f"{store.name}.before-{datetime.now().astimezone():%Y%m%dT%H%M%S}"
    aside = next(
        place
        for place in map(store.with_name, chain((name,), (f"{name}-{number}" for number in count(2))))
        if not any(map(os.path.lexists, sqlite_file.files_of(place)))
    )
    for suffix in ("", *sqlite_file.BESIDE):  # a journal, too, would be taken for that of the next file
        with contextlib.suppress(FileNotFoundError):
            store.with_name(store.name + suffix).rename(aside.with_name(aside.name + suffix))
    return aside if aside.exists() else None


def _raise_numbers(path: Path, highest: int) -> None:
    with _opened(path) as connection:
        connection.execute(
            "INSERT INTO sums (name, state, number, cost, size) VALUES ('highest', '', ?, 0, 0)"
            " ON CONFLICT (name, state) DO UPDATE SET number = max(number, excluded.number)",
            (highest,),
        )
        if connection.execute("PRAGMA journal_mode = DELETE").fetchone()[0] != "delete":
            raise sqlite3.OperationalError("its log cannot be written into it")


def _highest_in(store: Path) -> int:
    """The highest number in a store that may be damaged, or gone."""
    if not store.exists() or not store.stat().st_size:
        return 0
    found = [0]
    with contextlib.suppress(sqlite3.Error, ValueError), _opened(store) as connection:
        for query in ("SELECT max(number) FROM jobs", "SELECT number FROM sums WHERE name = 'highest'"):
            found += (int(number or 0) for (number,) in connection.execute(query))
    return max(found)


def _remove(path: Path) -> None:
    """Delete a draft, and the files that SQLite left beside it."""
    for each in sqlite_file.files_of(path):
        with contextlib.suppress(OSError):
            each.unlink()


def _there(path: Path) -> bool:
    """Whether there is a file with content, or a link to one."""
    return path.exists() and path.stat().st_size > 0


def _now() -> str:
    return datetime.now().astimezone().isoformat(" ", "seconds")
