"""The four utilities f_r^k of Zhao 2023, eq. 51: value and slope."""

import math

from environment.kernel.compiled import njit
from environment.types import FloatArray

LINEAR, LOG, RECIPROCAL, POLY = 0, 1, 2, 3


@njit(entry=True, ieee=True)
def value(kind: int, alpha: float, y: float) -> float:
    """f(y); zero at zero, also for poly; the paper prints another form of it besides."""
    if kind == LINEAR:
        return alpha * y
    if kind == LOG:
        return alpha * math.log1p(y)
    if kind == RECIPROCAL:
        return 1.0 / alpha - 1.0 / (y + alpha)
    return alpha * (math.sqrt(y + 1.0) - 1.0)


@njit(entry=True, ieee=True)
def slope(kind: int, alpha: float, y: float) -> float:
    """f'(y)."""
    if kind == LINEAR:
        return alpha
    if kind == LOG:
        return alpha / (y + 1.0)
    if kind == RECIPROCAL:
        return 1.0 / ((y + alpha) * (y + alpha))
    return 0.5 * alpha / math.sqrt(y + 1.0)


@njit(ieee=True)
def slopes(kind: int, alpha: float, y: FloatArray, out: FloatArray) -> None:
    """Fill out[:n] with f' of n amounts: one loop for each kind, so that several are computed at a time."""
    n = y.size
    if kind == LINEAR:
        for i in range(n):
            out[i] = alpha
    elif kind == LOG:
        for i in range(n):
            out[i] = alpha / (y[i] + 1.0)
    elif kind == RECIPROCAL:
        for i in range(n):
            out[i] = 1.0 / ((y[i] + alpha) * (y[i] + alpha))
    else:
        for i in range(n):
            out[i] = 0.5 * alpha / math.sqrt(y[i] + 1.0)
