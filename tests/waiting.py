"""Waiting in tests: for conditions that hold when all is well, however long a busy machine takes."""

import time
from collections.abc import Callable

#: Seconds after which a test gives up: ten times those of a quiet machine, never waited for when all is well.
PATIENCE = 600.0


def until(condition: Callable[[], object], otherwise: Callable[[], object] | str = "") -> None:
    """Wait for a condition; if it never holds, report the condition or the actual state."""
    began = time.monotonic()
    while not condition():
        waited = time.monotonic() - began
        assert waited < PATIENCE, otherwise if isinstance(otherwise, str) else otherwise()
        # Who is asked works meanwhile, and all cores are busy: the longer it takes, the less often.
        time.sleep(min(0.01 + waited / 40, 0.1))
