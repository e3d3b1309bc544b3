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


@contextlib.contextmanager
def postgresql() -> Iterator[str]:
    """Run a server that keeps its data in a temporary folder; its URL, without a database."""
    programs = postgresql_programs()
    assert programs is not None, "PostgreSQL is not installed"
    user = "nobody" if os.geteuid() == 0 else None  # the server refuses to run as root
    with tempfile.TemporaryDirectory(prefix="stoker-pg-") as name:
        folder, port = Path(name), free_port()
        if user is not None:
            shutil.chown(folder, user)
        data = str(folder / "data")

        def run(program: str, *arguments: str) -> None:
            command: list[str | Path] = [programs / program, "-D", data, *arguments]
            subprocess.run(command, user=user, cwd="/", check=True, stdout=subprocess.DEVNULL)

        run("initdb", "-A", "trust", "-U", "stoker", "-E", "UTF8", "--no-sync")
        options = f"-p {port} -k {folder} -c listen_addresses=127.0.0.1 -c fsync=off"
        run("pg_ctl", "start", "-w", "-o", options, "-l", str(folder / "log"))
        try:
            yield f"postgresql://stoker@127.0.0.1:{port}"
        finally:
            run("pg_ctl", "stop", "-w", "-m", "immediate")


def empty_database(server: str) -> str:
    """Make the database anew; its URL."""
    engine = sa.create_engine(f"{server}/postgres".replace(":", "+psycopg:", 1))
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.execute(sa.text("DROP DATABASE IF EXISTS stoker WITH (FORCE)"))
        connection.execute(sa.text("CREATE DATABASE stoker"))
    engine.dispose()
    return f"{server}/stoker"
