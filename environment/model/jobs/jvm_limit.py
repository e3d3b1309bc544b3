"""Limit of JVMs on the machine under an embedded cluster, and the jobs that still have room below it.

Jobs are let in one after the other while there is room for all executors of each and its driver. A job that
was let in is never held up.
"""

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
        yield from carried(new, self._jvms, self._taken() + more if self._jvms is not None else 0)

    def why_not(self, request: PlacementRequest, let_in: Iterable[PlacementRequest]) -> str:
        """Why a job is not let in after these were."""
        taken = self._taken() + sum(map(needs, let_in))
        fewest = needs(request.first(request.fewest))
        wants = "one for each" if request.grows else f"{fewest} with its driver"
        return (
            f"this machine carries {counted(self._jvms or 0, 'JVM')} at once (mesos.jvms): the "
            f"jobs before it take {taken}, "
            f"and it needs {wants}"
        )

    def _taken(self) -> int:
        return sum(map(self._held, self._roster.with_tasks())) + sum(map(self._kept, self._reservations))

    def _kept(self, reserved: ReservedJob) -> int:
        """Count the JVMs that a job gets once its VMs are up, beside those that `_held` counts."""
        job = self._roster.job(reserved.job_id)
        if job is None or job.state == "relaunching":
            return 0
        return len(reserved.vm_ids) + (job.state == "queued")

    def _held(self, job: JobRecord) -> int:
        """Count a job's present and lost JVMs; a driver on the host counts until the job has ended."""
        tasks = self._roster.open_tasks(job)
        if job.ended or job.state == "queued":
            return len(tasks)
        executors = sum(task.number is not None for task in tasks) + self._roster.missing(job)
        return executors + 1
