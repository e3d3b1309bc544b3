"""Launches that never ran: the pauses of their jobs, and VMs that are left out for a while.

A job with a failed launch is placed again at once the first time, then after pauses that double. It avoids
the VM that did not start it for a while, so that another is tried first. A VM on which launch after launch
never ran is left out for every job, for times that double. Then a single job tries it; its success or
failure decides. `model/tasks/task_loss.py` defines the effect on a job's state.

A job whose VMs would cost too much together avoids some of them for a while, too, so that its policy finds a
cheaper placement, or the jobs behind it go on.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field

from conf.util.counted import counted
from environment.model.messages import options
from environment.model.messages.event_context import EventContext
from environment.model.messages.records import ExecutorRecord
from environment.model.messages.snapshot import JobSetback, VmSetback
from environment.number_format import clock

#: Longest message of an agent quoted in a reason.
_LONGEST_MESSAGE = 200


@dataclass(slots=True)
class _Job:
    """A job's launches in a row that came to nothing, when the next is due, and until when it avoids VMs."""

    launches: int = 0
    due: float = 0.0
    #: When the last of the launches was decided, so that each counts once however many tasks it had.
    last: float = -1.0
    avoided: dict[str, float] = field(default_factory=dict)
    #: Until when it avoids VMs that would cost too much together, and how often it had to.
    frugal_until: float = 0.0
    frugal: int = 0


@dataclass(slots=True)
class _Vm:
    """A VM's launches in a row that never ran; how often it was left out for them, and until when."""

    name: str
    launches: int = 0
    last: float = -1.0
    left_out: int = 0
    until: float = 0.0
    message: str = ""
    #: The job that tries it after it was left out.
    trying: str = ""


