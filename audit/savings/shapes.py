"""The shape on which an application would cost least, with its error, by the model of `profiles/shapes`."""

import math
import re
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from audit.prices import Prices
from audit.savings.job_runs import JobRun
from audit.savings.paid_types import paid_types
from audit.savings.types import JobType
from audit.shape_runs import shape_run
from profiles.shapes.advice import ENOUGH, open_shapes
from profiles.shapes.belief import believe
from profiles.shapes.candidates import OpenShape, VmKind
from profiles.shapes.choice import RankedShape, rank
from profiles.shapes.errors import KnownTypes
from profiles.shapes.runs import JobShape, ShapeError, ShapeRun
from profiles.shapes.sources import distinct, sized

#: Types, the dearest, that are looked at, and runs of each, the newest. Chosen: what a second each allows.
_TYPES, _RUNS = 10, 32
#: A shape with which an application takes more than so many times as long is not taken.
_LONGEST = 1.5
#: Families of EC2 with little, middle and much memory for each core; those of a generation have equal cores.
_FAMILIES, _FAMILY = "cmr", re.compile(r"([cmr])(\d\w*\.\w+)")
#: Cores, and GiB for each, of the VMs that are thought of where no type is known.
_CORES, _RATIOS = (4.0, 16.0), (2, 4, 8)
#: VMs of each type that there are to choose from: as many as executors of the largest shape.
_VMS = 256


@dataclass(frozen=True, slots=True)
class BetterShape:
    """One shape for all runs of a type that kept their executors."""

    ranked: RankedShape
    #: Those runs, and the dollars that each would cost beside what it cost.
    runs: tuple[JobRun, ...]
    ratios: tuple[float, ...]
    #: Factor to either end of an interval of 80 % of its seconds.
    factor: float
    #: How many times longer the runs would take on average.
    slower: float
    #: Median relative error of runs, each predicted by the others; None with two.
    error: float | None


def better_shapes(types: Mapping[str, JobType], prices: Prices) -> dict[str, BetterShape]:
    """The cheapest shape of each type with runs on at least two shapes, by type.

    Only the ten dearest types are looked at. The types of the logs are each other's prior.
    """
    dearest = [_static(each) for each in list(types.values())[:_TYPES]]
    own = {each.name: each for each in dearest if each is not None}
    found = {}
    for name, each in own.items():
        known = KnownTypes([other.shapes for other in own.values() if other.name != name])
        try:
            better = _better(each, known, prices)
        except ShapeError:  # no VM with a price has room for it
            continue
        if better is not None:
            found[name] = better
    return found


@dataclass(frozen=True, slots=True)
class _StaticType:
    """Runs of a type with executors that did not change, and the same runs on their shapes."""

    name: str
    runs: tuple[JobRun, ...]
    shapes: tuple[ShapeRun, ...]


def _static(of: JobType) -> _StaticType | None:
    """Its newest runs; None where they were on one shape alone, which tells no ratio."""
    newest = sorted(of.runs, key=lambda run: run.application.started_at)[-_RUNS:]
    pairs = [(run, shape) for run in newest if not run.gpus and (shape := shape_run(run.application))]
    shapes = sized(shape for _, shape in pairs)
    if distinct(shapes) < ENOUGH:
        return None
    return _StaticType(of.name, tuple(run for run, _ in pairs), tuple(shapes))


def _better(own: _StaticType, known: KnownTypes, prices: Prices) -> BetterShape | None:
    belief, deviations = known.believe(own.shapes), known.deviations(own.shapes)
    gib = statistics.median_high(run.input_gib for run in own.shapes)
    paid = [
        JobShape(
            "", of.shape.executors, of.shape.cores, of.shape.memory_gib, of.shape.executors * run.per_hour
        )
        for run, of in zip(own.runs, own.shapes, strict=True)
    ]
    had = {each.shape: each for each in rank(belief, list(dict.fromkeys(paid)), gib, deviations=deviations)}
    usual = statistics.fmean(had[shape].seconds for shape in paid)
    shapes = open_shapes(_kinds(own.runs, prices), OpenShape(), own.shapes)
    ranked = rank(belief, shapes, gib, deviations=deviations)
    best = next((each for each in ranked if each.seconds <= _LONGEST * usual), None)
    if best is None:
        return None
    ratios = tuple(best.dollars / had[shape].dollars for shape in paid)
    return BetterShape(
        best, own.runs, ratios, best.most / best.seconds, best.seconds / usual, _left_out(own, known)
    )


def _left_out(own: _StaticType, known: KnownTypes) -> float | None:
    if len(own.shapes) < ENOUGH + 1:
        return None
    errors = []
    for number, run in enumerate(own.shapes):
        rest = own.shapes[:number] + own.shapes[number + 1 :]
        mean, _ = believe(rest, known.prior).log_seconds(run.shape, run.input_gib)
        errors.append(abs(math.exp(mean) / run.seconds - 1))
    return statistics.median(errors)


def _kinds(runs: Sequence[JobRun], prices: Prices) -> list[VmKind]:
    """VM types to choose from: those of the runs, and the other families of their generation.

    These have the list's prices, changed as that of the type that was paid for is.
    """
    table, known = prices.table, paid_types(runs, prices)
    for name, paid in list(known.items()):
        family, listed = _FAMILY.fullmatch(name), table.type_named(name)
        if family is None or listed is None or not listed.price_per_hour:
            continue
        for other in (f"{each}{family[2]}" for each in _FAMILIES):
            if (vm := table.type_named(other)) is not None:
                price = vm.price_per_hour * paid.price_per_hour / listed.price_per_hour
                known.setdefault(other, vm.model_copy(update={"price_per_hour": price}))
    kinds = [
        VmKind(name, _VMS, vm.cpus, vm.memory / 1024, vm.price_per_hour)
        for name, vm in sorted(known.items())
        if vm.price_per_hour > 0
    ]
    if kinds or table.per_core_hour is None:
        return kinds
    return [
        VmKind(
            f"{cores:g}-core, {cores * ratio:g} GiB",
            _VMS,
            cores,
            cores * ratio,
            cores * (table.per_core_hour + ratio * table.per_gib_hour),
        )
        for cores in _CORES
        for ratio in _RATIOS
    ]
