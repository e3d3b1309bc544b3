"""A simulation waits for the time at which something is due, and goes on then: no clock stands still."""

import math
from collections.abc import Sequence
from typing import Any

import pytest

from agents.registry import create
from conf.schema.cluster import Cluster, Pool, Spot
from environment.clusters.cluster_files import load_cluster, vms_of
from environment.policy import Policy
from environment.pools import Consolidation, IdleTimeout
from environment.queues.types import Most, Preemption, Queue, Queues, Sharing
from environment.simulation.options import SimulationOptions
from environment.simulation.results.decision_trace import EndlessError
from environment.simulation.results.results import Result
from environment.simulation.simulator import simulate
from environment.types import Decision, PlacementRequest, Vm, Wait
from environment.view import ClusterView
from profiles.job_profile import JobProfile, ReworkShares, StageShape
from profiles.workloads.generators import load_workload
from profiles.workloads.workload import WorkloadJob, workload_of
from tests.builders import make_vm

ETL = JobProfile(
    bound_by="cpu",
    work=400.0,
    startup=10.0,
    stages=(
        StageShape(pause=10.0, work=40.0, width=8.0),
        StageShape(pause=1.0, work=300.0, width=16.0, longest=8.0),
        StageShape(pause=0.5, work=20.0, width=2.0),
    ),
)
#: Arrivals and durations by which requests are made at times to which ten seconds are added inexactly.
ARRIVALS = (
    (10.770, 56.51), (30.941, 64.80), (33.694, 104.25), (133.714, 168.07), (191.668, 75.51), (222.442, 84.27),
    (230.024, 56.99), (239.676, 188.40), (310.301, 169.06), (374.768, 70.95), (389.602, 140.32),
    (442.257, 176.74),
)  # fmt: skip


def played(
    jobs: Sequence[WorkloadJob], vms: Sequence[Vm], policy: Policy | None = None, **options: Any
) -> Result:
    """The result, by ff where no policy is given."""
    chosen = SimulationOptions(profiles={"etl": ETL}, **options)
    return simulate(policy or create("ff"), workload_of(jobs), vms, options=chosen, fallback=create("ff"))


def job(
    name: str, at: float, seconds: float, executors: int = 1, cpus: float = 4.0, **more: Any
) -> WorkloadJob:
    """A job of a type with a profile, 1 GiB for each executor."""
    return WorkloadJob(name, at, "etl", cpus, 1024, executors, seconds, **more)


def spot(rate: float, boot: float = 60.0) -> tuple[Vm, ...]:
    """A pool of spot VMs that are taken away so often in an hour."""
    market = Spot(price_per_hour=0.3, interruptions_per_hour=rate, notice=0.0)
    return vms_of(
        Cluster(pools=(Pool(name="p", type="m", cpus=4, memory=16384, max=5, boot=boot, spot=market),))
    )


def test_requests_of_drivers_stand_behind_others_when_their_turn_is_over() -> None:
    """After ten seconds, also where that sum is rounded down."""
    jobs = [job(f"a-{n}", at, seconds, 6, 1.0, dynamic_min=1) for n, (at, seconds) in enumerate(ARRIVALS)]
    result = played(jobs, [make_vm(f"vm-{n}", 4.0, price_per_hour=1.0) for n in range(3)])
    assert all(job.ended_at < math.inf for job in result.jobs)


@pytest.mark.parametrize("at", [254.367, 300.0])
def test_an_urgent_job_takes_its_turn_at_its_time(at: float) -> None:
    """After five seconds of waiting; 254.367 + 5 - 254.367 is less than five."""
    queues = Queues((Queue("default"), Queue("prod", priority=10)))
    rule = Preemption(by=("priority",), young=1e6, pause=0.0)
    jobs = [job("long", 0.0, 10_000.0), job("urgent", at, 100.0, queue="prod")]
    sharing = Sharing(("priority",), queues=queues, preemption=rule)
    result = played(jobs, [make_vm()], sharing=sharing)
    assert result.jobs[1].started_at == pytest.approx(at + 5.0)


