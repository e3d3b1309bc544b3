"""Work for single jobs on worker threads: in order for each job, side by side for different ones.

Everything that a job can slow down (its processes, its files) runs here and not in the scheduling loop. Work
that exceeds its time limit is given up: its thread is written off and replaced, and the owner is notified.
Of threads that hang so many are replaced, then work waits for one of them.
"""

import threading
import time
from collections import deque
from collections.abc import Callable

import structlog

log = structlog.get_logger("crew")

Work = Callable[[], None]

#: Chosen: so many threads that hang take little memory, and are more than one cause has at a time.
MOST_HANGING = 100


class JobWorkers:
    """Worker threads and their queued work. For any thread."""

    def __init__(self, threads: int, patience: float) -> None:
        """`patience` is the time limit of a piece of work in seconds, after which `overdue` reports it."""
        self._most = threads
        self._patience = patience
        self._changed = threading.Condition()
        #: Waiting work, by job; the keys that no thread is busy with are in `_ready`, in order.
        self._waiting: dict[str, deque[Work]] = {}
        self._ready: deque[str] = deque()
        #: Since when (monotonic) which thread is busy with a job.
        self._busy: dict[str, tuple[float, threading.Thread]] = {}
        self._threads: set[threading.Thread] = set()
        #: Those that were written off, until they return.
        self._hanging: set[threading.Thread] = set()
        self._closed = False

    def hand(self, key: str, work: Work) -> None:
        """Queue work behind earlier work for the same key."""
        with self._changed:
            if self._closed:
                return
            line = self._waiting.setdefault(key, deque())
            line.append(work)
            if len(line) == 1 and key not in self._busy:
                self._ready.append(key)
            self._staff()
            self._changed.notify()

    def waits(self, key: str) -> None:
        """Restart the time limit of a key's running work, which has not really begun yet."""
        me = threading.current_thread()
        with self._changed:
            if key in self._busy and self._busy[key][1] is me:
                self._busy[key] = (time.monotonic(), me)

    def overdue(self) -> list[str]:
        """Give up work beyond its time limit and all queued work for the same keys; return these keys."""
        now = time.monotonic()
        with self._changed:
            late = [key for key, (since, _) in self._busy.items() if now - since > self._patience]
            for key in late:
                _, thread = self._busy.pop(key)
                self._threads.discard(thread)
                self._hanging.add(thread)
                self._waiting.pop(key, None)
            self._staff()
        return late

    @property
    def hanging(self) -> int:
        """Number of threads that were written off and have not returned."""
        with self._changed:
            return len(self._hanging)

    def close(self, patience: float) -> None:
        """Drop queued work, and wait up to `patience` seconds for running work."""
        with self._changed:
            self._closed = True
            self._waiting.clear()
            self._ready.clear()
            self._changed.notify_all()
            threads = list(self._threads)
        deadline = time.monotonic() + patience
        for thread in threads:
            thread.join(max(0.0, deadline - time.monotonic()))

    def _staff(self) -> None:
        most = min(self._most, self._most + MOST_HANGING - len(self._hanging))
        while len(self._threads) < min(most, len(self._busy) + len(self._ready)):
            thread = threading.Thread(target=self._labour, name="crew", daemon=True)
            try:
                thread.start()
            except RuntimeError:  # this machine has no room for another one now; `overdue` tries again
                return
            self._threads.add(thread)

    def _labour(self) -> None:
        me = threading.current_thread()
        while (taken := self._next(me)) is not None:
            key, work = taken
            try:
                work()
            except Exception:  # one job's trouble is no other's
                log.exception("work failed", job=key)
            with self._changed:
                if me not in self._threads:  # it was given up, and another one is in its place
                    self._hanging.discard(me)
                    self._staff()
                    return
                del self._busy[key]
                if self._waiting.get(key):
                    self._ready.append(key)
                    self._changed.notify()

    def _next(self, me: threading.Thread) -> tuple[str, Work] | None:
        with self._changed:
            while not self._ready:
                if self._closed:
                    return None
                self._changed.wait()
            key = self._ready.popleft()
            line = self._waiting[key]
            work = line.popleft()
            if not line:
                del self._waiting[key]
            self._busy[key] = (time.monotonic(), me)
            return key, work
