"""Dollars and seconds of a job on each kind of VM, as computed by hand."""

from dataclasses import replace

import numpy as np
import pytest

from agents.baselines.first_fit import FirstFit
from environment.decisions.decision_round import Verdict, decide_once
from environment.decisions.explain import explain
from environment.decisions.vm_kinds import KINDS_LISTED, KindEstimate, estimates_by_kind
from environment.pools import Openings, SpotTerms, Terms
from environment.resources import Resources
from environment.types import Place, PlacementRequest, Preference, Vm
from environment.view import ClusterView, RunningJob
from tests.builders import make_job, make_request, make_view, make_vm

HOUR = 3600.0


def vm(name: str, type_name: str, cpus: float, price: float, terms: Terms | None = None) -> Vm:
    """A VM of that type."""
    return replace(make_vm(name, cpus, 65536, price), type=type_name, terms=terms)


def request(
    executors: int, seconds: float | None = 600.0, cpus: float = 1.0, prefers: Preference | None = None
) -> PlacementRequest:
    """A job of equal executors."""
    job = make_job("job-1", executors, cpus, expected_duration=seconds)
    return PlacementRequest(replace(job, prefers=prefers), executors)


def test_a_vm_costs_the_time_for_which_it_is_held_longer() -> None:
    """Not the time for which another job holds it anyway; a fixed cluster has no boots."""
    vms = vm("small", "small", 2, 0.1), vm("large", "large", 8, 0.8)
    other = replace(make_job("other", expected_duration=300.0), spread=0.0)
    view = make_view(vms, executors=[0, 1]).changed(running=(RunningJob(other, (vms[1].id,), 0.0, 300.0),))
    placed, *kinds = estimates_by_kind(view, request(2), Place("job-1", (1, 1)))
    assert placed.dollars == pytest.approx(300.0 * 0.8 / HOUR)
    by_hand = KindEstimate(
        ("large",), placed=True, room=2, vms=1, spot=0, opens=0, ready_in=0.0, seconds=600.0,
        dollars=placed.dollars,
    )  # fmt: skip
    assert placed == by_hand
    assert [(kind.types, kind.placed) for kind in kinds] == [(("small",), False), (("large",), False)]
    assert kinds[0].dollars == pytest.approx(600.0 * 0.1 / HOUR)
    assert replace(kinds[1], placed=True) == placed


def test_the_cheaper_form_is_taken() -> None:
    """One VM or one for each, with the time that the job takes there."""
    vms = tuple(vm(f"vm-{i}", "small", 4, 0.1) for i in range(4))
    view = make_view(vms)
    cases: tuple[tuple[Preference, int, float], ...] = ("consolidate", 1, 600.0), ("spread", 1, 780.0)
    for prefers, count, seconds in cases:
        [placed, kind] = estimates_by_kind(view, request(2, prefers=prefers), Place("job-1", (0, 1)))
        assert kind.vms == count
        assert kind.seconds == pytest.approx(seconds)
        assert (placed.vms, placed.types) == (2, ("small",))
    # Where these are held anyway, spreading costs nothing.
    busy = tuple(RunningJob(make_job(f"b{i}"), (each.id,), 0.0, 9000.0) for i, each in enumerate(vms))
    view = make_view(vms, executors=[1, 1, 1, 1]).changed(running=busy)
    [_, kind] = estimates_by_kind(view, request(2, prefers="spread"), Place("job-1", (0, 1)))
    assert (kind.vms, kind.seconds, kind.dollars) == (2, 600.0, 0.0)


