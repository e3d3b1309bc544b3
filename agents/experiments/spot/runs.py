"""Spot VMs that come and go as recorded, beside VMs on demand: worlds, policies, and results of each run.

`report.py` reports them; the simulator makes each run. Records are files of others, not of this repository.
"""

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path

from agents.experiments.elastic.setups import BELIEF, Setup, karpenter, kept
from agents.experiments.paired import LEAST_PAIRS, LEAST_WINDOWS
from agents.experiments.runner import RunCall, Runner
from agents.experiments.seed_register import SeedRange, refuse_used
from agents.experiments.seeded_workload import SeededWorkload
from agents.registry import create
from conf.loader import ConfigError
from conf.schema.workload import Deadlines, Facebook, Mix, Poisson, WorkloadSpec
from environment.clusters.cluster_files import load_cluster
from environment.clusters.spot_availability import SpotTrace, read_availability
from environment.pools import BREAK_EVEN, IdleTimeout
from environment.simulation.options import SimulationOptions
from environment.simulation.simulator import simulate
from environment.types import Vm

#: Worlds without a record: no spot VMs, and spot VMs that are always there, interrupted at their rate.
ON_DEMAND, ENDLESS = "on demand", "endless spot"
SETUPS: tuple[Setup, ...] = (
    karpenter("first_fit")[0],
    *kept("greedy", (BREAK_EVEN, IdleTimeout("planned"))),
)
#: About how many times as long a run takes as one of the paper's densities.
_WEIGHTS = {"Facebook day": 12}


@dataclass(frozen=True, slots=True)
class SpotRecord:
    """A file with the number of spot VMs over time; the digest tells its content."""

    path: str
    digest: str

    @property
    def name(self) -> str:
        """The name of the record."""
        return Path(self.path).stem

    @property
    def available(self) -> float:
        """Share of the time in which there is a VM."""
        counts = read_availability(Path(self.path)).counts
        return sum(count > 0 for count in counts) / len(counts)


@dataclass(frozen=True, slots=True)
class SpotWorld:
    """The pools on demand, and the spot pools of each of these records, with equal parts of their VMs."""

    name: str
    records: tuple[SpotRecord, ...] = ()


@dataclass(frozen=True, slots=True)
class SpotScene:
    """Jobs with deadlines, by seed."""

    name: str
    workload: SeededWorkload
    #: Of how many seeds at most, and from how many a difference is judged.
    seeds: int = 100
    least: int = LEAST_PAIRS


@dataclass(frozen=True, slots=True)
class SpotRun:
    """Results of one run: dollars, seconds and numbers by name, and the jobs that met their deadlines."""

    scene: str
    world: str
    setup: str
    seed: int
    numbers: Mapping[str, float]
    met: frozenset[str]


def scenes() -> tuple[SpotScene, ...]:
    """All workloads; a job's deadline is 2 to 8 times its duration after its arrival."""
    mix = Mix(deadlines=Deadlines(slack=(2.0, 8.0)))
    normal, burst = (
        WorkloadSpec(jobs=jobs, arrivals=Poisson(kind="poisson", jobs_per_hour=rate), mix=mix)
        for jobs, rate in ((50, 50), (100, 600))
    )
    day = WorkloadSpec(jobs=5892, arrivals=Facebook(kind="facebook", window="day"), mix=mix)
    return (
        SpotScene("normal", SeededWorkload(normal)),
        SpotScene("burst", SeededWorkload(burst)),
        SpotScene("Facebook day", SeededWorkload(day), LEAST_WINDOWS, LEAST_WINDOWS),
    )


def read_records(data: Path) -> tuple[SpotRecord, ...]:
    """All records of a folder; ConfigError where there is none, or one cannot be used."""
    paths = sorted(data.glob("*.json"))
    if not paths:
        raise ConfigError(f"{data}: has no *.json; should be a folder with records of spot VMs")
    for path in paths:
        read_availability(path)
    return tuple(
        SpotRecord(str(path.resolve()), hashlib.sha256(path.read_bytes()).hexdigest()) for path in paths
    )


