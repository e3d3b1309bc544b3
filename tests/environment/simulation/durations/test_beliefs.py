"""Policies' expectations in a simulation: how belief errs, and that truth is not changed by it."""

import statistics
from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

import numpy as np
import pytest

from agents.registry import create
from conf.defaults import UNKNOWN_SPREAD
from environment.clusters.cluster_files import load_cluster
from environment.kernel.arrays import jobs_of
from environment.kernel.rule_options import DurationOptions
from environment.simulation.durations.beliefs import EXACT, Belief
from environment.simulation.durations.fitted_model import FittedDurations, FittedModel, TypeModel
from environment.simulation.options import SimulationOptions
from environment.simulation.results.results import Result
from environment.simulation.simulator import simulate
from environment.types import Decision, PlacementRequest
from environment.view import ClusterView
from profiles.job_profile import load_profiles
from profiles.workloads.generators import load_workload
from profiles.workloads.workload import Workload, WorkloadJob
from tests.builders import make_job

WORKLOAD = load_workload("burst", 3, 60)
JOBS = jobs_of(WORKLOAD, load_profiles())


class Spy:
    """First fit that records the views it was shown."""

    def __init__(self) -> None:
        self.policy = create("ff")
        self.views: list[ClusterView] = []
        self.expected: dict[str, float | None] = {}

    def decide(self, view: ClusterView, queue: Sequence[PlacementRequest]) -> Decision:
        """As first fit does."""
        self.views.append(view)
        self.expected |= {request.job.id: request.job.expected_duration for request in queue}
        return self.policy.decide(view, queue)


def shown(belief: str | float, **options: object) -> tuple[Spy, Result]:
    """Views shown of the workload under a belief, and the result."""
    spy = Spy()
    found = SimulationOptions(belief=Belief.read(belief), **options)  # type: ignore[arg-type]
    return spy, simulate(spy, WORKLOAD, load_cluster("paper"), options=found)


@pytest.mark.parametrize("text", ["exact", "spread", "constant", "0.2", "0"])
def test_beliefs_are_said_as_they_are_read(text: str) -> None:
    """The texts of the option."""
    assert str(Belief.read(text)) == text


@pytest.mark.parametrize("text", ["", "perfect", "-1", "3", "nan", "inf"])
def test_other_beliefs_are_refused(text: str) -> None:
    """The error includes the valid beliefs."""
    with pytest.raises(ValueError, match=r"belief: (should be exact, spread|a number should be from 0 to 2)"):
        Belief.read(text)


def test_errors_have_the_spread_and_no_bias() -> None:
    """Over many jobs: mean 1, and the standard deviation of the logarithm that was asked for."""
    jobs = [replace(JOBS[0], id=f"job-{i}", spread=0.1) for i in range(4000)]
    truth = JOBS[0].expected_duration or 0.0
    for belief, sigma in ((Belief.read(0.4), 0.4), (Belief("spread"), 0.1)):
        found = belief.of(jobs, 7)
        ratios = [(job.expected_duration or 0.0) / truth for job in found]
        assert statistics.fmean(ratios) == pytest.approx(1.0, abs=4 * sigma / 4000**0.5)
        assert np.std(np.log(ratios)) == pytest.approx(sigma, rel=0.05)
        assert {job.spread for job in found} == {sigma}
        assert found == belief.of(jobs, 7) != belief.of(jobs, 8)
        assert found[5:9] == belief.of(jobs[5:9], 7)


def test_constant_is_the_mean_for_all() -> None:
    """And as uncertain as durations differ."""
    (expected,) = {job.expected_duration for job in Belief("constant").of(JOBS, 0)}
    assert expected == pytest.approx(statistics.fmean(job.expected_duration or 0.0 for job in JOBS))
    (spread,) = {job.spread for job in Belief("constant").of(JOBS, 0)}
    assert spread == pytest.approx(np.std(np.log([job.expected_duration or 0.0 for job in JOBS])))


def test_what_happens_does_not_depend_on_what_is_believed() -> None:
    """First fit ignores durations: the same starts, ends and costs; only the views shown to it differ."""
    exact, result = shown("exact")
    for belief in ("spread", 0.5, "constant"):
        other, same = shown(belief)
        assert (same.jobs, same.cost, same.bound) == (result.jobs, result.cost, result.bound)
        assert other.expected != exact.expected
        assert (same.truth, same.belief) == ("profile", str(belief))


def test_exact_is_what_will_happen_and_nothing_else_is() -> None:
    """To the second, bad placements too; under any other belief the ends that are shown are not the true."""
    for belief in ("exact", "spread", 0.2, "constant"):
        spy, result = shown(belief)
        ends = {job.name: job.ended_at for job in result.jobs}
        pairs = [(r.end_at(view.at), ends[r.job.id]) for view in spy.views for r in view.running]
        told = [believed == pytest.approx(true, abs=1e-6) for believed, true in pairs]
        assert len(pairs) > 500
        assert all(told) if belief == "exact" else sum(told) < len(told) / 100
        assert all(
            end is not None and end >= view.at
            for view in spy.views
            for end in [r.end_at(view.at) for r in view.running]
        )


