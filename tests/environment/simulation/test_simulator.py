"""Policy-driven runs: by hand, and for every policy on random clusters and workloads."""

import dataclasses
import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agents.registry import POLICIES, create
from environment.clusters.cluster_files import load_cluster
from environment.kernel.arrays import episode_of, jobs_of
from environment.kernel.completion_heap import next_completion
from environment.kernel.rule_options import DurationOptions, RewardOptions, rules
from environment.kernel.rules import advance, reset, step_episode
from environment.kernel.state import RUNNING, make_batch
from environment.policy import FunctionPolicy, Policy
from environment.simulation.durations.beliefs import EXACT
from environment.simulation.options import SimulationOptions
from environment.simulation.results.decision_trace import trace_to_json
from environment.simulation.results.job_outcomes import JobOutcome
from environment.simulation.results.results import Result
from environment.simulation.simulator import StuckError, simulate
from environment.training.episodes import episodes
from environment.types import Decision, Place, PlacementRequest, Vm, Wait
from environment.view import ClusterView
from profiles.job_profile import load_profiles
from profiles.workloads.generators import load_workload
from profiles.workloads.workload import Workload, WorkloadJob
from tests.builders import make_vm, make_vms
from tests.environment.simulation.replay import Replay, trace_from_json

Rule = Callable[[ClusterView, Sequence[PlacementRequest]], Decision]


def work(name: str, at: float, executors: int, duration: float, kind: str = "other") -> WorkloadJob:
    """Executors of one cpu and one GiB; `other` has no profile, so any placement is good."""
    return WorkloadJob(name, at, kind, 1.0, 1024, executors, duration)


def on(*placement: int) -> Rule:
    """A policy that always places so, and waits when it cannot."""

    def decide(view: ClusterView, queue: Sequence[PlacementRequest]) -> Decision:
        counts = np.bincount(placement[: queue[0].count], minlength=len(view.vms))
        if (counts > view.room_for(queue[0])).any():
            return Wait("no room")
        return Place(queue[0].job.id, placement[: queue[0].count])

    return decide


def run(rule: Rule, jobs: Sequence[WorkloadJob], vms: Sequence[Vm], fallback: Policy | None = None) -> Result:
    """The run of a plain function, to which everything is known."""
    options = SimulationOptions(belief=EXACT)
    return simulate(FunctionPolicy(rule), Workload(tuple(jobs)), vms, fallback=fallback, options=options)


def test_policies_see_owner_and_queue() -> None:
    """Of those that wait, and of those that run."""
    seen: list[tuple[str, str]] = []

    def first(view: ClusterView, queue: Sequence[PlacementRequest]) -> Decision:
        seen.extend((job.owner, job.queue) for job in (queue[0].job, *(run.job for run in view.running)))
        return Place(queue[0].job.id, (0,))

    run(
        first,
        [replace(work("a", 0, 1, 9), owner="alice"), replace(work("b", 1, 1, 9), queue="q")],
        make_vms(1),
    )
    assert seen == [("alice", "default"), ("", "q"), ("alice", "default")]


def test_times_and_costs_by_hand() -> None:
    """Two jobs share a VM, the third waits for the first; every number follows."""
    jobs = [work("a", 0, 3, 100), work("b", 10, 1, 200), work("c", 20, 2, 50)]
    result = run(on(0, 0, 0), jobs, make_vms(2))
    assert [(job.started_at, job.ended_at) for job in result.jobs] == [(0, 100), (10, 210), (100, 150)]
    assert result.average_duration == pytest.approx(350 / 3)
    assert result.average_completion == pytest.approx((100 + 200 + 130) / 3)
    assert result.makespan == 210
    assert list(result.vm_seconds) == [210, 0]
    assert result.cost == pytest.approx(210 * 0.24 / 3600)
    assert result.bound == pytest.approx((300 + 200 + 100) * 0.06 / 3600)
    assert result.utilisation == pytest.approx(600 / 840)
    # From 0 to 10 a alone, to 100 a and b 3:1, to 150 b and c 1:2, to 210 b alone.
    shares = [10 + 90 * 0.75, 90 / 4 + 50 / 3 + 60, 50 * 2 / 3]
    assert [job.cost * 3600 / 0.24 for job in result.jobs] == pytest.approx(shares)


