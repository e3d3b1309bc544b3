"""Executors that running jobs request and return: how many are granted, when, and the reported reasons."""

from dataclasses import replace

import pytest

from environment.model.cluster_model import ClusterModel, ModelOptions
from environment.model.event_log import decode, encode, replay
from environment.model.jobs import scale_up
from environment.model.jobs.scale_up import MOST_PROFILES, bounded
from environment.model.messages import commands as cmd
from environment.model.messages import events as ev
from environment.model.messages import task_states
from environment.model.messages.records import ExecutorRequest, JobRecord
from environment.model.messages.snapshot import VmSize
from environment.model.vms import job_registry
from environment.model.vms.job_registry import JobRegistry
from environment.resources import Resources
from environment.types import Dynamic, Job
from tests.builders import make_job, make_vms
from tests.environment.model.vms.test_usage_ledger import make_task
from tests.environment.two_worlds.world import World, killed, launched, names

SIZE = Resources.of(1.0, 1024)
#: Eight places for executors of one core.
VMS = make_vms(2, 4.0)


def dynamic(job_id: str = "job-1", least: int = 0, most: int = 20, initial: int = 1, **fields: object) -> Job:
    """A job of one-core executors with a driver that requests more."""
    bounds = {"dynamic": Dynamic(least, initial), "min_executors": max(least, 1), **fields}
    return replace(make_job(job_id, most), **bounds)  # type: ignore[arg-type]  # of all types


def ask(world: World, *totals: int, job_id: str = "job-1", size: Resources = SIZE) -> list[cmd.Command]:
    """Its driver asks for so many executors: of profile 0, 1 and so on."""
    profiles = tuple(ExecutorRequest(number, size, total) for number, total in enumerate(totals))
    return world.send(ev.ExecutorsAsked(world.now, job_id, profiles))


def grow(world: World, job_id: str = "job-1") -> list[str]:
    """Offers come and are decided on, and all that was launched runs; the tasks that are new."""
    before = set(world.open_tasks(job_id))
    world.offer()
    world.decide()
    world.tell("running", *world.open_tasks(job_id))
    return [task for task in world.open_tasks(job_id) if task not in before]


def running(job: Job | None = None, options: ModelOptions | None = None) -> World:
    """A world in which this job runs."""
    world = World(VMS, options)
    world.run(job or dynamic())
    return world


def test_what_the_driver_asks_for_is_placed_and_what_it_gives_back_ends() -> None:
    """From one executor to five and back to two; none is lost, and all is paid."""
    world = running()
    assert "Revive" in names(ask(world, 5))
    assert len(grow(world)) == 4
    assert world.job().reason == "runs on 5 executors"
    commands = world.send(ev.ExecutorsReleased(world.now, "job-1", (1, 2, 3)))
    assert killed(commands) == ["job-1.1", "job-1.2", "job-1.3"]
    ask(world, 2)
    world.tell("killed", "job-1.1", "job-1.2")
    world.tell("failed", "job-1.3")  # as a JVM that was told to end may
    assert world.job().reason == "runs on 2 executors"
    assert (world.job().losses, world.job().failures) == (0, 0)
    assert not world.model.requests()
    world.wait(10.0)
    assert not world.model.requests()


def test_executors_given_back_without_end_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each event looks through the tasks of its job: a driver's asking and giving back held up the loop."""
    monkeypatch.setattr(job_registry, "MOST_SETTLED", 3)
    world = running(dynamic(least=1, most=2))
    began, handed_out = world.now, set[str]()
    for number in range(1, 9):
        ask(world, 2)
        world.wait(10.0)
        assert grow(world) == [f"job-1.{number}"]
        world.send(ev.ExecutorsReleased(world.now, "job-1", (number,)))
        ask(world, 1)
        world.tell("killed", f"job-1.{number}")
        handed_out |= {task.task_id for task in world.model.take_changes().executors if task.ended}
    assert handed_out == {f"job-1.{number}" for number in range(1, 9)}, "each is stored before"
    assert [task.number for task in world.model.tasks("job-1")] == [0, 6, 7, 8]
    assert world.model.task("job-1.5") is None
    world.tell("running", "job-1.5")  # a late message of one that is forgotten
    assert world.job().started_at == began
    assert (world.job().reason, world.job().losses) == ("runs on 1 executor", 0)


