"""Dominant resource fairness, computed by hand."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from agents.baselines.drf import DominantResourceFairness, DrfOptions, dominant_shares
from agents.registry import create
from environment.decisions.decision_round import decide_in_turn
from environment.resources import Resources
from environment.simulation.simulator import simulate
from environment.types import Place, PlacementRequest, Wait
from environment.view import ClusterView
from profiles.workloads.workload import Workload, WorkloadJob
from tests.builders import make_job, make_view, make_vm, make_vms

GIB = 1024


def request(name: str, kind: str, executors: int, cpus: float, gib: int) -> PlacementRequest:
    """A new job of that type."""
    job = make_job(name, executors, cpus, gib * GIB)
    return PlacementRequest(replace(job, type=kind), executors)


def order(view: ClusterView, queue: Sequence[PlacementRequest]) -> list[str]:
    """Ids of jobs placed in one round, in order."""
    verdicts = tuple(decide_in_turn(create("drf").decide, view, queue))
    return [verdict.request.job.id for verdict in verdicts if isinstance(verdict.decision, Place)]


def test_the_paper_s_example() -> None:
    """Ghodsi 2011, 4.1: of 9 cpus and 18 GB, A (1 cpu, 4 GB) gets three tasks and B (3 cpus, 1 GB) two."""
    view = make_view([make_vm("vm-1", 9, 18 * GIB)])
    queue = [request(f"a{i}", "a", 1, 1, 4) for i in range(9)]
    queue += [request(f"b{i}", "b", 1, 3, 1) for i in range(9)]
    # Shares after each: a 2/9; b 1/3; a 4/9; b 2/3; a 2/3; now no cpu is left.
    assert order(view, queue) == ["a0", "b0", "a1", "b1", "a2"]


def test_shares_are_of_what_runs_and_of_this_round() -> None:
    """The larger of the shares of cpus and memory; a driver among a job's VMs does not count."""
    view = make_view(make_vms(2, cpus=5, memory_mib=10 * GIB))
    assert dominant_shares(view) == {}
    view = view.with_placement(request("a1", "a", 2, 1, 1), (0, 0))
    view = view.with_placement(request("b1", "b", 1, 1, 3), (1,))
    assert dominant_shares(view) == pytest.approx({"a": 0.2, "b": 0.15})
    view = view.with_placement(request("b2", "b", 1, 1, 3), (1,))
    assert dominant_shares(view) == pytest.approx({"a": 0.2, "b": 0.3})
    (first, *others) = view.running
    with_driver = replace(first, vm_ids=(*first.vm_ids, "id-vm-2"))
    assert dominant_shares(view.changed(running=(with_driver, *others))) == dominant_shares(view)


def test_within_a_type_and_among_equals_the_first_comes_first() -> None:
    """No job overtakes one of its own type, even when that does not fit and itself would."""
    view = make_view(make_vms(1, cpus=4))
    queue = [request("a1", "a", 1, 1, 1), request("b1", "b", 5, 1, 1), request("b2", "b", 1, 1, 1)]
    assert order(view, queue) == ["a1"]
    queue = [request("b1", "b", 1, 1, 1), request("a1", "a", 1, 1, 1), request("b2", "b", 1, 1, 1)]
    assert order(view, queue) == ["b1", "a1", "b2"]


def test_lost_executors_come_before_new_jobs() -> None:
    """Although their type holds more; and when there is no room for them, nobody goes before them."""
    lost = replace(request("a1", "a", 4, 1, 1), count=1, present_on=("id-vm-1",) * 3, again=True)
    large = replace(request("a1", "a", 4, 3, 1), count=1, present_on=("id-vm-1",) * 3, again=True)
    view = make_view(make_vms(2, cpus=4)).with_placement(request("a1", "a", 3, 1, 1), (0, 0, 0))
    assert order(view, [lost, request("b1", "b", 1, 1, 1)]) == ["a1", "b1"]
    decision = create("drf").decide(view, [lost])
    assert isinstance(decision, Place)
    assert decision.why == ("lost executors come first (a 37.5%); vm-1 is the first VM with room for it",)
    full = view.with_placement(request("c1", "c", 2, 1, 1), (1, 1))
    assert order(full, [large, request("b1", "b", 1, 1, 1)]) == []


