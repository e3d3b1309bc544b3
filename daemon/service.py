"""The scheduling loop: takes events in, lets the policy decide, keeps what happened, and acts on it.

One thread owns the cluster model. For every batch of events it runs: model, store, event log, then the
commands, then the acknowledgements; so what the world is told of is always on disk before. Everything else
(HTTP threads, pymesos' I/O thread) only puts events into the inbox or reads the store.
"""

import queue
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import structlog

from conf.schema import Config, JobSpec
from daemon.contract import Health, LogChunk, PolicyStatus, RejectedError, VmStatus
from daemon.journal import Journal
from daemon.launcher import Launcher
from daemon.logs import Logs
from daemon.panel import Panel
from daemon.store import DeposedError, IdempotencyConflictError, Store, StoreError
from environment import events as ev
from environment.check import whole_cluster_shortfall
from environment.cluster import ClusterModel, ModelOptions
from environment.eventlog import encode
from environment.explain import Explanation
from environment.records import ExecutorRecord, JobRecord
from environment.types import Job, Vm
from framework.link import MesosLink
from framework.session import SessionOptions
from framework.translate import Json
from profiles.profile import JobProfile

log = structlog.get_logger("service")

#: Seconds between ticks, on which timeouts are due and drivers are looked at.
TICK = 0.2
#: Seconds for which a user who ends a job waits until that is stored.
KILL_PATIENCE = 10.0
#: Events that are handled as one batch, with one write to the store.
BATCH = 1000
#: After how many seconds a submission to a full queue may be tried again.
_QUEUE_PAUSE = "30"


@dataclass(frozen=True, slots=True)
class Item:
    """An event in the inbox, with the status update that it acknowledges once it is stored."""

    event: ev.Event
    status: Json | None = field(default=None, repr=False)
    #: Set when what came of the event is stored.
    kept: threading.Event | None = field(default=None, repr=False)


