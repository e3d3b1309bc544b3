"""Running jobs that began with fewer executors than they ask for get more while nobody waits."""

from dataclasses import replace

import pytest

from agents.registry import create
from environment.clusters.cluster_files import load_cluster
from environment.resources import Resources
from environment.scale_up import Grown, expected_of, more_executors, pays
from environment.simulation.durations.beliefs import EXACT
from environment.simulation.options import SimulationOptions
from environment.simulation.simulator import simulate
from environment.types import Job
from profiles.curve import Curve
from profiles.workloads.workload import Workload, WorkloadJob
from tests.builders import make_job, make_vms
from tests.environment.two_worlds.world import World, launched

ONE = Resources.of(1.0, 1024)
#: Half of what it does never gets quicker.
CURVE = Curve(startup=5.0, work=100.0, serial=0.5)
JOB = replace(make_job("job-1", 4, expected_duration=100.0), min_executors=1)


def test_a_job_gets_as_many_as_pay_by_its_curve() -> None:
    """All where nothing of it is serial or known, fewer where the last would hardly make it quicker."""
    assert more_executors(JOB, (ONE,)) == 3
    assert more_executors(replace(JOB, expected_duration=None), (ONE, ONE)) == 2
    stubborn = replace(JOB, curve=CURVE._replace(serial=0.9))
    assert more_executors(stubborn, (ONE,)) == 0
    assert more_executors(replace(JOB, curve=CURVE._replace(serial=0.47)), (ONE,)) == 1
    assert more_executors(JOB, (ONE,) * 4) == 0
    assert more_executors(JOB, ()) == 0


def test_nobody_joins_a_job_that_is_about_to_end() -> None:
    """An executor takes a while to start, and has to save more than that."""
    job = replace(JOB, curve=CURVE)
    assert pays(job, (ONE,), 1, 100.0)
    assert not pays(job, (ONE,), 1, 10.0)
    assert pays(job, (ONE,), 1, None)
    assert pays(job, (ONE,), 1, 40.0)
    assert not pays(replace(JOB, curve=CURVE._replace(warming=20.0)), (ONE,), 1, 40.0)


def test_what_is_left_is_expected_to_go_as_much_sooner() -> None:
    """Of 400 s on one executor 300 are left after 100: on four they take 75."""
    on, sizes = ["a", "b", "c", "d"], (ONE,) * 4
    assert expected_of(JOB, sizes[:1], on[:1], 20.0, ()) == 400.0
    assert expected_of(JOB, sizes, on, 20.0, (Grown(120.0, 1, 4),)) == pytest.approx(175.0)
    twice = (Grown(120.0, 1, 2), Grown(170.0, 2, 4))
    assert expected_of(JOB, sizes, on, 20.0, twice) == pytest.approx(150 + 100 / 2)
    assert expected_of(replace(JOB, expected_duration=None), sizes, on, 20.0, twice) is None


def test_a_simulated_job_grows_when_others_have_ended() -> None:
    """It begins beside another, and takes that one's place when it is over."""
    vms = load_cluster("paper")[:1]  # 4 cpus
    first = WorkloadJob("first", 0.0, "unlike", 3.0, 1024, 1, 100.0)
    grows = WorkloadJob("grows", 1.0, "unlike", 1.0, 1024, 4, 60.0, min_executors=1)
    later = WorkloadJob("later", 2.0, "unlike", 4.0, 1024, 1, 10.0)
    options = SimulationOptions(belief=EXACT)
    result = simulate(create("ff"), Workload((first, grows)), vms, options=options)
    # 240 s of work on one executor, of which 99 are done at 100; then it has four.
    assert [job.ended_at for job in result.jobs] == pytest.approx([100.0, 100.0 + 141.0 / 4])
    assert len(result.jobs[1].placement) == 4
    assert result.cost == pytest.approx(sum(job.cost for job in result.jobs))
    assert not result.violations
    crowded = simulate(create("ff"), Workload((first, grows, later)), vms, options=options)
    assert len(crowded.jobs[1].placement) == 1, "it took the place of one that waits"


def test_the_daemons_model_launches_more_when_nobody_waits() -> None:
    """Executors join the running job, which says so; one that waits goes first."""
    world = World(make_vms(1, 2.0))
    last = replace(make_job("job-2", 2, expected_duration=100.0), min_executors=1)
    world.run(make_job("job-1"), last)
    assert len(world.open_tasks("job-2")) == 1
    world.wait(30.0)
    world.submit(make_job("job-3"))
    world.driver_ends("job-1")
    world.tell("killed", *world.open_tasks("job-1"))
    world.offer()
    world.decide()
    assert [len(world.open_tasks(name)) for name in ("job-2", "job-3")] == [1, 1]
    world.wait(30.0)
    world.kill("job-3")
    world.tell("killed", *world.open_tasks("job-3"))
    world.offer()
    world.decide()
    assert world.job("job-2").reason == "1 more executor is being launched"
    world.tell("running", *world.open_tasks("job-2"))
    assert world.job("job-2").reason == "runs on 2 executors"
    assert world.job("job-2").grown == (Grown(world.now, 1, 2),)
    assert world.open_tasks("job-2") == ["job-2.0", "job-2.1"]
    # One that is lost is placed again as ever.
    world.tell("lost", "job-2.1")
    assert world.job("job-2").state == "relaunching"
    world.wait(5.0)
    world.offer()
    world.decide()
    world.tell("running", *world.open_tasks("job-2"))
    assert (world.job("job-2").state, len(world.open_tasks("job-2"))) == ("running", 2)
    # Its driver ends: executors that were told to stop first get no successors.
    world.tell("finished", world.open_tasks("job-2")[0])
    world.wait(60.0)
    world.offer()
    assert not launched(world.decide())


def test_growth_of_a_job_of_very_many_executors_is_found_in_no_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each number of executors is looked at once, in a time that depends on no number of them."""
    curve, asked = Curve(5.0, 100.0, 0.1), list[float]()
    job = replace(make_job(), executors=10_000, min_executors=1, expected_duration=100.0, curve=curve)

    def duration_with(_: Job, cores: float, *__: float) -> float:
        asked.append(cores)
        return 5.0 + 100.0 / cores

    monkeypatch.setattr(Job, "duration_with", duration_with)
    monkeypatch.setattr(Job, "duration_on", None)
    more_executors(job, (job.size,) * 100)
    assert len(asked) == 9_901
