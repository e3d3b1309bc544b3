"""Pacing of work beside the daemon's own threads, all of which one interpreter runs in turn.

A thread with much Python work gets the interpreter for a whole turn each time that another one releases it,
as these do with every read or write: half a second of such work delayed submissions for as long.
"""

import time
from collections.abc import Iterable, Iterator
from typing import TypeVar

Item = TypeVar("Item")

#: Seconds after which it is rested, and how many times as long.
_WORK, _REST = 0.002, 3.0


def unhurried(items: Iterable[Item]) -> Iterator[Item]:
    """The items; after some milliseconds of work with them it is slept for some, as others come first."""
    began = time.perf_counter()
    for item in items:
        yield item
        if (took := time.perf_counter() - began) > _WORK:
            time.sleep(_REST * took)
            began = time.perf_counter()
