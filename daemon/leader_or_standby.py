"""One of several daemons on a store: either leads, or waits and answers from the store.

While it leads, everything goes to the service; otherwise requests that the store cannot answer are
redirected to the leader. `leadership` finds the leader.
"""

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import Any

import structlog

from daemon.core.cluster_status import ClusterStatus
from daemon.core.errors import ElsewhereError
from daemon.core.estimate import Coverage, Estimate
from daemon.core.status import BudgetStatus, Health, LogChunk, PolicyStatus, QueuePositions
from daemon.disk.uploads import Uploads
from daemon.leadership.election import Election
from daemon.notifications.notification_service import NotificationService
from daemon.queues.queue_service import QueueService
from daemon.queues.queue_snapshot import QueueSnapshot
from daemon.scheduler.service import Service
from daemon.scheduler.stage_timings import Stages
from daemon.schemas.applications import ApplicationDoor
from daemon.store.job_store import Store, StoreError
from daemon.store.queries.insert_jobs import Admission, SubmittedSpec
from daemon.store.rows.terms import Term
from daemon.vms.termination_endpoint import TerminationEndpoint
from daemon.what_if.what_if import JobForecast, WhatIfService
from environment.model.messages.records import ExecutorRecord, JobRecord
from environment.types import Job
from framework.spark import DriverUi

log = structlog.get_logger("leader")

#: Seconds between two looks at whether the lead still holds.
_WATCH = 1.0
#: Seconds before a daemon that could not take the lead up tries again, so that another may.
_PAUSE = 5.0
#: Seconds between two looks for drivers that nobody waits for.
_SWEEP = 15.0


