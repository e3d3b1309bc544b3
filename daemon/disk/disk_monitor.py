"""Checks that the daemon's own disk is writable: without it, no launch can be recorded.

Launches and driver records are files. With the jobs in a PostgreSQL the disk may fill up while the store is
well; then decisions pause until there is room, because launches would fail at once.
"""

import contextlib
import threading
import time
from pathlib import Path

import structlog

log = structlog.get_logger("disk")

#: Seconds between two tries.
_PAUSE = 1.0
#: Seconds after which a try that does not come back is trouble.
_HANGS = 5.0
#: Bytes of a trial write: about the size of a job's launch.
_ROOM = 64 << 10


class DiskWatch:
    """Probes the disk at intervals, on its own thread, since a stalled disk blocks writers."""

    def __init__(self, folder: Path, pause: float = _PAUSE) -> None:
        self._folder = folder
        self._pause = pause
        self._found = ""
        self._began: float | None = None
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="disk", daemon=True)

    @property
    def trouble(self) -> str:
        """Reason why the disk is not writable, in words; empty when it is."""
        began = self._began
        if began is not None and (took := time.monotonic() - began) > _HANGS:
            return f"{self._folder}: writes have failed for {took:.0f} s"
        return self._found

    def start(self) -> None:
        """Begin to watch."""
        self._thread.start()

    def stop(self) -> None:
        """Watch no more."""
        self._stopping.set()

    def look(self) -> None:
        """Try once."""
        probe = self._folder / "probe"
        found = ""
        try:
            probe.write_bytes(bytes(_ROOM))
        except OSError as error:
            found = f"{self._folder} cannot be written: {error.strerror}"
        with contextlib.suppress(OSError):
            probe.unlink()
        if found != self._found:
            log.warning("the disk", trouble=found or "is over")
        self._found = found

    def _watch(self) -> None:
        while not self._stopping.is_set():
            self._began = time.monotonic()
            self.look()
            self._began = None
            self._stopping.wait(self._pause)
