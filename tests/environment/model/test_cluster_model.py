"""The cluster model in short timelines: events, and the commands that follow."""

import math
from dataclasses import replace

import pytest

from conf.util.backoff import Backoff
from environment.model.cluster_model import ClusterModel, ModelOptions
from environment.model.messages import commands as cmd
from environment.model.messages import events as ev
from environment.model.messages import options, task_states
from environment.model.messages.records import JobRecord
from environment.model.messages.snapshot import VmSize
from environment.resources import Resources
from tests.builders import make_job, make_offer, make_vm, make_vms
from tests.environment.two_worlds.world import World, costs, killed, launched, names

VMS = make_vms(3, cpus=4)
ONE, TWO, THREE = VMS


@pytest.fixture
def world() -> World:
    """Three VMs of four cpus."""
    return World(VMS)


def test_a_job_from_submission_to_its_end(world: World) -> None:
    """The whole life: offers are asked for, executors launched, the driver started, all cleaned up."""
    assert names(world.subscribe()) == ["Reconcile", "Suppress"]
    assert names(world.submit(make_job(executors=6))) == ["Revive"]
    assert not world.model.ready_to_decide()
    world.offer()
    assert world.model.ready_to_decide()
    commands = world.decide()
    assert launched(commands) == {
        "vm-1": ["job-1.0", "job-1.1", "job-1.2", "job-1.3"],
        "vm-2": ["job-1.4", "job-1.5"],
    }
    # The third VM's offer is not needed: the queue is empty.
    assert names(commands) == ["Launch", "Launch", "Decline", "Suppress"]
    assert world.job().state == "placing"
    world.tell("starting", "job-1.0")
    assert world.job().state == "starting"
    tasks = world.open_tasks()
    assert world.tell("running", *tasks[:-1]) == []
    assert names(world.tell("running", tasks[-1])) == ["StartDriver"]
    assert world.job().state == "running"
    world.send(ev.DriverStarted(world.now, "job-1"))
    world.now += 60
    assert killed(world.driver_ends("job-1")) == tasks
    assert (world.job().state, world.job().reason) == ("finished", "its driver exited with code 0")
    world.tell("killed", *tasks)
    # Two VMs at 0.24 dollars an hour for a minute.
    assert math.isclose(world.job().cost, 2 * 0.24 / 60)
    changes = world.model.take_changes()
    assert [job.state for job in changes.jobs] == ["finished"]
    assert {task.state for task in changes.executors} == {"killed"}
    assert world.model.job("job-1") is None
    assert world.model.tasks("job-1") == ()


def test_a_driver_of_its_users_is_neither_started_nor_ended(world: World) -> None:
    """It is there already: its job runs when its executors do, and ends when that is told of its driver."""
    world.subscribe()
    world.submit(*(replace(make_job(job_id, 2), client_driver="lap") for job_id in ("left", "killed")))
    world.offer()
    world.decide()
    for job_id in ("left", "killed"):
        assert world.tell("running", *world.open_tasks(job_id)) == []
        assert (world.job(job_id).state, world.job(job_id).driver_on) == ("running", "")
    assert names(world.send(ev.DriverEnded(world.now, "left", 0, "it said goodbye"))) == ["KillTask"] * 2
    assert (world.job("left").state, world.job("left").reason) == ("finished", "it said goodbye")
    assert names(world.kill("killed")) == ["KillTask"] * 2
    world.submit(replace(make_job("unsaid", 2), client_driver="lap"))
    world.send(ev.DriverEnded(world.now, "unsaid", None, "nobody knows", state="finished"))
    assert (world.job("unsaid").state, world.job("unsaid").exit_code) == ("finished", None)


def test_a_driver_that_its_host_could_not_start_is_waited_for(world: World) -> None:
    """The job's reason says so; nothing is charged to it, and nothing done, until its driver has ended."""
    world.subscribe()
    world.submit(make_job())
    world.offer()
    world.decide()
    tasks = world.open_tasks()
    world.tell("running", *tasks)
    assert world.send(ev.DriverDelayed(world.now, "job-1", "no room; try 2 follows in 1 s")) == []
    assert (world.job().state, world.job().reason) == ("running", "no room; try 2 follows in 1 s")
    assert world.job().failures == 0
    world.send(ev.DriverStarted(world.now, "job-1"))
    assert world.job().reason == "its driver runs"
    assert killed(world.driver_ends("job-1")) == tasks
    world.send(ev.DriverDelayed(world.now, "job-1", "too late"))
    assert world.job().reason == "its driver exited with code 0"


def test_commands_name_their_cause(world: World) -> None:
    """Each command carries the number of the event that led to it."""
    world.run(make_job())
    causes = [[command.cause for command in commands] for _, commands in world.log]
    assert causes == [[1, 1], [2], [], [4, 4, 4], [5], []]


def test_first_come_first_served(world: World) -> None:
    """A job that fits does not overtake one that does not, and each has its reason."""
    world.subscribe()
    world.submit(make_job("a", 1), make_job("b", 13), make_job("c", 1))
    world.offer()
    assert list(launched(world.decide()).values()) == [["a.0"]]
    assert [request.job.id for request in world.model.requests()] == ["b", "c"]
    assert world.job("b").reason.startswith("room for 11 of 13 executors")
    assert world.job("c").reason == "waits for its turn"


def test_what_is_submitted_is_stored_as_it_is_and_not_again(world: World) -> None:
    """Hundreds of jobs may come in a second, each in the store before the model knows of it."""
    world.submit(make_job())
    assert world.model.take_changes().jobs == ()
    assert world.job() == JobRecord(make_job())


def test_a_job_submitted_twice_is_one_job(world: World) -> None:
    """The second event about the same job changes nothing."""
    world.subscribe()
    world.submit(make_job())
    assert world.submit(make_job()) == []
    assert len(world.model.requests()) == 1


def test_offers_are_declined_when_the_head_waits_and_asked_for_when_a_task_ends(world: World) -> None:
    """A waiting queue hoards nothing; the end of any task is a reason to ask again."""
    world.run(make_job("a", 8))
    world.submit(make_job("b", 8))
    world.offer(THREE)
    commands = world.decide()
    assert names(commands) == ["Decline"]
    assert world.job("b").reason == "room for 4 of 8 executors of 1 cpu and 1024 MiB; of 3 VMs, 2 lack cpus"
    world.now += 10
    world.driver_ends("a")
    assert names(world.tell("finished", "a.0")) == ["Revive"]
    # Further calls for offers keep a pause.
    assert names(world.tell("finished", "a.1")) == []
    assert names(world.wait(1.0)) == ["Revive"]


def test_the_reason_to_wait_is_kept_while_no_offers_are_held(world: World) -> None:
    """The policy's reason stays when there are no offers because they were declined for it."""
    world.subscribe()
    world.submit(make_job("a", 13))
    world.offer()
    world.decide()
    world.wait(3)
    assert world.job("a").reason.startswith("room for 12 of 13 executors")


