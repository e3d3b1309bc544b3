"""Jobs with too little memory are started again once with more: how much, when not, and the bill."""

from dataclasses import replace

import pytest

from environment.model.cluster_model import ModelOptions
from environment.model.jobs.end_reasons import short_of_memory
from environment.model.jobs.memory_retry import larger
from environment.model.messages import events as ev
from environment.model.messages.snapshot import VmSize
from environment.resources import Resources
from environment.types import Job
from tests.builders import make_job, make_vm
from tests.environment.two_worlds.world import World, launched, names

VMS = [make_vm("vm-1"), make_vm("vm-2")]
HEAP = "Command exited with status 52 (the heap): java.lang.OutOfMemoryError: Java heap space"
BY_EXECUTOR = "its driver exited with code 1: a.B: ExecutorLostFailure (executor 0 exited caused by tasks)"


def retried(memory_mib: int = 1024, executors: int = 1, **more: object) -> Job:
    """A job that may be started again with more memory, and not otherwise."""
    job = make_job(executors=executors, memory_mib=memory_mib)
    return replace(job, memory_retry=True, **more)  # type: ignore[arg-type]


def run_out(world: World, message: str = HEAP, why: str = BY_EXECUTOR) -> list[str]:
    """The first executor has too little memory, and the driver fails with it; names of the commands."""
    first, *others = world.open_tasks()
    world.tell("failed", first, message=message)
    why = why.replace("executor 0", f"executor {first.partition('.')[2]}")
    told = names(world.send(ev.DriverEnded(world.now, "job-1", 1, why, cleared=True)))
    world.tell("killed", *others)
    return told


@pytest.mark.parametrize(
    ("reason", "of"),
    [
        (
            "java.lang.OutOfMemoryError: Java heap space (executor 1 on vm-1 ended: Command)",
            "executor",
        ),
        ("executor 1 on vm-1 ended: Command exited with status 52 (Spark's code)", "executor"),
        ("Memory limit exceeded: the tasks of this VM needed more (executor 0 ended)", "executor"),
        ("MemoryError ... SQLSTATE: 38000 (its driver exited with code 1)", "executor"),
        ("java.lang.OutOfMemoryError: GC overhead limit exceeded (its driver exited with code 1)", "driver"),
        ("executor 1 on vm-1 ended: Command terminated with signal Killed (SIGKILL: by kill -9)", None),
        ("java.lang.OutOfMemoryError: Metaspace (executor 1 ended: Command exited with status 52)", None),
        ("MyMemoryErrors: no (its driver exited with code 1)", None),
        ("its driver exited with code 1", None),
    ],
)
def test_which_failures_are_for_memory(reason: str, of: str | None) -> None:
    """By Java's and Python's own errors, Spark's exit code and limits of containers; not by any SIGKILL."""
    assert short_of_memory(reason) == of


@pytest.mark.parametrize(
    ("memory_mib", "vms", "tried"),
    [
        (1024, [16384], [2048]),  # an even part
        (3072, [16384], [8192]),  # rounded up to one
        (3072, [16384, 32768], [6553, 8192]),  # of the VM where that adds least
        (10240, [16384], [16384]),  # not twice, but all
        (10240, [16384, 12800, 12000, 11000], [16384, 12800]),
        (13200, [16384], []),  # so little more is not worth a run
        (16384, [16384, 8192], []),
        (1024, [], []),
    ],
)
def test_memory_is_doubled_and_rounded_up_to_an_even_part_of_a_vm(
    memory_mib: int, vms: list[int], tried: list[int]
) -> None:
    """Where no VM has twice as much, all of the largest ones."""
    assert larger(memory_mib, vms) == tried


