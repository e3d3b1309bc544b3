"""The short way of submissions gives FastAPI's answers, each to its own client."""

import asyncio
import contextlib
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import fastapi.routing
import httpx
import pytest
from fastapi import FastAPI

from daemon.core.errors import ElsewhereError, RejectedError
from daemon.http.app import create_app
from daemon.http.app_options import AppOptions
from daemon.http.routes.jobs import submissions
from daemon.store.job_store import Store
from daemon.store.queries.insert_jobs import Admission, IdempotencyConflictError, SubmittedSpec
from daemon.store.rows.database import StoreError
from tests.daemon.auth.user_api import house_of
from tests.daemon.small_scheduler import SmallScheduler

JSON = ("Content-Type", "application/json")
JOB = b'{"app": "count.py", "executors": 2}'


@pytest.fixture
def app(tmp_path: Path) -> Iterator[FastAPI]:
    """An API on a new store."""
    store = Store(f"sqlite:///{tmp_path / 'stoker.db'}")
    yield create_app(SmallScheduler(store), store, AppOptions(token=None, version="1"))
    store.close()


async def ask(app: FastAPI, *requests: tuple[bytes, list[tuple[str, str]]]) -> list[httpx.Response]:
    """Submit all of these at once."""
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost") as client:
        posts = (client.post("/v1/jobs", content=body, headers=headers) for body, headers in requests)
        return await asyncio.gather(*posts)


def not_read(_: object) -> None:
    """Leave every request to FastAPI."""


@pytest.mark.parametrize(
    ("body", "headers"),
    [
        (JOB, [JSON]),
        (JOB, [("Content-Type", "application/json; charset=utf-8")]),
        (JOB, [JSON, ("Idempotency-Key", "once")]),
        (JOB, [JSON, ("Idempotency-Key", "two words")]),
        (JOB, [JSON, ("Idempotency-Key", "")]),
        (JOB, [JSON, ("Idempotency-Key", "a"), ("Idempotency-Key", "b")]),
        (JOB, [("Content-Type", "text/plain")]),
        (b"", [JSON]),
        (b"[1]", [JSON]),
        (b"null", [JSON]),
        (b"\xff", [JSON]),
        (b'{"app": "count.py"', [JSON]),
        (b'{"app": "count.py", "executors": "two"}', [JSON]),
        (b'{"app": "count.py", "executors": 0, "cpu": 1}', [JSON]),
        (b'{"app": "count.py", "cpus": 65}', [JSON]),
    ],
)
def test_the_short_way_answers_like_the_long_one(
    app: FastAPI, monkeypatch: pytest.MonkeyPatch, body: bytes, headers: list[tuple[str, str]]
) -> None:
    """The fast path answers as the normal path to every body and header."""
    (short,) = asyncio.run(ask(app, (body, headers)))
    monkeypatch.setattr(submissions, "_read", not_read)
    (long,) = asyncio.run(ask(app, (body, headers)))
    assert _shown(short) == _shown(long)


