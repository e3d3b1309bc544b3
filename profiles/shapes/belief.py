"""The belief that runs support about a job type: a weight for each law, and the work's size under it.

Similar jobs help: before its own runs, a type is taken to be like one of the types known, each as likely as
any, or like none of them (any law). Its runs, two or two hundred, then weigh the laws by Bayes' rule.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from profiles.shapes.law import Floats, candidate_laws
from profiles.shapes.runs import JobShape, ShapeError, ShapeRun

_LAWS = 4096
#: Shapes whose seconds by each law are kept: 32 KiB each.
_KEPT = 1024


@dataclass(frozen=True, slots=True)
class Doubts:
    """How much is doubted: standard deviations of log seconds, and counts.

    `noise` is that of a run beside its law, `size` that of a job's work a GiB beside that of other jobs of
    its type. Both are known as well as from `degrees` runs. Errors of a law are alike from run to run: more
    than `independent` runs of a type count for that many. A type like none of the
    known ones is as likely as one of `new` known types.
    """

    noise: float = 0.1
    size: float = 0.3
    degrees: float = 4.0
    independent: int = 4
    new: float = 5.0


DOUBTS = Doubts()


@dataclass(frozen=True, slots=True, eq=False)
class ShapeBelief:
    """Weights of the candidate laws, which sum to 1; log of the work under each, and its variance."""

    weights: Floats
    work: Floats
    variance: Floats

    def log_seconds(self, shape: JobShape, input_gib: float) -> tuple[float, float]:
        """Mean and standard deviation of the log of the seconds of another job of the type."""
        logs = self.work + log_seconds(shape, input_gib)
        mean = _mean(self.weights, logs)
        return mean, float(np.sqrt(_mean(self.weights, (logs - mean) ** 2 + self.variance)))


def believe(runs: Sequence[ShapeRun], prior: Floats | None = None, doubts: Doubts = DOUBTS) -> ShapeBelief:
    """Belief of a type from its runs; `prior` weighs the laws before (`prior_of`).

    ShapeError without a run.
    """
    if not runs:
        raise ShapeError("no run: should be at least one, of any shape")
    works = [
        [np.log(run.seconds) - log_seconds(run.shape, run.input_gib) for run in of]
        for of in by_job(runs).values()
    ]
    # Work a GiB: mean of each job, and spread of its runs around that.
    means = [_ordered_sum(of) / len(of) for of in works]
    variances = [doubts.noise**2 / len(of) + doubts.size**2 for of in works]
    precision = sum(1 / variance for variance in variances)
    work = (
        _ordered_sum([mean / variance for mean, variance in zip(means, variances, strict=True)]) / precision
    )
    misfit = _ordered_sum(
        [((one - mean) / doubts.noise) ** 2 for of, mean in zip(works, means, strict=True) for one in of]
        + [(mean - work) ** 2 / variance for mean, variance in zip(means, variances, strict=True)]
    )
    # Student's distribution: the noise itself is learned, so that two runs are not trusted too far.
    count = min(len(runs), doubts.independent)
    freedom = doubts.degrees
    logs = -(freedom + count) / 2 * np.log1p(misfit * (count / len(runs)) / freedom)
    if prior is not None:
        logs = logs + np.log(prior)
    weights = np.exp(logs - logs.max())
    scale = (freedom + misfit * (count / len(runs))) / (freedom + count)
    size = 0.0 if len(works) == 1 else doubts.size**2
    variance = scale * doubts.noise**2 + size + doubts.size**2
    return ShapeBelief(weights / weights.sum(), work, variance)


def prior_of(types: Iterable[Sequence[ShapeRun]], doubts: Doubts = DOUBTS) -> Floats:
    """Weights of the laws for a type of which nothing is known but the runs of others."""
    return mixed([of_alone(runs, doubts) for runs in types], doubts)


def of_alone(runs: Sequence[ShapeRun], doubts: Doubts = DOUBTS) -> Floats:
    """Weights of the laws by the runs of one type, without those of other types."""
    return believe(runs, None, doubts).weights


def mixed(known: Sequence[Floats], doubts: Doubts = DOUBTS) -> Floats:
    """Weights of the laws for a new type, by the weights of known types alone."""
    return (_ordered_sum([np.full(_LAWS, doubts.new / _LAWS), *known])) / (doubts.new + len(known))


def by_job(runs: Iterable[ShapeRun]) -> Mapping[str, list[ShapeRun]]:
    """Runs by job, in their order."""
    found: dict[str, list[ShapeRun]] = {}
    for run in runs:
        found.setdefault(run.job, []).append(run)
    return found


def by_type(runs: Iterable[ShapeRun]) -> Mapping[str, list[ShapeRun]]:
    """Runs by type, in their order."""
    found: dict[str, list[ShapeRun]] = {}
    for run in runs:
        found.setdefault(run.type, []).append(run)
    return found


@lru_cache(maxsize=_KEPT)
def log_seconds(shape: JobShape, input_gib: float) -> Floats:
    """Log of the seconds on a shape by each candidate law, for one core-second of work a GiB; read-only."""
    logs: Floats = np.log(candidate_laws(_LAWS).seconds(shape, input_gib))
    logs.setflags(write=False)
    return logs


def _ordered_sum(arrays: Sequence[Floats]) -> Floats:
    total = np.zeros(_LAWS)
    for array in arrays:
        total = total + array
    return total


def _mean(weights: Floats, values: Floats) -> float:
    return float((weights * values).sum())
