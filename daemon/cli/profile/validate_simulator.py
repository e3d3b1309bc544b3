"""A workload twice: submitted to a daemon of our own with real Spark, and simulated with fitted durations.

How the two are compared is in `agents.experiments.fidelity`.
"""

import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from agents.experiments.comparison import Contender, contender
from agents.experiments.fidelity import Fidelity, pair_up
from agents.registry import create
from conf.loader import ConfigError, build, find
from conf.schema.measuring_plan import MeasuringPlan
from daemon.cli.profile.measure import Bench, Progress, await_end, mesos_of, own_bench, spec_of
from daemon.cli.research.workload import load_told
from daemon.cli.shared.errors import CommandError
from environment.clusters.cluster_files import load_cluster
from environment.kernel.arrays import jobs_of
from environment.simulation.durations.beliefs import EXACT
from environment.simulation.durations.fitted_model import FittedDurations, FittedModel, Pace, read_model
from environment.simulation.options import SimulationOptions
from environment.simulation.results.results import Result
from environment.simulation.simulator import simulate
from environment.types import Vm
from profiles.measuring_plans import app_command
from profiles.runs import MeasuredRun, read_about, read_runs
from profiles.workloads.workload import Workload

_POLL_SECONDS = 0.5


def compared(folder: Path, workload: str, policy: str, progress: Progress) -> Fidelity:
    """Run and simulate a workload on the cluster of the plan that measured the runs in `folder`.

    An invalid input raises ConfigError, WorkloadError, PolicyError, ProfileError or CommandError.
    """
    jobs, who, model, about = (
        load_told(workload),
        contender(policy),
        read_model(folder),
        read_about(folder),
    )
    grid = read_runs(folder)
    plan = build(MeasuringPlan, about.get("plan"), str(folder))
    cluster = find(plan.cluster)
    vms = load_cluster(cluster)
    check_known(jobs, model, folder)
    # The profiles are those of the daemon, so that a policy which looks at them gets the same in both.
    # Beliefs are the mean of the fitted model, and real runs differ from it as they do.
    options = SimulationOptions(fitted=FittedDurations(model), belief=EXACT)
    result = simulate(create(who.name, who.options), jobs, vms, options=options)
    for name, why in result.refused.items():
        raise ConfigError(f"{workload}: {name}: {why}")
    paper = _by_the_papers_rule(who, jobs, vms, model, options)
    place = folder / "validation"
    with own_bench(place, str(cluster), mesos_of(plan), policies_allowed=[who.name]) as bench:
        bench.client.set_policy(who.name, who.options)
        began, runs = for_real(bench, jobs, plan, progress)
        about = {**about, "isolation": bench.isolation}
    due = {job.name: job.submitted_at for job in jobs.jobs}
    pairs = pair_up(runs, began, result, due)
    real_cost = sum(run.cost for run in runs)
    return Fidelity(workload, who.label, pairs, real_cost, result.cost, paper, model, grid, about)


def check_known(workload: Workload, model: FittedModel, folder: Path) -> None:
    """Raise CommandError for a job with an unmeasured type, ConfigError for one that is no app."""
    for job in workload.jobs:
        app_command(job.type)
        if job.type not in model.types:
            known = ", ".join(model.types)
            raise CommandError(f"{job.name}: {job.type} is not in the model of {folder}; known are {known}")


def for_real(
    bench: Bench, workload: Workload, plan: MeasuringPlan, progress: Progress
) -> tuple[float, Sequence[MeasuredRun]]:
    """Submit every job when it is due, and wait for all; when the workload's clock began, and the runs."""
    began, ids = time.time(), []
    args = plan.grids[0].args
    for number, job in enumerate(workload.jobs):
        progress(number, len(workload), f"{job.name}: {job.type}")
        while (left := began + job.submitted_at - time.time()) > 0:
            bench.check_alive()
            time.sleep(min(left, _POLL_SECONDS))
        spec = spec_of(job.type, job.input_mib, job.executors, job.cpus, job.memory_mib, job.name, args)
        spec |= {"owner": job.owner, "queue": job.queue}
        ids.append(bench.client.submit_spec(spec)["id"])
    progress(len(workload), len(workload), "waiting for the last")
    await_end(bench, ids, plan.timeout * len(ids))
    named = zip(ids, workload.jobs, strict=True)
    return began, [bench.history.run(job_id, ids, job.name, 0) for job_id, job in named]


def _by_the_papers_rule(
    who: Contender, workload: Workload, vms: Sequence[Vm], model: FittedModel, options: SimulationOptions
) -> dict[str, float]:
    """Durations by the rule of Islam 2022, 7.1, from the best placement's durations, by job."""
    pace = Pace(FittedDurations(model), workload)
    best = pace.best(jobs_of(workload, options.profiles), len(vms))
    jobs = tuple(
        replace(job, duration=known.expected_duration or job.duration)
        for job, known in zip(workload.jobs, best, strict=True)
    )
    simulated: Result = simulate(
        create(who.name, who.options), Workload(jobs), vms, options=replace(options, fitted=None)
    )
    return {job.name: job.duration for job in simulated.jobs}
