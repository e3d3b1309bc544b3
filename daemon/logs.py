"""What drivers and executors printed: where it is, and how a part of it is read.

A driver on this host writes into its job's folder; whatever is a Mesos task, into its sandbox on the agent.
"""

from pathlib import Path

from daemon.contract import LogChunk, RejectedError
from daemon.launcher import Launcher
from daemon.store import Store
from environment.model.records import ExecutorRecord, JobRecord
from framework.executor_logs import read_local, read_remote
from framework.hostile_files import UntrustedFileError, read_part
from framework.link import MesosLink

#: An agent that does not answer now may do so later.
_AGAIN = {"Retry-After": "5"}


class Logs:
    """Reads logs; from any thread. `sandboxes` is where the embedded Mesos keeps its agents' folders."""

    def __init__(self, launcher: Launcher, store: Store, link: MesosLink, sandboxes: Path | None) -> None:
        self._launcher = launcher
        self._store = store
        self._link = link
        self._sandboxes = sandboxes

    def read(
        self, job: JobRecord, executor: ExecutorRecord | None, stream: str, offset: int, limit: int
    ) -> LogChunk:
        """Read a log; see `Scheduler.log`."""
        try:
            data = self._read(job, executor, stream, offset, limit)
        except UntrustedFileError as error:
            raise RejectedError(409, "The log is not readable", f"{error}: the job put it there") from error
        except OSError as error:
            raise RejectedError(503, "The log cannot be read now", str(error), _AGAIN) from error
        over = executor.ended if executor is not None else job.ended
        text, used = _whole_characters(data)
        return LogChunk(text, offset + used, over and len(data) < limit)

    def _read(
        self, job: JobRecord, executor: ExecutorRecord | None, stream: str, offset: int, limit: int
    ) -> bytes:
        if executor is None and job.job.driver is None:
            return read_part(self._launcher.folder(job.job.id), f"driver/{stream}", offset, limit)
        if executor is None:
            drivers = [task for task in self._store.executors(job.job.id) if task.number is None]
            if not drivers:
                return b""
            executor = drivers[-1]
        framework_id = self._link.framework_id
        if framework_id is None:
            return b""
        if self._sandboxes is not None:
            folder = self._sandboxes / executor.vm_name
            return read_local(folder, framework_id, executor.task_id, stream, offset, limit)
        url = self._link.agent_url(executor.vm_id)
        if not url:
            raise OSError(f"the agent on {executor.vm_name} has not been heard of since the daemon started")
        return read_remote(url, framework_id, executor.task_id, stream, offset, limit, self._link.credentials)


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
