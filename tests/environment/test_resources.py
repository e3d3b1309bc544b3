"""Executors' resources beside cpus and memory, from an offer to the end, and over a restart."""

from dataclasses import replace

import numpy as np
import pytest

from environment.decisions.decision_round import decide_once
from environment.decisions.explain import explain
from environment.decisions.feasibility import check, shortage, whole_cluster_shortfall
from environment.model.event_log import decode, encode
from environment.model.messages.commands import Launch
from environment.model.messages.events import OffersReceived, VmsMeasured
from environment.model.messages.snapshot import VmSize
from environment.resources import Resources
from environment.types import Place, Wait
from tests.builders import make_job, make_offer, make_request, make_view, make_vm
from tests.environment.two_worlds.world import World

PLAIN, ONE, FOUR = make_vm("vm-1"), make_vm("vm-2", gpus=1, disk=100), make_vm("vm-3", gpus=4)
VMS = (PLAIN, ONE, FOUR)


def test_room_is_by_whatever_is_asked_for() -> None:
    """Cpus for four on each VM, but gpus for none, one and two; a request without gpus has room for all."""
    view = make_view(VMS)
    assert view.room_for(make_request(9, gpus=2)).tolist() == [0, 0, 2]
    assert view.room_for(make_request(9, gpus=1, disk=50)).tolist() == [0, 1, 0]
    assert view.room_for(make_request(9, fpgas=1)).tolist() == [0, 0, 0]
    assert view.room_for(make_request(9)).tolist() == [4, 4, 4]


def test_what_is_placed_takes_it() -> None:
    """Two executors take a gpu each; resources that a job does not request stay as they are."""
    request = make_request(2, gpus=1)
    after = make_view(VMS).with_placement(request, (2, 2))
    assert after.free.amounts("gpus").tolist() == [0, 1, 2]
    assert after.free.amounts("disk").tolist() == [0, 100, 0]
    assert not after.free.get("gpus").flags.writeable


def test_seen_by_who_knows_cpus_and_memory_alone() -> None:
    """The view has cpus for whole executors only; it stays the same for requests of nothing else."""
    view = make_view(VMS)
    assert view.seen_by(make_request(1)) is view
    seen = view.seen_by(make_request(3, cpus=0.7, gpus=2))
    assert seen.free_cpus.tolist() == pytest.approx([0, 0, 1.4])
    assert seen.free.get("gpus") is view.free.get("gpus")


def test_faults_and_shortages_name_it() -> None:
    """With the VM, the resource and both numbers."""
    view, request = make_view(VMS), make_request(2, gpus=1)
    assert check(view, request, Place("job-1", (1, 2))) == ()
    assert check(view, request, Place("job-1", (1, 1))) == ("vm-2 has 1 gpu free, 2 needed",)
    assert check(view, request, Place("job-1", (0, 2))) == ("vm-1 has 0 gpus free, 1 needed",)
    expected = "room for 1 of 2 executors of 1 cpu, 1024 MiB and 3 gpus; of 3 VMs, 2 lack gpus"
    assert shortage(view, make_request(2, gpus=3)) == expected


@pytest.mark.parametrize(
    ("executors", "resources", "message"),
    [
        (5, {"gpus": 1}, None),
        (
            6,
            {"gpus": 1},
            "the empty cluster has room for 5 executors of 1 cpu, 1024 MiB and 1 gpu, 6 are asked for",
        ),
        (
            1,
            {"gpus": 8},
            "an executor of 1 cpu, 1024 MiB and 8 gpus fits no VM of the cluster; "
            "the largest is vm-3 (m1.large) with 4 cpus, 16384 MiB and 4 gpus",
        ),
        (
            1,
            {"fpgas": 1},
            "an executor of 1 cpu, 1024 MiB and 1 fpgas fits no VM of the cluster: none has fpgas",
        ),
    ],
)
def test_what_could_never_run_is_refused(
    executors: int, resources: dict[str, float], message: str | None
) -> None:
    """As with cpus and memory, with the VM that has the most."""
    assert whole_cluster_shortfall(VMS, Resources.of(1, 1024, resources), executors) == message


