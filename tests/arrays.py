"""Named tuples of arrays, such as weights, records and episodes: changed and compared field by field."""

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

Arrays = TypeVar("Arrays", bound=tuple[Any, ...])


def each(change: Callable[[NDArray[Any]], NDArray[Any]], arrays: Arrays) -> Arrays:
    """The same named tuple with `change` applied to each array."""
    kind: Any = type(arrays)
    made: Arrays = kind._make(change(array) for array in arrays)
    return made


def same(one: Iterable[Any], other: Iterable[Any]) -> bool:
    """Whether there are as many arrays, of the same shapes and numbers, bit for bit."""
    return all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))
