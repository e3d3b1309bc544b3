"""Every policy decides the same in a simulation and in the daemon's model, where the same things happen.

Once through the cluster model as the daemon drives it, under a master that does everything at once, and once
through the simulator: with errors in beliefs about durations, unknown types, jobs that run on fewer executors
than they ask for, executors that are lost, and VMs. Truth is that of profiles, of a fitted model, or drawn;
with a fitted model a simulation believes here the same as a daemon, which has none.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import pytest

from agents.registry import POLICIES, create
from environment.clusters.cluster_files import load_cluster
from environment.decisions.sizing import Sizes
from environment.decisions.vain_waits import LEAST
from environment.kernel.arrays import checked_vms, jobs_of
from environment.model.cluster_model import ClusterModel, ModelOptions
from environment.model.messages.events import SharingChanged
from environment.number_format import natural_key
from environment.policy import Observer, Policy, Sizer, bounds_waits
from environment.queues.types import Sharing
from environment.resources import CPUS, MEMORY, Resources
from environment.simulation.durations.beliefs import Belief
from environment.simulation.durations.fitted_model import FittedDurations, FittedModel, Pace, TypeModel
from environment.simulation.faults.losses import Loss
from environment.simulation.options import SimulationOptions, believed
from environment.simulation.results.results import Result
from environment.simulation.simulator import simulate
from environment.types import Decision, EndedJob, Place, PlacementRequest, Vm, Wait
from environment.view import ClusterView
from profiles.job_profile import load_profiles
from profiles.workloads.generators import load_workload
from profiles.workloads.workload import Workload, WorkloadJob
from tests.builders import make_vm, make_vms
from tests.environment.two_worlds.perfect_master import PerfectMaster

VMS = checked_vms(sorted(load_cluster("paper"), key=lambda vm: natural_key(vm.name)))
#: An executor of a job, another of the same while that is missing, one of another job.
EXECUTORS = (
    Loss(120.0, job="job-000"),
    Loss(121.0, job="job-000"),
    Loss(321.5, job="job-003", executor=1),
)
#: When VMs are lost.
VMS_LOST_AT = (250.0, 640.0)
#: All that come with Stoker, and executors of sizes that nobody asked for.
CASES: dict[str, tuple[str, dict[str, object]]] = {
    **{name: (name, {}) for name in POLICIES},
    "ff, easy": ("ff", {"overtake": "easy"}),
    "aep, first_fit": ("aep", {"overtake": "first_fit", "overtaken_at_most": 5}),
    "ilp, easy": ("ilp", {"overtake": "easy"}),
    "rr, best": ("rr", {"overtake": "best", "beta": 0.8}),
    "random, best": ("random", {"overtake": "best"}),
    "lookahead, reinforce": ("lookahead", {"candidates": 30, "base": "reinforce"}),
    "lookahead, draws": ("lookahead", {"candidates": 20, "draws": 6}),
    "cuts": ("tests.environment.two_worlds.test_two_worlds:Cuts", {}),
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
    """A policy that records its decisions and the views it was shown."""

    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self.placed: list[tuple[float, str, tuple[str, ...], tuple[Resources, ...]]] = []
        self.shown: list[dict[str, Any]] = []

    def decide(self, view: ClusterView, queue: Sequence[PlacementRequest]) -> Decision:
        """As the policy does."""
        decision = self.policy.decide(view, queue)
        ends = [(job.job.id, job.vm_ids, job.sizes, job.end_at(view.at)) for job in view.running]
        asked = [(r.job.id, r.count, r.present_on, r.again, r.sizes) for r in queue]
        shown: dict[str, Any] = {
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

    @property
    def chooses_sizes(self) -> bool:
        """As the policy does."""
        return isinstance(self.policy, Sizer) and self.policy.chooses_sizes

    @property
    def bounds_waits(self) -> bool:
        """As the policy does."""
        return bounds_waits(self.policy)

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


def known_before(shown: Sequence[dict[str, Any]], ends: Mapping[str, float], at: float) -> str:
    """The first VM, by id, that an executor is on at that time; `ends` says when jobs end."""
    last = [each for each in shown if each["at"] < at][-1]
    return str(next(vm_ids[0] for job, vm_ids, *_ in last["running"] if ends[job] > at and vm_ids))


@dataclass
class Both:
    """The same workload through the simulator and through a daemon's model."""

    case: str
    jobs: Workload
    options: SimulationOptions
    vms: tuple[Vm, ...] = VMS

    def simulated(self, losses: Sequence[Loss]) -> tuple[Recorder, Result]:
        """Through the simulator."""
        made, options = CASES[self.case]
        here = Recorder(create(made, options))
        return here, simulate(here, self.jobs, self.vms, options=replace(self.options, losses=tuple(losses)))

    def losses(self) -> tuple[Loss, ...]:
        """Those of executors, and of two VMs, each at a time at which an executor is there."""
        losses: tuple[Loss, ...] = EXECUTORS
        for at in VMS_LOST_AT:
            here, result = self.simulated(losses)
            vm = known_before(here.shown, {job.name: job.ended_at for job in result.jobs}, at)
            losses = (*losses, Loss(at, vm=vm))
        return losses

    def played(self, result: Result, losses: Sequence[Loss]) -> tuple[Recorder, PerfectMaster]:
        """Play through the model; jobs end as in the simulation, under any belief."""
        made, options = CASES[self.case]
        there, ends = Recorder(create(made, options)), {job.name: job.ended_at for job in result.jobs}
        sizes = self.options.sizes
        model = ClusterModel(ModelOptions(jvms=self.options.jvms))
        master = PerfectMaster(there, self.vms, lambda job_id, *_: ends[job_id], model, sizes=sizes)
        pace = Pace(self.options.fitted, self.jobs) if self.options.fitted else None
        true = jobs_of(self.jobs, self.options.profiles, self.options.sharing)
        if self.options.sharing is not None:
            master.model.handle(SharingChanged(0.0, self.options.sharing))
        true = tuple(map(sizes.opened, true if pace is None else pace.best(true, len(self.vms))))
        master.run(believed(true, self.options, pace), losses)
        return there, master

    def compare(self, losses: Sequence[Loss]) -> tuple[Recorder, Result, PerfectMaster]:
        """Both, held together: the same placements, starts, ends and costs, the same to see before each."""
        here, result = self.simulated(losses)
        there, master = self.played(result, losses)
        for one, other in zip(here.shown, there.shown, strict=False):
            assert str(one) == str(other)
        assert here.placed == there.placed
        assert len(here.shown) == len(there.shown)
        over = {name: record for name, record in master.done.items() if record.ended}
        times = {job.name: (job.started_at, job.ended_at) for job in result.jobs}
        assert times == {name: (record.started_at, record.finished_at) for name, record in over.items()}
        costs = {job.name: job.cost for job in result.jobs}
        assert costs == pytest.approx({name: record.cost for name, record in over.items()})
        assert result.cost == pytest.approx(sum(record.cost for record in over.values()))
        waiting = {name: record.reason for name, record in master.done.items() if name not in over}
        said = "it could not run now even alone: {}; jobs behind it do not wait for it"
        assert waiting == {name: said.format(why) for name, why in result.aside.items()}
        cut = [getattr(recorder.policy, "cut_short", 0) for recorder in (here, there)]
        assert cut == [0, 0], "its safety stop made it depend on the machine"
        return here, result, master


