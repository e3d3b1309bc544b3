"""Policies' beliefs about the durations of a simulation's jobs, and their distance from the truth.

The truth stays as the workload, the fitted model or its draw defines it, so that costs can be compared
under any belief; the belief errs, by job and seed. `environment.view` and `environment.kernel.expected_end`
build views from beliefs, in a simulation and in the daemon.
"""

import hashlib
import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Literal

import numpy as np

from conf.defaults import UNKNOWN_SPREAD
from conf.util.copy_fields import changed
from environment.types import Job

#: Above it, belief says nothing any more. Chosen: one job of six then takes more than seven times as long.
_MOST_SPREAD = 2.0
_NORMAL = NormalDist()


@dataclass(frozen=True, slots=True)
class Belief:
    """Belief about jobs' durations; except for an oracle's, there is none for unknown types.

    `exact`: the true durations, to the second: the set-up of Islam 2022, with an oracle.
    `spread`: the truth with a log-normal error of mean 1, as wide as the type's own measured spread
        (`Job.spread`). Where the truth itself is drawn around a fitted mean, that mean.
    `sigma`: the truth with a log-normal error of mean 1 and this standard deviation of its logarithm.
    `constant`: every job takes as long as those of the workload, of known types, do on average.
    """

    kind: Literal["exact", "spread", "sigma", "constant"] = "spread"
    sigma: float = 0.0

    def __post_init__(self) -> None:
        if self.kind not in ("exact", "spread", "sigma", "constant"):
            raise ValueError(f"belief: should be exact, spread, a number or constant, found {self.kind!r}")
        if not 0 <= self.sigma <= _MOST_SPREAD:
            raise ValueError(
                f"belief: a number should be from 0 to {_MOST_SPREAD:g}, the standard deviation of the "
                f"logarithm of believed over real duration; found {self.sigma:g}"
            )

    @classmethod
    def read(cls, text: str | float) -> "Belief":
        """Read `exact`, `spread`, `constant` or a number; ValueError lists the valid values."""
        if text in ("exact", "spread", "constant"):
            return cls(text)  # type: ignore[arg-type]  # these are the names
        try:
            return cls("sigma", float(text))
        except ValueError as error:
            if "number should be" in str(error):
                raise
            raise ValueError(
                f"belief: should be exact, spread, constant or a number such as 0.2, found {text!r}"
            ) from None

    def __str__(self) -> str:
        return f"{self.sigma:g}" if self.kind == "sigma" else self.kind

    @property
    def exact(self) -> bool:
        """Whether everything is known."""
        return self.kind == "exact"

    def of(
        self,
        jobs: Sequence[Job],
        seed: int,
        *,
        mean: Callable[[Job], float | None] | None = None,
        known: Collection[str] | None = None,
    ) -> tuple[Job, ...]:
        """Replace the jobs' expected durations, which are true, by believed ones.

        `mean` returns, where truth is drawn, the mean of the draw, and None for a job without a draw. `known`
        are the types with known durations; None: all.
        """
        if self.kind == "exact":
            return tuple(changed(job, spread=0.0) for job in jobs)
        new = () if known is None else {job.type for job in jobs} - {*known}
        jobs = tuple(
            changed(job, expected_duration=None, spread=UNKNOWN_SPREAD) if job.type in new else job
            for job in jobs
        )
        if self.kind == "constant":
            return _all_alike(jobs)
        return tuple(self._believed(job, seed, mean) for job in jobs)

    def _believed(self, job: Job, seed: int, mean: Callable[[Job], float | None] | None) -> Job:
        truth = job.expected_duration
        if truth is None:
            return job
        if self.kind == "sigma":
            return changed(job, expected_duration=truth * _error(job, seed, self.sigma), spread=self.sigma)
        around = None if mean is None else mean(job)
        return changed(job, expected_duration=around or truth * _error(job, seed, job.spread))


#: Everything is known: the set-up of Islam 2022.
EXACT = Belief("exact")


def _all_alike(jobs: Sequence[Job]) -> tuple[Job, ...]:
    """Every job that has a duration takes their mean, with the spread of all of them around it."""
    seconds = [job.expected_duration for job in jobs if job.expected_duration]
    if not seconds:
        return tuple(jobs)
    mean, spread = float(np.mean(seconds)), float(np.std(np.log(seconds)))
    return tuple(
        job if job.expected_duration is None else changed(job, expected_duration=mean, spread=spread)
        for job in jobs
    )


def _error(job: Job, seed: int, sigma: float) -> float:
    """Believed over real duration, by seed and the job's id alone."""
    return error_of(f"belief/{seed}/{job.id}", sigma)


def error_of(what: str, sigma: float) -> float:
    """Believed over real: log-normal with mean 1, drawn by that text alone."""
    digest = hashlib.sha256(what.encode()).digest()
    share = (int.from_bytes(digest[:6], "big") + 0.5) / 2**48
    return math.exp(sigma * _NORMAL.inv_cdf(share) - sigma**2 / 2)
