"""The integer program: known optima by hand and by trying everything, and behaviour when time is short."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations_with_replacement
from typing import Literal

import highspy
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from agents.baselines.ilp import IlpOptions, IntegerProgram, Program, Row, Solver, SolverError
from agents.registry import POLICIES, PolicyError, create
from environment.decisions.feasibility import check
from environment.policy import Policy
from environment.pools import Openings, SpotTerms, Terms
from environment.types import Place, PlacementRequest, Vm, Wait
from environment.view import ClusterView, RunningJob
from tests.builders import make_job, make_request, make_view, make_vm, make_vms

Prefers = Literal["spread", "consolidate"] | None


def request_of(
    executors: int, prefers: Prefers, duration: float | None = 100.0, cpus: float = 1.0
) -> PlacementRequest:
    """A job that takes `duration` seconds when it is placed as it prefers."""
    job = make_job(executors=executors, cpus=cpus, expected_duration=duration)
    return PlacementRequest(replace(job, prefers=prefers), executors)


def held(view: ClusterView, *seconds: float) -> ClusterView:
    """The view with its VMs held for so long."""
    running = tuple(
        RunningJob(replace(make_job(vm.id), spread=0.0), (vm.id,), view.at, s)
        for vm, s in zip(view.vms, seconds, strict=True)
        if s > 0
    )
    return view.changed(running=running, executors=(np.array(seconds) > 0).astype(np.int64))


def placed(view: ClusterView, request: PlacementRequest, beta: float = 0.5) -> list[str]:
    """Names of the VMs that the program chose."""
    decision = IntegerProgram(IlpOptions(beta=beta)).decide(view, [request])
    assert isinstance(decision, Place), decision
    assert check(view, request, decision) == ()
    return sorted(view.vms[i].name for i in decision.placement)


def is_good(request: PlacementRequest, view: ClusterView, placement: Sequence[int]) -> bool:
    """Whether the whole job, with its executors that are there already, is placed as it prefers."""
    where = [*request.present_on, *(view.vms[i].id for i in placement)]
    if request.job.prefers is None or len(where) == 1:
        return True
    return len(set(where)) == (len(where) if request.job.prefers == "spread" else 1)


def objective(view: ClusterView, request: PlacementRequest, placement: Sequence[int], beta: float) -> float:
    """Eq. 6 for one job: dollars and seconds, each as a multiple of the usual value for its size."""
    duration = request.job.expected_duration or 0.0
    factor = 1.0 if is_good(request, view, placement) else 1.3
    extra = np.maximum(view.at + duration * factor - view.busy_until, 0.0)
    boots = np.zeros(len(view.vms)) if view.openings is None else view.openings.ready_at - view.at
    extra = extra + np.where(view.is_open, 0.0, boots)
    cost = sum(view.prices_per_hour[i] * extra[i] for i in set(placement))
    factor += max(boots[i] for i in placement) / duration
    usual = request.cpus * request.count * duration * view.prices_per_hour.sum() / view.cpus.sum()
    return float(max(beta, 0.001) * cost / usual + max(1 - beta, 0.001) * factor)


def every_placement(view: ClusterView, request: PlacementRequest) -> list[tuple[int, ...]]:
    """All placements that fit; executors are alike, so their order does not matter."""
    room = view.room_for(request)
    return [
        chosen
        for chosen in combinations_with_replacement(range(len(view.vms)), request.count)
        if all(chosen.count(i) <= room[i] for i in set(chosen))
    ]


def test_cost_alone_takes_the_cheaper_vm() -> None:
    """At beta 1 two executors go to the small VM, which costs 100 s x 0.24 and not 100 s x 0.72."""
    view = make_view([make_vm("large", 12, 49152, 0.72), make_vm("small", 4, 16384, 0.24)])
    assert placed(view, request_of(2, None), beta=1) == ["small", "small"]


def test_a_vm_that_is_held_anyway_costs_nothing() -> None:
    """A large VM held for longer than the job runs is cheaper than a small one that is free."""
    vms = [make_vm("large", 12, 49152, 0.72), make_vm("small", 4, 16384, 0.24)]
    assert placed(held(make_view(vms), 100, 0), request_of(2, None), beta=1) == ["large", "large"]


def test_what_a_vm_is_held_longer_is_weighed() -> None:
    """20 s more of 0.72 (4e-3 dollars) are less than 100 s of 0.24; 40 s more (8e-3) are not."""
    vms = [make_vm("large", 12, 49152, 0.72), make_vm("small", 4, 16384, 0.24)]
    assert placed(held(make_view(vms), 80, 0), request_of(2, None), beta=1) == ["large", "large"]
    assert placed(held(make_view(vms), 60, 0), request_of(2, None), beta=1) == ["small", "small"]


def test_a_bad_placement_can_be_the_cheaper_one() -> None:
    """Two executors together take 130 s of one VM, apart 100 s of two: beta 1 and 0 choose otherwise."""
    view = make_view(make_vms(2))
    assert placed(view, request_of(2, "spread"), beta=1) == ["vm-1", "vm-1"]
    assert placed(view, request_of(2, "spread"), beta=0) == ["vm-1", "vm-2"]


def test_a_good_placement_can_be_the_cheaper_one() -> None:
    """Consolidating on a free VM (100 s) beats splitting over two that are held for 60 s more (2 x 70 s)."""
    view = held(make_view(make_vms(3), free_cpus=[1, 1, 4]), 60, 60, 0)
    assert placed(view, request_of(2, "consolidate"), beta=1) == ["vm-3", "vm-3"]


def test_time_alone_prefers_the_cheaper_of_good_placements() -> None:
    """At beta 0 a spread job still takes the VMs that are held anyway."""
    view = held(make_view(make_vms(4)), 0, 200, 0, 200)
    assert placed(view, request_of(2, "spread"), beta=0) == ["vm-2", "vm-4"]


def test_lost_executors_join_the_rest_of_a_consolidated_job() -> None:
    """Its other executor is on vm-2, so the lost one goes there too."""
    job = replace(make_job(executors=2, expected_duration=100), prefers="consolidate")
    assert placed(make_view(make_vms(3)), PlacementRequest(job, 1, ("id-vm-2",)), beta=0) == ["vm-2"]


def test_lost_executors_keep_away_from_the_rest_of_a_spread_job() -> None:
    """Its other executors are on vm-1 and vm-2, so the lost one goes to vm-3."""
    job = replace(make_job(executors=3, expected_duration=100), prefers="spread")
    request = PlacementRequest(job, 1, ("id-vm-1", "id-vm-2"))
    assert placed(held(make_view(make_vms(3)), 500, 500, 0), request, beta=0) == ["vm-3"]


@pytest.mark.parametrize("prefers", ["spread", "consolidate"])
def test_what_cannot_be_good_is_placed_cheaply(prefers: Prefers) -> None:
    """The rest of the job is placed badly already, so only cost counts."""
    job = replace(make_job(executors=3, expected_duration=100), prefers=prefers)
    there = ("id-vm-1", "id-vm-1") if prefers == "spread" else ("id-vm-1", "id-vm-2")
    view = held(make_view(make_vms(3)), 0, 0, 500)
    assert placed(view, PlacementRequest(job, 1, there), beta=0) == ["vm-3"]


def test_unknown_durations_are_assumed() -> None:
    """Where nothing is known, a job takes as long as a VM is held: the option's value for both."""
    view = make_view(make_vms(2), executors=[0, 1])
    assert placed(view, request_of(1, None, duration=None), beta=1) == ["vm-2"]


