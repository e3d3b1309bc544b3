"""No decision depends on the unit of seconds or dollars: all times, or prices, are scaled.

By powers of two, so that rounding stays the same: arrivals, durations, beliefs about them, boots
and minimum charges. All policies with their default options.
"""

from dataclasses import replace
from itertools import product
from typing import Any

import pytest

from agents.experiments.decisions.shifted_cases import stretched
from agents.registry import POLICIES, create
from environment.clusters.cluster_files import load_cluster
from environment.pools import Terms
from environment.simulation.durations.beliefs import Belief
from environment.simulation.options import SimulationOptions
from environment.simulation.simulator import simulate
from environment.types import Place, Vm
from profiles.workloads.generators import load_workload
from profiles.workloads.workload import Workload

FACTORS = (0.125, 4.0)
#: Besides the defaults, ways that look at durations, ends and prices.
MORE: dict[str, tuple[str, dict[str, object]]] = {
    "ff, easy": ("ff", {"overtake": "easy"}),
    "aep, best": ("aep", {"overtake": "best"}),
    "ilp, best": ("ilp", {"overtake": "best"}),
    "lookahead, draws": ("lookahead", {"candidates": 20, "draws": 6}),
}
CASES = {name: (name, dict[str, object]()) for name in POLICIES} | MORE
#: Those that do depend on it yet, and why; `lookahead` where VMs come and go only.
BY_TIME = {
    "lookahead-pools": "idle VMs are believed to be kept for 30 s at most",
    "lookahead, draws-pools": "idle VMs are believed to be kept for 30 s at most",
    "dqn": "its network sees t / (t + 240 s)",
}
BY_PRICE = {"dqn": "its network sees dollars"}


def cases(failing: dict[str, str]) -> list[Any]:
    """Every case; those that fail yet are expected to."""
    found = []
    for case, pools in product(CASES, (False, True)):
        name = f"{case}-{'pools' if pools else 'fixed'}"
        why = failing.get(case) or failing.get(name)
        marks = [pytest.mark.xfail(reason=why, strict=True)] if why else []
        found.append(pytest.param(case, pools, id=name, marks=marks))
    return found


def vms_of(pools: bool, times: float = 1.0, prices: float = 1.0) -> tuple[Vm, ...]:
    """The paper's cluster, as pools or not."""
    found = []
    for vm in load_cluster("paper"):
        terms = Terms(vm.type, 64.0 * times, 64.0 * times, times) if pools else None
        found.append(replace(vm, terms=terms, price_per_hour=vm.price_per_hour * prices))
    return tuple(found)


def placed(case: str, workload: Workload, vms: tuple[Vm, ...]) -> list[tuple[str, tuple[int, ...]]]:
    """Jobs and their VMs, in order of placement."""
    name, options = CASES[case]
    result = simulate(
        create(name, options), workload, vms, options=SimulationOptions(belief=Belief.read("0.2"), seed=1)
    )
    return [
        (done.job, done.decision.placement) for done in result.decisions if isinstance(done.decision, Place)
    ]


@pytest.fixture(scope="module")
def plain() -> dict[tuple[str, bool], list[tuple[str, tuple[int, ...]]]]:
    """Cache of unscaled results."""
    return {}


def as_it_is(
    plain: dict[tuple[str, bool], list[tuple[str, tuple[int, ...]]]], case: str, pools: bool
) -> list[tuple[str, tuple[int, ...]]]:
    """Placements of the workload as it is."""
    if (case, pools) not in plain:
        plain[case, pools] = placed(case, JOBS, vms_of(pools))
    return plain[case, pools]


JOBS = load_workload("burst", 4, 20)


@pytest.mark.parametrize(("case", "pools"), cases(BY_TIME))
def test_all_times_longer_change_no_decision(case: str, pools: bool, plain: Any) -> None:
    """The same jobs go to the same VMs in the same order."""
    for factor in FACTORS:
        longer = placed(case, stretched(JOBS, factor, factor), vms_of(pools, times=factor))
        assert longer == as_it_is(plain, case, pools)


@pytest.mark.parametrize(("case", "pools"), cases(BY_PRICE))
def test_all_prices_higher_change_no_decision(case: str, pools: bool, plain: Any) -> None:
    """Nor do these."""
    for factor in FACTORS:
        dearer = placed(case, JOBS, vms_of(pools, prices=factor))
        assert dearer == as_it_is(plain, case, pools)
