"""Free resources are true, offered or not; unoffered resources cannot be used."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from environment.decisions.decision_round import decide_once
from environment.decisions.explain import explain
from environment.decisions.feasibility import check, shortage
from environment.model.cluster_model import ClusterModel
from environment.model.event_log import decode, encode
from environment.model.messages import events as ev
from environment.model.messages.snapshot import VmSize
from environment.offered import DRIVER_PORTS, OfferedResources
from environment.resources import Resources
from environment.types import Place, PlacementRequest, Vm
from environment.view import ClusterView
from tests.builders import make_job, make_offer, make_request, make_room, make_view, make_vm, make_vms
from tests.environment.two_worlds.world import World, launched, names

VMS = make_vms(3, cpus=4)
ONE, TWO, THREE = VMS
NO_OFFER = "have no offer from the master yet"


@pytest.fixture
def world() -> World:
    """Three VMs of four cpus; the master is connected."""
    found = World(VMS)
    found.subscribe()
    return found


def waiting(world: World, executors: int) -> str:
    """The policy's reason to wait with so many executors."""
    return shortage(world.model.view(), make_request(executors))


def offered(view: ClusterView, *vms: int, ports: int = 1000) -> ClusterView:
    """The view with offers of everything on these VMs alone."""
    there = np.isin(np.arange(len(view.vms)), vms)
    room = make_room({"cpus": view.free_cpus * there, "mem": view.free_memory_mib * there})
    return view.changed(offered=OfferedResources(there, room, there * ports))


def first_vm(view: ClusterView, queue: Sequence[PlacementRequest]) -> Place:
    """A policy that looks at nothing."""
    return Place(queue[0].job.id, (0,) * queue[0].count)


def test_a_vm_whose_offer_is_not_back_is_not_full(world: World) -> None:
    """Its free resources are shown; a state of its own, with its own words, shows them unusable yet."""
    world.submit(make_job("a", 1), make_job("b", 12))
    world.offer()
    world.decide()
    world.offer(ONE)
    view = world.model.view()
    assert view.free_cpus.tolist() == [3, 4, 4]
    assert view.free_memory_mib.tolist() == [15360, 16384, 16384]
    assert view.usable_cpus.tolist() == [3, 0, 0]
    assert view.room_for(make_request(9)).tolist() == [3, 0, 0]
    said = f"room for 3 of 12 executors of 1 cpu and 1024 MiB; of 3 VMs, 2 {NO_OFFER}"
    assert waiting(world, 12) == said
    world.decide()
    assert world.job("b").reason == said


def test_what_is_not_offered_is_no_place(world: World) -> None:
    """A decision for it is refused with the reason, and explanations list it as lacking on the VM."""
    world.submit(make_job("a", 1))
    world.offer(TWO, THREE)
    world.send(ev.OffersReceived(world.now, (make_offer("whole", ONE),)))
    world.send(ev.OfferRescinded(world.now, "whole"))
    view, request = world.model.view(), make_request(1)
    assert check(view, request, Place("job-1", (0,))) == ("vm-1 has no offer from the master yet",)
    assert check(view, request, Place("job-1", (1,))) == ()
    verdict = decide_once(first_vm, view, [request])
    (choice,) = explain(verdict, "mine").choices
    assert [candidate.lacks for candidate in choice.candidates] == [
        ("vm-1 has no offer from the master yet",),
        (),
        (),
    ]
    assert choice.candidates[0].free["cpus"] == 4


def test_what_is_offered_in_part_can_be_used_in_part() -> None:
    """Of four cpus that are free two are offered so far."""
    view = make_view(make_vms(1, cpus=4))
    part = OfferedResources(np.array([True]), make_room({"cpus": [2.0], "mem": [16384]}), np.array([1000]))
    view = view.changed(offered=part)
    assert view.room_for(make_request(9)).tolist() == [2]
    assert check(view, make_request(3), Place("job-1", (0, 0, 0))) == (
        "only 2 cpus of the free resources of vm-1 are offered yet",
    )
    assert shortage(view, make_request(1, cpus=3)) == (
        "room for 0 of 1 executor of 3 cpus and 1024 MiB; of 1 VM, 1 is offered only in part yet"
    )
    after = view.with_placement(make_request(2), (0, 0))
    assert (after.free_cpus.tolist(), after.usable_cpus.tolist()) == ([2], [0])


