"""The client for programs with an event loop of asyncio: the methods of `client.py`, to be awaited."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar

import httpx

from stoker import flows
from stoker.flows import Done, Flow, Pause, Request
from stoker.operations import Operations
from stoker.settings import settings

if TYPE_CHECKING:
    from types import TracebackType

    from typing_extensions import Self

    from stoker.operations import File, Stream

Result = TypeVar("Result")


class AsyncStoker(Operations):
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

    async def run(self, flow: Flow[Result]) -> Result:
        """See `Stoker.run`; local work that takes a while runs in a thread."""
        answer: Any = None
        step = flows.following(flow)
        while not isinstance(step, Done):
            try:
                if isinstance(step, Request):
                    async with self._http.stream(step.method, step.path, **step.options) as response:
                        body = flows.Body(response)
                        async for part in response.aiter_bytes():
                            body.add(part)
                    answer = body.whole()
                elif isinstance(step, Pause):
                    await asyncio.sleep(step.seconds)
                else:
                    answer = await asyncio.get_running_loop().run_in_executor(None, step.call)
            except (httpx.TransportError, OSError) as error:
                step = flows.following(flow, error=error)
            else:
                step = flows.following(flow, answer)
        result: Result = step.result
        return result

    @staticmethod
    def method(operation: Callable[..., Flow[Result]]) -> Callable[..., Coroutine[Any, Any, Result]]:
        """Return a method to be awaited that runs the operation's steps."""

        @wraps(operation)
        async def method(self: AsyncStoker, *arguments: Any, **named: Any) -> Result:
            return await self.run(operation(self, *arguments, **named))

        return method
