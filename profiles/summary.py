"""Job profiles from measured runs: the numbers of `profiles.job_profile`, for the rule of the paper.

A model that knows sizes and placements is in `environment.simulation.fitting`.
"""

import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import Literal

import numpy as np
import yaml
from numpy.typing import NDArray

from profiles.curve import Curve
from profiles.job_profile import JobProfile
from profiles.runs import MeasuredRun, ProfileError

#: Chosen: of the data that is read in shuffles, a job that spills so much is short of memory.
_SPILLS = 0.1
#: With so many sizes it is seen on each which law holds that was fitted to the others.
_ENOUGH_SIZES = 3
#: A power law has to err by a tenth less than Amdahl's.
_CLEARLY = 0.9
#: Seconds that no run is taken to stay below.
_LEAST = 0.01

FloatArray = NDArray[np.float64]
#: Cores and seconds of runs -> work, serial and power.
_Law = Callable[[FloatArray, FloatArray], tuple[float, float, float]]


def profiles_of(runs: Sequence[MeasuredRun]) -> Mapping[str, JobProfile]:
    """A profile for every type that has finished runs, at the input size that was measured most.

    It prefers the placement that was quicker; `startup` is until its first stage; `work` and, where jobs had
    different numbers of cores, `serial` and `power` are those of the preferred placement.
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
    values = {"types": {name: profile.model_dump() for name, profile in profiles.items()}}
    return f"# Measured: {source}\n{yaml.safe_dump(values, sort_keys=False)}"


def preferred_runs(runs: Sequence[MeasuredRun]) -> tuple[Sequence[MeasuredRun], float]:
    """Of the runs of a type those that its curve is fitted to, and the seconds of start-up in them.

    They are those of the input size that was measured most, placed as the type prefers and alone where there
    are any.
    """
    same = _same_input(runs)
    prefers = _preferred(same)
    good = [run for run in same if run.executors == 1 or (run.vms == 1) == (prefers == "consolidate")] or same
    good = [run for run in good if not run.shared] or good
    return good, min(statistics.median(_startup(run) for run in good), *(0.9 * run.held for run in good))


def _same_input(runs: Sequence[MeasuredRun]) -> list[MeasuredRun]:
    size = statistics.mode(run.input_mib for run in runs)
    return [run for run in runs if run.input_mib == size]


def _profile(runs: Sequence[MeasuredRun]) -> JobProfile:
    same = _same_input(runs)
    prefers = _preferred(same)
    good, startup = preferred_runs(runs)
    work, serial, power = fitted_curve(good, startup)
    return JobProfile(
        bound_by=_bound_by(same, prefers),
        prefers=prefers,
        work=work,
        serial=serial,
        power=power,
        startup=round(startup, 3),
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


def fitted_curve(runs: Sequence[MeasuredRun], startup: float) -> tuple[float, float, float]:
    """Seconds on one core, which share of them more cores do not shorten, and the power of their number.

    Amdahl's law or a power law (AutoExecutor, arXiv 2112.08572): whichever errs less on sizes that it was not
    fitted to, in doubt the former. With fewer than three sizes nothing tells them apart.
    """
    cores = np.array([run.cpus * run.executors for run in runs])
    seconds = np.array([run.held for run in runs]) - startup
    amdahl = _amdahl(cores, seconds)
    if len(set(cores)) < _ENOUGH_SIZES:
        return amdahl
    errors = {law: _held_out(law, cores, seconds) for law in (_amdahl, _power)}
    return _power(cores, seconds) if errors[_power] < _CLEARLY * errors[_amdahl] else amdahl


def _held_out(law: _Law, cores: FloatArray, seconds: FloatArray) -> float:
    """Mean absolute logarithm of predicted over measured, each by a law fitted to the other sizes."""
    found = []
    for size in np.unique(cores):
        work, serial, power = law(cores[cores != size], seconds[cores != size])
        there = np.maximum(seconds[cores == size], _LEAST)
        predicted = max(Curve(0.0, work, serial, power).seconds_on(float(size), 1.0), _LEAST)
        found.append(float(np.mean(np.abs(np.log(predicted / there)))))
    return statistics.fmean(found)


def _power(cores: FloatArray, seconds: FloatArray) -> tuple[float, float, float]:
    slope, height = np.polyfit(np.log(cores), np.log(np.maximum(seconds, _LEAST)), 1)
    return round(float(np.exp(height)), 3), 0.0, round(float(np.clip(-slope, 0.01, 1.0)), 4)


def _amdahl(cores: FloatArray, seconds: FloatArray) -> tuple[float, float, float]:
    if len(set(cores)) == 1:
        return round(float(np.median(seconds * cores)), 3), 0.0, 1.0
    serial, parallel = np.linalg.lstsq(
        np.stack([np.ones_like(cores), 1 / cores], axis=1), seconds, rcond=None
    )[0]
    serial, parallel = max(0.0, float(serial)), max(0.0, float(parallel))
    whole = serial + parallel
    return round(whole, 3), round(serial / whole, 4), 1.0