def test_a_wait_lasts_until_something_happens() -> None:
    """It ends with an arrival or the end of a job, whichever is first; the queue grows by arrivals."""
    jobs = [work("a", 0, 4, 100), work("b", 10, 4, 10), work("c", 20, 1, 10)]
    result = run(on(0, 0, 0, 0), jobs, make_vms(1))
    assert [(t.at, t.job, t.queue, type(t.decision)) for t in result.decisions] == [
        (0, "a", 1, Place),
        (10, "b", 1, Wait),
        (20, "b", 2, Wait),
        (100, "b", 2, Place),
        (100, "c", 1, Wait),
        (110, "c", 1, Place),
    ]
    assert result.waits == 3


def shortest(view: ClusterView, queue: Sequence[PlacementRequest]) -> Decision:
    """The shortest job that waits goes to the first VM, if it fits there."""
    request = min(queue, key=lambda request: request.job.expected_duration or 0.0)
    if view.room_for(request)[0] < request.count:
        return Wait("no room")
    return Place(request.job.id, (0,) * request.count)


def test_a_later_job_may_be_placed_first() -> None:
    """An overtaken job stays in place; results are in order of arrival, costs go with their jobs."""
    jobs = [
        work("a", 0, 4, 100),
        work("b", 10, 3, 60),
        work("c", 20, 4, 50),
        work("d", 30, 1, 70),
        work("e", 155, 2, 10),
    ]
    result = run(shortest, jobs, make_vms(2))
    assert [(t.at, t.job) for t in result.decisions if isinstance(t.decision, Place)] == [
        (0, "a"),
        (100, "c"),
        (150, "b"),
        (150, "d"),
        (210, "e"),
    ]
    assert [t.job for t in result.decisions if isinstance(t.decision, Wait)] == ["b"] * 4 + ["e"]
    assert [(job.name, job.executors, job.started_at, job.ended_at) for job in result.jobs] == [
        ("a", 4, 0, 100),
        ("b", 3, 150, 210),
        ("c", 4, 100, 150),
        ("d", 1, 150, 220),
        ("e", 2, 210, 220),
    ]
    assert result.makespan == 220
    # From 150 to 210 b and d share the VM 3:1, to 220 d and e 1:2.
    shares = [100, 60 * 0.75, 50, 60 / 4 + 10 / 3, 10 * 2 / 3]
    assert [job.cost * 3600 / 0.24 for job in result.jobs] == pytest.approx(shares)
    assert run(Replay(result.decisions).decide, jobs, make_vms(2)) == result


def test_bad_placements_take_longer() -> None:
    """A network-bound job on two VMs takes 30 % longer, as its profile's preference says."""
    jobs = [work("a", 0, 2, 100, "pagerank"), work("b", 0, 2, 100, "wordcount")]
    result = run(on(0, 1), jobs, make_vms(2))
    assert [(job.duration, job.good) for job in result.jobs] == [(130, False), (100, True)]
    assert result.good_placements == 1
    same = simulate(
        FunctionPolicy(on(0, 1)),
        Workload(tuple(jobs)),
        make_vms(2),
        options=SimulationOptions(durations=DurationOptions(model="fixed")),
    )
    assert [job.duration for job in same.jobs] == [100, 100]


def test_what_never_fits_is_refused_by_name() -> None:
    """The others run as if it had not been submitted."""
    giant = work("giant", 5, 9, 100)
    result = run(on(0), [work("a", 0, 1, 10), giant, work("b", 6, 1, 10)], make_vms(2))
    assert result.refused == {
        "giant": "the empty cluster has room for 8 executors of 1 cpu and 1024 MiB, 9 are asked for"
    }
    assert [job.name for job in result.jobs] == ["a", "b"]


def test_nothing_to_run_is_a_result_too() -> None:
    """When all jobs are refused, all numbers are there."""
    result = run(on(0), [work("giant", 5, 9, 100)], make_vms(2))
    assert (tuple(result.jobs), result.cost, result.makespan, result.cost_over_bound) == ((), 0, 0, None)
    json.dumps(result.to_json())


