"""Files that others may have changed: opened below a folder without following a link, never waited for.

A user with write access to a folder may put a FIFO, a link to another user's file or an endless one where a
file is expected, or mount a file system of their own (FUSE) that never answers. Reads here accept a regular
file of that folder and its file system only, and return no more of it than requested.
"""

import errno
import os
import stat
from itertools import islice
from pathlib import Path, PurePosixPath

from framework.host.openat2 import NO_MOUNTS, openat2

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# A FIFO without a writer would block the process that opens it.
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
# A link; a part on the way that is no folder, or a link; a socket; another file system.
_NO_FILE = frozenset({errno.ELOOP, errno.ENOTDIR, errno.ENXIO, errno.EXDEV})


#: Files that a list of them has, and entries of a folder that are looked at.
MOST_LISTED = 500
#: Bytes that are copied at once.
_PART = 1 << 16


class UntrustedFileError(OSError):
    """The file is no regular file of the folder, or too large; the text names the actual kind."""


def open_beneath(folder: Path, name: str) -> int:
    """Open a regular file below `folder` for reading; returns its descriptor, which the caller closes.

    No part of `name` may be a link or a mount; those of `folder` may, they are the caller's. A kernel without
    openat2(2) enters mounts.

    FileNotFoundError when it, or the folder, is not there. UntrustedFileError when it is a link, a FIFO, a
    device, a folder, a file with another name elsewhere or of another owner than its folder, or is reached
    through a link or a mount. OSError when it cannot be opened.

    Where the kernel lets users link files that are not theirs (`fs.protected_hardlinks`), the other name may
    be gone by now, and with it the sign that there was one: so the owner counts as well.
    """
    *parents, last = PurePosixPath(name).parts
    if ".." in (*parents, last) or name.startswith("/"):
        raise UntrustedFileError(f"{name}: leads out of its folder")
    at = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for parent in parents:
            below = _open(parent, _DIRECTORY, at, name)
            os.close(at)
            at = below
        file = _open(last, _FILE, at, name)
        owner = os.fstat(at).st_uid
    finally:
        os.close(at)
    if fault := _fault(os.fstat(file), owner):
        os.close(file)
        raise UntrustedFileError(f"{name}: is {fault}")
    return file


def _fault(status: os.stat_result, owner: int) -> str:
    """The fault of a file that should be the owner's and regular; empty when it is both."""
    if not stat.S_ISREG(status.st_mode):
        return "not a regular file"
    if status.st_nlink > 1:
        return "a file with a second name elsewhere"
    return "a file of another user than its folder" if status.st_uid != owner else ""


def read_part(folder: Path, name: str, offset: int, limit: int) -> bytes:
    """At most `limit` bytes of a file below `folder` from `offset` on; empty when it is not there.

    OSError as `open_beneath` has it.
    """
    try:
        file = open_beneath(folder, name)
    except FileNotFoundError:
        return b""
    try:
        # Beyond the largest file of a file system, an offset would be an error.
        return os.pread(file, limit, offset) if offset < os.fstat(file).st_size else b""
    finally:
        os.close(file)


def read_tail(folder: Path, name: str, limit: int) -> bytes:
    """The last `limit` bytes of a file below `folder`; empty when it is not there. Raises as `read_part`."""
    try:
        file = open_beneath(folder, name)
    except FileNotFoundError:
        return b""
    try:
        return os.pread(file, limit, max(0, os.fstat(file).st_size - limit))
    finally:
        os.close(file)


def list_beneath(folder: Path, name: str, deep: int = 2) -> list[str]:
    """The names of regular files in a folder below `folder`, and in its folders: `MOST_LISTED` at most.

    So many entries of each are looked at.

    No link is followed, no mount entered. FileNotFoundError and UntrustedFileError as of `open_beneath`.
    """
    found: list[str] = []
    at = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for part in PurePosixPath(name).parts:
            below = _open(part, _DIRECTORY, at, name)
            os.close(at)
            at = below
        _list(at, name, deep, found)
    finally:
        os.close(at)
    return found


def _list(at: int, name: str, deep: int, found: list[str]) -> None:
    with os.scandir(at) as entries:
        for entry in islice(entries, MOST_LISTED):
            if len(found) >= MOST_LISTED:
                return
            path = f"{name}/{entry.name}"
            if entry.is_file(follow_symlinks=False):
                found.append(path)
            elif deep > 1 and entry.is_dir(follow_symlinks=False):
                below = _open(entry.name, _DIRECTORY, at, path)
                try:
                    _list(below, path, deep - 1, found)
                finally:
                    os.close(below)


def read_whole(folder: Path, name: str, limit: int) -> bytes:
    """A small file below `folder`.

    OSError as `open_beneath` has it; UntrustedFileError also when it holds more than `limit` bytes.
    """
    file = open_beneath(folder, name)
    try:
        data = os.pread(file, limit + 1, 0)
    finally:
        os.close(file)
    if len(data) > limit:
        raise UntrustedFileError(f"{name}: holds more than {limit} bytes")
    return data


def _open(part: str, flags: int, at: int, name: str) -> int:
    try:
        descriptor = openat2(part, flags, NO_MOUNTS, at)
        return os.open(part, flags, dir_fd=at) if descriptor is None else descriptor
    except OSError as error:
        if error.errno in _NO_FILE:
            raise UntrustedFileError(f"{name}: {part} is a link, a mount, or not a file") from None
        raise


def copy_file(source: int, to: int, most: int) -> int:
    """Copy at most `most` bytes between two descriptors; return their number."""
    left = most
    while left and (part := os.read(source, min(_PART, left))):
        rest = memoryview(part)
        while rest:
            rest = rest[os.write(to, rest) :]
        left -= len(part)
    return most - left
