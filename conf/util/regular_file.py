"""Reads regular files of bounded length, and never waits for any other kind of file."""

import errno
import os
import stat
from pathlib import Path


def open_regular(path: Path) -> int:
    """Open a regular file for reading, without waiting; the caller closes the descriptor.

    OSError when it cannot be opened, ValueError for another kind of file (a FIFO, a device).
    """
    opened = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(opened).st_mode):
        os.close(opened)
        raise ValueError("not a regular file")
    return opened


def open_own(path: Path, flags: int = os.O_RDWR) -> int:
    """Open a file of ours for writing, made if it is missing; the caller closes the descriptor.

    Never through a link, nor one of several names of a file: a stranger may have prepared the folder. OSError
    when it cannot be opened, ValueError for anything but a regular file of this one name.
    """
    wrong = "a link or no regular file, and not Stoker's; remove it"
    flags |= os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
    try:
        opened = os.open(path, flags, 0o600)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENXIO):  # a link; a FIFO that nobody reads
            raise ValueError(wrong) from error
        raise
    status = os.fstat(opened)
    if not stat.S_ISREG(status.st_mode) or status.st_nlink > 1:
        os.close(opened)
        raise ValueError(wrong)
    return opened


def read_regular(path: Path, most: int) -> bytes:
    """Read a regular file of so many bytes at most; never wait for, or read, any other kind of file.

    OSError or ValueError give the reason: no such file, no regular one, too long.
    """
    with os.fdopen(open_regular(path), "rb") as file:
        data = file.read(most + 1)
    if len(data) > most:
        raise ValueError(f"too long: more than {most} bytes")
    return data
