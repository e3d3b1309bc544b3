"""Failures of VMs in pools, and safeguards that leave jobs and bills whole."""

from dataclasses import replace

import pytest

from environment.model.messages import commands as cmd
from environment.model.messages import events as ev
from environment.model.messages import options
from environment.model.messages.lease import Lease
from environment.model.messages.options import ModelOptions
from environment.model.messages.snapshot import VmSize
from environment.model.vms.provider_listing import REMEMBERED
from environment.pools import IdleTimeout, Terms
from environment.resources import Resources
from environment.types import PlacementRequest
from tests.builders import make_job, make_vm
from tests.environment.model.walks.elastic_world import ElasticWorld, closes, opens, places
from tests.environment.two_worlds.world import killed, launched, names

LARGE = replace(make_job("job-1", 2), size=Resources.of(4.0, 1024))


def waiting(**given: object) -> ElasticWorld:
    """A job of two executors waits for two VMs of three."""
    world = ElasticWorld(**given)  # type: ignore[arg-type]
    world.begin()
    world.submit(LARGE)
    assert len(opens(world.decide())) == 2
    world.opened("general-1", "general-2")
    return world


def test_a_job_starts_on_all_its_vms_or_none() -> None:
    """One of two is up: nothing is launched, and nothing of it is given to another."""
    world = waiting(pools=places(2))
    world.wait(60.0)
    assert not launched(world.boot("general-1"))
    world.submit(make_job("job-2"))
    world.offer(world.agents["general-1"])
    view = world.model.view()
    assert view.free.cpus.tolist() == [0.0, 0.0]
    assert view.executors.tolist() == [1, 1]
    assert [job.job.id for job in view.running] == ["job-1"]
    assert not launched(world.place("job-2", world.agents["general-1"]))
    assert world.job("job-2").reason.startswith("decided again, since the master rescinded")
    world.wait(1.0)
    world.boot("general-2")
    assert launched(world.offer(*world.agents.values())) == {}
    assert {task.vm_name for task in world.model.tasks("job-1")} == {"general-1", "general-2"}


def test_a_refused_vm_is_left_alone_and_another_pool_is_taken() -> None:
    """The job says why it waits; the pause doubles; once it ends, the places are there again."""
    other = places(1, Terms("other", boot=10.0), cpus=2.0)
    world = ElasticWorld(pools=(*places(2), *other))
    world.begin()
    world.submit(make_job("job-1"))
    assert opens(world.decide()) == ["general-1.100"]
    world.send(ev.LeaseRefused(world.now, "general-1.100", "capacity", "none of these are left"))
    (lease,) = world.model.take_changes().leases
    assert (lease.state, lease.reason) == ("closed", "refused: none of these are left")
    said = "decided again, since general-1 does not come: none of these are left"
    assert world.job().reason == said
    why = "cannot be opened until 110 s: none of these are left"
    assert world.model.view().left_out == dict.fromkeys(("general-1", "general-2"), why)
    assert opens(world.decide()) == ["other-1.101"]
    world.submit(replace(LARGE, id="job-2", executors=1))
    world.wait(1.0)
    assert f"general-1 {why} (and 1 more)" in world.job("job-2").reason
    world.wait(10.0)
    assert world.model.view().left_out == {}
    (again,) = opens(world.decide())
    world.send(ev.LeaseRefused(world.now, again, "capacity", "none"))
    assert "until 131 s" in world.model.view().left_out["general-1"]


def test_a_vm_that_may_be_open_keeps_its_place_until_it_is_known_to_be_closed() -> None:
    """Else one after another would be opened for a job, and paid for, while the provider lists none."""
    world = ElasticWorld(pools=places(1))
    world.begin()
    world.submit(make_job("job-1"))
    (lease_id,) = opens(world.decide())
    lease = world.lease("general-1")
    unsure = ev.LeaseRefused(world.now, lease_id, "unavailable", "no answer", certain=False)
    assert closes(world.send(unsure)) == [lease_id]
    assert (lease.state, lease.reason) == ("closing", "refused: no answer")
    assert "is being closed: refused: no answer" in world.model.view().left_out["general-1"]
    world.send(unsure)
    world.wait(options.REFUSED.longest)
    assert lease in world.leases()
    assert not opens(world.decide())
    world.send(ev.MachinesListed(world.now, world.now, (ev.Listed(lease_id, "i-1", "running", world.now),)))
    assert lease.opened_at is not None  # and so it is paid for
    world.send(ev.LeaseClosed(world.now, lease_id))
    assert len(opens(world.decide())) == 1


