"""Jobs that never end on spot VMs are found by their expected progress, and every run is bounded."""

from collections.abc import Sequence
from dataclasses import replace
from statistics import fmean

import pytest

from agents.registry import create
from conf.defaults import NEVER
from environment.decisions.feasibility import check
from environment.kernel.arrays import episode_of, jobs_of
from environment.kernel.rule_options import DurationOptions, RewardOptions, rules
from environment.kernel.rules import reset, step_episode
from environment.kernel.state import make_batch
from environment.pools import IdleTimeout, SpotTerms, Terms
from environment.simulation.durations.beliefs import EXACT
from environment.simulation.durations.endless_jobs import Exposure, kept_off
from environment.simulation.durations.spot_beliefs import SpotBelief
from environment.simulation.forecast.play_forward import play_ahead
from environment.simulation.options import SimulationOptions
from environment.simulation.results.decision_trace import EndlessError
from environment.simulation.results.results import Result
from environment.simulation.simulator import simulate
from environment.types import MEASURED_REWORK, Place, PlacementRequest, Rework, Vm
from profiles.job_profile import load_profiles
from profiles.workloads.workload import Workload, WorkloadJob
from tests.builders import make_job, make_view
from tests.environment.simulation.test_pools import pooled

#: Of wordcount everything that an executor has done is done again when it is lost.
_ALL_AGAIN = "wordcount"


def spot(per_hour: float, notice: float = 0.0, boot: float = 30.0) -> Terms:
    """Terms of a spot pool."""
    return Terms("cheap", boot, spot=SpotTerms(per_hour, notice))


def work(name: str, executors: int, duration: float, kind: str = _ALL_AGAIN) -> WorkloadJob:
    """Executors of one cpu of a job that is submitted at once."""
    return WorkloadJob(name, 0.0, kind, 1.0, 1024, executors, duration)


def run(jobs: Sequence[WorkloadJob], vms: Sequence[Vm], policy: str = "ff", **options: object) -> Result:
    """A simulation of these jobs, in which policies know the truth."""
    known = {"belief": EXACT, "spot_belief": SpotBelief(0.0), "keeping": IdleTimeout("none"), **options}
    return simulate(create(policy), Workload(tuple(jobs)), vms, options=SimulationOptions(**known))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("per_hour", "boot", "duration", "kind"),
    [(6.0, 30.0, 1200.0, "other"), (30.0, 20.0, 600.0, "other"), (3.0, 30.0, 1200.0, _ALL_AGAIN)],
)
def test_a_job_takes_as_long_as_is_expected_of_it(
    per_hour: float, boot: float, duration: float, kind: str
) -> None:
    """On average of many seeds, within a third: the closed form knows nothing of single interruptions."""
    vms, profile = pooled(1, spot(per_hour, boot=boot), cpus=1.0), load_profiles().get(kind)
    share = profile.rework.lost if profile else MEASURED_REWORK.lost
    expected = Exposure(per_hour / 3600, boot, share).times(duration)
    took = [run([work("a", 1, duration, kind)], vms, seed=seed).jobs[0].duration for seed in range(60)]
    assert fmean(took) / duration == pytest.approx(expected, rel=1 / 3)


@pytest.mark.parametrize(
    ("exposure", "seconds", "never"),
    [
        (Exposure(0.0, 60.0, 1.0), 1e9, False),  # nobody takes anything away
        (Exposure(1 / 3600, 60.0, 0.5), 1e9, False),  # half of it stays done
        (Exposure(1 / 3600, 60.0, 1.0), 3600.0, False),  # an hour without an interruption comes
        (Exposure(1 / 3600, 60.0, 1.0), 36_000.0, True),  # ten do not
        (Exposure(1 / 3600, 60.0, 1.0, 8), 3600.0, True),  # nor does one for eight VMs at once
        (Exposure(1 / 3600, 60.0, 1.0, 8, 0.5), 36_000.0, False),  # the other half goes on
        (Exposure(1 / 60, 600.0, 0.0), 60.0, True),  # its VMs hardly ever come up
        (Exposure(1.0, 1e6, 1.0), 1e9, True),  # nothing overflows
        (Exposure(1 / 3600, 60.0, 1.0), 0.0, False),
    ],
)
def test_which_jobs_never_end(exposure: Exposure, seconds: float, never: bool) -> None:
    """By rate, boot, rework, and how many VMs hold executors of the job."""
    assert exposure.never_ends(seconds) is never


@pytest.mark.parametrize("policy", ["ff", "rr", "greedy", "lookahead", "ilp", "karpenter"])
def test_no_policy_puts_it_on_spot_vms(policy: str) -> None:
    """Where there are others it is there, though they cost more; the short one may be anywhere."""
    cheap, dear = pooled(2, spot(20.0)), pooled(2, Terms("dear", 30.0))
    vms = (
        *cheap,
        *(replace(vm, id=f"d-{n}", name=f"d-{n}", price_per_hour=9e3) for n, vm in enumerate(dear)),
    )
    result = run([work("long", 2, 36_000.0), work("short", 1, 60.0)], vms, policy)
    assert {vms[vm].name for vm in result.jobs[0].placement} <= {"d-0", "d-1"}
    assert result.kept_off_spot == ("long",)
    assert (result.refused, result.given_up, result.violations) == ({}, {}, 0)