@st.composite
def cases(draw: st.DrawFn) -> tuple[ClusterView, PlacementRequest]:
    """Up to four VMs, some of them held, and up to four executors that fit."""
    count = draw(st.integers(1, 4))
    prices = [draw(st.sampled_from([0.1, 0.24, 0.72])) for _ in range(count)]
    vms: list[Vm] = [make_vm(f"vm-{i + 1}", price_per_hour=price) for i, price in enumerate(prices)]
    free = [float(draw(st.integers(0, 4))) for _ in vms]
    seconds = [float(draw(st.sampled_from([0, 0, 30, 100, 120, 500]))) for _ in vms]
    request = request_of(draw(st.integers(1, 4)), draw(st.sampled_from(["spread", "consolidate", None])))
    here = tuple(vm.id for vm in vms if draw(st.integers(0, 5)) == 0)
    job = replace(request.job, executors=request.count + len(here))
    view = held(make_view(vms, free_cpus=free, at=50.0), *seconds)
    if draw(st.booleans()):
        boots = np.array([float(draw(st.sampled_from([0, 20, 60]))) for _ in vms])
        rows = zip(seconds, boots, strict=True)
        is_open = np.array([s > 0 or boot == 0 or draw(st.booleans()) for s, boot in rows])
        view = view.changed(openings=Openings(is_open, view.at + boots))
    return view, PlacementRequest(job, request.count, here)


@given(case=cases(), beta=st.sampled_from([0.0, 0.25, 0.5, 1.0]))
@settings(max_examples=60, deadline=None)
def test_nothing_is_better(case: tuple[ClusterView, PlacementRequest], beta: float) -> None:
    """The program reaches the best of all placements, and no other policy is better than it."""
    view, request = case
    every = every_placement(view, request)
    assume(every)
    best = min(objective(view, request, placement, beta) for placement in every)
    decision = IntegerProgram(IlpOptions(beta=beta)).decide(view, [request])
    assert isinstance(decision, Place)
    assert objective(view, request, decision.placement, beta) == pytest.approx(best, rel=1e-6)
    others: list[Policy] = [create(name) for name in POLICIES if name != "ilp"]
    for other in (policy.decide(view, [request]) for policy in others):
        if isinstance(other, Place):
            assert objective(view, request, other.placement, beta) >= best - 1e-9


