"""Many requests of one user leave room for those of others."""

import socket
import threading
import time
from collections import Counter
from contextlib import AsyncExitStack, ExitStack, closing, suppress
from pathlib import Path
from types import SimpleNamespace

import anyio
import httpx
import pytest

from conf.schema import Http
from daemon.core.cluster_status import ClusterStatus
from daemon.http.server.gate import _is_large
from daemon.http.server.user_shares import _READS, TooManyError, UserShares
from daemon.schemas.applications import OrdersBody
from daemon.store.job_store import Store
from daemon.store.rows.bill import AskedBill, Bill
from tests.daemon.auth.user_api import house_of
from tests.daemon.http.server.test_uvicorn_server import connect, served


def test_one_user_leaves_threads_and_requests_to_others(tmp_path: Path) -> None:
    """However many slow reads one sends: others are answered meanwhile, and only that one is refused."""
    release, going, most = threading.Event(), Counter[str](), 0
    with closing(Store(f"sqlite:///{tmp_path / 'stoker.db'}")) as store, house_of(store) as house:

        def slow() -> ClusterStatus:
            nonlocal most
            going["reads"] += 1
            most = max(most, going["reads"])
            release.wait(60)
            going["reads"] -= 1
            return ClusterStatus(())

        house.scheduler.cluster = slow  # type: ignore[method-assign]
        statuses = Counter[int]()

        async def ask() -> None:
            statuses[(await house.answer("oper", "GET", "/v1/cluster", "10.9.0.1")).status_code] += 1

        async def flood() -> None:
            async with anyio.create_task_group() as group:
                for _ in range(300):
                    group.start_soon(ask)
                with anyio.fail_after(30):
                    while not going["reads"]:
                        await anyio.sleep(0.01)
                    for _ in range(20):
                        answer = await house.answer("ann", "GET", "/v1/jobs", "10.9.0.2")
                        assert answer.status_code == 200
                release.set()

        anyio.run(flood)
    assert most <= _READS
    assert statuses == {200: 100, 429: 200}


def test_several_users_leave_room_for_another() -> None:
    """Each has half of what the others leave."""

    async def ask() -> list[int]:
        shares, counts = UserShares(200), list[int]()
        async with AsyncExitStack() as stack:
            for user in ("ann", "bob", "eve"):
                counts.append(0)
                with suppress(TooManyError):
                    while True:
                        await stack.enter_async_context(shares.turn(user, reads=False))
                        counts[-1] += 1
            async with shares.turn("joe", reads=True):
                return counts

    assert anyio.run(ask) == [100, 50, 25]


def test_drivers_leave_requests_to_others(tmp_path: Path) -> None:
    """However many requests come by keys, or wrong ones, from this host: users are answered meanwhile."""
    release, entered = threading.Event(), threading.Event()
    with closing(Store(f"sqlite:///{tmp_path / 'stoker.db'}")) as store, house_of(store) as house:

        def slow(job_id: str, key: str | None) -> OrdersBody:
            entered.set()
            release.wait(60)
            return OrdersBody(stop=None, waits=None, lost=[], decommission=[], alone=False)

        house.scheduler.applications = SimpleNamespace(heartbeat=slow)  # type: ignore[assignment]
        statuses = Counter[int]()

        async def beat(peer: str) -> None:
            path = "/v1/applications/job-1/heartbeat"
            statuses[(await house.answer("nobody", "POST", path, peer, json={})).status_code] += 1

        async def flood() -> None:
            async with anyio.create_task_group() as group:
                for number in range(300):
                    group.start_soon(beat, f"127.0.0.{number % 250 + 1}")
                with anyio.fail_after(30):
                    while not (entered.is_set() and statuses[429]):
                        await anyio.sleep(0.01)
                    async with anyio.create_task_group() as asking:
                        for _ in range(3):
                            asking.start_soon(ask)
                        release.set()

        async def ask() -> None:
            assert (await house.answer("ann", "GET", "/v1/jobs", "10.9.0.2")).status_code == 200

        anyio.run(flood)
    assert statuses == {200: 50, 429: 250}


