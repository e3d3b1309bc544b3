"""Copies of ended tasks' logs, since VMs disappear together with their folders.

In `records/JOB/logs/TASK/`, which no job can write: `stdout.FIRST` and `stderr.FIRST`, where FIRST is the
offset of the first stored byte; `events/`, the event log of a driver on the cluster; `why`, when a file could
not be read. The copies are removed with the job's other records.
"""

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from secrets import randbelow

import structlog

from conf.util.whole_file import write_whole
from daemon.disk.job_folders import Folders, remove
from framework.host.untrusted_files import read_part, read_tail
from framework.substrate import Sandbox, read_end

log = structlog.get_logger("service")

STREAMS = ("stdout", "stderr")
#: Bytes of each stream of a task, and of all tasks of a job; each task gets so much in any case.
_MOST, _OF_A_JOB, _LEAST = 1 << 18, 1 << 26, 1 << 13
#: Executors of a job whose logs stay, the last that were launched: as many as it may have at once, while its
#: driver may ask for others and give them back without end. One in so many copies looks for those before.
_EXECUTORS, _LOOKS = 10_000, 500
#: Bytes of a driver's event log; more is cut off.
_EVENTS = 1 << 28
_WHY = 1 << 12


@dataclass(frozen=True, slots=True)
class KeptLog:
    """A stored stream: from the offset `first` to `end`."""

    path: Path
    first: int
    end: int

    def read(self, offset: int, limit: int) -> bytes:
        """At most `limit` bytes from that offset of the whole stream on."""
        return read_part(self.path.parent, self.path.name, max(0, offset - self.first), limit)


class KeptLogs:
    """The logs that are kept under a data folder; from any thread."""

    def __init__(self, data_dir: Path) -> None:
        self._records = data_dir / "records"

    def keep(self, job_id: str, task_id: str, sandbox: Sandbox, *, executors: int, events: bool) -> None:
        """Store the ends of a task's logs, shorter if its job ever had more `executors`; `events` too.

        They replace a copy from while it ran; of very many executors, the first are forgotten. OSError when
        they cannot be read or stored.
        """
        folder = self._folder(job_id, task_id)
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        limit = min(_MOST, max(_LEAST, _OF_A_JOB // (2 * max(1, executors))))
        for stream in STREAMS:
            before = self.find(job_id, task_id, stream)
            if before is not None and before.end == sandbox.size(stream):
                continue
            first, data = read_end(sandbox, stream, limit)
            write_whole(folder / f"{stream}.{first}", data)
            if before is not None and before.first != first:
                before.path.unlink(missing_ok=True)
        if events and not (folder / "events").exists():
            _keep_events(folder, sandbox)
        (folder / "why").unlink(missing_ok=True)
        if executors > _EXECUTORS and not randbelow(_LOOKS):
            self._forget_first(job_id)

    def _forget_first(self, job_id: str) -> None:
        """Remove the logs of the executors that were launched first, beyond `_EXECUTORS`."""
        logs = self._records / job_id / "logs"
        numbers = [path.name.rpartition(".")[2] for path in logs.iterdir()]
        executors = sorted(int(number) for number in numbers if number.isdecimal())
        for number in executors[:-_EXECUTORS]:
            with contextlib.suppress(OSError):  # another thread may be at it
                remove(self._folder(job_id, f"{job_id}.{number}"))

    def note(self, job_id: str, task_id: str, why: str) -> None:
        """Note why a task's logs could not be kept."""
        with contextlib.suppress(OSError):
            folder = self._folder(job_id, task_id)
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            write_whole(folder / "why", why.encode(errors="replace")[:_WHY])

    def find(self, job_id: str, task_id: str, stream: str) -> KeptLog | None:
        """Stored end of a stream; None when there is none."""
        with contextlib.suppress(OSError):
            for path in self._folder(job_id, task_id).iterdir():
                name, _, first = path.name.partition(".")
                if name == stream and first.isdecimal():
                    return KeptLog(path, int(first), int(first) + path.stat().st_size)
        return None

    def why(self, job_id: str, task_id: str) -> str:
        """Reason why a file of a task could not be stored; empty when none was noted."""
        with contextlib.suppress(OSError):
            return read_tail(self._folder(job_id, task_id), "why", _WHY).decode(errors="replace")
        return ""

    def _folder(self, job_id: str, task_id: str) -> Path:
        return self._records / job_id / "logs" / task_id


def _keep_events(folder: Path, sandbox: Sandbox) -> None:
    """Copy the event log: a file, or a folder with some, as Spark's history server wants to find it."""
    try:
        names = sandbox.files("events")
    except FileNotFoundError:
        return  # it ended before it made a context
    draft = folder / "events.draft"
    left = _EVENTS
    for name in names:
        place = draft / Path(name).relative_to("events")
        place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with place.open("wb") as file:
            left -= sandbox.copy(name, file.fileno(), left)
        if left <= 0:
            # Spark's word for one that may end in the middle of a line.
            place.rename(place.with_name(f"{place.name.removesuffix('.inprogress')}.inprogress"))
            break
    if draft.exists():
        draft.rename(folder / "events")


def skip_lost_jobs(skip: Callable[[int], int], data_dir: Path) -> None:
    """Give no job a number that has a folder here: the driver of a lost job would be taken for its own.

    `skip` takes the highest number of a folder, and returns the highest that the store gave before. A store
    loses its last jobs where it was replaced by an older copy, or its disk or server lost writes.
    """
    highest = Folders(data_dir).highest()
    if (last := skip(highest)) < highest:
        text = "the job store has lost jobs: it knows none as new as folders here; no number is given again"
        log.error(text, newest_in_store=last, newest_folder=highest)
