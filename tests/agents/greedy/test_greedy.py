"""Greedy: when it opens a VM, when it waits for one, and which jobs may pass which."""

from collections import Counter
from dataclasses import replace
from typing import cast

import numpy as np
import pytest
from numba.core.dispatcher import Dispatcher

from agents.estimates import dollars_per_cpu_second, held_for
from agents.greedy import pricing
from agents.greedy.greedy_policy import Greedy, GreedyOptions
from environment.decisions.decision_round import decide_in_turn
from environment.decisions.vm_kinds import work_lost
from environment.pools import Openings, SpotTerms, Terms
from environment.types import Decision, Job, Place, PlacementRequest, Wait
from environment.view import ClusterView
from tests.agents.test_documented import scene as random_scene
from tests.builders import make_job, make_view, make_vm, make_vms

BOOT = 60.0
TERMS = Terms("pool", boot=BOOT, minimum=60.0)


def job(name: str, executors: int = 2, seconds: float = 300.0, at: float = 0.0) -> Job:
    """A job of one cpu an executor that is as good anywhere."""
    return make_job(name, executors, submitted_at=at, expected_duration=seconds)


def scene(*ends: float, closed: int = 1, at: float = 0.0, fixed: int = 0) -> ClusterView:
    """VMs of two cpus: a full one for each end of a job, then closed ones, then some always there."""
    vms = [replace(vm, terms=TERMS) for vm in make_vms(len(ends) + closed, cpus=2)]
    vms += [make_vm(f"fixed-{n}", cpus=2) for n in range(fixed)]
    count, opened = len(vms), np.ones(len(vms), np.bool_)
    opened[len(ends) : len(ends) + closed] = False
    view = make_view(vms, at=at).changed(openings=Openings(opened, np.where(opened, at, at + BOOT)))
    for number, end in enumerate(ends):
        request = PlacementRequest(replace(job(f"runs-{number}", seconds=end), spread=0.0), 2)
        view = view.with_placement(request, [number, number])
    assert len(view.vms) == count
    return view


def decide(view: ClusterView, *jobs: Job, options: GreedyOptions | None = None) -> list[Decision]:
    """Decisions about the queue, in turn."""
    queue = [PlacementRequest(each, each.executors) for each in jobs]
    policy = Greedy(options or GreedyOptions())
    return [verdict.decision for verdict in decide_in_turn(policy.decide, view, queue)]


def test_it_waits_for_a_vm_that_is_free_before_another_is_up() -> None:
    """To wait for 20 s is sooner than a boot, and costs none."""
    (wait,) = decide(scene(20.0), job("a"))
    assert isinstance(wait, Wait)
    assert wait.reason.startswith("VMs are expected to have room in 20 s, which is better")


def test_it_opens_a_vm_where_none_is_free_soon() -> None:
    """Nor is one waited for beyond its patience, which counts from when the job fits."""
    (place,) = decide(scene(100.0), job("a"))
    assert isinstance(place, Place)
    assert place.placement == (1, 1)
    assert "to the bill" in place.why[0]
    policy, queue = Greedy(GreedyOptions(patience=60.0)), [PlacementRequest(job("a"), 2)]
    told = [policy.decide(scene(20.0, at=at), queue) for at in (50.0, 80.0, 95.0)]
    assert [type(each) for each in told] == [Wait, Wait, Place]
    (without,) = decide(scene(20.0), job("a"), options=GreedyOptions(patience=0.0))
    assert isinstance(without, Place)


def test_who_waits_has_a_place_that_nobody_behind_it_takes() -> None:
    """The second job finds the VM promised and opens another, before the first is placed."""
    one, two = decide(scene(10.0, closed=3), job("a"), job("b"))
    assert isinstance(one, Place)
    assert (one.job_id, one.placement) == ("b", (1, 1))
    assert "it overtakes a" in one.why[0]
    assert isinstance(two, Wait)


def test_a_job_that_waits_is_overtaken_by_so_many_only() -> None:
    """Then it is next, and those behind it wait with it."""
    options = GreedyOptions(overtaken_at_most=1)
    decisions = decide(scene(10.0, closed=3), job("a"), job("b"), job("c"), options=options)
    assert [type(decision) for decision in decisions] == [Place, Wait]


def test_jobs_that_end_together_share_a_vm() -> None:
    """Of two VMs with room for it, that which is held for as long as it takes; not the one held for less."""
    view = scene(closed=2)
    vms, at = [replace(make_vm(f"vm-{n}", cpus=4), terms=TERMS) for n in range(2)], 0.0
    view = make_view(vms, at=at).changed(openings=Openings(np.ones(2, np.bool_), np.zeros(2)))
    for vm, seconds in enumerate((100.0, 310.0)):
        view = view.with_placement(PlacementRequest(job(f"runs-{vm}", seconds=seconds), 2), [vm, vm])
    (place,) = decide(view, job("a", seconds=300.0))
    assert isinstance(place, Place)
    assert place.placement == (1, 1)


