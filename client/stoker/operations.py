"""The API's operations, each described once: methods that block of `Stoker`, awaited ones of `AsyncStoker`.

An operation returns its steps (`flows.py`), and the method of a client runs them.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Coroutine, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, TypeVar, overload

from stoker import flows
from stoker.errors import JobFailedError
from stoker.flows import ask, given, part
from stoker.pages import JobPage

if TYPE_CHECKING:
    import os
    from typing import Literal, Protocol, Union

    from typing_extensions import Unpack

    from stoker.answers import (
        Ahead,
        Bill,
        Cluster,
        Comparison,
        DryRun,
        EventList,
        Explanation,
        Focus,
        Group,
        Health,
        Job,
        JobDetail,
        JobOptions,
        Log,
        MadeToken,
        Me,
        Policy,
        PolicyList,
        Promoted,
        Queue,
        QueueList,
        Sparks,
        Tried,
        User,
        UserList,
        WebhookList,
    )
    from stoker.asynchronous import AsyncStoker
    from stoker.client import Stoker
    from stoker.flows import Flow

    File = Union[str, os.PathLike[str]]
    Stream = Literal["stdout", "stderr"]
    Texts = Union[str, Sequence[str], None]

    class Client(Protocol):
        """A kind of client, which makes methods of operations."""

        @staticmethod
        def method(operation: Callable[..., Flow[Any]]) -> Callable[..., Any]:
            """Return a method that runs the operation's steps."""


P = ParamSpec("P")
R = TypeVar("R")


class Operation(Generic[P, R]):
    """An attribute that is a blocking method of `Stoker`, and one to be awaited of `AsyncStoker`."""

    def __init__(self, steps: Callable[Concatenate[Any, P], Flow[R]]) -> None:
        self._steps = steps
        self._methods: dict[type, Callable[..., Any]] = {}

    @overload
    def __get__(self, client: None, kind: type) -> Callable[Concatenate[Any, P], Any]: ...
    @overload
    def __get__(self, client: Stoker, kind: type) -> Callable[P, R]: ...
    @overload
    def __get__(self, client: AsyncStoker, kind: type) -> Callable[P, Coroutine[Any, Any, R]]: ...
    def __get__(self, client: Any, kind: type[Client]) -> Any:
        """The method of a client, or the function of its class."""
        if kind not in self._methods:
            self._methods[kind] = method = kind.method(self._steps)
            signature = inspect.signature(self._steps)
            result = str(signature.return_annotation).removeprefix("Flow[").removesuffix("]")
            method.__signature__ = signature.replace(return_annotation=result)  # type: ignore[attr-defined]
        return self._methods[kind].__get__(client, kind)