class LaunchBackoff:
    """Backoff state of launches that never ran, by job and by VM.

    Invariants: it contains no job that has ended, and no VM that has run a task since.
    """

    def __init__(self, turn: EventContext, dear: Callable[[int], Mapping[str, str]] = lambda _: {}) -> None:
        """`dear` are the VMs without which all others may be opened together, and why; see `Places.dear`."""
        self._turn, self._dear = turn, dear
        self._jobs: dict[str, _Job] = {}
        self._vms: dict[str, _Vm] = {}
        #: When the last launch was made of which a VM is known to have started something.
        self._started: dict[str, float] = {}
        #: Time up to which due pauses were looked for.
        self._woken_at = 0.0

    def __bool__(self) -> bool:
        return bool(self._jobs or self._vms)

    def state(self) -> tuple[tuple[JobSetback, ...], tuple[VmSetback, ...], tuple[tuple[str, float], ...]]:
        """All that is known."""
        jobs = (
            JobSetback(
                i, job.launches, job.due, job.last, tuple(job.avoided.items()), job.frugal_until, job.frugal
            )
            for i, job in self._jobs.items()
        )
        vms = (
            VmSetback(i, vm.name, vm.launches, vm.last, vm.left_out, vm.until, vm.message, vm.trying)
            for i, vm in self._vms.items()
        )
        return tuple(jobs), tuple(vms), tuple(self._started.items())

    def resume(
        self, jobs: Iterable[JobSetback], vms: Iterable[VmSetback], started: Iterable[tuple[str, float]]
    ) -> None:
        """Restore the state."""
        self._started = dict(started)
        self._jobs = {
            job.job_id: _Job(job.launches, job.due, job.last, dict(job.avoided), job.frugal_until, job.frugal)
            for job in jobs
        }
        self._vms = {
            vm.vm_id: _Vm(vm.name, vm.launches, vm.last, vm.left_out, vm.until, vm.message, vm.trying)
            for vm in vms
        }
        self._woken_at = self._turn.now

    # ---- events ------------------------------------------------------------------------------------

    def never_ran(self, task: ExecutorRecord, message: str, *, blamed: bool) -> str:
        """Record a launch that never ran; `blamed` means that the VM did not start it.

        Return a message: the number of such launches of the job in a row, and the time of the next try.
        """
        now = self._turn.now
        job = self._jobs.setdefault(task.job_id, _Job())
        if job.last != task.launched_at:
            job.launches, job.last = job.launches + 1, task.launched_at
        pause = options.RETRY.after(job.launches - 1) if job.launches > 1 else 0.0
        job.due = max(job.due, now + pause)
        if blamed:
            job.avoided[task.vm_id] = now + max(2 * pause, 2 * options.RETRY.first)
            self._blame(task, message)
        if not pause:
            return "it is placed again"
        tried = f"{counted(job.launches, 'launch', 'launches')} of it in a row came to nothing"
        return f"{tried}, so the next is made after a pause of {pause:g} s"

    def pause(self, job_id: str, seconds: float) -> None:
        """A job is to be tried again, but not before so many seconds."""
        job = self._jobs.setdefault(job_id, _Job())
        job.due = max(job.due, self._turn.now + seconds)

    def too_dear(self, job_id: str) -> None:
        """The VMs on which a job was placed would have cost too much together."""
        job = self._jobs.setdefault(job_id, _Job())
        job.frugal_until, job.frugal = self._turn.now + options.TOO_DEAR, job.frugal + 1

    def launches(self, job_id: str) -> int:
        """How many launches of the job in a row have come to nothing."""
        return self._jobs[job_id].launches if job_id in self._jobs else 0

    def _blame(self, task: ExecutorRecord, message: str) -> None:
        now = self._turn.now
        if task.launched_at <= self._started.get(task.vm_id, -1.0):
            return  # it did start that launch, or a later one
        vm = self._vms.setdefault(task.vm_id, _Vm(task.vm_name))
        if vm.last != task.launched_at:
            vm.launches, vm.last = vm.launches + 1, task.launched_at
        vm.message, vm.trying = message[:_LONGEST_MESSAGE], ""
        if vm.launches >= options.LEAVE_OUT_AFTER and vm.until <= now:
            vm.until = now + options.LEAVE_OUT.after(vm.left_out + 1)
            vm.left_out += 1

    def seen(self, task: ExecutorRecord) -> None:
        """Record that a task started: its VM starts the tasks that are launched there."""
        self._started[task.vm_id] = max(self._started.get(task.vm_id, -1.0), task.launched_at)
        vm = self._vms.get(task.vm_id)
        if vm is not None and task.launched_at >= vm.last:
            del self._vms[task.vm_id]

    def ended(self, task: ExecutorRecord) -> None:
        """Record the end of a task: if it was to try its VM and the result is unknown, another may try."""
        vm = self._vms.get(task.vm_id)
        if vm is not None and vm.trying == task.job_id:
            vm.trying = ""

    def launched(self, vm_id: str, job_id: str) -> None:
        """A job is launched on the VM."""
        vm = self._vms.get(vm_id)
        if vm is not None and vm.left_out:
            vm.trying = job_id

    def forget(self, job_id: str) -> None:
        """The job runs, or is over."""
        self._jobs.pop(job_id, None)

    def forget_vm(self, vm_id: str) -> None:
        """The VM will never be there again."""
        self._vms.pop(vm_id, None)
        self._started.pop(vm_id, None)

    def wake(self) -> float | None:
        """When the last pause ended that could change a decision, of those that this did not tell yet.

        It is that time and not the present one, so that a log may leave ticks out.
        """
        since, self._woken_at = self._woken_at, self._turn.now
        ends = [vm.until for vm in self._vms.values()]
        for job in self._jobs.values():
            ends += (job.due, job.frugal_until, *job.avoided.values())
        return max((end for end in ends if since < end <= self._turn.now), default=None)

    # ---- consequences ------------------------------------------------------------------------------

    def due(self, job_id: str) -> float:
        """When the job may be placed (again), seconds."""
        job = self._jobs.get(job_id)
        return job.due if job else 0.0

    def paused(self) -> Mapping[str, float]:
        """The jobs that are to be placed later, and when, seconds."""
        return {job_id: job.due for job_id, job in self._jobs.items() if job.due > self._turn.now}

    def jobs(self) -> Collection[str]:
        """Ids of the jobs in backoff."""
        return self._jobs.keys()

    def avoided(self, job_id: str) -> tuple[str, ...]:
        """The VMs, by id, that are no place for the job now: its launch never ran there, or they are dear."""
        if (job := self._jobs.get(job_id)) is None:
            return ()
        avoided = tuple(vm_id for vm_id, until in job.avoided.items() if until > self._turn.now)
        return (*avoided, *self._dear(job.frugal - 1)) if job.frugal_until > self._turn.now else avoided

    def why_dear(self, job_id: str) -> str:
        """Why a job avoids VMs that would cost too much; empty when it does not."""
        job = self._jobs.get(job_id)
        if job is None or job.frugal_until <= self._turn.now:
            return ""
        return next((f"; a VM {why}" for why in self._dear(job.frugal - 1).values()), "")

    def left_out(self) -> Mapping[str, str]:
        """VMs, by id, that no job may use now, and why: `is left out until ...`."""
        return {vm_id: why for vm_id in self._vms if (why := self.why_not(vm_id))}

    def why_not(self, vm_id: str, job_id: str = "") -> str:
        """Why a VM is no place for a job; empty when it is."""
        vm = self._vms.get(vm_id)
        if vm is None:
            return ""
        never = f"its last {counted(vm.launches, 'launch', 'launches')} never ran: {vm.message}"
        if vm.until > self._turn.now:
            return f"is left out until {clock(vm.until)}, {never}"
        if vm.trying not in ("", job_id):
            return f"is left out while {vm.trying} tries it, {never}"
        return ""
