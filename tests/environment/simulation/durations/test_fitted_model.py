"""Simulations with fitted durations: a job takes the model's time for its placement."""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np
import pytest

from agents.baselines.first_fit import FirstFit
from agents.baselines.random_choice import RandomChoice, RandomOptions
from agents.baselines.round_robin import RoundRobin
from environment.policy import Policy
from environment.resources import Resources
from environment.simulation.durations.fitted_model import FittedDurations, FittedModel, Shape, TypeModel
from environment.simulation.options import SimulationOptions
from environment.simulation.results.job_outcomes import JobOutcome
from environment.simulation.results.results import Result
from environment.simulation.simulator import simulate
from environment.types import Decision, Place, PlacementRequest
from environment.view import ClusterView
from profiles.workloads.generators import load_workload
from profiles.workloads.workload import Workload, WorkloadJob
from tests.builders import make_job, make_vms

SORT = TypeModel(
    method="additive",
    coefficients=(4.0, 3.0, 0.5, 1.0, 0.25, 2.0, 0.0),
    slowdown=0.5,
    sigma=0.2,
    errors={},
    runs=9,
    input_mib=16.0,
)
MODEL = FittedModel(types={"sort": SORT})
VMS = make_vms(4)


def jobs_of(*sizes: tuple[float, str, int, float | None]) -> Workload:
    """Jobs of one cpu an executor: time of arrival, type, executors, MiB of input."""
    return Workload(
        tuple(
            WorkloadJob(f"job-{i}", at, kind, 1.0, 1024, executors, 100.0, input_mib=mib)
            for i, (at, kind, executors, mib) in enumerate(sizes)
        )
    )


def run(policy: Policy, workload: Workload, durations: FittedDurations | None = None) -> Result:
    """A simulation with fitted durations."""
    options = SimulationOptions(fitted=durations or FittedDurations(MODEL))
    return simulate(policy, workload, VMS, options=options)


@pytest.mark.parametrize(("policy", "vms"), [(RoundRobin(), 4), (FirstFit(), 1)])
def test_it_takes_what_the_model_says(policy: Policy, vms: int) -> None:
    """By the number of VMs; the input is the job's, or the type's where that is not known."""
    for given, mib in ((32.0, 32.0), (None, 16.0)):
        (job,) = run(policy, jobs_of((0.0, "sort", 4, given))).jobs
        by_hand = 4 + 3 / vms + 0.5 * 4 / vms + mib / 4 + 0.25 * mib / vms + 2 * mib * (1 - 1 / vms) / vms
        assert job.duration == pytest.approx(by_hand)


def test_others_on_its_vms_slow_it_down() -> None:
    """Two of four cpus of its only VM are held when it starts, so it takes a quarter longer."""
    result = run(FirstFit(), jobs_of((0.0, "sort", 2, None), (0.0, "sort", 2, None)))
    first, second = result.jobs
    assert first.placement == second.placement == (0, 0)
    assert second.duration == pytest.approx(1.25 * first.duration)


def test_types_that_were_not_measured_take_what_the_workload_says() -> None:
    """And 1.3 times that where the placement is not good."""
    jobs = jobs_of((0.0, "wordcount", 4, 8.0))
    assert run(RoundRobin(), jobs).jobs[0].duration == 100
    assert run(FirstFit(), jobs).jobs[0].duration == 130
    assert run(FirstFit(), jobs, FittedDurations(MODEL, penalty=2)).jobs[0].duration == 200
    assert run(FirstFit(), jobs_of((0.0, "never seen", 4, 8.0))).jobs[0].duration == 100


def test_policies_expect_the_best_of_placements() -> None:
    """The expected duration shown to a policy is the model's shortest over all numbers of VMs."""
    seen: list[float | None] = []

    class Curious(FirstFit):
        def decide(self, view: ClusterView, queue: Sequence[PlacementRequest]) -> Decision:
            seen.append(queue[0].job.expected_duration)
            return super().decide(view, queue)

    run(Curious(), jobs_of((0.0, "sort", 4, 16.0)), FittedDurations(MODEL, draw="sample"))
    assert seen == [min(SORT.seconds(Shape(4, 1.0, 1024, vms, 16.0)) for vms in (1, 2, 3, 4))]


