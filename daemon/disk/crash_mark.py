"""Mark of a running daemon in its data folder: one that is found at the start was left by a crash."""

import contextlib
import json
import os
import time
from pathlib import Path

import structlog

from framework.host.process_tree import identity
from framework.host.untrusted_files import UntrustedFileError, read_whole

log = structlog.get_logger("daemon")

_NAME = "running"
_LARGEST = 1 << 12


class RunningMark:
    """The mark of this daemon, from `begin` until a stop request or an orderly end."""

    def __init__(self, data_dir: Path) -> None:
        self._folder = data_dir

    def begin(self) -> None:
        """Log a warning where the daemon before ended without a stop request, and leave a mark."""
        left = _left(self._folder)
        if left is not None:
            pid, begun = left
            log.warning(
                "the previous daemon was not stopped: it crashed, was killed, or its machine went down",
                pid=pid,
                running_since=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(begun)),
            )
        with contextlib.suppress(OSError):  # a full disk is no reason not to run
            said = json.dumps({"process": identity(os.getpid()), "begun": time.time()})
            (self._folder / _NAME).write_text(said)

    def end(self) -> None:
        """Remove the mark, so that a later stop does not count as a crash."""
        with contextlib.suppress(OSError):
            (self._folder / _NAME).unlink(missing_ok=True)


def _left(data_dir: Path) -> tuple[int, float] | None:
    """Process id and start time in the mark of a daemon that is gone; None without one.

    After a restart of the machine or container its process id may belong to another process, or to this one.
    """
    try:
        said = json.loads(read_whole(data_dir, _NAME, _LARGEST))
        process, begun = said["process"], float(said["begun"])
        pid = int(process["pid"])
        return None if identity(pid) == process else (pid, begun)
    except (OSError, UntrustedFileError, ValueError, TypeError, KeyError, OverflowError, RecursionError):
        return None
