"""Reads files and pipes named by a user, of bounded length and in bounded time.

A token file that everybody may read is rejected; callers check other secrets with `open_to_all` where it
matters. The daemon reads with this module, too.
"""

from __future__ import annotations

import os
import select
import stat
import time
from pathlib import Path

#: Chosen: seconds after which a pipe without an end is given up.
PATIENCE = 10.0
#: Chosen: bytes; a file of secrets beyond that is none.
_LONGEST_SECRET = 1 << 20
#: Elsewhere no program waits for a pipe, and nobody has owner and group.
_POSIX = os.name == "posix"
_BINARY = getattr(os, "O_BINARY", 0)


def read_bounded(path: Path, most: int, patience: float = PATIENCE) -> str:
    """The text of a file, device or pipe of so many bytes at most.

    OSError or ValueError say why not: no such file, its end did not come within so many seconds, too long, no
    UTF-8.
    """
    parts, left, until = [], most + 1, time.monotonic() + patience
    opened = os.open(path, os.O_RDONLY | (os.O_NONBLOCK | os.O_CLOEXEC if _POSIX else _BINARY))
    try:
        waiting = select.poll() if _POSIX else None
        if waiting is not None:
            waiting.register(opened, select.POLLIN)
        while left > 0:
            if waiting is not None and not waiting.poll(max(0.0, until - time.monotonic()) * 1000):
                raise TimeoutError(None, f"no end within {patience:g} s")
            part = os.read(opened, min(left, 1 << 16))
            if not part:
                break
            parts.append(part)
            left -= len(part)
    finally:
        os.close(opened)
    if left == 0:
        raise ValueError(f"too long: more than {most} bytes")
    return b"".join(parts).decode("utf-8-sig")


def read_secret(path: Path) -> str:
    """Read an operator's file of secrets, also from a pipe, without the blanks around it.

    ValueError gives the reason, with the file's name and none of its contents.
    """
    try:
        text = read_bounded(path.expanduser(), _LONGEST_SECRET).strip()
    except UnicodeDecodeError:
        raise ValueError(f"{path}: cannot be read: not text in UTF-8") from None
    except (OSError, ValueError, RuntimeError) as error:
        why = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise ValueError(f"{path}: cannot be read: {why}") from None
    if not text:
        raise ValueError(f"{path}: is empty")
    return text


def read_token(path: Path) -> str:
    """Read a secret as `read_secret` does; reject one in a file that everybody on the machine may use."""
    token = read_secret(path)
    if open_to_all(path.expanduser()):
        raise ValueError(f"{path}: every user of this machine may use the token in it; chmod 600 {path}")
    return token


def open_to_all(path: Path) -> bool:
    """Whether others than owner and group may use a file, and we could close it to them.

    Pipes are skipped, and so are files on mounts that cannot be changed or that belong to another user, such
    as secrets of containers: nothing could be done about them.
    """
    if not _POSIX:
        return False
    try:
        status = path.stat()
        fixed = os.statvfs(path).f_flag & os.ST_RDONLY
    except OSError:
        return False
    ours = os.geteuid() in (0, status.st_uid) and not fixed
    return stat.S_ISREG(status.st_mode) and ours and bool(status.st_mode & stat.S_IRWXO)
