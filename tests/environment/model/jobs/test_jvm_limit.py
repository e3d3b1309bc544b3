"""One machine under all VMs carries so many JVMs: further jobs wait and say so, and nobody waits for ever."""

from environment.model.event_log import decode, encode
from environment.model.messages import events as ev
from environment.model.messages.options import ModelOptions
from tests.builders import make_job, make_vms
from tests.environment.two_worlds.world import World, launched, names

VMS = make_vms(4)


def world(jvms: int | None) -> World:
    """Four empty VMs that promise more than their machine carries."""
    made = World(VMS, ModelOptions(jvms=jvms))
    made.subscribe()
    return made


def start(world: World, job_id: str) -> None:
    """All executors of the job run."""
    world.tell("running", *world.open_tasks(job_id))


def test_jobs_are_let_in_while_there_is_room() -> None:
    """Each takes its executors and a driver; one beyond waits with a reason; nobody overtakes it."""
    here = world(7)
    here.submit(*(make_job(f"job-{n}", executors=2) for n in (1, 2, 3)), make_job("job-4", executors=1))
    here.offer()
    assert [request.job.id for request in here.model.requests()] == ["job-1", "job-2"]
    waiting = here.model.requests(gated=False)
    assert [request.job.id for request in waiting] == ["job-1", "job-2", "job-3", "job-4"]
    assert sum(map(len, launched(here.decide()).values())) == 4
    assert here.model.requests() == ()
    assert not here.model.ready_to_decide()
    assert here.model.beyond_room() == ""
    here.wait(1.0)
    assert here.model.beyond_room() == "job-3"
    assert here.job("job-3").reason == (
        "this machine carries 7 JVMs at once (mesos.jvms): "
        "the jobs before it take 6, and it needs 3 with its driver"
    )
    assert "Suppress" in names(here.log[-2][1])
    since = len(here.log)
    start(here, "job-1")
    start(here, "job-2")
    here.driver_ends("job-1")
    here.tell("finished", *here.open_tasks("job-1"))
    assert [request.job.id for request in here.model.requests()] == ["job-3"]
    assert "Revive" in names([command for _, commands in here.log[since:] for command in commands])


def test_a_job_alone_always_starts() -> None:
    """However many executors it has: a gang too large for the machine is let in when nothing else runs."""
    here = world(2)
    here.submit(make_job("job-1", executors=1), make_job("job-2", executors=6))
    here.offer()
    here.decide()
    assert here.model.requests() == ()
    start(here, "job-1")
    here.driver_ends("job-1")
    assert here.model.requests() == ()  # its executor has not ended yet
    here.tell("finished", *here.open_tasks("job-1"))
    here.offer()
    assert sum(map(len, launched(here.decide()).values())) == 6


def test_what_was_let_in_is_not_held_up() -> None:
    """Lost executors are placed again, and keep their room meanwhile."""
    here = world(4)
    here.submit(make_job("job-1", executors=2), make_job("job-2", executors=1))
    here.offer()
    here.decide()
    start(here, "job-1")
    here.tell("lost", "job-1.0")
    here.wait(5.0)
    here.offer()
    assert [(r.job.id, r.count) for r in here.model.requests()] == [("job-1", 1)]


def test_the_limit_replays() -> None:
    """It is part of the event log's first line; an older log has none, and no limit."""
    here = world(5)
    here.submit(make_job("job-1", executors=2), make_job("job-2", executors=2))
    line = encode(here.model.snapshot())
    restored = decode(line)
    assert isinstance(restored, ev.Restored)
    assert restored.options.jvms == 5
    old = decode(line.replace('"jvms":5,', ""))
    assert isinstance(old, ev.Restored)
    assert old.options.jvms is None


def test_without_a_limit_all_are_let_in() -> None:
    """As on a real cluster."""
    here = world(None)
    here.submit(*(make_job(f"job-{n}", executors=3) for n in range(9)))
    assert len(here.model.requests()) == 9