def test_a_job_is_started_again_once_with_more_memory() -> None:
    """At once, and without a retry of its own; a second failure ends it."""
    world = World(VMS, ModelOptions(host="here"))
    world.run(retried(3072))
    world.wait(60.0)
    run_out(world)
    job = world.job()
    assert (job.state, job.retried, job.free_retries, job.job.memory_mib) == ("queued", 0, 0, 8192)
    assert job.reason.startswith("java.lang.OutOfMemoryError: Java heap space (executor 0 on vm-1 ended: ")
    assert job.reason.endswith("it is started again: each executor has 8192 MiB instead of 3072 MiB")
    assert [attempt.fault for attempt in job.attempts] == ["memory"]
    world.offer()
    assert launched(world.decide()) == {"vm-1": ["job-1.1"]}
    assert [task.resources.memory_mib for task in world.model.tasks("job-1")] == [3072, 8192]
    assert names(world.tell("running", "job-1.1")) == ["StartDriver"]
    run_out(world)
    assert (world.job().state, world.job().job.memory_mib) == ("failed", 8192)
    assert world.job().reason.endswith(" (after a retry with more memory)")


@pytest.mark.parametrize(("seconds", "state"), [(5.0, "queued"), (100.0, "failed")])
def test_a_driver_may_not_know_that_its_executor_ran_out(seconds: float, state: str) -> None:
    """The kernel killed the Python worker of the executor that ended last, just before the driver did."""
    world = World(VMS)
    world.run(retried())
    world.tell(
        "failed", "job-1.0", message="Memory limit exceeded: it needed more than its 1024 MB of memory"
    )
    world.wait(seconds)
    why = "java.io.EOFException (its driver exited with code 1)"
    world.send(ev.DriverEnded(world.now, "job-1", 1, why, cleared=True))
    assert world.job().state == state
    if state == "queued":
        assert world.job().job.memory_mib == 2048
        assert world.job().reason.startswith("executor 0 on vm-1 ended: Memory limit exceeded: ")
    else:
        assert world.job().reason == why


def test_its_own_retries_are_for_other_failures() -> None:
    """They are all left after a restart with more memory, and are used when that was not enough."""
    world = World(VMS)
    world.run(retried(retries=1))
    run_out(world)
    world.offer()
    world.decide()
    world.tell("running", *world.open_tasks())
    run_out(world)
    assert (world.job().state, world.job().retried, world.job().job.memory_mib) == ("queued", 1, 2048)
    assert world.job().reason.endswith("retry 1 of 1 follows in 1 s")


def test_a_job_that_may_not_is_not_started_again() -> None:
    """Also where its launch could not be put aside, or another failure is the reason."""
    for job, cleared, message in (
        (replace(retried(), memory_retry=False), True, HEAP),
        (retried(), False, HEAP),
        (retried(), True, "Command terminated with signal Killed"),
    ):
        world = World(VMS)
        world.run(job)
        world.tell("failed", "job-1.0", message=message)
        world.send(ev.DriverEnded(world.now, "job-1", 1, BY_EXECUTOR, cleared=cleared))
        assert (world.job().state, world.job().job.memory_mib) == ("failed", 1024)


def test_the_reason_says_that_there_is_no_more_memory() -> None:
    """As no VM has more, or too few have for all its executors."""
    for job in (retried(16384), retried(8192, executors=4)):
        world = World(VMS)
        world.run(job)
        world.send(ev.VmsMeasured(world.now, tuple(VmSize(vm.id, vm.resources) for vm in VMS), tuple(VMS)))
        run_out(world)
        assert (world.job().state, world.job().more_memory) == ("failed", None)
        assert world.job().reason.endswith("; there is no room for an executor with more memory")


def test_too_many_lost_executors_count_too() -> None:
    """A job that is failed since its executors keep dying for memory; first its driver is stopped."""
    world = World(VMS)
    world.run(retried())
    for number in range(4):
        world.tell("failed", f"job-1.{number}", message=HEAP)
        if number < 3:
            world.wait(60.0)
            world.offer()
            world.decide()
            world.tell("running", *world.open_tasks())
    assert world.job().reason.endswith("; its driver is being stopped")
    world.send(ev.DriverEnded(world.now, "job-1", 143, "", cleared=True))
    assert (world.job().state, world.job().job.memory_mib) == ("queued", 2048)


