"""Workloads from a description (`conf.workload_file`) and a seed; the one way to get any workload by name.

The same description and seed give the same jobs. Arrivals, sizes, owners and queues draw from streams of
their own, so two workloads that differ in their arrivals alone have the same jobs.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from conf.loader import ConfigError, find, load
from conf.workload_file import Alibaba, Facebook, Mix, Poisson, Recorded, WorkloadSpec
from profiles.job_profile import JobProfile, load_profiles
from profiles.traces import WINDOWS, arrivals_in, read_alibaba_tasks, read_facebook
from profiles.workload import Workload, WorkloadJob, workload_of
from profiles.workload_files import WorkloadError, read_workload

_SECONDS_PER_HOUR = 3600.0
_MIB_PER_GIB = 1024


def load_workload(name: str | Path, seed: int | None = None, jobs: int | None = None) -> Workload:
    """A workload by name (of conf/workloads) or path (.yaml, .csv, .parquet), with `jobs` jobs if given.

    `seed` takes precedence over the description's; a CSV or Parquet file is what it is, whatever the seed,
    and `jobs` takes its first ones. ConfigError or WorkloadError say what is wrong.
    """
    path = _find(str(name))
    if path.suffix.lower() in (".csv", ".parquet"):
        workload = read_workload(path)
        if jobs is not None and jobs > len(workload):
            raise WorkloadError(f"{path}: holds {len(workload)} jobs, {jobs} are asked for")
        return workload if jobs is None else workload.first(jobs)
    spec = load(path, WorkloadSpec)
    if jobs is not None:
        spec = spec.model_copy(update={"jobs": jobs})
    return generate(spec, seed)


def source_of(name: str | Path) -> Callable[[int], Workload]:
    """A workload for every seed, by name or path; the file is read once. Errors as of `load_workload`."""
    path = _find(str(name))
    if path.suffix.lower() in (".csv", ".parquet"):
        workload = read_workload(path)
        return lambda seed: workload  # noqa: ARG005  it is what it is
    spec = load(path, WorkloadSpec)
    return lambda seed: generate(spec, seed)


def generate(spec: WorkloadSpec, seed: int | None = None) -> Workload:
    """Make the workload that the description asks for; `seed` takes precedence over the description's."""
    if spec.alibaba is not None:
        return _alibaba(spec.alibaba, spec.jobs)
    if spec.recorded is not None:
        return _recorded(spec.recorded, spec.jobs, spec.seed if seed is None else seed)
    seeds = np.random.SeedSequence(spec.seed if seed is None else seed).spawn(4)
    arrivals, sizes = map(np.random.default_rng, seeds[:2])
    if isinstance(spec.arrivals, Facebook):
        times = _facebook(spec.arrivals, spec.jobs, arrivals)
    elif isinstance(spec.arrivals, Poisson):
        gaps = arrivals.exponential(_SECONDS_PER_HOUR / spec.arrivals.jobs_per_hour, spec.jobs)
        times = np.cumsum(gaps)
    else:
        raise ConfigError("a workload has either arrivals (and a mix) or alibaba")
    mix = spec.mix or Mix()
    workload = _mixed(mix, times, sizes)
    return _labelled(_labelled(workload, "owner", mix.owners, seeds[2]), "queue", mix.queues, seeds[3])


def _find(name: str) -> Path:
    if Path(name).suffix:
        return find(name)
    try:
        return find(f"workloads/{name}.yaml")
    except ConfigError:
        known = ", ".join(sorted(p.stem for p in (Path(__file__).parent.parent / "conf/workloads").glob("*")))
        raise ConfigError(
            f"{name}: no such workload; known are {known}, or a file (.yaml, .csv, .parquet)"
        ) from None


