"""The file of an SQLite job store, seen from outside: whether one that was there still is.

SQLite takes a file of 0 bytes for a new database. So a note beside the file says that a store was made.
"""

import contextlib
import os
from pathlib import Path

_MAGIC = b"SQLite format 3\0"
_RESTORE = "restore a backup of it (docs/operations.md says how)"


def note_of(path: Path) -> Path:
    """The file that says that a store was made at the path."""
    return path.with_name(path.name + ".made")


def fault(path: Path) -> str:
    """Fault of the store's file before it is opened; empty when none is found."""
    try:
        with path.open("rb") as file:
            header = file.read(100)
            size = os.fstat(file.fileno()).st_size
    except FileNotFoundError:
        header, size = b"", 0
    except OSError as error:
        return f"cannot be opened: {error.strerror}"
    if not size:
        return _gone(path) if note_of(path).exists() else ""
    if header[: len(_MAGIC)] != _MAGIC:
        return f"is corrupt, or no SQLite file; {_RESTORE}"
    pages, page = int.from_bytes(header[28:32], "big"), int.from_bytes(header[16:18], "big")
    page = 65536 if page == 1 else page
    # Pages not yet moved here from the log beside it may exceed the file's.
    if size < pages * page and header[24:28] == header[92:96] and not _has_log(path):
        return f"is corrupt: cut off after {size} of {pages * page} bytes; {_RESTORE}"
    return ""


def note(path: Path, at: str) -> None:
    """Record beside the file that a store was made there at that time; OSError on failure."""
    made = note_of(path)
    if made.exists():
        return
    text = f"The job store {path.name} was made here at {at}. While this file is here, none is made anew.\n"
    draft = made.with_name(f"{made.name}.{os.getpid()}")
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        file.write(text)
        os.fsync(file.fileno())
    draft.rename(made)
    sync_folder(made.parent)


def sync_folder(folder: Path) -> None:
    """Flush files created or renamed in a folder to disk."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _gone(path: Path) -> str:
    since = ""
    with contextlib.suppress(OSError):
        since = f" ({note_of(path).read_text(errors='replace').split('. ')[0].strip()})"
    what = "is empty" if path.exists() else "is gone"
    otherwise = f"or remove {note_of(path)} to begin with no jobs at all"
    return f"{what}, but had been made{since}; {_RESTORE}, {otherwise}"


def _has_log(path: Path) -> bool:
    log = path.with_name(path.name + "-wal")
    return log.exists() and log.stat().st_size > 0