class Service:
    """The scheduler behind the API; `run` is its loop, everything public may be called from any thread."""

    def __init__(
        self,
        config: Config,
        store: Store,
        launcher: Launcher,
        session: SessionOptions,
        *,
        data_dir: Path,
        sandboxes: Path | None = None,
        profiles: Mapping[str, JobProfile] | None = None,
    ) -> None:
        self._config = config
        self._store = store
        self._launcher = launcher
        #: What is known of job types.
        self._profiles = profiles or {}
        self._inbox: queue.SimpleQueue[Item] = queue.SimpleQueue()
        self._model = ClusterModel(
            ModelOptions(
                host=launcher.here,
                launch_timeout=config.mesos.launch_timeout,
                unreachable_timeout=config.mesos.unreachable_timeout,
            )
        )
        self._panel = Panel(config, store)
        self._link = MesosLink(session, self._put, store.get("framework_id"), self._remember_framework)
        self._logs = Logs(launcher, store, self._link, sandboxes)
        self._journal = Journal(data_dir / "events.jsonl")
        #: Jobs that wait for a placement, as of the last event.
        self._queued = 0
        #: Those that were accepted and are not among them yet.
        self._arriving: set[str] = set()
        self._stopping = threading.Event()
        self._specs: dict[str, JobSpec] = {}
        #: Jobs whose driver runs on this host.
        self._drivers: set[str] = set()
        #: Jobs that are over, and whose launch is to be forgotten when their last task has ended.
        self._over: set[str] = set()
        self._vms: tuple[VmStatus, ...] = ()
        self._known_vms: tuple[Vm, ...] = ()
        self._due: Mapping[str, Mapping[str, float]] = {}
        self._alive_at = time.monotonic()
        self._store_trouble = ""

    # ---- the loop --------------------------------------------------------------------------------

    def run(self) -> None:
        """Schedule until `stop`; to be called once, in a thread of its own."""
        self._restore()
        next_tick = 0.0
        while not self._stopping.is_set():
            self._alive_at = time.monotonic()
            items = self._take(timeout=TICK / 2)
            if time.monotonic() >= next_tick:
                next_tick = time.monotonic() + TICK
                self._link.tend()
                items += [Item(event) for event in self._look_at_drivers()]
                items.append(Item(ev.Tick(time.time())))
            self._handle(items)
            if self._model.ready_to_decide():
                self._decide()
        self._link.stop()
        self._panel.close()
        self._journal.close()

    def stop(self) -> None:
        """End the loop soon. Jobs go on; a daemon started again takes them up."""
        self._stopping.set()

    def _put(self, event: ev.Event, status: Json | None = None) -> None:
        self._inbox.put(Item(event, status))

    def _take(self, timeout: float) -> list[Item]:
        items: list[Item] = []
        try:
            items.append(self._inbox.get(timeout=timeout))
            while len(items) < BATCH:
                items.append(self._inbox.get_nowait())
        except queue.Empty:
            pass
        return items

    def _handle(self, items: list[Item], explanations: tuple[Explanation, ...] = ()) -> None:
        """Run a batch through the model, store what changed, then act and acknowledge."""
        lines: list[str] = []
        commands: list[ev.Command] = []
        for item in items:
            caused = self._model.handle(item.event)
            if caused or not isinstance(item.event, ev.Tick):
                lines += [encode(item.event), *map(encode, caused)]
            commands += caused
        if not self._save(explanations):
            return
        if lines:
            self._journal.write(lines)
        for command in commands:
            self._execute(command)
        self._wrap_up()
        for item in items:
            if item.status is not None:
                self._link.acknowledge(item.status)
            if item.kept is not None:
                item.kept.set()
        if items:
            self._picture()
            self._arriving -= {i.event.job.id for i in items if isinstance(i.event, ev.JobSubmitted)}

    def _save(self, explanations: tuple[Explanation, ...]) -> bool:
        """Store what changed; tell whether nothing of it is lost.

        Nothing goes on before: a full disk stops the loop, not the jobs. When the daemon is stopped in
        between, nothing came of the batch, and the next daemon finds out what the master told it.
        """
        changes = self._model.take_changes()
        while changes.jobs or changes.executors or explanations:
            try:
                self._store.save(changes, explanations)
            except DeposedError as error:
                log.error("no longer leading", why=str(error))
                self._stopping.set()
                return False
            except StoreError as error:
                self._store_trouble = str(error)
                log.error("store", error=str(error))
                self._alive_at = time.monotonic()
                if self._stopping.wait(1.0):
                    return False
                continue
            self._store_trouble = ""
            break
        self._over.update(job.job.id for job in changes.jobs if job.ended)
        return True

    def _wrap_up(self) -> None:
        """Forget the secrets of jobs that are over and done, now that their drivers were told to end."""
        done = [job_id for job_id in self._over if self._model.job(job_id) is None]
        for job_id in done:
            self._over.discard(job_id)
            self._specs.pop(job_id, None)
            self._launcher.forget(job_id)

    def _execute(self, command: ev.Command) -> None:
        match command:
            case ev.StartDriver(job_id=job_id):
                self._start_driver(job_id)
            case ev.KillDriver(job_id=job_id):
                self._launcher.stop_driver(job_id)
            case _:
                self._link.execute(command, self._describe)

    def _describe(self, task: ev.Task) -> tuple[Any, str]:
        job = self._model.job(task.job_id)
        if job is None:
            raise ValueError(f"{task.job_id} is not known")
        return self._launcher.describe(task, job.job, self._spec(task.job_id), self._model.tasks(task.job_id))

    def _spec(self, job_id: str) -> JobSpec:
        if job_id not in self._specs:
            spec = self._store.spec(job_id)
            if spec is None:
                raise ValueError(f"the store has no specification of {job_id}")
            self._specs[job_id] = spec
        return self._specs[job_id]

    # ---- deciding --------------------------------------------------------------------------------

    def _decide(self) -> None:
        event, explanations = self._panel.decide(self._model.view(), self._model.requests())
        self._handle([Item(event)], explanations)

    # ---- drivers on this host --------------------------------------------------------------------

    def _start_driver(self, job_id: str) -> None:
        job = self._model.job(job_id)
        if job is None or job.ended:
            return
        try:
            self._launcher.start_driver(job.job, self._spec(job_id))
        except (OSError, ValueError) as error:
            self._put(ev.DriverEnded(time.time(), job_id, None, f"its driver could not be started: {error}"))
            return
        self._drivers.add(job_id)
        self._put(ev.DriverStarted(time.time(), job_id))

    def _look_at_drivers(self) -> list[ev.Event]:
        ended: list[ev.Event] = []
        for job_id in sorted(self._drivers):
            status = self._launcher.driver_status(job_id)
            if status.state == "running":
                continue
            self._drivers.discard(job_id)
            message = ""
            if status.state == "lost":
                message = "its driver vanished: nobody saw how it ended"
                self._launcher.stop_driver(job_id)  # it may have lost its supervisor only
            ended.append(ev.DriverEnded(time.time(), job_id, status.exit_code, message))
        return ended

    def _restore(self) -> None:
        """Take up what an earlier daemon left: its jobs, its tasks, its drivers."""
        jobs, executors = self._store.unfinished()
        self._model.restore(jobs, executors)
        for job in jobs:
            if job.job.driver is None and job.started_at is not None and not job.ended:
                self._resume_driver(job)
        self._over.update(job.job.id for job in jobs if job.ended)
        going_on = {job.job.id for job in jobs if not job.ended}
        for job_id in self._launcher.launched():
            if job_id not in going_on:
                # It was over when the earlier daemon died, who may not have come to say so to its driver.
                self._launcher.stop_driver(job_id)
                self._over.add(job_id)
        self._wrap_up()
        if jobs:
            log.info("taken up", jobs=len(jobs), tasks=sum(not task.ended for task in executors))

    def _resume_driver(self, job: JobRecord) -> None:
        if self._launcher.is_here(job.driver_on):
            # Started now if it never was: the intent is stored before the deed.
            self._start_driver(job.job.id)
            return
        host, again = job.driver_on.partition("@")[2], self._config.leader.lost_drivers == "requeue"
        message = f"its driver ran on {host}, whose daemon does not lead any more"
        self._put(ev.DriverEnded(time.time(), job.job.id, None, message, requeue=again))

    # ---- what the API asks -----------------------------------------------------------------------

    def submit(self, spec: JobSpec, idempotency_key: str | None = None) -> tuple[JobRecord, bool]:
        """Accept a job; see `Scheduler.submit`."""
        self._check(spec)
        if self._queued + len(self._arriving) >= self._config.max_queued_jobs:
            detail = f"{self._config.max_queued_jobs} jobs are queued already (max_queued_jobs)"
            raise RejectedError(429, "The queue is full", detail, {"Retry-After": _QUEUE_PAUSE})
        at, profile = time.time(), self._profiles.get(spec.type)

        def job(job_id: str) -> Job:
            return Job(
                id=job_id,
                type=spec.type,
                cpus=spec.cpus,
                memory_mib=spec.memory,
                executors=spec.executors,
                submitted_at=at,
                name=spec.label,
                driver=self._launcher.driver_size(spec),
                expected_duration=profile.duration(spec.cpus, spec.memory, spec.executors)
                if profile
                else None,
                prefers=profile.prefers if profile else None,
            )

        try:
            record, new = self._store.submit(spec, job, idempotency_key, at)
        except IdempotencyConflictError as error:
            raise RejectedError(409, "Idempotency key used before", str(error)) from error
        except StoreError as error:
            raise RejectedError(503, "The job store is not available", str(error)) from error
        if new:
            self._arriving.add(record.job.id)
            self._put(ev.JobSubmitted(at, record.job))
        return record, new

    def _check(self, spec: JobSpec) -> None:
        try:
            self._launcher.check(spec)
        except ValueError as error:
            raise RejectedError(422, "The job cannot be launched", str(error)) from error
        shortfall = whole_cluster_shortfall(self._known_vms, spec.cpus, spec.memory, spec.executors)
        driver = self._launcher.driver_size(spec)
        if shortfall is None and driver is not None:
            shortfall = whole_cluster_shortfall(self._known_vms, driver.cpus, driver.memory_mib, 1)
        if shortfall is not None:
            raise RejectedError(422, "The job fits no cluster of this size", shortfall)

    def kill(self, job_id: str) -> JobRecord:
        """End a job; see `Scheduler.kill`."""
        record = self._store.job(job_id)
        if record is None:
            raise RejectedError(404, "No such job", f"there is no job {job_id}")
        if record.ended:
            return record
        kept = threading.Event()
        self._inbox.put(Item(ev.KillRequested(time.time(), job_id), kept=kept))
        if not kept.wait(KILL_PATIENCE):
            why = f"{job_id} could not be ended within {KILL_PATIENCE:.0f} s; see /readyz, and try again"
            raise RejectedError(503, "The scheduler is busy", why)
        return self._store.job(job_id) or record

    def cluster(self) -> tuple[VmStatus, ...]:
        """All VMs that are there, as of the last event."""
        return self._vms

    def due(self) -> Mapping[str, Mapping[str, float]]:
        """What running jobs owe beyond their records, as of the last event."""
        return self._due

    def policy(self) -> PolicyStatus:
        """Who decides."""
        return self._panel.status()

    def set_policy(self, name: str, options: Mapping[str, Any]) -> PolicyStatus:
        """Let another policy decide; see `Scheduler.set_policy`."""
        status = self._panel.set_policy(name, options)
        self._put(ev.PolicyChanged(time.time()))
        return status

    def set_shadow(self, name: str | None, options: Mapping[str, Any]) -> PolicyStatus:
        """Let another policy look on, or none; see `Scheduler.set_shadow`."""
        return self._panel.set_shadow(name, options)

    def log(
        self, job: JobRecord, executor: ExecutorRecord | None, stream: str, offset: int, limit: int
    ) -> LogChunk:
        """Read a log; see `Scheduler.log`."""
        return self._logs.read(job, executor, stream, offset, limit)

    def health(self) -> Health:
        """Whether jobs can be scheduled now."""
        silent = time.monotonic() - self._alive_at
        checks = {
            "mesos": self._link.state,
            "store": self._store_trouble or "ok",
            "loop": "ok" if silent < 10 else f"busy for {silent:.0f} s",
        }
        try:
            self._store.check()
        except StoreError as error:
            checks["store"] = str(error)
        if self._journal.trouble:
            checks["events"] = self._journal.trouble
        ready = self._link.subscribed and checks["store"] == "ok" and silent < 10
        return Health(ready, checks)

    # ---- small things ----------------------------------------------------------------------------

    def _remember_framework(self, framework_id: str) -> None:
        self._store.put("framework_id", framework_id)

    def _picture(self) -> None:
        """Make the picture of the cluster that other threads are shown."""
        self._queued = self._model.waiting
        self._known_vms = self._model.vms()
        self._due = self._model.due(time.time())
        self._vms = tuple(
            VmStatus(
                id=vm.id,
                name=vm.name,
                type=vm.type,
                address=vm.address,
                cpus=vm.cpus,
                memory_mib=vm.memory_mib,
                price_per_hour=vm.price_per_hour,
                used_cpus=round(self._model.ledger.cpus(vm.id), 3),
                used_memory_mib=self._model.ledger.memory_mib(vm.id),
                executors=self._model.ledger.task_ids(vm.id),
            )
            for vm in self._known_vms
        )