def test_an_explanation_shows_it() -> None:
    """Each VM's free amount when the executor was placed, and the executor's own."""
    verdict = decide_once(lambda *_: Place("job-1", (2, 2)), make_view(VMS), [make_request(2, gpus=2)])
    first, second = explain(verdict, "test").choices
    assert [choice.size and choice.size.others for choice in (first, second)] == [{"gpus": 2}] * 2
    assert [c.free["gpus"] for c in first.candidates] == [0, 1, 4]
    assert [c.free["gpus"] for c in second.candidates] == [0, 1, 2]
    assert second.candidates[1].lacks == ("vm-2 has 1 gpu free, 2 needed",)
    waits = decide_once(lambda *_: Wait("why not"), make_view(VMS), [make_request(2, gpus=2)])
    assert explain(waits, "test").choices[0].candidates[0].lacks == ("vm-1 has 0 gpus free, 2 needed",)


def test_from_the_offer_to_the_end() -> None:
    """It is launched with its request on a VM that has it; it is free again when the executor has ended."""
    world = World(VMS)
    world.subscribe()
    world.submit(make_job("job-1", 2, gpus=2))
    world.offer()
    launches = [command for command in world.decide() if isinstance(command, Launch)]
    assert [launch.vm.name for launch in launches] == ["vm-3"]
    assert [task.resources.others for task in map(world.model.task, launches[0].task_ids) if task] == [
        {"gpus": 2}
    ] * 2
    assert world.model.ledger.held(FOUR.id).others == {"gpus": 4}
    world.submit(make_job("job-2", 1, gpus=2))
    world.offer()
    assert world.decide()
    assert not world.open_tasks("job-2")
    world.tell("running", *world.open_tasks())
    world.driver_ends("job-1")
    world.tell("finished", *world.open_tasks())
    assert world.model.ledger.held(FOUR.id).others == {}
    world.offer()
    world.decide()
    assert world.open_tasks("job-2")


def test_a_restart_keeps_it() -> None:
    """A daemon restored from the records knows held resources; a lost executor asks for the same again."""
    world = World(VMS)
    world.run(make_job("job-1", 2, gpus=1))
    other = World(VMS)
    other.restore(world.kept())
    assert other.model.ledger.held(ONE.id).others == {"gpus": 1}
    other.subscribe()
    other.tell("failed", "job-1.0")
    other.wait(60)
    (request,) = other.model.requests()
    assert (request.count, request.again, request.job.size.others) == (1, True, {"gpus": 1})
    assert decode(encode(other.model.snapshot())) == other.model.snapshot()


def test_a_decision_is_void_when_it_was_taken_back() -> None:
    """The gpus were offered when it was decided, and are not when it is to be launched."""
    world = World(VMS)
    world.subscribe()
    world.submit(make_job("job-1", 1, gpus=4))
    world.send(
        OffersReceived(
            world.now, (replace(make_offer("o", FOUR), resources=Resources.of(4, 16384, {"gpus": 3})),)
        )
    )
    world.place("job-1", FOUR)
    assert "rescinded the offers" in world.job().reason


def test_capacity_is_what_the_master_tells_or_offers_showed() -> None:
    """The most that was offered and used at once; the master's own report prevails."""
    world = World((FOUR,))
    world.subscribe()
    world.submit(make_job("job-1", 1, gpus=1))
    world.offer()
    world.decide()
    world.submit(make_job("job-2", 1, gpus=9))
    world.offer()
    assert world.model.vms()[0].resources.others == {"gpus": 4}
    world.send(VmsMeasured(world.now, (VmSize(FOUR.id, Resources.of(4.0, 16384, {"gpus": 5})),)))
    assert world.model.vms()[0].resources.others == {"gpus": 5}


def test_only_what_somebody_asks_for_is_in_a_view() -> None:
    """Offers of real agents have a disk; policies see it when a job asks for it."""
    world = World(VMS)
    world.subscribe()
    world.submit(make_job("job-1", 99))
    world.offer()
    assert list(world.model.view().free.thousandths) == ["cpus", "mem"]
    world.submit(make_job("job-2", 1, disk=1))
    found = world.model.view().free
    assert list(found.thousandths) == ["cpus", "mem", "disk"]
    np.testing.assert_array_equal(found.amounts("disk"), [0, 100, 0])
