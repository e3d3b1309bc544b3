"""Preempted jobs in the cluster model: drained or stopped, with reservations and reasons."""

from dataclasses import replace
from typing import Any

import pytest

from environment.model.cluster_model import ClusterModel
from environment.model.event_log import decode, encode, replay
from environment.model.messages import commands as cmd
from environment.model.messages import events as ev
from environment.queues.preemption import HOLD, LOOK, TAKING_PATIENCE
from environment.queues.types import Queue, Sharing
from environment.resources import Resources
from environment.types import Dynamic, Job
from tests.builders import make_job, make_vms
from tests.environment.queues.holding import guaranteed, sharing
from tests.environment.two_worlds.world import World, killed, launched, names

PRIORITY = sharing("priority")


def job(job_id: str, executors: int = 1, cpus: float = 1.0, **more: Any) -> Job:
    """A job that has waited for a while when it comes."""
    return replace(make_job(job_id, executors, cpus, submitted_at=90.0), **more)


def shared(*running: Job, vms: int = 1, terms: Sharing = PRIORITY) -> World:
    """A cluster of VMs of 4 cpus where these run since 10 s."""
    world = World(make_vms(vms))
    world.send(ev.SharingChanged(world.now, terms))
    world.run(*running)
    world.wait(10.0)
    return world


def seek(world: World) -> list[cmd.Command]:
    """It is looked whether somebody gives way."""
    return world.send(ev.RoomSought(world.now))


def urgent(executors: int = 2, **more: Any) -> Job:
    """A job that goes before others."""
    return job("job-9", executors, **{"priority": 10, "queue": "prod", **more})


def test_an_elastic_job_gives_executors_and_both_say_so() -> None:
    """Its executors are drained; their resources are reserved for the taker, which launches once offered."""
    world = shared(job("job-1", 4, min_executors=1))
    world.submit(urgent())
    world.now += HOLD
    commands = seek(world)
    assert names(commands) == ["Decommission"]
    assert commands[0] == cmd.Decommission(commands[0].cause, "job-1", (0, 1))
    said = "gave 2 executors to job-9 of queue prod (priority 10), which cost"
    assert world.job("job-1").reason.startswith(f"runs on 2 executors; {said}")
    assert world.job("job-1").reason.endswith(" of its work; waits to have them again")
    reason = world.job("job-9").reason
    assert reason.startswith("takes 2 executors of job-1 (")
    assert reason.endswith("as its priority is higher; waits until that is released")
    assert world.job("job-1").state == "running"
    world.submit(job("job-10", 1, priority=99))
    world.tell("finished", "job-1.0")
    world.offer()
    assert not world.model.view().free_cpus.any(), "what is free is kept for job-9"
    world.decide()
    assert world.job("job-10").state == "queued"
    world.tell("finished", "job-1.1")
    assert launched(world.offer()) == {"vm-1": ["job-9.0", "job-9.1"]}
    assert world.job("job-9").state == "placing"
    assert world.job("job-1").reason.startswith("runs on 2 executors; gave 2 executors to job-9")
    assert [(gave.to, gave.executors, gave.whole) for gave in world.job("job-1").gave] == [
        ("job-9", 2, False)
    ]
    assert [(took.of, took.executors) for took in world.job("job-9").took] == [("job-1", 2)]
    check_replay(world)


def check_replay(world: World) -> None:
    """The log gives the same commands again, through text, and from a snapshot."""
    model = ClusterModel()
    for event, commands in replay(world.lines()):
        assert model.handle(event) == commands
    assert model.snapshot() == world.model.snapshot()
    again = ClusterModel()
    restored = decode(encode(model.snapshot()))
    assert isinstance(restored, ev.Restored)
    again.handle(restored)
    assert again.snapshot() == model.snapshot()


