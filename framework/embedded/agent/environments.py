"""Containers of adopted processes, read from their environments by threads: any of them may hang.

Another process can read a process's memory where that is a file of a file system (FUSE) that never answers,
and with it holds the lock of this memory. A read of the process's environment then never ends.
"""

import asyncio
import contextlib
import threading
from collections import deque
from collections.abc import Callable
from pathlib import Path

from framework.host.process_tree import kill

#: Bytes of a process's environment that are looked through. A process can have the kernel show all of its
#: memory there. Chosen: containers' own variables stand in front, and few environments are as large.
_MOST_ENVIRONMENT = 1 << 20
#: Seconds for one environment, which takes microseconds; a process that takes longer is killed, which ends
#: the wait. Chosen: more than a thread waits for its turn on a busy machine.
_PATIENCE = 5.0
#: Threads that read at once, and those that may hang beside them.
_AT_ONCE, _HANGING = 16, 256
#: Seconds until another try where no thread could be started.
_RETRY = 0.5


class _Read:
    """The read of a process's environment; `ended`: a container has ended meanwhile."""

    def __init__(self, pid: int) -> None:
        self.pid, self.ended, self.late, self.done = pid, False, False, False


class ContainerReader:
    """Finds the containers of processes; for the event loop's thread."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, found: Callable[[int, str | None, bool], None]
    ) -> None:
        """`found` gets a process, its container as `_container_of` has it, and whether one has ended."""
        self._loop, self._found = loop, found
        #: The reads of processes that are not reaped yet.
        self._pending: dict[int, _Read] = {}
        self._waiting: deque[_Read] = deque()
        self._reading = self._late = 0
        self._retry: asyncio.TimerHandle | None = None

    def read(self, pid: int, *, ended: bool) -> None:
        """Find the container of a process; `ended`: a container has just ended."""
        read = self._pending.get(pid)
        if read is None:
            read = self._pending[pid] = _Read(pid)
            self._waiting.append(read)
            self._next()
        read.ended |= ended

    def reaped(self, pid: int) -> None:
        """Forget a process: its pid may be another one's soon."""
        self._pending.pop(pid, None)

    def _next(self) -> None:
        while self._waiting and self._reading < _AT_ONCE and self._late < _HANGING:
            read = self._waiting.popleft()
            if self._pending.get(read.pid) is not read:
                continue
            try:
                threading.Thread(target=self._run, args=(read,), name="environment", daemon=True).start()
            except RuntimeError:  # this machine has no room for another one now
                self._waiting.appendleft(read)
                if self._retry is None:
                    self._retry = self._loop.call_later(_RETRY, self._try_again)
                return
            self._reading += 1
            self._loop.call_later(_PATIENCE, self._too_late, read)

    def _try_again(self) -> None:
        self._retry = None
        self._next()

    def _run(self, read: _Read) -> None:
        container = _container_of(read.pid)
        with contextlib.suppress(RuntimeError):  # the loop has ended
            self._loop.call_soon_threadsafe(self._told, read, container)

    def _told(self, read: _Read, container: str | None) -> None:
        read.done = True
        if read.late:
            self._late -= 1
        else:
            self._reading -= 1
        if self._pending.get(read.pid) is read:
            del self._pending[read.pid]
            self._found(read.pid, container, read.ended)
        self._next()

    def _too_late(self, read: _Read) -> None:
        if read.done:
            return
        read.late = True
        self._reading, self._late = self._reading - 1, self._late + 1
        if self._pending.get(read.pid) is read:
            kill(read.pid)
        self._next()


def _container_of(pid: int) -> str | None:
    """The container that a process began in, from its own data; empty when it hides that.

    None while it has no environment: it ends, or becomes another program.
    """
    try:
        with Path(f"/proc/{pid}/environ").open("rb", buffering=0) as file:
            text = file.read(_MOST_ENVIRONMENT)
    except OSError:
        return None
    if not text:
        return None
    said = (v.partition(b"=")[2] for v in text.split(b"\0") if v.startswith(b"MESOS_CONTAINER_ID="))
    return next(said, b"").decode("ascii", "replace")
