"""The embedded master's socket, by itself: the fate of connections when it ends."""

import asyncio
import gc
import socket
import subprocess
import sys
from pathlib import Path

from framework.embedded.cluster import EmbeddedCluster
from framework.embedded.master.routes import RouteAccess
from framework.embedded.mesos_server import _Front, shorten_log
from framework.embedded.settings import MasterOptions
from framework.host.listening_socket import listen
from framework.host.request_guard import RequestGuard
from tests.framework.embedded.running import small_cluster


def test_a_connection_of_the_last_moment_is_cut(tmp_path: Path) -> None:
    """However far asyncio has come with accepting it when the master ends, its socket is closed.

    The check runs in a process of its own: at its end a cluster kills all processes below its own.
    """
    command = [sys.executable, "-W", "always", "-m", __name__, str(tmp_path)]
    told = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (told.returncode, told.stderr) == (0, "")


async def connect_and_end(rounds: int, folder: Path) -> None:
    """End it so many turns of the loop after a connection was made."""
    listener = listen("127.0.0.1", 0)
    host, port = listener.getsockname()
    cluster = EmbeddedCluster(
        small_cluster(), options=MasterOptions(), work_dir=folder, host=host, port=port, cells={}
    )
    front = _Front(cluster, (host, port), RouteAccess(RequestGuard()))
    await front.open(listener)
    with socket.create_connection((host, port)):
        for _ in range(rounds):
            await asyncio.sleep(0)
        await front.close()
    await cluster.close()


if __name__ == "__main__":
    for rounds in range(5):
        asyncio.run(connect_and_end(rounds, Path(sys.argv[1])))
        gc.collect()


def test_a_long_log_is_emptied_where_it_is_appended_to(tmp_path: Path) -> None:
    """One that is short, or that another program may write elsewhere in, stays as it is."""
    path = tmp_path / "log"
    for mode, most, kept in (("ab", 10, False), ("ab", 100, True), ("r+b", 10, True)):
        path.write_bytes(b"a line\n" * 10)
        with path.open(mode) as log:
            shorten_log(log.fileno(), most)
        assert (path.read_bytes() == b"a line\n" * 10) is kept
    with path.open("ab") as log:
        shorten_log(log.fileno(), 10)
        log.write(b"later\n")
    assert path.read_text().splitlines() == ["earlier lines were removed, as they were too many", "later"]