def test_a_refused_decision_becomes_a_wait() -> None:
    """One that the check refuses counts as a violation; the fallback decides instead, if there is one."""
    jobs = [work("a", 0, 4, 100), work("b", 10, 1, 10)]

    def greedy(view: ClusterView, queue: Sequence[PlacementRequest]) -> Decision:
        return Place(queue[0].job.id, (0,) * queue[0].count)

    alone = run(greedy, jobs, make_vms(2))
    assert alone.violations == 1
    assert alone.jobs[1].started_at == 100
    assert (
        alone.decisions[1].faults
        == ("vm-1 has 0 cpus free, 1 needed", "vm-1 has 12288 MiB free, 1024 needed")[:1]
    )
    helped = run(greedy, jobs, make_vms(2), create("ff"))
    assert (helped.violations, helped.jobs[1].started_at) == (1, 10)


def test_a_policy_that_waits_for_nothing_is_stopped() -> None:
    """When nothing runs and nothing will arrive, the fallback places the job; else it is an error."""
    jobs = [work("a", 0, 1, 100)]

    def never(view: ClusterView, queue: Sequence[PlacementRequest]) -> Decision:
        return Wait("I do not feel like it")

    with pytest.raises(StuckError, match=r"a will never be placed at 0 s: .* I do not feel like it"):
        run(never, jobs, make_vms(1))
    helped = run(never, jobs, make_vms(1), create("ff"))
    assert (helped.violations, helped.jobs[0].ended_at) == (1, 100)


def test_policies_see_what_the_daemon_shows() -> None:
    """Free resources, executors, ends of VMs' use, running jobs, and jobs' known fields."""
    views: list[tuple[ClusterView, list[PlacementRequest]]] = []

    def look(view: ClusterView, queue: Sequence[PlacementRequest]) -> Decision:
        views.append((view, list(queue)))
        return on(0, 1)(view, queue)

    jobs = [work("a", 0, 2, 100, "pagerank"), work("b", 30, 1, 10), work("c", 30, 1, 10)]
    run(look, jobs, make_vms(3))
    view, queue = views[1]
    assert view.at == 30
    assert view.free_cpus.tolist() == [3, 3, 4]
    assert view.free_memory_mib.tolist() == [15360, 15360, 16384]
    assert view.executors.tolist() == [1, 1, 0]
    assert view.busy_until.tolist() == [130, 130, 30]
    assert [(r.job.id, r.vm_ids, r.started_at, r.end_at(view.at)) for r in view.running] == [
        ("a", ("id-vm-1", "id-vm-2"), 0, 130)
    ]
    assert [request.job.id for request in queue] == ["b", "c"]
    assert (views[0][1][0].job.prefers, views[0][1][0].job.expected_duration) == ("consolidate", 100)
    with pytest.raises(ValueError, match="read-only"):
        view.free_cpus[0] = 0


def test_clusters_are_checked() -> None:
    """A cluster has VMs, each with an id of its own."""
    with pytest.raises(ValueError, match="at least one VM"):
        run(on(0), [work("a", 0, 1, 1)], [])
    with pytest.raises(ValueError, match="same id"):
        run(on(0), [work("a", 0, 1, 1)], [make_vm("x"), make_vm("x")])


def test_progress_is_told() -> None:
    """In about two hundred steps, up to the last job."""
    calls: list[tuple[int, int]] = []
    workload = load_workload("normal", jobs=1000)
    simulate(
        create("ff"),
        workload,
        load_cluster("paper"),
        progress=lambda done, total: calls.append((done, total)),
    )
    assert calls == [(done, 1000) for done in range(5, 1001, 5)]


