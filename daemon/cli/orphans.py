"""Processes that outlive their parents: adopted by this process, found below it, ended."""

import contextlib
import ctypes
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

from daemon.embedded import until
from framework.spark.supervisor import identity

_PR_SET_CHILD_SUBREAPER = 36  # prctl(2)


def end_all(find_pids: Callable[[], list[int]], grace_seconds: float = 5.0) -> None:
    """End every process that is found, and what they leave behind: SIGTERM, and after the grace SIGKILL."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        for pid in find_pids():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)
        if until(lambda: not find_pids(), grace_seconds):
            return


def adopt_orphans() -> None:
    """Make this process the parent of every descendant whose own parent ends."""
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def descendants() -> Iterator[int]:
    """The pids of all living processes below this one."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError, IndexError, ValueError):
                parent = int((entry / "stat").read_text(errors="replace").rpartition(")")[2].split()[1])
                children.setdefault(parent, []).append(int(entry.name))
    pending = list(children.get(os.getpid(), []))
    while pending:
        pid = pending.pop()
        pending += children.get(pid, [])
        if identity(pid) is not None:
            yield pid
