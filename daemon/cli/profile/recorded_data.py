"""Converts a daemon's records into training data for policies and models."""

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import yaml

from conf.schema.training import TrainingSpec
from daemon.cli.shared.errors import CommandError, naming, writing
from daemon.maintenance.recorded_runs import History, workload_of_runs
from daemon.store.job_store import Store
from daemon.store.sqlite_schema import foreign_store
from environment.clusters.cluster_files import load_cluster
from environment.kernel.arrays import jobs_of
from environment.simulation.durations.fitted_model import FittedDurations, Pace
from environment.simulation.durations.fitting import fit
from profiles.job_profile import load_profiles
from profiles.runs import MeasuredRun, ProfileError, about_machine, write_runs
from profiles.trajectories import write_trajectories
from profiles.workloads.workload import Workload
from profiles.workloads.workload_files import write_workload

#: Chosen: as many jobs as the workloads that come along have.
_JOBS = 100


@dataclass(frozen=True, slots=True)
class IngestResult:
    """Result of ingesting a daemon's records."""

    runs: Sequence[MeasuredRun]
    workload: Workload
    decisions: int
    #: Jobs of which Spark's event log could not be read, and why: nothing is known of their stages.
    unread: Mapping[str, str]
    #: Jobs of which one Spark application of several was read, and which.
    partly: Mapping[str, str]


def ingested(data_dir: Path, out: Path, cluster: str, database: str | None = None) -> IngestResult:
    """Write runs.parquet, workload.csv and trajectories.parquet, and return their contents.

    CommandError when the records are empty or the files cannot be written.
    """
    if database is None and not (data_dir / "stoker.db").is_file():
        raise CommandError(f"{data_dir}: holds no job store (stoker.db) of a daemon")
    cpus = {vm.name: vm.cpus for vm in load_cluster(cluster)}
    opened = Store(database) if database else foreign_store(data_dir / "stoker.db")
    with contextlib.closing(opened) as store:
        history = History(store, data_dir, cpus)
        found, steps = list(history.runs()), history.steps()
    with naming(f"{data_dir}: nothing to learn from: "):
        workload = workload_of_runs(found)
    runs = [run for run, _ in found]
    sparks = ", ".join(sorted({record.job.spark for _, record in found}))
    with writing(out):
        write_runs(out, runs, {"source": "a daemon's records", "machine": about_machine(sparks)})
        write_workload(workload, out / "workload.csv")
        write_trajectories(out, steps)
    return IngestResult(runs, workload, len(steps), history.unread, history.partly)


def with_history(spec: TrainingSpec, data_dir: Path, folder: Path, *, again: bool = True) -> TrainingSpec:
    """The training file with workloads drawn from the jobs that a daemon has recorded, kept in `folder`.

    The workloads are read anew unless `again` is false: a run that has begun continues with its own workload,
    however many jobs were recorded since. A job takes there the duration that a model of the recorded runs
    expects with the best number of VMs; a type with a single run, the duration of that run. The rule of Islam
    2022, 7.1, defines the cost of a placement that is not good.
    """
    folder = folder.absolute()
    path = folder / "workload.yaml"
    if again or not path.is_file():
        found = ingested(data_dir, folder, spec.cluster)
        write_workload(_at_best(found.workload, found.runs, spec.cluster), folder / "workload.csv")
        path.write_text(yaml.safe_dump({"jobs": _JOBS, "recorded": {"path": str(folder / "workload.csv")}}))
    return spec.model_copy(update={"workloads": {str(path): 1.0}})


def _at_best(workload: Workload, runs: Sequence[MeasuredRun], cluster: str) -> Workload:
    try:
        model, _ = fit(runs)
    except ProfileError:
        return workload
    pace = Pace(FittedDurations(model), workload)
    best = pace.best(jobs_of(workload, load_profiles()), len(load_cluster(cluster)))
    jobs = zip(workload.jobs, best, strict=True)
    return Workload(tuple(replace(job, duration=of.expected_duration or job.duration) for job, of in jobs))
