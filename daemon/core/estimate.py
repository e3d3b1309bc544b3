"""What was expected of jobs, and how often that came true: values; who makes them is `estimates.py`."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from environment.model.messages.records import JobRecord
from environment.simulation.durations.prediction_intervals import Interval, Where

#: So many seconds beside an interval do not count: no estimate is as exact as the daemon's own rounds.
SECONDS_BESIDE = 2.0


@dataclass(frozen=True, slots=True)
class EstimateOutcome:
    """Where what came is beside what was told; None where it has not come, or never will."""

    start: Where | None = None
    end: Where | None = None
    cost: Where | None = None


@dataclass(frozen=True, slots=True)
class Estimate:
    """What was expected of a job at a time: when it starts and ends, seconds since the epoch, and dollars.

    `draws` is of how many it is; 0 where nobody knows any more.
    """

    at: float
    start: Interval
    end: Interval
    cost: Interval
    draws: int = 0

    def came(self, record: JobRecord) -> EstimateOutcome:
        """What came of it: a start once the job has places, end and cost once it has finished."""
        start = None if record.placed_at is None else self.start.where(record.placed_at, SECONDS_BESIDE)
        if record.state != "finished" or record.finished_at is None:
            return EstimateOutcome(start)
        return EstimateOutcome(
            start, self.end.where(record.finished_at, SECONDS_BESIDE), self.cost.where(record.cost)
        )


#: So many starts have to be known for intervals to be corrected by them.
_FEW = 20
#: Of fewer draws than these an interval says little.
_FEW_DRAWS = 10


@dataclass(frozen=True, slots=True)
class Made:
    """How estimates were made last: when (None: never), why not at all, and who would not run, with why."""

    at: float | None = None
    failure: str = ""
    never: Mapping[str, str] = field(default_factory=dict)

    def why_not(self, record: JobRecord) -> str:
        """Why there is none of a job that waits; as a clause."""
        if record.held:
            return "it is told once nothing but its turn keeps it"
        if self.at is None:
            return "the first is being made: it takes seconds, or minutes where code is compiled"
        if self.failure:
            return f"the queue could not be played: {self.failure}"
        if why := self.never.get(record.job.id):
            return f"it would not run, as far as can be seen: {why}"
        if record.waits_since > self.at:
            return "it waits since after the last ones were made, which takes a few seconds"
        return "it is not among those that are played: a limit or a pause keeps it aside, or it is far behind"


def notes_of(record: JobRecord, estimate: Estimate, coverage: "Coverage") -> list[str]:
    """What is to be known of a job's estimate: what is guessed in it, and how far it is held to what came."""
    notes = []
    if record.job.expected_duration is None:
        notes.append(f"how long it takes is guessed: nothing is known of jobs of type {record.job.type}")
    if 0 < estimate.draws < _FEW_DRAWS:
        draws = "1 draw" if estimate.draws == 1 else f"{estimate.draws} draws"
        notes.append(f"too narrow: it is of {draws} only, as there was no time for more")
    known = coverage.start.within + coverage.start.before + coverage.start.after
    if known < _FEW:
        notes.append(
            f"perhaps too narrow: how far they are off is learned from {_FEW} starts, and {known} were seen"
        )
    return notes


@dataclass(frozen=True, slots=True)
class KeptEstimates:
    """What is kept with a job: what was told first, and last before it started, and what was first drawn."""

    first: Estimate
    drawn: Estimate
    last: Estimate | None = None


@dataclass(frozen=True, slots=True)
class IntervalCounts:
    """How many true values were within the first interval of 90 % that was given, before it, and after it."""

    within: int = 0
    before: int = 0
    after: int = 0

    def counting(self, came: Where | None) -> "IntervalCounts":
        """With one more, if it came."""
        return self if came is None else replace(self, **{came: getattr(self, came) + 1})


@dataclass(frozen=True, slots=True)
class Coverage:
    """How starts, ends and costs were held to what was told of them first, since the daemon began."""

    start: IntervalCounts = field(default_factory=IntervalCounts)
    end: IntervalCounts = field(default_factory=IntervalCounts)
    cost: IntervalCounts = field(default_factory=IntervalCounts)
