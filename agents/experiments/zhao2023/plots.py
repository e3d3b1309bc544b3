"""Pictures of OgaSched's bench and of its report; other modules compute their data."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from agents.experiments.zhao2023.runs import CellOutcome, Regret
from agents.oga.bench import Summary

#: A policy's line is the same in every picture.
_STYLE = {
    "oga": ("C0", "-"),
    "oga-reactive": ("C0", "--"),
    "oga-conserving": ("C3", "-"),
    "drf": ("C1", "-"),
    "fairness": ("C2", "-"),
    "binpacking": ("C4", "-"),
    "spreading": ("C5", "--"),
    "stationary": ("C7", "-"),
    "optimum": ("k", ":"),
}
_DPI = 100


def draw_rewards(summaries: Sequence[Summary], path: Path) -> None:
    """Average reward up to each slot, and cumulative reward, of runs as they come from `compare`."""
    curves = {}
    for summary in summaries:
        mean = np.mean([run.running_average for run in summary.runs], axis=0)
        kept = np.unique(np.linspace(0, mean.size - 1, 500).astype(np.int64))
        curves[summary.policy] = (kept + 1, mean[kept])
    _draw_curves(curves, summaries[0].runs[0].environment, path)


def draw_sweep(over: str, found: Sequence[tuple[str, Sequence[Summary]]], path: Path) -> None:
    """Average reward of every policy against the values of a setting."""
    averages = {
        summary.policy: [(s.mean, s.spread) for _, row in found for s in row if s.policy == summary.policy]
        for summary in found[0][1]
    }
    draw_averages({over: ([value for value, _ in found], averages)}, path)


def draw_outcomes(outcomes: Mapping[str, Sequence[CellOutcome]], title: str, path: Path) -> None:
    """Average reward up to each slot, cumulative reward, and ratios to partners, as in Fig. 2 and Fig. 5."""
    curves = {
        name: (np.array(found[0].slots), np.mean([outcome.curve for outcome in found], axis=0))
        for name, found in outcomes.items()
    }
    _draw_curves(curves, title, path)


def draw_averages(
    panels: Mapping[str, tuple[Sequence[str], Mapping[str, Sequence[tuple[float, float]]]]], path: Path
) -> None:
    """A panel for each setting: its values, and for each policy mean and spread at each value."""
    from matplotlib.figure import Figure  # a second to import, and only pictures need it

    figure = Figure(figsize=(max(6.0, 4.6 * len(panels)), 4.2), layout="constrained")
    axes = np.atleast_1d(figure.subplots(1, len(panels)))
    for axis, (what, (values, averages)) in zip(axes, panels.items(), strict=True):
        for name, cells in averages.items():
            colour, line = _STYLE.get(name, ("k", "-"))
            means, spreads = zip(*cells, strict=True)
            axis.errorbar(
                range(len(values)), means, yerr=spreads, color=colour, linestyle=line, marker=".", label=name
            )
        axis.set_xticks(range(len(values)), values)
        axis.set(xlabel=what, ylabel="average reward")
        axis.grid(alpha=0.3)
    axes[0].legend(fontsize="small")
    figure.savefig(path, dpi=_DPI)


def draw_parts(values: Sequence[str], parts: Mapping[str, Sequence[tuple[float, float]]], path: Path) -> None:
    """Computation gain and overhead of every policy against contention, as in Fig. 6."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9.2, 4.2), layout="constrained")
    gain, overhead = figure.subplots(1, 2)
    for name, cells in parts.items():
        colour, line = _STYLE[name]
        for axis, part in ((gain, 0), (overhead, 1)):
            axis.plot([cell[part] for cell in cells], color=colour, linestyle=line, marker=".", label=name)
    for axis, what in ((gain, "computation gain"), (overhead, "communication overhead")):
        axis.set_xticks(range(len(values)), values)
        axis.set(xlabel="contention level", ylabel=f"average {what} of a slot")
        axis.grid(alpha=0.3)
    gain.legend(fontsize="small")
    figure.savefig(path, dpi=_DPI)


def draw_regret(regrets: Sequence[Regret], path: Path) -> None:
    """Regret over T, and Theorem 1's bound, both axes logarithmic."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6, 4.2), layout="constrained")
    axis = figure.subplots()
    for number, regret in enumerate(regrets):
        label = ("measured", "Theorem 1") if number == 0 else (None, None)
        axis.loglog(regret.slots, regret.regret, "C0.-", label=label[0])
        axis.loglog(regret.slots, regret.bound, "k:", label=label[1])
    axis.set(xlabel="T", ylabel="regret")
    axis.grid(alpha=0.3, which="both")
    axis.legend(fontsize="small")
    figure.savefig(path, dpi=_DPI)


def _draw_curves(
    curves: Mapping[
        str,
        tuple["np.ndarray[tuple[int], np.dtype[np.int64]]", "np.ndarray[tuple[int], np.dtype[np.float64]]"],
    ],
    title: str,
    path: Path,
) -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(13.5, 4.2), layout="constrained")
    average, cumulative, ratio = figure.subplots(1, 3)
    best = curves.get("oga-conserving")
    for name, (slots, mean) in curves.items():
        colour, line = _STYLE[name]
        average.plot(slots, mean, color=colour, linestyle=line, label=name)
        cumulative.plot(slots, mean * slots, color=colour, linestyle=line)
        if best is not None and name != "oga-conserving" and (mean > 0).all():
            ratio.plot(slots, best[1] / mean, color=colour, linestyle=line)
    average.set(xlabel="slot", ylabel="average reward until then")
    cumulative.set(xlabel="slot", ylabel="cumulative reward", title=title)
    ratio.set(xlabel="slot", ylabel="oga-conserving / policy")
    for axis in (average, cumulative, ratio):
        axis.grid(alpha=0.3)
    average.legend(fontsize="small")
    figure.savefig(path, dpi=_DPI)
