"""The steps of a job's life: placed, starting, running, losing executors, over; and what each leads to.

Which event means which step is in `cluster_model.py`, for what drivers tell in `drivers.py`; the records
themselves are kept in `roster.py`.
"""

from collections.abc import Mapping
from typing import Literal

from environment.growth import Grown
from environment.model import commands as cmd
from environment.model import events as ev
from environment.model import task_states, timings
from environment.model.doubts import Watch
from environment.model.growing import runs_on
from environment.model.records import ExecutorRecord, Fault, JobRecord
from environment.model.releases import Releases
from environment.model.retries import MOST_LAUNCHES, Retries, left, tried
from environment.model.roster import Roster
from environment.model.setbacks import Setbacks
from environment.model.supply import Supply
from environment.model.timings import ModelOptions
from environment.model.turn import Turn
from environment.model.waiting import WaitingLine

#: How often a job is launched afresh because its driver's host or VM failed the driver, and then fails.
FRESH_STARTS = 10


class JobLives:
    """Leads jobs through their lives.

    Invariants: a job whose launch does not stand has all its executors open or none (all or nothing); no
    driver is started twice, whether it runs on the daemon's host or on the cluster.
    """

    def __init__(
        self,
        turn: Turn,
        roster: Roster,
        line: WaitingLine,
        supply: Supply,
        watch: Watch,
        setbacks: Setbacks,
        releases: Releases,
        options: ModelOptions,
    ) -> None:
        self._turn = turn
        self._roster = roster
        self._line = line
        self._supply = supply
        self._watch = watch
        self._setbacks = setbacks
        self._releases = releases
        self._retries = Retries(turn, setbacks)
        self._options = options

    # ---- its start ---------------------------------------------------------------------------------

    def arrive(self, job: JobRecord, ends: Mapping[str, str]) -> None:
        """It is new: it waits for its turn, unless something holds it (see `releases.py`)."""
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
        self._supply.want()  # a policy may place it at once, whoever waits before it

    def wake(self) -> None:
        """Let those go whose time has come."""
        for job in self._releases.wake():
            self.enter(job)

    def begin(self, job: JobRecord) -> None:
        """It waits in its place; or it runs at once, as it needs no executors to begin with."""
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
        """What was kept for it is given back, now or since then: it waits for a placement as before."""
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
        """It waits no more: so many executors of it are about to be launched."""
        if new:
            job.state, job.placed_at = "placing", self._turn.now
            # Its executors are told now where their driver will be.
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
        self.look_for_growth(job)  # what is left asks again behind all who wait

    def task_is_there(self, task: ExecutorRecord, state: task_states.TaskState, message: str) -> None:
        """One of its tasks starts, runs, or is seen again."""
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
        self._look_whether_all_run(job)

    def _executors_of(self, job: JobRecord) -> str:
        """Its executors in words: how many there are when it was started on fewer than it asks for."""
        number, asked = len(self._roster.executors(job)), job.job.begins_with
        return "its executors" if number == asked else f"{number} of its {asked} executors"

    def _look_whether_all_run(self, job: JobRecord) -> None:
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
            self._roster.explain(job, "all its executors run again")
            self.look_for_growth(job)
        elif job.job.dynamic is not None or job.grown:
            self.say_runs(job)

    # ---- its end -----------------------------------------------------------------------------------

    def end(self, job: JobRecord, state: Literal["finished", "failed", "killed"], reason: str) -> None:
        """It is over; what runs of it is killed, but for a driver on the host (see `stop_driver`).

        Jobs that come after it go, or fail, at once.
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
        self._roster.explain(job, reason)
        self._roster.over(job, self._turn.now)
        self._kill_tasks(job)

    def driver_failed(
        self, job: JobRecord, exit_code: int | None, why: str, fault: Fault = "user", *, again: bool = True
    ) -> None:
        """Its driver has failed: the job has, too, unless it has retries left and is started `again`."""
        job.failing = ""
        self._retries.note(job, why, fault)
        if again and (said := self._retries.again(job, fault)):
            self.start_afresh(job, f"{why}; {said}")
            return
        job.exit_code = exit_code
        self.end(job, "failed", why + tried(job))

    def interrupted(self, job: JobRecord, why: str) -> None:
        """Somebody stops it who needs its place: it is started afresh, and that counts for nothing."""
        self._retries.note(job, why, "infrastructure")
        self.start_afresh(job, why)

    def stop_driver(self, job: JobRecord) -> None:
        """End its driver on the host, if there is one."""
        if job.started_at is not None and job.job.driver_here:
            self._turn.command(cmd.KillDriver, job.job.id)

    def end_overdue(self) -> None:
        """End the jobs that have run for longer than their users allow."""
        for job in self._roster.limited():
            limit, began = job.job.max_runtime, self._roster.began(job)
            if limit is None or job.ended or began is None:
                continue
            if self._turn.now - began > limit:
                self.stop_driver(job)
                self.end(job, "failed", f"it ran for longer than its max_runtime, {limit:g} s")

    # ---- in between --------------------------------------------------------------------------------

    def start_afresh(self, job: JobRecord, reason: str) -> None:
        """Its driver is out of reach and given up: it waits again, for new executors and a new driver."""
        job.aborting, job.started_at = True, None
        job.wanted, job.capped, job.grown, job.failures = (), "", (), 0
        self._line.leave(job)
        self._roster.explain(job, reason)
        self._kill_tasks(job)
        self.requeue_when_clear(job)

    def requeue_when_clear(self, job: JobRecord) -> None:
        """Its launch is being undone: once nothing of it is left, it waits again in its old place."""
        if self._roster.open_tasks(job):
            return
        self._roster.replace_gone(job)
        job.aborting, job.state, job.placed_at = False, "queued", None
        self.begin(job)
        self._roster.mark(job)

    def left(self, job: JobRecord, executors: list[ExecutorRecord], why: str) -> None:
        """These executors are to go: others are placed at once, so that there is somewhere for blocks to go.

        Spark gives up to move the blocks of an only executor.
        """
        if job.job.dynamic is None:
            names = ", ".join(f"{_name(task)} on {task.vm_name}" for task in executors)
            self._lost(job, f"is to do without {names} ({why}), and gets as many others")
            return
        for task in executors:
            task.replaced = True  # how many it wants is known without it
        self.look_for_growth(job)

    def gave(self, job: JobRecord, executors: list[ExecutorRecord], due: float) -> None:
        """It gives these executors to another job, and goes on without; from then on it may have others."""
        before = len([task for task in self._roster.executors(job) if not task.gone]) + len(executors)
        for task in executors:
            task.replaced = True
        if job.job.dynamic is None:
            job.grown = (*job.grown, Grown(self._turn.now, before, before - len(executors)))
        self.look_for_growth(job, due)
        self._roster.explain(job, runs_on(job, self._roster))

    def give_way(self, job: JobRecord, why: str) -> None:
        """All of it ends for another job; then it waits again in its place, and has lost work alone."""
        self._line.leave(job)
        self._roster.explain(job, why)
        if job.job.driver_here:
            self._turn.command(cmd.YieldDriver, job.job.id)
        else:
            self.start_afresh(job, why)

    def look_for_growth(self, job: JobRecord, due: float = 0.0) -> None:
        """See whether it has fewer executors than it wants; it gets more from that time on."""
        if not job.failing and self._line.grow(job, self._turn.now, due):
            self._supply.want()

    def take_up(self) -> None:
        """A daemon has started with jobs as they were kept: each goes on."""
        for job in self._roster.jobs():
            if self._line.waits_for_vms(job):
                continue
            if job.failing:
                self.stop_driver(job)
            elif self._roster.missing(job) > 0:
                self._line.relaunch(job, self._turn.now)
            elif job.aborting:
                self.requeue_when_clear(job)
            elif job.gives_way and job.job.driver_here:
                self._turn.command(cmd.YieldDriver, job.job.id)
            elif job.state == "queued" and not (job.job.begins_with or job.held):
                self.begin(job)
        for job in self._roster.jobs():
            self.look_for_growth(job)

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
            return "given back by its driver"
        return "ended because its job's launch was undone" if job.aborting else ""

    def task_ended(self, task: ExecutorRecord, end: ev.TaskChanged, *, never_ran: bool) -> None:
        """One of its tasks is over, as its record says already; `never_ran` when that is certain."""
        self._setbacks.ended(task)
        job, state = self._roster.job_of(task), end.state
        if job.ended:
            return
        if task.number is None and not never_ran and not (job.aborting and state != "finished"):
            self._cluster_driver_ended(job, task, end)
        elif job.aborting:
            self.requeue_when_clear(job)
        elif job.failing:
            return  # it goes on when its driver has ended
        elif task.released:
            self._given_up(job, task)
        elif task.number is None or not self._roster.stands(job):
            self._undo_launch(job, task, end)
        elif task.decommissioned_at is not None and job.job.dynamic is None:
            self._look_whether_all_run(job)  # another has its place, or waits for one
        elif task.decommissioned_at is not None:
            self._given_up(job, task)
        elif state == "finished":
            self._given_up(job, task)  # its driver told it to stop
        else:
            self._executor_lost(job, task, end)

    def _given_up(self, job: JobRecord, task: ExecutorRecord) -> None:
        """It has ended as it should; if its driver wants as many as before, another takes its place."""
        task.replaced = True
        # An executor that ends may be the first sign that its driver is ending.
        self.look_for_growth(job, self._turn.now + timings.RELAUNCH_GRACE)
        self._look_whether_all_run(job)
        self.say_runs(job)

    def say_runs(self, job: JobRecord) -> None:
        """A job that grows, runs, and waits for nothing, says on how many executors."""
        waits = job in self._line or self._line.waits_for_vms(job) or job.gives_way
        if (job.job.dynamic is not None or job.grown) and self._roster.stands(job) and not waits:
            self._roster.explain(job, runs_on(job, self._roster))

    def _cluster_driver_ended(self, job: JobRecord, task: ExecutorRecord, end: ev.TaskChanged) -> None:
        if end.state == "finished":
            job.exit_code = 0
            self.end(job, "finished", "its driver exited with code 0")
            return
        if end.state == "failed" and end.exit_code == task_states.PORT_TAKEN:
            # Each that failed for another reason was a retry, or would have been the job's end.
            drivers = (other for other in self._roster.tasks(job.job.id) if other.number is None)
            count = sum(driver.state == "failed" for driver in drivers) - job.retried
            why = f"a port of its driver on {task.vm_name} was taken by another process"
            if count <= FRESH_STARTS:
                self._setbacks.never_ran(task, why, blamed=True)
                self.start_afresh(job, f"{why}; fresh start {count} of {FRESH_STARTS}")
                return
        fault: Fault = "infrastructure" if end.state in task_states.BY_CLUSTER else "user"
        self.driver_failed(job, end.exit_code, f"its driver on {task.vm_name} ended: {task.message}", fault)

    def _undo_launch(self, job: JobRecord, task: ExecutorRecord, end: ev.TaskChanged) -> None:
        """All or none: one task could not be started, so the others go too and the job waits again."""
        if self._too_many_failures(job, task, end.state):
            return
        follows = self._set_back(task, end)
        if self._setbacks.launches(job.job.id) >= MOST_LAUNCHES:
            why = f"{MOST_LAUNCHES} launches of it in a row came to nothing; the last: {task.message}"
            self._retries.note(job, why, "infrastructure")
            self.end(job, "failed", why)
            return
        job.aborting, job.started_at = True, None
        self._line.leave(job)
        why = f"{_name(task)} could not be started on {task.vm_name}: {task.message}"
        self._roster.explain(job, f"{why}; {follows}")
        self._kill_tasks(job)
        self.requeue_when_clear(job)

    def _executor_lost(self, job: JobRecord, task: ExecutorRecord, end: ev.TaskChanged) -> None:
        if self._too_many_failures(job, task, end.state):
            return
        again = "it is placed again" if task.running_at is not None else self._set_back(task, end)
        due = max(self._turn.now + self._pause(job, end.state), self._setbacks.due(job.job.id))
        why = f"{_name(task)} on {task.vm_name} was lost ({task.message}); {again}"
        if job.job.dynamic is None:
            self._lost(job, why, due)
            return
        task.replaced = True  # how many it wants is known without it
        self.look_for_growth(job, due)
        self._roster.explain(job, why)

    def _lost(self, job: JobRecord, why: str, due: float = 0.0) -> None:
        """It is short of an executor, which is placed again from that time on."""
        job.state = "relaunching"
        self._line.relaunch(job, due)
        self._roster.explain(job, why)

    def _set_back(self, task: ExecutorRecord, end: ev.TaskChanged) -> str:
        """Its launch came to nothing: what is said of how it goes on."""
        blamed = end.state == "dropped" and end.reason not in task_states.NOT_THE_VM
        return self._setbacks.never_ran(task, task.message, blamed=blamed)

    def _pause(self, job: JobRecord, state: task_states.TaskState) -> float:
        """How long to wait before an executor is placed again: what fails by itself may well fail again."""
        grace = timings.RELAUNCH_GRACE
        if state in task_states.BY_CLUSTER or not job.failures:
            return grace
        return min(grace * 2.0 ** min(job.failures - 1, 30), max(grace, timings.RELAUNCH_LONGEST))

    def _too_many_failures(self, job: JobRecord, task: ExecutorRecord, state: task_states.TaskState) -> bool:
        if state != "dropped":
            job.losses += 1
        if state in task_states.BY_CLUSTER:
            return False
        job.failures += 1
        # Spark's own rule for spark.executor.maxNumFailures.
        if job.failures <= max(2 * job.job.executors, 3):
            return False
        self._failed_by_losses(job, f"lost {job.failures} executors; the last, {_name(task)}: {task.message}")
        return True

    def _failed_by_losses(self, job: JobRecord, why: str) -> None:
        """Its executors end by themselves again and again: whoever wrote them is to blame."""
        self.stop_driver(job)
        if not (job.started_at is not None and job.job.driver_here and left(job, "user")):
            self.driver_failed(job, None, why, again=not (job.job.driver_here or job.job.client_driver))
            return
        job.failing = why
        self._line.leave(job)
        self._roster.explain(job, f"{why}; its driver is told to end")
        self._kill_tasks(job)

    def _kill_tasks(self, job: JobRecord) -> None:
        for task in self._roster.open_tasks(job):
            self._watch.kill(task)


def _name(task: ExecutorRecord) -> str:
    return "the driver" if task.number is None else f"executor {task.number}"
