"""Reads from the event logs of ended jobs how much memory their executors used, and stores it with the jobs.

A thread of its own reads one log after the other, for a small part of its time. The log of a driver on the
cluster comes when its VM has sent it, so that a job without one is looked at again.
"""

import contextlib
import heapq
import threading
import time
from collections.abc import Collection, Iterable, Sequence
from functools import reduce
from pathlib import Path

import structlog

from conf.schema import JobSpec
from daemon.core.cluster_status import MemorySeconds
from daemon.launch.event_log_export import find_event_logs, opened_files
from daemon.launch.launch_validation import application_of
from daemon.store.job_store import Store
from daemon.store.rows.database import DeposedError, StoreError
from environment.model.messages.records import ExecutorRecord, JobRecord, MemoryUse
from framework.spark.driver_properties import executor_heap
from profiles.event_lines import MALFORMED, EventLines, EventLogError
from profiles.memory_peaks import PEAK_EVENTS, MemoryPeak, read_peaks
from profiles.packed import UNPACKING

log = structlog.get_logger("memory")

#: Seconds after a job's end at which its log is looked for.
_LOOKS = (0.0, 5.0, 60.0)
#: Jobs that ended so many seconds before a daemon began are read by it, so many at most.
_BEFORE, _MOST_BEFORE = 3600.0, 500
#: Bytes of a log that are read, and of an event that is parsed, as jobs write their logs. Chosen: lines that
#: are skipped take a second; Spark's own events have less than 4 KiB.
_LONGEST, _LONGEST_EVENT = 1 << 28, 1 << 16
#: Of the time, so much is spent on reading; and seconds for the work in progress when the daemon stops.
_SHARE, _LAST_PATIENCE = 0.2, 2.0


