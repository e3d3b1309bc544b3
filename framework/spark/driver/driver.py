"""Drivers on this host: starts them, finds them again after a restart of the daemon, ends them.

A driver has a folder to run in, and records, in a folder that does not belong to the job. Its supervisor
(see `supervisor`) keeps both alive through the daemon's death; a later daemon learns about the driver from
the records. Where jobs run as the daemon's own user they can write there all the same: so records are
treated as untrusted input, and invalid ones end this driver and nothing else.
"""

import contextlib
import json
import math
import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from framework.host.cgroups import most_processes_here
from framework.host.process_tree import identity, let_go_on
from framework.host.stop_signals import unblocked
from framework.host.unix_users import UnixAccount
from framework.host.untrusted_files import UntrustedFileError, read_whole
from framework.spark.command_lines import ProcessSpec
from framework.spark.driver import supervisor

# Variables that a driver inherits from the daemon's environment. Credentials of the daemon are none of its
# business.
_INHERITED = ("PATH", "HOME", "USER", "LOGNAME", "LANG", "LC_ALL", "TZ", "HADOOP_CONF_DIR")
#: Bytes of a record; those that are written hold less than a tenth.
_LONGEST = 1 << 14
#: Seconds for the supervisor to start the driver, which takes it a tenth of one.
_PATIENCE = 30.0
#: How many are started at once: interpreters that start side by side keep each other from it.
_AT_ONCE = threading.BoundedSemaphore(max(2, os.cpu_count() or 2))

Process = Mapping[str, int | str]


class HostError(OSError):
    """The driver could not be started because of the host, not because of the job: it may be tried again."""


class TooLateError(HostError):
    """The driver was not started, since another daemon might have led by then: no fault of the host."""


@dataclass(frozen=True, slots=True)
class DriverStatus:
    """State of a driver on this host."""

    state: Literal["absent", "running", "ended", "lost", "unclear"]
    """absent: never started under these records; lost: its supervisor is gone and its end is unknown;
    unclear: its records differ from those written there."""
    exit_code: int | None = None
    """When ended; 128 + N when signal N ended it."""
    message: str = ""
    """Reason why it could not be started, or why it is unclear."""
    host_failed: bool = False
    """Whether it ended before it began, for a reason of the host."""


@dataclass(frozen=True, slots=True)
class DriverPlace:
    """Folders of a driver on this host: `folder` is the job's own, `records` is not for jobs to see."""

    folder: Path
    records: Path
    ports: tuple[tuple[str, int], ...] = ()
    """Addresses and ports that are reserved for it until it has ended."""
    user: UnixAccount | None = None
    """The user to run as; None: the daemon's own user."""
    groups: tuple[str, ...] = ()
    """Control groups to run in, made for this driver alone."""


@dataclass(frozen=True, slots=True)
class _Records:
    """Contents of `process.json`."""

    supervisor: Process | None
    driver: Process | None
    groups: tuple[Path, ...]


def start_driver(
    spec: ProcessSpec,
    place: DriverPlace,
    environ: Mapping[str, str],
    grace_seconds: float = 10.0,
    *,
    before: Callable[[], float] = lambda: math.inf,
) -> DriverStatus:
    """Start a driver, once: where one was started before, that one's status is the answer.

    `stdout`, `stderr` and Spark's event log (`events/`) are left in its folder. The driver survives this
    process. `environ` is the daemon's environment; few variables of it reach the driver, and none of the
    driver's reach the supervisor. `grace_seconds` is how long it may take to end after `stop_driver`. From
    `before` on (seconds by CLOCK_BOOTTIME, asked when all else is ready) it is not started, even if this
    process stood still meanwhile.

    TooLateError when it is too late, HostError when a folder or the supervisor could not be made, or there
    was no answer.
    """
    try:
        place.records.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = driver_status(place.records)
        if status.state != "absent":
            return status
        place.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if place.user is not None:
            place.folder.parent.chmod(0o711)  # a way through with any umask
            os.chown(place.folder, place.user.uid, place.user.gid, follow_symlinks=False)
        said = _run_supervisor(spec, place, environ, grace_seconds, before)
        status = driver_status(place.records)
    except HostError:
        raise
    except OSError as error:
        raise HostError(str(error)) from error
    if status.state == "absent" and supervisor.TOO_LATE in said:
        raise TooLateError(supervisor.TOO_LATE)
    if status.state == "absent":
        raise HostError(f"cannot start a driver under {place.records}: {said.strip()[-1000:]}")
    return status


def _run_supervisor(
    spec: ProcessSpec,
    place: DriverPlace,
    environ: Mapping[str, str],
    grace_seconds: float,
    before: Callable[[], float],
) -> str:
    """Start a supervisor, which starts the driver; return its error, or an empty text when all is well."""
    inherited = {name: environ[name] for name in _INHERITED if name in environ}
    folder, user = str(place.folder.absolute()), place.user
    user_variables = {} if user is None else {"HOME": folder, "USER": user.name, "LOGNAME": user.name}
    task = {
        "argv": spec.argv,
        "environment": {**inherited, **user_variables, **spec.environment, **spec.secrets},
        "folder": folder,
        "grace": grace_seconds,
        "user": None if user is None else (user.uid, user.gid, *user.groups),
        "ports": place.ports,
        "groups": place.groups,
        "processes": 0 if user is None else most_processes_here(),
    }
    program = [sys.executable, "-I", "-S", supervisor.__file__, str(place.records.absolute())]
    with _AT_ONCE, _started(program, inherited) as process:
        try:
            said = _await_ready(process)
            if said:
                return said
            task["before"] = before()
            # Its output ends when the supervisor lets go of the stream: then the driver is started.
            output, _ = process.communicate(json.dumps(task).encode(), timeout=_PATIENCE)
        except (subprocess.TimeoutExpired, TimeoutError):
            process.kill()
            raise HostError(f"the driver's supervisor did not answer in {_PATIENCE:.0f} s") from None
        return output.decode(errors="replace")


