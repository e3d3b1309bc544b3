"""VMs of pools in the cluster model: opened for a job, up, idle, closed; and all that can go wrong."""

from dataclasses import replace

import pytest

from conf.schema.sharing import QueueSpec, SharingSpec
from environment.model.cluster_model import ClusterModel
from environment.model.event_log import decode, encode
from environment.model.messages import events as ev
from environment.model.messages import options
from environment.pools import IdleTimeout, Terms
from environment.queues.types import sharing_of
from environment.resources import Resources
from tests.builders import make_job
from tests.environment.model.walks.elastic_world import ElasticWorld, closes, opens, places
from tests.environment.two_worlds.world import launched, names


def test_a_vm_from_closed_to_closed() -> None:
    """A job opens it, waits for its boot, is launched when its agent comes; it closes when it is idle."""
    world = ElasticWorld()
    world.begin()
    world.submit(make_job("job-1", 2))
    assert world.model.ready_to_decide()
    commands = world.decide()
    assert opens(commands) == ["general-1.100"]
    (lease,) = world.model.take_changes().leases
    assert (lease.id, lease.state, lease.vm.id, lease.asked_at) == (
        "general-1.100",
        "opening",
        "general-1",
        100,
    )
    assert (world.job().state, world.job().reason) == ("queued", "waits for general-1 to boot (due at 160 s)")
    assert not world.model.ready_to_decide()
    world.wait(2.0)
    assert world.opened("general-1") == []
    (lease,) = world.model.take_changes().leases
    assert (lease.state, lease.machine_id, lease.opened_at) == ("booting", "i-general-1.100", 102.0)
    world.wait(50.0)
    commands = world.boot("general-1")
    assert launched(commands) == {"general-1": ["job-1.0", "job-1.1"]}
    assert world.job().state == "placing"
    (lease,) = world.model.take_changes().leases
    assert (lease.state, lease.agent_id, lease.ready_at) == ("up", "agent-1", 152.0)
    world.tell("running", "job-1.0", "job-1.1")
    assert world.job().state == "running"
    world.wait(500.0)
    world.driver_ends("job-1")
    world.tell("killed", "job-1.0", "job-1.1")
    (lease,) = world.model.take_changes().leases
    assert lease.idle_since == 652.0
    assert not closes(world.wait(99.0))
    commands = world.wait(1.0)
    assert names(commands) == ["CloseVm"]
    assert world.send(ev.LeaseClosed(world.now, "general-1.100", 0.03)) == []
    (lease,) = world.model.take_changes().leases
    assert (lease.state, lease.reason, lease.closed_at, lease.charged) == ("closed", "idle", 752.0, 0.03)
    assert world.leases() == ()
    assert [vm.id for vm in world.model.view().vms] == ["general-1", "general-2", "general-3"]


def test_it_replays_from_its_log_and_from_any_moment() -> None:
    """A model restored from a written and read snapshot does the same as the first model."""
    world = ElasticWorld()
    world.send(ev.Restored(world.now, (), (), world.model.options))
    world.begin()
    world.submit(make_job("job-1", 6))
    world.decide()
    world.opened("general-1", "general-2")
    world.wait(50.0)
    world.boot("general-1")
    moments = [(len(world.log), world.model.snapshot())]
    world.boot("general-2")
    world.tell("running", *world.open_tasks())
    moments.append((len(world.log), world.model.snapshot()))
    world.driver_ends("job-1")
    world.tell("killed", *world.open_tasks())
    moments.append((len(world.log), world.model.snapshot()))
    world.wait(100.0)
    world.closed("general-1", "general-2")
    for begin, moment in ((1, world.log[0][0]), *moments):
        model = ClusterModel()
        restored = decode(encode(moment))
        assert isinstance(restored, ev.Restored)
        model.handle(restored)
        for event, commands in world.log[begin:]:
            assert model.handle(event) == commands
        assert model.snapshot() == world.model.snapshot()


def test_openings_are_held_back_until_they_may_be_again() -> None:
    """Open VMs go on; waiting jobs have the reason; it replays, and goes on from any moment."""
    world = ElasticWorld()
    world.begin()
    world.submit(make_job("job-1"))
    world.decide()
    world.opened("general-1")
    world.boot("general-1")
    why = "is not opened: the budget is spent"
    world.send(ev.OpeningsHeld(world.now, why))
    world.submit(make_job("job-2", 4))
    world.offer(world.agents["general-1"])
    assert opens(world.decide()) == []
    assert why in world.job("job-2").reason
    assert world.job("job-1").state == "placing"
    other = ClusterModel()
    other.handle(world.model.snapshot())
    assert other.snapshot() == world.model.snapshot()
    assert set(other.notes().values()) == {why}
    world.send(ev.OpeningsHeld(world.now))
    world.wait(0.5)
    world.wait(options.SETTLE)
    assert world.model.ready_to_decide()
    assert len(opens(world.decide())) == 1


