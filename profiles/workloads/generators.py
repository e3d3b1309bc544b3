"""Workloads from a description (`conf.schema.workload`) and a seed; the one way to get any workload by name.

The same description and seed give the same jobs. Arrivals, sizes, owners, queues, priorities and deadlines
draw from streams of their own, so two workloads that differ in their arrivals alone have the same jobs.
`submitters` draws the jobs that users submit.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from conf.loader import ConfigError, find, load
from conf.schema.workload import Alibaba, Deadlines, Facebook, Mix, Poisson, RecordedArrivals, WorkloadSpec
from conf.units import SECONDS_PER_HOUR
from conf.util.counted import counted
from conf.util.gc_pause import uncollected
from profiles.job_profile import JobProfile, load_profiles
from profiles.workloads.submitters import jobs_of_users, split
from profiles.workloads.traces import WINDOWS, arrivals_in, read_alibaba_tasks, read_facebook
from profiles.workloads.workload import Workload, WorkloadJob, workload_of
from profiles.workloads.workload_files import WorkloadError, read_workload

_MIB_PER_GIB = 1024
#: Streams of a seed: arrivals, sizes, owners, queues, priorities, deadlines, and the users of jobs.
_STREAMS = 7


def load_workload(name: str | Path, seed: int | None = None, jobs: int | None = None) -> Workload:
    """A workload by name (of conf/workloads) or path (.yaml, .csv, .parquet), with `jobs` jobs if given.

    `seed` takes precedence over the description's; a CSV or Parquet file is the same for every seed, and
    `jobs` takes its first ones. ConfigError or WorkloadError name the error.
    """
    path = _find(str(name))
    if path.suffix.lower() in (".csv", ".parquet"):
        workload = read_workload(path)
        if jobs is not None and jobs > len(workload):
            raise WorkloadError(f"{path}: holds {counted(len(workload), 'job')}, {jobs} are asked for")
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


@uncollected()
def generate(spec: WorkloadSpec, seed: int | None = None) -> Workload:
    """Generate the workload that the description asks for; `seed` takes precedence over the description's."""
    seed = spec.seed if seed is None else seed
    if spec.alibaba is not None:
        return split(_alibaba(spec.alibaba, spec.jobs), spec.users)
    if spec.recorded is not None:
        return split(_recorded(spec.recorded, spec.jobs, seed), spec.users)
    arrivals, *_, users = np.random.SeedSequence(seed).spawn(_STREAMS)
    left_out: list[str] = []
    times = None if spec.arrivals is None else _arrivals(spec.arrivals, spec.jobs, arrivals, left_out)
    mix = spec.mix or Mix()
    if spec.users:
        made = jobs_of_users(spec.users, mix, spec.jobs, users, _drawn, times)
        return replace(made, left_out=tuple(left_out))
    if times is None:
        raise ConfigError("a workload has either arrivals (and a mix) or alibaba or recorded or users")
    return Workload(_drawn(mix, times, np.random.SeedSequence(seed)), tuple(left_out))


def _find(name: str) -> Path:
    if Path(name).suffix:
        return find(name)
    try:
        return find(f"workloads/{name}.yaml")
    except ConfigError:
        known = ", ".join(sorted(p.stem for p in (Path(__file__).parents[2] / "conf/workloads").glob("*")))
        raise ConfigError(
            f"{name}: no such workload; known are {known}, or a file (.yaml, .csv, .parquet)"
        ) from None


def _arrivals(
    source: Poisson | Facebook, count: int, seed: np.random.SeedSequence, left_out: list[str]
) -> NDArray[np.float64]:
    random = np.random.default_rng(seed)
    if isinstance(source, Facebook):
        return _facebook(source, count, random, left_out)
    return np.cumsum(random.exponential(SECONDS_PER_HOUR / source.jobs_per_hour, count))


def _recorded(source: RecordedArrivals, count: int, seed: int) -> Workload:
    """Draw jobs and gaps with replacement from those in the file; the first arrives at 0."""
    there = read_workload(find(source.path)).jobs
    streams = np.random.SeedSequence(seed).spawn(2)
    arrivals, sizes = (np.random.default_rng(stream) for stream in streams)
    gaps = np.diff([job.submitted_at for job in there]) if len(there) > 1 else np.zeros(1)
    times = np.concatenate(([0.0], np.cumsum(arrivals.choice(gaps, count - 1) / source.speedup)))
    chosen = sizes.integers(0, len(there), count)
    tied = sum(bool(job.after) or job.start_at is not None for job in there)
    lost = f"{source.path}: dependencies and start times of {counted(tied, 'job')}, as each is drawn alone"
    return Workload(
        tuple(
            replace(there[which], name=f"job-{i + 1}", submitted_at=float(times[i]), after=(), start_at=None)
            for i, which in enumerate(chosen)
        ),
        (lost,) if tied else (),
    )


