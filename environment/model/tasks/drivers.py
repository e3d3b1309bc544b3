"""Reports on drivers that are not tasks, and executor requests of all drivers.

`model/jobs/lifecycle.py` and `task_loss.py` define the effects on a job; drivers on the cluster are tasks,
see `tasks.py`.
"""

from environment.model.jobs.job_parts import JobParts
from environment.model.jobs.scale_up import bounded, wanted
from environment.model.messages import commands as cmd
from environment.model.messages import events as ev
from environment.model.messages.records import ExecutorRecord, Fault, JobRecord
from environment.model.tasks.task_loss import TaskLoss
from environment.model.vms.vm_parts import VmParts


class Drivers:
    """Takes in how drivers do, which executors they ask for, and which they give back or are to give up."""

    def __init__(self, vms: VmParts, jobs: JobParts, losing: TaskLoss) -> None:
        self._turn = vms.turn
        self._roster = vms.roster
        self._lives = jobs.lives
        self._losing = losing
        self._watch = jobs.watch

    def started(self, event: ev.DriverStarted) -> None:
        """Record that a driver's process has started."""
        job = self._roster.job(event.job_id)
        if job is not None and not job.ended:
            self._roster.explain(job, "its driver runs")

    def delayed(self, event: ev.DriverDelayed) -> None:
        """The daemon's host could not start one, or keep it."""
        job = self._roster.job(event.job_id)
        if job is not None and not (job.ended or job.aborting):
            self._roster.explain(job, event.message)

    def ended(self, event: ev.DriverEnded) -> None:
        """Record that a driver has ended."""
        job = self._roster.job(event.job_id)
        if job is None or job.ended:
            return
        if event.requeue:
            told = job.gave[-1].told if job.gives_way else job.reason
            self._lives.stopped(job, event.message or told)
            return
        if job.failing:
            self._lives.driver_failed(job, event.exit_code, job.failing, again=event.cleared)
            return
        state = event.state or ("finished" if event.exit_code == 0 else "failed")
        if state != "failed":
            job.exit_code = event.exit_code
            self._lives.end(job, state, event.message or "its driver exited with code 0")
        else:
            why = event.message or f"its driver exited with code {event.exit_code}"
            fault: Fault = "infrastructure" if event.exit_code is None else "user"
            self._lives.driver_failed(job, event.exit_code, why, fault, again=event.cleared)

    def asked(self, event: ev.ExecutorsAsked) -> None:
        """Apply a driver's request for a number of executors; a job that is not dynamic ignores it.

        A user's own driver exists and sends this once, also while its first executors are taken back.
        """
        job = self._roster.job(event.job_id)
        if job is None or job.job.dynamic is None or job.ended:
            return
        if not (self._may_be_there(job) or job.job.client_driver):
            return
        wants, capped = bounded(job.job, event.profiles)
        if (wants, capped) != (wanted(job), job.capped):
            job.wanted, job.capped = wants, capped
            self._roster.mark(job)
            self._lives.look_for_growth(job)
            self._lives.say_runs(job)

    def released(self, event: ev.ExecutorsReleased) -> None:
        """Kill the executors that a driver gave back; none of them counts as lost."""
        job = self._roster.job(event.job_id)
        if job is None or not self._may_be_there(job):
            return
        for task in self._roster.executors(job):
            if task.number in event.numbers and not task.released:
                task.released = True
                self._roster.mark_task(task)
                if task.killed_at is None:
                    self._watch.kill(task)

    def decommission(self, event: ev.DecommissionAsked) -> None:
        """Make a driver decommission these executors, once their blocks are elsewhere."""
        job = self._roster.job(event.job_id)
        if job is not None:
            numbered = (task for task in self._roster.executors(job) if task.number in event.numbers)
            self.give_up(job, [*numbered], event.why)

    def give_up(self, job: JobRecord, executors: list[ExecutorRecord], why: str) -> None:
        """Make the job's driver decommission these executors, once it runs; others take their place."""
        why = why or "asked"
        if found := self._drain(job, executors, why):
            self._losing.left(job, found, why)

    def give_away(self, job: JobRecord, executors: list[ExecutorRecord], why: str, due: float) -> None:
        """Make the job's driver decommission executors for another job; from `due` on it may grow again."""
        if found := self._drain(job, executors, why):
            self._losing.gave(job, found, due)

    def _drain(self, job: JobRecord, executors: list[ExecutorRecord], why: str) -> list[ExecutorRecord]:
        if not self._roster.stands(job):
            return []
        found = [task for task in executors if task.decommissioned_at is None and task.killed_at is None]
        for task in found:
            task.decommissioned_at = self._turn.now
            self._roster.move(task, task.state, f"is to end, once its blocks are elsewhere: {why}")
        if found:
            numbers = tuple(task.number for task in found if task.number is not None)
            self._turn.command(cmd.Decommission, job.job.id, numbers)
        return found

    def _may_be_there(self, job: JobRecord) -> bool:
        """Whether messages of the job's driver are valid now; late messages of an earlier one are void."""
        there = self._roster.stands(job) or bool(job.job.client_driver)
        return there and not (job.ended or job.aborting)