def worlds(records: Sequence[SpotRecord]) -> tuple[SpotWorld, ...]:
    """On demand, endless spot, each record, and as two zones the first two of the same times."""
    zones = next(
        ((one, other) for one, other in combinations(records, 2) if _times(one) == _times(other)), None
    )
    return (
        SpotWorld(ON_DEMAND),
        SpotWorld(ENDLESS),
        *(SpotWorld(record.name, (record,)) for record in records),
        *([SpotWorld(f"{zones[0].name} and {zones[1].name}", zones)] if zones else []),
    )


def _times(record: SpotRecord) -> tuple[float, int]:
    """Seconds between counts, and their number."""
    trace = read_availability(Path(record.path))
    return trace.gap, len(trace.counts)


def spot_discount() -> float:
    """By how much less than on demand a spot VM costs, as a share; the largest of all types."""
    prices = {(vm.type, vm.spot): vm.price_per_hour for vm in load_cluster("spot")}
    return max(1.0 - price / prices[kind, False] for (kind, spot), price in prices.items() if spot)


def vms_of_world(world: SpotWorld) -> tuple[tuple[Vm, ...], dict[str, SpotTrace]]:
    """VMs of a world, and the records of its spot pools; while a record has a VM, they have all of theirs."""
    vms = load_cluster("elastic" if world.name == ON_DEMAND else "spot")
    if not world.records:
        return vms, {}
    placed: list[Vm] = []
    counts: Counter[str] = Counter()
    for vm in vms:
        if vm.spot and vm.terms is not None:
            zone = world.records[counts[vm.terms.pool] % len(world.records)].name
            counts[vm.terms.pool] += 1
            vm = replace(vm, terms=replace(vm.terms, pool=f"{vm.terms.pool} {zone}"))
        placed.append(vm)
    traces = {
        f"{pool} {record.name}": read_availability(Path(record.path), times=number)
        for record in world.records
        for pool, number in counts.items()
    }
    return tuple(placed), traces


def play(
    records: Sequence[SpotRecord], seeds: SeedRange, runner: Runner, jobs: int | None = None
) -> list[SpotRun]:
    """Every policy in every world with every workload, on the same seeds."""
    refuse_used(
        draw
        for scene in scenes()
        for seed in seeds.at_most(scene.seeds)
        for draw in scene.workload.draws(seed, jobs)
    )
    return runner.run(
        [
            RunCall(
                play_one,
                (scene.name, world, setup.label, seed, jobs),
                f"{scene.name}, {world.name}, {setup.label}, seed {seed}",
                _WEIGHTS.get(scene.name, 1),
            )
            for scene in scenes()
            for world in worlds(records)
            for setup in SETUPS
            for seed in seeds.at_most(scene.seeds)
        ]
    )


def play_one(name: str, world: SpotWorld, label: str, seed: int, jobs: int | None) -> SpotRun:
    """One policy in one world with one workload on one seed."""
    scene = next(scene for scene in scenes() if scene.name == name)
    setup = next(setup for setup in SETUPS if setup.label == label)
    vms, traces = vms_of_world(world)
    options = SimulationOptions(seed=seed, belief=BELIEF, keeping=setup.keep, availability=traces)
    policy = create(setup.policy.name, setup.policy.options)
    result = simulate(policy, scene.workload(seed, jobs), vms, options=options)
    met = (job.name for job in result.jobs if job.deadline is not None and job.ended_at <= job.deadline)
    numbers = {
        "bill": result.bill.total,
        "completion": result.average_completion,
        "interruptions": float(result.interruptions),
        "refused": float(result.opens_refused),
        "lost": result.work_lost,
        "unfinished": float(len(result.aside) + len(result.given_up)),
    }
    return SpotRun(name, world.name, label, seed, numbers, frozenset(met))
