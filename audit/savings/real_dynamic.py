"""Dynamic allocation in the simulator beside real Spark: it knows the logs of runs with fixed executors."""

import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from agents.experiments.paired import standard_error
from agents.registry import create
from audit.costs import costs_of
from audit.names import type_of
from audit.prices import Prices
from audit.savings.job_runs import job_runs
from audit.savings.real_runs import AuditedRun
from audit.savings.types import JobType, job_types
from environment.resources import Resources
from environment.simulation.options import SimulationOptions
from environment.simulation.simulator import simulate
from environment.types import Vm
from profiles.workloads.workload import WorkloadJob, workload_of

#: When each executor came and went, seconds after the application's start.
Spans = tuple[tuple[float, float], ...]


@dataclass(frozen=True, slots=True)
class ExecutorUse:
    """An application's seconds, and those of all its executors while it ran; means over runs."""

    seconds: float
    executor_seconds: float
    #: Executors that were launched.
    started: float
    #: Standard errors of the first two; 0 of a single run.
    seconds_error: float = 0.0
    executor_seconds_error: float = 0.0


@dataclass(frozen=True, slots=True)
class DynamicCase:
    """A type of jobs with all of its executors, and with dynamic allocation up to as many."""

    type: str
    executors: int
    #: Seconds after which idle ones are released.
    idle: float
    rounds: int
    fixed: ExecutorUse
    real: ExecutorUse
    simulated: ExecutorUse
    real_spans: tuple[Spans, ...]
    simulated_spans: Spans

    @property
    def saving(self) -> float:
        """Share of the fixed run's executor-seconds that dynamic allocation really saves."""
        return 1 - self.real.executor_seconds / self.fixed.executor_seconds

    @property
    def predicted_saving(self) -> float:
        """The same in the simulation."""
        return 1 - self.simulated.executor_seconds / self.fixed.executor_seconds

    def to_json(self) -> dict[str, Any]:
        """Plain values, without the executors' times."""
        values = asdict(self)
        del values["real_spans"], values["simulated_spans"]
        return values


def dynamic_cases(runs: Sequence[AuditedRun], prices: Prices) -> list[DynamicCase]:
    """Simulate each type that ran both ways, in the order of the runs. PriceError without a price."""
    fixed = [run for run in runs if run.idle is None]
    types = job_types(job_runs(costs_of([run.application for run in fixed], prices).each, prices))
    found = []
    for name in dict.fromkeys(run.type for run in fixed):
        before = [run for run in fixed if run.type == name]
        dynamic = [run for run in runs if run.type == name and run.idle is not None]
        of = types.get(type_of(before[0].application.name))
        if of is not None and dynamic:
            found.append(_case(name, of, before, dynamic))
    return found


def _case(name: str, of: JobType, fixed: Sequence[AuditedRun], dynamic: Sequence[AuditedRun]) -> DynamicCase:
    executors, idle = fixed[0].executors, dynamic[0].idle or 0.0
    seconds, spans = _simulated(of, executors, idle)
    simulated = ExecutorUse(seconds, sum(end - begin for begin, end in spans), len(spans))
    times = tuple(map(_spans, dynamic))
    return DynamicCase(
        name, executors, idle, len(dynamic), _use(fixed), _use(dynamic), simulated, times, spans
    )


def _simulated(of: JobType, executors: int, idle: float) -> tuple[float, Spans]:
    """Seconds of the application and its executors' times, on VMs that are always free."""
    run = of.runs[0]
    duration = statistics.median(each.seconds for each in of.runs)
    job = WorkloadJob(
        of.name, 0.0, of.name, run.cpus, run.memory_mib, executors, round(duration, 3), dynamic_min=1
    )
    size = Resources.of(run.cpus, run.memory_mib)
    vms = tuple(Vm(f"vm-{number}", f"vm-{number}", "vm", size, 1.0) for number in range(executors))
    options = SimulationOptions(profiles={of.name: of.profile}, executor_idle=idle)
    result = simulate(create("ff"), workload_of([job]), vms, options=options)
    held = result.held
    there = (held.vm < executors) & (held.end > held.start)
    spans = tuple(zip(held.start[there].tolist(), held.end[there].tolist(), strict=True))
    return result.jobs[0].duration, spans


def _spans(run: AuditedRun) -> Spans:
    """Executors' times within those of the application."""
    of, found = run.application, []
    for each in of.executors:
        begin, end = max(each.added_at, of.started_at), min(each.removed_at, of.ended_at)
        if end > begin:
            found.append((begin - of.started_at, end - of.started_at))
    return tuple(found)


def _use(runs: Sequence[AuditedRun]) -> ExecutorUse:
    seconds = [run.application.seconds for run in runs]
    spans = [_spans(run) for run in runs]
    held = [sum(end - begin for begin, end in of) for of in spans]
    several = len(runs) > 1
    return ExecutorUse(
        statistics.fmean(seconds),
        statistics.fmean(held),
        statistics.fmean(map(len, spans)),
        standard_error(seconds) if several else 0.0,
        standard_error(held) if several else 0.0,
    )


def executors_at(spans: Spans, times: NDArray[np.float64]) -> NDArray[np.int64]:
    """Number of executors at each time, [T]."""
    begins, ends = (np.sort(np.array([span[side] for span in spans])) for side in (0, 1))
    return np.searchsorted(begins, times, "right") - np.searchsorted(ends, times, "right")
