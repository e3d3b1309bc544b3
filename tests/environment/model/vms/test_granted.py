"""Jobs on executors of sizes of their own: checked, through the model, over losses, restarts and logs."""

from dataclasses import replace
from typing import Any

import pytest

from environment.decisions.decision_round import decide_in_turn, decide_once
from environment.decisions.feasibility import check
from environment.model.cluster_model import ClusterModel
from environment.model.event_log import replay
from environment.model.messages import commands as cmd
from environment.model.messages import events as ev
from environment.model.tasks.launches import decided
from environment.resources import Resources
from environment.types import Decision, EndedJob, Place, PlacementRequest
from environment.view import ClusterView
from tests.builders import make_job, make_request, make_view, make_vm, make_vms
from tests.environment.two_worlds.world import World

ELASTIC = replace(make_job("job-1", 3, 2.0, 2048, expected_duration=60.0), min_executors=2)
SIZES = (Resources.of(1.5, 1000), Resources.of(0.125, 2048))


@pytest.mark.parametrize(
    ("placement", "sizes", "faults"),
    [
        ((0, 1), SIZES, ()),
        ((0, 0, 1), (), ()),
        ((0,), (), ("1 executor placed, 2 to 3 needed",)),
        ((0, 1), SIZES[:1], ("1 size for 2 executors",)),
        ((0, 1), (Resources.of(2.001, 2048), SIZES[1]), ("executor 4 is given 2.001 cpus, not 0.1 to 2",)),
        ((0, 1), (SIZES[0], Resources.of(0.09, 895)),
         ("executor 5 is given 0.09 cpus, not 0.1 to 2", "executor 5 is given 895 MiB, not 896 to 2048")),
        ((0, 1), (Resources.of(1.0, 1024.5), SIZES[1]),
         ("executor 4 is given 1024.5 MiB, not in steps of 1",)),
        ((0, 1), (Resources.of(1.0, 1024, {"gpus": 1}), SIZES[1]), ("executor 4 is given 1 gpu, not 0",)),
        ((1, 1, 1), (Resources.of(2.0, 896),) * 3, ("vm-2 has 5 cpus free, 6 needed",)),
        ((1, 1, 1), (Resources.of(1.667, 896), Resources.of(1.667, 896), Resources.of(1.666, 896)), ()),
    ],
)  # fmt: skip
def test_sizes_are_checked(
    placement: tuple[int, ...], sizes: tuple[Resources, ...], faults: tuple[str, ...]
) -> None:
    """Each size is at most the request, at least the minimum to run, and in sum within free resources."""
    view = make_view(make_vms(2, cpus=8.0), free_cpus=[8.0, 5.0])
    request = PlacementRequest(ELASTIC, 3, first_number=4)
    assert check(view, request, Place("job-1", placement, sizes=sizes)) == faults


def test_what_cannot_be_cut_is_given_whole() -> None:
    """A job that requests two gpus is never granted one, even if it runs with less of other resources."""
    request = PlacementRequest(make_job("job-1", 1, gpus=2), 1)
    view = make_view((make_vm("vm-1", gpus=2),))
    less = request.size - Resources.named({"cpus": 0.5, "gpus": 1})
    faults = ("executor 0 is given 1 gpu, not 2",)
    assert check(view, request, Place("job-1", (0,), sizes=(less,))) == faults
    assert check(view, request, Place("job-1", (0,), sizes=(less + Resources.named({"gpus": 1}),))) == ()


def test_a_small_request_is_its_own_floor() -> None:
    """A request below Spark's minimum may be granted as it is."""
    request = PlacementRequest(make_job("job-1", 1, 0.05, 100), 1)
    view = make_view(make_vms(1))
    assert check(view, request, Place("job-1", (0,), sizes=(Resources.of(0.05, 100),))) == ()
    assert check(view, request, Place("job-1", (0,), sizes=(Resources.of(0.05, 99),)))


#: What is not a whole number, though a policy may say that it is.
HALF: Any = 0.5


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"sizes": ((1.0, 1024), (1.0, 1024))}, "the sizes of the decision should be a tuple of Resources"),
        (
            {"sizes": (Resources({"cpus": HALF}),) * 2},
            "a size should have whole thousandths, found {'cpus': 0.5}",
        ),
        ({"details": {"y": (1.0,)}}, "the detail 'y' of the decision should be 2 numbers, one for each VM"),
        ({"details": [1]}, "the details of the decision should be a mapping"),
    ],
)
def test_what_is_no_size_is_told(changes: dict[str, Any], fault: str) -> None:
    """A policy may return anything; later code relies on its types."""

    def decide(view: ClusterView, queue: object) -> Decision:
        return replace(Place("job-1", (0, 0)), **changes)

    verdict = decide_once(decide, make_view(make_vms(2)), [make_request(2)])
    assert verdict.faults[0].startswith(fault)