@st.composite
def worlds(draw: st.DrawFn) -> tuple[Workload, tuple[Vm, ...]]:
    """Up to five VMs and a dozen jobs of the paper's types; some jobs may be too large."""
    vms = tuple(
        make_vm(
            f"vm-{i + 1}",
            draw(st.sampled_from([0.3, 1.0, 4.0, 8.0])),
            draw(st.sampled_from([1000, 4096, 16384])),
            draw(st.sampled_from([0.0, 0.24, 0.48])),
            gpus=draw(st.sampled_from([0.0, 2.0])),
        )
        for i in range(draw(st.integers(1, 5)))
    )
    jobs, at = [], draw(st.sampled_from([0.0, 7.5]))
    for i in range(draw(st.integers(1, 12))):
        at += draw(st.sampled_from([0.0, 0.0, 3.0, 10.0, 100.0]))
        kind = draw(st.sampled_from(["wordcount", "pagerank", "sort", "unheard-of"]))
        cpus, memory = draw(st.sampled_from([0.1, 0.3, 1.0, 3.0])), draw(st.sampled_from([100, 1000, 4096]))
        duration = draw(st.sampled_from([1e-9, 3.0, 10.0, 33.3]))
        gpus = draw(st.sampled_from([{}, {}, {"gpus": 1.0}]))
        executors = draw(st.integers(1, 6))
        jobs.append(WorkloadJob(f"j{i}", at, kind, cpus, memory, executors, duration, resources=gpus))
    return Workload(tuple(jobs)), vms


def never_over_capacity(result: Result, workload: Workload) -> None:
    """At no instant do running executors take more than a VM has."""
    gpus = {job.name: job.resources.get("gpus", 0.0) for job in workload.jobs}
    changes = [
        (when, sign, (*taken, gpus[job.name]))
        for job in result.jobs
        for when, sign in ((job.started_at, 1), (job.ended_at, -1))
        for taken in zip(job.placement, job.taken, strict=True)
    ]
    used = {index: [0.0, 0, 0.0] for index in range(len(result.vms))}
    for _, sign, (vm, size, amount) in sorted(changes, key=lambda change: change[:2]):
        used[vm][0] += sign * size.cpus
        used[vm][1] += sign * size.memory_mib
        used[vm][2] += sign * amount
        assert used[vm][0] <= result.vms[vm].cpus + 0.0005
        assert used[vm][1] <= result.vms[vm].memory_mib
        assert used[vm][2] <= result.vms[vm].resources.amount("gpus")


def by_turns(name: str, result: Result) -> list[list[JobOutcome]]:
    """Jobs served in the order of their arrival: of one type under `drf` and `ogasched`, else all of them.

    None under policies that let jobs be overtaken: how often they may is tested with them.
    """
    if name in ("greedy", "lookahead", "reinforce", "dqn"):
        return []
    if name not in ("drf", "ogasched"):
        return [list(result.jobs)]
    return [[job for job in result.jobs if job.type == kind] for kind in {job.type for job in result.jobs}]


@pytest.mark.parametrize("name", POLICIES)
@given(world=worlds())
@settings(max_examples=25, deadline=None)
def test_every_policy_keeps_to_the_rules(name: str, world: tuple[Workload, tuple[Vm, ...]]) -> None:
    """Any policy respects capacity, clock, whole executors, gangs, order, cost, repetition and replay."""
    workload, vms = world
    result = simulate(create(name), workload, vms)
    assert {job.name for job in result.jobs} | set(result.refused) == {job.name for job in workload.jobs}
    assert result.violations == 0
    never_over_capacity(result, workload)
    assert [job.name for job in result.jobs] == [
        j.name for j in workload.jobs if j.name not in result.refused
    ]
    for earlier, later in pairwise(result.decisions):
        assert earlier.at <= later.at
    for served in by_turns(name, result):
        starts = [job.started_at for job in served]
        assert starts == sorted(starts)  # first come, first served
    placed = {t.job: t for t in result.decisions if isinstance(t.decision, Place)}
    for job in result.jobs:
        assert len(job.placement) == job.executors  # every executor on one VM, all at one time
        assert placed[job.name].at == job.started_at >= job.submitted_at
    assert result.cost >= result.bound * (1 - 1e-9) - 1e-15  # the clock knows no less of a second
    assert sum(job.cost for job in result.jobs) == pytest.approx(result.cost)
    run = jobs_of(Workload(tuple(job for job in workload.jobs if job.name not in result.refused)), {})
    least = sum(job.expected_duration or 0.0 for job in run) / max(1, len(run))
    assert result.average_duration >= least * (1 - 1e-9) - 1e-6
    assert simulate(create(name), workload, vms) == result
    trace = trace_from_json(json.loads(json.dumps(trace_to_json(result.decisions))))
    # What was replayed no guard had to decide.
    assert simulate(Replay(trace), workload, vms) == replace(result, guarded=0)


