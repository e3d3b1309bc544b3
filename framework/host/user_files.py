"""Files that users name by a path: opened once, with the user's rights, and judged by the open file alone.

Between a check of a path and its use, the path can become a link to another file, a FIFO or a device. So it
is opened once, without waiting, by a thread that has the user's rights on files and no others; the permission
is checked on the descriptor. A thread that hangs, say on a file system that is gone, is written off: no
caller waits for it, the number of such threads is bounded, and none keeps the process from ending.
"""

import ctypes
import errno
import os
import platform
import stat
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from framework.host.openat2 import NO_MAGIC_LINKS, openat2
from framework.host.unix_users import UnixAccount, mode_allows
from framework.host.untrusted_files import UntrustedFileError

T = TypeVar("T")

# A FIFO without a writer would hold up the open.
_FLAGS = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_LIBRARY = ctypes.CDLL(None, use_errno=True)
#: Flags of a step on the way to a file, the number of links that the kernel follows, and the type of /proc
#: (linux/magic.h).
_STEP, _MOST_LINKS, _PROC = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, 40, 0x9FA0
#: The number of setgroups(2), which the C library would have all threads do.
_SETGROUPS = {"x86_64": 116, "aarch64": 159, "riscv64": 159, "ppc64le": 81, "s390x": 206}
#: Seconds for the files of one job.
_PATIENCE = 5.0
#: Threads that may hang at once: of one user, and of all. A user may have more that hang by many requests at
#: once; these are not counted, since two users could otherwise block everybody.
_HANGING_OF_ONE, _HANGING = 4, 64
#: Seconds for which the lack of a thread counts, unless one starts earlier. Chosen: a few probes of /readyz.
_SCARCE_FOR = 60.0
_NO_ROOM = "this machine has no room for another thread now"


class NoThreadError(TimeoutError):
    """No thread could be started to read a user's file: no fault of the file."""


@dataclass(frozen=True, slots=True)
class OpenFile:
    """A file that is open for reading: its descriptor, and its path with all links followed."""

    descriptor: int
    path: Path
    folder: bool


@dataclass(frozen=True, slots=True)
class _Look:
    """A thread's work, since when (monotonic)."""

    user: str
    about: str
    since: float


class UserFiles:
    """Reads users' files on threads of their own. From any thread."""

    def __init__(self, patience: float = _PATIENCE) -> None:
        """`patience` is the longest time of one read in seconds."""
        self._patience = patience
        self._lock = threading.Lock()
        #: Looks with a running thread; those that took too long are written off, and stay here until they
        #: end.
        self._running: set[_Look] = set()
        #: Until when the lack of a thread counts (monotonic).
        self._scarce_until = 0.0

    @property
    def hanging(self) -> list[str]:
        """The looks that take too long, in words."""
        return [f"{look.about} of {look.user}" for look in self._late()]

    def trouble(self) -> str:
        """Message when reads do not start or end; else empty. It names no file: every caller may read it."""
        if time.monotonic() < self._scarce_until:
            return _NO_ROOM
        number = len(self._late())
        return f"reads of users' files hang: {number}" if number else ""

    def look(self, account: UnixAccount | None, about: str, work: Callable[[], T], asker: str = "") -> T:
        """Do `work` on a thread with the rights that the user has on files (None: our own); its result.

        Raises as it does; TimeoutError when it takes too long, or too many earlier ones of the asker (without
        one: of the user) hang.
        """
        user = "the daemon's user" if account is None else account.name
        look = _Look(asker or user, about, time.monotonic())
        late = self._late()
        hanging = Counter(one.user for one in late)
        counted = sum(min(count, _HANGING_OF_ONE) for count in hanging.values())
        if hanging[look.user] >= _HANGING_OF_ONE or counted >= _HANGING:
            own = next((f", for example {one.about}" for one in late if one.user == look.user), "")
            raise TimeoutError(f"earlier reads hang{own}")
        done: Future[T] = Future()
        with self._lock:
            self._running.add(look)
        try:
            threading.Thread(
                target=self._run, args=(look, account, work, done), name="user files", daemon=True
            ).start()
        except RuntimeError:
            with self._lock:
                self._running.discard(look)
                self._scarce_until = time.monotonic() + _SCARCE_FOR
            raise NoThreadError(_NO_ROOM) from None
        self._scarce_until = 0.0
        try:
            return done.result(self._patience)
        except TimeoutError:
            raise TimeoutError(f"took more than {self._patience:.0f} s") from None

    def _run(
        self, look: _Look, account: UnixAccount | None, work: Callable[[], T], done: "Future[T]"
    ) -> None:
        try:
            if account is not None and os.geteuid() == 0:
                _become(account)
            done.set_result(work())
        except BaseException as error:
            done.set_exception(error)
        finally:
            with self._lock:
                self._running.discard(look)

    def _late(self) -> list[_Look]:
        now = time.monotonic()
        with self._lock:
            late = [look for look in self._running if now - look.since > self._patience]
        return sorted(late, key=lambda look: look.since)


