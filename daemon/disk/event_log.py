"""The daemon's event log on disk: one line per event and command, whole lines only, in files of limited size.

A full disk must not stop the queue: lines that cannot be written now are written later, in order.
`environment.model.event_log` defines the lines.
"""

import contextlib
import os
import time
from collections.abc import Sequence
from pathlib import Path

from conf.util.counted import counted

#: Bytes that wait for room on the disk; Chosen: hours of events, and little memory.
_PATIENCE = 16 << 20
#: Seconds until a file is looked for again that was removed, and in whose place none can be made.
_PAUSE = 60.0
_STEP = 1 << 16


class EventLog:
    """An append-only event log; for one thread, except `trouble`.

    The log is at `path`. A `full` log is rotated: earlier files are `NAME.1` (the latest), `NAME.2`, ...
    before the path's ending. Each file but the very first begins with a line that allows its replay alone.
    """

    def __init__(self, path: Path, *, size: int, earlier: int, without: str = "it does not replay") -> None:
        """Open the log, or create it; OSError on failure.

        It is full beyond `size` bytes, and `earlier` files are kept beside it. `without` describes the
        consequence of lost lines.
        """
        self._without = without
        self._path = path
        self._size = size
        self._earlier = earlier
        self._file = self._open()
        _cut(path)
        self._waiting = bytearray()
        self._lost = 0
        self._turn_at = size
        #: Until when (monotonic) a missing file is not replaced.
        self._missing_until = 0.0
        #: Why lines are missing or wait, in words; empty when all are on disk.
        self.trouble = ""

    @property
    def full(self) -> bool:
        """Whether it is time for another file: this one is large, lacks lines, or was removed."""
        if self._gone:
            return True
        if self._waiting:
            return False
        return bool(self._lost) or os.fstat(self._file).st_size > self._turn_at

    def write(self, lines: Sequence[str]) -> None:
        """Append lines, after those that still wait."""
        text = "".join(f"{line}\n" for line in lines).encode()
        # A text with nothing before it is tried, however long: it may be a model's whole state.
        if self._waiting and len(self._waiting) + len(text) > _PATIENCE:
            self._lost += len(lines)
        else:
            self._waiting += text
        end = os.fstat(self._file).st_size
        try:
            self._append()
        except OSError as error:
            with contextlib.suppress(OSError):
                os.ftruncate(self._file, end)  # no half line: all of them wait for the next write
            self.trouble = f"{self._path} cannot be written: {error.strerror}"
        else:
            self.trouble = ""
        if self._lost:
            self.trouble = (
                f"{self.trouble or self._path}; {counted(self._lost, 'line')} lost, {self._without}"
            )

    def begin(self, first: str) -> None:
        """Append a line from which on all can be replayed: in another file where this one has no room."""
        end, most = os.fstat(self._file).st_size, self._turn_at
        if not end:
            self._turn_at = self._size + len(first)  # as `turn` has it
        elif end + len(first) > most and not self._waiting and self.turn(first):
            return
        self.write([first])

    def turn(self, first: str) -> bool:
        """Go on in another file, which begins with this line; False when that cannot be."""
        try:
            for number in range(self._earlier, 0, -1):
                older = self._numbered(number - 1) if number > 1 else self._path
                if older.exists():
                    older.replace(self._numbered(number))
            if not self._earlier:
                self._path.unlink(missing_ok=True)
            file = self._open()
        except OSError as error:
            self._turn_at = os.fstat(self._file).st_size + self._size  # not again at once
            self._missing_until = time.monotonic() + _PAUSE
            self.trouble = f"{self._path} cannot be turned: {error.strerror}"
            return False
        os.close(self._file)
        self._file, self._lost, self._missing_until = file, 0, 0.0
        self._waiting.clear()  # of a file that was removed: the first line has all that came of them
        # A first line of almost that size must not make a file of each event.
        self._turn_at = self._size + len(first)
        self.write([first])
        return True

    def close(self) -> None:
        """Close the log."""
        os.close(self._file)

    def _open(self) -> int:
        return os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def _numbered(self, number: int) -> Path:
        return self._path.with_name(f"{self._path.stem}.{number}{self._path.suffix}")

    def _append(self) -> None:
        written = 0
        with memoryview(self._waiting) as text:
            while written < len(text):
                written += os.write(self._file, text[written:])
        self._waiting.clear()

    @property
    def _gone(self) -> bool:
        """Whether the file was removed or moved: nobody finds new lines there, and they take room."""
        if time.monotonic() < self._missing_until:
            return False
        try:
            return not os.path.samestat(self._path.stat(), os.fstat(self._file))
        except OSError:
            return True


def _cut(path: Path) -> None:
    """Remove the half line of a daemon that was killed while it wrote: the next line would continue it."""
    with path.open("r+b") as file:
        end = at = file.seek(0, os.SEEK_END)
        while at:
            begin = max(0, at - _STEP)
            file.seek(begin)
            found = file.read(at - begin).rfind(b"\n") + 1
            at = begin + found
            if found:
                break
        if at < end:
            file.truncate(at)
