"""The scheduling loop: takes events in, lets the policy decide, keeps what happened, and acts on it.

One thread owns the cluster model. For every batch of events it runs: model, store, event log, then the
commands, then the acknowledgements; so what the world is told of is always on disk before. Everything else
(HTTP threads, pymesos' I/O thread) only puts events into the inbox or reads the store.
"""

import queue
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import structlog

from conf.schema import Config, JobSpec
from daemon.clock import Clock
from daemon.contract import (
    WITH_DRIVER,
    Health,
    LogChunk,
    PolicyStatus,
    RejectedError,
    Standing,
    VmStatus,
)
from daemon.diskwatch import DiskWatch
from daemon.drivers import HostDrivers
from daemon.embedded_watch import EmbeddedWatch
from daemon.intake import Intake
from daemon.journal import Journal
from daemon.launch_records import RecordsError
from daemon.launcher import Launcher
from daemon.logs import Logs
from daemon.policy_switch import PolicySwitch
from daemon.store import DeposedError, Store, StoreError
from daemon.terms import Term
from environment.explain import Explanation
from environment.model import events as ev
from environment.model.cluster_model import ClusterModel, ModelOptions
from environment.model.event_log import encode
from environment.model.records import ExecutorRecord, JobRecord
from environment.types import Job
from framework.link import MesosLink
from framework.session import SessionOptions
from framework.spark import DriverUi
from framework.translate import Json
from profiles.profile import JobProfile

log = structlog.get_logger("service")

