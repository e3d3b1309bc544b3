"""Drivers that fail and are started again: counted, after growing pauses, never two at a time."""

from dataclasses import replace

from environment.model import events as ev
from environment.model.cluster_model import ModelOptions
from environment.types import Job
from tests.builders import make_job, make_vm
from tests.environment.world import World, launched, names

VMS = [make_vm("vm-1"), make_vm("vm-2")]


def retried(retries: int = 2, **more: object) -> Job:
    """A job that is started again so many times."""
    return replace(make_job("job-1", 2), retries=retries, **more)  # type: ignore[arg-type]


def fail(world: World, exit_code: int | None = 1) -> None:
    """The driver of job-1 fails, and its executors end."""
    tasks = world.open_tasks()
    world.send(ev.DriverEnded(world.now, "job-1", exit_code, "it broke", cleared=True))
    world.tell("killed", *tasks)


def start(world: World) -> list[str]:
    """What waits is placed and runs; the commands that follow."""
    world.offer()
    world.decide()
    return names(world.tell("running", *world.open_tasks()))


def test_a_failed_driver_is_started_again() -> None:
    """On new executors, after a pause that doubles; then it has failed for good."""
    world = World(VMS, ModelOptions(host="here"))
    world.run(retried())
    for number, pause in ((1, 1.0), (2, 2.0)):
        fail(world)
        job = world.job()
        assert (job.state, job.retried, job.exit_code, job.started_at) == ("queued", number, None, None)
        assert job.reason == f"it broke; retry {number} of 2 follows in {pause:g} s"
        world.wait(pause - 0.5)
        world.offer()
        assert launched(world.decide()) == {}
        world.wait(0.5)
        assert start(world) == ["StartDriver"]
    assert world.model.retries_left("job-1") == 0
    fail(world, 7)
    assert (world.job().state, world.job().exit_code) == ("failed", 7)
    assert world.job().reason == "it broke (after 2 retries)"


def test_time_counts_from_the_first_start() -> None:
    """A job that is started again has no new time, and has none to wait in either."""
    for waits in (False, True):
        world = World(VMS)
        world.run(retried(max_runtime=60.0))
        world.wait(40.0)
        fail(world)
        if not waits:
            world.wait(1.0)
            start(world)
        world.wait(15.0)
        assert not world.job().ended
        world.wait(10.0)
        assert (world.job().state, world.open_tasks()) == ("failed", [] if waits else ["job-1.2", "job-1.3"])
        assert world.job().reason == "it ran for longer than its max_runtime, 60 s"


def test_what_is_not_to_be_tried_again_is_not() -> None:
    """A driver that exits with code 0, a kill, a launch that could not be put aside."""
    world = World(VMS)
    world.run(retried(5))
    world.driver_ends("job-1", 0)
    assert world.job().state == "finished"
    world = World(VMS)
    world.run(retried(5))
    world.kill("job-1")
    assert world.job().state == "killed"
    world = World(VMS)
    world.run(retried(5))
    world.driver_ends("job-1", 1)
    assert (world.job().state, world.job().retried) == ("failed", 0)


def test_retries_are_counted_over_a_restart() -> None:
    """The record has their number."""
    world = World(VMS, ModelOptions(host="here"))
    world.run(retried(1))
    fail(world)
    world.restore(world.kept())
    world.subscribe()
    world.wait(5)
    assert start(world) == ["StartDriver"]
    fail(world)
    assert world.job().state == "failed"


def test_a_driver_on_the_cluster_is_started_again() -> None:
    """It fails, or its VM goes; each time a new task follows."""
    job = retried(2)
    world = World(VMS)
    world.subscribe()
    world.submit(replace(job, driver=job.size))
    world.offer()
    world.place("job-1", VMS[0], VMS[0], driver=VMS[0])
    for number, state in ((1, "failed"), (2, "lost")):
        world.tell("running", *world.open_tasks())
        driver = next(t.task_id for t in world.model.tasks("job-1") if t.number is None and not t.ended)
        world.tell(state, driver)  # type: ignore[arg-type]  # one of these
        world.tell("killed", *world.open_tasks())
        assert (world.job().state, world.job().retried) == ("queued", number)
        world.wait(5)
        world.offer()
        world.place("job-1", VMS[1], VMS[1], driver=VMS[1])
    world.tell("running", *world.open_tasks())
    driver = next(t.task_id for t in world.model.tasks("job-1") if t.number is None and not t.ended)
    world.tell("finished", driver)
    assert world.job().state == "finished"
