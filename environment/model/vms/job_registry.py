"""Records of jobs and their tasks: the present ones, changes, and records to forget.

`cluster_model.py` defines the events of a job, `waiting_queue.py` has the waiting jobs, and
`usage_ledger.py` the cost of VMs.
"""

from collections.abc import Iterable, Iterator, Mapping
from copy import copy
from dataclasses import dataclass, field
from math import inf

from environment.kernel.expected_end import expected_end
from environment.model.messages.lease import Lease
from environment.model.messages.records import ExecutorRecord, JobRecord
from environment.model.messages.snapshot import PoolSetback, ReservedJob
from environment.model.messages.states import ExecutorState
from environment.model.messages.vm_accounts import Account, Charge
from environment.resources import BASIC, Resources
from environment.scale_up import expected_of
from environment.types import EndedJob
from environment.view import RunningJob

#: Ended executors that a dynamic job has in memory beside the others. A driver may ask for executors and give
#: them back without end, and each event looks through the tasks of its job.
MOST_SETTLED = 200


@dataclass(frozen=True, slots=True)
class Changes:
    """Copies of everything changed since the last call, new charges, and jobs that ran and ended.

    Reservations of jobs, and pools that are left alone, are by id; None marks one that is over.
    """

    jobs: tuple[JobRecord, ...]
    executors: tuple[ExecutorRecord, ...]
    ended: tuple[EndedJob, ...] = ()
    leases: tuple[Lease, ...] = ()
    charges: tuple[Charge, ...] = ()
    accounts: tuple[Account, ...] = ()
    reserved: Mapping[str, ReservedJob | None] = field(default_factory=dict)
    setbacks: Mapping[str, PoolSetback | None] = field(default_factory=dict)

    def __bool__(self) -> bool:
        """Whether there is anything to be kept."""
        vms = self.leases or self.charges or self.accounts or self.reserved or self.setbacks
        return bool(self.jobs or self.executors or vms)