@pytest.mark.parametrize("name", ["burst", "normal"])
@pytest.mark.parametrize("case", CASES)
def test_policies_decide_the_same_in_both_worlds(case: str, name: str) -> None:
    """With losses of executors and of VMs, each of which hits somebody; in a burst jobs may be smaller."""
    belief = Belief("spread") if name == "normal" else Belief.read(0.3)
    sizes = Sizes(floor=1.0 if name == "normal" else 0.5)
    options = SimulationOptions(belief=belief, seed=2, sizes=sizes)
    both = Both(case, workload(name, 30), options)
    here, result, master = both.compare(both.losses())
    assert any(sizes for *_, sizes in here.placed) == (case in ("cuts", "ogasched"))
    true = {job.id: job for job in jobs_of(both.jobs, options.profiles)}
    took = {job.name: true[job.name].expected_on(job.taken, len(set(job.placement))) for job in result.jobs}
    grew = {name for name, record in master.done.items() if record.grown}
    lasted = {job.name: job.duration for job in result.jobs if job.name not in grew}
    assert lasted == pytest.approx({name: took[name] for name in lasted})
    assert len(master.lost) == 5
    assert min(master.lost) > 0, "a loss hit nobody"
    assert [job for _, job, *_ in here.placed].count("job-000") > 1


