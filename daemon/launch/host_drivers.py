"""Drivers on the daemon's host, as the scheduling loop sees them: started, checked, found again, ended.

The loop only requests. Worker threads do the work, since a job can make it slow, and its results come back as
events. The launcher turns a driver into a process; the cluster model decides the consequences of its end.
"""

import contextlib
import math
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import get_args

import structlog

from conf.schema import JobSpec
from conf.util.backoff import Backoff
from daemon.core.clock import boot_seconds
from daemon.core.job_workers import JobWorkers
from daemon.disk.launch_records import LaunchLostError
from daemon.launch.driver_failures import ended
from daemon.launch.launcher import Launcher
from daemon.store.job_store import Store
from daemon.store.rows.database import StoreError
from environment.model.messages import events as ev
from environment.model.messages.records import ExecutorRecord, Fault, JobRecord
from environment.model.tasks.task_loss import FRESH_STARTS
from environment.number_format import times
from environment.types import Job
from framework.spark import DriverStatus, HostError, TooLateError

log = structlog.get_logger("drivers")

#: Threads that start, look at and end drivers; a start takes a tenth of a second.
THREADS = 8
#: Seconds that a start, a look at all drivers or an end may take, and those left when the daemon stops.
PATIENCE, LAST_PATIENCE = 90.0, 5.0
#: Seconds between one try to start a driver and the next, where the host is to blame; the executors wait for
#: their driver for longer than all of them (`spark.connect_timeout`).
PAUSES = (1.0, 2.0, 4.0, 8.0, 16.0)
#: Pauses before a launch with other ports.
FRESH_BACKOFF = Backoff(first=1.0, longest=60.0)
#: Seconds until work that this host or the store could not do now is tried again.
_PAUSE = 1.0
#: Seconds between two questions whether something may be done.
_ASK_AGAIN = 0.1
#: Why a driver is not started yet that was about to be when the lease was about to end.
_WAITS_FOR_LEASE = "its driver waits to be started until this daemon has renewed its lease"
_LOOK = "a look at all drivers"  # no job's id


def sweep(launcher: Launcher, store: Store) -> None:
    """End drivers here that a leader on another host has given up; for a daemon without a running loop."""
    for job_id in launcher.launched():
        job = store.jobs.get(job_id)
        if job is None or not job.driver_on:
            continue
        undone = job.started_at is None and (job.aborting or job.placed_at is None)
        if job.ended or undone or not launcher.is_here(job.driver_on):
            try:
                if launcher.driver_status(job_id).state == "running":
                    log.info("driver given up", job=job_id)
                launcher.abandon(job_id, afresh=not job.ended)
            except OSError as error:  # the next sweep may do better
                log.warning("a driver cannot be given up", job=job_id, why=str(error))


