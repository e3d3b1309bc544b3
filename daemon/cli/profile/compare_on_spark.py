"""A workload under several policies with real Spark, several times in turn, and each of them simulated.

How they are compared and reported is in `agents.experiments.real_runs`; how jobs run is in `measuring`.
"""

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from agents.experiments.comparison import Contender, contender
from agents.experiments.real_runs import RealComparison, RealJob, RealRun
from agents.registry import create
from conf.loader import ConfigError, build, find
from conf.schema.measuring_plan import MeasuringPlan
from daemon.cli.profile.measure import Bench, Progress, hold, mesos_of, own_bench
from daemon.cli.profile.validate_simulator import check_known, for_real
from daemon.cli.research.workload import load_told
from daemon.cli.shared.errors import CommandError
from environment.clusters.cluster_files import load_cluster
from environment.simulation.durations.beliefs import Belief
from environment.simulation.durations.fitted_model import FittedDurations, FittedModel, read_model
from environment.simulation.options import SimulationOptions
from environment.simulation.results.results import Result
from environment.simulation.simulator import simulate
from environment.types import Vm
from profiles.job_profile import JobProfile
from profiles.runs import MeasuredRun, read_about, read_runs
from profiles.summary import profiles_of, profiles_text
from profiles.workloads.workload import Workload

#: Of simulations, for each policy; each draws other durations.
SEEDS = 20


def compared(
    folder: Path, workload: str, policies: Sequence[str], rounds: int, cluster: str | None, progress: Progress
) -> RealComparison:
    """Run a workload under every policy so many times, on the plan's cluster of `folder` or another.

    Every run is stored in a folder of the workload's name in `folder` as soon as it is over, and not
    repeated. An invalid input raises ConfigError, WorkloadError, PolicyError, ProfileError or CommandError.
    """
    jobs, about, measured = load_told(workload), read_about(folder), read_runs(folder)
    jobs.check_sized()
    plan, model = build(MeasuringPlan, about.get("plan"), str(folder)), read_model(folder)
    check_known(jobs, model, folder)
    who = [contender(policy) for policy in policies]
    where = find(plan.cluster if cluster is None else cluster)
    known = profiles_of(measured)
    simulated = {one.label: _simulations(one, jobs, load_cluster(where), model, known) for one in who}
    for results in simulated.values():
        for name, why in results[0].refused.items():
            raise ConfigError(f"{workload}: {name}: {why}")
    place = folder / f"compare-{Path(workload).stem}"
    with hold(place):
        kept = _Kept(place / "runs.json", _sign(jobs, plan, where))
        todo = [(n, one) for n in range(rounds) for one in _turned(who, n) if not kept.has(one.label, n)]
        if todo:
            (place / "profiles.yaml").write_text(profiles_text(known, str(folder)), encoding="utf-8")
            names, profiles = [one.name for one in who], str((place / "profiles.yaml").absolute())
            with own_bench(
                place, str(where), mesos_of(plan), policies_allowed=names, profiles=profiles
            ) as bench:
                kept.about = {**about, "isolation": bench.isolation}
                for done, (number, one) in enumerate(todo):
                    told = _shifted(progress, done, len(todo), f"round {number + 1}, {one.label}, ")
                    kept.add(_run(bench, one, number, jobs, plan, told))
    wanted = {(one.label, number) for one in who for number in range(rounds)}
    runs = tuple(run for run in kept.runs if (run.policy, run.round) in wanted)
    return RealComparison(workload, where.name, runs, simulated, kept.about)


def _turned(who: Sequence[Contender], number: int) -> list[Contender]:
    """All of them, in every round another first, so that none is always after the same one."""
    first = number % len(who)
    return [*who[first:], *who[:first]]


def _shifted(progress: Progress, done: int, runs: int, told: str) -> Progress:
    """The progress of a run's jobs as a part of the progress of all runs."""
    return lambda number, of, what: progress(done * of + number, runs * of, told + what)


def _run(
    bench: Bench, who: Contender, number: int, workload: Workload, plan: MeasuringPlan, progress: Progress
) -> RealRun:
    before = bench.client.set_policy(who.name, who.options)
    began, runs = for_real(bench, workload, plan, progress)
    due = {job.name: job.submitted_at for job in workload.jobs}
    jobs = tuple(_job(run, began, due[run.name]) for run in runs)
    share = _fallback_share(before, bench.client.policy())
    return RealRun(who.label, number, os.getloadavg()[0], jobs, share)


def _fallback_share(before: Mapping[str, Any], after: Mapping[str, Any]) -> float:
    """The share of a policy's decisions between two statuses that it failed to take; 0 of none."""
    placed, waited, faults = (after[name] - before[name] for name in ("placed", "waited", "faults"))
    return faults / (placed + waited) if placed + waited else 0.0


def _job(run: MeasuredRun, began: float, submitted: float) -> RealJob:
    ended = run.ended_at - began
    return RealJob(run.name, run.type, run.state, submitted, ended - run.held, ended, run.cost, run.placement)


def _simulations(
    who: Contender,
    workload: Workload,
    vms: Sequence[Vm],
    model: FittedModel,
    profiles: Mapping[str, JobProfile],
) -> list[Result]:
    """Simulate the workload once per seed with drawn durations; policies hold the beliefs of a daemon."""
    options = SimulationOptions(
        fitted=FittedDurations(model, "sample"), belief=Belief("spread"), profiles=profiles, as_daemon=True
    )
    return [
        simulate(create(who.name, who.options), workload, vms, options=options.drawn(seed))
        for seed in range(SEEDS)
    ]


def _sign(workload: Workload, plan: MeasuringPlan, cluster: Path) -> str:
    """Hash of everything that makes runs incomparable: jobs, isolation, arguments, VMs."""
    told = [repr(workload.jobs), plan.model_dump_json(exclude={"grids"}), repr(plan.grids[0].args)]
    return hashlib.sha256("\n".join([*told, cluster.read_text()]).encode()).hexdigest()


class _Kept:
    """The runs that are done, in a file that is written anew after each; CommandError when of other jobs."""

    def __init__(self, path: Path, sign: str) -> None:
        self._path, self._sign = path, sign
        self.runs: list[RealRun] = []
        self.about: Mapping[str, Any] = {}
        if not path.is_file():
            return
        try:
            values = json.loads(path.read_text(encoding="utf-8"))
            if values["sign"] != sign:
                raise CommandError(f"{path}: holds runs of other jobs, VMs or settings: remove it")
            self.about, self.runs = values["about"], [_read(run) for run in values["runs"]]
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise CommandError(f"{path}: cannot be read: {error}") from None

    def has(self, policy: str, number: int) -> bool:
        """Whether this run is done."""
        return any((run.policy, run.round) == (policy, number) for run in self.runs)

    def add(self, run: RealRun) -> None:
        """Keep a run."""
        self.runs.append(run)
        values = {"sign": self._sign, "about": self.about, "runs": [asdict(run) for run in self.runs]}
        new = self._path.with_suffix(".new")
        new.write_text(json.dumps(values, indent=1) + "\n", encoding="utf-8")
        new.replace(self._path)


def _read(values: Mapping[str, Any]) -> RealRun:
    jobs = tuple(RealJob(**{**job, "placement": tuple(job["placement"])}) for job in values["jobs"])
    return RealRun(**{**values, "jobs": jobs})
