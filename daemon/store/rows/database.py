"""The database under the job store: connections, transactions that share commits, one daemon at a time.

Nothing here knows of jobs. SQLite is a file of this machine; PostgreSQL is given by its URL.
"""

import contextlib
import errno
import fcntl
import os
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from secrets import token_hex
from threading import Event, Lock
from typing import Any, Generic, TypeVar

import sqlalchemy as sa
from sqlalchemy.engine import URL, Connection, Engine, make_url
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from conf.errors import ReportedError
from conf.util.regular_file import open_own
from daemon.store.rows import sqlite_file
from daemon.store.rows.checksummed import UnreadableRowError

Result = TypeVar("Result")

#: Seconds for which a writer waits for another process that is writing, and PostgreSQL for a connection.
_PATIENCE = 10
#: A connection whose other end has vanished is given up by us after 5 s, by the server after 11 s.
_KEEPALIVE: dict[str, int | str] = {
    "tcp_user_timeout": 5000,
    "keepalives_idle": 2,
    "keepalives_interval": 1,
    "keepalives_count": 3,
    "options": "-c tcp_keepalives_idle=5 -c tcp_keepalives_interval=2 -c tcp_keepalives_count=3",
}
#: Where a connection keeps values for the length of a transaction.
_NOTES = "stoker"
_STUCK = "another process is writing and does not finish"
_NO_ROOM = "the disk is full"
_NOT_OPEN = "it cannot be opened: its folder should exist and be writable"
_NOT_WRITABLE = "the disk cannot be written (full, or over a limit?) or is failing"
#: Messages of database drivers, in plain words for operators.
_PLAINLY = {
    "database or disk is full": _NO_ROOM,
    "No space left on device": _NO_ROOM,
    "attempt to write a readonly database": "it is read-only",
    "read-only transaction": "it is read-only",
    "unable to open database file": _NOT_OPEN,
    "file is not a database": "it is corrupt, or no SQLite file",
    "disk image is malformed": "it is corrupt; restore it from a copy",
    "malformed database schema": "it is corrupt; restore it from a copy",
    "disk I/O error": _NOT_WRITABLE,
    "database is locked": _STUCK,
    "due to lock timeout": _STUCK,
}


class StoreError(ReportedError):
    """The store cannot be read or written; the text says which one and why."""


class StoreBusyError(StoreError):
    """Another daemon works on the store."""


class StoreStuckError(StoreError):
    """Another process is in the middle of a transaction, and does not finish it."""


class StoreFullError(StoreError):
    """The disk of the store has no room now."""


#: Temporary errors, by their words.
_PASSING = {_STUCK: StoreStuckError, _NO_ROOM: StoreFullError, _NOT_WRITABLE: StoreFullError}
#: The system's errors for a disk without room: it is full, over a quota, or over a limit of the process.
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class DeposedError(StoreError):
    """Another daemon has taken the lead since; nothing was written."""


