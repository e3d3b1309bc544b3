"""Facts that a disk has changed are forgotten, and the daemon starts; its lead alone is not guessed."""

import contextlib
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from conf.schema import Config
from daemon.launch.launcher import Launcher
from daemon.scheduler.build import service_of
from daemon.scheduler.foundation import TermInputs
from daemon.store.facts import OBJECTS
from daemon.store.job_store import Store
from daemon.store.rows.database import StoreError
from framework.mesos.master_link import MasterLink
from framework.mesos.session import SessionOptions
from tests.daemon.ports import free_port
from tests.daemon.store.test_job_store import url_of

DAMAGED = ["{", "[]", "7", "null", "x", "[" * 100_000, '{"chosen":{}}', '{"promotion":1}']


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """An empty store."""
    with contextlib.closing(Store(url_of(tmp_path), at=1.0)) as store:
        yield store


@pytest.mark.parametrize("text", DAMAGED)
def test_a_daemon_starts_on_facts_that_cannot_be_read(store: Store, tmp_path: Path, text: str) -> None:
    """As if they were not there; and stops again."""
    for key in (*OBJECTS, "budget", "allowances", "past use", "learned ff"):
        store.facts.put(key, text)
    config = Config(data_dir=str(tmp_path))
    launcher = Launcher(config, tmp_path, "127.0.0.1")
    connect = partial(MasterLink, SessionOptions(master=f"127.0.0.1:{free_port()}"))
    service = service_of(TermInputs(config, store, launcher, connect, data_dir=tmp_path))
    service._loop._restore()
    assert service.policy().name == "ff"
    service.stop()
    service.run()


@pytest.mark.parametrize(
    ("text", "known"), [(None, {}), ("", {}), ('{"a":1}', {"a": 1}), ("{", {}), ("[]", {})]
)
def test_values_are_those_that_can_be_read(store: Store, text: str | None, known: dict[str, int]) -> None:
    """Others are none."""
    if text is not None:
        store.facts.put("policy", text)
    assert store.facts.values("policy") == known


def test_a_damaged_term_or_lease_is_told(store: Store) -> None:
    """Another daemon may lead by it: nobody does instead."""
    store.facts.put("term", "1x")
    with pytest.raises(StoreError, match="damaged: the leader's term is '1x'; restore a backup"):
        store.terms.begin("")
    for lease in ("{", "[]", '{"holder":{}}', '{"holder":{},"session":"","seconds":NaN}'):
        store.facts.put("lease", lease)
        with pytest.raises(StoreError, match="damaged: the leader's lease cannot be read; restore a backup"):
            store.terms.watch().over()
