"""What the HTTP API needs of the scheduler, and the values that pass between them.

The scheduling loop in `service.py` is the one implementation; tests may bring a smaller one. What is
needed of who looks after applications: `schemas/applications.py`.
"""

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from daemon.core.cluster_status import ClusterStatus
from daemon.schemas.applications import ApplicationDoor
from daemon.store.queries.insert_jobs import Added, SubmittedSpec
from daemon.store.rows.tables import job_number
from environment.model.messages.records import ExecutorRecord, JobRecord
from framework.spark import DriverUi

if TYPE_CHECKING:
    from daemon.core.estimate import Coverage, Estimate
    from daemon.disk.uploads import Uploads
    from daemon.notifications.notification_service import Office
    from daemon.queues.queue_service import QueueDesk
    from daemon.queues.queue_snapshot import QueueSight
    from daemon.scheduler.stage_timings import Stages
    from daemon.vms.termination_endpoint import VmDoor
    from daemon.what_if.what_if import Foresight, JobAhead
    from environment.types import Job


class RejectedError(Exception):
    """A request that cannot be granted: an HTTP status of the 4xx or 5xx kind, and what would be right."""

    def __init__(
        self, status: int, title: str, detail: str, headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(detail)
        self.headers = headers
        self.status = status
        self.title = title
        self.detail = detail


class ElsewhereError(RejectedError):
    """Another daemon leads and is to be asked; `leader` is its URL, empty while none is known to lead."""

    def __init__(self, leader: str) -> None:
        detail = f"this daemon waits while another one leads: ask {leader}"
        if not leader:
            detail = "this daemon waits, and no daemon leads now; one will within seconds"
        super().__init__(307 if leader else 503, "Another daemon leads" if leader else "No leader", detail)
        self.leader = leader


@dataclass(frozen=True, slots=True)
class BudgetStatus:
    """What VMs have cost on a day (UTC, 2026-11-22) of what they may, dollars.

    With `hold`, no VM is opened any more on a day on which they have cost more.
    """

    day: str
    per_day: float
    spent: float
    hold: bool

    @property
    def over(self) -> bool:
        """Whether they have cost more than they may."""
        return self.spent > self.per_day


@dataclass(frozen=True, slots=True)
class Health:
    """Whether jobs can be scheduled now, and each check in words."""

    ready: bool
    checks: Mapping[str, str]
    #: Those of them that are not well.
    bad: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class LogChunk:
    """Part of a log: its text, where the next part begins (bytes), and whether nothing can follow.

    `source` says where it was read: in the folder of a driver on this host, a task's `sandbox`, or what was
    `kept` of that; empty where nothing is there, and then `note` says why, or what is missing.
    """

    text: str
    next_offset: int
    complete: bool
    source: str = ""
    note: str = ""


@dataclass(frozen=True, slots=True)
class ShadowStatus:
    """A policy that decides beside the acting one, and since it was set: decisions compared, and those not.

    `missed` were made while it was busy; `faults` are its own.
    """

    name: str
    options: Mapping[str, Any]
    compared: int
    different: int
    missed: int
    faults: int
    last_fault: str


@dataclass(frozen=True, slots=True)
class PolicyStatus:
    """Who decides now, and since the start: decisions made, and how many had to be replaced.

    `fallback` decides when the policy fails; `busy` is for how many seconds the policy has been at a decision
    that took too long and was taken from it, 0 when it is not. `cut_short` counts the policy's decisions that
    a time limit of its own ended, `guarded` those that a guard took in its place.
    """

    name: str
    options: Mapping[str, Any]
    placed: int
    waited: int
    faults: int
    last_fault: str
    fallback: str | None = None
    busy: float = 0.0
    cut_short: int = 0
    guarded: int = 0
    shadow: ShadowStatus | None = None


#: States of a job in which its driver may run.
WITH_DRIVER = frozenset({"starting", "running", "relaunching"})


@dataclass(frozen=True)
class Standing:
    """Who of the queued jobs waits for whom.

    `head` is the first that is decided about, by its id; empty when none is. The `paused` are not decided
    about for now, since their launches never ran or nothing fits: they are before nobody.
    """

    head: str = ""
    paused: frozenset[str] = frozenset()

    def ahead(self, job_id: str, position: int) -> int:
        """How many jobs are before this one, which has so many queued ones before it."""
        return position - bisect_left(self._numbers, job_number(job_id) or 0)

    @cached_property
    def _numbers(self) -> list[int]:
        return sorted(number for job_id in self.paused if (number := job_number(job_id)) is not None)


#: What became of what was submitted: a job, or why there is none.
Admission = Added | Exception


class Scheduler(Protocol):
    """The running scheduler. Every method may be called from any thread and raises `RejectedError` only."""

    def submit(self, submitted: Sequence[SubmittedSpec]) -> Iterator[Mapping[SubmittedSpec, Admission]]:
        """Accept jobs: what became of each, as that is known. What is accepted is on disk by then."""
        ...

    def trial(self, submitted: SubmittedSpec, sends: Mapping[str, int]) -> "Sequence[Job]":
        """The jobs that a submission would be if it came now, by ids that no other has; nothing is changed.

        RejectedError for what it would be refused for. Files that its user `sends` before it, so many bytes
        by hash, need not be there.
        """
        ...

    def warnings(self, kind: str) -> Sequence[str]:
        """What whoever submits a job of this type should know at once."""
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
        """All VMs that are there."""
        ...

    def charge(self) -> float:
        """Have all VMs charged for until now (or a second ago), in the store unless that takes too long.

        Returns now by the clock that bills go by, seconds since the epoch.
        """
        ...

    def budget(self) -> BudgetStatus | None:
        """What VMs have cost today of what they may; None without a budget."""
        ...

    def due(self) -> Mapping[str, Mapping[str, float]]:
        """What running jobs owe beyond the costs in their records, in dollars, by job id and task id."""
        ...

    def standing(self) -> Standing | None:
        """Who of the queued jobs waits for whom, as of the last event; None when only the leader knows."""
        ...

    def sight(self) -> "QueueSight | None":
        """What is seen of queues and their order, as of a moment ago; None where there is none.

        And where only the leader knows.
        """
        ...

    def estimates(self) -> "Mapping[str, Estimate]":
        """When the jobs that wait will start and what they will cost, by id, as it was made last."""
        ...

    def no_estimate(self, record: JobRecord) -> str:
        """Why nothing is told of when a job starts that waits; empty where something is, or it does not."""
        ...

    def mended(self, drawn: "JobAhead") -> "JobAhead":
        """What was drawn of a job that waits, corrected by how far earlier ones were beside the truth."""
        ...

    def coverage(self) -> "Coverage":
        """How often jobs started when it had been said."""
        ...

    def policy(self) -> PolicyStatus:
        """Who decides."""
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

    def uploads(self) -> "Uploads":
        """The files that clients have sent."""
        ...

    def handed(self, job: JobRecord, key: str) -> tuple[Path, str] | None:
        """The file that this key opens for the job's driver, and its name; None when it opens none."""
        ...

    @property
    def applications(self) -> ApplicationDoor:
        """What drivers say that ask for executors themselves."""
        ...

    @property
    def vms(self) -> "VmDoor":
        """What VMs of pools say."""
        ...

    @property
    def queues(self) -> "QueueDesk":
        """How queues do, and what is changed of them."""
        ...

    @property
    def foresight(self) -> "Foresight":
        """What would come of the queue."""
        ...

    @property
    def webhooks(self) -> "Office":
        """Who is told what happens, and how well."""
        ...

    def stages(self) -> "Stages":
        """How long stages took since this daemon leads."""
        ...

    def health(self) -> Health:
        """Whether master, store and loop are well."""
        ...


def submit_one(scheduler: Scheduler, each: SubmittedSpec) -> Added:
    """Have a job accepted; raises what it is refused for."""
    (admission,) = (admissions[each] for admissions in scheduler.submit([each]) if admissions)
    if isinstance(admission, Exception):
        raise admission
    return admission