@pytest.mark.parametrize("draw", ["mean", "sample"])
@pytest.mark.parametrize("case", ["lookahead", "reinforce", "ilp", "rrc"])
def test_they_do_when_jobs_last_as_a_fitted_model_says(case: str, draw: Literal["mean", "sample"]) -> None:
    """By placement, company and luck, of which neither world tells policies anything."""
    known = TypeModel(
        method="additive", coefficients=(4.0, 3.0, 40.0, 30.0, 0.25, 2.0, 0.0), slowdown=0.5, sigma=0.4,
        errors={}, runs=9, input_mib=16.0,
    )  # fmt: skip
    fitted = FittedDurations(FittedModel(types=dict.fromkeys(load_profiles(), known)), draw, seed=3)
    both = Both(case, workload("burst", 30), SimulationOptions(fitted=fitted, seed=2, as_daemon=True))
    _, result, master = both.compare(both.losses())
    assert master.lost[2] > 0, "a VM that was lost had nobody"
    assert master.lost[4] > 0, "a VM that was lost had nobody"
    ends = {name: record.job.expected_duration for name, record in master.done.items()}
    assert all(ends[job.name] != job.duration for job in result.jobs), "what is believed is not what happens"


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("case", ["ff", "greedy"])
def test_one_machine_carries_so_many_jvms_in_both_worlds(case: str, *, shared: bool) -> None:
    """Jobs are admitted alike, and lost executors retain their room, under any order of the queue."""
    sharing = Sharing(("priority",), window=8) if shared else None
    options = SimulationOptions(belief=Belief("spread"), seed=2, sharing=sharing, jvms=14)
    both = Both(case, workload("burst", 40), options)
    _, result, _ = both.compare(EXECUTORS)
    _, free = replace(both, options=replace(options, jvms=None)).simulated(EXECUTORS)
    assert max(job.ended_at for job in result.jobs) > 1.2 * max(job.ended_at for job in free.jobs)


@pytest.mark.parametrize("case", ["ff", "greedy", "ogasched"])
def test_one_machine_carries_a_part_of_who_also_runs_on_fewer(case: str) -> None:
    """Such a job begins on as many executors as there is room for, also where sizes are chosen."""
    jobs = tuple(
        WorkloadJob(f"job-{i:03}", 10.0 * i, "pagerank", 1.0, 1024, 30, 400.0, min_executors=1)
        for i in range(8)
    )
    for sizes in (Sizes(), Sizes(floor=0.5)):
        options = SimulationOptions(belief=Belief("spread"), seed=2, jvms=14, sizes=sizes)
        here, _, _ = Both(case, Workload(jobs), options).compare(())
        given = [len(vms) for _, _, vms, _ in here.placed]
        assert max(given) <= 13, "one JVM is its driver's"
        assert max(given) > 1


def test_who_fits_no_more_waits_aside_in_both_worlds() -> None:
    """The large VM is lost: jobs that need it wait to the end with the reason, and block none."""
    vms = (make_vm("large", cpus=16.0), *make_vms(2, cpus=4.0))
    jobs = Workload(
        tuple(
            WorkloadJob(name, at, "sort", cpus, 1024, executors, 100.0)
            for name, at, cpus, executors in (
                ("wide", 0.0, 8.0, 2),
                ("first", 1.0, 2.0, 2),
                ("big", 50.0, 8.0, 1),
                ("next", 60.0, 2.0, 4),
                ("many", 61.0, 4.0, 3),
            )
        )
    )
    both = Both("ff", jobs, SimulationOptions(seed=2), vms)
    _, result, master = both.compare((Loss(30.0, vm="id-large"),))
    assert master.lost == [2], "and nobody places what was lost with it again"
    assert [job.name for job in result.jobs] == ["wide", "first", "next"]
    assert list(result.aside) == ["big", "many"]
    assert result.aside["big"].startswith("an executor of 8 cpus and 1024 MiB fits no VM of the cluster")
    assert result.to_json()["aside"] == result.aside


def test_without_a_vm_everybody_waits_aside() -> None:
    """A simulation ends, and says so."""
    jobs = Workload((WorkloadJob("late", 50.0, "sort", 1.0, 1024, 1, 100.0),))
    options = SimulationOptions(losses=(Loss(10.0, vm="id-vm-1"),))
    result = simulate(create("ff"), jobs, make_vms(1), options=options)
    assert (tuple(result.jobs), result.aside) == ((), {"late": "no VM is left"})


@pytest.mark.parametrize("case", ["ff", "aep, first_fit", "lookahead", "rr, best"])
def test_jobs_that_come_after_others_in_both_worlds(case: str) -> None:
    """They arrive when their predecessors have ended, or at their time, and then in the same order."""
    jobs = list(workload("burst", 24).jobs)
    for number, others in ((5, (0, 3)), (6, (5,)), (9, (0,)), (14, (6, 9)), (20, (19,))):
        jobs[number] = replace(jobs[number], after=tuple(jobs[other].name for other in others))
    last = jobs[-1].submitted_at
    jobs[2] = replace(jobs[2], start_at=last + 50.0)
    jobs[9] = replace(jobs[9], start_at=last + 900.0)
    both = Both(case, Workload(tuple(jobs)), SimulationOptions(seed=2))
    here, result, _ = both.compare(())
    starts = {job.name: job.started_at for job in result.jobs}
    ends = {job.name: job.ended_at for job in result.jobs}
    assert len(starts) == len(jobs)
    for job in jobs:
        assert all(starts[job.name] >= ends[other] for other in job.after)
        assert starts[job.name] >= (job.start_at or 0.0)
    assert min(at for at, job, *_ in here.placed if job == "job-002") >= last + 50.0


