"""How fast decisions are: rounds alone against plain Python, and the model's cost per event. Prints only."""

import time
from collections import deque
from random import Random

import numpy as np
import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from agents.registry import create
from environment.decisions.decision_round import decide_in_turn, decide_once
from environment.decisions.explain import explain
from environment.model.messages import events as ev
from environment.resource_arrays import ResourceArrays
from environment.types import Job, Place, PlacementRequest, Vm
from environment.view import ClusterView
from tests.benchmarks.conftest import Show
from tests.benchmarks.measuring import fastest, timed
from tests.benchmarks.reference import PlainCluster
from tests.builders import make_job, make_vm, make_vms
from tests.environment.two_worlds.world import World

JOBS = 10_000


def queue_of(count: int) -> list[PlacementRequest]:
    """Jobs as in Islam 2022, 7.1: 1-8 executors of 1-6 cores and 1-10 GB."""
    pick = Random(1)  # noqa: S311  # no secret hangs on it
    jobs = [
        make_job(
            f"job-{i}", pick.randint(1, 8), float(pick.randint(1, 6)), 1024 * pick.randint(1, 10), float(i)
        )
        for i in range(count)
    ]
    return [PlacementRequest(job, job.executors) for job in jobs]


def vms_of(count: int) -> tuple[Vm, ...]:
    """The three types of Islam 2022, table 4, in turn."""
    sizes = ((4.0, 16384), (8.0, 32768), (12.0, 49152))
    return tuple(make_vm(f"vm-{i + 1}", *sizes[i % 3]) for i in range(count))


def all_free(vms: tuple[Vm, ...]) -> ClusterView:
    """An empty cluster."""
    free = ResourceArrays.of([vm.resources for vm in vms])
    return ClusterView(0.0, vms, free, np.zeros(len(vms), dtype=np.int64))


def without(view: ClusterView, ended: list[tuple[Job, tuple[int, ...]]]) -> ClusterView:
    """The view after these jobs released their resources."""
    cpus, memory, executors = view.free.get("cpus").copy(), view.free.get("mem").copy(), view.executors.copy()
    for job, placement in ended:
        counts = np.bincount(placement, minlength=len(view.vms))
        cpus += counts * job.size.get("cpus")
        memory += counts * job.size.get("mem")
        executors -= counts
    return view.changed(free=ResourceArrays({"cpus": cpus, "mem": memory}), executors=executors)


def place_all(policy: str, vms: tuple[Vm, ...], requests: list[PlacementRequest]) -> int:
    """Place the whole queue; when its head waits, the oldest tenth of the running jobs ends."""
    decide, view = create(policy).decide, all_free(vms)
    running: deque[tuple[Job, tuple[int, ...]]] = deque()
    placed = position = 0
    while position < len(requests):
        for verdict in decide_in_turn(decide, view, requests[position:]):
            if isinstance(verdict.decision, Place):
                running.append((verdict.request.job, verdict.decision.placement))
                placed, position = placed + verdict.request.count, position + 1
                view = verdict.view
        if position < len(requests):
            view = without(verdict.view, [running.popleft() for _ in range(len(running) // 10 + 1)])
    return placed


def place_all_plainly(policy: str, vms: tuple[Vm, ...], requests: list[PlacementRequest]) -> int:
    """The same with the plain Python reference."""
    cluster = PlainCluster([vm.cpus for vm in vms], [vm.memory_mib for vm in vms])
    decide = {"ff": cluster.first_fit, "rr": cluster.round_robin}[policy]
    running: deque[tuple[Job, list[int]]] = deque()
    placed = 0
    for request in requests:
        while (placement := decide(request.job)) is None:
            for _ in range(len(running) // 10 + 1):
                cluster.give_back(*running.popleft())
        running.append((request.job, placement))
        placed += request.count
    return placed


@pytest.mark.parametrize("vm_count", [1000, 5000])
@pytest.mark.parametrize("policy", ["ff", "rr"])
def test_executors_placed_per_second(
    policy: str, vm_count: int, benchmark: BenchmarkFixture, show: Show
) -> None:
    """A queue of 10,000 jobs is placed; printed with the ratio to plain Python in the same run."""
    vms, requests = vms_of(vm_count), queue_of(JOBS)
    placed = timed(benchmark, lambda: place_all(policy, vms, requests))
    assert placed == sum(request.count for request in requests)
    rate = placed / fastest(benchmark)
    started = time.perf_counter()
    plainly = place_all_plainly(policy, vms, requests)
    plain_rate = plainly / (time.perf_counter() - started)
    show(
        f"{policy} on {vm_count} VMs: {rate:,.0f} executors/s placed "
        f"({rate / plain_rate:.2f} times the {plain_rate:,.0f} of plain Python without check and reasons)"
    )


def updates(world: World, job_ids: list[str]) -> float:
    """Seconds that the model takes for one update of each task."""
    tasks = [task_id for job_id in job_ids for task_id in world.open_tasks(job_id)]
    started = time.perf_counter()
    world.tell("running", *tasks)
    return (time.perf_counter() - started) / len(tasks)


@pytest.mark.parametrize("vm_count", [1000, 5000])
def test_model_events_per_second(vm_count: int, benchmark: BenchmarkFixture, show: Show) -> None:
    """5,000 task updates while a job waits and some VMs are not offered: no event costs a look at all VMs."""
    world = World(make_vms(vm_count, cpus=8))
    world.subscribe()
    jobs = [make_job(f"job-{i}", 5) for i in range(1000)]
    world.submit(*jobs)
    world.offer()
    world.decide()
    world.submit(make_job("waits", 8 * vm_count))
    world.offer(*world.vms[1:])
    seconds = timed(benchmark, lambda: updates(world, [job.id for job in jobs]))
    started = time.perf_counter()
    for i in range(1000):
        world.send(ev.TaskChanged(world.now, f"job-{i}.0", "failed"))
        world.model.ready_to_decide()
    ends = (time.perf_counter() - started) / 1000
    show(
        f"model with {vm_count} VMs: {1e6 * seconds:.0f} us per task update, {1e6 * ends:.0f} us per task end"
    )


@pytest.mark.parametrize("executors", [5, 1000])
def test_milliseconds_to_explain_a_job(executors: int, benchmark: BenchmarkFixture, show: Show) -> None:
    """A job is placed on 5,000 VMs, and the decision is explained executor by executor."""
    request = PlacementRequest(make_job("job-1", executors), executors)
    verdict = decide_once(create("least_allocated").decide, all_free(vms_of(5000)), [request])
    explanation = timed(benchmark, lambda: explain(verdict, "least_allocated"), rounds=5)
    assert len(explanation.choices) == executors
    show(f"a job of {executors} executors on 5000 VMs: {1000 * fastest(benchmark):.1f} ms to explain")
