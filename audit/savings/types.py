"""Profiles of job types, fitted to their logged runs, and their error on other runs."""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from audit.savings.job_runs import JobRun
from profiles.job_profile import JobProfile
from profiles.runs import MeasuredRun
from profiles.summary import fitted_curve

#: At most so many runs of a type are looked at, spread evenly over time.
_LOOKED_AT = 40
#: Sizes to which a run is scaled for the curve of its type, as shares of its executors.
_SCALED = (0.25, 0.5, 1.0, 2.0)
#: Number of runs in which an effect of the input is looked for, with inputs that differ by such a factor.
_ENOUGH, _DIFFERENT = 3, 1.2
#: Standard deviation of the logarithm of a duration where no run could be checked. Chosen: three times the
#: value of repeated runs of five types (docs/results/fidelity.md), as nothing is known of these.
_UNCHECKED = 0.25
_NARROWEST, _WIDEST = 0.02, 1.5
#: Of a normal distribution, within one standard deviation.
_ONE_SIGMA = 68.27


@dataclass(frozen=True, slots=True)
class JobType:
    """Runs of one application, their profile, and how far it errs."""

    name: str
    runs: tuple[JobRun, ...]
    profile: JobProfile
    #: Median relative error of durations, each predicted by the half of the runs that it is not in; None
    #: with a single run.
    error: float | None
    #: Standard deviation of the logarithm of real over predicted duration.
    sigma: float
    #: Number of runs by which it was checked.
    checked: int

    @property
    def dollars(self) -> float:
        """Of all runs."""
        return sum(run.cost.total for run in self.runs)


def job_types(runs: Sequence[JobRun]) -> dict[str, JobType]:
    """The types of the runs by name, in order of their dollars."""
    by_type: dict[str, list[JobRun]] = {}
    for run in runs:
        by_type.setdefault(run.type, []).append(run)
    checked = {name: _held_out(of) for name, of in by_type.items()}
    known = [_sigma(away) for away in checked.values() if away]
    # Unchecked types are taken to err as much as others do, but not less than the chosen value.
    other = max([_UNCHECKED, *([statistics.median(known)] if known else [])])
    found = [_job_type(name, of, checked[name], other) for name, of in by_type.items()]
    return {each.name: each for each in sorted(found, key=lambda each: (-each.dollars, each.name))}


def _job_type(name: str, runs: Sequence[JobRun], away: Sequence[float], other: float) -> JobType:
    sigma = _sigma(away) if away else other
    error = float(np.median(np.abs(np.expm1(away)))) if away else None
    return JobType(name, tuple(runs), _profile(runs, sigma), error, sigma, len(away))


def _sigma(away: Sequence[float]) -> float:
    """By the share of runs within it: a single run that hung does not widen all others."""
    return float(np.clip(np.percentile(np.abs(away), _ONE_SIGMA), _NARROWEST, _WIDEST))


def _held_out(runs: Sequence[JobRun]) -> list[float]:
    """Logarithms of predicted over real seconds, of each half by the other; empty for a single run."""
    if len(runs) < 2:
        return []
    ordered = sorted(runs, key=lambda run: run.application.started_at)
    halves = ordered[::2], ordered[1::2]
    return [
        float(np.log(predicted(seen, run) / run.seconds))
        for seen, unseen in (halves, halves[::-1])
        for run in _some(unseen)
    ]


def predicted(seen: Sequence[JobRun], run: JobRun) -> float:
    """Seconds that a run takes on its cores with its input, by other runs of its type.

    Each of these is scaled to its cores; where they show it, to its input, by a power of it.
    """
    seen = _some(seen)
    logs = np.log([other.seconds_on(run.cores) for other in seen])
    inputs = np.array([other.application.input_mib for other in seen])
    own = run.application.input_mib
    if own > 1 and len(seen) >= _ENOUGH and inputs.min() > 1 and inputs.max() > _DIFFERENT * inputs.min():
        slope = np.polyfit(np.log(inputs), logs, 1)[0]
        power = float(np.clip(slope, 0.0, 1.0))
        logs = logs - power * (np.log(inputs) - np.log(own))
    return float(np.exp(np.median(logs)))


def _some(runs: Sequence[JobRun]) -> list[JobRun]:
    if len(runs) <= _LOOKED_AT:
        return list(runs)
    return [runs[number] for number in np.linspace(0, len(runs) - 1, _LOOKED_AT).astype(int)]


def _profile(runs: Sequence[JobRun], sigma: float) -> JobProfile:
    """The curve of the type, as its runs scale; logs do not tell which placement it prefers."""
    some = _some(runs)
    usual = statistics.median_low(run.executors for run in some)
    same = [run.seconds_on(usual * run.cpus) for run in some]
    middle = statistics.median(same)
    counts = sorted({max(1, round(usual * share)) for share in _SCALED})
    measured = [
        _measured(run, count, run.seconds_on(count * run.cpus) * middle / of_usual)
        for run, of_usual in zip(some, same, strict=True)
        for count in counts
    ]
    startup = min(
        statistics.median(run.startup * middle / own for run, own in zip(some, same, strict=True)),
        *(0.9 * each.held for each in measured),
    )
    curve = fitted_curve(measured, startup)
    starting = [each.starting for run in some for each in run.application.executors if each.starting > 0]
    spilled = sum(run.application.spilled_mib for run in runs)
    read = sum(run.application.shuffle_mib for run in runs)
    return JobProfile(
        bound_by="memory" if spilled > 0.1 * max(read, 1.0) else "cpu",
        work=curve.work,
        serial=curve.serial,
        power=curve.power,
        startup=curve.startup,
        warming=curve.warming,
        spread=round(sigma, 4),
        executor_start=round(statistics.median(starting), 3) if starting else None,
        stages=some[int(np.argsort(same)[(len(same) - 1) // 2])].stages(),
    )


def _measured(run: JobRun, executors: int, seconds: float) -> MeasuredRun:
    return MeasuredRun(
        name=run.application.id,
        copy=executors,
        type=run.type,
        input_mib=None,
        executors=executors,
        cpus=run.cpus,
        memory_mib=run.memory_mib,
        placement=(),
        shared=0.0,
        state="finished",
        submitted_at=0.0,
        ended_at=seconds,
        launching=0.0,
        duration=seconds,
        startup=run.startup,
        cost=0.0,
        losses=0,
    )


def median_error(types: Mapping[str, JobType]) -> float | None:
    """Median over the types of their errors; None when no type has two runs."""
    errors = [each.error for each in types.values() if each.error is not None]
    return statistics.median(errors) if errors else None
