"""The daemon's event log on disk: one line for each event and command, whole lines only.

A disk that is full must not stop the queue: what cannot be written now is written later, in order. What the
lines mean is in `environment.eventlog`.
"""

import os
from collections.abc import Sequence
from pathlib import Path

#: Bytes that wait for room on the disk; Chosen: hours of events, and little memory.
_PATIENCE = 16 << 20


class Journal:
    """An event log that is appended to; for one thread, but for `trouble`."""

    def __init__(self, path: Path) -> None:
        """Open the log, or make it; OSError when that cannot be."""
        self._path = path
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self._waiting = bytearray()
        self._lost = 0
        #: Why lines are missing or wait, in words; empty when all are on disk.
        self.trouble = ""

    def write(self, lines: Sequence[str]) -> None:
        """Append lines, after those that still wait."""
        text = "".join(f"{line}\n" for line in lines).encode()
        if len(self._waiting) + len(text) > _PATIENCE:
            self._lost += len(lines)
        else:
            self._waiting += text
        end = os.fstat(self._file).st_size
        try:
            while self._waiting:
                del self._waiting[: os.write(self._file, self._waiting)]
        except OSError as error:
            self._take_back(end)
            self.trouble = f"{self._path} cannot be written: {error.strerror}"
        else:
            self.trouble = ""
        if self._lost:
            self.trouble = f"{self.trouble or self._path}; {self._lost} lines are lost, it does not replay"

    def close(self) -> None:
        """Close the log."""
        os.close(self._file)

    def _take_back(self, end: int) -> None:
        """Leave no half line: what was written of these lines waits again."""
        written = os.fstat(self._file).st_size - end
        if written:
            with self._path.open("rb") as file:
                file.seek(end)
                self._waiting[:0] = file.read(written)
            os.ftruncate(self._file, end)