def test_vms_to_be_opened_cost_their_boot_and_their_minimum() -> None:
    """Those of one type that are open are a kind of their own; an idle open one costs from now on."""
    terms = Terms("pool", boot=60.0, minimum=1800.0)
    vms = vm("up", "small", 1, 0.6, terms), vm("down", "small", 4, 0.6, terms), vm("always", "base", 4, 9.0)
    openings = Openings(np.array([True, False, True]), np.array([0.0, 60.0, 0.0]))
    view = make_view(vms).changed(openings=openings)
    placed, *kinds = estimates_by_kind(view, request(2), Place("job-1", (1, 1)))
    assert (placed.ready_in, placed.opens) == (60.0, 1)
    assert placed.dollars == pytest.approx(1800 * 0.6 / HOUR)
    base, opened, idle = kinds
    assert (base.types, base.dollars, base.seconds) == (("base",), 0.0, 600.0)  # it is paid for anyway
    assert replace(opened, placed=True) == placed
    assert (idle.room, idle.vms, idle.opens, idle.seconds, idle.dollars) == (1, 1, 0, None, None)
    long = estimates_by_kind(view, request(1, 7200.0), Place("job-1", (1,)))
    assert long[0].dollars == pytest.approx(7260 * 0.6 / HOUR)
    assert [kind.dollars for kind in long[2:]] == pytest.approx([7200 * 0.6 / HOUR, 7260 * 0.6 / HOUR])


def test_spot_vms_cost_the_work_that_is_repeated() -> None:
    """By their interruptions; they are a kind of their own."""
    spot = Terms("pool", spot=SpotTerms(interruptions_per_hour=0.5, notice=0.0))
    vms = vm("spot", "small", 4, 0.3, spot), vm("demand", "small", 4, 1.0, Terms("other"))
    view = make_view(vms).changed(openings=Openings(np.ones(2, np.bool_), np.zeros(2)))
    asked = request(1, 3600.0)
    placed, first, second = estimates_by_kind(view, asked, Place("job-1", (0,)))
    lost = 0.5 * asked.job.rework.lost / 2
    assert placed.seconds == pytest.approx(3600.0 * (1 + lost))
    assert (first.spot, second.spot) == (1, 0)
    assert [first.dollars, second.dollars] == pytest.approx([0.3 * (1 + lost), 1.0])


def test_unknown_durations_have_no_dollars() -> None:
    """Nor seconds; how many VMs there would be is known all the same."""
    view = make_view((vm("vm-1", "small", 4, 0.1),))
    for estimate in estimates_by_kind(view, request(2, None), Place("job-1", (0, 0))):
        assert (estimate.vms, estimate.room, estimate.seconds, estimate.dollars) == (1, 2, None, None)


def test_smaller_executors_take_longer() -> None:
    """As the placement gives them."""
    view = make_view((vm("vm-1", "small", 1, 0.1),))
    asked = request(1, 600.0, cpus=2.0)
    half = Place("job-1", (0,), sizes=(Resources.of(1.0, 1024),))
    [placed, _] = estimates_by_kind(view, asked, half)
    assert placed.seconds == pytest.approx(1200.0)


def test_executors_of_a_running_job_have_none() -> None:
    """It ends when its others do."""
    view = make_view((vm("vm-1", "small", 4, 0.1),))
    lost = replace(request(3), count=1, again=True, present_on=("id-vm-1",), first_number=3)
    assert estimates_by_kind(view, lost, Place("job-1", (0,))) == ()


def test_so_many_kinds_are_listed() -> None:
    """The cheapest."""
    vms = tuple(vm(f"vm-{i}", f"type-{i}", 4, 1.0 - i / 100) for i in range(20))
    found = estimates_by_kind(make_view(vms), request(1), Place("job-1", (0,)))
    assert [kind.types for kind in found[:2]] == [("type-0",), ("type-19",)]
    assert len(found) == KINDS_LISTED + 1


def test_explanations_have_them() -> None:
    """Those of placements; a wait has none."""
    view = make_view((vm("vm-1", "small", 2, 0.1),))
    placed = explain(decide_once(FirstFit().decide, view, [make_request(1)]), "ff")
    assert [kind.placed for kind in placed.kinds] == [True, False]
    assert explain(decide_once(FirstFit().decide, view, [make_request(3)]), "ff").kinds == ()


def test_the_estimate_is_that_of_the_view_decided_on() -> None:
    """And barred VMs are none of its kinds."""
    vms = vm("vm-1", "small", 2, 0.1), vm("vm-2", "large", 2, 0.1)
    view: ClusterView = make_view(vms).changed(left_out={"id-vm-2": "is left out"})
    found = explain(Verdict(request(1), view, Place("job-1", (0,))), "mine").kinds
    assert [kind.types for kind in found] == [("small",), ("small",)]
