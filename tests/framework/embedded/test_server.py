"""The embedded master's socket, by itself: what becomes of connections when it ends."""

import asyncio
import gc
import socket
import warnings
from pathlib import Path

import pytest

from framework.embedded.embedded_cluster import EmbeddedCluster
from framework.embedded.mesos_server import _Front, _listen
from framework.embedded.routes import Access
from framework.embedded.settings import MasterOptions
from framework.guard import Guard
from tests.framework.embedded.running import small_cluster


@pytest.mark.parametrize("rounds", range(5))
def test_a_connection_of_the_last_moment_is_cut(rounds: int, tmp_path: Path) -> None:
    """However far asyncio has come with accepting it when the master ends, its socket is closed."""

    async def connect_and_end() -> None:
        listener = _listen("127.0.0.1", 0)
        host, port = listener.getsockname()
        cluster = EmbeddedCluster(
            small_cluster(), options=MasterOptions(), work_dir=tmp_path, host=host, port=port, cells={}
        )
        front = _Front(cluster, (host, port), Access(Guard(None)))
        await front.open(listener)
        with socket.create_connection((host, port)):
            for _ in range(rounds):
                await asyncio.sleep(0)
            await front.close()
        await cluster.close()

    with warnings.catch_warnings(record=True) as complaints:
        warnings.simplefilter("always")
        asyncio.run(connect_and_end())
        gc.collect()
    assert not [str(each.message) for each in complaints]
