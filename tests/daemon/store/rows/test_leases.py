"""Leases in the job store: stored with their cause, reloaded while they cost, archived afterwards."""

import contextlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import sqlalchemy as sa

from daemon.maintenance.doctor import Doctor
from daemon.store.job_store import Store
from daemon.store.rows.database import StoreError
from daemon.store.rows.tables import leases
from environment.model.cluster_model import Changes
from environment.model.messages.lease import Lease
from environment.model.messages.snapshot import PoolSetback, ReservedJob
from environment.pools import Terms
from environment.resources import Resources
from environment.types import Vm
from tests.daemon.store.rows.test_damaged_rows import flip
from tests.daemon.store.test_job_store import make_task, submit, url_of

VM = Vm("p-1", "p-1", "m1.large", Resources.of(4, 16384, {"gpus": 1.0}), 0.24, terms=Terms("p", 60.0, 60.0))


@pytest.fixture(params=["sqlite", "postgresql"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    """A new store."""
    url = url_of(tmp_path) if request.param == "sqlite" else request.getfixturevalue("postgresql_url")
    with contextlib.closing(Store(url, at=1.0)) as store:
        yield store


def test_leases_are_kept_until_they_cost_nothing_more(store: Store) -> None:
    """They come back as they were, in order of asking; those that ended do not."""
    first = Lease("p-1.7", VM, 10.0, "up", "for job-1", "vm-3", "S1", 11.0, 70.5, 80.0)
    later = Lease("p-1.6", replace(VM, terms=None), 20.0)
    store.changes.save(Changes((), (), leases=(later, first)))
    assert store.vms.leases() == [first, later]
    ended = replace(first, state="closed", closed_at=99.0, charged=0.02)
    store.changes.save(Changes((), (), leases=(ended, replace(later, state="lost"))))
    assert store.vms.leases() == []
    assert store.vms.paid_until(98.0) == [("vm-3", 99.0), ("p-1.7", 99.0)]
    assert store.vms.paid_until(99.0) == []


def test_leases_that_ended_long_ago_are_forgotten(store: Store) -> None:
    """Those that may still cost something never are."""
    ended = [Lease(f"p-1.{n}", VM, 1.0, "closed", closed_at=float(n)) for n in (10, 20)]
    store.changes.save(Changes((), (), leases=(*ended, Lease("p-1.3", VM, 1.0, "closing", closing_at=5.0))))
    store.vms.forget_leases(15.0)
    with store.database.read() as connection:
        assert set(connection.scalars(sa.select(leases.c.id))) == {"p-1.3", "p-1.20"}


def test_a_lease_is_kept_with_what_caused_it_or_not_at_all(store: Store) -> None:
    """So no VM is asked for that nobody would find again."""
    submit(store)
    with pytest.raises(StoreError, match=r"(?i)foreign key"):
        store.changes.save(Changes((), (make_task("job-77", 0),), leases=(Lease("p-1.7", VM, 10.0),)))
    assert store.vms.leases() == []


def test_who_waits_for_vms_and_which_pools_are_left_alone_is_kept(store: Store) -> None:
    """Until that is over; in the order in which jobs were placed."""
    first, later = (ReservedJob(f"job-{n}", ("p-1",), (VM.resources,), 30.0 - n, "p-1") for n in (10, 9))
    pool = PoolSetback("p", 2, 7.0, 27.0, "none is left")
    reserved = {"job-9": later, "job-10": first}
    store.changes.save(Changes((), (), reserved={**reserved, "job-8": None}, setbacks={"p": pool}))
    assert (store.vms.reservations(), store.vms.pool_setbacks()) == ([first, later], [pool])
    store.changes.save(Changes((), (), reserved={"job-9": None, "job-10": first._replace(ready_at=9.0)}))
    store.changes.save(Changes((), (), setbacks={"p": None}))
    assert (store.vms.reservations(), store.vms.pool_setbacks()) == ([first._replace(ready_at=9.0)], [])


@pytest.mark.parametrize("mender", ["daemon", "doctor"])
def test_a_damaged_reservation_costs_no_other(tmp_path: Path, mender: str) -> None:
    """It is told, and put aside; its job is decided again."""
    with contextlib.closing(Store(url_of(tmp_path), at=1.0)) as store:
        kept = {f"job-{n}": ReservedJob(f"job-{n}", ("p-1",), (VM.resources,), 5.0) for n in (1, 2)}
        store.changes.save(Changes((), (), reserved=kept))
        flip(tmp_path, "reservations", "record", "id = 'job-1'")
        assert [reserved.job_id for reserved in store.vms.reservations()] == ["job-2"]
        if mender == "daemon":
            assert [(aside.table, aside.key) for aside in store.jobs.open.take_up(50.0).damages] == [
                ("reservations", "job-1")
            ]
    if mender == "doctor":
        (*_, last) = Doctor(url_of(tmp_path), tmp_path, repair=True).examine().findings
        assert "reservations job-1" in last.what
    with contextlib.closing(Store(url_of(tmp_path))) as store:
        assert [reserved.job_id for reserved in store.vms.reservations()] == ["job-2"]
        assert store.jobs.open.take_up(51.0).damages == store.damages.all() == ()


@pytest.mark.parametrize("mender", ["daemon", "doctor"])
def test_a_damaged_lease_costs_no_other(tmp_path: Path, mender: str) -> None:
    """It is told, and put aside; then nobody knows its VM, which is closed as such."""
    with contextlib.closing(Store(url_of(tmp_path), at=1.0)) as store:
        store.changes.save(Changes((), (), leases=tuple(Lease(f"p-1.{n}", VM, n) for n in (1.0, 2.0))))
        flip(tmp_path, "leases", "record", "id = 'p-1.1.0'")
        assert [lease.id for lease in store.vms.leases()] == ["p-1.2.0"]
        (damage,) = store.damages.all()
        assert (damage.table, damage.key, damage.job_id) == ("leases", "p-1.1.0", "")
        if mender == "daemon":
            assert [aside.key for aside in store.jobs.open.take_up(50.0).damages] == ["p-1.1.0"]
    if mender == "doctor":
        assert "leases p-1.1.0" in Doctor(url_of(tmp_path), tmp_path, repair=True).examine().findings[-1].what
    with contextlib.closing(Store(url_of(tmp_path))) as store:
        assert [lease.id for lease in store.vms.leases()] == ["p-1.2.0"]
        assert store.jobs.open.take_up(51.0).damages == store.damages.all() == ()