def test_a_call_for_offers_that_was_lost_is_repeated(world: World) -> None:
    """Nothing was offered for half a minute while somebody waits: the master is asked again, and again."""
    world.subscribe()
    assert names(world.submit(make_job())) == ["Revive"]
    asked = [count for count in range(1, 100) if "Revive" in names(world.wait(1))]
    assert asked == [31, 62, 93]


def test_a_new_job_is_a_reason_to_ask_for_offers(world: World) -> None:
    """The first one waits and its offers were declined; a policy may still place the new one at once."""
    world.subscribe()
    world.submit(make_job("a", 13))
    world.offer()
    world.decide()
    world.now += 1
    assert names(world.submit(make_job("b", 1))) == ["Revive"]
    assert names(world.submit(make_job("c", 1))) == []
    assert names(world.wait(1)) == ["Revive"]


def test_a_job_that_runs_for_too_long_fails(world: World) -> None:
    """Its time counts from when all its executors ran; it ends with driver and executors, master or not."""
    world.run(replace(make_job(), max_runtime=60.0), make_job("job-2"))
    world.send(ev.Disconnected(world.now))
    world.wait(60.0)
    assert world.job().state == "running"
    commands = world.wait(1.0)
    assert names(commands) == ["KillDriver", "KillTask"]
    assert (world.job().state, world.job().exit_code) == ("failed", None)
    assert world.job().reason == "it ran for longer than its max_runtime, 60 s"
    assert world.job("job-2").state == "running"


def test_silence_of_the_master_is_no_loss(world: World) -> None:
    """Tasks unreachable when the master disconnected are awaited anew when it is back."""
    world.run(make_job(executors=2))
    world.tell("unreachable", "job-1.0")
    world.send(ev.Disconnected(world.now))
    assert world.wait(300) == []
    world.subscribe()
    world.wait(30)
    assert len(world.open_tasks()) == 2
    assert killed(world.wait(31)) == ["job-1.0"]


def test_silence_has_a_reason(world: World) -> None:
    """Without a master, or without offers, the head of the queue says so; it never waits for no reason."""
    world.submit(make_job())
    world.wait(1)
    assert world.job().reason == "the Mesos master is not connected"
    world.subscribe()
    world.wait(2)
    assert world.job().reason.startswith("the master offers no resources now")


def test_killing_the_head_lets_the_next_be_decided(world: World) -> None:
    """When the waiting head is killed, offers are asked for at once for the next one."""
    world.subscribe()
    world.submit(make_job("a", 13), make_job("b", 1))
    world.offer()
    world.decide()
    world.now += 1
    assert names(world.kill("a")) == ["Revive"]
    assert (world.job("a").state, world.job("a").reason) == ("killed", "killed on request")
    world.offer()
    assert launched(world.decide()) == {"vm-1": ["b.0"]}


def test_killing_a_running_job_ends_driver_and_executors(world: World) -> None:
    """The driver is stopped and each task killed; their ends are no losses."""
    world.run(make_job(executors=2))
    commands = world.kill("job-1")
    assert names(commands) == ["KillDriver", "KillTask", "KillTask"]
    world.tell("killed", "job-1.0", "job-1.1")
    assert (world.job().state, world.job().losses) == ("killed", 0)
    assert world.kill("job-1") == []
    assert world.kill("no-such-job") == []


def test_killing_a_starting_job_starts_no_driver(world: World) -> None:
    """A late word that executors run does not start the driver of a killed job."""
    world.subscribe()
    world.submit(make_job())
    world.offer()
    world.decide()
    assert names(world.kill("job-1")) == ["KillTask"]
    assert world.tell("running", "job-1.0") == []
    world.tell("killed", "job-1.0")
    assert world.job().state == "killed"


def test_a_failed_driver_fails_the_job_and_needs_no_kill(world: World) -> None:
    """The exit code is kept; the driver is gone already, its executors are killed."""
    world.run(make_job())
    assert names(world.driver_ends("job-1", 3)) == ["KillTask"]
    assert (world.job().state, world.job().exit_code) == ("failed", 3)
    assert world.job().reason == "its driver exited with code 3"
    assert world.driver_ends("job-1", 0) == []


def test_an_error_comes_before_how_its_driver_ended(world: World) -> None:
    """In the reason, which pages, lists, groups, events and webhooks show, and of earlier attempts."""
    world.run(make_job())
    world.driver_ends("job-1", 1, "its driver exited with code 1: ValueError: no")
    assert world.job().reason == "ValueError: no (its driver exited with code 1)"
    assert world.job().attempts[0].why == world.job().reason


def test_a_driver_that_failed_with_its_executor_has_the_executors_own_error(world: World) -> None:
    """Before the driver's, which only names the executor; also of one that was replaced meanwhile."""
    world.run(make_job(executors=2))
    why = "org.a.SparkException: Job aborted: ExecutorLostFailure (executor 1 exited caused by its tasks)"
    world.tell("failed", "job-1.1", message="Command exited with status 52 (the heap): a.OutOfMemoryError: x")
    world.driver_ends("job-1", 1, f"its driver exited with code 1: {why}")
    assert world.job().reason == (
        "a.OutOfMemoryError: x (executor 1 on vm-1 ended: Command exited with status 52 (the heap)); "
        f"{why} (its driver exited with code 1)"
    )


def test_an_executor_that_is_not_known_to_have_failed_explains_no_driver(world: World) -> None:
    """Its end may be heard of later, or it ran on; the driver's reason stands alone."""
    world.run(make_job(executors=2))
    why = "a.B: Job aborted: ExecutorLostFailure (executor 1 exited caused by its tasks)"
    world.tell("failed", "job-1.0", message="Command exited with status 3")
    world.driver_ends("job-1", 1, f"its driver exited with code 1: {why}")
    assert world.job().reason == f"{why} (its driver exited with code 1)"


def test_a_lost_executor_is_placed_again_under_a_new_number(world: World) -> None:
    """Only the lost one is requested after a pause, beside those still there; the driver goes on."""
    world.run(make_job(executors=2))
    assert world.tell("failed", "job-1.1", message="exit code 137") == []
    assert world.job().state == "relaunching"
    assert world.job().reason == "executor 1 on vm-1 was lost (exit code 137); it is placed again"
    assert world.model.requests() == ()
    assert names(world.wait(3)) == ["Revive"]
    (request,) = world.model.requests()
    assert (request.count, request.present_on) == (1, (ONE.id,))
    world.offer()
    assert launched(world.decide()) == {"vm-1": ["job-1.2"]}
    assert world.model.requests() == ()
    assert world.tell("running", "job-1.2") == []
    assert (world.job().state, world.job().reason) == ("running", "all its executors run again")


