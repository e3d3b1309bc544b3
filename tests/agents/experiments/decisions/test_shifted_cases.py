"""The shifted cases: the same for the same seed, possible on their clusters, and shifted as they say."""

import numpy as np
import pytest

from agents.experiments.decisions.shifted_cases import ShiftedCase, case, cases, stretched
from agents.registry import create
from conf.loader import ConfigError
from environment.decisions.sizing import Sizes
from environment.kernel.arrays import jobs_of, refusals
from environment.kernel.expected_end import placed_well
from environment.simulation.durations.beliefs import Belief
from environment.simulation.simulator import simulate
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


@pytest.mark.parametrize("policy", ["aep", "greedy"])
@pytest.mark.parametrize("name", ["preferences flipped", "placement without effect", "bad placement x 1.6"])
def test_what_is_believed_of_placements_may_be_wrong(name: str, policy: str) -> None:
    """Jobs take their durations by the case's truth, asked or compiled; policies decide by the profiles."""
    there, factor = case(f"burst, {name}"), {"preferences flipped": 1.3, "bad placement x 1.6": 1.6}.get(name)
    workload, options = there.workload(5, 30), there.options(Belief("sigma", 0.2), 5, Sizes())
    result, compiled = (
        simulate(create(policy), workload, there.cluster(), options=options, compiled=way)
        for way in (False, True)
    )
    assert compiled.jobs == result.jobs
    asked = {job.name: job for job in workload.jobs}
    liked = {name: profile.prefers for name, profile in load_profiles().items()}
    bad = 0
    for job in result.jobs:
        count, vms = asked[job.name].executors, len(set(job.placement))
        as_shown = placed_well(liked[asked[job.name].type], count, vms)
        opposite = {"spread": "consolidate", "consolidate": "spread"}[liked[asked[job.name].type] or ""]
        good = placed_well(opposite, count, vms) if there.flipped else as_shown
        bad += not good
        assert job.duration == pytest.approx(asked[job.name].duration * (1.0 if good else factor or 1.0))
        assert job.good == good
    assert bad


def test_an_unknown_case_is_refused() -> None:
    """The message lists the known ones."""
    with pytest.raises(ConfigError, match="nothing: no such case; known are normal, burst"):
        case("nothing")