def test_jobs_that_lost_executors_wait_for_the_next_day_of_their_queue() -> None:
    """Its limit of a day is spent: they go on at midnight, and end."""
    limit = Queues((Queue("default", most=Most(dollars_per_day=0.3)),))
    jobs = [job("short", 0.0, 60.0, 4, 1.0), job("long", 0.0, 10_000.0, 4, 1.0)]
    spent = 0
    for seed in range(8):
        result = played(jobs, spot(0.5)[:2], sharing=Sharing(("fifo",), queues=limit), seed=seed)
        assert all(job.ended_at < math.inf for job in result.jobs)
        assert result.cost >= result.bound
        spent += result.jobs[1].ended_at > 86_400.0
    assert spent


def test_vms_that_are_always_there_are_kept_by_no_plan() -> None:
    """A plan for idle VMs has nothing to do in a cluster without pools."""
    options = SimulationOptions(keeping=IdleTimeout("planned"))
    result = simulate(create("greedy"), load_workload("burst", 1), load_cluster("paper"), options=options)
    assert all(each.ended_at < math.inf for each in result.jobs)


class _Sleeper:
    """Waits, when asked for the second time, and has an error from then on."""

    def __init__(self) -> None:
        self.asked = 0

    def decide(self, view: ClusterView, queue: Sequence[PlacementRequest]) -> Decision:
        self.asked += 1
        if self.asked == 1:
            return create("ff").decide(view, queue)
        if self.asked == 2:
            return Wait("not yet")
        raise KeyError("broken")


def test_a_policy_that_waits_and_then_fails_lets_the_clock_run() -> None:
    """The time at which its wait would have been a fault is past, and nothing to wait for."""
    jobs = [job("long", 0.0, 10_000.0, 1, 1.0), job("short", 0.0, 50.0, 1, 1.0), job("wide", 100.0, 300.0)]
    result = played(jobs, [make_vm()], _Sleeper())
    assert result.jobs[2].started_at == 10_000.0


def test_a_clock_that_stands_still_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """At once, and not as a job that is interrupted again and again."""
    monkeypatch.setattr("environment.simulation.world.World.next_event", lambda world: world.now)
    with pytest.raises(EndlessError, match="the clock of the simulation stands still at 0 s"):
        played([job("first", 0.0, 100.0), job("second", 0.0, 100.0)], [make_vm()])


def test_a_job_that_is_given_up_while_its_vm_boots_has_not_ended_before_it_began() -> None:
    """Spot VMs that are taken away every two minutes, of which each boots for five."""
    sizes = ((0.0, 100.0, 1), (0.0, 400.0, 1), (1000.0, 100.0, 1), (2000.0, 200.0, 2))
    jobs = [WorkloadJob(f"a-{n}", at, "a", 4.0, 4096, many, sec) for n, (at, sec, many) in enumerate(sizes)]
    paid = Pool(name="paid", type="m", cpus=4, memory=16384, price_per_hour=1.0, max=2, boot=60.0)
    market = Spot(price_per_hour=0.1, interruptions_per_hour=30.0, notice=0.0)
    cheap = Pool(name="spot", type="m", cpus=4, memory=16384, max=4, boot=300.0, spot=market)
    given_up = 0
    for seed in range(6):
        result = played(jobs, vms_of(Cluster(pools=(paid, cheap))), create("greedy"), seed=seed)
        assert all(each.ended_at >= each.started_at for each in result.jobs)
        given_up += sum("given up after 0 s" in why for why in result.given_up.values())
    assert given_up


def test_a_move_gives_no_job_up() -> None:
    """Not even one with drained executors that do all their work again, on VMs that are taken away."""
    again = ETL.model_copy(update={"rework": ReworkShares(lost=0.5, drained=1.0), "stages": ()})
    jobs = [job("a", 0.0, 8849.0, 5, 1.0), job("b", 0.0, 20_000.0, 3, 1.0), job("c", 100.0, 12_000.0, 3, 2.0)]
    for seed in range(6):
        options = SimulationOptions(
            profiles={"etl": again}, consolidation=Consolidation("underutilized"), seed=seed
        )
        result = simulate(create("rr"), workload_of(jobs), spot(0.5), options=options)
        assert all(each.ended_at < math.inf for each in result.jobs)
