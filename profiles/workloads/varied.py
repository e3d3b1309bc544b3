"""Varies a fixed workload, such as a file, by seed: so that several seeds are several workloads.

Workloads that are made from a description are drawn by seed anyway, in `generators`.
"""

import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Literal, get_args

import numpy as np

from conf.defaults import MEASURED_SPREAD
from profiles.job_profile import JobProfile
from profiles.workloads.generators import load_workload
from profiles.workloads.workload import LONGEST, Workload

Varied = Literal["durations", "arrivals"]
#: A stream for each, so that one is drawn alike whether the other is or not.
_KINDS: tuple[Varied, ...] = get_args(Varied)


def read_varied(text: str) -> tuple[Varied, ...]:
    """Read `durations`, `arrivals` or both by a comma; ValueError lists the valid values."""
    named = [part.strip() for part in text.split(",")]
    for name in named:
        if name not in _KINDS:
            raise ValueError(f"should be {', '.join(_KINDS)} or both by a comma, found {name!r}")
    return tuple(kind for kind in _KINDS if kind in named)


def load_varied(
    name: str | Path,
    seed: int,
    jobs: int | None,
    kinds: tuple[Varied, ...],
    profiles: Mapping[str, JobProfile],
) -> Workload:
    """A workload by name or path, as `load_workload` has it, with these drawn by seed."""
    found = load_workload(name, seed, jobs)
    return varied(found, seed, kinds, profiles) if kinds else found


def varied(
    workload: Workload, seed: int, kinds: tuple[Varied, ...], profiles: Mapping[str, JobProfile]
) -> Workload:
    """The workload with these drawn by seed.

    Durations: each job's is the mean of the draws, log-normal and as wide as its type's measured spread.
    Arrivals: the gaps between jobs are drawn with replacement from the existing ones (a bootstrap); the jobs
    keep their order.
    """
    by_kind = dict(zip(_KINDS, np.random.SeedSequence(seed).spawn(len(_KINDS)), strict=True))
    jobs = workload.jobs
    if "durations" in kinds:
        luck = np.random.default_rng(by_kind["durations"]).standard_normal(len(jobs)).tolist()
        spreads = {name: profile.spread for name, profile in profiles.items()}
        jobs = tuple(
            replace(job, duration=_drawn(job.duration, spreads.get(job.type, MEASURED_SPREAD), deviations))
            for job, deviations in zip(jobs, luck, strict=True)
        )
    if "arrivals" in kinds and len(jobs) > 1:
        there = [job.submitted_at for job in jobs]
        gaps = np.random.default_rng(by_kind["arrivals"]).choice(np.diff(there), len(jobs) - 1)
        times = np.minimum(np.cumsum([there[0], *gaps]), LONGEST).tolist()
        jobs = tuple(replace(job, submitted_at=at) for job, at in zip(jobs, times, strict=True))
    return replace(workload, jobs=jobs)


def _drawn(mean: float, spread: float, deviations: float) -> float:
    return min(mean * math.exp(spread * deviations - spread**2 / 2), LONGEST)