def test_what_will_never_be_opened_is_left_alone_for_long() -> None:
    """A request that the provider does not understand is not repeated for long."""
    world = ElasticWorld(pools=places(1))
    world.begin()
    world.submit(make_job("job-1"))
    (lease_id,) = opens(world.decide())
    world.send(ev.LeaseRefused(world.now, lease_id, "invalid", "no such type"))
    assert f"until {world.now + options.REFUSED.longest:g} s" in world.model.view().left_out["general-1"]


def test_what_boots_for_too_long_is_given_up() -> None:
    """It is closed, as it is paid for; the job is decided again, and gets another."""
    world = waiting(options=ModelOptions(boot_timeout=30.0))
    assert not closes(world.wait(80.0))
    world.boot("general-2")
    commands = world.wait(10.0)
    assert [lease_id.partition(".")[0] for lease_id in closes(commands)] == ["general-1"]
    assert "general-1 is being closed: it did not boot within 90 s" in world.job().reason
    assert world.lease("general-1").state == "closing"
    world.wait(options.REFUSED.first)
    world.offer(world.agents["general-2"])
    assert [lease_id.partition(".")[0] for lease_id in opens(world.decide())] == ["general-3"]


def test_who_is_killed_gives_back_what_was_kept() -> None:
    """The VMs boot on, and are closed when they were idle for long enough."""
    world = waiting()
    world.kill("job-1")
    assert world.model.view().free.cpus.tolist() == [4.0, 4.0, 4.0]
    assert world.lease("general-1").idle_since == world.now
    assert len(closes(world.wait(100.0))) == 2


def test_a_vm_that_is_given_to_nobody_is_not_closed_while_a_decision_is_due() -> None:
    """Waiting jobs may use it; after that it closes by its idle policy."""
    world = waiting(keeping=IdleTimeout("none"))
    world.submit(make_job("job-2"))
    world.kill("job-1")
    assert not closes(world.wait(0.1))
    assert not opens(world.decide())
    assert [lease.partition(".")[0] for lease in closes(world.wait(0.1))] == ["general-2"]


def running() -> ElasticWorld:
    """A job runs on two VMs of three."""
    world = waiting()
    world.wait(60.0)
    world.boot("general-1", "general-2")
    world.offer(*world.agents.values())
    world.tell("running", *world.open_tasks())
    return world


def listed(world: ElasticWorld, *names: str) -> list[cmd.Command]:
    """The provider tells that the VMs of these places are open."""
    machines = [(world.lease(name).id, world.lease(name).machine_id) for name in names]
    told = tuple(ev.Listed(lease_id, machine_id, "running") for lease_id, machine_id in machines)
    return world.send(ev.MachinesListed(world.now, world.now, told))


def test_what_its_provider_does_not_list_is_lost_with_all_that_ran_there() -> None:
    """Not at once, as lists are late, nor while its agent is there; then its place is free again."""
    world = running()
    listed(world, "general-1", "general-2")
    world.wait(options.VANISHED_AFTER)
    listed(world, "general-2")
    world.wait(1.0)
    listed(world, "general-2")
    assert world.lease("general-1").state == "up"
    world.send(ev.VmLost(world.now, world.lease("general-1").agent_id))
    listed(world, "general-2")
    (lost,) = [lease for lease in world.model.take_changes().leases if lease.ended]
    assert (lost.vm.id, lost.state) == ("general-1", "lost")
    assert world.job().state == "relaunching"
    world.wait(options.RELAUNCH_GRACE)
    assert len(opens(world.decide())) == 1
    assert world.job().reason.startswith("waits for general-1 to boot")


def test_what_a_list_does_not_show_for_a_moment_is_not_lost() -> None:
    """Nor where its agent is gone: lists are late."""
    world = running()
    listed(world, "general-1", "general-2")
    world.send(ev.VmLost(world.now, world.lease("general-1").agent_id))
    world.wait(options.VANISHED_AFTER)
    listed(world, "general-2")
    assert not [lease for lease in world.model.take_changes().leases if lease.ended]


