"""Values of job estimates and of how often they came true; `estimator.py` makes the estimates."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from environment.model.messages.records import JobRecord
from environment.simulation.durations.prediction_intervals import Interval, Where

#: Seconds beside an interval that do not count: no estimate is as exact as the daemon's own rounds.
SECONDS_BESIDE = 2.0


@dataclass(frozen=True, slots=True)
class EstimateOutcome:
    """Position of the true values relative to the estimate; None for a value that is unknown, or stays so."""

    start: Where | None = None
    end: Where | None = None
    cost: Where | None = None


@dataclass(frozen=True, slots=True)
class Estimate:
    """Estimate of a job at a time: start and end in seconds since the epoch, cost in dollars.

    `draws` is the number of samples; 0 when it is unknown.
    """

    at: float
    start: Interval
    end: Interval
    cost: Interval
    draws: int = 0

    def came(self, record: JobRecord) -> EstimateOutcome:
        """Compare with the record: the start once the job has places, end and cost once it has finished."""
        start = None if record.placed_at is None else self.start.where(record.placed_at, SECONDS_BESIDE)
        if record.state != "finished" or record.finished_at is None:
            return EstimateOutcome(start)
        return EstimateOutcome(
            start, self.end.where(record.finished_at, SECONDS_BESIDE), self.cost.where(record.cost)
        )


#: Number of known starts from which intervals are corrected by them.
_FEW = 20
#: Of fewer draws than these an interval says little.
_FEW_DRAWS = 10


@dataclass(frozen=True, slots=True)
class Made:
    """Last run of the estimator: time (None: never), failure, and jobs that would never run, with reasons."""

    at: float | None = None
    failure: str = ""
    never: Mapping[str, str] = field(default_factory=dict)

    def why_not(self, record: JobRecord) -> str:
        """Reason why a waiting job has no estimate; as a clause."""
        if record.held:
            return "it gets one once it only waits for its turn"
        if self.at is None:
            return "the first is being made: it takes seconds, or minutes where code is compiled"
        if self.failure:
            return f"the queue could not be simulated: {self.failure}"
        if why := self.never.get(record.job.id):
            return f"the forecast says that it would not run: {why}"
        if record.waits_since > self.at:
            return "it began to wait after the last estimates were made, which takes a few seconds"
        return "it is not simulated: a limit or a pause holds it, or it is far behind"


def notes_of(record: JobRecord, estimate: Estimate, coverage: "Coverage") -> list[str]:
    """Remarks on a job's estimate: guessed duration, too few draws, too few starts to correct it by."""
    notes = []
    if record.job.expected_duration is None:
        notes.append(f"its duration is guessed: no job of type {record.job.type} was measured")
    if 0 < estimate.draws < _FEW_DRAWS:
        draws = "1 draw" if estimate.draws == 1 else f"{estimate.draws} draws"
        notes.append(f"too narrow: it is from {draws} only, for lack of time")
    known = coverage.start.within + coverage.start.before + coverage.start.after
    if known < _FEW:
        notes.append(
            f"perhaps too narrow: the correction is learned from {_FEW} starts, but only {known} were seen"
        )
    return notes


@dataclass(frozen=True, slots=True)
class KeptEstimates:
    """Stored estimates of a job: the first reported, the last before its start, and the first as drawn."""

    first: Estimate
    drawn: Estimate
    last: Estimate | None = None


@dataclass(frozen=True, slots=True)
class IntervalCounts:
    """Number of true values within the first 90 % interval, before it, and after it."""

    within: int = 0
    before: int = 0
    after: int = 0

    def counting(self, came: Where | None) -> "IntervalCounts":
        """With one more, if it came."""
        return self if came is None else replace(self, **{came: getattr(self, came) + 1})


@dataclass(frozen=True, slots=True)
class Coverage:
    """Counts of true starts, ends and costs against their first estimates, since the daemon began."""

    start: IntervalCounts = field(default_factory=IntervalCounts)
    end: IntervalCounts = field(default_factory=IntervalCounts)
    cost: IntervalCounts = field(default_factory=IntervalCounts)