def test_a_second_loss_while_the_first_is_decided_is_not_forgotten(world: World) -> None:
    """A decision about one lost executor is refused when two are lost by then, and made again."""
    world.run(make_job(executors=3))
    world.tell("lost", "job-1.0")
    world.wait(3)
    world.offer()
    world.tell("lost", "job-1.1")
    assert launched(world.place("job-1", ONE)) == {}
    assert world.job().reason == "decided again, since 2 of its executors are to be placed and not 1"
    assert launched(world.place("job-1", ONE, TWO)) == {"vm-1": ["job-1.3"], "vm-2": ["job-1.4"]}


def test_lost_executors_come_before_new_jobs(world: World) -> None:
    """A running job gets its executor back before the queue goes on."""
    world.run(make_job("a", 2))
    world.submit(make_job("b", 1))
    world.tell("lost", "a.0")
    world.wait(3)
    assert [request.job.id for request in world.model.requests()] == ["a", "b"]


def test_an_executor_that_finishes_is_not_placed_again(world: World) -> None:
    """Exit code 0 means that its driver told it to stop."""
    world.run(make_job(executors=2))
    world.tell("finished", "job-1.0")
    world.wait(5)
    assert (world.job().state, world.model.requests()) == ("running", ())
    world.tell("lost", "job-1.1")
    world.wait(5)
    assert [request.count for request in world.model.requests()] == [1]


def test_executors_that_end_with_their_driver_are_no_loss(world: World) -> None:
    """They exit with an error just before the driver's end is seen: nothing is launched again."""
    world.run(make_job(executors=2))
    world.tell("failed", "job-1.0", "job-1.1")
    world.driver_ends("job-1")
    world.wait(5)
    assert (world.job().state, world.model.requests()) == ("finished", ())


def test_too_many_losses_fail_the_job(world: World) -> None:
    """After more losses than Spark's own rule allows the job ends, with driver and executors."""
    world.run(make_job(executors=1))
    for number in range(4):
        assert world.job().state != "failed"
        commands = world.tell("failed", f"job-1.{number}", message="no space left")
        world.wait(31)
        if number < 3:
            world.offer()
            world.decide()
            world.tell("running", f"job-1.{number + 1}")
    assert names(commands) == ["KillDriver"]
    assert world.job().reason == "lost 4 executors; the last, executor 3: no space left"


@pytest.mark.parametrize("state", ["lost", "gone", "gone_by_operator"])
def test_what_the_cluster_loses_is_not_counted_against_the_job(
    world: World, state: task_states.TaskState
) -> None:
    """However many VMs go away under a job, its executors are placed again; the count is shown."""
    world.run(make_job(executors=1))
    for number in range(10):
        world.tell(state, f"job-1.{number}")
        world.wait(3)
        world.offer()
        world.decide()
        world.tell("running", f"job-1.{number + 1}")
    assert (world.job().state, world.job().losses, world.job().failures) == ("running", 10, 0)


def test_one_executor_dropped_undoes_the_whole_launch(world: World) -> None:
    """All or none: its siblings are killed, and when they are gone the job waits in its place again."""
    world.subscribe()
    world.submit(make_job("a", 3), make_job("b", 13))
    world.offer()
    world.decide()
    world.tell("starting", "a.0")
    commands = world.tell("dropped", "a.1", message="offer rescinded")
    assert killed(commands) == ["a.0", "a.2"]
    said = "executor 1 could not be started on vm-1: offer rescinded; it is placed again"
    assert world.job("a").reason == said
    assert [request.job.id for request in world.model.requests()] == ["b"]
    world.tell("killed", "a.0")
    world.tell("dropped", "a.2")
    assert [request.job.id for request in world.model.requests()] == ["a", "b"]
    assert (world.job("a").state, world.job("a").losses) == ("queued", 0)
    world.wait(1)
    world.offer()
    assert launched(world.decide()) == {"vm-2": ["a.3", "a.4", "a.5"]}


def test_a_word_from_a_sibling_does_not_hide_why_a_launch_is_undone(world: World) -> None:
    """While the launch is undone, running siblings neither start the job nor change its reason."""
    world.subscribe()
    world.submit(make_job("a", 2))
    world.offer()
    world.decide()
    world.tell("dropped", "a.0", message="no such agent")
    assert world.tell("running", "a.1") == []
    said = "executor 0 could not be started on vm-1: no such agent; it is placed again"
    assert world.job("a").reason == said


def test_launches_that_the_master_calls_wrong_do_not_repeat_for_ever(world: World) -> None:
    """A task that Mesos refuses as invalid counts as a loss, so that the job fails in the end."""
    world.subscribe()
    world.submit(make_job(executors=1))
    rounds = 0
    while not world.job().ended and rounds < 10:
        rounds += 1
        world.wait(2)
        world.offer()
        world.decide()
        world.tell("error", *world.open_tasks(), message="no such user")
    assert (rounds, world.job().state) == (4, "failed")


def test_requeued_jobs_keep_their_place_among_jobs_of_one_moment(world: World) -> None:
    """Of three jobs submitted at the same time, the first is first again after its launch failed."""
    world.subscribe()
    world.submit(*(make_job(name, 9) for name in ("b", "a", "c")))
    world.offer()
    world.decide()
    world.wait(3)
    world.tell("dropped", *world.open_tasks("b"))
    assert [request.job.id for request in world.model.requests()] == ["b", "a", "c"]
    assert (world.job("b").waits_since, world.job("a").waits_since) == (world.now, world.job("a").entered_at)
    assert world.job("b").entered_at < world.now


def test_a_job_killed_while_its_launch_is_undone_stays_killed(world: World) -> None:
    """Its last executor's end does not put it back into the queue."""
    world.subscribe()
    world.submit(make_job(executors=2))
    world.offer()
    world.decide()
    world.tell("dropped", "job-1.0")
    world.kill("job-1")
    world.tell("killed", "job-1.1")
    assert (world.job().state, world.model.requests()) == ("killed", ())


def test_rescinded_offers_are_not_used(world: World) -> None:
    """A decision on an offer that was taken back launches nothing, not half a gang; it is made again."""
    world.subscribe()
    world.submit(make_job("a", 2), make_job("b", 1))
    world.offer()
    world.now += 1
    world.send(ev.OfferRescinded(world.now, "offer-2"))
    both = (ev.Placement("a", (ONE.id, TWO.id)), ev.Placement("b", (THREE.id,)))
    commands = world.send(ev.Decided(world.now, both))
    assert names(commands) == []
    assert names(world.wait(1)) == ["Revive"]
    assert [request.job.id for request in world.model.requests()] == ["a", "b"]
    assert world.job("a").reason.startswith("decided again, since the master rescinded")
    assert launched(world.place("a", ONE, THREE)) == {"vm-1": ["a.0"], "vm-3": ["a.1"]}


