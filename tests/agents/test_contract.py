"""The contract of every registered policy, on random clusters and requests."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agents.registry import POLICIES, create
from environment.decisions.feasibility import check
from environment.offered import OfferedResources
from environment.resources import Resources
from environment.types import Place, PlacementRequest, Wait
from environment.view import ClusterView
from tests.builders import make_job, make_request, make_room, make_view, make_vm

CPUS = st.sampled_from([0.1, 0.3, 0.5, 1.0, 1.1, 2.0, 3.0, 4.0])


@st.composite
def views(draw: st.DrawFn) -> ClusterView:
    """Up to eight VMs, some with gpus, each with some resources taken, and not all others offered."""
    vms, free_cpus, free_memory, executors, free_gpus = [], [], [], [], []
    offers = []
    for number in range(draw(st.integers(0, 8))):
        size = draw(st.sampled_from([1.0, 4.0, 8.0])), draw(st.integers(512, 8192))
        vm = make_vm(f"vm-{number + 1}", *size, gpus=draw(st.integers(0, 3)))
        vms.append(vm)
        free_cpus.append(round(vm.cpus * draw(st.integers(0, 10)) / 10, 3))
        free_memory.append(draw(st.integers(0, vm.memory_mib)))
        executors.append(draw(st.integers(0, 2)))
        free_gpus.append(draw(st.integers(0, int(vm.resources.amount("gpus")))))
        share, ports = draw(st.sampled_from([(1.0, 1000)] * 3 + [(1.0, 2), (0.5, 1000), (0.0, 0)]))
        offers.append((share * free_cpus[-1], share * free_memory[-1], ports, share * free_gpus[-1]))
    view = make_view(vms, free_cpus, free_memory, executors, 10.0, {"gpus": free_gpus})
    return view if draw(st.booleans()) else offering(view, offers)


def offering(view: ClusterView, offers: Sequence[tuple[float, float, int, float]]) -> ClusterView:
    """The view with so many cpus, MiB, ports and gpus of each VM offered; nothing is no offer."""
    cpus, memory_mib, ports, gpus = np.array(offers, dtype=np.float64).reshape(-1, 4).T
    there = (cpus > 0) | (memory_mib > 0) | (ports > 0)
    room = make_room({"cpus": cpus, "mem": memory_mib, "gpus": gpus})
    offered = OfferedResources(there, room, ports.astype(np.int64))
    return view.changed(offered=offered)


@st.composite
def requests(draw: st.DrawFn) -> PlacementRequest:
    """A whole job, or its lost executors."""
    executors, name = draw(st.integers(1, 8)), f"job-{draw(st.integers(0, 10**9))}"
    job = make_job(name, executors, cpus=draw(CPUS), memory_mib=draw(st.integers(1, 4096)))
    others = draw(st.sampled_from([{}, {}, {"gpus": 1.0}, {"gpus": 2.0}, {"fpgas": 1.0}]))
    size = job.size + Resources.named(others)
    job = replace(job, type=draw(st.sampled_from(["wordcount", "sort"])), size=size)
    return PlacementRequest(job, draw(st.integers(1, executors)))


def queues() -> st.SearchStrategy[list[PlacementRequest]]:
    """Up to three jobs."""
    return st.lists(requests(), min_size=1, max_size=3, unique_by=lambda request: request.job.id)


def contents(view: ClusterView) -> tuple[Any, ...]:
    """All that a policy could have changed."""
    arrays = (*view.free.thousandths.values(), view.executors, view.busy_until)
    return (view.at, view.vms, view.running, *(array.tobytes() for array in arrays))


@pytest.mark.parametrize("name", POLICIES)
@given(steps=st.lists(st.tuples(views(), queues()), max_size=4))
@settings(max_examples=40, deadline=None)
def test_decisions_are_feasible_and_repeatable(
    name: str, steps: list[tuple[ClusterView, list[PlacementRequest]]]
) -> None:
    """A decision passes the check or gives a reason, changes no view, and the same history repeats it."""
    policy, twin = create(name), create(name)
    for view, queue in steps:
        before = contents(view)
        decision = policy.decide(view, queue)
        assert contents(view) == before
        assert decision == twin.decide(view, queue)
        if isinstance(decision, Place):
            (request,) = [request for request in queue if request.job.id == decision.job_id]
            assert check(view, request, decision) == ()
            assert all(type(index) is int for index in decision.placement)
            assert len(decision.why) == request.count
            assert len(decision.scores) in (0, len(view.vms))
        else:
            assert isinstance(decision, Wait)
            assert decision.reason


@pytest.mark.parametrize("name", POLICIES)
@given(view=views(), request=requests())
@settings(max_examples=40, deadline=None)
def test_what_fits_is_placed(name: str, view: ClusterView, request: PlacementRequest) -> None:
    """A policy waits only when the executors do not fit.

    Lookahead, when it may not hold a job back, and OgaSched, when it may not make executors smaller.
    """
    fits = bool(np.minimum(view.room_for(request), request.count).sum() >= request.count)
    options: dict[str, dict[str, object]] = {"lookahead": {"patience": 0}, "ogasched": {"floor": 1.0}}
    policy = create(name, options.get(name))
    assert isinstance(policy.decide(view, [request]), Place) == fits


@pytest.mark.parametrize("name", POLICIES)
def test_an_empty_cluster_waits_with_a_reason(name: str) -> None:
    """Without a VM there is a reason and no exception."""
    decision = create(name).decide(make_view([]), [make_request(2)])
    assert decision == Wait("no VM is known now for 2 executors of 1 cpu and 1024 MiB")


@pytest.mark.parametrize("name", ["dqn", "reinforce", "lookahead"])
@given(view=views(), queue=queues())
@settings(max_examples=40, deadline=None)
def test_compiled_policies_need_no_second_thought(
    name: str, view: ClusterView, queue: list[PlacementRequest]
) -> None:
    """Compiled code places only executors with room in all resources, gpus too, before any check."""
    policy: Any = create(name)
    if not view.vms:
        return
    if name == "lookahead":
        found = policy._player.play(view, queue, seed=0, may_wait=True, reach=len(queue) - 1)
        place = None if found.job is None else Place(queue[found.job].job.id, found.placement)
    else:
        adviser = policy._policy.adviser
        place = adviser.decide(view, queue, 0) if adviser.score(view, queue, 0) else None
    if isinstance(place, Place):
        (request,) = [request for request in queue if request.job.id == place.job_id]
        assert check(view, request, place) == ()
