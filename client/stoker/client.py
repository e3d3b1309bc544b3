"""The client: a method for each operation of the API, which blocks until it has its answer.

`flows.py` defines the requests and the results of a method; this module runs the steps. `asynchronous.py` has
the same methods for programs with an event loop.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import httpx

from stoker import flows
from stoker.errors import JobFailedError
from stoker.flows import Done, Flow, Pause, Request
from stoker.pages import JobPage
from stoker.settings import settings

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Literal

    from typing_extensions import Self, Unpack

    from stoker.answers import (
        Ahead,
        Bill,
        Cluster,
        Comparison,
        DryRun,
        EventList,
        Explanation,
        Group,
        Health,
        Job,
        JobDetail,
        JobOptions,
        MadeToken,
        Me,
        Policy,
        PolicyList,
        Queue,
        QueueList,
        Sparks,
        User,
        UserList,
    )

    File = str | os.PathLike[str]
    Stream = Literal["stdout", "stderr"]

Result = TypeVar("Result")


class Stoker:
    """A connection to a daemon; every method raises StokerError, and blocks until it has its answer.

    Without arguments, the daemon is at `STOKER_URL`, else on this machine; `STOKER_TOKEN_FILE` and
    `STOKER_CA` name files with its token and with the authority of its certificate.
    """

    def __init__(
        self,
        url: str | None = None,
        token_file: File | None = None,
        ca: File | None = None,
        *,
        token: str | None = None,
        timeout: float = 30.0,
    ) -> None:
        self.settings = settings(url, token_file, ca, token=token, timeout=timeout)
        self._http = httpx.Client(**self.settings.options())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the connections."""
        self._http.close()

    def submit(
        self,
        app: File,
        *,
        upload: bool = True,
        wait: bool = False,
        idempotency_key: str | None = None,
        **options: Unpack[JobOptions],
    ) -> Job:
        """Submit a job: a Python file or a jar, with the keys of a job file as options; the job.

        Files of this machine are sent, those that the daemon has are not sent again; with `upload=False` the
        daemon finds them at the same paths. With `wait`, it is the job as it ended; JobFailedError unless it
        finished.
        """
        job: Job = self.run(flows.submit(app, options, upload=upload, idempotency_key=idempotency_key))
        return self.wait(job["id"], check=True) if wait else job

    def dry_run(self, app: File, *, upload: bool = True, **options: Unpack[JobOptions]) -> DryRun:
        """Forecast a job, as `submit` accepts it: VM, time and price of its run.

        Nothing is submitted or sent. ProblemError for a job that a submission would reject.
        """
        return self.run(flows.dry_run(app, options, upload=upload))

    def upload(self, path: File) -> str:
        """Send a file of this machine; how jobs name it, `stoker-file:SHA256/NAME`."""
        return self.run(flows.upload_file(Path(path).expanduser()))

    def wait(self, job_id: str, timeout: float | None = None, *, check: bool = False) -> JobDetail:
        """Wait for a job's end; the job as it ended.

        TimeoutError after so many seconds. With `check`, JobFailedError unless it finished.
        """
        job: JobDetail = self.run(flows.wait(job_id, timeout))
        if check and job["state"] != "finished":
            raise JobFailedError(job)
        return job

    def jobs(
        self,
        *,
        state: str | Sequence[str] = (),
        owner: str | Sequence[str] = (),
        queue: str | Sequence[str] = (),
        type: str | Sequence[str] = (),  # noqa: A002 - what jobs call it
        group: str | None = None,
        labels: Mapping[str, str] | None = None,
        limit: int = 100,
        before: str | None = None,
    ) -> JobPage:
        """The jobs, the newest first: of these states, owners, queues, types, group, labels, before that.

        `for job in client.jobs()` goes over them; `next` of the answer is `before` of the next page.
        """
        return JobPage(self.run(flows.jobs(state, owner, queue, type, group, labels, limit, before)))

    def job(self, job_id: str) -> JobDetail:
        """A job with its executors."""
        return self.run(flows.ask("GET", f"/v1/jobs/{flows.part(job_id)}"))

    def group(self, name: str) -> Group:
        """The jobs of a group, or of an array by its id, as one."""
        return self.run(flows.ask("GET", f"/v1/groups/{flows.part(name)}"))

    def kill_group(self, name: str) -> Group:
        """Ask for the end of all of them; the group."""
        return self.run(flows.ask("POST", f"/v1/groups/{flows.part(name)}/kill"))

    def kill(self, job_id: str) -> Job:
        """Ask for a job's end; the job."""
        return self.run(flows.ask("POST", f"/v1/jobs/{flows.part(job_id)}/kill"))

    def explain(self, job_id: str) -> Explanation:
        """Why a job's executors are where they are, or why it waits."""
        return self.run(flows.ask("GET", f"/v1/jobs/{flows.part(job_id)}/explain"))

    def decommission(self, job_id: str, executors: Sequence[int], reason: str = "") -> Job:
        """Have a job's driver give up executors, by their numbers, after their blocks have moved; the job."""
        body = {"executors": list(executors), "reason": reason}
        return self.run(flows.ask("POST", f"/v1/jobs/{flows.part(job_id)}/decommission", json=body))

    def logs(
        self, job_id: str, *, executor: int | None = None, stream: Stream = "stdout", follow: bool = False
    ) -> Iterator[str]:
        """Output of a driver or an executor, part by part; with `follow`, until no more can come."""
        offset = 0
        while True:
            found = self.run(flows.log_part(job_id, executor, stream, offset, follow=follow))
            if not found["text"]:
                return
            yield found["text"]
            offset = found["next_offset"]

    def log(self, job_id: str, *, executor: int | None = None, stream: Stream = "stdout") -> str:
        """All that a driver, or an executor, has printed so far."""
        return "".join(self.logs(job_id, executor=executor, stream=stream))

    def events(
        self,
        *,
        job: str | None = None,
        since: float | None = None,
        after: int | None = None,
        limit: int = 1000,
    ) -> EventList:
        """Events, oldest first: of a job, since a time (seconds), after an event's number."""
        return self.run(
            flows.ask("GET", "/v1/events", params=flows.given(job=job, since=since, after=after, limit=limit))
        )

    def what_if(self, **asked: Any) -> Ahead:
        """Forecast of the queue.

        By `policies`, `cases`, `draws` and `seconds` of POST /v1/what-if.
        """
        return self.run(flows.what_if(asked))

    def cluster(self) -> Cluster:
        """The VMs, with their used resources."""
        return self.run(flows.ask("GET", "/v1/cluster"))

    def bill(
        self, by: str = "kind", *, since: str | None = None, until: str | None = None, limit: int = 1000
    ) -> Bill:
        """Cost of VMs, by kind, job, group, owner, queue, type, policy, pool, vm or day (UTC)."""
        asked = flows.given(by=by, since=since, until=until, limit=limit)
        return self.run(flows.ask("GET", "/v1/bill", params=asked))

    def policies(self) -> PolicyList:
        """The policies that there are."""
        return self.run(flows.ask("GET", "/v1/policies"))

    def policy(self) -> Policy:
        """The acting policy."""
        return self.run(flows.ask("GET", "/v1/policy"))

    def set_policy(self, name: str, options: Mapping[str, Any] | None = None) -> Policy:
        """Let another policy decide from now on: `set_policy("greedy:beta=0.5")`."""
        return self.run(flows.ask("PUT", "/v1/policy", json={"name": name, **(options or {})}))

    def set_shadow(self, name: str | None, options: Mapping[str, Any] | None = None) -> Policy:
        """Let a policy decide beside the acting one, without effect; None: none any more."""
        return self.run(flows.set_shadow(name, options))

    def queues(self) -> QueueList:
        """The queues, with their use and their waiting jobs."""
        return self.run(flows.ask("GET", "/v1/queues"))

    def queue(self, path: str) -> Queue:
        """A queue, by its path such as prod.etl."""
        return self.run(flows.ask("GET", f"/v1/queues/{flows.part(path)}"))

    def set_queue(self, path: str, settings: Mapping[str, Any]) -> Queue:
        """Change settings of a queue, or make one: {"weight": 3, "most": {"cpus": 16}}; None takes back."""
        return self.run(flows.ask("PATCH", f"/v1/queues/{flows.part(path)}", json=dict(settings)))

    def remove_queue(self, path: str) -> Queue:
        """Remove a queue that has neither jobs that are not over nor queues below it; as it was."""
        return self.run(flows.ask("DELETE", f"/v1/queues/{flows.part(path)}"))

    def comparison(self, limit: int = 20) -> Comparison:
        """Decisions in which shadow policies differ, and their estimated cost."""
        return self.run(flows.ask("GET", "/v1/policy/comparison", params={"limit": limit}))

    def sparks(self) -> Sparks:
        """The Sparks that are served, and which of them is the default."""
        return self.run(flows.ask("GET", "/v1/spark"))

    def users(self) -> UserList:
        """The users with their rights and tokens."""
        return self.run(flows.ask("GET", "/v1/users"))

    def set_user(self, name: str, settings: Mapping[str, Any]) -> User:
        """Add a user, or change settings of one: {"role": "submit", "queues": ["prod"]}."""
        return self.run(flows.ask("PUT", f"/v1/users/{flows.part(name)}", json=dict(settings)))

    def end_user(self, name: str) -> UserList:
        """End a user and all tokens of that name; those that are left."""
        return self.run(flows.ask("DELETE", f"/v1/users/{flows.part(name)}"))

    def make_token(self, name: str, seconds: float | None = None) -> MadeToken:
        """Make a token for a user, which ends after so many seconds; the daemon tells it this once."""
        asked = flows.given(seconds=seconds)
        return self.run(flows.ask("POST", f"/v1/users/{flows.part(name)}/tokens", json=asked))

    def end_token(self, token: str) -> User:
        """End a token by its id; return its user."""
        return self.run(flows.ask("DELETE", f"/v1/tokens/{flows.part(token)}"))

    def whoami(self) -> Me:
        """The requesting user as the daemon knows it, with its rights."""
        return self.run(flows.ask("GET", "/v1/me"))

    def health(self) -> Health:
        """Whether jobs can be scheduled now, and if not, why."""
        return self.run(flows.health())

    def run(self, flow: Flow[Result]) -> Result:
        """Run the steps of a flow and return its result."""
        answer: Any = None
        step = flows.following(flow)
        while not isinstance(step, Done):
            try:
                if isinstance(step, Request):
                    answer = self._http.request(step.method, step.path, **step.options)
                elif isinstance(step, Pause):
                    time.sleep(step.seconds)
                else:
                    answer = step.call()
            except (httpx.TransportError, OSError) as error:
                step = flows.following(flow, error=error)
            else:
                step = flows.following(flow, answer)
        return step.result