def _started(program: list[str], environment: Mapping[str, str]) -> "subprocess.Popen[bytes]":
    with unblocked():
        return subprocess.Popen(
            program, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )


def _await_ready(process: "subprocess.Popen[bytes]") -> str:
    """Wait until a supervisor accepts commands; return its error when it fails, else an empty text."""
    out = process.stdout.fileno() if process.stdout else -1
    said, deadline, poll = b"", time.monotonic() + _PATIENCE, select.poll()
    poll.register(out, select.POLLIN)
    while said != (ready := f"{supervisor.READY}\n".encode()):
        if not ready.startswith(said):
            rest, _ = process.communicate(timeout=_PATIENCE)
            return (said + rest).decode(errors="replace")
        if not poll.poll(1000 * max(0.0, deadline - time.monotonic())):
            raise TimeoutError
        # No more than that: others read the rest.
        if not (part := os.read(out, len(ready) - len(said))):
            return said.decode(errors="replace") or "its supervisor ended at once"
        said += part
    return ""


def driver_status(records: Path) -> DriverStatus:
    """State of the driver with these records. Costs a few reads of small files.

    OSError when the records cannot be read now.
    """
    try:
        processes = _processes(records)
        if processes is None:
            return DriverStatus("absent")
        running = _is_supervisor(processes.supervisor, records)
        if running and processes.supervisor is not None:  # it would never report the driver's end
            let_go_on(int(processes.supervisor["pid"]))
        # Read after the look at the process: a supervisor that is gone has written all that it ever will.
        return _ended(records) or DriverStatus("running" if running else "lost")
    except ValueError as error:
        return DriverStatus("unclear", message=str(error))


def stop_driver(records: Path) -> None:
    """Ask the driver with these records to end and return at once; it is killed after the grace period.

    A driver that lost its supervisor is killed at once. One with altered records is found by its supervisor.
    One that is absent or has ended is left alone.
    """
    try:
        processes = _processes(records)
    except ValueError:
        processes = None
    if processes is None:
        for pid in _supervisors(records):
            _signal(pid, signal.SIGTERM)
            let_go_on(pid)
        return
    keeper, driver = processes.supervisor, processes.driver
    if keeper is not None and _is_supervisor(keeper, records):
        _signal(int(keeper["pid"]), signal.SIGTERM)
        let_go_on(int(keeper["pid"]))
    elif driver_status(records).state != "ended":
        if driver is not None and _group_is_ours(driver):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(int(driver["pid"]), signal.SIGKILL)
        for group in processes.groups:
            supervisor.end_group(group)


def _ended(records: Path) -> DriverStatus | None:
    """Recorded end of the driver, as its supervisor wrote it; None when there is no such record."""
    text = _read(records, supervisor.EXIT_CODE_FILE)
    if text is None:
        return None
    code, _, message = text.partition("\n")
    if not (code.isascii() and code.isdecimal() and len(code) <= 3 and int(code) <= 255):
        raise ValueError(f"{supervisor.EXIT_CODE_FILE}: not an exit code")
    fault, _, why = message.partition(": ")
    return DriverStatus("ended", int(code), why, host_failed=fault == "host")


def _processes(records: Path) -> _Records | None:
    """Recorded processes; None when there never were any. ValueError when the record is invalid."""
    text = _read(records, supervisor.PROCESS_FILE)
    if text is None:
        return None
    try:
        found = json.loads(text)
        groups = tuple(Path(group) for group in found.get("groups", ()))
        if not all(group.is_relative_to("/sys/fs/cgroup") and ".." not in group.parts for group in groups):
            raise ValueError
        return _Records(_process(found["supervisor"]), _process(found["driver"]), groups)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        raise ValueError(f"{supervisor.PROCESS_FILE}: not a record of a process") from None


def _process(found: Any) -> Process | None:
    if found is None:
        return None
    pid, start, boot = found["pid"], found["start"], found["boot"]
    if type(pid) is not int or not 1 < pid < 1 << 31 or type(start) is not int or type(boot) is not str:
        raise ValueError
    return {"pid": pid, "start": start, "boot": boot}


def _read(records: Path, name: str) -> str | None:
    """A record; None when it is not there, ValueError when it cannot be one."""
    try:
        return read_whole(records, name, _LONGEST).decode()
    except FileNotFoundError:
        return None
    except UnicodeDecodeError:
        raise ValueError(f"{name}: not a text") from None
    except UntrustedFileError as error:
        raise ValueError(str(error)) from None


def _group_is_ours(leader: Process) -> bool:
    """Whether the leader's process group, if any is left, is the driver's.

    While one member lives, Linux gives the group's number to no new process; so it is ours unless the
    leader's pid has a new owner.
    """
    return identity(int(leader["pid"])) in (None, leader)


def _is_supervisor(process: Process | None, records: Path) -> bool:
    """Whether this process lives and works in the records' folder, which no process of a job does."""
    if process is None or identity(int(process["pid"])) != process:
        return False
    return _works_in(int(process["pid"]), records)


def _supervisors(records: Path) -> Iterator[int]:
    """The pids of all processes that run in the records' folder."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and _works_in(int(entry.name), records):
            yield int(entry.name)


def _works_in(pid: int, folder: Path) -> bool:
    """Whether a process runs in this folder, or in the one that was there and was removed."""
    own = Path(f"/proc/{pid}/cwd")
    try:
        return str(own.readlink()) == f"{folder.absolute()} (deleted)" or os.path.samestat(
            own.stat(), folder.stat()
        )
    except OSError:
        return False


def _signal(pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)