def test_jobs_placed_before_a_refused_one_are_launched(world: World) -> None:
    """Only the refused job and those behind it are decided again."""
    world.subscribe()
    world.submit(make_job("a", 1), make_job("b", 4), make_job("c", 1))
    world.offer()
    world.send(ev.VmLost(world.now, TWO.id))
    placements = [ev.Placement("a", (ONE.id,)), ev.Placement("b", (TWO.id,) * 4)]
    commands = world.send(ev.Decided(world.now, (*placements, ev.Placement("c", (THREE.id,)))))
    assert launched(commands) == {"vm-1": ["a.0"]}
    assert [request.job.id for request in world.model.requests()] == ["b", "c"]


def test_jobs_are_placed_in_the_order_of_the_decision(world: World) -> None:
    """Later jobs may overtake; the first keeps its place and its reason, also while time goes by."""
    world.subscribe()
    world.submit(make_job("a", 13), make_job("b", 1), make_job("c", 2), make_job("d", 1))
    world.offer()
    placements = ev.Placement("c", (TWO.id, ONE.id)), ev.Placement("b", (ONE.id,))
    commands = world.send(ev.Decided(world.now, placements, ev.Waiting("a", "it is large")))
    assert launched(commands) == {"vm-2": ["c.0"], "vm-1": ["c.1", "b.0"]}
    assert names(commands) == ["Launch", "Launch", "Decline"]
    assert [request.job.id for request in world.model.requests()] == ["a", "d"]
    world.wait(3)
    assert (world.job("a").state, world.job("a").reason) == ("queued", "it is large")
    world.now += 10
    world.offer()
    placements = ev.Placement("d", (THREE.id,)), ev.Placement("a", (ONE.id,) * 13)
    assert launched(world.send(ev.Decided(world.now, placements))) == {"vm-3": ["d.0"]}
    assert world.job("a").reason.startswith("decided again, since the master rescinded")


def test_what_was_placed_behind_a_refused_job_is_decided_again(world: World) -> None:
    """Even an older job: it was decided on as if the refused one had been placed."""
    world.subscribe()
    world.submit(make_job("a", 1), make_job("b", 4), make_job("c", 1))
    world.offer()
    world.send(ev.VmLost(world.now, TWO.id))
    placements = (
        ev.Placement("c", (ONE.id,)),
        ev.Placement("b", (TWO.id,) * 4),
        ev.Placement("a", (THREE.id,)),
    )
    assert launched(world.send(ev.Decided(world.now, placements))) == {"vm-1": ["c.0"]}
    assert [request.job.id for request in world.model.requests()] == ["a", "b"]


def test_two_jobs_of_one_round_share_a_vm_only_as_far_as_it_goes(world: World) -> None:
    """Resources that the first job uses of an offer are gone for the second."""
    world.subscribe()
    world.submit(make_job("a", 3), make_job("b", 2))
    world.offer(ONE)
    placements = (ev.Placement("a", (ONE.id,) * 3), ev.Placement("b", (ONE.id,) * 2))
    commands = world.send(ev.Decided(world.now, placements))
    assert launched(commands) == {"vm-1": ["a.0", "a.1", "a.2"]}
    assert world.job("b").state == "queued"


@pytest.mark.parametrize("vm_id", ["id-vm-9", ""])
def test_placements_on_unknown_vms_are_refused(world: World, vm_id: str) -> None:
    """A VM that nobody knows offers nothing."""
    world.subscribe()
    world.submit(make_job())
    world.offer()
    assert launched(world.send(ev.Decided(world.now, (ev.Placement("job-1", (vm_id,)),)))) == {}
    assert world.job().state == "queued"


def test_what_was_decided_twice_is_launched_once(world: World) -> None:
    """A second decision about a placed job, or one about an unknown one, changes nothing."""
    world.subscribe()
    world.submit(make_job("a", 1), make_job("b", 13))
    world.offer()
    world.place("a", ONE)
    assert launched(world.place("a", TWO)) == {}
    assert world.place("nobody", TWO) == []
    assert world.job("a").reason == "its executors are being launched"


def test_a_verdict_about_a_job_killed_meanwhile_is_dropped(world: World) -> None:
    """The killed job keeps its reason, and the offers are kept for the next one."""
    world.subscribe()
    world.submit(make_job("a", 13), make_job("b", 1))
    world.offer()
    world.kill("a")
    waiting = ev.Waiting("a", "room for 12 of 13")
    assert world.send(ev.Decided(world.now, (), waiting)) == []
    assert world.job("a").reason == "killed on request"
    assert world.model.ready_to_decide()


def test_what_happened_while_deciding_is_not_forgotten(world: World) -> None:
    """Offers that came after the view was taken are not declined with an old verdict, but decided on."""
    world.run(make_job("a", 4))
    world.submit(make_job("b", 12))
    world.offer(TWO, THREE)
    seen = world.now
    world.now += 5
    world.tell("finished", *world.open_tasks("a"))
    world.offer(ONE)
    waiting = ev.Waiting("b", "room for 8 of 12")
    assert world.send(ev.Decided(world.now, (), waiting, view_at=seen)) == []
    assert world.model.ready_to_decide()
    assert len(launched(world.decide())) == 3


def test_a_call_for_offers_is_not_lost_with_an_old_decision(world: World) -> None:
    """A task's end that came after the view, and had to keep the pause, still leads to a call for offers."""
    world.run(make_job("a", 4))
    world.submit(make_job("b", 13))
    world.offer(TWO, THREE)
    seen = world.now
    world.now += 5
    assert names(world.tell("finished", "a.0", "a.1")) == ["Revive"]
    assert world.send(ev.Decided(world.now, (), ev.Waiting("b", "too large"), view_at=seen)) == []
    assert names(world.wait(1)) == ["Revive"]


def test_another_policy_is_asked_about_a_waiting_queue_at_once(world: World) -> None:
    """Offers were declined for the old policy's verdict; for the new one they are asked for again, once."""
    world.subscribe()
    world.submit(make_job("a", 13))
    world.offer()
    assert names(world.decide()) == ["Decline"]
    world.now += 10
    assert names(world.send(ev.PolicyChanged(world.now))) == ["Revive"]
    assert names(world.wait(1)) == []
    assert not world.model.ready_to_decide()
    world.offer()
    assert world.model.ready_to_decide()


def test_another_policy_keeps_the_pause_between_calls_for_offers(world: World) -> None:
    """Policies set in quick succession lead to one call now and one when the pause is over."""
    world.subscribe()
    world.submit(make_job("a", 13))
    world.offer()
    world.decide()
    world.now += 10
    assert names(world.send(ev.PolicyChanged(world.now))) == ["Revive"]
    assert names(world.send(ev.PolicyChanged(world.now))) == []
    assert names(world.wait(1)) == ["Revive"]