def test_a_job_runs_from_its_first_executor_on_that_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its `max_runtime` counts from there, after a retry too."""
    monkeypatch.setattr(job_registry, "MOST_SETTLED", 1)
    roster, job = JobRegistry(), JobRecord(dynamic(), retried=1, started_at=50.0)
    roster.add(job)
    tasks = []
    for number in range(3):
        task = replace(make_task(number, 9.0), task_id=f"job-1.{number}", job_id="job-1", state="killed")
        task.replaced, task.running_at = True, 10.0 + number
        roster.add_task(task)
        tasks.append(task)
    assert [task.number for task in roster.tasks("job-1")] == [2]
    assert roster.began(job) == 10.0
    roster.mark_task(tasks[0])  # as for a charge that comes late
    assert not roster.take_changes().executors


def test_an_executor_that_is_killed_and_still_wanted_is_replaced_once_it_is_gone() -> None:
    """Never is there one more than the driver asks for."""
    world = running(dynamic(initial=2))
    world.send(ev.ExecutorsReleased(world.now, "job-1", (0,)))
    assert grow(world) == []
    world.tell("killed", "job-1.0")
    world.wait(2.0)
    assert grow(world) == ["job-1.2"]


def test_a_job_without_initial_executors_runs_at_once() -> None:
    """Its driver starts before anything is placed, and waits in no queue."""
    world = World(VMS)
    world.subscribe()
    world.submit(make_job("job-0", 99))
    assert names(world.submit(dynamic(initial=0))) == ["StartDriver"]
    assert (world.job().state, world.job().started_at) == ("running", world.now)
    assert not [request for request in world.model.requests() if request.job.id == "job-1"]


def test_a_daemon_that_stopped_before_it_ran_starts_it() -> None:
    """A job that was submitted and not yet begun begins then."""
    world, job = World(VMS), dynamic(initial=0)
    world.submit(job)
    again = World(VMS)
    kept = World(VMS).kept()
    commands = again.restore(replace(kept, jobs=(replace(world.job(), state="queued", started_at=None),)))
    assert names(commands) == ["StartDriver"]


def test_a_clients_driver_is_not_started_nor_ended() -> None:
    """It is a process of its user's."""
    world = World(VMS)
    world.run(dynamic(initial=0, client_driver="127.0.0.1"), dynamic("job-2", client_driver="127.0.0.1"))
    assert not any(isinstance(command, cmd.StartDriver) for _, told in world.log for command in told)
    assert names(world.kill("job-1")) == []
    assert names(world.kill("job-2"))[0] == "KillTask"


def test_more_than_its_max_is_cut_and_said() -> None:
    """The bounds hold for each resource profile, as Spark has it; the first one's size is the job's own."""
    world = running(dynamic(most=3))
    ask(world, 30)
    assert len(grow(world)) == 2
    why = "its driver asks for 30 executors, and its max is 3: it gets no more"
    assert world.job().reason == f"runs on 3 executors; {why}"
    ask(world, 3)
    assert world.job().reason == "runs on 3 executors"
    asked, said = bounded(
        dynamic(most=3), [ExecutorRequest(0, Resources.of(64, 1), 2), ExecutorRequest(1, SIZE, 4)]
    )
    assert asked == (ExecutorRequest(0, SIZE, 2), ExecutorRequest(1, SIZE, 3))
    assert said == "its driver asks for 4 executors of resource profile 1, and its max is 3: it gets no more"


def test_it_gets_as_many_as_there_is_room_for() -> None:
    """Not all or none; the rest waits, with a reason."""
    world = running()
    ask(world, 12)
    assert len(grow(world)) == 7
    (request,) = world.model.requests()
    assert (request.count, request.grows, request.again) == (4, True, False)
    world.offer()
    world.decide()
    assert world.job().reason.startswith(
        "asks for more executors than it has: room for 0 of 4 executors of 1"
    )


def test_it_grows_in_its_turn() -> None:
    """Behind the jobs that came before it asked, before those that come later; the rest behind these."""
    world = running()
    world.submit(make_job("job-2", 2, submitted_at=world.now))
    world.now += 1
    ask(world, 12)
    world.now += 1
    world.submit(make_job("job-3", 2, submitted_at=world.now))
    assert [request.job.id for request in world.model.requests()] == ["job-2", "job-1", "job-3"]
    world.offer()
    world.decide()
    assert len(world.open_tasks("job-2")) == 2
    assert len(world.open_tasks()) == 6
    assert [request.job.id for request in world.model.requests()] == ["job-3", "job-1"]


