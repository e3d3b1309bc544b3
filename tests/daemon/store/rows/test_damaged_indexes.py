"""A damaged index would hide rows: a start refuses it, and the doctor makes it anew. Nothing is lost."""

import contextlib
import sqlite3
from pathlib import Path

import pytest

from daemon.maintenance.doctor import Doctor
from daemon.store import opening
from daemon.store.job_store import Store
from daemon.store.rows.database import StoreError
from environment.model.cluster_model import Changes
from environment.model.messages.lease import Lease
from tests.daemon.store.rows.test_damaged_rows import store
from tests.daemon.store.rows.test_leases import VM
from tests.daemon.store.test_job_store import url_of

__all__ = ["store"]

LEASE = Lease("p-1.7", VM, 10.0, "up", "for job-1", "vm-3", "S1", 11.0, 70.5, 80.0)


def spoil(folder: Path, index: str, old: bytes, new: bytes) -> None:
    """Change some bytes of an index, as a disk does."""
    path = folder / "stoker.db"
    with contextlib.closing(sqlite3.connect(path)) as sql:
        (root,) = sql.execute("SELECT rootpage FROM sqlite_master WHERE name = ?", (index,)).fetchone()
        (size,) = sql.execute("PRAGMA page_size").fetchone()
    data = path.read_bytes()
    first, end = (root - 1) * size, root * size
    assert old in data[first:end]
    path.write_bytes(data[:first] + data[first:end].replace(old, new) + data[end:])


@pytest.mark.parametrize(
    ("index", "old", "new"),
    [
        ("jobs_by_state", b"queued", b"queuee"),
        ("sqlite_autoindex_jobs_1", b"key-3", b"key-7"),
        ("ix_executors_state", b"running", b"runninf"),
        ("ix_leases_state", b"up", b"uq"),
    ],
)
def test_a_damaged_index_hides_nothing(
    store: Store,
    tmp_path: Path,
    index: str,
    old: bytes,
    new: bytes,
) -> None:
    """No job, task, key or VM: the store is refused until the doctor has made the index anew."""
    store.changes.save(Changes((), (), leases=(LEASE,)))
    before = store.jobs.open.take_up(9.0)
    store.close()
    tmp_path.chmod(0o700)
    spoil(tmp_path, index, old, new)
    with pytest.raises(StoreError, match=f"corrupt .*{index}.*stoker doctor --repair"):
        Store(url_of(tmp_path))
    (told, *_) = Doctor(url_of(tmp_path), tmp_path, repair=False).examine().findings
    assert (told.check, told.mended) == ("pages", False)
    assert "--repair` makes its indexes anew" in told.advice
    assert Doctor(url_of(tmp_path), tmp_path, repair=True).examine().well
    with contextlib.closing(Store(url_of(tmp_path))) as again:
        assert again.jobs.open.take_up(9.0) == before
        assert [lease.id for lease in again.vms.leases()] == [LEASE.id]
        found = again.jobs.by_key("key-3")
        assert found is not None
        assert found.job.id == "job-3"


@pytest.mark.parametrize(
    ("index", "old", "new"),
    [
        ("jobs_by_state", b"queued", b"queuee"),
        ("jobs_by_state", b"queued\x03\x03", b"queued\x03\x04"),
        ("ix_executors_state", b"running\x02", b"running\x01"),
    ],
)
def test_the_index_of_what_goes_on_is_checked_whatever_time_it_takes(
    store: Store,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    index: str,
    old: bytes,
    new: bytes,
) -> None:
    """Where its open rows are not those of the sums, or not the table's."""
    store.close()
    monkeypatch.setattr(opening, "_CHECK_SECONDS", 0.0)
    monkeypatch.setattr(opening, "_LOOKS", 1)
    Store(url_of(tmp_path)).close()
    spoil(tmp_path, index, old, new)
    with pytest.raises(StoreError, match="doctor --repair"):
        Store(url_of(tmp_path))


def test_wrong_sums_keep_no_daemon_from_its_start(store: Store, tmp_path: Path) -> None:
    """They have all of the indexes checked, that is all."""
    before = store.jobs.open.take_up(9.0)
    store.close()
    with contextlib.closing(sqlite3.connect(tmp_path / "stoker.db")) as sql:
        sql.execute("UPDATE sums SET number = number + 1")
        sql.commit()
    with contextlib.closing(Store(url_of(tmp_path))) as again:
        assert again.jobs.open.take_up(9.0) == before
