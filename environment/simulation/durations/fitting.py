"""Fits models of duration to measured runs, and chooses for every job type the kind that errs least.

Each kind is fitted to all runs but a few and tested on these, in turn; the least mean error wins, and in
doubt the simpler one. `fitted_model` defines models and their features.
"""

import math
import statistics
from collections.abc import Mapping, Sequence
from typing import get_args

import numpy as np

from conf.util.counted import counted
from environment.simulation.durations.fitted_model import FittedModel, Method, Shape, TypeModel, features
from environment.types import FloatArray
from profiles.runs import MeasuredRun, ProfileError

#: Chosen: keeps coefficients finite that the runs do not determine, and hardly moves the others.
_RIDGE = 1e-3
#: Chosen: a quarter of a percent of a VM held by others is no company.
_COMPANY = 0.0025
#: Chosen: with so many configurations, a whole one is held out at a time, else all runs of one name.
_ENOUGH_CONFIGURATIONS = 4
#: A more complex kind has to err by a tenth less than a simpler one.
_CLEARLY = 0.9
_SWEEPS = 400


def fit(runs: Sequence[MeasuredRun]) -> tuple[FittedModel, Mapping[str, str]]:
    """A model of all types with two finished runs or more; and of the others, why there is none.

    ProfileError when there is nothing to learn from.
    """
    by_type: dict[str, list[MeasuredRun]] = {}
    for run in runs:
        of_type = by_type.setdefault(run.type, [])
        if run.state == "finished":
            if not (0 < run.held < math.inf):
                raise ProfileError(f"{run.name}: cannot learn from a duration of {run.held:g} s")
            of_type.append(run)
    left_out = {
        name: f"{counted(len(of_type), 'finished run')}, 2 are needed"
        for name, of_type in by_type.items()
        if len(of_type) < 2
    }
    known = {name: of_type for name, of_type in by_type.items() if name not in left_out}
    if not known:
        raise ProfileError("no job type has two finished runs to learn from")
    everyone = _slowdown([pair for of_type in known.values() for pair in _in_company(of_type)])
    return FittedModel(types={name: _fit_type(known[name], everyone) for name in sorted(known)}), left_out


def _fit_type(runs: Sequence[MeasuredRun], everyone: float) -> TypeModel:
    company = _in_company(runs)
    slowdown = _slowdown(company) if len(company) >= 2 else everyone
    held_out = {method: _held_out(method, runs, slowdown) for method in get_args(Method)}
    errors = {method: float(np.mean(np.abs(np.expm1(away)))) for method, away in held_out.items()}
    chosen: Method = "average"
    for method in get_args(Method)[1:]:
        if errors[method] < _CLEARLY * errors[chosen]:
            chosen = method
    return TypeModel(
        method=chosen,
        coefficients=tuple(_coefficients(chosen, runs, slowdown)),
        slowdown=slowdown,
        sigma=float(np.sqrt(np.mean(np.square(held_out[chosen])))),
        errors=errors,
        runs=len(runs),
        input_mib=statistics.median(_size(run) for run in runs),
        placement_ratio=_placement_ratio(runs),
    )


def _held_out(method: Method, runs: Sequence[MeasuredRun], slowdown: float) -> list[float]:
    """Logarithms of predicted over measured, each by a model that has not seen the run."""
    configurations = {run.group[:-1] for run in runs}
    whole = len(configurations) >= _ENOUGH_CONFIGURATIONS
    folds = [run.group[:-1] if whole else (run.name,) for run in runs]
    found = []
    for fold in dict.fromkeys(folds):
        seen = [run for run, of in zip(runs, folds, strict=True) if of != fold]
        if not seen:
            seen = list(runs)
        coefficients = _coefficients(method, seen, slowdown)
        model = _plain(method, coefficients, slowdown)
        for run, of in zip(runs, folds, strict=True):
            if of == fold:
                found.append(math.log(model.seconds(_shape(run), run.shared) / run.held))
    return found