def test_growth_that_finds_no_room_lets_others_go_first() -> None:
    """A job that could start does not wait for a driver that cannot get more: no longer than the patience."""
    world = running(dynamic(size=Resources.of(3.0, 1024)))
    ask(world, 3)
    grow(world)
    assert len(world.open_tasks()) == 2
    for _ in range(2):  # all its turns find no room
        world.offer()
        world.decide()
        world.wait(6.0)
    world.submit(make_job("job-2", 2, submitted_at=world.now))
    world.offer()
    assert [request.job.id for request in world.model.requests()] == ["job-1", "job-2"]
    world.decide()
    assert [request.job.id for request in world.model.requests()] == ["job-2", "job-1"]
    assert world.model.ready_to_decide() or world.wait(2.0)
    world.decide()
    assert len(world.open_tasks("job-2")) == 2


def test_no_stream_of_new_jobs_keeps_a_job_small() -> None:
    """While new jobs come and go it gets its turn: room adds up for it while it is first."""
    big = replace(dynamic(), size=Resources.of(4.0, 1024))
    world = World(VMS[:1])
    world.subscribe()
    world.submit(replace(big, dynamic=Dynamic(0, 0)))
    for number in range(2, 6):
        world.submit(make_job(f"job-{number}", 1, submitted_at=world.now))
    grow(world, "job-2")
    ask(world, 1, size=big.size)
    number = 5
    for oldest in range(2, 40):
        number += 1
        world.wait(1.0)
        world.submit(make_job(f"job-{number}", 1, submitted_at=world.now))
        world.tell("running", *world.open_tasks(f"job-{oldest}"))
        world.driver_ends(f"job-{oldest}")
        world.tell("killed", *world.open_tasks(f"job-{oldest}"))
        grow(world)
        if world.open_tasks():
            break
    assert oldest < 10


def test_below_its_min_it_goes_before_new_jobs() -> None:
    """An executor that is lost and belongs to its least is placed again first, as those of other jobs are."""
    world = running(dynamic(least=2, initial=3))
    world.tell("lost", "job-1.0", "job-1.1")
    world.submit(make_job("job-2", 1))
    world.wait(2.0)
    first, second, *others = world.model.requests()
    assert (first.job.id, first.count, first.again, second.job.id, others) == ("job-1", 1, True, "job-2", [])
    world.offer()
    world.decide()
    (rest,) = world.model.requests()
    assert (rest.job.id, rest.count, rest.again) == ("job-1", 1, False)


def test_many_profiles_of_a_driver_do_not_hold_up_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a thousand the first hundred count, an event makes few requests of them, and reasons stay short."""
    asked = [ExecutorRequest(number, SIZE, 10_000 if number % 2 else 0) for number in range(1000)]
    wants, said = bounded(dynamic(), asked)
    assert len(wants) == MOST_PROFILES
    assert [request.profile for request in wants[:3]] == [0, 1, 3]
    told = (
        "its driver asks for executors of 501 resource profiles, and gets those of the first 100; its driver"
    )
    assert said.startswith(told)
    assert said.endswith("and its max is 20: it gets no more; and 498 more reasons")
    assert bounded(dynamic(), asked[: 2 * MOST_PROFILES - 2])[1].startswith("its driver asks for 10,000 exec")
    world, made = running(), 0
    world.send(ev.ExecutorsAsked(world.now, "job-1", tuple(asked)))
    make = scale_up._request

    def counted(*of: object) -> object:
        nonlocal made
        made += 1
        return make(*of)  # type: ignore[arg-type]

    monkeypatch.setattr(scale_up, "_request", counted)
    world.submit(make_job("job-2"))
    assert 0 < made < MOST_PROFILES


def test_each_profile_gets_executors_of_its_size() -> None:
    """Stage-level scheduling: the profile without any goes first, and one that fits nowhere holds up none."""
    world = running()
    large = Resources.of(2.0, 2048)
    profiles = (
        ExecutorRequest(0, SIZE, 2),
        ExecutorRequest(1, large, 2),
        ExecutorRequest(2, Resources.of(64.0, 1024), 1),
    )
    world.send(ev.ExecutorsAsked(world.now, "job-1", profiles))
    world.send(ev.VmsMeasured(world.now, tuple(VmSize(vm.id, vm.resources) for vm in VMS), VMS))
    for _ in range(3):
        grow(world)
    found = [(task.profile, task.resources) for task in world.model.tasks("job-1")]
    assert found == [(0, SIZE), (1, large), (1, large), (0, SIZE)]
    assert "an executor of 64 cpus and 1024 MiB fits no VM" in world.job().reason
    assert world.job().reason.startswith(
        "asks for more executors than it has: it could not run now even alone"
    )


def test_a_lost_executor_is_placed_again_and_counts_against_the_max() -> None:
    """Spark's own rule: twice the most that it may have."""
    world = running(dynamic(most=2))
    for number in range(4):
        world.tell("failed", f"job-1.{number}", message="out of memory")
        assert world.job().reason.startswith(f"executor {number} on vm-1 was lost (out of memory)")
        world.wait(31.0)
        assert grow(world) == [f"job-1.{number + 1}"]
    world.tell("failed", "job-1.4")
    assert (world.job().state, world.job().failures) == ("failed", 5)


