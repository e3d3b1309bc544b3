"""The route by which jobs come in, made for hundreds in a second.

What FastAPI does with every request, and asyncio with every call that a thread does for it, costs more than
the submission itself. Here a request without fault takes a shorter way; any other goes FastAPI's, which finds
what is wrong with it.
"""

import asyncio
import json
from collections import deque
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Annotated, Any

from fastapi import Header, Request, Response
from fastapi.routing import APIRoute
from pydantic import TypeAdapter

from conf.schema import JobSpec
from daemon import schemas
from daemon.contract import Scheduler
from environment.model.records import JobRecord

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

    def route(self) -> type[APIRoute]:
        """The kind of the route that submits: its endpoint is called only with what needs FastAPI's words."""
        accept = self.accept

        class Route(APIRoute):
            def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
                """See `APIRoute`."""
                otherwise = super().get_route_handler()

                async def handle(request: Request) -> Response:
                    asked = await _read(request)
                    return await otherwise(request) if asked is None else await accept(*asked)

                return handle

        return Route


async def _read(request: Request) -> tuple[JobSpec, str | None] | None:
    """What is submitted, and its key; None when something about it is wrong. The gate saw that it is JSON."""
    try:
        spec = JobSpec.model_validate(json.loads(await request.body()))
        return spec, _KEY.validate_python(request.headers.get("idempotency-key"))
    except ValueError:  # pydantic's errors are some
        return None