def _drawn(mix: Mix, times: NDArray[np.float64], seed: np.random.SeedSequence) -> tuple[WorkloadJob, ...]:
    """Jobs of the mix that arrive at these times, one part of them from each stream of the seed."""
    _, sizes, *rest, _ = seed.spawn(_STREAMS)
    owners, queues, priorities, deadlines = map(np.random.default_rng, rest)
    columns = {
        **_sizes(mix, times, np.random.default_rng(sizes)),
        **_labels("owner", mix.owners, len(times), owners),
        **_labels("queue", mix.queues, len(times), queues),
        **_labels("priority", mix.priorities, len(times), priorities),
    }
    if mix.deadlines is not None:
        columns["deadline"] = _due(columns["duration"], mix.deadlines, deadlines)
    if mix.auto:
        columns["auto"] = [mix.auto] * len(times)
    names = [f"job-{number}" for number in range(1, len(times) + 1)]
    rows = zip(names, times.tolist(), *columns.values(), strict=True)
    keys = ("name", "submitted_at", *columns)
    # Each is made once: to check a job again after each field takes longer than to draw it.
    return tuple(WorkloadJob(**dict(zip(keys, row, strict=True))) for row in rows)


def _sizes(mix: Mix, times: NDArray[np.float64], random: np.random.Generator) -> dict[str, list[Any]]:
    """Types, sizes and durations of the jobs, by field."""
    profiles = _profiles(mix)
    weights = np.array(list(mix.types.values()))
    count = len(times)
    kinds = random.choice(len(weights), count, p=weights / weights.sum())
    cpus, memory, executors = (
        random.integers(low, high, count, endpoint=True).tolist()
        for low, high in (mix.cpus, mix.memory_gib, mix.executors)
    )
    types = list(mix.types)
    found: dict[str, list[Any]] = {
        "type": [types[which] for which in kinds.tolist()],
        "cpus": [float(number) for number in cpus],
        "memory_mib": [number * _MIB_PER_GIB for number in memory],
        "executors": executors,
    }
    found["duration"] = [profiles[kind].duration(*size) for kind, *size in zip(*found.values(), strict=True)]
    return found


def _labels(
    key: str, weights: Mapping[Any, float], count: int, random: np.random.Generator
) -> dict[str, list[Any]]:
    """The field drawn by weight for so many jobs; nothing where there are no weights."""
    if not weights:
        return {}
    chances = np.array(list(weights.values()))
    return {key: random.choice(list(weights), count, p=chances / chances.sum()).tolist()}


def _due(durations: Sequence[float], deadlines: Deadlines, random: np.random.Generator) -> list[float | None]:
    """Deadlines of jobs of these durations, of as many as are to have one."""
    has = random.random(len(durations)) < deadlines.share
    slack = random.uniform(*deadlines.slack, len(durations))
    return [
        duration * times if due else None
        for duration, due, times in zip(durations, has.tolist(), slack.tolist(), strict=True)
    ]


def _profiles(mix: Mix) -> Mapping[str, JobProfile]:
    profiles = load_profiles(mix.profiles)
    for kind in mix.types:
        if kind not in profiles:
            raise ConfigError(f"mix: no profile of {kind} in {mix.profiles}; there are {', '.join(profiles)}")
    return profiles


def _facebook(
    source: Facebook, count: int, random: np.random.Generator, left_out: list[str]
) -> NDArray[np.float64]:
    """Draw `count` of the arrivals in the window; all of them when there are no more."""
    path = find(source.path)
    jobs = read_facebook(path)
    if paths := sum(job.paths for job in jobs):
        left_out.append(f"{path}: {counted(paths, 'path')} of inputs and outputs")
    there = arrivals_in(jobs, WINDOWS[source.window])
    if len(there) < count:
        raise WorkloadError(
            f"{path}: {counted(len(there), 'job')} in its window {source.window}, {count} are asked for"
        )
    drawn: NDArray[np.float64] = np.sort(random.choice(np.array(there), count, replace=False))
    return drawn


def _alibaba(source: Alibaba, count: int) -> Workload:
    """The next `count` tasks that ran, by time of creation; the first of them arrives at 0."""
    path = find(source.path)
    tasks = read_alibaba_tasks(path)
    ran = [task for task in tasks if task.scheduled_at is not None]
    ran.sort(key=lambda task: task.created_at)
    chosen = ran[source.skip : source.skip + count]
    if len(chosen) < count:
        there = max(0, len(ran) - source.skip)
        raise WorkloadError(
            f"{path}: {counted(there, 'task')} ran after the first {source.skip}, {count} are asked for"
        )
    try:
        made = workload_of(
            WorkloadJob(
                name=task.name,
                submitted_at=(task.created_at - chosen[0].created_at) / source.speedup,
                type=f"alibaba-{task.qos}".lower(),
                cpus=round(task.cpus, 3),
                memory_mib=max(task.memory_mib, 1),
                executors=1,
                duration=(task.deleted_at - (task.scheduled_at or 0.0)) / source.speedup,
                resources={"gpus": float(task.gpus)} if source.gpus and task.gpus else {},
            )
            for task in chosen
        )
    except ValueError as error:
        raise WorkloadError(f"{path}: {error}") from error
    left_out = []
    if (with_gpus := sum(task.gpus > 0 for task in chosen)) and not source.gpus:
        kept = "alibaba: {gpus: true} keeps them"
        left_out.append(f"{path}: the GPUs of {counted(with_gpus, 'job')} ({kept})")
    if (sharing := sum(task.gpus > 0 and task.gpu_share < 1 for task in chosen)) and source.gpus:
        left_out.append(f"{path}: the part of a GPU that {counted(sharing, 'job')} had: each takes a whole")
    if never := len(tasks) - len(ran):
        left_out.append(f"{path}: {counted(never, 'task')} of {len(tasks)} that never ran")
    return replace(made, left_out=tuple(left_out))
