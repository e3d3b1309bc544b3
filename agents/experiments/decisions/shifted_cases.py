"""Worlds that policies were not tuned on: other durations, loads, sizes, VMs and effects of placement.

Named cases, each a workload by seed and a cluster. `report.py` reports the findings.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from agents.experiments.seeded_workload import SeededWorkload
from conf.defaults import BAD_PLACEMENT_FACTOR
from conf.loader import ConfigError, find
from conf.schema.workload import Alibaba, Facebook, Mix, Poisson, WorkloadSpec
from environment.clusters.cluster_files import load_cluster
from environment.decisions.sizing import Sizes
from environment.kernel.rule_options import DurationOptions
from environment.resources import Resources
from environment.simulation.durations.beliefs import Belief
from environment.simulation.options import SimulationOptions
from environment.types import Preference, Vm
from profiles.workloads.workload import Workload, WorkloadJob

_MIB_PER_GIB = 1024
#: Cpus, GiB and dollars per hour of VMs that differ from the paper's in all three, and in dollars per core.
_OTHER_TYPES = (
    ("compute.small", 2, 4, 0.09),
    ("compute.large", 16, 32, 0.68),
    ("general.large", 8, 32, 0.42),
    ("memory.large", 4, 64, 0.33),
    ("memory.huge", 32, 256, 2.30),
)
#: VMs for the tasks of Alibaba's trace.
_RACKS = (("rack.small", 8, 48, 0.48), ("rack.large", 32, 192, 1.92), ("rack.huge", 128, 768, 7.68))
#: Places in Alibaba's trace that nothing was chosen on, 200 tasks each (`agents/experiments/seeds.yaml`).
_WINDOWS = (*range(3000, 5000, 200), *range(5400, 7200, 200))

_OPPOSITE: Mapping[str | None, Preference] = {"spread": "consolidate", "consolidate": "spread"}


@dataclass(frozen=True, slots=True)
class ShiftedCase:
    """A workload and a cluster by name.

    `workload` draws it by seed; `cluster` gives the VMs.
    `large` cases are those on hundreds of VMs, where a decision that searches is dear. A job takes `penalty`
    times as long where it is not placed as its type prefers, and where `flipped`, types prefer the opposite
    of their profiles. Policies are shown the profiles, and believe in `BAD_PLACEMENT_FACTOR`.
    """

    name: str
    workload: SeededWorkload
    cluster: Callable[[], tuple[Vm, ...]]
    large: bool = False
    penalty: float = BAD_PLACEMENT_FACTOR
    flipped: bool = False

    @property
    def misleading(self) -> bool:
        """Whether beliefs of policies about placements are wrong."""
        return self.flipped or self.penalty != BAD_PLACEMENT_FACTOR

    def options(self, belief: Belief, seed: int, sizes: Sizes) -> SimulationOptions:
        """Options of its simulation."""
        found = SimulationOptions(
            DurationOptions(penalty=self.penalty), belief=belief, seed=seed, sizes=sizes
        )
        if not self.flipped:
            return found
        shown = {name: profile.prefers for name, profile in found.profiles.items()}
        true = {
            name: profile.model_copy(update={"prefers": _OPPOSITE.get(profile.prefers)})
            for name, profile in found.profiles.items()
        }
        return replace(found, profiles=true, shown=shown)


def cases() -> tuple[ShiftedCase, ...]:
    """All of them; those made of traces only where their files are."""
    found = [*_of_time(), *_of_load(), *_of_jobs(), *_of_vms(), *_of_placement()]
    return (*found, *_of_traces())


def case(name: str) -> ShiftedCase:
    """The case of that name; ConfigError when there is none."""
    found = {each.name: each for each in cases()}
    if name not in found:
        raise ConfigError(f"{name}: no such case; known are {', '.join(found)}")
    return found[name]


def few_gangs(seed: int, *, at_once: bool = False) -> tuple[Workload, tuple[Vm, ...]]:
    """Five or six jobs, close together or all at second 0, on three or four VMs: an optimum can be proven."""
    draw, paper = np.random.default_rng(seed), load_cluster("paper")
    jobs, at = [], 0.0
    for number in range(5 + seed % 2):
        jobs.append(
            WorkloadJob(
                name=f"job-{number + 1}",
                submitted_at=at,
                type=("wordcount", "pagerank", "sort")[draw.integers(3)],
                cpus=float(draw.integers(1, 5)),
                memory_mib=int(draw.integers(1, 8)) * _MIB_PER_GIB,
                executors=int(draw.integers(1, 4)),
                duration=float(draw.uniform(100, 600)),
            )
        )
        after = float(draw.uniform(0, 90))
        at += 0.0 if at_once else after
    return Workload(tuple(jobs)), (paper[0], paper[1], paper[4], paper[8])[: 3 + seed // 2 % 2]


def stretched(workload: Workload, durations: float, arrivals: float = 1.0) -> Workload:
    """The workload with durations and arrivals multiplied by a factor."""
    return Workload(
        tuple(
            replace(job, duration=job.duration * durations, submitted_at=job.submitted_at * arrivals)
            for job in workload.jobs
        )
    )


def _paper() -> tuple[Vm, ...]:
    return load_cluster("paper")


def _made(
    jobs: int,
    per_hour: float,
    mix: Mix | None = None,
    change: Callable[[Workload, int], Workload] | None = None,
) -> SeededWorkload:
    arrivals = Poisson(kind="poisson", jobs_per_hour=per_hour)
    return SeededWorkload(WorkloadSpec(jobs=jobs, arrivals=arrivals, mix=mix), change=change)


def _of_time() -> list[ShiftedCase]:
    burst, normal = _made(100, 600), _made(50, 50)
    found = [ShiftedCase("normal", normal, _paper), ShiftedCase("burst", burst, _paper)]
    for factor in (0.05, 0.25, 5.0):
        stretch = _times(factor, arrivals=factor)
        found.append(ShiftedCase(f"burst, all times x {factor:g}", replace(burst, change=stretch), _paper))
    for factor in (0.05, 0.3, 2.0, 5.0):
        busy = _made(80, 100, change=_times(factor))
        found.append(ShiftedCase(f"busy, durations x {factor:g}", busy, _paper))
    minute, tails = _lasting(_one_minute), _lasting(_heavy_tailed)
    return [
        *found,
        ShiftedCase("one-minute jobs", _made(100, 400, change=minute), _paper),
        ShiftedCase("one-minute jobs, overload", _made(100, 2000, change=minute), _paper),
        ShiftedCase("heavy tails", _made(100, 150, change=tails), _paper),
    ]


def _of_load() -> list[ShiftedCase]:
    return [
        ShiftedCase("light", _made(40, 15), _paper),
        ShiftedCase("overload", _made(150, 3000), _paper),
    ]


def _of_jobs() -> list[ShiftedCase]:
    wide = Mix(executors=(1, 12))
    thin = Mix(cpus=(1, 2), memory_gib=(1, 4), executors=(1, 2))
    memory = Mix(cpus=(1, 2), memory_gib=(6, 15), executors=(1, 6))
    return [
        ShiftedCase("executors 1 to 12", _made(80, 300, wide), _paper),
        ShiftedCase("thin jobs", _made(150, 1500, thin), _paper),
        ShiftedCase("memory-bound", _made(80, 300, memory), _paper),
    ]


def _of_vms() -> list[ShiftedCase]:
    def other(each: int) -> Callable[[], tuple[Vm, ...]]:
        return lambda: vms_of_types(_OTHER_TYPES, each)

    return [
        ShiftedCase("5 other VM types", _made(100, 600), other(4)),
        ShiftedCase("5 other VM types, light", _made(40, 40), other(4)),
        ShiftedCase("200 VMs of other types", _made(200, 4000), other(40), large=True),
        ShiftedCase("1,000 VMs", _made(400, 20_000), lambda: load_cluster("thousand"), large=True),
    ]


def _of_placement() -> list[ShiftedCase]:
    """Both densities, where beliefs of policies about placements are wrong."""
    found = []
    for name, workload in (("normal", _made(50, 50)), ("burst", _made(100, 600))):
        found += [
            ShiftedCase(f"{name}, preferences flipped", workload, _paper, flipped=True),
            ShiftedCase(f"{name}, placement without effect", workload, _paper, penalty=1.0),
            ShiftedCase(f"{name}, bad placement x 1.6", workload, _paper, penalty=1.6),
        ]
    return found


def _of_traces() -> list[ShiftedCase]:
    found = []
    windows = (("normal", 50), ("burst", 100))
    for window, jobs in windows:
        arrivals = Facebook(kind="facebook", window=window)  # type: ignore[arg-type]  # these are the names
        if _there(arrivals.path):
            draw = SeededWorkload(WorkloadSpec(jobs=jobs, arrivals=arrivals))
            found.append(ShiftedCase(f"FB-2009, {window}", draw, _paper))
    if _there(Alibaba().path):
        tasks = SeededWorkload(WorkloadSpec(jobs=200, alibaba=Alibaba(speedup=100.0)), _WINDOWS)
        found.append(ShiftedCase("Alibaba", tasks, lambda: vms_of_types(_RACKS, 6)))
    return found


def vms_of_types(types: "tuple[tuple[str, int, int, float], ...]", each: int) -> tuple[Vm, ...]:
    """VMs of each type, with their number (name, cpus, GiB, dollars per hour)."""
    return tuple(
        Vm(f"{name}-{number}", f"{name}-{number}", name, Resources.of(cpus, gib * _MIB_PER_GIB), price)
        for name, cpus, gib, price in types
        for number in range(1, each + 1)
    )


def _there(path: str) -> bool:
    try:
        find(path)
    except ConfigError:
        return False
    return True


def _times(durations: float, arrivals: float = 1.0) -> Callable[[Workload, int], Workload]:
    return lambda workload, _: stretched(workload, durations, arrivals)


def _lasting(
    durations: Callable[[np.random.Generator, int], NDArray[np.float64]],
) -> Callable[[Workload, int], Workload]:
    """The workload with new random durations, independent of its jobs' types and sizes."""

    def drawn(workload: Workload, seed: int) -> Workload:
        seconds = durations(np.random.default_rng([seed, len(workload)]), len(workload)).tolist()
        pairs = zip(workload.jobs, seconds, strict=True)
        return Workload(tuple(replace(job, duration=float(each)) for job, each in pairs))

    return drawn


def _one_minute(random: np.random.Generator, count: int) -> NDArray[np.float64]:
    return random.uniform(31.0, 100.0, count)


def _heavy_tailed(random: np.random.Generator, count: int) -> NDArray[np.float64]:
    """Pareto, exponent 1.2: half of them below 54 s, one in a hundred above 23 minutes; at most 3 hours."""
    return np.minimum(30.0 * (1.0 + random.pareto(1.2, count)), 10_800.0)
