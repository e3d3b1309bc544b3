"""Files that clients upload for their jobs, stored by content: received in parts, checked and removed.

Under the data folder, `uploads/NAME` is a whole file and `uploads/NAME.part` the received part of one. The
name is the file's SHA-256, for a user's file one derived from both: each user has only the files that they
sent, as knowledge of a hash does not prove knowledge of the file. A user's files take at most half of the
room that others leave. Only the daemon reads them there: `file_delivery.py` passes them to drivers.
"""

import contextlib
import hashlib
import math
import os
import re
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import structlog

from conf.schema import UploadsSection
from conf.units import SECONDS_PER_DAY
from conf.uploaded_file import SHA256, UploadedFile
from conf.util.counted import counted
from daemon.core.errors import RejectedError
from daemon.core.identity import mark_of, stored_name, stored_names
from daemon.store.rows.database import is_full

log = structlog.get_logger("uploads")

#: Bytes of the disk that uploads leave to the job store and to jobs.
_SPARED = 256 << 20
#: Files that stay free: a disk has a number of them too, and many small ones take them all.
_SPARED_FILES = 10_000
#: Bytes that a file counts at least: a disk has room for so many files only.
_LEAST = 4 << 10
#: Seconds after which an incomplete file is removed, when no more of it arrives.
_PART_AGE = SECONDS_PER_DAY
#: Seconds for which a file that had its hash is passed on without another look: many drivers may want it.
_RIGHT = 600.0
_READ = 1 << 20
_UNNEEDED = "files that no job needs are removed after uploads.age days, or by `stoker prune`"
_NAME = re.compile(rf"(?:(?P<mark>[0-9a-f]{{16}})-)?{SHA256}(\.part)?")


@dataclass(frozen=True, slots=True)
class Upload:
    """State of a file's upload: bytes received, and whether it is complete."""

    sha256: str
    received: int
    complete: bool


class _Room(NamedTuple):
    """Bytes of all files, as they count; bytes and number of one user's."""

    used: int
    own: int
    files: int


