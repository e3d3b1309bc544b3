"""Random worlds for training: clusters of any types, workloads of any load, and beliefs that err.

A world is a workload, its cluster and the beliefs about its jobs; it depends on its seed and the number of
VMs alone. Units are those of rewards: the results of first fit in the same world.
"""

from typing import NamedTuple

import numpy as np

from agents.drl.kernel.reference import play_first_fit
from conf.schema.training import DrawnSpec
from environment.kernel.arrays import episode_of, jobs_of, refusals
from environment.kernel.rule_options import DurationOptions, RewardOptions, rules
from environment.kernel.state import Episode, make_batch
from environment.pools import Terms
from environment.resources import Resources
from environment.simulation.durations.beliefs import Belief
from environment.types import FloatArray, Vm
from profiles.job_profile import load_profiles
from profiles.workloads.workload import Workload, WorkloadJob

#: Types of which it is known how they had best be placed, and one of which it is not.
_TYPES = ("wordcount", "pagerank", "sort")
_MIB_PER_GIB = 1024
#: Mean seconds of a job and dollars of a core for an hour: any others would look the same.
_SECONDS, _DOLLARS = 240.0, 0.06
#: Cpus of a VM, and GiB for each.
_CPUS, _GIB_PER_CPU = (2, 4, 8, 12, 16, 32, 64, 128), (2, 4, 8)


class DrawnWorld(NamedTuple):
    """A workload, a cluster, and the expectations about the jobs."""

    workload: Workload
    vms: tuple[Vm, ...]
    belief: Belief
    seed: int


def draw_world(spec: DrawnSpec, vms: int, seed: int) -> DrawnWorld:
    """The world of that seed with `vms` VMs: the first random one in which any job fits."""
    random = np.random.default_rng((seed, vms))
    while True:
        world = _draw(spec, vms, seed, random)
        jobs = jobs_of(world.workload, load_profiles())
        if len(refusals(jobs, world.vms)) < len(jobs):
            return world


def _draw(spec: DrawnSpec, vms: int, seed: int, random: np.random.Generator) -> DrawnWorld:
    cluster = _cluster(random, vms, pooled=random.random() < spec.pools)
    workload = _workload(random, cluster, int(random.integers(*spec.jobs, endpoint=True)))
    kind, sigma = str(random.choice(["exact", "spread", "spread", "sigma"])), float(random.uniform(0.05, 0.5))
    return DrawnWorld(workload, cluster, Belief.read(sigma if kind == "sigma" else kind), seed)


def episode_of_world(world: DrawnWorld, unknown: float) -> Episode:
    """The world as an episode, with the results of first fit as its units."""
    profiles = load_profiles()
    jobs = jobs_of(world.workload, profiles)
    refused = refusals(jobs, world.vms)
    jobs = tuple(job for job in jobs if job.id not in refused)
    believed = None if world.belief.exact else world.belief.of(jobs, world.seed)
    episode = episode_of(jobs, world.vms, (), believed, unknown, seed=world.seed)
    dollars, seconds = play_first_fit(make_batch([episode], rules(RewardOptions(), DurationOptions())), 0)
    units = episode.jobs._replace(unit_dollars=np.array(dollars), unit_seconds=np.array(seconds))
    return episode._replace(jobs=units)


def _cluster(random: np.random.Generator, count: int, *, pooled: bool) -> tuple[Vm, ...]:
    """VMs of up to five types, at about the same price per core, or at independent ones."""
    kinds = int(random.integers(1, min(5, count), endpoint=True))
    cpus = random.choice(_CPUS, kinds, p=np.array([3, 6, 5, 4, 2, 1, 1, 1]) / 23)
    gib = cpus * random.choice(_GIB_PER_CPU, kinds, p=[0.25, 0.5, 0.25])
    prices = cpus * _DOLLARS * np.exp(random.normal(0.0, random.choice([0.0, 0.1, 0.3]), kinds))
    which = np.sort(np.append(np.arange(kinds), random.integers(0, kinds, count - kinds)))
    boot = float(_SECONDS * np.exp(random.uniform(np.log(0.05), np.log(1.0))))
    minimum = boot if random.random() < 0.5 else 0.0
    return tuple(
        Vm(
            f"vm-{number}", f"vm-{number}", f"type-{kind}",
            Resources.of(float(cpus[kind]), int(gib[kind]) * _MIB_PER_GIB), float(prices[kind]),
            terms=Terms(f"type-{kind}", boot, minimum) if pooled else None,
        )
        for number, kind in enumerate(which.tolist())
    )  # fmt: skip


def _workload(random: np.random.Generator, cluster: tuple[Vm, ...], count: int) -> Workload:
    """Jobs that fit the cluster, from light load to overload."""
    largest, total = max(vm.cpus for vm in cluster), sum(vm.cpus for vm in cluster)
    widest = max(1, min(int(random.choice([1, 2, 4, 6, 8])), int(largest)))
    cpus = random.integers(1, widest, count, endpoint=True)
    gib_per_cpu = float(random.choice([0.5, 1.0, 2.0, 4.0, 8.0], p=[0.15, 0.25, 0.35, 0.15, 0.1]))
    gib = np.maximum(1, np.round(cpus * gib_per_cpu * np.exp(random.normal(0.0, 0.4, count))))
    most = int(random.choice([1, 2, 4, 4, 6, 8, 12, 16]))
    executors = random.integers(1, most, count, endpoint=True)
    # No job takes more than about half of the cluster.
    executors = np.maximum(1, np.minimum(executors, (0.5 * total / cpus).astype(int)))
    spread = float(random.choice([0.1, 0.4, 0.8, 1.4]))
    durations = _SECONDS * np.exp(random.normal(-(spread**2) / 2, spread, count))
    weights = random.dirichlet(np.ones(len(_TYPES)))
    types = random.choice(_TYPES, count, p=weights)
    load = float(np.exp(random.uniform(np.log(0.1), np.log(12.0))))
    work = float((cpus * executors * durations).mean())
    gap = work / (load * total)
    arrivals = _arrivals(random, count) * gap
    rows = zip(arrivals, types, cpus, gib, executors, durations, strict=True)
    return Workload(
        tuple(
            WorkloadJob(
                f"job-{number}", float(at), str(kind), float(cores), int(memory) * _MIB_PER_GIB, int(many),
                float(max(seconds, 1.0)),
            )
            for number, (at, kind, cores, memory, many, seconds) in enumerate(rows, 1)
        )
    )  # fmt: skip


def _arrivals(random: np.random.Generator, count: int) -> FloatArray:
    """Times of arrival, one in a unit of time on average: by chance, in bursts, or in waves."""
    kind = random.choice(["poisson", "bursts", "waves"], p=[0.6, 0.2, 0.2])
    gaps = random.exponential(1.0, count)
    if kind == "bursts":
        first = random.random(count) < 0.2
        gaps = np.where(first, gaps * 4.5, gaps * 0.1)
    elif kind == "waves":
        gaps *= np.where(np.arange(count) // 15 % 2 == 0, 0.3, 1.7)
    times: FloatArray = np.cumsum(gaps) - gaps[0]
    return times
