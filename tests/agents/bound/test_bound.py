"""The limit is one: the optimum is that of enumeration and of the kernel, and no policy is below it."""

from collections import Counter
from collections.abc import Iterator
from itertools import product

import numpy as np
import pytest

from agents.bound.configurations import lower_bound
from agents.bound.exact import solve
from agents.bound.instance import BoundError, Instance, OfflineSchedule, ScheduleCost, instance_of, play
from agents.bound.limits import limit_of
from agents.bound.offline import aim_for, search
from agents.experiments.decisions.shifted_cases import case, few_gangs
from agents.registry import create
from environment.clusters.cluster_files import load_cluster
from environment.kernel.rule_options import DurationOptions
from environment.pools import Terms
from environment.resources import Resources
from environment.simulation.durations.beliefs import EXACT
from environment.simulation.options import SimulationOptions
from environment.simulation.results.lower_bound import perfect_packing_bound
from environment.simulation.simulator import simulate
from environment.types import Vm
from profiles.workloads.workload import Workload, WorkloadJob

POLICIES = ("ff", "rr", "aep", "ilp", "greedy", "lookahead")


@pytest.mark.parametrize("seed", [2, 4, 6, 8, 10, 12])
def test_bound_optimum_policies_in_this_order(seed: int) -> None:
    """Packing <= configurations <= optimum <= every policy; the optimum's schedule has its stated cost."""
    workload, vms = few_gangs(seed)
    limit = limit_of(workload, vms, tries=500)
    assert limit.proven
    assert limit.best == play(limit.instance, limit.schedule)
    lower = lower_bound(limit.instance)
    assert limit.packing <= lower + 1e-9
    assert lower <= limit.best.cost + 1e-9
    for name in POLICIES:
        result = simulate(create(name, {}), workload, vms, options=SimulationOptions(belief=EXACT))
        assert result.cost >= limit.best.cost - 1e-9


@pytest.mark.parametrize("seed", range(4))
def test_the_optimum_is_that_of_enumeration(seed: int) -> None:
    """Three jobs on two VMs, times whole: every placement and every whole start is tried."""
    draw = np.random.default_rng(seed)
    jobs = tuple(
        WorkloadJob(
            name=f"job-{number}",
            submitted_at=float(draw.integers(0, 3) if number else 0),
            type=("wordcount", "sort")[draw.integers(2)],
            cpus=float(draw.integers(1, 4)),
            memory_mib=1024,
            executors=int(draw.integers(1, 3)),
            duration=float(draw.integers(1, 4)),
        )
        for number in range(3)
    )
    vms = tuple(Vm(f"vm-{n}", f"vm-{n}", "m", Resources.of(4 + n, 16_384), (0.2, 0.3)[n]) for n in range(2))
    workload = Workload(tuple(sorted(jobs, key=lambda job: job.submitted_at)))
    options = SimulationOptions(durations=DurationOptions(penalty=2.0))
    instance = instance_of(workload, vms, options)
    every = list(schedules(instance))
    for beta in (0.0, 0.5, 1.0):
        aim = aim_for(instance, beta)
        schedule, found = search(instance, aim, 20)
        best = solve(instance, aim, schedule, aim.of(found))
        assert best is not None
        assert best.proven
        assert aim.of(play(instance, best.schedule)) == pytest.approx(best.value)
        assert best.value == pytest.approx(min(aim.of(each) for each in every))


def schedules(instance: Instance) -> Iterator[ScheduleCost]:
    """Cost of every schedule with whole starts, computed plainly: second by second."""
    ways = [
        [way for way in product(range(2), repeat=int(count)) if list(way) == sorted(way)]
        for count in instance.executors
    ]
    cpus, room = instance.size[:, 0].tolist(), instance.capacity[:, 0].tolist()
    price, arrival = instance.price.tolist(), instance.arrival.tolist()
    for placements in product(*ways):
        lasts = [int(instance.seconds(job, len(set(way)))) for job, way in enumerate(placements)]
        for starts in product(*(range(int(at), int(at) + 7) for at in arrival)):
            used: Counter[tuple[int, int]] = Counter()
            for job, way in enumerate(placements):
                for vm, second in product(way, range(starts[job], starts[job] + lasts[job])):
                    used[vm, second] += cpus[job]
            if all(taken <= room[vm] for (vm, _), taken in used.items()):
                waits = [starts[job] + lasts[job] - arrival[job] for job in range(3)]
                yield ScheduleCost(sum(price[vm] for vm, _ in used), sum(waits) / 3)


def test_a_large_workload_has_a_bound_that_is_tighter_than_packing() -> None:
    """For forty jobs on the paper's cluster: packing < configurations < results of search and policies."""
    for name in ("burst", "memory-bound"):
        workload, vms = case(name).workload(7, 40), load_cluster("paper")
        limit = limit_of(workload, vms, tries=300)
        assert not limit.proven
        assert 1.05 * perfect_packing_bound(limit.instance.jobs, vms) < limit.lower < limit.best.cost
        result = simulate(create("ff", {}), workload, vms, options=SimulationOptions(belief=EXACT))
        assert limit.lower < result.cost


def test_the_search_is_the_same_everywhere_and_gains_by_trying() -> None:
    """Counted in schedules: the same number finds the same, more of them no worse."""
    workload, vms = few_gangs(5)
    instance = instance_of(workload, vms)
    aim = aim_for(instance, 0.5)
    first = search(instance, aim, 200, seed=3)
    assert first == search(instance, aim, 200, seed=3)
    assert play(instance, first[0]).cost == pytest.approx(first[1].cost)
    assert play(instance, first[0]).completion == pytest.approx(first[1].completion)


def test_what_is_not_covered_is_refused() -> None:
    """Pools, and jobs that run on fewer executors, have no limit here."""
    workload, vms = few_gangs(0)
    pooled = (Vm("a", "a", "m", Resources.of(8, 32_768), 0.2, terms=Terms("p")),)
    with pytest.raises(BoundError, match="pools"):
        instance_of(workload, pooled)
    elastic = Workload((WorkloadJob("job-1", 0.0, "sort", 1.0, 1024, 4, 10.0, min_executors=2),))
    with pytest.raises(BoundError, match="job-1 may run on fewer executors"):
        instance_of(elastic, vms)


def test_a_schedule_that_breaks_a_rule_is_refused() -> None:
    """A job before its arrival, or without room."""
    workload, vms = few_gangs(1)
    instance = instance_of(workload, vms)
    everywhere = tuple((0,) * int(count) for count in instance.executors)
    early = (instance.arrival - 1.0).tolist()
    with pytest.raises(BoundError, match="before it is there"):
        play(instance, OfflineSchedule(tuple(early), everywhere))
    with pytest.raises(BoundError, match="has no room"):
        play(instance, OfflineSchedule((1000.0,) * len(early), everywhere))