class Database:
    """An opened database. Every method may be called from any thread.

    Writers take turns; those that come during a commit share the next one, so that each waits for about one
    flush to the disk, however many there are.
    """

    def __init__(self, url: str) -> None:
        self._url = _parse(url)
        self.name = str(self.path or self._url.render_as_string(hide_password=True))
        self._file: tuple[int, int] | None = None
        self._lock: _FileLock | None = None
        #: Name of this process for PostgreSQL, and for others as a holder of the lease.
        self.session = f"stoker {token_hex(4)} {_me()}"[:63]
        with self._errors():
            self._engine = self._open()
            self._writing = self._engine.execution_options(writes=True)
        self._writer = _Writer(self._transaction)

    @property
    def path(self) -> Path | None:
        """The SQLite file; None for PostgreSQL."""
        return Path(str(self._url.database)) if self._url.get_backend_name() == "sqlite" else None

    @property
    def shared(self) -> bool:
        """Whether daemons on several hosts can reach it."""
        return self.path is None

    def note_made(self, at: str) -> None:
        """Record beside an SQLite file that a store was made there, so that none is made in its place."""
        if self.path is None:
            return
        try:
            sqlite_file.note(self.path, at)
        except OSError as error:
            note = sqlite_file.note_of(self.path)
            kind = StoreFullError if is_full(error) else StoreError
            raise kind(f"{note} cannot be written: {error.strerror or error}") from error

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """Yield a connection with one consistent state of the store; StoreError when it cannot be read."""
        with self._errors(), self._engine.begin() as connection:
            yield connection

    def write(self, work: Callable[[Connection], Result], *, first: bool = False) -> Result:
        """Run the work in a transaction, on disk when this returns; StoreError when it could not be stored.

        `work` may be called again when the first try fails, so it should only use its connection.
        Work marked `first` waits only for work that has already begun.
        """
        with self._errors():
            return self._writer.run(work, first=first)

    def lock(self, *, shared: bool = False) -> None:
        """Exclude other daemons until this one closes or dies; StoreBusyError when another holds the lock.

        `shared` excludes only daemons that do not share. Where the store is no file, a lease does that.
        """
        if self._lock is None and self.path is not None:
            path = self.path.with_name(self.path.name + ".lock")
            self._lock = _FileLock(path, self.name, shared=shared)

    def unlock(self) -> None:
        """Release the lock."""
        lock, self._lock = self._lock, None
        if lock is not None:
            lock.close()

    def time(self) -> float:
        """Seconds since the epoch: the server's, if there is one."""
        if self.path is not None:
            return time.time()
        with self.read() as connection:
            return float(connection.scalar(sa.text("SELECT extract(epoch FROM clock_timestamp())")) or 0.0)

    def end_session(self, session: str) -> None:
        """End the PostgreSQL connections of the session with that name; StoreError on failure."""
        with self._errors(), self._engine.begin() as connection:
            connection.execute(_END_SESSION, {"session": session})

    def close(self) -> None:
        """Close connections and release the lock."""
        self.unlock()
        self._engine.dispose()

    @contextmanager
    def _transaction(self) -> Iterator[Connection]:
        self._check_file()
        with self._writing.begin() as connection:
            connection.info[_NOTES] = {}
            yield connection

    def _check_file(self) -> None:
        if self.path is None or self._file is None:
            return
        try:
            now = _identity(self.path)
        except OSError as error:
            raise StoreError(f"the job store {self.name} is gone: {error.strerror}") from error
        if now != self._file:
            raise StoreError(f"the job store {self.name} was replaced by another file; restart the daemon")

    def _open(self) -> Engine:
        if self.path is None:
            options = {"application_name": self.session, "connect_timeout": _PATIENCE}
            options |= {key: value for key, value in _KEEPALIVE.items() if key not in self._url.query}
            return sa.create_engine(self._url, connect_args=options, pool_pre_ping=True, max_overflow=40)
        self._make_private(self.path)
        engine = sa.create_engine(self._url, connect_args={"timeout": _PATIENCE}, max_overflow=40)
        sa.event.listen(engine, "connect", _set_up_sqlite)
        sa.event.listen(engine, "begin", _begin_sqlite)
        return engine

    def _make_private(self, path: Path) -> None:
        """A job's environment may hold secrets, so the file is its owner's only."""
        if wrong := sqlite_file.fault(path):
            raise StoreError(f"the job store {self.name} {wrong}")
        try:
            with contextlib.suppress(FileExistsError):  # which is not so of a link that leads nowhere
                os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
            os.close(os.open(path, os.O_RDWR | os.O_CLOEXEC))
            self._file = _identity(path)
        except OSError as error:
            kind = StoreFullError if is_full(error) else StoreError
            raise kind(f"the job store {self.name} cannot be opened: {error.strerror}") from error

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except UnreadableRowError as error:
            raise StoreError(f"the job store {self.name} holds a row that cannot be read: {error}") from error
        except SQLAlchemyError as error:
            words = _in_words(error)
            if words == _NOT_OPEN and self.path is not None and _has_no_files(self.path.parent):
                words = _NO_ROOM  # for SQLite's journal
            kind = _PASSING.get(words, StoreError)
            raise kind(f"the job store {self.name} cannot be used: {words}") from error


def _has_no_files(folder: Path) -> bool:
    """Whether the folder's disk has no file left, though it may have bytes."""
    with contextlib.suppress(OSError):
        disk = os.statvfs(folder)
        return disk.f_files > 0 and not disk.f_favail
    return False


def notes(connection: Connection) -> dict[str, Any]:
    """Notes shared by all writers of a transaction, for its duration."""
    found: dict[str, Any] = connection.info[_NOTES]
    return found


class _Write(Generic[Result]):
    """One piece of work, then its outcome; `called` is set when there is one, or when its turn has come."""

    def __init__(self, work: Callable[[Connection], Result], *, first: bool = False) -> None:
        self.work = work
        self.first = first
        self.called = Event()
        self.done = False
        self._results: list[Result] = []
        self._error: Exception = StoreError("the write was interrupted; none of it was stored")

    def fail(self, error: Exception) -> None:
        self.done, self._error = True, error

    def succeed(self, result: Result) -> None:
        self.done = True
        self._results.append(result)

    def result(self) -> Result:
        if not self._results:
            raise self._error
        return self._results[0]


