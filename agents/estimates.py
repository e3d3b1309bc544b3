"""What policies that know durations make of a view, and checks of their options. Who decides is elsewhere."""

import numpy as np

from environment.types import ClusterView, FloatArray, Job


def check_share(name: str, value: float) -> None:
    """ValueError when an option that is a share is not within 0 and 1."""
    if not 0 <= value <= 1:
        raise ValueError(f"{name}: should be between 0 and 1, found {value:g}")


def check_seconds(name: str, value: float) -> None:
    """ValueError when an option in seconds is not a finite number above 0."""
    if not 0 < value < float("inf"):
        raise ValueError(f"{name}: should be more than 0 seconds, found {value:g}")


def check_factor(name: str, value: float) -> None:
    """ValueError when a factor by which jobs are slowed is below 1 or not finite."""
    if not 1 <= value < float("inf"):
        raise ValueError(f"{name}: should be 1 or more, found {value:g}")


def duration_of(job: Job, unknown: float) -> float:
    """Seconds that a well placed job takes; `unknown` when nothing is known."""
    return unknown if job.expected_duration is None else job.expected_duration


def held_for(view: ClusterView, unknown: float) -> FloatArray:
    """Seconds from now for which each VM is held anyway; `unknown` where that is not known; float64 [N]."""
    held: FloatArray = np.where(
        np.isnan(view.busy_until), unknown, np.maximum(view.busy_until - view.at, 0.0)
    )
    return held


def dollars_per_cpu_second(view: ClusterView) -> float:
    """The average price of a core of the cluster for a second; 1 where nothing costs anything."""
    cpus = float(view.cpus.sum())
    price = float(view.prices_per_hour.sum()) / cpus / 3600.0 if cpus else 0.0
    return price if price > 0 else 1.0
