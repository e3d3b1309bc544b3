"""OgaSched's placements as a policy follow the bench's rule for settling gangs (Zhao 2023, 3.5)."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from agents.oga.bipartite import build_model
from agents.oga.ogasched_policy import OgaSched, OgaSchedOptions
from agents.oga.port_jobs import PortJobs, jobs_of
from environment.types import FloatArray, Place, PlacementRequest, Vm
from tests.builders import make_job, make_view, make_vm

GIB = 1024


def ask(name: str, executors: int, cpus: float, gib: int, fewest: int | None) -> PlacementRequest:
    """A job of a type of its own; elastic where `fewest` says with how many executors it starts."""
    job = make_job(name, executors, cpus, gib * GIB)
    return PlacementRequest(replace(job, type=name, min_executors=fewest), executors)


def on_the_bench(
    free: FloatArray, queue: Sequence[PlacementRequest], floor: float, counts: Sequence[int] | None = None
) -> PortJobs:
    """The same as jobs of a model: VMs with cpus and GiB free, [N, 2]; executors are tasks, all alike.

    A job has as many as it asks for, or as `counts` says.
    """
    edges = [(port, vm) for port in range(len(queue)) for vm in range(len(free))]
    sizes = [[request.cpus, request.memory_mib / GIB] for request in queue]
    model = build_model(edges, sizes, free, utilities=0, alphas=1.2, beta=0.4, request="total")
    counts = [request.count for request in queue] if counts is None else counts
    tasks = [[size] * count for size, count in zip(sizes, counts, strict=True)]
    return jobs_of(model, None, tasks, [request.fewest for request in queue], floor)


def placed_by_policy(
    vms: Sequence[Vm], queue: Sequence[PlacementRequest], options: OgaSchedOptions
) -> tuple[dict[str, list[tuple[int, float, float]]], FloatArray]:
    """VM, cpus and GiB of each executor, by job, of a round on empty VMs; and the rest left free, [N, 2]."""
    policy, waiting = OgaSched(options), list(queue)
    free = np.array([[vm.cpus, vm.memory_mib / GIB] for vm in vms])
    found: dict[str, list[tuple[int, float, float]]] = {}
    while waiting:
        used = [sum(vm == n for of in found.values() for vm, *_ in of) for n in range(len(vms))]
        decision = policy.decide(
            make_view(vms, free[:, 0].tolist(), (free[:, 1] * GIB).tolist(), used), waiting
        )
        if not isinstance(decision, Place):
            break
        request = next(request for request in waiting if request.job.id == decision.job_id)
        sizes = request.granted(decision)
        found[request.job.id] = [
            (vm, size.cpus, size.memory_mib / GIB) for vm, size in zip(decision.placement, sizes, strict=True)
        ]
        for vm, cpus, gib in found[request.job.id]:
            free[vm] -= (cpus, gib)
        waiting.remove(request)
    return found, np.maximum(free, 0.0)


@pytest.mark.parametrize(
    ("fewest", "floor", "beside", "cpus"),
    [(None, 1.0, True, [0.0, 0.0, 3.0]), (1, 1.0, True, [6.0, 0.0, 3.0]), (1, 0.5, False, [5.0, 5.0])],
)
def test_a_gang_that_cannot_start_leaves_its_share_in_both(
    fewest: int | None, floor: float, beside: bool, cpus: list[float]
) -> None:
    """Two executors of 6 cpus, and one of 3, on 10: cut sizes equal settled ones."""
    queue = [ask("first", 2, 6.0, 2, fewest), ask("second", 1, 3.0, 2, None)][: 1 + beside]
    found, _ = placed_by_policy((make_vm("vm-1", 10.0),), queue, OgaSchedOptions(floor=floor))
    had = [[size for _, size, _ in found.get(request.job.id, [])] for request in queue]
    assert [cut + [0.0] * (request.count - len(cut)) for cut, request in zip(had, queue, strict=True)] == [
        cpus[:2],
        *([cpus[2:]] if beside else []),
    ]
    jobs = on_the_bench(np.array([[10.0, 16.0]]), queue, floor)
    share = 10.0 / 12.0 if not beside else 10.0 / 15.0
    y = share * jobs.model.graph.bounds[:, jobs.model.graph.port]
    assert jobs.settle(y, np.ones(len(jobs.model.ports)))[0].tolist() == pytest.approx(cpus)


def some_jobs(draw: np.random.Generator) -> list[PlacementRequest]:
    """Jobs of one to five executors, gangs and elastic ones; half of each size is in whole steps."""
    queue = []
    for number in range(int(draw.integers(2, 6))):
        executors = int(draw.integers(1, 6))
        fewest = None if draw.random() < 0.5 else int(draw.integers(1, executors + 1))
        size = (float(draw.integers(1, 7)) / 2, int(draw.integers(2, 8)))
        queue.append(ask(f"job-{number}", executors, *size, fewest))
    return queue


@pytest.mark.parametrize("variant", ["oga", "oga-reactive", "oga-conserving"])
def test_what_is_placed_stays_as_it_is_when_settled(variant: str) -> None:
    """Every job has its minimum of executors with their floors or nothing, wherever these are."""
    started = waited = 0
    for seed in range(20):
        draw = np.random.default_rng(seed)
        queue = some_jobs(draw)
        vms = [make_vm(f"vm-{n}", float(draw.integers(1, 9))) for n in range(int(draw.integers(1, 4)))]
        options = OgaSchedOptions(variant=variant, wait_limit=0)  # type: ignore[arg-type]
        found, _ = placed_by_policy(vms, queue, options)
        placed = [request for request in queue if request.job.id in found]
        has = np.array([[vm.cpus, vm.memory_mib / GIB] for vm in vms])
        executors = [executor for request in placed for executor in found[request.job.id]]
        jobs = on_the_bench(has, placed, options.floor, [len(found[request.job.id]) for request in placed])
        y = np.zeros(jobs.model.shape)
        for port, (vm, cpus, gib) in enumerate(executors):
            edge = jobs.model.edge(port, vm)
            assert edge is not None
            y[:, edge] = (cpus, gib)
        assert jobs.model.violation(y) < 1e-9
        assert (jobs.scheduled(y, np.ones(len(executors))) >= jobs.minimum).all()
        assert jobs.settle(y, np.ones(len(executors))) == pytest.approx(y, abs=1e-9)
        started, waited = started + len(found), waited + len(queue) - len(found)
    assert min(started, waited) > 10


def test_a_job_waits_only_when_its_minimum_of_floors_does_not_fit() -> None:
    """On one VM, where an executor can be anywhere that a task can: nothing more could be settled there."""
    waited = 0
    for seed in range(40):
        draw = np.random.default_rng(seed)
        queue = some_jobs(draw)
        vm = make_vm("vm-1", float(draw.integers(1, 9)))
        found, free = placed_by_policy([vm], queue, OgaSchedOptions())
        for request in queue:
            if request.job.id not in found:
                alone = on_the_bench(free, [request], 0.5)
                assert not alone.settle(np.zeros(alone.model.shape), np.ones(request.count)).any()
                waited += 1
    assert waited > 10