def has_rights_of(account: UnixAccount | None) -> bool:
    """Whether `UserFiles.look` looks with the rights of this account; else with those of the daemon."""
    return account is None or os.geteuid() in (0, account.uid)


def placed(path: Path) -> Path:
    """The path without links, as the kernel follows them.

    Where it is not there, the path of its nearest parent that is, and the rest. The kernel follows forty
    links at most, and holds up no other thread meanwhile.
    """
    for parent in (path, *path.parents):
        try:
            descriptor = _open(parent, os.O_PATH | os.O_CLOEXEC)
        except OSError:
            continue
        try:
            found = _place(descriptor)
        finally:
            os.close(descriptor)
        return Path(os.path.normpath(found / path.relative_to(parent)))
    return path


def _open(path: Path, flags: int) -> int:
    """Open a path by the rights on its way alone; OSError, ELOOP for one that leads through /proc.

    Step by step where there is no openat2(2).
    """
    descriptor = openat2(path, flags, NO_MAGIC_LINKS)
    return _open_by_steps(path, flags) if descriptor is None else descriptor


def _open_by_steps(path: Path, flags: int) -> int:
    """Open a path as `_open` does, without openat2(2); OSError, ELOOP for any link of /proc."""

    def step(name: str) -> int:
        try:
            return os.open(name, _STEP | os.O_DIRECTORY, dir_fd=at)  # which mounts it where that is needed
        except NotADirectoryError:
            return os.open(name, _STEP, dir_fd=at)

    steps, links, at = [*reversed(path.parts)], 0, os.open(".", _STEP)
    try:
        while steps:
            below = step(steps.pop())
            if stat.S_ISLNK(os.fstat(below).st_mode):
                links += 1
                try:
                    if links > _MOST_LINKS or _is_of_proc(below):
                        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path))
                    steps += reversed(Path(os.readlink("", dir_fd=below)).parts)
                finally:
                    os.close(below)
            else:
                os.close(at)
                at = below
        return os.open(f"/proc/self/fd/{at}", flags)
    finally:
        os.close(at)


def _is_of_proc(descriptor: int) -> bool:
    status = (ctypes.c_long * 32)()  # struct statfs and more: its first field is the type
    if _LIBRARY.fstatfs(descriptor, status):
        raise OSError(ctypes.get_errno(), "fstatfs")
    return int(status[0]) == _PROC


def _place(descriptor: int) -> Path:
    return Path(f"/proc/self/fd/{descriptor}").readlink()


@contextmanager
def opened(path: Path, account: UnixAccount | None = None, *, folders: bool = False) -> Iterator[OpenFile]:
    """Open a regular file, with `folders` also a folder, by `UserFiles.look` with the user's rights.

    Links are followed: with the user's rights they lead to files that the user may read. Where this process
    has no right to become the user, the modes of the opened file decide first, and a path that cannot be
    opened counts as one that may not be read: the reason would tell what is there.

    FileNotFoundError, PermissionError; UntrustedFileError for a FIFO, a device or a socket.
    """
    other = not has_rights_of(account)
    try:
        descriptor = _open(path, _FLAGS)
    except OSError as error:
        if other:
            raise PermissionError(error.errno, error.strerror) from None
        if error.errno in (errno.ELOOP, errno.ENXIO):  # links in a circle; a socket
            raise UntrustedFileError("is not a regular file") from None
        raise
    try:
        status = os.fstat(descriptor)
        folder = stat.S_ISDIR(status.st_mode)
        found = OpenFile(descriptor, _place(descriptor), folder)
        if other and account is not None and not _may_read(account, found.path, status):
            raise PermissionError("by its mode")
        if not (stat.S_ISREG(status.st_mode) or (folder and folders)):
            raise UntrustedFileError("is not a regular file")
        yield found
    finally:
        os.close(descriptor)


def _may_read(account: UnixAccount, path: Path, status: os.stat_result) -> bool:
    enters = all(mode_allows(account, folder.stat(), stat.S_IXOTH) for folder in path.parents)
    return enters and mode_allows(account, status, stat.S_IROTH)


def _become(account: UnixAccount) -> None:
    """Grant this thread alone the user's rights on files; it must do nothing else ever after."""
    groups = (ctypes.c_uint32 * len(account.groups))(*account.groups)
    number = _SETGROUPS.get(platform.machine())
    if number is None:
        raise OSError(f"no thread can become another user on {platform.machine()}")
    if _LIBRARY.syscall(number, len(groups), groups):
        raise OSError(ctypes.get_errno(), "setgroups")
    _LIBRARY.setfsgid(account.gid)
    _LIBRARY.setfsuid(account.uid)  # from here on without root's rights on files
    if (_LIBRARY.setfsgid(-1), _LIBRARY.setfsuid(-1)) != (account.gid, account.uid):
        raise OSError(f"no thread can become {account.name}")