class JobRegistry:
    """Jobs in the order of their submission, each with its tasks.

    Invariants: a job is here until it is over, has no open task, and was handed out as such; so are its
    tasks, ended or not, but for executors that its driver gave back or lost, of which the last `MOST_SETTLED`
    are here. Every record that changed since `take_changes` is marked.
    """

    def __init__(self) -> None:
        self._jobs: dict[str, JobRecord] = {}
        #: Their order of addition.
        self._numbers: dict[str, int] = {}
        self._added = 0
        self._tasks: dict[str, ExecutorRecord] = {}
        self._tasks_of: dict[str, dict[str, ExecutorRecord]] = {}
        #: The jobs that ever had a task; most that wait never had.
        self._with_tasks: dict[str, None] = {}
        #: The jobs with a limit of their user on time or cost: few of many.
        self._limited: dict[str, None] = {}
        #: Ended executors of each dynamic job that are of no more consequence, in the order of their ends.
        self._settled: dict[str, dict[str, None]] = {}
        #: When the first of those ran that are not here any more, by job.
        self._first_ran: dict[str, float] = {}
        self._changed_jobs: dict[str, None] = {}
        self._changed_tasks: dict[str, None] = {}
        self._ended: list[EndedJob] = []
        #: Resources that jobs here used so far beside cpus and memory, by name.
        self.resources: set[str] = set()

    # ---- queries -----------------------------------------------------------------------------------

    def add(self, job: JobRecord) -> None:
        """Add a job without marking it."""
        self._jobs[job.job.id] = job
        self._added += 1
        self._numbers[job.job.id] = self._added
        self.resources.update(job.job.size.without(BASIC))
        self._tasks_of[job.job.id] = {}
        if job.job.max_runtime is not None or job.job.max_cost is not None:
            self._limited[job.job.id] = None

    def add_task(self, task: ExecutorRecord) -> None:
        """Add a task of a job without marking it."""
        self._tasks[task.task_id] = task
        self._tasks_of.setdefault(task.job_id, {})[task.task_id] = task
        self._with_tasks[task.job_id] = None
        self._settle(task)

    def job(self, job_id: str) -> JobRecord | None:
        """A job that is here."""
        return self._jobs.get(job_id)

    def job_of(self, task: ExecutorRecord) -> JobRecord:
        """The job of a task that is here."""
        return self._jobs[task.job_id]

    def number(self, job_id: str) -> int:
        """The place of a job that is here in the order of submission: larger of those that came later."""
        return self._numbers[job_id]

    def jobs(self) -> Iterable[JobRecord]:
        """All jobs, in the order of their submission."""
        return self._jobs.values()

    def by_entry(self) -> list[JobRecord]:
        """The same in the order in which they first waited for their turn."""
        found, last = [], -inf
        for job in self._jobs.values():
            if job.released_at is None:  # clocks of daemons may differ
                last = max(last, job.entered_at)
            found.append((last if job.released_at is None else job.entered_at, job))
        return [job for _, job in sorted(found, key=lambda entry: entry[0])]

    def limited(self) -> list[JobRecord]:
        """Jobs with a `max_runtime` or `max_cost`, in the same order."""
        return [self._jobs[job_id] for job_id in self._limited]

    def begun(self, job: JobRecord) -> None:
        """The job runs, without any task so far."""
        self._with_tasks[job.job.id] = None

    def with_tasks(self) -> Iterator[JobRecord]:
        """The jobs that have tasks, ended or not, or run without."""
        return (self._jobs[job_id] for job_id in self._with_tasks if job_id in self._jobs)

    def task(self, task_id: str) -> ExecutorRecord | None:
        """A task that is here."""
        return self._tasks.get(task_id)

    def tasks(self, job_id: str) -> tuple[ExecutorRecord, ...]:
        """The tasks of a job, ended or not."""
        return tuple(self._tasks_of.get(job_id, {}).values())

    def all_open(self) -> list[ExecutorRecord]:
        """The tasks of all jobs that have not ended."""
        return [task for task in self._tasks.values() if not task.ended]

    def open_tasks(self, job: JobRecord) -> list[ExecutorRecord]:
        """The job's tasks that have not ended."""
        return [task for task in self._tasks_of.get(job.job.id, {}).values() if not task.ended]

    def executors(self, job: JobRecord) -> list[ExecutorRecord]:
        """The job's executors that have not ended: its open tasks but for the driver."""
        return [task for task in self.open_tasks(job) if task.number is not None]

    def failed_executors(self, job: JobRecord) -> list[ExecutorRecord]:
        """The executors that failed in the job's present attempt."""
        since = job.placed_at or 0.0
        return [
            task
            for task in self._tasks_of.get(job.job.id, {}).values()
            if task.number is not None and task.state == "failed" and task.launched_at >= since
        ]

    def stands(self, job: JobRecord) -> bool:
        """Whether the job's launch is not to be undone: its driver was started, or may have been.

        A driver on the cluster is launched with the executors, and is to run once only.
        """
        if job.ended or job.aborting:
            return False
        return job.started_at is not None or (job.job.driver is not None and job.placed_at is not None)

    def began(self, job: JobRecord) -> float | None:
        """Since when it runs, as its user sees it: its driver's first start, not the last retry."""
        if not (job.retried or job.more_memory):
            return job.started_at
        ran = [task.running_at for task in self.tasks(job.job.id) if task.running_at is not None]
        if (first := self._first_ran.get(job.job.id)) is not None:
            ran.append(first)
        return min(ran, default=job.started_at)

    def missing(self, job: JobRecord) -> int:
        """Count executors, gone or to go, of a job with a standing launch, that are not placed again."""
        return len(self.lost_sizes(job))

    def lost_sizes(self, job: JobRecord) -> tuple[Resources, ...]:
        """Sizes of the missing executors."""
        if not self.stands(job):
            return ()
        tasks = (task for task in self.tasks(job.job.id) if task.number is not None)
        return tuple(task.resources for task in tasks if task.gone and not task.replaced)

    def running(self) -> Iterator[RunningJob]:
        """The jobs that run, as a policy sees them, in the order in which they were placed.

        Of one that has lost all its executors none is shown, until they are placed again.
        """
        starts = ((job, job.started_at or job.placed_at) for job in self.with_tasks())
        placed = [(job, at) for job, at in starts if at is not None]
        for job, since in sorted(placed, key=lambda start: start[1]):
            tasks = self.open_tasks(job)
            if tasks or self.missing(job):
                tasks.sort(key=lambda task: task.number is None)  # the driver comes last
                sizes = tuple(task.resources for task in tasks if task.number is not None)
                expected = self._expected(job)
                sizes = () if sizes == job.job.asked else sizes
                on = tuple(task.vm_id for task in tasks)
                yield RunningJob(job.job, on, since, expected, sizes, job.grown)

    def _expected(self, job: JobRecord) -> float | None:
        """Seconds that it is expected to take on its placement, of which lost executors are a part.

        0 when it is over, or its launch is undone: its executors have been told to end.
        """
        if job.ended or job.aborting:
            return 0.0
        tasks = [task for task in self.tasks(job.job.id) if task.number is not None]
        placed = [task for task in tasks if not (task.gone and task.replaced)]
        sizes, since = tuple(task.resources for task in placed), job.started_at or job.placed_at or 0.0
        return expected_of(job.job, sizes, [task.vm_id for task in placed], since, job.grown)

    def left(self, job: JobRecord, now: float) -> float | None:
        """Seconds that a running job is believed to need still; None when that is not known."""
        seconds = self._expected(job)
        if seconds is None or job.started_at is None:
            return None
        return expected_end(now, job.started_at, seconds, job.job.spread) - now

    # ---- changes -----------------------------------------------------------------------------------

    def mark(self, job: JobRecord) -> None:
        """Mark the job's record as changed."""
        self._changed_jobs[job.job.id] = None

    def mark_task(self, task: ExecutorRecord) -> None:
        """Mark the task's record as changed."""
        self._changed_tasks[task.task_id] = None

    def over(self, job: JobRecord, at: float) -> None:
        """Record the end of the job, even if executors of it still run.

        A job that grew is not used for learning: its duration belongs to no single number of executors.
        """
        if job.started_at is None or job.job.dynamic is not None or job.grown:
            return
        executors = [task for task in self.tasks(job.job.id) if task.number is not None]
        # One that has finished counts: its driver told it to stop. One that was drained has a successor.
        stopped = (task.state == "finished" and task.decommissioned_at is None for task in executors)
        had = [task for task, end in zip(executors, stopped, strict=True) if end or not task.replaced]
        vm_ids, sizes = tuple(task.vm_id for task in had), tuple(task.resources for task in had)
        finished = job.state == "finished"
        self._ended.append(EndedJob(job.job, vm_ids, sizes, job.started_at, at, finished))

    def explain(self, job: JobRecord, reason: str) -> None:
        """The job is in its state for this reason."""
        job.reason = reason
        self.mark(job)

    def move(self, task: ExecutorRecord, state: ExecutorState, message: str) -> None:
        """The task is in this state now."""
        task.state, task.message = state, message
        self.mark_task(task)

    def replace_gone(self, job: JobRecord) -> None:
        """The job's tasks that have ended, or are to, need no replacement any more."""
        for task in self._tasks_of[job.job.id].values():
            if task.gone and not task.replaced:
                task.replaced = True
                self.mark_task(task)

    def charge(self, due: Iterable[tuple[ExecutorRecord, float]]) -> None:
        """Add the costs due from the ledger to jobs, by task in dollars."""
        for task, cost in due:
            self.mark_task(task)
            if job := self._jobs.get(task.job_id):
                job.cost += cost
                self.mark(job)

    def records(self) -> tuple[tuple[JobRecord, ...], tuple[ExecutorRecord, ...]]:
        """Copies of all records: jobs in order of submission, tasks in order of launch."""
        return tuple(map(copy, self._jobs.values())), tuple(map(copy, self._tasks.values()))

    def take_changes(self) -> Changes:
        """Return copies of the marked records, and forget jobs that have ended completely."""
        changes = Changes(
            tuple(copy(self._jobs[job_id]) for job_id in self._changed_jobs if job_id in self._jobs),
            tuple(copy(self._tasks[task_id]) for task_id in self._changed_tasks if task_id in self._tasks),
            tuple(self._ended),
        )
        self._ended.clear()
        for job_id in {*self._changed_jobs, *(task.job_id for task in changes.executors)}:
            self._forget_if_done(job_id)
        for task_id in self._changed_tasks:
            if (task := self._tasks.get(task_id)) is not None:
                self._settle(task)
        self._changed_jobs.clear()
        self._changed_tasks.clear()
        return changes

    def _forget_if_done(self, job_id: str) -> None:
        job = self._jobs.get(job_id)
        if job is not None and job.ended and not self.open_tasks(job):
            del self._jobs[job_id], self._numbers[job_id]
            self._with_tasks.pop(job_id, None)
            self._limited.pop(job_id, None)
            self._settled.pop(job_id, None)
            self._first_ran.pop(job_id, None)
            for task_id in self._tasks_of.pop(job_id, {}):
                del self._tasks[task_id]

    def _settle(self, task: ExecutorRecord) -> None:
        """Forget the first ended executors of a job with a driver that gives back one after the other."""
        job = self._jobs.get(task.job_id)
        if job is None or job.job.dynamic is None or task.number is None:
            return
        if not (task.ended and task.replaced):
            return
        settled = self._settled.setdefault(task.job_id, {})
        settled[task.task_id] = None
        while len(settled) > MOST_SETTLED:
            task_id = next(iter(settled))
            del settled[task_id]
            del self._tasks_of[task.job_id][task_id]
            ran = self._tasks.pop(task_id).running_at
            if ran is not None:
                self._first_ran[task.job_id] = min(ran, self._first_ran.get(task.job_id, ran))
