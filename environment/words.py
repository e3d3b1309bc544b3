"""Numbers as they are told in reasons."""

from datetime import UTC, datetime

#: Times below are counted from somewhere else than the epoch, as in simulations and tests.
_EPOCH = 1e9


def clock(at: float) -> str:
    """A time (seconds since the epoch) as `2026-11-22 00:41:05 UTC`; one of a simulation in seconds."""
    if at < _EPOCH:
        return f"{at:g} s"
    return f"{datetime.fromtimestamp(at, UTC):%Y-%m-%d %H:%M:%S} UTC"