def test_what_a_driver_of_its_users_wants_is_heard_while_its_launch_is_undone() -> None:
    """It is there all the time, and says it once; one that is started here is not there by then."""
    for where, said in (("127.0.0.1", (ExecutorRequest(0, SIZE, 4),)), ("", ())):
        world = World(VMS)
        world.submit(dynamic(initial=2, client_driver=where))
        world.offer()
        world.decide()
        world.tell("failed", "job-1.0")
        assert world.job().aborting
        ask(world, 4)
        world.tell("killed", "job-1.1")
        assert (world.job().state, world.job().wanted) == ("queued", said)


def test_a_driver_that_has_ended_spark_goes_on_without_executors() -> None:
    """It asks for none when it says goodbye; another session of it may ask for some."""
    world = running(dynamic(initial=2))
    world.send(ev.ExecutorsAsked(world.now, "job-1", ()))
    world.tell("finished", *world.open_tasks())
    world.wait(10.0)
    assert not world.model.requests()
    ask(world, 1)
    assert grow(world) == ["job-1.2"]


def test_an_executor_that_ends_does_not_take_back_what_was_asked_since() -> None:
    """A driver lets its last one go, which takes a while, and has new work before it is gone."""
    world = running(dynamic(initial=1))
    ask(world, 0)
    world.wait(3.0)
    ask(world, 3)
    world.tell("finished", "job-1.0")
    assert world.job().wanted == (ExecutorRequest(0, SIZE, 3),)
    world.wait(3.0)
    assert grow(world) == ["job-1.1", "job-1.2", "job-1.3"]


def test_a_driver_that_stops_those_it_wants_no_more_keeps_the_others() -> None:
    """It has said that it wants one, and stops two of three itself: the one that is left is still wanted."""
    world = running(dynamic(initial=3))
    ask(world, 1)
    world.tell("finished", "job-1.0", "job-1.1")
    assert world.job().wanted == (ExecutorRequest(0, SIZE, 1),)
    world.tell("lost", "job-1.2")
    world.wait(2.0)
    assert grow(world) == ["job-1.3"]


def test_a_decommissioned_executor_ends_without_a_failure() -> None:
    """Its driver is told, it ends when its blocks are elsewhere, and if it is still wanted another comes."""
    world = running(dynamic(initial=2))
    command, *_ = world.send(ev.DecommissionAsked(world.now, "job-1", (0, 7), "vm-1 is emptied"))
    assert (type(command), command.cause > 0) == (cmd.Decommission, True)
    task = world.model.task("job-1.0")
    assert task is not None
    assert task.message == "is to end, once its blocks are elsewhere: vm-1 is emptied"
    assert world.send(ev.DecommissionAsked(world.now, "job-1", (0,))) == []
    assert grow(world) == ["job-1.2"]  # somewhere for its blocks to go
    world.tell("failed", "job-1.0")
    assert (task.message, world.job().failures, world.job().losses) == ("decommissioned", 0, 0)
    world.wait(2.0)
    assert not world.model.requests()


