"""The route by which jobs come in, made for hundreds in a second.

What FastAPI does with every request, and asyncio with every call that a thread does for it, costs more than
the submission itself. Here a request without fault takes a shorter way; any other goes FastAPI's, which finds
what is wrong with it.
"""

import asyncio
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Annotated

from fastapi import Header, Request, Response
from pydantic import TypeAdapter
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from conf.schema import JobSpec
from daemon import schemas
from daemon.audit import BODY
from daemon.contract import Scheduler
from daemon.problems import REFUSED, answer
from environment.model.records import JobRecord

#: Where jobs are submitted.
PATH = "/v1/jobs"

#: Submissions that share a commit at most.
_AT_ONCE = 32

IdempotencyKey = Annotated[
    str | None,
    Header(
        min_length=1,
        max_length=200,
        pattern=r"^[\x21-\x7e]+$",
        description="Chosen by the client: sent again with the same job, it stands for the same submission",
    ),
]
_KEY: TypeAdapter[str | None] = TypeAdapter(IdempotencyKey)


@dataclass(frozen=True, slots=True)
class _Route:
    """What a request was for, as `metrics` counts it."""

    path: str


_ROUTE = _Route(PATH)

#: An answer that is awaited, and what came of its submission: a record and whether it is new, or an error.
_Outcome = tuple["asyncio.Future[tuple[JobRecord, bool]]", tuple[JobRecord, bool] | Exception]


class Submissions:
    """Hands submissions to the scheduler, on threads of their own. `accept` is for one event loop."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._threads = ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="submission")
        self._outcomes: deque[_Outcome] = deque()
        #: The event loop will look at the outcomes.
        self._told = False

    async def accept(self, spec: JobSpec, key: str | None) -> Response:
        """Submit a job, and answer when it is on disk; raises what the scheduler does."""
        loop = asyncio.get_running_loop()
        awaited: asyncio.Future[tuple[JobRecord, bool]] = loop.create_future()
        self._threads.submit(self._submit, loop, awaited, spec, key)
        record, new = await awaited
        headers = {"Location": f"/v1/jobs/{record.job.id}"}
        body = schemas.job_body(record).model_dump_json()  # which nobody needs to check once more
        return Response(body, 201 if new else 200, headers, "application/json")

    def _submit(
        self,
        loop: asyncio.AbstractEventLoop,
        awaited: "asyncio.Future[tuple[JobRecord, bool]]",
        spec: JobSpec,
        key: str | None,
    ) -> None:
        outcome: tuple[JobRecord, bool] | Exception
        try:
            outcome = self._scheduler.submit(spec, key)
        except Exception as error:
            outcome = error
        self._outcomes.append((awaited, outcome))
        # Many share a commit: the event loop is woken for the first of them, and finds the others.
        if not self._told:
            self._told = True
            loop.call_soon_threadsafe(self._tell)

    def _tell(self) -> None:
        self._told = False  # before looking, so that what comes meanwhile is not forgotten
        while self._outcomes:
            awaited, outcome = self._outcomes.popleft()
            if awaited.done():
                continue  # given up
            if isinstance(outcome, Exception):
                awaited.set_exception(outcome)
            else:
                awaited.set_result(outcome)


class ShortWay:
    """ASGI middleware behind the gate: answers submissions without fault, and leaves all else to the app."""

    def __init__(self, app: ASGIApp, submissions: Submissions) -> None:
        self._app = app
        self._submissions = submissions

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        asked = _read(scope) if scope.get("path") == PATH and scope.get("method") == "POST" else None
        if asked is None:
            await self._app(scope, receive, send)
            return
        scope["route"] = _ROUTE
        try:
            response = await self._submissions.accept(*asked)
        except REFUSED as error:
            response = await answer(Request(scope), error)
        await response(scope, receive, send)


def _read(scope: Scope) -> tuple[JobSpec, str | None] | None:
    """What is submitted, and its key; None when something about it is wrong. The gate read the body."""
    try:
        spec = JobSpec.model_validate(scope.get(BODY))
        return spec, _KEY.validate_python(Headers(scope=scope).get("idempotency-key"))
    except ValueError:  # pydantic's errors are some
        return None