def test_draws_have_the_models_mean_and_spread() -> None:
    """Log-normal around the mean, other for every job, the same for the same seed."""
    jobs = jobs_of(*((float(i * 1000), "sort", 1, 16.0) for i in range(2000)))
    mean = run(FirstFit(), jobs).jobs[0].duration
    drawn = run(FirstFit(), jobs, FittedDurations(MODEL, draw="sample", seed=3))
    again = run(FirstFit(), jobs, FittedDurations(MODEL, draw="sample", seed=3))
    other = run(FirstFit(), jobs, FittedDurations(MODEL, draw="sample", seed=4))
    assert drawn == again != other
    ratios = np.array([job.duration for job in drawn.jobs]) / mean
    assert ratios.mean() == pytest.approx(1, abs=0.02)
    assert np.log(ratios).std() == pytest.approx(0.2, abs=0.01)


def test_executors_that_get_less_take_longer() -> None:
    """A job with half of its cpus takes the model's time for that many."""

    class Half:
        def decide(self, view: ClusterView, queue: Sequence[PlacementRequest]) -> Decision:
            return Place(queue[0].job.id, (0, 1), sizes=(Resources.of(0.5, 1024),) * 2)

    (job,) = run(Half(), jobs_of((0.0, "sort", 2, 16.0))).jobs
    assert job.duration == pytest.approx(SORT.seconds(Shape(2, 0.5, 1024, 2, 16.0)))


@pytest.mark.parametrize("draw", ["mean", "sample"])
@pytest.mark.parametrize("policy", [FirstFit(), RoundRobin(), RandomChoice(RandomOptions(seed=1))])
def test_the_rules_hold_with_fitted_durations(policy: Policy, draw: Literal["mean", "sample"]) -> None:
    """Every duration is the model's, worked out once more by hand; no cost falls below the bound."""
    drawn = load_workload("burst", 5, 40)
    fitted = FittedDurations(MODEL, draw=draw, seed=9)
    result = simulate(
        policy,
        drawn,
        make_vms(8, 8, 65536),
        options=SimulationOptions(fitted=fitted),
    )
    assert result.cost >= result.bound > 0
    order = sorted(result.jobs, key=lambda job: job.started_at)
    for job in order:
        if job.type == "sort":
            assert job.duration == pytest.approx(by_hand(job, order, fitted, 8.0))


def by_hand(job: JobOutcome, order: Sequence[JobOutcome], fitted: FittedDurations, vm_cpus: float) -> float:
    """A job's duration from the outcome alone: the jobs on its VMs when it started."""
    at = order.index(job)
    used = set(job.placement)
    held = 0.0
    for number, other in enumerate(order):
        earlier = other.started_at < job.started_at or (other.started_at == job.started_at and number < at)
        if number != at and earlier and other.ended_at > job.started_at:
            held += sum(
                size.cpus for vm, size in zip(other.placement, other.taken, strict=True) if vm in used
            )
    shared = held / (len(used) * vm_cpus)
    shape = Shape(job.executors, job.cpus, job.memory_mib, len(used), SORT.input_mib)
    luck = 1.0
    if fitted.draw == "sample":
        luck = fitted.luck(replace(make_job(job.name), type="sort"))
    return SORT.seconds(shape) * (1 + SORT.slowdown * shared) * luck


def test_nonsense_is_refused() -> None:
    """The options are checked."""
    median: Any = "median"
    with pytest.raises(ValueError, match="draw: should be mean or sample, found 'median'"):
        FittedDurations(MODEL, draw=median)
    with pytest.raises(ValueError, match="penalty: should be 1 or more, found nan"):
        FittedDurations(MODEL, penalty=math.nan)
