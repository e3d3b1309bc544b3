"""Processes: their identity and user; descendants adopted, found, and ended with all that they start.

It imports nothing but the standard library, so that small programs of their own may use it.
"""

import contextlib
import ctypes
import os
import resource
import signal
import time
from collections.abc import Collection, Sequence
from pathlib import Path

_PR_SET_PDEATHSIG = 1  # linux/prctl.h
_PR_SET_CHILD_SUBREAPER = 36  # linux/prctl.h
_PAUSE_SECONDS = 0.005  # time until a killed process is gone


def adopt_orphans() -> None:
    """Make this process the parent of every descendant that loses its own parent, in any session."""
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def end_with_parent(parent: int, number: signal.Signals) -> None:
    """Have the kernel send this process a signal when its parent, of that pid, ends or has ended already."""
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, int(number), 0, 0, 0)
    if os.getppid() != parent:
        os.kill(os.getpid(), number)


def outlive_parent() -> None:
    """Undo `end_with_parent`."""
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, 0, 0, 0, 0)


def become(uid: int, gid: int, groups: Sequence[int]) -> None:
    """Adopt another user's rights, and drop all others for good; only root can. OSError."""
    os.setgroups(groups)
    os.setresgid(gid, gid, gid)
    os.setresuid(uid, uid, uid)


def limit_processes(most: int) -> None:
    """Limit the processes and threads of the user that this process becomes, all of that user's together.

    Root is not limited, nor are others: they find room for their own when a user's multiply without end.
    """
    _, hard = resource.getrlimit(resource.RLIMIT_NPROC)
    most = most if hard == resource.RLIM_INFINITY else min(most, hard)
    resource.setrlimit(resource.RLIMIT_NPROC, (most, most))


def identity(pid: int) -> dict[str, int | str] | None:
    """Key that distinguishes this process from any other with its pid at any time; None when it is gone."""
    try:
        # The name in parentheses may hold anything; after it come the state, the parent and, 20th, the start.
        fields = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    if fields[0] in "ZX":
        return None
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return {"pid": pid, "start": int(fields[19]), "boot": boot}


def is_stopped(pid: int) -> bool:
    """Whether a process stands still by a signal such as SIGSTOP; False when it is gone."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return False
    return text.rpartition(")")[2].split()[0] in "Tt"


def let_go_on(pid: int) -> None:
    """Resume a process if it stands still by a signal such as SIGSTOP."""
    if is_stopped(pid):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGCONT)


def since_beat(file: Path) -> float | None:
    """Seconds since a process beat last, by its file; None where it never did since the machine started.

    It beats by setting the file's time of change, to CLOCK_MONOTONIC (ns), as long as it works. Unlike an
    answer on a port, which others can fill, that is disturbed by nobody.
    """
    try:
        seconds = time.monotonic() - file.stat().st_mtime_ns / 1e9
    except OSError:
        return None
    return seconds if seconds >= 0 else None


def below(root: int) -> list[int]:
    """The pids of all living processes below this one; zombies are not living, but their descendants are."""
    children: dict[int, list[int]] = {}
    dead = set()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError, ValueError):
                # The name in parentheses may hold anything, even bytes that are no text.
                text = (entry / "stat").read_text(errors="replace").rpartition(")")[2]
                state, parent = text.split()[:2]
                children.setdefault(int(parent), []).append(int(entry.name))
                if state in "ZX":
                    dead.add(int(entry.name))
    found, pending = [], list(children.get(root, []))
    while pending:
        pid = pending.pop()
        pending += children.get(pid, [])
        if pid not in dead:
            found.append(pid)
    return found


def children(pid: int) -> list[int]:
    """The pids of the children of a process's main thread, zombies among them; all orphans are its."""
    try:
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:  # a kernel without that file, or a process that is gone
        return []


def kill_below(root: int, seconds: float, spared: Collection[int] = ()) -> list[int]:
    """Kill all processes below `root` until none is left; return those left after `seconds` seconds.

    Ended processes are not reaped here. Repeated, because processes under attack may be starting others.
    """
    end = time.monotonic() + seconds
    while victims := [pid for pid in below(root) if pid not in spared]:
        for pid in victims:
            kill(pid)
        if time.monotonic() > end:
            return victims
        time.sleep(_PAUSE_SECONDS)
    return []


def kill(pid: int) -> None:
    """Kill a process, if it is still there and ours."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, signal.SIGKILL)
