"""Waits that are in vain: the first of the queue fits, and nothing that could come makes it fit better.

That is so at once where nothing runs that could end and no VM boots. Beside something that runs nobody knows:
it may end in a moment, or never, as a notebook's session does. So a policy may hold the first job back there,
but not for ever: for `LEAST` seconds and `TIMES` times what the job is expected to take, whichever is more.
Then the wait is a fault, and so is each that follows while the first job fits, until the policy has placed
one itself: else a queue would be served at one job in half an hour.

What counts is the first job of the queue, about which a policy is asked. While it does not fit, a policy that
keeps the order may wait for it, whoever fits behind it; who could not run even on the empty cluster waits
aside and is not first. Policies that bound their waits themselves are not watched (`policy.bounds_waits`).

Nothing here looks ahead, and it is the same in a simulation, which asks again when a wait becomes in vain,
and in the daemon, which asks every few seconds while somebody waits.
"""

import math

from conf.defaults import UNKNOWN_DURATION
from environment.policy import Policy, bounds_waits
from environment.types import Job, PlacementRequest
from environment.view import ClusterView

#: For how long the first job may be held back though it fits: seconds, and a multiple of its expected
#: duration. Chosen: twice the longest of any policy that comes with Stoker (`lookahead`: twice the job's
#: time), and so long that a policy that waits for a task to end or a cheaper VM to be free has had its time;
#: it is a safety net.
LEAST, TIMES = 1800.0, 4.0

#: Number of jobs whose time of first fit is remembered, before those that fitted longest ago are forgotten.
_KEPT = 1024


def is_still(view: ClusterView) -> bool:
    """Whether nothing runs that could end, and no VM boots."""
    return not view.running and (view.openings is None or not view.openings.boots(view.at))


def bound(job: Job) -> float:
    """For how many seconds a job that fits may be held back."""
    expected = UNKNOWN_DURATION if job.expected_duration is None else job.expected_duration
    return max(LEAST, TIMES * expected)


class HeldBack:
    """Since when the first jobs of a queue have fitted though their policy waits."""

    def __init__(self) -> None:
        self._since: dict[tuple[str, bool, bool], float] = {}
        #: A wait was in vain since the policy last placed a job.
        self._spent = False
        #: When the last reported wait becomes vain, if nothing changes; seconds.
        self.due_at = math.inf

    def placed(self) -> None:
        """The policy has placed a job."""
        self._spent, self.due_at = False, math.inf

    def knows(self, first: PlacementRequest) -> bool:
        """Whether it is known to have fitted."""
        return _key(first) in self._since

    def fits_not(self, first: PlacementRequest) -> None:
        """The policy waits, and the first job has no room: when it has, its time begins anew."""
        self._since.pop(_key(first), None)
        self.due_at = math.inf

    def fits(self, first: PlacementRequest, at: float) -> float | None:
        """The policy waits though the first job fits: for how many seconds, if that is in vain; else None."""
        key = _key(first)
        since = self._since.pop(key, at)
        if since < first.entered_at:  # it was placed since then, and is back
            since = at
        due_at = since + bound(first.job)
        if self._spent or at >= due_at:
            self._spent, self.due_at = True, math.inf
            return at - since
        if len(self._since) >= _KEPT:
            del self._since[next(iter(self._since))]
        self._since[key], self.due_at = since, due_at
        return None


def watched(policy: Policy) -> HeldBack | None:
    """Watch over the waits of a policy; None for one that bounds them itself."""
    return None if bounds_waits(policy) else HeldBack()


def _key(request: PlacementRequest) -> tuple[str, bool, bool]:
    return request.job.id, request.again, request.grows
