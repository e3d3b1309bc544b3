"""Job profiles from measured runs: the numbers of `profiles.job_profile`, for the rule of the paper.

A model that knows sizes and placements is in `environment.simulation.durations.fitting`.
"""

import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import numpy as np
import yaml
from numpy.typing import NDArray

from profiles.curve import Curve
from profiles.job_profile import JobProfile
from profiles.runs import MeasuredRun, ProfileError

#: Chosen: of the data that is read in shuffles, a job that spills so much is short of memory.
_SPILLS = 0.1
#: With so many numbers of cores, or sizes, it is seen on each which law holds that was fitted to the others.
_ENOUGH_CORES, _ENOUGH_SIZES = 3, 4
#: A law that errs by more than a tenth on the sizes that it was fitted to is wrong.
_WRONG = 0.1
#: Another law has to err by a tenth less than Amdahl's.
_CLEARLY = 0.9
#: Seconds that no run is taken to stay below.
_LEAST = 0.01

FloatArray = NDArray[np.float64]
#: Executors and cpus of each, by run; and seconds of the runs -> a curve without start-up.
_Law = Callable[[FloatArray, FloatArray], Curve]
#: The parts of `_warming` that may be above 0, simpler choices first.
_SOME_OF_THREE = ([0], [1], [2], [0, 1], [0, 2], [1, 2], [0, 1, 2])
#: Relative difference of two sums of squares that only rounding makes: far above the differences between
#: processors.
_EQUAL = 1e-6


def profiles_of(runs: Sequence[MeasuredRun]) -> Mapping[str, JobProfile]:
    """A profile for every type that has finished runs, at the input size that was measured most.

    It prefers the placement that was quicker; `startup` is until its first stage, where that was soonest;
    `work` and, where jobs had different sizes, `serial`, `power` and `warming` are of that placement.
    ProfileError when no run has finished.
    """
    by_type: dict[str, list[MeasuredRun]] = {}
    for run in runs:
        if run.state == "finished":
            by_type.setdefault(run.type, []).append(run)
    if not by_type:
        raise ProfileError("no run has finished: there is nothing to make a profile of")
    return {name: _profile(by_type[name]) for name in sorted(by_type)}


def profiles_text(profiles: Mapping[str, JobProfile], source: str) -> str:
    """The profiles as YAML that `load_profiles` reads, with a line that says where they come from."""
    values = {"types": {name: _values(profile) for name, profile in profiles.items()}}
    return f"# Measured: {source}\n{yaml.safe_dump(values, sort_keys=False)}"


def _values(profile: JobProfile) -> dict[str, Any]:
    values = profile.model_dump(exclude={"stages", "executor_start"})
    if profile.executor_start is not None:
        values["executor_start"] = profile.executor_start
    if profile.stages:
        values["stages"] = [stage.model_dump(exclude_defaults=True) for stage in profile.stages]
    return values


def preferred_runs(runs: Sequence[MeasuredRun]) -> tuple[Sequence[MeasuredRun], float]:
    """Runs of a type that its curve is fitted to, and the seconds of start-up in them.

    They are those of the input that was measured most, alone on their VMs and placed as the type prefers; of
    a size of which there are no such runs, others.
    """
    same = _same_input(runs)
    together = _preferred(same) == "consolidate"
    alone = [run for run in same if not run.shared] or same
    as_preferred = {_size(run) for run in alone if (run.vms == 1) == together}
    good = [run for run in alone if (run.vms == 1) == together or _size(run) not in as_preferred]
    by_size: dict[tuple[int, float], list[float]] = {}
    for run in good:
        by_size.setdefault(_size(run), []).append(_startup(run))
    soonest = min(statistics.median(of_size) for of_size in by_size.values())
    return good, min(soonest, *(0.9 * run.held for run in good))


def _size(run: MeasuredRun) -> tuple[int, float]:
    return run.executors, run.cpus


def _same_input(runs: Sequence[MeasuredRun]) -> list[MeasuredRun]:
    size = statistics.mode(run.input_mib for run in runs)
    return [run for run in runs if run.input_mib == size]


def _profile(runs: Sequence[MeasuredRun]) -> JobProfile:
    same = _same_input(runs)
    prefers = _preferred(same)
    good, startup = preferred_runs(runs)
    curve = fitted_curve(good, startup)
    return JobProfile(
        bound_by=_bound_by(same, prefers),
        prefers=prefers,
        work=curve.work,
        serial=curve.serial,
        power=curve.power,
        startup=curve.startup,
        warming=curve.warming,
    )


def _preferred(runs: Sequence[MeasuredRun]) -> Literal["spread", "consolidate"]:
    """Consolidated when that was quicker on average, over shapes that were measured both ways."""
    ratios = []
    for shape in {(run.executors, run.cpus, run.memory_mib) for run in runs}:
        of_shape = [run for run in runs if (run.executors, run.cpus, run.memory_mib) == shape]
        together = [run.held for run in of_shape if run.vms == 1]
        apart = [run.held for run in of_shape if run.vms == shape[0] > 1]
        if together and apart:
            ratios.append(statistics.median(together) / statistics.median(apart))
    return "consolidate" if ratios and statistics.geometric_mean(ratios) < 1 else "spread"


