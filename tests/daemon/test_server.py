"""What `stoker up` puts together, where it is not plain from the outside."""

import socket
from pathlib import Path

import pytest

from conf.schema import Config
from daemon.embedded import start_embedded
from daemon.server import _leave_embedded, _listen
from daemon.store import Store, StoreError


def test_answers_are_not_held_back() -> None:
    """Asyncio turns Nagle's algorithm off where the protocol is named; else answers wait 40 ms."""
    with _listen(Config(listen="127.0.0.1:0")) as listener:
        assert listener.proto == socket.IPPROTO_TCP


def test_the_embedded_mesos_stays_when_nobody_knows_whether_jobs_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A store that cannot be read neither ends tasks nor raises while the daemon stops."""
    cluster = tmp_path / "cluster.yaml"
    cluster.write_text("vms: [{type: small, cpus: 1, memory: 1g, price_per_hour: 0.1}]")
    store = Store(f"sqlite:///{tmp_path / 'stoker.db'}")

    def silent(_: Store) -> None:
        raise StoreError("gone")

    embedded = start_embedded(cluster, 0, tmp_path)
    try:
        with monkeypatch.context() as patch:
            patch.setattr(Store, "unfinished", silent)
            _leave_embedded(embedded, store)
        host, _, port = embedded.address.rpartition(":")
        socket.create_connection((host, int(port)), 5.0).close()
    finally:
        _leave_embedded(embedded, store)
        store.close()
