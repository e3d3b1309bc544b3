"""Fidelity of a simulation: the same workload on the cluster and in the simulator, side by side.

Comparing and reporting only; `daemon.cli.profile.validate_simulator` runs both.
"""

import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from conf.util.counted import counted
from environment.simulation.durations.fitted_model import FittedModel
from environment.simulation.results.results import Result
from profiles.runs import MeasuredRun, machine_told, outliers

if TYPE_CHECKING:
    from matplotlib.axes import Axes

ALL = "all"


@dataclass(frozen=True, slots=True)
class Pair:
    """A job in both worlds: seconds from its placement (durations) or submission to its end, and dollars."""

    name: str
    type: str
    real_duration: float
    duration: float
    real_completion: float
    completion: float
    real_cost: float
    cost: float
    real_placement: tuple[str, ...]
    placement: tuple[str, ...]
    state: str

    @property
    def same_placement(self) -> bool:
        """Whether its executors were on the same VMs, one by one in any order."""
        return sorted(self.real_placement) == sorted(self.placement)


@dataclass(frozen=True)
class Fidelity:
    """A workload in both worlds. `paper` has the durations by the paper's rule in the simulator.

    `grid` are the runs that the model was fitted to, `about` is the description of the machine in their
    folder.
    """

    workload: str
    policy: str
    pairs: tuple[Pair, ...]
    real_cost: float
    cost: float
    paper: Mapping[str, float]
    model: FittedModel
    grid: tuple[MeasuredRun, ...]
    about: Mapping[str, Any]

    def errors(self) -> dict[str, tuple[float, float, float]]:
        """Mean absolute percentage errors of duration, completion and cost: by type, and of all jobs."""
        groups: dict[str, list[Pair]] = {}
        for pair in self.pairs:
            groups.setdefault(pair.type, []).append(pair)
        groups = dict(sorted(groups.items())) | {ALL: list(self.pairs)}
        return {name: _errors(pairs) for name, pairs in groups.items()}

    @property
    def paper_error(self) -> float:
        """The mean absolute percentage error of durations by the paper's rule."""
        return statistics.fmean(_away(self.paper[pair.name], pair.real_duration) for pair in self.pairs)

    @property
    def cost_error(self) -> float:
        """Relative difference of the simulated bill from the real one."""
        return _away(self.cost, self.real_cost)

    def to_json(self) -> dict[str, Any]:
        """All of it but the runs of the grid, as plain values."""
        named = ("duration", "completion", "cost")
        return {
            "workload": self.workload,
            "policy": self.policy,
            "errors": {name: dict(zip(named, found, strict=True)) for name, found in self.errors().items()},
            "paper_error": self.paper_error,
            "real_cost": self.real_cost,
            "cost": self.cost,
            "cost_error": self.cost_error,
            "jobs": [asdict(pair) for pair in self.pairs],
        }


def pair_up(
    runs: Sequence[MeasuredRun], began: float, result: Result, submitted: Mapping[str, float]
) -> tuple[Pair, ...]:
    """The jobs of a real run and of a simulated one, by name.

    `began` is when the real workload's clock stood at 0, `submitted` when each job was due on that clock.
    """
    real = {run.name: run for run in runs}
    return tuple(
        Pair(
            name=job.name,
            type=job.type,
            real_duration=real[job.name].held,
            duration=job.duration,
            real_completion=real[job.name].ended_at - began - submitted[job.name],
            completion=job.completion,
            real_cost=real[job.name].cost,
            cost=job.cost,
            real_placement=real[job.name].placement,
            placement=tuple(result.vms[vm].name for vm in job.placement),
            state=real[job.name].state,
        )
        for job in result.jobs
    )


def placement_effects(
    runs: Sequence[MeasuredRun],
) -> dict[tuple[str, float], dict[int, tuple[float, float, int]]]:
    """Mean, standard deviation and number of durations, by type and MiB of input, then number of VMs.

    Of runs alone on their VMs, of the shape that was measured most, where there are several numbers of VMs.
    """
    alone: dict[tuple[str, float], list[MeasuredRun]] = {}
    for run in runs:
        if run.state == "finished" and run.shared == 0:
            alone.setdefault((run.type, run.input_mib or 0.0), []).append(run)
    found = {}
    for key, alike in sorted(alone.items()):
        usual = statistics.mode(_executors_of(run) for run in alike)
        by_vms: dict[int, list[float]] = {}
        for run in alike:
            if _executors_of(run) == usual:
                by_vms.setdefault(run.vms, []).append(run.held)
        if len(by_vms) > 1:
            found[key] = {vms: _spread_of(seconds) for vms, seconds in sorted(by_vms.items())}
    return found


