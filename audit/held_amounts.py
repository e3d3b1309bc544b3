"""Amounts that are held for a time, such as cores of executors, summed over time."""

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]


def held_until(begins: FloatArray, ends: FloatArray, amounts: FloatArray, at: FloatArray) -> FloatArray:
    """Amounts by the seconds for which they were held until each time, [T], of `amounts`, [N].

    Each is held from its begin to its end, [N], seconds.
    """
    if not len(begins):
        return np.zeros(len(at))
    times = np.concatenate((begins, ends))
    order = np.argsort(times, kind="stable")
    times, level = times[order], np.cumsum(np.concatenate((amounts, -amounts))[order])
    held = np.concatenate(([0.0], np.cumsum(level[:-1] * np.diff(times))))
    place = np.clip(np.searchsorted(times, at, "right") - 1, 0, None)
    found: FloatArray = held[place] + np.where(at > times[0], level[place] * (at - times[place]), 0.0)
    return found