def _plain(method: Method, coefficients: Sequence[float], slowdown: float) -> TypeModel:
    return TypeModel(
        method=method,
        coefficients=tuple(coefficients),
        slowdown=slowdown,
        sigma=0,
        errors={},
        runs=1,
        input_mib=1,
    )


def _coefficients(method: Method, runs: Sequence[MeasuredRun], slowdown: float) -> list[float]:
    alone = np.array([run.held / (1 + slowdown * run.shared) for run in runs])
    rows = np.array([features(method, _shape(run)) for run in runs])
    if method == "average":
        return [float(np.exp(np.mean(np.log(alone))))]
    if method == "loglinear":
        return _ridge(rows, np.log(alone))
    return _not_negative(rows / alone[:, None])


def _ridge(rows: FloatArray, wanted: FloatArray) -> list[float]:
    """Ridge regression: least squares with a small penalty on all coefficients but the constant.

    A feature that the runs do not vary gets no coefficient, the constant takes it.
    """
    middle = rows.mean(axis=0)
    middle[0] = 0.0
    inner = rows - middle
    penalty = np.diag([0.0, *[_RIDGE * len(rows)] * (rows.shape[1] - 1)])
    found = np.linalg.solve(inner.T @ inner + penalty, inner.T @ wanted)
    found[0] -= float(found[1:] @ middle[1:])
    return [float(value) for value in found]


def _not_negative(rows: FloatArray) -> list[float]:
    """Coefficients >= 0 for which every row sums up to about 1 (least squares, by coordinate descent)."""
    scale = np.maximum(np.abs(rows).mean(axis=0), 1e-12)
    scaled = rows / scale
    gram = scaled.T @ scaled + _RIDGE * np.eye(rows.shape[1])
    wanted = scaled.sum(axis=0)
    found = np.zeros(rows.shape[1])
    for _ in range(_SWEEPS):
        for at in range(len(found)):
            rest = wanted[at] - gram[at] @ found + gram[at, at] * found[at]
            found[at] = max(0.0, rest / gram[at, at])
    return [float(value) for value in found / scale]


def _in_company(runs: Sequence[MeasuredRun]) -> list[tuple[float, float]]:
    """Load beside runs that shared their VMs, and their relative slowdown against running alone."""
    alone: dict[tuple[object, ...], list[float]] = {}
    for run in runs:
        if run.shared <= _COMPANY:
            alone.setdefault(run.group[:-1], []).append(run.held)
    return [
        (run.shared, run.held / statistics.fmean(alone[run.group[:-1]]) - 1)
        for run in runs
        if run.shared > _COMPANY and run.group[:-1] in alone
    ]


def _slowdown(company: Sequence[tuple[float, float]]) -> float:
    """The slope through the origin, not below 0; 0 where nothing is known."""
    weight = sum(shared**2 for shared, _ in company)
    return max(0.0, sum(shared * longer for shared, longer in company) / weight) if weight else 0.0


def _placement_ratio(runs: Sequence[MeasuredRun]) -> float:
    """Mean ratio of the slowest to the fastest placement's median, over jobs that were placed differently."""
    crowds: dict[tuple[object, ...], dict[int, list[float]]] = {}
    for run in runs:
        if run.shared <= _COMPANY:
            key = (run.input_mib, run.executors, run.cpus, run.memory_mib)
            crowds.setdefault(key, {}).setdefault(run.vms, []).append(run.held)
    ratios = []
    for by_vms in crowds.values():
        middles = [statistics.median(seconds) for seconds in by_vms.values()]
        if len(middles) > 1:
            ratios.append(max(middles) / min(middles))
    return statistics.fmean(ratios) if ratios else 1.0


def _shape(run: MeasuredRun) -> Shape:
    return Shape(run.executors, run.cpus, run.memory_mib, run.vms, _size(run))


def _size(run: MeasuredRun) -> float:
    """MiB of input; 1 where it is not known, so that it explains nothing."""
    return run.input_mib or 1.0
