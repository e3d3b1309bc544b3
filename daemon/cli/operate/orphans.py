"""Processes that outlive their parents: adopted by this process, found below it, ended."""

import contextlib
import os
import signal
from collections.abc import Callable

from daemon.substrate.embedded_mesos import until
from framework.host.process_tree import below


def end_all(find_pids: Callable[[], list[int]], grace_seconds: float = 5.0) -> None:
    """End every process found, and the processes that they leave: SIGTERM, after the grace SIGKILL."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        for pid in find_pids():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)
        if until(lambda: not find_pids(), grace_seconds):
            return


def descendants() -> list[int]:
    """The pids of all living processes below this one."""
    return below(os.getpid())