def test_nothing_is_expected_of_a_type_that_nobody_knows() -> None:
    """No duration, no end; as in the daemon. An oracle knows it all the same."""
    jobs = tuple(WorkloadJob(f"{i}", float(i), "unheard-of", 1.0, 1024, 1, 50.0) for i in range(3))
    for belief in (Belief(), Belief.read(0.0), Belief.read(0.5), Belief("constant"), EXACT):
        expected = 50.0 if belief.exact else None
        spy = Spy()
        simulate(spy, Workload(jobs), load_cluster("paper"), options=SimulationOptions(belief=belief))
        assert set(spy.expected.values()) == {expected}
        running = [job for view in spy.views for job in view.running]
        assert {job.expected for job in running} == {expected}
        assert np.isnan(spy.views[-1].busy_until).any() == (expected is None)


@pytest.mark.parametrize("durations", [DurationOptions(penalty=2.0), DurationOptions(model="fixed")])
def test_bad_placements_are_believed_to_cost_what_a_daemon_believes(durations: DurationOptions) -> None:
    """Beliefs ignore the true cost: they equal those of a view that a policy moves on in one decision."""
    spy, _ = shown("spread", durations=durations)
    running = [job for view in spy.views for job in view.running]
    assert all(job.expected == job.job.expected_on(job.taken, len(set(job.vm_ids))) for job in running)
    assert any(job.expected != job.job.expected_duration for job in running)


def test_a_wrong_preference_is_shown_and_the_true_one_acts() -> None:
    """Views and the ends expected in them follow the shown preference, results the true one."""
    right, result = shown("spread")
    wrong, same = shown("spread", shown={"pagerank": "spread", "wordcount": None})
    assert (same.jobs, same.cost) == (result.jobs, result.cost)
    found = {job.type: job.prefers for view in wrong.views for job in (r.job for r in view.running)}
    assert found == {"pagerank": "spread", "wordcount": None, "sort": "spread"}
    pairs = [
        (mine.expected, theirs.expected)
        for one, other in zip(wrong.views, right.views, strict=True)
        for mine, theirs in zip(one.running, other.running, strict=True)
        if mine.job.type == "pagerank" and len(mine.vm_ids) > 1
    ]
    assert any(mine != theirs for mine, theirs in pairs)
    running = [job for view in wrong.views for job in view.running]
    assert all(job.expected == job.job.expected_on(job.taken, len(set(job.vm_ids))) for job in running)


def test_beliefs_around_a_mean_do_not_depend_on_the_draw() -> None:
    """Beliefs are equal to the last bit until something has ended: luck is no part of a belief."""
    model = FittedModel(
        types={
            name: TypeModel(
                method="average",
                coefficients=(100.0 + i,),
                slowdown=0.5,
                sigma=0.3,
                errors={},
                runs=9,
                input_mib=1.0,
            )
            for i, name in enumerate(load_profiles())
        }
    )
    seen = []
    for luck in range(4):
        spy, result = shown("spread", fitted=FittedDurations(model, "sample", seed=luck))
        first = min(job.ended_at for job in result.jobs)
        seen.append([[r.expected for r in view.running] for view in spy.views if view.at < first])
    shortest = min(map(len, seen))
    assert sum(map(len, seen[0][:shortest])) > 20
    assert all(beliefs[:shortest] == seen[0][:shortest] for beliefs in seen)


def test_what_nobody_knows_is_no_part_of_the_mean() -> None:
    """`constant` is the mean duration of the jobs with a known type."""
    known, other = make_job("a", expected_duration=60.0), make_job("b", expected_duration=100.0)
    new = replace(make_job("c", expected_duration=1000.0), type="unheard-of")
    found = Belief("constant").of((known, other, new), 0, known={known.type})
    assert [job.expected_duration for job in found] == [80.0, 80.0, None]
    assert found[2].spread == UNKNOWN_SPREAD, "that of a type of which nothing is known"


@pytest.mark.parametrize(("belief", "draw"), [("spread", "sample"), ("exact", "sample"), ("spread", "mean")])
def test_drawn_durations_are_expected_to_be_their_mean(belief: str, draw: Literal["mean", "sample"]) -> None:
    """The luck of the draw is known to the simulator alone, or to an oracle."""
    known = TypeModel(
        method="average", coefficients=(100.0,), slowdown=0.5, sigma=0.3, errors={}, runs=9, input_mib=1.0
    )
    model = FittedModel(types=dict.fromkeys(load_profiles(), known))
    spy, result = shown(belief, fitted=FittedDurations(model, draw))
    took = {job.name: job.duration for job in result.jobs}
    if (belief, draw) == ("spread", "sample"):
        assert set(spy.expected.values()) == {100.0}
    else:
        assert len(set(spy.expected.values())) == len(JOBS)
    running = {job.job.id: job.expected for view in spy.views for job in view.running}
    right = [running[name] == pytest.approx(took[name]) for name in running]
    assert all(right) if belief == "exact" else not any(right)
    assert result.truth == ("drawn" if draw == "sample" else "fitted")
