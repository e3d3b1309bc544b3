"""Jobs that could not run now even alone, found by kinds of jobs: the same as when each is examined."""

from collections.abc import Iterable
from dataclasses import replace
from random import Random

import pytest

from environment.model.cluster_model import ModelOptions
from environment.model.jobs.waiting_queue import WaitingLine
from environment.model.messages.events import KillRequested, VmsMeasured
from environment.model.messages.snapshot import VmSize
from environment.model.vms.max_capacity import Alike, MaxCapacity
from environment.types import PlacementRequest
from tests.builders import make_job, make_vm, make_vms
from tests.environment.two_worlds.world import World


def request(name: str, cpus: float, executors: int = 1, queue: str = "") -> PlacementRequest:
    """Of a job that waits."""
    return PlacementRequest(replace(make_job(name, executors, cpus), queue=queue), executors)


def test_one_of_a_kind_speaks_for_all() -> None:
    """Each size, number, queue and owner is checked once; departed jobs are not reported."""
    alike, asked = Alike(), list[str]()
    for number in range(6):
        alike.add(request(f"small-{number}", 1.0))
        alike.add(request(f"large-{number}", 4.0))
    alike.add(request("other", 4.0, queue="night"))
    alike.add(request("gang", 4.0, 2))
    alike.drop("large-0")
    alike.drop("small-0")
    alike.drop("small-0")
    alike.add(request("small-5", 4.0))  # it waits anew, for more

    def holds(one: PlacementRequest) -> bool:
        asked.append(one.job.id)
        return one.size.cpus > 2.0

    large = {*(f"large-{number}" for number in range(1, 6)), "small-5", "other", "gang"}
    assert set(alike.of_whom(holds)) == large
    assert len(asked) == 4
    for name in large:
        alike.drop(name)
    assert list(alike.of_whom(holds)) == []


def test_on_one_kind_the_vms_decide_alike() -> None:
    """Jobs of a kind fit the same VMs."""
    reach = MaxCapacity(vms=(make_vm("vm-1", 2, 4096),), known=True)
    alike = Alike()
    for one in (request("fits", 2.0), request("too-large", 3.0), request("too-many", 1.0, 3)):
        alike.add(one)
    assert set(alike.of_whom(reach.beyond_vms)) == {"too-large", "too-many"}


@pytest.mark.parametrize("seed", range(4))
def test_nobody_is_missed_on_walks(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whenever VMs come and go, all are found that are to be put aside, or may be taken back."""
    by_kind, times = WaitingLine._out_of, 0

    def checked(line: WaitingLine, reach: MaxCapacity) -> Iterable[str]:
        nonlocal times
        found = set(by_kind(line, reach))
        jobs = [job for name in line._queue if (job := line._roster.job(name)) is not None]
        moved = {job.job.id for job in jobs if not line._stays(job, reach)}
        assert moved <= found
        times += bool(moved)
        return found

    monkeypatch.setattr(WaitingLine, "_out_of", checked)
    chance = Random(seed)  # noqa: S311
    vms, world = make_vms(6, cpus=4), World(make_vms(6, cpus=4), ModelOptions())
    world.subscribe()
    for number in range(120):
        if chance.random() < 0.5:
            world.submit(make_job(f"job-{number}", chance.choice((1, 5, 20)), chance.choice((1, 4, 8))))
        there = tuple(chance.sample(vms, chance.randint(0, len(vms))))
        sizes = tuple(VmSize(vm.id, vm.resources) for vm in there)
        closed = tuple((vm.id, "it was drained") for vm in there if chance.random() < 0.2)
        world.send(VmsMeasured(world.now, sizes, there, closed, (), {}))
        if chance.random() < 0.2:
            world.send(KillRequested(world.now, f"job-{chance.randint(0, number)}"))
    assert times > 20
