"""Progress and end of a job with executors that are lost and placed again.

Executors do equal parts of their job's work. While one is missing, or its VM boots, its part is not done;
and a share of a lost executor's work is done again, by all of them. Time is in seconds, work in seconds of a
whole job.
"""

import math
from dataclasses import dataclass, field


@dataclass(slots=True)
class Progress:
    """The work that is left of a job, as of a time, and which of its executors do nothing until when."""

    executors: int
    at: float
    left: float
    #: All of its work, to begin with.
    whole: float = field(init=False)
    #: Work that was done again, or will be.
    repeated: float = field(init=False, default=0.0)
    #: When executors that do nothing are back, by the number of each; infinity while unknown.
    away: dict[int, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.whole = self.left

    def lose(self, now: float, gone: dict[int, float]) -> float:
        """Executors are missing now, and so much of each one's work is done again; returns the sum."""
        self._advance(now)
        self.away |= dict.fromkeys(gone, math.inf)
        again = sum(gone.values()) / self.executors
        self.left += again
        self.repeated += again
        return again

    def replace(self, now: float, executor: int, ready: float) -> None:
        """An executor has a place again, where it works from then on."""
        self._advance(now)
        self.away[executor] = ready

    def end(self) -> float:
        """End of the job, if nothing else happens; infinity while all executors are missing."""
        at, left = self.at, self.left
        for back in (*sorted({time for time in self.away.values() if at < time < math.inf}), math.inf):
            rate = self._rate(at)
            if rate > 0 and left <= rate * (back - at):
                return at + left / rate
            left -= rate * (back - at) if rate > 0 else 0.0
            at = back
        return math.inf

    def _advance(self, now: float) -> None:
        for back in (*sorted({time for time in self.away.values() if self.at < time < now}), now):
            if back > self.at:
                self.left = max(self.left - self._rate(self.at) * (back - self.at), 0.0)
                self.at = back
        self.away = {executor: back for executor, back in self.away.items() if back > now}

    def _rate(self, at: float) -> float:
        away = sum(back > at for back in self.away.values())
        return (self.executors - away) / self.executors
