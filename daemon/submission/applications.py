"""Applications with a driver that asks for executors itself: their identity, heartbeats and orders.

Such a driver is a process of its user's, or one that was started here (its job knows it already). It
registers, reports the executors that it wants, and asks every few seconds for orders; a user's driver that
is silent for too long is given up, and its executors with it. `http/routes/applications.py` defines the
routes; the cluster model decides on the executors.
"""

import contextlib
import hmac
import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from conf.util.counted import counted
from daemon.core.errors import RejectedError
from daemon.disk.launch_records import RecordsError
from daemon.launch.application_records import ApplicationRecord, application_key
from daemon.launch.decommissioning import are_late
from daemon.launch.driver_failures import ended, failure_line
from daemon.launch.launcher import Launcher
from daemon.schemas.applications import (
    Admit,
    ApplicationBody,
    GoodbyeBody,
    LostBody,
    OrdersBody,
    ProfileBody,
    RegisteredBody,
)
from daemon.store.job_store import Store
from daemon.store.queries.insert_jobs import ClientDriver, SubmittedSpec
from daemon.store.rows.database import StoreError
from daemon.submission.admission import Intake
from daemon.submission.registration import executor_size, registered_spec
from environment.model.jobs.scale_up import bounded
from environment.model.messages import events as ev
from environment.model.messages.records import ExecutorRecord, ExecutorRequest, JobRecord
from framework.spark.install.backend_jar import BackendJarError

#: Seconds between two signs of life of a driver.
HEARTBEAT = 2.0
#: Seconds of silence after which a driver is given up whose executors ended by themselves.
_ORPHANED = 3 * HEARTBEAT
#: How executors end without their driver; which exit code they have then depends on the Spark.
_BY_THEMSELVES = frozenset({"finished", "failed"})
#: Seconds that a driver which leaves waits until that is stored.
_LEAVE_PATIENCE = 5.0
#: Seconds within which a driver's requests and releases are stored.
_NOTE_PATIENCE = 10.0
#: Seconds that a silence grows by between two checks at most: when the daemon slept, drivers found no
#: listener.
_LONGEST_STEP = 1.0
#: Number of lost executors that are reported to a driver, the latest.
_MOST_LOST = 100
#: MiB of the heap of an executor whose job states none, as in Spark.
_DEFAULT_HEAP_MIB = 1024
_WAITS = frozenset({"queued", "placing", "starting"})


@dataclass(slots=True)
class _DriverSession:
    """Session of a running driver; `client` if it is a user's, so that its silence ends it."""

    key: str
    client: bool
    record: JobRecord
    silent: float = 0.0
    #: Its executors that are there, by number; which of them were when it was heard of last.
    there: set[int] = field(default_factory=set)
    heard_with: set[int] = field(default_factory=set)
    #: An executor has ended by itself since it was heard of last: without their driver all of them do.
    orphans: bool = False
    lost: list[tuple[int, str]] = field(default_factory=list)
    to_leave: dict[int, float] = field(default_factory=dict)

    def opened_by(self, key: str | None) -> bool:
        """Whether the key is the driver's; a session without a known key accepts none."""
        given = (key or "").encode("utf-8", "replace")
        return bool(self.key) and hmac.compare_digest(self.key.encode(), given)


