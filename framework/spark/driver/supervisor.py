"""Runs one driver so that it outlives the daemon, and writes down how it ended. A program of its own.

    python supervisor.py RECORDS < task

The task is JSON, handed over by a pipe, since nothing of a job may touch this program and its secrets are not
for command lines: `argv`, `environment`, `folder` (where it runs), `grace` (seconds), `user` (null, or uid,
gid and further groups), `ports` (address and port each), `groups` (control groups to run in), `processes`
(the most that user may have; 0: as many as this one) and `before` (seconds by CLOCK_BOOTTIME: too late to
start, as the daemon may have stood still, and lead no more).

The supervisor leaves the caller's session, runs the command in a session of its own, and then waits. SIGTERM
to the supervisor ends the command: SIGTERM to its process group, SIGKILL after the grace. When it has ended,
whatever it left behind is killed: its group, its control groups, and all that was adopted here. In the folder
are `stdout` and `stderr`; in RECORDS, which is no folder of the job's:

    process.json   who runs: pids, start times and the boot they belong to; made once, so a folder starts once
    exit_code      written last, in one step: the code, 128 + N when signal N ended the command; when it could
                   not be started, a second line `host: why` or `job: why` says whose fault that is

It imports next to nothing but the standard library, so that it starts at once and stays small.
"""

import contextlib
import errno
import json
import math
import os
import shutil
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[3]))  # isolated as it is, it knows no folder of ours

from framework.host.process_tree import adopt_orphans, become, below, identity, kill, limit_processes

#: Its output when it can receive the driver's command, and when it is too late for that.
READY = "ready"
TOO_LATE = "it is too late to start it: another daemon may lead by now"
PROCESS_FILE = "process.json"
EXIT_CODE_FILE = "exit_code"

# The driver's private files: the settings with the secret, and its scratch files.
_LEFTOVERS = ("spark.properties", "tmp")
_NOT_STARTED = 127  # a shell's answer to a command that it cannot start
_AWAITED = (signal.SIGCHLD, signal.SIGTERM)
#: Seconds for removing scratch files, and for killing processes that multiply faster than they are killed.
_CLEANING, _KILLING = 20.0, 30.0
#: Ended processes that are reaped before signals are looked at, and seconds until they are in any case.
_AT_ONCE, _LONGEST_WAIT = 100, 3600.0
#: Seconds until what is left of a driver that was killed is killed again.
_KILL_AGAIN = 1.0
#: Errors of a disk that may have room again.
_PASSING = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EROFS, errno.EMFILE, errno.ENFILE})
#: Errors that say that the command is no good, and not the host.
_FAULTS_OF_THE_JOB = frozenset({errno.ENOENT, errno.EACCES, errno.ENOEXEC, errno.E2BIG, errno.ENOTDIR})


def main(records: str) -> None:
    """Start the command and return at once; a process of its own sees it through."""
    print(READY, flush=True)  # on a busy machine it takes long to come here, and leases are short
    told = sys.stdin.read()
    if not told:
        return
    task = json.loads(told)
    if time.clock_gettime(time.CLOCK_BOOTTIME) >= task["before"]:
        print(TOO_LATE)
        return
    if os.fork():
        return
    os.setsid()
    os.chdir(records)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # a caller that ignores it must not make us miss the end
    signal.pthread_sigmask(signal.SIG_BLOCK, _AWAITED)
    # A child of the driver that leaves its session and loses its parent becomes a child of this process.
    adopt_orphans()
    try:
        _register(task["groups"])
    except FileExistsError:
        return  # another one got here first: its driver is the one
    try:
        held = [_hold(*address) for address in task["ports"]]
        pid = _spawn(task)
    except OSError as error:
        fault = "job" if error.errno in _FAULTS_OF_THE_JOB else "host"
        _close_groups(task["groups"])
        _write_at_last(EXIT_CODE_FILE, f"{_NOT_STARTED}\n{fault}: {error.strerror or error}")
        return
    _write_at_last(PROCESS_FILE, _processes(identity(pid), task["groups"]))
    _close_streams()
    code = _see_through(pid, task["grace"], task["groups"])
    _kill_the_rest(task["groups"])
    _in_the_name_of(task, _clean_up)
    _write_at_last(EXIT_CODE_FILE, str(code))
    for holder in held:
        holder.close()


