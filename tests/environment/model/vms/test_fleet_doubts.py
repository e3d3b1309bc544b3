"""VMs of pools in an uncertain state: silence closes none; and the reasons of jobs that wait for them."""

from dataclasses import replace

from environment.model.event_log import decode, encode
from environment.model.messages import events as ev
from environment.model.messages import options
from environment.model.messages.records import ExecutorRequest
from environment.pools import IdleTimeout
from environment.types import Dynamic
from tests.builders import make_job
from tests.environment.model.walks.elastic_world import KEEPING, ElasticWorld, closes, opens, places
from tests.environment.two_worlds.world import launched

#: It takes the whole of a VM for each of its executors.
LARGE = replace(make_job("job-1", 2), size=places()[0].resources)
#: Longer than any VM is waited for.
LONG = 10_000.0


def waiting(keeping: IdleTimeout = KEEPING) -> ElasticWorld:
    """A job waits for two VMs of two that boot."""
    world = ElasticWorld(pools=places(2), keeping=keeping)
    world.begin()
    world.submit(LARGE)
    assert len(opens(world.decide())) == 2
    world.opened("general-1", "general-2")
    return world


def running() -> ElasticWorld:
    """It runs on both, and leaves nothing of them."""
    world = waiting()
    world.wait(60.0)
    assert launched(world.boot("general-1", "general-2"))
    world.tell("running", *world.open_tasks())
    return world


def restarted(world: ElasticWorld) -> None:
    """Start another daemon from the stored state."""
    kept, leases = world.kept(), world.model.leases()
    world.send(ev.Restored(world.now, kept.jobs, kept.executors, world.model.options, None, leases))


def test_no_vm_is_given_up_while_the_master_cannot_tell_of_its_agent() -> None:
    """Nor as long afterwards as agents may take; then those of which nothing was heard are."""
    world = running()
    restarted(world)
    assert not closes(world.wait(LONG))
    world.subscribe()
    assert not closes(world.wait(world.model.options.boot_timeout - 1.0))
    world.measure(world.agents["general-1"])
    assert closes(world.wait(1.0)) == [world.lease("general-2").id]


def test_a_vm_that_booted_while_no_daemon_was_there_is_not_given_up_at_once() -> None:
    """Its agent is waited for from when the master could tell of it; also by a model that goes on."""
    world = waiting(keeping=IdleTimeout("timeout", 2 * LONG))
    restarted(world)
    world.wait(LONG)
    world.subscribe()
    assert not closes(world.wait(world.model.options.boot_timeout - 1.0))
    moment = decode(encode(world.model.snapshot()))
    assert isinstance(moment, ev.Event)
    world.send(moment)
    assert not closes(world.wait(0.5))
    assert len(closes(world.wait(0.5))) == 2


def test_nothing_is_known_of_agents_while_the_connection_is_lost() -> None:
    """VMs that boot then are waited for."""
    world = waiting()
    world.send(ev.Disconnected(world.now, "no route"))
    assert not closes(world.wait(LONG))
    assert world.leases()[0].state == "booting"


def test_an_agent_that_is_back_with_all_of_it_taken_is_there() -> None:
    """Nothing of it is offered, and the master's list is the same as before: its tasks tell."""
    world = running()
    for agent in world.agents.values():
        world.send(ev.VmLost(world.now, agent.id))
    world.wait(10.0)
    world.tell("running", "job-1.0")
    (back,) = [task.vm_name for task in world.model.tasks("job-1") if task.task_id == "job-1.0"]
    (gone,) = {"general-1", "general-2"} - {back}
    assert closes(world.wait(world.model.options.boot_timeout)) == [world.lease(gone).id]


