"""Drivers that fail and are started again: counted, after growing pauses, never two at a time."""

from dataclasses import replace

from conf.util.backoff import Backoff
from environment.model.cluster_model import ModelOptions
from environment.model.jobs.retries import MOST_FREE, MOST_LAUNCHES
from environment.model.messages import events as ev
from environment.types import Job
from tests.builders import make_job, make_vm
from tests.environment.two_worlds.world import World, launched, names

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
    """Place and run the waiting jobs; return the commands that follow."""
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
    for number, (state, count) in enumerate((("failed", (1, 0)), ("lost", (1, 1)), ("gone", (1, 2)))):
        world.tell("running", *world.open_tasks())
        driver = next(t.task_id for t in world.model.tasks("job-1") if t.number is None and not t.ended)
        world.tell(state, driver)  # type: ignore[arg-type]  # one of these
        world.tell("killed", *world.open_tasks())
        assert (world.job().state, world.job().retried, world.job().free_retries) == ("queued", *count)
        fault = "infrastructure" if number else "user"
        assert (world.job().attempts[-1].fault, len(world.job().attempts)) == (fault, number + 1)
        world.wait(5)
        world.offer()
        world.place("job-1", VMS[1], VMS[1], driver=VMS[1])
    world.tell("running", *world.open_tasks())
    driver = next(t.task_id for t in world.model.tasks("job-1") if t.number is None and not t.ended)
    world.tell("finished", driver)
    assert world.job().state == "finished"


def test_what_the_infrastructure_does_is_free_but_not_for_ever() -> None:
    """A driver that vanishes leaves the retries as they are; so often, and with pauses that grow."""
    world = World(VMS, ModelOptions(host="here"))
    world.run(retried(1))
    for number in range(1, MOST_FREE + 1):
        fail(world, None)
        assert (world.job().state, world.job().retried, world.job().free_retries) == ("queued", 0, number)
        pause = min(2.0 ** (number - 1), 60.0)
        said = f"that is not its fault, so free retry {number} of {MOST_FREE} follows in {pause:g} s"
        assert world.job().reason == f"it broke; {said}"
        world.wait(pause)
        start(world)
    fail(world, None)
    assert world.job().reason == f"it broke (after {MOST_FREE} free retries)"
    assert [attempt.fault for attempt in world.job().attempts] == ["infrastructure"] * 20


def test_a_job_that_is_not_to_be_tried_again_is_not() -> None:
    """No retry for any cause of failure: half of the job's work may be done."""
    world = World(VMS, ModelOptions(host="here"))
    world.run(retried(0))
    fail(world, None)
    assert (world.job().state, world.job().reason) == ("failed", "it broke")


def test_pauses_are_as_the_job_asks() -> None:
    """The first, how they grow, and the longest."""
    world = World(VMS, ModelOptions(host="here"))
    world.run(retried(4, pauses=Backoff(30.0, 3.0, 200.0)))
    said = []
    for _ in range(4):
        fail(world)
        said.append(world.job().reason)
        world.wait(200.0)
        start(world)
    pauses = ("30", "90", "200", "200")
    assert said == [f"it broke; retry {n} of 4 follows in {p} s" for n, p in enumerate(pauses, 1)]


def lose_executors(world: World) -> list[str]:
    """Executors of job-1 fail, one after the other, until that is too much."""
    commands: list[str] = []
    while not commands and not world.job().failing and world.job().state != "queued":
        task = world.model.tasks("job-1")[-1]
        commands = names(world.tell("failed", task.task_id, message="no memory"))
        world.wait(31)
        if world.job().state == "relaunching":
            start(world)
            commands = []
    return commands


def test_executors_that_fail_by_themselves_count_as_the_users() -> None:
    """The driver is told to end, and the next try follows when it has; also over a restart."""
    for restarts in (False, True):
        world = World(VMS, ModelOptions(host="here"))
        world.run(replace(retried(1), executors=1))
        assert "KillDriver" in lose_executors(world)
        why = "lost 4 executors; the last, executor 3: no memory"
        assert (world.job().failing, world.job().reason) == (why, f"{why}; its driver is being stopped")
        if restarts:
            assert "KillDriver" in names(world.restore(world.kept()))
            world.subscribe()
        world.send(ev.DriverEnded(world.now, "job-1", 143, cleared=True))
        world.tell("killed", *world.open_tasks())
        assert world.job().reason == f"{why}; retry 1 of 1 follows in 1 s"
        assert (world.job().state, world.job().failures, world.job().failing) == ("queued", 0, "")
        world.wait(2)
        assert start(world) == ["StartDriver"]
        lose_executors(world)
        assert world.job().reason.endswith("no memory (after 1 retry)")
        assert world.job().state == "failed"


def test_a_launch_that_never_runs_is_not_tried_for_ever() -> None:
    """It has failed after so many."""
    world = World(VMS, ModelOptions(host="here"))
    world.subscribe()
    world.submit(make_job("job-1"))
    for number in range(MOST_LAUNCHES):
        assert world.job().state == "queued"
        world.wait(301)  # its VM was left out
        world.offer()
        world.place("job-1", VMS[number % 2])
        world.tell("dropped", *world.open_tasks(), message="no such image")
    said = f"{MOST_LAUNCHES} launches of it in a row came to nothing; the last: no such image"
    assert (world.job().state, world.job().reason) == ("failed", said)