def test_what_is_always_there_costs_nothing_more() -> None:
    """Before any VM of a pool, though that is open."""
    view = scene(100.0, closed=1, fixed=1)
    (place,) = decide(view, job("a"))
    assert isinstance(place, Place)
    assert place.placement == (2, 2)


def test_without_pools_it_places_where_others_are() -> None:
    """By eq. 4 a VM costs while it is held: one that is held anyway is nearly free."""
    view = make_view(make_vms(3, cpus=4))
    view = view.with_placement(PlacementRequest(job("runs", seconds=400.0), 2), [1, 1])
    (place,) = decide(view, job("a"))
    assert isinstance(place, Place)
    assert place.placement == (1, 1)


def added(view: ClusterView, request: PlacementRequest, place: Place, beta: float) -> float:
    """Weighed additions of the placement to bill and time, as multiples of the usual values."""
    job, used = request.job, Counter(place.placement)
    duration = job.expected_duration or 0.0
    usual = duration * request.count * job.cpus * dollars_per_cpu_second(view)
    seconds = job.expected_on(request.asked, len(used)) or 0.0
    held, dollars = held_for(view, 240.0), 0.0
    for vm, count in used.items():
        taken = max(count * job.cpus / view.cpus[vm], count * job.memory_mib / view.memory_mib[vm])
        share, anyway = min(taken, 1.0), min(held[vm], seconds)
        kept = anyway * share * 0.9 + (seconds - anyway) * (1.0 - 0.9 * (1.0 - share))
        dollars += kept * view.prices_per_hour[vm] / 3600.0
    return float(beta * dollars / usual + (1.0 - beta) * seconds / duration)


@pytest.mark.parametrize("beta", [0.1, 0.5, 0.9])
def test_without_waiting_it_is_the_best_of_the_window(beta: float) -> None:
    """Backfilling in one pass: of all that fit, the placement that adds least, though others came before."""
    options, overtook = GreedyOptions(beta=beta, patience=0.0), 0
    for seed in range(20):
        view, queue, _ = random_scene(seed)
        alone = [(request, Greedy(options).decide(view, [request])) for request in queue]
        values = [added(view, r, d, beta) for r, d in alone if isinstance(d, Place)]
        decision = Greedy(options).decide(view, queue)
        assert isinstance(decision, Place) == bool(values)
        if isinstance(decision, Place):
            chosen = next(request for request in queue if request.job.id == decision.job_id)
            assert added(view, chosen, decision, beta) == pytest.approx(min(values))
            overtook += chosen is not queue[0]
    assert overtook


def test_those_that_are_alike_are_placed_in_order() -> None:
    """And are looked at once."""
    decisions = decide(scene(closed=3), job("a"), job("b"), job("c"))
    assert [each.job_id for each in decisions if isinstance(each, Place)] == ["a", "b", "c"]


@pytest.mark.parametrize("option", ["patience", "overtaken_at_most"])
def test_options_are_checked(option: str) -> None:
    """The error for a number below 0 includes the valid range."""
    with pytest.raises(ValueError, match=f"{option}: should be 0 or more"):
        GreedyOptions(**{option: -1})


def test_its_first_decision_compiles_nothing() -> None:
    """A daemon's jobs do not wait, nor does the fallback decide, while the policy is being compiled."""
    policy = Greedy(GreedyOptions())
    compiled = {*cast(Dispatcher, pricing.choose).signatures}
    decision = policy.decide(make_view(make_vms(3)), [PlacementRequest(make_job("job-1", 2), 2)])
    assert isinstance(decision, Place)
    assert compiled
    assert {*cast(Dispatcher, pricing.choose).signatures} == compiled


def test_terms_of_vms_are_compared_once_for_a_view(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each VM has terms of its own: among thousands, each job took milliseconds, and a report minutes."""
    compared: list[Terms] = []
    hashed = Terms.__hash__

    def counted(terms: Terms) -> int:
        compared.append(terms)
        return hashed(terms)

    monkeypatch.setattr(Terms, "__hash__", counted)
    each = [Terms("spot", boot=60.0, spot=SpotTerms(1.0)) for _ in range(50)]
    view = make_view([replace(vm, terms=terms) for vm, terms in zip(make_vms(50), each, strict=True)])
    for number in range(20):
        lost = work_lost(view, make_job(f"job-{number}"), 3600.0)
        assert lost.min() == lost.max() > 0
    assert len(compared) == 50
