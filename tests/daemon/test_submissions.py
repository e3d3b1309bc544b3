"""The short way of submissions: the same answers as FastAPI's, each to who asked."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fastapi.routing
import httpx
import pytest
from fastapi import FastAPI

from daemon import submissions
from daemon.api import create_app
from daemon.store import Store
from tests.daemon.small_scheduler import SmallScheduler

JSON = ("Content-Type", "application/json")
JOB = b'{"app": "count.py", "executors": 2}'


@pytest.fixture
def app(tmp_path: Path) -> Iterator[FastAPI]:
    """An API on a new store."""
    store = Store(f"sqlite:///{tmp_path / 'stoker.db'}")
    yield create_app(SmallScheduler(store), store, token=None, version="1")
    store.close()


async def ask(app: FastAPI, *requests: tuple[bytes, list[tuple[str, str]]]) -> list[httpx.Response]:
    """Submit all of these at once."""
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost") as client:
        posts = (client.post("/v1/jobs", content=body, headers=headers) for body, headers in requests)
        return await asyncio.gather(*posts)


async def not_read(_: object) -> None:
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
    """Whatever is sent."""
    (short,) = asyncio.run(ask(app, (body, headers)))
    monkeypatch.setattr(submissions, "_read", not_read)
    (long,) = asyncio.run(ask(app, (body, headers)))
    assert _shown(short) == _shown(long)


def _shown(response: httpx.Response) -> Any:
    """The answer but for what tells one submission from the next; a key that came again gives 200."""
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
