"""Output of drivers and executors: locates it and reads parts of it.

A driver on this host writes into its job's folder, a task into its sandbox on the VM; the end of an
ended task's output is stored here (`disk/log_archive.py`).
"""

from collections.abc import Callable

from daemon.core.errors import RejectedError
from daemon.core.status import LogChunk
from daemon.disk.log_archive import KeptLog, KeptLogs
from daemon.launch.launcher import Launcher
from daemon.store.job_store import Store
from environment.model.messages.records import ExecutorRecord, JobRecord
from framework.host.untrusted_files import UntrustedFileError, read_part
from framework.substrate import Sandbox

#: A VM that does not answer now may do so later.
_AGAIN = {"Retry-After": "5"}


class Logs:
    """Reads logs; from any thread."""

    def __init__(
        self,
        launcher: Launcher,
        store: Store,
        sandbox_of: Callable[[ExecutorRecord], Sandbox],
        kept: KeptLogs,
    ) -> None:
        """`sandbox_of` raises OSError for a task with an unreadable sandbox."""
        self._launcher = launcher
        self._store = store
        self._sandbox_of = sandbox_of
        self._kept = kept

    def read(
        self, job: JobRecord, executor: ExecutorRecord | None, stream: str, offset: int, limit: int
    ) -> LogChunk:
        """Read a log; see `Scheduler.log`."""
        if executor is None and job.job.client_driver:
            note = f"its driver is its user's own, on {job.job.client_driver}, and prints there"
            return LogChunk("", offset, job.ended, "", note)
        try:
            if executor is not None or job.job.driver is not None:
                return self._of_a_task(job, executor, stream, offset, limit)
            return self._launcher.look_at_output(
                job.job.id, job.job.owner, lambda: self._of_a_driver(job, stream, offset, limit)
            )
        except UntrustedFileError as error:
            raise RejectedError(409, "The log is not readable", f"{error}: the job put it there") from error
        except OSError as error:
            raise RejectedError(503, "The log cannot be read now", str(error), _AGAIN) from error

    def _of_a_driver(self, job: JobRecord, stream: str, offset: int, limit: int) -> LogChunk:
        path = f"{self._driver_folder(job)}/{stream}"
        data = read_part(self._launcher.folder(job.job.id), path, offset, limit)
        if not (data or offset) and (note := self._nothing_here(job)):
            return LogChunk("", offset, job.ended, "", note)
        return _chunk(data, offset, limit, over=job.ended, source="driver")

    def _driver_folder(self, job: JobRecord) -> str:
        """Name of its driver's folder; the last one if it was put aside for a restart that never was."""
        folder = self._launcher.folder(job.job.id)
        aside = len([*folder.glob("driver.*")]) if job.ended and not (folder / "driver").is_dir() else 0
        return f"driver.{aside - 1}" if aside else "driver"

    def _nothing_here(self, job: JobRecord) -> str:
        """Reason why a driver outside the cluster has no log here; empty where it has printed nothing."""
        if not self._launcher.is_here(job.driver_on):
            return f"its driver ran on {job.driver_on.partition('@')[2]}, and its log is there"
        if not (self._launcher.folder(job.job.id) / self._driver_folder(job)).is_dir():
            return "its driver was not started" if job.ended else "its driver has not been started yet"
        return ""

    def _of_a_task(
        self, job: JobRecord, task: ExecutorRecord | None, stream: str, offset: int, limit: int
    ) -> LogChunk:
        over = task.ended if task is not None else job.ended
        if task is None:
            drivers = self._store.jobs.drivers(job.job.id)
            if not drivers:
                return LogChunk("", offset, over, "", "its driver was never launched")
            task = drivers[-1]
        kept = self._kept.find(task.job_id, task.task_id, stream) if task.ended else None
        why = self._kept.why(task.job_id, task.task_id) if task.ended else ""
        if kept is not None and offset >= kept.first:
            return _kept_chunk(kept, offset, limit, why)
        try:
            data = self._sandbox_of(task).read(stream, offset, limit)
        except UntrustedFileError:
            raise
        except OSError as error:
            if kept is not None:
                return _kept_chunk(kept, offset, limit, why)
            if not task.ended:
                if isinstance(error, FileNotFoundError):
                    return LogChunk("", offset, over, "", "it has printed nothing yet")
                raise
            return LogChunk("", offset, over, "", f"none of it was stored when it ended: {why or error}")
        return _chunk(data, offset, limit, over=over, source="sandbox")


def _chunk(data: bytes, offset: int, limit: int, *, over: bool, source: str, note: str = "") -> LogChunk:
    text, used = _whole_characters(data)
    return LogChunk(text, offset + used, over and len(data) < limit, source, note)


def _kept_chunk(kept: KeptLog, offset: int, limit: int, why: str) -> LogChunk:
    notes = []
    if offset < kept.first:
        notes.append(f"the first {kept.first} bytes are gone: the last {kept.end - kept.first} were stored")
    if why:
        notes.append(f"the text after the last read is lost: {why}")
    begin = max(offset, kept.first)
    data = kept.read(begin, limit)
    return _chunk(data, begin, limit, over=True, source="kept", note="; ".join(notes))


def _whole_characters(data: bytes) -> tuple[str, int]:
    """Decode, leaving a character that is cut at the end for the next part."""
    for cut in range(min(4, len(data) + 1)):
        part = data[: len(data) - cut]
        try:
            return part.decode(), len(part)
        except UnicodeDecodeError as error:
            if error.end < len(part):
                break
    return data.decode(errors="replace"), len(data)
