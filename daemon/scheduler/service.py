"""The scheduler as the API asks it: answers from the store and the last snapshot, or an event for the loop.

See `scheduler_interface.Scheduler`. `loop.py` runs the loop.
"""

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from conf.util.counted import counted
from daemon.core.cluster_status import ClusterStatus
from daemon.core.errors import RejectedError
from daemon.core.estimate import Coverage, Estimate
from daemon.core.status import BudgetStatus, Health, LogChunk, PolicyStatus, QueuePositions
from daemon.queues.queue_snapshot import QueueSnapshot
from daemon.scheduler.components import Components
from daemon.scheduler.loop import SchedulingLoop
from daemon.scheduler.timers import CHARGED_AT_ONCE
from daemon.store.queries.insert_jobs import Admission, SubmittedSpec
from daemon.what_if.what_if import JobForecast
from environment.model.messages import events as ev
from environment.model.messages.records import ExecutorRecord, JobRecord
from environment.types import Job
from framework.spark import DriverUi

#: Seconds for which a request for the bill waits until all VMs are charged for.
_CHARGE_PATIENCE = 2.0
#: Seconds within which that is not done again for another request.
_CHARGE_PAUSE = 1.0
#: Seconds for which a user who ends a job waits until that is stored.
KILL_PATIENCE = 10.0


