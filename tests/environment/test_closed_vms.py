"""VMs that the master offers nothing of, or will take away soon; and what else it keeps from us."""

from dataclasses import replace

import pytest

from environment import events as ev
from environment.cluster import ClusterModel, ModelOptions
from environment.eventlog import decode, encode
from environment.types import Vm
from tests.builders import make_job, make_offer, make_vms
from tests.environment.world import World, launched, names

ONE, TWO = make_vms(2, cpus=4)
MARGIN = 600.0


@pytest.fixture
def world() -> World:
    """Two VMs of four cpus."""
    return World((ONE, TWO), ModelOptions(maintenance_margin=MARGIN))


def told(
    world: World,
    vms: tuple[Vm, ...] = (),
    closed: tuple[tuple[str, str], ...] = (),
    limits: tuple[str, ...] = (),
) -> list[ev.Command]:
    """The master tells of its agents."""
    sizes = tuple(ev.VmSize(vm.id, vm.cpus, vm.memory_mib) for vm in vms)
    return world.send(ev.VmsMeasured(world.now, sizes, vms, closed, limits))


def offered(world: World, vm: Vm, start: float, duration: float | None = 3600.0) -> None:
    """The master offers a VM that it will take away then."""
    offer = replace(make_offer(f"to-leave-{start}", vm, 4.0, vm.memory_mib), unavailable=(start, duration))
    world.send(ev.OffersReceived(world.now, (offer,)))


def test_vms_are_known_before_anything_of_them_is_offered(world: World) -> None:
    """So a job that fits only there is accepted, and asks for its offers."""
    world.subscribe()
    told(world, (ONE,))
    assert [vm.name for vm in world.model.vms()] == [ONE.name]
    world.submit(make_job("a", 1))
    commands = told(world, (ONE, TWO))
    assert [vm.name for vm in world.model.vms()] == [ONE.name, TWO.name]
    assert "Revive" in names(world.wait(1.0)) or "Revive" in names(commands)


def test_a_drained_vm_is_no_room_and_says_why(world: World) -> None:
    """It is shown, with the reason; nothing is placed there or waited for until it is back."""
    world.subscribe()
    told(world, (ONE, TWO), ((TWO.id, "takes nothing new: it was drained by an operator"),))
    world.submit(make_job("a", 8))
    world.offer(ONE)
    assert world.model.ready_to_decide(), "no offer of the other is waited for"
    world.decide()
    assert world.job("a").reason == (
        "room for 4 of 8 executors of 1 cpus and 1024 MiB; of 2 VMs, 0; vm-2 takes nothing new: it was "
        "drained by an operator"
    ).replace("; of 2 VMs, 0", "")
    assert world.model.notes() == {TWO.id: "takes nothing new: it was drained by an operator"}
    model = ClusterModel()
    model.handle(decode(encode(world.model.snapshot())))  # type: ignore[arg-type]  # an event
    assert model.notes() == world.model.notes()
    told(world, (ONE, TWO))
    world.offer()
    assert set(launched(world.decide())) == {ONE.name, TWO.name}


def test_nothing_is_begun_right_before_maintenance(world: World) -> None:
    """Within the margin a VM is no place; before, it is, and after its window it is again."""
    world.subscribe()
    world.submit(make_job("a", 8))
    world.offer(ONE)
    offered(world, TWO, world.now + MARGIN - 1)
    assert launched(world.decide()) == {}
    assert "vm-2 takes nothing new: its maintenance begins at" in world.job("a").reason
    world.kill("a")
    world.submit(make_job("b", 8))
    world.offer(ONE)
    offered(world, TWO, world.now + MARGIN + 1)
    assert set(launched(world.decide())) == {ONE.name, TWO.name}


def test_a_window_that_is_over_closes_nothing(world: World) -> None:
    """Its end is known from its duration."""
    world.subscribe()
    world.submit(make_job("a", 1))
    offered(world, ONE, world.now - 7200)
    assert launched(world.decide()) == {ONE.name: ["a.0"]}


def test_a_job_that_would_outlast_a_vm_goes_elsewhere(world: World) -> None:
    """Its duration is known from its profile; one of which that is not known goes there before the margin."""
    world.subscribe()
    world.submit(replace(make_job("long", 1), expected_duration=4000.0))
    offered(world, ONE, world.now + 3600)
    assert launched(world.decide()) == {}
    assert "vm-1 goes into maintenance at 3700 s, before long would be over" in world.job("long").reason
    world.offer(TWO)
    assert launched(world.decide()) == {TWO.name: ["long.0"]}
    world.submit(replace(make_job("short", 1), expected_duration=600.0))
    offered(world, ONE, world.now + 3600)
    assert launched(world.decide()) == {ONE.name: ["short.0"]}


def test_an_idle_vm_may_go_and_a_busy_one_not_yet(world: World) -> None:
    """Inverse offers are answered by what runs there, and announce the window."""
    world.subscribe()
    world.submit(make_job("a", 1))
    world.offer(ONE)
    world.decide()
    window = (world.now + 60, None)
    inverse = (ev.InverseOffer("i1", ONE.id, window), ev.InverseOffer("i2", TWO.id, window))
    answers = world.send(ev.InverseOffersReceived(world.now, inverse))
    assert {(a.offer_ids, a.accept) for a in answers if isinstance(a, ev.AnswerInverse)} == {
        (("i1",), False),
        (("i2",), True),
    }
    assert set(world.model.notes()) == {ONE.id, TWO.id}


def test_a_quota_is_named_where_it_binds(world: World) -> None:
    """Cpus are free and not offered: what the master keeps from us is said with it."""
    limit = "the master's quota lets role stoker have 4 cpus, of which 4 are taken"
    world.subscribe()
    told(world, (ONE, TWO), limits=(limit,))
    world.submit(make_job("a", 1))
    world.wait(2.0)
    assert limit in world.job("a").reason
    world.submit(make_job("b", 9))
    world.kill("a")
    world.offer()
    world.decide()
    assert limit not in world.job("b").reason, "all that is free is offered: the quota is not why"


def test_why_there_is_no_master_is_said_on_jobs(world: World) -> None:
    """A refused secret, a framework that was torn down: whoever waits reads it where they look."""
    world.submit(make_job("a", 1))
    world.send(ev.Disconnected(world.now, "Failed with HTTP 401"))
    world.wait(1.0)
    assert world.job("a").reason == "the Mesos master is not connected: Failed with HTTP 401"
    model = ClusterModel()
    model.handle(decode(encode(world.model.snapshot())))  # type: ignore[arg-type]  # an event
    model.handle(ev.Tick(world.now + 1))
    record = model.job("a")
    assert record is not None
    assert record.reason == world.job("a").reason
