"""Beliefs about jobs and counts of their waits, for policies in compiled code.

The counts are those of `environment.decisions.starvation`. Jobs have two numbers: by arrival, and the
kernel's, which changes while they wait and others are placed before them.
"""

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from environment.decisions.starvation import PatienceLimits
from environment.kernel.compiled import njit
from environment.types import FloatArray, IntArray, Job
from environment.view import RunningJob

#: Relative rounding error of a computed time, as in `environment.decisions.starvation`.
ROUNDED = 1e-6


class JobBeliefs(NamedTuple):
    """Beliefs about jobs, in order of arrival, [M] each."""

    expected: FloatArray  # seconds; NaN when unknown
    spread: FloatArray
    patience: FloatArray  # for how many seconds it may be held back in all
    kind: IntArray  # equal of those that are placed alike


class WaitLimits(NamedTuple):
    """Constants of a simulation."""

    overtaken_at_most: int
    unknown: float  # seconds that a job takes of which that is not known
    exact: bool  # whether beliefs about running jobs are the truth


class WaitCounts(NamedTuple):
    """Variable state beside the kernel's."""

    order: IntArray  # [M] number by arrival of each of the kernel's numbers
    since: FloatArray  # [M] by arrival: when it began to fit; NaN when it does not
    overtaken: IntArray  # [M] by arrival: how often while it was the oldest
    noted: IntArray  # [K] by kind: the decision in which something of it was noted last


def beliefs_of(jobs: Sequence[Job], limits: PatienceLimits, kind: Callable[[Job], Hashable]) -> JobBeliefs:
    """Beliefs about these jobs, by arrival; `kind` is equal of jobs that are placed alike."""
    kinds: dict[Hashable, int] = {}
    return JobBeliefs(
        np.array([np.nan if job.expected_duration is None else job.expected_duration for job in jobs]),
        np.array([job.spread for job in jobs]),
        np.array([limits.patience_with(job) for job in jobs], np.float64),
        np.array([kinds.setdefault(kind(job), len(kinds)) for job in jobs], np.int64),
    )


def blank_counts(beliefs: JobBeliefs) -> WaitCounts:
    """Counts before the first decision."""
    jobs = len(beliefs.expected)
    return WaitCounts(
        order=np.arange(jobs),
        since=np.full(jobs, np.nan),
        overtaken=np.zeros(jobs, np.int64),
        noted=np.full(int(beliefs.kind.max(initial=0)) + 1, -1),
    )


def expects_of(running: Mapping[int, RunningJob], jobs: int) -> FloatArray:
    """Seconds that running jobs are expected to take, by the kernel's numbers, [M]; NaN: unknown."""
    expects = np.full(jobs, np.nan)
    for number, held in running.items():
        expects[number] = math.nan if held.expected is None else held.expected
    return expects


@njit()
def may_overtake(limits: WaitLimits, counts: WaitCounts, oldest: int) -> bool:
    """Whether a job behind the oldest one may still be placed."""
    return bool(limits.overtaken_at_most > 0 and counts.overtaken[oldest] < limits.overtaken_at_most)


@njit()
def note_fit(counts: WaitCounts, number: int, fits: bool, now: float) -> None:
    """Note whether a job fits now, and since when without a break."""
    if not fits:
        counts.since[number] = np.nan
    elif math.isnan(counts.since[number]):
        counts.since[number] = now