class Service:
    """The scheduler behind the API; everything public may be called from any thread but `run`."""

    def __init__(self, loop: SchedulingLoop, parts: Components) -> None:
        self._loop, self._parts = loop, parts
        self._store, self._clock, self._inbox = parts.base.store, parts.base.clock, parts.base.inbox
        #: Parts that the API calls directly; see `Scheduler`.
        self.applications, self.vms = parts.submissions.applications, parts.vms.endpoint
        self.queues, self.foresight = parts.queues.service, parts.forecasts.what_if
        self.promotions = parts.forecasts.promotions
        self.webhooks, self.stages = parts.base.notifications, parts.stages
        self.uploads = parts.launching.launcher.uploads
        #: When all VMs were last charged for on request, in monotonic seconds.
        self._charged = -math.inf

    def run(self) -> None:
        """Schedule until `stop`; see `SchedulingLoop.run`."""
        self._loop.run()

    def stop(self) -> None:
        """End the loop soon; see `SchedulingLoop.stop`."""
        self._loop.stop()

    def submit(self, submitted: Sequence[SubmittedSpec]) -> Iterator[Mapping[SubmittedSpec, Admission]]:
        """Accept jobs; see `Scheduler.submit`."""
        with self._parts.stages.timed("accept"):
            came = self._clock.now()
            for admissions in self._parts.submissions.intake.accept(submitted):
                self._parts.base.notifications.accepted.note(admissions.values(), came, self._clock.now())
                yield admissions

    def trial(self, submitted: SubmittedSpec, sends: Mapping[str, int]) -> Sequence[Job]:
        """Jobs that a submission would become; see `Scheduler.trial`."""
        return self._parts.submissions.intake.trial(submitted, sends)

    def warnings(self, kind: str) -> Sequence[str]:
        """Warnings for a submission; see `Scheduler.warnings`."""
        return self._parts.submissions.intake.jobs.warnings(kind)

    def kill(self, job_id: str) -> JobRecord:
        """End a job; see `Scheduler.kill`."""
        record = self._known(job_id)
        return record if record.ended else self._ask(ev.KillRequested(self._clock.now(), job_id), record)

    def kill_all(self, job_ids: Sequence[str]) -> None:
        """End jobs; see `Scheduler.kill_all`. The last in front, which may wait for those before them."""
        if not job_ids:
            return
        first, *others = job_ids
        for job_id in reversed(others):
            self._inbox.put(ev.KillRequested(self._clock.now(), job_id))
        if not self._inbox.put_and_wait(ev.KillRequested(self._clock.now(), first), KILL_PATIENCE):
            why = (
                f"{counted(len(job_ids), 'job')} could not be ended within {KILL_PATIENCE:.0f} s; see /readyz"
            )
            raise RejectedError(503, "The scheduler is busy", why)

    def decommission(self, job_id: str, numbers: Sequence[int], why: str) -> JobRecord:
        """Have executors given up; see `Scheduler.decommission`."""
        record, there = self._known(job_id), self._store.jobs.shown_executors(job_id)
        if record.started_at is None or record.ended:
            raise RejectedError(409, "It does not run", f"{job_id} is {record.state}: {record.reason}")
        open_numbers = {task.number for task in there if not task.ended}
        if missing := [number for number in numbers if number not in open_numbers]:
            runs = ", ".join(str(number) for number in sorted(n for n in open_numbers if n is not None))
            detail = f"{job_id} has no running executor {missing[0]}; it has {runs or 'none'}"
            raise RejectedError(404, "No such executor", detail)
        return self._ask(ev.DecommissionAsked(self._clock.now(), job_id, tuple(numbers), why), record)

    def _known(self, job_id: str) -> JobRecord:
        record = self._store.jobs.get(job_id)
        if record is None:
            raise RejectedError(404, "No such job", f"there is no job {job_id}")
        return record

    def _ask(self, event: ev.KillRequested | ev.DecommissionAsked, record: JobRecord) -> JobRecord:
        """Run a user's request through the loop; return the job's record once the change is stored."""
        job_id = record.job.id
        if not self._inbox.put_and_wait(event, KILL_PATIENCE):
            what = "ended" if isinstance(event, ev.KillRequested) else "asked to release executors"
            why = f"{job_id} could not be {what} within {KILL_PATIENCE:.0f} s; see /readyz, and try again"
            raise RejectedError(503, "The scheduler is busy", why)
        return self._store.jobs.get(job_id) or record

    def charge(self) -> float:
        """Have all VMs charged for until now; see `Scheduler.charge`. Not again and again in a second."""
        began, now = time.monotonic(), self._clock.now()
        if began < self._charged + _CHARGE_PAUSE:
            return now
        self._charged = began
        parts = [CHARGED_AT_ONCE] * (len(self._loop.snapshot.vms) // CHARGED_AT_ONCE)
        for most in (*parts, None):  # one after the other, so that others have their turn between
            patience = began + _CHARGE_PATIENCE - time.monotonic()
            if patience <= 0 or not self._inbox.put_and_wait(ev.ChargesDue(now, now, most), patience):
                break
        return now

    def budget(self) -> BudgetStatus | None:
        """Today's cost of VMs; see `Scheduler.budget`."""
        return self._parts.saver.budget.status()

    def cluster(self) -> ClusterStatus:
        """All VMs that are there, as of the last event."""
        provider = self._parts.vms.provider_status
        sharing, queues = self._parts.queues.live.sharing(), self._parts.queues.live.queues()
        order = () if sharing is None else sharing.order
        return ClusterStatus(
            self._loop.snapshot.vms,
            self._loop.snapshot.pools,
            provider,
            order,
            len(queues.leaves) if queues else 0,
            self._loop.snapshot.jvms,
            self._loop.snapshot.crowded,
            self._loop.snapshot.memory,
            self._parts.launching.memory.total,
        )

    def due(self) -> Mapping[str, Mapping[str, float]]:
        """Charges of running jobs beyond their records, as of the last event."""
        return self._loop.snapshot.due

    def standing(self) -> QueuePositions:
        """Positions of the queued jobs, as of the last event."""
        return self._loop.snapshot.standing

    def sight(self) -> QueueSnapshot | None:
        """Snapshot of queues and of their order, as of a moment ago."""
        return self._parts.queues.watch.sight

    def estimates(self) -> Mapping[str, Estimate]:
        """When jobs that wait will start; see `Scheduler.estimates`."""
        return self._parts.forecasts.estimates.of_all()

    def no_estimate(self, record: JobRecord) -> str:
        """Why nothing is told of that; see `Scheduler.no_estimate`."""
        return self._parts.forecasts.estimates.why_not(record)

    def coverage(self) -> Coverage:
        """How well that did; see `Scheduler.coverage`."""
        return self._parts.forecasts.estimates.coverage()

    def mended(self, drawn: JobForecast) -> JobForecast:
        """The corrected forecast; see `Scheduler.mended`."""
        return self._parts.forecasts.estimates.mended(drawn)

    def policy(self) -> PolicyStatus:
        """The acting policy."""
        return self._parts.policies.status()

    def set_policy(self, name: str, options: Mapping[str, Any]) -> PolicyStatus:
        """Let another policy decide; see `Scheduler.set_policy`."""
        status = self._parts.policies.set_policy(name, options)
        self._inbox.put(ev.PolicyChanged(self._clock.now(), status.name))
        return status

    def set_shadow(self, name: str | None, options: Mapping[str, Any]) -> PolicyStatus:
        """Let another policy look on, or none; see `Scheduler.set_shadow`."""
        return self._parts.policies.set_shadow(name, options)

    def log(
        self, job: JobRecord, executor: ExecutorRecord | None, stream: str, offset: int, limit: int
    ) -> LogChunk:
        """Read a log; see `Scheduler.log`."""
        return self._parts.launching.logs.read(job, executor, stream, offset, limit)

    def ui(self, job: JobRecord) -> DriverUi | None:
        """Address of the driver's UI; see `Scheduler.ui`."""
        return self._parts.launching.ui(job)

    def handed(self, job: JobRecord, key: str) -> tuple[Path, str] | None:
        """The file that a key opens; see `Scheduler.handed`."""
        return self._parts.launching.handed(job, key)

    def health(self) -> Health:
        """Whether jobs can be scheduled now."""
        return self._parts.readiness.health()
