"""How tests wait: for what comes to hold when all is well, however long a busy machine takes for it."""

import time
from collections.abc import Callable

#: Seconds after which a test gives up: ten times those of a quiet machine, never waited for when all is well.
PATIENCE = 600.0


def until(condition: Callable[[], object], otherwise: Callable[[], object] | str = "") -> None:
    """Wait for a condition; when it does not come to hold, say what it was, or what there is."""
    began = time.monotonic()
    while not condition():
        waited = time.monotonic() - began
        assert waited < PATIENCE, otherwise if isinstance(otherwise, str) else otherwise()
        # Who is asked works meanwhile, and all cores are busy: the longer it takes, the less often.
        time.sleep(min(0.01 + waited / 40, 0.1))