class MemoryUses:
    """`over` and `begin` are for the loop's thread, `close` and `total` for any."""

    def __init__(self, store: Store, data_dir: Path) -> None:
        self._store, self._data_dir = store, data_dir
        #: Sums over the jobs that ended since the start.
        self.total = MemorySeconds()
        self._changed = threading.Condition()
        #: When (monotonic) to look for the logs of which job, how often that was done, and whether it counts.
        self._due: list[tuple[float, str, int, bool]] = []
        self._closed = False
        self._thread: threading.Thread | None = None

    def begin(self) -> None:
        """Start the thread, with the jobs that ended shortly before."""
        self._hand(self._store.jobs.recent.ended(time.time() - _BEFORE, (), _MOST_BEFORE)[0], counts=False)
        self._closed = False
        self._thread = threading.Thread(target=self._work, name="memory", daemon=True)
        self._thread.start()

    def over(self, job_ids: Sequence[str]) -> None:
        """Read the logs of these ended jobs, of which nothing runs any more."""
        if job_ids:
            self._hand(job_ids, counts=True)

    def close(self) -> None:
        """End the thread; the next daemon goes on with its jobs."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        if self._thread is not None:
            self._thread.join(_LAST_PATIENCE)

    def _hand(self, job_ids: Iterable[str], *, counts: bool) -> None:
        now = time.monotonic()
        with self._changed:
            for job_id in job_ids:
                heapq.heappush(self._due, (now + _LOOKS[0], job_id, 0, counts))
            self._changed.notify()

    def _work(self) -> None:
        pause = 0.0
        while (found := self._next(pause)) is not None:
            job_id, looks, counts = found
            began = time.monotonic()
            try:
                again = not self._look(job_id, counts=counts, last=looks + 1 == len(_LOOKS))
            except DeposedError:
                return
            except StoreError as error:
                log.warning("the memory that a job used is not stored", job=job_id, why=str(error))
                again = True
            except Exception:  # one job's trouble is no other's
                log.exception("the memory that a job used cannot be read", job=job_id)
                again = False
            if again and looks + 1 < len(_LOOKS):
                with self._changed:
                    due = began + _LOOKS[looks + 1]
                    heapq.heappush(self._due, (due, job_id, looks + 1, counts))
            pause = (time.monotonic() - began) * (1 / _SHARE - 1)

    def _next(self, pause: float) -> tuple[str, int, bool] | None:
        """The next job, once it is due and the pause is over; None when the daemon stops."""
        until = time.monotonic() + pause
        with self._changed:
            while not self._closed:
                now = time.monotonic()
                due = max(until, self._due[0][0]) if self._due else None
                if due is not None and due <= now:
                    _, job_id, looks, counts = heapq.heappop(self._due)
                    return job_id, looks, counts
                self._changed.wait(None if due is None else due - now)
        return None

    def _look(self, job_id: str, *, counts: bool, last: bool) -> bool:
        """Whether the job needs no other look."""
        record = self._store.jobs.get(job_id)
        if record is None or record.memory_use is not None or record.placed_at is None:
            return True
        tasks = [task for task in self._store.jobs.shown_executors(job_id) if task.number is not None]
        # The log of its last driver may not be here yet, but those of earlier ones.
        last_run = {str(task.number) for task in tasks if task.launched_at >= (record.placed_at or 0.0)}
        peaks = _peaks(self._data_dir, job_id, last_run)
        found = memory_use(record, self._store.jobs.spec(job_id), tasks, peaks)
        if found is None and not last:
            return False
        if found is not None and not self._store.jobs.ended.note_memory(job_id, found):
            return False
        if found is not None or counts:
            reported, used = (0.0, 0.0) if found is None else (found.reported, found.used)
            before = self.total
            self.total = MemorySeconds(
                before.paid + _paid(tasks), before.reported + reported, before.used + used
            )
        return True


def memory_use(
    job: JobRecord, spec: JobSpec | None, tasks: Sequence[ExecutorRecord], peaks: dict[str, MemoryPeak]
) -> MemoryUse | None:
    """The memory that a job's executors (`tasks`) used, by the peaks of some; None without a peak."""
    known = [(task, peaks[str(task.number)]) for task in tasks if str(task.number) in peaks]
    if not known:
        return None
    used = sum(min(peak.total_mib, task.resources.memory_mib) * _seconds(task) for task, peak in known)
    peak = reduce(MemoryPeak.with_later, (peak for _, peak in known)).whole
    reported = _paid([task for task, _ in known])
    return MemoryUse(peak, _full(job, spec, peak), _paid(tasks), reported, used)


def _full(job: JobRecord, spec: JobSpec | None, peak: MemoryPeak) -> float | None:
    """Memory with which an executor would be full: its heap, beside the same overhead, or all of it."""
    if spec is None or (peak.python_mib is None and has_workers(spec)):
        return None
    memory_mib = job.job.memory_mib
    try:
        overhead = memory_mib - executor_heap(application_of(spec), memory_mib)
    except ValueError:  # a setting of another version's rules
        return None
    return max(peak.total_mib, peak.heap_mib + overhead)


def has_workers(spec: JobSpec) -> bool:
    """Whether executors of the job may start workers of another language beside the JVM."""
    return not spec.app.endswith(".jar")


def _paid(tasks: Iterable[ExecutorRecord]) -> float:
    return sum(task.resources.memory_mib * _seconds(task) for task in tasks)


def _seconds(task: ExecutorRecord) -> float:
    return max(0.0, (task.ended_at or task.launched_at) - task.launched_at)


def _peaks(data_dir: Path, job_id: str, executors: Collection[str]) -> dict[str, MemoryPeak]:
    """Peaks of executors by the log of the job's last driver; none where it is missing or unreadable."""
    try:
        logs = find_event_logs(data_dir, job_id)
        if not logs:
            return {}
        with contextlib.ExitStack() as stack:
            files = opened_files(stack, logs[0])
            lines = EventLines(
                files, files[0][0], PEAK_EVENTS, longest=_LONGEST, longest_event=_LONGEST_EVENT
            )
            return read_peaks(lines, executors)
    except (EventLogError, OSError, *UNPACKING, *MALFORMED) as error:
        log.info("the memory that a job used is unknown", job=job_id, why=str(error))
        return {}
