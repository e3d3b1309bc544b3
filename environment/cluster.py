"""The cluster as a pure state machine: events in, commands out.

It holds what is known of VMs, offers, jobs and executors, and what follows from each event. It never asks
the clock, draws a random number or opens a socket, so the same events always give the same commands.
Who places a job is not decided here: a decision enters as the event `Decided`.
"""

from collections.abc import Callable, Iterable
from copy import copy
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from environment import events as ev
from environment.ledger import Ledger
from environment.offers import OfferBook
from environment.records import ExecutorRecord, ExecutorState, JobRecord
from environment.types import ClusterView, PlacementRequest, RunningJob, Vm


@dataclass(frozen=True, slots=True)
class ModelOptions:
    """Times, in seconds, after which the model acts on its own at a tick."""

    #: How long to wait for the offers that are still missing before deciding on what is there. Mesos
    #: allocates once a second.
    settle: float = 1.5
    #: For how long the offers are refused that a waiting queue cannot use.
    refuse: float = 5.0
    #: How long a launch may stay without an answer before the master is asked.
    launch_timeout: float = 30.0
    #: An executor that ends with an error may only be the first sign that its driver is ending.
    relaunch_grace: float = 2.0
    #: First and longest pause between two questions about the same tasks.
    reconcile_first: float = 2.0
    reconcile_longest: float = 60.0


@dataclass(frozen=True, slots=True)
class Changes:
    """Copies of the records that changed since they were last asked for."""

    jobs: tuple[JobRecord, ...]
    executors: tuple[ExecutorRecord, ...]