def _executors_of(run: MeasuredRun) -> tuple[int, float, int]:
    return run.executors, run.cpus, run.memory_mib


def _spread_of(values: Sequence[float]) -> tuple[float, float, int]:
    return statistics.fmean(values), statistics.stdev(values) if len(values) > 1 else 0.0, len(values)


def report(fidelity: Fidelity, path: Path, command: str) -> None:
    """Write the report, Markdown, and its picture beside it; OSError when that cannot be."""
    path.parent.mkdir(parents=True, exist_ok=True)
    picture = path.with_suffix(".png")
    _draw(fidelity, picture)
    path.write_text("\n".join(_lines(fidelity, picture.name, command)) + "\n", encoding="utf-8")


def _lines(fidelity: Fidelity, picture: str, command: str) -> Iterator[str]:
    yield "# Fidelity of the simulator\n"
    yield (
        f"The workload `{fidelity.workload}` under the policy `{fidelity.policy}`, once with real Spark on "
        "the embedded cluster and once in the simulator with durations fitted to measured runs (truth "
        "`fitted`; belief `exact`: policies may expect the fitted mean):\n"
    )
    yield f"```console\n$ {command}\n```\n"
    yield (f"{machine_told(fidelity.about)}. Isolation of VMs {fidelity.about.get('isolation')}.\n")
    yield (
        "A duration here is from a job's placement to its end, the time for which it holds its VMs; "
        "completion counts from submission. Errors are mean absolute percentage errors over jobs, simulated "
        "against real.\n"
    )
    yield "| type | duration | completion | cost |\n|---|---:|---:|---:|"
    for name, errors in fidelity.errors().items():
        yield f"| {name} | " + " | ".join(f"{error:.1%}" for error in errors) + " |"
    same = sum(pair.same_placement for pair in fidelity.pairs)
    yield (
        f"\nThe bill: ${fidelity.real_cost:.4f} really, ${fidelity.cost:.4f} simulated, "
        f"{fidelity.cost_error:.1%} apart. "
        f"{same} of {counted(len(fidelity.pairs), 'job')} were on the same VMs in both. "
        "By the paper's rule (the best placement's duration, 1.3 times that when the placement is not good) "
        f"the durations would be {fidelity.paper_error:.1%} off. "
        "In the simulator a job is slowed down by the jobs on its VMs when it is placed, not by jobs placed "
        "later.\n"
    )
    yield f"![real and simulated durations]({picture})\n"
    yield from _job_table(fidelity.pairs)
    yield from _model_table(fidelity.model)
    yield from _placement_table(fidelity.grid)


def _job_table(pairs: Sequence[Pair]) -> Iterator[str]:
    yield "## Job by job\n"
    columns = (
        "duration s, real",
        "simulated",
        "completion s, real",
        "simulated",
        "cost $, real",
        "simulated",
    )
    yield "| job | type | " + " | ".join(columns) + " | executors, really | simulated |"
    yield "|---|---|" + "---:|" * len(columns) + "---|---|"
    yield from _rows(pairs)
    yield ""


def _rows(pairs: Sequence[Pair]) -> Iterator[str]:
    for pair in pairs:
        cells = (
            pair.name,
            pair.type if pair.state == "finished" else f"{pair.type} ({pair.state})",
            f"{pair.real_duration:.1f}",
            f"{pair.duration:.1f}",
            f"{pair.real_completion:.1f}",
            f"{pair.completion:.1f}",
            f"{pair.real_cost:.5f}",
            f"{pair.cost:.5f}",
            _where(pair.real_placement),
            _where(pair.placement),
        )
        yield "| " + " | ".join(cells) + " |"


def _where(placement: Sequence[str]) -> str:
    return ", ".join(f"{placement.count(vm)} on {vm}" for vm in sorted(set(placement)))


def _model_table(model: FittedModel) -> Iterator[str]:
    yield "## The model\n"
    yield (
        "For every type, the kind of model with the least error on runs that it was not fitted to (mean "
        "absolute percentage error); the spread is the standard deviation of the logarithm of measured over "
        "predicted.\n"
    )
    methods = list(next(iter(model.types.values())).errors)
    yield "| type | runs | chosen | " + " | ".join(methods) + " | spread |"
    yield "|---|---:|---|" + "---:|" * (len(methods) + 1)
    for name, found in model.types.items():
        errors = " | ".join(f"{found.errors[method]:.1%}" for method in methods)
        yield f"| {name} | {found.runs} | {found.method} | {errors} | {found.sigma:.1%} |"
    yield ""


