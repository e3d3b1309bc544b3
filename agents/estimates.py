"""Estimates from a view for policies that know durations, and checks of their options; no policies."""

import math

import numpy as np

from conf.units import SECONDS_PER_HOUR
from environment.decisions.vm_kinds import work_lost
from environment.types import FloatArray, Job
from environment.view import ClusterView

#: Differences of times are rounded to milliseconds. The rounding error of a computed time depends on its zero
#: point and on the order of summation, and a search that compares such differences would find another of two
#: equal placements for it.
TIME_DIGITS = 3
#: The same where times are as long as they are: of the longest so many bits are kept.
_TIME_BITS = 20
#: Neither cost nor time ever counts for nothing, so that one decides between equals of the other.
LEAST_WEIGHT = 0.001
#: Maxima of options that bound the time and memory of a decision: jobs that are looked at, seconds until it
#: is cut short. Seeds enter compiled code as whole numbers of 64 bits.
MOST_JOBS, MOST_SECONDS, MOST_SEED = 100_000, 3600.0, 2**32 - 1


def check_share(name: str, value: float) -> None:
    """ValueError when an option that is a share is not within 0 and 1."""
    if not 0 <= value <= 1:
        raise ValueError(f"{name}: should be between 0 and 1, found {value:g}")


def check_seconds(name: str, value: float, most: float = float("inf")) -> None:
    """ValueError when an option in seconds is not a finite number above 0, or is above `most`."""
    if not 0 < value < float("inf"):
        raise ValueError(f"{name}: should be more than 0 seconds, found {value:g}")
    if value > most:
        raise ValueError(f"{name}: should be {most:g} seconds or less, found {value:g}")


def check_factor(name: str, value: float) -> None:
    """ValueError when a factor by which jobs are slowed is below 1 or not finite."""
    if not 1 <= value < float("inf"):
        raise ValueError(f"{name}: should be 1 or more, found {value:g}")


def check_limit(name: str, value: int, least: int = 0, *, most: int) -> None:
    """ValueError when an option that is a number of things is less than `least` or above `most`."""
    if not value >= least:
        raise ValueError(f"{name}: should be {least} or more, found {value}")
    if value > most:
        raise ValueError(f"{name}: should be {most} or less, found {value}")


def duration_of(job: Job, unknown: float) -> float:
    """Seconds that a well placed job takes; `unknown` when nothing is known."""
    return unknown if job.expected_duration is None else job.expected_duration


def held_for(view: ClusterView, unknown: float) -> FloatArray:
    """Seconds from now for which each VM is held anyway; float64 [N].

    A job of unknown duration is assumed to take `unknown` seconds. Rounded, so that VMs which are
    held by one job are held for equally long.
    """
    return rounded(np.maximum(view.busy_until_assuming(unknown) - view.at, 0.0))


def rounded(seconds: FloatArray) -> FloatArray:
    """Times from now in whole steps of about a millionth of the longest, for the reason of `TIME_DIGITS`.

    Of a power of two: where all times are twice as long, so are these.
    """
    longest = float(seconds.max(initial=0.0))
    if longest <= 0.0:
        return seconds
    step = 2.0 ** (math.frexp(longest)[1] - _TIME_BITS)
    steps: FloatArray = np.round(seconds / step) * step
    return steps


def effective_prices(view: ClusterView, job: Job, unknown: float) -> FloatArray:
    """Dollars per hour of each VM for an hour's work of the job that lasts; float64 [N].

    The price, over the share of work that is not lost there.
    """
    prices: FloatArray = view.prices_per_hour / (1.0 - work_lost(view, job, unknown))
    return prices


def dollars_per_cpu_second(view: ClusterView) -> float:
    """The average price of a core of the cluster for a second; 1 where nothing costs anything."""
    cpus = float(view.cpus.sum())
    price = float(view.list_prices_per_hour.sum()) / cpus / SECONDS_PER_HOUR if cpus else 0.0
    return price if price > 0 else 1.0
