"""A daemon for the commands to talk to: the real API and store, and a scheduler that obeys the test."""

import contextlib
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.metadata import version
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from agents.registry import PolicyError, create
from conf.schema import Config, Http, JobSpec, UploadsSection
from conf.schema.users import UsersSection
from daemon.auth.user_directory import Directory
from daemon.cli import main
from daemon.cli.jobs import follow
from daemon.core.cluster_status import ClusterStatus, PoolStatus, VmStatus
from daemon.core.errors import RejectedError
from daemon.core.estimate import Coverage, Estimate, IntervalCounts, Made
from daemon.core.status import BudgetStatus, Health, LogChunk, PolicyStatus, ShadowStatus
from daemon.disk.uploads import Uploads
from daemon.http.app import create_app
from daemon.http.app_options import AppOptions
from daemon.http.server.uvicorn_server import make_server
from daemon.notifications.notification_service import NotificationService
from daemon.queues.live_queues import LiveQueues
from daemon.queues.queue_service import QueueService
from daemon.queues.queue_snapshot import QueueSnapshot
from daemon.scheduler.stage_timings import Stages
from daemon.schemas.applications import ApplicationDoor
from daemon.store.job_store import Store
from daemon.store.queries.insert_jobs import Added, Admission, IdempotencyConflictError, SubmittedSpec
from daemon.vms.termination_endpoint import TerminationEndpoint
from daemon.what_if.what_if import JobForecast
from environment.decisions.explain import CandidateVm, Choice, Explanation
from environment.decisions.sizing import Sizes
from environment.model.cluster_model import Changes
from environment.model.messages.records import ExecutorRecord, JobRecord
from environment.model.messages.states import JobState
from environment.resources import Resources
from environment.types import Job
from framework.spark.driver.ui_key import DriverUi
from tests.daemon.small_scheduler import Foreseeing, SmallScheduler

VMS = (
    VmStatus("S0", "m1.large-1", "m1.large", "127.0.1.1", 4.0, 16384, 0.24, 1.0, 1024, ("job-1.0",)),
    VmStatus("S1", "m1.large-2", "m1.large", "127.0.1.2", 4.0, 16384, 0.24, 0.0, 0, ()),
)


