"""How tests wait: for what comes to hold when all is well, however long a busy machine takes for it."""

import time
from collections.abc import Callable

#: Seconds after which a test gives up; never waited for when all is well.
PATIENCE = 60.0


def until(condition: Callable[[], object], otherwise: Callable[[], object] | str = "") -> None:
    """Wait for a condition; when it does not come to hold, say what it was, or what there is."""
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, otherwise if isinstance(otherwise, str) else otherwise()
        time.sleep(0.01)