def test_another_policy_changes_nothing_while_nobody_waits(world: World) -> None:
    """An idle scheduler stays silent, and running jobs go on."""
    world.run(make_job())
    assert world.send(ev.PolicyChanged(world.now + 10)) == []
    assert world.job().state == "running"


def test_a_verdict_of_the_old_policy_does_not_outlive_it(world: World) -> None:
    """A decision to wait that was begun before the change declines nothing: the new one decides at once."""
    world.subscribe()
    world.submit(make_job("a", 13))
    world.offer()
    seen = world.now
    world.now += 1
    world.send(ev.PolicyChanged(world.now))
    waiting = ev.Waiting("a", "room for 12 of 13")
    assert world.send(ev.Decided(world.now, (), waiting, view_at=seen)) == []
    assert world.model.ready_to_decide()


def test_on_a_full_cluster_the_first_end_is_a_call_for_offers(world: World) -> None:
    """Nothing is missing while all is in use; when a task ends, a waiting job asks for its part."""
    world.run(make_job("a", 12))
    world.now += 1
    assert names(world.submit(make_job("b", 1))) == ["Revive"]
    world.now += 1
    assert names(world.tell("finished", "a.0")) == ["Revive"]


def test_offers_die_with_the_connection(world: World) -> None:
    """Nothing is decided until the master is back and has offered anew."""
    world.subscribe()
    world.submit(make_job())
    world.offer()
    assert world.model.ready_to_decide()
    world.send(ev.Disconnected(world.now))
    assert not world.model.ready_to_decide()
    assert launched(world.place("job-1", ONE)) == {}
    assert names(world.subscribe()) == ["Reconcile"]
    world.offer()
    assert launched(world.decide()) == {"vm-1": ["job-1.0"]}


def test_idle_is_silent_and_stays_so(world: World) -> None:
    """Without a queue offers are suppressed once, and those that come anyway are declined."""
    assert names(world.subscribe()) == ["Reconcile", "Suppress"]
    assert names(world.offer()) == ["Decline"]
    assert names(world.wait(1)) == []


def test_unknown_running_tasks_are_killed(world: World) -> None:
    """A task that no job has, or that was given up, is ended when it turns up alive."""
    world.subscribe()
    assert killed(world.tell("running", "left-over.7")) == ["left-over.7"]
    assert world.tell("finished", "left-over.7") == []
    assert world.tell("unreachable", "left-over.7") == []
    world.run(make_job(executors=2))
    world.tell("lost", "job-1.0")
    assert killed(world.tell("running", "job-1.0")) == ["job-1.0"]
    assert world.job().losses == 1


def test_updates_told_twice_change_nothing(world: World) -> None:
    """Status updates come at least once: a repeated one has no effect."""
    world.run(make_job(executors=2))
    assert world.tell("running", "job-1.0") == []
    world.tell("failed", "job-1.0")
    assert world.tell("failed", "job-1.0") == []
    assert world.job().losses == 1


def test_launches_without_an_answer_are_asked_about_with_growing_pauses() -> None:
    """After the timeout the master is asked, then after 2, 4, 8 seconds, until it answers."""
    world = World(VMS)
    world.subscribe()
    world.submit(make_job(executors=2))
    world.offer()
    world.decide()
    asked = []
    for _ in range(62):
        if "Reconcile" in names(world.wait(1)):
            asked.append(world.now - 100.0)
    assert asked == [31, 33, 37, 45, 61]
    world.tell("staging", "job-1.0", "job-1.1")
    assert all(names(world.wait(1)) == [] for _ in range(100))


def test_a_launch_that_the_master_never_heard_of_is_tried_again(world: World) -> None:
    """Its agent is there and has no such task: it was lost on the way, and the job waits again."""
    world.subscribe()
    world.submit(make_job())
    world.offer()
    world.decide()
    world.wait(31)
    world.tell("gone", "job-1.0")
    assert (world.job().state, [request.count for request in world.model.requests()]) == ("queued", [1])
    assert killed(world.tell("running", "job-1.0")) == ["job-1.0"]


def test_a_launch_whose_agent_the_master_does_not_know_may_still_run(world: World) -> None:
    """Unknown is no end: the executor is waited for as one out of reach, and only then replaced."""
    world.subscribe()
    world.submit(make_job())
    world.offer()
    world.decide()
    world.tell("unknown", "job-1.0")
    assert world.open_tasks() == ["job-1.0"]
    world.tell("running", "job-1.0")
    assert world.job().state == "running"
    world.tell("unknown", "job-1.0")
    assert killed(world.wait(61)) == ["job-1.0"]
    assert (world.job().state, world.job().failures) == ("relaunching", 0)


def test_all_that_the_master_knows_is_asked_about_now_and_then() -> None:
    """Tasks are reconciled after each subscription and every few minutes; forgotten ones are killed."""
    world = World(VMS)
    asked = [cmd.Reconcile(1, ())]
    assert [c for c in world.subscribe() if isinstance(c, cmd.Reconcile)] == asked
    assert names(world.wait(299)) == []
    assert names(world.wait(2)) == ["Reconcile"]
    assert killed(world.tell("running", "job-7.3")) == ["job-7.3"]
    assert names(world.wait(299)) == []


def test_kills_without_an_answer_are_repeated(world: World) -> None:
    """A kill may be lost on the way: it is sent again after the timeout, and not at every tick."""
    world.run(make_job())
    world.driver_ends("job-1")
    repeated = [killed(world.wait(1)) for _ in range(70)]
    assert [count for count, ids in enumerate(repeated) if ids] == [30, 61]
    world.tell("killed", "job-1.0")
    assert killed(world.wait(60)) == []


def test_an_executor_out_of_reach_is_waited_for_and_then_replaced(world: World) -> None:
    """Unreachable is no loss at first; after the timeout another takes its place and it is killed."""
    world.run(make_job(executors=2))
    world.tell("unreachable", "job-1.0")
    world.wait(30)
    assert (world.job().state, world.job().losses) == ("running", 0)
    world.tell("running", "job-1.0")
    world.wait(60)
    assert world.job().losses == 0
    world.tell("unreachable", "job-1.0")
    assert killed(world.wait(61)) == ["job-1.0"]
    assert (world.job().state, world.job().losses) == ("relaunching", 1)


def test_a_vm_that_is_lost_is_no_place_until_it_is_back(world: World) -> None:
    """It leaves the view with its offers; its tasks are not taken for dead; an offer brings it back."""
    world.run(make_job(executors=1))
    world.send(ev.VmLost(world.now, ONE.id))
    assert [vm.name for vm in world.model.vms()] == ["vm-2", "vm-3"]
    assert world.open_tasks() == ["job-1.0"]
    world.tell("running", "job-1.0")
    assert [vm.name for vm in world.model.vms()] == ["vm-1", "vm-2", "vm-3"]
    world.send(ev.VmLost(world.now, THREE.id))
    world.offer(THREE)
    assert len(world.model.vms()) == 3


