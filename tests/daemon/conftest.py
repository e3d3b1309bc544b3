"""A new store, and a PostgreSQL and a ZooKeeper of the tests' own, where their programs are installed."""

import contextlib
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from daemon.store.job_store import Store
from tests.daemon.fleet import Starter, fleets
from tests.daemon.ports import free_port
from tests.daemon.postgresql import empty_database, postgresql, postgresql_programs


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """A new store."""
    store = Store(f"sqlite:///{tmp_path / 'stoker.db'}")
    yield store
    store.close()


@pytest.fixture(scope="session")
def postgresql_server() -> Iterator[str]:
    """The URL (without a database) of a PostgreSQL server that keeps its data in a temporary folder."""
    if postgresql_programs() is None:
        pytest.skip("PostgreSQL is not installed")
    with postgresql() as url:
        yield url


@pytest.fixture
def postgresql_url(postgresql_server: str) -> str:
    """The URL of an empty database."""
    return empty_database(postgresql_server)


class ZooKeeper:
    """A ZooKeeper server that can be ended and started again."""

    JAR = Path("/usr/share/java/zookeeper.jar")

    def __init__(self, folder: Path) -> None:
        self.address = f"127.0.0.1:{free_port()}"
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None
        host, _, port = self.address.partition(":")
        settings = {
            "tickTime": 500, "dataDir": folder / "data", "clientPortAddress": host, "clientPort": port,
            "admin.enableServer": "false",
        }  # fmt: skip
        (folder / "zoo.cfg").write_text("".join(f"{key}={value}\n" for key, value in settings.items()))

    def start(self) -> None:
        """Start it, and wait until it answers."""
        command = [
            "java",
            "-Xmx64m",
            "-XX:TieredStopAtLevel=1",  # what is compiled here is used but briefly
            "-cp",
            str(self.JAR),
            "org.apache.zookeeper.server.quorum.QuorumPeerMain",
        ]
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [*command, str(self._folder / "zoo.cfg")], stdout=log, stderr=log
            )
        deadline = time.monotonic() + 300
        while not self._answers():
            assert time.monotonic() < deadline, (self._folder / "log").read_text()
            time.sleep(0.1)

    def stop(self) -> None:
        """End it."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def _answers(self) -> bool:
        host, _, port = self.address.partition(":")
        with contextlib.suppress(OSError), socket.create_connection((host, int(port)), 1) as connection:
            connection.sendall(b"srvr")
            return connection.recv(9) == b"Zookeeper"
        return False


@pytest.fixture
def zookeeper(tmp_path: Path) -> Iterator[ZooKeeper]:
    """A running ZooKeeper."""
    if not ZooKeeper.JAR.exists() or shutil.which("java") is None:
        pytest.skip("ZooKeeper is not installed (Debian: the package zookeeper)")
    folder = tmp_path / "zookeeper"
    folder.mkdir()
    server = ZooKeeper(folder)
    try:
        server.start()
        yield server
    finally:
        server.stop()


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[Starter]:
    """Make daemons with a Mesos and a Spark in miniature."""
    with fleets(tmp_path) as make:
        yield make