class Candidate:
    """Stands for election until it is stopped; implements `scheduler_interface.Scheduler` all the while.

    `lead` makes a service for a term and takes it apart again afterwards; `sweep` ends the processes that
    earlier leaders left on this host.
    """

    def __init__(
        self,
        store: Store,
        election: Election,
        url: str,
        lead: Callable[[Term], AbstractContextManager[Service]],
        sweep: Callable[[], None],
    ) -> None:
        self._store = store
        self._election = election
        self._url = url
        self._lead = lead
        self._sweep = sweep
        self._stopping = threading.Event()
        self._service: Service | None = None
        self._led = ExitStack()

    def stand(self) -> bool:
        """Try to become the leader now, and return whether that succeeded; errors are raised."""
        term = self._election.won(self._url)
        if term is None:
            return False
        try:
            self._sweep()
            self._service = self._led.enter_context(self._lead(term))
        except BaseException:
            self._resign()
            raise
        return True

    def run(self) -> None:
        """Lead whenever elected, until `stop`; to be called once, in a thread of its own."""
        swept = 0.0
        while not self._stopping.is_set():
            if self._service is not None or self._stands():
                self._serve()
            elif time.monotonic() > swept + _SWEEP:
                swept = time.monotonic()
                self._sweep_if_possible()
        self._resign()

    def stop(self) -> None:
        """End soon. Jobs go on."""
        self._stopping.set()
        if (service := self._service) is not None:
            service.stop()

    def _sweep_if_possible(self) -> None:
        try:
            self._sweep()
        except StoreError as error:
            log.warning("cannot look for drivers that were given up", error=str(error))

    def _stands(self) -> bool:
        try:
            return self.stand()
        except Exception as error:  # whatever it is, another daemon may do better
            log.error("cannot take the lead", error=str(error))
            self._stopping.wait(_PAUSE)
            return False

    def _serve(self) -> None:
        service = self._service
        if service is None:
            return
        log.info("leading", url=self._url)
        over = threading.Event()
        watcher = threading.Thread(target=self._watch, args=(service, over), name="leadership")
        watcher.start()
        try:
            if not self._stopping.is_set():
                service.run()
        except StoreError as error:  # perhaps another daemon reaches it
            log.error("no longer leading", why=str(error))
        finally:
            over.set()
            watcher.join()
            self._resign()

    def _watch(self, service: Service, over: threading.Event) -> None:
        """Stop the service at once when the lead is lost."""
        why = ""
        while not over.is_set() and not why:
            try:
                why = self._election.lost(_WATCH)
            except Exception as error:  # a lead that cannot be watched may be anybody's
                why = f"{type(error).__name__}: {error}"
        if why:
            log.error("no longer leading", why=why)
            service.stop()

    def _resign(self) -> None:
        self._service = None
        self._led.close()
        self._election.resign()

    # ---- what the API asks -----------------------------------------------------------------------

    def submit(self, submitted: Sequence[SubmittedSpec]) -> Iterator[Mapping[SubmittedSpec, Admission]]:
        """See `Scheduler.submit`."""
        return self._leader().submit(submitted)

    def trial(self, submitted: SubmittedSpec, sends: Mapping[str, int]) -> Sequence[Job]:
        """See `Scheduler.trial`."""
        return self._leader().trial(submitted, sends)

    def warnings(self, kind: str) -> Sequence[str]:
        """See `Scheduler.warnings`; only the leader knows."""
        service = self._service
        return () if service is None else service.warnings(kind)

    def kill(self, job_id: str) -> JobRecord:
        """See `Scheduler.kill`."""
        return self._leader().kill(job_id)

    def kill_all(self, job_ids: Sequence[str]) -> None:
        """See `Scheduler.kill_all`."""
        self._leader().kill_all(job_ids)

    def decommission(self, job_id: str, numbers: Sequence[int], why: str) -> JobRecord:
        """See `Scheduler.decommission`."""
        return self._leader().decommission(job_id, numbers, why)

    @property
    def applications(self) -> ApplicationDoor:
        """See `Scheduler.applications`."""
        return self._leader().applications

    @property
    def vms(self) -> TerminationEndpoint:
        """See `Scheduler.vms`."""
        return self._leader().vms

    @property
    def queues(self) -> QueueService:
        """See `Scheduler.queues`."""
        return self._leader().queues

    @property
    def foresight(self) -> WhatIfService:
        """See `Scheduler.foresight`."""
        return self._leader().foresight

    @property
    def webhooks(self) -> NotificationService:
        """See `Scheduler.webhooks`."""
        return self._leader().webhooks

    def cluster(self) -> ClusterStatus:
        """See `Scheduler.cluster`."""
        return self._leader().cluster()

    def charge(self) -> float:
        """See `Scheduler.charge`; in a waiting daemon the store holds the leader's latest charges."""
        service = self._service
        return time.time() if service is None else service.charge()

    def budget(self) -> BudgetStatus | None:
        """See `Scheduler.budget`; known to the leader alone."""
        service = self._service
        return None if service is None else service.budget()

    def due(self) -> Mapping[str, Mapping[str, float]]:
        """See `Scheduler.due`; a waiting daemon does not know the leader's charges beyond the store."""
        service = self._service
        return {} if service is None else service.due()

    def standing(self) -> QueuePositions | None:
        """See `Scheduler.standing`."""
        service = self._service
        return None if service is None else service.standing()

    def sight(self) -> QueueSnapshot | None:
        """See `Scheduler.sight`."""
        service = self._service
        return None if service is None else service.sight()

    def estimates(self) -> Mapping[str, Estimate]:
        """See `Scheduler.estimates`; only the leader has any."""
        service = self._service
        return {} if service is None else service.estimates()

    def no_estimate(self, record: JobRecord) -> str:
        """See `Scheduler.no_estimate`; only the leader knows."""
        service = self._service
        return "" if service is None else service.no_estimate(record)

    def mended(self, drawn: JobForecast) -> JobForecast:
        """See `Scheduler.mended`."""
        return self._leader().mended(drawn)

    def coverage(self) -> Coverage:
        """See `Scheduler.coverage`."""
        return self._leader().coverage()

    def policy(self) -> PolicyStatus:
        """See `Scheduler.policy`."""
        return self._leader().policy()

    def set_policy(self, name: str, options: Mapping[str, Any]) -> PolicyStatus:
        """See `Scheduler.set_policy`."""
        return self._leader().set_policy(name, options)

    def set_shadow(self, name: str | None, options: Mapping[str, Any]) -> PolicyStatus:
        """See `Scheduler.set_shadow`."""
        return self._leader().set_shadow(name, options)

    def log(
        self, job: JobRecord, executor: ExecutorRecord | None, stream: str, offset: int, limit: int
    ) -> LogChunk:
        """See `Scheduler.log`."""
        return self._leader().log(job, executor, stream, offset, limit)

    def ui(self, job: JobRecord) -> DriverUi | None:
        """See `Scheduler.ui`."""
        return self._leader().ui(job)

    def uploads(self) -> Uploads:
        """See `Scheduler.uploads`."""
        return self._leader().uploads()

    def handed(self, job: JobRecord, key: str) -> tuple[Path, str] | None:
        """See `Scheduler.handed`."""
        return self._leader().handed(job, key)

    def stages(self) -> Stages:
        """See `Scheduler.stages`."""
        return self._leader().stages()

    def health(self) -> Health:
        """See `Scheduler.health`; a daemon that waits is not ready."""
        if (service := self._service) is not None:
            return service.health()
        try:
            leader, store = self._store.leader(), "ok"
        except StoreError as error:
            leader, store = "", str(error)
        who = f"{leader} leads" if leader else "nobody is known to lead"
        return Health(
            False,
            {"leader": f"standby: {who} ({self._election.state})", "store": store},
            frozenset({"store"} if store != "ok" else ()),
        )

    def _leader(self) -> Service:
        service = self._service
        if service is None:
            leader = self._store.leader()
            raise ElsewhereError("" if leader == self._url else leader)  # its own term may just be over
        return service
