"""The cluster as a pure state machine: events in, commands out.

Here is what each event means for a job and its executors: the steps of their lives. The records are kept
in `roster.py`, the queue in `waiting.py`, offers in `offers.py` and `supply.py`, doubts about tasks in
`watch.py`, launches in `launches.py`. The model never asks the clock, draws a random number or opens a
socket, so the same events always give the same commands. Who places a job is not decided here: a decision
enters as the event `Decided`.
"""

from collections.abc import Callable, Iterable
from typing import Any, Literal

from environment import events as ev
from environment.launches import Launches
from environment.ledger import Ledger
from environment.model_options import ModelOptions
from environment.offers import OfferBook
from environment.records import ExecutorRecord, JobRecord
from environment.roster import Changes, Roster
from environment.supply import Supply
from environment.turn import Turn
from environment.types import ClusterView, PlacementRequest, Vm
from environment.waiting import WaitingLine
from environment.watch import Watch

__all__ = ["Changes", "ClusterModel", "ModelOptions"]


class ClusterModel:
    """The state of cluster and queue; see the module's text.

    Invariants: a VM's open tasks never take more than its capacity as offered; every job that is not over
    is in the queue, or has open tasks, or waits for its driver; every queued job has a reason.
    """

    def __init__(self, options: ModelOptions | None = None) -> None:
        self.options = options or ModelOptions()
        self.ledger = Ledger()
        self._turn = Turn()
        self._roster = Roster()
        self._line = WaitingLine(self._roster)
        self._book = OfferBook(self.ledger)
        self._supply = Supply(self._turn, self._book, self.options)
        self._watch = Watch(self._turn, self._roster, self.options)
        self._handlers: dict[type[ev.Event], Callable[[Any], None]] = {
            ev.JobSubmitted: self._on_submitted,
            ev.KillRequested: self._on_kill_requested,
            ev.Subscribed: self._on_subscribed,
            ev.Disconnected: lambda _: self._supply.disconnect(),
            ev.OffersReceived: lambda event: self._supply.take(event.offers),
            ev.OfferRescinded: lambda event: self._book.drop(event.offer_id),
            ev.VmLost: lambda event: self._book.lose(event.vm_id),
            ev.Decided: self._on_decided,
            ev.PolicyChanged: lambda _: self._supply.reconsider(),
            ev.TaskChanged: self._on_task_changed,
            ev.DriverStarted: self._on_driver_started,
            ev.DriverEnded: self._on_driver_ended,
            ev.Tick: self._on_tick,
        }

    # ---- what others ask ------------------------------------------------------------------------

    @property
    def now(self) -> float:
        """The time of the last event, seconds."""
        return self._turn.now

    @property
    def subscribed(self) -> bool:
        """Whether the master has accepted the framework and the connection holds."""
        return self._supply.subscribed

    def handle(self, event: ev.Event) -> list[ev.Command]:
        """Take one event in and return what is to be done about it, in order.

        A tick that leads to nothing is not counted, so that a log may leave it out and replays the same.
        """
        self._turn.begin(event.at)
        self._handlers[type(event)](event)
        self._supply.balance(anyone=len(self._line) > 0, due=self._line.due(self.now))
        return self._turn.end(counted=not isinstance(event, ev.Tick))

    def restore(self, jobs: Iterable[JobRecord], executors: Iterable[ExecutorRecord]) -> None:
        """Take up what a store kept: jobs in order of submission, and all their tasks, ended or not.

        Jobs that are over belong to it as long as they have open tasks.
        """
        for job in jobs:
            self._roster.add(job)
            if job.state == "queued":
                self._line.join(job)
        for task in executors:
            self._roster.add_task(task)
            if not task.ended:
                self.ledger.reopen(task)
                self._book.learn(_vm_of(task))
                if task.state == "unreachable":
                    self._watch.lost_sight(task)
        for job in self._roster.jobs():
            if self._roster.missing(job) > 0:
                self._line.relaunch(job, self.now)
            elif job.aborting:
                self._requeue_when_clear(job)

    def view(self) -> ClusterView:
        """The cluster as a policy may see it now: what is free is what is offered."""
        return self._book.view(self.now, tuple(self._roster.running()))

    def requests(self) -> tuple[PlacementRequest, ...]:
        """What waits for a placement, first come first served; lost executors come before new jobs."""
        return self._line.requests(self.now)

    @property
    def waiting(self) -> int:
        """How many jobs wait for a placement, of all their executors or of lost ones."""
        return len(self._line)

    def ready_to_decide(self) -> bool:
        """Whether a decision is due: something waits, offers are there, and no more of them are expected."""
        return self._supply.ready() and self._line.due(self.now)

    def vms(self) -> tuple[Vm, ...]:
        """All VMs that are there, in the order in which policies see them."""
        return self._book.vms()

    def job(self, job_id: str) -> JobRecord | None:
        """The record of a job that is not over or has open tasks; None when it is not known."""
        return self._roster.job(job_id)

    def tasks(self, job_id: str) -> tuple[ExecutorRecord, ...]:
        """All tasks of a job that is held in memory."""
        return self._roster.tasks(job_id)

    def task(self, task_id: str) -> ExecutorRecord | None:
        """One task that is held in memory."""
        return self._roster.task(task_id)

    def due(self, at: float) -> dict[str, dict[str, float]]:
        """What open tasks owe at that time beyond their records, in dollars by job id and task id."""
        due: dict[str, dict[str, float]] = {}
        for task, cost in self.ledger.due(at):
            due.setdefault(task.job_id, {})[task.task_id] = cost
        return due

    def take_changes(self) -> Changes:
        """Hand out copies of what changed since the last call, and forget jobs that are over and done."""
        return self._roster.take_changes()

    # ---- jobs ------------------------------------------------------------------------------------

    def _on_submitted(self, event: ev.JobSubmitted) -> None:
        if self._roster.job(event.job.id) is not None:
            return
        job = JobRecord(event.job)
        self._roster.add(job)
        if not self._line.due(self.now):
            self._supply.want()
        elif ahead := self._line.last():
            job.reason = f"first come, first served: waits behind {ahead}"
        else:
            job.reason = "waits until lost executors of other jobs are placed again"
        self._line.join(job)
        self._roster.mark(job)

    def _on_kill_requested(self, event: ev.KillRequested) -> None:
        job = self._roster.job(event.job_id)
        if job is not None and not job.ended:
            self._stop_driver(job)
            self._end_job(job, "killed", "killed on request")

    def _on_driver_started(self, event: ev.DriverStarted) -> None:
        job = self._roster.job(event.job_id)
        if job is not None and not job.ended:
            self._roster.explain(job, "its driver runs")

    def _on_driver_ended(self, event: ev.DriverEnded) -> None:
        job = self._roster.job(event.job_id)
        if job is None or job.ended:
            return
        if event.requeue:
            self._start_afresh(job, event.message)
            return
        job.exit_code = event.exit_code
        if event.exit_code == 0:
            self._end_job(job, "finished", "its driver exited with code 0")
        else:
            self._end_job(job, "failed", event.message or f"its driver exited with code {event.exit_code}")

    def _start_afresh(self, job: JobRecord, reason: str) -> None:
        job.aborting, job.started_at = True, None
        self._line.leave(job)
        self._roster.explain(job, reason)
        for task in self._roster.open_tasks(job):
            self._watch.kill(task)
        self._requeue_when_clear(job)

    def _end_job(self, job: JobRecord, state: Literal["finished", "failed", "killed"], reason: str) -> None:
        job.state, job.finished_at = state, self.now
        job.aborting = False
        if self._line.leave(job):
            self._supply.reconsider()  # the next one may fit where this one did not
        self._roster.explain(job, reason)
        for task in self._roster.open_tasks(job):
            self._watch.kill(task)

    def _stop_driver(self, job: JobRecord) -> None:
        if job.started_at is not None and job.job.driver is None:
            self._turn.command(ev.KillDriver, job.job.id)

    # ---- decisions -------------------------------------------------------------------------------

    def _on_decided(self, event: ev.Decided) -> None:
        outdated = self._supply.decided(event.view_at)
        launches = Launches(self._turn, self._roster, self._book, self.ledger)
        for placement in event.placements:
            job = self._roster.job(placement.job_id)
            if job is None or job not in self._line:
                continue  # killed, or placed already
            new = self._line.is_new(job)
            if refusal := launches.refusal(job, placement, new=new):
                # Those behind it were decided on as if it had been placed, and must not overtake it.
                self._roster.explain(job, f"decided again, since {refusal}")
                self._supply.reconsider()
                break
            launches.add(job, placement, new=new)
            self._leaves_line(job)
        else:
            self._line.tell(event.waiting)
        launches.command()
        if self._line.told and not outdated:
            self._supply.decline()

    def _leaves_line(self, job: JobRecord) -> None:
        if self._line.is_new(job):
            job.state, job.placed_at = "placing", self.now
            self._roster.explain(job, "its executors are being launched")
        else:
            self._roster.replace_ended(job)
            self._roster.explain(job, "lost executors are being launched again")
        self._line.leave(job)

    # ---- tasks -----------------------------------------------------------------------------------

    def _on_task_changed(self, event: ev.TaskChanged) -> None:
        self._watch.answered(event.task_id)
        task = self._roster.task(event.task_id)
        if task is None or task.ended:
            if event.state not in ev.ENDED and event.state not in ("unreachable", "unknown"):
                # Nobody waits for it: what is over stays over, even if a lost VM comes back with it.
                vm_id = event.vm_id or (task.vm_id if task else "")
                self._turn.command(ev.KillTask, event.task_id, vm_id)
            return
        if event.state in ev.ENDED:
            taken = event.state == "killed" and task.killed_at is None and event.reason in ev.CLUSTER_REASONS
            self._end_task(task, "lost" if taken else event.state, event.message or event.reason)
        elif event.state in ("unreachable", "unknown"):
            self._watch.lost_sight(task)
            why = event.message or "its VM cannot be reached; it may still run"
            self._roster.move(task, "unreachable", why)
        else:
            self._task_is_there(task, event)

    def _task_is_there(self, task: ExecutorRecord, event: ev.TaskChanged) -> None:
        self._watch.seen(task)
        self._book.found(task.vm_id)
        if event.state == "running" or (task.state == "unreachable" and task.running_at is not None):
            self._task_runs(task)
        elif task.state in ("launching", "unreachable"):
            self._roster.move(task, "starting", event.message)
            self._job_starts(task)

    def _task_runs(self, task: ExecutorRecord) -> None:
        if task.running_at is None:
            task.running_at = self.now
        self._roster.move(task, "running", "")
        self._job_starts(task)
        job = self._roster.job_of(task)
        executors = self._roster.executors(job)
        if job.ended or job.aborting or any(t.state != "running" for t in executors):
            return
        if job.started_at is None:
            job.started_at, job.state = self.now, "running"
            self._roster.explain(job, "all its executors run")
            if job.job.driver is None:
                job.driver_on = self.options.host
                self._turn.command(ev.StartDriver, job.job.id)
        self._runs_again(job)

    def _runs_again(self, job: JobRecord) -> None:
        all_run = all(task.state == "running" for task in self._roster.executors(job))
        if job.state == "relaunching" and all_run and not self._roster.missing(job):
            job.state = "running"
            self._roster.explain(job, "all its executors run again")

    def _job_starts(self, task: ExecutorRecord) -> None:
        job = self._roster.job_of(task)
        if job.state == "placing" and not job.aborting:
            job.state = "starting"
            self._roster.explain(job, "its executors are starting")

    def _end_task(self, task: ExecutorRecord, state: ev.TaskState, message: str) -> None:
        self._roster.charge(self.ledger.close(task, self.now))
        self._book.changed(task.vm_id)
        self._watch.ended(task)
        task.ended_at = self.now
        end = state if state in ("finished", "failed", "killed") else "lost"
        self._roster.move(task, end, message or state)
        self._supply.reconsider()
        job = self._roster.job_of(task)
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
        if self._too_many_failures(job, task, state):
            return
        job.aborting = True
        self._roster.explain(job, f"{_name(task)} could not be started on {task.vm_name}: {task.message}")
        for other in self._roster.open_tasks(job):
            self._watch.kill(other)
        self._requeue_when_clear(job)

    def _requeue_when_clear(self, job: JobRecord) -> None:
        if self._roster.open_tasks(job):
            return
        self._roster.replace_ended(job)
        job.aborting, job.state, job.placed_at = False, "queued", None
        self._line.rejoin(job)
        self._roster.mark(job)

    def _executor_lost(self, job: JobRecord, task: ExecutorRecord, state: ev.TaskState) -> None:
        if self._too_many_failures(job, task, state):
            return
        job.state = "relaunching"
        self._line.relaunch(job, self.now + self.options.relaunch_grace)
        why = f"{_name(task)} on {task.vm_name} was lost ({task.message}); it is placed again"
        self._roster.explain(job, why)

    def _too_many_failures(self, job: JobRecord, task: ExecutorRecord, state: ev.TaskState) -> bool:
        if state != "dropped":
            job.losses += 1
        if state in ev.BY_CLUSTER:
            return False
        job.failures += 1
        # Spark's own rule for spark.executor.maxNumFailures.
        if job.failures <= max(2 * job.job.executors, 3):
            return False
        self._stop_driver(job)
        self._end_job(
            job, "failed", f"lost {job.failures} executors; the last, {_name(task)}: {task.message}"
        )
        return True

    # ---- master and time -------------------------------------------------------------------------

    def _on_subscribed(self, _: ev.Subscribed) -> None:
        self._supply.connect()
        self._watch.reconnected()

    def _on_tick(self, _: ev.Tick) -> None:
        if not self.subscribed:
            self._line.tell(None)
            self._line.explain_silence("the Mesos master is not connected", self.now)
            return
        for task in self._watch.given_up():
            self._watch.kill(task)
            self._end_task(task, "lost", f"{task.vm_name} could not be reached for too long")
        self._watch.chase()
        if self._supply.dry():
            why = "the master offers no resources now: all VMs are full, or none is there"
            self._line.explain_silence(why, self.now)


def _name(task: ExecutorRecord) -> str:
    return "the driver" if task.number is None else f"executor {task.number}"


def _vm_of(task: ExecutorRecord) -> Vm:
    return Vm(
        task.vm_id, task.vm_name, task.vm_type, task.cpus, task.memory_mib, task.price_per_hour, task.address
    )