def test_offers_of_one_vm_are_used_together(world: World) -> None:
    """Two offers of one VM add up, and one launch names them both."""
    world.subscribe()
    world.submit(make_job(executors=4))
    world.offer(ONE, cpus=1, memory_mib=8192)
    world.offer(ONE, cpus=3, memory_mib=8192)
    (launch, *_) = world.decide()
    assert isinstance(launch, cmd.Launch)
    assert launch.offer_ids == ("offer-1", "offer-2")
    assert launch.vm.cpus == 4


def test_ports_come_from_all_offers_of_the_vm(world: World) -> None:
    """Each executor has a port of its own, from whichever range has one."""
    world.subscribe()
    world.submit(make_job(executors=3))
    first = make_offer("x", ONE, 2, 8192, ((31000, 31000), (31005, 31005)))
    world.send(ev.OffersReceived(world.now, (first, make_offer("y", ONE, 2, 8192, ((32000, 32001),)))))
    world.decide()
    assert [task.ports for task in world.model.tasks("job-1")] == [(31000,), (31005,), (32000,)]


def test_missing_offers_are_waited_for_but_not_for_long(world: World) -> None:
    """While a part of the cluster is not offered the decision waits for it, at most the settling time."""
    world.run(make_job("a", 1))
    world.driver_ends("a")
    world.tell("killed", "a.0")
    world.submit(make_job("b", 1))
    world.offer(TWO)
    assert not world.model.ready_to_decide()
    world.offer(ONE, THREE)
    assert world.model.ready_to_decide()
    world.send(ev.OfferRescinded(world.now, "offer-5"))
    assert not world.model.ready_to_decide()
    world.wait(1.6)
    assert world.model.ready_to_decide()


def test_steady_ends_of_tasks_do_not_put_the_decision_off(world: World) -> None:
    """Each end is a reason to ask for offers, but those held are decided on after the settling time."""
    world.run(make_job("a", 8))
    world.submit(make_job("b", 1))
    world.offer(THREE)
    for number in range(3):
        world.now += 0.6
        world.tell("finished", f"a.{number}")
    assert world.model.ready_to_decide()


def test_the_capacity_of_a_vm_is_learned_and_not_overrated(world: World) -> None:
    """Resources offered again before their task's end is known here do not count twice."""
    world.run(make_job(executors=4))
    world.submit(make_job("b", 1))
    world.send(ev.OffersReceived(world.now, (make_offer("early", ONE),)))
    assert [vm.cpus for vm in world.model.vms()] == [4, 4, 4]
    world.tell("finished", "job-1.0", "job-1.1", "job-1.2", "job-1.3")
    assert [vm.cpus for vm in world.model.vms()] == [4, 4, 4]


def test_the_master_knows_better_how_large_vms_are() -> None:
    """The master's sizes replace those learned from offers at once, also after a restart among tasks."""
    world = World(VMS)
    world.run(make_job(executors=4))
    other = World(VMS)
    other.restore(world.kept())
    other.subscribe()
    other.submit(make_job("job-2", 1))
    other.offer(ONE, cpus=4, memory_mib=16384)
    other.offer(TWO)
    assert [vm.cpus for vm in other.model.vms()] == [8, 4], "learned from offers alone, it is overrated"
    sizes = tuple(VmSize(vm.id, vm.resources) for vm in VMS)
    other.send(ev.VmsMeasured(other.now, sizes))
    assert [vm.cpus for vm in other.model.vms()] == [4, 4]
    assert [vm.memory_mib for vm in other.model.vms()] == [16384, 16384]
    other.offer(THREE, cpus=1, memory_mib=1024)
    assert [vm.cpus for vm in other.model.vms()] == [4, 4, 4], "although not all of it was offered yet"


def test_a_driver_on_the_cluster_is_a_task_with_three_ports(world: World) -> None:
    """It is launched with the executors, takes its own size, and its end is the job's end."""
    world.subscribe()
    world.submit(make_job(executors=4, driver=Resources.of(1, 2048)))
    world.offer()
    commands = world.decide()
    assert launched(commands) == {
        "vm-1": ["job-1.0", "job-1.1", "job-1.2", "job-1.3"],
        "vm-2": ["job-1.driver-4"],
    }
    driver = world.model.task("job-1.driver-4")
    assert driver is not None
    assert (driver.number, driver.resources.memory_mib, driver.ports) == (None, 2048, (31000, 31001, 31002))
    assert world.tell("running", *world.open_tasks()) == []
    assert world.job().state == "running"
    assert len(killed(world.tell("finished", "job-1.driver-4"))) == 4
    assert (world.job().state, world.job().exit_code) == ("finished", 0)


def test_a_driver_on_the_cluster_that_dies_fails_the_job(world: World) -> None:
    """Its executors are killed; nothing is placed again."""
    world.run(make_job(executors=1, driver=Resources.of(1, 2048)))
    commands = world.tell("failed", "job-1.driver-1", message="exit code 1")
    assert names(commands) == ["KillTask", "Suppress"] or killed(commands) == ["job-1.0"]
    assert world.job().reason == "its driver on vm-1 ended: exit code 1"


def test_the_exit_code_of_a_driver_on_the_cluster_is_kept(world: World) -> None:
    """As that of a driver on the host is."""
    world.run(make_job(executors=1, driver=Resources.of(1, 2048)))
    said = "Command exited with status 3"
    world.send(ev.TaskChanged(world.now, "job-1.driver-1", "failed", ONE.id, "", said, 3))
    assert (world.job().state, world.job().exit_code) == ("failed", 3)
    assert world.job().reason == f"its driver on vm-1 ended: {said}"


def test_a_driver_on_the_cluster_whose_port_is_taken_is_started_afresh() -> None:
    """With other ports, elsewhere where that can be; nothing is counted against the job, but ten times."""
    world = World([ONE])
    world.run(make_job(executors=1, driver=Resources.of(1, 2048)))
    ports: set[int] = set()
    for count in range(1, 12):
        driver, executor = sorted(world.open_tasks(), key=lambda task_id: "driver" not in task_id)
        found = world.model.task(driver)
        assert found is not None
        assert ports.isdisjoint(found.ports)
        ports |= set(found.ports)
        said = "Command exited with status 98"
        assert killed(world.send(ev.TaskChanged(world.now, driver, "failed", ONE.id, "", said, 98))) == [
            executor
        ]
        if count == 11:
            break
        assert f"was taken by another process; fresh start {count} of 10" in world.job().reason
        world.tell("killed", executor)
        assert (world.job().state, world.job().started_at) == ("queued", None)
        assert (world.job().failures, world.job().losses, world.job().exit_code) == (0, 0, None)
        world.wait(120)
        world.offer()
        world.decide()
        world.tell("running", *world.open_tasks())
    assert (world.job().state, world.job().exit_code) == ("failed", 98)
    two = World([ONE, TWO])
    two.run(make_job(executors=1, driver=Resources.of(1, 2048)))
    two.send(ev.TaskChanged(two.now, "job-1.driver-1", "failed", ONE.id, "", said, 98))
    two.tell("killed", "job-1.0")
    two.offer()
    assert list(launched(two.decide())) == ["vm-2"]


