"""Work for single jobs on threads of its own: in order for each job, side by side for different ones.

Whatever a job can make slow (its processes, its files) is done here and not in the scheduling loop. Work that
takes longer than it may is given up: its thread is written off and replaced, and whoever asks is told.
"""

import threading
import time
from collections import deque
from collections.abc import Callable

import structlog

log = structlog.get_logger("crew")

Work = Callable[[], None]


class JobWorkers:
    """So many threads, and the work that waits for them. From any thread."""

    def __init__(self, threads: int, patience: float) -> None:
        """`patience` is how many seconds a piece of work may take before `overdue` tells of it."""
        self._most = threads
        self._patience = patience
        self._changed = threading.Condition()
        #: What waits, by job; the keys that no thread is busy with are in `_ready`, in order.
        self._waiting: dict[str, deque[Work]] = {}
        self._ready: deque[str] = deque()
        #: Since when (monotonic) which thread is busy with a job.
        self._busy: dict[str, tuple[float, threading.Thread]] = {}
        self._threads: set[threading.Thread] = set()
        self._closed = False

    def hand(self, key: str, work: Work) -> None:
        """Have this done, after what was handed over for the same key before."""
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
        """What is being done for a key has not begun yet: it has all of its patience before it."""
        me = threading.current_thread()
        with self._changed:
            if key in self._busy and self._busy[key][1] is me:
                self._busy[key] = (time.monotonic(), me)

    def overdue(self) -> list[str]:
        """Give up what has taken too long, with all that waits for the same key; the keys."""
        now = time.monotonic()
        with self._changed:
            late = [key for key, (since, _) in self._busy.items() if now - since > self._patience]
            for key in late:
                _, thread = self._busy.pop(key)
                self._threads.discard(thread)
                self._waiting.pop(key, None)
            self._staff()
        return late

    def close(self, patience: float) -> None:
        """Drop what waits, and wait so many seconds for what is being done."""
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
        while len(self._threads) < min(self._most, len(self._busy) + len(self._ready)):
            thread = threading.Thread(target=self._labour, name="crew", daemon=True)
            self._threads.add(thread)
            thread.start()

    def _labour(self) -> None:
        me = threading.current_thread()
        while (taken := self._next(me)) is not None:
            key, work = taken
            try:
                work()
            except Exception:  # one job's trouble is no other's
                log.exception("work failed", job=key)
            with self._changed:
                if me not in self._threads:
                    return  # it was given up, and another one is in its place
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
