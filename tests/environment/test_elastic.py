"""Elastic jobs start on fewer executors, under any policy, in both worlds."""

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agents.registry import POLICIES, create
from environment.decisions.decision_round import QueueOnView, decide_in_turn, decide_once, room_in_all
from environment.decisions.explain import explain
from environment.decisions.feasibility import shortage, whole_cluster_shortfall
from environment.kernel.arrays import refusals
from environment.resources import Resources
from environment.simulation.simulator import simulate
from environment.types import Decision, Place, PlacementRequest, Wait
from environment.view import ClusterView
from profiles.workloads.workload import WorkloadJob, workload_of
from tests.builders import make_job, make_view, make_vms
from tests.environment.two_worlds.world import World, launched

#: Policies that make executors smaller have reasons of their own to wait, which these options take away.
_OPTIONS: dict[str, dict[str, object]] = {
    "lookahead": {"patience": 0},
    "ogasched": {"variant": "oga-conserving"},
    "greedy": {"patience": 0},
}


def elastic(executors: int = 4, fewest: int = 2, driver: Resources | None = None) -> PlacementRequest:
    """A job of one cpu an executor."""
    job = replace(make_job(executors=executors, driver=driver), min_executors=fewest)
    return PlacementRequest(job, executors)


def first_vm(view: ClusterView, queue: Sequence[PlacementRequest]) -> Decision:
    """All executors that it is shown on the first VM, or wait."""
    request = queue[0]
    if view.room_for(request)[0] < request.count:
        return Wait(shortage(view, request))
    return Place(request.job.id, (0,) * request.count, tuple("there" for _ in range(request.count)))


@pytest.mark.parametrize("name", POLICIES)
def test_every_policy_starts_an_elastic_job_on_what_fits(name: str) -> None:
    """Three of four executors fit: it does not wait for the fourth."""
    view = make_view(make_vms(2, cpus=2), free_cpus=[2, 1], executors=[0, 1])
    verdict = decide_once(create(name, _OPTIONS.get(name, {})).decide, view, [elastic()])
    assert isinstance(verdict.decision, Place), verdict
    assert verdict.faults == ()
    if name != "ogasched":
        assert len(verdict.decision.placement) == 3
        assert explain(verdict, name).reason.startswith("started with 3 of 4 executors: ")


@pytest.mark.parametrize("name", POLICIES)
@given(fewest=st.integers(1, 4), free=st.lists(st.integers(0, 2), min_size=1, max_size=4))
@settings(max_examples=20, deadline=None)
def test_it_waits_only_when_its_fewest_do_not_fit(name: str, fewest: int, free: list[int]) -> None:
    """As many as fit, largest first, and never fewer than it runs on."""
    view = make_view(make_vms(len(free), cpus=2), free_cpus=free, executors=[2 - cpus for cpus in free])
    verdict = decide_once(create(name, _OPTIONS.get(name, {})).decide, view, [elastic(4, fewest)])
    if name == "ogasched":  # it makes room by making executors smaller
        return
    if sum(free) < fewest:
        assert isinstance(verdict.decision, Wait)
    else:
        assert isinstance(verdict.decision, Place)
        assert len(verdict.decision.placement) == min(sum(free), 4)


def test_a_gang_is_shown_as_it_is() -> None:
    """As are lost executors, and an elastic job that fits, or does not fit at all."""
    view = make_view(make_vms(1, cpus=3))
    gang = PlacementRequest(make_job(executors=4), 4)
    lost = replace(elastic(5, 1), count=4, again=True)
    for request in (gang, lost, elastic(3, 1)):
        assert QueueOnView(view, [request])[0] is request
    large, busy = elastic(9, 4), make_view(make_vms(1, cpus=9), free_cpus=[3])
    assert QueueOnView(busy, [large])[0] is large
    queue = QueueOnView(view, [gang, elastic(4, 2)])
    assert [request.count for request in queue] == [4, 3]
    assert queue[1] is queue[1]
    assert queue[1].full == elastic(4, 2)
    assert len(queue[0:2]) == len(queue) == 2


@pytest.mark.parametrize("name", POLICIES)
def test_one_that_asks_for_more_than_there_is_starts_on_what_there_is(name: str) -> None:
    """A hundred executors, of which two are enough: behind another job, and when the cluster is empty."""
    huge, vms = elastic(100, 2), make_vms(2, cpus=2)
    first = PlacementRequest(make_job("first", 3), 3)
    policy = create(name, _OPTIONS.get(name, {}))
    behind = tuple(decide_in_turn(policy.decide, make_view(vms), [first, huge]))
    assert not any(verdict.faults for verdict in behind)
    alone = decide_once(create(name, _OPTIONS.get(name, {})).decide, make_view(vms, at=5.0), [huge])
    assert isinstance(alone.decision, Place), alone
    if name != "ogasched":
        assert len(alone.decision.placement) == 4


