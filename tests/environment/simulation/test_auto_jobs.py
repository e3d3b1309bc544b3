"""Sizes that a workload's jobs leave to Stoker: only knowable things count."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest

from agents.registry import create
from conf.schema.workload import Mix, Poisson, WorkloadSpec
from environment.clusters.cluster_files import load_cluster
from environment.kernel.arrays import jobs_of
from environment.kernel.rule_options import DurationOptions
from environment.queues.types import Most, Queue, Queues, Sharing
from environment.simulation.durations.beliefs import EXACT
from environment.simulation.durations.fitted_model import FittedDurations, FittedModel, TypeModel
from environment.simulation.faults.losses import Loss
from environment.simulation.options import SimulationOptions
from environment.simulation.results.job_outcomes import JobOutcome
from environment.simulation.results.results import Result
from environment.simulation.simulator import simulate
from environment.types import Vm
from profiles.job_profile import load_profiles
from profiles.shapes.runs import JobShape, ShapeRun
from profiles.workloads.generators import generate
from profiles.workloads.workload import AutoSizeError, Workload, WorkloadJob, workload_of
from tests.builders import make_vms

VMS = make_vms(8, cpus=8, memory_mib=32 * 1024)
AUTO = {"executors": "auto:2-12", "cpus": "auto:1-4"}


def job(name: str, at: float, auto: Mapping[str, str] = AUTO, **fields: object) -> WorkloadJob:
    """A job that takes 600 s on four executors of two cpus."""
    return replace(WorkloadJob(name, at, "etl", 2.0, 8192, 4, 600.0, auto=auto), **fields)  # type: ignore[arg-type]


def run(
    jobs: Sequence[WorkloadJob], options: SimulationOptions | None = None, vms: Sequence[Vm] = VMS
) -> Result:
    """A simulation of these jobs."""
    return simulate(create("ff"), workload_of(jobs), vms, options=options)


def size(job: JobOutcome) -> tuple[int, float, int]:
    """Executors, and cpus and memory of each."""
    return job.executors, job.cpus, job.memory_mib


def test_a_type_learns_from_runs_that_have_ended_by_then() -> None:
    """The default, then twice the executors, then a choice; what still runs tells nothing."""
    ran = {each.name: each for each in run([job(f"j{n}", at) for n, at in enumerate((0, 9, 3e3, 6e3))]).jobs}
    assert size(ran["j0"]) == size(ran["j1"]) == (2, 2.0, 8192)
    assert size(ran["j2"]) == (4, 2.0, 8192)
    assert size(ran["j3"]) not in (size(ran["j0"]), size(ran["j2"]))
    # Without a profile, as much longer as it has fewer cores than the size that its duration is of.
    assert [ran["j0"].duration, ran["j2"].duration] == [1200.0, 600.0]


def test_a_held_job_knows_as_much_as_when_it_was_submitted() -> None:
    """As in the daemon, which chooses at submission: a run that ends while it is held tells it nothing."""
    jobs = [job("a", 0.0), job("held", 5.0, start_at=4e3), job("later", 4e3)]
    ran = {each.name: each for each in run(jobs).jobs}
    assert ran["held"].started_at >= 4e3
    assert size(ran["held"]) == size(ran["a"]) != size(ran["later"])


def test_runs_that_are_given_are_known_from_the_start() -> None:
    """Two shapes of them: the first job has a size by the model."""
    runs = [
        ShapeRun("etl", "etl", 16.0, JobShape("", count, 2.0, 8.0, 1.0), seconds)
        for count, seconds in ((2, 1200.0), (6, 400.0))
    ]
    first = run([job("a", 0.0)], SimulationOptions(runs=tuple(runs))).jobs[0]
    assert size(first) != (2, 2.0, 8192)
    assert size(first) != (4, 2.0, 8192)


@pytest.mark.parametrize("cluster", ["paper", "elastic", "spot"])
@pytest.mark.parametrize("policy", ["ff", "greedy"])
def test_jobs_run_as_if_they_had_been_submitted_with_the_chosen_sizes(policy: str, cluster: str) -> None:
    """The same starts, ends, VMs and dollars as those of a workload with these sizes and their durations."""
    profiles, vms = load_profiles(), load_cluster(cluster)
    spec = WorkloadSpec(
        jobs=25, arrivals=Poisson(kind="poisson", jobs_per_hour=90), mix=Mix.model_validate({"auto": AUTO})
    )
    workload = generate(spec, 4)
    options = SimulationOptions(belief=EXACT)
    left = simulate(create(policy), workload, vms, options=options)
    chosen = {each.name: each for each in left.jobs}
    assert len({size(each)[:2] for each in left.jobs}) > 3
    given = [
        replace(
            each,
            auto={},
            executors=chosen[each.name].executors,
            cpus=chosen[each.name].cpus,
            duration=profiles[each.type].duration(
                chosen[each.name].cpus, each.memory_mib, chosen[each.name].executors
            ),
        )
        for each in workload.jobs
    ]
    fixed = simulate(create(policy), Workload(tuple(given)), vms, options=options)
    for one, other in zip(left.jobs, fixed.jobs, strict=True):
        assert one.placement == other.placement
        assert math.isclose(one.started_at, other.started_at)
        assert math.isclose(one.ended_at, other.ended_at)
    assert math.isclose(left.cost, fixed.cost)
    assert math.isclose(left.bound, fixed.bound)


def test_a_belief_about_a_chosen_size_errs_as_much_as_about_any_other() -> None:
    """With a constant belief, nothing of the true duration on the chosen size is shown."""
    shown: dict[str, float | None] = {}

    class Watcher:
        """First fit, that notes what is expected."""

        def __init__(self) -> None:
            self._inner = create("ff")

        def decide(self, view, queue):  # type: ignore[no-untyped-def]  # as of a policy
            shown.update({each.job.id: each.job.expected_duration for each in queue})
            return self._inner.decide(view, queue)

    jobs = [job(f"j{n}", 3e3 * n, type="sort") for n in range(4)]
    options = SimulationOptions(durations=DurationOptions(model="fixed"))
    simulate(Watcher(), workload_of(jobs), VMS, options=replace(options, belief=type(EXACT)("constant")))
    assert len(set(shown.values())) == 1
    ran = simulate(Watcher(), workload_of(jobs), VMS, options=replace(options, belief=EXACT)).jobs
    assert [shown[each.name] for each in ran] == pytest.approx([each.duration for each in ran])


def test_a_run_that_lost_executors_teaches_nothing() -> None:
    """The first job counts as no run: the second is tried on the default, too."""
    losses = (Loss(300.0, job="a"),)
    ran = run([job("a", 0.0), job("b", 9e3)], SimulationOptions(losses=losses)).jobs
    assert size(ran[0]) == size(ran[1])


def test_a_size_is_within_the_limits_of_its_queue() -> None:
    """The best shape by the model has more cores than the queue may have: the best that has not is taken."""
    sharing = Sharing(queues=Queues((Queue("default", most=Most({"cpus": 10.0})),)))
    jobs = [job(f"j{n}", 3e3 * n) for n in range(5)]
    free = run(jobs).jobs
    assert max(each.executors * each.cpus for each in free) > 10
    bound = run(jobs, SimulationOptions(sharing=sharing)).jobs
    assert max(each.executors * each.cpus for each in bound) <= 10


def test_memory_is_chosen_where_it_has_an_effect_and_refused_where_it_has_none() -> None:
    """PageRank spills by its profile, or a model of measured runs knows of memory; etl knows nothing."""
    auto = {"executors": "auto:2-12", "memory": "auto:1g-16g"}
    with pytest.raises(AutoSizeError, match="a: auto: memory: memory has no effect on jobs of type etl"):
        run([job("a", 0.0, auto)])
    shared = {f"j{n}": 3e3 * n for n in range(4)}
    ran = run([job(name, at, auto, type="pagerank") for name, at in shared.items()]).jobs
    assert len({each.memory_mib for each in ran}) > 1
    model = TypeModel(
        method="loglinear", coefficients=(9.0, 0.0, -0.7, -0.7, -0.2, 0.0),
        slowdown=0.0, sigma=0.1, errors={}, runs=4, input_mib=1024.0,
    )  # fmt: skip
    fitted = SimulationOptions(fitted=FittedDurations(FittedModel(types={"etl": model})))
    ran = run([job(name, at, auto) for name, at in shared.items()], fitted).jobs
    assert len({each.memory_mib for each in ran}) > 1


def test_what_no_vm_has_room_for_is_refused_up_front() -> None:
    """With the text of the daemon."""
    refused = run([job("a", 0.0, {"cpus": "auto:99-"}), job("b", 1.0, after=("a",))]).refused
    assert refused["a"].startswith("no pool or VM type has room for 4 x 99 cpus and 8 GiB; there are 8 x ")
    assert refused["b"] == "it comes after a, which is refused"


@pytest.mark.parametrize(
    ("fields", "complaint"),
    [
        (
            {"auto": {"executors": "auto:8-2"}},
            "auto: executors: the minimum is above the maximum in 'auto:8-2'",
        ),
        ({"auto": {"gpus": "auto"}}, "auto: should name executors, cpus, memory, found 'gpus'"),
        (
            {"auto": {"cpus": "4"}},
            "auto: cpus: should be auto, auto:MIN-MAX, auto:MIN- or auto:-MAX, found",
        ),
        ({"min_cpus": 1.0}, "min_cpus goes without cpus in auto, which has bounds: cpus=auto:1-4"),
        ({"min_executors": 3, "auto": {"executors": "auto:-2"}}, "min_executors: should be 1 to 2, found 3"),
    ],
)
def test_bad_bounds_are_named(fields: dict[str, object], complaint: str) -> None:
    """In one line, where the job is made."""
    with pytest.raises(ValueError, match=complaint.replace("(", r"\(")):
        job("a", 0.0, **fields)  # type: ignore[arg-type]


def test_no_other_user_of_a_workload_takes_its_sizes_for_given() -> None:
    """Training and the like name the job instead of ignoring what is left open."""
    workload = workload_of([job("a", 0.0)])
    with pytest.raises(AutoSizeError, match="a: auto: executors, cpus: only `stoker simulate` chooses sizes"):
        jobs_of(workload, {})
