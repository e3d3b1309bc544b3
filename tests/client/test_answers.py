"""Answers of servers that are no Stoker daemon, or mean no good: a clear error, and no memory without end."""

import asyncio
import gzip
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import httpx
import pytest
from stoker import AsyncStoker, Stoker, StokerError, flows

Server = Callable[[httpx.Request], httpx.Response]


class Endless(httpx.SyncByteStream, httpx.AsyncByteStream):
    """A body that never ends; it counts the parts that were read."""

    def __init__(self, part: bytes) -> None:
        self.part, self.read = part, 0

    def __iter__(self) -> Iterator[bytes]:
        while True:
            self.read += 1
            yield self.part

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for part in self:
            yield part


def blocking(server: Server) -> Any:
    """What the client makes of its answer to GET /v1/cluster."""
    with Stoker("http://h:1") as client:
        client._http = httpx.Client(base_url="http://h:1", transport=httpx.MockTransport(server))
        return client.cluster()


def awaited(server: Server) -> Any:
    """The same, of the async client."""

    async def ask() -> Any:
        async with AsyncStoker("http://h:1") as client:
            client._http = httpx.AsyncClient(base_url="http://h:1", transport=httpx.MockTransport(server))
            return await client.cluster()

    return asyncio.run(ask())


@pytest.fixture(params=[blocking, awaited])
def ask(request: pytest.FixtureRequest) -> Callable[[Server], Any]:
    """Either client."""
    found: Callable[[Server], Any] = request.param
    return found


@pytest.mark.parametrize("body", [b"[]", b'"x"', b"null", b"7", b"<html>", b"[" * 100_000, b"\xff\xfe"])
def test_no_json_object_is_no_daemon(ask: Callable[[Server], Any], body: bytes) -> None:
    """One line, with the daemon's address."""
    with pytest.raises(StokerError, match="http://h:1 is no Stoker daemon: its answer is no JSON object"):
        ask(lambda _: httpx.Response(200, content=body))


def test_a_field_that_is_missing_is_named(ask: Callable[[Server], Any]) -> None:
    """Also in what an answer contains; as any error of the client, no KeyError."""
    found = ask(lambda _: httpx.Response(200, json={"vms": [{"name": "vm-1"}]}))
    assert found["vms"][0]["name"] == "vm-1"
    assert found.get("pools") is None
    with pytest.raises(StokerError, match="the answer has no 'type'"):
        found["vms"][0]["type"]
    with pytest.raises(StokerError, match="the answer has no 'pools'"):
        found["pools"]


@pytest.mark.parametrize("status", [200, 404])
def test_an_endless_answer_ends(
    ask: Callable[[Server], Any], status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether it is one of success or of a problem."""
    monkeypatch.setattr(flows, "MOST_ANSWERED", 1 << 20)
    body = Endless(b" " * 1000)
    with pytest.raises(StokerError, match="http://h:1 answers with more than 1 MiB"):
        ask(lambda _: httpx.Response(status, stream=body))
    assert body.read < 1100


def test_a_packed_answer_counts_as_it_is_unpacked(
    ask: Callable[[Server], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some bytes that unpack to very many; and packed answers are read as before."""
    monkeypatch.setattr(flows, "MOST_ANSWERED", 1 << 20)
    packed = {"Content-Encoding": "gzip"}
    with pytest.raises(StokerError, match="more than 1 MiB"):
        ask(lambda _: httpx.Response(200, headers=packed, content=gzip.compress(b" " * (1 << 24))))
    small = gzip.compress(b'{"vms": []}')
    assert ask(lambda _: httpx.Response(200, headers=packed, content=small))["vms"] == []


@pytest.mark.parametrize("errors", [7, {"a": 1}, ["x"], None])
def test_a_problem_with_odd_errors_is_told(ask: Callable[[Server], Any], errors: Any) -> None:
    """With its detail alone."""
    with pytest.raises(StokerError, match=r"^no such thing$"):
        ask(lambda _: httpx.Response(404, json={"detail": "no such thing", "errors": errors}))
