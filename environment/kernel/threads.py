"""Shares the rows of a batch between threads. The caller defines the work on the rows.

Threads of Python's own share the work (compiled code releases the GIL): numba's parallel loops take no
nested tuples, and one of numba's threading layers ends the process when two threads enter it.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from types import TracebackType
from typing import Self

import numpy as np


class ThreadedRows:
    """Something with rows that threads share. Close it when done, or use it in a `with`."""

    def __init__(self, rows: int, threads: int, together: int = 1) -> None:
        """Assign each thread a part of the rows; so many rows in a row stay `together`."""
        groups = -(-rows // together)
        edges = together * np.linspace(0, rows / together, min(threads, groups) + 1).astype(int)
        edges[-1] = rows
        self._ranges = list(pairwise(edges.tolist()))
        self._pool = ThreadPoolExecutor(threads - 1, type(self).__name__) if threads > 1 else None

    def close(self) -> None:
        """End the threads."""
        if self._pool is not None:
            self._pool.shutdown()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _share(self, work: Callable[[int, int], None]) -> None:
        """Do the work on all rows, from the first to before the second, a part of them in each thread."""
        mine, *others = self._ranges
        futures = [self._pool.submit(work, *part) for part in others] if self._pool else []
        work(*mine)
        for future in futures:
            future.result()