def _recorded(source: Recorded, count: int, seed: int) -> Workload:
    """Draw jobs and gaps with replacement from those in the file; the first arrives at 0."""
    there = read_workload(find(source.path)).jobs
    streams = np.random.SeedSequence(seed).spawn(2)
    arrivals, sizes = (np.random.default_rng(stream) for stream in streams)
    gaps = np.diff([job.submitted_at for job in there]) if len(there) > 1 else np.zeros(1)
    times = np.concatenate(([0.0], np.cumsum(arrivals.choice(gaps, count - 1) / source.speedup)))
    chosen = sizes.integers(0, len(there), count)
    return Workload(
        tuple(
            replace(there[which], name=f"job-{i + 1}", submitted_at=float(times[i]))
            for i, which in enumerate(chosen)
        )
    )


def _mixed(mix: Mix, times: NDArray[np.float64], random: np.random.Generator) -> Workload:
    profiles = _profiles(mix)
    weights = np.array(list(mix.types.values()))
    count = len(times)
    kinds = random.choice(len(weights), count, p=weights / weights.sum())
    drawn = (
        random.integers(low, high, count, endpoint=True).tolist()
        for low, high in (mix.cpus, mix.memory_gib, mix.executors)
    )
    names, jobs = list(mix.types), []
    rows = zip(times.tolist(), kinds.tolist(), *drawn, strict=True)
    for number, (at, which, cpus, memory_gib, executors) in enumerate(rows, 1):
        kind, size = names[which], (float(cpus), memory_gib * _MIB_PER_GIB, executors)
        jobs.append(WorkloadJob(f"job-{number}", at, kind, *size, profiles[kind].duration(*size)))
    return Workload(tuple(jobs))


def _labelled(
    workload: Workload, key: str, weights: Mapping[str, float], seed: np.random.SeedSequence
) -> Workload:
    """The workload with this field of its jobs drawn by weight; itself where there are none."""
    if not weights:
        return workload
    chances = np.array(list(weights.values()))
    drawn = np.random.default_rng(seed).choice(list(weights), len(workload), p=chances / chances.sum())
    jobs = zip(workload.jobs, drawn.tolist(), strict=True)
    return Workload(tuple(replace(job, **{key: value}) for job, value in jobs))


def _profiles(mix: Mix) -> Mapping[str, JobProfile]:
    profiles = load_profiles(mix.profiles)
    for kind in mix.types:
        if kind not in profiles:
            raise ConfigError(f"mix: no profile of {kind} in {mix.profiles}; there are {', '.join(profiles)}")
    return profiles


def _facebook(source: Facebook, count: int, random: np.random.Generator) -> NDArray[np.float64]:
    """Draw `count` of the arrivals in the window; all of them when there are no more."""
    path = find(source.path)
    there = arrivals_in(read_facebook(path), WINDOWS[source.window])
    if len(there) < count:
        raise WorkloadError(
            f"{path}: {len(there)} jobs arrive in its window {source.window}, {count} are asked for"
        )
    drawn: NDArray[np.float64] = np.sort(random.choice(np.array(there), count, replace=False))
    return drawn


def _alibaba(source: Alibaba, count: int) -> Workload:
    """The next `count` tasks that ran, by time of creation; the first of them arrives at 0."""
    path = find(source.path)
    ran = [task for task in read_alibaba_tasks(path) if task.scheduled_at is not None]
    ran.sort(key=lambda task: task.created_at)
    chosen = ran[source.skip : source.skip + count]
    if len(chosen) < count:
        there = max(0, len(ran) - source.skip)
        raise WorkloadError(f"{path}: {there} tasks ran after the first {source.skip}, {count} are asked for")
    return workload_of(
        WorkloadJob(
            name=task.name,
            submitted_at=(task.created_at - chosen[0].created_at) / source.speedup,
            type=f"alibaba-{task.qos}".lower(),
            cpus=round(task.cpus, 3),
            memory_mib=max(task.memory_mib, 1),
            executors=1,
            duration=(task.deleted_at - (task.scheduled_at or 0.0)) / source.speedup,
        )
        for task in chosen
    )
