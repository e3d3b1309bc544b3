"""Limit of JVMs on the machine under an embedded cluster, and the jobs that still have room below it.

Jobs are let in one after the other while there is room for all executors of each and its driver. A job that
was let in is never held up.
"""

from collections import Counter
from collections.abc import Iterable, Iterator

from conf.util.counted import counted
from environment.decisions.jvm_limit import carried, needs
from environment.model.messages.records import JobRecord
from environment.model.messages.snapshot import ReservedJob
from environment.model.vms.job_registry import JobRegistry
from environment.model.vms.reservations import Reservations
from environment.types import PlacementRequest


class JvmRoom:
    """Lets jobs in, while there is room; `jvms` None: always."""

    def __init__(self, roster: JobRegistry, reservations: Reservations, jvms: int | None) -> None:
        self._roster = roster
        self._reservations = reservations
        self._jvms = jvms

    @property
    def bounded(self) -> bool:
        """Whether there is a limit at all."""
        return self._jvms is not None

    def let_in(self, new: Iterable[PlacementRequest], more: int = 0) -> Iterator[PlacementRequest]:
        """The longest prefix of these jobs that has room together (`environment.decisions.jvm_limit`).

        So many `more` are taken than is known here.
        """
        yield from carried(new, self._jvms, self._by_user() if self._jvms is not None else {}, more)

    def why_not(self, request: PlacementRequest, let_in: Iterable[PlacementRequest]) -> str:
        """Why a job is not let in after these were."""
        taken = self._by_user().total() + sum(map(needs, let_in))
        fewest = needs(request.first(request.fewest))
        wants = "one for each" if request.grows else f"{fewest} with its driver"
        return (
            f"this machine carries {counted(self._jvms or 0, 'JVM')} at once (mesos.jvms): the "
            f"jobs before it take {taken}, "
            f"and it needs {wants}"
        )

    def _by_user(self) -> Counter[str]:
        found = Counter[str]()
        for job in self._roster.with_tasks():
            found[job.job.owner] += self._held(job)
        for reserved in self._reservations:
            if (of := self._roster.job(reserved.job_id)) is not None:
                found[of.job.owner] += self._kept(of, reserved)
        return found

    def _kept(self, job: JobRecord, reserved: ReservedJob) -> int:
        """Count the JVMs that a job gets once its VMs are up, beside those that `_held` counts."""
        return 0 if job.state == "relaunching" else len(reserved.vm_ids) + (job.state == "queued")

    def _held(self, job: JobRecord) -> int:
        """Count a job's present and lost JVMs; a driver on the host counts until the job has ended."""
        tasks = self._roster.open_tasks(job)
        if job.ended or job.state == "queued":
            return len(tasks)
        executors = sum(task.number is not None for task in tasks) + self._roster.missing(job)
        return executors + 1
