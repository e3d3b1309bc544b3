"""A PostgreSQL server of the tests' own, where its programs are installed."""

import contextlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import sqlalchemy as sa

from tests.daemon.ports import free_port


def postgresql_programs() -> Path | None:
    """The folder with initdb and pg_ctl, which distributions keep out of PATH; None without them."""
    found = [Path(path).parent for path in [shutil.which("pg_ctl")] if path]
    found += sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    return next((folder for folder in found if (folder / "initdb").exists()), None)


class PostgreSql:
    """A server with its data in a folder, which a test can stop and start."""

    def __init__(self, programs: Path, folder: Path) -> None:
        """Make its data; it does not run yet."""
        self._programs, self._folder, self._port = programs, folder, free_port()
        self._user = "nobody" if os.geteuid() == 0 else None  # the server refuses to run as root
        if self._user is not None:
            shutil.chown(folder, self._user)
        self._run("initdb", "-A", "trust", "-U", "stoker", "-E", "UTF8", "--no-sync")
        self.url = f"postgresql://stoker@127.0.0.1:{self._port}"

    def start(self) -> None:
        """Start it, and wait until it answers."""
        options = f"-p {self._port} -k {self._folder} -c listen_addresses=127.0.0.1 -c fsync=off"
        self._run("pg_ctl", "start", "-w", "-o", options, "-l", str(self._folder / "log"))

    def stop(self, mode: str = "immediate") -> None:
        """End it: in order (`fast`), or as if it crashed."""
        self._run("pg_ctl", "stop", "-w", "-m", mode)

    def _run(self, program: str, *arguments: str) -> None:
        command: list[str | Path] = [self._programs / program, "-D", self._folder / "data", *arguments]
        subprocess.run(command, user=self._user, cwd="/", check=True, stdout=subprocess.DEVNULL)


@contextlib.contextmanager
def postgresql_process() -> Iterator[PostgreSql]:
    """Run a server that keeps its data in a temporary folder."""
    programs = postgresql_programs()
    assert programs is not None, "PostgreSQL is not installed"
    with tempfile.TemporaryDirectory(prefix="stoker-pg-") as name:
        server = PostgreSql(programs, Path(name))
        server.start()
        try:
            yield server
        finally:
            server.stop()


@contextlib.contextmanager
def postgresql() -> Iterator[str]:
    """Run such a server; its URL, without a database."""
    with postgresql_process() as server:
        yield server.url


def empty_database(server: str) -> str:
    """Make the database anew; its URL."""
    engine = sa.create_engine(f"{server}/postgres".replace(":", "+psycopg:", 1))
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.execute(sa.text("DROP DATABASE IF EXISTS stoker WITH (FORCE)"))
        connection.execute(sa.text("CREATE DATABASE stoker"))
    engine.dispose()
    return f"{server}/stoker"
