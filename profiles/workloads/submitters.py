"""Owners of a workload's jobs, where its description names users: submission times and jobs of each user.

`generators` draws the jobs themselves. Every user draws from streams of its own, so that one user changes
nothing about the others' jobs.
"""

import heapq
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count, islice, repeat

import numpy as np
from numpy.typing import NDArray

from conf.schema.workload import Mix, User
from conf.units import SECONDS_PER_HOUR
from conf.util.counted import counted
from profiles.workloads.workload import Workload, WorkloadJob
from profiles.workloads.workload_files import WorkloadError

#: Jobs of a mix that arrive at these times, drawn from that source.
Draw = Callable[[Mix, NDArray[np.float64], np.random.SeedSequence], Sequence[WorkloadJob]]

#: Number of jobs, always the same, from which a mix's mean cores and durations are computed.
_SAMPLE = 4000
#: Number of gaps, and of jobs, that are drawn at once.
_DRAWN = 64
#: Quantities that users draw from streams of their own.
_TIMES, _JOBS = 0, 1


@dataclass(frozen=True, slots=True)
class _One:
    """One user of a description, where `count` of them are alike."""

    name: str
    said: User


def jobs_of_users(
    users: Mapping[str, User],
    mix: Mix,
    jobs: int,
    seed: np.random.SeedSequence,
    draw: Draw,
    times: NDArray[np.float64] | None = None,
) -> Workload:
    """The first jobs of all users; with `times`, [jobs], jobs that arrive then, by the users' shares.

    `mix` applies to users without one of their own.
    """
    everyone = _everyone(users)
    if times is None:
        numbers, times = _coming(everyone, mix, jobs, seed, draw)
    else:
        numbers = _shared(everyone, len(times), seed)
    found: list[WorkloadJob] = []
    for number in np.unique(numbers).tolist():
        user = everyone[number]
        own = _jobs(user.said.mix or mix, _stream(seed, _JOBS, number), draw)
        found += [
            replace(job, submitted_at=at, owner=user.name, queue=user.said.queue)
            for at, job in zip(times[numbers == number].tolist(), own, strict=False)
        ]
    found.sort(key=lambda job: job.submitted_at)
    return Workload(tuple(replace(job, name=f"job-{number}") for number, job in enumerate(found, 1)))


def split(workload: Workload, users: Mapping[str, User]) -> Workload:
    """The jobs of a trace, each given to a user by a hash of its name (CRC-32), by the users' shares.

    Without users they are as they were.
    """
    if not users:
        return workload
    everyone = _everyone(users)
    edges = np.cumsum([user.said.share or 1.0 for user in everyone])
    at = np.array([zlib.crc32(job.name.encode()) for job in workload.jobs]) / 2**32 * edges[-1]
    owners = (everyone[number] for number in np.searchsorted(edges, at, "right").tolist())
    jobs = zip(workload.jobs, owners, strict=True)
    owned = tuple(replace(job, owner=user.name, queue=user.said.queue) for job, user in jobs)
    return replace(workload, jobs=owned)


def _everyone(users: Mapping[str, User]) -> list[_One]:
    return [
        _One(name if user.count == 1 else f"{name}-{number}", user)
        for name, user in users.items()
        for number in range(1, user.count + 1)
    ]


def _shared(users: Sequence[_One], arrivals: int, seed: np.random.SeedSequence) -> NDArray[np.int64]:
    """User of each arrival, drawn by their shares."""
    shares = np.array([user.said.share or 1.0 for user in users])
    drawn = np.random.default_rng(seed).choice(len(users), arrivals, p=shares / shares.sum())
    return drawn.astype(np.int64)


def _coming(
    users: Sequence[_One], mix: Mix, jobs: int, seed: np.random.SeedSequence, draw: Draw
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Users of the first jobs, and their arrival times; WorkloadError where fewer ever come."""
    means: dict[int, float] = {}
    streams = []
    for number, user in enumerate(users):
        own = user.said.mix or mix
        if user.said.cores is not None and id(own) not in means:
            means[id(own)] = _mean_core_seconds(own, draw)
        gap = _mean_gap(user.said, means.get(id(own), 0.0))
        streams.append(zip(_times(user.said, gap, _stream(seed, _TIMES, number)), repeat(number)))
    first = list(islice(heapq.merge(*streams), jobs))
    if len(first) < jobs:
        raise WorkloadError(f"users: submit {counted(len(first), 'job')}, {jobs} are asked for")
    times, numbers = zip(*first, strict=True)
    return np.array(numbers, np.int64), np.array(times, np.float64)


def _times(user: User, gap: float, seed: np.random.SeedSequence) -> Iterator[float]:
    """Arrival times of a user's jobs."""
    if user.at_once is not None:
        yield from repeat(user.after, user.at_once)
        return
    at, random = user.after, np.random.default_rng(seed)
    while True:
        for seconds in random.exponential(gap, _DRAWN).tolist():
            at += seconds
            yield at


def _jobs(mix: Mix, seed: np.random.SeedSequence, draw: Draw) -> Iterator[WorkloadJob]:
    """Jobs without end: the first are the same however many of them are taken."""
    for part in count():
        yield from draw(mix, np.zeros(_DRAWN), _stream(seed, part))


def _mean_gap(user: User, core_seconds: float) -> float:
    """Seconds between two jobs of a user, on average; `core_seconds` are those of a job."""
    if user.jobs_per_hour is not None:
        return SECONDS_PER_HOUR / user.jobs_per_hour
    return 0.0 if user.cores is None else core_seconds / user.cores


def _mean_core_seconds(mix: Mix, draw: Draw) -> float:
    """Core seconds of a job of the mix, on average."""
    sizes = mix.model_copy(update={"owners": {}, "queues": {}, "priorities": {}, "deadlines": None})
    sample = draw(sizes, np.zeros(_SAMPLE), np.random.SeedSequence(0))
    return sum(job.cpus * job.executors * job.duration for job in sample) / _SAMPLE


def _stream(seed: np.random.SeedSequence, *of: int) -> np.random.SeedSequence:
    """The stream of a user, or a part of it."""
    return np.random.SeedSequence(seed.entropy, spawn_key=(*seed.spawn_key, *of))
