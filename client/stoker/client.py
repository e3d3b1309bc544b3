"""The client of programs without an event loop: every operation of the API as a method that blocks."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
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


class Stoker(Operations):
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

    def run(self, flow: Flow[Result]) -> Result:
        """Run the steps of a flow and return its result."""
        answer: Any = None
        step = flows.following(flow)
        while not isinstance(step, Done):
            try:
                if isinstance(step, Request):
                    with self._http.stream(step.method, step.path, **step.options) as response:
                        body = flows.Body(response)
                        for part in response.iter_bytes():
                            body.add(part)
                    answer = body.whole()
                elif isinstance(step, Pause):
                    time.sleep(step.seconds)
                else:
                    answer = step.call()
            except (httpx.TransportError, OSError) as error:
                step = flows.following(flow, error=error)
            else:
                step = flows.following(flow, answer)
        result: Result = step.result
        return result

    @staticmethod
    def method(operation: Callable[..., Flow[Result]]) -> Callable[..., Result]:
        """Return a method that runs the operation's steps and blocks meanwhile."""

        @wraps(operation)
        def method(self: Stoker, *arguments: Any, **named: Any) -> Result:
            return self.run(operation(self, *arguments, **named))

        return method