@pytest.mark.parametrize("state", ["finished", "lost"])
def test_a_decommissioned_executor_of_a_fixed_job_is_placed_again(state: task_states.TaskState) -> None:
    """Another is placed at once, also of an only one; however the first ends, that is no loss."""
    world = running(make_job(executors=1))
    world.send(ev.DecommissionAsked(world.now, "job-1", (0,), "vm-1 is emptied"))
    job = world.job()
    why = "loses executor 0 on vm-1 (vm-1 is emptied), and gets as many replacements"
    assert (job.state, job.reason) == ("relaunching", why)
    assert grow(world) == ["job-1.1"]
    world.tell("running", "job-1.1")
    assert (job.state, job.reason) == ("running", "all its executors run again")
    world.tell(state, "job-1.0")
    assert (job.state, job.failures, job.losses) == ("running", 0, 0)
    assert not world.model.requests()
    world.send(ev.DriverEnded(world.now, "job-1", 0))
    (ended,) = world.model.take_changes().ended
    assert len(ended.vm_ids) == 1


def test_a_decommissioned_executor_makes_room_for_the_one_that_follows() -> None:
    """Where there is no room for both, the other waits until it has ended; so it is after a new start."""
    world = running(make_job(executors=8))
    world.send(ev.DecommissionAsked(world.now, "job-1", (0,)))
    assert grow(world) == []
    after = World(VMS)
    after.now = world.now
    after.restore(world.kept())
    after.subscribe()
    assert [(request.count, request.again) for request in after.model.requests()] == [(1, True)]
    after.tell("finished", "job-1.0")
    assert grow(after) == ["job-1.8"]


def test_a_driver_that_does_not_run_asks_for_nothing() -> None:
    """Late requests of an earlier driver, and requests of no job, are void."""
    world = World(VMS)
    world.subscribe()
    world.submit(dynamic())
    ask(world, 5)
    ask(world, 5, job_id="job-9")
    assert world.job().wanted == ()
    grow(world)
    ask(world, 5)
    assert world.job().wanted == (ExecutorRequest(0, SIZE, 5),)
    world.send(ev.DriverEnded(world.now, "job-1", None, "its host is gone", requeue=True))
    ask(world, 9)
    assert (world.job().wanted, world.job().aborting) == ((), True)
    world.tell("killed", *world.open_tasks())
    world.offer()
    world.decide()
    assert len(world.open_tasks()) == 1


def test_a_fixed_job_gets_no_more_than_it_has() -> None:
    """Its driver may ask as it likes."""
    world = running(make_job(executors=2))
    ask(world, 5)
    assert not world.model.requests()
    assert world.job().wanted == ()


def test_it_is_taken_up_by_another_daemon() -> None:
    """Pending requests stay pending, and executors to be decommissioned are remembered."""
    world = running()
    ask(world, 3)
    world.send(ev.DecommissionAsked(world.now, "job-1", (0,)))
    after = World(VMS)
    after.now = world.now
    after.restore(world.kept())
    after.subscribe()
    assert [(request.count, request.grows) for request in after.model.requests()] == [(3, True)]
    task = after.model.task("job-1.0")
    assert task is not None
    assert task.decommissioned_at == world.now
    assert len(grow(after)) == 3


def test_a_log_of_it_replays() -> None:
    """From any point on, the same events lead to the same commands."""
    world = running()
    ask(world, 12)
    world.submit(make_job("job-2", 9, submitted_at=world.now))
    grow(world)
    begin = len(world.log)
    snapshot = world.model.snapshot()
    assert decode(encode(snapshot)) == snapshot
    for _ in range(4):
        world.offer()
        world.decide()
        world.wait(6.0)
    world.send(ev.ExecutorsReleased(world.now, "job-1", (0,)))
    world.tell("killed", "job-1.0")
    world.wait(2.0)
    grow(world)
    again = ClusterModel()
    again.handle(snapshot)
    for event, commands in replay(world.lines(begin)):
        assert again.handle(event) == commands
    assert again.snapshot() == world.model.snapshot()


@pytest.mark.parametrize(("asked", "placed"), [(9, 3), (2, 2)])
def test_a_machine_carries_only_so_many_jvms(asked: int, placed: int) -> None:
    """Growth uses the remaining JVMs; without room it holds up no job."""
    world = World(VMS, ModelOptions(jvms=4))
    world.run(dynamic())
    ask(world, asked)
    grow(world)
    assert len(world.open_tasks()) == placed
    assert launched(world.offer()) == {}