class _Writer:
    """Group commit: one thread runs all queued work in a single transaction.

    Work marked `first` runs before, in a transaction of its own, so that nothing else delays it.
    """

    def __init__(self, transaction: Callable[[], contextlib.AbstractContextManager[Connection]]) -> None:
        self._transaction = transaction
        self._guard = Lock()  # for the following
        self._taken = False
        self._waiting: list[_Write[Any]] = []

    def run(self, work: Callable[[Connection], Result], *, first: bool = False) -> Result:
        write = _Write(work, first=first)
        with self._guard:
            self._waiting.append(write)
            waits, self._taken = self._taken, True
        if waits:
            write.called.wait()
        if not write.done:
            self._take_turn()
        return write.result()

    def _take_turn(self) -> None:
        with self._guard:
            writes, self._waiting = self._waiting, []
        try:
            for first in (True, False):
                batch = [write for write in writes if write.first is first]
                if batch:
                    self._commit(batch)
                for write in batch:
                    write.done = True
                    write.called.set()
        finally:
            for write in writes:
                write.done = True
                write.called.set()
            with self._guard:
                self._taken = bool(self._waiting)
                if self._taken:
                    self._waiting[0].called.set()

    def _commit(self, writes: list[_Write[Any]]) -> None:
        try:
            with self._transaction() as connection:
                results = [write.work(connection) for write in writes]
        except Exception as error:
            if len(writes) == 1:
                writes[0].fail(error)
                return
            for write in writes:  # one of them may have spoilt it for all
                self._commit([write])
        else:
            for write, result in zip(writes, results, strict=True):
                write.succeed(result)


class _FileLock:
    """A lock on a file that names its last holder; it ends with the process, however that ends."""

    def __init__(self, path: Path, store: str, *, shared: bool) -> None:
        try:
            self._file = open_own(path)
        except OSError as error:
            raise StoreError(f"the job store's lock {path} cannot be opened: {error.strerror}") from error
        except ValueError as error:
            raise StoreError(f"the job store's lock {path} is {error}") from error
        try:
            fcntl.flock(self._file, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
        except OSError as error:
            holder = os.pread(self._file, 200, 0).decode("utf-8", "replace").strip()
            os.close(self._file)
            raise _busy(store, holder) from error
        self._say(f"{_me()}\n")

    def close(self) -> None:
        self._say("")
        os.close(self._file)

    def _say(self, holder: str) -> None:
        """Write the holder's name into the file, for people; a full disk does no harm."""
        with contextlib.suppress(OSError):
            os.ftruncate(self._file, 0)
            os.pwrite(self._file, holder.encode(), 0)


_END_SESSION = sa.text(
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
    " WHERE application_name = :session AND pid <> pg_backend_pid()"
)


def is_full(error: BaseException | None) -> bool:
    """Whether an error or its cause is a full disk, which may have room again later."""
    while error is not None:
        if isinstance(error, StoreFullError) or (isinstance(error, OSError) and error.errno in _FULL):
            return True
        error = error.__cause__
    return False


def _busy(store: str, holder: str) -> StoreBusyError:
    who = f" ({holder})" if holder else ""
    return StoreBusyError(f"the job store {store} is in use by another daemon{who}; stop that one first")


def _me() -> str:
    return f"pid {os.getpid()} on {socket.gethostname()}"


def _identity(path: Path) -> tuple[int, int]:
    status = path.stat()
    return status.st_dev, status.st_ino


def _parse(text: str) -> URL:
    try:
        url = make_url(text)
    except SQLAlchemyError as error:
        raise StoreError("the job store's URL should be like sqlite:////folder/file.db") from error
    kind = url.drivername.partition("+")[0]
    if kind in ("postgresql", "postgres"):
        return url.set(drivername="postgresql+psycopg")
    if kind != "sqlite":
        raise StoreError(f"the job store should be sqlite or postgresql, found {kind}")
    if not url.database or url.database == ":memory:" or url.database.startswith("file:"):
        raise StoreError("the job store should be a file: sqlite:////folder/file.db")
    return url.set(drivername="sqlite", query={})


def _set_up_sqlite(connection: Any, _: object) -> None:
    # Transactions are begun by `_begin_sqlite`, not by the driver's guesses.
    connection.isolation_level = None
    # One byte that a disk has changed must not keep all other rows of a query from being read.
    connection.text_factory = lambda raw: raw.decode("utf-8", "surrogateescape")
    for setting in ("journal_mode = WAL", "synchronous = FULL", "foreign_keys = ON"):
        connection.execute(f"PRAGMA {setting}").close()


def _begin_sqlite(connection: Connection) -> None:
    # A transaction that begins as a reader may be refused when it turns to writing.
    writes = connection.get_execution_options().get("writes")
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


def _in_words(error: SQLAlchemyError) -> str:
    found = str(error.orig) if isinstance(error, DBAPIError) else str(error)
    plain = next((words for words_found, words in _PLAINLY.items() if words_found in found), None)
    return plain or (found.strip().splitlines() or [type(error).__name__])[0]
