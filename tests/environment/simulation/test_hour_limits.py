"""Limits per hour of the costs of open VMs, in a simulation: they hold at every moment; no job is lost."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest

from agents.registry import create
from conf.loader import ConfigError
from environment.pools import Consolidation, IdleTimeout, Terms
from environment.simulation.options import SimulationOptions
from environment.simulation.results.results import Result
from environment.simulation.simulator import simulate
from environment.types import Vm
from profiles.workloads.workload import Workload, WorkloadJob
from tests.builders import make_vm

CHEAP, DEAR = Terms("cheap", boot=60.0), Terms("dear", boot=60.0)


def vms(count: int, terms: Terms | None, price: float, cpus: float = 4.0) -> tuple[Vm, ...]:
    """VMs of a pool, or fixed ones."""
    name = "fixed" if terms is None else terms.pool
    return tuple(
        replace(make_vm(f"{name}-{n}", cpus=cpus), price_per_hour=price, terms=terms) for n in range(count)
    )


POOLS = (*vms(4, CHEAP, 0.24), *vms(4, DEAR, 0.48))


def run(
    jobs: Sequence[WorkloadJob],
    cluster: Sequence[Vm],
    per_hour: Mapping[str, float],
    policy: str = "ff",
    keep: str = "timeout",
    **options: object,
) -> Result:
    """A simulation of these jobs under these limits."""
    chosen = SimulationOptions(keeping=IdleTimeout(keep, 300.0), per_hour=per_hour)  # type: ignore[arg-type]
    return simulate(
        create(policy),
        Workload(tuple(jobs)),
        cluster,
        options=replace(chosen, **options),  # type: ignore[arg-type]
    )


def job(number: int, at: float = 0.0, executors: int = 4, seconds: float = 100.0) -> WorkloadJob:
    """One that fills a VM of four cpus."""
    return WorkloadJob(f"j{number}", at, "other", 1.0, 1024, executors, seconds)


def used(result: Result, pool: str = "") -> float:
    """The most that VMs that were in use at once cost an hour."""
    prices: list[float] = [vm.price_per_hour for vm in result.vms]
    of = [not pool or (vm.terms is not None and vm.terms.pool == pool) for vm in result.vms]
    held = [
        (start, end, vm)
        for start, end, vm in zip(
            result.held.start.tolist(), result.held.end.tolist(), result.held.vm.tolist(), strict=True
        )
        if of[vm]
    ]
    moments = {start for start, _, _ in held}
    return max(math.fsum(prices[vm] for vm in {v for s, e, v in held if s <= at < e}) for at in moments)


@pytest.mark.parametrize(
    ("per_hour", "together"),
    [({}, 8), ({"cheap": 0.5}, 6), ({"cheap": 0.5, "dear": 0.48}, 3), ({"": 0.72}, 3), ({"": 0.95}, 3)],
)
def test_no_more_vms_are_open_at_once_than_may_be(per_hour: dict[str, float], together: int) -> None:
    """Eight jobs want a VM each: as many begin as there may be VMs, the others when those are free."""
    result = run([job(n) for n in range(8)], POOLS, per_hour)
    assert sum(each.started_at == 60.0 for each in result.jobs) == together
    assert len(result.jobs) == 8
    for pool, limit in per_hour.items():
        assert used(result, pool) <= limit


@pytest.mark.parametrize("policy", ["rr", "ff", "aep", "greedy", "karpenter", "lookahead"])
@pytest.mark.parametrize("per_hour", [{"": 1.0}, {"cheap": 0.48, "dear": 0.48}])
def test_every_policy_finishes_all_jobs_within_limits(policy: str, per_hour: dict[str, float]) -> None:
    """Also where VMs are moved, and idle ones have to close before others may be opened."""
    jobs = [job(n, 40.0 * n, executors=1 + n % 4, seconds=90.0 + 17 * (n % 5)) for n in range(20)]
    result = run(jobs, POOLS, per_hour, policy, consolidation=Consolidation.read("underutilized"))
    assert len(result.jobs) == 20
    for pool, limit in per_hour.items():
        assert used(result, pool) <= limit


def test_an_idle_vm_has_to_close_before_another_is_opened() -> None:
    """The second job needs the larger VM: it begins when the small one is closed and the large one is up."""
    large = vms(1, DEAR, 0.48, cpus=8.0)
    jobs = [job(0), job(1, 200.0, executors=8)]
    result = run(jobs, (*vms(1, CHEAP, 0.24), *large), {"": 0.5})
    closed = 160.0 + 300.0
    assert result.jobs[0].started_at == 60.0
    # First it is put on both: from then on the pools take turns, the small one first.
    assert closed + 60.0 <= result.jobs[1].started_at <= closed + 300.0 + 61.0


def test_a_placement_over_several_pools_is_within_the_limit_of_all_vms() -> None:
    """A gang of three VMs would be put on some of each pool: it has three of the cheaper one."""
    for policy in ("rr", "ff", "most_allocated"):
        result = run([job(0, executors=12), job(1, 1.0)], POOLS, {"": 0.8}, policy)
        assert len(result.jobs) == 2
        assert used(result) <= 0.8


def test_fixed_vms_count_in_the_limit_of_all() -> None:
    """$0.24 of $0.5 are theirs: one VM more is within the limit."""
    result = run([job(n) for n in range(4)], (*vms(1, None, 0.24), *vms(4, CHEAP, 0.24)), {"": 0.5})
    assert sorted(each.started_at for each in result.jobs)[:2] == [0.0, 60.0]
    assert sorted(each.started_at for each in result.jobs)[2] >= 100.0


def test_what_needs_more_vms_than_may_be_open_is_refused() -> None:
    """With the number of VMs that may be."""
    refused = run([job(0, executors=12), job(1)], POOLS[:4], {"cheap": 0.5}).refused
    assert refused.keys() == {"j0"}
    assert refused["j0"].endswith("(with the 2 VMs that may be open at once by dollars_per_hour)")


@pytest.mark.parametrize(
    ("per_hour", "complaint"),
    [
        (
            {"cheap": 0.2},
            "budget: pools.cheap.dollars_per_hour: 0.2 is less than the cheapest VM costs, \\$0.24",
        ),
        ({"": 0.2}, "budget: dollars_per_hour: 0.2 is less than the cheapest VM costs, \\$0.24"),
        ({"other": 1.0}, "budget: pools.other: there is no such pool; the cluster has cheap, dear"),
    ],
)
def test_a_limit_under_which_no_vm_is_opened_is_an_error(per_hour: dict[str, float], complaint: str) -> None:
    """In one line."""
    with pytest.raises(ConfigError, match=complaint):
        run([job(0)], POOLS, per_hour)


def test_sizes_left_to_stoker_are_within_the_limit() -> None:
    """Jobs are no larger than the VMs that may be open."""
    jobs = [
        replace(job(n, 2e3 * n, seconds=900.0), auto={"executors": "auto:1-32"}, type="etl") for n in range(6)
    ]
    free = run(jobs, POOLS, {})
    bound = run(jobs, POOLS, {"": 0.5})
    assert max(each.executors for each in free.jobs) > 8 >= max(each.executors for each in bound.jobs)
    assert len(bound.jobs) == 6
