"""VMs of pools that are emptied: executors move to VMs in use, where that saves dollars and nobody waits."""

from dataclasses import replace
from typing import Any

import pytest

from environment.model.messages import commands as cmd
from environment.model.messages import events as ev
from environment.model.messages.options import ModelOptions
from environment.model.messages.records import ExecutorRequest
from environment.pools import Consolidation, Terms
from environment.types import Dynamic, Job
from tests.builders import make_job
from tests.environment.model.walks.elastic_world import ElasticWorld, closes, places
from tests.environment.two_worlds.world import launched, names

FITTING = Consolidation("fitting")


def of(number: int, executors: int, **more: Any) -> Job:
    """A job of executors with one cpu, believed to take an hour."""
    job = make_job(f"job-{number}", executors, expected_duration=3600.0)
    return replace(job, **more)


def world(*jobs: Job, rule: Consolidation = FITTING) -> ElasticWorld:
    """Two VMs of four cpus; all jobs run, and then the first has ended."""
    found = ElasticWorld(options=ModelOptions(moves=rule))
    found.begin()
    found.submit(*jobs)
    found.decide()
    found.opened("general-1", "general-2")
    found.wait(60.0)
    found.boot("general-1", "general-2")
    for job in jobs:
        found.tell("running", *found.open_tasks(job.id))
        found.send(ev.DriverStarted(found.now, job.id))
    found.wait(60.0)
    found.driver_ends(jobs[0].id)
    found.tell("killed", *found.open_tasks(jobs[0].id))
    return found


def with_room() -> ElasticWorld:
    """Two executors of a job on two VMs; either would have room for both."""
    return world(of(1, 3), of(2, 2))


def seek(of_world: ElasticWorld) -> list[cmd.Command]:
    """The search that is due."""
    assert of_world.model.seeks_moves(of_world.now)
    return of_world.send(ev.MovesSought(of_world.now))


def test_a_vm_is_emptied_whose_executors_fit_on_others() -> None:
    """The replacement starts on the other VM, then the executor leaves, and the VM closes."""
    it = with_room()
    left = it.lease("general-1")
    assert [task.vm_name for task in it.model.tasks("job-2")] == ["general-1", "general-2"]
    commands = seek(it)
    assert [(each.job_id, each.numbers) for each in commands if isinstance(each, cmd.Decommission)] == [
        ("job-2", (0,))
    ]
    told = "is to end, once its blocks are elsewhere: its VM is being emptied, which saves $0.24 an hour"
    assert it.model.tasks("job-2")[0].message == told
    assert (left.state, it.model.view().left_out) == ("up", {})
    assert "general-1" not in launched(commands)
    commands = [*commands, *it.offer(*it.agents.values())]
    assert launched(commands) == {"general-2": ["job-2.2"]}
    it.tell("running", "job-2.2")
    assert not closes(it.wait(1.0))
    it.tell("finished", "job-2.0")
    assert not closes(it.wait(99.0))
    assert closes(it.wait(1.0)) == [left.id]
    assert it.job("job-2").state == "running"
    assert it.job("job-2").losses == 0
    # One more search finds nothing that is left to move.
    it.wait(15.0)
    assert "Decommission" not in names(seek(it))


def test_searches_are_made_every_15_seconds_and_only_with_the_rule() -> None:
    """The first at once."""
    it = with_room()
    seek(it)
    it.wait(14.0)
    assert not it.model.seeks_moves(it.now)
    it.wait(1.0)
    assert it.model.seeks_moves(it.now)
    without = world(of(1, 3), of(2, 2), rule=Consolidation())
    assert not without.model.seeks_moves(without.now)


@pytest.mark.parametrize(
    "more",
    [
        {"restartable": False},
        {"client_driver": "laptop"},
        {"expected_duration": 62.0},  # it is over sooner than the VM is drained
    ],
)
def test_executors_that_stay(more: dict[str, object]) -> None:
    """Those of a job that may not be stopped, of a driver that is not told, and those that end soon."""
    it = world(of(1, 3), of(2, 2, **more))
    assert "Decommission" not in names(seek(it))
    assert it.lease("general-1").state == "up"


