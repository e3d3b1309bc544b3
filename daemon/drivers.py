"""Drivers on the daemon's host, as the scheduling loop sees them: started, looked at, found again, ended.

How a driver becomes a process is the launcher's business, what its end means the cluster model's.
"""

import time
from collections.abc import Callable, Iterable, Sequence

import structlog

from conf.schema import JobSpec
from daemon.launcher import Launcher
from daemon.store import Store, StoreError
from environment import events as ev
from environment.records import ExecutorRecord, JobRecord
from environment.types import Job

log = structlog.get_logger("drivers")


class HostDrivers:
    """The drivers that run here, and what is remembered for launches of jobs that go on. For one thread."""

    def __init__(
        self,
        launcher: Launcher,
        store: Store,
        put: Callable[[ev.Event], None],
        tasks: Callable[[str], Sequence[ExecutorRecord]],
        *,
        requeue: bool,
    ) -> None:
        """`put` takes events, `tasks` knows those of a job by its id.

        With `requeue`, jobs whose driver is on a host that is gone start afresh.
        """
        self._launcher = launcher
        self._store = store
        self._put = put
        self._tasks = tasks
        self._requeue = requeue
        self._running: set[str] = set()
        #: Jobs whose driver is to be started when the store can be read again.
        self._late: dict[str, Job] = {}
        self._specs: dict[str, JobSpec] = {}
        #: Jobs that are over, and whose launch is to be forgotten when their last task has ended.
        self._over: set[str] = set()

    def spec(self, job_id: str) -> JobSpec:
        """What the user submitted; ValueError when the store does not know, StoreError when it is silent."""
        if job_id not in self._specs:
            spec = self._store.spec(job_id)
            if spec is None:
                raise ValueError(f"the store has no specification of {job_id}")
            self._specs[job_id] = spec
        return self._specs[job_id]

    def start(self, job: Job) -> None:
        """Start the job's driver, if it never was; when the store cannot be read now, as soon as it can."""
        try:
            self._launcher.start_driver(job, self.spec(job.id), self._tasks(job.id))
        except StoreError:
            self._late[job.id] = job
            return
        except (OSError, ValueError) as error:
            self._put(ev.DriverEnded(time.time(), job.id, None, f"its driver could not be started: {error}"))
            return
        self._running.add(job.id)
        self._put(ev.DriverStarted(time.time(), job.id))

    def stop(self, job_id: str) -> None:
        """Ask the job's driver to end."""
        self._launcher.stop_driver(job_id)

    def look(self) -> list[ev.Event]:
        """The ends of drivers that have ended since."""
        late, self._late = self._late, {}
        for job in late.values():
            self.start(job)
        ended: list[ev.Event] = []
        for job_id in sorted(self._running):
            status = self._launcher.driver_status(job_id)
            if status.state == "running":
                continue
            self._running.discard(job_id)
            message = ""
            if status.state == "lost":
                message = "its driver vanished: nobody saw how it ended"
                self._launcher.stop_driver(job_id)  # it may have lost its supervisor only
            ended.append(ev.DriverEnded(time.time(), job_id, status.exit_code, message))
        return ended

    def take_up(self, jobs: Sequence[JobRecord]) -> None:
        """Find an earlier daemon's drivers again, given the jobs that are not over or have open tasks."""
        for job in jobs:
            launched = job.started_at is not None or job.placed_at is not None
            if job.job.driver is None and launched and not (job.ended or job.aborting):
                self._resume(job)
        self.over(jobs)
        going_on = {job.job.id for job in jobs if not job.ended}
        for job_id in self._launcher.launched():
            if job_id not in going_on:
                # It was over when the earlier daemon died, who may not have come to say so to its driver.
                self._launcher.stop_driver(job_id)
                self._over.add(job_id)

    def over(self, jobs: Iterable[JobRecord]) -> None:
        """Note those of these jobs that are over."""
        for job in jobs:
            if job.ended:
                self._over.add(job.job.id)
                self._late.pop(job.job.id, None)

    def forget(self, gone: Callable[[str], bool]) -> None:
        """Forget the secrets of jobs that are over and `gone`: their drivers were told to end before."""
        for job_id in [job_id for job_id in self._over if gone(job_id)]:
            self._over.discard(job_id)
            self._specs.pop(job_id, None)
            self._launcher.forget(job_id)

    def _resume(self, job: JobRecord) -> None:
        started = job.started_at is not None
        if self._launcher.is_here(job.driver_on):
            if started:  # now, if it never was: the intent is stored before the deed
                self.start(job.job)
            return
        # Executors that were launched for a driver there will not find one here, so they go in any case.
        where = f"on {job.driver_on.partition('@')[2]}, whose daemon does not lead any more"
        message = f"its driver ran {where}" if started else f"its driver was to run {where}"
        again = self._requeue or not started
        self._put(ev.DriverEnded(time.time(), job.job.id, None, message, requeue=again))
