"""A comparison on elastic VMs: workloads, clusters as pools, policies and idle policies.

`report.py` reports it; the simulator makes each run.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from agents.experiments.elastic.setups import (
    BELIEF,
    EVERY_KEEPER,
    EVERY_POLICY,
    PARTNERS,
    Setup,
    at_best,
    autoscaler,
    karpenter,
    kept,
    moving,
)
from agents.experiments.runner import RunCall, Runner
from agents.experiments.seed_register import SeedRange, refuse_used
from agents.experiments.seeded_workload import SeededWorkload
from agents.registry import create
from conf.schema.workload import Alibaba, Facebook, Poisson, WorkloadSpec
from environment.clusters.cluster_files import load_cluster
from environment.kernel.arrays import jobs_of, refusals
from environment.pools import BREAK_EVEN, IdleTimeout, Terms
from environment.resources import Resources
from environment.simulation.options import SimulationOptions
from environment.simulation.results.results import Result
from environment.simulation.simulator import simulate
from environment.types import Vm
from profiles.workloads.workload import Workload

BOOTS = (30, 60, 120)
_MINIMUM, _GRANULARITY = 60.0, 1.0
#: Of how many seeds a day is run, and windows of a trace.
DAYS = 4
#: About how many times as long a run takes as one of the paper's densities.
_WEIGHTS = {
    "Facebook week": 100,
    "Facebook day": 12,
    "Facebook day, every keeper": 12,
    "Facebook day, moves": 12,
    "Alibaba": 8,
}


@dataclass(frozen=True, slots=True)
class ElasticScene:
    """A workload by seed and number of jobs, on VMs that are pools where they are not fixed."""

    name: str
    cluster: Callable[[], tuple[Vm, ...]]
    workload: SeededWorkload
    setups: tuple[Setup, ...]
    boots: tuple[int, ...] = BOOTS
    #: Of how many seeds at most.
    seeds: int = 100


@dataclass(frozen=True, slots=True)
class ElasticRun:
    """Results of one run: numbers of `Result`, and parts of its bill."""

    scene: str
    boot: int
    setup: str
    seed: int
    numbers: Mapping[str, float]
    #: Jobs that no VM holds.
    refused: int = 0
    #: How many there are at most.
    vms: int = 0


#: A day of Facebook's arrivals; with another number of jobs, the first ones of it.
FACEBOOK_DAY = SeededWorkload(WorkloadSpec(jobs=5892, arrivals=Facebook(kind="facebook", window="day")))
#: Tasks of the trace as fast as they were, from places on that nothing was chosen on (`seeds.yaml`).
_ALIBABA = SeededWorkload(WorkloadSpec(jobs=900, alibaba=Alibaba()), (3000, 3900, 5400, 6300))


def _racks() -> tuple[Vm, ...]:
    """VMs for the tasks of Alibaba's trace, at the price of the paper's for a core."""
    found = []
    for cpus, count in ((8, 40), (16, 30), (32, 20), (128, 4)):
        for number in range(1, count + 1):
            name, size = f"cpus{cpus}-{number}", Resources.of(cpus, cpus * 6 * 1024)
            found.append(Vm(name, name, f"cpus{cpus}", size, 0.06 * cpus, terms=Terms(f"cpus{cpus}")))
    return tuple(found)


def scenes() -> tuple[ElasticScene, ...]:
    """All that are compared."""
    baselines = ("ff", "rrc", "best_fit", "aep", "tetris")
    small = (
        *PARTNERS,
        *at_best((*baselines, "ilp")),
        *kept("greedy"),
        *kept("lookahead", (BREAK_EVEN, IdleTimeout("planned"))),
    )
    day = (*PARTNERS, *at_best(baselines), *kept("greedy"))
    long = (
        *autoscaler("first_fit"),
        *karpenter("first_fit"),
        *kept("greedy", (IdleTimeout("forecast"), IdleTimeout("planned"))),
    )
    normal, burst = (
        SeededWorkload(WorkloadSpec(jobs=jobs, arrivals=Poisson(kind="poisson", jobs_per_hour=rate)))
        for jobs, rate in ((50, 50), (100, 600))
    )
    paper, hundred = (lambda: load_cluster("paper")), (lambda: load_cluster("hundred"))
    return (
        ElasticScene("normal", paper, normal, small),
        ElasticScene("burst", paper, burst, small),
        ElasticScene("Facebook day", hundred, FACEBOOK_DAY, day, seeds=DAYS),
        ElasticScene("Facebook week", hundred, replace(FACEBOOK_DAY, days=7), long, (60,), 1),
        ElasticScene("Alibaba", _racks, _ALIBABA, (*PARTNERS, *kept("greedy")), (60,), DAYS),
    )


def with_every_keeper() -> tuple[ElasticScene, ...]:
    """The same worlds for each policy with each keeper; a day takes the integer program a minute or more."""
    of = {scene.name: scene for scene in scenes()}

    def scene(name: str, seeds: int, *without: str) -> ElasticScene:
        setups = tuple(
            setup for policy in EVERY_POLICY if policy not in without for setup in kept(policy, EVERY_KEEPER)
        )
        return replace(of[name], name=f"{name}, every keeper", setups=setups, boots=(60,), seeds=seeds)

    return scene("normal", 100), scene("burst", 100), scene("Facebook day", 1, "ilp")


def with_moves() -> tuple[ElasticScene, ...]:
    """The same worlds for policies that plan, with executors that stay and that are moved."""
    of = {scene.name: scene for scene in scenes()}
    planned = IdleTimeout("planned")
    small = (*moving("greedy", planned), *moving("lookahead", planned))
    setups = {"normal": small, "burst": small, "Facebook day": moving("greedy", planned)}
    return tuple(replace(of[name], name=f"{name}, moves", setups=own) for name, own in setups.items())


def pools_of(vms: Sequence[Vm], boot: float) -> tuple[Vm, ...]:
    """The VMs as pools by type, none of them there before it is needed."""
    terms = {vm.type: Terms(vm.type, boot, _MINIMUM, _GRANULARITY) for vm in vms}
    return tuple(replace(vm, terms=terms[vm.type]) for vm in vms)


def for_the_mean(vms: Sequence[Vm], workload: Workload, options: SimulationOptions) -> tuple[Vm, ...]:
    """VMs of all types with the mean number of used cores in all; all jobs fit.

    The number grows by a tenth at a time until they do.
    """
    jobs = jobs_of(workload, options.profiles)
    seconds = max(job.submitted_at + (job.expected_duration or 0.0) for job in jobs) - jobs[0].submitted_at
    used = sum(job.cpus * job.executors * (job.expected_duration or 0.0) for job in jobs) / seconds
    beyond, share = len(refusals(jobs, vms)), used / sum(vm.cpus for vm in vms)
    while True:
        # Every so manieth of them, so that there are as many of each type in proportion.
        some = tuple(vm for at, vm in enumerate(vms) if math.floor((at + 1) * share) > math.floor(at * share))
        if len(some) == len(vms) or (some and len(refusals(jobs, some)) == beyond):
            return some
        share = min(share * 1.1 + 0.01, 1.0)


def play(
    places: Sequence[ElasticScene], seeds: SeedRange, runner: Runner, jobs: int | None = None
) -> list[ElasticRun]:
    """Every setup in every scene, with each boot, on the same seeds."""
    refuse_used(
        draw
        for scene in places
        for seed in seeds.at_most(scene.seeds)
        for draw in scene.workload.draws(seed, jobs)
    )
    return runner.run(
        [
            RunCall(
                _play_one,
                (scene.name, boot, setup.label, seed, jobs),
                f"{scene.name}, boots of {boot} s, {setup.label}, seed {seed}",
                _WEIGHTS.get(scene.name, 1),
            )
            for scene in places
            for boot in scene.boots
            for setup in scene.setups
            for seed in seeds.at_most(scene.seeds)
        ]
    )


def _play_one(name: str, boot: int, label: str, seed: int, jobs: int | None) -> ElasticRun:
    scene = next(scene for scene in _everywhere() if scene.name == name)
    return play_one(scene, boot, next(setup for setup in scene.setups if setup.label == label), seed, jobs)


def _everywhere() -> Iterator[ElasticScene]:
    yield from (*scenes(), *with_every_keeper(), *with_moves())


def play_one(scene: ElasticScene, boot: int, setup: Setup, seed: int, jobs: int | None = None) -> ElasticRun:
    """One setup in one scene with one boot on one seed."""
    workload, vms = scene.workload(seed, jobs), scene.cluster()
    options = SimulationOptions(seed=seed, belief=BELIEF, keeping=setup.keep, consolidation=setup.moves)
    on = pools_of(vms, boot)
    if setup.fixed:
        plain = tuple(replace(vm, terms=None) for vm in vms)
        on = plain if setup.fixed == "peak" else for_the_mean(plain, workload, options)
    result = simulate(create(setup.policy.name, setup.policy.options), workload, on, options=options)
    return ElasticRun(scene.name, boot, setup.label, seed, _numbers(result), len(result.refused), len(on))


def _numbers(result: Result) -> dict[str, float]:
    bill = result.bill
    work = result.core_hours
    return {
        "bill": bill.total,
        "completion": result.average_completion,
        "p95": result.p95_completion,
        "openings": float(bill.openings),
        "booting": 100.0 * bill.booting / bill.total,
        "idle": 100.0 * (bill.idle + bill.rounding) / bill.total,
        "bound": result.bound,
        "moved": float(result.executors_lost),
        "repeated": 100.0 * result.work_lost / work if work else 0.0,
    }
