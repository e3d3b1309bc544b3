"""Policies see VMs that are paid for anyway as cheap, and use them before others."""

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from agents.registry import create
from environment.clusters.cluster_files import load_cluster
from environment.clusters.commitments import Commitment
from environment.clusters.covered_prices import CoveredShares
from environment.policy import Policy
from environment.pools import IdleTimeout, SpotTerms, Terms
from environment.resource_arrays import ResourceArrays
from environment.simulation.durations.beliefs import Belief
from environment.simulation.faults.losses import Loss
from environment.simulation.options import SimulationOptions
from environment.simulation.results.results import SimulatedBill
from environment.simulation.simulator import simulate
from environment.types import Decision, PlacementRequest, Vm
from environment.view import ClusterView
from profiles.workloads.generators import load_workload
from tests.builders import make_vm

YEAR = Commitment("year", "", "~", pool="general", vms=2, price_per_hour=0.1)
PLAN = Commitment("plan", "", "~", type="m1.large", dollars_per_hour=0.21, discount=0.3)


def pool_vms(count: int, pool: str = "general") -> tuple[Vm, ...]:
    """VMs of a pool at $0.24 an hour."""
    vms = (replace(make_vm(price_per_hour=0.24), id=f"{pool}-{n}", terms=Terms(pool)) for n in range(count))
    return tuple(vms)


def test_open_vms_are_covered_first_and_closed_ones_next() -> None:
    """By age; of a pool's other VMs in their order, spot ones never."""
    vms = pool_vms(4)
    vms = (replace(vms[0], terms=Terms("general", spot=SpotTerms(0.1, 120.0))), *vms[1:])
    opened = np.array([0.0, math.inf, math.inf, 5.0])
    found = CoveredShares().of(vms, opened, (YEAR,))
    assert found.tolist() == [0.0, 1.0, 0.0, 1.0]
    # One that cannot be opened now comes last.
    opened[1] = math.nan
    assert CoveredShares().of(vms, opened, (YEAR,)).tolist() == [0.0, 0.0, 1.0, 1.0]
    opened[1] = math.inf
    # A plan of $0.3 at list price: a VM, and a quarter of the next.
    assert CoveredShares().of(vms, opened, (PLAN,)).tolist() == [0.0, pytest.approx(0.25), 0.0, 1.0]


def test_shares_follow_openings_and_commitments() -> None:
    """They are kept as long as nothing of that changes."""
    vms, shares = pool_vms(3), CoveredShares()
    closed = np.full(3, math.inf)
    first = shares.of(vms, closed, (YEAR,))
    assert shares.of(vms, closed.copy(), (YEAR,)) is first
    assert shares.of(vms, np.array([math.inf, math.inf, 1.0]), (YEAR,)).tolist() == [1.0, 0.0, 1.0]
    assert shares.of(vms, closed, (PLAN,)).tolist() == [1.0, pytest.approx(0.25), 0.0]


def test_a_covered_vm_has_a_hundredth_of_its_price_for_policies() -> None:
    """Its list price stays; views of fewer VMs have the shares of these."""
    vms = pool_vms(3)
    free = ResourceArrays.of([vm.resources for vm in vms])
    view = ClusterView(0.0, vms, free, np.zeros(3, np.int64), covered=np.array([0.0, 0.5, 1.0]))
    assert view.prices_per_hour.tolist() == pytest.approx([0.24, 0.12, 0.0024])
    assert view.list_prices_per_hour.tolist() == [0.24] * 3
    assert view.of_vms(np.array([2, 0])).prices_per_hour.tolist() == pytest.approx([0.0024, 0.24])


class Blind:
    """A policy that is not told of commitments."""

    def __init__(self, policy: Policy) -> None:
        self.policy = policy

    def decide(self, view: ClusterView, queue: Sequence[PlacementRequest]) -> Decision:
        """Decide by list prices."""
        return self.policy.decide(view.changed(covered=None), queue)


@pytest.mark.parametrize("name", ["greedy", "lookahead"])
def test_what_is_paid_anyway_is_used_first(name: str) -> None:
    """Two large VMs are reserved, which are dearest by their list price for few jobs: the bill is less."""
    reserved = Commitment("year", "", "~", type="m2.xlarge", vms=2, price_per_hour=0.3)
    options = SimulationOptions(
        seed=1, belief=Belief("sigma", 0.2), keeping=IdleTimeout("planned"), commitments=(reserved,)
    )
    workload, vms = load_workload("normal", 1, 30), load_cluster("elastic")
    policies = create(name), Blind(create(name))
    told, blind = (simulate(policy, workload, vms, options=options).bill for policy in policies)
    assert _used(told) > 1.3 * _used(blind)
    assert told.with_commitments < 0.97 * blind.with_commitments


def test_idle_vms_are_paid_and_used_until_they_close() -> None:
    """A VM that is kept for an hour after the last job: the commitment is charged as long."""
    year = Commitment("year", "", "~", type="m1.large", vms=1, price_per_hour=0.2)
    options = SimulationOptions(keeping=IdleTimeout("timeout", 3600.0), commitments=(year,))
    bill = simulate(create("ff"), load_workload("normal", 1, 1), pool_vms(8), options=options).bill
    (use,) = bill.commitments
    assert bill.idle > 0.23
    assert use.committed > 0.2
    assert use.used <= use.committed + 1e-9


def test_lost_vms_are_covered_no_longer() -> None:
    """The next oldest is."""
    year = Commitment("year", "", "~", type="m1.large", vms=1, price_per_hour=0.2)
    vms = tuple(replace(make_vm(f"vm-{n}", price_per_hour=0.24), id=f"vm-{n}") for n in range(3))
    options = SimulationOptions(commitments=(year,), losses=(Loss(400.0, "vm-0"),))
    seen = []

    class Watching(Blind):
        def decide(self, view: ClusterView, queue: Sequence[PlacementRequest]) -> Decision:
            seen.append(([vm.id for vm in view.vms], np.zeros(0) if view.covered is None else view.covered))
            return self.policy.decide(view, queue)

    simulate(Watching(create("ff")), load_workload("normal", 1, 8), vms, options=options)
    shown = {tuple(ids): covered.tolist() for ids, covered in seen}
    assert shown == {("vm-0", "vm-1", "vm-2"): [1.0, 0.0, 0.0], ("vm-1", "vm-2"): [1.0, 0.0]}


def _used(bill: SimulatedBill) -> float:
    (use,) = bill.commitments
    assert 0.0 < use.used <= use.committed + 1e-9
    assert bill.with_commitments == pytest.approx(bill.total + use.committed - use.list_cost)
    return use.used
