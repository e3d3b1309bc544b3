"""What a submission passes before it is a job: it can be launched, fits, finds room in the queue, is kept."""

from collections.abc import Callable, Mapping

from conf.schema import JobSpec
from daemon.contract import RejectedError
from daemon.launcher import Launcher
from daemon.store import IdempotencyConflictError, Store, StoreError
from environment.check import whole_cluster_shortfall
from environment.records import JobRecord
from environment.types import Job, Vm
from profiles.profile import JobProfile

#: After how many seconds a submission to a full queue may be tried again.
_PAUSE = "30"


class Intake:
    """Accepts jobs; `submit` may be called from any thread, `note` is for the scheduling loop."""

    def __init__(
        self,
        store: Store,
        launcher: Launcher,
        profiles: Mapping[str, JobProfile],
        arrive: Callable[[float, Job], None],
        most: int,
        now: Callable[[], float],
    ) -> None:
        """`arrive` takes the jobs that were accepted, with their time; `most` may wait at once."""
        self._now = now
        self._store = store
        self._launcher = launcher
        #: What is known of job types.
        self._profiles = profiles
        self._arrive = arrive
        self._most = most
        #: Jobs that wait for a placement, as of the last event.
        self._queued = 0
        #: Those that were accepted and are not among them yet.
        self._arriving: set[str] = set()
        self._vms: tuple[Vm, ...] = ()

    def note(self, queued: int, vms: tuple[Vm, ...], arrived: set[str]) -> None:
        """So many jobs wait now, these VMs are there, and these jobs are among those that wait."""
        self._queued, self._vms = queued, vms
        self._arriving -= arrived

    def submit(self, spec: JobSpec, idempotency_key: str | None) -> tuple[JobRecord, bool]:
        """Accept a job; see `Scheduler.submit`."""
        self._check(spec)
        if self._queued + len(self._arriving) >= self._most:
            detail = f"{self._most} jobs are queued already (max_queued_jobs)"
            raise RejectedError(429, "The queue is full", detail, {"Retry-After": _PAUSE})
        at = self._now()
        try:
            record, new = self._store.submit(
                spec, lambda job_id: self._job(job_id, spec, at), idempotency_key, at
            )
        except IdempotencyConflictError as error:
            raise RejectedError(409, "Idempotency key used before", str(error)) from error
        except StoreError as error:
            raise RejectedError(503, "The job store is not available", str(error)) from error
        if new:
            self._arriving.add(record.job.id)
            self._arrive(at, record.job)
        return record, new

    def _job(self, job_id: str, spec: JobSpec, at: float) -> Job:
        profile = self._profiles.get(spec.type)
        return Job(
            id=job_id,
            type=spec.type,
            cpus=spec.cpus,
            memory_mib=spec.memory,
            executors=spec.executors,
            min_executors=spec.min_executors,
            submitted_at=at,
            name=spec.label,
            driver=self._launcher.driver_size(spec),
            max_runtime=spec.max_runtime,
            expected_duration=profile.duration(spec.cpus, spec.memory, spec.executors) if profile else None,
            prefers=profile.prefers if profile else None,
            resources=spec.resources,
        )

    def _check(self, spec: JobSpec) -> None:
        try:
            self._launcher.check(spec)
        except ValueError as error:
            raise RejectedError(422, "The job cannot be launched", str(error)) from error
        shortfall = whole_cluster_shortfall(self._vms, spec.cpus, spec.memory, spec.executors, spec.resources)
        driver = self._launcher.driver_size(spec)
        if shortfall is None and driver is not None:
            shortfall = whole_cluster_shortfall(self._vms, driver.cpus, driver.memory_mib, 1)
        if shortfall is not None:
            raise RejectedError(422, "The job fits no cluster of this size", shortfall)
