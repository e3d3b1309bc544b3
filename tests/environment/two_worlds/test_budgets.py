"""Daily limits of the costs of VMs hold alike in a simulation and in the daemon, where its budget watches."""

from dataclasses import dataclass, replace

import pytest

from agents.registry import create
from conf.schema import Budget
from daemon.scheduler.budget import BudgetWatch
from environment.kernel.arrays import jobs_of
from environment.kernel.rule_options import DurationOptions
from environment.model.cluster_model import Changes, ClusterModel, ModelOptions
from environment.model.messages import events as ev
from environment.simulation.options import SimulationOptions, believed
from environment.simulation.simulator import simulate
from tests.environment.two_worlds.perfect_cloud import PerfectCloud
from tests.environment.two_worlds.test_pools import CLUSTERS, KEEPERS, Recorder
from tests.environment.two_worlds.test_two_worlds import workload

_LOOKS = 13


@dataclass
class BudgetedCloud(PerfectCloud):
    """Charges VMs, and looks at the budget, before each decision and when a day begins."""

    budget: Budget | None = None

    def _begin(self) -> None:
        self._watch = BudgetWatch(self.budget, lambda _: [], lambda: self._now)
        self._watch.begin()
        self._seen = 0
        super()._begin()

    def _let_decide(self, kinds: set[int]) -> None:
        self._send(ev.ChargesDue(self._now))
        self._watch.observe(Changes((), (), charges=tuple(self.charges[self._seen :])))
        self._seen = len(self.charges)
        for event in self._watch.look():
            self._send(event)
        for limit in self._watch.limits():
            if limit.over and limit.until is not None:
                self._push(limit.until, _LOOKS, None)
        super()._let_decide(kinds)


@pytest.mark.parametrize("policy", ["ff", "greedy", "lookahead"])
@pytest.mark.parametrize(
    ("cluster", "keeper", "budget"),
    [
        ("slow", "none", Budget(dollars_per_day=1.0)),
        ("slow", "break_even", Budget(dollars_per_day=0.7)),
        ("mixed", "timeout", Budget.model_validate({"pools": {"slow": {"dollars_per_day": 0.2}}})),
    ],
)
def test_a_spent_day_holds_alike(policy: str, cluster: str, keeper: str, budget: Budget) -> None:
    """The same placements, starts and ends, on the days after as well."""
    jobs, vms = workload("burst", 30), CLUSTERS[cluster]
    here = Recorder(create(policy))
    options = SimulationOptions(
        DurationOptions(partial="proportional"),
        keeping=KEEPERS[keeper],
        seed=2,
        per_day={limit.pool: limit.dollars for limit in budget.limits},
    )
    result = simulate(here, jobs, vms, options=options)
    ends = {job.name: job.ended_at for job in result.jobs}
    model = ClusterModel(
        ModelOptions(places=tuple(vm for vm in vms if vm.terms is not None), keeping=options.keeping)
    )
    there, fixed = Recorder(create(policy)), [vm for vm in vms if vm.terms is None]
    cloud = BudgetedCloud(
        there, fixed, lambda job_id, *_: ends[job_id], model, keeping=options.keeping, budget=budget
    )
    cloud.run(believed(jobs_of(jobs, options.profiles), options))
    assert here.placed == there.placed
    times = {job.name: (job.started_at, job.ended_at) for job in result.jobs}
    assert times == {name: (job.started_at, job.finished_at) for name, job in cloud.done.items()}
    unlimited = simulate(create(policy), jobs, vms, options=replace(options, per_day={}))
    assert times != {job.name: (job.started_at, job.ended_at) for job in unlimited.jobs}
