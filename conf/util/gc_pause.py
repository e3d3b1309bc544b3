"""Many objects that are made to stay: the collector of cycles is told to let them be until all are there.

It goes over what there is again and again while there is more and more, and finds nothing: a million jobs
took half as long again to make.
"""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def uncollected() -> Iterator[None]:
    """No collection meanwhile, in any thread; what refers to nobody any more is freed as ever."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()