def test_the_best_is_chosen_and_not_nearly_the_best() -> None:
    """Together or apart costs the same at beta 1; apart is good, which is worth 4.001 instead of 4.0013."""
    view = held(make_view(make_vms(2), free_cpus=[3.0, 2.0], at=50.0), 0.0, 30.0)
    job = replace(make_job(executors=2, expected_duration=100.0), prefers="spread")
    request = PlacementRequest(job, 1, ("id-vm-2",))
    values = [objective(view, request, placement, 1.0) for placement in every_placement(view, request)]
    decision = IntegerProgram(IlpOptions(beta=1.0)).decide(view, [request])
    assert isinstance(decision, Place)
    assert objective(view, request, decision.placement, 1.0) == pytest.approx(min(values), rel=1e-6)


def test_a_closed_vm_costs_its_boot_and_the_wait_for_it() -> None:
    """The cheap one is closed: to a job of an hour it is worth its boot of 60 s, not to one in a hurry."""
    view = make_view([make_vm("open", price_per_hour=0.72), make_vm("closed", price_per_hour=0.24)])
    view = view.changed(openings=Openings(np.array([True, False]), np.array([0.0, 60.0])))
    assert placed(view, request_of(1, None, duration=3600.0), beta=0.9) == ["closed"]
    assert placed(view, request_of(1, None, duration=100.0), beta=0.05) == ["open"]
    # Several wait for the longest boot only, and all that is opened is paid for.
    view = make_view(make_vms(3, cpus=1))
    view = view.changed(openings=Openings(np.array([True, False, False]), np.array([0.0, 60.0, 90.0])))
    assert placed(view, request_of(2, None), beta=0.5) == ["vm-1", "vm-2"]


def test_a_spot_vm_costs_its_price_for_work_that_lasts() -> None:
    """Two hours of work there, with an interruption an hour, take three: a tenth off is not worth that."""
    dear, spot = make_vm("dear", price_per_hour=0.24), make_vm("spot", price_per_hour=0.216)
    view = make_view([dear, replace(spot, terms=Terms("spot", spot=SpotTerms(1.0, notice=0.0)))])
    assert placed(view, request_of(1, None, duration=7200.0), beta=1) == ["dear"]
    assert placed(view, request_of(1, None, duration=60.0), beta=1) == ["spot"]


def test_what_does_not_fit_waits() -> None:
    """The reason is the one that every policy gives."""
    decision = create("ilp").decide(make_view(make_vms(1, cpus=2)), [make_request(3)])
    assert decision == Wait("room for 2 of 3 executors of 1 cpu and 1024 MiB")


def test_first_fit_when_time_is_up() -> None:
    """A solver that has no time to find anything is replaced by first fit, and the reason says so."""
    view = held(make_view(make_vms(12)), *range(5, 125, 10))
    policy = IntegerProgram(IlpOptions(time_limit=1e-9))
    decision = policy.decide(view, [request_of(6, "spread")])
    assert isinstance(decision, Place)
    assert decision.placement == (0, 0, 0, 0, 1, 1)
    assert decision.why[0] == (
        "the solver found no placement in 1e-09 s, so first fit: vm-1 is the first VM with room for it"
    )
    assert policy.cut_short == 1


@pytest.mark.parametrize("threads", [2, 3])
def test_another_user_of_the_solver_does_no_harm(threads: int) -> None:
    """Where HiGHS has run with another number of threads, programs are solved all the same."""
    highspy.Highs.resetGlobalScheduler(True)
    other = highspy.Highs()
    other.setOptionValue("output_flag", False)
    other.setOptionValue("threads", threads)
    assert other.run() == highspy.HighsStatus.kOk
    assert len(set(placed(make_view(make_vms(3)), request_of(3, "spread"), beta=0))) == 3


def test_a_solver_that_fails_says_so() -> None:
    """A failure is no lack of time: the caller gets the error, and the fallback decides."""
    program = Program(np.array([1.0]), np.array([np.nan]), [Row([0], [1.0], 2.0, 1.0)], 0)
    with pytest.raises(SolverError, match="HiGHS failed reading a program"):
        Solver(100, 30.0).solve(program)
    impossible = Program(np.ones(4), np.ones(4), [Row([0], [1.0], 2.0, 2.0)], 1)
    with pytest.raises(SolverError, match="HiGHS ended with: Infeasible"):
        Solver(100, 30.0).solve(impossible)


def test_a_large_cluster_of_equal_vms_is_one_small_program() -> None:
    """A thousand free VMs are one kind, so eight executors are spread over eight of them at once."""
    assert len(set(placed(make_view(make_vms(1000)), request_of(8, "spread"), beta=0))) == 8


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"beta": 2}, "policy ilp: beta: should be between 0 and 1, found 2"),
        ({"nodes": 0}, "policy ilp: nodes: should be 1 or more, found 0"),
        ({"time_limit": 0}, "policy ilp: time_limit: should be more than 0 seconds, found 0"),
        ({"bad_placement_factor": 0.5}, "policy ilp: bad_placement_factor: should be 1 or more, found 0.5"),
        ({"unknown_duration": -1}, "unknown_duration: should be more than 0 seconds, found -1"),
    ],
)
def test_wrong_options_are_explained(options: dict[str, object], message: str) -> None:
    """The error for each option includes the valid values."""
    with pytest.raises(PolicyError, match=message):
        create("ilp", options)