def test_what_was_lost_and_is_listed_again_is_not_paid_for_twice() -> None:
    """Its provider's lists were not complete: it is an orphan then, paid for from when it was lost."""
    world = running()
    listed(world, "general-1", "general-2")
    lease = world.lease("general-1")
    opened_at = lease.opened_at
    world.send(ev.VmLost(world.now, lease.agent_id))
    world.wait(options.VANISHED_AFTER + 1.0)
    listed(world, "general-2")
    (lost,) = [found for found in world.model.take_changes().leases if found.ended]
    again = ev.Listed(lease.id, lease.machine_id, "running", opened_at)
    for wait in (1.0, options.ORPHAN_GRACE):
        world.wait(wait)
        world.send(ev.MachinesListed(world.now, world.now, (again,)))
    (orphan,) = [found for found in world.leases() if found.id == lease.id]
    assert (orphan.state, orphan.opened_at) == ("closing", lost.closed_at)


def closed_again(world: ElasticWorld, machine: ev.Listed) -> Lease:
    """The lease under which a VM is closed that its provider lists for long though it has none."""
    for wait in (1.0, options.ORPHAN_GRACE):
        world.wait(wait)
        world.send(ev.MachinesListed(world.now, world.now, (machine,)))
    (orphan,) = [found for found in world.leases() if found.machine_id == machine.machine_id]
    return orphan


@pytest.mark.parametrize("restarted", [False, True])
def test_what_was_closed_and_is_listed_again_is_not_paid_for_twice(restarted: bool) -> None:
    """Its provider said that it was closed, and it was not: it is paid for from then on."""
    world = running()
    lease = world.lease("general-1")
    opened_at = lease.opened_at
    world.kill("job-1")
    world.tell("killed", *world.open_tasks())
    assert lease.id in closes(world.wait(100.0))
    world.send(ev.LeaseClosed(world.now, lease.id))
    assert (lease.state, lease.closed_at) == ("closed", world.now)
    closed_at = world.now
    if restarted:
        world = ElasticWorld()
        paid = ((lease.machine_id, closed_at),)
        world.send(ev.Restored(closed_at, (), (), world.model.options, paid=paid))
        world.now = closed_at
        world.begin()
    again = ev.Listed(lease.id, lease.machine_id, "running", opened_at)
    assert closed_again(world, again).opened_at == closed_at


def test_an_unknown_vm_is_not_paid_for_from_long_ago() -> None:
    """Its provider does not know when it was opened, and says so by 0."""
    world = ElasticWorld()
    world.now = 1e9
    world.begin()
    orphan = closed_again(world, ev.Listed("stranger", "i-7", "running", 0.0, 0.24))
    assert orphan.opened_at == world.now - REMEMBERED


@pytest.mark.parametrize(("told", "booked"), [(-50.0, 0.0), (5.0, 5.0), (1e6, 30.0)])
def test_a_list_with_a_wrong_clock_does_not_change_what_is_paid(told: float, booked: float) -> None:
    """A VM opened unheard is paid for from a time between the request and the listing."""
    world = ElasticWorld(pools=places(2))
    world.begin()
    world.submit(replace(LARGE, executors=1))
    world.decide()
    lease, began = world.lease("general-1"), world.now
    world.wait(30.0)
    ids = (lease.id, "general-2.7")
    machines = tuple(ev.Listed(lease_id, f"i-{lease_id}", "running", began + told) for lease_id in ids)
    world.send(ev.MachinesListed(world.now, world.now, machines))
    assert world.lease("general-1").opened_at == began + booked
    world.wait(options.ORPHAN_GRACE)
    world.send(ev.MachinesListed(world.now, world.now, machines))
    (orphan,) = [found for found in world.leases() if found.id == "general-2.7"]
    assert orphan.opened_at == min(began + told, world.now)