def test_what_is_taken_for_lost_is_closed_in_case_it_is_there() -> None:
    """A presumed-lost VM is closed: a provider in the wrong place lists nothing, though it opened VMs.

    No VM is lost while its agent is there.
    """
    world = running()
    world.wait(options.VANISHED_AFTER + 1.0)
    assert not closes(world.send(ev.MachinesListed(world.now, world.now, ())))
    for lease in world.leases():
        world.send(ev.VmLost(world.now, lease.agent_id))
    expected = [lease.id for lease in world.leases()]
    assert closes(world.send(ev.MachinesListed(world.now, world.now, ()))) == expected
    assert world.leases() == ()
    assert not closes(world.send(ev.MachinesListed(world.now, world.now, ())))


def test_a_job_says_what_it_still_waits_for() -> None:
    """First for two VMs, then for one, then for offers; when these do not come, it is decided again."""
    world = waiting()
    assert world.job().reason == "waits for general-1 and general-2 to boot (due at 160 s)"
    world.wait(100.0)
    world.boot("general-1")
    assert world.job().reason == "waits for general-2 to boot (due at 160 s)"
    lease = world.lease("general-2")
    world.measure(replace(lease.vm, id="agent-2", lease=lease.id, terms=None))
    offers = "its VMs are up, and it waits for the master to offer the resources reserved for it there"
    assert world.job().reason == offers
    assert not world.model.requests()
    world.wait(options.RESERVED_PATIENCE + 1.0)
    assert [request.job.id for request in world.model.requests()] == ["job-1"]
    assert world.job().reason.startswith("the master offers no resources now")


def test_a_driver_that_wants_no_more_when_its_vm_is_up_has_what_it_wants() -> None:
    """The job runs, and says so."""
    job = replace(make_job("job-1", 4), size=LARGE.size, dynamic=Dynamic(0, 1), min_executors=1)
    world = ElasticWorld(pools=places(2))
    world.begin()
    world.submit(job)
    world.decide()
    world.opened("general-1")
    assert launched(world.boot("general-1"))
    world.tell("running", *world.open_tasks())
    world.send(ev.DriverStarted(world.now, "job-1"))
    for wanted in (2, 1):
        world.send(ev.ExecutorsAsked(world.now, "job-1", (ExecutorRequest(0, job.size, wanted),)))
        if wanted == 2:
            assert opens(world.decide())
    assert world.job().reason == "runs on 1 executor"
    assert world.model.view().free.cpus.tolist() == [0.0, 4.0], "nothing is kept for it"
    world.opened("general-2")
    assert not launched(world.boot("general-2"))
    assert world.job().reason == "runs on 1 executor"


def test_a_driver_that_wants_fewer_while_vms_boot_waits_for_fewer() -> None:
    """Resources reserved on the others may go to another job at once; they close when there is none."""
    job = replace(make_job("job-1", 4), size=LARGE.size, dynamic=Dynamic(0, 1), min_executors=1)
    world = ElasticWorld(pools=places(4))
    world.begin()
    world.submit(job)
    world.decide()
    world.opened("general-1")
    world.boot("general-1")
    world.tell("running", *world.open_tasks())
    world.send(ev.DriverStarted(world.now, "job-1"))
    world.send(ev.ExecutorsAsked(world.now, "job-1", (ExecutorRequest(0, job.size, 4),)))
    assert len(opens(world.decide())) == 3
    world.opened("general-2", "general-3", "general-4")
    for wanted in (3, 2):
        world.send(ev.ExecutorsAsked(world.now, "job-1", (ExecutorRequest(0, job.size, wanted),)))
    assert world.job().reason == "waits for general-2 to boot (due at 160 s)"
    assert [lease.idle_since is None for lease in world.leases()] == [True, True, False, False]
    world.submit(replace(LARGE, id="job-2"))
    assert not opens(world.decide())
    world.boot("general-2")
    world.offer(*world.agents.values())
    assert {task.vm_name for task in world.model.tasks("job-1")} == {"general-1", "general-2"}
    assert {*world.model._parts.vms.reservations.jobs_on("general-3")} == {"job-2"}