def test_a_whole_job_is_stopped_and_waits_in_its_place_again() -> None:
    """Its driver ends first; nothing is counted as a retry; then it begins anew, with its old place."""
    world = shared(job("job-1", 4, retries=1))
    world.submit(job("job-2", 4), urgent(4))
    world.now += HOLD
    # job-9 is not the first by the time at which it came, but the first of those who wait is asked for.
    world.kill("job-2")
    commands = seek(world)
    assert names(commands) == ["YieldDriver", "Suppress"]
    assert world.job("job-1").reason.startswith(
        "was stopped for job-9 of queue prod (priority 10), which cost"
    )
    commands = world.send(ev.DriverEnded(world.now, "job-1", None, requeue=True))
    assert sorted(killed(commands)) == [f"job-1.{n}" for n in range(4)]
    world.submit(job("job-3"))
    world.tell("killed", *(f"job-1.{n}" for n in range(4)))
    assert (world.job("job-1").state, world.job("job-1").retried) == ("queued", 0)
    (attempt,) = world.job("job-1").attempts
    assert attempt.fault == "infrastructure"
    assert attempt.why.startswith("was stopped for job-9 of queue prod")
    assert attempt.began is not None
    assert world.job("job-1").free_retries == 0
    assert [request.job.id for request in world.model.requests()] == ["job-1", "job-3"]
    assert launched(world.offer()) == {"vm-1": [f"job-9.{n}" for n in range(4)]}
    assert world.job("job-1").reason.startswith("was stopped for job-9")
    world.tell("running", *world.open_tasks("job-9"))
    world.driver_ends("job-9")
    world.tell("killed", *world.open_tasks("job-9"))
    world.offer()
    world.decide()
    assert world.job("job-1").state == "placing"
    world.tell("running", *world.open_tasks("job-1"))
    world.driver_ends("job-1")
    assert world.job("job-1").state == "finished"
    check_replay(world)


def test_a_driver_on_the_cluster_is_ended_with_its_executors() -> None:
    """And one that finishes meanwhile has finished."""
    for state, after in (("killed", "queued"), ("finished", "finished")):
        world = World(make_vms(1))
        world.send(ev.SharingChanged(world.now, PRIORITY))
        world.subscribe()
        world.submit(job("job-1", 3, driver=Resources.of(1.0, 1024)))
        world.offer()
        world.decide()
        world.tell("running", *world.open_tasks("job-1"))
        world.wait(10.0)
        world.submit(urgent(4))
        world.now += HOLD
        tasks = world.open_tasks("job-1")
        assert sorted(killed(seek(world))) == sorted(tasks)
        driver = next(task for task in tasks if "driver" in task)
        world.tell(state, driver)  # type: ignore[arg-type]
        world.tell("killed", *(task for task in tasks if task != driver))
        if after == "queued":
            assert [attempt.fault for attempt in world.job("job-1").attempts] == ["infrastructure"]
        assert world.job("job-1").state == after if after == "queued" else world.model.job("job-1")
        assert launched(world.offer()) == {"vm-1": [f"job-9.{n}" for n in range(4)]}


def test_dynamic_jobs_give_what_they_have_beyond_their_min() -> None:
    """Their drivers want as many as before, and wait for their turn to have them."""
    world = shared(job("job-1", 4, dynamic=Dynamic(2, 4)))
    world.submit(urgent(3))
    world.now += HOLD
    assert names(seek(world))[:1] == ["YieldDriver"], "three it cannot give, but all of itself"
    world = shared(job("job-1", 4, dynamic=Dynamic(2, 4)))
    world.submit(urgent(2))
    world.now += HOLD
    assert names(seek(world))[:1] == ["Decommission"]
    world.tell("finished", "job-1.0", "job-1.1")
    assert launched(world.offer()) == {"vm-1": ["job-9.0", "job-9.1"]}
    assert not world.model.requests(), "it asks for more after the pause"
    world.wait(60.0)
    assert [request.job.id for request in world.model.requests()] == ["job-1"]