def test_an_orphan_is_closed_after_a_while() -> None:
    """An unknown VM in the provider's list gets a lease, as it is paid for, and is closed."""
    world = ElasticWorld(pools=places(1))
    world.begin()
    orphan = ev.Listed("general-1.7", "i-7", "running", opened_at=90.0)
    assert not closes(world.send(ev.MachinesListed(world.now, world.now, (orphan,))))
    world.wait(options.ORPHAN_GRACE - 1.0)
    assert not closes(world.send(ev.MachinesListed(world.now, world.now, (orphan,))))
    world.wait(1.0)
    (command,) = world.send(ev.MachinesListed(world.now, world.now, (orphan,)))
    assert command == cmd.CloseVm(command.cause, "general-1.7", "i-7")
    (lease,) = world.model.take_changes().leases
    assert (lease.state, lease.opened_at, lease.reason) == ("closing", 90.0, "no job waits for it")
    assert not closes(world.send(ev.MachinesListed(world.now, world.now, (orphan,))))
    assert world.model.view().left_out == {"general-1": "is being closed: no job waits for it"}


def test_what_was_opened_twice_is_closed_once() -> None:
    """Two machines under one lease: that of which the model knows is kept."""
    world = running()
    lease = world.lease("general-1")
    twice = tuple(ev.Listed(lease.id, machine_id, "running") for machine_id in (lease.machine_id, "i-2"))
    commands = world.send(ev.MachinesListed(world.now, world.now, twice))
    assert [command for command in commands if isinstance(command, cmd.CloseVm)] == [
        cmd.CloseVm(commands[0].cause, f"{lease.id}/i-2", "i-2")
    ]
    world.send(ev.LeaseClosed(world.now, f"{lease.id}/i-2"))
    assert world.lease("general-1").state == "up"


def test_a_vm_with_another_id_is_its_leases_vm_after_a_while() -> None:
    """It is neither closed nor paid for twice; nor is one that was closed under its former id."""
    world = running()
    lease = world.lease("general-1")
    opened_at, before = lease.opened_at, lease.machine_id

    def tell(*ids: str) -> list[str]:
        world.wait(options.VANISHED_AFTER / 2 + 1.0)
        machines = tuple(ev.Listed(lease.id, machine_id, "running", opened_at) for machine_id in ids)
        return closes(world.send(ev.MachinesListed(world.now, world.now, machines)))

    assert not tell(before)
    assert not tell("new")
    assert not tell("new")
    assert not tell("new")
    assert (lease.machine_id, lease.state) == ("new", "up")
    assert [found.id for found in world.leases() if found.id.startswith(lease.id)] == [lease.id]
    assert tell("new", before) == [f"{lease.id}/{before}"]
    world.send(ev.LeaseClosed(world.now, f"{lease.id}/{before}"))
    world.kill("job-1")
    world.tell("killed", *world.open_tasks())
    assert lease.id in closes(world.wait(100.0))
    assert [tell("newest"), tell("newest"), tell("newest")].count([lease.id]) == 1
    assert lease.machine_id == "newest"
    world.send(ev.LeaseClosed(world.now, lease.id))
    closed_at = world.now
    again = ev.Listed(lease.id, "another", "running", opened_at)
    assert closed_again(world, again).opened_at == closed_at


def test_one_vm_that_is_named_for_two_leases_is_paid_for_and_closed_once() -> None:
    """Its provider opens none for the second: the pool is left alone, and the first one's job goes on."""
    world = waiting()
    first = world.lease("general-1")
    world.submit(replace(LARGE, id="job-2", executors=1))
    world.decide()
    second = world.lease("general-3")
    commands = world.send(ev.LeaseOpened(world.now, second.id, first.machine_id, world.now))
    assert not closes(commands)
    assert (second.state, second.machine_id, second.opened_at) == ("closed", "", None)
    assert second.reason == f"refused: its provider answers with {first.machine_id}, the VM of {first.id}"
    third = world.lease("general-2")
    named = ((first.id, first.machine_id), (second.id, first.machine_id), (third.id, third.machine_id))
    told = tuple(ev.Listed(*each, "running") for each in named)
    world.wait(options.ORPHAN_GRACE + 1.0)
    assert not closes(world.send(ev.MachinesListed(world.now, world.now, told)))


def test_an_agent_of_no_lease_that_is_known_is_not_used() -> None:
    """Another daemon's, or one that was given up: its offers are declined, and nobody sees it."""
    world = ElasticWorld()
    world.begin()
    stranger = replace(make_vm("general-9"), lease="general-9.3")
    world.submit(make_job("job-1"))
    commands = world.offer(stranger)
    assert [c.offer_ids for c in commands if isinstance(c, cmd.Decline)] == [("offer-1",)]
    world.measure(stranger)
    assert [vm.name for vm in world.model.view().vms] == ["general-1", "general-2", "general-3"]