class Applications:
    """The registered drivers; for any thread, except the methods that the loop calls."""

    def __init__(
        self,
        store: Store,
        launcher: Launcher,
        intake: Intake,
        put: Callable[[ev.Event], None],
        put_and_wait: Callable[[ev.Event, float], bool],
        now: Callable[[], float],
        patience: float,
    ) -> None:
        """`put` and `put_and_wait` take events; `patience` is how many seconds a driver may be silent."""
        self._store = store
        self._launcher = launcher
        self._records = launcher.applications
        self._intake = intake
        self._put = put
        self._put_and_wait = put_and_wait
        self._now = now
        self._patience = patience
        self._lock = threading.Lock()
        self._sessions: dict[str, _DriverSession] = {}
        self._looked = time.monotonic()

    # ---- messages of drivers -----------------------------------------------------------------------

    def register(self, asked: ApplicationBody, admit: Admit) -> RegisteredBody:
        """Create a job for a user's running driver; it is on disk when this returns.

        RejectedError when its properties are impossible, or not permitted to the user.
        """
        spec, submitter = admit(registered_spec(asked, self._launcher.homes.for_client), asked.user)
        if asked.secret is None:
            raise RejectedError(
                422, "Not a driver", "secret: missing; executors authenticate their driver by it"
            )
        secret, driver = asked.secret, asked.driver
        made: JobRecord | None = None

        def keep(job: JobRecord) -> None:
            nonlocal made
            made = job
            key = application_key(job.job.id, secret)
            record = ApplicationRecord(key, secret, asked.application_id, driver.host, driver.port)
            with self._lock:
                self._sessions[job.job.id] = _DriverSession(key, client=True, record=job)
            self._records.keep(job.job.id, record)

        submitted = SubmittedSpec(spec, None, ClientDriver(driver.ui or driver.host, keep), submitter)
        (admission,) = (found[submitted] for found in self._intake.accept([submitted]) if found)
        if isinstance(admission, StoreError) and made is not None:
            why = f"its driver's address cannot be stored: {admission}"
            self._put(ev.DriverEnded(self._now(), made.job.id, None, why))
            raise RejectedError(503, "The application cannot be stored", why) from admission
        if isinstance(admission, Exception):
            raise admission
        record = admission[0]
        return _registered(record, application_key(record.job.id, secret))

    def attach(self, job_id: str, key: str | None, asked: ApplicationBody) -> RegisteredBody:
        """Note where the driver of a job is that was started here, or that registered before."""
        session = self._session(job_id, key)
        kept = self._records.kept(job_id)
        secret = kept.secret if kept is not None else ""
        driver = asked.driver
        record = ApplicationRecord(session.key, secret, asked.application_id, driver.host, driver.port)
        self._records.keep(job_id, record)
        return _registered(session.record, session.key)

    def ask(self, job_id: str, key: str | None, totals: Sequence[ProfileBody]) -> str:
        """Note how many executors the driver wants now; why it gets fewer, empty when it does not.

        It says that once: it is stored when this returns, or RejectedError has it said again.
        """
        job = self._session(job_id, key).record.job
        if job.dynamic is None:
            return f"{job_id} keeps its {counted(job.executors, 'executor')}, as dynamic allocation is off"
        spec = self._store.jobs.spec(job_id)
        usual = _DEFAULT_HEAP_MIB if spec is None else self._launcher.heap_mib(spec)
        sizes = {one.id: executor_size(one.executor, job.size.cpus, usual) for one in totals}
        sizes |= (
            {0: job.size} if 0 in sizes else {}
        )  # with all resources of the job, even those that Spark does not know
        asked = tuple(ExecutorRequest(one.id, sizes[one.id], one.total) for one in totals)
        self._note(ev.ExecutorsAsked(self._now(), job_id, asked))
        return bounded(job, asked)[1]

    def release(self, job_id: str, key: str | None, numbers: Collection[int]) -> None:
        """Note which executors the driver gives back, which it says once, as with `ask`."""
        self._session(job_id, key)
        self._note(ev.ExecutorsReleased(self._now(), job_id, tuple(sorted(set(numbers)))))

    def heartbeat(self, job_id: str, key: str | None) -> OrdersBody:
        """Record that the driver is alive, and return its orders."""
        session = self._session(job_id, key)
        with self._lock:
            session.silent, session.orphans, session.heard_with = 0.0, False, set(session.there)
            record, lost = session.record, tuple(session.lost)
            to_leave = dict(sorted(session.to_leave.items()))
        if record.ended:
            stop = f"{job_id} {_ENDS[record.state]}: {record.reason}"
            return OrdersBody(stop=stop, waits=None, lost=[], decommission=[], alone=False)
        return OrdersBody(
            stop=None,
            waits=record.reason if record.state in _WAITS else None,
            lost=[LostBody(number=number, reason=reason) for number, reason in lost],
            decommission=list(to_leave),
            alone=are_late(to_leave.values(), self._now()),
        )

    def leave(self, job_id: str, key: str | None, goodbye: GoodbyeBody) -> None:
        """The driver says goodbye: a user's ends its job with that, another wants executors no more."""
        session = self._session(job_id, key)
        if session.record.ended:
            return
        if not session.client:
            self._put(ev.ExecutorsAsked(self._now(), job_id, ()))
            return
        state: Literal["finished", "killed"] | None = None  # failed
        code = goodbye.exit_code
        if code is not None:
            error = failure_line(goodbye.error.encode("utf-8", "replace"), b"", None)
            why = ended(code, error)
        elif goodbye.signal:
            state, why = "killed", f"its driver was ended by {goodbye.signal}"
        elif goodbye.stopped:
            state, why = "finished", "its driver stopped"
        else:
            why = "its driver ended by System.exit, with an unknown code"
        self._put_and_wait(ev.DriverEnded(self._now(), job_id, code, why, state=state), _LEAVE_PATIENCE)

    def sparks(self) -> tuple[str, Mapping[str, str]]:
        """Address of drivers on this host, and the version of each Spark by name, the default first."""
        homes = self._launcher.homes
        served = {}
        for name in homes.names():
            with contextlib.suppress(ValueError):  # its content is not that of its name
                served[name] = homes.there(name).version
        return self._launcher.driver_host, served

    def jar(self, name: str) -> Path:
        """The jar by which the Spark of this name knows our masters; it takes seconds to make it."""
        try:
            return self._launcher.backend_jar(name)
        except ValueError as error:
            raise RejectedError(404, "No such Spark", str(error)) from error
        except BackendJarError as error:
            raise RejectedError(503, "The jar cannot be made", str(error)) from error

    # ---- for the loop ------------------------------------------------------------------------------

    def take_up(self, jobs: Sequence[JobRecord]) -> None:
        """Wait for the drivers of these jobs, which an earlier daemon knew; forget those that are over."""
        going_on = {job.job.id: job for job in jobs if not job.ended}
        for job_id, job in going_on.items():
            if job.job.client_driver:
                self._sessions[job_id] = self._found("", job)  # its key is looked up at the first request
        for job_id in self._records.with_secret():
            if job_id not in going_on:
                self._records.forget(job_id)

    def observe(self, jobs: Iterable[JobRecord], executors: Iterable[ExecutorRecord]) -> None:
        """Record changes of jobs and their executors."""
        with self._lock:
            for job in jobs:
                if (session := self._sessions.get(job.job.id)) is not None:
                    session.record = job
            for task in executors:
                session = self._sessions.get(task.job_id)
                if session is None or task.number is None:
                    continue
                if task.decommissioned_at is not None and not task.ended:
                    session.to_leave[task.number] = task.decommissioned_at
                else:
                    session.to_leave.pop(task.number, None)
                if task.ended:
                    session.there.discard(task.number)
                    session.heard_with.discard(task.number)
                else:
                    session.there.add(task.number)
                session.orphans |= task.state in _BY_THEMSELVES and task.killed_at is None
                if task.state == "lost":
                    found = (task.number, f"lost on {task.vm_name}: {task.message}")
                    session.lost = [*(one for one in session.lost if one[0] != task.number), found]
                    del session.lost[:-_MOST_LOST]

    def tend(self) -> None:
        """Give up the drivers that were silent for too long. Never waits."""
        now = time.monotonic()
        step, self._looked = min(now - self._looked, _LONGEST_STEP), now
        with self._lock:
            late = []
            for job_id, session in list(self._sessions.items()):
                session.silent += step
                if session.record.ended and session.silent > self._patience:
                    del self._sessions[job_id]  # it knows, or is gone
                    continue
                alone = session.orphans and not session.heard_with
                patience = min(_ORPHANED, self._patience) if alone else self._patience
                if session.client and not session.record.ended and session.silent > patience:
                    late.append((job_id, session.record.job.client_driver, patience))
                    session.silent = 0.0
        for job_id, where, patience in late:
            why = f"its driver ({where}) was not heard of for {patience:g} s"
            self._put(ev.DriverEnded(self._now(), job_id, None, why))

    # ---- in between --------------------------------------------------------------------------------

    def _note(self, event: ev.Event) -> None:
        if not self._put_and_wait(event, _NOTE_PATIENCE):
            why = f"the driver's message was not stored within {_NOTE_PATIENCE:g} s; see /readyz"
            raise RejectedError(503, "The scheduler is busy", why, {"Retry-After": "1"})

    def _session(self, job_id: str, key: str | None) -> _DriverSession:
        """The session that this key opens; RejectedError for any other, and where nobody knows the key."""
        with self._lock:
            session = self._sessions.get(job_id)
        if session is None or not session.opened_by(key):
            # It was not known yet, or could not be read, or another driver was started since.
            record = self._store.jobs.get(job_id) if session is None else session.record
            try:
                known = self._key(job_id)
            except (OSError, StoreError) as error:
                why = f"the key of {job_id} cannot be read now: {error}"
                raise RejectedError(503, "Cannot be reported", why, {"Retry-After": "1"}) from error
            if record is None or not known:
                raise RejectedError(
                    404, "No such application", f"no application with the id {job_id} is known"
                )
            if session is not None and not session.key:
                session.key = known
            elif session is None or session.key != known:
                session = _DriverSession(known, bool(record.job.client_driver), record)
                if session.opened_by(key):  # for a stranger nobody looks its executors up: they may be many
                    session = self._found(known, record)
        if not session.opened_by(key):
            detail = f"the key is not the one that {job_id} was given"
            raise RejectedError(401, "Not its driver", detail, {"WWW-Authenticate": "Bearer"})
        with self._lock:
            there = self._sessions.get(job_id)
            if there is None or there.key != session.key:
                self._sessions[job_id] = there = session
            return there

    def _found(self, key: str, job: JobRecord) -> _DriverSession:
        """A session that went on before this daemon knew of it."""
        session = _DriverSession(key, bool(job.job.client_driver), job)
        for task in self._store.jobs.open_executors(job.job.id):
            if task.number is None:
                continue
            session.there.add(task.number)
            session.heard_with.add(task.number)
            if task.decommissioned_at is not None:
                session.to_leave[task.number] = task.decommissioned_at
        return session

    def _key(self, job_id: str) -> str:
        """The key of a job's driver; empty when nobody knows it. OSError or StoreError when not now."""
        try:
            return self._records.key_of(job_id)
        except RecordsError:
            return ""


_ENDS = {"finished": "has ended", "failed": "has failed", "killed": "was ended"}


def _registered(record: JobRecord, key: str) -> RegisteredBody:
    job = record.job
    return RegisteredBody(id=job.id, key=key, heartbeat=HEARTBEAT, executors=job.begins_with)
