"""Every policy decides the same in a simulation and in the daemon's model, where VMs come and go.

The same placements at the same times, the same starts and ends of jobs, and the same VMs open for the same
time, so that both send the same bill.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from agents.registry import create
from conf.schema.sharing import QueueSpec, SharingSpec
from environment.clusters.commitments import Commitment
from environment.kernel.arrays import jobs_of
from environment.kernel.rule_options import DurationOptions
from environment.model.cluster_model import ClusterModel, ModelOptions
from environment.model.messages import events as ev
from environment.number_format import natural_key
from environment.policy import Observer, Policy
from environment.pools import IdleTimeout, Terms
from environment.queues.shares import Shares
from environment.queues.types import sharing_of
from environment.resources import CPUS, MEMORY
from environment.simulation.options import SimulationOptions, believed
from environment.simulation.results.results import Result
from environment.simulation.simulator import simulate
from environment.types import Decision, EndedJob, Place, PlacementRequest, Vm
from environment.view import ClusterView
from profiles.workloads.workload import Workload
from tests.builders import make_vm
from tests.environment.two_worlds.perfect_cloud import PerfectCloud
from tests.environment.two_worlds.test_two_worlds import workload

SLOW = Terms("slow", boot=60.0, minimum=60.0, granularity=1.0)
QUICK = Terms("quick", boot=7.5, minimum=0.0, granularity=3600.0)
AT_ONCE = Terms("instant")
KEEPERS = {
    "none": IdleTimeout("none"),
    "timeout": IdleTimeout("timeout", 90.0),
    "break_even": IdleTimeout("break_even"),
    "forecast": IdleTimeout("forecast"),
    "planned": IdleTimeout("planned"),
}


def pooled(terms: Terms, count: int, cpus: float, price: float, always: int = 0) -> list[Vm]:
    """VMs of a pool, as a cluster file has them."""
    names = [f"{terms.pool}-{number + 1}" for number in range(count)]
    vms = [replace(make_vm(name, cpus, 65536, price), id=name, terms=terms) for name in names]
    return [replace(vm, terms=replace(terms, always=i < always)) for i, vm in enumerate(vms)]


FIXED = (
    replace(make_vm("m1.large-1", 4, 16384), id="m1.large-1"),
    replace(make_vm("zz", 12, 49152), id="zz"),
)
MIXED = (*pooled(SLOW, 4, 8.0, 0.4), *pooled(QUICK, 3, 12.0, 0.9, always=1), *FIXED)
CLUSTERS = {
    "slow": tuple(pooled(SLOW, 8, 12.0, 0.5)),
    "instant": tuple(pooled(AT_ONCE, 8, 12.0, 0.5)),
    "mixed": tuple(sorted(MIXED, key=lambda vm: natural_key(vm.name))),
}
POLICIES = (
    "rr", "rrc", "ff", "best_fit", "least_allocated", "aep", "greedy", "karpenter", "lookahead", "ilp",
    "ogasched", "random",
)  # fmt: skip
#: On all kinds of pools; the others on the cluster that has them all.
EVERYWHERE = ("rr", "ff", "greedy", "lookahead")
CASES = (
    *((policy, "mixed", keeper) for policy in POLICIES for keeper in ("break_even", "none")),
    *((policy, "slow", "timeout") for policy in EVERYWHERE),
    *((policy, "instant", "none") for policy in EVERYWHERE),
    *(("greedy", cluster, keeper) for cluster in ("mixed", "slow") for keeper in ("forecast", "planned")),
)


class Recorder:
    """A policy that records its decisions and the views it was shown; VMs by their names."""

    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self.placed: list[tuple[float, str, tuple[str, ...]]] = []
        self.shown: list[dict[str, Any]] = []

    def decide(self, view: ClusterView, queue: Sequence[PlacementRequest]) -> Decision:
        """As the policy does."""
        decision = self.policy.decide(view, queue)
        names = {vm.id: vm.name for vm in view.vms}
        assert view.openings is not None
        running = [
            (job.job.id, [names[vm] for vm in job.vm_ids], job.started_at, job.end_at(view.at))
            for job in view.running
        ]
        self.shown.append(
            {
                "at": view.at,
                "vms": [vm.name for vm in view.vms],
                "free": {name: view.free.get(name).tolist() for name in (CPUS, MEMORY)},
                "usable": {name: view.usable.get(name).tolist() for name in (CPUS, MEMORY)},
                "executors": view.executors.tolist(),
                "busy_until": view.busy_until.tolist(),
                "running": sorted(running),
                "open": view.openings.open.tolist(),
                "ready_at": np.maximum(view.openings.ready_at, view.at).tolist(),
                "prices": view.prices_per_hour.tolist(),
                "queue": [(r.job.id, r.count) for r in queue],
            }
        )
        if isinstance(decision, Place):
            placed = tuple(view.vms[vm].name for vm in decision.placement)
            self.placed.append((view.at, decision.job_id, placed))
        return decision

    def observe(self, ended: EndedJob) -> None:
        """Told to those that learn."""
        if isinstance(self.policy, Observer):
            self.policy.observe(ended)


def played(
    policy: str, jobs: Workload, vms: tuple[Vm, ...], options: SimulationOptions, result: Result
) -> tuple[Recorder, PerfectCloud]:
    """Through the model; jobs end when they did in the simulation."""
    there, ends = Recorder(create(policy)), {job.name: job.ended_at for job in result.jobs}
    places = tuple(vm for vm in vms if vm.terms is not None)
    paid = options.commitments
    model = ClusterModel(ModelOptions(places=places, keeping=options.keeping, commitments=paid))
    if options.sharing is not None:
        model.handle(ev.SharingChanged(0.0, options.sharing))
    fixed = [vm for vm in vms if vm.terms is None]
    cloud = PerfectCloud(there, fixed, lambda job_id, *_: ends[job_id], model, keeping=options.keeping)
    cloud.run(believed(jobs_of(jobs, options.profiles), options))
    return there, cloud


def in_both(
    policy: str, jobs: Workload, vms: tuple[Vm, ...], options: SimulationOptions
) -> tuple[Recorder, Result, PerfectCloud]:
    """In the simulation and through the model: the same views, and the same placements."""
    here = Recorder(create(policy))
    result = simulate(here, jobs, vms, options=options)
    there, cloud = played(policy, jobs, vms, options, result)
    for one, other in zip(here.shown, there.shown, strict=False):
        for what in one:
            assert str(one[what]) == str(other[what]), (one["at"], what)
    assert here.placed == there.placed
    assert len(here.shown) == len(there.shown)
    return here, result, cloud


@pytest.mark.parametrize(("policy", "cluster", "keeper"), CASES)
def test_policies_decide_the_same_on_pools_in_both_worlds(policy: str, cluster: str, keeper: str) -> None:
    """Jobs that boot VMs, that wait, that find kept ones; VMs that close and open again."""
    jobs, vms = workload("burst", 30), CLUSTERS[cluster]
    options = SimulationOptions(DurationOptions(partial="proportional"), keeping=KEEPERS[keeper], seed=2)
    _, result, cloud = in_both(policy, jobs, vms, options)
    times = {job.name: (job.started_at, job.ended_at) for job in result.jobs}
    assert times == {name: (job.started_at, job.finished_at) for name, job in cloud.done.items()}
    last = max(job.ended_at for job in result.jobs)
    bill, openings = 0.0, 0
    ledger = [charge for charge in cloud.charges if charge.vm in cloud.leases]
    for vm in vms:
        if vm.terms is None or vm.terms.always:
            charged = last if vm.terms is None else vm.terms.charged(last)
            bill += vm.price_per_hour * charged / 3600.0
    for lease in cloud.leases.values():
        terms = lease.vm.terms
        assert terms is not None
        if not terms.always:
            assert lease.state == "closed"
            assert lease.closed_at is not None
            paid = lease.vm.price_per_hour * terms.charged(lease.closed_at - lease.asked_at) / 3600.0
            bill += paid
            assert sum(c.dollars for c in ledger if c.vm == lease.id) == pytest.approx(paid, rel=1e-9)
            openings += 1
    assert openings == result.bill.openings
    assert bill == pytest.approx(result.bill.total, rel=1e-9)
    opened = {lease.id for lease in cloud.leases.values() if lease.vm.terms and not lease.vm.terms.always}
    boots = sum(charge.dollars for charge in ledger if charge.kind == "booting" and charge.vm in opened)
    assert boots == pytest.approx(result.bill.booting, rel=1e-9)


#: On the first day of the model's time, as a simulation has no days.
_YEAR = Commitment("year", "1970-01-01", "1970-01-31", pool="slow", vms=2, price_per_hour=0.3)
_PLAN = Commitment("plan", "1970-01-01", "1970-01-31", type="m1.large", dollars_per_hour=0.8, discount=0.3)


@pytest.mark.parametrize(
    ("policy", "cluster", "keeper", "commitments"),
    [
        *((policy, "mixed", "break_even", (_YEAR, _PLAN)) for policy in ("greedy", "lookahead", "karpenter")),
        *((policy, "instant", "none", (_PLAN,)) for policy in ("greedy", "aep")),
    ],
)
def test_what_is_paid_anyway_is_shown_and_used_alike(
    policy: str, cluster: str, keeper: str, commitments: tuple[Commitment, ...]
) -> None:
    """The same prices less commitments, and where nothing is rounded the same dollars of covered VMs."""
    options = SimulationOptions(
        DurationOptions(partial="proportional"), keeping=KEEPERS[keeper], seed=2, commitments=commitments
    )
    here, result, cloud = in_both(policy, workload("burst", 30), CLUSTERS[cluster], options)
    assert min(min(shown["prices"]) for shown in here.shown) < 0.01
    if cluster == "instant":
        (use,) = result.bill.commitments
        covered = sum(charge.dollars for charge in cloud.charges if charge.kind == "covered")
        assert covered == pytest.approx(use.list_cost, rel=1e-9)
        assert use.used == pytest.approx(0.7 * covered)


@pytest.mark.parametrize("keeper", ["none", "timeout"])
def test_limits_in_dollars_count_the_same_in_both_worlds(
    keeper: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A VM is the job's that it was opened for until something runs there; then by shares."""
    spent: dict[str, float] = {}

    def spends(_: Shares, _queue: str, user: str, _day: str, dollars: float) -> None:
        spent[user] = spent.get(user, 0.0) + dollars

    monkeypatch.setattr(Shares, "spends", spends)
    most = {"default": QueueSpec.model_validate({"most": {"dollars_per_day": 1e6}})}
    shared = sharing_of(SharingSpec(), most)
    # The last job comes when all others are over: a simulation charges nothing when nobody waits any more.
    arrivals = [*(40.0 * number for number in range(6)), 1e5]
    jobs = Workload(
        tuple(
            replace(
                job,
                owner="last" if number == 6 else f"user-{number % 3}",
                executors=3,
                cpus=5.0,
                submitted_at=arrivals[number],
            )
            for number, job in enumerate(workload("burst", 7).jobs)
        )
    )
    options = SimulationOptions(
        DurationOptions(partial="proportional"), keeping=KEEPERS[keeper], seed=2, sharing=shared
    )
    result = simulate(create("ff"), jobs, CLUSTERS["slow"], options=options)
    simulated = dict(spent)
    spent.clear()
    played("ff", jobs, CLUSTERS["slow"], options, result)
    spent.pop(jobs.jobs[-1].owner)
    simulated.pop(jobs.jobs[-1].owner, None)
    assert spent == pytest.approx(simulated, rel=1e-9)
    assert len(spent) == 3
