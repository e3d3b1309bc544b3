"""How often runs lie within the intervals that the model gave for them, by the number of runs it had seen."""

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from agents.experiments.shapes.comparison import Table, known_without
from profiles.shapes.belief import by_type
from profiles.shapes.choice import TENTH
from profiles.shapes.errors import drawn, error_of

#: Numbers of runs that are seen.
SEEN = (1, 2, 4, 6)
#: Times that they are drawn of each type.
_DRAWS = 24


@dataclass(frozen=True, slots=True)
class TypeCoverage:
    """Shares of a type's runs within their intervals, as the belief alone has them and as errors widen them.

    `factor` is the median of the upper end beside the middle of an interval.
    """

    type: str
    alone: float
    within: float
    factor: float


def coverage(table: Table, others: Table, seen: int, *, same: bool) -> list[TypeCoverage]:
    """Coverage of each type, its runs predicted from so many of one job; types with too few are left out.

    `same` predicts left-out runs of that job, else runs of the type's other jobs. `others` are runs of more
    types, for the prior.
    """
    types, found = by_type(table), []
    for name, runs in types.items():
        known = known_without(name, types, others)
        errors, reaches, factors = list[float](), list[float](), list[float]()
        for own, unseen in drawn(runs, seen, _DRAWS, same=same):
            belief, deviations = known.believe(own), known.deviations(own)
            for run in unseen:
                errors.append(error_of(belief, run))
                reaches.append(deviations)
                factors.append(math.exp(deviations * belief.log_seconds(run.shape, run.input_gib)[1]))
        if errors:
            found.append(
                TypeCoverage(
                    name,
                    statistics.fmean(error <= TENTH for error in errors),
                    statistics.fmean(error <= reach for error, reach in zip(errors, reaches, strict=True)),
                    statistics.median(factors),
                )
            )
    return found


def coverage_table(tables: Mapping[str, tuple[Table, Table]]) -> str:
    """Rows by table, predicted job and number of runs seen, in Markdown; each type counts alike."""
    lines = [
        "| table | predicted | runs seen | own doubt alone | within 80 % | least | most | factor |",
        "|---|---|---:|---:|---:|---:|---:|---:|",
    ]
    for name, (table, others) in tables.items():
        for same, words in ((False, "another job"), (True, "the same job")):
            for seen in SEEN:
                if found := coverage(table, others, seen, same=same):
                    lines.append(f"| {name} | {words} | {seen} | {_cells(found)} |")
    return "\n".join(lines) + "\n"


def _cells(found: Sequence[TypeCoverage]) -> str:
    shares = [each.within for each in found]
    cells = (
        statistics.fmean(each.alone for each in found),
        statistics.fmean(shares),
        min(shares),
        max(shares),
    )
    factor = statistics.fmean(each.factor for each in found)
    return " | ".join([*(f"{share:.0%}" for share in cells), f"{factor:.2f}"])