def test_reasons_say_the_shares() -> None:
    """Order in which users were tried, with shares, and those with an oldest job that had no room."""
    view = make_view(make_vms(2, cpus=5, memory_mib=20 * GIB))
    view = view.with_placement(request("b0", "b", 2, 1, 1), (0, 0))
    queue = [request("b1", "b", 1, 1, 1), request("a1", "a", 9, 1, 1)]
    decision = create("drf").decide(view, queue)
    assert decision == Place(
        "b1",
        (0,),
        (
            "b is next by dominant share, as there is no room for a (a 0.0%, b 20.0%); "
            "vm-1 is the first VM with room for it",
        ),
    )
    six = [request(f"{kind}1", kind, 9, 1, 1) for kind in "cdefg"]
    decision = create("drf").decide(view, [*six, *queue])
    assert isinstance(decision, Place)
    assert decision.why[0].startswith(
        "b is next by dominant share, as there is no room for c and 5 more "
        "(c 0.0%, d 0.0%, e 0.0%, f 0.0%, g 0.0%, and 2 more types); "
    )


def test_waiting_says_why_the_first_of_the_queue_does() -> None:
    """The reason names its missing resources, and that no other job has room."""
    view = make_view(make_vms(1))
    decision = create("drf").decide(view, [request("a1", "a", 5, 1, 1), request("b1", "b", 6, 1, 1)])
    assert decision == Wait(
        "room for 4 of 5 executors of 1 cpu and 1024 MiB; "
        "nor is there room for the oldest job of any other type"
    )


def test_executors_go_where_the_option_says() -> None:
    """First fit fills the first VM, least allocated levels them."""
    view, queue = make_view(make_vms(2)), [request("a1", "a", 2, 1, 1)]
    packed = DominantResourceFairness(DrfOptions()).decide(view, queue)
    level = DominantResourceFairness(DrfOptions(placement="least_allocated")).decide(view, queue)
    assert isinstance(packed, Place)
    assert isinstance(level, Place)
    assert (packed.placement, level.placement) == ((0, 0), (0, 1))


def test_a_burst_of_one_type_does_not_hold_up_another() -> None:
    """First fit makes the late type wait behind the burst; here it is next as soon as a job ends."""
    burst = [WorkloadJob(f"a{i}", 0.0, "a", 1.0, 1024, 2, 20.0 if i == 1 else 10.0) for i in range(5)]
    workload = Workload((*burst, WorkloadJob("b", 5.0, "b", 1.0, 1024, 2, 10.0)))
    started = {
        name: [job.started_at for job in simulate(create(name), workload, make_vms(1)).jobs]
        for name in ("ff", "drf")
    }
    assert started == {"ff": [0, 0, 10, 20, 20, 30], "drf": [0, 0, 20, 20, 30, 10]}


def test_a_driver_without_room_holds_up_no_other_type() -> None:
    """The job that is next fits without its driver only: another type's is placed, and the first told."""
    view = make_view(make_vms(1, cpus=4))
    large = PlacementRequest(make_job("job-1", 4, driver=Resources.of(1, 1024)), 4)
    small = request("job-2", "sort", 1, 1.0, 1)
    drf = DominantResourceFairness(DrfOptions())
    placed, waits = tuple(decide_in_turn(drf.decide, view, [large, small]))
    assert (placed.request.job.id, waits.request.job.id) == ("job-2", "job-1")
    why = "beside its executors no VM has room for its driver (1 cpu and 1024 MiB)"
    decision = drf.decide(view, [large])
    assert decision == Wait(why)


def test_gpus_count_as_cpus_and_memory_do() -> None:
    """Half of the gpus is more than a quarter of the cpus."""
    view = make_view([make_vm("vm-1", 8, gpus=4), make_vm("vm-2", 8)])
    job = make_job("job-1", 2, cpus=2, gpus=1)
    after = view.with_placement(PlacementRequest(job, 2), (0, 0))
    assert dominant_shares(after) == {"wordcount": 0.5}
