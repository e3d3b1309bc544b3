"""Accuracy of a type's curve on sizes outside of its fit, and the effect of half the cores.

`summary` fits a curve, `curve` defines its meaning.
"""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from profiles.curve import Curve
from profiles.runs import MeasuredRun, ProfileError
from profiles.summary import fitted_curve, preferred_runs

#: Least number of core counts that are left when one is held out, for a law with two unknowns.
_LEFT = 2


@dataclass(frozen=True, slots=True)
class MeasuredSize:
    """Runs with so many executors of so many cpus each: mean seconds and their standard deviation.

    `fitted` are the seconds by the type's curve, `held_out` those by the curve of the other sizes;
    None where these have too few numbers of cores.
    """

    executors: int
    cpus: float
    runs: int
    seconds: float
    spread: float
    fitted: float
    held_out: float | None

    @property
    def cores(self) -> float:
        """Cpus of all executors."""
        return self.executors * self.cpus


@dataclass(frozen=True, slots=True)
class HalvingCheck:
    """Effect of half the cores: half the executors, or half the cpus of each.

    `longer` and `saved` are shares of the seconds and core-seconds on all of them; `by_curve` and
    `work_longer` are the curve's predictions of `longer`, and of it without start-up and warming.
    """

    executors: int
    cpus: float
    half_executors: int
    half_cpus: float
    longer: float
    by_curve: float
    work_longer: float

    @property
    def saved(self) -> float:
        """Core-seconds that are saved, as a share."""
        return 1 - (1 + self.longer) / 2


@dataclass(frozen=True, slots=True)
class MeasuredCurve:
    """Measurements of a type, by size, and its curve's predictions; start-up is in seconds."""

    type: str
    curve: Curve
    sizes: tuple[MeasuredSize, ...]
    halvings: tuple[HalvingCheck, ...]

    @property
    def law(self) -> str:
        """Name of the law that erred least."""
        law = "Amdahl" if self.curve.power == 1 else "power"
        return f"{law}, warming" if self.curve.warming else law


def measured_curves(runs: Sequence[MeasuredRun]) -> Mapping[str, MeasuredCurve]:
    """Curves by type, in the order of their names; ProfileError when no run has finished."""
    by_type: dict[str, list[MeasuredRun]] = {}
    for run in runs:
        if run.state == "finished":
            by_type.setdefault(run.type, []).append(run)
    if not by_type:
        raise ProfileError("no run has finished: there is no curve to show")
    return {name: _measured(name, by_type[name]) for name in sorted(by_type)}


def _measured(name: str, runs: Sequence[MeasuredRun]) -> MeasuredCurve:
    good, startup = preferred_runs(runs)
    curve = fitted_curve(good, startup)
    shapes = sorted({(run.cpus * run.executors, run.executors, run.cpus) for run in good})
    sizes = tuple(_size(good, startup, curve, executors, cpus) for _, executors, cpus in shapes)
    return MeasuredCurve(name, curve, sizes, tuple(_halvings(sizes, curve)))


def _size(
    runs: Sequence[MeasuredRun], startup: float, curve: Curve, executors: int, cpus: float
) -> MeasuredSize:
    held = [run.held for run in runs if (run.executors, run.cpus) == (executors, cpus)]
    others = [run for run in runs if (run.executors, run.cpus) != (executors, cpus)]
    held_out = None
    if len({run.executors * run.cpus for run in others}) >= _LEFT:
        held_out = fitted_curve(others, startup).seconds_on(executors * cpus, 1.0, cpus)
    return MeasuredSize(
        executors,
        cpus,
        len(held),
        statistics.fmean(held),
        statistics.stdev(held) if len(held) > 1 else 0.0,
        curve.seconds_on(executors * cpus, 1.0, cpus),
        held_out,
    )


def _halvings(sizes: Sequence[MeasuredSize], curve: Curve) -> list[HalvingCheck]:
    pairs = [(whole, half) for whole in sizes for half in sizes if half.cores == whole.cores / 2]
    pairs = [(whole, half) for whole, half in pairs if _one_differs(whole, half)]
    bare = curve._replace(startup=0.0, warming=0.0)
    return [
        HalvingCheck(
            whole.executors,
            whole.cpus,
            half.executors,
            half.cpus,
            longer=half.seconds / whole.seconds - 1,
            by_curve=half.fitted / whole.fitted - 1,
            work_longer=bare.seconds_on(half.cores, 1.0, half.cpus)
            / bare.seconds_on(whole.cores, 1.0, whole.cpus)
            - 1,
        )
        for whole, half in pairs
    ]


def _one_differs(whole: MeasuredSize, half: MeasuredSize) -> bool:
    return whole.executors == half.executors or whole.cpus == half.cpus
