"""Workloads that are files, varied by seed: durations by their type's spread, arrivals by a bootstrap."""

import itertools
import math
import statistics

import pytest

from conf.defaults import MEASURED_SPREAD
from profiles.job_profile import load_profiles
from profiles.workloads.varied import read_varied, varied
from profiles.workloads.workload import Workload, WorkloadJob

PROFILES = load_profiles()
WORKLOAD = Workload(
    tuple(
        WorkloadJob(f"job-{n}", 10.0 * n + n % 7, "sort" if n % 2 else "etl", 1.0, 1024, 1, 100.0)
        for n in range(400)
    )
)


def test_durations_are_drawn_around_what_they_are() -> None:
    """Their mean stays, their logarithms are as wide as the spread of the type; nothing else changes."""
    found = varied(WORKLOAD, 3, ("durations",), PROFILES)
    assert (
        found
        == varied(WORKLOAD, 3, ("durations",), PROFILES)
        != varied(WORKLOAD, 4, ("durations",), PROFILES)
    )
    logs = {
        kind: [math.log(job.duration) for job in found.jobs if job.type == kind] for kind in ("sort", "etl")
    }
    assert statistics.stdev(logs["sort"]) == pytest.approx(PROFILES["sort"].spread, rel=0.2)
    assert statistics.stdev(logs["etl"]) == pytest.approx(MEASURED_SPREAD, rel=0.2)
    assert statistics.fmean(job.duration for job in found.jobs) == pytest.approx(100.0, rel=0.02)
    assert [job.submitted_at for job in found.jobs] == [job.submitted_at for job in WORKLOAD.jobs]


def test_arrivals_are_drawn_of_the_gaps_that_there_are() -> None:
    """Jobs keep their order and their first time; durations stay, for any other draws."""
    found = varied(WORKLOAD, 3, ("arrivals",), PROFILES)
    there, drawn = ([job.submitted_at for job in each.jobs] for each in (WORKLOAD, found))
    gaps = {round(later - earlier, 6) for earlier, later in itertools.pairwise(there)}
    assert {round(later - earlier, 6) for earlier, later in itertools.pairwise(drawn)} <= gaps
    assert drawn != there
    assert [job.name for job in found.jobs] == [job.name for job in WORKLOAD.jobs]
    both = varied(WORKLOAD, 3, ("durations", "arrivals"), PROFILES)
    assert [job.submitted_at for job in both.jobs] == drawn
    assert [job.duration for job in both.jobs] == [
        job.duration for job in varied(WORKLOAD, 3, ("durations",), PROFILES).jobs
    ]


def test_one_job_or_nothing_to_draw() -> None:
    """There is no gap to draw of."""
    one = WORKLOAD.first(1)
    assert varied(one, 1, ("arrivals",), PROFILES) == one
    assert varied(WORKLOAD, 1, (), PROFILES) == WORKLOAD


def test_what_may_be_varied() -> None:
    """In any order."""
    assert read_varied("arrivals, durations") == ("durations", "arrivals")
    with pytest.raises(ValueError, match="should be durations, arrivals or both by a comma, found 'sizes'"):
        read_varied("durations,sizes")
