"""The scheduler's interface for the HTTP API.

`scheduler/service.py` implements it, `leader_or_standby.py` finds the one that leads, and
`leadership/standby.py` answers where none does on this host.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from daemon.core.cluster_status import ClusterStatus
from daemon.core.status import BudgetStatus, Health, LogChunk, PolicyStatus, QueuePositions
from daemon.store.queries.insert_jobs import Added, Admission, SubmittedSpec
from environment.model.messages.records import ExecutorRecord, JobRecord
from framework.spark import DriverUi

if TYPE_CHECKING:
    from daemon.core.estimate import Coverage, Estimate
    from daemon.disk.uploads import Uploads
    from daemon.notifications.notification_service import NotificationService
    from daemon.queues.queue_service import QueueService
    from daemon.queues.queue_snapshot import QueueSnapshot
    from daemon.scheduler.stage_timings import Stages
    from daemon.submission.applications import Applications
    from daemon.vms.termination_endpoint import TerminationEndpoint
    from daemon.what_if.promotions import Promotions
    from daemon.what_if.what_if import JobForecast, WhatIfService
    from environment.types import Job


class LiveStatus(Protocol):
    """State that every daemon has beside the store. Only the leader's is not empty; see `Scheduler`."""

    def warnings(self, kind: str, /) -> Sequence[str]:
        """Warnings for users that submit a job of this type."""
        ...

    def charge(self) -> float:
        """Have all VMs charged for until now (or a second ago), in the store unless that takes too long.

        Returns now by the clock that bills go by, seconds since the epoch.
        """
        ...

    def budget(self) -> BudgetStatus | None:
        """Today's cost of VMs beside its limit; None without a budget."""
        ...

    def due(self) -> Mapping[str, Mapping[str, float]]:
        """Charges of running jobs beyond the costs in their records, in dollars, by job id and task id."""
        ...

    def standing(self) -> QueuePositions | None:
        """Positions of the queued jobs as of the last event; None when only the leader knows."""
        ...

    def sight(self) -> "QueueSnapshot | None":
        """Snapshot of queues and their order from a moment ago; None where there is none.

        None also where only the leader knows it.
        """
        ...

    def estimates(self) -> "Mapping[str, Estimate]":
        """Latest estimates of the start and cost of waiting jobs, by id."""
        ...

    def no_estimate(self, record: JobRecord, /) -> str:
        """Why nothing is told of when a job starts that waits; empty where something is, or it does not."""
        ...

    def health(self) -> Health:
        """Whether master, store and loop are well."""
        ...


class Scheduler(LiveStatus, Protocol):
    """The running scheduler. Every method may be called from any thread and raises `RejectedError` only."""

    def submit(self, submitted: Sequence[SubmittedSpec]) -> Iterator[Mapping[SubmittedSpec, Admission]]:
        """Accept jobs: yields the result of each, as it is known. Accepted jobs are on disk by then."""
        ...

    def trial(self, submitted: SubmittedSpec, sends: Mapping[str, int]) -> "Sequence[Job]":
        """The jobs that a submission would become now, with ids that no other job has; nothing is changed.

        RejectedError where a submission would be rejected. Files that the user `sends` before it, so many
        bytes by hash, need not be there.
        """
        ...

    def kill(self, job_id: str) -> JobRecord:
        """End a job: its record, on disk when this returns; one that has ended already is left alone."""
        ...

    def kill_all(self, job_ids: Sequence[str]) -> None:
        """End jobs: that is on disk when this returns; those that have ended already are left alone."""
        ...

    def decommission(self, job_id: str, numbers: Sequence[int], why: str) -> JobRecord:
        """Have a job's driver give executors up, once their blocks are elsewhere: its record.

        RejectedError when it cannot: only drivers that ask for executors themselves can be told.
        """
        ...

    def cluster(self) -> ClusterStatus:
        """All VMs, fixed and open ones."""
        ...

    def mended(self, drawn: "JobForecast") -> "JobForecast":
        """A waiting job's drawn forecast, corrected by the errors of earlier forecasts."""
        ...

    def coverage(self) -> "Coverage":
        """How often jobs started when it had been said."""
        ...

    def policy(self) -> PolicyStatus:
        """The acting policy."""
        ...

    def set_policy(self, name: str, options: Mapping[str, Any]) -> PolicyStatus:
        """Let another policy decide from the next decision on; kept over restarts."""
        ...

    def set_shadow(self, name: str | None, options: Mapping[str, Any]) -> PolicyStatus:
        """Let a policy decide beside the acting one, or none any more; kept over restarts."""
        ...

    def log(
        self, job: JobRecord, executor: ExecutorRecord | None, stream: str, offset: int, limit: int
    ) -> LogChunk:
        """Read the driver's log, or an executor's; `stream` is stdout or stderr."""
        ...

    def ui(self, job: JobRecord) -> DriverUi | None:
        """Where the Spark UI of a job's driver is; None while there is none."""
        ...

    def handed(self, job: JobRecord, key: str) -> tuple[Path, str] | None:
        """The file that this key opens for the job's driver, and its name; None when it opens none."""
        ...

    @property
    def uploads(self) -> "Uploads":
        """The files that clients have sent."""
        ...

    @property
    def applications(self) -> "Applications":
        """Endpoint for drivers that ask for executors themselves."""
        ...

    @property
    def vms(self) -> "TerminationEndpoint":
        """Endpoint for VMs of pools."""
        ...

    @property
    def queues(self) -> "QueueService":
        """Queues with their status and changes."""
        ...

    @property
    def foresight(self) -> "WhatIfService":
        """Forecasts of the queue."""
        ...

    @property
    def promotions(self) -> "Promotions":
        """Promotions of policies."""
        ...

    @property
    def webhooks(self) -> "NotificationService":
        """Webhooks with their delivery status."""
        ...

    @property
    def stages(self) -> "Stages":
        """How long stages took since this daemon leads."""
        ...


class Leadership(Protocol):
    """Finds the scheduler for each request, as this daemon may lead or stand by. For any thread."""

    def leader(self) -> Scheduler:
        """The scheduler on this host; ElsewhereError while another daemon leads, StoreError."""
        ...

    def live(self) -> LiveStatus:
        """That scheduler while this daemon leads, else a standby's answers."""
        ...


def submit_one(scheduler: Scheduler, each: SubmittedSpec) -> Added:
    """Submit a job and return the accepted one; raises the reason of a rejection."""
    (admission,) = (admissions[each] for admissions in scheduler.submit([each]) if admissions)
    if isinstance(admission, Exception):
        raise admission
    return admission
