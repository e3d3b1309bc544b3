"""Limits on holding back and overtaking jobs, for every policy, so that no job waits for ever.

A job *fits* when the policy could place it now. It is *held back* while it fits and the policy waits for
something better; the oldest of the queue is *overtaken* when one that stands behind it is placed. The bounds
are these:

* `overtaken_at_most`: how many jobs may be placed before one while it is the oldest. Then none behind it is
  placed before it is. 0 is first come, first served. Jobs in the middle of a queue count nothing: if they
  did, they would soon bring all jobs to a halt.
* `wait_limit`: how often the policy may hold the oldest job back.
* `patience`: for how long a job may fit without a break and be held back: in seconds, or, as `2x`, as a
  multiple of the job's expected duration. With that, all times being longer changes no decision.

When one of the last two is reached and the job fits, it is placed: waiting is no choice. Lost executors are
never overtaken: their job runs already, and is slow without them. While they stand before the oldest job,
its counts are retained.

Episodes of trained policies count the same in compiled code (`agents.drl.kernel.acting`). The policies
choose when and where a job is placed.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import compress
from operator import attrgetter

import numpy as np

from conf.defaults import UNKNOWN_DURATION
from environment.number_format import times
from environment.types import FloatArray, Job, PlacementRequest

#: Number of jobs whose bypasses are remembered before those that wait no more are dropped.
_KEPT = 1024
#: Relative rounding error of a computed time; no job waits for one more moment because of it.
_ROUNDED = 1e-6
_AGAIN = attrgetter("again")


@dataclass(frozen=True, slots=True)
class PatienceLimits:
    """Limits of overtaking, waits and patience, as above.

    A `patience` that is a number is in seconds; a text such as `2x` is a multiple of the job's expected
    duration, which is taken to be `unknown` seconds where it is not known.
    """

    overtaken_at_most: int
    wait_limit: float = math.inf
    patience: float | str = math.inf
    unknown: float = UNKNOWN_DURATION

    def __post_init__(self) -> None:
        for name in ("overtaken_at_most", "wait_limit"):
            if not getattr(self, name) >= 0:
                raise ValueError(f"{name}: should be 0 or more, found {getattr(self, name)}")
        if isinstance(self.patience, str):
            _times(self.patience)
        elif not self.patience >= 0:
            raise ValueError(f"patience: should be 0 or more seconds, found {self.patience:g}")

    @property
    def ends(self) -> bool:
        """Whether the patience is not without end."""
        return self.patience != math.inf

    def patience_with(self, job: Job) -> float:
        """For how many seconds this job may be held back."""
        if not isinstance(self.patience, str):
            return self.patience
        seconds = self.unknown if job.expected_duration is None else job.expected_duration
        return _times(self.patience) * seconds

    def told(self, oldest: str, number: int) -> str:
        """Overtaken jobs and the limit, in words: `number` is their count, `oldest` the first one's id."""
        passed = oldest if number == 1 else f"{number} older jobs"
        return f"{passed} (the oldest is overtaken {times(self.overtaken_at_most)} at most)"


@cache
def _times(text: str) -> float:
    """The number of `2x`; ValueError when it is none."""
    try:
        times = float(text.removesuffix("x")) if text.endswith("x") else math.nan
    except ValueError:
        times = math.nan
    if not 0 <= times < math.inf:
        right = "should be seconds, or a multiple of a job's expected duration, as in 2x"
        raise ValueError(f"patience: {right}, found {text!r}")
    return times


@dataclass(slots=True)
class _WaitHistory:
    """Counts of a job's overtakings and waits; it fits since `since`, None when it does not."""

    overtaken: int = 0
    waits: int = 0
    since: float | None = None


