"""Launches that never run: they pause, other VMs are tried, and nobody is blocked for ever."""

import pytest

from environment.decisions.feasibility import check, shortage
from environment.model.cluster_model import ClusterModel
from environment.model.event_log import decode, encode
from environment.model.messages import events as ev
from environment.types import Place, Vm
from tests.builders import make_job, make_vms
from tests.environment.two_worlds.world import World, launched

VMS = make_vms(3, cpus=4)
ONE, TWO, THREE = VMS
WHY = "No such user 'nosuchuser'"


@pytest.fixture
def world() -> World:
    """Three VMs of four cpus; the master is connected."""
    found = World(VMS)
    found.subscribe()
    return found


def spin(world: World, *broken: Vm, seconds: int, step: float = 0.5) -> list[str]:
    """Run the daemon while these VMs drop launches; return the launches tried."""
    tried = []
    for _ in range(int(seconds / step)):
        world.wait(step)
        world.offer()
        while world.model.ready_to_decide():
            launches = launched(world.decide())
            for name, tasks in launches.items():
                tried += tasks
                if name in {vm.name for vm in broken}:
                    world.tell("dropped", *tasks, message=WHY)
                else:
                    world.tell("running", *tasks)
            if not launches:
                break
    return tried


def test_a_launch_that_never_ran_is_tried_elsewhere_at_once(world: World) -> None:
    """The VM that dropped it is left out for a while, even if a policy would prefer it."""
    world.submit(make_job("a", 2))
    world.offer()
    assert launched(world.decide()) == {"vm-1": ["a.0", "a.1"]}
    world.tell("dropped", "a.0", "a.1", message=WHY)
    assert world.job("a").reason == f"executor 0 could not be started on vm-1: {WHY}; it is placed again"
    world.offer()
    (request,) = world.model.requests()
    assert request.avoided == (ONE.id,)
    why = "since the last launch of a there never ran, or would have cost too much"
    said = (f"vm-1 is avoided for a while, {why}",)
    assert check(world.model.view(), request, Place("a", (0, 0))) == said
    assert shortage(world.model.view(), request).endswith(said[0])
    assert launched(world.decide()) == {"vm-2": ["a.2", "a.3"]}
    world.tell("running", "a.2", "a.3")
    assert world.job("a").state == "running"


def test_what_runs_nowhere_pauses_for_longer_and_longer() -> None:
    """On the only VM there is, a minute sees a handful of tries; the job is never lost and says how often."""
    world = World([ONE])
    world.subscribe()
    world.submit(make_job("a"))
    assert 3 <= len(spin(world, ONE, seconds=60)) <= 8
    assert world.job("a").state == "queued"
    assert "its last 4 launches never ran" in world.job("a").reason
    # Five minutes apart in the end, but tried as long as it takes.
    assert 20 <= len(spin(world, ONE, seconds=7200, step=5.0)) <= 40
    # Once its VM starts it, it runs, and nothing is held against it or the VM.
    spin(world, seconds=400, step=5.0)
    assert world.job("a").state == "running"
    assert not world.model.view().left_out
    assert not world.model.paused()


def test_a_vm_that_drops_everything_is_left_out(world: World) -> None:
    """After three launches in a row that never ran nothing is launched there, and everyone is told why."""
    for number in range(3):
        world.submit(make_job(f"job-{number}"))
        world.offer()
        (tasks,) = launched(world.decide()).values()
        world.tell("dropped", *tasks, message=WHY)
        spin(world, seconds=1)
        assert world.job(f"job-{number}").state == "running"
    why = f"is left out until 132 s, its last 3 launches never ran: {WHY}"
    view = world.model.view()
    assert view.left_out == {ONE.id: why}
    world.submit(make_job("next"), make_job("last", 12))
    world.offer()
    requests = world.model.requests()
    assert world.model.view().room_for(requests[0])[0] == 0
    assert check(world.model.view(), requests[0], Place("next", (0,))) == (f"vm-1 {why}",)
    assert f"vm-1 {why}" in shortage(world.model.view(), requests[1])
    assert launched(world.decide()) == {"vm-2": ["next.0"]}
    assert world.job("last").reason.endswith(f"; vm-1 {why}")
    # Nor would a decision on an older view be launched.
    world.offer()
    assert launched(world.place("last", *(ONE,) * 4, *(TWO,) * 4, *(THREE,) * 4)) == {}
    assert world.job("last").reason == f"decided again, since vm-1 {why}"


def left_out(world: World) -> None:
    """Three jobs in a row are dropped by vm-1 and wait; it is left out until half a minute from now."""
    world.submit(*(make_job(f"dropped-{number}") for number in range(3)))
    world.offer()
    for number in range(3):
        world.place(f"dropped-{number}", ONE)
        world.now += 0.001
        world.tell("dropped", f"dropped-{number}.0", message=WHY)
        world.kill(f"dropped-{number}")
        world.offer()
    assert "until" in world.model.view().left_out[ONE.id]


