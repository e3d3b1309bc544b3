"""Event logs of jobs: found under a data folder and copied to the folder of Spark's history server.

A driver on this host wrote its log into the job's folder, as the account that runs jobs; the log of a driver
on the cluster is in the records. All were written by jobs: only regular files of limited size are copied.
"""

import contextlib
import json
import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from framework.host.untrusted_files import copy_file, list_beneath, open_beneath
from profiles.event_lines import codec, parts_of
from profiles.packed import unpacked

#: Spark's name of an application, and so of its log; Spark 4 makes a folder for it.
_NAME = re.compile(r"(?:eventlog_v2_)?(?P<application>[A-Za-z][\w-]{0,200})(?:\.\w{1,20}){0,2}")
_PLAIN = re.compile(r"[A-Za-z][\w-]{0,200}(?:\.inprogress)?")
#: Characters of the first lines of a log, one of which names the application.
_HEAD = 1 << 20


@dataclass(frozen=True, slots=True)
class SparkEventLog:
    """A job's event log: its files, below `folder`, and the application's id as Spark gave it.

    The folder is the driver's. Its user may have changed it since.
    """

    job_id: str
    application: str
    folder: Path
    files: tuple[str, ...]
    written_at: float
    """Seconds since the epoch."""

    def open_file(self, name: str) -> int:
        """Open one of its files as `open_beneath` does; the caller closes the descriptor."""
        return _opened(self.folder, name)


@dataclass(frozen=True, slots=True)
class CopiedLogs:
    """Result of copying: logs by the application id under which they are shown, and those left out."""

    logs: dict[str, SparkEventLog]
    left_out: tuple[SparkEventLog, ...]


def find_event_logs(data_dir: Path, job_id: str | None = None) -> list[SparkEventLog]:
    """Event logs of one job or of all, newest first; unreadable ones are skipped."""
    wanted = job_id or "*"
    found: list[SparkEventLog] = []
    for folder in (*data_dir.glob(f"jobs/{wanted}/driver*"), *data_dir.glob(f"records/{wanted}/logs/*")):
        with contextlib.suppress(OSError):
            found += _logs_in(folder, folder.relative_to(data_dir).parts[1])
    return sorted(found, key=lambda log: -log.written_at)


def opened_files(stack: contextlib.ExitStack, log: SparkEventLog) -> list[tuple[str, BinaryIO]]:
    """The files of a log in order, unpacked, each with its name, open for reading until the stack ends.

    OSError when one cannot be opened, EventLogError when one is missing.
    """
    names = parts_of(log.files)
    files = [stack.enter_context(os.fdopen(log.open_file(name), "rb")) for name in names]
    return [(name, unpacked(file, codec(name))) for name, file in zip(names, files, strict=True)]


def copy_event_logs(
    logs: list[SparkEventLog], to: Path, most: int, progress: Callable[[int, int], None] = lambda *_: None
) -> CopiedLogs:
    """Copy logs, at most `most` bytes in total; further or unreadable ones are left out.

    Two applications of one id become two. `progress` gets the number of copied logs and of all logs.
    """
    copied: dict[str, SparkEventLog] = {}
    left_out: list[SparkEventLog] = []
    for number, log in enumerate(logs):
        shown = log.application if log.application not in copied else f"{log.application}-{log.job_id}"
        try:
            most -= _copy(log, to, shown, most)
            copied[shown] = log
        except (OSError, ValueError):
            left_out.append(log)
        progress(number + 1, len(logs))
    return CopiedLogs(copied, tuple(left_out))


def _logs_in(folder: Path, job_id: str) -> Iterator[SparkEventLog]:
    files: dict[str, list[str]] = {}
    for found in list_beneath(folder.parent, f"{folder.name}/events"):
        name = PurePosixPath(found).relative_to(folder.name)
        if not name.name.startswith("."):  # checksums, which no reader needs
            files.setdefault(name.parts[1], []).append(str(name))
    for top, names in files.items():
        if match := _NAME.fullmatch(top):
            first, *_ = ordered = tuple(sorted(names))
            yield SparkEventLog(job_id, match["application"], folder, ordered, _written_at(folder, first))


def _opened(folder: Path, name: str) -> int:
    """Open a file of a driver's folder; a mount in place of the folder is refused, too."""
    return open_beneath(folder.parent, f"{folder.name}/{name}")


def _written_at(folder: Path, name: str) -> float:
    """When a log's first file was written; 0.0 for one that cannot be opened, as its reader will tell."""
    try:
        file = _opened(folder, name)
    except OSError:
        return 0.0
    try:
        return os.fstat(file).st_mtime
    finally:
        os.close(file)


def _copy(log: SparkEventLog, to: Path, shown: str, most: int) -> int:
    """Copy one log, or nothing of it; return its bytes. ValueError on failure."""
    opened = [(name, log.open_file(name)) for name in log.files]
    try:
        size = sum(os.fstat(file).st_size for _, file in opened)
        plain = len(log.files) == 1 and _PLAIN.fullmatch(Path(log.files[0]).name) is not None
        if size > most or (shown != log.application and not plain):
            raise ValueError(f"{log.job_id}: too large, or its name is used by another one")
        for name, file in opened:
            place = to / Path(name.replace(log.application, shown)).relative_to("events")
            place.parent.mkdir(mode=0o755, exist_ok=True)
            with place.open("wb") as made:
                if shown != log.application:
                    made.write(_renamed(os.read(file, _HEAD), log.application, shown))
                made.flush()
                copy_file(file, made.fileno(), size)
    finally:
        for _, file in opened:
            os.close(file)
    return size


def _renamed(head: bytes, old: str, new: str) -> bytes:
    """The beginning of a log with another id for its application."""
    name = b'"App ID":' + json.dumps(old).encode()
    return head.replace(name, b'"App ID":' + json.dumps(new).encode(), 1)
