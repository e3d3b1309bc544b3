"""The report on shapes chosen from two runs: shapes.md."""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from agents.experiments.shapes.comparison import (
    CHOSEN_ON,
    JobChoice,
    best_pair,
    fewest_and_most,
    from_two_runs,
    on_shapes,
    simple_rules,
)
from agents.experiments.shapes.coverage import coverage_table
from agents.experiments.shapes.tables import read_c3o, read_dataproc
from profiles.shapes.runs import ShapeError, ShapeRun


def report(folder: Path, data: Path) -> Path:
    """Choose shapes for the tables in `data`, write shapes.md into the folder; returns the path.

    ShapeError where a table is missing or cannot be used, OSError where the report cannot be written.
    """
    dataproc = read_dataproc(data / "dataproc-180.csv")
    paths = sorted(data.glob("c3o-*.tsv"))
    if not paths:
        raise ShapeError(
            f"{data}: has no c3o-*.tsv; should be a folder with the tables named in docs/shapes.md"
        )
    # Both tables have a grep, of other programs.
    c3o = [replace(run, type=f"c3o {run.type}") for path in paths for run in read_c3o(path)]
    of_dataproc, of_c3o = from_two_runs(dataproc, c3o), from_two_runs(c3o, dataproc)
    asked = best_pair([choice for choice in of_dataproc if choice.type in CHOSEN_ON])
    on_asked = from_two_runs(dataproc, c3o, on_shapes(*asked))
    at_ends = from_two_runs(c3o, dataproc, fewest_and_most)
    parts = [
        _HEAD.format(dataproc=len(dataproc), c3o=len(c3o)),
        "## dataproc-180\n",
        _table(
            dataproc,
            {"any two runs": of_dataproc, f"runs on {asked[0]} and {asked[1]}": on_asked},
            1.05,
            1.20,
        ),
        "## C3O\n",
        _table(
            c3o,
            {"any two runs of one job": of_c3o, "runs with fewest and with most executors": at_ends},
            1.10,
            1.35,
        ),
        "## Intervals\n",
        _INTERVALS,
        coverage_table({"dataproc-180": (dataproc, c3o), "C3O": (c3o, dataproc)}),
        "## By job, dataproc-180\n",
        _by_job(of_dataproc, on_asked),
        _LIMITS,
    ]
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "shapes.md"
    path.write_text("\n".join(parts), encoding="utf-8")
    return path


def _table(
    table: Sequence[ShapeRun], choices: Mapping[str, Sequence[JobChoice]], mean: float, worst: float
) -> str:
    lines = [
        "| shape | jobs | mean | worst job | worst choice | true seconds within 80 % |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    for rule, costs in simple_rules(table).items():
        most = max(costs.values())
        cells = (
            rule,
            len(costs),
            f"{statistics.fmean(costs.values()):.3f}",
            f"{most:.2f}",
            f"{most:.2f}",
            "",
        )
        lines.append("| " + " | ".join(map(str, cells)) + " |")
    for name, found in choices.items():
        lines.append(_row(f"model, {name}", found))
        held = [choice for choice in found if choice.type not in CHOSEN_ON]
        lines.append(_row(f"model, {name}: types no constant was chosen on", held))
    lines.append(f"| aim | | {mean:.3f} | {worst:.2f} | | 80 % |")
    return "\n".join(lines) + "\n"


def _row(name: str, found: Sequence[JobChoice]) -> str:
    means = job_means(found)
    if not means:
        return f"| {name} | 0 | | | | |"
    within = statistics.fmean(choice.within for choice in found)
    return (
        f"| {name} | {len(means)} | {statistics.fmean(means.values()):.3f} | {max(means.values()):.2f} "
        f"| {max(choice.cost for choice in found):.2f} | {within:.0%} |"
    )


def job_means(found: Sequence[JobChoice]) -> dict[str, float]:
    """Mean cost of each job, over its pairs of runs."""
    costs: dict[str, list[float]] = {}
    for choice in found:
        costs.setdefault(choice.job, []).append(choice.cost)
    return {job: statistics.fmean(of) for job, of in costs.items()}


def _by_job(of_all: Sequence[JobChoice], on_asked: Sequence[JobChoice]) -> str:
    lines = [
        "| job (bytes) | any two runs, mean | worst | asked shapes: chosen | cost |",
        "|---|---:|---:|---|---:|",
    ]
    means = job_means(of_all)
    for choice in on_asked:
        worst = max(each.cost for each in of_all if each.job == choice.job)
        lines.append(
            f"| {choice.job} | {means[choice.job]:.2f} | {worst:.2f} | {choice.chosen} | {choice.cost:.2f} |"
        )
    return "\n".join(lines) + "\n"


_HEAD = """# Shapes from two runs

Made by `stoker reproduce shapes --data FOLDER`; [shapes.md](../shapes.md) names the tables and explains the
model.

For each job the model chooses a shape (VM type and number of VMs, one executor each); the table gives its
cost divided by that of the job's cheapest shape, both as measured by others on real Spark: {dataproc} runs at
Google (n2 prices), {c3o} at AWS (medians of repetitions, prices on demand). The model sees two runs of
another job of the type (another size or other arguments) and the runs of other types, never a run of the job
itself. *Any two runs* are pairs of runs of one other job, up to 45 a job; *worst job* is the largest mean of
a job over its pairs, *worst choice* the largest of a single pair. *Nearest job* sees all runs of the job of
the type with the nearest input, *fastest* all of the job's own.

The model's constants, and the two shapes of a *runs on* row, are those with the lowest mean on grep,
groupbycount, kmeans and c3o grep; other types have rows of their own. The form of the law was derived from
all of dataproc-180, and the bound of the working set was widened after a look at c3o sgd: only types outside
these tables are a clean test.
"""
_INTERVALS = """An interval of 80 % reaches as many standard deviations of the belief as 80 % of the errors
did that the model made of the other types of the same table, seen and predicted in the same way: none of the
type itself. *Own doubt alone* is the share of runs within 1.28 standard deviations, without such errors;
*factor* the upper end beside the middle. Each type counts alike; *least* and *most* are those of one type.
Runs are drawn from one job, 24 times a type, and predicted are runs of the type's other jobs, or the rest of
the same job.
"""
_LIMITS = """## Limits

* Two runs determine one ratio, since the size of the work is unknown. Where both runs have enough memory,
  they do not show where memory runs short; two shapes with the same cores, one with much and one with little
  memory, show most.
* 4 x 32x32 is the cheapest for kmeans of 109 GB, and costs 19 times the cheapest for twice the input. No run
  of the larger job shows that the smaller one fits, so the model chooses 16 x 4x16, for 1.24.
* c3o sgd runs short of memory in the same way on two VMs with its larger inputs. Runs of the smaller ones do
  not show it.
* The arguments of a job (iterations, share of matches) are not in the model. They change its work per GiB and
  its serial share. How much is a habit of its users, which the errors of their other types show.
* Errors of a few other types are a rough measure of those of one type: intervals hold for types on average.
  Those of a type that runs short of memory abruptly (kmeans, sort) are too narrow until its runs show that.
"""
