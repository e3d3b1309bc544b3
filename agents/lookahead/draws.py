"""Samples of jobs' true durations, given the believed error of their expected durations. Nothing is played.

A job's samples are always the same, while it waits and while it runs, so that plans of one decision and of
the next are compared on the same random numbers (common random numbers).
"""

import math
from collections.abc import Sequence
from functools import lru_cache
from statistics import NormalDist
from zlib import crc32

import numpy as np

from conf.defaults import UNKNOWN_DURATION, UNKNOWN_SPREAD
from environment.types import FloatArray, Job, PlacementRequest
from environment.view import RunningJob

_NORMAL = NormalDist()
#: The least probability that is used.
_LEAST = 1e-300


class Draws:
    """`count` samples, by a seed: the same for every caller."""

    def __init__(self, count: int, seed: int = 0, unknown: float = UNKNOWN_DURATION) -> None:
        """A job of unknown duration is believed to take `unknown` seconds, with a wide spread."""
        self.count = count
        self._seed, self._unknown = seed, unknown
        self._deviations = lru_cache(maxsize=4096)(self._drawn)

    def of_waiting(self, queue: Sequence[PlacementRequest]) -> FloatArray:
        """Durations of M queued jobs, as multiples of the believed ones; float64 [count, M], of mean 1."""
        spread = np.array([_spread(request.job, request.job.expected_duration) for request in queue])
        deviations = np.array([self._deviations(request.job.id) for request in queue]).T
        factors: FloatArray = np.exp(spread * deviations - spread**2 / 2.0)
        return factors

    def seconds_left(self, job: RunningJob, now: float) -> tuple[float, ...]:
        """Seconds for which a job still runs, by sample, given that it has not ended."""
        believed = self._unknown if job.expected is None else job.expected
        passed, spread = now - job.started_at, _spread(job.job, job.expected)
        if spread <= 0.0 or believed <= 0.0:  # it is certain, or over
            return (job.end_assuming(now, self._unknown) - now,) * self.count
        deviations, median = self._deviations(job.job.id), believed * math.exp(-(spread**2) / 2.0)
        if passed > 0.0:
            # By how likely it is that it takes longer, which is exact however late it is.
            longer = _NORMAL.cdf(math.log(median / passed) / spread)
            chances = (max(longer * _NORMAL.cdf(-deviation), _LEAST) for deviation in deviations)
            deviations = tuple(-_NORMAL.inv_cdf(chance) for chance in chances)
        return tuple(median * math.exp(spread * deviation) - passed for deviation in deviations)

    def _drawn(self, job_id: str) -> tuple[float, ...]:
        """Deviation of each sample in standard deviations: one of each of `count` equally probable parts."""
        generator = np.random.default_rng((self._seed, crc32(job_id.encode())))
        chances = (generator.permutation(self.count) + generator.random(self.count)) / self.count
        return tuple(_NORMAL.inv_cdf(max(chance, _LEAST)) for chance in chances.tolist())


#: None at all: plans are played on the beliefs.
NO_DRAWS = Draws(0)


def _spread(job: Job, expected: float | None) -> float:
    return UNKNOWN_SPREAD if expected is None else job.spread
