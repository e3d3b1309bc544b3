"""Limits of the costs of VMs on a day or in a month, in a simulation: then they get nothing new."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

import pytest

from agents.registry import create
from conf.loader import ConfigError
from conf.units import SECONDS_PER_DAY
from environment.pools import IdleTimeout, Terms
from environment.simulation.options import SimulationOptions
from environment.simulation.results.results import Result
from environment.simulation.simulator import simulate
from environment.types import Vm
from profiles.workloads.workload import Workload, WorkloadJob
from tests.builders import make_vm

#: A VM of a pool costs $0.01 for each of 100 s.
PRICE = 36.0
NONE, NO_LIMITS = IdleTimeout("none"), MappingProxyType[str, float]({})
GENERAL, DEAR = Terms("general"), Terms("dear")


def vms(terms: Terms | None, count: int = 1, price: float = PRICE) -> tuple[Vm, ...]:
    """VMs of four cpus, of a pool or fixed."""
    name = "fixed" if terms is None else terms.pool
    return tuple(
        replace(make_vm(f"{name}-{n}", cpus=4.0), price_per_hour=price, terms=terms) for n in range(count)
    )


def run(
    jobs: Sequence[WorkloadJob],
    cluster: Sequence[Vm],
    per_day: Mapping[str, float] = NO_LIMITS,
    per_month: Mapping[str, float] = NO_LIMITS,
    *,
    policy: str = "ff",
    keep: IdleTimeout = NONE,
) -> Result:
    """A simulation of these jobs under these limits."""
    options = SimulationOptions(keeping=keep, per_day=per_day, per_month=per_month)
    return simulate(create(policy), Workload(tuple(jobs)), cluster, options=options)


def job(number: int, at: float = 0.0, seconds: float = 100.0) -> WorkloadJob:
    """One that fills a VM of four cpus, and costs a dollar."""
    return WorkloadJob(f"j{number}", at, "other", 4.0, 1024, 1, seconds)


def starts(result: Result) -> list[float]:
    """When jobs started, in the order of their names."""
    return [each.started_at for each in sorted(result.jobs, key=lambda each: each.name)]


def test_a_day_that_has_cost_its_limit_has_no_more_jobs() -> None:
    """Of five jobs of a dollar each, two begin on each day of two dollars."""
    day = SECONDS_PER_DAY
    result = run([job(n) for n in range(5)], vms(GENERAL), {"": 2.0})
    assert starts(result) == [0.0, 100.0, day, day + 100.0, 2 * day]


def test_what_runs_goes_on_over_midnight_and_counts_on_each_day() -> None:
    """Of a job of 300 s that begins 200 s before midnight, 100 s are the next day's, of two dollars."""
    day = SECONDS_PER_DAY
    jobs = [job(0, day - 200.0, 300.0), job(1, day - 100.0), job(2, day - 100.0)]
    result = run(jobs, vms(GENERAL), {"": 2.0})
    assert starts(result) == [day - 200.0, day + 100.0, 2 * day]


def test_a_month_ends_on_its_last_day() -> None:
    """January has 31."""
    result = run([job(n) for n in range(3)], vms(GENERAL), per_month={"general": 2.0})
    assert starts(result) == [0.0, 100.0, 31 * SECONDS_PER_DAY]


def test_a_pools_limit_leaves_others_and_fixed_vms() -> None:
    """The limit of all VMs counts fixed ones, which go on, as they cost the same."""
    limit = {"general": 0.5}
    result = run([job(n) for n in range(3)], (*vms(GENERAL), *vms(DEAR)), limit, policy="ff")
    assert sorted(starts(result)) == [0.0, 0.0, 100.0]
    result = run([job(n) for n in range(4)], (*vms(None), *vms(GENERAL)), {"": 2.0})
    assert sorted(starts(result)) == [0.0, 0.0, 100.0, 200.0]


def test_what_is_rounded_up_counts_when_a_vm_closes() -> None:
    """A minimum of 150 s for a job of 100 s: a second job finds the day's 1.2 dollars spent."""
    cluster = vms(Terms("general", minimum=150.0))
    limit = {"": 1.2}
    assert starts(run([job(0), job(1, 101.0)], cluster, limit)) == [0.0, SECONDS_PER_DAY]
    assert starts(run([job(0), job(1, 101.0)], vms(GENERAL), limit)) == [0.0, 101.0]


@pytest.mark.parametrize("policy", ["rr", "aep", "greedy", "karpenter", "lookahead"])
def test_every_policy_finishes_all_jobs_and_no_day_costs_more_than_what_ran(policy: str) -> None:
    """Six dollars a day, and at most four dollars more of jobs that had begun."""
    jobs = [job(n, 40.0 * n, 80.0 + 5 * n) for n in range(20)]
    result = run(jobs, vms(GENERAL, 4), {"general": 6.0}, policy=policy)
    assert len(result.jobs) == 20
    days = [int(at // SECONDS_PER_DAY) for at in starts(result)]
    assert max(days.count(number) for number in set(days)) <= 10
    assert max(days) >= 2


def test_a_limit_of_a_pool_that_is_not_there_is_an_error() -> None:
    """In one line."""
    with pytest.raises(ConfigError, match=r"budget: pools\.other: there is no such pool"):
        run([job(0)], vms(GENERAL), {"other": 1.0})
