"""The loop acts while its daemon leads: leases are renewed between deeds, and before other writes."""

import threading
from types import SimpleNamespace
from typing import Any

import pytest

from daemon.leadership.leader_session import LeaderSession
from daemon.scheduler.command_executor import CommandExecutor
from daemon.store.job_store import Store
from daemon.store.rows.database import StoreError
from environment.model.messages import commands as cmd
from tests.waiting import until


class Machines:
    """Each VM takes a second to be closed, by the clock that leases are counted by."""

    def __init__(self, clock: list[float], store: Store) -> None:
        self.clock = clock
        self.held: list[bool] = []
        self.term = store.terms.begin("http://one", 2.0)

    def close(self, *_: str) -> None:
        """Close one."""
        self.held.append(self.term.holds)
        self.clock[0] += 1.0


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The seconds since the machine has started."""
    now = [1000.0]
    monkeypatch.setattr("daemon.store.rows.terms.boot_seconds", lambda: now[0])
    return now


def effects_of(machines: Machines, tenure: LeaderSession) -> CommandExecutor:
    """A command executor with VM closing as its only effect."""
    base: Any = SimpleNamespace(model=None, session=tenure)
    launching: Any = SimpleNamespace(drivers=None, launcher=None, substrate=None)
    provisioner: Any = machines
    return CommandExecutor(base, launching, provisioner)


def test_a_lease_is_renewed_between_deeds(store: Store, clock: list[float]) -> None:
    """Twenty of them take ten times as long as it holds; nobody else leads, and each is done in time."""
    machines = Machines(clock, store)
    tenure = LeaderSession(machines.term, store)
    tenure.renew()
    commands = [(cmd.CloseVm(1, f"lease-{number}", ""), 0) for number in range(20)]
    assert effects_of(machines, tenure).carry_out(commands)
    assert machines.held == [True] * 20


def test_a_deed_waits_for_a_lease_that_is_renewed_late(
    store: Store, clock: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The database is away when it ends: nothing is done, and nothing dropped, until it is back."""
    machines = Machines(clock, store)
    tenure = LeaderSession(machines.term, store)
    tenure.renew()
    renew, tries = machines.term.renew, list[int]()

    def late() -> None:
        tries.append(1)
        if len(tries) > 3:
            renew()

    monkeypatch.setattr(machines.term, "renew", late)
    clock[0] += 3600
    assert effects_of(machines, tenure).carry_out([(cmd.CloseVm(1, "lease-1", ""), 0)])
    assert machines.held == [True]
    assert len(tries) == 4


def test_who_is_deposed_between_deeds_does_no_other(store: Store, clock: list[float]) -> None:
    """A leader deposed between two deeds does no more; the next leader finds the rest in the store."""
    machines = Machines(clock, store)
    tenure = LeaderSession(machines.term, store)
    tenure.renew()
    store.terms.begin("http://other", 2.0)
    clock[0] += 1.0
    assert not effects_of(machines, tenure).carry_out([(cmd.CloseVm(1, "lease-1", ""), 0)])
    assert not machines.held
    assert tenure.over


def test_a_renewal_comes_before_all_that_waits(store: Store) -> None:
    """Hundreds of submissions may wait for the database: the lease does not wait for them."""
    term = store.terms.begin("http://one", 3600.0)
    begun, go_on, order = threading.Event(), threading.Event(), list[str]()
    database = store.database

    def slow(_: object) -> None:
        begun.set()
        go_on.wait()

    def other(_: object) -> None:
        order.append("other" if is_renewed(store) else "too early")

    threads = [threading.Thread(target=database.write, args=(slow,))]
    threads[0].start()
    begun.wait()
    threads += [threading.Thread(target=database.write, args=(other,)) for _ in range(5)]
    threads += [threading.Thread(target=term.renew)]
    for number, thread in enumerate(threads[1:], 1):
        thread.start()
        until(lambda number=number: len(database._writer._waiting) == number)  # type: ignore[misc]
    go_on.set()
    for thread in threads:
        thread.join()
    assert order == ["other"] * 5


def is_renewed(store: Store) -> bool:
    """Whether the renewal is on disk: others can read it."""
    with store.database.read() as connection:
        lease = connection.exec_driver_sql("SELECT value FROM facts WHERE key = 'lease'").scalar()
    return '"beat": 1' in str(lease) or '"beat":1' in str(lease)


def test_a_trouble_of_the_store_is_over_when_the_lease_is_renewed(
    store: Store, clock: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    """An idle daemon writes nothing else: it would be reported as not ready until the next job."""
    machines = Machines(clock, store)
    tenure = LeaderSession(machines.term, store)
    with monkeypatch.context() as away:
        away.setattr(store.database, "write", _cut)
        tenure.renew()
    assert tenure.trouble == "the connection was cut"
    tenure.renew()
    assert tenure.trouble, "not due yet"
    clock[0] += 1.0
    tenure.renew()
    assert not tenure.trouble


def _cut(*_: object, **__: object) -> None:
    raise StoreError("the connection was cut")