class Uploads:
    """The files in one folder; every method may be called from any thread."""

    def __init__(self, folder: Path, rules: UploadsSection, *, now: Callable[[], float] = time.time) -> None:
        self._folder = folder
        self._rules = rules
        self._now = now
        #: Locks of the files that are being changed, with the number of threads that have or want each.
        self._locks: dict[str, tuple[threading.Lock, int]] = {}
        self._locking = threading.Lock()
        #: Until when (monotonic) files are not read again that had their hash.
        self._right: dict[str, float] = {}
        self._counting = threading.Lock()
        #: Bytes that are here, as they count, and files, by the mark of their user; None: not counted yet.
        self._used: tuple[Counter[str], Counter[str]] | None = None

    def status(self, sha256: str, user: str = "") -> Upload | None:
        """State of a user's upload, which is kept for now; None when there is none."""
        name = stored_name(sha256, user)
        self._touch(name)
        # In this order: when all of it has come, the one becomes the other.
        for path, complete in ((self._part(name), False), (self._folder / name, True)):
            with contextlib.suppress(FileNotFoundError):
                return Upload(sha256, path.stat().st_size, complete)
        return None

    def put(self, sha256: str, size: int, offset: int, data: bytes, user: str = "") -> Upload:
        """Store the part of a user's file of `size` bytes that begins at `offset`; the last completes it.

        RejectedError when it is too large, does not follow the received part, differs from its hash, or
        cannot be stored; then nothing of the part remains.
        """
        self._check_size(size, user)
        if offset + len(data) > size:
            detail = f"{offset + len(data)} bytes of a file whose size was given as {size}"
            raise RejectedError(422, "The part does not fit", detail)
        name = stored_name(sha256, user)
        with self._lock(name):
            found = self.status(sha256, user)
            if found is not None and found.complete:
                return found
            there = 0 if found is None else found.received
            if there > size:  # the client did not mean this file
                self._unlink(self._part(name))
                there = 0
            if offset != there:
                detail = f"{there} bytes are there: the next part begins at {there}, not at {offset}"
                raise RejectedError(409, "Not the next part", detail, {"Upload-Offset": str(there)})
            try:
                self._make_room(len(data), user)
                return self._take(sha256, name, size, offset, data)
            except OSError as error:
                status, title = (507, "No room") if is_full(error) else (503, "The file cannot be kept")
                detail = f"the daemon's disk does not accept it: {error.strerror or error}"
                raise RejectedError(status, title, detail, {"Retry-After": "30"}) from error

    def use(self, file: UploadedFile, user: str = "", owner: str = "") -> None:
        """Note that a job of the owner's is to have this file of the user's, which keeps it for now.

        ValueError when the user has sent no such file.
        """
        name = stored_name(file.sha256, user)
        with self._lock(name):
            if not self._touch(name):
                raise _not_sent(file)
            if user and owner and user != owner:
                theirs = stored_name(file.sha256, owner)
                with contextlib.suppress(FileExistsError):
                    os.link(self._folder / name, self._folder / theirs)
                    self._count(theirs, _counted((self._folder / name).stat().st_size), 1)

    def look(self, file: UploadedFile, user: str = "") -> Path:
        """Path of a user's file, without prolonging its storage; ValueError as in `use`."""
        path = self._folder / stored_name(file.sha256, user)
        if not path.is_file():
            raise _not_sent(file)
        return path

    def check_sizes(self, sizes: Mapping[str, int], user: str = "") -> None:
        """RejectedError where files of a user's, so many bytes by hash, could not be taken now."""
        for size in sizes.values():
            self._check_size(size, user)
        there = (sha256 for sha256 in sizes if (self._folder / stored_name(sha256, user)).is_file())
        if missing := sum(sizes.values()) - sum(sizes[sha256] for sha256 in there):
            there_already = (each for each in (self._folder, *self._folder.parents) if each.is_dir())
            self._check_room(missing, next(there_already), user)

    def path(self, file: UploadedFile, owner: str = "") -> Path:
        """Path of this file of a job of the owner's; ValueError when it is missing (or removed).

        It does no access check: `use` did, when the job was accepted.
        """
        for name in stored_names(file.sha256, owner):
            if (path := self._folder / name).is_file():
                return path
        raise ValueError(
            f"{file.name}: this daemon does not have a file with the hash {file.sha256} (any more)"
        )

    def checked(self, file: UploadedFile, owner: str = "") -> Path:
        """Path as `path`, of a file that still has its hash; ValueError when a disk has changed it.

        Then it is removed, so that it can be sent again.
        """
        path = self.path(file, owner)
        with self._lock(path.name):
            if time.monotonic() < self._right.get(path.name, -math.inf):
                return path
            with path.open("rb") as opened:
                right = _hash(opened.fileno()) == file.sha256
            if not right:
                log.error("the disk has changed an uploaded file, which is removed", sha256=file.sha256)
                self._unlink(path)
                raise ValueError(f"{file.name}: the daemon's disk has changed this file; send it again")
            self._right[path.name] = time.monotonic() + _RIGHT
        return path

    def sweep(
        self, needed: Callable[[], Collection[str]], age: float | None = None, *, dry_run: bool = False
    ) -> tuple[int, int]:
        """Remove files untouched for `age` days (None: by the rules) and not needed; return files and bytes.

        `needed` returns the names of files that jobs still need. With `dry_run`, only count them.
        """
        old = [entry.name for entry in self._entries() if self._is_old(Path(entry.path), age)]
        kept = needed() if old else ()
        number = size = 0
        for name in old:
            with self._lock(name.removesuffix(".part")):
                path = self._folder / name
                # Somebody may have begun to use it since.
                if name not in kept and self._is_old(path, age):
                    number, size = number + 1, size + path.stat().st_size
                    if not dry_run:
                        self._unlink(path)
        return number, size

    def _is_old(self, path: Path, age: float | None) -> bool:
        limit = SECONDS_PER_DAY * (self._rules.age if age is None else age)
        try:
            untouched = self._now() - path.stat().st_mtime
        except FileNotFoundError:
            return False
        return untouched > (min(limit, _PART_AGE) if path.name.endswith(".part") else limit)

    def _take(self, sha256: str, name: str, size: int, offset: int, data: bytes) -> Upload:
        part = self._part(name)
        new = not part.exists()
        file = os.open(part, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        if new:
            self._count(name, _counted(offset), 1)
        try:
            try:
                _write(file, offset, data)
            except OSError:
                os.ftruncate(file, offset)
                raise
            self._count(name, _counted(offset + len(data)) - _counted(offset))
            if offset + len(data) < size:
                return Upload(sha256, offset + len(data), complete=False)
            os.fsync(file)
            if _hash(file) != sha256:
                self._unlink(part)
                detail = (
                    "the received bytes have another hash than the file's name states; none of them are "
                    "stored: send it again"
                )
                raise RejectedError(422, "Not that file", detail)
        finally:
            os.close(file)
        part.rename(self._folder / name)
        _sync(self._folder)
        log.info("a file was uploaded", sha256=sha256, bytes=size)
        return Upload(sha256, size, complete=True)

    def _make_room(self, size: int, user: str) -> None:
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._check_room(size, self._folder, user)

    def _check_size(self, size: int, user: str) -> None:
        if user and size > self._rules.total << 19 and size <= self._rules.size << 20:
            limit = f"one user's files may have half of the {self._rules.total} MiB of all (uploads.total)"
            raise RejectedError(413, "The file is too large", limit)
        if size > self._rules.size << 20:
            limit = f"a file may have {self._rules.size} MiB (uploads.size)"
            detail = limit if self._rules.size else "this daemon accepts no files (uploads.size is 0)"
            raise RejectedError(413, "The file is too large", detail)

    def _check_room(self, size: int, folder: Path, user: str) -> None:
        here, total = self._room(user), self._rules.total << 20
        if here.used + size > total:
            detail = f"{here.used >> 20} of {self._rules.total} MiB are used (uploads.total); {_UNNEEDED}"
            raise RejectedError(507, "No room", detail, {"Retry-After": "30"})
        disk = os.statvfs(folder)
        if disk.f_bavail * disk.f_frsize - size < _SPARED:
            detail = f"the daemon's disk has no more than {_SPARED >> 20} MiB left, which are for jobs"
            raise RejectedError(507, "No room", detail, {"Retry-After": "30"})
        if disk.f_files and disk.f_favail < _SPARED_FILES:  # some file systems count none
            detail = f"the daemon's disk has no more than {_SPARED_FILES:,} files left, which are for jobs"
            raise RejectedError(507, "No room", detail, {"Retry-After": "30"})
        left = min(total - here.used, disk.f_bavail * disk.f_frsize - _SPARED)
        files = disk.f_favail - _SPARED_FILES if disk.f_files else here.files + 2
        full = here.own + size > (here.own + left) // 2 or here.files + 1 > (here.files + files) // 2
        if user and full:
            detail = (
                f"{user} has {counted(here.files, 'uploaded file')}, {here.own >> 20} MiB: one user may have "
                f"half of what others leave of {self._rules.total} MiB (uploads.total) and of the disk; "
                f"{_UNNEEDED}"
            )
            raise RejectedError(507, "No room", detail, {"Retry-After": "30"})

    def _unlink(self, path: Path) -> None:
        size = path.stat().st_size
        path.unlink()
        self._right.pop(path.name, None)
        self._count(path.name, -_counted(size), -1)

    def _touch(self, name: str) -> bool:
        try:
            os.utime(self._folder / name, (self._now(), self._now()))
        except FileNotFoundError:
            return False
        return True

    def _count(self, name: str, size: int, files: int = 0) -> None:
        """Note a change that has been made: so many bytes and files of that name more."""
        with self._counting:
            if self._used is not None:
                for counts, change in zip(self._used, (size, files), strict=True):
                    counts[_mark(name)] += change

    def _room(self, user: str) -> _Room:
        """Bytes here of all, and of a user."""
        with self._counting:
            if self._used is None:
                self._used = Counter(), Counter()
                for entry in self._entries():
                    with contextlib.suppress(FileNotFoundError):
                        self._used[0][_mark(entry.name)] += _counted(
                            entry.stat(follow_symlinks=False).st_size
                        )
                        self._used[1][_mark(entry.name)] += 1
            sizes, files = self._used
            return _Room(sizes.total(), sizes[mark_of(user)], files[mark_of(user)])

    def _entries(self) -> Iterator["os.DirEntry[str]"]:
        with contextlib.suppress(FileNotFoundError), os.scandir(self._folder) as entries:
            yield from (entry for entry in entries if _NAME.fullmatch(entry.name))

    def _part(self, name: str) -> Path:
        return self._folder / f"{name}.part"

    @contextlib.contextmanager
    def _lock(self, name: str) -> Iterator[None]:
        """Change a file alone. Its last part is hashed meanwhile, which may take long."""
        with self._locking:
            lock, number = self._locks.get(name, (threading.Lock(), 0))
            self._locks[name] = lock, number + 1
        try:
            with lock:
                yield
        finally:
            with self._locking:
                _, number = self._locks.pop(name)
                if number > 1:
                    self._locks[name] = lock, number - 1


def _mark(name: str) -> str:
    """The mark of the user in a stored name; empty without one."""
    found = _NAME.fullmatch(name)
    return (found and found["mark"]) or ""


def _counted(size: int) -> int:
    return max(size, _LEAST)


def _not_sent(file: UploadedFile) -> ValueError:
    return ValueError(f"{file.name}: no file with the hash {file.sha256} was uploaded, or it was removed")


def _write(file: int, offset: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        written = os.pwrite(file, view, offset)
        view, offset = view[written:], offset + written


def _hash(file: int) -> str:
    digest, offset = hashlib.sha256(), 0
    while data := os.pread(file, _READ, offset):
        digest.update(data)
        offset += len(data)
    return digest.hexdigest()


def _sync(folder: Path) -> None:
    at = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(at)
    finally:
        os.close(at)
