"""The cluster as a pure state machine: events in, commands out.

It holds what is known of VMs, offers, jobs and executors, and what follows from each event. It never asks
the clock, draws a random number or opens a socket, so the same events always give the same commands.
Who places a job is not decided here: a decision enters as the event `Decided`.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from copy import copy
from dataclasses import dataclass
from itertools import islice
from typing import Any, Literal

import numpy as np

from environment import events as ev
from environment.ledger import Ledger
from environment.offers import OfferBook
from environment.questions import Questions
from environment.records import ExecutorRecord, ExecutorState, JobRecord
from environment.types import CPU_TOLERANCE, ClusterView, PlacementRequest, RunningJob, Vm


@dataclass(frozen=True, slots=True)
class ModelOptions:
    """Times, in seconds, after which the model acts on its own at a tick."""

    #: How long to wait for the offers that are still missing before deciding on what is there. Mesos
    #: allocates once a second.
    settle: float = 1.5
    #: For how long the offers are refused that a waiting queue cannot use.
    refuse: float = 5.0
    #: Shortest pause between two calls for offers.
    revive_pause: float = 0.5
    #: How long a launch or a kill may stay without an answer before the master is asked, or told again.
    launch_timeout: float = 30.0
    #: How long an executor that cannot be reached is waited for before another takes its place.
    unreachable_timeout: float = 60.0
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
        #: When something was last done that the master should answer with offers.
        self._asked_at = 0.0
        self._revived_at = -np.inf
        self._suppressed = False
        #: Something happened since the last decision that makes it worth to ask for offers.
        self._stale = False
        #: When something last happened that could change a decision.
        self._changed_at = 0.0
        self._jobs: dict[str, JobRecord] = {}
        self._tasks: dict[str, ExecutorRecord] = {}
        self._tasks_of: dict[str, dict[str, ExecutorRecord]] = {}
        self._queue: dict[str, PlacementRequest] = {}
        #: Jobs that lost executors, and when these may be placed again.
        self._relaunch_at: dict[str, float] = {}
        #: The job that a policy told to wait, so that its reason is not replaced by a lesser one.
        self._told_to_wait: str | None = None
        self._questions = Questions(self.options.reconcile_first, self.options.reconcile_longest)
        self._unreachable_since: dict[str, float] = {}
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
        """Take one event in and return what is to be done about it, in order.

        A tick that leads to nothing is not counted, so that a log may leave it out and replays the same.
        """
        self._number += 1
        self.now = max(self.now, event.at)
        self._commands = []
        self._handlers[type(event)](event)
        self._settle_offers()
        if isinstance(event, ev.Tick) and not self._commands:
            self._number -= 1
        return self._commands

    def restore(self, jobs: Iterable[JobRecord], executors: Iterable[ExecutorRecord]) -> None:
        """Take up what a store kept: jobs in order of submission, and all their tasks, ended or not.

        Jobs that are over belong to it as long as they have open tasks.
        """
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
                if task.state == "unreachable":
                    self._unreachable_since[task.task_id] = self.now
        for job in self._jobs.values():
            if self._missing(job) > 0:
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
        running = tuple(self._running())
        for job in running:
            ends = np.nan if job.expected_end is None else max(job.expected_end, self.now)
            for vm_id in job.vm_ids:
                if vm_id in index:
                    until[index[vm_id]] = np.maximum(until[index[vm_id]], ends)
        until[np.isneginf(until)] = np.nan
        return ClusterView(self.now, vms, free[:, 0].copy(), free[:, 1].copy(), executors, until, running)

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
        elif ahead := next(reversed(self._queue), None):
            job.reason = f"first come, first served: waits behind {ahead}"
        else:
            job.reason = "waits until lost executors of other jobs are placed again"
        self._enqueue(job)
        self._mark(job)

    def _on_kill_requested(self, event: ev.KillRequested) -> None:
        job = self._jobs.get(event.job_id)
        if job is not None and not job.ended:
            self._stop_driver(job)
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
        job.state, job.finished_at = state, self.now
        job.aborting = False
        if self._queue.pop(job.job.id, None) or self._relaunch_at.pop(job.job.id, None) is not None:
            self._changed_at, self._stale = self.now, True  # the next one may fit where this one did not
        self._explain(job, reason)
        for task in self._open_tasks(job):
            self._kill(task)

    def _stop_driver(self, job: JobRecord) -> None:
        if job.started_at is not None and job.job.driver is None:
            self._command(ev.KillDriver(self._number, job.job.id))

    def _enqueue(self, job: JobRecord) -> None:
        self._queue[job.job.id] = PlacementRequest(job.job, job.job.executors)

    def _explain(self, job: JobRecord, reason: str) -> None:
        job.reason = reason
        self._mark(job)

    # ---- decisions and launches ------------------------------------------------------------------

    def _on_decided(self, event: ev.Decided) -> None:
        outdated = event.view_at is not None and self._changed_at > event.view_at
        self._stale = self._stale and outdated
        launches: dict[str, list[ev.Task]] = {}
        ports: dict[str, Iterator[int]] = {}
        for placement in event.placements:
            job = self._jobs.get(placement.job_id)
            if job is None or not self._waits(job):
                continue  # killed, or placed already
            if refusal := self._refusal(job, placement, launches):
                # Those behind it were decided on as if it had been placed, and must not overtake it.
                self._explain(job, f"decided again, since {refusal}")
                self._changed_at, self._stale = self.now, True
                break
            for task in self._place(job, placement, ports):
                launches.setdefault(self._tasks[task.task_id].vm_id, []).append(task)
        else:
            self._told(event.waiting)
        for vm_id, tasks in launches.items():
            vm, held = self._book.use(vm_id)
            self._command(ev.Launch(self._number, vm, held, tuple(tasks)))
        self._asked_at = self.now
        if self._told_to_wait is not None and not outdated:
            self._decline_all()

    def _told(self, waiting: ev.Waiting | None) -> None:
        self._told_to_wait = None
        job = self._jobs.get(waiting.job_id) if waiting else None
        if waiting is None or job is None or not self._waits(job):
            return
        self._told_to_wait = job.job.id
        if job.reason != waiting.reason:
            self._explain(job, waiting.reason)

    def _refusal(
        self, job: JobRecord, placement: ev.Placement, launches: dict[str, list[ev.Task]]
    ) -> str | None:
        """Say why a placement no longer holds after what happened while it was decided; None when it does."""
        queued = job.job.id in self._queue
        needed = job.job.executors if queued else self._missing(job)
        if len(placement.vm_ids) != needed:
            return f"{needed} of its executors are to be placed and not {len(placement.vm_ids)}"
        if bool(placement.driver_vm_id) != (queued and job.job.driver is not None):
            return "its driver was forgotten" if queued and job.job.driver else "its driver has a place"
        for vm_id, (cpus, memory_mib) in _demand(job, placement).items():
            free_cpus, free_memory_mib = self._book.free(vm_id)
            free_cpus -= sum(task.cpus for task in launches.get(vm_id, ()))
            free_memory_mib -= sum(task.memory_mib for task in launches.get(vm_id, ()))
            if cpus > free_cpus + CPU_TOLERANCE or memory_mib > free_memory_mib:
                return "the master took back what was free where it was to run"
        return None

    def _place(
        self, job: JobRecord, placement: ev.Placement, ports: dict[str, Iterator[int]]
    ) -> list[ev.Task]:
        if self._queue.pop(job.job.id, None):
            job.state, job.placed_at = "placing", self.now
            self._explain(job, "its executors are being launched")
        else:
            self._relaunch_at.pop(job.job.id)
            self._replace_ended(job)
            self._explain(job, "lost executors are being launched again")
        wanted = [(vm_id, False) for vm_id in placement.vm_ids]
        if placement.driver_vm_id:
            wanted.append((placement.driver_vm_id, True))
        return [
            self._new_task(job, vm_id, ports.setdefault(vm_id, self._book.ports(vm_id)), driver)
            for vm_id, driver in wanted
        ]

    def _replace_ended(self, job: JobRecord) -> None:
        for task in self._tasks_of[job.job.id].values():
            if task.ended and not task.replaced:
                task.replaced = True
                self._changed_tasks[task.task_id] = None

    def _new_task(self, job: JobRecord, vm_id: str, ports: Iterator[int], driver: bool) -> ev.Task:
        number, job.next_executor = job.next_executor, job.next_executor + 1
        size = job.job.driver if driver and job.job.driver else job.job
        taken = tuple(islice(ports, 3 if driver else 1))
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
        self._changed_tasks[task.task_id] = None
        self._accrued(self.ledger.open(task))
        self._book.changed(vm_id)
        return ev.Task(task.task_id, job.job.id, task.number, task.cpus, task.memory_mib, taken)

    # ---- tasks -----------------------------------------------------------------------------------

    def _on_task_changed(self, event: ev.TaskChanged) -> None:
        self._questions.answered(event.task_id)
        task = self._tasks.get(event.task_id)
        if task is None or task.ended:
            if event.state not in ev.ENDED and event.state not in ("unreachable", "unknown"):
                # Nobody waits for it: what is over stays over, even if a lost VM comes back with it.
                vm_id = event.vm_id or (task.vm_id if task else "")
                self._command(ev.KillTask(self._number, event.task_id, vm_id))
            return
        never_seen = task.state == "launching"
        if event.state in ev.ENDED or (event.state == "unknown" and never_seen):
            self._end_task(task, event.state, event.message or event.reason)
        elif event.state in ("unreachable", "unknown"):
            self._unreachable_since.setdefault(task.task_id, self.now)
            self._move(task, "unreachable", event.message or "its VM cannot be reached; it may still run")
        else:
            self._task_is_there(task, event)

    def _task_is_there(self, task: ExecutorRecord, event: ev.TaskChanged) -> None:
        self._unreachable_since.pop(task.task_id, None)
        self._book.found(task.vm_id)
        if event.state == "running" or (task.state == "unreachable" and task.running_at is not None):
            self._task_runs(task)
        elif task.state in ("launching", "unreachable"):
            self._move(task, "starting", event.message)
            self._job_starts(task)

    def _task_runs(self, task: ExecutorRecord) -> None:
        if task.running_at is None:
            task.running_at = self.now
        self._move(task, "running", "")
        self._job_starts(task)
        job = self._jobs[task.job_id]
        executors = [t for t in self._open_tasks(job) if t.number is not None]
        if job.ended or job.aborting or any(t.state != "running" for t in executors):
            return
        if job.started_at is None and len(executors) == job.job.executors:
            job.started_at, job.state = self.now, "running"
            self._explain(job, "all its executors run")
            if job.job.driver is None:
                self._command(ev.StartDriver(self._number, job.job.id))
        self._runs_again(job)

    def _runs_again(self, job: JobRecord) -> None:
        executors = [t for t in self._open_tasks(job) if t.number is not None]
        if job.state != "relaunching" or self._missing(job) or any(t.state != "running" for t in executors):
            return
        job.state = "running"
        self._explain(job, "all its executors run again")

    def _job_starts(self, task: ExecutorRecord) -> None:
        job = self._jobs[task.job_id]
        if job.state == "placing" and not job.aborting:
            job.state = "starting"
            self._explain(job, "its executors are starting")

    def _end_task(self, task: ExecutorRecord, state: ev.TaskState, message: str) -> None:
        self._accrued(self.ledger.close(task, self.now))
        self._book.changed(task.vm_id)
        self._unreachable_since.pop(task.task_id, None)
        self._questions.answered(task.task_id)
        task.ended_at = self.now
        self._move(task, state if state in ("finished", "failed", "killed") else "lost", message or state)
        self._changed_at, self._stale = self.now, True
        job = self._jobs[task.job_id]
        if job.ended:
            return
        if task.number is None:
            self._cluster_driver_ended(job, task, state)
        elif job.aborting:
            self._requeue_when_clear(job)
        elif job.started_at is None:
            self._abort_launch(job, task, state)
        elif state == "finished":
            task.replaced = True  # its driver told it to stop
            self._runs_again(job)
        else:
            self._executor_lost(job, task, state)

    def _cluster_driver_ended(self, job: JobRecord, task: ExecutorRecord, state: ev.TaskState) -> None:
        if state == "finished":
            job.exit_code = 0
            self._end_job(job, "finished", "its driver exited with code 0")
        elif job.aborting:
            self._requeue_when_clear(job)
        elif job.started_at is None and state in ev.NEVER_RAN:
            self._abort_launch(job, task, state)
        else:
            self._end_job(job, "failed", f"its driver on {task.vm_name} ended: {task.message}")

    def _abort_launch(self, job: JobRecord, task: ExecutorRecord, state: ev.TaskState) -> None:
        """All or none: one executor could not be started, so the others go too and the job waits again."""
        if state != "dropped" and self._too_many_losses(job, task):
            return
        job.aborting = True
        self._explain(job, f"{_name(task)} could not be started on {task.vm_name}: {task.message}")
        for other in self._open_tasks(job):
            self._kill(other)
        self._requeue_when_clear(job)

    def _requeue_when_clear(self, job: JobRecord) -> None:
        if self._open_tasks(job):
            return
        self._replace_ended(job)
        job.aborting, job.state, job.placed_at = False, "queued", None
        self._enqueue(job)
        # It keeps its place, first come, first served: jobs are held in the order of their submission.
        self._queue = {job_id: self._queue[job_id] for job_id in self._jobs if job_id in self._queue}
        self._mark(job)

    def _executor_lost(self, job: JobRecord, task: ExecutorRecord, state: ev.TaskState) -> None:
        if state != "dropped" and self._too_many_losses(job, task):
            return
        job.state = "relaunching"
        self._relaunch_at.setdefault(job.job.id, self.now + self.options.relaunch_grace)
        self._explain(job, f"{_name(task)} on {task.vm_name} was lost ({task.message}); it is placed again")

    def _too_many_losses(self, job: JobRecord, task: ExecutorRecord) -> bool:
        job.losses += 1
        # Spark's own rule for spark.executor.maxNumFailures.
        if job.losses <= max(2 * job.job.executors, 3):
            return False
        self._stop_driver(job)
        self._end_job(job, "failed", f"lost {job.losses} executors; the last, {_name(task)}: {task.message}")
        return True

    def _kill(self, task: ExecutorRecord) -> None:
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
        self._unreachable_since = dict.fromkeys(self._unreachable_since, self.now)
        self._ask_about(open_tasks)
        for task in open_tasks:
            if task.killed_at is not None:
                self._kill(task)

    def _on_disconnected(self, _: ev.Disconnected) -> None:
        self.subscribed = False
        self._book.clear()

    def _on_offers(self, event: ev.OffersReceived) -> None:
        self._book.take(event.offers, self.now)
        self._changed_at = self.now

    def _on_rescinded(self, event: ev.OfferRescinded) -> None:
        self._book.drop(event.offer_id)

    def _on_vm_lost(self, event: ev.VmLost) -> None:
        self._book.lose(event.vm_id)

    def _on_tick(self, _: ev.Tick) -> None:
        if not self.subscribed:
            self._told_to_wait = None
            self._explain_silence("the Mesos master is not connected")
            return
        self._give_up_unreachable()
        late = [task for task in self._tasks.values() if not task.ended and self._is_late(task)]
        for task in late:
            if task.killed_at is not None:
                self._kill(task)
        self._ask_about([task for task in late if task.killed_at is None])
        self._reconcile([self._tasks[task_id] for task_id in self._questions.due(self.now)])
        if not len(self._book) and self.now - self._asked_at > self.options.settle:
            self._explain_silence("the master offers no resources now: all VMs are full, or none is there")

    def _is_late(self, task: ExecutorRecord) -> bool:
        """Whether a launch or a kill has been without an answer for too long: messages can be lost."""
        if task.killed_at is not None:
            return self.now - task.killed_at > self.options.launch_timeout
        launching = task.state == "launching" and task.task_id not in self._questions
        return launching and self.now - task.launched_at > self.options.launch_timeout

    def _give_up_unreachable(self) -> None:
        for task_id, since in list(self._unreachable_since.items()):
            task = self._tasks[task_id]
            if not task.ended and self.now - since > self.options.unreachable_timeout:
                self._kill(task)
                self._end_task(task, "lost", f"{task.vm_name} could not be reached for too long")

    def _explain_silence(self, why: str) -> None:
        head = next(iter(self.requests()), None)
        if head is None or head.job.id == self._told_to_wait:
            return
        job = self._jobs[head.job.id]
        if job.reason != why:
            self._explain(job, why)

    def _ask_about(self, tasks: list[ExecutorRecord]) -> None:
        self._questions.ask((task.task_id for task in tasks), self.now)
        self._reconcile(tasks)

    def _reconcile(self, tasks: list[ExecutorRecord]) -> None:
        if tasks:
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
            self._revive()

    def _revive(self) -> None:
        if not self._suppressed and self.now - self._revived_at < self.options.revive_pause:
            return  # it stays stale, so a later event asks
        self._suppressed, self._stale = False, False
        self._asked_at = self._revived_at = self.now
        self._command(ev.Revive(self._number))

    def _decline_all(self) -> None:
        if held := self._book.clear():
            self._command(ev.Decline(self._number, held, self.options.refuse))

    # ---- helpers ---------------------------------------------------------------------------------

    def _waits(self, job: JobRecord) -> bool:
        return job.job.id in self._queue or job.job.id in self._relaunch_at

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
        return PlacementRequest(job.job, self._missing(job), present, again=True)

    def _forget_if_done(self, job_id: str) -> None:
        job = self._jobs.get(job_id)
        if job is not None and job.ended and not self._open_tasks(job):
            del self._jobs[job_id]
            for task_id in self._tasks_of.pop(job_id, {}):
                del self._tasks[task_id]
                self._questions.answered(task_id)

    def _mark(self, job: JobRecord) -> None:
        self._changed_jobs[job.job.id] = None

    def _command(self, command: ev.Command) -> None:
        self._commands.append(command)


def _demand(job: JobRecord, placement: ev.Placement) -> dict[str, tuple[float, int]]:
    """Cpus and MiB that a placement takes, by VM."""
    demand = {
        vm_id: (job.job.cpus * count, job.job.memory_mib * count)
        for vm_id, count in Counter(placement.vm_ids).items()
    }
    if job.job.driver and placement.driver_vm_id:
        cpus, memory_mib = demand.get(placement.driver_vm_id, (0.0, 0))
        driver = job.job.driver
        demand[placement.driver_vm_id] = (cpus + driver.cpus, memory_mib + driver.memory_mib)
    return demand


def _name(task: ExecutorRecord) -> str:
    return "the driver" if task.number is None else f"executor {task.number}"


def _end(since: float, job: JobRecord) -> float | None:
    return None if job.job.expected_duration is None else since + job.job.expected_duration


def _vm_of(task: ExecutorRecord) -> Vm:
    return Vm(
        task.vm_id, task.vm_name, task.vm_type, task.cpus, task.memory_mib, task.price_per_hour, task.address
    )