#: Seconds between ticks, on which timeouts are due and drivers are looked at.
TICK = 0.2
#: Seconds for which a user who ends a job waits until that is stored.
KILL_PATIENCE = 10.0
#: Seconds between two tries to find out whether this daemon still leads.
RENEWAL = 0.2
#: Seconds for which a user waits whose job fits no VM that is known, until the master was asked for others.
_LOOK_SECONDS = 3.0
#: Events that are handled as one batch, with one write to the store.
BATCH = 1000


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
        term: Term | None = None,
        *,
        data_dir: Path,
        sandboxes: Path | None = None,
        profiles: Mapping[str, JobProfile] | None = None,
        watch: EmbeddedWatch | None = None,
        jvms: int | None = None,
        clock: Clock | None = None,
        restored: Callable[[], None] = lambda: None,
    ) -> None:
        """For a term in which this daemon leads; without one, no other daemon can.

        `restored` is called when all is taken up that an earlier daemon left.
        """
        self._restored = restored
        self._store = store
        self._watch = watch
        self._term = store.begin_term("") if term is None else term
        self._launcher = launcher
        self._inbox: queue.SimpleQueue[Item] = queue.SimpleQueue()
        self._model = ClusterModel(
            ModelOptions(
                host=launcher.here,
                launch_timeout=config.mesos.launch_timeout,
                unreachable_timeout=config.mesos.unreachable_timeout,
                jvms=jvms,
                maintenance_margin=config.mesos.maintenance_margin,
            )
        )
        self._clock = clock or Clock(store.get("clock") or "", store.time)
        now = self._clock.now
        self._policies = PolicySwitch(config, store, self._renew, now)
        self._link = MesosLink(session, self._put, store.get("framework_id"), self._may_act, now)
        self._logs = Logs(launcher, store, self._link, sandboxes)
        log_files = config.event_log
        self._journal = Journal(
            data_dir / "events.jsonl", size=log_files.size << 20, earlier=log_files.earlier
        )
        requeue = config.leader.lost_drivers == "requeue"
        self._drivers = HostDrivers(
            launcher,
            store,
            self._put,
            self._model.tasks,
            lambda: self._term.holds_until,
            now,
            requeue=requeue,
        )
        self._intake = Intake(
            store, launcher, profiles or {}, self._arrive, self._look_for_vms, config.max_queued_jobs, now
        )
        self._disk = DiskWatch(data_dir)
        #: Nothing was decided for the disk's sake.
        self._held = False
        #: The subscription that the model knows of: a later one may stand already.
        self._subscription = 0
        self._stopping = threading.Event()
        self._vms: tuple[VmStatus, ...] = ()
        self._due: Mapping[str, Mapping[str, float]] = {}
        self._standing = Standing()
        self._next_tick = 0.0
        self._alive_at = time.monotonic()
        self._store_trouble = ""

    # ---- the loop --------------------------------------------------------------------------------

    def run(self) -> None:
        """Schedule until `stop`; to be called once, in a thread of its own.

        Raises StoreError when what is to be taken up cannot be read.
        """
        try:
            self._restore()
            self._restored()
            self._disk.start()
            self._link.start()
            while not self._stopping.is_set():
                self._alive_at = time.monotonic()
                self._turn()
        finally:
            self._disk.stop()
            self._link.stop()
            self._drivers.close()
            self._policies.close()
            self._journal.close()

    def stop(self) -> None:
        """End the loop soon. Jobs go on; a daemon started again takes them up."""
        self._stopping.set()

    def _turn(self) -> None:
        items = self._take(timeout=TICK / 2)
        self._renew()
        if self._stopping.is_set():
            return
        if time.monotonic() >= self._next_tick:
            self._next_tick = time.monotonic() + TICK
            self._drivers.tend()
            if self._clock.look(idle=self._model.idle):
                self._keep_time()
            items += [Item(event) for event in self._gone_with_mesos()]
            if self._held and not self._disk.trouble:
                self._held = False
                items.append(Item(ev.PolicyChanged(self._clock.now())))
            items.append(Item(ev.Tick(self._clock.now())))
        self._handle(items)
        if self._model.ready_to_decide():
            self._decide()

    def _gone_with_mesos(self) -> list[ev.Event]:
        """What it means that the embedded Mesos has ended: nobody else could tell of its tasks."""
        if self._watch is None or not self._watch.took_its_tasks():
            return []
        now, why = self._clock.now(), "the embedded Mesos ended, and its tasks with it"
        tasks = [ev.TaskChanged(now, t.task_id, "gone", t.vm_id, "", why) for t in self._model.open_tasks()]
        return [*tasks, *(ev.VmLost(now, vm.id) for vm in self._model.vms())]

    def _keep_time(self) -> None:
        try:
            self._store.put("clock", self._clock.kept)
        except StoreError as error:  # a daemon that starts without it asks the store's clock
            log.warning("the daemon's time is not kept", why=str(error))

    def _renew(self) -> None:
        """Go on leading, unless another daemon does; what keeps this loop from coming here ends its term."""
        try:
            self._term.renew()
        except DeposedError as error:
            self._step_down(str(error))
        except StoreError as error:
            log.error("store", error=str(error))
            self._store_trouble = str(error)

    def _may_act(self) -> bool:
        """Whether it is certain that no other daemon leads; for any thread."""
        return self._term.holds

    def _await_certainty(self) -> bool:
        """Wait until it is certain that no other daemon leads; False when one does, or when stopping."""
        while not self._may_act():
            self._alive_at = time.monotonic()
            self._renew()
            if not self._may_act() and self._stopping.wait(RENEWAL):
                return False
        return True

    def _step_down(self, why: str) -> None:
        log.error("no longer leading", why=why)
        self._stopping.set()

    def _put(self, event: ev.Event, status: Json | None = None) -> None:
        self._inbox.put(Item(event, status))

    def _arrive(self, at: float, job: Job) -> None:
        self._put(ev.JobSubmitted(at, job))

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
        commands: list[tuple[ev.Command, int]] = []
        for item in items:
            caused = self._model.handle(item.event)
            if caused or not isinstance(item.event, ev.Tick):
                lines += [encode(item.event), *map(encode, caused)]
            if isinstance(item.event, ev.Subscribed):
                self._subscription = item.event.subscription
            commands += ((command, self._subscription) for command in caused)
        if not self._save(items, explanations) or not self._await_certainty():
            return
        if lines:
            self._journal.write(lines)
        if self._journal.full:
            self._journal.turn(encode(self._model.snapshot()))
        for command, subscription in commands:
            self._execute(command, subscription)
        self._forget()
        if items:
            self._picture({i.event.job.id for i in items if isinstance(i.event, ev.JobSubmitted)})
        for item in items:
            if item.status is not None:
                self._link.acknowledge(item.status)
            if item.kept is not None:
                item.kept.set()

    def _save(self, items: Sequence[Item], explanations: tuple[Explanation, ...]) -> bool:
        """Store what changed; tell whether nothing of it is lost.

        Nothing goes on before: a full disk stops the loop, not the jobs. When the daemon is stopped in
        between, nothing came of the batch, and the next daemon finds out what the master told it.
        """
        changes = self._model.take_changes()
        subscribed = [item.event.framework_id for item in items if isinstance(item.event, ev.Subscribed)]
        facts = {"framework_id": subscribed[-1]} if subscribed else {}
        while changes.jobs or changes.executors or explanations or facts:
            try:
                self._store.save(changes, explanations, facts)
            except DeposedError as error:
                self._step_down(str(error))
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
        self._drivers.over(changes.jobs)
        self._policies.observe(changes.ended)
        for task in changes.executors:
            if task.state == "lost" and task.running_at is None:
                log.warning("never ran", task=task.task_id, vm=task.vm_name, why=task.message[:300])
        return True

    def _forget(self) -> None:
        self._drivers.forget(lambda job_id: self._model.job(job_id) is None)

    def _execute(self, command: ev.Command, subscription: int) -> None:
        match command:
            case ev.StartDriver(job_id=job_id):
                self._start_driver(job_id)
            case ev.KillDriver(job_id=job_id):
                self._drivers.stop(job_id)
            case _:
                self._link.execute(command, self._describe, subscription)

    def _describe(self, task: ev.Task) -> tuple[Any, str]:
        if not self._may_act():
            raise ValueError("another daemon may lead by now")
        job = self._model.job(task.job_id)
        if job is None:
            raise ValueError(f"{task.job_id} is not known")
        try:
            spec = self._drivers.spec(task.job_id)
        except StoreError as error:
            raise ValueError(str(error)) from error  # the launch is dropped, and decided again
        except ValueError as error:  # damaged since it was taken up
            self._put(ev.DriverEnded(self._clock.now(), task.job_id, None, f"{error} that can be read"))
            raise
        try:
            return self._launcher.describe(task, job.job, spec, self._model.tasks(task.job_id))
        except RecordsError as error:  # no other launch would do better
            self._put(ev.DriverEnded(self._clock.now(), task.job_id, None, str(error)))
            raise

    # ---- deciding --------------------------------------------------------------------------------

    def _decide(self) -> None:
        if trouble := self._disk.trouble:
            self._hold(f"nothing is launched: {trouble}")
            return
        event, explanations = self._policies.decide(self._model.view(), self._model.requests())
        self._handle([Item(event)], explanations)

    def _hold(self, why: str) -> None:
        """Decide that all wait, as a policy might."""
        self._held = True
        head = next(iter(self._model.requests()))
        self._handle([Item(ev.Decided(self._clock.now(), (), ev.Waiting(head.job.id, why)))])

    def _start_driver(self, job_id: str) -> None:
        job = self._model.job(job_id)
        if job is not None and not job.ended:
            self._drivers.start(job.job)

    def _restore(self) -> None:
        """Take up what an earlier daemon left: its jobs, its tasks, its drivers."""
        for damage in self._store.put_damaged_aside(self._clock.now()):
            log.error("a row of the job store cannot be read and is put aside", row=str(damage))
        jobs, tasks = self._store.unfinished()
        self._clock.begin(jobs, [task for task in tasks if not task.ended])
        self._keep_time()
        self._handle([Item(ev.Restored(self._clock.now(), tuple(jobs), tuple(tasks), self._model.options))])
        self._drivers.take_up(jobs)
        self._forget()
        if jobs:
            log.info("taken up", jobs=len(jobs), tasks=sum(not task.ended for task in tasks))

    # ---- what the API asks -----------------------------------------------------------------------

    def submit(self, spec: JobSpec, idempotency_key: str | None = None) -> tuple[JobRecord, bool]:
        """Accept a job; see `Scheduler.submit`."""
        return self._intake.submit(spec, idempotency_key)

    def kill(self, job_id: str) -> JobRecord:
        """End a job; see `Scheduler.kill`."""
        record = self._store.job(job_id)
        if record is None:
            raise RejectedError(404, "No such job", f"there is no job {job_id}")
        if record.ended:
            return record
        kept = threading.Event()
        self._inbox.put(Item(ev.KillRequested(self._clock.now(), job_id), kept=kept))
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

    def standing(self) -> Standing:
        """Who of the queued jobs waits for whom, as of the last event."""
        return self._standing

    def policy(self) -> PolicyStatus:
        """Who decides."""
        return self._policies.status()

    def set_policy(self, name: str, options: Mapping[str, Any]) -> PolicyStatus:
        """Let another policy decide; see `Scheduler.set_policy`."""
        status = self._policies.set_policy(name, options)
        self._put(ev.PolicyChanged(self._clock.now()))
        return status

    def set_shadow(self, name: str | None, options: Mapping[str, Any]) -> PolicyStatus:
        """Let another policy look on, or none; see `Scheduler.set_shadow`."""
        return self._policies.set_shadow(name, options)

    def log(
        self, job: JobRecord, executor: ExecutorRecord | None, stream: str, offset: int, limit: int
    ) -> LogChunk:
        """Read a log; see `Scheduler.log`."""
        return self._logs.read(job, executor, stream, offset, limit)

    def ui(self, job: JobRecord) -> DriverUi | None:
        """Where the driver's UI is; see `Scheduler.ui`."""
        spec = self._store.spec(job.job.id)
        if spec is None or job.state not in WITH_DRIVER:
            return None
        return self._launcher.ui(job.job.id, spec, self._store.executors(job.job.id))

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
        if damaged := self._store.damaged():
            checks["rows"] = f"{len(damaged)} cannot be read ({damaged[0]}); see `stoker doctor`"
        if self._watch is not None:
            checks["embedded mesos"] = self._watch.state
        if disk := self._disk.trouble:
            checks["disk"] = disk
        if trouble := self._clock.trouble:
            checks["clock"] = trouble
        if self._journal.trouble:
            checks["events"] = self._journal.trouble
        if not self._may_act():
            checks["leader"] = "it is not certain that this daemon leads: its lease was not renewed in time"
        ready = (
            self._link.subscribed and checks["store"] == "ok" and silent < 10 and self._may_act() and not disk
        )
        return Health(ready, checks)

    # ---- small things ----------------------------------------------------------------------------

    def _look_for_vms(self) -> None:
        """Find out which VMs there are by now, if that can be had in time; called by whoever submits."""
        if self._link.subscribed and self._link.ask_for_agents(_LOOK_SECONDS):
            noted = threading.Event()
            self._inbox.put(Item(ev.Tick(self._clock.now()), kept=noted))
            noted.wait(_LOOK_SECONDS)

    def _picture(self, arrived: set[str]) -> None:
        """Make the picture of the cluster that other threads are shown."""
        vms, notes = self._model.vms(), self._model.notes()
        self._intake.note(self._model.waiting, self._model.reach(), arrived)
        self._due = self._model.due(self._clock.now())
        standing = Standing(self._model.head(), frozenset((*self._model.paused(), *self._model.aside())))
        if standing != self._standing:  # else what was worked out of it is kept
            self._standing = standing
        held = self._model.ledger.held
        self._vms = tuple(
            VmStatus(
                id=vm.id,
                name=vm.name,
                type=vm.type,
                address=vm.address,
                cpus=vm.cpus,
                memory_mib=vm.memory_mib,
                price_per_hour=vm.price_per_hour,
                used_cpus=held(vm.id).cpus,
                used_memory_mib=held(vm.id).memory_mib,
                executors=self._model.ledger.task_ids(vm.id),
                resources=vm.resources.others,
                used_resources=held(vm.id).others,
                note=notes.get(vm.id, ""),
            )
            for vm in vms
        )
