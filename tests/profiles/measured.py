"""Measured runs for tests: valid by default."""

from typing import Any

from profiles.runs import MeasuredRun


def make_run(**values: Any) -> MeasuredRun:
    """A run of WordCount on two VMs, but for the given values."""
    usual: dict[str, Any] = {
        "name": "wordcount-r0",
        "copy": 0,
        "type": "wordcount",
        "input_mib": 16.0,
        "executors": 2,
        "cpus": 1.0,
        "memory_mib": 1024,
        "placement": ("a", "b"),
        "shared": 0.0,
        "state": "finished",
        "submitted_at": 1000.0,
        "ended_at": 1021.0,
        "launching": 0.5,
        "duration": 20.0,
        "startup": 6.0,
        "cost": 0.01,
        "losses": 0,
    }
    return MeasuredRun(**{**usual, **values})