def test_executors_that_are_killed_say_what_they_were_killed_for(world: World) -> None:
    """With their job, or with the launch of which another could not be started; not how they took it."""
    world.run(make_job("a", 2))
    world.driver_ends("a")
    world.tell("killed", *world.open_tasks("a"), message="Command exited with status 0")
    assert {task.message for task in world.model.tasks("a")} == {"ended with its job"}
    world.submit(make_job("b", 2))
    world.offer()
    world.decide()
    world.tell("dropped", "b.0", message="the disk is full")
    world.tell("killed", "b.1", message="Command terminated with signal Terminated")
    messages = [task.message for task in world.model.tasks("b")]
    assert messages == ["the disk is full", "ended because its job's launch was undone"]


@pytest.mark.parametrize("state", ["dropped", "failed"])
def test_a_launch_whose_driver_may_run_is_not_undone(world: World, state: task_states.TaskState) -> None:
    """A driver on the cluster, launched with the executors, runs once: only lost ones are replaced."""
    world.subscribe()
    world.submit(make_job(executors=2, driver=Resources.of(1, 2048)))
    world.offer()
    world.decide()
    assert killed(world.tell(state, "job-1.0")) == []
    world.tell("running", "job-1.driver-2", "job-1.1")
    assert (world.job().state, world.job().started_at) == ("relaunching", None)
    world.wait(3)
    world.offer()
    assert list(launched(world.decide()).values()) == [["job-1.3"]]
    world.tell("running", "job-1.3")
    assert (world.job().state, world.job().reason) == ("running", "all its executors run")


def test_a_driver_whose_launch_got_lost_is_launched_again(world: World) -> None:
    """The master knows its agent and nothing of the driver, so it never ran, and no other one is a second."""
    world.subscribe()
    world.submit(make_job(executors=1, driver=Resources.of(1, 2048)))
    world.offer()
    world.decide()
    world.tell("running", "job-1.0")
    assert killed(world.tell("gone", "job-1.driver-1")) == ["job-1.0"]
    world.tell("killed", "job-1.0")
    assert (world.job().state, world.job().started_at, world.job().failures) == ("queued", None, 0)
    world.offer()
    assert list(launched(world.decide()).values()) == [["job-1.2", "job-1.driver-3"]]


def test_a_driver_that_was_seen_and_is_gone_is_not_started_again(world: World) -> None:
    """It may have done anything: the job has failed."""
    world.run(make_job(executors=1, driver=Resources.of(1, 2048)))
    world.tell("gone", "job-1.driver-1")
    assert world.job().state == "failed"


def test_executors_that_fail_are_placed_again_after_pauses_that_grow(world: World) -> None:
    """Own failures lengthen the pause; executors lost with a VM are placed again soon every time."""
    for state, pauses in (("failed", [2, 4, 8, 16, 30, 30]), ("lost", [2] * 6)):
        own = World(VMS)
        own.run(make_job(executors=3))
        for number, pause in enumerate(pauses, 3):
            own.tell(state, own.open_tasks()[0])  # type: ignore[arg-type]  # a state
            own.wait(pause - 0.1)
            assert own.model.requests() == ()
            own.wait(0.2)
            own.offer()
            own.decide()
            own.tell("running", f"job-1.{number}")
        assert own.job().state == "running"


def test_a_dropped_driver_undoes_the_launch_even_if_all_executors_run(world: World) -> None:
    """Executors that come up while the launch is undone do not start the job."""
    world.subscribe()
    world.submit(make_job(executors=1, driver=Resources.of(1, 2048)))
    world.offer()
    world.decide()
    assert killed(world.tell("dropped", "job-1.driver-1")) == ["job-1.0"]
    assert world.tell("running", "job-1.0") == []
    assert world.job().started_at is None
    world.tell("killed", "job-1.0")
    assert world.job().state == "queued"


def test_only_the_executor_of_a_job_with_its_driver_is_placed_again(world: World) -> None:
    """A lost executor gets a new place, the driver keeps its own."""
    world.run(make_job(executors=1, driver=Resources.of(1, 2048)))
    world.tell("lost", "job-1.0")
    world.wait(3)
    world.offer()
    assert launched(world.decide()) == {"vm-1": ["job-1.2"]}
    world.tell("running", "job-1.2")
    assert world.job().state == "running"


def test_a_restored_model_goes_on_where_the_last_one_ended(world: World) -> None:
    """From the records alone: open tasks are asked about, kills repeated, losses placed, the queue kept."""
    for job in (make_job("running", 2), make_job("lost", 2), make_job("ending", 1)):
        world.run(job)
    world.submit(make_job("placing", 2))
    world.offer()
    world.decide()
    world.submit(make_job("queued", 1))
    world.tell("lost", "lost.1")
    world.driver_ends("ending")
    changes = world.kept()
    other = World(VMS)
    other.now = world.now
    other.restore(changes)
    commands = other.subscribe()
    assert names(commands) == ["Reconcile", "Reconcile", "KillTask"]
    assert killed(commands) == ["ending.0"]
    assert isinstance(commands[0], cmd.Reconcile)
    asked = {task_id for task_id, _ in commands[0].tasks}
    assert asked == {"running.0", "running.1", "lost.0", "ending.0", "placing.0", "placing.1"}
    assert [request.job.id for request in other.model.requests()] == ["lost", "queued"]
    other.tell("killed", "ending.0")
    assert names(other.tell("running", "placing.0", "placing.1")) == ["StartDriver"]
    other.offer()
    assert launched(other.decide()) == {"vm-1": ["lost.2"], "vm-2": ["queued.0"]}
    other.now += 3600
    other.driver_ends("running")
    other.tell("killed", "running.0", "running.1")
    assert other.job("running").cost > 0


def test_a_restored_launch_that_was_being_undone_is_queued_again(world: World) -> None:
    """When its last sibling ended before the restart, the job waits in the queue."""
    world.subscribe()
    world.submit(make_job(executors=2))
    world.offer()
    world.decide()
    world.tell("dropped", "job-1.0")
    changes = world.kept()
    assert changes.jobs[0].aborting
    other = World(VMS)
    other.restore(changes)
    other.subscribe()
    other.tell("gone", "job-1.1")
    assert [request.count for request in other.model.requests()] == [2]


