"""A comparison on elastic VMs: workloads, clusters as pools, policies and idle policies.

`report.py` reports it; the simulator makes each run.
"""

import math
import multiprocessing
import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace

from agents.experiments.comparison import Contender, Progress
from agents.registry import create
from conf.schema.workload import Alibaba, Facebook, Poisson, WorkloadSpec
from conf.units import SECONDS_PER_DAY
from environment.clusters.cluster_files import load_cluster
from environment.kernel.arrays import jobs_of, refusals
from environment.pools import BREAK_EVEN, IdleTimeout, Terms
from environment.resources import Resources
from environment.simulation.options import SimulationOptions
from environment.simulation.results.results import Result
from environment.simulation.simulator import simulate
from environment.types import Vm
from profiles.workloads.generators import generate
from profiles.workloads.workload import Workload

#: Constants of policies and keepers were chosen on seeds below.
FIRST_SEED = 200
BOOTS = (30, 60, 120)
_MINIMUM, _GRANULARITY = 60.0, 1.0
_FACEBOOK_JOBS = 5892
_LONGEST = ("Facebook week", "Facebook day", "Facebook day, every keeper", "Alibaba")


@dataclass(frozen=True, slots=True)
class Setup:
    """A policy and an idle policy; `fixed` VMs are always there: for the peak, or for the mean."""

    label: str
    policy: Contender
    keep: IdleTimeout = BREAK_EVEN
    fixed: str = ""


@dataclass(frozen=True, slots=True)
class ElasticScene:
    """A workload by seed and number of jobs, on VMs that are pools where they are not fixed."""

    name: str
    cluster: Callable[[], tuple[Vm, ...]]
    workload: Callable[[int, int | None], Workload]
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


_CLUSTER_AUTOSCALER = Setup(
    "like Cluster Autoscaler", Contender("least_allocated"), IdleTimeout("timeout", 600.0)
)
_KARPENTER = (
    Setup("like Karpenter", Contender("karpenter")),
    Setup("like Karpenter, closes at once", Contender("karpenter"), IdleTimeout("none")),
)
_FIXED = (
    Setup("fixed, for the peak", Contender("ff"), fixed="peak"),
    Setup("fixed, for the mean", Contender("ff"), fixed="mean"),
)
PARTNERS = (*_FIXED, _CLUSTER_AUTOSCALER, *_KARPENTER)
KEEPERS = (IdleTimeout("none"), BREAK_EVEN, IdleTimeout("forecast"), IdleTimeout("planned"))
#: Those that are each tried with each keeper.
EVERY_POLICY = (
    *("rr", "random", "ff", "rrc", "best_fit", "aep", "drf", "ilp", "ogasched", "dqn", "reinforce"),
    *("greedy", "lookahead"),
)
EVERY_KEEPER = (IdleTimeout("none"), IdleTimeout("timeout", 600.0), *KEEPERS[1:])


def kept(policy: str, keepers: Sequence[IdleTimeout] = KEEPERS, **options: object) -> tuple[Setup, ...]:
    """A policy with each of the keepers."""
    who = Contender(policy, options)
    return tuple(Setup(f"{who.label}, {keeper}", who, keeper) for keeper in keepers)


def _paper(spec: WorkloadSpec) -> Callable[[int, int | None], Workload]:
    return lambda seed, jobs: generate(_sized(spec, jobs), seed)


def _sized(spec: WorkloadSpec, jobs: int | None) -> WorkloadSpec:
    return spec if jobs is None else spec.model_copy(update={"jobs": jobs})


def facebook_day(seed: int, jobs: int | None) -> Workload:
    """A day of Facebook's arrivals, or the first jobs of it."""
    return generate(_sized(_FACEBOOK, None), seed).first(jobs or _FACEBOOK_JOBS)


def _week(seed: int, jobs: int | None) -> Workload:
    """Seven such days, each with jobs of its own."""
    return Workload(
        tuple(
            replace(
                job, name=f"day-{day + 1}-{job.name}", submitted_at=job.submitted_at + day * SECONDS_PER_DAY
            )
            for day in range(7)
            for job in facebook_day(7 * seed + day, jobs).jobs
        )
    )


def _alibaba(seed: int, jobs: int | None) -> Workload:
    """Tasks of the trace as fast as they were, from another place on for every seed."""
    spec = WorkloadSpec(jobs=jobs or 1000, alibaba=Alibaba(skip=1000 * (1 + seed % 5)))
    return generate(spec, seed)


