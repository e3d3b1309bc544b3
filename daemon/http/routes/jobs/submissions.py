"""The route that accepts jobs, made for hundreds in a second.

FastAPI's work for every request, and a thread of its own for each, cost more than the submission itself.
Here a valid request takes a shorter way, and concurrent ones go on together; any other request goes through
FastAPI, which finds its errors.
"""

import asyncio
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Annotated
from urllib.parse import unquote

from fastapi import FastAPI, Header, Request, Response
from pydantic import BeforeValidator, TypeAdapter
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from conf.schema import JobSpec, NameOrNone
from daemon.auth.audit_log import BODY
from daemon.auth.permits import Permit, permit_of
from daemon.http.server.problem_details import REFUSED, answer
from daemon.http.server.scheduler_interface import Leadership
from daemon.schemas import job_bodies
from daemon.schemas.jobs import JobBody
from daemon.store.queries.insert_jobs import Added, Admission, SubmittedSpec

#: Where jobs are submitted.
PATH = "/v1/jobs"

#: Seconds for which new submissions wait for more, once a batch is answered. Chosen: about as long as a
#: commit takes, whose begin and end cost as much computing as five submissions.
_GATHERING = 0.005
#: Seconds after which a batch goes though an earlier one is not answered: that one may wait for a hung store.
_PATIENCE = 0.1
#: Batches that may be on their way at once: of all, and of one user.
_BATCHES, _BATCHES_OF_ONE = 32, 4

IdempotencyKey = Annotated[
    str | None,
    Header(
        min_length=1,
        max_length=200,
        pattern=r"^[\x21-\x7e]+$",
        description=(
            "Chosen by the client; a repeated request with the same key and job is the same submission"
        ),
    ),
]
_KEY: TypeAdapter[str | None] = TypeAdapter(IdempotencyKey)
Login = Annotated[
    NameOrNone,
    BeforeValidator(lambda text: unquote(text) if isinstance(text, str) else text),
    Header(
        description=(
            "Login name of the submitting user, percent-encoded: the job's owner where no users are "
            "configured and the job names no owner"
        )
    ),
]
_LOGIN: TypeAdapter[str] = TypeAdapter(Login)


@dataclass(frozen=True, slots=True)
class _Route:
    """The route of a request, as `metrics` counts it."""

    path: str


_ROUTE = _Route(PATH)

#: The submissions that wait for an answer.
_Batch = dict[SubmittedSpec, "asyncio.Future[Added]"]


class Submissions:
    """Hands submissions to the scheduler in batches, on threads of their own. For one event loop.

    Each user's are in batches of their own: one whose files hang holds up no other user.
    """

    def __init__(self, leadership: Leadership) -> None:
        self._leadership = leadership
        self._threads = ThreadPoolExecutor(_BATCHES, thread_name_prefix="submission")
        self._lanes: dict[str, _Lane] = {}

    async def accept(self, permit: Permit, spec: JobSpec, key: str | None, login: str) -> Response:
        """Submit a job for a permitted user, and answer when it is on disk; raises the scheduler's errors."""
        admitted, submitter = permit.admit(spec, login)
        user = permit.person.name
        if (lane := self._lanes.get(user)) is None:
            most = _BATCHES_OF_ONE if user else _BATCHES
            lane = self._lanes[user] = _Lane(self._leadership, self._threads, most)
        try:
            record, new = await lane.submit(SubmittedSpec(admitted, permit.key(key), submitter=submitter))
        finally:
            if lane.empty and self._lanes.get(user) is lane:
                del self._lanes[user]
        headers = {"Location": f"/v1/jobs/{record.job.id}"}
        told = job_bodies.job_body(record, warnings=self._leadership.live().warnings(record.job.type))
        body = told.model_dump_json()  # which needs no second check
        return Response(body, 201 if new else 200, headers, "application/json")


