"""A small real scheduler for the API's tests: it keeps jobs in a store and launches nothing."""

import shutil
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import mkdtemp
from typing import Any, Self
from weakref import finalize

from agents.registry import PolicyError, create
from conf.schema import Config, JobSpec, PolicyChoice, UploadsSection
from daemon.core.cluster_status import ClusterStatus, PoolStatus, ProviderStatus, VmStatus
from daemon.core.errors import RejectedError
from daemon.core.estimate import Coverage, Estimate, IntervalCounts, Made
from daemon.core.status import BudgetStatus, Health, LogChunk, PolicyStatus, QueuePositions, ShadowStatus
from daemon.disk.uploads import Uploads
from daemon.http.server.scheduler_interface import Scheduler
from daemon.launch.launcher import Launcher
from daemon.notifications.notification_service import NotificationService
from daemon.queues.live_queues import LiveQueues
from daemon.queues.queue_service import QueueService
from daemon.queues.queue_snapshot import QueueSnapshot
from daemon.scheduler.stage_timings import Stages
from daemon.store.job_store import Store
from daemon.store.queries.insert_jobs import Added, Admission, IdempotencyConflictError, SubmittedSpec
from daemon.submission.admission import Intake
from daemon.submission.applications import Applications
from daemon.vms.termination_endpoint import TerminationEndpoint
from daemon.what_if.cases import Present
from daemon.what_if.promotions import PromotionAnswer, Promotions
from daemon.what_if.what_if import JobForecast, WhatIfService
from environment.decisions.sizing import Sizes
from environment.model.cluster_model import Changes
from environment.model.messages import events as ev
from environment.model.messages.records import ExecutorRecord, JobRecord
from environment.model.vms.max_capacity import MaxCapacity
from environment.resources import Resources
from environment.simulation.durations.prediction_intervals import Interval
from environment.types import Job
from framework.spark import DriverUi
from tests.builders import make_view, make_vms

LOG = "début\nfin\n".encode()


#: What is expected of job-1, as long as it waits.
ESTIMATE = Estimate(
    100.0, Interval(160.0, 150.0, 200.0), Interval(260.0, 240.0, 300.0), Interval(0.5, 0.4, 0.7)
)


class Foreseeing(WhatIfService):
    """There are two VMs, and nobody waits."""

    def _present(self) -> Present:
        return Present(make_view(make_vms(2)), ())


class Promoting(Promotions):
    """It gives the answer that a test expects; without one, too few jobs have ended."""

    def __init__(self) -> None:
        self.answer: PromotionAnswer | None = None
        self.asked: dict[str, Any] = {}

    def promote(self, chosen: PolicyChoice, since: float, **asked: Any) -> PromotionAnswer:
        """The test's answer."""
        self.asked = {"chosen": chosen, "since": since, **asked}
        if self.answer is None:
            raise RejectedError(422, "Too few jobs", "since: at least 20 jobs that have ended are needed")
        return self.answer


@dataclass(frozen=True)
class Leads:
    """A daemon that always leads, with this scheduler."""

    scheduler: Scheduler

    def leader(self) -> Scheduler:
        """The scheduler."""
        return self.scheduler

    live = leader