def test_a_vm_is_learned_back_by_a_single_try(world: World) -> None:
    """One job tries it when its time is over; only when that runs do others follow."""
    left_out(world)
    world.submit(make_job("a", 2), make_job("b", 2))
    world.wait(31)
    world.offer()
    assert not world.model.view().left_out
    assert launched(world.decide()) == {"vm-1": ["a.0", "a.1"]}
    why = f"is left out while a tries it, its last 3 launches never ran: {WHY}"
    assert world.job("b").reason == f"decided again, since vm-1 {why}"
    assert world.model.view().left_out == {ONE.id: why}
    world.offer()
    assert launched(world.decide()) == {"vm-2": ["b.0", "b.1"]}
    world.tell("starting", "a.0")
    assert not world.model.view().left_out


def test_a_vm_that_fails_its_try_is_left_out_for_longer(world: World) -> None:
    """Twice as long, and so on; a try that nobody saw fail or run leaves room for another."""
    left_out(world)
    world.submit(make_job("a"))
    world.wait(31)
    world.offer()
    world.decide()
    world.kill("a")
    world.tell("killed", "a.0")
    assert not world.model.view().left_out
    world.submit(make_job("b"))
    world.offer()
    world.decide()
    world.tell("dropped", "b.0", message="the disk is full")
    until = world.now + 60
    assert world.model.view().left_out == {
        ONE.id: f"is left out until {until:g} s, its last 4 launches never ran: the disk is full"
    }


def test_the_end_of_a_pause_is_a_reason_to_ask_for_offers(world: World) -> None:
    """A job that waits for a VM that was left out is placed there when its time is over."""
    left_out(world)
    world.submit(make_job("a", 12))
    world.offer()
    assert launched(world.decide()) == {}
    assert len(spin(world, seconds=25)) == 0
    assert len(spin(world, seconds=10)) == 12


def test_a_job_that_pauses_blocks_nobody_and_keeps_its_place(world: World) -> None:
    """Those behind it are placed meanwhile; when its time has come it is the first again."""
    world.submit(make_job("a", 12), make_job("b", 1), make_job("c", 13))
    for _ in range(2):
        world.offer()
        world.place("a", *(ONE,) * 4, *(TWO,) * 4, *(THREE,) * 4)
        world.tell("dropped", *world.open_tasks("a"), message=WHY)
        world.wait(0.5)
    assert [request.job.id for request in world.model.requests()] == ["b", "c"]
    assert list(world.model.paused()) == ["a"]
    assert world.model.waiting == 3
    world.offer()
    assert launched(world.decide()) == {"vm-1": ["b.0"]}
    world.wait(1)
    assert [request.job.id for request in world.model.requests()] == ["a", "c"]


def test_nothing_is_hoarded_while_all_pause(world: World) -> None:
    """Offers are given back, and asked for again when a job's time has come."""
    world.submit(make_job("a"))
    for vm in (ONE, TWO, THREE, ONE):
        world.wait(20)
        world.offer()
        world.place("a", vm)
        world.tell("dropped", *world.open_tasks("a"), message=WHY)
    kinds = [type(command).__name__ for _, commands in world.log for command in commands]
    assert kinds[-1] == "Suppress"
    asked = [count for count in range(1, 20) if "Revive" in [type(c).__name__ for c in world.wait(0.5)]]
    # After four seconds its pause is over, after eight it no longer avoids the VM that it tried last.
    assert asked == [8, 16]


@pytest.mark.parametrize("reason", ["invalid_offers", "launch_not_sent", "agent_removed"])
def test_a_vm_is_not_blamed_for_what_never_reached_it(world: World, reason: str) -> None:
    """The job pauses all the same, if that goes on: it is not spun."""
    world.submit(make_job("a"))
    for tries in range(4):
        world.offer()
        world.place("a", ONE)
        (task,) = world.open_tasks("a")
        world.send(ev.TaskChanged(world.now, task, "dropped", ONE.id, reason, "gone"))
        assert bool(world.model.paused()) == (tries > 0)
        world.wait(10)
    (request,) = world.model.requests()
    assert request.avoided == ()
    assert not world.model.view().left_out


def test_lost_executors_that_never_run_again_pause_too(world: World) -> None:
    """The job goes on with its other executors; the missing one is retried less and less often."""
    world.run(make_job("a", 2))
    world.tell("lost", "a.1")
    tried = spin(world, *VMS, seconds=60)
    assert 3 <= len(tried) <= 9
    assert world.job("a").state == "relaunching"
    assert "came to nothing, so the next is made after a pause of" in world.job("a").reason
    spin(world, seconds=120)
    assert world.job("a").state == "running"


def test_all_of_it_is_in_a_snapshot(world: World) -> None:
    """A model restored from a snapshot knows which jobs pause and which VM is left out."""
    left_out(world)
    world.submit(make_job("a"))
    for _ in range(3):
        world.offer()
        world.place("a", TWO)
        world.tell("dropped", *world.open_tasks("a"), message=WHY)
        model = ClusterModel()
        model.handle(decode(encode(world.model.snapshot())))  # type: ignore[arg-type]  # an event
        assert model.paused() == world.model.paused()
        assert model.requests() == world.model.requests()
        assert model.view().left_out == world.model.view().left_out
        world.wait(5)