def test_what_is_always_open_is_opened_at_once_and_again_when_it_is_lost() -> None:
    """Before anybody asks; it is never closed for being idle."""
    always = [
        replace(vm, terms=replace(vm.terms, always=i == 0)) for i, vm in enumerate(places(2)) if vm.terms
    ]
    world = ElasticWorld(pools=always)
    world.begin()
    assert opens(world.wait(0.2)) == ["general-1.100"]
    world.opened("general-1")
    world.boot("general-1")
    assert not closes(world.wait(100_000.0))
    world.send(ev.VmLost(world.now, world.lease("general-1").agent_id))
    world.send(ev.MachinesListed(world.now, world.now, ()))
    assert len(opens(world.wait(0.2))) == 1


def test_what_is_taken_away_is_drained() -> None:
    """Nothing new begins there, executors are to be given up, and their successors are placed elsewhere."""
    world = running()
    lease = world.lease("general-1")
    commands = world.send(ev.LeaseNotice(world.now, lease.id, world.now + 120.0, "spot"))
    assert names(commands)[0] == "Decommission"
    assert (lease.state, lease.notice) == ("draining", world.now + 120.0)
    left_out = world.model.view().left_out
    assert left_out == {"general-1": f"is taken away by its provider at {world.now + 120.0:g} s: spot"}
    world.offer(*world.agents.values())
    assert [i.partition(".")[0] for i in opens(world.decide())] == ["general-3"]
    world.tell("finished", "job-1.0")
    assert closes(world.wait(1.0)) == [lease.id]


def test_a_notice_for_a_vm_that_boots_has_its_job_decided_again() -> None:
    """It will not run there."""
    world = waiting()
    world.send(ev.LeaseNotice(world.now, world.lease("general-2").id, world.now + 5.0))
    assert world.job().reason.startswith("decided again, since general-2 is taken away by its provider")
    assert len(opens(world.decide())) == 1


def test_another_daemon_asks_again_for_what_may_not_have_been_heard() -> None:
    """Requests are repeated under the same leases; none is made for booting or running VMs."""
    world = running()
    world.submit(replace(LARGE, id="job-2", executors=1))
    world.offer(*world.agents.values())
    (lease_id,) = opens(world.decide())
    kept, leases = world.kept(), world.model.leases()
    commands = world.send(
        ev.Restored(world.now, kept.jobs, kept.executors, world.model.options, None, leases)
    )
    assert opens(commands) == [lease_id]
    assert world.job("job-2").state == "queued"
    world.subscribe()
    world.submit(make_job("job-3", 9))
    assert not world.model.ready_to_decide(), "VMs that are up have not been heard of yet"


def test_a_job_that_only_pools_could_run_is_not_put_aside() -> None:
    """Admission counts the pools' potential VMs; a larger job still reports that it could never run."""
    world = ElasticWorld((make_vm("vm-1", 1.0),), places(2))
    world.subscribe()
    sizes = tuple(VmSize(vm.id, vm.resources) for vm in world.vms)
    world.send(ev.VmsMeasured(world.now, sizes, world.vms))
    reach = world.model.reach()
    assert reach.known
    assert reach.beyond_vms(PlacementRequest(make_job("job-1", 9), 9)) == ""
    assert "room for 9 executors" in reach.beyond_vms(PlacementRequest(make_job("job-1", 10), 10))


def test_what_agents_really_have_is_learned_for_the_whole_pool() -> None:
    """A cloud's VM has less memory than its type says: others of the pool are shown as it is."""
    world = waiting()
    world.wait(60.0)
    world.boot("general-1", "general-2")
    less = Resources.of(4.0, 15000)
    world.measure(*(replace(vm, resources=less) for vm in world.agents.values()))
    assert {vm.resources for vm in world.model.view().vms} == {less}


@pytest.mark.parametrize("lost", ["general-1", "general-2"])
def test_a_driver_dies_with_its_vm_and_nothing_stays(lost: str) -> None:
    """A job of which all is lost at once starts afresh, or is over; no task of it is left."""
    world = running()
    world.send(ev.LeaseClosed(world.now, world.lease(lost).id))
    assert world.job().state == "relaunching"
    assert not killed(world.kill("job-1")) or world.job().state == "killed"