class ClusterModel:
    """The state of cluster and queue; see the module's text.

    Invariants: a VM's open tasks never take more than its capacity as offered; every job that is not over
    is in the queue, or has open tasks, or waits for its driver; every queued job has a reason.
    """

    def __init__(self, options: ModelOptions | None = None) -> None:
        self.options = options or ModelOptions()
        self.now = 0.0
        self.subscribed = False
        self.ledger = Ledger()
        self._number = 0
        self._commands: list[ev.Command] = []
        self._book = OfferBook(self.ledger)
        self._asked_at = 0.0
        self._suppressed = False
        #: Something happened since the last decision that could change it.
        self._stale = False
        self._jobs: dict[str, JobRecord] = {}
        self._tasks: dict[str, ExecutorRecord] = {}
        self._tasks_of: dict[str, dict[str, ExecutorRecord]] = {}
        self._queue: dict[str, PlacementRequest] = {}
        #: Jobs that lost executors, and when these may be placed again.
        self._relaunch_at: dict[str, float] = {}
        #: Tasks whose state the master has been asked for: next question's time and pause.
        self._unanswered: dict[str, tuple[float, float]] = {}
        self._changed_jobs: dict[str, None] = {}
        self._changed_tasks: dict[str, None] = {}
        self._handlers: dict[type[ev.Event], Callable[[Any], None]] = {
            ev.JobSubmitted: self._on_submitted,
            ev.KillRequested: self._on_kill_requested,
            ev.Subscribed: self._on_subscribed,
            ev.Disconnected: self._on_disconnected,
            ev.OffersReceived: self._on_offers,
            ev.OfferRescinded: self._on_rescinded,
            ev.VmLost: self._on_vm_lost,
            ev.Decided: self._on_decided,
            ev.TaskChanged: self._on_task_changed,
            ev.DriverStarted: self._on_driver_started,
            ev.DriverEnded: self._on_driver_ended,
            ev.Tick: self._on_tick,
        }

    # ---- what others ask ------------------------------------------------------------------------

    def handle(self, event: ev.Event) -> list[ev.Command]:
        """Take one event in and return what is to be done about it, in order."""
        self._number += 1
        self.now = max(self.now, event.at)
        self._commands = []
        self._handlers[type(event)](event)
        self._settle_offers()
        return self._commands

    def restore(self, jobs: Iterable[JobRecord], executors: Iterable[ExecutorRecord]) -> None:
        """Take up what a store kept: the jobs that are not over, in order of submission, and open tasks."""
        for job in jobs:
            self._jobs[job.job.id] = job
            self._tasks_of[job.job.id] = {}
            if job.state == "queued":
                self._enqueue(job)
        for task in executors:
            self._tasks[task.task_id] = task
            self._tasks_of.setdefault(task.job_id, {})[task.task_id] = task
            if not task.ended:
                self.ledger.reopen(task)
                self._book.learn(_vm_of(task))
        for job in self._jobs.values():
            if self._missing(job):
                self._relaunch_at[job.job.id] = self.now
            elif job.aborting:
                self._requeue_when_clear(job)

    def view(self) -> ClusterView:
        """The cluster as a policy may see it now: what is free is what is offered."""
        vms = self._book.vms()
        index = {vm.id: i for i, vm in enumerate(vms)}
        free = np.array([self._book.free(vm.id) for vm in vms], dtype=np.float64).reshape(-1, 2)
        executors = np.array([self.ledger.count(vm.id) for vm in vms], dtype=np.int64)
        until = np.where(executors > 0, -np.inf, self.now)
        for job in self._running():
            ends = np.nan if job.expected_end is None else max(job.expected_end, self.now)
            for vm_id in job.vm_ids:
                if vm_id in index:
                    until[index[vm_id]] = np.maximum(until[index[vm_id]], ends)
        until[np.isneginf(until)] = np.nan
        return ClusterView(
            self.now, vms, free[:, 0].copy(), free[:, 1].copy(), executors, until, tuple(self._running())
        )

    def requests(self) -> tuple[PlacementRequest, ...]:
        """What waits for a placement, first come first served; lost executors come before new jobs."""
        lost = [
            self._relaunch_request(self._jobs[i]) for i, due in self._relaunch_at.items() if due <= self.now
        ]
        return (*lost, *self._queue.values())

    def ready_to_decide(self) -> bool:
        """Whether a decision is due: something waits, offers are there, and no more of them are expected."""
        if not (self.subscribed and len(self._book) and self._someone_waits()):
            return False
        return self.now - self._book.since >= self.options.settle or self._book.complete()

    def vms(self) -> tuple[Vm, ...]:
        """All VMs that are there, in the order in which policies see them."""
        return self._book.vms()

    def job(self, job_id: str) -> JobRecord | None:
        """The record of a job that is not over or has open tasks; None when it is not known."""
        return self._jobs.get(job_id)

    def tasks(self, job_id: str) -> tuple[ExecutorRecord, ...]:
        """All tasks of a job that is held in memory."""
        return tuple(self._tasks_of.get(job_id, {}).values())

    def task(self, task_id: str) -> ExecutorRecord | None:
        """One task that is held in memory."""
        return self._tasks.get(task_id)

    def take_changes(self) -> Changes:
        """Hand out copies of what changed since the last call, and forget jobs that are over and done."""
        changes = Changes(
            tuple(copy(self._jobs[job_id]) for job_id in self._changed_jobs if job_id in self._jobs),
            tuple(copy(self._tasks[task_id]) for task_id in self._changed_tasks if task_id in self._tasks),
        )
        for job_id in {*self._changed_jobs, *(self._tasks[t].job_id for t in self._changed_tasks)}:
            self._forget_if_done(job_id)
        self._changed_jobs.clear()
        self._changed_tasks.clear()
        return changes

    # ---- jobs ------------------------------------------------------------------------------------

    def _on_submitted(self, event: ev.JobSubmitted) -> None:
        if event.job.id in self._jobs:
            return
        job = self._jobs[event.job.id] = JobRecord(event.job)
        self._tasks_of[event.job.id] = {}
        if not self._someone_waits():
            self._stale = True
        self._enqueue(job)
        self._mark(job)

    def _on_kill_requested(self, event: ev.KillRequested) -> None:
        job = self._jobs.get(event.job_id)
        if job is not None and not job.ended:
            self._end_job(job, "killed", "killed on request")

    def _on_driver_started(self, event: ev.DriverStarted) -> None:
        job = self._jobs.get(event.job_id)
        if job is not None and not job.ended:
            self._explain(job, "its driver runs")

    def _on_driver_ended(self, event: ev.DriverEnded) -> None:
        job = self._jobs.get(event.job_id)
        if job is None or job.ended:
            return
        job.exit_code = event.exit_code
        if event.exit_code == 0:
            self._end_job(job, "finished", "its driver exited with code 0")
        else:
            self._end_job(job, "failed", event.message or f"its driver exited with code {event.exit_code}")

    def _end_job(self, job: JobRecord, state: Literal["finished", "failed", "killed"], reason: str) -> None:
        had_host_driver = job.started_at is not None and job.job.driver is None and state != "finished"
        job.state, job.finished_at = state, self.now
        job.aborting = False
        self._queue.pop(job.job.id, None)
        self._relaunch_at.pop(job.job.id, None)
        self._explain(job, reason)
        if had_host_driver:
            self._command(ev.KillDriver(self._number, job.job.id))
        for task in self._open_tasks(job):
            self._kill(task)

    def _enqueue(self, job: JobRecord) -> None:
        self._queue[job.job.id] = PlacementRequest(job.job, job.job.executors)

    def _explain(self, job: JobRecord, reason: str) -> None:
        job.reason = reason
        self._mark(job)

    # ---- decisions and launches ------------------------------------------------------------------

    def _on_decided(self, event: ev.Decided) -> None:
        self._stale = False
        tasks: dict[str, list[ev.Task]] = {}
        used = {vm_id for p in event.placements for vm_id in (*p.vm_ids, p.driver_vm_id) if vm_id}
        ports = {vm_id: self._book.ports(vm_id) for vm_id in used}
        for placement in event.placements:
            for task in self._place(placement, ports):
                tasks.setdefault(self._tasks[task.task_id].vm_id, []).append(task)
        for vm_id, launched in tasks.items():
            vm, held = self._book.use(vm_id)
            self._command(ev.Launch(self._number, vm, held, tuple(launched)))
        if event.waiting is not None and (job := self._jobs.get(event.waiting.job_id)):
            if job.reason != event.waiting.reason:
                self._explain(job, event.waiting.reason)
            self._decline_all()

    def _place(self, placement: ev.Placement, ports: dict[str, list[int]]) -> list[ev.Task]:
        job = self._jobs.get(placement.job_id)
        if job is None or job.ended:
            return []
        if placement.job_id in self._queue:
            del self._queue[placement.job_id]
            job.state, job.placed_at = "placing", self.now
            self._explain(job, "its executors are being launched")
        else:
            self._relaunch_at.pop(placement.job_id, None)
            for task in self._tasks_of[placement.job_id].values():
                if task.ended and not task.replaced:
                    task.replaced = True
                    self._changed_tasks[task.task_id] = None
            self._explain(job, "lost executors are being launched again")
        tasks = [self._new_task(job, vm_id, ports[vm_id]) for vm_id in placement.vm_ids]
        if placement.driver_vm_id:
            tasks.append(
                self._new_task(job, placement.driver_vm_id, ports[placement.driver_vm_id], driver=True)
            )
        return tasks

    def _new_task(self, job: JobRecord, vm_id: str, ports: list[int], driver: bool = False) -> ev.Task:
        number, job.next_executor = job.next_executor, job.next_executor + 1
        size = job.job.driver if driver and job.job.driver else job.job
        taken = tuple(ports.pop(0) for _ in range(min(3 if driver else 1, len(ports))))
        vm = self._book.vm(vm_id)
        task = ExecutorRecord(
            task_id=f"{job.job.id}.driver-{number}" if driver else f"{job.job.id}.{number}",
            job_id=job.job.id,
            number=None if driver else number,
            vm_id=vm_id,
            vm_name=vm.name,
            vm_type=vm.type,
            address=vm.address,
            price_per_hour=vm.price_per_hour,
            cpus=size.cpus,
            memory_mib=size.memory_mib,
            ports=taken,
            launched_at=self.now,
        )
        self._tasks[task.task_id] = task
        self._tasks_of[job.job.id][task.task_id] = task
        self._accrued(self.ledger.open(task))
        return ev.Task(task.task_id, job.job.id, task.number, task.cpus, task.memory_mib, taken)

    # ---- tasks -----------------------------------------------------------------------------------

    def _on_task_changed(self, event: ev.TaskChanged) -> None:
        self._unanswered.pop(event.task_id, None)
        task = self._tasks.get(event.task_id)
        if task is None or task.ended:
            if event.state not in ev.ENDED and event.state not in ("unreachable", "unknown"):
                self._command(ev.KillTask(self._number, event.task_id, event.vm_id))
            return
        never_seen = task.state == "launching"
        if event.state in ev.ENDED or (event.state == "unknown" and never_seen):
            self._end_task(task, event)
        elif event.state in ("unreachable", "unknown"):
            self._move(task, "unreachable", event.message or "its VM cannot be reached; it may still run")
        elif event.state == "running":
            self._task_runs(task)
        elif never_seen:
            self._move(task, "starting", event.message)
            self._job_starts(task)

    def _task_runs(self, task: ExecutorRecord) -> None:
        if task.running_at is None:
            task.running_at = self.now
        self._move(task, "running", "")
        self._job_starts(task)
        job = self._jobs[task.job_id]
        executors = [t for t in self._open_tasks(job) if t.number is not None]
        if job.ended or job.aborting or len(executors) < job.job.executors:
            return
        if any(t.state != "running" for t in executors):
            return
        if job.started_at is None:
            job.started_at = self.now
            job.state = "running"
            self._explain(job, "all its executors run")
            if job.job.driver is None:
                self._command(ev.StartDriver(self._number, job.job.id))
        elif job.state == "relaunching":
            job.state = "running"
            self._explain(job, "all its executors run again")

    def _job_starts(self, task: ExecutorRecord) -> None:
        job = self._jobs[task.job_id]
        if job.state == "placing":
            job.state = "starting"
            self._explain(job, "its executors are starting")

    def _end_task(self, task: ExecutorRecord, event: ev.TaskChanged) -> None:
        self._accrued(self.ledger.close(task, self.now))
        state: ExecutorState = "lost"
        if event.state in ("finished", "failed", "killed"):
            state = event.state
        task.ended_at = self.now
        self._move(task, state, event.message or event.reason)
        self._stale = True
        job = self._jobs[task.job_id]
        if job.ended:
            return
        if task.number is None:
            self._cluster_driver_ended(job, task, event)
        elif job.aborting:
            self._requeue_when_clear(job)
        elif job.started_at is None:
            self._abort_launch(job, task, event)
        elif state == "finished":
            task.replaced = True  # its driver told it to stop
        else:
            self._executor_lost(job, task)

    def _cluster_driver_ended(self, job: JobRecord, task: ExecutorRecord, event: ev.TaskChanged) -> None:
        if event.state == "finished":
            job.exit_code = 0
            self._end_job(job, "finished", "its driver exited with code 0")
        elif job.started_at is None and event.state in ev.NEVER_RAN:
            self._abort_launch(job, task, event)
        else:
            self._end_job(job, "failed", f"its driver on {task.vm_name} ended: {task.message or task.state}")

    def _abort_launch(self, job: JobRecord, task: ExecutorRecord, event: ev.TaskChanged) -> None:
        """All or none: one executor could not be started, so the others go too and the job waits again."""
        if event.state not in ev.NEVER_RAN and self._too_many_losses(job, task):
            return
        job.aborting = True
        self._explain(job, f"{_name(task)} could not be started on {task.vm_name}: {task.message}")
        for other in self._open_tasks(job):
            self._kill(other)
        self._requeue_when_clear(job)

    def _requeue_when_clear(self, job: JobRecord) -> None:
        if self._open_tasks(job):
            return
        for task in self._tasks_of[job.job.id].values():
            task.replaced = True
        job.aborting, job.state, job.placed_at = False, "queued", None
        self._enqueue(job)
        # It keeps its place: first come, first served.
        self._queue = dict(sorted(self._queue.items(), key=lambda item: item[1].job.submitted_at))
        self._mark(job)

    def _executor_lost(self, job: JobRecord, task: ExecutorRecord) -> None:
        if self._too_many_losses(job, task):
            return
        job.state = "relaunching"
        self._relaunch_at.setdefault(job.job.id, self.now + self.options.relaunch_grace)
        self._explain(job, f"{_name(task)} on {task.vm_name} was lost ({task.message}); it is placed again")

    def _too_many_losses(self, job: JobRecord, task: ExecutorRecord) -> bool:
        job.losses += 1
        # Spark's own rule for spark.executor.maxNumFailures.
        if job.losses <= max(2 * job.job.executors, 3):
            return False
        self._end_job(job, "failed", f"lost {job.losses} executors; the last, {_name(task)}: {task.message}")
        return True

    def _kill(self, task: ExecutorRecord) -> None:
        if task.killed_at is None:
            task.killed_at = self.now
            self._changed_tasks[task.task_id] = None
        self._command(ev.KillTask(self._number, task.task_id, task.vm_id))

    def _move(self, task: ExecutorRecord, state: ExecutorState, message: str) -> None:
        task.state, task.message = state, message
        self._changed_tasks[task.task_id] = None

    def _accrued(self, tasks: Iterable[tuple[ExecutorRecord, float]]) -> None:
        for task, cost in tasks:
            self._changed_tasks[task.task_id] = None
            if job := self._jobs.get(task.job_id):
                job.cost += cost
                self._mark(job)

    # ---- master and offers -----------------------------------------------------------------------

    def _on_subscribed(self, _: ev.Subscribed) -> None:
        self.subscribed, self._suppressed, self._stale = True, False, False
        self._book.clear()
        self._asked_at = self.now
        open_tasks = [task for task in self._tasks.values() if not task.ended]
        self._ask_about(open_tasks, self.options.reconcile_first)
        for task in open_tasks:
            if task.killed_at is not None:
                self._command(ev.KillTask(self._number, task.task_id, task.vm_id))

    def _on_disconnected(self, _: ev.Disconnected) -> None:
        self.subscribed = False
        self._book.clear()

    def _on_offers(self, event: ev.OffersReceived) -> None:
        self._book.take(event.offers, self.now)

    def _on_rescinded(self, event: ev.OfferRescinded) -> None:
        self._book.drop(event.offer_id)

    def _on_vm_lost(self, event: ev.VmLost) -> None:
        self._book.lose(event.vm_id)

    def _on_tick(self, _: ev.Tick) -> None:
        late = [
            task
            for task in self._tasks.values()
            if task.state == "launching"
            and task.task_id not in self._unanswered
            and self.now - task.launched_at > self.options.launch_timeout
        ]
        due = {task_id: pause for task_id, (at, pause) in self._unanswered.items() if at <= self.now}
        if not self.subscribed:
            self._explain_silence("the Mesos master is not connected")
            return
        self._ask_about(late, self.options.reconcile_first)
        for pause in sorted(set(due.values())):
            again = [self._tasks[i] for i, p in due.items() if p == pause and i in self._tasks]
            self._ask_about(again, min(2 * pause, self.options.reconcile_longest))
        if not len(self._book) and self.now - self._asked_at > self.options.settle:
            self._explain_silence("the master offers no resources now: all VMs are full, or none is there")

    def _explain_silence(self, why: str) -> None:
        if head := next(iter(self.requests()), None):
            job = self._jobs[head.job.id]
            if job.reason != why:
                self._explain(job, why)

    def _ask_about(self, tasks: list[ExecutorRecord], pause: float) -> None:
        if not tasks:
            return
        for task in tasks:
            self._unanswered[task.task_id] = (self.now + pause, pause)
        self._command(ev.Reconcile(self._number, tuple((task.task_id, task.vm_id) for task in tasks)))

    def _settle_offers(self) -> None:
        """Hold offers only for a queue, ask for them when it is time to decide, and for none when idle."""
        if not self.subscribed:
            return
        if not (self._queue or self._relaunch_at):
            self._decline_all()
            if not self._suppressed:
                self._suppressed = True
                self._command(ev.Suppress(self._number))
        elif self._someone_waits() and (self._suppressed or (self._stale and not self._book.complete())):
            self._suppressed, self._stale = False, False
            self._asked_at = self._book.since = self.now
            self._command(ev.Revive(self._number))

    def _decline_all(self) -> None:
        if held := self._book.clear():
            self._command(ev.Decline(self._number, held, self.options.refuse))

    # ---- helpers ---------------------------------------------------------------------------------

    def _someone_waits(self) -> bool:
        return bool(self._queue) or any(due <= self.now for due in self._relaunch_at.values())

    def _running(self) -> list[RunningJob]:
        return [
            RunningJob(job.job, tuple(t.vm_id for t in tasks), since, _end(since, job))
            for job in self._jobs.values()
            if (since := job.started_at or job.placed_at) is not None and (tasks := self._open_tasks(job))
        ]

    def _open_tasks(self, job: JobRecord) -> list[ExecutorRecord]:
        return [task for task in self._tasks_of.get(job.job.id, {}).values() if not task.ended]

    def _missing(self, job: JobRecord) -> int:
        """How many executors of a started job are gone and not yet placed again."""
        if job.ended or job.started_at is None:
            return 0
        return sum(t.ended and not t.replaced and t.number is not None for t in self.tasks(job.job.id))

    def _relaunch_request(self, job: JobRecord) -> PlacementRequest:
        present = tuple(t.vm_id for t in self._open_tasks(job) if t.number is not None)
        return PlacementRequest(job.job, self._missing(job), present)

    def _forget_if_done(self, job_id: str) -> None:
        job = self._jobs.get(job_id)
        if job is not None and job.ended and not self._open_tasks(job):
            del self._jobs[job_id]
            for task_id in self._tasks_of.pop(job_id, {}):
                del self._tasks[task_id]
                self._unanswered.pop(task_id, None)

    def _mark(self, job: JobRecord) -> None:
        self._changed_jobs[job.job.id] = None

    def _command(self, command: ev.Command) -> None:
        self._commands.append(command)


def _name(task: ExecutorRecord) -> str:
    return "the driver" if task.number is None else f"executor {task.number}"


def _end(since: float, job: JobRecord) -> float | None:
    return None if job.job.expected_duration is None else since + job.job.expected_duration


def _vm_of(task: ExecutorRecord) -> Vm:
    return Vm(
        task.vm_id, task.vm_name, task.vm_type, task.cpus, task.memory_mib, task.price_per_hour, task.address
    )