# ---- its start -----------------------------------------------------------------------------------


def _processes(driver: Mapping[str, int | str] | None, groups: list[str]) -> str:
    return json.dumps({"supervisor": identity(os.getpid()), "driver": driver, "groups": groups})


def _register(groups: list[str]) -> None:
    """Claim the records: making a link fails when the name is there, and shows a whole file or none."""
    draft = Path(f"{PROCESS_FILE}.{os.getpid()}")
    try:
        draft.write_text(_processes(None, groups))
        os.link(draft, PROCESS_FILE)
    finally:
        draft.unlink(missing_ok=True)


def _hold(address: str, port: int) -> socket.socket:
    """Bind a port that the driver will listen on: no other process gets it then, and the driver does."""
    holder = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET)
    # Linux lets two sockets that both say so have one address, as long as one of them does not listen.
    holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        holder.bind((address, port))
    except OSError as error:
        holder.close()
        raise OSError(error.errno, f"port {port} on {address}: {error.strerror}") from None
    return holder


def _spawn(task: Mapping[str, Any]) -> int:
    """Start the command; errors on the way to it are raised here."""
    heard, told = os.pipe()
    pid = os.fork()
    if not pid:
        _become(task, told)
    os.close(told)
    with open(heard, "rb") as pipe:  # noqa: PTH123 - a descriptor  # it ends when the command runs
        why = pipe.read(4096)
    if why:
        os.waitpid(pid, 0)
        number, _, text = why.decode(errors="replace").partition(" ")
        raise OSError(int(number), text)
    return pid


def _become(task: Mapping[str, Any], told: int) -> None:
    """Turn into the command, in its session, groups, user and folder; tell why not, and end."""
    step = "start a process"
    try:
        os.setsid()
        for group in task["groups"]:
            with contextlib.suppress(OSError):  # a kernel may refuse it all the same; then it is not in one
                Path(group, "cgroup.procs").write_text("0")
        step = "switch to the job's user"
        if task["processes"]:
            limit_processes(task["processes"])
        _take_part(task["user"])
        os.umask(0o022)  # the daemon's umask closes its own files
        step = f"enter {task['folder']}"
        os.chdir(task["folder"])
        create = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_NOFOLLOW
        for number, (name, flags) in enumerate(
            ((os.devnull, os.O_RDONLY), ("stdout", create), ("stderr", create))
        ):
            step = f"open {name}"
            os.dup2(os.open(name, flags, 0o644), number)
        step = f"start {task['argv'][0]}"
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        for ignored in (signal.SIGPIPE, signal.SIGXFSZ):  # by Python, and a command would inherit that
            signal.signal(ignored, signal.SIG_DFL)
        os.execvpe(task["argv"][0], task["argv"], task["environment"])  # noqa: S606 - without a shell
    except OSError as error:
        os.write(told, f"{error.errno} cannot {step}: {error.strerror}".encode())
    except Exception as error:  # such as a text that no system call takes
        os.write(told, f"{errno.ENOEXEC} cannot {step}: {error}".encode())
    finally:
        os._exit(_NOT_STARTED)


def _take_part(user: list[int] | None) -> None:
    if user is not None:
        become(user[0], user[1], user[2:])


def _close_streams() -> None:
    """Close the caller's streams, by which the caller learns that the driver is started."""
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in range(3):
        os.dup2(nothing, stream)


# ---- its end -------------------------------------------------------------------------------------


def _see_through(pid: int, grace_seconds: float, groups: list[str]) -> int:
    """Wait for the driver, end it when asked to, kill its process group and return its exit code.

    A process that traces the driver (ptrace), even one that has left its session, keeps its end from us. So
    after the grace all that the driver started is killed, until its end is seen.
    """
    kill_at: float | None = None
    while not os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT):
        all_reaped = _reap_orphans(pid)
        left = math.inf if kill_at is None else kill_at - time.monotonic()
        if left <= 0:
            _signal_group(pid, signal.SIGKILL)
            _kill({pid for group in groups for pid in _kill_group(Path(group))} | set(below(os.getpid())))
            kill_at, left = time.monotonic() + _KILL_AGAIN, _KILL_AGAIN
        received = signal.sigtimedwait(_AWAITED, min(left, _LONGEST_WAIT) if all_reaped else 0.0)
        if received is not None and received.si_signo == signal.SIGTERM and kill_at is None:
            _signal_group(pid, signal.SIGTERM)
            kill_at = time.monotonic() + grace_seconds
    _signal_group(pid, signal.SIGKILL)  # the driver is dead but not yet reaped: its group is still its own
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    return code if code >= 0 else 128 - code


