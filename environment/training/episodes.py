"""Episodes for training and evaluation: a workload of a seed on a cluster, a fresh one for every seed.

Seeds from FIRST_TRAINING_SEED on are for training alone, those below it for evaluation: results on them
never came from trained-on seeds. (A workload that stands in a file is the same for every seed.)
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from conf.defaults import UNKNOWN_DURATION
from conf.util.counted import counted
from environment.clusters.cluster_files import load_cluster
from environment.kernel.arrays import checked_vms, episode_of, jobs_of, refusals
from environment.kernel.state import Episode
from environment.simulation.durations.beliefs import EXACT, Belief
from environment.types import Vm
from profiles.job_profile import load_profiles
from profiles.workloads.generators import source_of
from profiles.workloads.workload import Workload
from profiles.workloads.workload_files import WorkloadError

FIRST_TRAINING_SEED = 2**32

#: A workload for every seed.
WorkloadSource = Callable[[int], Workload]


def training_seeds(seed: int, pool: int | None = None) -> Iterator[int]:
    """Seeds for training without end, others for another `seed`; no more than `pool` different ones."""
    random = np.random.default_rng(seed)
    if pool is None:
        while True:
            yield int(random.integers(FIRST_TRAINING_SEED, 2**62))
    known = random.integers(FIRST_TRAINING_SEED, 2**62, pool)
    while True:
        yield int(random.choice(known))


@dataclass(frozen=True, slots=True)
class Episodes:
    """An episode for every seed; `types` are the job types that observations tell apart.

    `belief` is an agent's belief about jobs' durations; one of unknown duration is assumed to take `unknown`
    seconds.
    """

    source: WorkloadSource
    vms: tuple[Vm, ...]
    types: tuple[str, ...] = ()
    belief: Belief = EXACT
    unknown: float = UNKNOWN_DURATION

    def __call__(self, seed: int) -> Episode:
        """The seed's workload on the cluster, without the jobs that would not fit it when it is empty.

        WorkloadError when no job is left, or one asks for other resources than cpus and memory: the kernel
        knows no others.
        """
        workload = self.source(seed)
        for job in workload.jobs:
            if job.resources:
                raise WorkloadError(
                    f"{job.name} asks for {' and '.join(sorted(job.resources))}; episodes for training know "
                    "only cpus and memory, so leave the column resources out"
                )
            if job.spot != "allowed" and any(vm.spot for vm in self.vms):
                raise WorkloadError(
                    f"{job.name} says spot: {job.spot}; in episodes for training every job may use every VM"
                )
        jobs = jobs_of(workload, load_profiles())
        refused = refusals(jobs, self.vms)
        jobs = tuple(job for job in jobs if job.id not in refused)
        if not jobs:
            raise WorkloadError(f"no job of the workload fits the cluster{_such_as(refused)}")
        believed = None if self.belief.exact else self.belief.of(jobs, seed, known=load_profiles())
        return episode_of(jobs, self.vms, self.types, believed, self.unknown, seed=seed)

    def left_out(self, seed: int) -> tuple[str, ...]:
        """Parts of the seed's workload that an episode lacks, in words: not read, or fitting no cluster."""
        workload = self.source(seed)
        refused = refusals(jobs_of(workload, load_profiles()), self.vms)
        if not refused:
            return workload.left_out
        fits_not = f"{counted(len(refused), 'job')} of {len(workload.jobs)} that would fit no VM or cluster"
        return (*workload.left_out, fits_not + _such_as(refused))


def _such_as(refused: Mapping[str, str]) -> str:
    return next((f", such as {job}: {why}" for job, why in refused.items()), "")


def episodes(
    workload: str | Path | Workload | WorkloadSource,
    cluster: str | Path | Sequence[Vm],
    types: tuple[str, ...] = (),
    belief: Belief = EXACT,
    unknown: float = UNKNOWN_DURATION,
) -> Episodes:
    """Episodes of a workload and a cluster, by name, path or value, with the beliefs about jobs.

    ConfigError or WorkloadError describe errors in a name or a file.
    """
    vms = load_cluster(cluster) if isinstance(cluster, str | Path) else cluster
    return Episodes(_source(workload), checked_vms(vms), types, belief, unknown)


def _source(workload: str | Path | Workload | WorkloadSource) -> WorkloadSource:
    if isinstance(workload, str | Path):
        return source_of(workload)
    if isinstance(workload, Workload):
        return lambda seed: workload  # noqa: ARG005  it is the same for every seed
    return workload
