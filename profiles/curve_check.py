"""How well a type's curve tells what it takes on sizes that it was not fitted to, and what half the cores do.

How a curve is fitted is in `summary`, what it means in `curve`.
"""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from profiles.curve import Curve
from profiles.runs import MeasuredRun, ProfileError
from profiles.summary import fitted_curve, preferred_runs

#: As many numbers of cores have to be left when one is held out, for a law with two unknowns.
_LEFT = 2


@dataclass(frozen=True, slots=True)
class MeasuredSize:
    """Runs with so many executors of so many cpus each: mean seconds and their standard deviation.

    `fitted` are the seconds by the type's curve, `held_out` those by the curve of the other numbers of cores;
    None where these are too few.
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
class Halving:
    """What half the cores did: from so many to half of them, mean of the sizes with that many.

    `longer` and `saved` are shares of the seconds and core-seconds on all of them; `by_curve` and
    `work_longer` are what the curve makes of `longer`, and of it without the start-up.
    """

    cores: float
    longer: float
    by_curve: float
    work_longer: float

    @property
    def saved(self) -> float:
        """Core-seconds that are saved, as a share."""
        return 1 - (1 + self.longer) / 2


@dataclass(frozen=True, slots=True)
class MeasuredCurve:
    """What was measured of a type, by size, and what its curve says of it; start-up is in seconds."""

    type: str
    curve: Curve
    sizes: tuple[MeasuredSize, ...]
    halvings: tuple[Halving, ...]

    @property
    def law(self) -> str:
        """Which of the two laws erred less."""
        return "Amdahl" if self.curve.power == 1 else "power"


def measured_curves(runs: Sequence[MeasuredRun]) -> Mapping[str, MeasuredCurve]:
    """By type, in the order of their names; ProfileError when no run has finished."""
    by_type: dict[str, list[MeasuredRun]] = {}
    for run in runs:
        if run.state == "finished":
            by_type.setdefault(run.type, []).append(run)
    if not by_type:
        raise ProfileError("no run has finished: there is no curve to show")
    return {name: _measured(name, by_type[name]) for name in sorted(by_type)}


def _measured(name: str, runs: Sequence[MeasuredRun]) -> MeasuredCurve:
    good, startup = preferred_runs(runs)
    curve = Curve(startup, *fitted_curve(good, startup))
    shapes = sorted({(run.cpus * run.executors, run.executors, run.cpus) for run in good})
    sizes = tuple(_size(good, startup, curve, executors, cpus) for _, executors, cpus in shapes)
    return MeasuredCurve(name, curve, sizes, tuple(_halvings(sizes, curve)))


def _size(
    runs: Sequence[MeasuredRun], startup: float, curve: Curve, executors: int, cpus: float
) -> MeasuredSize:
    cores = executors * cpus
    held = [run.held for run in runs if (run.executors, run.cpus) == (executors, cpus)]
    others = [run for run in runs if run.executors * run.cpus != cores]
    held_out = None
    if len({run.executors * run.cpus for run in others}) >= _LEFT:
        held_out = Curve(startup, *fitted_curve(others, startup)).seconds_on(cores, 1.0)
    return MeasuredSize(
        executors,
        cpus,
        len(held),
        statistics.fmean(held),
        statistics.stdev(held) if len(held) > 1 else 0.0,
        curve.seconds_on(cores, 1.0),
        held_out,
    )


def _halvings(sizes: Sequence[MeasuredSize], curve: Curve) -> list[Halving]:
    means = {
        cores: statistics.fmean(size.seconds for size in sizes if size.cores == cores)
        for cores in sorted({size.cores for size in sizes})
    }
    return [
        Halving(
            cores,
            longer=means[cores / 2] / seconds - 1,
            by_curve=curve.seconds_on(cores / 2, 1.0) / curve.seconds_on(cores, 1.0) - 1,
            work_longer=_work(curve, cores / 2) / _work(curve, cores) - 1,
        )
        for cores, seconds in means.items()
        if cores / 2 in means
    ]


def _work(curve: Curve, cores: float) -> float:
    return curve._replace(startup=0.0).seconds_on(cores, 1.0)
