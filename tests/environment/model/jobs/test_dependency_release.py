"""Jobs that follow others, begin at a time, or share an array's limit: which are released, and when."""

import random
from dataclasses import replace

import pytest

from environment.dependencies import After, array_jobs, array_of
from environment.model.cluster_model import ClusterModel
from environment.model.event_log import replay
from environment.model.messages import events as ev
from environment.model.messages.records import JobRecord
from environment.types import Job
from tests.builders import make_job, make_vm
from tests.environment.two_worlds.world import World

VMS = [make_vm("vm-1", cpus=64.0)]


def after(number: int, *others: After | str, **more: object) -> Job:
    """A job that comes after others."""
    comes = tuple(After(other) if isinstance(other, str) else other for other in others)
    job = make_job(f"job-{number}", submitted_at=100.0)
    return replace(job, after=comes, **more)  # type: ignore[arg-type]


def array(first: int, count: int, at_most: int | None = None, **more: object) -> list[Job]:
    """An array's jobs."""
    name = array_of(f"job-{first}")
    return [after(first + i, array=name, index=i, count=count, at_most=at_most, **more) for i in range(count)]


def world_of(*jobs: Job) -> World:
    """These jobs have been submitted to a cluster that offers all it has."""
    world = World(VMS)
    world.subscribe()
    world.submit(*jobs)
    return world


def waiting(world: World) -> list[str]:
    """Ids of jobs that may be placed, in order."""
    return [request.job.id for request in world.model.requests()]


def go(world: World) -> None:
    """Place all jobs that may be placed, and run them."""
    world.offer()
    world.decide()
    for task in world.model.open_tasks():
        world.tell("running", task.task_id)


def end(world: World, job_id: str, exit_code: int = 0) -> None:
    """The job's driver ends, and so do its executors."""
    tasks = world.open_tasks(job_id)
    world.driver_ends(job_id, exit_code)
    world.tell("killed", *tasks)


def test_a_job_waits_for_what_it_comes_after() -> None:
    """It is in no line and blocks nobody; it waits for its turn from when the last has finished."""
    both = (After("job-1", name="load"), After("job-2"))
    world = world_of(after(1), after(2), after(3, *both), after(4))
    assert waiting(world) == ["job-1", "job-2", "job-4"]
    assert world.job("job-3").reason == "waits until job-1 (load) and job-2 have ended"
    assert [*world.model.held()] == ["job-3"]
    go(world)
    end(world, "job-2")
    assert world.job("job-3").reason == "waits until job-1 (load) has ended"
    world.now += 50.0
    end(world, "job-1")
    assert waiting(world) == ["job-3"]
    assert (world.job("job-3").released_at, world.job("job-3").reason) == (150.0, "waits for its turn")
    go(world)
    assert world.job("job-3").state == "running"


def test_a_job_fails_at_once_with_what_it_comes_after() -> None:
    """A job fails with its predecessor, also indirectly, and names it; jobs that wait for any end go."""
    world = world_of(
        after(1),
        after(2, After("job-1", name="load")),
        after(3, "job-2", "job-1"),
        after(4, After("job-2", "any")),
        after(5, After("job-1", "any")),
    )
    go(world)
    end(world, "job-1", 7)
    states = [world.model.job(f"job-{number}") for number in range(2, 6)]
    assert [job.state for job in states if job] == ["failed", "failed", "queued", "queued"]
    why = "never began: it comes after job-1 (load), which failed"
    assert world.job("job-2").reason == why
    assert world.job("job-3").reason.startswith("never began: it comes after job-")
    assert waiting(world) == ["job-4", "job-5"]
    assert world.job("job-2").finished_at == world.now


def test_a_killed_job_holds_nobody_any_more() -> None:
    """Killed while it was held, it is no success, and its own dependencies forget it."""
    world = world_of(after(1), after(2, "job-1"), after(3, "job-2"), after(4, After("job-2", "any")))
    world.kill("job-2")
    assert world.job("job-3").reason == "never began: it comes after job-2, which was killed"
    assert waiting(world) == ["job-1", "job-4"]
    go(world)
    end(world, "job-1")
    assert not world.model.held()


