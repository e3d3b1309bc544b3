"""Reads the output of ended tasks, on worker threads: to store it, and to give the reason of a failure.

The end of a failed task, an executor or a driver on the cluster, is passed on to the scheduling loop with the
last error in its output, or without, when its VM takes too long to answer.
"""

import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial

import structlog

from daemon.core.job_workers import JobWorkers
from daemon.disk.log_archive import KeptLogs
from daemon.launch.launcher import Launcher
from daemon.store.job_store import Store
from daemon.store.rows.database import StoreError
from environment.model.messages import events as ev
from environment.model.messages.records import ExecutorRecord
from framework.spark import TAIL
from framework.spark.driver.exit_codes import meaning_of
from framework.substrate import Emit, Sandbox, Stored, read_end

log = structlog.get_logger("logs")

#: Threads, and seconds that one may be busy with a task.
_THREADS, _PATIENCE = 4, 120.0
#: Seconds for the work in progress when the daemon stops.
_LAST_PATIENCE = 2.0
#: Seconds between two looks at tasks that run, and tasks of one look.
_REFRESH, _AT_A_TIME = 60.0, 200
#: Seconds for which the end of a task is held back.
_HELD = 5.0


class LogKeeper:
    """Stands between the substrate and the loop's inbox. `ended` and `tend` are for the loop's thread."""

    def __init__(
        self,
        kept: KeptLogs,
        launcher: Launcher,
        store: Store,
        sandbox_of: Callable[[ExecutorRecord], Sandbox],
        emit: Emit,
    ) -> None:
        """`sandbox_of` raises OSError for a task with an unreadable sandbox; `emit` accepts events."""
        self._next = time.monotonic() + _REFRESH
        self._refreshed = 0
        self._kept = kept
        self._launcher = launcher
        self._store = store
        self._sandbox_of = sandbox_of
        self._emit = emit
        self._crew = JobWorkers(_THREADS, _PATIENCE)
        self._lock = threading.Lock()
        #: Ends of tasks that are held back: until when (monotonic), the event, and its `stored`.
        self._held: dict[str, tuple[float, ev.TaskChanged, Stored | None]] = {}

    def take(self, event: ev.Event, stored: Stored | None = None) -> None:
        """Pass an event on, but that of a task's failure only when it is known why; from any thread."""
        if not isinstance(event, ev.TaskChanged) or event.state != "failed":
            self._emit(event, stored)
            return
        with self._lock:
            if event.task_id in self._held:
                return  # it is reported again, as it is not stored yet
            self._held[event.task_id] = (time.monotonic() + _HELD, event, stored)
        self._crew.hand(
            event.task_id, lambda: self._let_go(event.task_id, self._why(event.task_id, event.exit_code))
        )

    def due(self) -> bool:
        """Whether it is time to `refresh`."""
        return time.monotonic() >= self._next

    def refresh(self, tasks: Sequence[ExecutorRecord]) -> None:
        """Store logs of some of these running tasks, of others next time: a VM may disappear any time."""
        self._next = time.monotonic() + _REFRESH
        running = [task for task in tasks if task.state == "running"]
        for number in range(min(len(running), _AT_A_TIME)):
            # A copy, as the model goes on with its own.
            task = replace(running[(self._refreshed + number) % len(running)])
            self._crew.hand(task.task_id, partial(self._keep, task))
        self._refreshed += _AT_A_TIME

    def ended(self, tasks: Iterable[ExecutorRecord]) -> None:
        """Store the logs of these ended tasks, if they ran."""
        for task in tasks:
            if task.running_at is not None or task.state == "failed":
                self._crew.hand(task.task_id, partial(self._keep, task))

    def tend(self) -> None:
        """Release ends that were held back too long. Never waits."""
        now = time.monotonic()
        with self._lock:
            late = [task_id for task_id, (until, _, _) in self._held.items() if until < now]
        for task_id in late:
            self._let_go(task_id, "")
        for task_id in self._crew.overdue():
            log.warning("the logs of a task are not stored: it takes too long", task=task_id)
            why = f"its VM did not send all of it in {_PATIENCE:.0f} s"
            self._crew.hand(task_id, partial(self._note, task_id, why))

    @property
    def hanging(self) -> int:
        """Number of threads that hang."""
        return self._crew.hanging

    def close(self) -> None:
        """Begin nothing more; the next daemon receives the pending ends again."""
        self._crew.close(_LAST_PATIENCE)

    def _let_go(self, task_id: str, why: str) -> None:
        with self._lock:
            held = self._held.pop(task_id, None)
        if held is not None:
            _, event, stored = held
            self._emit(replace(event, message=f"{event.message}{why}"), stored)

    def _why(self, task_id: str, code: int | None) -> str:
        """Failure reason for a task with this code, to follow the message of its end."""
        return f"{'' if code is None else meaning_of(code)}{self._said(task_id, code)}"

    def _said(self, task_id: str, code: int | None) -> str:
        """Part of a reason with the task's output; empty when it is unavailable."""
        job_id = task_id.partition(".")[0]
        try:
            job, task = self._store.jobs.get(job_id), self._store.jobs.task(task_id)
            if job is None or job.ended or task is None:
                return ""  # executors that fail since their driver is gone: no reason depends on them
            spec, sandbox = self._store.jobs.spec(job_id), self._sandbox_of(task)
            _, stderr = read_end(sandbox, "stderr", TAIL)
            _, stdout = read_end(sandbox, "stdout", TAIL)
        except (OSError, StoreError) as error:
            log.warning("why a task failed cannot be read", task=task_id, why=str(error))
            return ""
        return self._launcher.failure_in(job_id, spec, stderr, stdout, code)

    def _keep(self, task: ExecutorRecord) -> None:
        try:
            job = self._store.jobs.get(task.job_id)
            if job is None:
                return
            sandbox, events = self._sandbox_of(task), task.number is None and task.ended
            had = max(job.job.executors, job.next_executor)
            self._kept.keep(task.job_id, task.task_id, sandbox, executors=had, events=events)
        except (OSError, StoreError) as error:
            if task.ended:
                self._note(task.task_id, str(error))
                log.warning("the logs of a task are not stored", task=task.task_id, why=str(error))

    def _note(self, task_id: str, why: str) -> None:
        self._kept.note(task_id.partition(".")[0], task_id, why)
