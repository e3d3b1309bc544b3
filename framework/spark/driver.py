"""Drivers on this host: starts them, finds them again after a restart of the daemon, ends them.

A driver belongs to its folder. Its supervisor (see `supervisor`) keeps it there through the daemon's death;
what a later daemon knows of it, it reads from the files in that folder.
"""

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from framework.spark import supervisor
from framework.spark.launch import ProcessSpec

# What a driver takes over from the daemon's environment. Credentials of the daemon are none of its business.
_INHERITED = ("PATH", "HOME", "USER", "LOGNAME", "LANG", "LC_ALL", "TZ", "HADOOP_CONF_DIR")


@dataclass(frozen=True, slots=True)
class DriverStatus:
    """How a driver on this host is doing."""

    state: Literal["absent", "running", "ended", "lost"]
    """absent: never started in this folder; lost: its supervisor is gone and nobody knows how it ended."""
    exit_code: int | None = None
    """When ended; 128 + N when signal N ended it."""


def start_driver(
    spec: ProcessSpec, folder: Path, environ: Mapping[str, str], grace_seconds: float = 10.0
) -> DriverStatus:
    """Start a driver in `folder`, once: where one was started before, that one's status is the answer.

    `stdout`, `stderr`, Spark's event log (`events/`) and `exit_code` are left in the folder. The driver
    survives this process. `environ` is the daemon's environment; few variables of it reach the driver.
    `grace_seconds` is how long it may take to end after `stop_driver`.

    Raises:
        OSError: the folder or the supervisor could not be made.
    """
    folder.mkdir(parents=True, exist_ok=True)
    status = driver_status(folder)
    if status.state != "absent":
        return status
    inherited = {name: environ[name] for name in _INHERITED if name in environ}
    program = [sys.executable, "-I", "-S", supervisor.__file__, str(folder.absolute()), str(grace_seconds)]
    # Its output ends when the supervisor lets go of the stream: then the driver is started.
    started = subprocess.run(
        [*program, *spec.argv],
        env={**inherited, **spec.environment, **spec.secrets},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    status = driver_status(folder)
    if status.state == "absent":
        raise OSError(f"cannot start a driver in {folder}: {started.stdout.strip()}")
    return status


def driver_status(folder: Path) -> DriverStatus:
    """Return how the driver of `folder` is doing. Costs a few reads of small files."""
    processes = _processes(folder)
    if processes is None:
        return DriverStatus("absent")
    running = _is_alive(processes["supervisor"])
    # Read after the look at the process: a supervisor that is gone has written all that it ever will.
    try:
        return DriverStatus("ended", int((folder / supervisor.EXIT_CODE_FILE).read_text()))
    except FileNotFoundError:
        return DriverStatus("running" if running else "lost")


def stop_driver(folder: Path) -> None:
    """Ask the driver of `folder` to end and return at once; its supervisor kills it after the grace period.

    A driver that lost its supervisor is killed at once. One that is absent or has ended is left alone.
    """
    processes = _processes(folder)
    if processes is None:
        return
    keeper, driver = processes["supervisor"], processes["driver"]
    with contextlib.suppress(ProcessLookupError):
        if keeper and _is_alive(keeper):
            os.kill(int(keeper["pid"]), signal.SIGTERM)
        elif driver and _group_is_ours(driver) and driver_status(folder).state == "lost":
            os.killpg(int(driver["pid"]), signal.SIGKILL)


def _processes(folder: Path) -> dict[str, dict[str, int | str] | None] | None:
    try:
        processes: dict[str, dict[str, int | str] | None] = json.loads(
            (folder / supervisor.PROCESS_FILE).read_text()
        )
    except FileNotFoundError:
        return None
    return processes


def _group_is_ours(leader: Mapping[str, int | str]) -> bool:
    """Tell whether the leader's process group, if any is left, is the driver's.

    While one member lives, Linux gives the group's number to no new process; so it is ours unless the
    leader's pid has a new owner.
    """
    return supervisor.identity(int(leader["pid"])) in (None, leader)


def _is_alive(process: Mapping[str, int | str] | None) -> bool:
    return process is not None and supervisor.identity(int(process["pid"])) == process
