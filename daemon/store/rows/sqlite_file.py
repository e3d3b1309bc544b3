"""The file of an SQLite job store, seen from outside: whether one that was there still is.

SQLite takes a file of 0 bytes for a new database. So a note beside the file says that a store was made.
"""

import contextlib
import os
import re
import stat
from pathlib import Path

from conf.util.regular_file import open_regular
from conf.util.whole_file import write_whole
from daemon.store.rows.wal_log import damaged_at

_MAGIC = b"SQLite format 3\0"
#: How a rollback journal ends that names another file, which SQLite deletes after it has rolled back.
_NAMES_ANOTHER = bytes.fromhex("d9d505f920a163d7")
#: Endings of the names of the files that SQLite reads and writes beside a store.
BESIDE = ("-wal", "-shm", "-journal")
_OF_INDEX = re.compile(r"\b(?:from|in|of) index\b")
_RESTORE = "restore a backup of it (docs/operations.md says how)"


def note_of(path: Path) -> Path:
    """The file that says that a store was made at the path."""
    return path.with_name(path.name + ".made")


def files_of(path: Path) -> tuple[Path, ...]:
    """The store's file and all that SQLite and Stoker have beside it."""
    return tuple(path.with_name(path.name + ending) for ending in ("", *BESIDE, ".lock", ".made"))


def fault(path: Path) -> str:
    """Fault of the store's file, or of a file beside it, before it is opened; empty when none is found."""
    try:
        with os.fdopen(open_regular(path), "rb") as file:
            header = file.read(100)
            size = os.fstat(file.fileno()).st_size
    except FileNotFoundError:
        header, size = b"", 0
    except (OSError, ValueError) as error:
        return f"cannot be opened: {getattr(error, 'strerror', None) or error}"
    if foreign := _foreign(path):
        return foreign
    if not size:
        return lost(path)
    if header[: len(_MAGIC)] != _MAGIC:
        return f"is corrupt, or no SQLite file; {_RESTORE}"
    pages, page = int.from_bytes(header[28:32], "big"), int.from_bytes(header[16:18], "big")
    page = 65536 if page == 1 else page
    # Pages not yet moved here from the log beside it may exceed the file's.
    if size < pages * page and header[24:28] == header[92:96] and not _has_log(path):
        return f"is corrupt: cut off after {size} of {pages * page} bytes; {_RESTORE}"
    return _log_fault(path)


def _log_fault(path: Path) -> str:
    """Fault of the log beside a store, of which SQLite would read a part only, and forget the rest."""
    log = _log_of(path.resolve())
    try:
        at = damaged_at(log)
    except FileNotFoundError:
        return ""
    except (OSError, ValueError) as error:
        return f"cannot be used: {log}: {getattr(error, 'strerror', None) or error}"
    if at is None:
        return ""
    return (
        f"is corrupt: {log} was changed at byte {at}, and the transactions behind would be forgotten; "
        f"{_RESTORE}, or forget them: truncate --size={at} {log}"
    )


def _foreign(path: Path) -> str:
    """Fault of the files beside a store: SQLite writes through links and deletes files that a journal names.

    So a folder of a stranger could have any file overwritten or deleted; Stoker never leaves such files.
    """
    store = path.resolve()  # SQLite looks beside the file that a link leads to
    ours = (path.with_name(path.name + ending) for ending in (".lock", ".made"))
    for beside in (*(store.with_name(store.name + ending) for ending in BESIDE), *ours):
        try:
            status = beside.lstat()
            if not stat.S_ISREG(status.st_mode) or status.st_nlink > 1:
                return f"cannot be used: {beside} is a link or no regular file, and not Stoker's; remove it"
            if beside.name.endswith("-journal") and _last(beside, len(_NAMES_ANOTHER)) == _NAMES_ANOTHER:
                return f"cannot be used: {beside} names another file, and is not Stoker's; remove it"
        except FileNotFoundError:
            continue
        except (OSError, ValueError) as error:
            return f"cannot be used: {beside}: {getattr(error, 'strerror', None) or error}"
    return ""


def _last(path: Path, length: int) -> bytes:
    """The last bytes of a regular file; fewer of a shorter one."""
    with os.fdopen(open_regular(path), "rb") as file:
        file.seek(max(0, os.fstat(file.fileno()).st_size - length))
        return file.read(length)


def of_an_index(fault: str) -> bool:
    """Whether a fault that SQLite has found is of an index alone, which can be made anew of its table."""
    return _OF_INDEX.search(fault) is not None


def note(path: Path, at: str) -> None:
    """Record beside the file that a store was made there at that time; OSError on failure."""
    made = note_of(path)
    if made.exists():
        return
    text = f"The job store {path.name} was made here at {at}. While this file is here, none is made anew.\n"
    write_whole(made, text)
    sync_folder(made.parent)


def sync_folder(folder: Path) -> None:
    """Flush files created or renamed in a folder to disk."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def lost(path: Path) -> str:
    """Fault of a store without content: it had been made before; empty when none was made there."""
    if not note_of(path).exists():
        return ""
    since = ""
    with contextlib.suppress(OSError):
        since = f" ({note_of(path).read_text(errors='replace').split('. ')[0].strip()})"
    what = "is empty" if path.exists() else "is gone"
    otherwise = f"or remove {note_of(path)} to begin with no jobs at all"
    return f"{what}, but had been made{since}; {_RESTORE}, {otherwise}"


def _log_of(path: Path) -> Path:
    return path.with_name(path.name + BESIDE[0])


def _has_log(path: Path) -> bool:
    log = _log_of(path)
    return log.exists() and log.stat().st_size > 0
