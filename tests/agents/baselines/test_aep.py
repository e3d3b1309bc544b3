"""Adaptive executor placement, and dominant fit, by hand."""

from dataclasses import replace
from typing import Literal

import pytest

from agents.registry import PolicyError, create
from environment.types import Place, PlacementRequest, Wait
from environment.view import ClusterView
from tests.builders import make_job, make_request, make_view, make_vm, make_vms


def request_of(executors: int, prefers: Literal["spread", "consolidate"] | None) -> PlacementRequest:
    """A job of executors of one cpu."""
    return PlacementRequest(replace(make_job(executors=executors), prefers=prefers), executors)


def placed(view: ClusterView, request: PlacementRequest, **options: object) -> list[str]:
    """Names of the VMs chosen, executor by executor."""
    decision = create("aep", options).decide(view, [request])
    assert isinstance(decision, Place), decision
    return [view.vms[i].name for i in decision.placement]


def test_spread_takes_a_vm_for_each_those_in_use_first() -> None:
    """vm-3 is in use, so it comes first; then the cheapest of the others."""
    vms = [make_vm("vm-1", price_per_hour=0.5), make_vm("vm-2"), make_vm("vm-3", price_per_hour=0.9)]
    view = make_view(vms, executors=[0, 0, 1])
    assert placed(view, request_of(2, "spread")) == ["vm-3", "vm-2"]


def test_spread_goes_round_when_vms_are_few() -> None:
    """Five executors on two VMs: as evenly as there is room."""
    assert placed(make_view(make_vms(2)), request_of(5, "spread")) == ["vm-1", "vm-2", "vm-1", "vm-2", "vm-1"]


def test_consolidated_is_one_vm_that_holds_all() -> None:
    """A VM in use that does not hold all three comes after an unused one that does."""
    view = make_view(make_vms(3), free_cpus=[2, 4, 4], executors=[1, 0, 0])
    assert placed(view, request_of(3, "consolidate")) == ["vm-2"] * 3


def test_consolidated_prefers_a_vm_in_use_that_holds_all() -> None:
    """Both hold all, and one is in use."""
    view = make_view(make_vms(2), free_cpus=[4, 3], executors=[0, 1])
    assert placed(view, request_of(3, "consolidate")) == ["vm-2"] * 3


def test_consolidated_takes_as_few_vms_as_will_do() -> None:
    """No VM holds all six, so it is the two that hold the most."""
    view = make_view(make_vms(3), free_cpus=[1, 3, 4])
    assert placed(view, request_of(6, "consolidate")) == ["vm-3"] * 4 + ["vm-2"] * 2


def test_lost_executors_go_where_the_job_likes_them() -> None:
    """The rest is on vm-2: a consolidated job gets its lost executor there, a spread one elsewhere."""
    view, there = make_view(make_vms(3)), ("id-vm-2", "id-vm-2")
    assert placed(view, replace(request_of(3, "consolidate"), count=1, present_on=there)) == ["vm-2"]
    assert placed(view, replace(request_of(3, "spread"), count=1, present_on=there)) == ["vm-1"]


def test_unknown_types_are_spread_or_what_the_option_says() -> None:
    """Without a profile a job is spread by default."""
    view = make_view(make_vms(2))
    assert placed(view, request_of(2, None)) == ["vm-1", "vm-2"]
    assert placed(view, request_of(2, None), unknown="consolidate") == ["vm-1", "vm-1"]


def test_reasons_say_what_the_type_prefers() -> None:
    """The reason is the type's preference, or that none is known."""
    view = make_view(make_vms(1))
    known = create("aep").decide(view, [request_of(1, "consolidate")])
    unknown = create("aep").decide(view, [request_of(1, None)])
    assert isinstance(known, Place)
    assert isinstance(unknown, Place)
    assert known.why == ("wordcount prefers to be consolidated: vm-1 holds as many executors as it can",)
    assert unknown.why == ("by default a job is spread: vm-1 is next in a row of different VMs",)


def test_what_does_not_fit_waits() -> None:
    """The reason is the one that every policy gives."""
    decision = create("aep").decide(make_view(make_vms(1)), [make_request(5)])
    assert decision == Wait("room for 4 of 5 executors of 1 cpu and 1024 MiB")


def test_a_wrong_default_is_explained() -> None:
    """Only spread and consolidate are known."""
    with pytest.raises(PolicyError, match="policy aep: unknown: should be 'spread' or 'consolidate'"):
        create("aep", {"unknown": "scatter"})


def test_dominant_fit_looks_at_the_scarcer_resource() -> None:
    """vm-1 is half full of cpus, vm-2 nearly full of memory: best fit adds both up, dominant fit does not."""
    view = make_view(make_vms(2), free_cpus=[2, 4], free_memory_mib=[8192, 3072])
    decision = create("dominant_fit").decide(view, [make_request(1)])
    assert isinstance(decision, Place)
    assert decision.placement == (1,)
    assert decision.scores == (0.75, 0.875)
