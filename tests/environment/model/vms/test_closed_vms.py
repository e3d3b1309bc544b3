"""VMs that the master does not offer or will soon take away, and other limits that it sets."""

from dataclasses import replace

import pytest

from environment.model.cluster_model import ClusterModel, ModelOptions
from environment.model.event_log import decode, encode
from environment.model.messages import commands as cmd
from environment.model.messages import events as ev
from environment.model.messages.snapshot import VmSize
from environment.resources import Resources
from environment.types import Vm
from tests.builders import make_job, make_offer, make_vms
from tests.environment.two_worlds.world import World, launched, names

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
    **quota: float,
) -> list[cmd.Command]:
    """The master tells of its agents, and of the most that we may have."""
    sizes = tuple(VmSize(vm.id, vm.resources) for vm in vms)
    return world.send(ev.VmsMeasured(world.now, sizes, vms, closed, limits, quota))


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
    told(world, (ONE, TWO), ((TWO.id, "accepts no new tasks: it was drained by an operator"),))
    world.submit(make_job("a", 8))
    world.offer(ONE)
    assert world.job("a").reason == (
        "it could not run now even alone: the empty cluster has room for 4 executors of 1 cpu and 1024 MiB, "
        "8 are asked for; vm-2 accepts no new tasks: it was drained by an operator; "
        "jobs behind it do not wait for it"
    )
    world.submit(make_job("b", 5))
    world.submit(make_job("c", 4))
    world.offer(ONE)
    assert world.model.ready_to_decide(), "no offer of the other is waited for"
    assert launched(world.decide()) == {ONE.name: ["c.0", "c.1", "c.2", "c.3"]}
    world.kill("b")
    world.kill("c")
    world.tell("killed", *world.open_tasks("c"))
    assert world.model.notes() == {TWO.id: "accepts no new tasks: it was drained by an operator"}
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
    assert "vm-2 accepts no new tasks: its maintenance begins at" in world.job("a").reason
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
    """Inverse offers are answered by the tasks running there, and announce the window."""
    world.subscribe()
    world.submit(make_job("a", 1))
    world.offer(ONE)
    world.decide()
    window = (world.now + 60, None)
    inverse = (ev.InverseOffer("i1", ONE.id, window), ev.InverseOffer("i2", TWO.id, window))
    answers = world.send(ev.InverseOffersReceived(world.now, inverse))
    assert {(a.offer_ids, a.accept) for a in answers if isinstance(a, cmd.AnswerInverse)} == {
        (("i1",), False),
        (("i2",), True),
    }
    assert set(world.model.notes()) == {ONE.id, TWO.id}


def test_a_quota_is_named_where_it_binds(world: World) -> None:
    """Cpus are free but not offered: the reason includes the master's quota."""
    limit = "the master's quota grants role stoker 4 cpus, of which 4 are used"
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
    """Waiting jobs show why the master is absent: a refused secret, a framework that was torn down."""
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


def test_what_never_fits_the_quota_blocks_nobody_and_keeps_its_place(world: World) -> None:
    """One that is learned late: the job waits aside, says why, and is the first again once it may run."""
    world.subscribe()
    told(world, (ONE, TWO))
    world.submit(make_job("a", 8), make_job("b", 4))
    told(world, (ONE, TWO), cpus=4.0)
    said = "the master's quota grants our roles 4 cpus in all, but it needs 8 cpus"
    assert said in world.job("a").reason
    assert [request.job.id for request in world.model.requests()] == ["b"]
    assert list(world.model.aside()) == ["a"]
    world.offer(ONE)
    assert launched(world.decide()) == {ONE.name: ["b.0", "b.1", "b.2", "b.3"]}
    assert "Suppress" in names(world.log[-1][1]), "no offer would help it"
    world.submit(make_job("c", 1))
    model = ClusterModel()
    model.handle(decode(encode(world.model.snapshot())))  # type: ignore[arg-type]  # an event
    assert list(model.aside()) == ["a"]
    told(world, (ONE, TWO), cpus=8.0)
    assert world.job("a").reason == "waits for its turn"
    assert [request.job.id for request in world.model.requests()] == ["a", "c"]
    assert not world.model.aside()


def test_a_quota_that_only_binds_for_now_is_first_come_first_served(world: World) -> None:
    """Nobody overtakes a job that fits once others have ended, however small it is."""
    world.subscribe()
    told(world, (ONE, TWO), cpus=4.0)
    world.submit(make_job("a", 3))
    world.offer(ONE)
    world.decide()
    world.submit(make_job("b", 4), make_job("c", 1))
    world.offer(ONE)
    assert launched(world.decide()) == {}
    assert [request.job.id for request in world.model.requests()] == ["b", "c"]


def test_lost_executors_that_no_quota_lets_come_back_block_nobody(world: World) -> None:
    """The job's remaining executors count with its lost ones against the quota."""
    world.run(make_job("a", 4))
    told(world, (ONE, TWO), cpus=3.0)
    world.tell("lost", "a.0")
    world.submit(make_job("b", 1))
    world.wait(5.0)
    assert [request.job.id for request in world.model.requests()] == ["b"]
    assert "grants our roles 3 cpus in all, but it needs 4 cpus" in world.job("a").reason
    told(world, (ONE, TWO), cpus=4.0)
    assert [request.job.id for request in world.model.requests()] == ["a", "b"]


def test_a_job_whose_only_vm_is_gone_blocks_nobody_and_is_found_when_it_is_back() -> None:
    """Offers are still told of, and given back, while nobody else waits: they tell of VMs that come."""
    gpu = replace(TWO, resources=TWO.resources + Resources.named({"gpus": 1}))
    world = World((ONE, gpu))
    world.subscribe()
    told(world, (ONE, gpu))
    world.submit(make_job("a", 1, gpus=1))
    world.send(ev.VmLost(world.now, gpu.id))
    assert "none has gpus" in world.job("a").reason
    assert names(world.offer(ONE)) == ["Decline"]
    assert "Suppress" not in names([c for _, commands in world.log[2:] for c in commands])
    world.submit(make_job("b", 1))
    world.offer(ONE)
    assert launched(world.decide()) == {ONE.name: ["b.0"]}
    world.offer(gpu)
    assert world.job("a").reason == "waits for its turn"
    assert launched(world.decide()) == {gpu.name: ["a.0"]}


def test_one_that_has_to_wait_aside_asks_for_offers_that_were_suppressed(world: World) -> None:
    """A job that was accepted because its VM may reboot: nobody else would hear of that VM."""
    world.subscribe()
    told(world, (ONE, TWO))
    world.wait(1.0)
    assert "Suppress" in names([c for _, commands in world.log for c in commands])
    assert names(world.submit(make_job("a", 9))) == ["Revive"]
    world.kill("a")
    assert "Suppress" in names(world.log[-1][1])


def test_nobody_waits_aside_while_the_vms_are_not_known(world: World) -> None:
    """Before the master has told which there are, more of them may be offered."""
    world.subscribe()
    world.submit(make_job("a", 8), make_job("b", 1))
    world.offer(ONE)
    assert [request.job.id for request in world.model.requests()] == ["a", "b"]
    told(world, (ONE,))
    assert [request.job.id for request in world.model.requests()] == ["b"]
    told(world, (ONE, TWO))
    assert [request.job.id for request in world.model.requests()] == ["a", "b"]