def _placement_table(grid: Sequence[MeasuredRun]) -> Iterator[str]:
    yield "## The effect of placement\n"
    yield (
        "Durations of the same job on one VM and on several, alone on the cluster: mean ± standard "
        "deviation (number of runs).\n"
    )
    effects = placement_effects(grid)
    counts = sorted({vms for by_vms in effects.values() for vms in by_vms})
    yield "| type | MiB | " + " | ".join(f"on {vms}" for vms in counts) + " | slowest / quickest |"
    yield "|---|---:|" + "---:|" * (len(counts) + 1)
    for (name, size), by_vms in effects.items():
        cells = [
            f"{by_vms[n][0]:.1f} ± {by_vms[n][1]:.1f} s ({by_vms[n][2]})" if n in by_vms else ""
            for n in counts
        ]
        means = [mean for mean, _, _ in by_vms.values()]
        yield f"| {name} | {size:g} | " + " | ".join(cells) + f" | {max(means) / min(means):.2f} |"


def _draw(fidelity: Fidelity, path: Path) -> None:
    from matplotlib.figure import Figure  # a second to import, and only pictures need it

    figure = Figure(figsize=(10, 4.5), layout="constrained")
    left, right = figure.subplots(1, 2)
    for axes, what in ((left, "duration"), (right, "completion")):
        _scatter(axes, fidelity.pairs, what)
    figure.suptitle(f"{fidelity.workload} under {fidelity.policy}: real against simulated")
    figure.savefig(path, dpi=120)


def _scatter(axes: "Axes", pairs: Sequence[Pair], what: str) -> None:
    for number, kind in enumerate(sorted({pair.type for pair in pairs})):
        of_kind = [pair for pair in pairs if pair.type == kind]
        real = [getattr(pair, f"real_{what}") for pair in of_kind]
        simulated = [getattr(pair, what) for pair in of_kind]
        axes.plot(real, simulated, "osD^v<>p"[number % 8], color=f"C{number}", label=kind)
    most = 1.05 * max(max(getattr(pair, f"real_{what}"), getattr(pair, what)) for pair in pairs)
    axes.plot([0, most], [0, most], color="black", linewidth=0.8)
    axes.fill_between([0, most], [0, 0.85 * most], [0, 1.15 * most], color="grey", alpha=0.2, label="± 15 %")
    axes.set(xlabel=f"real {what} (s)", ylabel=f"simulated {what} (s)", xlim=(0, most), ylim=(0, most))
    axes.legend(fontsize="small")


def draw_runs(runs: Sequence[MeasuredRun], path: Path) -> None:
    """Draw all runs into a picture: a panel for each type, durations by the number of VMs."""
    from matplotlib.figure import Figure

    kinds, marked = sorted({run.type for run in runs}), outliers(runs)
    figure = Figure(figsize=(3.2 * len(kinds) + 1, 3.6), layout="constrained")
    for axes, kind in zip(figure.subplots(1, len(kinds), squeeze=False)[0], kinds, strict=True):
        of_kind = [run for run in runs if run.type == kind]
        for number, alike in enumerate(sorted({_looks(run) for run in of_kind})):
            chosen = [run for run in of_kind if _looks(run) == alike]
            good = [run for run in chosen if run.state == "finished" and (run.name, run.copy) not in marked]
            rest = [run for run in chosen if run not in good]
            label = (
                f"{alike[0]:g} MiB, {counted(alike[1], 'executor')}{', beside others' if alike[2] else ''}"
            )
            axes.plot([r.vms for r in good], [r.held for r in good], "o", color=f"C{number}", label=label)
            axes.plot([r.vms for r in rest], [r.held for r in rest], "x", color=f"C{number}")
        axes.set(title=kind, xlabel="VMs", ylabel="from placement to end (s)")
        axes.set_ylim(bottom=0)
        axes.set_xticks(sorted({run.vms for run in of_kind}))
        axes.legend(fontsize="x-small")
    figure.savefig(path, dpi=120)


def _looks(run: MeasuredRun) -> tuple[float, int, bool]:
    """Key of a run's colour in the picture: MiB of input, executors, whether others were on its VMs."""
    return run.input_mib or 0.0, run.executors, run.shared > 0


def _errors(pairs: Sequence[Pair]) -> tuple[float, float, float]:
    return (
        statistics.fmean(_away(pair.duration, pair.real_duration) for pair in pairs),
        statistics.fmean(_away(pair.completion, pair.real_completion) for pair in pairs),
        statistics.fmean(_away(pair.cost, pair.real_cost) for pair in pairs),
    )


def _away(simulated: float, real: float) -> float:
    return abs(simulated - real) / real
