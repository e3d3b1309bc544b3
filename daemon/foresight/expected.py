"""What was expected of jobs, and how often that came true: values; who makes them is `estimates.py`."""

from dataclasses import dataclass, field, replace

from environment.simulation.intervals import Interval


@dataclass(frozen=True, slots=True)
class Estimate:
    """What was expected of a job at a time: when it starts and ends, seconds since the epoch, and dollars."""

    at: float
    start: Interval
    end: Interval
    cost: Interval


@dataclass(frozen=True, slots=True)
class KeptEstimates:
    """What is kept with a job: what was told first, and last before it started, and what was first drawn."""

    first: Estimate
    drawn: Estimate
    last: Estimate | None = None


@dataclass(frozen=True, slots=True)
class Held:
    """How many true values were within the first interval of 90 % that was given, before it, and after it."""

    within: int = 0
    before: int = 0
    after: int = 0

    def counting(self, told: Interval, came: float, slack: float) -> "Held":
        """With one more."""
        if told.holds(came, slack):
            return replace(self, within=self.within + 1)
        if came < told.low:
            return replace(self, before=self.before + 1)
        return replace(self, after=self.after + 1)


@dataclass(frozen=True, slots=True)
class Coverage:
    """How starts, ends and costs were held to what was told of them first, since the daemon began."""

    start: Held = field(default_factory=Held)
    end: Held = field(default_factory=Held)
    cost: Held = field(default_factory=Held)