@pytest.mark.parametrize(("seconds", "when"), [(HOLD / 2, "before the hold"), (HOLD, "by nobody")])
def test_not_before_it_has_waited_nor_where_it_is_off(seconds: float, when: str) -> None:
    """Nor from a job that gave way a moment ago, however high the next priority is."""
    terms = PRIORITY if when == "before the hold" else sharing()
    world = shared(job("job-1", 4, min_executors=1), terms=terms)
    world.submit(replace(urgent(), submitted_at=world.now))
    world.now += seconds
    assert seek(world) == []
    assert world.model.seeks_room(world.now + LOOK) == (when == "before the hold")


def test_nobody_gives_twice_within_the_pause() -> None:
    """A job yields again only after the pause, to another, and never to one that would yield to it."""
    world = shared(job("job-1", 4, min_executors=1))
    world.submit(urgent(1), job("job-10", 1, priority=11))
    world.now += HOLD
    assert names(seek(world))[:1] == ["Decommission"]
    world.now += LOOK
    assert seek(world) == []
    world.now += 60.0
    assert names(seek(world))[:1] == ["Decommission"]


def test_what_is_not_given_in_time_is_not_waited_for() -> None:
    """The taker waits in its place as before, with the reason; resources freed later are for any job."""
    world = shared(job("job-1", 4, min_executors=1))
    world.submit(urgent())
    world.now += HOLD
    seek(world)
    world.wait(TAKING_PATIENCE)
    assert "were not released within 180 s" in world.job("job-9").took[0].given_up
    assert [request.job.id for request in world.model.requests()] == ["job-9"]
    world.tell("finished", "job-1.0")
    world.submit(job("job-10"))
    world.offer()
    assert world.model.view().free_cpus.tolist() == [1.0]
    check_replay(world)


def test_a_taker_that_is_killed_takes_nothing() -> None:
    """The resources to be freed are available to others."""
    world = shared(job("job-1", 4, min_executors=1))
    world.submit(urgent())
    world.now += HOLD
    seek(world)
    world.kill("job-9")
    assert world.kept().jobs[-1].took[0].given_up == "killed on request"
    world.tell("finished", "job-1.0", "job-1.1")
    world.offer()
    assert world.model.view().free_cpus.tolist() == [2.0]
    assert not world.model._parts.preempting


def test_a_daemon_that_starts_anew_goes_on() -> None:
    """Victims are stopped again; the taker waits in its place, and preempts again if it must."""
    world = shared(job("job-1", 4))
    world.submit(urgent(4))
    world.now += HOLD
    seek(world)
    kept = world.kept()
    again = World(world.vms)
    again.now = world.now
    assert "YieldDriver" in names(again.restore(kept))
    again.send(ev.SharingChanged(again.now, PRIORITY))
    again.subscribe()
    again.send(ev.DriverEnded(again.now, "job-1", None, requeue=True))
    again.tell("killed", *again.open_tasks("job-1"))
    assert {request.job.id for request in again.model.requests()} == {"job-1", "job-9"}
    assert again.job("job-1").gave[0].to == "job-9"


def test_who_was_to_stop_is_told_again_though_executors_went_before_their_driver() -> None:
    """A driver that ends takes its executors along: that they are missing asks for no others."""
    world = shared(job("job-1", 4))
    world.submit(urgent(4))
    world.now += HOLD
    seek(world)
    told = world.job("job-1").reason
    world.tell("failed", "job-1.0", "job-1.1")
    world.now += HOLD
    assert (world.job("job-1").reason, *world.model.requests()) == (told,)
    again = World(world.vms)
    again.now = world.now
    assert "YieldDriver" in names(again.restore(world.kept()))
    again.send(ev.SharingChanged(again.now, PRIORITY))
    again.subscribe()
    again.now += HOLD
    assert "job-1" not in {request.job.id for request in again.model.requests()}
    again.send(ev.DriverEnded(again.now, "job-1", None, requeue=True))
    again.tell("killed", *again.open_tasks("job-1"))
    assert {request.job.id for request in again.model.requests()} == {"job-1", "job-9"}