@dataclass
class Cast:
    """A scheduler without a cluster: jobs are in the state in which the test puts them."""

    store: Store
    folder: Path | None = None
    logs: dict[str, str] = field(default_factory=dict)
    status: PolicyStatus = field(default_factory=lambda: PolicyStatus("ff", {}, 3, 1, 0, ""))
    spent: BudgetStatus | None = None
    #: What becomes of a job right after its submission.
    fate: Callable[[str], None] | None = None
    pools: tuple[PoolStatus, ...] = ()
    healthy: bool = True
    #: How many JVMs its machine carries, if jobs wait for that.
    carries: int | None = None
    expected: dict[str, Estimate] = field(default_factory=dict)
    foresight: Foreseeing = field(default_factory=lambda: Foreseeing(Sizes(), lambda _: None))
    #: What a submission that was tried would send: bytes by hash.
    sent: dict[str, int] = field(default_factory=dict)
    #: What is seen of queues.
    seen: QueueSnapshot | None = None
    office: NotificationService | None = None

    def submit(self, submitted: Sequence[SubmittedSpec]) -> Iterator[Mapping[SubmittedSpec, Admission]]:
        """Keep the jobs, which wait; no VM here has more than 4 cpus."""
        for each in submitted:
            try:
                yield {each: self._add(each.spec, each.key)}
            except (RejectedError, IdempotencyConflictError) as error:
                yield {each: error}

    def _add(self, spec: JobSpec, key: str | None) -> Added:
        now = time.time()
        record, new = self.store.add_job(spec, self._job(spec, now), key, now)
        if self.fate is not None:
            self.fate(record.job.id)
        return record, new

    def _job(self, spec: JobSpec, now: float) -> Callable[[str], Job]:
        if spec.most_cpus > 4:
            raise RejectedError(422, "The job fits no cluster of this size", "m1.large-1 has 4 cpus")

        def job(job_id: str) -> Job:
            asked = (spec.type, Resources.of(spec.most_cpus, spec.memory), spec.most_executors)
            return Job(job_id, *asked, now, spec.label, owner=spec.owner, queue=spec.queue)

        return job

    def trial(self, submitted: SubmittedSpec, sends: Mapping[str, int]) -> Sequence[Job]:
        """Return the job as it would be; record the files to send in `sent`."""
        self.sent = dict(sends)
        return [self._job(submitted.spec, time.time())("job-99")]

    def warnings(self, kind: str) -> Sequence[str]:
        """Nobody has measured sorting of words."""
        return [f"type: {kind}: nobody has measured such jobs"] if kind == "wordsort" else []

    def kill(self, job_id: str) -> JobRecord:
        """End the job at once."""
        record = self._record(job_id)
        if not record.ended:
            self.put(job_id, "killed", "killed by its user")
        return record

    def kill_all(self, job_ids: Sequence[str]) -> None:
        """End them at once."""
        for job_id in job_ids:
            self.kill(job_id)

    def decommission(self, job_id: str, numbers: Sequence[int], why: str) -> JobRecord:
        """Note it in the job's reason."""
        self.put(job_id, "running", f"gives {list(numbers)} up: {why}")
        return self._record(job_id)

    def cluster(self) -> ClusterStatus:
        """Two VMs, and pools when a test says so."""
        return ClusterStatus(VMS, self.pools, jvms=self.carries, crowded=self.carries is not None)

    def charge(self) -> float:
        """Nothing is charged here."""
        return time.time()

    def budget(self) -> BudgetStatus | None:
        """Budget status set by the test."""
        return self.spent

    def due(self) -> Mapping[str, Mapping[str, float]]:
        """Nothing is due."""
        return {}

    def standing(self) -> None:
        """Only the store knows."""

    def sight(self) -> QueueSnapshot | None:
        """Queue snapshot set by the test."""
        return self.seen

    def no_estimate(self, record: JobRecord) -> str:
        """The reason of a missing estimate, for waiting jobs without one."""
        waits = record.state == "queued" and record.job.id not in self.expected
        return Made().why_not(record) if waits else ""

    def estimates(self) -> Mapping[str, Estimate]:
        """Estimates set by the test."""
        return self.expected

    def mended(self, drawn: JobForecast) -> JobForecast:
        """As it was drawn."""
        return drawn

    def coverage(self) -> Coverage:
        """Most were right."""
        return Coverage(IntervalCounts(9, 1, 2))

    def policy(self) -> PolicyStatus:
        """The acting policy."""
        return self.status

    def set_policy(self, name: str, options: Mapping[str, Any]) -> PolicyStatus:
        """Take any policy that can be made."""
        try:
            create(name, options)
        except PolicyError as error:
            raise RejectedError(422, "Not a policy", str(error)) from error
        self.status = PolicyStatus(name, dict(options), 3, 1, 1, "it chose a full VM", "ff")
        return self.status

    def set_shadow(self, name: str | None, options: Mapping[str, Any]) -> PolicyStatus:
        """Take any policy as the shadow, or none."""
        shadow = None if name is None else ShadowStatus(name, dict(options), 7, 2, 1, 1, "it went wrong")
        self.status = replace(self.status, shadow=shadow)
        return self.status

    def log(
        self, job: JobRecord, executor: ExecutorRecord | None, stream: str, offset: int, limit: int
    ) -> LogChunk:
        """Serve seven bytes at a time, so that a log takes several requests."""
        who = "driver" if executor is None else str(executor.number)
        data = self.logs.get(f"{who} {stream}", "").encode()[offset:][: min(limit, 7)]
        text = data.decode(errors="ignore")  # a character that is cut comes with the next part
        return LogChunk(text, offset + len(text.encode()), job.ended and not data)

    def ui(self, job: JobRecord) -> DriverUi | None:
        """There is none."""
        return None

    def uploads(self) -> Uploads:
        """Files, in the folder of the test."""
        assert self.folder is not None
        return Uploads(self.folder / "uploads", UploadsSection())

    def handed(self, job: JobRecord, key: str) -> None:
        """There is nothing."""

    def stages(self) -> Stages:
        """None took any time."""
        return Stages(0.0)

    def health(self) -> Health:
        """All is well, unless a test says otherwise."""
        return Health(self.healthy, {"mesos": "subscribed" if self.healthy else "not connected"})

    # what tests do with it

    def put(self, job_id: str, state: JobState, reason: str = "", **given: Any) -> None:
        """Let a job be in a state."""
        record = replace(self._record(job_id), state=state, reason=reason, **given)
        self.store.save(Changes((record,), ()))

    def place(self, job_id: str) -> None:
        """Let a job run: one executor on the first VM, chosen by ff."""
        at = time.time()
        task = ExecutorRecord(
            f"{job_id}.0",
            job_id,
            0,
            "S0",
            "m1.large-1",
            "m1.large",
            "127.0.1.1",
            0.24,
            Resources.of(1.0, 1024),
            (20000,),
            at,
        )
        record = replace(self._record(job_id), state="running", reason="", placed_at=at, started_at=at)
        self.store.save(Changes((record,), (replace(task, state="running"),)), (_placed(job_id, at),))

    def wait(self, job_id: str, vms: int) -> None:
        """Let a job wait, because none of so many VMs has room."""
        names = [f"m1.large-{i + 1}" for i in range(vms)]
        candidates = tuple(
            CandidateVm(
                name,
                "m1.large",
                {"cpus": 0.5, "mem": 512},
                (f"{name} has 0.5 cpus free, 1 needed",),
                None,
                False,
            )
            for name in names
        )
        choice = Choice(None, None, "no VM has room", candidates, 7)
        explanation = Explanation(time.time(), job_id, "ff", "wait", "no VM has room", (), (choice,))
        record = replace(self._record(job_id), reason="no VM has room")
        self.store.save(Changes((record,), ()), (explanation,))

    @property
    def applications(self) -> ApplicationDoor:
        """Those of a small scheduler."""
        return SmallScheduler(self.store).applications

    @property
    def webhooks(self) -> NotificationService:
        """Those that the test made, or none."""
        return self.office or NotificationService({}, self.store)

    @property
    def vms(self) -> TerminationEndpoint:
        """That of a small scheduler."""
        return SmallScheduler(self.store).vms

    @property
    def queues(self) -> QueueService:
        """Those that the store knows of."""
        return QueueService(LiveQueues(Config(), self.store), lambda: self.seen)

    def _record(self, job_id: str) -> JobRecord:
        record = self.store.job(job_id)
        if record is None:
            raise RejectedError(404, "No such job", f"there is no job {job_id}")
        return record


