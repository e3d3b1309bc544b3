"""The pictures of the report on Islam 2022. `report.py` computes their data."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from agents.experiments.islam2022.runs import BETAS, LearningCurve
from agents.experiments.paired import Statistic

#: pattern -> policy -> metric -> statistic.
Found = Mapping[str, Mapping[str, Mapping[str, Statistic]]]

_LABELS = {
    "cost": "cost ($)",
    "average_duration": "average duration (s)",
    "average_completion": "average completion (s), waiting included",
    "good_placements": "jobs with a good placement",
}
_COLORS = {"reinforce": "C3", "dqn": "C1", "lookahead": "C0", "ilp": "C2"}


def draw_bars(found: Found, metric: str, path: Path) -> None:
    """A bar for each policy, a panel for each pattern; with spreads."""
    figure, panels = _panels(1, len(found), (11, 5))
    for axes, (pattern, policies) in zip(panels[0], found.items(), strict=True):
        means = [of[metric].mean for of in policies.values()]
        spreads = [of[metric].spread for of in policies.values()]
        colors = [_color(policy) for policy in policies]
        axes.barh(range(len(means)), means, xerr=spreads, color=colors, error_kw={"elinewidth": 0.8})
        axes.set_yticks(range(len(means)), list(policies), fontsize="small")
        axes.invert_yaxis()
        axes.set(title=pattern, xlabel=_LABELS[metric])
        axes.grid(alpha=0.3, axis="x")
    figure.savefig(path, dpi=100)


def draw_betas(found: Found, path: Path) -> None:
    """Cost and duration over beta, a panel for each algorithm that weighs them; both patterns."""
    names = ("dqn", "reinforce", "lookahead", "ilp")
    figure, panels = _panels(1, len(names), (14, 3.8))
    for axes, name in zip(panels[0], names, strict=True):
        other = axes.twinx()
        for pattern, style in zip(found, ("-", "--"), strict=True):
            points = [
                (beta, found[pattern][f"{name}:beta={beta}"]) for beta in BETAS if _has(found, name, beta)
            ]
            betas = [beta for beta, _ in points]
            axes.plot(betas, [of["cost"].mean for _, of in points], f"C3o{style}", label=f"cost, {pattern}")
            durations = [of["average_duration"].mean for _, of in points]
            other.plot(betas, durations, f"C0s{style}", label=f"duration, {pattern}")
        axes.set(title=name, xlabel="beta", ylabel=_LABELS["cost"])
        other.set_ylabel(_LABELS["average_duration"])
        if name == names[0]:
            handles = [*axes.get_lines(), *other.get_lines()]
            figure.legend(handles=handles, loc="outside lower center", ncols=4, fontsize="small")
    figure.savefig(path, dpi=100)


def draw_front(found: Found, path: Path) -> None:
    """Cost against completion and against duration, a point for each policy, a line over each one's betas."""
    figure, panels = _panels(2, len(found), (12, 9))
    for column, (pattern, policies) in enumerate(found.items()):
        for axes, metric in zip(panels[:, column], ("average_completion", "average_duration"), strict=True):
            families: dict[str, list[tuple[float, float]]] = {}
            for policy, of in policies.items():
                point = (of[metric].mean, of["cost"].mean)
                families.setdefault(policy.partition("beta=")[0], []).append(point)
                axes.annotate(
                    policy.replace("beta=", ""), point, fontsize=6, xytext=(3, 3), textcoords="offset points"
                )
            for family, points in families.items():
                axes.plot(*zip(*points, strict=True), "o-", color=_color(family), linewidth=0.8)
            axes.margins(x=0.15)  # for the names of the points at the right
            axes.set(title=pattern, xlabel=_LABELS[metric], ylabel=_LABELS["cost"])
            axes.grid(alpha=0.3)
    figure.savefig(path, dpi=100)


def draw_curves(curves: Sequence[LearningCurve], path: Path) -> None:
    """The mean return of an episode over training iterations, a panel for each run."""
    figure, panels = _panels(1, len(curves), (5.5 * len(curves), 4))
    for axes, curve in zip(panels[0], curves, strict=True):
        axes.plot(curve.iterations, curve.returns, color=_color(curve.algorithm))
        axes.axhline(0, color="black", linewidth=0.6)
        axes.set_yscale("symlog", linthresh=100)
        axes.set(
            title=f"{curve.algorithm}, {curve.pattern}: {curve.setup}",
            xlabel="iterations",
            ylabel="return of an episode",
        )
        axes.title.set_fontsize("small")
        axes.grid(alpha=0.3)
    figure.savefig(path, dpi=100)


def _panels(rows: int, columns: int, size: tuple[float, float]) -> tuple[Any, Any]:
    from matplotlib.figure import Figure  # a second to import, and only pictures need it

    figure = Figure(figsize=size, layout="constrained")
    return figure, figure.subplots(rows, columns, squeeze=False)


def _color(policy: str) -> str:
    return _COLORS.get(policy.partition(":")[0], "C7")


def _has(found: Found, name: str, beta: float) -> bool:
    return all(f"{name}:beta={beta}" in policies for policies in found.values())
