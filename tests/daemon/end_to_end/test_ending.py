"""SIGTERM ends a whole daemon in time while its log, its database or its files stand still.

`framework.host.forced_exit` promises 9 s. The tests do not measure: without it, each of these daemons stays
for ever.
"""

import contextlib
import fcntl
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from framework.host.process_tree import below
from tests.chaos.scene import MINIATURE, REPOSITORY
from tests.daemon.ports import free_port
from tests.daemon.postgresql import empty_database, postgresql, postgresql_programs
from tests.waiting import PATIENCE, until


@contextlib.contextmanager
def daemon_of(folder: Path, log: Any, **config: Any) -> Iterator["subprocess.Popen[bytes]"]:
    """A daemon without a master, once it serves; `log` is its standard error."""
    address = f"127.0.0.1:{free_port()}"
    file = folder / "stoker.yaml"
    settings = {"data_dir": str(folder / "data"), "listen": address, "mesos": {"master": "127.0.0.1:9"}}
    file.write_text(yaml.safe_dump({**settings, "spark": MINIATURE, **config}))
    command = [sys.executable, "-P", "-m", "daemon.cli", "up", "--config", str(file)]
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    with subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=log) as process:
        try:
            until(lambda: serves(f"http://{address}"))
            yield process
        finally:
            process.kill()


def serves(url: str) -> bool:
    """Whether a daemon answers there."""
    with contextlib.suppress(httpx.TransportError):
        return httpx.get(f"{url}/healthz", trust_env=False).status_code == 200
    return False


def fill(descriptor: int) -> None:
    """Write into a pipe until it takes no more."""
    flags = fcntl.fcntl(descriptor, fcntl.F_GETFL)
    fcntl.fcntl(descriptor, fcntl.F_SETFL, flags | os.O_NONBLOCK)
    with contextlib.suppress(BlockingIOError):
        while True:
            os.write(descriptor, b"x")
    fcntl.fcntl(descriptor, fcntl.F_SETFL, flags)


@pytest.mark.slow
def test_with_a_log_that_nobody_reads(tmp_path: Path) -> None:
    """The pipe is full: each thread that logs waits for ever."""
    reading, writing = os.pipe()
    try:
        with daemon_of(tmp_path, writing) as daemon:
            fill(writing)
            daemon.terminate()
            assert daemon.wait(PATIENCE) == 0
    finally:
        os.close(reading)
        os.close(writing)


@pytest.mark.slow
@pytest.mark.skipif(postgresql_programs() is None, reason="PostgreSQL is not installed")
def test_with_a_database_that_stands_still(tmp_path: Path) -> None:
    """Every process of PostgreSQL is stopped: no statement comes back, and no connection breaks."""
    with (
        postgresql() as server,
        (tmp_path / "log").open("wb") as log,
        daemon_of(tmp_path, log, database=empty_database(server)) as daemon,
    ):
        postmaster = server_on(server.rpartition(":")[2])
        stopped = [postmaster, *below(postmaster)]
        for pid in stopped:
            os.kill(pid, signal.SIGSTOP)
        try:
            daemon.terminate()
            assert daemon.wait(PATIENCE) == 0
        finally:
            for pid in stopped:
                os.kill(pid, signal.SIGCONT)


def server_on(port: str) -> int:
    """The process of the PostgreSQL server on this port."""
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            words = path.read_bytes().split(b"\0")
            if words[0].endswith(b"/postgres") and port.encode() in words:
                return int(path.parent.name)
    raise AssertionError(f"no PostgreSQL server on port {port}")
