"""Job folders on this host's disk: finds, measures and removes them. Their content is hostile.

Nothing here follows a link, leaves the given folder, or descends as deep as a job may nest folders.
"""

import contextlib
import errno
import os
import stat
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

from daemon.core.job_ids import job_number
from framework.task_folders import task_folders

#: How deep and how far a folder is measured. Chosen: a job that exceeds it is not billed for the rest, only
#: removed.
_DEEPEST = 40
_MOST = 100_000
#: Seconds for one folder. Chosen: no other job waits for one that fills its folder meanwhile.
_PATIENCE = 5.0
#: Seconds where nothing else waits.
_MOST_PATIENCE = 60.0
#: No daemon gives so many numbers: a folder with a higher one is no job's.
_HIGHEST = 10**12
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class Folders:
    """The folders that jobs have under the data folder."""

    def __init__(self, data_dir: Path) -> None:
        self._data_dir = data_dir

    def of(self, job_id: str, task_ids: Iterable[str]) -> list[Path]:
        """All folders of a job: its own, the daemon's records of it, its tasks' on this host."""
        found = [self._data_dir / kind / job_id for kind in ("jobs", "records")]
        return [*filter(_is_there, found), *self.of_tasks(task_ids)]

    def of_tasks(self, task_ids: Iterable[str]) -> list[Path]:
        """The folders on this host of some tasks."""
        return list(filter(_is_there, task_folders(self._data_dir, task_ids)))

    def in_use(self, job_id: str) -> bool:
        """Whether a daemon has not yet forgotten the job's launch."""
        return (self._data_dir / "records" / job_id / "launch.json").exists()

    def jobs(self) -> Iterator[str]:
        """The names of all folders of jobs."""
        for kind in ("jobs", "records"):
            with contextlib.suppress(FileNotFoundError):
                yield from sorted(path.name for path in (self._data_dir / kind).iterdir())

    def highest(self) -> int:
        """The highest number of a job that has a folder here; 0 without any."""
        numbers = (job_number(name) or 0 for name in self.jobs())
        return max((number for number in numbers if number <= _HIGHEST), default=0)


def _is_there(folder: Path) -> bool:
    return folder.is_dir() and not folder.is_symlink()


def measure(folder: Path) -> int:
    """Bytes on the disk used by a folder's content, at least by the part that is examined.

    A file with many names, in any folders, counts once in all of them: others' old jobs are removed where
    jobs seem to use more than they may.
    """
    total, left = 0, _MOST

    def add(at: int, depth: int) -> None:
        nonlocal total, left
        with os.scandir(at) as entries:
            for entry in entries:
                left -= 1
                if left <= 0:
                    return
                status = entry.stat(follow_symlinks=False)
                is_folder = stat.S_ISDIR(status.st_mode)
                total += status.st_blocks * 512 // (1 if is_folder else max(1, status.st_nlink))
                if is_folder and depth < _DEEPEST:
                    below(entry.name, at, depth + 1)

    def below(name: Path | str, parent: int | None, depth: int) -> None:
        with contextlib.suppress(OSError):
            at = os.open(name, _FOLDER, dir_fd=parent)
            try:
                add(at, depth)
            finally:
                os.close(at)

    below(folder, None, 0)
    return total


@contextmanager
def temporary_folder(prefix: str) -> Iterator[Path]:
    """A new folder for files of jobs, removed at the end, as far as that can be: jobs may write in it."""
    folder = Path(tempfile.mkdtemp(prefix=prefix))
    try:
        yield folder
    finally:
        with contextlib.suppress(OSError):
            remove(folder, _MOST_PATIENCE)


def remove(folder: Path, seconds: float = _PATIENCE) -> None:
    """Remove a folder and all that is in it; OSError when that cannot be, or not within that time.

    Folders in it are moved up to it before they are emptied, so that it does not matter how deep they are.
    """
    until = time.monotonic() + seconds
    try:
        _take(folder, None)
        root = os.open(folder, _FOLDER)
    except FileNotFoundError:
        return
    try:
        names = count()
        while _empty(root, names, until):
            pass
    except TimeoutError as error:
        raise OSError(errno.ETIMEDOUT, "it is too large to be removed at once", str(folder)) from error
    finally:
        os.close(root)
    folder.rmdir()


def _empty(root: int, names: Iterator[int], until: float) -> bool:
    """Remove the entries of a folder, once; whether it had any. TimeoutError at that time."""
    found = False
    for name in _entries(root, until):
        found = True
        if not _is_folder(name, root):
            os.unlink(name, dir_fd=root)
            continue
        _take(name, root)
        folder = os.open(name, _FOLDER, dir_fd=root)
        try:
            for inner in _entries(folder, until):
                if _is_folder(inner, folder):
                    _take(inner, folder)
                    os.rename(inner, _free_name(root, names), src_dir_fd=folder, dst_dir_fd=root)
                else:
                    os.unlink(inner, dir_fd=folder)
        finally:
            os.close(folder)
        try:
            os.rmdir(name, dir_fd=root)
        except OSError as error:
            if error.errno != errno.ENOTEMPTY:  # else a name was passed over: the next round finds it
                raise
    return found


def _entries(folder: int, until: float) -> Iterator[str]:
    """The names in a folder, one by one: a list of millions would take the daemon's memory."""
    with os.scandir(folder) as entries:
        for entry in entries:
            if time.monotonic() > until:
                raise TimeoutError
            yield entry.name


def _is_folder(name: str, parent: int) -> bool:
    return stat.S_ISDIR(os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode)


def _take(name: Path | str, parent: int | None) -> None:
    """Restore this process's rights on a folder, which its maker may have removed; a link gets none."""
    found = os.open(name, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent)
    try:
        Path(f"/proc/self/fd/{found}").chmod(0o700)
    finally:
        os.close(found)


def _free_name(root: int, names: Iterator[int]) -> str:
    while True:
        name = f"..{next(names)}"
        try:
            os.stat(name, dir_fd=root, follow_symlinks=False)
        except FileNotFoundError:
            return name
