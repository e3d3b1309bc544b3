"""Steps of a job's life: placed, starting, running, ended; and the consequences of each.

`cluster_model.py` maps events to steps, `drivers.py` handles reports of drivers, and
`model/tasks/task_loss.py` tasks that end or are to end. `model/vms/job_registry.py` stores the records.
"""

from collections.abc import Mapping
from typing import Literal

from conf.util.counted import counted
from environment.model.jobs.backoff import LaunchBackoff
from environment.model.jobs.dependency_release import Releases
from environment.model.jobs.end_reasons import error_first, lost_executor, short_of_memory
from environment.model.jobs.reconciliation import OUT_OF_REACH, OutOfReach, Watch
from environment.model.jobs.retries import Retries, left, tried
from environment.model.jobs.scale_up import runs_on
from environment.model.jobs.waiting_queue import WaitingLine
from environment.model.messages import commands as cmd
from environment.model.messages import task_states
from environment.model.messages.event_context import EventContext
from environment.model.messages.options import ModelOptions
from environment.model.messages.records import ExecutorRecord, Fault, JobRecord
from environment.model.vms.job_registry import JobRegistry
from environment.model.vms.offer_demand import Supply
from environment.scale_up import Grown

#: Seconds between the end of an executor and that of the driver that failed with it. Chosen: Spark ends some
#: seconds after the last failure of a task that it permits.
_JUST = 60.0