def test_executors_do_not_move_to_a_vm_that_others_leave_soon() -> None:
    """It would be open for one executor then, as the other was, and at three times the price."""
    dear = places(1, Terms("high", boot=60.0), price=0.72)
    for seconds, moved in ((3600.0, True), (600.0, False)):
        it = ElasticWorld(pools=(*places(1), *dear), options=ModelOptions(moves=FITTING))
        it.begin()
        it.submit(of(1, 3), of(2, 1), of(3, 2, expected_duration=seconds, restartable=False))
        it.decide()
        it.opened("general-1", "high-1")
        it.wait(60.0)
        it.boot("general-1", "high-1")
        for job_id in ("job-1", "job-2", "job-3"):
            it.tell("running", *it.open_tasks(job_id))
            it.send(ev.DriverStarted(it.now, job_id))
        it.wait(60.0)
        it.driver_ends("job-1")
        it.tell("killed", *it.open_tasks("job-1"))
        assert ("Decommission" in names(seek(it))) is moved


def test_an_executor_of_unknown_duration_moves() -> None:
    """It may go on for long."""
    it = world(of(1, 3), of(2, 2, expected_duration=None))
    assert "Decommission" in names(seek(it))


def test_nothing_moves_while_a_job_waits() -> None:
    """It would use the room."""
    it = with_room()
    it.submit(of(3, 1))
    assert "Decommission" not in names(seek(it))


def test_nothing_moves_to_where_there_is_no_room() -> None:
    """The first VM has room for one executor, the second one has two."""
    it = world(of(1, 1), of(2, 5))
    assert "Decommission" not in names(seek(it))


def test_no_more_jvms_than_the_machine_carries() -> None:
    """The executor and its replacement run beside each other for a while."""
    for jvms in (2, 3):
        it = with_room()
        it.send(replace(it.model.snapshot(), options=replace(it.model.options, jvms=jvms)))
        assert ("Decommission" in names(seek(it))) is (jvms == 3)


def test_within_an_hour_at_most_so_many_are_moved() -> None:
    """Two executors would have to move from either VM, and one may."""
    it = world(of(1, 2), of(2, 4), rule=Consolidation("fitting", per_hour=1))
    assert "Decommission" not in names(seek(it))
    it = world(of(1, 2), of(2, 4), rule=Consolidation("fitting", per_hour=2))
    assert "Decommission" in names(seek(it))


def test_a_dynamic_job_gets_the_executor_that_it_gives_up_elsewhere() -> None:
    """Its driver wants two."""
    it = world(of(1, 3), of(2, 2, dynamic=Dynamic(min=1, initial=2)))
    it.send(ev.ExecutorsAsked(it.now, "job-2", (ExecutorRequest(0, make_job("job-2").size, 2),)))
    commands = [*seek(it), *it.offer(*it.agents.values())]
    assert "Decommission" in names(commands)
    assert launched(commands) == {"general-2": ["job-2.2"]}


def test_a_vm_that_is_being_emptied_is_used_as_any_other() -> None:
    """An executor is asked to leave once, however long its task goes on; a job that comes may be there."""
    it = with_room()
    seek(it)
    it.offer(*it.agents.values())
    it.tell("running", "job-2.2")
    it.wait(600.0)
    assert "Decommission" not in names(seek(it))
    it.submit(of(3, 1))
    it.offer(*it.agents.values())
    assert launched(it.decide()) == {"general-1": ["job-3.0"]}


def test_the_moves_of_an_hour_are_known_to_a_daemon_that_starts() -> None:
    """No second executor is moved before the hour is over."""
    it = world(of(1, 3), of(2, 2), rule=Consolidation("fitting", per_hour=1))
    seek(it)
    it.offer(*it.agents.values())
    it.tell("running", "job-2.2")
    it.tell("finished", "job-2.0")
    moment = it.model.snapshot()
    it.send(moment)
    assert it.model.snapshot().moment == moment.moment
    assert moment.moment is not None
    assert moment.moment.moves.moved == (220.0,)
