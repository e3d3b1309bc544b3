"""Tasks of jobs that end, or are to end: the effect on their jobs, and the fault.

A lost executor is placed again; an executor that its driver gave back is not. The end of a driver ends its
job, and a launch with a failed task is undone. `model/jobs/lifecycle.py` has the steps that follow,
`tasks.py` the effect on the task's VM.
"""

from conf.util.counted import counted
from environment.model.jobs.end_reasons import short_of_memory
from environment.model.jobs.job_parts import JobParts
from environment.model.jobs.retries import MOST_LAUNCHES, left
from environment.model.jobs.scale_up import runs_on
from environment.model.messages import events as ev
from environment.model.messages import options, task_states
from environment.model.messages.records import ExecutorRecord, Fault, JobRecord
from environment.model.vms.vm_parts import VmParts
from environment.scale_up import Grown

#: How often a job is launched afresh because its driver's host or VM failed the driver, and then fails.
FRESH_STARTS = 10


class TaskLoss:
    """Leads jobs through the ends of their tasks; a job's failures by itself are counted, and end it."""

    def __init__(self, vms: VmParts, jobs: JobParts) -> None:
        self._turn = vms.turn
        self._roster = vms.roster
        self._line = jobs.line
        self._setbacks = jobs.setbacks
        self._retries = jobs.retries
        self._lives = jobs.lives

    def left(self, job: JobRecord, executors: list[ExecutorRecord], why: str) -> None:
        """Place others for executors that are to go, at once, so that their blocks have a destination.

        Spark gives up to move the blocks of an only executor.
        """
        if job.job.dynamic is None:
            names = ", ".join(f"{_name(task)} on {task.vm_name}" for task in executors)
            self._lost(job, f"loses {names} ({why}), and gets as many replacements")
            return
        for task in executors:
            task.replaced = True  # how many it wants is known without it
        self._lives.look_for_growth(job)
        self._lives.say_runs(job)

    def gave(self, job: JobRecord, executors: list[ExecutorRecord], due: float) -> None:
        """Record executors that the job gave to another; from `due` on it may grow again."""
        before = len([task for task in self._roster.executors(job) if not task.gone]) + len(executors)
        for task in executors:
            task.replaced = True
        if job.job.dynamic is None:
            job.grown = (*job.grown, Grown(self._turn.now, before, before - len(executors)))
        self._lives.look_for_growth(job, due)
        self._roster.explain(job, runs_on(job, self._roster))

    def taken_along(self, task: ExecutorRecord) -> str:
        """Why a task ends that was killed, and so not for a reason of its own; empty for others."""
        job = self._roster.job_of(task)
        if not job.ended and task.decommissioned_at is not None:
            return "decommissioned"
        if task.killed_at is None:
            return ""
        if job.ended:
            return "ended with its job"
        if task.released:
            return "released by its driver"
        return "ended because its job's launch was undone" if job.aborting else ""

    def task_ended(self, task: ExecutorRecord, end: ev.TaskChanged, *, never_ran: bool) -> None:
        """Process the end of a task, already in its record; `never_ran` when that is certain."""
        self._setbacks.ended(task)
        job, state = self._roster.job_of(task), end.state
        if job.ended:
            return
        if task.number is None and not never_ran and not (job.aborting and state != "finished"):
            self._cluster_driver_ended(job, task, end)
        elif job.aborting:
            self._lives.requeue_when_clear(job)
        elif job.failing or (job.gives_way and job.job.driver_here):
            return  # it goes on when its driver has ended
        elif task.released:
            self._given_up(job, task)
        elif task.number is None or not self._roster.stands(job):
            self._undo_launch(job, task, end)
        elif task.decommissioned_at is not None and job.job.dynamic is None:
            self._lives.look_whether_all_run(job)  # another has its place, or waits for one
        elif task.decommissioned_at is not None:
            self._given_up(job, task)
        elif state == "finished":
            self._given_up(job, task)  # its driver told it to stop
        else:
            self._executor_lost(job, task, end)

    def _given_up(self, job: JobRecord, task: ExecutorRecord) -> None:
        """Record an executor's regular end; another takes its place if the driver still wants as many."""
        task.replaced = True
        # An executor that ends may be the first sign that its driver is ending.
        self._lives.look_for_growth(job, self._turn.now + options.RELAUNCH_GRACE)
        self._lives.look_whether_all_run(job)
        self._lives.say_runs(job)

    def _cluster_driver_ended(self, job: JobRecord, task: ExecutorRecord, end: ev.TaskChanged) -> None:
        if end.state == "finished":
            job.exit_code = 0
            self._lives.end(job, "finished", "its driver exited with code 0")
            return
        if end.state == "failed" and end.exit_code == task_states.PORT_TAKEN:
            # Each that failed for another reason was a retry, or would have been the job's end.
            drivers = (other for other in self._roster.tasks(job.job.id) if other.number is None)
            count = sum(driver.state == "failed" for driver in drivers) - job.retried
            why = f"a port of its driver on {task.vm_name} was taken by another process"
            if count <= FRESH_STARTS:
                self._setbacks.never_ran(task, why, blamed=True)
                self._lives.start_afresh(job, f"{why}; fresh start {count} of {FRESH_STARTS}")
                return
        fault: Fault = "infrastructure" if end.state in task_states.BY_CLUSTER else "user"
        why = f"its driver on {task.vm_name} ended: {task.message}"
        self._lives.driver_failed(job, end.exit_code, why, fault)

    def _undo_launch(self, job: JobRecord, task: ExecutorRecord, end: ev.TaskChanged) -> None:
        """All or none: one task could not be started, so the others go too and the job waits again."""
        if self._too_many_failures(job, task, end.state):
            return
        follows = self._set_back(task, end)
        if self._setbacks.launches(job.job.id) >= MOST_LAUNCHES:
            why = f"{MOST_LAUNCHES} launches of it in a row came to nothing; the last: {task.message}"
            self._retries.note(job, why, "infrastructure")
            self._lives.end(job, "failed", why)
            return
        why = f"{_name(task)} could not be started on {task.vm_name}: {task.message}"
        self._lives.undo(job, f"{why}; {follows}")

    def _executor_lost(self, job: JobRecord, task: ExecutorRecord, end: ev.TaskChanged) -> None:
        if self._too_many_failures(job, task, end.state):
            return
        again = "it is placed again" if task.running_at is not None else self._set_back(task, end)
        again = f"it is not placed again: the job {job.bounded}" if job.bounded else again
        due = max(self._turn.now + self._pause(job, end.state), self._setbacks.due(job.job.id))
        why = f"{_name(task)} on {task.vm_name} was lost ({task.message}); {again}"
        if job.job.dynamic is None:
            self._lost(job, why, due)
            return
        task.replaced = True  # how many it wants is known without it
        self._lives.look_for_growth(job, due)
        self._roster.explain(job, why)

    def _lost(self, job: JobRecord, why: str, due: float = 0.0) -> None:
        """Record a lost executor, which is placed again from `due` on."""
        job.state = "relaunching"
        self._line.relaunch(job, due)
        self._roster.explain(job, why)

    def _set_back(self, task: ExecutorRecord, end: ev.TaskChanged) -> str:
        """Record a launch that never ran; return how the job goes on, in words."""
        blamed = end.state == "dropped" and end.reason not in task_states.NOT_THE_VM
        return self._setbacks.never_ran(task, task.message, blamed=blamed)

    def _pause(self, job: JobRecord, state: task_states.TaskState) -> float:
        """Seconds before an executor is placed again; longer after repeated failures of the job's own."""
        failures = 0 if state in task_states.BY_CLUSTER else job.failures
        return options.RELAUNCH.after(failures)

    def _too_many_failures(self, job: JobRecord, task: ExecutorRecord, state: task_states.TaskState) -> bool:
        if state != "dropped":
            job.losses += 1
        if state in task_states.BY_CLUSTER:
            return False
        job.failures += 1
        # Spark's own rule for spark.executor.maxNumFailures.
        if job.failures <= max(2 * job.job.executors, 3):
            return False
        self._failed_by_losses(
            job, f"lost {counted(job.failures, 'executor')}; the last, {_name(task)}: {task.message}"
        )
        return True

    def _failed_by_losses(self, job: JobRecord, why: str) -> None:
        """Fail the job as its executors end by themselves again and again; the fault is the user's."""
        self._lives.stop_driver(job)
        again = left(job, "user") or (left(job, "memory") and short_of_memory(why))
        if not (job.started_at is not None and job.job.driver_here and again):
            self._lives.driver_failed(
                job, None, why, again=not (job.job.driver_here or job.job.client_driver)
            )
            return
        job.failing = why
        self._line.leave(job)
        self._roster.explain(job, f"{why}; its driver is being stopped")
        self._lives.kill_tasks(job)


def _name(task: ExecutorRecord) -> str:
    return "the driver" if task.number is None else f"executor {task.number}"
