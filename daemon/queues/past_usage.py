"""Recent use of queues and users, stored over restarts: without it fair order would begin anew each time.

`environment.queues.shares` decides how, and for how long, past use counts.
"""

import math
import time
from collections.abc import Callable
from heapq import nlargest

import structlog
from pydantic import TypeAdapter, ValidationError

from environment.queues.shares import PastUsage, Standings

log = structlog.get_logger("queues")

#: The fact of the store that holds it, and how many seconds of it a daemon that is killed forgets at most.
FACT, EVERY = "past use", 60.0
#: Maximum number of queues and users, those that have had most: 10 ms and half a megabyte.
_KEPT = 5000
#: Its time, and by queue and user (None: of all) the average of the held resources, thousandths.
_Kept = tuple[float, list[tuple[str, str | None, dict[str, float]]]]
_KEPT_AS: TypeAdapter[_Kept] = TypeAdapter(_Kept)


class PastUse:
    """Schedules the storing of past use; for the loop's thread."""

    def __init__(self) -> None:
        self._next, self._last = time.monotonic() + EVERY, ""

    def come_due(self) -> None:
        """Store it with the next write: the daemon is about to end."""
        self._next = -math.inf

    def facts(self, standings: Callable[[], Standings | None]) -> dict[str, str]:
        """Facts to store now: mostly none."""
        if time.monotonic() < self._next:
            return {}
        self._next = time.monotonic() + EVERY
        now = standings()
        if now is None or not now.whole:  # as long as the cluster is not known, nothing is a part of it
            return {}
        text = kept(now)
        if text == self._last:
            return {}
        self._last = text
        return {FACT: text}


def kept(standings: Standings) -> str:
    """Encode the past use of the queues and users with the most of it; empty where there is none."""
    step, half_life = standings.step, standings.sharing.half_life
    pasts = [(scope, use.past_at(step, half_life)) for scope, use in standings.every()]
    had = [(standings.part(past), scope, past) for scope, past in pasts]
    # Queues first: of users that are forgotten their queues still count.
    most = nlargest(_KEPT, had, key=lambda each: (each[1][1] is None, each[0]))
    rows = [
        (*scope, {name: round(amount, 3) for name, amount in past.items()})
        for part, scope, past in most
        if part > 0.0
    ]
    return _KEPT_AS.dump_json((step, rows)).decode() if rows else ""


def taken_up(text: str | None, now: float) -> tuple[PastUsage, ...]:
    """Decode an earlier daemon's past use; empty where it is unreadable."""
    if not text:
        return ()
    try:
        at, rows = _KEPT_AS.validate_json(text)
    except ValidationError as error:
        log.error("past use of queues cannot be read and is forgotten", why=str(error))
        return ()
    return tuple(PastUsage(queue, user, tuple(past.items()), min(at, now)) for queue, user, past in rows)