class Operations:
    """All operations that are over with their answer."""

    @Operation
    def submit(
        self,
        app: File,
        *,
        upload: bool = True,
        wait: bool = False,
        idempotency_key: str | None = None,
        **options: Unpack[JobOptions],
    ) -> Flow[Job]:
        """Submit a job: a Python file or a jar, with the keys of a job file as options; the job.

        Files of this machine are sent, those that the daemon has are not sent again; with `upload=False` the
        daemon finds them at the same paths. With `wait`, it is the job as it ended; JobFailedError unless it
        finished.
        """
        spec = yield from flows.spec(app, options, upload=upload)
        job: Job = yield from flows.submit(spec, idempotency_key)
        if wait:
            job = _finished((yield from flows.wait(job["id"])))
        return job

    @Operation
    def submit_spec(self, spec: Mapping[str, Any], idempotency_key: str | None = None) -> Flow[Job]:
        """Submit a job in the API's own form, of files that the daemon has; the job."""
        return flows.submit(spec, idempotency_key)

    @Operation
    def dry_run(self, app: File, *, upload: bool = True, **options: Unpack[JobOptions]) -> Flow[DryRun]:
        """Forecast a job, as `submit` accepts it: VM, time and price of its run.

        Nothing is submitted or sent. ProblemError for a job that a submission would reject.
        """
        sizes: dict[str, int] = {}
        spec = yield from flows.spec(app, options, upload=upload, sizes=sizes)
        return (yield from flows.dry_run(spec, sizes))

    @Operation
    def upload(self, path: File) -> Flow[str]:
        """Send a file of this machine; how jobs name it, `stoker-file:SHA256/NAME`."""
        return flows.upload_file(Path(path).expanduser())

    @Operation
    def wait(self, job_id: str, timeout: float | None = None, *, check: bool = False) -> Flow[JobDetail]:
        """Wait for a job's end; the job as it ended.

        TimeoutError after so many seconds. With `check`, JobFailedError unless it finished.
        """
        job: JobDetail = yield from flows.wait(job_id, timeout)
        return _finished(job) if check else job

    @Operation
    def jobs(
        self: Any,
        *,
        state: Texts = None,
        owner: Texts = None,
        queue: Texts = None,
        type: Texts = None,  # noqa: A002 - what jobs call it
        group: str | None = None,
        labels: Mapping[str, str] | Sequence[str] | None = None,
        limit: int | None = None,
        before: str | None = None,
        order: Literal["newest", "oldest"] | None = None,
    ) -> Flow[JobPage]:
        """The jobs, the newest first: of these states, owners, queues, types, group, labels, before that.

        `for job in client.jobs()` goes over all of them, `async for job in await client.jobs()` with
        AsyncStoker. The answer has the first `limit`, or 100; its `next` is `before` of the next page. Labels
        are a mapping, or texts such as team=a.
        """
        label = (
            [f"{name}={value}" for name, value in labels.items()] if isinstance(labels, Mapping) else labels
        )
        wanted = given(state=state, owner=owner, queue=queue, type=type, group=group, label=label)
        params = {**wanted, **given(limit=limit, before=before, order=order)}
        page = JobPage((yield from ask("GET", "/v1/jobs", params=params)))
        if limit is None and page["next"] is not None:
            same = {"state": state, "owner": owner, "queue": queue, "type": type, "group": group}
            page.more = partial(self.jobs, **same, labels=labels, before=page["next"], order=order)
        return page

    @Operation
    def job(self, job_id: str) -> Flow[JobDetail]:
        """A job with its executors."""
        return ask("GET", f"/v1/jobs/{part(job_id)}")

    @Operation
    def group(self, name: str) -> Flow[Group]:
        """The jobs of a group, or of an array by its id, as one."""
        return ask("GET", f"/v1/groups/{part(name)}")

    @Operation
    def kill_group(self, name: str) -> Flow[Group]:
        """Ask for the end of all of them; the group."""
        return ask("POST", f"/v1/groups/{part(name)}/kill")

    @Operation
    def kill(self, job_id: str) -> Flow[Job]:
        """Ask for a job's end; the job."""
        return ask("POST", f"/v1/jobs/{part(job_id)}/kill")

    @Operation
    def explain(self, job_id: str) -> Flow[Explanation]:
        """Reasons for a job's placement or wait."""
        return ask("GET", f"/v1/jobs/{part(job_id)}/explain")

    @Operation
    def decommission(self, job_id: str, executors: Sequence[int], reason: str = "") -> Flow[Job]:
        """Have a job's driver give up executors, by their numbers, after their blocks have moved; the job."""
        body = {"executors": list(executors), "reason": reason}
        return ask("POST", f"/v1/jobs/{part(job_id)}/decommission", json=body)

    @Operation
    def log_part(
        self, job_id: str, *, executor: int | None = None, stream: Stream = "stdout", offset: int = 0
    ) -> Flow[Log]:
        """The part of a log that begins at this byte; empty where none is there yet."""
        return flows.log_part(job_id, executor, stream, offset, follow=False)

    @Operation
    def log(self, job_id: str, *, executor: int | None = None, stream: Stream = "stdout") -> Flow[str]:
        """All that a driver, or an executor, has printed so far."""
        texts: list[str] = []
        offset = 0
        while True:
            found: Log = yield from flows.log_part(job_id, executor, stream, offset, follow=False)
            if not found["text"]:
                return "".join(texts)
            texts.append(found["text"])
            offset = found["next_offset"]

    @Operation
    def events(
        self,
        *,
        job: str | None = None,
        since: float | None = None,
        after: int | None = None,
        limit: int = 1000,
    ) -> Flow[EventList]:
        """Events, oldest first: of a job, since a time (seconds), after an event's number."""
        return ask("GET", "/v1/events", params=given(job=job, since=since, after=after, limit=limit))

    @Operation
    def what_if(self, /, **asked: Any) -> Flow[Ahead]:
        """Forecast of the queue.

        By `policies`, `cases`, `draws` and `seconds` of POST /v1/what-if.
        """
        return flows.what_if(asked)

    @Operation
    def cluster(self) -> Flow[Cluster]:
        """The VMs, with their used resources."""
        return ask("GET", "/v1/cluster")

    @Operation
    def bill(
        self, by: str = "kind", *, since: str | None = None, until: str | None = None, limit: int = 1000
    ) -> Flow[Bill]:
        """Cost of VMs, by kind, job, group, owner, queue, type, policy, pool, vm or day (UTC)."""
        return ask("GET", "/v1/bill", params=given(by=by, since=since, until=until, limit=limit))

    @Operation
    def bill_in_focus(self, day: str, *, after: str | None = None) -> Flow[Focus]:
        """Cost of VMs on a day (UTC, 2026-11-22), with the columns of FinOps FOCUS 1.2.

        In pages: `after` is the `next` of the page before.
        """
        return ask("GET", "/v1/bill/focus", params=given(day=day, after=after))

    @Operation
    def policies(self) -> Flow[PolicyList]:
        """The policies that there are."""
        return ask("GET", "/v1/policies")

    @Operation
    def policy(self) -> Flow[Policy]:
        """The acting policy."""
        return ask("GET", "/v1/policy")

    @Operation
    def set_policy(self, name: str, options: Mapping[str, Any] | None = None) -> Flow[Policy]:
        """Let another policy decide from now on: `set_policy("greedy:beta=0.5")`."""
        return ask("PUT", "/v1/policy", json={"name": name, **(options or {})})

    @Operation
    def set_shadow(self, name: str | None, options: Mapping[str, Any] | None = None) -> Flow[Policy]:
        """Let a policy decide beside the acting one, without effect; None: none any more."""
        if name is None:
            return ask("DELETE", "/v1/policy/shadow")
        return ask("PUT", "/v1/policy/shadow", json={"name": name, **(options or {})})

    @Operation
    def promote_policy(
        self,
        name: str,
        options: Mapping[str, Any] | None = None,
        *,
        since: float,
        draws: int = 20,
        seconds: float = 60.0,
        dry_run: bool = False,
    ) -> Flow[Promoted]:
        """Let another policy decide if past jobs show that it is better; if not, `why` has the reason.

        Those are the jobs `since` then, in seconds since the epoch. `seconds` limits the simulation.
        """
        policy = {"name": name, **(options or {})}
        asked = {"policy": policy, "since": since, "draws": draws, "seconds": seconds, "dry_run": dry_run}
        return flows.promote(asked)

    @Operation
    def comparison(self, limit: int = 20) -> Flow[Comparison]:
        """Decisions in which shadow policies differ, and their estimated cost."""
        return ask("GET", "/v1/policy/comparison", params={"limit": limit})

    @Operation
    def queues(self) -> Flow[QueueList]:
        """The queues, with their use and their waiting jobs."""
        return ask("GET", "/v1/queues")

    @Operation
    def queue(self, path: str) -> Flow[Queue]:
        """A queue, by its path such as prod.etl."""
        return ask("GET", f"/v1/queues/{part(path)}")

    @Operation
    def set_queue(self, path: str, settings: Mapping[str, Any]) -> Flow[Queue]:
        """Change settings of a queue, or make one: {"weight": 3, "most": {"cpus": 16}}; None takes back."""
        return ask("PATCH", f"/v1/queues/{part(path)}", json=dict(settings))

    @Operation
    def remove_queue(self, path: str) -> Flow[Queue]:
        """Remove a queue that has no queue below it and no unfinished job; returns its last state."""
        return ask("DELETE", f"/v1/queues/{part(path)}")

    @Operation
    def sparks(self) -> Flow[Sparks]:
        """The Sparks that are served, and which of them is the default."""
        return ask("GET", "/v1/spark")

    @Operation
    def users(self) -> Flow[UserList]:
        """The users with their rights and tokens."""
        return ask("GET", "/v1/users")

    @Operation
    def set_user(self, name: str, settings: Mapping[str, Any]) -> Flow[User]:
        """Add a user, or change settings of one: {"role": "submit", "queues": ["prod"]}."""
        return ask("PUT", f"/v1/users/{part(name)}", json=dict(settings))

    @Operation
    def end_user(self, name: str) -> Flow[UserList]:
        """End a user and all tokens of that name; those that are left."""
        return ask("DELETE", f"/v1/users/{part(name)}")

    @Operation
    def make_token(self, name: str, seconds: float | None = None) -> Flow[MadeToken]:
        """Make a token for a user, which ends after so many seconds; the daemon tells it this once."""
        return ask("POST", f"/v1/users/{part(name)}/tokens", json=given(seconds=seconds))

    @Operation
    def end_token(self, token: str) -> Flow[User]:
        """End a token by its id; return its user."""
        return ask("DELETE", f"/v1/tokens/{part(token)}")

    @Operation
    def whoami(self) -> Flow[Me]:
        """The requesting user as the daemon knows it, with its rights."""
        return ask("GET", "/v1/me")

    @Operation
    def webhooks(self) -> Flow[WebhookList]:
        """The webhooks of the config, with their state."""
        return ask("GET", "/v1/webhooks")

    @Operation
    def try_webhook(self, name: str) -> Flow[Tried]:
        """Send a test request to a webhook, once; the result."""
        return ask("POST", f"/v1/webhooks/{part(name)}/test", timeout=flows.WEBHOOK_SECONDS)

    @Operation
    def health(self) -> Flow[Health]:
        """Whether jobs can be scheduled now, and if not, why."""
        return flows.health()

    @Operation
    def ready(self) -> Flow[bool]:
        """Whether a daemon answers within two seconds, and can schedule jobs."""
        return flows.ready()


def _finished(job: JobDetail) -> JobDetail:
    if job["state"] != "finished":
        raise JobFailedError(job)
    return job