class JobLifecycle:
    """Moves jobs through the steps of their lives.

    Invariants: a job with no standing launch has all its executors open or none (all or nothing); no
    driver is started twice, whether it runs on the daemon's host or on the cluster.
    """

    def __init__(
        self,
        turn: EventContext,
        roster: JobRegistry,
        line: WaitingLine,
        supply: Supply,
        watch: Watch,
        setbacks: LaunchBackoff,
        releases: Releases,
        retries: Retries,
        options: ModelOptions,
    ) -> None:
        self._turn = turn
        self._roster = roster
        self._line = line
        self._supply = supply
        self._watch = watch
        self._setbacks = setbacks
        self._releases = releases
        self._retries = retries
        self._options = options

    # ---- its start ---------------------------------------------------------------------------------

    def arrive(self, job: JobRecord, ends: Mapping[str, str]) -> None:
        """Queue a new job, unless something holds it (see `dependency_release.py`)."""
        never = self._releases.hold(job, ends) if job.held else ""
        if never:
            self.end(job, "failed", never)
        elif job.job.id not in self._releases:
            self.enter(job)

    def enter(self, job: JobRecord) -> None:
        """Nothing holds it any more: it waits for its turn."""
        if not job.job.begins_with:
            self.begin(job)
        elif job.released_at is None:
            self._line.join(job)
        else:
            self._line.rejoin(job)
        self._supply.want()  # a policy may place it at once, before other waiting jobs

    def wake(self) -> None:
        """Queue the held jobs that are due to start."""
        for job in self._releases.wake():
            self.enter(job)

    def begin(self, job: JobRecord) -> None:
        """Queue the job at its place; or start it at once, if it needs no executors to begin with."""
        if job.bounded:
            self.end(job, "failed", f"{job.reason}; it {job.bounded}, and is not started again")
            return
        if job.job.begins_with:
            self._line.rejoin(job)
            return
        self._roster.begun(job)
        job.placed_at, job.driver_on = self._turn.now, self._options.host if job.job.driver_here else ""
        self._start(job, "runs without executors, until its driver asks for some")
        self.look_for_growth(job)

    def _start(self, job: JobRecord, reason: str) -> None:
        job.started_at, job.state = self._turn.now, "running"
        self._roster.explain(job, reason)
        if job.job.driver_here:
            self._turn.command(cmd.StartDriver, job.job.id)

    def decided_again(self, job: JobRecord, why: str, since: float | None = None) -> None:
        """Queue a job again after its reservation was released, now or as of `since`."""
        if job.state == "queued":
            self._line.rejoin(job)
        elif job.job.dynamic is not None:
            self.look_for_growth(job)
        elif self._roster.missing(job):
            self._line.relaunch(job, self._turn.now if since is None else since)
        self._roster.explain(job, f"decided again, since {why}")
        self.say_runs(job)  # where its driver wants no more by now
        self._supply.reconsider(since)

    def placed(self, job: JobRecord, number: int, *, new: bool) -> None:
        """Record that this number of executors of the job are about to be launched."""
        if new:
            job.state, job.placed_at = "placing", self._turn.now
            # Its executors now receive the driver's address.
            job.driver_on = self._options.host if job.job.driver_here else ""
            self._roster.explain(job, f"{self._executors_of(job)} are being launched")
        elif job.job.dynamic is not None or not self._roster.missing(job):
            more = "1 more executor is" if number == 1 else f"{number} more executors are"
            self._roster.explain(job, f"{more} being launched")
            if job.job.dynamic is None:
                after = len(self._roster.executors(job))
                job.grown = (*job.grown, Grown(self._turn.now, after - number, after))
        else:
            self._roster.replace_gone(job)
            self._roster.explain(job, "lost executors are being launched again")
        self._line.leave(job)
        self.look_for_growth(job)  # its remaining requests go behind all waiting jobs

    def task_is_there(self, task: ExecutorRecord, state: task_states.TaskState, message: str) -> None:
        """Record that a task of the job starts, runs, or is seen again."""
        self._setbacks.seen(task)
        if state == "running" or (task.state == "unreachable" and task.running_at is not None):
            if task.running_at is None:
                task.running_at = self._turn.now
            self._roster.move(task, "running", "")
        elif task.state in ("launching", "unreachable"):
            self._roster.move(task, "starting", message)
        else:
            return
        job = self._roster.job_of(task)
        if job.state == "placing" and not job.aborting:
            job.state = "starting"
            self._roster.explain(job, f"{self._executors_of(job)} are starting")
        self.look_whether_all_run(job)
        self._reach_again(job)

    def lose_sight(self, task: ExecutorRecord, out: OutOfReach, why: str) -> None:
        """Record that a task of the job cannot be reached, and may still run."""
        job = self._roster.job_of(task)
        self._roster.move(task, "unreachable", "; ".join(filter(None, (out.told, why))))
        if not (job.ended or job.aborting):
            there = sum(other.vm_id == task.vm_id for other in self._unreachable(job))
            tasks = f"{there} of its tasks" if there > 1 else "one of its tasks"
            self._roster.explain(job, f"{tasks} on {task.vm_name} {out.told}")

    def _reach_again(self, job: JobRecord) -> None:
        """Update the reason of a job when the last of its unreachable tasks is seen again."""
        if job.state == "running" and OUT_OF_REACH in job.reason and not self._unreachable(job):
            self._roster.explain(job, "all its tasks can be reached again")

    def _unreachable(self, job: JobRecord) -> list[ExecutorRecord]:
        return [task for task in self._roster.open_tasks(job) if task.state == "unreachable"]

    def _executors_of(self, job: JobRecord) -> str:
        """The job's executors in words: their number when it was started on fewer than it asks for."""
        number, asked = len(self._roster.executors(job)), job.job.begins_with
        return "its executors" if number == asked else f"{number} of its {counted(asked, 'executor')}"

    def look_whether_all_run(self, job: JobRecord) -> None:
        """Check whether the job has begun to run, or runs again."""
        executors = self._roster.executors(job)
        if job.ended or job.aborting or self._roster.missing(job):
            return
        if any(task.state != "running" for task in executors if not task.gone):
            return
        self._setbacks.forget(job.job.id)
        if job.started_at is None:
            number, asked = len(executors), job.job.begins_with
            fewer = "" if number == asked else f" ({number} of {asked})"
            self._start(job, f"all its executors run{fewer}")
            self.look_for_growth(job)
        elif job.state == "relaunching":
            job.state = "running"
            self._roster.explain(
                job, runs_on(job, self._roster) if job.bounded else "all its executors run again"
            )
            self.look_for_growth(job)
        elif job.job.dynamic is not None or job.grown:
            self.say_runs(job)

    # ---- its end -----------------------------------------------------------------------------------

    def end(self, job: JobRecord, state: Literal["finished", "failed", "killed"], reason: str) -> None:
        """End the job and kill its tasks, but not a driver on the host (see `stop_driver`).

        Jobs that come after it are released, or fail, at once.
        """
        self._over(job, state, reason)
        freed, failed = self._releases.ended(job)
        for other, why in failed:
            self._over(other, "failed", why)
        for other in freed:
            self.enter(other)

    def _over(self, job: JobRecord, state: Literal["finished", "failed", "killed"], reason: str) -> None:
        job.state, job.finished_at = state, self._turn.now
        job.aborting = False
        self._setbacks.forget(job.job.id)
        if self._line.leave(job):
            self._supply.reconsider()  # the next one may fit where this one did not
        self._roster.explain(job, error_first(reason))
        self._roster.over(job, self._turn.now)
        self.kill_tasks(job)

    def driver_failed(
        self, job: JobRecord, exit_code: int | None, why: str, fault: Fault = "user", *, again: bool = True
    ) -> None:
        """Fail the job after its driver, unless it has retries left and is started `again`."""
        job.failing, why = "", f"{self._lost_executor(job, why)}{error_first(why)}"
        of = self._retries.memory.short(job, why) if fault == "user" else None
        self._retries.note(job, why, fault if of is None else "memory")
        if of is not None and again and left(job, "memory"):
            why = f"{why}; {self._retries.memory.again(job, of)}"
            if job.more_memory is not None:
                self.start_afresh(job, why)
                return
        if again and (said := self._retries.again(job, fault)):
            self.start_afresh(job, f"{why}; {said}")
            return
        job.exit_code = exit_code
        self.end(job, "failed", why + tried(job))

    def _lost_executor(self, job: JobRecord, why: str) -> str:
        """How the executor ended that the driver failed with, before the driver's own reason; or empty.

        Where the driver names none, that is the last one of the attempt if its memory ran out just before: a
        worker of Python that the kernel killed is only a broken connection to Spark.
        """
        number, failed = lost_executor(why), self._roster.failed_executors(job)
        last = max(failed, key=lambda task: task.ended_at or 0.0, default=None)
        if number is not None:
            last = next((task for task in failed if task.number == number), None)
        elif last is not None and (
            not short_of_memory(last.message) or (last.ended_at or 0.0) < self._turn.now - _JUST
        ):
            last = None
        if last is None:
            return ""
        return f"{error_first(f'executor {last.number} on {last.vm_name} ended: {last.message}')}; "

    def stop_driver(self, job: JobRecord) -> None:
        """End its driver on the host, if there is one."""
        if job.started_at is not None and job.job.driver_here:
            self._turn.command(cmd.KillDriver, job.job.id)

    # ---- in between --------------------------------------------------------------------------------

    def start_afresh(self, job: JobRecord, reason: str) -> None:
        """Queue the job again for new executors and a new driver, after giving up the old ones."""
        job.wanted, job.capped, job.grown, job.failures = (), "", (), 0
        self.undo(job, reason)

    def undo(self, job: JobRecord, reason: str) -> None:
        """Undo the job's launch: kill its tasks, then queue it again."""
        job.aborting, job.started_at = True, None
        self._line.leave(job)
        self._roster.explain(job, reason)
        self.kill_tasks(job)
        self.requeue_when_clear(job)

    def requeue_when_clear(self, job: JobRecord) -> None:
        """Queue the job again in its old place, once nothing is left of the launch being undone."""
        if self._roster.open_tasks(job):
            return
        self._roster.replace_gone(job)
        self._retries.memory.settle(job)
        job.aborting, job.state, job.placed_at = False, "queued", None
        job.queued_again_at = self._turn.now
        self.begin(job)
        self._roster.mark(job)

    def give_way(self, job: JobRecord, why: str) -> None:
        """All of it ends for another job; then it waits again in its place, and has lost work alone."""
        self._line.leave(job)
        self._roster.explain(job, why)
        if job.job.driver_here:
            self._turn.command(cmd.YieldDriver, job.job.id)
        else:
            self.stopped(job, why)

    def stopped(self, job: JobRecord, why: str) -> None:
        """Start a job afresh after its driver was stopped for reasons beyond the job; no retry counts."""
        self._retries.note(job, why, "infrastructure")
        self.start_afresh(job, why)

    def look_for_growth(self, job: JobRecord, due: float = 0.0) -> None:
        """Check whether the job has fewer executors than it wants; it gets more from `due` on."""
        if not job.failing and self._line.grow(job, self._turn.now, due):
            self._supply.want()

    def take_up(self) -> None:
        """A daemon has started with jobs as they were kept: each goes on."""
        for job in self._roster.jobs():
            if self._line.waits_for_vms(job):
                continue
            if job.failing:
                self.stop_driver(job)
            elif job.aborting:
                self.requeue_when_clear(job)
            elif job.gives_way and job.job.driver_here:
                self._turn.command(cmd.YieldDriver, job.job.id)
            elif self._roster.missing(job) > 0:
                self._line.relaunch(job, self._turn.now)
            elif job.state == "queued" and not (job.job.begins_with or job.held):
                self.begin(job)
        for job in self._roster.jobs():
            self.look_for_growth(job)

    def say_runs(self, job: JobRecord) -> None:
        """A job that grows, runs, and waits for nothing, says on how many executors."""
        waits = job in self._line or self._line.waits_for_vms(job) or job.gives_way
        runs = job.state == "running" and self._roster.stands(job)
        if (job.job.dynamic is not None or job.grown) and runs and not waits:
            self._roster.explain(job, runs_on(job, self._roster))

    def kill_tasks(self, job: JobRecord) -> None:
        """Kill all open tasks of the job."""
        for task in self._roster.open_tasks(job):
            self._watch.kill(task)