def test_who_looks_at_free_cpus_alone_sees_what_may_be_used() -> None:
    """A VM without an offer has none, one with few ports has no more than its ports carry."""
    view = offered(make_view(make_vms(3, cpus=4)), 0, 2)
    seen = view.seen_by(make_request(1))
    assert seen.free_cpus.tolist() == [4, 0, 4]
    assert view.free_cpus.tolist() == [4, 4, 4]
    scarce = offered(make_view(make_vms(2, cpus=4)), 0, 1, ports=3)
    assert scarce.seen_by(make_request(9)).free_cpus.tolist() == [3, 3]
    assert scarce.seen_by(make_request(3)) is scarce


# ---- what others hold ------------------------------------------------------------------------------


def test_what_others_hold_is_learned_from_offers(world: World) -> None:
    """An offer of less than our sum says so: it is not free, and nobody waits for it."""
    world.submit(make_job("a", 1), make_job("b", 20))
    world.offer()
    assert world.model.ready_to_decide()
    world.decide()
    world.now += 1
    world.submit(make_job("c", 1))
    world.offer(ONE, TWO)
    assert not world.model.ready_to_decide()
    world.offer(THREE, cpus=1, memory_mib=2048)
    assert world.model.ready_to_decide()
    view = world.model.view()
    assert (view.free_cpus.tolist(), view.free_memory_mib.tolist()[2]) == ([3, 4, 1], 2048)
    world.decide()
    # Whether that is offered now or not, the others go on holding it.
    assert world.model.view().free_cpus.tolist() == [3, 4, 1]
    world.offer(THREE)
    assert world.model.view().free_cpus.tolist() == [3, 4, 4]


def test_what_did_not_come_in_time_is_waited_for_once(world: World) -> None:
    """Another framework took all of a VM, so nothing is offered of it: one round waits for that, not each."""
    world.submit(make_job("a", 1), make_job("b", 20))
    world.offer()
    world.decide()
    world.now += 1
    world.submit(make_job("c", 1))
    world.offer(ONE, TWO)
    assert not world.model.ready_to_decide()
    world.wait(1.5)
    assert world.model.ready_to_decide()
    world.decide()
    for _ in range(3):
        world.now += 1
        assert names(world.submit(make_job(f"next-{world.now}", 1))) == ["Revive"]
        world.offer(ONE, TWO)
        assert world.model.ready_to_decide()
        assert "1 has no offer from the master yet" in waiting(world, 20)
        world.decide()
    # Told otherwise: it is offered again, and from then on waited for.
    world.offer(THREE)
    world.decide()
    world.offer(ONE, TWO)
    assert not world.model.ready_to_decide()


def test_the_end_of_a_task_is_worth_to_wait_for(world: World) -> None:
    """The task's resources are free at once, and the VM's offer is awaited, though it sent none before."""
    world.submit(make_job("a", 12))
    world.offer()
    world.decide()
    world.tell("running", *world.open_tasks("a"))
    world.submit(make_job("b", 2))
    assert "3 lack cpus" in waiting(world, 2)
    world.tell("finished", "a.0", "a.1")
    assert waiting(world, 2).endswith(f"of 3 VMs, 2 lack cpus and 1 {NO_OFFER.replace('have', 'has')}")
    assert world.model.view().free_cpus.tolist() == [2, 0, 0]


def test_a_silent_master_is_no_full_cluster(world: World) -> None:
    """When nothing is offered though it is free, the first job says just that."""
    world.submit(make_job("a", 13))
    world.offer()
    world.decide()
    world.send(ev.Disconnected(world.now))
    world.wait(1)
    world.subscribe()
    world.wait(2)
    assert world.job("a").reason == (
        "the master offers no resources now; "
        f"room for 0 of 13 executors of 1 cpu and 1024 MiB; of 3 VMs, 3 {NO_OFFER}"
    )


def test_a_vm_of_which_only_our_tasks_are_known_is_not_full(world: World) -> None:
    """Its free resources are unknown after a restart: it is hidden until the master reports its size."""
    world.run(make_job("a", 4))
    kept = world.kept()
    world.model = ClusterModel(world.model.options)
    world.restore(kept)
    world.subscribe()
    assert waiting(world, 1) == "no VM is known now for 1 executor of 1 cpu and 1024 MiB"
    assert [vm.name for vm in world.model.vms()] == ["vm-1"]
    world.send(ev.VmsMeasured(world.now, (VmSize(ONE.id, Resources.of(8.0, 16384)),)))
    assert world.model.view().free_cpus.tolist() == [4]
    assert waiting(world, 1).endswith("of 1 VM, 1 has no offer from the master yet")