class Waits:
    """Waits for ever, though it says otherwise."""

    def decide(self, view: ClusterView, queue: Sequence[PlacementRequest]) -> Decision:
        """Nothing is ever good enough."""
        return Wait("a better moment will come")


def test_a_policy_that_waits_for_ever_starves_nobody_in_either_world() -> None:
    """Whenever nothing runs and the first job fits, the fallback decides: jobs run one after the other."""
    jobs = Workload(
        tuple(
            WorkloadJob(f"job-{i}", at, "sort", 2.0, 1024, 2, 100.0)
            for i, at in enumerate((0.0, 10.0, 20.0, 1000.0))
        )
    )
    result = simulate(Waits(), jobs, VMS, fallback=create("ff"))
    ends = {job.name: job.ended_at for job in result.jobs}
    master = PerfectMaster(Waits(), VMS, lambda job_id, *_: ends[job_id], fallback=create("ff"))
    master.run(believed(jobs_of(jobs, SimulationOptions().profiles), SimulationOptions()))
    starts = {job.name: job.started_at for job in result.jobs}
    assert starts == {name: record.started_at for name, record in master.done.items()}
    assert [starts[f"job-{i}"] for i in range(3)] == [0.0, ends["job-0"], ends["job-1"]]
    assert starts["job-3"] == 1000.0
    assert result.violations == 4
    faults = {fault for each in result.decisions for fault in each.faults}
    assert "it waits although nothing runs and job-0 fits: a better moment will come" in faults


@pytest.mark.parametrize("large", [False, True])
def test_beside_what_never_ends_it_starves_nobody_either(*, large: bool) -> None:
    """Beside a session of days a job that fits is held back for half an hour, those behind it no more.

    A large job that does not fit beside it is waited for, as first fit does, whoever fits behind it.
    """
    vms = make_vms(4, cpus=4.0)
    jobs = Workload(
        (
            WorkloadJob("session", 0.0, "sort", 4.0, 1024, 2, 2 * 86400.0),
            *((WorkloadJob("large", 5.0, "sort", 4.0, 1024, 3, 100.0),) if large else ()),
            *(WorkloadJob(f"job-{i}", 10.0 * i, "sort", 2.0, 1024, 2, 100.0) for i in range(1, 7)),
        )
    )
    result = simulate(Waits(), jobs, vms, fallback=create("ff"))
    ends = {job.name: job.ended_at for job in result.jobs}
    master = PerfectMaster(Waits(), vms, lambda job_id, *_: ends[job_id], fallback=create("ff"))
    master.run(believed(jobs_of(jobs, SimulationOptions().profiles), SimulationOptions()))
    starts = {job.name: job.started_at for job in result.jobs}
    assert starts == {name: record.started_at for name, record in master.done.items()}
    faults = [fault for each in result.decisions for fault in each.faults]
    if large:
        assert starts["large"] == ends["session"]
        assert starts["job-1"] >= ends["large"]
        return
    due = [10.0 + LEAST + number * (ends["job-1"] - starts["job-1"]) for number in range(3)]
    assert [starts[f"job-{i}"] for i in range(1, 7)] == [at for at in due for _ in range(2)]
    assert "it waits although job-1 has fitted for 1,800 s: a better moment will come" in faults
    assert len(faults) == len(jobs.jobs)


def test_who_comes_after_what_never_runs() -> None:
    """A job that comes after one that is refused is, too; after one that waits aside, it waits."""
    jobs = Workload(
        (
            WorkloadJob("huge", 0.0, "sort", 64.0, 1024, 1, 100.0),
            WorkloadJob("next", 1.0, "sort", 1.0, 1024, 1, 100.0, after=("huge",)),
            WorkloadJob("wide", 2.0, "sort", 8.0, 1024, 1, 100.0, start_at=60.0),
            WorkloadJob("then", 3.0, "sort", 1.0, 1024, 1, 100.0, after=("wide",)),
            WorkloadJob("one", 4.0, "sort", 1.0, 1024, 1, 100.0),
        )
    )
    options = SimulationOptions(losses=(Loss(30.0, vm="id-large"),))
    result = simulate(create("ff"), jobs, (make_vm("large", cpus=16.0), make_vm()), options=options)
    assert [job.name for job in result.jobs] == ["one"]
    assert result.refused["next"] == "it comes after huge, which is refused"
    assert result.aside["then"] == "waits until wide has ended"