class _Lane:
    """One user's submissions, `most` batches of them at once. For one event loop."""

    def __init__(self, leadership: Leadership, threads: ThreadPoolExecutor, most: int) -> None:
        self._leadership, self._threads, self._most = leadership, threads, most
        #: The batch that goes next, and those that were sent; a batch is empty when all of it is answered.
        self._next: _Batch = {}
        self._sent: list[_Batch] = []
        self._timer: asyncio.TimerHandle | None = None

    @property
    def empty(self) -> bool:
        """Whether all are answered."""
        return not self._next and not any(self._sent)

    async def submit(self, submitted: SubmittedSpec) -> Added:
        """Submit a job; raises the scheduler's errors."""
        loop = asyncio.get_running_loop()
        awaited: asyncio.Future[Added] = loop.create_future()
        if not self._next:
            self._send_after(_PATIENCE if any(self._sent) else 0.0, loop)
        self._next[submitted] = awaited
        return await awaited

    def _send_after(self, seconds: float, loop: asyncio.AbstractEventLoop) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = loop.call_later(seconds, self._send, loop)

    def _send(self, loop: asyncio.AbstractEventLoop) -> None:
        self._sent = [*filter(None, self._sent)]
        if len(self._sent) >= self._most:
            self._send_after(_PATIENCE, loop)
            return
        batch, self._next = self._next, {}
        self._sent = [batch, *self._sent]
        self._threads.submit(self._submit, loop, batch, tuple(batch))

    def _submit(
        self, loop: asyncio.AbstractEventLoop, batch: _Batch, submitted: Sequence[SubmittedSpec]
    ) -> None:
        """Submit them; `batch` is the event loop's."""
        try:
            for admissions in self._leadership.leader().submit(submitted):
                loop.call_soon_threadsafe(self._tell, batch, admissions)
        except Exception as error:
            loop.call_soon_threadsafe(self._fail, batch, error)

    def _tell(self, batch: _Batch, admissions: Mapping[SubmittedSpec, Admission]) -> None:
        for submitted, admission in admissions.items():
            awaited = batch.pop(submitted)
            if awaited.done():
                continue  # given up
            if isinstance(admission, Exception):
                awaited.set_exception(admission)
            else:
                awaited.set_result(admission)
        if self._next and not any(self._sent):
            self._send_after(_GATHERING, asyncio.get_running_loop())

    def _fail(self, batch: _Batch, error: Exception) -> None:
        self._tell(batch, dict.fromkeys(batch, error))


class ShortWay:
    """ASGI middleware behind the gate: answers submissions without fault, and leaves all else to the app."""

    def __init__(self, app: ASGIApp, submissions: Submissions) -> None:
        self._app = app
        self._submissions = submissions

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        ours = scope.get("path") == PATH and scope.get("method") == "POST" and not scope.get("query_string")
        asked = _read(scope) if ours else None
        if asked is None:
            await self._app(scope, receive, send)
            return
        scope["route"] = _ROUTE
        try:
            response = await self._submissions.accept(permit_of(scope), *asked)
        except REFUSED as error:
            response = await answer(Request(scope), error)
        await response(scope, receive, send)


def _read(scope: Scope) -> tuple[JobSpec, str | None, str] | None:
    """Read the submission, its key and its login; None for an invalid one. The gate read the body."""
    headers = Headers(scope=scope)
    try:
        spec = JobSpec.model_validate(scope.get(BODY))
        key = _KEY.validate_python(headers.get("idempotency-key"))
        return spec, key, _LOGIN.validate_python(headers.get("stoker-login", ""))
    except ValueError:  # pydantic's errors are some
        return None


def add_submissions(app: FastAPI, submissions: Submissions) -> None:
    """Add the route by which jobs are submitted; `ShortWay` answers most of its requests before."""
    known = {"model": JobBody, "description": "Known already"}

    @app.post(PATH, status_code=201, response_model=JobBody, responses={200: known})
    async def submit(
        request: Request, spec: JobSpec, idempotency_key: IdempotencyKey = None, stoker_login: Login = ""
    ) -> Response:
        """Submit a job. When the answer is 201, or 200 for a key used before, the job is on disk."""
        return await submissions.accept(permit_of(request), spec, idempotency_key, stoker_login)