def test_what_had_ended_before() -> None:
    """Ends found at submission or since then count; an unknown end counts as success."""
    done, bad = After("job-1", ended="finished"), After("job-2", ended="failed")
    world = world_of(after(5, done), after(6, done, bad), after(7, replace_when(bad)))
    assert waiting(world) == ["job-5", "job-7"]
    assert world.job("job-6").reason == "never began: it comes after job-2, which failed"
    world.send(ev.JobSubmitted(world.now, after(8, "job-3"), (("job-3", "killed"),)))
    assert world.job("job-8").state == "failed"
    world.send(ev.JobSubmitted(world.now, after(9, "job-3"), (("job-3", "finished"),)))
    assert waiting(world) == ["job-5", "job-7", "job-9"]


def replace_when(one: After) -> After:
    """The same, however it ends."""
    return one._replace(when="any")


def test_a_whole_array_is_waited_for() -> None:
    """One of its jobs that fails is enough."""
    whole = After("array-1", members=3)
    world = world_of(*array(1, 3), after(4, whole), after(5, whole))
    go(world)
    end(world, "job-1")
    end(world, "job-3")
    assert world.job("job-4").reason == "waits until array-1 has ended"
    end(world, "job-2")
    assert waiting(world) == ["job-4", "job-5"]
    world = world_of(*array(1, 3), after(4, whole), after(5, replace_when(whole)))
    go(world)
    end(world, "job-3", 1)
    assert world.job("job-4").reason == "never began: it comes after array-1, of which job-3 failed"
    assert world.job("job-5").state == "queued"
    assert waiting(world) == []


def test_so_many_of_an_array_run_at_once() -> None:
    """The others follow in order, one for each that ends, however it does."""
    world = world_of(*array(1, 5, at_most=2))
    assert waiting(world) == ["job-1", "job-2"]
    assert world.job("job-3").reason == "2 jobs of array-1 may run at once (at_most), and do"
    go(world)
    world.kill("job-3")
    end(world, "job-2", 1)
    assert waiting(world) == ["job-4"]
    go(world)
    end(world, "job-1")
    end(world, "job-4")
    assert waiting(world) == ["job-5"]


@pytest.mark.parametrize("wakes", ["by a tick", "by another event"])
def test_a_job_begins_at_its_time(wakes: str) -> None:
    """It stands in line since then, whenever that is seen; a time that is over holds nobody."""
    world = world_of(after(1, start_at=130.0), after(2, start_at=90.0), after(3, "job-2", start_at=140.0))
    assert waiting(world) == ["job-2"]
    assert world.job("job-1").reason == "begins at 130 s, and not before"
    go(world)
    end(world, "job-2")
    assert world.job("job-3").reason == "begins at 140 s, and not before"
    world.now = 135.0
    world.submit(replace(after(4), submitted_at=135.0))
    if wakes == "by a tick":
        world.wait(0.5)
    world.wait(10.0)
    assert waiting(world) == ["job-1", "job-4", "job-3"]
    assert world.job("job-1").released_at == 130.0


def test_another_daemon_goes_on_with_it() -> None:
    """Held jobs are recomputed from the present jobs and the recorded ends of others."""
    world = world_of(
        after(1),
        after(2, "job-1"),
        after(3, start_at=200.0),
        *array(4, 3, at_most=1),
        after(7, "job-90"),
        after(8, "job-91"),
    )
    go(world)
    kept = world.kept()
    fresh = World(VMS)
    # The daemon died between the store of these and their events.
    jobs = tuple(
        replace(job, state="queued", reason="waits for its turn", released_at=None)
        if job.job.id in ("job-7", "job-8")
        else job
        for job in kept.jobs
    )
    tasks = tuple(task for task in kept.executors if task.job_id not in ("job-7", "job-8"))
    ends = (("job-90", "finished"), ("job-91", "failed"))
    fresh.send(ev.Restored(fresh.now, jobs, tasks, fresh.model.options, ends=ends))
    assert sorted(fresh.model.held()) == ["job-2", "job-3", "job-5", "job-6"]
    assert waiting(fresh) == ["job-7"]
    assert fresh.job("job-8").reason == "never began: it comes after job-91, which failed"
    end(fresh, "job-1")
    end(fresh, "job-4")
    assert waiting(fresh) == ["job-2", "job-5", "job-7"]


SEEDS = range(12)


