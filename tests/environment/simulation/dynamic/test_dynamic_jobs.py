"""Jobs with dynamic allocation in a simulated cluster, against counts by hand."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pytest

from agents.registry import create
from conf.loader import ConfigError
from conf.schema.cluster import Billing, Cluster, Pool, Spot
from environment.clusters.cluster_files import vms_of
from environment.resources import Resources
from environment.simulation.options import SimulationOptions
from environment.simulation.results.results import Result
from environment.simulation.simulator import simulate
from environment.types import Vm
from profiles.job_profile import JobProfile, StageShape
from profiles.workloads.workload import WorkloadJob, workload_of

#: Two bursts of 16 core-seconds on as many cores as there are, 20 s apart; an executor starts in 2 s.
BURST = StageShape(pause=20.0, work=16.0, width=16.0)
PROFILE = JobProfile(bound_by="cpu", work=32.0, startup=2.0, stages=(BURST, BURST))


def cluster(count: int) -> tuple[Vm, ...]:
    """VMs of a core each, for a tenth of a cent a second."""
    return tuple(Vm(f"vm-{n}", f"vm-{n}", "t", Resources.of(1, 1024), 3.6) for n in range(count))


def job(name: str, at: float = 0.0, least: int | None = 1, executors: int = 4) -> WorkloadJob:
    """A job that takes as long on all of its executors as its stages do."""
    seconds = 2 * (20.0 + 16.0 / executors)
    return WorkloadJob(name, at, "bursts", 1.0, 512, executors, seconds, dynamic_min=least)


def played(jobs: Sequence[WorkloadJob], vms: Sequence[Vm] = (), policy: str = "ff", **options: Any) -> Result:
    """The result on four VMs."""
    chosen = SimulationOptions(profiles={"bursts": PROFILE}, **options)
    return simulate(
        create(policy), workload_of(jobs), vms or cluster(4), options=chosen, fallback=create("ff")
    )


def executors(result: Result, number: int = 0) -> list[tuple[float, float]]:
    """When the executors of a job came and went."""
    held = result.held
    there = (held.job == number) & (held.vm < len(result.vms)) & (held.end > held.start)
    return sorted(zip(held.start[there].tolist(), held.end[there].tolist(), strict=True))


def test_executors_come_and_go_by_stages() -> None:
    """One works alone from 20 s on, another from 23 s on, two more from 24 s; none is idle for a minute."""
    result = played([job("a")])
    came = [at for at, _ in executors(result)]
    # Requests at 21 and 22 s: 1 and 2; they work 2 s later. 3 core-seconds until 23, 5 until 24, 4 a second.
    assert came == [0.0, 21.0, 22.0, 22.0]
    first = 24.0 + (16.0 - 3.0 - 2.0) / 4.0
    assert result.jobs[0].ended_at == pytest.approx(first + 20.0 + 4.0)
    assert {end for _, end in executors(result)} == {result.jobs[0].ended_at}


def test_idle_executors_are_released_and_requested_again() -> None:
    """After five idle seconds of the pause, all but one; the cost is that of the time they were there."""
    result = played([job("a")], executor_idle=5.0)
    first = 24.0 + (16.0 - 3.0 - 2.0) / 4.0
    times = executors(result)
    assert [end for _, end in times if end < 40.0] == pytest.approx([first + 5.0] * 3)
    assert [at for at, _ in times if at > 30.0] == pytest.approx([first + 21.0, first + 22.0, first + 22.0])
    assert result.cost == pytest.approx(0.001 * sum(end - at for at, end in times))
    assert result.jobs[0].cost == pytest.approx(result.cost)
    assert result.jobs[0].ended_at == pytest.approx(2 * first)


def test_a_job_with_all_its_executors_takes_its_duration() -> None:
    """Dynamic or fixed: its stages are in proportion to it."""
    fixed = played([job("a", least=None)])
    dynamic = played([job("a", least=4)])
    assert dynamic.jobs[0].duration == pytest.approx(fixed.jobs[0].duration) == pytest.approx(48.0)
    assert dynamic.cost == pytest.approx(fixed.cost)
    assert played([job("a", least=None)], dynamic=4).cost == pytest.approx(fixed.cost)


def test_new_jobs_take_what_is_released() -> None:
    """A job that comes in the pause gets the VMs; the first asks again, in turn, and gets them back."""
    jobs = [job("a"), WorkloadJob("b", 30.0, "other", 1.0, 512, 3, 30.0)]
    result = played(jobs, executor_idle=5.0)
    first, second = result.jobs
    assert second.started_at == pytest.approx(31.75)  # when the other's three are released
    later = [at for at, _ in executors(result) if at > 32.0]
    assert min(later) == pytest.approx(second.ended_at)
    assert first.ended_at > second.ended_at


def test_a_request_without_room_holds_up_nobody_for_long() -> None:
    """It stands behind a new job after ten seconds, and that fits beside it."""
    jobs = [
        job("a"),
        WorkloadJob("b", 1.0, "other", 0.5, 256, 1, 100.0),
        job("c", 2.0, executors=1, least=None),
    ]
    result = played(jobs, cluster(2))
    assert {each.name for each in result.jobs} == {"a", "b", "c"}
    assert not result.aside


@pytest.mark.parametrize(
    "policy", ["ff", "best_fit", "aep", "greedy", "lookahead", "drf", "rr", "ogasched", "dqn"]
)
def test_every_policy_places_them(policy: str) -> None:
    """Many jobs end, and hold no VM twice."""
    jobs = [job(f"job-{n}", 7.0 * n, executors=1 + n % 4) for n in range(12)]
    result = played(jobs, cluster(6), policy, executor_idle=3.0)
    assert len(result.jobs) == 12
    held = result.held
    for vm in range(6):
        spans = sorted(zip(held.start[held.vm == vm], held.end[held.vm == vm], strict=True))
        assert all(one[1] <= other[0] + 1e-6 for one, other in pairwise(spans))


def test_vms_are_opened_for_requests_and_close_after_releases() -> None:
    """An executor on a VM that boots works when that is up."""
    pool = Pool(
        name="p", type="p", cpus=1.0, memory=1024, price_per_hour=3.6, max=4, boot=10.0,
        billing=Billing(granularity=1.0, minimum=0.0),
    )  # fmt: skip
    result = played([job("a")], vms_of(Cluster(pools=(pool,))), executor_idle=5.0)
    whole = played([job("a", least=4)], vms_of(Cluster(pools=(pool,))), executor_idle=5.0)
    assert result.bill.total < whole.bill.total
    assert result.jobs[0].ended_at > whole.jobs[0].ended_at


def test_what_cannot_be_simulated_is_refused() -> None:
    """Types without stages, and spot VMs, each in one line that says what to do."""
    unknown = WorkloadJob("a", 0.0, "other", 1.0, 512, 4, 10.0, dynamic_min=1)
    with pytest.raises(
        ConfigError, match=r"a: dynamic_min: the profile of its type other has no stages; `stoker audit"
    ):
        played([unknown])
    pool = Pool(
        name="p",
        type="p",
        cpus=1.0,
        memory=1024,
        max=4,
        spot=Spot(price_per_hour=1.0, interruptions_per_hour=0.1),
    )
    with pytest.raises(ConfigError, match="goes without spot VMs in a simulation"):
        played([job("a")], vms_of(Cluster(pools=(pool,))))
