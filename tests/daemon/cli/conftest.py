"""A daemon for the commands to talk to: the real API and store, and a scheduler that obeys the test."""

import contextlib
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from conf.schema import Http, JobSpec, UploadsSection
from conf.schema.users import UsersSection
from daemon.auth.user_directory import Directory
from daemon.cli import main
from daemon.cli.shared import follow
from daemon.core.cluster_status import ClusterStatus, PoolStatus, VmStatus
from daemon.core.errors import RejectedError
from daemon.core.estimate import Coverage, IntervalCounts
from daemon.core.status import Health, LogChunk, PolicyStatus, ShadowStatus
from daemon.disk.uploads import Uploads
from daemon.http.app import create_app
from daemon.http.app_options import AppOptions
from daemon.http.server.uvicorn_server import make_server
from daemon.store.job_store import Store
from daemon.store.queries.insert_jobs import Added, SubmittedSpec
from environment.decisions.explain import CandidateVm, Choice, Explanation
from environment.model.cluster_model import Changes
from environment.model.messages.records import ExecutorRecord, JobRecord
from environment.model.messages.states import JobState
from environment.resources import Resources
from environment.types import Job
from tests.daemon.small_scheduler import SmallScheduler

VMS = (
    VmStatus("S0", "m1.large-1", "m1.large", "127.0.1.1", 4.0, 16384, 0.24, 1.0, 1024, ("job-1.0",)),
    VmStatus("S1", "m1.large-2", "m1.large", "127.0.1.2", 4.0, 16384, 0.24, 0.0, 0, ()),
)


class Cast(SmallScheduler):
    """A scheduler without a cluster: jobs are in the state in which the test puts them."""

    largest = 4
    too_large = ("The job fits no cluster of this size", "m1.large-1 has 4 cpus")

    def __init__(self, store: Store, folder: Path) -> None:
        super().__init__(store)
        self.logs: dict[str, str] = {}
        self.status = PolicyStatus("ff", {}, 3, 1, 0, "")
        #: What becomes of a job right after its submission.
        self.fate: Callable[[str], None] | None = None
        self.pools: tuple[PoolStatus, ...] = ()
        #: How many JVMs its machine carries, if jobs wait for that.
        self.carries: int | None = None
        #: What a submission that was tried would send: bytes by hash.
        self.sent: dict[str, int] = {}
        self.uploads = Uploads(folder / "uploads", UploadsSection())

    def _add(self, spec: JobSpec, key: str | None) -> Added:
        now = time.time()
        record, new = self.store.jobs.new.add_one(spec, self._job(spec, now), key, now)
        if self.fate is not None:
            self.fate(record.job.id)
        return record, new

    def trial(self, submitted: SubmittedSpec, sends: Mapping[str, int]) -> Sequence[Job]:
        """Return the job as it would be; record the files to send in `sent`."""
        self.sent = dict(sends)
        return [self._job(submitted.spec, time.time())("job-99")]

    def kill(self, job_id: str) -> JobRecord:
        """End the job at once."""
        record = self._record(job_id)
        if not record.ended:
            self.put(job_id, "killed", "killed by its user")
        return record

    def decommission(self, job_id: str, numbers: Sequence[int], why: str) -> JobRecord:
        """Note it in the job's reason."""
        self.put(job_id, "running", f"gives {list(numbers)} up: {why}")
        return self._record(job_id)

    def cluster(self) -> ClusterStatus:
        """Two VMs, and pools when a test says so."""
        return ClusterStatus(VMS, self.pools, jvms=self.carries, crowded=self.carries is not None)

    def standing(self) -> None:
        """Only the store knows."""

    def coverage(self) -> Coverage:
        """Most were right."""
        return Coverage(IntervalCounts(9, 1, 2))

    def set_policy(self, name: str, options: Mapping[str, Any]) -> PolicyStatus:
        """Take any policy that can be made; it failed once."""
        super().set_policy(name, options)
        self.status = PolicyStatus(name, dict(options), 3, 1, 1, "it chose a full VM", "ff")
        return self.status

    def set_shadow(self, name: str | None, options: Mapping[str, Any]) -> PolicyStatus:
        """Take any policy as the shadow, or none; it failed once."""
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

    def health(self) -> Health:
        """All is well, unless a test says otherwise."""
        return Health(self.ready, {"mesos": "subscribed" if self.ready else "not connected"})

    # what tests do with it

    def put(self, job_id: str, state: JobState, reason: str = "", **given: Any) -> None:
        """Let a job be in a state."""
        record = replace(self._record(job_id), state=state, reason=reason, **given)
        self.store.changes.save(Changes((record,), ()))

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
        self.store.changes.save(Changes((record,), (replace(task, state="running"),)), (_placed(job_id, at),))

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
        self.store.changes.save(Changes((record,), ()), (explanation,))

    def _record(self, job_id: str) -> JobRecord:
        record = self.store.jobs.get(job_id)
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