@pytest.mark.parametrize("seed", SEEDS)
def test_random_graphs(seed: int) -> None:
    """Jobs run, wait and fail as in the reference, for any dependencies and ends.

    Now and then the model is rebuilt from its snapshot or from the store; the log replays.
    """
    draw = random.Random(seed)  # noqa: S311 - the same for the same seed
    world, known, ends = world_of(), dict[str, Job](), dict[str, str]()
    for number in range(1, 60):
        others = draw.sample(sorted(known), min(len(known), draw.choice([0, 0, 1, 2, 4])))
        comes = [After(other, draw.choice(["success", "any"])) for other in others]
        start_at = world.now + draw.randint(1, 20) if draw.random() < 0.2 else None
        job = replace(after(number, *comes), start_at=start_at, submitted_at=world.now)
        known[job.id] = job
        gone = tuple((i, ends[i]) for i in world.model.unknown(job))
        world._stored |= {job.id: JobRecord(job)}
        world.send(ev.JobSubmitted(world.now, job, gone))
        step(world, draw)
        ends |= {j.job.id: j.state for j in world.kept().jobs if j.ended}
        if draw.random() < 0.15:
            world.send(anew(world, draw, ends))
        check(world, known, ends)
    assert len(set(ends.values())) > 1
    model = ClusterModel()
    for event, commands in replay(world.lines()):
        assert model.handle(event) == commands


def step(world: World, draw: random.Random) -> None:
    """Time goes by; some run, some of these end, some are killed."""
    world.wait(draw.choice([0.2, 1.0, 5.0]))
    if draw.random() < 0.7:
        go(world)
    for running in [r.job.id for r in world.model.view().running]:
        if world.job(running).state == "running" and draw.random() < 0.4:
            end(world, running, draw.choice([0, 0, 0, 1]))
    if draw.random() < 0.1 and (held := [*world.model.held()]):
        world.kill(draw.choice(held))


def anew(world: World, draw: random.Random, ends: dict[str, str]) -> ev.Restored:
    """The state that another model starts from: a snapshot's, or that of a starting daemon."""
    if draw.random() < 0.5:
        return world.model.snapshot()
    kept = world.kept()
    jobs = tuple(job for job in kept.jobs if not job.ended)
    tasks = tuple(task for task in world.model.open_tasks())
    return ev.Restored(world.now, jobs, tasks, world.model.options, ends=tuple(ends.items()))


def check(world: World, known: dict[str, Job], ends: dict[str, str]) -> None:
    """Assert that exactly the right jobs are held, and have failed before they began."""
    for job in known.values():
        past = [ends.get(one.job, "") for one in job.after]
        bad = any(
            state in ("failed", "killed")
            for state, one in zip(past, job.after, strict=True)
            if one.when == "success"
        )
        record = world.model.job(job.id)
        if bad:
            assert ends.get(job.id) in ("failed", "killed"), job
            continue
        held = not all(past) or (job.start_at or 0.0) > world.now
        assert (job.id in world.model.held()) == (held and job.id not in ends), job
        if record is not None and not record.ended:
            assert record.held == held
            if record.state == "queued":
                assert (job.id in waiting(world)) != held


def test_a_job_after_an_array_and_one_of_its_jobs_fails_once() -> None:
    """Both hold it, and both fail it with the same end."""
    world = world_of(*array(1, 2), after(3, After("job-1"), After("array-1", members=2)))
    go(world)
    end(world, "job-1", exit_code=1)
    assert world.job("job-3").state == "failed"
    end(world, "job-2")
    assert world.job("job-2").state == "finished"


def test_an_array_after_an_array_is_looked_up_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each job of one looked through all jobs of the other; what was found holds until a job ends."""
    world = world_of(*array(1, 30))
    looked = list[str]()

    def jobs(dependency: After) -> tuple[str, ...]:
        looked.append(dependency.job)
        return array_jobs(dependency.job, 30)

    monkeypatch.setattr(After, "jobs", property(jobs))
    comes = After("array-1", members=30)
    world.submit(*(after(31 + i, comes) for i in range(30)))
    assert looked == ["array-1"]
    world.kill("job-7")
    assert world.job("job-40").reason.endswith("it comes after array-1, of which job-7 was killed")
    world.submit(after(61, comes), after(62, After("array-1", "any", members=30)))
    assert [world.job(f"job-{number}").state for number in (61, 62)] == ["failed", "queued"]
    for number in {*range(1, 31)} - {7}:
        world.kill(f"job-{number}")
    assert waiting(world) == ["job-62"]
