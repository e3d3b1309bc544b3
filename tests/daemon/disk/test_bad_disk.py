"""A real daemon on a bad disk reports the error and accepts nothing that it cannot store."""

import contextlib
import os
import resource
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import sqlalchemy as sa

from tests.daemon.ports import free_port
from tests.waiting import PATIENCE, until

#: Bytes of a log in which a daemon can say some times what it waits for; SQLite's shared memory needs more.
LOG_SIZE = 16_000
SPEC = {"app": "https://example.org/a.py", "env": {"PADDING": "x" * 30_000}}


class Daemon:
    """A daemon with an unresponsive master, so that jobs are accepted and wait."""

    def __init__(self, folder: Path, **settings: str) -> None:
        port = free_port()
        settings = {
            "listen": f"127.0.0.1:{port}",
            "data_dir": str(folder),
            "mesos.master": f"127.0.0.1:{free_port()}",
            **settings,
        }
        chosen = [part for key, value in settings.items() for part in ("--set", f"{key}={value}")]
        self.command = [sys.executable, "-m", "daemon.cli", "up", *chosen]
        self._http = httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=300.0)
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> "Daemon":
        with Path("/dev/full").open("wb") as full:  # where its log goes is full too
            self._process = subprocess.Popen(self.command, stdout=full, stderr=full)
        until(lambda: self.get("/healthz"))
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process is not None
        self._process.terminate()
        assert self._process.wait(PATIENCE) == 0, "it was alive to the end"
        self._http.close()

    @property
    def pid(self) -> int:
        """Its process."""
        assert self._process is not None
        return self._process.pid

    def get(self, path: str) -> Any:
        """An answer's body; None when nobody answers."""
        with contextlib.suppress(httpx.TransportError):
            return self._http.get(path).json()
        return None

    def submit(self) -> httpx.Response:
        """Submit a job that takes its place on the disk."""
        return self._http.post("/v1/jobs", json=SPEC)

    def jobs(self) -> list[str]:
        """All jobs that it knows."""
        return [job["id"] for job in self.get("/v1/jobs?limit=1000")["jobs"]]


def is_refused(response: httpx.Response, why: str) -> bool:
    """Whether a submission was refused for the store's sake, in words."""
    if response.status_code == 201:
        return False
    assert response.status_code == 503, response.text
    assert response.json()["title"] == "The job store is not available"
    assert why in response.json()["detail"]
    return True


def test_a_full_disk(tmp_path: Path) -> None:
    """Jobs answered with 201 are stored, others refused; with room again the daemon resumes."""
    with Daemon(tmp_path) as daemon:
        assert daemon.submit().status_code == 201
        _, hard = resource.prlimit(daemon.pid, resource.RLIMIT_FSIZE)
        resource.prlimit(daemon.pid, resource.RLIMIT_FSIZE, (1 << 20, hard))
        accepted = 1
        while not is_refused(daemon.submit(), "the disk"):
            accepted += 1
            assert accepted < 500
        assert len(daemon.jobs()) == accepted
        resource.prlimit(daemon.pid, resource.RLIMIT_FSIZE, (hard, hard))
        until(lambda: daemon.submit().status_code == 201)
        until(lambda: daemon.get("/readyz")["checks"]["store"] == "ok")
        known = daemon.jobs()
    with Daemon(tmp_path) as daemon:
        assert daemon.jobs() == known
        assert len(known) >= accepted + 1


def test_a_daemon_that_is_started_on_a_full_disk_waits_for_room(tmp_path: Path) -> None:
    """A daemon started on a full disk reports it repeatedly and loads its store once there is room."""
    with Daemon(tmp_path / "data") as daemon:
        assert daemon.submit().status_code == 201
        known = daemon.jobs()
    again, said = Daemon(tmp_path / "data"), tmp_path / "said"
    with said.open("wb") as out:
        process = subprocess.Popen(
            again.command, stdout=out, stderr=out, preexec_fn=lambda: limit_own_files(LOG_SIZE)
        )
    try:
        until(lambda: said.read_text().count("waiting for room on the disk") > 1)
        assert process.poll() is None
        _, hard = resource.prlimit(process.pid, resource.RLIMIT_FSIZE)
        resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (hard, hard))
        until(lambda: again.get("/healthz"))
        assert again.jobs() == known
    finally:
        again._http.close()
        process.terminate()
        assert process.wait(PATIENCE) == 0, said.read_text()


def test_a_daemon_that_waits_for_room_ends_when_it_is_told_to(tmp_path: Path) -> None:
    """It has nothing to take apart, so it ends at once and as asked."""
    daemon, said = Daemon(tmp_path / "data"), tmp_path / "said"
    with said.open("wb") as out:
        process = subprocess.Popen(
            daemon.command, stdout=out, stderr=out, preexec_fn=lambda: limit_own_files(LOG_SIZE)
        )
    daemon._http.close()
    until(lambda: "waiting for room on the disk" in said.read_text())
    process.terminate()
    assert process.wait(PATIENCE) == 0, said.read_text()


def limit_own_files(size: int) -> None:
    """Let no file that this process writes grow over `size` bytes, as on a disk that is full."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))


def test_a_store_that_becomes_read_only(tmp_path: Path, postgresql_url: str) -> None:
    """A read-only store refuses submissions with a reason and still answers reads.

    The daemon resumes once it may write again.
    """
    with administrator(postgresql_url) as sql, Daemon(tmp_path, database=postgresql_url) as daemon:
        assert daemon.submit().status_code == 201
        cut = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE 'stoker%'"
        sql("ALTER DATABASE stoker SET default_transaction_read_only = on", cut)
        until(lambda: is_refused(daemon.submit(), "it is read-only"))
        assert len(daemon.jobs()) >= 1
        sql("ALTER DATABASE stoker SET default_transaction_read_only = off", cut)
        until(lambda: daemon.submit().status_code == 201)


@contextlib.contextmanager
def administrator(url: str) -> Iterator[Callable[..., None]]:
    """Connection of an administrator that may change the database."""
    server = url.rpartition("/")[0].replace(":", "+psycopg:", 1)
    engine = sa.create_engine(f"{server}/postgres")

    def sql(*statements: str) -> None:
        with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            for statement in statements:
                connection.execute(sa.text(statement))

    yield sql
    engine.dispose()


def test_a_damaged_store(tmp_path: Path) -> None:
    """The daemon does not start on a damaged store: one line names the damage, and the exit code is 2."""
    with Daemon(tmp_path) as daemon:
        assert daemon.submit().status_code == 201
    path = tmp_path / "stoker.db"
    with path.open("r+b") as file:
        file.seek(4096)
        file.write(os.urandom(8192))
    done = subprocess.run(daemon.command, capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 2
    *_, line = done.stderr.splitlines()  # before it there may be warnings of other things
    assert line.startswith(f"stoker: the job store {path}")
    assert "corrupt" in line


def test_a_full_queue(tmp_path: Path) -> None:
    """A job too many gets a 429 and a time to come again, until one has gone."""
    with Daemon(tmp_path, max_queued_jobs="3") as daemon:
        for _ in range(3):
            assert daemon.submit().status_code == 201
        refused = daemon.submit()
        assert (refused.status_code, refused.headers["retry-after"]) == (429, "30")
        assert "max_queued_jobs" in refused.json()["detail"]
        daemon._http.post("/v1/jobs/job-2/kill")
        until(lambda: daemon.submit().status_code == 201)
