"""Jobs waiting for VMs to boot, and pools in back-off, when a daemon restores an earlier state."""

from dataclasses import replace

from environment.model.cluster_model import Changes, ClusterModel
from environment.model.event_log import decode, encode
from environment.model.messages import events as ev
from tests.builders import make_job
from tests.environment.model.walks.elastic_world import ElasticWorld, opens, places
from tests.environment.two_worlds.world import launched

#: It takes the whole of a VM for each of its executors.
LARGE = replace(make_job("job-1", 2), size=places()[0].resources)


def waiting() -> ElasticWorld:
    """A job waits for two VMs of three that boot."""
    world = ElasticWorld()
    world.begin()
    world.submit(LARGE)
    assert len(opens(world.decide())) == 2
    world.opened("general-1", "general-2")
    return world


def taken_up(world: ElasticWorld, kept: Changes) -> ElasticWorld:
    """Another daemon goes on with that, as the store has it."""
    restored = ev.Restored(
        world.now,
        kept.jobs,
        kept.executors,
        world.model.options,
        leases=kept.leases,
        accounts=kept.accounts,
        reserved=tuple(reserved for reserved in kept.reserved.values() if reserved is not None),
        pools=tuple(pool for pool in kept.setbacks.values() if pool is not None),
    )
    world.model = ClusterModel()
    again = decode(encode(restored))
    assert isinstance(again, ev.Event)
    world.send(again)
    return world


def test_who_waits_for_vms_is_launched_there_after_a_restart() -> None:
    """It is not decided again, nobody else is given its VMs, and none is opened beside them."""
    world = waiting()
    world = taken_up(world, world.kept())
    assert world.model.take_changes().reserved.keys() == {"job-1"}
    world.begin()
    assert world.job().reason == "waits for general-1 and general-2 to boot (due at 160 s)"
    assert not world.model.requests()
    world.submit(replace(LARGE, id="job-2", executors=1))
    world.wait(60.0)
    assert [lease.partition(".")[0] for lease in opens(world.decide())] == ["general-3"]
    world.boot("general-1")
    assert not world.open_tasks("job-1")
    world.boot("general-2")
    world.offer(*world.agents.values())
    assert {task.vm_name for task in world.model.tasks("job-1")} == {"general-1", "general-2"}
    assert world.model.take_changes().reserved["job-1"] is None


def test_it_is_so_when_one_of_them_is_up_already() -> None:
    """The VM of an agent that is there is not known until the master tells of it."""
    world = waiting()
    world.wait(60.0)
    world.boot("general-1")
    world = taken_up(world, world.kept())
    assert [job.job.id for job in world.model.view().running] == ["job-1"]
    world.subscribe()
    assert not launched(world.boot("general-2"))
    assert {*launched(world.offer(world.agents["general-1"]))} == {"general-1", "general-2"}


def test_who_waits_for_a_vm_that_nobody_knows_is_decided_again() -> None:
    """Its lease could not be read: the job would wait for ever."""
    world = waiting()
    kept = world.kept()
    world = taken_up(world, replace(kept, leases=kept.leases[1:]))
    assert [request.job.id for request in world.model.requests()] == ["job-1"]
    assert world.model.take_changes().reserved == {"job-1": None}


def test_executors_that_are_placed_again_are_not_placed_twice() -> None:
    """Of a job that runs one is lost, and its successor waits for a VM when the daemon is started again."""
    world = waiting()
    world.wait(60.0)
    world.boot("general-1", "general-2")
    world.offer(*world.agents.values())
    world.tell("running", *world.open_tasks())
    world.send(ev.DriverStarted(world.now, "job-1"))
    world.tell("lost", "job-1.1")
    world.wait(5.0)
    assert [lease.partition(".")[0] for lease in opens(world.decide())] == ["general-3"]
    world = taken_up(world, world.kept())
    assert not world.model.requests()
    assert [reserved.vm_ids for reserved in world.model._parts.vms.reservations] == [("general-3",)]


def test_a_pool_that_refused_is_left_alone_after_a_restart() -> None:
    """As long, and the next pause is twice as long."""
    world = ElasticWorld()
    world.begin()
    world.submit(LARGE)
    world.decide()
    world.send(ev.LeaseRefused(world.now, world.lease("general-1").id, "capacity", "none is left"))
    kept = world.kept()
    why = "cannot be opened until 110 s: none is left"
    world = taken_up(world, kept)
    assert world.model.view().left_out == {"general-1": why, "general-3": why}
    assert world.model.take_changes().setbacks == {}
    world.begin()
    world.wait(11.0)
    assert world.model.view().left_out == {}
    (again, *_) = opens(world.decide())
    world.send(ev.LeaseRefused(world.now, again, "capacity", "none"))
    assert "until 131 s" in world.model.view().left_out["general-1"]
