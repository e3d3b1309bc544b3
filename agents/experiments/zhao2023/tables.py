"""Tables of the report on OgaSched: outcomes of seeds as means and spreads, policies by values."""

from collections.abc import Sequence

import numpy as np

from agents.experiments.paired import PairedDifference, Statistic, difference
from agents.experiments.zhao2023.runs import POLICIES, CellOutcome, Results

#: By value of a setting, then by policy: an outcome for each seed.
Found = dict[str, dict[str, list[CellOutcome]]]


def by_experiment(results: Results) -> dict[str, Found]:
    """Results of the cells, by experiment."""
    found: dict[str, Found] = {}
    for cell, outcomes in results.items():
        found.setdefault(cell.experiment, {})[cell.value] = outcomes
    return found


def mean(outcomes: Sequence[CellOutcome]) -> float:
    """The mean over seeds of the average reward."""
    return float(np.mean([outcome.average for outcome in outcomes]))


def spread(outcomes: Sequence[CellOutcome]) -> float:
    """The standard deviation over seeds of the average reward."""
    return float(np.std([outcome.average for outcome in outcomes], ddof=1))


def of_ceiling(outcomes: Sequence[CellOutcome]) -> float:
    """The share of the per-slot optimum that was earned, mean over seeds."""
    return float(np.mean([outcome.of_ceiling for outcome in outcomes]))


def gain(own: Sequence[CellOutcome], other: Sequence[CellOutcome]) -> PairedDifference:
    """PairedDifference of average rewards, seed by seed, as a share of the other's, which may be negative."""
    pairs = [(one.average, two.average) for one, two in zip(own, other, strict=True)]
    shares = Statistic.of([1.0 + (one - two) / abs(two) if two else 1.0 for one, two in pairs])
    return difference(shares, Statistic.of([1.0] * len(pairs)))


def lead(found: dict[str, list[CellOutcome]], name: str, partner: str) -> str:
    """Share by which a policy earns more than a partner; both earnings where the partner lost."""
    own, other = mean(found[name]), mean(found[partner])
    return str(gain(found[name], found[partner])) if other > 0 else f"({own:.0f}; partner {other:.0f})"


def table(columns: Sequence[str], rows: Sequence[Sequence[str]], *, right: bool = True) -> str:
    """A table in Markdown, numbers to the right."""
    rule = "---:|" if right else "---|"
    head = "| " + " | ".join(columns) + " |\n|---|" + rule * (len(columns) - 1) + "\n"
    return head + "".join("| " + " | ".join(row) + " |\n" for row in rows)


def averages(found: Found, what: str, names: Sequence[str] = POLICIES) -> str:
    """Policies by values: mean ± spread, the best in bold."""
    best = {value: max(mean(of[name]) for name in names) for value, of in found.items()}
    rows = []
    for name in names:
        row = [f"`{name}`"]
        for value, of in found.items():
            reward = mean(of[name])
            cell = f"{reward:.1f} ± {spread(of[name]):.1f}"
            row.append(f"**{cell}**" if reward >= best[value] else cell)
        rows.append(row)
    return table((what, *found), rows)


def panel(
    found: Found, names: Sequence[str] = POLICIES
) -> tuple[list[str], dict[str, list[tuple[float, float]]]]:
    """Data for `draw_averages`: values, and for each policy mean and spread at each."""
    cells = {name: [(mean(of[name]), spread(of[name])) for of in found.values()] for name in names}
    return list(found), cells