def test_questions_after_a_restart_grow_apart_and_end_with_the_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Open tasks are asked about until each has answered, at most once a minute in the end."""
    monkeypatch.setattr(options, "RECONCILE", Backoff(first=2.0, longest=8.0))
    world = World(VMS)
    world.run(make_job(executors=2))
    world.subscribe()
    world.tell("running", "job-1.0")
    asked = []
    for _ in range(40):
        for command in world.wait(1):
            assert isinstance(command, cmd.Reconcile)
            assert [task_id for task_id, _ in command.tasks] == ["job-1.1"]
            asked.append(world.now - 100.0)
    assert asked == [2, 6, 14, 22, 30, 38]


def test_the_view_shows_what_is_offered_and_until_when_vms_are_held(world: World) -> None:
    """Offered resources are free; a VM is held until its last job's expected end, if all are known."""
    world.run(make_job("a", 4, expected_duration=60.0), make_job("b", 4), make_job("c", 1))
    world.submit(make_job("d", 1))
    world.offer()
    view = world.model.view()
    assert [vm.name for vm in view.vms] == ["vm-1", "vm-2", "vm-3"]
    assert view.free_cpus.tolist() == [0, 0, 3]
    assert view.free_memory_mib.tolist() == [12288, 12288, 15360]
    assert view.executors.tolist() == [4, 4, 1]
    assert view.busy_until[0] == 160.0
    assert math.isnan(view.busy_until[1])
    assert [job.job.id for job in view.running] == ["a", "b", "c"]


@pytest.mark.parametrize("seconds", [600.0, None])
def test_what_is_over_and_not_yet_gone_is_expected_to_end_now(world: World, seconds: float | None) -> None:
    """A killed job and one with an undone launch hold their VMs until their executors have ended."""
    world.run(make_job("a", 4, expected_duration=seconds), make_job("b", 4, expected_duration=seconds))
    world.submit(make_job("c", 2, expected_duration=seconds))
    world.offer()
    world.decide()
    world.now += 10
    world.kill("a")
    world.tell("dropped", "c.0")
    world.now += 10
    world.wait(1)
    view = world.model.view()
    ends = {job.job.id: job.end_at(world.now) for job in view.running}
    assert (ends["a"], ends["c"]) == (world.now, world.now)
    assert ends["b"] == (None if seconds is None else pytest.approx(100 + seconds, rel=0.1))
    assert (view.busy_until[[0, 2]] == world.now).all()


def test_a_running_jobs_cost_is_told_up_to_now(world: World) -> None:
    """The cost grows between events, on top of earlier charges; reading it changes no record."""
    world.run(make_job("a", 2), make_job("b", 2))
    assert costs(world.model, world.now) == {"a": 0.0, "b": 0.0}
    world.now += 60
    world.tell("lost", "a.0")
    world.model.take_changes()
    # Two of four executors on a VM at 0.24 dollars an hour for a minute, then one of three.
    first, second = 0.24 / 60 / 2, 0.24 / 60 / 3
    now = costs(world.model, world.now + 60)
    assert math.isclose(now["a"], first + second)
    assert math.isclose(now["b"], first + 2 * second)
    assert math.isclose(world.job("a").cost, first)
    assert world.model.take_changes().jobs == ()


def test_a_job_costs_until_its_last_executor_is_gone(world: World) -> None:
    """One that is over still pays for the VMs that it holds; one that holds none is not listed."""
    world.run(make_job())
    world.driver_ends("job-1")
    assert costs(world.model, world.now + 3600) == {"job-1": pytest.approx(0.24)}
    world.tell("killed", "job-1.0")
    assert costs(world.model, world.now + 3600) == {}


def test_the_view_of_nothing_is_empty() -> None:
    """Before any offer there is a view without VMs."""
    view = ClusterModel().view()
    assert (len(view.vms), view.free_cpus.shape, view.running) == (0, (0,), ())


def test_the_clock_never_goes_back(world: World) -> None:
    """An event with an older time happens now."""
    world.wait(50)
    world.send(ev.Tick(3.0))
    assert world.model.now == 150.0


def test_vms_are_shown_by_name_in_natural_order() -> None:
    """vm-10 comes after vm-9, in any order of offers."""
    vms = [make_vm(f"vm-{number}") for number in (10, 9, 2, 1)]
    world = World(vms)
    world.subscribe()
    world.offer()
    assert [vm.name for vm in world.model.vms()] == ["vm-1", "vm-2", "vm-9", "vm-10"]


def test_a_job_whose_driver_is_out_of_reach_may_start_afresh() -> None:
    """All its executors go; then it is queued in its old place, and starts with new ones and a new driver."""
    world = World(VMS, ModelOptions(host="here"))
    world.run(make_job("job-1", 2))
    tasks = world.open_tasks()
    assert world.job().driver_on == "here"
    world.submit(make_job("job-2", 30))
    commands = world.send(ev.DriverEnded(world.now, "job-1", None, "its host is gone", requeue=True))
    assert sorted(killed(commands)) == sorted(tasks)
    assert (world.job().started_at, world.job().exit_code) == (None, None)
    world.tell("killed", *tasks)
    assert (world.job().state, world.job().reason) == ("queued", "its host is gone")
    assert [request.job.id for request in world.model.requests()] == ["job-1", "job-2"]
    world.offer()
    assert launched(world.decide()) == {"vm-1": ["job-1.2", "job-1.3"]}
    assert names(world.tell("running", "job-1.2", "job-1.3")) == ["StartDriver"]
    world.driver_ends("job-1")
    assert world.job().state == "finished"


def test_what_is_out_of_reach_says_since_when_and_until_when(world: World) -> None:
    """Of its job, its task and its VM, which is known all the while, though the master knows it no more."""
    world.run(make_job(executors=6))
    world.tell("unreachable", "job-1.0", message="health check timed out")
    world.now += 10
    world.tell("unreachable", "job-1.1")
    world.send(ev.VmLost(world.now, ONE.id))
    told = "cannot be reached since 100 s; it is waited for until 160 s, and then replaced"
    assert world.job().reason == "2 of its tasks on vm-1 " + told.replace("100", "110").replace("160", "170")
    records = {task.task_id: task for task in world.model.tasks("job-1")}
    assert (records["job-1.0"].state, records["job-1.0"].message) == (
        "unreachable",
        f"{told}; health check timed out",
    )
    assert ONE not in world.model.vms()
    ((vm, out),) = world.model.out_of_reach()
    assert (vm, out) == (ONE, (100.0, 170.0))
    world.tell("running", "job-1.0")
    assert world.job().reason.startswith("2 of its tasks")
    world.tell("running", "job-1.1")
    assert world.job().reason == "all its tasks can be reached again"
    assert world.model.out_of_reach() == []
    world.tell("unreachable", "job-1.0")
    world.wait(61)
    assert world.model.out_of_reach() == []
    assert world.job().state == "relaunching"
