"""A month of made event logs: applications of known behaviour that come again and again.

`etl-DATE` keeps its executors between two parts of its work, `skewed` waits for one long task, `report` is
short and frequent. What differs from run to run is drawn by a seed.
"""

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from tests.audit.made_logs import (
    Event,
    added,
    app_end,
    app_start,
    environment,
    log_start,
    stage,
    task,
    written,
)

_DAY = 86_400.0


def month(folder: Path, days: int = 10, seed: int = 0, reports: int = 3) -> Path:
    """Write the logs of so many days, and return their folder."""
    draw = np.random.default_rng(seed)
    for day in range(days):
        at = day * _DAY + 3600 * draw.uniform(1, 2)
        _write(folder, f"etl-2026-11-{day + 1:02d}", at, _etl(at, draw.normal(1, 0.05)), day)
        _write(folder, "skewed", at + 600, _skewed(at + 600, draw.normal(1, 0.05)), day)
        for number in range(reports):
            begin = at + 1200 + 4000 * number
            _write(folder, "report", begin, _report(begin, draw.normal(1, 0.05)), day, f"-{number}")
    return folder


def _write(folder: Path, name: str, at: float, events: Iterator[Event], day: int, more: str = "") -> None:
    app = f"app-{name.partition('-')[0]}-{day}{more}"
    settings = environment(executor__memory="4g", executor__cores="4")
    written(folder, [log_start(), settings, app_start(name, at, app=app), *events], app)


def _etl(at: float, pace: float) -> Iterator[Event]:
    """8 executors of 4 cores work for 200 s, wait 1000 s for the driver, and work again for 100 s."""
    yield from (added(str(n), at + 5, 4) for n in range(8))
    first, second = at + 10 + 200 * pace, at + 1010 + 200 * pace
    for executor in range(8):
        for _ in range(4):
            yield task(str(executor), at + 10, first, 0, input_mib=100 * pace, peak_mib=900)
            yield task(str(executor), second, second + 100 * pace, 1, peak_mib=900)
    yield stage(0, at + 10, first)
    yield stage(1, second, second + 100 * pace)
    yield app_end(at + 1020 + 300 * pace)


def _skewed(at: float, pace: float) -> Iterator[Event]:
    """4 executors of 4 cores: 15 tasks of 20 s, and one of 300 s."""
    yield from (added(str(n), at + 5, 4, f"host-{n}") for n in range(4))
    for number in range(16):
        yield task(str(number % 4), at + 10, at + 10 + (300 if number == 0 else 20) * pace, peak_mib=900)
    yield stage(0, at + 10, at + 10 + 300 * pace, "join at /home/ann/skewed.py:12")
    yield app_end(at + 15 + 300 * pace)


def _report(at: float, pace: float) -> Iterator[Event]:
    """An executor of 4 cores that works for a minute."""
    yield added("1", at + 2, 4)
    for _ in range(4):
        yield task("1", at + 4, at + 4 + 60 * pace, peak_mib=900)
    yield stage(0, at + 4, at + 4 + 60 * pace)
    yield app_end(at + 70 * pace)