def _placed(job_id: str, at: float) -> Explanation:
    candidates = (
        CandidateVm("m1.large-1", "m1.large", {"cpus": 4.0, "mem": 16384}, (), 0.5, True),
        CandidateVm(
            "m1.large-2",
            "m1.large",
            {"cpus": 0.0, "mem": 16384},
            ("m1.large-2 has 0 cpus free, 1 needed",),
            0.25,
            False,
        ),
    )
    choice = Choice(0, "m1.large-1", "the first with room", candidates, 0)
    faults = ("the policy failed: ValueError: no",)
    return Explanation(at, job_id, "ff", "place", "1 of 1 executors placed: m1.large-1", faults, (choice,))


@contextlib.contextmanager
def served(
    cast: Cast,
    token: str | None = None,
    users: UsersSection | None = None,
    directory: Directory | None = None,
) -> Iterator[str]:
    """The API in a thread; its URL."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        app = create_app(
            cast,
            cast.store,
            AppOptions(token=token, version=version("stoker"), users=users, directory=directory),
        )
        server = make_server(app, listener, Http())
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join()


@dataclass(frozen=True)
class Daemon:
    """Where the API answers, and the scheduler behind it."""

    url: str
    cast: Cast

    def run(self, *arguments: str) -> int:
        """Run a command against this daemon, in this process."""
        return main(arguments)


Step = Callable[[], object]


@pytest.fixture
def at_each_pause(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Let a command that looks again and again find the next of these steps done, each time that it does."""

    def arrange(*steps: Step) -> None:
        left = iter(steps)

        def pause(_: float) -> None:
            step = next(left, None)
            assert step is not None, "it waits though everything has come"
            step()

        monkeypatch.setattr(follow, "time", SimpleNamespace(sleep=pause, monotonic=time.monotonic))

    return arrange


@pytest.fixture
def cast(tmp_path: Path) -> Iterator[Cast]:
    """A scheduler on a store of its own."""
    store = Store(f"sqlite:///{tmp_path / 'stoker.db'}")
    yield Cast(store, tmp_path)
    store.close()


@pytest.fixture
def daemon(cast: Cast, monkeypatch: pytest.MonkeyPatch) -> Iterator[Daemon]:
    """The API on a free port; commands ask it often, so that no test has to wait."""
    monkeypatch.setattr(follow, "POLL_SECONDS", 0.01)
    with served(cast) as url:
        monkeypatch.setenv("STOKER_URL", url)
        yield Daemon(url, cast)
