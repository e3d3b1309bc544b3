"""Jobs that are given less than they ask for: smaller executors, or fewer of them."""

import random
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agents.registry import create
from environment.kernel.rule_options import DurationOptions, RewardOptions
from environment.policy import FunctionPolicy
from environment.resources import LEAST, Resources
from environment.simulation.options import SimulationOptions
from environment.simulation.results.decision_trace import trace_to_json
from environment.simulation.results.results import Result
from environment.simulation.simulator import simulate
from environment.types import Decision, EndedJob, Place, PlacementRequest, Vm, Wait
from environment.view import ClusterView
from profiles.job_profile import load_profiles
from profiles.workloads.workload import Workload, WorkloadJob
from tests.builders import make_vms
from tests.environment.simulation.reference import Machine, Reference, Work
from tests.environment.simulation.replay import Replay, trace_from_json
from tests.environment.simulation.test_simulator import never_over_capacity, worlds


def work(name: str, at: float, executors: int, fewest: int | None = None, kind: str = "other") -> WorkloadJob:
    """Executors of 2 cpus and 2 GiB for 100 s; `other` has no profile."""
    return WorkloadJob(name, at, kind, 2.0, 2048, executors, 100.0, fewest)


def giving(*given_: tuple[int, float, int]) -> Callable[[ClusterView, Sequence[PlacementRequest]], Decision]:
    """A policy that gives every job these executors (VM, cpus, MiB), and waits where something else runs."""

    def decide(view: ClusterView, queue: Sequence[PlacementRequest]) -> Decision:
        if view.executors.any():
            return Wait("something runs")
        sizes = tuple(Resources.of(cpus, memory_mib) for _, cpus, memory_mib in given_)
        return Place(queue[0].job.id, tuple(vm for vm, _, _ in given_), sizes=sizes)

    return decide


def run(policy: FunctionPolicy | Replay, *jobs: WorkloadJob, partial: str = "profile") -> Result:
    """A run on two VMs of 4 cpus and 16 GiB, at 0.24 dollars an hour."""
    durations = DurationOptions(partial=partial)  # type: ignore[arg-type]  # any text
    return simulate(policy, Workload(jobs), make_vms(2), options=SimulationOptions(durations))


def test_smaller_executors_take_longer() -> None:
    """Half the cpus of a type without profile: twice as long, at a share of the VM that is half as large."""
    result = run(FunctionPolicy(giving((0, 1.0, 2048), (0, 1.0, 1024))), work("a", 0, 2), work("b", 0, 2))
    assert [(job.started_at, job.ended_at) for job in result.jobs] == [(0, 200), (200, 400)]
    assert result.jobs[0].sizes == (Resources.of(1.0, 2048), Resources.of(1.0, 1024))
    assert [job.cost * 3600 for job in result.jobs] == pytest.approx([0.24 * 200] * 2)
    assert result.utilisation == 0.5
    # Core-seconds are the same: 2 x 2 cpus for 100 s, or 2 x 1 for 200.
    assert result.bound == pytest.approx(2 * 400 * 0.06 / 3600)


def test_fewer_executors_take_longer() -> None:
    """An elastic job on one of two executors; where it takes as long as asked, nothing is said of sizes."""
    decide = giving((1, 2.0, 2048))
    result = run(FunctionPolicy(decide), work("a", 0, 2, fewest=1), work("b", 0, 1))
    assert [(job.placement, job.duration, job.sizes) for job in result.jobs] == [
        ((1,), 200, (Resources.of(2.0, 2048),)),
        ((1,), 100, ()),
    ]


@pytest.mark.parametrize("partial", ["profile", "proportional"])
def test_a_profile_knows_how_much_longer(partial: str) -> None:
    """Amdahl: serial work takes as long on one core as on four; the bound knows that it costs less."""
    profile = load_profiles()["pagerank"]
    decide = giving((0, 1.0, 2048), (0, 1.0, 2048))
    result = run(FunctionPolicy(decide), work("a", 0, 2, kind="pagerank"), partial=partial)
    longer = profile.duration_on(2.0, 4096, 1.0) / profile.duration(2.0, 2048, 2)
    assert 1 < longer < 2
    assert result.jobs[0].duration == pytest.approx(100 * (longer if partial == "profile" else 2))
    assert result.bound * 3600 / 0.06 == pytest.approx(200 * longer if partial == "profile" else 400)


def test_ends_are_told_in_order() -> None:
    """An observing policy receives each job that ended before its next decision, with sizes and duration."""
    heard: list[tuple[str, float, tuple[Resources, ...], float]] = []

    class Learner:
        def observe(self, ended: EndedJob) -> None:
            heard.append((ended.job.id, ended.ended_at, ended.sizes, ended.started_at))

        def decide(self, view: ClusterView, queue: Sequence[PlacementRequest]) -> Decision:
            if len(heard) < 2 and queue[0].job.id == "c":
                return Wait("hears more")
            return Place(
                queue[0].job.id, (0,), sizes=(Resources.of(1.0 if queue[0].job.id == "a" else 2.0, 2048),)
            )

    simulate(Learner(), Workload((work("a", 0, 1), work("b", 0, 1), work("c", 5, 1))), make_vms(1))
    assert heard == [("b", 100, (Resources.of(2.0, 2048),), 0), ("a", 200, (Resources.of(1.0, 2048),), 0)]


