"""Many requests of one user leave room for those of others."""

import threading
import time
from collections import Counter
from contextlib import closing
from pathlib import Path

import anyio
import pytest

from daemon.core.cluster_status import ClusterStatus
from daemon.http.server.user_shares import _READS
from daemon.store.job_store import Store
from daemon.store.rows.bill import AskedBill, Bill
from tests.daemon.auth.user_api import house_of


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
