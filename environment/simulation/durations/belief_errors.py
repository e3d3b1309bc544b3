"""Joint errors of beliefs about durations: learned from jobs that ended, drawn for others.

A profile that is wrong is so for all jobs of its type at once, and a machine that is slower than the
profiled one for all types. So the logarithm of real over believed duration has three normal parts:

    error = common + of its type + its own

All jobs share the first part, those of a type the second. Estimates of the two come from jobs that have
ended, in closed form (a normal hierarchy, Gelman et al., Bayesian Data Analysis, 5.4, with variances of the
two assumed), and are wide as long as few have. Jobs that run for longer than was believed are evidence too:
in each draw parts count by the chance that those jobs run still. Types without a believed duration have no
share in the common part.

`beliefs.py` defines beliefs and their errors in simulations; `simulation/forecast/play_forward.py` draws.
"""

import math
import threading
from collections import OrderedDict, deque
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from conf.defaults import UNKNOWN_DURATION
from environment.types import FloatArray, Job
from environment.view import RunningJob

#: Standard deviations of the common part and of a type's, before anything was learned. Chosen: a profile of
#: another machine is off by a factor of two one way or the other, and one of another input by two thirds.
_COMMON, _TYPE = 0.7, 0.5
#: By how much the common part may have changed since the latest jobs ended, however many did. Chosen: with
#: real Spark, the same jobs took up to an eighth longer in one round than in another (docs/results/real.md).
_DRIFT = 0.15
#: The same of a type of which nothing is believed, and of its jobs around it: together 1, as of one such job.
_UNKNOWN_TYPE, _UNKNOWN_OWN = 0.85, 0.53
#: Added to a type's measured spread: no two runs are alike.
_OWN = 0.1
#: Number of jobs of a type whose errors are kept, number of further jobs after which each counts for half,
#: and number of types, those that ended last. Chosen: beliefs and machines change.
_KEPT, _HALF, _TYPES = 40, 20, 500
#: Weight, in jobs, of the prior of a type's own variance, and the prior as a multiple of the variance of its
#: spread. Chosen: profiles are measured in one sitting.
_PRIOR, _WIDER = 5.0, 1.5
#: No job counts as more wrong than this, for better or worse: by a factor of 150.
_MOST = 5.0
#: Number of drawn parts, one of which is chosen by the probability that the running jobs would still run.
_PARTICLES = 256

#: A type, and whether anything was believed of the job: errors of guesses say nothing of those of profiles.
_Kind = tuple[str, bool]


@dataclass(frozen=True, slots=True)
class _TypeErrors:
    """The weighted mean of a type's errors, and its variance if the type's part were known."""

    mean: float
    variance: float


@dataclass(frozen=True)
class Errors:
    """Knowledge of the parts, as values: a normal of the common one, and each type's evidence from its jobs.

    `own` is the factor of the variances of jobs' own parts.
    """

    mean: float = -(_COMMON**2) / 2
    variance: float = _COMMON**2
    own: float = _WIDER
    types: Mapping[_Kind, _TypeErrors] = field(default_factory=dict)

    def spread(self, job: Job) -> float:
        """Standard deviation of the logarithm of a job's duration, were its type's error known."""
        return math.sqrt(self.own) * _own(job.spread, believed=job.expected_duration is not None)

    def draw(
        self, jobs: Collection[Job], running: Sequence[RunningJob], at: float, draw: np.random.Generator
    ) -> "DrawnErrors":
        """The parts of all types of these jobs and of those that run at `at`, drawn together."""
        kinds = sorted({_kind(job) for job in jobs} | {_kind_of(each) for each in running})
        common = self.mean + math.sqrt(self.variance) * draw.standard_normal(_PARTICLES)
        drift = _DRIFT * draw.standard_normal(_PARTICLES) - _DRIFT**2 / 2
        # A type's part is known by the durations of its jobs before the common one changed.
        parts = {kind: self._part(kind, common, draw) + drift for kind in kinds}
        chosen = int(draw.choice(_PARTICLES, p=self._chances(parts, running, at)))
        return DrawnErrors(self, {kind: float(part[chosen]) for kind, part in parts.items()})

    def _part(self, kind: _Kind, common: FloatArray, draw: np.random.Generator) -> FloatArray:
        """A type's part with the common one, [`_PARTICLES`], given the common one."""
        before, noise = _prior(kind), draw.standard_normal(_PARTICLES)
        centre = (common if kind[1] else np.zeros(_PARTICLES)) - before / 2
        if (seen := self.types.get(kind)) is None:
            return np.asarray(centre + math.sqrt(before) * noise)
        share = before / (before + seen.variance)
        return np.asarray(centre + share * (seen.mean - centre) + math.sqrt(share * seen.variance) * noise)

    def _chances(
        self, parts: Mapping[_Kind, FloatArray], running: Sequence[RunningJob], at: float
    ) -> FloatArray:
        """Probabilities, [`_PARTICLES`], that all running jobs still run; their sum is 1."""
        logs = np.zeros(_PARTICLES)
        for each in running:
            seconds = UNKNOWN_DURATION if each.expected is None else each.expected
            passed = at - each.started_at
            if passed > 0.0 and seconds > 0.0:
                spread = self._spread_of(each)
                over = math.log(passed / seconds) + spread**2 / 2
                logs += _log_chance((parts[_kind_of(each)] - over) / spread)
        chances = np.exp(logs - logs.max())
        return np.asarray(chances / chances.sum())

    def _spread_of(self, running: RunningJob) -> float:
        return math.sqrt(self.own) * _own(running.job.spread, believed=running.expected is not None)