def test_what_is_lent_comes_back_in_a_stated_time() -> None:
    """Others use a queue's guarantee as long as it has no use for it, and then it is its own again.

    It comes back within the hold, a look, and the drain time; the giver is left alone for a pause.
    """
    queues = [guaranteed("prod", 3.0), Queue("lab")]
    world = shared(job("job-1", 4, min_executors=1, queue="lab"), terms=sharing("guarantee", queues=queues))
    assert len(world.open_tasks("job-1")) == 4, "all of it is lent"
    world.submit(replace(job("job-9", 3, queue="prod"), submitted_at=world.now))
    came = world.now
    while not (commands := seek(world) if world.model.seeks_room(world.now) else []):
        world.wait(0.2)
    drained = [f"job-1.{number}" for number in commands[0].numbers]  # type: ignore[attr-defined]
    world.wait(20.0)  # as long as it takes to move their blocks
    world.tell("finished", *drained)
    assert launched(world.offer()) == {"vm-1": [f"job-9.{n}" for n in range(3)]}
    assert world.now - came <= HOLD + LOOK + 20.0


@pytest.mark.parametrize("ahead", [0, 1, 2, 3])
def test_what_is_lent_comes_back_whoever_is_ahead(ahead: int) -> None:
    """Jobs of another queue above its guarantee do not hide a job of a queue below its own."""
    terms = sharing("guarantee", queues=[guaranteed("prod", 2.0), guaranteed("etl", 2.0), Queue("lab")])
    lent = job("job-1", 4, min_executors=1, queue="lab")
    world = shared(lent, job("job-2", 4, queue="prod"), vms=2, terms=replace(terms, order=("priority",)))
    others = [job(f"job-{3 + number}", 4, queue="prod", priority=10) for number in range(ahead)]
    world.submit(*others, job("job-9", 2, queue="etl"))
    world.now += HOLD
    assert [request.job.id for request in world.model.requests()][-1] == "job-9"
    assert names(seek(world)) == ["Decommission"]
    assert [took.of for took in world.job("job-9").took] == ["job-1"]


def test_who_was_stopped_says_so_as_long_as_it_waits() -> None:
    """A stopped job reports it after its current reason to wait, until it runs."""
    world = shared(job("job-1", 4))
    world.submit(urgent(4))
    world.now += HOLD
    seek(world)
    world.send(ev.DriverEnded(world.now, "job-1", None, requeue=True))
    world.tell("killed", *world.open_tasks("job-1"))
    world.offer()
    world.send(ev.Decided(world.now, (), ev.Waiting("job-1", "there is no room")))
    assert world.job("job-1").reason.startswith("there is no room; was stopped for job-9 of queue prod")
    world.kill("job-9")
    world.tell("killed", *world.open_tasks("job-9"))
    world.offer()
    world.decide()
    assert world.job("job-1").reason == "its executors are being launched"


def test_who_waits_says_why_nothing_is_taken_for_it() -> None:
    """The waiting job reports it after its policy's reason, as long as that is so."""
    world = shared(job("job-1", 4, priority=10))
    world.submit(urgent(4))
    world.now += HOLD
    assert seek(world) == []
    world.offer()
    world.send(ev.Decided(world.now, (), ev.Waiting("job-9", "there is no room")))
    why = "no job that may be preempted has a lower priority than 10"
    said = f"there is no room; no job is preempted for it: {why}"
    assert world.job("job-9").reason == said
    check_replay(world)


def test_who_was_held_has_just_come_when_it_is_let_go() -> None:
    """Others give way for it when it has waited for its turn for so long, and not since its submission."""
    world = shared(job("job-1", 4))
    world.submit(replace(urgent(2), start_at=world.now + 2 * HOLD))
    world.now += 2 * HOLD
    world.wait(1.0)
    assert [request.job.id for request in world.model.requests()] == ["job-9"]
    assert not seek(world)
    world.now += HOLD
    assert names(seek(world))[:1] == ["YieldDriver"]


