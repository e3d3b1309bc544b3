"""The client for programs with an event loop of asyncio: the methods of `client.py`, to be awaited."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Mapping, Sequence
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


class AsyncStoker:
    """As `Stoker`, for programs with an event loop of asyncio: each method is awaited, `logs` iterated."""

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
        self._http = httpx.AsyncClient(**self.settings.options())

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """See `Stoker.close`."""
        await self._http.aclose()

    async def submit(
        self,
        app: File,
        *,
        upload: bool = True,
        wait: bool = False,
        idempotency_key: str | None = None,
        **options: Unpack[JobOptions],
    ) -> Job:
        """See `Stoker.submit`."""
        job: Job = await self.run(flows.submit(app, options, upload=upload, idempotency_key=idempotency_key))
        return await self.wait(job["id"], check=True) if wait else job

    async def dry_run(self, app: File, *, upload: bool = True, **options: Unpack[JobOptions]) -> DryRun:
        """See `Stoker.dry_run`."""
        return await self.run(flows.dry_run(app, options, upload=upload))

    async def upload(self, path: File) -> str:
        """See `Stoker.upload`."""
        return await self.run(flows.upload_file(Path(path).expanduser()))

    async def wait(self, job_id: str, timeout: float | None = None, *, check: bool = False) -> JobDetail:
        """See `Stoker.wait`."""
        job: JobDetail = await self.run(flows.wait(job_id, timeout))
        if check and job["state"] != "finished":
            raise JobFailedError(job)
        return job

    async def jobs(
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
        """See `Stoker.jobs`."""
        return JobPage(await self.run(flows.jobs(state, owner, queue, type, group, labels, limit, before)))

    async def job(self, job_id: str) -> JobDetail:
        """See `Stoker.job`."""
        return await self.run(flows.ask("GET", f"/v1/jobs/{flows.part(job_id)}"))

    async def group(self, name: str) -> Group:
        """See `Stoker.group`."""
        return await self.run(flows.ask("GET", f"/v1/groups/{flows.part(name)}"))

    async def kill_group(self, name: str) -> Group:
        """See `Stoker.kill_group`."""
        return await self.run(flows.ask("POST", f"/v1/groups/{flows.part(name)}/kill"))

    async def kill(self, job_id: str) -> Job:
        """See `Stoker.kill`."""
        return await self.run(flows.ask("POST", f"/v1/jobs/{flows.part(job_id)}/kill"))

    async def explain(self, job_id: str) -> Explanation:
        """See `Stoker.explain`."""
        return await self.run(flows.ask("GET", f"/v1/jobs/{flows.part(job_id)}/explain"))

    async def decommission(self, job_id: str, executors: Sequence[int], reason: str = "") -> Job:
        """See `Stoker.decommission`."""
        body = {"executors": list(executors), "reason": reason}
        return await self.run(flows.ask("POST", f"/v1/jobs/{flows.part(job_id)}/decommission", json=body))

    async def logs(
        self, job_id: str, *, executor: int | None = None, stream: Stream = "stdout", follow: bool = False
    ) -> AsyncIterator[str]:
        """See `Stoker.logs`."""
        offset = 0
        while True:
            found = await self.run(flows.log_part(job_id, executor, stream, offset, follow=follow))
            if not found["text"]:
                return
            yield found["text"]
            offset = found["next_offset"]

    async def log(self, job_id: str, *, executor: int | None = None, stream: Stream = "stdout") -> str:
        """See `Stoker.log`."""
        return "".join([text async for text in self.logs(job_id, executor=executor, stream=stream)])

    async def events(
        self,
        *,
        job: str | None = None,
        since: float | None = None,
        after: int | None = None,
        limit: int = 1000,
    ) -> EventList:
        """See `Stoker.events`."""
        return await self.run(
            flows.ask("GET", "/v1/events", params=flows.given(job=job, since=since, after=after, limit=limit))
        )

    async def what_if(self, **asked: Any) -> Ahead:
        """See `Stoker.what_if`."""
        return await self.run(flows.what_if(asked))

    async def cluster(self) -> Cluster:
        """See `Stoker.cluster`."""
        return await self.run(flows.ask("GET", "/v1/cluster"))

    async def bill(
        self, by: str = "kind", *, since: str | None = None, until: str | None = None, limit: int = 1000
    ) -> Bill:
        """Cost of VMs, by kind, job, group, owner, queue, type, policy, pool, vm or day (UTC)."""
        asked = flows.given(by=by, since=since, until=until, limit=limit)
        return await self.run(flows.ask("GET", "/v1/bill", params=asked))

    async def policies(self) -> PolicyList:
        """See `Stoker.policies`."""
        return await self.run(flows.ask("GET", "/v1/policies"))

    async def policy(self) -> Policy:
        """See `Stoker.policy`."""
        return await self.run(flows.ask("GET", "/v1/policy"))

    async def set_policy(self, name: str, options: Mapping[str, Any] | None = None) -> Policy:
        """See `Stoker.set_policy`."""
        return await self.run(flows.ask("PUT", "/v1/policy", json={"name": name, **(options or {})}))

    async def set_shadow(self, name: str | None, options: Mapping[str, Any] | None = None) -> Policy:
        """See `Stoker.set_shadow`."""
        return await self.run(flows.set_shadow(name, options))

    async def queues(self) -> QueueList:
        """See `Stoker.queues`."""
        return await self.run(flows.ask("GET", "/v1/queues"))

    async def queue(self, path: str) -> Queue:
        """See `Stoker.queue`."""
        return await self.run(flows.ask("GET", f"/v1/queues/{flows.part(path)}"))

    async def set_queue(self, path: str, settings: Mapping[str, Any]) -> Queue:
        """See `Stoker.set_queue`."""
        return await self.run(flows.ask("PATCH", f"/v1/queues/{flows.part(path)}", json=dict(settings)))

    async def remove_queue(self, path: str) -> Queue:
        """See `Stoker.remove_queue`."""
        return await self.run(flows.ask("DELETE", f"/v1/queues/{flows.part(path)}"))

    async def comparison(self, limit: int = 20) -> Comparison:
        """See `Stoker.comparison`."""
        return await self.run(flows.ask("GET", "/v1/policy/comparison", params={"limit": limit}))

    async def sparks(self) -> Sparks:
        """See `Stoker.sparks`."""
        return await self.run(flows.ask("GET", "/v1/spark"))

    async def users(self) -> UserList:
        """See `Stoker.users`."""
        return await self.run(flows.ask("GET", "/v1/users"))

    async def set_user(self, name: str, settings: Mapping[str, Any]) -> User:
        """See `Stoker.set_user`."""
        return await self.run(flows.ask("PUT", f"/v1/users/{flows.part(name)}", json=dict(settings)))

    async def end_user(self, name: str) -> UserList:
        """See `Stoker.end_user`."""
        return await self.run(flows.ask("DELETE", f"/v1/users/{flows.part(name)}"))

    async def make_token(self, name: str, seconds: float | None = None) -> MadeToken:
        """See `Stoker.make_token`."""
        asked = flows.given(seconds=seconds)
        return await self.run(flows.ask("POST", f"/v1/users/{flows.part(name)}/tokens", json=asked))

    async def end_token(self, token: str) -> User:
        """See `Stoker.end_token`."""
        return await self.run(flows.ask("DELETE", f"/v1/tokens/{flows.part(token)}"))

    async def whoami(self) -> Me:
        """See `Stoker.whoami`."""
        return await self.run(flows.ask("GET", "/v1/me"))

    async def health(self) -> Health:
        """See `Stoker.health`."""
        return await self.run(flows.health())

    async def run(self, flow: Flow[Result]) -> Result:
        """See `Stoker.run`; local work that takes a while runs in a thread."""
        answer: Any = None
        step = flows.following(flow)
        while not isinstance(step, Done):
            try:
                if isinstance(step, Request):
                    answer = await self._http.request(step.method, step.path, **step.options)
                elif isinstance(step, Pause):
                    await asyncio.sleep(step.seconds)
                else:
                    answer = await asyncio.get_running_loop().run_in_executor(None, step.call)
            except (httpx.TransportError, OSError) as error:
                step = flows.following(flow, error=error)
            else:
                step = flows.following(flow, answer)
        return step.result
