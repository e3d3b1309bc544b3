"""Many requests of one user leave room for those of others."""

import asyncio
import socket
import threading
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack, ExitStack, closing, suppress
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import anyio
import httpx
import pytest
from starlette.datastructures import Headers
from starlette.responses import Response

from conf.schema import Http
from daemon.core.cluster_status import ClusterStatus
from daemon.http.server.gate import _is_large, _understood
from daemon.http.server.user_shares import _AT_ONCE, HeldShares, TooManyError, UserShares
from daemon.launch import spark_ui_proxy
from daemon.schemas.applications import OrdersBody
from daemon.store.job_store import Store
from daemon.store.queries.insert_jobs import SubmittedSpec
from daemon.store.rows.bill import AskedBill, Bill
from environment.types import Job
from framework.spark import DriverUi
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
    assert most <= _AT_ONCE
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
                        await stack.enter_async_context(shares.turn(user, waits=False))
                        counts[-1] += 1
            async with shares.turn("joe", waits=True):
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
        ("/v1/jobs", {"content-length": f"{'0' * 20}65537"}, True),  # of which the first digits are zeros
    ],
)
def test_what_is_large(path: str, headers: dict[str, str], large: bool) -> None:
    """JSON, by its length, or without one; files are not looked into."""
    raw = [(name.encode(), value.encode()) for name, value in headers.items()]
    assert _is_large({"type": "http", "path": path, "headers": raw}) is large


def test_requests_of_one_user_that_hang_leave_threads_to_others(tmp_path: Path) -> None:
    """Such as submissions that are only tried, with files on a file system that hangs."""
    release = threading.Event()
    with closing(Store(f"sqlite:///{tmp_path / 'stoker.db'}")) as store, house_of(store) as house:
        trial = house.scheduler.trial

        def slow(submitted: SubmittedSpec, sends: Mapping[str, int]) -> Sequence[Job]:
            release.wait(60)
            return trial(submitted, sends)

        house.scheduler.trial = slow  # type: ignore[method-assign]

        async def ask() -> None:
            await house.answer("ann", "POST", "/v1/jobs/dry-run", "10.9.0.1", json={"app": "a.py"})

        async def flood() -> None:
            async with anyio.create_task_group() as group:
                for _ in range(60):
                    group.start_soon(ask)
                await anyio.sleep(0.2)
                with anyio.fail_after(30):
                    assert (await house.answer("bob", "GET", "/v1/jobs", "10.9.0.2")).status_code == 200
                release.set()

        anyio.run(flood)


def test_one_visitor_of_a_users_uis_leaves_room_for_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However slow the pages are: another one's are asked for meanwhile."""
    asked, over = list[str](), asyncio.Event()

    async def get(ui: DriverUi, prefix: str, path: str, query: str) -> Response:
        asked.append(path)
        if path.startswith("slow"):
            await over.wait()
        return Response(path)

    monkeypatch.setattr(spark_ui_proxy, "_get", get)
    with closing(Store(f"sqlite:///{tmp_path / 'stoker.db'}")) as store, house_of(store, "all") as house:
        house.scheduler.shown_ui = DriverUi("127.0.0.1", 1, "key")
        assert house("bob", "POST", "/v1/jobs", json={"app": "a.py"}).status_code == 201

        async def ask() -> None:
            async with anyio.create_task_group() as group:
                for number in range(10):
                    path = f"/v1/jobs/job-1/ui/slow{number}"
                    group.start_soon(partial(house.answer, "ann", "GET", path, "10.9.0.1"))
                with anyio.fail_after(30):
                    while len(asked) < 4:
                        await anyio.sleep(0.01)
                    page = await house.answer("bob", "GET", "/v1/jobs/job-1/ui/page", "10.9.0.2")
                assert page.text == "page"
                assert len(asked) == 5
                over.set()

        anyio.run(ask)
    assert len(asked) == 11


def test_bodies_of_one_user_leave_room_for_others() -> None:
    """Half of what others leave; without users, all of it."""
    held = HeldShares(100)
    assert held.hold("ann", 50)
    assert not held.hold("ann", 1)
    held.hold("ann", -1)
    assert held.hold("bob", 25)
    assert not held.hold("bob", 1)
    held.hold("bob", -26)
    held.hold("ann", -50)
    assert not held._held
    assert held.hold("", 100)
    assert not held.hold("", 1)


def test_many_addresses_have_no_more_than_all_of_it() -> None:
    """Though each of them, alone, may have one."""
    held = HeldShares(4)
    assert [held.hold(f"10.0.0.{number}", 1) for number in range(6)] == [True] * 4 + [False] * 2


def test_a_user_who_sends_bodies_without_end_leaves_room_for_others(tmp_path: Path) -> None:
    """Parts of files come slowly; another user's job is accepted meanwhile."""
    with closing(Store(f"sqlite:///{tmp_path / 'stoker.db'}")) as store, house_of(store) as house:
        token = house.people["ann"]["Authorization"]
        head = f"PUT /v1/files/{'0' * 64}?size=1048576 HTTP/1.1\r\nHost: h\r\nAuthorization: {token}\r\n"
        head += "Content-Type: application/octet-stream\r\nContent-Length: 1048576\r\n\r\n"
        with served(Http(), house.app) as address, ExitStack() as stack:
            for _ in range(32):
                connection = stack.enter_context(connect(address))
                with suppress(OSError):  # it is refused in the middle
                    connection.sendall(head.encode() + bytes((1 << 20) - 1))
            url = f"http://127.0.0.1:{address[1]}/v1/jobs"
            job = {"app": "a.py", "args": ["x" * 5000]}
            for _ in range(20):
                answer = httpx.post(url, headers=house.people["bob"], json=job, timeout=60)
                assert answer.status_code == 201, answer.text


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (b"[" + b"[]," * 300_000 + b"[]]", "30000 values"),
        (b"[" + b"1," * 500_000 + b"1]", "30000 values"),
        (b'["' + b'\\"[{,' * 100_000 + b'"]', ""),
        (b'["' + b'\\"' * 500_000, "not valid JSON"),
        (b'["' + b'\\",' * 300_000 + b"\\", "not valid JSON"),
    ],
)
def test_bodies_of_very_many_values_are_not_read(
    body: bytes, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They hold up the event loop; what stands in texts is no value, however these end."""
    if why.endswith("values"):
        monkeypatch.setattr("daemon.http.server.gate.json.loads", None)
    refusal, _ = _understood(Headers({"content-type": "application/json"}), bytearray(body))
    assert why in ("" if refusal is None else refusal.detail)
    assert (refusal is None) is (not why)