class StarvationGuard:
    """Wait histories of the jobs of a queue, as a policy reports them, and the patience left to each."""

    def __init__(self, limits: PatienceLimits) -> None:
        self.limits = limits
        self._borne: dict[tuple[str, bool], _WaitHistory] = {}

    def reach(self, shown: Sequence[PlacementRequest]) -> int:
        """Number of these, the oldest of the queue, that overtaking limits allow to place; 1 at least."""
        most = self.limits.overtaken_at_most
        if most <= 0:
            return min(len(shown), 1)
        # This is done at each decision, and nearly always all may be placed.
        full = {key[0] for key, borne in self._borne.items() if borne.overtaken >= most and not key[1]}
        again = list(map(_AGAIN, shown))
        if not full and True not in again:
            return len(shown)
        for number, request in enumerate(shown, 1):
            if request.again or request.job.id in full:
                return number
        return len(shown)

    def notice_all(self, shown: Sequence[PlacementRequest], at: float, fits: Sequence[bool]) -> None:
        """At this time, in seconds, each of these jobs fits or does not: `notice` of each."""
        fitting, known = dict.fromkeys(map(_key, compress(shown, fits))), self._borne
        for key in fitting:
            borne = known.get(key)
            if borne is None:
                known[key] = _WaitHistory(since=at)
            elif borne.since is None:
                borne.since = at
        fitted = {key for key, borne in known.items() if borne.since is not None and key not in fitting}
        for request in shown if fitted else ():
            if (key := _key(request)) in fitted:
                known[key].since = None

    def all_left(self, shown: Sequence[PlacementRequest], most: Sequence[float], at: float) -> FloatArray:
        """`left` of each of these jobs, of which each has so much patience in all; float64 [M]."""
        found = np.array(most, np.float64)
        bounded = found < math.inf
        found[bounded] -= _ROUNDED * found[bounded]
        fitting = {key[0] for key, borne in self._borne.items() if borne.since is not None}
        for number, request in enumerate(shown if fitting else ()):
            if request.job.id in fitting and self._of(request).since is not None:
                found[number] = self.left(request, at)
        return found

    def notice(self, request: PlacementRequest, at: float, *, fits: bool) -> bool:
        """At this time, in seconds, the job fits or does not; tell whether it may be held back no more."""
        borne = self._of(request)
        borne.since = None if not fits else at if borne.since is None else borne.since
        self._borne[_key(request)] = borne
        return fits and (self.has_waited(request) or self.is_late(request, at))

    def is_late(self, request: PlacementRequest, at: float) -> bool:
        """Whether the job has fitted for as long as it may without being placed."""
        return self._of(request).since is not None and self.left(request, at) <= 0.0

    def left(self, request: PlacementRequest, at: float) -> float:
        """For how many seconds from then on the job may be held back yet."""
        most = self.limits.patience_with(request.job)
        return most - self.held_for(request, at) - _ROUNDED * most if most < math.inf else most

    def has_waited(self, oldest: PlacementRequest) -> bool:
        """Whether the policy held the oldest job back as often as it may."""
        return self.waits(oldest) >= self.limits.wait_limit

    def waits(self, oldest: PlacementRequest) -> int:
        """Number of times that it was held back."""
        return self._of(oldest).waits

    def held_for(self, request: PlacementRequest, at: float) -> float:
        """For how many seconds the job has fitted without being placed."""
        since = self._of(request).since
        return 0.0 if since is None else at - since

    def hold_back(self, oldest: PlacementRequest) -> None:
        """The policy waits though the oldest job fits."""
        borne = self._of(oldest)
        borne.waits += 1
        self._borne[_key(oldest)] = borne

    def let_pass(self, queue: Sequence[PlacementRequest], number: int) -> None:
        """The job of that number in the queue is placed: if it is not the oldest, that is overtaken."""
        self._borne.pop(_key(queue[number]), None)
        if number:
            borne = self._of(queue[0])
            borne.overtaken += 1
            self._borne[_key(queue[0])] = borne
        if len(self._borne) > _KEPT:
            waiting = {_key(request) for request in queue}
            self._borne = {key: borne for key, borne in self._borne.items() if key in waiting}

    def told(self, queue: Sequence[PlacementRequest], number: int) -> str:
        """Jobs overtaken by the job of that number, in words."""
        return self.limits.told(queue[0].job.id, number)

    def _of(self, request: PlacementRequest) -> _WaitHistory:
        return self._borne.get(_key(request)) or _WaitHistory()


def _key(request: PlacementRequest) -> tuple[str, bool]:
    return request.job.id, request.again