class SmallScheduler:
    """Implements `scheduler_interface.Scheduler` on a store, with two VMs and a fixed log.

    It is the `Leadership` of a daemon that always leads, too.
    """

    #: So many cpus has a job at most; the title and the detail of the error of larger ones.
    largest = 64
    too_large = ("The job fits no VM", "vm-2, the largest, has 8 cpus")

    def __init__(self, store: Store) -> None:
        self.ready = True
        self.stages = Stages(0.0)
        self.pausing: Collection[str] = ()
        #: Whether its loop stores nothing in time.
        self.stuck = False
        self.spent: BudgetStatus | None = None
        self.shown_ui: DriverUi | None = None
        self.store = self._store = store
        folder = Path(mkdtemp())
        finalize(self, shutil.rmtree, folder)
        self.uploads = Uploads(folder / "uploads", UploadsSection(size=4, total=6))
        #: What its applications have told the loop.
        self.events: list[ev.Event] = []
        self.launcher = Launcher(Config(data_dir=str(folder)), folder, "127.0.0.1", store=store)
        self.applications = self._door()
        self.live_queues = LiveQueues(Config(), store)
        self.expected: dict[str, Estimate] = {}
        self.foresight = Foreseeing(Sizes(), lambda _: None)
        self.promotions = Promoting()
        finalize(self, self.foresight.close)
        #: What is seen of its queues.
        self.seen: QueueSnapshot | None = None
        self.queues = QueueService(self.live_queues, lambda: self.seen)
        self.vms = TerminationEndpoint(store, self._told, lambda: 100.0)
        self.webhooks = NotificationService({}, store)
        #: What keys open.
        self.opened: dict[str, tuple[Path, str]] = {}
        self.status = PolicyStatus("ff", {}, 3, 2, 1, "it raised ValueError", cut_short=4, guarded=5)

    def _door(self) -> Applications:
        """Drivers are taken up for a cluster of four VMs."""
        intake = Intake(self.store, self.launcher, {}, lambda *_: None, lambda: None, 1000, lambda: 100.0)
        intake.note(0, MaxCapacity(make_vms(4, cpus=4)), set())

        told = (self.events.append, self._told)
        return Applications(self.store, self.launcher, intake, *told, lambda: 100.0, 30.0)

    def _told(self, event: ev.Event, _: float) -> bool:
        self.events.append(event)
        return not self.stuck

    def leader(self) -> Self:
        """Itself."""
        return self

    live = leader

    def submit(self, submitted: Sequence[SubmittedSpec]) -> Iterator[Mapping[SubmittedSpec, Admission]]:
        """Keep the jobs; those of more cpus than the largest are refused."""
        for each in submitted:
            try:
                yield {each: self._add(each.spec, each.key)}
            except (RejectedError, IdempotencyConflictError) as error:
                yield {each: error}

    def _add(self, spec: JobSpec, key: str | None) -> Added:
        return self._store.jobs.new.add_one(spec, self._job(spec, 100.0), key, 100.0)

    def _job(self, spec: JobSpec, now: float) -> Callable[[str], Job]:
        if spec.most_cpus > self.largest:
            raise RejectedError(422, *self.too_large)

        def job(job_id: str) -> Job:
            asked = (spec.type, Resources.of(spec.most_cpus, spec.memory_mib), spec.most_executors)
            made = Job(job_id, *asked, now, name=spec.label, owner=spec.owner, queue=spec.queue)
            return replace(made, group=spec.group)

        return job

    def trial(self, submitted: SubmittedSpec, sends: Mapping[str, int]) -> Sequence[Job]:
        """The job, unless it is refused."""
        return [self._job(submitted.spec, 100.0)("job-99")]

    def warnings(self, kind: str) -> Sequence[str]:
        """Nobody has measured sorting of words."""
        return [f"type: {kind}: no job of its type was measured"] if kind == "wordsort" else []

    def kill(self, job_id: str) -> JobRecord:
        """End the job at once."""
        record = self._store.jobs.get(job_id)
        assert record is not None
        if not record.ended:
            record = replace(record, state="killed", reason="killed on request", finished_at=130.0)
            self._store.changes.save(Changes((record,), ()))
        return record

    def kill_all(self, job_ids: Sequence[str]) -> None:
        """End them at once."""
        for job_id in job_ids:
            self.kill(job_id)

    def decommission(self, job_id: str, numbers: Sequence[int], why: str) -> JobRecord:
        """Nobody can."""
        raise RejectedError(409, "The executors are fixed", f"{job_id} keeps {numbers} ({why})")

    def cluster(self) -> ClusterStatus:
        """Two VMs, one that boots, and more in its pool."""
        return ClusterStatus(
            (
                VmStatus("S1", "vm-1", "m1.large", "10.0.0.1", 4.0, 16384, 0.24, 1.5, 2048, ("job-1.0",)),
                VmStatus("S2", "vm-2", "m1.xlarge", "10.0.0.2", 8.0, 32768, 0.48, 0.0, 0, ()),
                VmStatus(
                    "p-1", "p-1", "m1.large", "", 4.0, 16384, 0.24, 0.0, 0, (),
                    state="booting", pool="p", lease="p-1.7", ready_at=60.0,
                ),
            ),
            (PoolStatus("p", "m1.large", 4.0, 16384, {}, 0.24, 60.0, 0, 3, 1, "refused until 12:00:00"),),
            ProviderStatus({("open", "ok"): 1, ("open", "capacity"): 2}, "list came to nothing"),
        )  # fmt: skip

    def charge(self) -> float:
        """Nothing is charged here."""
        return time.time()

    def budget(self) -> BudgetStatus | None:
        """Budget status set by the test."""
        return self.spent

    def due(self) -> Mapping[str, Mapping[str, float]]:
        """Nothing is due."""
        return {}

    def standing(self) -> QueuePositions | None:
        """With the jobs that a test says paused."""
        queued = reversed(self._store.jobs.page(states=("queued",), limit=100))
        head = next((job.job.id for job in queued if job.job.id not in self.pausing), "")
        return QueuePositions(head, frozenset(self.pausing))

    def sight(self) -> QueueSnapshot | None:
        """Queue snapshot set by the test."""
        return self.seen

    def estimates(self) -> Mapping[str, Estimate]:
        """Estimates set by the test."""
        return self.expected

    def no_estimate(self, record: JobRecord) -> str:
        """As where none was ever made."""
        waits = record.state == "queued" and record.job.id not in self.expected
        return Made().why_not(record) if waits else ""

    def mended(self, drawn: JobForecast) -> JobForecast:
        """As it was drawn."""
        return drawn

    def coverage(self) -> Coverage:
        """Most were right."""
        return Coverage(IntervalCounts(9, 1, 2), IntervalCounts(8, 1, 1))

    def policy(self) -> PolicyStatus:
        """Status of the active policy."""
        return self.status

    def set_policy(self, name: str, options: Mapping[str, Any]) -> PolicyStatus:
        """Take a policy of the registry."""
        try:
            create(name, options)
        except PolicyError as error:
            raise RejectedError(422, "Not a policy", str(error)) from error
        self.status = PolicyStatus(name, options, 0, 0, 0, "")
        return self.status

    def set_shadow(self, name: str | None, options: Mapping[str, Any]) -> PolicyStatus:
        """Take a policy of the registry, or none."""
        try:
            if name is not None:
                create(name, options)
        except PolicyError as error:
            raise RejectedError(422, "Not a policy", str(error)) from error
        shadow = None if name is None else ShadowStatus(name, options, 7, 2, 1, 0, "")
        self.status = replace(self.status, shadow=shadow)
        return self.status

    def log(
        self, job: JobRecord, executor: ExecutorRecord | None, stream: str, offset: int, limit: int
    ) -> LogChunk:
        """The same log for all; nothing on stderr."""
        part = LOG[offset : offset + limit] if stream == "stdout" else b""
        return LogChunk(part.decode(errors="replace"), offset + len(part), job.ended)

    def ui(self, job: JobRecord) -> DriverUi | None:
        """Where the test says."""
        return self.shown_ui

    def handed(self, job: JobRecord, key: str) -> tuple[Path, str] | None:
        """File and name set by the test for a key."""
        return self.opened.get(key)

    def health(self) -> Health:
        """As the test says."""
        return Health(self.ready, {"mesos": "connected" if self.ready else "no answer", "store": "ok"})
