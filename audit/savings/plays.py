"""Plays the logged applications, at the times at which they came, in the simulator under each scenario."""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from stoker.characters import LONGEST_NAME

from agents.experiments.comparison import contender
from agents.registry import create
from audit.names import one_line
from audit.savings.job_runs import JobRun
from audit.savings.scenarios import Scenario
from audit.savings.types import JobType
from conf.defaults import DEFAULT_QUEUE
from environment.clusters.cluster_files import vms_of
from environment.decisions.sizing import Sizes
from environment.pools import IdleTimeout
from environment.simulation.options import SimulationOptions
from environment.simulation.simulator import StuckError, simulate
from profiles.workloads.workload import MOST_MIB, Workload, WorkloadJob, workload_of

#: Called before each play with its number, the number of plays, and its name.
Progress = Callable[[int, int, str], None]

#: A simulated bill against a real one, as docs/results/fidelity.md measured it.
_SIMULATOR = 0.031
#: Of a normal distribution: 90 of 100 lie so many standard deviations around the mean.
NINETY = 1.645


@dataclass(frozen=True, slots=True)
class DollarRange:
    """Dollars, and what 90 of 100 should lie between."""

    middle: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Played:
    """A scenario, played."""

    scenario: Scenario
    #: Dollars of its VMs, scaled as the replay of the logs is to their cost.
    dollars: float
    #: Against the cost of the logs.
    saving: DollarRange
    #: Seconds from submission to end, on average, as a multiple of that in the logs.
    slower: float
    #: Share of the bill for VMs that boot or idle.
    idle_share: float
    #: Applications that no VM of the cluster can hold; they are in no sum.
    refused: tuple[str, ...]
    #: Why it could not be played; empty: it was.
    failed: str = ""

    @classmethod
    def not_played(cls, scenario: Scenario, why: str, refused: Iterable[str] = ()) -> "Played":
        """A scenario that has no numbers, and why."""
        return cls(scenario, 0.0, DollarRange(0.0, 0.0, 0.0), 1.0, 0.0, tuple(refused), why)


def workload(runs: Sequence[JobRun]) -> Workload:
    """The runs as a workload, from the first one's start on; each takes its logged seconds."""
    first = min(run.application.started_at for run in runs)
    seen: Counter[str] = Counter()
    return workload_of(
        WorkloadJob(
            name=_name(run, seen),
            submitted_at=round(run.application.started_at - first, 3),
            type=run.type,
            cpus=round(run.cpus, 3),
            memory_mib=run.memory_mib,
            executors=run.executors,
            duration=round(run.seconds, 3),
            input_mib=min(run.application.input_mib, MOST_MIB) or None,
            resources={"gpus": run.gpus} if run.gpus else {},
            owner=one_line(run.application.user),
            queue=one_line(run.application.queue) or DEFAULT_QUEUE,
        )
        for run in _in_order(runs)
    )


def _name(run: JobRun, seen: Counter[str]) -> str:
    parts = (run.application.id, run.application.attempt)
    name = one_line("-".join(filter(None, parts)))[: LONGEST_NAME - 9] or "application"
    seen[name] += 1
    return name if seen[name] == 1 else f"{name}#{seen[name]}"


def play(
    scenarios: Sequence[Scenario],
    runs: Sequence[JobRun],
    types: Mapping[str, JobType],
    progress: Progress | None = None,
) -> list[Played]:
    """Play each scenario once. PolicyError or ConfigError for a policy that cannot be made.

    Logged durations are true there. Policies expect what the type's profile and its error let them expect.
    """
    jobs = workload(runs)
    found = []
    for number, scenario in enumerate(scenarios):
        if progress is not None:
            progress(number, len(scenarios), scenario.name)
        found.append(_play(scenario, jobs, runs, types))
    return found


def _play(scenario: Scenario, jobs: Workload, runs: Sequence[JobRun], types: Mapping[str, JobType]) -> Played:
    options = SimulationOptions(
        profiles={name: each.profile for name, each in types.items()},
        keeping=IdleTimeout.read(scenario.keep),
        sizes=Sizes() if scenario.sizes is None else Sizes.read(scenario.sizes),
    )
    first, second = contender(scenario.policy), contender("ff")
    try:
        result = simulate(
            create(first.name, first.options),
            jobs,
            vms_of(scenario.cluster),
            options=options,
            fallback=create(second.name, second.options),
        )
    except StuckError as error:
        return Played.not_played(scenario, str(error))
    left_out = {*result.refused, *result.aside, *result.given_up}
    kept = [run for run, job in zip(_in_order(runs), jobs.jobs, strict=True) if job.name not in left_out]
    logged, replayed = sum(run.cost.total for run in kept), sum(run.replayed for run in kept)
    if not kept or replayed <= 0:
        why = f"its VMs hold none of the applications ({next(iter(left_out), 'no application')})"
        return Played.not_played(scenario, why, left_out)
    bill = result.bill
    # Executors are whole numbers there; the effect of that is in both, and so not in their ratio.
    dollars = bill.total * logged / replayed
    by_type: dict[str, float] = {}
    for outcome in result.jobs:
        by_type[outcome.type] = by_type.get(outcome.type, 0.0) + outcome.cost
    replay = abs(math.log(logged / replayed))
    deviation = math.hypot(_error(by_type, types), replay, scenario.unknown, _SIMULATOR) * dollars
    saving = logged - dollars
    completion = float(np.mean([run.seconds for run in kept]))
    return Played(
        scenario,
        dollars,
        DollarRange(saving, saving - NINETY * deviation, min(saving + NINETY * deviation, logged)),
        result.average_completion / completion,
        (bill.booting + bill.idle + bill.rounding) / bill.total if bill.total else 0.0,
        tuple(sorted(left_out)),
    )


def _in_order(runs: Sequence[JobRun]) -> list[JobRun]:
    """The runs in the order of their workload."""
    return sorted(runs, key=lambda run: run.application.started_at)


def _error(dollars: Mapping[str, float], types: Mapping[str, JobType]) -> float:
    """Standard deviation of a bill, as a share of it, by the errors of types' durations.

    All runs of a type are taken to err alike, other types in their own way.
    """
    total = sum(dollars.values())
    return math.hypot(*(types[name].sigma * value / (total or 1.0) for name, value in dollars.items()))
