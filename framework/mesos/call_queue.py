"""Calls to a master that wait for earlier ones; they are made one after another, in a thread of its own.

`session.py` makes the calls, and handles a master that does not answer.
"""

import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

import structlog

log = structlog.get_logger("mesos")

#: Calls that may wait for earlier ones. A master that lets more of them pile up is not served by more.
MOST_WAITING = 10_000


#: Seconds between two questions whether a call may be made.
_ASK_AGAIN = 0.1


class FencedError(OSError):
    """A call may not be made now: nothing, or not all of it, was sent, and so the master does nothing."""


@dataclass(frozen=True, slots=True)
class QueuedCall:
    """A call to the master. `unsent` receives the reason when it is certain that the call was never sent."""

    name: str
    make: Callable[[], object]
    unsent: Callable[[str], None] = lambda _: None


class Calls:
    """An ordered, bounded queue of calls, and its executor: `run`, in a thread of its own.

    Invariant: every queued call is made once, or was never begun and its `unsent` is called. The outcome of a
    call that was made is not known here: a missing answer proves nothing.
    """

    def __init__(self, may_call: Callable[[], bool], hangs: Callable[[str], None]) -> None:
        """`may_call` is asked before each call, which waits until it may be made.

        `hangs` is called for a call that was not answered in time; none is made after it.
        """
        self._may_call = may_call
        self._hangs = hangs
        self._waiting: deque[QueuedCall] = deque()
        self._changed = threading.Condition()
        self._closed = ""
        self._since: float | None = None
        #: Whether a call was taken out of the queue and is not over; also while it waits for the lease.
        self._begun = False

    def put(self, call: QueuedCall) -> None:
        """Make this call after those before it; returns at once."""
        with self._changed:
            why = self._closed
            if not why and len(self._waiting) >= MOST_WAITING:
                why = f"{MOST_WAITING} calls to the master are already waiting"
            if not why:
                self._waiting.append(call)
                self._changed.notify_all()
        if why:
            call.unsent(why)

    def pending(self, now: float) -> float:
        """Seconds for which the present call has been waiting for its answer; 0 when there is none."""
        since = self._since
        return 0.0 if since is None else now - since

    def drain(self, seconds: float) -> None:
        """Wait at most so many seconds until all calls are made, one that waits for the lease among them."""
        deadline = time.monotonic() + seconds
        with self._changed:
            while (self._waiting or self._begun) and not self._closed:
                if not self._changed.wait(deadline - time.monotonic()):
                    return

    def close(self, why: str) -> None:
        """Begin no call any more; `run` returns when the present one is over."""
        with self._changed:
            if self._closed:
                return
            self._closed = why
            left, self._waiting = self._waiting, deque()
            self._changed.notify_all()
        for call in left:
            call.unsent(why)

    def run(self) -> None:
        """Make calls until `close`."""
        while (call := self._next()) is not None:
            try:
                self._make(call)
            except Exception as error:  # the next call has to be made after any error
                # pymesos raises RuntimeError for every status that is not a 2xx.
                log.warning("call failed", call=call.name, error=f"{type(error).__name__}: {error}"[:300])
                if isinstance(error, TimeoutError):
                    self._hangs(f"it did not answer {call.name} in time")
                    self._await_close()

    def _make(self, call: QueuedCall) -> None:
        """Make a call when that is allowed: a lease that is renewed late is no reason to drop a launch."""
        while True:
            if self._may_call():
                self._since = time.monotonic()
                try:
                    call.make()
                except FencedError:
                    pass  # the lease ended on the way
                else:
                    return
            with self._changed:
                self._since = None  # the master is not waited for
                if not self._closed:
                    self._changed.wait(_ASK_AGAIN)
                why = self._closed
            if why:
                call.unsent(why)
                return

    def _await_close(self) -> None:
        with self._changed:
            while not self._closed:
                self._changed.wait()

    def _next(self) -> QueuedCall | None:
        """The next call, which counts as begun; None after `close`."""
        with self._changed:
            self._since, self._begun = None, False
            self._changed.notify_all()
            while not self._waiting and not self._closed:
                self._changed.wait()
            if self._closed:
                return None
            self._since, self._begun = time.monotonic(), True
            return self._waiting.popleft()
