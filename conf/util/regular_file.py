"""Reads regular files of bounded length, and never waits for any other kind of file."""

import os
import stat
from pathlib import Path


def read_regular(path: Path, most: int) -> bytes:
    """Read a regular file of so many bytes at most; never wait for, or read, any other kind of file.

    OSError or ValueError give the reason: no such file, no regular one (a FIFO, a device), too long.
    """
    opened = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    with os.fdopen(opened, "rb") as file:
        if not stat.S_ISREG(os.fstat(opened).st_mode):
            raise ValueError("not a regular file")
        data = file.read(most + 1)
    if len(data) > most:
        raise ValueError(f"too long: more than {most} bytes")
    return data