class HostDrivers:
    """The drivers that run here, and the state for further launches of jobs.

    For one thread, the loop's; the worker threads share `_running` and the fields below it under a lock.
    """

    def __init__(
        self,
        launcher: Launcher,
        store: Store,
        put: Callable[[ev.Event], None],
        tasks: Callable[[str], Sequence[ExecutorRecord]],
        holds_until: Callable[[], float] = lambda: math.inf,
        now: Callable[[], float] = time.time,
        retries_left: Callable[[str, Fault], int] = lambda *_: 0,
        *,
        requeue: bool,
    ) -> None:
        """`put` accepts events, from any thread; `tasks` returns a job's tasks by its id.

        `holds_until` is called, from any thread, before each action on a driver: it returns the
        `boot_seconds` by which the action must be done; a late action waits. `retries_left` returns how often
        a failed driver of a job would be started again.

        With `requeue`, jobs with a driver on a host that is gone start afresh.
        """
        self._launcher = launcher
        self._store = store
        self._put = put
        self._tasks = tasks
        self._holds_until = holds_until
        self._now = now
        self._closing = threading.Event()
        self._retries_left = retries_left
        self._requeue = requeue
        self._crew = JobWorkers(THREADS, PATIENCE)
        #: Jobs whose driver is to be started when the store can be read again.
        self._late: dict[str, Job] = {}
        self._specs: dict[str, JobSpec] = {}
        #: Jobs that are over, and whose launch is to be forgotten when their last task has ended.
        self._over: set[str] = set()
        self._lock = threading.Lock()
        self._running: set[str] = set()
        #: Of jobs, by whose fault their driver may fail and would be started again.
        self._retried: dict[str, frozenset[Fault]] = {}
        #: Work that this host or the store could not do, by job, and when (monotonic) to try it again.
        self._again: list[tuple[str, float, Callable[[], None]]] = []
        self._fresh_starts: dict[str, int] = {}
        #: Jobs whose driver ends for another job: it has not failed, and is started again later.
        self._yielding: set[str] = set()
        self._looking = False

    def spec(self, job_id: str) -> JobSpec:
        """Submitted spec of a job; ValueError when the store has none, StoreError when the store fails."""
        if job_id not in self._specs:
            spec = self._store.jobs.spec(job_id)
            if spec is None:
                raise ValueError(f"the store has no specification of {job_id}")
            self._specs[job_id] = spec
        return self._specs[job_id]

    def start(self, job: Job) -> None:
        """Start the job's driver, if it never was; when the store cannot be read now, as soon as it can."""
        try:
            spec = self.spec(job.id)
        except StoreError:
            self._late[job.id] = job
            return
        except ValueError as error:
            self._failed(job.id, f"its driver could not be started: {error}")
            return
        with self._lock:
            self._retried[job.id] = frozenset(f for f in get_args(Fault) if self._retries_left(job.id, f))
        tasks = [replace(task) for task in self._tasks(job.id)]  # the model goes on with its own
        self._hand(job.id, lambda: self._start(job, spec, tasks, 0))

    def stop(self, job_id: str) -> None:
        """Ask the job's driver to end."""
        self._hand(job_id, lambda: self._stop(job_id))

    def give_way(self, job_id: str) -> None:
        """End the job's driver for another job, and tell when another may be started for it."""
        self._hand(job_id, lambda: self._give_way(job_id))

    def tend(self) -> None:
        """Start due work: late starts, retries, a check of running drivers. Never waits."""
        late, self._late = self._late, {}
        for job in late.values():
            self.start(job)
        for job_id in self._crew.overdue():
            if job_id == _LOOK:
                log.error("drivers cannot be looked at", seconds=PATIENCE)
                self._looking = False
            else:
                self._failed(job_id, f"its driver was given up: no answer in {PATIENCE:.0f} s")
                self.stop(job_id)
        with self._lock:
            now = time.monotonic()
            due = [(job_id, work) for job_id, at, work in self._again if at <= now]
            self._again = [one for one in self._again if one[1] > now]
        for job_id, work in due:
            self._hand(job_id, work)
        if self._running and not self._looking:
            self._looking = True
            self._crew.hand(_LOOK, self._look)

    def take_up(self, jobs: Sequence[JobRecord]) -> None:
        """Find an earlier daemon's drivers again, given the jobs that are not over or have open tasks."""
        for job in jobs:
            launched = job.started_at is not None or job.placed_at is not None
            if job.job.driver_here and launched and not (job.ended or job.aborting):
                self._resume(job)
        self.over(jobs)
        going_on = {job.job.id for job in jobs if not job.ended}
        for job_id in self._launcher.launched():
            if job_id not in going_on:
                # It was over when the earlier daemon died, who may not have come to say so to its driver.
                self.stop(job_id)
                self._over.add(job_id)

    def over(self, jobs: Iterable[JobRecord]) -> None:
        """Note those of these jobs that are over."""
        for job in jobs:
            if job.ended:
                self._over.add(job.job.id)
                self._late.pop(job.job.id, None)

    def forget(self, known: Callable[[str], object | None]) -> Sequence[str]:
        """Delete the secrets of ended jobs that are no longer `known`, and return the ids of these.

        Their drivers were stopped.
        """
        gone = [job_id for job_id in self._over if known(job_id) is None]
        for job_id in gone:
            self._over.discard(job_id)
            self._specs.pop(job_id, None)
            self._fresh_starts.pop(job_id, None)
            self._retried.pop(job_id, None)
            self._yielding.discard(job_id)
            self._hand(job_id, partial(self._launcher.forget, job_id))
        return gone

    @property
    def hanging(self) -> int:
        """Number of threads that hang."""
        return self._crew.hanging

    def close(self) -> None:
        """Begin nothing more. Drivers go on."""
        self._closing.set()
        self._crew.close(LAST_PATIENCE)

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
        self._put(ev.DriverEnded(self._now(), job.job.id, None, message, requeue=again))

    def _hand(self, job_id: str, work: Callable[[], None]) -> None:
        """Queue work behind earlier work for the job."""
        self._crew.hand(job_id, lambda: self._when_allowed(job_id, work))

    # ---- on threads of their own -------------------------------------------------------------------

    def _when_allowed(self, job_id: str, work: Callable[[], None]) -> None:
        while boot_seconds() >= self._holds_until():
            self._crew.waits(job_id)
            if self._closing.wait(_ASK_AGAIN):
                return
        try:
            work()
        except (OSError, StoreError) as error:  # of this host, such as too many open files, or of the store
            log.warning("work on a driver has to wait", job=job_id, why=str(error))
            with self._lock:
                self._again.append((job_id, time.monotonic() + _PAUSE, work))

    def _start(self, job: Job, spec: JobSpec, tasks: list[ExecutorRecord], tried: int) -> None:
        """Start a driver; the result is an event, or another try."""
        if job.id in self._over:
            return  # it was ended while it waited for another try
        try:
            status = self._launcher.start_driver(job, spec, tasks, self._holds_until)
        except TooLateError:  # nothing has failed, and while this daemon leads it is no try
            log.info("a driver's start waits for the lease", job=job.id)
            self._put(ev.DriverDelayed(self._now(), job.id, _WAITS_FOR_LEASE))
            self._hand(job.id, lambda: self._start(job, spec, tasks, tried))
        except HostError as error:
            self._try_again(job.id, str(error), tried, lambda: self._start(job, spec, tasks, tried + 1))
        except LaunchLostError as error:
            self._begin_afresh(job.id, str(error))
        except (OSError, ValueError) as error:
            self._failed(job.id, f"its driver could not be started: {error}")
            self.stop(job.id)
        else:
            with self._lock:
                self._running.add(job.id)
            if status.state == "running":
                self._put(ev.DriverStarted(self._now(), job.id))

    def _give_way(self, job_id: str) -> None:
        """End a running driver; a driver that has ended by itself is reported as usual."""
        try:
            ended = self._launcher.driver_status(job_id).state == "ended"
        except OSError:
            ended = False
        if ended:
            return
        with self._lock:
            self._yielding.add(job_id)
            self._running.add(job_id)  # so that it is looked at, whatever came of its start
        self._stop(job_id)

    def _stop(self, job_id: str) -> None:
        with self._lock:
            self._again = [one for one in self._again if one[0] != job_id]
        self._launcher.stop_driver(job_id)

    def _try_again(self, job_id: str, why: str, tried: int, again: Callable[[], None]) -> None:
        """Try once more a little later, with the same executors; at last, with others."""
        if tried >= len(PAUSES):
            self._begin_afresh(job_id, why)
            return
        pause = PAUSES[tried]
        log.warning("a driver could not be started", job=job_id, why=why, tries=tried + 1)
        message = f"its driver could not be started here ({why}); try {tried + 2} follows in {pause:.0f} s"
        self._later(job_id, pause, message, again)

    def _begin_afresh(self, job_id: str, why: str) -> None:
        """Replace a launch that failed because of the host, with other ports."""
        count = self._fresh_starts[job_id] = self._fresh_starts.get(job_id, 0) + 1
        if count > FRESH_STARTS:
            self._failed(job_id, f"this host failed its driver {times(count)}; the last time: {why}")
            return
        pause = FRESH_BACKOFF.after(count)
        log.warning("a driver is launched afresh", job=job_id, why=why, count=count, pause=pause)
        message = f"this host failed its driver ({why}); fresh start {count} of {FRESH_STARTS}"

        def let_go() -> None:
            if job_id not in self._over:
                self._launcher.abandon(job_id, afresh=True)
                self._put(ev.DriverEnded(self._now(), job_id, None, message, requeue=True))

        self._later(job_id, pause, f"{message} follows in {pause:.0f} s", let_go)

    def _later(self, job_id: str, pause: float, message: str, work: Callable[[], None]) -> None:
        with self._lock:
            self._again.append((job_id, time.monotonic() + pause, work))
        self._put(ev.DriverDelayed(self._now(), job_id, message))

    def _failed(self, job_id: str, why: str) -> None:
        with self._lock:
            self._running.discard(job_id)
        self._put(ev.DriverEnded(self._now(), job_id, None, why))

    def _look(self) -> None:
        """Check all running drivers; ends become events."""
        try:
            with self._lock:
                running = sorted(self._running)
            for job_id in running:
                try:
                    self._look_at(job_id)
                except OSError as error:  # of this host, such as too many open files: another look will tell
                    log.warning("a driver cannot be looked at", job=job_id, why=str(error))
        finally:
            self._looking = False

    def _look_at(self, job_id: str) -> None:
        status = self._launcher.driver_status(job_id)
        if status.state == "running":
            return
        with self._lock:
            if job_id not in self._running:
                return
            self._running.discard(job_id)
            yields = job_id in self._yielding
            self._yielding.discard(job_id)
        if yields and status.exit_code != 0:  # else it did well before it could be told
            again = ev.DriverEnded(self._now(), job_id, None, requeue=True)
            self._hand(job_id, lambda: self._clear(again))
            return
        spec = self._kept_spec(job_id)
        owner = "" if spec is None else spec.owner
        if status.state == "ended" and (why := self._launcher.host_trouble(job_id, status, owner)):
            self._crew.hand(job_id, lambda: self._begin_afresh(job_id, why))
            return
        message = _reason(status)
        if status.exit_code and not message:
            said = self._launcher.failure(job_id, spec, status.exit_code)
            message = ended(status.exit_code, said)
        if status.state != "ended":
            self.stop(job_id)  # it may have lost its supervisor, or its records, only
        event = ev.DriverEnded(self._now(), job_id, status.exit_code, message)
        # Whether it was for memory is decided by all that is known of its executors.
        faults = {"infrastructure"} if status.exit_code is None else {"user", "memory"}
        if status.exit_code != 0 and faults & self._retried.get(job_id, frozenset()):
            self._hand(job_id, lambda: self._clear(event))
        else:
            self._put(event)

    def _clear(self, event: ev.DriverEnded) -> None:
        """Put the launch of a driver that has ended aside for another one, and only then tell that it has."""
        self._launcher.abandon(event.job_id, afresh=True)
        self._put(event if event.requeue else replace(event, cleared=True))

    def _kept_spec(self, job_id: str) -> JobSpec | None:
        with contextlib.suppress(StoreError):
            return self._store.jobs.spec(job_id)
        return None


def _reason(status: DriverStatus) -> str:
    """Reason for a driver's disappearance without an exit code."""
    match status.state:
        case "lost":
            return "its driver vanished: its end was not observed"
        case "absent":
            return "its driver's records vanished: its result is unknown"
        case "unclear":
            return f"its driver's records are not what the daemon wrote: {status.message}"
    return f"its driver could not be started: {status.message}" if status.message else ""