def _bound_by(
    runs: Sequence[MeasuredRun], prefers: Literal["spread", "consolidate"]
) -> Literal["cpu", "network", "memory"]:
    spilled, read = (sum(run.total(what) for run in runs) for what in ("spill_mib", "shuffle_read_mib"))
    if spilled > _SPILLS * max(read, 1.0):
        return "memory"
    return "network" if prefers == "consolidate" else "cpu"


def _startup(run: MeasuredRun) -> float:
    return run.launching + (run.startup or 0.0)


def fitted_curve(runs: Sequence[MeasuredRun], startup: float) -> Curve:
    """The curve of runs that begin to work after `startup` seconds.

    Amdahl's law, a power law (AutoExecutor, arXiv 2112.08572) or Amdahl's with each executor's own part: the
    one that errs least on sizes outside of its fit, in doubt the first. Of three sizes none can be held out:
    there the last law is chosen only where the first is wrong on the very sizes that it was fitted to.
    """
    sizes = np.array([(run.executors, run.cpus) for run in runs])
    seconds = np.array([run.held for run in runs]) - startup
    chosen: _Law = _amdahl
    laws: list[_Law] = []
    if len({*np.prod(sizes, axis=1)}) >= _ENOUGH_CORES:
        laws.append(_power)
    if len({*sizes[:, 1]}) > 1 and len(np.unique(sizes, axis=0)) >= _ENOUGH_SIZES:
        laws.append(_warming)
    if laws:
        least = _held_out(chosen, sizes, seconds, startup)
        for law in laws:
            error = _held_out(law, sizes, seconds, startup)
            if error < _CLEARLY * least:
                chosen, least = law, error
    elif len({*sizes[:, 1]}) > 1 and len(np.unique(sizes, axis=0)) == _ENOUGH_SIZES - 1:
        off, own = (_off(law(sizes, seconds), sizes, seconds, startup) for law in (chosen, _warming))
        if off > _WRONG and own < off / 2:
            chosen = _warming
    return chosen(sizes, seconds)._replace(startup=round(startup, 3))


def _held_out(law: _Law, sizes: FloatArray, seconds: FloatArray, startup: float) -> float:
    """Mean absolute logarithm of predicted over measured, each size by a law fitted to the others."""
    found = []
    for size in np.unique(sizes, axis=0):
        here = (sizes == size).all(axis=1)
        found.append(_off(law(sizes[~here], seconds[~here]), sizes[here], seconds[here], startup))
    return statistics.fmean(found)


def _off(curve: Curve, sizes: FloatArray, seconds: FloatArray, startup: float) -> float:
    """Mean absolute logarithm of predicted over measured."""
    whole = curve._replace(startup=startup)
    predicted = [whole.seconds_on(float(np.prod(size)), 1.0, float(size[1])) for size in sizes]
    return float(np.mean(np.abs(np.log(np.array(predicted) / (seconds + startup)))))


def _power(sizes: FloatArray, seconds: FloatArray) -> Curve:
    cores = np.prod(sizes, axis=1)
    if len({*cores}) == 1:
        return _amdahl(sizes, seconds)
    slope, height = np.polyfit(np.log(cores), np.log(np.maximum(seconds, _LEAST)), 1)
    return Curve(0.0, round(float(np.exp(height)), 3), 0.0, round(float(np.clip(-slope, 0.01, 1.0)), 4))


def _amdahl(sizes: FloatArray, seconds: FloatArray) -> Curve:
    cores = np.prod(sizes, axis=1)
    if len({*cores}) == 1:
        return Curve(0.0, round(float(np.median(seconds * cores)), 3))
    serial, parallel = np.linalg.lstsq(
        np.stack([np.ones_like(cores), 1 / cores], axis=1), seconds, rcond=None
    )[0]
    return _of_parts(max(0.0, float(serial)), max(0.0, float(parallel)), 0.0)


def _warming(sizes: FloatArray, seconds: FloatArray) -> Curve:
    """Amdahl's law beside the work that each executor does on its own cpus; no part is negative.

    Several choices of parts can be equally good, where the sizes do not tell them apart. The first, simplest
    one is the answer then: not the one that the rounding of a processor favours.
    """
    rows = np.stack([np.ones(len(sizes)), 1 / np.prod(sizes, axis=1), 1 / sizes[:, 1]], axis=1)
    best, least = np.zeros(3), np.inf
    for used in _SOME_OF_THREE:
        parts = np.zeros(3)
        parts[used], _, rank, _ = np.linalg.lstsq(rows[:, used], seconds, rcond=None)
        error = float(np.sum(np.square(rows @ parts - seconds)))
        if rank == len(used) and (parts >= 0).all() and error < least * (1 - _EQUAL):
            best, least = parts, error
    return _of_parts(*(float(part) for part in best))


def _of_parts(serial: float, parallel: float, warming: float) -> Curve:
    whole = max(serial + parallel, _LEAST)
    return Curve(0.0, round(whole, 3), round(serial / whole, 4), 1.0, warming=round(warming, 3))
