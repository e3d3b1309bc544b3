"""The users of a chaos run: they submit jobs, send them again, kill some, and know how each must end."""

import itertools
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

from stoker import Stoker, StokerError

from tests.chaos import hostile
from tests.chaos.scene import SPARK, Scene

#: Kinds of jobs with their weights: what each must come to is in `Submission.expected`.
KINDS = {
    "short": 8, "fails": 2, "broken": 0.5, "endless": 1, "clustered": 2, "overdue": 1, "hostile": 1.5,
    "stubborn": 0.5,
}  # fmt: skip
#: What the hostile ones do; stubborn ones do what has to be killed.
HOSTILE = (
    "forks", "has a FIFO for a log", "has a link for a log", "has a link for its folder",
    "has FIFOs for all that Spark writes", "writes records into its folder", "leaves its session",
)  # fmt: skip
#: Seconds: too long for a job that works for moments, too short for an hour that never was.
PLENTY = 600.0
KILL_SHARE = 0.1  # of the jobs that would end by themselves


@dataclass
class Submission:
    """One job as its user sees it; `id` once it was accepted."""

    key: str
    kind: str
    seconds: float
    executors: int
    deed: str = ""
    id: str = ""
    killed: bool = False
    #: Why it may have failed though it is not to blame.
    excuses: set[str] = field(default_factory=set)

    def spec(self, log: str) -> dict[str, object]:
        """The body of the submission."""
        code = 3 if self.kind == "fails" else 0
        environment = {"CHAOS_LOG": log, "CHAOS_KEY": self.key}
        if self.kind == "broken":
            environment["CHAOS_BROKEN"] = "1"
        if self.deed:
            environment["CHAOS_SCRIPT"] = hostile.KINDS[self.deed].script
        spec: dict[str, object] = {
            "app": str(SPARK / "home/driver.py"), "args": [str(self.seconds), str(code)], "name": self.key,
            "type": self.kind, "executors": self.executors, "cpus": 0.5, "memory": 1024, "env": environment,
        }  # fmt: skip
        if limit := {"short": PLENTY, "overdue": 2.0}.get(self.kind):
            spec["max_runtime"] = limit
        if self.kind == "clustered":
            spec["driver"] = {"on": "cluster", "cpus": 0.5, "memory": 1024}
        return spec

    @property
    def unending(self) -> bool:
        """Whether it runs until it is killed."""
        return self.kind in ("endless", "stubborn")

    @property
    def expected(self) -> set[str]:
        """The states in which it may end; all that ends well exits with code 0."""
        others = {"fails": "failed", "broken": "failed", "overdue": "failed"}
        by_itself = "killed" if self.unending else others.get(self.kind, "finished")
        expected = {by_itself} | ({"killed"} if self.killed else set())
        # A driver on the cluster dies with its VM, and then the job has failed.
        return expected | ({"failed"} if self.excuses or self.kind == "clustered" else set())


class Users(threading.Thread):
    """Submits a job every now and then, until `stop`; a submission is repeated until it is answered."""

    def __init__(self, scene: Scene, seed: int, pause: float) -> None:
        super().__init__(name="users")
        self.jobs: list[Submission] = []
        self.resent: Counter[str] = Counter()
        self.complaints: list[str] = []
        self._scene = scene
        self._random = Random(seed)  # noqa: S311 - no secret hangs on it
        self._pause = pause
        self._enough = threading.Event()

    def run(self) -> None:
        """Work until it is enough; then end jobs that would never end."""
        try:
            self._work()
        except Exception as error:
            self.complaints.append(f"the users gave up: {type(error).__name__}: {error}")
            raise

    def _work(self) -> None:
        while not self._enough.wait(self._pause * self._random.uniform(0.2, 1.8)):
            self._submit()
            if self._random.random() < 2 * KILL_SHARE:
                self._kill(self._random.choice(self.jobs[-8:]))
        for job in self.jobs:
            if job.unending and not job.killed:
                self._kill(job)

    def stop(self) -> None:
        """Submit no more, and come to an end."""
        self._enough.set()
        self.join()

    def job(self, job_id: str) -> Submission | None:
        """The submission that got this id."""
        return next((job for job in self.jobs if job.id == job_id), None)

    def _submit(self) -> None:
        (kind,) = self._random.choices(list(KINDS), list(KINDS.values()))
        working = kind in ("short", "fails", "clustered", "hostile")
        seconds = round(self._random.uniform(0.1, 2.5), 2) if working else 3600.0
        deed = {"hostile": self._random.choice(HOSTILE), "stubborn": "ignores SIGTERM"}.get(kind, "")
        job = Submission(f"key-{len(self.jobs)}", kind, seconds, self._random.choice((1, 1, 2, 3)), deed)
        self.jobs.append(job)
        job.id = self._insist(lambda client: self._send(client, job))
        if self._random.random() < 0.2:
            self.resent["after an answer"] += 1
            again = self._insist(lambda client: self._send(client, job))
            if again != job.id:
                self.complaints.append(f"{job.key} is {job.id} and {again}")

    def _send(self, client: Stoker, job: Submission) -> str:
        return str(client.submit_spec(job.spec(str(self._scene.log)), job.key)["id"])

    def _kill(self, job: Submission) -> None:
        self._insist(lambda client: str(client.kill(job.id)["id"]))
        job.killed = True

    def _insist(self, ask: Callable[[Stoker], str]) -> str:
        """Ask until a daemon answers: it may be down, or go down before it answers; then ask the next."""
        for turn in itertools.count():
            try:
                with self._scene.client(turn) as client:
                    return ask(client)
            except StokerError as error:
                self.resent[type(error).__name__] += 1
                time.sleep(0.2)
        raise AssertionError("there is always another turn")