def test_nobody_takes_from_whom_took_from_it() -> None:
    """Though its queue is guaranteed more by now; from others it would."""
    for gave in (True, False):
        world = shared(job("job-1", 4, dynamic=Dynamic(2, 4), queue="lab"))
        world.submit(urgent(2))
        world.now += HOLD
        seek(world)
        world.tell("finished", "job-1.0", "job-1.1")
        world.offer()
        world.tell("running", *world.open_tasks("job-9"))
        terms = sharing("priority", "guarantee", queues=[guaranteed("lab", 4.0), Queue("prod")])
        world.send(ev.SharingChanged(world.now, terms))
        if not gave:
            world.job("job-1").gave = ()
        world.wait(61.0)
        assert [request.job.id for request in world.model.requests()] == ["job-1"]
        assert ("YieldDriver" in names(seek(world))) == (not gave)


def test_who_is_to_stop_asks_for_no_more_and_says_why() -> None:
    """Though an executor of it ends, or starts, before its driver does."""
    world = shared(job("job-1", 4, min_executors=1))
    world.submit(urgent(1))
    world.now += HOLD
    seek(world)
    world.tell("finished", "job-1.0")
    world.offer()
    world.tell("running", *world.open_tasks("job-9"))
    world.wait(61.0)
    world.submit(replace(job("job-10", 3, priority=11), submitted_at=0.0))
    assert names(seek(world))[0] == "YieldDriver"
    told = world.job("job-1").reason
    assert told.startswith("was stopped for job-10")
    world.driver_ends("job-9")
    world.tell("killed", *world.open_tasks("job-9"))
    world.tell("finished", "job-1.1")
    assert not world.model.requests()
    assert world.job("job-1").reason == told
    world.send(ev.DriverEnded(world.now, "job-1", None, requeue=True))
    world.tell("killed", *world.open_tasks("job-1"))
    assert (world.job("job-1").state, world.job("job-1").reason) == ("queued", told)


def test_what_comes_free_in_parts_goes_to_nobody_else_until_all_is_there() -> None:
    """The stopped jobs are smaller than the taker, and none starts in a freed part (twosigma/Cook#412)."""
    small = [f"job-{n}" for n in range(1, 5)]
    world = shared(*(job(one) for one in small))
    world.submit(job("job-9", 1, 4.0, priority=10, queue="prod"))
    world.now += HOLD
    assert names(seek(world)).count("YieldDriver") == 4
    for one in small:
        assert world.job("job-9").state == "queued"
        world.send(ev.DriverEnded(world.now, one, None, requeue=True))
        world.tell("killed", *world.open_tasks(one))
        world.offer()
        world.decide()
        assert not [
            other for other in small if world.open_tasks(other) and world.job(other).state == "placing"
        ]
        assert "YieldDriver" not in names(seek(world)), "nothing is taken twice"
    assert [world.job(one).state for one in small] == ["queued"] * 4
    world.offer()
    assert world.job("job-9").state == "placing"
    assert [took.executors for took in world.job("job-9").took] == [1] * 4
    check_replay(world)


def test_nothing_is_taken_for_who_has_begun() -> None:
    """As in twosigma/Cook#412: room came by itself before it was looked for; nobody is stopped."""
    world = shared(job("job-1", 2), job("job-2", 2))
    world.submit(urgent(2))
    world.now += HOLD
    world.driver_ends("job-1")
    world.tell("killed", *world.open_tasks("job-1"))
    world.offer()
    world.decide()
    assert world.job("job-9").state == "placing"
    assert not {"YieldDriver", "Decommission"} & set(names(seek(world)))
    assert world.job("job-2").gave == ()
    check_replay(world)
