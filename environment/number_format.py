"""Formats of numbers in reasons, and the order in which names are listed."""

import re
from datetime import UTC, datetime

from conf.units import LATEST

#: Times below are counted from somewhere else than the epoch, as in simulations and tests.
_EPOCH = 1e9


def clock(at: float) -> str:
    """A time (seconds since the epoch) as `2026-11-22 00:41:05 UTC`; one of a simulation in seconds.

    So is any number that is no time: users, masters and providers state times, and the loop formats them.
    """
    if not _EPOCH <= at <= LATEST:
        return f"{at:g} s"
    return f"{datetime.fromtimestamp(at, UTC):%Y-%m-%d %H:%M:%S} UTC"


def natural_key(name: str) -> tuple[tuple[int, int | str], ...]:
    """Sort key under which vm-10 comes after vm-9."""
    return tuple((0, int(part)) if part.isdigit() else (1, part) for part in re.split(r"(\d+)", name) if part)


def times(number: int) -> str:
    """Once, 3 times."""
    return "once" if number == 1 else f"{number} times"