def test_all_of_it_is_in_a_snapshot(world: World) -> None:
    """A model restored from a snapshot knows resources held by others and offers not to wait for."""
    world.submit(make_job("a", 1), make_job("b", 20))
    world.offer(ONE, TWO)
    world.offer(THREE, cpus=1)
    world.decide()
    world.offer(ONE)
    world.wait(1.5)
    world.decide()
    world.offer(ONE)
    model = ClusterModel()
    model.handle(decode(encode(world.model.snapshot())))  # type: ignore[arg-type]  # an event
    assert model.view().free_cpus.tolist() == world.model.view().free_cpus.tolist() == [3, 4, 1]
    assert model.ready_to_decide()


def test_agents_with_one_hostname_have_names_of_their_own(world: World) -> None:
    """Each shows the end of its id, in views and launches, while the other is there."""
    first, second = (replace(make_vm("host"), id=f"master-{end}") for end in ("S3", "S12"))
    world.submit(make_job("a", 1))
    world.send(ev.OffersReceived(world.now, (make_offer("one", first),)))
    assert [vm.name for vm in world.model.vms()] == ["host"]
    world.send(ev.OffersReceived(world.now, (make_offer("two", second),)))
    assert [vm.name for vm in world.model.view().vms] == ["host (S12)", "host (S3)"]
    assert launched(world.place("a", first)) == {"host (S3)": ["a.0"]}
    assert [task.vm_name for task in world.model.tasks("a")] == ["host (S3)"]
    world.send(ev.VmLost(world.now, second.id))
    assert [vm.name for vm in world.model.vms()] == ["host"]
    world.send(ev.OffersReceived(world.now, (make_offer("x", replace(first, id="other-S3")),)))
    assert [vm.name for vm in world.model.vms()] == ["host (master-S3)", "host (other-S3)"]


# ---- ports -----------------------------------------------------------------------------------------


def test_ports_are_part_of_a_placement() -> None:
    """An executor uses one port, a driver on the cluster three; a lack of ports is reported."""
    view = offered(make_view(make_vms(2, cpus=8)), 0, 1, ports=4)
    assert view.room_for(make_request(9)).tolist() == [4, 4]
    assert check(view, make_request(5), Place("job-1", (0,) * 5)) == ("vm-1 has 4 ports free, 5 needed",)
    job = replace(make_job(executors=2), driver=Resources.of(1.0, 1024))
    request = PlacementRequest(job, 2)
    verdict = decide_once(first_vm, view, [request])
    assert isinstance(verdict.decision, Place)
    assert verdict.decision.driver == 1
    full = view.with_placement(make_request(4), (0,) * 4)
    assert shortage(full, make_request(5)) == (
        "room for 4 of 5 executors of 1 cpu and 1024 MiB; of 2 VMs, 1 lacks ports"
    )
    beside = full.with_driver(1, Resources.of(1.0, 1024))
    assert beside.room_for(make_request(9)).tolist() == [0, 4 - DRIVER_PORTS]


def test_a_vm_out_of_ports_is_no_place_for_first_fit(world: World) -> None:
    """It is passed over, and where no other is the job waits for that reason instead of being launched."""
    world.submit(make_job("a", 2))
    ports: list[tuple[Vm, tuple[tuple[int, int], ...]]] = [(ONE, ()), (TWO, ((31000, 31000),)), (THREE, ())]
    offers = [make_offer(f"offer of {vm.name}", vm, ports=ranges) for vm, ranges in ports]
    world.send(ev.OffersReceived(world.now, tuple(offers)))
    assert names(world.decide()) == ["Decline"]
    assert world.job("a").reason == (
        "room for 1 of 2 executors of 1 cpu and 1024 MiB; of 3 VMs, 2 lack ports"
    )
    offers = [make_offer(f"next of {vm.name}", vm, ports=((31000, 31000),)) for vm in VMS]
    world.send(ev.OffersReceived(world.now, tuple(offers)))
    assert launched(world.decide()) == {"vm-1": ["a.0"], "vm-2": ["a.1"]}


def test_ports_that_went_away_while_it_was_decided_refuse_the_launch(world: World) -> None:
    """A placement that no longer holds is decided again and not launched without its ports."""
    world.submit(make_job("a", 2))
    world.send(ev.OffersReceived(world.now, (make_offer("few", ONE, ports=((31000, 31000),)),)))
    assert launched(world.place("a", ONE, ONE)) == {}
    assert world.job("a").reason == "decided again, since the VM where it was to run has too few ports"
    assert launched(world.place("a", ONE, ONE, driver=None)) == {}


def test_a_view_of_a_simulation_has_everything_offered() -> None:
    """No ports, no offers: everything that is free may be used."""
    view = make_view([make_vm("vm-1", 4)])
    assert view.offered is None
    assert view.most_for(make_request(100)) is None
    assert view.seen_by(make_request(100)) is view
