"""Who may be held back or overtaken, and for how long: so that no job waits for ever, whoever decides.

A job *fits* when the policy could place it now. It is *held back* while it is the oldest of the queue and
fits, and is not placed; it is *overtaken* when one that stands behind it is placed. The bounds are these:

* `overtaken_at_most`: how many jobs may be placed before one that waits. Then none behind it is placed before
  it is. 0 is first come, first served. Counted for every job, or, where policies look far down a long queue,
  from when a job is the oldest: else the jobs in the middle soon bring everybody to a halt.
* `wait_limit`: how often the policy may wait though the oldest job fits.
* `patience`: for how many seconds the oldest job may fit without a break and not be placed.

When one of the last two is reached and the oldest job fits, it is placed: waiting is no choice, nor is
another job. Lost executors are never overtaken: their job runs already, and is slow without them. While they
stand before the oldest job, what that has borne is not forgotten.

Episodes of trained policies count the same in compiled code (`agents.drl.kernel.acting`). When a job is
placed, and where, is the policies' business.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from environment.types import PlacementRequest

#: Of so many jobs is known what they have borne, before it is seen which of them wait no more.
_KEPT = 1024


@dataclass(frozen=True, slots=True)
class Limits:
    """How often, and for how long, as above."""

    overtaken_at_most: int
    #: Whether jobs count only those that were placed before them while they were the oldest.
    as_oldest: bool = False
    wait_limit: float = math.inf
    patience: float = math.inf

    def __post_init__(self) -> None:
        for name in ("overtaken_at_most", "wait_limit"):
            if not getattr(self, name) >= 0:
                raise ValueError(f"{name}: should be 0 or more, found {getattr(self, name)}")
        if not self.patience >= 0:
            raise ValueError(f"patience: should be 0 or more seconds, found {self.patience:g}")


@dataclass(slots=True)
class _Borne:
    """What a job has borne so far; `since` is when it began to fit, None when it does not."""

    overtaken: int = 0
    waits: int = 0
    since: float | None = None


class Patience:
    """What the jobs of a queue have borne, as a policy tells it, and what may be asked of them yet."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self._borne: dict[tuple[str, bool], _Borne] = {}

    def reach(self, shown: Sequence[PlacementRequest]) -> int:
        """How many of these, the oldest of the queue, may be placed as far as overtaking goes; 1 at least."""
        for number, request in enumerate(shown, 1):
            if request.again or self._of(request).overtaken >= self.limits.overtaken_at_most:
                return number
        return len(shown)

    def notice(self, oldest: PlacementRequest, at: float, *, fits: bool) -> bool:
        """At this time, in seconds, the oldest job fits or does not; tell whether it is to be placed now."""
        borne = self._of(oldest)
        borne.since = None if not fits else at if borne.since is None else borne.since
        self._borne[_key(oldest)] = borne
        return fits and (self.has_waited(oldest) or self.is_late(oldest, at))

    def is_late(self, oldest: PlacementRequest, at: float) -> bool:
        """Whether the oldest job has fitted for as long as it may without being placed."""
        borne = self._of(oldest)
        return borne.since is not None and round(at - borne.since, 3) >= self.limits.patience

    def has_waited(self, oldest: PlacementRequest) -> bool:
        """Whether the policy waited, though the oldest job fits, as often as it may."""
        return self.waits(oldest) >= self.limits.wait_limit

    def waits(self, oldest: PlacementRequest) -> int:
        """How often was waited though it fits."""
        return self._of(oldest).waits

    def held_for(self, oldest: PlacementRequest, at: float) -> float:
        """For how many seconds it has fitted without being placed."""
        since = self._of(oldest).since
        return 0.0 if since is None else at - since

    def hold_back(self, oldest: PlacementRequest) -> None:
        """The policy waits though the oldest job fits."""
        borne = self._of(oldest)
        borne.waits += 1
        self._borne[_key(oldest)] = borne

    def let_pass(self, queue: Sequence[PlacementRequest], number: int) -> None:
        """The job of that number in the queue is placed: those before it are overtaken."""
        self._borne.pop(_key(queue[number]), None)
        for request in queue[: min(number, 1) if self.limits.as_oldest else number]:
            borne = self._of(request)
            borne.overtaken += 1
            self._borne[_key(request)] = borne
        if len(self._borne) > _KEPT:
            waiting = {_key(request) for request in queue}
            self._borne = {key: borne for key, borne in self._borne.items() if key in waiting}

    def told(self, queue: Sequence[PlacementRequest], number: int) -> str:
        """Whom the job of that number overtakes, in words."""
        passed = queue[0].job.id if number == 1 else f"{number} older jobs"
        return f"{passed} (none is overtaken more than {self.limits.overtaken_at_most} times)"

    def _of(self, request: PlacementRequest) -> _Borne:
        return self._borne.get(_key(request)) or _Borne()


def _key(request: PlacementRequest) -> tuple[str, bool]:
    return request.job.id, request.again
