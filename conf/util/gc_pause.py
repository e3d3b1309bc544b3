"""Pauses the collector of cycles while many long-lived objects are made.

It scans the growing set of objects again and again, and finds nothing: a million jobs took half as long
again to make.
"""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def uncollected() -> Iterator[None]:
    """Pause garbage collection in all threads; reference counting still frees unreferenced objects."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()
