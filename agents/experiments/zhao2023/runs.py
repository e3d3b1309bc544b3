"""The experiments of Zhao 2023 as data, one entry per cell of a figure or table, and their execution.

`report.py` reports them. Cells run in processes of their own, each with its seed; the results returned are
small.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from agents.experiments.runner import RunCall, Runner
from agents.experiments.seed_register import SeedRange, refuse_used
from agents.experiments.seeded_workload import made_by
from agents.oga.bench import ceiling, run
from agents.oga.bipartite import Request
from agents.oga.environments import EnvironmentOptions, from_alibaba, generate
from agents.oga.learner import LearnerOptions, StepSize, regret_bound
from agents.oga.maximiser import maximise
from agents.oga.partners import LEARNERS, PARTNERS

#: Numbers of slots at which regret is measured.
HORIZONS = (500, 1000, 2000, 4000, 8000, 16_000)
POLICIES = (*LEARNERS, *PARTNERS)
#: Levels of contention in the setting of Fig. 2, down from the paper's 11.
LIGHTER = (1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 6.0, 11.0)
#: Points of a curve that are kept, evenly spread over its slots.
_POINTS = 200
#: First steps of which one learns and the other does not.
LEARNING = {"25": 25.0, "1e-9": 1e-9}


@dataclass(frozen=True, slots=True)
class FigureCell:
    """One setting of one experiment."""

    experiment: str
    value: str
    environment: EnvironmentOptions
    learner: LearnerOptions = field(default_factory=LearnerOptions)
    policies: tuple[str, ...] = POLICIES
    #: Number of slots whose optimum is computed, evenly spread.
    sample: int = 20
    alibaba: Path | None = None


@dataclass(frozen=True, slots=True)
class CellOutcome:
    """Earnings of one policy in one cell with one seed."""

    average: float
    overhead: float
    seconds_per_slot: float
    #: Slots, and the average reward up to them.
    slots: tuple[int, ...]
    curve: tuple[float, ...]
    #: Average reward in the slots of the sample, over the average optimum there.
    of_ceiling: float
    #: How many of the jobs that came started, and of their tasks were scheduled, from 0 to 1.
    started: float
    scheduled: float


@dataclass(frozen=True, slots=True)
class Regret:
    """Regret against y* at several T, for one seed: Q(y*) - Q(oga), the bound, and how sure y* is."""

    slots: tuple[int, ...]
    regret: tuple[float, ...]
    bound: tuple[float, ...]
    #: The most by which Q(y*) may exceed the value found, summed over slots.
    unsure: tuple[float, ...]

    @property
    def exponent(self) -> float:
        """The slope of log regret over log T."""
        regret = np.maximum(self.regret, 1e-9)
        return float(np.polyfit(np.log(self.slots), np.log(regret), 1)[0])


Results = dict[FigureCell, dict[str, list[CellOutcome]]]


def cells(alibaba: Path | None = None) -> tuple[FigureCell, ...]:
    """All experiments, cell by cell."""
    return tuple(_cells(alibaba))


def _cells(alibaba: Path | None) -> Iterator[FigureCell]:
    paper = EnvironmentOptions(slots=2000)
    short = replace(paper, slots=1000)
    requests: tuple[Request, ...] = ("per_channel", "total")
    for request in requests:
        per_channel = request == "per_channel"
        fig2 = replace(
            paper, slots=8000 if per_channel else 2000, beta=(0.4, 0.6), contention=11.0, request=request
        )
        yield FigureCell("fig2", request, fig2)
        table3 = replace(paper if per_channel else short, request=request)
        yield FigureCell("table3-T", request, replace(table3, slots=10_000 if per_channel else 2000))
        for arrival in (0.3, 0.5, 0.7, 0.9):
            yield FigureCell(f"table3-rho-{request}", f"{arrival:g}", replace(table3, arrival=arrival))
        for density in (2.0, 2.5, 3.0):
            yield FigureCell(f"table3-density-{request}", f"{density:g}", replace(table3, density=density))
        for utility in ("linear", "log", "reciprocal", "poly", "mixed"):
            yield FigureCell(f"fig7-{request}", utility, replace(short, utility=utility, request=request))
    for contention in LIGHTER:
        lighter = replace(paper, beta=(0.4, 0.6), contention=contention)
        yield FigureCell("lighter", f"{contention:g}", lighter, policies=("oga", *PARTNERS), sample=0)
    for instances in (32, 64, 128, 256, 512):
        yield FigureCell("fig3-instances", str(instances), replace(short, instances=instances))
    for types in (5, 10, 20, 40):
        yield FigureCell("fig3-types", str(types), replace(short, types=types))
    for contention in (0.1, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0):
        yield FigureCell("fig3-contention", f"{contention:g}", replace(short, contention=contention))
    plain = ("oga", "oga-reactive")
    for eta0 in (0.1, 0.5, 1.0, 5.0, 25.0, 100.0):
        yield FigureCell("fig4-eta0", f"{eta0:g}", paper, LearnerOptions(eta0=eta0), plain, 0)
    for decay in (0.99, 0.995, 0.999, 0.9999, 1.0, 1.0001):
        yield FigureCell("fig4-decay", f"{decay:g}", paper, LearnerOptions(decay=decay), plain, 0)
    sizes: tuple[StepSize, ...] = ("eq50", "theorem1")
    for size in sizes:
        yield FigureCell("fig4-size", size, paper, LearnerOptions(step_size=size), plain, 0)
    yield from learning_cells()
    large = EnvironmentOptions(types=100, instances=1024, slots=10_000, beta=(0.01, 0.015), contention=5.0)
    yield FigureCell("fig5", "100 x 1024 x 6", large, sample=5)
    yield from job_cells()
    if alibaba is not None:
        for request in requests:
            yield FigureCell(
                "alibaba", request, replace(paper, resources=3, request=request), alibaba=alibaba
            )


def job_cells() -> Iterator[FigureCell]:
    """Several jobs of a type in a slot (3.4), and gangs (3.5), where requests are totals and tasks scarce."""
    short = EnvironmentOptions(slots=1000)
    requests: tuple[Request, ...] = ("per_channel", "total")
    for request in requests:
        for several in (1, 2, 4):
            options = replace(short, request=request, jobs_per_type=several)
            yield FigureCell(f"jobs-{request}", str(several), options, sample=0)
    gangs = EnvironmentOptions(
        instances=64, slots=500, contention=3.0, request="total", jobs_per_type=2, tasks=4
    )
    for gang in range(5):
        yield FigureCell("gangs-minimum", str(gang), replace(gangs, gang=gang), sample=0)
    for contention in (1.0, 3.0, 10.0):
        yield FigureCell(
            "gangs-contention", f"{contention:g}", replace(gangs, contention=contention), sample=0
        )
    for floor in (0.25, 0.5, 1.0):
        yield FigureCell("gangs-floor", f"{floor:g}", replace(gangs, floor=floor), sample=0)


def learning_cells() -> Iterator[FigureCell]:
    """`oga-conserving` with the default steps and with steps too small to learn anything."""
    short = EnvironmentOptions(slots=500)
    joined = EnvironmentOptions(
        types=39, instances=54, resources=5, slots=200, beta=(0.1, 0.9), arrival=0.27, contention=0.61,
        density=0.0, utility="linear", request="total",
    )  # fmt: skip
    settings = {
        "Table 2, per_channel": short,
        "Table 2, total": replace(short, slots=200, request="total"),
        "all joined, per_channel": replace(short, slots=200, density=0.0),
        "linear, per_channel": replace(short, utility="linear"),
        "linear, total": replace(short, slots=200, utility="linear", request="total"),
        "39 x 54 x 5, all joined, linear, total, contention 0.61": joined,
    }
    for name, options in settings.items():
        for which, eta0 in LEARNING.items():
            learner = LearnerOptions(eta0=eta0)
            yield FigureCell(f"learning-{name}", which, options, learner, ("oga-conserving",), 0)


def play(
    chosen: Sequence[FigureCell], seeds: SeedRange, runner: Runner, horizons: Sequence[int] = HORIZONS
) -> tuple[Results, list[Regret]]:
    """Every cell with every seed, and the regret of every seed."""
    refuse_used(made_by("oga", seed) for seed in seeds)
    cell_calls = [
        RunCall(run_cell, (cell, seed), f"{cell.experiment} {cell.value}", _work(cell))
        for cell in chosen
        for seed in seeds
    ]
    light = min((call.weight for call in cell_calls), default=1)
    regret_calls = [RunCall(regret, (seed, tuple(horizons)), f"regret, seed {seed}", light) for seed in seeds]
    found: list[dict[str, CellOutcome] | Regret] = runner.run([*cell_calls, *regret_calls])  # type: ignore[list-item]
    results: Results = {cell: {name: [] for name in cell.policies} for cell in chosen}
    for call, outcomes in zip(cell_calls, found[: len(cell_calls)], strict=True):
        for name, outcome in outcomes.items():  # type: ignore[union-attr]
            results[call.arguments[0]][name].append(outcome)
    return results, found[len(cell_calls) :]  # type: ignore[return-value]


def run_cell(cell: FigureCell, seed: int) -> dict[str, CellOutcome]:
    """One cell with one seed."""
    options = replace(cell.environment, seed=seed)
    environment = generate(options) if cell.alibaba is None else from_alibaba(cell.alibaba, options)
    sampled = ceiling(environment, cell.sample) if cell.sample else None
    outcomes = {}
    for name in cell.policies:
        ran = run(name, environment, cell.learner, seed)
        points = np.unique(np.linspace(1, ran.rewards.size, _POINTS).astype(np.int64))
        outcomes[name] = CellOutcome(
            ran.average,
            float(ran.overheads.mean()),
            ran.seconds_per_slot,
            tuple(points.tolist()),
            tuple(ran.running_average[points - 1].tolist()),
            float(ran.rewards[sampled[0]].sum() / sampled[1].sum()) if sampled else float("nan"),
            ran.jobs.started / max(ran.jobs.came, 1),
            ran.jobs.share_scheduled,
        )
    return outcomes


def regret(seed: int, horizons: Sequence[int] = HORIZONS) -> Regret:
    """Measure plain OGA's regret at Theorem 1's step size, at several T, in a small environment."""
    told: list[tuple[float, float, float]] = []
    for slots in horizons:
        options = EnvironmentOptions(types=6, instances=16, resources=3, slots=slots, seed=seed)
        environment = generate(options)
        ran = run("oga", environment, LearnerOptions(step_size="theorem1"), seed)
        best = maximise(environment.model, environment.arrivals.mean(axis=0), rounds=3000, enough=1e-5)
        lost = best.reward * slots - float(ran.rewards.sum())
        bound = regret_bound(environment.model, slots)
        told.append((lost, bound, (best.upper - best.reward) * slots))
    lost_all, bounds, unsure = zip(*told, strict=True)
    return Regret(tuple(horizons), lost_all, bounds, unsure)


def _work(cell: FigureCell) -> int:
    """A measure of a cell's running time."""
    options = cell.environment
    edges = options.instances * (options.density or options.types) * options.resources
    slow = 3 if options.request == "total" else 1
    ports = options.jobs_per_type * options.tasks
    return int(options.slots * edges * ports * len(cell.policies) * slow)