def test_a_dearer_vm_is_opened_when_the_wait_is_worth_it() -> None:
    """Twice as dear for its gpu: after as long as the job takes, and the policy is asked again just then."""
    (gpu,) = places(1, Terms("gpu", 60.0, 60.0, 1.0), price=0.48)
    gpu = replace(gpu, resources=Resources.of(4.0, 16384, {"gpus": 1.0}))
    world = ElasticWorld(pools=(*places(1), gpu))
    world.begin()
    world.submit(make_job("job-1", 4))
    assert opens(world.decide()) == ["general-1.100"]
    world.opened("general-1")
    world.boot("general-1")
    world.tell("running", *world.open_tasks())
    world.submit(make_job("job-2", 4, expected_duration=100.0, submitted_at=world.now))
    world.wait(options.SETTLE)
    assert opens(world.decide()) == []
    why = "gpu-1 costs more for its gpus, which job-2 does not need: the last resort"
    assert why in world.job("job-2").reason
    for _ in range(4):
        world.wait(20.0)
        assert world.model.ready_to_decide()
        assert opens(world.decide()) == []
    world.wait(20.0)
    assert world.model.ready_to_decide()
    (lease,) = opens(world.decide())
    assert lease.startswith("gpu-1.")


def test_what_is_opened_from_now_on_costs_what_the_provider_says() -> None:
    """Policies see the new price at once, open VMs retain theirs; it replays, and goes on from any moment."""
    world = ElasticWorld()
    world.send(ev.Restored(world.now, (), (), world.model.options))
    world.begin()
    world.submit(make_job("job-1"))
    world.decide()
    world.opened("general-1")
    world.boot("general-1")
    world.send(ev.PoolPrices(world.now, (("general", 0.1), ("unknown", 9.0))))
    assert world.model.view().prices_per_hour.tolist() == [0.24, 0.1, 0.1]
    moments = [(1, world.log[0][0]), (len(world.log), world.model.snapshot())]
    world.submit(make_job("job-2", 4))
    world.offer(world.agents["general-1"])
    assert len(opens(world.decide())) == 1
    assert [lease.vm.price_per_hour for lease in world.leases()] == [0.24, 0.1]
    world.send(ev.PoolPrices(world.now, ()))
    assert world.model.view().prices_per_hour.tolist() == [0.24, 0.1, 0.24]
    for begin, moment in moments:
        model = ClusterModel()
        restored = decode(encode(moment))
        assert isinstance(restored, ev.Restored)
        model.handle(restored)
        for event, commands in world.log[begin:]:
            again = decode(encode(event))
            assert isinstance(again, ev.Event)
            assert model.handle(again) == commands
        assert model.snapshot() == world.model.snapshot()
        assert model.view().prices_per_hour.tolist() == [0.24, 0.1, 0.24]


def test_what_its_provider_has_charged_so_far_is_in_the_ledger() -> None:
    """The ledger books it as the difference to the VM's cost if closed now, and again at the end."""
    world = ElasticWorld()
    world.begin()
    world.submit(make_job("job-1"))
    world.decide()
    world.opened("general-1")
    world.wait(90.0)
    lease = world.lease("general-1")
    listed = ev.Listed(lease.id, lease.machine_id, "running", charged=0.007)
    world.send(ev.MachinesListed(world.now, world.now, (listed,)))
    told = [charge.dollars for charge in world.kept().charges if charge.kind == "difference"]
    assert told == pytest.approx([0.001])
    world.send(ev.LeaseClosed(world.now, lease.id, 0.0065))
    told = [charge.dollars for charge in world.kept().charges if charge.kind == "difference"]
    assert told == pytest.approx([-0.0005])


def test_who_has_vms_opened_and_is_killed_pays_for_them() -> None:
    """Two VMs boot and are idle for a job that ended before: its owner has reached a limit of a day."""
    world = ElasticWorld(keeping=IdleTimeout("timeout", 100.0))
    queues = {"default": QueueSpec.model_validate({"most_per_user": {"dollars_per_day": 0.01}})}
    world.send(ev.SharingChanged(world.now, sharing_of(SharingSpec(), queues)))
    world.begin()
    world.submit(replace(make_job("job-1", 2), size=Resources.of(4.0, 1024), owner="ann"))
    assert len(opens(world.decide())) == 2
    world.opened("general-1", "general-2")
    world.wait(1.0)
    world.send(ev.KillRequested(world.now, "job-1"))
    assert world.job().state == "killed"
    world.wait(59.0)
    world.boot("general-1", "general-2")
    world.wait(100.0)
    charges = [charge for charge in world.kept().charges if charge.dollars]
    assert {(charge.kind, charge.owner, charge.job) for charge in charges} >= {("booting", "ann", "job-1")}
    assert not [charge for charge in charges if charge.owner != "ann"]
    world.submit(replace(make_job("job-2"), owner="ann"))
    assert "may cost $0.01 per day at most and has cost" in world.model.why_waits("job-2")
    world.submit(replace(make_job("job-3"), owner="bob"))
    world.decide()
    assert world.job("job-3").reason.startswith("waits for general-")
    assert world.job("job-2").placed_at is None