def at_random(seed: int) -> Callable[[ClusterView, Sequence[PlacementRequest]], Decision]:
    """A policy that gives the head any executors that fit, of any size that is allowed, anywhere."""
    chance = random.Random(seed)  # noqa: S311  no secrets

    def decide(view: ClusterView, queue: Sequence[PlacementRequest]) -> Decision:
        request, free = queue[0], np.array([view.free_cpus, view.free_memory_mib])
        least = min(LEAST.cpus, request.cpus), min(LEAST.memory_mib, request.memory_mib)
        placement, sizes = [], []
        for _ in range(chance.randint(request.fewest, request.count)):
            fits = np.flatnonzero((free[0] >= least[0]) & (free[1] >= least[1])).tolist()
            if not fits:
                return Wait("no room")
            vm, share = chance.choice(fits), chance.choice([1.0, 0.7, 1 / 3])
            cpus = max(least[0], min(int(free[0, vm] * 1000) / 1000, round(request.cpus * share, 3)))
            memory_mib = max(least[1], min(int(free[1, vm]), int(request.memory_mib * share)))
            free[:, vm] -= cpus, memory_mib
            placement.append(vm)
            sizes.append(Resources.of(cpus, memory_mib, request.size.others))
        return Place(request.job.id, tuple(placement), sizes=tuple(sizes))

    return decide


def elastic(workload: Workload, chance: random.Random) -> Workload:
    """The same jobs, some of which run on fewer executors too."""
    return Workload(
        tuple(
            replace(job, min_executors=chance.choice([None, chance.randint(1, job.executors)]))
            for job in workload.jobs
        )
    )


def reference_of(result: Result, workload: Workload) -> Reference:
    """Replay the run in plain Python from the decisions alone."""
    jobs = {job.name: job for job in workload.jobs if job.name not in result.refused}
    profiles = load_profiles()
    machines = [Machine(round(vm.cpus * 1000), vm.memory_mib, vm.price_per_hour) for vm in result.vms]
    known = {name: profile.prefers or "" for name, profile in profiles.items()}
    kinds = {job.name: known.get(job.type, "") for job in jobs.values()}
    rows = [
        Work(j.submitted_at, round(j.cpus * 1000), j.memory_mib, j.executors, kinds[j.name], j.duration)
        for j in jobs.values()
    ]
    world = Reference(machines, rows, RewardOptions(), DurationOptions())
    for traced in result.decisions:
        if not isinstance(traced.decision, Place):
            continue
        # Durations are computed in another order here, and may end a rounding error later.
        world.pass_time(traced.at, slack=1e-12 * traced.at)
        job, place = jobs[traced.job], traced.decision
        sizes = place.sizes or (Resources.of(job.cpus, job.memory_mib),) * len(place.placement)
        cores, memory = sum(size.cpus for size in sizes), sum(size.memory_mib for size in sizes)
        longer = job.cpus * job.executors / cores
        if profile := profiles.get(job.type):
            whole = profile.duration(job.cpus, job.memory_mib, job.executors)
            longer = profile.duration_on(cores, memory, min(size.cpus for size in sizes)) / whole
        world.grant(len(place.placement), job.duration * longer)
        for vm, size in zip(place.placement, sizes, strict=True):
            world.put(vm, (round(size.cpus * 1000), size.memory_mib))
            assert world.free_milli_cpus(vm) >= 0
            assert world.free_memory_mib(vm) >= 0
    return world


@given(world=worlds(), seed=st.integers(0, 2**32))
@settings(max_examples=60, deadline=None)
def test_fractional_runs_keep_to_the_rules(world: tuple[Workload, tuple[Vm, ...]], seed: int) -> None:
    """Capacity, cost, replay, and start and end of every job, as in plain Python."""
    workload, vms = elastic(world[0], random.Random(seed)), world[1]  # noqa: S311  no secrets
    options = SimulationOptions(grows=False)  # which the rules in plain Python do not know
    result = simulate(FunctionPolicy(at_random(seed)), workload, vms, options=options, fallback=create("ff"))
    never_over_capacity(result, workload)
    assert result.cost >= result.bound * (1 - 1e-9) - 1e-15
    assert sum(job.cost for job in result.jobs) == pytest.approx(result.cost)
    trace = trace_from_json(trace_to_json(result.decisions))
    again = simulate(Replay(trace), workload, vms, options=options)
    assert (again.jobs, again.cost) == (result.jobs, result.cost)
    if result.jobs:
        plain = reference_of(result, workload)
        assert [job.started_at for job in result.jobs] == [job.start for job in plain.jobs]
        assert [job.ended_at for job in result.jobs] == pytest.approx([job.end for job in plain.jobs])
        assert result.vm_seconds == pytest.approx([machine.seconds for machine in plain.machines])
        assert result.cost == pytest.approx(plain.cost())
