"""Queue of forecast questions: one at a time, and first of the user served longest ago.

So repeated questions of one user delay others by at most the question that is being answered.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from daemon.core.errors import RejectedError

#: Usual numbers of questions of one user, and of all, that are answered or wait at once.
_EACH, _ALL = 2, 8
_LATER = {"Retry-After": "5"}


@dataclass(frozen=True, slots=True, eq=False)
class _Place:
    """A question in the line."""

    who: str


class FairQueue:
    """The queue of questions; for any thread."""

    def __init__(self, each: int = _EACH, most: int = _ALL) -> None:
        """Number of questions of one user, and of all, that are answered or wait at once."""
        self._each, self._most = each, most
        self._changed = threading.Condition()
        self._line: list[_Place] = []
        self._answered: _Place | None = None
        #: By user, how many questions had been answered when one of theirs was the last time.
        self._last: dict[str, int] = {}

    @contextmanager
    def turn(self, who: str, patience: float) -> Iterator[None]:
        """Wait for this user's turn, and have it; RejectedError after so many seconds, or in a long line."""
        place = self._joins(who)
        try:
            with self._changed:
                if not self._changed.wait_for(lambda: self._next() is place, patience):
                    raise RejectedError(503, "Not now", "other requests are being answered", _LATER)
                self._answered = place
                self._last[who] = max(self._last.values(), default=0) + 1
            yield
        finally:
            with self._changed:
                self._line.remove(place)
                if self._answered is place:
                    self._answered = None
                self._changed.notify_all()

    def _joins(self, who: str) -> _Place:
        with self._changed:
            if sum(place.who == who for place in self._line) >= self._each:
                why = f"{self._each} of your requests are being answered, or wait"
                raise RejectedError(429, "Too many requests", why, _LATER)
            if len(self._line) >= self._most:
                raise RejectedError(503, "Not now", f"{self._most} requests are already waiting", _LATER)
            place = _Place(who)
            self._line.append(place)
            return place

    def _next(self) -> _Place | None:
        """Next question; None while one is answered."""
        if self._answered is not None:
            return None
        return min(self._line, key=lambda place: self._last.get(place.who, 0), default=None)
