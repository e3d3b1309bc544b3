"""A job's own limit in dollars: its executors go on, it gets no more, and ends only where asked."""

from dataclasses import replace

import pytest

from environment.model.cluster_model import ClusterModel
from environment.model.messages import commands as cmd
from environment.model.messages import events as ev
from environment.model.messages.records import ExecutorRequest
from environment.types import Dynamic, Job
from tests.builders import make_job, make_vms
from tests.environment.two_worlds.world import World, killed, names

#: Seconds for which a VM of the tests costs a cent.
CENT = 150.0


@pytest.fixture
def world() -> World:
    """Two VMs at $0.24 an hour."""
    return World(make_vms(2))


def limited(dollars: float, job: Job | None = None, **more: object) -> Job:
    """The job with a limit."""
    return replace(job or make_job(executors=2), max_cost=dollars, **more)  # type: ignore[arg-type]


def test_a_running_job_keeps_its_executors_and_gets_no_more(world: World) -> None:
    """At its limit a lost one is not placed again; the job goes on with the others, and finishes."""
    world.run(limited(0.01))
    world.wait(CENT / 2 - 1.0)
    assert not world.job().bounded
    world.wait(CENT)
    said = "of its max_cost, $0.0100, and gets no more executors"
    assert said in world.job().reason
    assert (world.job().state, names(world.wait(1.0))) == ("running", [])
    world.tell("failed", "job-1.0")
    assert "it is not placed again: the job has cost" in world.job().reason
    world.now += 10.0
    world.offer()
    world.decide()
    assert world.open_tasks() == ["job-1.1"]
    world.offer()
    world.wait(60.0)
    world.decide()
    assert (world.job().state, world.open_tasks()) == ("running", ["job-1.1"])
    assert world.job().reason.startswith("runs on 1 executor; has cost")
    world.driver_ends("job-1")
    assert world.job().state == "finished"


def test_a_replay_of_the_log_has_the_limit(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The tick at which it was reached is in the log, though it led to no command."""
    other, handle, left_out = ClusterModel(), world.send, list[ev.Event]()

    def send(event: ev.Event) -> list[cmd.Command]:
        commands = handle(event)
        if world.model.matters:
            assert other.handle(event) == commands
        else:
            left_out.append(event)
        return commands

    monkeypatch.setattr(world, "send", send)
    world.run(limited(0.01))
    for _ in range(3):
        world.wait(CENT)
    world.tell("failed", "job-1.0")
    world.now += 10.0
    world.offer()
    world.decide()
    assert other.job("job-1") == world.job()
    assert left_out, "most ticks lead to nothing"
    assert world.open_tasks() == ["job-1.1"]


def test_what_it_waits_for_is_given_up(world: World) -> None:
    """An executor lost before the limit was reached is not placed after it, by the next daemon neither."""
    world.run(limited(0.01))
    world.tell("lost", "job-1.0")
    assert world.job().state == "relaunching"
    world.now += 2 * CENT
    world.wait(0.0)
    assert world.job().state == "running"
    other = World(make_vms(2))
    other.now = world.now
    other.restore(world.kept())
    other.subscribe()
    other.offer()
    other.wait(5.0)
    other.decide()
    assert (other.job().bounded, other.open_tasks()) == (world.job().bounded, ["job-1.1"])


def test_a_job_without_executors_ends(world: World) -> None:
    """After a while, in which its driver may come to its own end."""
    world.run(limited(0.01))
    world.wait(CENT)
    world.tell("failed", "job-1.0", "job-1.1")
    world.wait(30.0)
    assert world.job().state == "running"
    assert names(world.wait(1.0)) == ["KillDriver"]
    assert world.job().state == "failed"
    assert world.job().reason.endswith("and gets no more executors; it has none left")


def test_it_is_not_started_again(world: World) -> None:
    """A retry would cost more: the job fails with both reasons."""
    world.run(limited(0.01, retries=3))
    world.wait(CENT)
    world.send(ev.DriverEnded(world.now, "job-1", 1, "it broke", cleared=True))
    world.tell("killed", "job-1.0", "job-1.1")
    assert world.job().state == "failed"
    assert "it broke; retry 1 of 3" in world.job().reason
    assert world.job().reason.endswith("and gets no more executors, and is not started again")


def test_it_is_ended_where_that_is_asked(world: World) -> None:
    """With executors and driver, at the next tick."""
    world.run(limited(0.01, at_max_cost="end"))
    commands = world.wait(CENT)
    assert (names(commands)[0], len(killed(commands))) == ("KillDriver", 2)
    assert world.job().state == "failed"
    assert world.job().reason.endswith("of its max_cost, $0.0100, and is ended (at_max_cost: end)")


def test_a_driver_that_asks_gets_none(world: World) -> None:
    """Dynamic allocation stops at the limit, and says so; with none wanted and none there it goes on."""
    job = make_job(executors=4)
    world.run(limited(0.01, replace(job, dynamic=Dynamic(0, 1))))
    world.wait(2 * CENT)
    world.send(ev.ExecutorsAsked(world.now, "job-1", (ExecutorRequest(0, world.job().job.size, 3),)))
    world.offer()
    world.decide()
    assert world.open_tasks() == ["job-1.0"]
    assert "gets no more executors" in world.job().reason