def test_a_driver_on_the_cluster_gets_more() -> None:
    """Where it, and no executor, had too little; one on the daemon's host is no part of a VM."""
    why = "Command exited with status 1: java.lang.OutOfMemoryError: Java heap space"
    world = World(VMS)
    world.run(retried(driver=Resources.of(1.0, 1024)))
    world.tell("failed", next(each for each in world.open_tasks() if "driver" in each), message=why)
    world.tell("killed", *world.open_tasks())
    job = world.job()
    assert (job.state, job.job.memory_mib, job.job.driver) == ("queued", 1024, Resources.of(1.0, 2048))
    assert job.reason.endswith("it is started again: its driver has 2048 MiB instead of 1024 MiB")
    world = World(VMS)
    world.run(retried())
    world.send(ev.DriverEnded(world.now, "job-1", 1, f"its driver exited with code 1: {why}", cleared=True))
    assert world.job().state == "failed"
    assert world.job().reason.endswith("; the memory of a driver on the daemon's host is not raised")


def test_the_failed_attempt_is_apart_in_the_bill() -> None:
    """What it used of its VMs, once all its tasks have ended; the second attempt is not."""
    world = World(VMS)
    world.run(retried(4096, executors=2))
    world.wait(3600.0)
    run_out(world)
    lost = [charge for charge in world.model.take_changes().charges if charge.kind == "memory"]
    assert [charge.job for charge in lost] == ["job-1"]
    more = world.job().more_memory
    assert more is not None
    # Two of four parts of a VM for an hour.
    assert more.lost == pytest.approx(0.12)
    assert lost[0].dollars == pytest.approx(0.12)
    world.offer()
    world.decide()
    world.tell("running", *world.open_tasks())
    world.wait(3600.0)
    world.driver_ends("job-1", 0)
    assert not [charge for charge in world.model.take_changes().charges if charge.kind == "memory"]


def test_an_attempt_costs_what_the_bill_has_of_it() -> None:
    """Not what it used of a VM that has gone, since its account is closed, when all of it has ended."""
    world = World(VMS, ModelOptions(host="here"))
    world.subscribe()
    world.submit(retried(4096, executors=2))
    world.offer()
    world.place("job-1", *VMS)
    world.tell("running", *world.open_tasks())
    world.send(ev.DriverStarted(world.now, "job-1"))
    world.wait(3600.0)
    first, second = world.open_tasks()
    world.tell("failed", first, message=HEAP)
    size = VmSize("id-vm-2", VMS[1].resources)
    world.send(ev.VmsMeasured(world.now, (size,), (VMS[1],)))
    world.send(ev.VmLost(world.now, "id-vm-1"))
    world.send(ev.DriverEnded(world.now, "job-1", 1, BY_EXECUTOR, cleared=True))
    world.tell("killed", second)
    lost = [each.dollars for each in world.model.take_changes().charges if each.kind == "memory"]
    more = world.job().more_memory
    assert more is not None
    assert len(lost) == 1
    assert more.lost == pytest.approx(sum(lost))


def test_another_daemon_goes_on_with_it() -> None:
    """Stopped while the first attempt ends, and while it waits; it has more memory, and no second restart."""
    world = World(VMS)
    world.run(retried(executors=2))
    world.tell("failed", "job-1.0", message=HEAP)
    world.send(ev.DriverEnded(world.now, "job-1", 1, BY_EXECUTOR, cleared=True))
    kept = world.kept()
    other = World(VMS)
    other.restore(kept)
    other.subscribe()
    other.tell("killed", "job-1.1")
    job = other.job()
    assert (job.state, job.job.memory_mib, job.more_memory is not None) == ("queued", 2048, True)
    assert other.model.retries_left("job-1", "memory") == 0


def test_a_restart_gives_no_more_time() -> None:
    """`max_runtime` counts from the first start, as with retries."""
    world = World(VMS)
    world.run(retried(max_runtime=100.0))
    world.wait(80.0)
    run_out(world)
    world.offer()
    world.decide()
    world.tell("running", *world.open_tasks())
    world.wait(30.0)
    assert world.job().reason == "it ran for longer than its max_runtime, 100 s"