@dataclass(frozen=True, slots=True)
class DrawnErrors:
    """The errors of types in one draw: natural logarithms of real over believed."""

    errors: Errors
    parts: Mapping[_Kind, float]

    def of(self, job: Job) -> tuple[float, float]:
        """Mean seconds that a job takes that waits, and the spread around it."""
        seconds = UNKNOWN_DURATION if job.expected_duration is None else job.expected_duration
        return seconds * math.exp(self.parts[_kind(job)]), self.errors.spread(job)

    def of_running(self, running: RunningJob) -> tuple[float, float]:
        """Seconds and spread of a running job, from its start on."""
        seconds = UNKNOWN_DURATION if running.expected is None else running.expected
        return seconds * math.exp(self.parts[_kind_of(running)]), self.errors._spread_of(running)


class LearnedErrors:
    """Learns how wrong beliefs were of jobs that have ended; from any thread."""

    def __init__(self) -> None:
        #: Errors of the latest jobs of each type, and their spreads; the type that ended last is last.
        self._seen: OrderedDict[_Kind, deque[tuple[float, float]]] = OrderedDict()
        self._learning = threading.Lock()
        self._known: Errors | None = None

    def learn(self, job: Job, believed: float | None, took: float) -> None:
        """A job took so many seconds, of which so many were believed, or nothing: None."""
        seconds = UNKNOWN_DURATION if believed is None else believed
        if not (took > 0.0 and seconds > 0.0):
            return
        error = min(max(math.log(took / seconds), -_MOST), _MOST)
        kind = (job.type, believed is not None)
        with self._learning:
            seen = self._seen.setdefault(kind, deque(maxlen=_KEPT))
            seen.append((error, _own(job.spread, believed=believed is not None)))
            self._seen.move_to_end(kind)
            if len(self._seen) > _TYPES:
                self._seen.popitem(last=False)
            self._known = None

    def now(self) -> Errors:
        """Errors learned until now."""
        with self._learning:
            if self._known is None:
                # Once as if own parts were as wide as measured, which tells how wide they are.
                self._known = self._fitted(self._own_of(self._fitted(1.0)))
            return self._known

    def _fitted(self, own: float) -> Errors:
        """The fitted parts, with variances of own parts multiplied by `own`."""
        types = {kind: _summed(seen, own) for kind, seen in self._seen.items()}
        weights, means = [_COMMON**-2], [-(_COMMON**2) / 2]
        for kind, seen in types.items():
            if kind[1]:
                weights.append(1.0 / (_prior(kind) + seen.variance))
                means.append(seen.mean + _prior(kind) / 2)
        variance = 1.0 / sum(weights)
        mean = variance * sum(weight * mean for weight, mean in zip(weights, means, strict=True))
        return Errors(mean, variance, own, types)

    def _own_of(self, known: Errors) -> float:
        """Factor between the observed and the assumed variances of own parts."""
        total, weight = _PRIOR * _WIDER, _PRIOR
        for kind, seen in self._seen.items():
            errors = known.types[kind]
            before = _prior(kind)
            centre = (known.mean if kind[1] else 0.0) - before / 2
            part = centre + before / (before + errors.variance) * (errors.mean - centre)
            for (error, spread), counts in zip(seen, _weights(len(seen)), strict=True):
                total += counts * (error + spread**2 / 2 - part) ** 2 / spread**2
                weight += counts
        return total / weight


def _log_chance(deviations: FloatArray) -> FloatArray:
    """Logarithms of the normal distribution function, [K], near enough for weights (Bowling 2009, eq. 7)."""
    return np.asarray(-np.logaddexp(0.0, -(1.5976 * deviations + 0.070565992 * deviations**3)))


def _kind(job: Job) -> _Kind:
    return job.type, job.expected_duration is not None


def _kind_of(running: RunningJob) -> _Kind:
    return running.job.type, running.expected is not None


def _prior(kind: _Kind) -> float:
    """The variance of a type's part before anything was learned; less half of it, so that means are right."""
    return _TYPE**2 if kind[1] else _UNKNOWN_TYPE**2


def _own(spread: float, *, believed: bool) -> float:
    """The assumed standard deviation of a job's own part."""
    return math.hypot(spread, _OWN) if believed else _UNKNOWN_OWN


def _weights(count: int) -> list[float]:
    """Weights of so many observations, the newest last."""
    return [0.5 ** (older / _HALF) for older in range(count - 1, -1, -1)]


def _summed(seen: Collection[tuple[float, float]], own: float) -> _TypeErrors:
    """Combine the errors of a type's jobs into one.

    Each error has mean 1 of the duration, if its type's part is 0.
    """
    weights = [
        counts / (own * spread**2) for (_, spread), counts in zip(seen, _weights(len(seen)), strict=True)
    ]
    total = sum(weights)
    means = (error + own * spread**2 / 2 for error, spread in seen)
    mean = sum(weight * mean for weight, mean in zip(weights, means, strict=True)) / total
    return _TypeErrors(mean, 1.0 / total)