def test_files_that_drivers_do_not_read_are_no_requests_under_way(tmp_path: Path) -> None:
    """More of them than there may be requests: users are answered, and drivers' heartbeats are heard."""
    large = tmp_path / "large.bin"
    large.write_bytes(bytes(16 << 20))
    fetch = b"GET /v1/fetch/job-1/key/large.bin HTTP/1.1\r\nHost: localhost\r\n\r\n"
    with closing(Store(f"sqlite:///{tmp_path / 'stoker.db'}")) as store, house_of(store) as house:
        house.scheduler.opened["key"] = (large, large.name)
        store.jobs.get = lambda _: SimpleNamespace()  # type: ignore[method-assign,assignment,return-value]
        with served(Http(), house.app) as address, ExitStack() as stack:
            for _ in range(210):
                connection = stack.enter_context(connect(address))
                connection.sendall(fetch)
                assert connection.recv(12, socket.MSG_PEEK) == b"HTTP/1.1 200"
            url = f"http://127.0.0.1:{address[1]}/v1"
            assert httpx.get(f"{url}/jobs", headers=house.people["ann"], timeout=60).status_code == 200
            beat = httpx.post(f"{url}/applications/job-1/heartbeat", json={}, timeout=60)
            assert beat.status_code == 404


def test_long_bills_are_made_one_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Many at once are told to come again; short ones are answered meanwhile."""
    with closing(Store(f"sqlite:///{tmp_path / 'stoker.db'}")) as store, house_of(store) as house:
        going, most, bill, statuses = 0, 0, store.vms.bill, Counter[int]()

        def slow(asked: AskedBill) -> Bill:
            nonlocal going, most
            if asked.by == "job":
                going += 1
                most = max(most, going)
                time.sleep(0.1)
                going -= 1
            return bill(asked)

        monkeypatch.setattr(store.vms, "bill", slow)

        async def ask() -> None:
            answer = await house.answer("config", "GET", "/v1/bill?by=job", "10.9.0.1")
            statuses[answer.status_code] += 1

        async def flood() -> None:
            async with anyio.create_task_group() as group:
                for _ in range(20):
                    group.start_soon(ask)
                for _ in range(5):
                    answer = await house.answer("config", "GET", "/v1/bill", "10.9.0.1")
                    assert answer.status_code == 200

        anyio.run(flood)
    assert most == 1
    assert statuses[200] >= 4
    assert statuses[200] + statuses[429] == 20


def test_large_requests_of_one_user_come_one_by_one() -> None:
    """Each holds the event loop for a moment, in which nobody is answered; small ones do not wait."""

    async def ask() -> None:
        shares, going, most = UserShares(200), 0, 0

        async def large(user: str) -> None:
            nonlocal going, most
            async with shares.one_by_one(user):
                going, most = going + 1, max(most, going + 1)
                await anyio.sleep(0)
                going -= 1

        async with anyio.create_task_group() as group:
            for _ in range(20):
                group.start_soon(large, "ann")
        assert most == 1
        async with shares.one_by_one("ann"), shares.one_by_one(""):
            await large("bob")
        assert not shares._large

    anyio.run(ask)


@pytest.mark.parametrize(
    ("path", "headers", "large"),
    [
        ("/v1/jobs", {"content-length": "65537"}, True),
        ("/v1/jobs", {"content-length": "65536"}, False),
        ("/v1/jobs", {"transfer-encoding": "chunked"}, True),
        ("/v1/jobs", {}, False),
        ("/v1/jobs", {"content-length": "x"}, True),
        ("/v1/files/0", {"content-length": "65537"}, False),
    ],
)
def test_what_is_large(path: str, headers: dict[str, str], large: bool) -> None:
    """JSON, by its length, or without one; files are not looked into."""
    raw = [(name.encode(), value.encode()) for name, value in headers.items()]
    assert _is_large({"type": "http", "path": path, "headers": raw}) is large
