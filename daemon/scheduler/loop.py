"""The scheduling loop: takes events in, lets the policy decide, keeps what happened, and acts on it.

One thread owns the cluster model. For every batch of events it runs: model, store, event log, then the
commands, then the acknowledgements; so what the world is told of is always on disk before. Everything else
(HTTP threads, pymesos' I/O thread) only puts events into the inbox or reads the store.

Here is the order in which things are done. What waits for the store and the lead is in
`leadership/leader_session.py`, what commands do in `command_executor.py`, what comes due by itself in
`timers.py`, what an earlier daemon left in `recovery.py`, what others are shown in `cluster_snapshot.py`, how
well all is in `readiness.py`; what the API asks of it, in `service.py`.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path

import structlog

from conf.schema import Config
from daemon.core.clock import Clock
from daemon.core.event_queue import Inbox, Item
from daemon.core.status import (
    WITH_DRIVER,
)
from daemon.disk.disk_monitor import DiskWatch
from daemon.disk.event_log import EventLog
from daemon.disk.log_archive import KeptLogs
from daemon.launch.decommissioning import Decommissioning
from daemon.launch.host_drivers import HostDrivers
from daemon.launch.launcher import Launcher
from daemon.launch.log_collector import LogKeeper
from daemon.launch.log_reader import Logs, Sandboxes
from daemon.leadership.leader_session import LeaderSession
from daemon.notifications.notification_service import NotificationService
from daemon.policy.active_policies import PolicySwitch
from daemon.queues.live_queues import LiveQueues
from daemon.queues.queue_observer import QueueWatch
from daemon.queues.queue_service import QueueService
from daemon.queues.waiting_counts import WaitingBook
from daemon.scheduler.budget import BudgetWatch
from daemon.scheduler.cluster_snapshot import ClusterSnapshot, picture_of
from daemon.scheduler.command_executor import CommandExecutor
from daemon.scheduler.readiness import Readiness
from daemon.scheduler.recovery import left_behind
from daemon.scheduler.stage_timings import Stages
from daemon.scheduler.timers import Timers
from daemon.store.job_store import Store
from daemon.store.rows.event_recorder import EventRecorder
from daemon.store.rows.terms import Term
from daemon.submission.admission import Intake
from daemon.submission.applications import Applications
from daemon.vms.embedded_supervisor import EmbeddedWatch
from daemon.vms.termination_endpoint import TerminationEndpoint
from daemon.vms.vm_provisioner import VmProvisioner
from daemon.what_if.estimator import Estimates
from daemon.what_if.what_if import WhatIfService
from environment.decisions.explain import Explanation
from environment.decisions.sizing import Sizes
from environment.model.cluster_model import ClusterModel, ModelOptions
from environment.model.event_log import encode
from environment.model.messages import commands as cmd
from environment.model.messages import events as ev
from environment.model.messages.records import JobRecord
from environment.pools import IdleTimeout
from environment.simulation.durations.belief_errors import LearnedErrors
from environment.types import Job, Vm
from framework.mesos.master_link import MasterLink
from framework.mesos.session import SessionOptions
from framework.providers.interface import Provider
from framework.spark import DriverUi
from profiles.job_profile import JobProfile

log = structlog.get_logger("service")

#: Seconds between ticks, on which timeouts are due and drivers are looked at.
TICK = 0.2
#: Seconds for which a user waits whose job fits no VM that is known, until the master was asked for others.
_LOOK_SECONDS = 3.0
#: Seconds for which who changes queues waits until they hold; on disk they are by then.
_SHARE_PATIENCE = 2.0


class SchedulingLoop:
    """Schedules for a term; `run` is the loop, `stop` may be called from any thread."""

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
        provider: Provider | None = None,
        places: Sequence[Vm] = (),
        watch: EmbeddedWatch | None = None,
        jvms: int | None = None,
        clock: Clock | None = None,
        webhooks: NotificationService | None = None,
        taking_up: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> None:
        """For a term in which this daemon leads; without one, no other daemon can.

        `provider` opens and closes VMs at these places of pools. Restoring happens within `taking_up`.
        """
        self._taking_up = taking_up
        self._webhooks = webhooks or NotificationService({}, store)
        self._store = store
        self._tenure = LeaderSession(store.begin_term("") if term is None else term, store)
        self._launcher = launcher
        self._inbox = Inbox()
        self._model = ClusterModel(
            ModelOptions(
                host=launcher.here,
                launch_timeout=config.mesos.launch_timeout,
                unreachable_timeout=config.mesos.unreachable_timeout,
                jvms=jvms,
                maintenance_margin=config.mesos.maintenance_margin,
                places=tuple(places),
                keeping=IdleTimeout(config.keep.name, config.keep.seconds),
                boot_timeout=config.mesos.boot_timeout,
            )
        )
        self._clock = clock or Clock(store.get("clock") or "", store.time)
        now = self._clock.now
        self._policies = PolicySwitch(config, store, self._tenure.renew, now)
        framework_id, may_act = store.get("framework_id"), self._tenure.may_act
        kept, looked_into = KeptLogs(data_dir), Sandboxes(sandboxes)
        self._log_keeper = LogKeeper(
            kept, launcher, store, looked_into.of, self._inbox.put, far=sandboxes is None
        )
        self._link = looked_into.link = MasterLink(session, self._log_keeper.take, framework_id, may_act, now)
        self._logs = Logs(launcher, store, looked_into, kept)
        files = config.event_log
        self._journal = EventLog(data_dir / "events.jsonl", size=files.size << 20, earlier=files.earlier)
        self._drivers = HostDrivers(
            launcher,
            store,
            self._inbox.put,
            self._model.tasks,
            self._tenure.holds_until,
            now,
            self._model.retries_left,
            requeue=config.leader.lost_drivers == "requeue",
        )
        self._machines = None if provider is None else VmProvisioner(provider, self._inbox.put, may_act, now)
        self._effects = CommandExecutor(
            self._model, self._link, self._drivers, launcher, self._machines, self._tenure.sure, self._fail
        )
        self._waiting, self._chronicle = WaitingBook(), EventRecorder()
        self._queues = QueueWatch(self._waiting, now, store.get)
        self._live_queues = LiveQueues(config, store, self._share)
        self._queue_desk = QueueService(self._live_queues, lambda: self._queues.sight)
        self._intake = Intake(
            store,
            launcher,
            profiles or {},
            self._arrive,
            self._look_for_vms,
            config.max_queued_jobs,
            now,
            Sizes.configured(config.sizes),
            self._live_queues.queues,
        )
        self._applications = Applications(
            store,
            launcher,
            self._intake,
            self._inbox.put,
            self._inbox.put_and_wait,
            now,
            config.spark.driver_timeout,
        )
        self._draining, self._disk = Decommissioning(self.ui, now), DiskWatch(data_dir)
        self._vms = TerminationEndpoint(store, self._inbox.put_and_wait, now)
        self._budget = BudgetWatch(config.budget, store.vms.spent, now, store.get)
        self._readiness = Readiness(
            store,
            self._tenure,
            self._link,
            self._journal,
            self._clock,
            self._disk,
            self._budget,
            self._machines,
            watch,
            {"policy": self._policies.trouble, "files": launcher.files.trouble},
        )
        self._due = Timers(self._model, store, self._clock, self._budget, watch, self._machines)
        #: Nothing was decided for the disk's sake.
        self._held = False
        #: The subscription that the model knows of: a later one may stand already.
        self._subscription = 0
        self._stages, self._picture = Stages(now()), ClusterSnapshot()
        sizes, errors = Sizes.configured(config.sizes), LearnedErrors()
        keeping = self._model.options.keeping
        self._foresight = WhatIfService(sizes, self._policies.check_allowed, keeping, errors.now)
        self._estimates = Estimates(self._foresight, self._policies.chosen, store.estimates, errors)
        self._next_tick = 0.0

    # ---- the loop --------------------------------------------------------------------------------

    def run(self) -> None:
        """Schedule until `stop`; to be called once, in a thread of its own.

        Raises StoreError when what is to be taken up cannot be read.
        """
        try:
            with self._taking_up():
                self._restore()
            self._disk.start()
            self._estimates.start()
            self._link.start()
            while not self._tenure.over:
                self._tenure.beat()
                self._turn()
            if self._tenure.may_act():
                self._queues.come_due()
                self._handle([Item(ev.ChargesDue(self._clock.now()))])
        finally:
            self._disk.stop()
            self._link.stop()
            if self._machines is not None:
                self._machines.stop()
            self._drivers.close()
            self._log_keeper.close()
            self._draining.close()
            self._estimates.stop()
            self._foresight.close()
            self._policies.close()
            self._journal.close()

    def stop(self) -> None:
        """End the loop soon. Jobs go on; a daemon started again takes them up."""
        self._tenure.end()

    def _turn(self) -> None:
        items = self._inbox.take(TICK / 2)
        self._tenure.renew()
        if self._tenure.over:
            return
        if time.monotonic() >= self._next_tick:
            self._next_tick = time.monotonic() + TICK
            self._drivers.tend()
            self._log_keeper.tend()
            if self._log_keeper.due():
                self._log_keeper.refresh(self._model.open_tasks())
            self._applications.tend()
            self._draining.tend()
            if self._machines is not None:
                self._machines.tend()
            again = self._held and not self._disk.trouble
            self._held = self._held and not again
            first, last = self._due.first(), self._due.events(decides_again=again)
            items = [*map(Item, first), *items, *map(Item, last)]
        self._handle(items)
        if self._model.ready_to_decide():
            self._decide()
        self._foresight.show(self._model)

    def _handle(self, items: list[Item], explanations: tuple[Explanation, ...] = ()) -> None:
        """Run a batch through the model, store what changed, then act and acknowledge."""
        beginning, lines = "", list[str]()
        commands: list[tuple[cmd.Command, int]] = []
        for item in items:
            event = self._informed(item.event)
            caused = self._model.handle(event)
            if isinstance(event, ev.Restored):  # alone in front of all others
                beginning = encode(event)
                lines += map(encode, caused)
            elif caused or not isinstance(event, ev.Tick):
                lines += [encode(event), *map(encode, caused)]
            if isinstance(item.event, ev.Subscribed):
                self._subscription = item.event.subscription
            commands += ((command, self._subscription) for command in caused)
        if not self._save(items, explanations) or not self._tenure.await_certainty():
            return
        if beginning:
            self._journal.begin(beginning)
        if lines:
            self._journal.write(lines)
        if self._journal.full:
            self._journal.turn(encode(self._model.snapshot()))
        if not self._effects.carry_out(commands):
            return
        self._drivers.forget(self._model.job)
        if items:
            arrived = {item.event.job.id for item in items if isinstance(item.event, ev.JobSubmitted)}
            self._waiting.note(job for job_id in arrived if (job := self._model.job(job_id)) is not None)
            waiting = self._model.waiting + len(self._model.held())
            self._intake.note(waiting, self._model.reach(), arrived, self._waiting.waiting)
            ordered = self._live_queues.sharing() is not None
            self._picture = picture_of(self._model, self._clock.now(), self._picture, ordered=ordered)
            self._queues.look(self._model)
            self._stages.waits_since = self._queues.waits_since
        for item in items:
            if item.status is not None:
                self._link.acknowledge(item.status)
            if item.kept is not None:
                item.kept.set()

    def _informed(self, event: ev.Event) -> ev.Event:
        """The event, with how jobs have ended that a new one comes after and the model has forgotten."""
        if not (isinstance(event, ev.JobSubmitted) and event.job.after):
            return event
        gone = self._model.unknown(event.job)
        return replace(event, ends=tuple(self._tenure.ends_of(gone).items())) if gone else event

    def _save(self, items: Sequence[Item], explanations: tuple[Explanation, ...]) -> bool:
        """Store what changed, and only then go on; whether nothing of it is lost.

        When the daemon is stopped in between, nothing came of the batch, and the next daemon finds out what
        the master told it.
        """
        changes = self._model.take_changes()
        subscribed = [item.event.framework_id for item in items if isinstance(item.event, ev.Subscribed)]
        facts = {"framework_id": subscribed[-1]} if subscribed else {}
        (of_budget, said), (of_queues, told) = self._budget.take_news(), self._queues.take_news(self._model)
        facts |= said | told
        now = self._clock.now()
        if changes or explanations or facts or self._chronicle.due(now):
            happened = [*of_budget, *of_queues, *self._chronicle.tell(now, changes, explanations)]
            if not self._tenure.save(changes, explanations, facts, happened):
                return False
        self._stages.observe(changes)
        self._budget.observe(changes.charges)
        self._waiting.note(changes.jobs)
        self._drivers.over(changes.jobs)
        self._log_keeper.ended(task for task in changes.executors if task.ended)
        self._applications.observe(changes.jobs, changes.executors)
        self._draining.observe(changes.executors, self._model.job)
        self._policies.observe(changes.ended)
        self._estimates.observe(changes.jobs, waiting=self._model.anyone())
        for task in changes.executors:
            if task.state == "lost" and task.running_at is None:
                log.warning("never ran", task=task.task_id, vm=task.vm_name, why=task.message[:300])
        return True

    # ---- deciding --------------------------------------------------------------------------------

    def _decide(self) -> None:
        if trouble := self._disk.trouble:
            self._hold(f"nothing is launched: {trouble}")
            return
        with self._stages.timed("order"):
            view, requests = self._model.view(), self._model.requests()
        with self._stages.timed("decide"):
            event, explanations = self._policies.acting().decide(view, requests)
        self._handle([Item(event)], explanations)

    def _hold(self, why: str) -> None:
        """Decide that all wait, as a policy might."""
        self._held = True
        head = next(iter(self._model.requests()))
        self._handle([Item(ev.Decided(self._clock.now(), (), ev.Waiting(head.job.id, why)))])

    def _restore(self) -> None:
        """Take up what an earlier daemon left: its jobs, its tasks, its drivers."""
        policy = self._policies.status().name
        left = left_behind(self._store, self._clock, self._model.options, policy, self._live_queues)
        jobs, tasks, restored = left
        self._due.keep_time()
        self._budget.begin()
        self._chronicle.take_up(jobs, tasks, restored.leases, restored.accounts)
        self._handle([Item(restored), *map(Item, self._budget.look())])
        self._drivers.take_up(jobs)
        self._applications.take_up(jobs)
        self._draining.observe(tasks, self._model.job)
        self._drivers.forget(self._model.job)
        self._live_queues.tell_strays(jobs)
        self._waiting.note(jobs)
        left.tell(closes_vms=self._machines is not None)

    # ---- what others ask it, or have it handle ----------------------------------------------------------

    def ui(self, job: JobRecord) -> DriverUi | None:
        """Where the driver's UI is; see `Scheduler.ui`."""
        spec = self._store.spec(job.job.id)
        if spec is None or job.state not in WITH_DRIVER:
            return None
        return self._launcher.ui(job.job.id, spec, self._store.executors(job.job.id))

    def _arrive(self, at: float, job: Job) -> None:
        self._inbox.put(ev.JobSubmitted(at, job))

    def _fail(self, job_id: str, why: str) -> None:
        self._inbox.put(ev.DriverEnded(self._clock.now(), job_id, None, why))

    def _share(self) -> None:
        """The queues are others by now; whoever changed them waits until that holds."""
        changed = ev.SharingChanged(self._clock.now(), self._live_queues.sharing())
        self._inbox.put_and_wait(changed, _SHARE_PATIENCE)

    def _look_for_vms(self) -> None:
        """Find out which VMs there are by now, if that can be had in time; called by whoever submits."""
        if self._link.subscribed and self._link.ask_for_agents(_LOOK_SECONDS):
            self._inbox.put_and_wait(ev.Tick(self._clock.now()), _LOOK_SECONDS)
