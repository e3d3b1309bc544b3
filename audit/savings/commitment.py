"""The commitment to dollars an hour (a savings plan) that would have been cheapest for the logged executors.

Such a plan covers, at each moment, executors up to a level of dollars an hour on demand, and is paid for at
a share of that, used or not. The best level is one that is reached for that share of the time. Half of the
days choose the level for the other half, in turn, so that no day chooses for itself.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from audit.applications import Executor, LoggedApplication
from audit.held_amounts import FloatArray
from audit.savings.job_runs import JobRun
from audit.savings.plays import NINETY, DollarRange
from conf.units import SECONDS_PER_DAY, SECONDS_PER_HOUR

#: Days of logs from which a level is chosen. Chosen: a week has each of its days.
_LEAST_DAYS = 7
#: Whether a plan may cover an executor of an application.
Covers = Callable[[LoggedApplication, Executor], bool]


@dataclass(frozen=True, slots=True)
class PlanSaving:
    """A plan and its saving over the logged days."""

    #: Dollars an hour that are paid for the plan.
    dollars_per_hour: float
    #: Of the dollars that it covers, on demand.
    share: float
    #: With levels that other days chose; the interval is that of a sum over days.
    saving: DollarRange
    #: By which share the saving is less than with the level that is best for all days.
    error: float
    days: int


@dataclass(frozen=True, slots=True)
class _Load:
    """Dollars an hour on demand while they stay the same: pieces [P] with their day and hours."""

    dollars: FloatArray
    hours: FloatArray
    day: FloatArray


def best_plan(runs: Iterable[JobRun], share: float, covers: Covers) -> PlanSaving | None:
    """The plan at this share of prices on demand; None for too few days, or where none saves."""
    load = _load(runs, covers)
    days = np.unique(load.day)
    if len(days) < _LEAST_DAYS:
        return None
    level = _level(load.dollars, load.hours, share)
    halves = [load.day % 2 == half for half in (0, 1)]
    levels = [_level(load.dollars[on], load.hours[on], share) for on in halves]
    # The level for each piece is that of the other half.
    held_out = _saved(load, np.where(halves[0], levels[1], levels[0]), share)
    by_day = np.array([held_out[load.day == day].sum() for day in days])
    middle, most = float(by_day.sum()), float(_saved(load, np.full_like(load.dollars, level), share).sum())
    if middle <= 0.0 or most <= 0.0:
        return None
    wide = NINETY * float(by_day.std(ddof=1)) * math.sqrt(len(days))
    interval = DollarRange(middle, middle - wide, middle + wide)
    return PlanSaving(level * share, share, interval, max(0.0, 1.0 - middle / most), len(days))


def _load(runs: Iterable[JobRun], covers: Covers) -> _Load:
    """From the first executor's begin to the last one's end."""
    begins: list[float] = []
    ends: list[float] = []
    rates: list[float] = []
    for run in runs:
        for executor, dollars in run.cost.by_executor:
            if covers(run.application, executor):
                begins.append(executor.added_at)
                ends.append(executor.removed_at)
                rates.append(dollars * SECONDS_PER_HOUR / executor.seconds)
    if not begins:
        return _Load(np.zeros(0), np.zeros(0), np.zeros(0))
    first, last = min(begins), max(ends)
    midnights = np.arange(math.ceil(first / SECONDS_PER_DAY), last // SECONDS_PER_DAY + 1) * SECONDS_PER_DAY
    at = np.concatenate([begins, ends, midnights])
    change = np.concatenate([rates, np.negative(rates), np.zeros(len(midnights))])
    order = np.argsort(at, kind="stable")
    at, dollars = at[order], np.maximum(np.cumsum(change[order]), 0.0)
    hours = np.diff(at) / SECONDS_PER_HOUR
    lasting = hours > 0
    return _Load(dollars[:-1][lasting], hours[lasting], at[:-1][lasting] // SECONDS_PER_DAY)


def _level(dollars: FloatArray, hours: FloatArray, share: float) -> float:
    """The highest load that is reached for more than this share of the hours; 0.0 where none is."""
    order = np.argsort(-dollars, kind="stable")
    enough = np.cumsum(hours[order]) > share * hours.sum()
    return float(dollars[order][enough.argmax()]) if enough.any() else 0.0


def _saved(load: _Load, level: FloatArray | Sequence[float], share: float) -> FloatArray:
    """Dollars that a plan of each piece's level saves in it, [P]."""
    saved: FloatArray = (np.minimum(load.dollars, level) - share * np.asarray(level)) * load.hours
    return saved
