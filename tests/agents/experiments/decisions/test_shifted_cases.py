"""The shifted cases: the same for the same seed, possible on their clusters, and shifted as they say."""

import numpy as np
import pytest

from agents.experiments.decisions.shifted_cases import ShiftedCase, case, cases, stretched
from conf.loader import ConfigError
from environment.kernel.arrays import jobs_of, refusals
from profiles.job_profile import load_profiles


@pytest.mark.parametrize("each", cases(), ids=lambda each: each.name)
def test_cases_are_drawn_by_seed_and_fit_their_cluster(each: ShiftedCase) -> None:
    """Two seeds differ, one gives the same twice, and no job is refused."""
    one = each.workload(1, 20)
    assert one == each.workload(1, 20) != each.workload(2, 20)
    assert len(one) == 20
    assert not refusals(jobs_of(one, load_profiles()), each.cluster())


def test_stretching_all_times_keeps_their_ratios() -> None:
    """Durations and arrivals by the factors that are given, sizes as they were."""
    plain = case("burst").workload(3, 10)
    found = stretched(plain, 0.5, 0.25)
    for before, after in zip(plain.jobs, found.jobs, strict=True):
        assert (after.duration, after.submitted_at) == (before.duration / 2, before.submitted_at / 4)
        assert (after.cpus, after.executors) == (before.cpus, before.executors)


def test_durations_are_what_a_case_says() -> None:
    """One-minute jobs take 31 to 100 s; heavy tails have a few jobs that take most of the time."""
    minute = [job.duration for job in case("one-minute jobs").workload(0, None).jobs]
    assert min(minute) >= 31
    assert max(minute) <= 100
    tails = [job.duration for seed in range(5) for job in case("heavy tails").workload(seed, None).jobs]
    assert sum(sorted(tails)[-len(tails) // 10 :]) > 0.4 * sum(tails)
    assert max(tails) > 20 * float(np.median(tails))


def test_an_unknown_case_is_refused() -> None:
    """The message lists the known ones."""
    with pytest.raises(ConfigError, match="nothing: no such case; known are normal, burst"):
        case("nothing")