def test_where_there_are_no_others_it_is_refused_and_the_run_goes_on() -> None:
    """The rest is placed as ever."""
    result = run([work("long", 2, 36_000.0), work("short", 1, 60.0)], pooled(2, spot(20.0)))
    assert "long never ends on spot at this rate (20 interruptions an hour)" in result.refused["long"]
    assert [job.name for job in result.jobs] == ["short"]


def test_one_that_is_only_believed_never_to_end_ends_no_comparison() -> None:
    """No policy would place it, for ever: with some seed it is believed so, with another it ends."""
    vms = pooled(2, spot(4.0), cpus=1.0)
    jobs = [work("long", 1, 4000.0), work("short", 1, 60.0)]
    found = [run(jobs, vms, seed=seed, spot_belief=SpotBelief(1.0)) for seed in range(12)]
    waits = [result.refused["long"] for result in found if "long" in result.refused]
    assert 0 < len(waits) < len(found)
    assert all(why.startswith("as it is believed, ") and "never ends on spot" in why for why in waits)
    assert all("short" in {job.name for job in result.jobs} for result in found)


@pytest.mark.parametrize("lost", [1.0, 0.5])
def test_rework_that_is_believed_to_be_less_than_it_is(lost: float) -> None:
    """The belief errs by seed: where it is placed on spot VMs though it never ends there, it is given up."""
    profile = load_profiles()[_ALL_AGAIN]
    known = profile.model_copy(update={"rework": profile.rework.model_copy(update={"lost": lost})})
    other = pooled(1, Terms("dear", 30.0))[0]
    vms = (*pooled(1, spot(4.0)), replace(other, id="d", name="d"))
    found = []
    for seed in range(8):
        jobs = [work("long", 1, 4 * 3600.0), replace(work("next", 1, 60.0), after=("long",))]
        result = run(jobs, vms, spot_belief=SpotBelief(1.0), profiles={_ALL_AGAIN: known}, seed=seed)
        assert len(result.jobs) == 2
        found.append(dict(result.given_up))
    given_up = [why for each in found for why in each.values()]
    assert bool(given_up) == (lost == 1.0)
    assert all(
        "never ends on spot at this rate (4 interruptions an hour): given up after" in why for why in given_up
    )


def test_a_look_ahead_names_it_and_goes_on() -> None:
    """Beliefs decide, as in hypothetical runs and estimates."""
    vms = pooled(2, spot(20.0))
    jobs = [
        replace(make_job(f"job-{n}", executors=1, expected_duration=d), rework=Rework(1.0, 1.0))
        for n, d in ((1, 36e3), (2, 60.0))
    ]
    queue = [PlacementRequest(job, 1) for job in kept_off(jobs, vms)]
    played = play_ahead(create("ff"), make_view(vms), queue)
    assert "never ends on spot at this rate" in played.never["job-1"]
    assert set(played.jobs) == {"job-2"}


def test_the_check_refuses_a_placement_there() -> None:
    """The check refuses it under any policy."""
    vms = pooled(1, spot(20.0))
    (job,) = kept_off([replace(make_job(executors=1, expected_duration=36e3), rework=Rework(1.0, 1.0))], vms)
    assert job.unending_on == ("cheap",)
    (fault,) = check(make_view(vms), PlacementRequest(job, 1), Place(job.id, (0,)))
    assert fault == "vm-0 is a spot VM, and job-1 never ends on spot at this rate (20 interruptions an hour)"
    assert kept_off([job], pooled(1, Terms("dear")))[0].unending_on == ()


def test_an_episode_of_training_ends() -> None:
    """There every job may be on every VM: one that never ends is late by no more than makes it end."""
    jobs = (work("a", 1, 600.0), work("b", 1, 600.0))
    episode = episode_of(
        jobs_of(Workload(jobs), load_profiles()), pooled(1, spot(60.0, boot=120.0), cpus=1.0)
    )
    batch = make_batch([episode], rules(RewardOptions(), DurationOptions()))
    reset(batch, 0)
    while batch.state.over[0] == 0:
        step_episode(batch, 0, 1 if batch.state.held[0, 0] == 0 else 0)
    start, end = batch.state.start[0], batch.state.end[0]
    assert (end - start).tolist() == pytest.approx([NEVER * 600.0] * 2)


def test_a_run_stops_after_so_many_events_and_says_so() -> None:
    """The error reports the time, the running jobs, and how the run may go on."""
    vms = pooled(1, spot(600.0, notice=120.0, boot=0.0))
    with pytest.raises(
        EndlessError, match=r"after 100 events, at [\d,]+ s of its clock: 1 of 1 jobs run, such as a;"
    ):
        run([work("a", 1, 1e6, "other")], vms, most_events=100)
    assert SimulationOptions().events(3) == 203_000
