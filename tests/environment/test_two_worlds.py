"""Every policy decides the same in a simulation and in the daemon's model, where the same things happen.

Once through the cluster model as the daemon drives it, under a master that does everything at once, and once
through the simulator: with errors in what is believed of durations, types that nobody knows, jobs that run on
fewer executors than they ask for, executors that are lost, and a VM. Truth is that of profiles: of a fitted
model a simulation believes what it says of placement and company, of which the daemon knows nothing.
"""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from agents.registry import POLICIES, create
from environment.cluster_files import load_cluster
from environment.kernel.arrays import checked_vms, jobs_of
from environment.kernel.rule_options import DurationOptions
from environment.policy import Policy
from environment.resources import CPUS, MEMORY, Resources
from environment.simulation.expectations import Belief
from environment.simulation.losses import Loss
from environment.simulation.options import SimulationOptions, believed
from environment.simulation.simulator import simulate
from environment.types import Decision, EndedJob, Observer, Place, PlacementRequest, natural_key
from environment.view import ClusterView
from profiles.generators import load_workload
from profiles.job_profile import load_profiles
from profiles.workload import Workload
from tests.environment.perfect_master import PerfectMaster

VMS = checked_vms(sorted(load_cluster("paper"), key=lambda vm: natural_key(vm.name)))
#: An executor of a job, another of the same while that is missing, one of another job; VMs in between.
LOSSES = (
    Loss(120.0, job="job-000"),
    Loss(121.0, job="job-000"),
    Loss(250.0, vm=VMS[1].id),
    Loss(321.5, job="job-003", executor=1),
    Loss(640.0, vm=VMS[9].id),
)
#: All that come with Stoker, and executors of sizes that nobody asked for.
CASES: dict[str, tuple[str, dict[str, object]]] = {
    **{name: (name, {}) for name in POLICIES},
    "lookahead, reinforce": ("lookahead", {"candidates": 30, "base": "reinforce"}),
    "cuts": ("tests.environment.test_two_worlds:Cuts", {}),
}


class Cuts:
    """Gives half of the cpus that are asked for on the emptiest VMs, and places the smallest job first."""

    def decide(self, view: ClusterView, queue: Sequence[PlacementRequest]) -> Decision:
        """Sizes of its own, and overtaking."""
        policy = create("least_allocated")
        request = min(queue, key=lambda request: (not request.again, request.count * request.cpus))
        decision = policy.decide(view, [request])
        if not isinstance(decision, Place) or request.again:
            return decision
        half = tuple(
            Resources.of(round(size.cpus / 2, 3), size.memory_mib, size.others) for size in request.asked
        )
        return replace(decision, sizes=half[: len(decision.placement)], scores=(), details={})


class Recorder:
    """A policy whose decisions are written down, with what it was shown."""

    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self.placed: list[tuple[float, str, tuple[str, ...], tuple[Resources, ...]]] = []
        self.shown: list[dict[str, object]] = []

    def decide(self, view: ClusterView, queue: Sequence[PlacementRequest]) -> Decision:
        """As the policy does."""
        decision = self.policy.decide(view, queue)
        ends = [(job.job.id, job.vm_ids, job.sizes, job.end_at(view.at)) for job in view.running]
        asked = [(r.job.id, r.count, r.present_on, r.again, r.sizes) for r in queue]
        shown = {
            "at": view.at,
            "vms": [vm.id for vm in view.vms],
            "free": {name: view.free.get(name).tolist() for name in (CPUS, MEMORY)},
            "usable": {name: view.usable.get(name).tolist() for name in (CPUS, MEMORY)},
            "executors": view.executors.tolist(),
            "busy_until": view.busy_until.tolist(),
            "running": ends,
            "queue": asked,
        }
        self.shown.append(shown)
        if isinstance(decision, Place):
            names = tuple(view.vms[vm].name for vm in decision.placement)
            self.placed.append((view.at, decision.job_id, names, decision.sizes))
        return decision

    def observe(self, ended: EndedJob) -> None:
        """Told to those that learn."""
        if isinstance(self.policy, Observer):
            self.policy.observe(ended)


def workload(name: str, jobs: int) -> Workload:
    """Some jobs are of a type that nobody knows, some run on fewer executors; their names are numbers."""
    drawn = load_workload(name, 5, jobs).jobs
    changed = [
        replace(job, name=f"job-{i:03}", type="new" if i % 9 == 4 else job.type)
        for i, job in enumerate(drawn)
    ]
    return Workload(tuple(replace(j, min_executors=1) if i % 7 == 2 else j for i, j in enumerate(changed)))


@pytest.mark.parametrize("name", ["burst", "normal"])
@pytest.mark.parametrize("case", CASES)
def test_policies_decide_the_same_in_both_worlds(case: str, name: str) -> None:
    """The same placements, starts, ends and costs, and the same to see before every decision."""
    made, options = CASES[case]
    jobs = workload(name, 30)
    simulated = SimulationOptions(
        DurationOptions(partial="proportional"), belief=Belief.read(0.3), seed=2, losses=LOSSES
    )
    if name == "normal":
        simulated = replace(simulated, belief=Belief("spread"))
    true = {job.id: job for job in jobs_of(jobs, load_profiles())}

    def seconds(job_id: str, sizes: tuple[Resources, ...], vms: int) -> float:
        return true[job_id].expected_on(sizes, vms) or 0.0

    here, there = Recorder(create(made, options)), Recorder(create(made, options))
    result = simulate(here, jobs, VMS, options=simulated)
    master = PerfectMaster(there, VMS, seconds)
    records = master.run(believed(tuple(true.values()), simulated), LOSSES)
    for one, other in zip(here.shown, there.shown, strict=False):
        assert str(one) == str(other)
    assert here.placed == there.placed
    assert len(here.shown) == len(there.shown)
    assert any(sizes for *_, sizes in here.placed) == (case in ("cuts", "ogasched"))
    times = {job.name: (job.started_at, job.ended_at) for job in result.jobs}
    assert times == {name: (record.started_at, record.finished_at) for name, record in records.items()}
    costs = {job.name: job.cost for job in result.jobs}
    assert costs == pytest.approx({name: record.cost for name, record in records.items()})
    assert result.cost == pytest.approx(sum(record.cost for record in records.values()))
    first, second, vm, third, other_vm = master.lost
    assert first == second == third == 1
    assert vm + other_vm > 0, "no executor was on either of the VMs that were lost"
    cut = [getattr(recorder.policy, "cut_short", 0) for recorder in (here, there)]
    assert cut == [0, 0], "its safety stop made it depend on the machine"
    assert [job for _, job, *_ in here.placed].count("job-000") > 1
