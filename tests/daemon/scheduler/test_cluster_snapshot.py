"""Pools and VMs in the snapshot for other threads."""

from daemon.scheduler.cluster_snapshot import ClusterSnapshot, picture_of
from environment.model.messages import events as ev
from tests.builders import make_job, make_vms
from tests.environment.model.walks.elastic_world import ElasticWorld
from tests.environment.two_worlds.world import World


def test_a_pool_costs_what_its_provider_says() -> None:
    """A pool's price is the provider's, or the cluster file's without one."""
    world = ElasticWorld()
    world.begin()
    (pool,) = picture_of(world.model, world.now, ClusterSnapshot()).pools
    assert (pool.name, pool.price_per_hour) == ("general", 0.24)
    world.send(ev.PoolPrices(world.now, (("general", 0.1),)))
    (pool,) = picture_of(world.model, world.now, ClusterSnapshot()).pools
    assert (pool.name, pool.price_per_hour) == ("general", 0.1)


def test_a_vm_out_of_reach_is_shown_as_long_as_its_executors_are_waited_for() -> None:
    """A VM unknown to the master is shown with its executors, since when and until when they are awaited."""
    one, two = make_vms(2, cpus=4)
    world = World((one, two))
    world.run(make_job(executors=6))
    world.tell("unreachable", *(f"job-1.{number}" for number in range(4)))
    world.send(ev.VmLost(world.now, one.id))
    shown = {vm.id: vm for vm in picture_of(world.model, world.now, ClusterSnapshot()).vms}
    assert (shown[one.id].state, shown[one.id].used_cpus, len(shown[one.id].executors)) == (
        "unreachable",
        4,
        4,
    )
    assert shown[one.id].note == (
        "cannot be reached since 100 s; it is waited for until 160 s, and then replaced"
    )
    assert (shown[two.id].state, shown[two.id].note) == ("up", "")
    world.wait(61)
    assert [vm.id for vm in picture_of(world.model, world.now, ClusterSnapshot()).vms] == [two.id]


def test_a_vm_of_a_pool_out_of_reach_is_shown_as_such() -> None:
    """It costs on, and its executors are waited for."""
    world = ElasticWorld()
    world.begin()
    world.submit(make_job(executors=2))
    world.decide()
    world.opened("general-1")
    world.boot("general-1")
    task = world.open_tasks()[0]
    vm_id = world.model.tasks("job-1")[0].vm_id
    world.tell("unreachable", task)
    world.send(ev.VmLost(world.now, vm_id))
    shown = {vm.id: vm for vm in picture_of(world.model, world.now, ClusterSnapshot()).vms}
    assert (shown[vm_id].state, shown[vm_id].pool) == ("unreachable", "general")
