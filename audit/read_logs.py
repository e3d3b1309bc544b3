"""Reads many event logs at once, one process for each core, with progress; what cannot be read is named."""

import multiprocessing
import os
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, wait
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from audit.application_log import WANTED, read_application
from audit.applications import LoggedApplication
from audit.log_files import LogFiles, LogsError, Unread, find_logs, opened
from conf.util.counted import counted
from conf.util.process_pool import process_pool
from profiles.event_lines import EventLines
from profiles.packed import UNPACKING

#: Called with the bytes read, the bytes in all, and the name of the log.
Progress = Callable[[int, int, str], None]

#: Logs of fewer bytes together are read in this process. Chosen: to start others takes longer.
_WORTH_PROCESSES = 16 << 20
_POLL_SECONDS = 0.5


@dataclass(frozen=True, slots=True)
class ReadLogs:
    """The applications of some event logs in order of their start, and what could not be read."""

    applications: tuple[LoggedApplication, ...]
    unread: tuple[Unread, ...]
    logs: int
    #: Bytes of the logs as they are kept, and unpacked; seconds that reading took.
    packed_bytes: int
    log_bytes: int
    seconds: float
    #: Applications that ended before were left out, seconds since the epoch; None where all are wanted.
    since: float | None = None


def read_logs(
    places: Sequence[str],
    since: float | None = None,
    progress: Progress | None = None,
    processes: int | None = None,
) -> ReadLogs:
    """Read every event log in these places; LogsError when there is none, or none can be read.

    A run of which several logs tell, such as copies, counts once: the others are unread. With `since`,
    seconds since the epoch, applications that ended before are left out, and counted as unread.
    """
    began = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="stoker-audit-") as scratch:
        found = find_logs(places, Path(scratch))
        answers = list(_answers(found.logs, progress, processes or os.cpu_count() or 1))
    read = [answer for answer in answers if isinstance(answer, LoggedApplication)]
    unread = [*found.unread, *(answer for answer in answers if isinstance(answer, Unread))]
    if not read:
        raise LogsError(
            f"{', '.join(places)}: none of {counted(len(found.logs), 'file')} is an event log of Spark "
            f"({unread[-1].name}: {unread[-1].why})"
        )
    read, copies = _each_once(read)
    unread += copies
    earliest = float("-inf") if since is None else since
    kept = [each for each in read if each.ended_at >= earliest]
    unread += [Unread(each.log, "it ended before --since") for each in read if each.ended_at < earliest]
    if not kept:
        raise LogsError(f"{', '.join(places)}: all {counted(len(read), 'application')} ended before --since")
    return ReadLogs(
        tuple(sorted(kept, key=lambda each: (each.started_at, each.log))),
        tuple(unread),
        len(found.logs),
        found.size,
        sum(each.log_bytes for each in kept),
        time.perf_counter() - began,
        since,
    )


def _each_once(read: Sequence[LoggedApplication]) -> tuple[list[LoggedApplication], list[Unread]]:
    """Runs, and further logs of the same runs; of several the complete one counts, or the longest."""
    runs: dict[tuple[str, str, float], LoggedApplication] = {}
    copies = list[Unread]()
    for each in sorted(read, key=lambda each: (each.cut_short, -each.log_bytes, each.log)):
        first = runs.setdefault((each.id, each.attempt, each.started_at), each)
        if first is not each:
            copies.append(Unread(each.log, f"the same run as {first.log}"))
    return list(runs.values()), copies


def read_log(log: LogFiles, read: Callable[[int], None] = lambda _: None) -> LoggedApplication | Unread:
    """The application of a log, or why there is none; `read` is told the packed bytes of each read."""
    try:
        with opened(log, read) as files:
            lines = EventLines(files, log.name, WANTED, longest=float("inf"), lenient=True)
            return read_application(lines, log.name)
    except UNPACKING as error:  # EventLogError and LogsError are ValueErrors
        text = str(error) or type(error).__name__
        return Unread(log.name, text.removeprefix(f"{log.name}: "))


def _answers(
    logs: Sequence[LogFiles], progress: Progress | None, processes: int
) -> Iterator[LoggedApplication | Unread]:
    total, report = sum(log.size for log in logs), progress or (lambda *_: None)
    done = 0
    if min(processes, len(logs)) < 2 or total < _WORTH_PROCESSES:
        for log in logs:
            begun = done

            def count(size: int, name: str = log.name) -> None:
                nonlocal done
                done += size
                report(done, total, name)

            yield read_log(log, count)
            done = begun + log.size
        return
    # The largest first: a large one that is begun last would be waited for alone.
    order = sorted(logs, key=lambda log: -log.size)
    shared = multiprocessing.get_context("spawn").Value("q", 0)
    with process_pool(processes, _begin, shared) as pool:
        left = {pool.submit(_read_counted, log) for log in order}
        while left:
            over, left = wait(left, _POLL_SECONDS, FIRST_COMPLETED)
            report(shared.value, total, f"{len(logs) - len(left)} of {len(logs)} logs read")
            for each in over:
                yield each.result()


_shared: Any = None


def _begin(shared: Any) -> None:
    global _shared
    _shared = shared


def _read_counted(log: LogFiles) -> LoggedApplication | Unread:
    def count(size: int) -> None:
        with _shared.get_lock():
            _shared.value += size

    return read_log(log, count)