def test_the_view_after_knows_sizes() -> None:
    """It shows free resources, jobs and their VMs, and ends: half the cpus take twice as long."""
    view = make_view(make_vms(2, cpus=4.0), at=10.0)
    after = view.with_placement(
        PlacementRequest(ELASTIC, 3), (0, 0), (Resources.of(2.0, 1000), Resources.of(1.0, 1000))
    )
    assert after.free_cpus.tolist() == [1.0, 4.0]
    assert after.free_memory_mib[0] == view.free_memory_mib[0] - 2000
    (running,) = after.running
    assert (running.sizes, running.end_at(10.0)) == (
        (Resources.of(2.0, 1000), Resources.of(1.0, 1000)),
        130.0,
    )
    assert after.busy_until.tolist() == [130.0, 10.0]
    lost = PlacementRequest(ELASTIC, 1, ("id-vm-1",), True, 2, (Resources.of(1.0, 1000),))
    (joined,) = after.with_placement(lost, (1,)).running
    assert (joined.vm_ids, joined.sizes[2]) == (("id-vm-1", "id-vm-1", "id-vm-2"), Resources.of(1.0, 1000))


@pytest.fixture
def world() -> World:
    """Two VMs; an elastic job is placed on two executors of its three, of different sizes."""
    world = World(make_vms(2))
    world.subscribe()
    world.submit(ELASTIC)
    world.offer()
    placement = ev.Placement("job-1", ("id-vm-1", "id-vm-2"), None, SIZES)
    world.send(ev.Decided(world.now, (placement,)))
    return world


def sizes(world: World, commands: list[cmd.Command]) -> list[Resources]:
    """Of the tasks that are launched."""
    launched = [command for command in commands if isinstance(command, cmd.Launch)]
    tasks = (world.model.task(task_id) for command in launched for task_id in command.task_ids)
    return [task.resources for task in tasks if task is not None]


def replayed(world: World) -> bool:
    """Whether the log of all that happened, as text, leads another model to the same commands."""
    model = ClusterModel()
    return all(model.handle(event) == commands for event, commands in replay(world.lines()))


def test_a_job_starts_on_what_it_was_given(world: World) -> None:
    """Launched in these sizes, charged and shown so; it runs when those that there are run."""
    assert sizes(world, world.log[-1][1]) == [*SIZES]
    assert (world.model.ledger.held("id-vm-1").cpus, world.model.ledger.held("id-vm-2").memory_mib) == (
        1.5,
        2048,
    )
    world.tell("running", "job-1.0")
    assert world.job().state == "starting"
    assert cmd.StartDriver in map(type, world.tell("running", "job-1.1"))
    (running,) = world.model.view().running
    assert (running.sizes, running.end_at(world.now)) == (SIZES, world.now + 60.0 * 6 / 1.625)
    assert replayed(world)


def test_a_lost_executor_keeps_its_size(world: World) -> None:
    """The smaller one is lost: its size is requested and launched again; also after a restart."""
    world.tell("running", "job-1.0", "job-1.1")
    world.tell("lost", "job-1.1")
    heir = World(world.vms)
    heir.restore(world.kept())
    heir.subscribe()
    for each in (world, heir):
        each.wait(5.0)
        each.offer()
        (request,) = each.model.requests()
        assert (request.count, request.sizes, request.cpus) == (1, SIZES[1:], 0.125)
        assert sizes(each, each.decide()) == [SIZES[1]]
        assert replayed(each)


def test_an_outdated_size_is_decided_again(world: World) -> None:
    """The model, too, knows an elastic job's minimum."""
    world.submit(replace(ELASTIC, id="job-2"))
    world.offer()
    for vm_ids in ((), ("id-vm-1",), ("id-vm-1",) * 4):
        world.send(ev.Decided(world.now, (ev.Placement("job-2", vm_ids),)))
        why = f"2 to 3 of its executors are to be placed and not {len(vm_ids)}"
        assert world.job("job-2").reason == f"decided again, since {why}"


def test_what_a_job_had_is_told_at_its_end(world: World) -> None:
    """Once, with VMs, sizes and times of its executors."""
    world.tell("running", "job-1.0", "job-1.1")
    began = world.now
    world.wait(30.0)
    world.tell("finished", "job-1.1")  # told to by its driver, just before that ends
    world.send(ev.DriverEnded(world.now, "job-1", 0))
    job = EndedJob(ELASTIC, ("id-vm-1", "id-vm-2"), SIZES, began, world.now, finished=True)
    assert world.model.take_changes().ended == (job,)
    world.tell("killed", "job-1.0")
    assert world.model.take_changes().ended == ()


def test_a_round_is_recorded_with_its_sizes() -> None:
    """From a decision to the event that the model takes."""

    def decide(view: ClusterView, queue: object) -> Decision:
        return Place("job-1", (1, 0), sizes=SIZES)

    verdicts = tuple(decide_in_turn(decide, make_view(make_vms(2)), [PlacementRequest(ELASTIC, 3)]))
    assert decided(verdicts, 1.0).placements == (ev.Placement("job-1", ("id-vm-2", "id-vm-1"), None, SIZES),)