@pytest.mark.parametrize("name", [name for name in POLICIES if name != "ogasched"])  # it makes jobs smaller
@given(world=worlds())
@settings(max_examples=15, deadline=None)
def test_a_run_is_an_episode(name: str, world: tuple[Workload, tuple[Vm, ...]]) -> None:
    """The same placements, executor by executor in the kernel, give the same starts, ends and cost."""
    workload, vms = world
    result = simulate(create(name), workload, vms)
    if not result.jobs:
        return
    jobs = {job.id: job for job in jobs_of(workload, load_profiles())}
    outcomes = {job.name: job for job in result.jobs}
    order = [traced.job for traced in result.decisions if isinstance(traced.decision, Place)]
    placed = [outcomes[name] for name in order]
    episode = episode_of([jobs[name] for name in order], vms)
    batch = make_batch([episode], rules(RewardOptions(), DurationOptions()))
    reset(batch, 0)
    for job in placed:
        while batch.state.clock[0] < job.started_at:
            if next_completion(batch, 0) <= job.started_at:
                assert step_episode(batch, 0, 0) == -1
            else:  # another job's arrival was a reason to decide again
                advance(batch, 0, job.started_at)
        for vm in job.placement:
            assert batch.state.over[0] == RUNNING
            step_episode(batch, 0, vm + 1)
    assert batch.state.start[0].tolist() == [job.started_at for job in placed]
    assert batch.state.end[0].tolist() == [job.ended_at for job in placed]
    assert batch.state.used[0].tolist() == list(result.vm_seconds)


def test_replaying_another_run_is_refused() -> None:
    """A trace that does not belong to the workload is a failed policy, not another result."""
    result = run(on(0), [work("a", 0, 1, 10)], make_vms(1))
    with pytest.raises(StuckError, match="b is next at 0 s, but the trace decides about a"):
        simulate(Replay(result.decisions), Workload((work("b", 0, 1, 10),)), make_vms(1))


def test_results_are_plain_values() -> None:
    """As JSON they keep every number, job and decision; scores only if asked for."""
    workload, vms = load_workload("normal", jobs=5), load_cluster("paper")
    result = simulate(create("best_fit"), workload, vms)
    shown = json.loads(json.dumps(result.to_json()))
    assert shown["cost"] == result.cost
    assert len(shown["jobs"]) == len(result.jobs) == 5
    assert shown["jobs"][0]["completion"] == result.jobs[0].completion
    assert "scores" not in shown["decisions"][0]
    scored = simulate(create("best_fit"), workload, vms, options=SimulationOptions(scores=True))
    assert len(scored.to_json()["decisions"][0]["scores"]) == 12
    assert dataclasses.replace(scored, decisions=result.decisions) == result


def test_gpus_are_taken_and_given_back() -> None:
    """Two jobs with gpus run one after the other where the gpus are; one without does not wait for them."""
    jobs = [work("a", 0, 2, 100), work("b", 0, 1, 50), work("c", 0, 1, 10)]
    jobs[:2] = [dataclasses.replace(job, resources={"gpus": 1.0}) for job in jobs[:2]]
    vms = (make_vm("vm-1"), make_vm("vm-2", gpus=2))
    workload = Workload((*jobs[:2], dataclasses.replace(jobs[2], type="x")))
    result = simulate(create("drf"), workload, vms)
    assert [(job.placement, job.started_at) for job in result.jobs] == [((1, 1), 0), ((1,), 100), ((0,), 0)]
    refused = simulate(create("ff"), Workload((jobs[0],)), vms[:1]).refused
    assert refused["a"].endswith("1024 MiB and 1 gpu fits no VM of the cluster: none has gpus")


def test_training_refuses_what_its_kernel_does_not_know() -> None:
    """The error names the job and the resources it asks for."""
    job = dataclasses.replace(work("a", 0, 1, 10), resources={"gpus": 1.0})
    with pytest.raises(ValueError, match="a asks for gpus; episodes for training know only cpus and memory"):
        episodes(Workload((job,)), (make_vm(gpus=1),))(0)