def _reap_orphans(driver: int) -> bool:
    """Reap adopted processes that have ended; the driver itself is reaped elsewhere.

    Returns whether none is left; a driver can have them end faster than they are reaped, and no signal would
    be seen meanwhile.
    """
    for _ in range(_AT_ONCE):
        ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        if not ended or ended.si_pid == driver:
            return True
        os.waitpid(ended.si_pid, 0)
    return False


def _signal_group(group: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)


def _kill_the_rest(groups: list[str]) -> None:
    """Kill processes that left the driver's group: all in its control groups and all adopted here."""
    deadline = time.monotonic() + _KILLING
    while time.monotonic() < deadline:
        left = {pid for group in groups for pid in _kill_group(Path(group))} | set(below(os.getpid()))
        _kill(left)
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0] and time.monotonic() < deadline:
                pass
        if not left:
            break
        time.sleep(0.005)
    _close_groups(groups)


def end_group(group: Path, seconds: float = 5.0) -> None:
    """Kill all processes of a control group, and remove it; given up after so many seconds."""
    deadline = time.monotonic() + seconds
    while _kill_group(group) and time.monotonic() < deadline:
        time.sleep(0.005)
    _close_groups([str(group)])


def _kill_group(group: Path) -> list[int]:
    """Kill all processes of a control group, those that multiply among them; those that were there."""
    try:
        pids = [int(line) for line in (group / "cgroup.procs").read_text().split()]
    except (OSError, ValueError):
        return []
    if not pids:
        return []
    with contextlib.suppress(OSError):
        (group / "cgroup.kill").write_text("1")  # version 2, since Linux 5.14
        return pids
    # Stopped processes start no children while they are killed.
    with contextlib.suppress(OSError):
        (group / "freezer.state").write_text("FROZEN")
        pids = [int(line) for line in (group / "cgroup.procs").read_text().split()]
    _kill(pids)
    with contextlib.suppress(OSError):
        (group / "freezer.state").write_text("THAWED")
    return pids


def _close_groups(groups: list[str]) -> None:
    for group in groups:
        with contextlib.suppress(OSError):
            Path(group).rmdir()


def _kill(pids: Iterable[int]) -> None:
    for pid in pids:
        kill(pid)


def _in_the_name_of(task: Mapping[str, Any], work: Callable[[], None]) -> None:
    """Do something in the job's folder with the job's rights and no others; only so much time is given."""
    pid = os.fork()
    if not pid:
        with contextlib.suppress(Exception):
            _take_part(task["user"])
            os.chdir(task["folder"])
            work()
        os._exit(0)
    deadline = time.monotonic() + _CLEANING
    while not os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT):
        if time.monotonic() > deadline:
            _kill([pid])
        signal.sigtimedwait((signal.SIGCHLD,), 0.1)
    os.waitpid(pid, 0)


def _clean_up() -> None:
    for name in _LEFTOVERS:
        if os.path.islink(name) or not Path(name).is_dir():  # noqa: PTH114 - quick
            with contextlib.suppress(OSError):
                Path(name).unlink()
        else:
            shutil.rmtree(name, ignore_errors=True)


# ---- records -------------------------------------------------------------------------------------


def _write_at_last(name: str, text: str) -> None:
    """Write a record, when the disk has room for it: until then the driver counts as running."""
    while True:
        try:
            return _write(name, text)
        except OSError as error:
            if error.errno not in _PASSING:
                return None  # the records were removed: then no daemon waits for them either
            time.sleep(1.0)


def _write(name: str, text: str) -> None:
    """Write a file in one step and down to the disk: a reader finds the old text or the new."""
    draft = Path(f"{name}.{os.getpid()}")
    with draft.open("w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    draft.rename(name)


if __name__ == "__main__":
    main(sys.argv[1])
