"""Shapes chosen for each job of a table from two runs, beside rules that need no model.

A job's own runs are never seen: both runs are of another job of its type (another size, other arguments),
and the prior is of the other types alone.
"""

import math
import statistics
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from profiles.shapes.belief import by_job, by_type
from profiles.shapes.choice import rank
from profiles.shapes.errors import KnownTypes
from profiles.shapes.runs import JobShape, ShapeError, ShapeRun

#: Types on which constants were chosen; the others were not used for that.
CHOSEN_ON = ("grep", "groupbycount", "kmeans", "c3o grep")
#: Pairs of runs drawn for a job where there are more.
_PAIRS = 45

Table = Sequence[ShapeRun]
Runs = tuple[ShapeRun, ShapeRun]


@dataclass(frozen=True, slots=True)
class JobChoice:
    """A job's choice by one pair of runs, and its cost beside the cheapest shape's.

    `within` tells whether the true seconds on the chosen shape were in the interval of 80 %.
    """

    type: str
    job: str
    tried: tuple[JobShape, JobShape]
    chosen: JobShape
    cost: float
    within: bool


def from_two_runs(
    table: Table, others: Table = (), pairs: Callable[[Table], list[Runs]] | None = None
) -> list[JobChoice]:
    """Choices for every job of the table by all pairs of runs of each other size, at most 45 a job.

    `others` are runs of more types, for the prior; `pairs` names other pairs among the runs of one job.
    """
    types, found = by_type(table), []
    for name, runs in types.items():
        known = known_without(name, types, others)
        jobs = by_job(runs)
        for job, own in jobs.items():
            costs = costs_of(own)
            seconds = {run.shape: run.seconds for run in own}
            for tried in _pairs(jobs, job, pairs or _all_pairs):
                deviations = known.deviations(tried)
                best = rank(known.believe(tried), list(costs), own[0].input_gib, deviations=deviations)[0]
                within = best.least <= seconds[best.shape] <= best.most
                shapes = (tried[0].shape, tried[1].shape)
                found.append(JobChoice(name, job, shapes, best.shape, costs[best.shape], within))
    return found


def known_without(name: str, types: Mapping[str, Table], elsewhere: Table) -> KnownTypes:
    """All types but one, and those measured elsewhere."""
    here = [runs for other, runs in types.items() if other != name]
    return KnownTypes(here, list(by_type(elsewhere).values()))


def costs_of(runs: Table) -> dict[JobShape, float]:
    """Cost of a job on each shape, beside the cheapest."""
    dollars = {run.shape: run.shape.dollars(run.seconds) for run in runs}
    least = min(dollars.values())
    return {shape: cost / least for shape, cost in dollars.items()}


def simple_rules(table: Table) -> Mapping[str, dict[str, float]]:
    """Cost of each job by each rule without a model, beside its cheapest shape.

    The nearest job is left out where a job has none on its shapes.
    """
    jobs, types = by_job(table), {run.job: run.type for run in table}
    costs = {job: costs_of(runs) for job, runs in jobs.items()}
    return {
        "random": {job: statistics.fmean(of.values()) for job, of in costs.items()},
        "best fixed, type left out": {
            job: costs[job][_best_fixed([costs[o] for o in jobs if types[o] != types[job]], costs[job])]
            for job in jobs
        },
        "fastest": {
            job: costs[job][min(runs, key=lambda run: run.seconds).shape] for job, runs in jobs.items()
        },
        "cheapest at the nearest job of the type": {
            job: costs[job][shape]
            for job in jobs
            if (shape := _of_nearest(job, jobs, costs, types)) is not None
        },
    }


def fewest_and_most(runs: Table) -> list[Runs]:
    """The runs with fewest and with most executors of one VM type."""
    of_vm = {vm: [run for run in runs if run.shape.vm == vm] for vm in sorted({run.shape.vm for run in runs})}
    ends = [sorted(of, key=lambda run: run.shape.executors) for of in of_vm.values() if len(of) > 1]
    return [(of[0], of[-1]) for of in ends]


def on_shapes(first: str, second: str) -> Callable[[Table], list[Runs]]:
    """Pairs of runs on the two shapes of these texts."""
    return lambda runs: [
        pair for pair in _all_pairs(runs) if (str(pair[0].shape), str(pair[1].shape)) == (first, second)
    ]


def best_pair(choices: Sequence[JobChoice]) -> tuple[str, str]:
    """The two shapes with runs that led to the least mean cost; of equals the first by name.

    ShapeError without a choice.
    """
    if not choices:
        raise ShapeError(f"no runs of any of {', '.join(CHOSEN_ON)}: the shapes to try are chosen on these")
    costs: dict[tuple[str, str], list[float]] = {}
    for choice in choices:
        costs.setdefault((str(choice.tried[0]), str(choice.tried[1])), []).append(choice.cost)
    return min(sorted(costs), key=lambda pair: round(statistics.fmean(costs[pair]), 6))


def _all_pairs(runs: Table) -> list[Runs]:
    return list(combinations(runs, 2))


def _pairs(jobs: Mapping[str, Table], job: str, pairs: Callable[[Table], list[Runs]]) -> list[Runs]:
    found = [pair for other, runs in jobs.items() if other != job for pair in pairs(runs)]
    # In an order that has nothing to do with shapes, the same everywhere.
    found.sort(key=lambda of: zlib.crc32(f"{job} {of[0].job} {of[0].shape} {of[1].shape}".encode()))
    return found[:_PAIRS]


def _best_fixed(others: Sequence[Mapping[JobShape, float]], own: Mapping[JobShape, float]) -> JobShape:
    """The job's shape that costs the others least on average, among those most of them were measured on."""
    known = {shape: [of[shape] for of in others if shape in of] for shape in own}
    most = max(map(len, known.values()))
    return min(
        own, key=lambda shape: statistics.fmean(known[shape]) if len(known[shape]) == most > 0 else math.inf
    )


def _of_nearest(
    job: str,
    jobs: Mapping[str, Table],
    costs: Mapping[str, Mapping[JobShape, float]],
    types: Mapping[str, str],
) -> JobShape | None:
    size = jobs[job][0].input_gib
    others = [other for other in jobs if other != job and types[other] == types[job]]
    others = [other for other in others if set(costs[other]) & set(costs[job])]
    if not others:
        return None
    nearest = min(others, key=lambda other: abs(math.log(jobs[other][0].input_gib / size)))
    return min(
        (shape for shape in costs[nearest] if shape in costs[job]), key=lambda shape: costs[nearest][shape]
    )
