"""Where a provider has too few VMs, simulation and daemon leave its pool out for the same time."""

from collections.abc import Sequence
from dataclasses import dataclass

import pytest

from agents.registry import create
from environment.clusters.spot_availability import SpotTrace
from environment.kernel.arrays import jobs_of
from environment.model.cluster_model import ClusterModel, ModelOptions
from environment.model.messages import commands as cmd
from environment.model.messages import events as ev
from environment.pools import SpotTerms, Terms
from environment.simulation.options import SimulationOptions, believed
from environment.simulation.simulator import simulate
from environment.types import Vm
from profiles.workloads.workload import Workload, WorkloadJob
from tests.environment.two_worlds.perfect_cloud import PerfectCloud
from tests.environment.two_worlds.perfect_master import _DUE
from tests.environment.two_worlds.test_pools import KEEPERS, pooled

CHEAP = Terms("cheap", boot=20.0, minimum=60.0, granularity=1.0, spot=SpotTerms(0.0))
DEAR = Terms("dear", boot=20.0, minimum=60.0, granularity=1.0)


@dataclass
class ScarceCloud(PerfectCloud):
    """At most `most` VMs of the pool `cheap` are open at once; others are refused."""

    most: int = 0
    refused: int = 0

    def _boot(self, lease_id: str) -> None:
        if (lease := self.model.lease(lease_id)) is not None and not lease.ended:
            super()._boot(lease_id)

    def _obey(self, command: cmd.Command) -> None:
        if isinstance(command, cmd.OpenVm):
            lease = self.model.lease(command.lease_id)
            assert lease is not None
            assert lease.vm.terms is not None
            here = [one for one in self.model.leases() if one.vm.terms and one.vm.terms.pool == "cheap"]
            others = [one for one in here if one.id != lease.id and one.state in ("booting", "up")]
            if lease.vm.terms.pool == "cheap" and len(others) >= self.most:
                self.refused += 1
                self._send(
                    ev.LeaseRefused(self._now, lease.id, "capacity", "no spot VM of the pool is available")
                )
                for pool in self.model._parts.vms.fleet._refusals.state():
                    self._push(pool.until, _DUE, None)
                return
        super()._obey(command)


def work(at: Sequence[float], executors: Sequence[int]) -> Workload:
    """Jobs of executors that fill a VM each, none as long as another."""
    each = enumerate(zip(at, executors, strict=True))
    return Workload(
        tuple(WorkloadJob(f"job-{n}", t, "other", 4.0, 4096, k, 150.0 + 7.0 * n) for n, (t, k) in each)
    )


#: Jobs that go elsewhere at once, and the last one of five, which waits until the pool is tried again.
ELSEWHERE = work([13.0 * n for n in range(20)], [1 + n % 2 for n in range(20)])
WAITS = work([0.0, 1.0, 2.0, 3.0, 4.0], [1, 1, 1, 1, 2])


@pytest.mark.parametrize("policy", ["ff", "best_fit", "rr", "greedy"])
@pytest.mark.parametrize("keeper", ["none", "break_even", "timeout"])
@pytest.mark.parametrize(("jobs", "dear", "most"), [(ELSEWHERE, 30, 4), (ELSEWHERE, 30, 0), (WAITS, 0, 4)])
def test_pools_are_left_out_alike(policy: str, keeper: str, jobs: Workload, dear: int, most: int) -> None:
    """Jobs start at the same times, after as many refusals, and VMs that were opened in vain are billed."""
    vms: tuple[Vm, ...] = (*pooled(CHEAP, 8, 4.0, 0.1), *pooled(DEAR, dear, 4.0, 0.4))
    options = SimulationOptions(keeping=KEEPERS[keeper], availability={"cheap": SpotTrace(60.0, (most,))})
    result = simulate(create(policy), jobs, vms, options=options)
    ends = {job.name: job.ended_at for job in result.jobs}
    model = ClusterModel(ModelOptions(places=vms, keeping=options.keeping))
    cloud = ScarceCloud(
        create(policy), [], lambda job_id, *_: ends[job_id], model, keeping=options.keeping, most=most
    )
    cloud.run(believed(jobs_of(jobs, options.profiles), options))
    times = {job.name: (job.started_at, job.ended_at) for job in result.jobs}
    assert times == {name: (job.started_at, job.finished_at) for name, job in cloud.done.items()}
    assert result.opens_refused == cloud.refused > 0
    opened = [lease for lease in cloud.leases.values() if lease.opened_at is not None]
    assert result.bill.openings == len(opened)
    charged = sum(charge.dollars for charge in cloud.charges)
    assert result.bill.total == pytest.approx(charged)