def test_what_could_run_on_its_fewest_is_accepted() -> None:
    """Neither daemon nor simulation refuses it; with room for fewer the error states the need."""
    vms = make_vms(2, cpus=2)
    assert whole_cluster_shortfall(vms, Resources.of(1.0, 1024), 100, fewest=4) is None
    assert whole_cluster_shortfall(vms, Resources.of(1.0, 1024), 100, fewest=5) == (
        "the empty cluster has room for 4 executors of 1 cpu and 1024 MiB, 5 are needed at least"
    )
    assert refusals([elastic(100, 4).job], vms) == {}
    assert list(refusals([elastic(100, 5).job], vms)) == ["job-1"]


def test_a_job_that_waits_says_how_many_are_enough() -> None:
    """Neither the number that fits nor that which it needs is left to be guessed."""
    view = make_view(make_vms(1, cpus=4), free_cpus=[1])
    said = "room for 1 of 4 executors of 1 cpu and 1024 MiB (2 are enough)"
    assert shortage(view, elastic()) == said


def test_an_elastic_job_leaves_room_for_its_driver() -> None:
    """Its driver runs on the cluster: it does with an executor less rather than wait for a cpu more."""
    driver = Resources.of(1.0, 1024)
    view = make_view(make_vms(1, cpus=4))
    request = elastic(4, 2, driver)
    assert room_in_all(view, request) == 3
    verdict = decide_once(first_vm, view, [request])
    assert verdict.decision == Place("job-1", (0,) * 3, ("there",) * 3, driver=0)
    # Where a policy leaves no room, the last executors make some.
    tight = make_view(make_vms(2, cpus=4), free_cpus=[3, 0.5])

    def greedy(view: ClusterView, queue: Sequence[PlacementRequest]) -> Decision:
        return Place("job-1", (0,) * 3, ("there",) * 3)

    verdict = decide_once(greedy, tight, [request])
    assert verdict.decision == Place("job-1", (0,) * 2, ("there",) * 2, driver=0)
    # Never below its fewest.
    verdict = decide_once(greedy, tight, [elastic(4, 3, driver)])
    assert isinstance(verdict.decision, Wait)


def test_it_runs_on_what_it_got_and_says_so() -> None:
    """The model launches the executors that were placed, and asks for no others."""
    world = World(make_vms(1, cpus=2))
    world.subscribe()
    world.submit(elastic().job)
    world.offer()
    assert launched(world.decide()) == {"vm-1": ["job-1.0", "job-1.1"]}
    assert world.job().reason == "2 of its 4 executors are being launched"
    world.tell("running", "job-1.0", "job-1.1")
    assert (world.job().state, world.job().reason) == ("running", "all its executors run (2 of 4)")
    assert world.model.requests() == ()


@pytest.mark.parametrize("name", ["ff", "lookahead", "reinforce"])
def test_the_simulator_starts_one_that_is_larger_than_the_cluster(name: str) -> None:
    """It is placed on the whole cluster, after the jobs that were there before it."""
    jobs = workload_of(
        WorkloadJob(
            name=f"job-{executors}", submitted_at=0.0, type="sort", cpus=1.0, memory_mib=1024,
            executors=executors, duration=60.0, min_executors=2,
        )
        for executors in (3, 100)
    )  # fmt: skip
    result = simulate(create(name, _OPTIONS.get(name, {})), jobs, make_vms(1, memory_mib=65536))
    assert sorted(len(job.placement) for job in result.jobs) == [3, 4]
    assert not result.refused


@pytest.mark.parametrize("name", ["ff", "rr", "best_fit", "ilp", "lookahead"])
def test_the_simulator_starts_it_smaller_too(name: str) -> None:
    """Two jobs on a VM with room for 1.5: the second begins with the rest, and later has all."""
    vms = make_vms(1, cpus=6, memory_mib=65536)
    jobs = workload_of(
        WorkloadJob(
            name=f"job-{number}", submitted_at=0.0, type="unlike", cpus=1.0, memory_mib=1024, executors=4,
            duration=60.0, min_executors=2,
        )
        for number in range(2)
    )  # fmt: skip
    result = simulate(create(name, _OPTIONS.get(name, {})), jobs, vms)
    assert [(job.started_at, len(job.placement)) for job in result.jobs] == [(0.0, 4), (0.0, 4)]
    assert [job.ended_at for job in result.jobs] == [60.0, 90.0]
    gangs = workload_of(replace(job, min_executors=None) for job in jobs.jobs)
    jobs_of_gangs = simulate(create(name, _OPTIONS.get(name, {})), gangs, vms).jobs
    assert [len(job.placement) for job in jobs_of_gangs] == [4, 4]
    assert max(job.started_at for job in jobs_of_gangs) >= 60


def test_a_round_places_one_after_the_other_on_what_is_left() -> None:
    """Each job of a round is shown the room left by those before it."""
    view = make_view(make_vms(1, cpus=7))
    queue = [replace(elastic(), job=replace(elastic().job, id=name)) for name in ("a", "b", "c")]
    verdicts = tuple(decide_in_turn(first_vm, view, queue))
    placed = [len(v.decision.placement) for v in verdicts if isinstance(v.decision, Place)]
    assert placed == [4, 3]
