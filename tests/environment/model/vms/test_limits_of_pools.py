"""Limits in dollars of pools and of all VMs: none is opened beyond them, and used ones get nothing new."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from environment.model.cluster_model import ClusterModel, ModelOptions
from environment.model.messages import events as ev
from environment.model.messages import options
from environment.pools import Terms
from environment.queues.types import Sharing
from environment.types import Vm
from tests.builders import make_job, make_vms
from tests.environment.model.walks.elastic_world import ElasticWorld, opens, places
from tests.environment.two_worlds.world import launched

#: Two pools: VMs of four cpus at $0.24 an hour, and at $0.48.
CHEAP = places(4)
DEAR = places(4, Terms("zone", 60.0, 60.0, 1.0), price=0.48)


def limited(per_hour: dict[str, float], pools: Sequence[Vm] = CHEAP, fixed: int = 0) -> ElasticWorld:
    """A world with these limits per hour."""
    world = ElasticWorld(make_vms(fixed), pools, options=ModelOptions(per_hour=tuple(per_hour.items())))
    world.begin()
    world.measure(*world.vms)
    return world


@pytest.mark.parametrize(
    ("per_hour", "opened"),
    [({"general": 0.5}, 2), ({"": 0.5}, 2), ({"": 0.72}, 3), ({"zone": 0.1}, 4), ({}, 4)],
)
def test_no_vm_is_opened_beyond_a_limit_per_hour(per_hour: dict[str, float], opened: int) -> None:
    """Four jobs want a VM each; those beyond the limit wait and name it, until one is closed."""
    world = limited(per_hour)
    for number in range(1, 5):
        world.submit(replace(make_job(f"job-{number}", 4), executors=4))
        world.decide()
        world.wait(options.SETTLE)
    world.decide()
    assert len(world.leases()) == opened
    if opened < 4:
        assert any("per hour, and cost" in why for why in world.model.view().left_out.values())
        first = next(i for i in range(1, 5) if "may cost" in world.job(f"job-{i}").reason)
        assert first == opened + 1
        world.kill("job-1")
        for lease in world.leases()[:1]:
            world.send(ev.LeaseRefused(world.now, lease.id, "capacity", "nothing left"))
        assert len(opens(world.decide())) <= 1


def test_fixed_vms_count_in_the_limit_of_all() -> None:
    """$0.24 of $0.5 are theirs: one VM more is within the limit."""
    world = limited({"": 0.5}, fixed=1)
    world.offer()
    for number in range(1, 4):
        world.submit(replace(make_job(f"job-{number}", 4), executors=4))
        world.decide()
    assert len(world.leases()) == 1


def test_a_placement_on_two_pools_is_added_up() -> None:
    """Each pool's VMs alone are within the limit of all, both are not; policies are not asked in vain."""
    world = limited({"": 0.7}, (*CHEAP[:1], *DEAR[:1]))
    world.submit(make_job("job-1", 8))
    assert opens(world.place("job-1", *CHEAP[:1] * 4, *DEAR[:1] * 4)) == []
    assert "all VMs may cost $0.7 per hour, and cost $0" in world.job("job-1").reason
    assert opens(world.decide()) == []
    other = ClusterModel()
    other.handle(world.model.snapshot())
    assert other.snapshot() == world.model.snapshot()


def test_a_job_beyond_a_limit_is_placed_on_cheaper_vms() -> None:
    """After a placement that would cost too much it is shown VMs that may all be opened together."""
    world = limited({"": 0.8}, (*CHEAP[:2], *DEAR[:2]))
    world.submit(make_job("job-1", 4, 2.0))
    assert opens(world.place("job-1", *DEAR[:1] * 2, *DEAR[1:2] * 2)) == []
    assert [i.partition(".")[0] for i in opens(world.decide())] == ["general-1", "zone-1"]


def test_a_job_that_needs_vms_of_one_pool_has_them_at_last() -> None:
    """With equal rights for both pools one VM fits the limit; of the cheap pool alone, two do."""
    pools = (*places(2, price=1.2), *places(2, Terms("zone", 60.0, 60.0, 1.0), price=0.9))
    world = limited({"": 2.0}, pools)
    world.submit(make_job("job-1", 2, 4.0))
    opened: list[str] = []
    for _ in range(3):
        assert not opened
        assert opens(world.place("job-1", pools[0], pools[2])) == []
        opened = opens(world.decide())
        world.wait(options.TOO_DEAR)
    assert [i.partition(".")[0] for i in opened] == ["zone-1", "zone-2"]


@pytest.mark.parametrize("sharing", [None, Sharing()])
def test_a_job_beyond_a_limit_holds_up_no_other(sharing: Sharing | None) -> None:
    """Its VMs of both pools would cost too much together; others may have all the room, in any pool."""
    big = places(4, Terms("zone", 60.0, 60.0, 1.0), cpus=8.0, price=0.48)
    world = limited({"": 1.0}, (*CHEAP, *big))
    world.send(ev.SharingChanged(world.now, sharing))
    world.submit(make_job("job-1", 8, 4.0))  # by the limits of each pool alone there is room for eight
    for _ in range(3):
        assert opens(world.decide()) == []
    said = world.job("job-1").reason
    for text in ("room for 4 executors", "all VMs may cost $1 per hour", "jobs behind it do not wait for it"):
        assert text in said
    assert said.count("is avoided for a while") == 1
    other = ClusterModel()
    other.handle(world.model.snapshot())
    assert other.snapshot() == world.model.snapshot()
    world.wait(options.TOO_DEAR)  # it is tried again, now and then
    assert "do not wait" not in world.job("job-1").reason
    assert opens(world.decide()) == []
    assert "do not wait" in world.job("job-1").reason
    world.submit(make_job("job-2", 2, 8.0))  # two big ones cost $0.96
    assert [i.partition(".")[0] for i in opens(world.decide())] == ["zone-1", "zone-2"]


def test_vms_of_a_pool_with_a_spent_limit_get_nothing_new() -> None:
    """Open or not; those of other pools do, and all do when there is room again."""
    world = limited({}, (*CHEAP[:2], *DEAR[:1]))
    world.submit(make_job("job-1", 1))
    world.decide()
    world.opened("general-1")
    world.boot("general-1")
    world.decide()
    assert world.open_tasks() == ["job-1.0"]
    why = "is not used: the budget of pool general of 2026-11-22 (UTC), $1.00, is spent"
    for pool in ("general", ""):
        world.send(ev.OpeningsHeld(world.now, "", ((pool, why),)))
        world.submit(make_job(f"job-{pool}", 1))
        world.offer(world.agents["general-1"])
        assert launched(world.decide()) == {}
        view = world.model.view()
        assert {view.left_out[i] for i in ("general-1", "general-2")} == {why}
        assert ("zone-1" in view.left_out) == (not pool)
        other = ClusterModel()
        other.handle(world.model.snapshot())
        assert other.snapshot() == world.model.snapshot()
    assert world.open_tasks() == ["job-1.0"]
    world.send(ev.OpeningsHeld(world.now))
    assert not world.model.view().left_out