@pytest.mark.parametrize(
    "error",
    [
        RejectedError(429, "The queue is full", "7 jobs are queued", {"Retry-After": "30"}),
        ElsewhereError("http://host-2:5120"),
        ElsewhereError(""),
        IdempotencyConflictError("the key was used for job-1"),
        StoreError("the disk is full"),
        RuntimeError("nobody knows"),
    ],
)
def test_what_the_scheduler_raises_is_answered_like_on_the_long_way(
    app: FastAPI, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    """Errors have the same problem, status and headers as on the normal path; an unexpected one is a 500."""

    def refuse(*_: object) -> None:
        raise error

    monkeypatch.setattr(SmallScheduler, "submit", refuse)
    (short,) = asyncio.run(ask(app, (JOB, [JSON])))
    monkeypatch.setattr(submissions, "_read", not_read)
    (long,) = asyncio.run(ask(app, (JOB, [JSON])))
    assert (short.status_code, short.headers, short.content) == (long.status_code, long.headers, long.content)
    assert short.status_code >= 300


def test_submissions_are_counted_by_their_route(app: FastAPI) -> None:
    """As all requests are."""
    asyncio.run(ask(app, (JOB, [JSON])))

    async def metrics() -> str:
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            return (await client.get("/metrics")).text

    counted = 'stoker_http_requests_total{method="POST",route="/v1/jobs",status="201"} 1.0'
    assert counted in asyncio.run(metrics())


def _shown(response: httpx.Response) -> Any:
    """Status, content type and body without its unique fields; a repeated key gives 200."""
    body = {k: v for k, v in response.json().items() if k not in ("id", "submitted_at")}
    return response.is_success or response.status_code, response.headers["Content-Type"], body


def test_what_is_right_goes_the_short_way(app: FastAPI, monkeypatch: pytest.MonkeyPatch) -> None:
    """FastAPI looks at nothing of it."""

    def solve(**_: object) -> None:
        raise AssertionError("the long way")

    monkeypatch.setattr(fastapi.routing, "solve_dependencies", solve)
    (answer,) = asyncio.run(ask(app, (JOB, [JSON, ("Idempotency-Key", "once")])))
    assert answer.status_code == 201


def test_each_of_many_gets_its_own_answer(app: FastAPI) -> None:
    """A hundred at once, every third of them refused by the scheduler."""
    requests = [
        (f'{{"app": "a.py", "name": "n{n}", "cpus": {1 if n % 3 else 65}}}'.encode(), [JSON])
        for n in range(100)
    ]
    answers = asyncio.run(asyncio.wait_for(ask(app, *requests), 60))
    refused = [answer.status_code == 422 for answer in answers]
    assert refused == [n % 3 == 0 for n in range(100)]
    names = [answer.json().get("name") for answer in answers]
    assert names == [f"n{n}" if n % 3 else None for n in range(100)]
    ids = {answer.headers["Location"] for answer in answers if answer.status_code == 201}
    assert len(ids) == 66


class Hanging(SmallScheduler):
    """Batches with a job of this name wait until they are let go; `batches` has the sizes of all."""

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self.let_go = threading.Event()
        self.batches: list[int] = []

    def submit(self, submitted: Sequence[SubmittedSpec]) -> Iterator[Mapping[SubmittedSpec, Admission]]:
        """Wait, then keep them."""
        self.batches.append(len(submitted))
        if any(each.spec.name == "hangs" for each in submitted):
            self.let_go.wait(600)
        return super().submit(submitted)


@pytest.fixture
def hanging(tmp_path: Path) -> Iterator[Hanging]:
    """A scheduler in which some hang."""
    store = Store(f"sqlite:///{tmp_path / 'hanging.db'}")
    yield Hanging(store)
    store.close()


async def behind_one_that_hangs(scheduler: Hanging, meanwhile: Callable[[], None]) -> list[httpx.Response]:
    """Fifty that come while the first one hangs, which is let go then."""
    app = create_app(scheduler, scheduler.store, AppOptions(token=None, version="1"))
    first = asyncio.create_task(ask(app, (b'{"app": "a.py", "name": "hangs"}', [JSON])))
    while not scheduler.batches:
        await asyncio.sleep(0.01)
    others = asyncio.create_task(ask(app, *[(JOB, [JSON])] * 50))
    await asyncio.sleep(0.05)
    meanwhile()
    answers = await asyncio.wait_for(others, 30)
    assert first.done() == scheduler.let_go.is_set()
    scheduler.let_go.set()
    return [*await asyncio.wait_for(first, 30), *answers]


def test_those_that_come_at_once_go_on_together_and_one_that_hangs_holds_nobody_up(hanging: Hanging) -> None:
    """A single submission starts at once; later ones share a batch, though the first has not returned."""
    answers = asyncio.run(behind_one_that_hangs(hanging, lambda: None))
    assert [answer.status_code for answer in answers] == [201] * 51
    assert hanging.batches == [1, 50]


def test_what_comes_meanwhile_goes_when_the_batch_is_answered(
    hanging: Hanging, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And not only when patience ends."""
    monkeypatch.setattr(submissions, "_PATIENCE", 3600.0)
    answers = asyncio.run(behind_one_that_hangs(hanging, hanging.let_go.set))
    assert [answer.status_code for answer in answers] == [201] * 51
    assert hanging.batches == [1, 50]


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "/v1/jobs?dry_run=true", JOB),
        ("POST", "/v1/jobs/job-1/kill?dry_run", b""),
        ("DELETE", "/v1/jobs/job-1?dry_run=true", b""),
        ("PUT", "/v1/policy?dry_run=true", b'{"name": "rr"}'),
        ("POST", "/v1/what-if?seconds=5", b"{}"),
    ],
)
def test_a_query_that_nobody_reads_changes_nothing(app: FastAPI, method: str, path: str, body: bytes) -> None:
    """A client that asked for a trial, as other APIs have it, must not get the real thing."""

    async def asked() -> tuple[httpx.Response, ...]:
        async with httpx.AsyncClient(
            transport=httpx.ASGITransport(app), base_url="http://localhost"
        ) as client:
            await client.post("/v1/jobs", content=JOB, headers=[JSON])
            refused = await client.request(method, path, content=body, headers=[JSON])
            read = await client.get("/v1/jobs/job-1")
            return refused, read, await client.get("/v1/jobs")

    refused, read, listed = asyncio.run(asked())
    assert refused.status_code == 422
    assert refused.json()["detail"].endswith(": unknown key; this request has no query")
    assert read.json()["state"] == "queued"
    assert len(listed.json()["jobs"]) == 1


def test_submissions_of_one_user_that_hang_hold_up_no_other(tmp_path: Path) -> None:
    """Not even one that comes at the same time; and they take few of the threads."""
    with contextlib.closing(Store(f"sqlite:///{tmp_path / 'stoker.db'}")) as store, house_of(store) as house:
        batches, let_go, submit = list[int](), threading.Event(), house.scheduler.submit

        def slow(submitted: Sequence[SubmittedSpec]) -> Iterator[Mapping[SubmittedSpec, Admission]]:
            batches.append(len(submitted))
            if any(each.spec.owner == "ann" for each in submitted):
                let_go.wait(60)
            return submit(submitted)

        house.scheduler.submit = slow  # type: ignore[method-assign]

        async def post(who: str) -> int:
            return (await house.answer(who, "POST", "/v1/jobs", "10.9.0.1", json={"app": "a.py"})).status_code

        async def both() -> list[int]:
            anns = []
            for _ in range(10):
                anns.append(asyncio.create_task(post("ann")))
                async with asyncio.timeout(30):
                    assert await post("bob") == 201
                await asyncio.sleep(0.11)
            assert sum(batches) - 10 <= submissions._BATCHES_OF_ONE
            let_go.set()
            return await asyncio.gather(*anns)

        assert set(asyncio.run(both())) == {201}
