"""Spot pools with a recorded availability: VMs that go together, refused ones, and knowledge of policies."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agents.registry import create
from conf.defaults import DRAIN_SECONDS
from environment.clusters.spot_availability import SpotTrace
from environment.pools import Consolidation, IdleTimeout, SpotTerms, Terms
from environment.simulation.options import SimulationOptions
from environment.simulation.results.decision_trace import EndlessError, StuckError
from environment.simulation.results.results import Result
from environment.simulation.simulator import simulate
from environment.types import Decision, PlacementRequest, Vm
from environment.view import ClusterView
from profiles.job_profile import load_profiles
from profiles.workloads.generators import load_workload
from profiles.workloads.workload import Workload, WorkloadJob
from tests.environment.simulation.test_pools import pooled, work

CHEAP = Terms("cheap", 10.0, spot=SpotTerms(0.2, 120.0))
NONE = IdleTimeout("none")


class Watching:
    """A policy, with the views that it was shown."""

    def __init__(self, policy: str) -> None:
        self.policy, self.views = create(policy), list[ClusterView]()

    def decide(self, view: ClusterView, queue: Sequence[PlacementRequest]) -> Decision:
        """As the policy does."""
        self.views.append(view)
        return self.policy.decide(view, queue)


def run(
    policy: Any,
    jobs: Sequence[WorkloadJob],
    trace: SpotTrace,
    *,
    spot: int = 4,
    dear: int = 0,
    cpus: float = 2.0,
    **others: Any,
) -> Result:
    """A simulation of these jobs on so many spot VMs and so many of another pool."""
    options = SimulationOptions(**{"keeping": NONE, "availability": {"cheap": trace}, **others})
    decides = create(policy) if isinstance(policy, str) else policy
    return simulate(decides, Workload(tuple(jobs)), vms(spot, dear, cpus), options=options)


def vms(spot: int, dear: int, cpus: float) -> tuple[Vm, ...]:
    """Those of both pools, the spot ones first."""
    others = pooled(dear, Terms("dear", 10.0), cpus)
    return (*pooled(spot, CHEAP, cpus), *(replace(vm, id=f"d{vm.id}", name=f"d{vm.name}") for vm in others))


def test_as_many_vms_as_are_gone_are_interrupted_at_once() -> None:
    """Of three, the two opened last, and drained: their executors go on in the other pool."""
    jobs = [work(f"j{n}", float(n), 2, 300.0) for n in range(3)]
    result = run("ff", jobs, SpotTrace(100.0, (3, 1, 1, 1, 1), 0.0), dear=3)
    assert (result.interruptions, result.executors_lost, result.opens_refused) == (2, 4, 1)
    first, *others = result.jobs
    assert first.ended_at == 310.0
    assert first.placement == (0, 0)
    for job in others:  # it works from 11 or 12 s on, and again from 110 s on
        worked = 100.0 - job.started_at
        assert job.ended_at == pytest.approx(110.0 + 300.0 - worked + 0.05 * worked)
    assert result.bill.draining == 2 * DRAIN_SECONDS
    assert result.bill.openings == 5


def test_without_one_a_pool_is_never_interrupted() -> None:
    """The record replaces the rate: as many as ever all the time are VMs that nothing takes away."""
    jobs = [work(f"j{n}", 50.0 * n, 2, 900.0) for n in range(4)]
    result = run("ff", jobs, SpotTrace(60.0, (4,)))
    calm = replace(CHEAP, spot=SpotTerms(0.0))
    other = simulate(
        create("ff"), Workload(tuple(jobs)), pooled(4, calm), options=SimulationOptions(keeping=NONE)
    )
    assert (result.interruptions, result.opens_refused) == (0, 0)
    assert result.bill == other.bill
    assert [*result.jobs] == [*other.jobs]


def test_an_idle_vm_that_goes_is_closed_and_not_counted() -> None:
    """Kept for 500 s, it is gone after 100; the next job cannot open another one before 200 s."""
    jobs = [work("a", 0.0, 1, 20.0), work("b", 150.0, 1, 20.0)]
    result = run(
        "ff",
        jobs,
        SpotTrace(100.0, (1, 0, 1, 1, 1, 1, 1, 1, 1, 1), 0.0),
        keeping=IdleTimeout("timeout", 500.0),
    )
    assert result.interruptions == 0
    # Tried at 150, 160, 180 and 220 s: pauses of 10, 20 and 40 s.
    assert [job.started_at for job in result.jobs] == [10.0, 230.0]
    assert result.opens_refused == 3
    assert result.bill.openings == 2
    assert result.bill.idle == pytest.approx(70.0 + 500.0)


def test_policies_learn_by_a_refusal_alone() -> None:
    """Before it, all VMs of the pool may be opened; after it, none until the pause ends, with the reason."""
    policy = Watching("ff")
    run(policy, [work("a", 0.0, 2, 40.0), work("b", 1.0, 2, 40.0)], SpotTrace(60.0, (1,)))
    before, *_ = policy.views
    assert not before.left_out
    at_once = policy.views[2]
    reason = "cannot be opened until 11 s: no spot VM of the pool is available"
    assert at_once.at == 1.0
    assert dict(at_once.left_out) == {vm.id: reason for vm in at_once.vms if vm.name != "vm-0"}
    assert {view.at for view in policy.views} == {0.0, 1.0, 11.0, 31.0, 50.0}


def test_vms_opened_in_vain_are_paid_for() -> None:
    """Of two VMs for one job one comes, idles and closes; both are tried again."""
    result = run("ff", [work("a", 0.0, 4, 30.0)], SpotTrace(5.0, (1, 1, *(2,) * 50), 0.0))
    (job,) = result.jobs
    assert (job.started_at, result.opens_refused) == (20.0, 1)
    assert result.bill.openings == 3


def test_seeds_differ() -> None:
    """Each plays another part of the record."""
    jobs = [work(f"j{n}", 100.0 * n, 2, 300.0) for n in range(10)]
    counts = tuple(np.random.default_rng(1).integers(0, 4, 500).tolist())
    found = [run("ff", jobs, SpotTrace(60.0, counts), dear=9, seed=seed) for seed in (0, 0, 1, 2)]
    assert found[0].bill == found[1].bill
    assert len({each.bill.total for each in found}) == 3


def test_a_pool_that_never_has_one_ends_a_run_in_words() -> None:
    """It is tried once; one that never has enough is tried again and again up to the limit of events."""
    with pytest.raises(StuckError, match=r"a will never be placed .* no spot VM of the pool is available"):
        run("ff", [work("a", 0.0, 1, 10.0)], SpotTrace(60.0, (0, 0)))
    with pytest.raises(EndlessError, match=r"after 500 events, .* jobs wait for VMs that are not there"):
        run("ff", [work("a", 0.0, 4, 10.0)], SpotTrace(60.0, (1,)), most_events=500)


def test_a_job_that_only_repeats_its_work_is_given_up_and_the_run_goes_on() -> None:
    """All VMs go every second minute, and it takes ten: no rate tells, but the work that it did again."""
    profile = load_profiles()["sort"]
    rework = profile.rework.model_copy(update={"lost": 1.0, "drained": 1.0})
    lossy = profile.model_copy(update={"rework": rework})
    jobs = [work("long", 0.0, 1, 600.0), work("short", 1.0, 1, 30.0)]
    result = run("ff", jobs, SpotTrace(60.0, (4, 0)), profiles={"other": lossy})
    assert result.given_up.keys() == {"long"}
    assert "never ends on spot with the recorded interruptions: given up after" in result.given_up["long"]
    assert [job.name for job in result.jobs if job.name not in result.given_up] == ["short"]


def test_executors_are_not_moved_to_vms_that_are_not_there() -> None:
    """A replacement is opened only while the record has one."""
    terms, jobs = Terms("dear", 10.0), [work("a", 0.0, 1, 2000.0), work("b", 0.0, 1, 50.0)]
    (dear,) = pooled(1, terms)
    (cheap,) = pooled(1, CHEAP)
    cluster = [replace(dear, id="dear", name="dear"), replace(cheap, price_per_hour=1.0)]
    for most, openings, refused in ((1, 2, 0), (0, 1, 1)):
        options = SimulationOptions(
            keeping=NONE,
            consolidation=Consolidation("underutilized"),
            availability={"cheap": SpotTrace(60.0, (most,))},
        )
        result = simulate(create("ff"), Workload(tuple(jobs)), cluster, options=options)
        assert (result.bill.openings, result.opens_refused) == (openings, refused)


@settings(max_examples=60, deadline=None)
@given(
    jobs=st.lists(
        st.tuples(st.integers(0, 300), st.integers(1, 5), st.sampled_from([5.0, 60.0, 400.5])),
        min_size=1,
        max_size=10,
    ),
    counts=st.lists(st.integers(0, 4), min_size=1, max_size=12),
    gap=st.sampled_from([7.0, 60.0, 250.0]),
    keeping=st.sampled_from([NONE, IdleTimeout("break_even"), IdleTimeout("timeout", 45.0)]),
    policy=st.sampled_from(["ff", "rr", "karpenter", "best_fit", "greedy"]),
    seed=st.integers(0, 5),
)
def test_there_are_never_more_than_were_recorded(
    jobs: list[tuple[int, int, float]],
    counts: list[int],
    gap: float,
    keeping: IdleTimeout,
    policy: str,
    seed: int,
) -> None:
    """Neither open ones in any view nor held ones at any time; no job is lost, and the bill adds up."""
    watching, trace = Watching(policy), SpotTrace(gap, tuple(counts)).begun(seed)
    todo = [work(f"j{n}", float(at), count, d) for n, (at, count, d) in enumerate(sorted(jobs))]
    result = run(watching, todo, trace, dear=30, keeping=keeping, seed=seed)
    assert len(result.jobs) == len(todo)
    assert not result.violations
    for view in watching.views:
        assert view.openings is not None
        assert np.count_nonzero(view.openings.open[:4]) <= trace.at(view.at)
    held = result.held
    spot = (held.vm < 4) & (held.end > held.start)
    for at in {*held.start[spot].tolist(), *(trace.next_fall(t) for t in held.start[spot].tolist())}:
        there = spot & (held.start <= at) & (held.end > at)
        assert len(set(held.vm[there].tolist())) <= trace.at(min(at, 1e9))
    bill = result.bill
    assert bill.total == pytest.approx(bill.used + bill.booting + bill.idle + bill.draining + bill.rounding)


@pytest.mark.parametrize(
    "policy", ["rr", "rrc", "aep", "least_allocated", "greedy", "lookahead", "ilp", "drf"]
)
def test_no_job_is_lost(policy: str) -> None:
    """Though VMs come and go every minute."""
    trace = SpotTrace(60.0, tuple(np.random.default_rng(5).integers(0, 5, 300).tolist()))
    options = SimulationOptions(availability={"cheap": trace})
    result = simulate(create(policy), load_workload("burst", 1, 12), vms(4, 6, 12.0), options=options)
    assert len(result.jobs) == 12
    assert result.interruptions + result.opens_refused > 0
    assert not result.violations