_FACEBOOK = WorkloadSpec(jobs=_FACEBOOK_JOBS, arrivals=Facebook(kind="facebook", window="day"))


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
    ours = ("ff", "rrc", "best_fit", "aep")
    small = (
        *PARTNERS,
        *(setup for name in (*ours, "ilp") for setup in kept(name, (BREAK_EVEN,))),
        *kept("greedy"),
        *kept("lookahead", (BREAK_EVEN, IdleTimeout("planned"))),
    )
    day = (*PARTNERS, *(setup for name in ours for setup in kept(name, (BREAK_EVEN,))), *kept("greedy"))
    long = (
        _CLUSTER_AUTOSCALER,
        _KARPENTER[0],
        *kept("greedy", (IdleTimeout("forecast"), IdleTimeout("planned"))),
    )
    normal = WorkloadSpec(jobs=50, arrivals=Poisson(kind="poisson", jobs_per_hour=50))
    burst = WorkloadSpec(jobs=100, arrivals=Poisson(kind="poisson", jobs_per_hour=600))
    paper, hundred = (lambda: load_cluster("paper")), (lambda: load_cluster("hundred"))
    return (
        ElasticScene("normal", paper, _paper(normal), small),
        ElasticScene("burst", paper, _paper(burst), small),
        ElasticScene("Facebook day", hundred, facebook_day, day),
        ElasticScene("Facebook week", hundred, _week, long, (60,), 1),
        ElasticScene("Alibaba", _racks, _alibaba, (*PARTNERS, *kept("greedy")), (60,)),
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
    places: Sequence[ElasticScene], seeds: int, jobs: int | None = None, progress: Progress | None = None
) -> list[ElasticRun]:
    """Every setup in every scene, with each boot, on the same seeds; a process for each core."""
    tasks = [
        (scene.name, boot, setup.label, seed)
        for scene in places
        for boot in scene.boots
        for setup in scene.setups
        for seed in range(FIRST_SEED, FIRST_SEED + min(seeds, scene.seeds))
    ]
    # The longest first, so that nobody waits for one of them in the end.
    order = sorted(tasks, key=lambda task: _LONGEST.index(task[0]) if task[0] in _LONGEST else len(_LONGEST))
    context, found = multiprocessing.get_context("spawn"), dict[tuple[str, int, str, int], ElasticRun]()
    with ProcessPoolExecutor(os.cpu_count() or 1, mp_context=context) as pool:
        waiting = {task: pool.submit(_play_one, *task, jobs) for task in order}
        for done, (task, future) in enumerate(waiting.items(), 1):
            found[task] = future.result()
            if progress is not None:
                progress(done, len(tasks), f"{task[0]}, boots of {task[1]} s, {task[2]}, seed {task[3]}")
    return [found[task] for task in tasks]


def _play_one(name: str, boot: int, label: str, seed: int, jobs: int | None) -> ElasticRun:
    scene = next(scene for scene in (*scenes(), *with_every_keeper()) if scene.name == name)
    return play_one(scene, boot, next(setup for setup in scene.setups if setup.label == label), seed, jobs)


def play_one(scene: ElasticScene, boot: int, setup: Setup, seed: int, jobs: int | None = None) -> ElasticRun:
    """One setup in one scene with one boot on one seed."""
    workload, vms = scene.workload(seed, jobs), scene.cluster()
    options = SimulationOptions(seed=seed, keeping=setup.keep)
    on = pools_of(vms, boot)
    if setup.fixed:
        plain = tuple(replace(vm, terms=None) for vm in vms)
        on = plain if setup.fixed == "peak" else for_the_mean(plain, workload, options)
    result = simulate(create(setup.policy.name, setup.policy.options), workload, on, options=options)
    return ElasticRun(scene.name, boot, setup.label, seed, _numbers(result), len(result.refused), len(on))


def _numbers(result: Result) -> dict[str, float]:
    bill = result.bill
    return {
        "bill": bill.total,
        "completion": result.average_completion,
        "p95": result.p95_completion,
        "openings": float(bill.openings),
        "booting": 100.0 * bill.booting / bill.total,
        "idle": 100.0 * (bill.idle + bill.rounding) / bill.total,
        "bound": result.bound,
    }
