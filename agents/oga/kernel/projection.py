"""The Euclidean projection onto {0 <= y <= a, sum y <= c}, exactly, for one (instance, resource).

The projection is y = clip(z - theta, 0, a) with the least theta >= 0 that keeps the sum within c. The sum
falls piecewise linearly as theta grows, so Newton's method lands on the root once it stands on the right
piece. It is kept within a bracket; where it does not shrink that fast enough, breakpoints inside the
bracket (z_i and z_i - a_i) are tried instead, each of which leaves fewer. So it ends, and ends exactly.

Zhao 2023, Algorithm 1 looks for an amount above its bound at the largest z only, which misses others when
bounds differ, and lets its multiplier fall below zero when capacity is to spare; this does neither.
"""

import math

from environment.kernel.compiled import njit
from environment.types import FloatArray

#: Newton steps before breakpoints are tried. Chosen: two to five suffice in nearly all cases.
_NEWTON = 12


@njit(entry=True, ieee=True)
def threshold(z: FloatArray, a: FloatArray, n: int, c: float, guess: float) -> float:
    """The theta of z[:n] with bounds a[:n]; `guess` is where to start, such as the last slot's theta."""
    if c <= 0.0:
        return _largest(z, n)
    low, high, theta = 0.0, math.inf, max(guess, 0.0)
    tries = 0
    while True:
        total, free = _sum_at(z, a, n, theta)
        if total > c:
            low = theta
        elif theta == 0.0 or total == c:
            return theta
        else:
            high = theta
        tries += 1
        step = theta + (total - c) / free if free > 0 else math.inf
        if abs(step - theta) <= 1e-14 * (theta + c):
            return max(step, 0.0)
        if step <= low:
            # At zero nothing is left to do; above it, the last try found too much there.
            step = 0.5 * (low + high) if low > 0.0 else 0.0
        elif step >= high:
            step = 0.5 * (low + min(high, _largest(z, n)))
        if tries > _NEWTON:
            step = _breakpoint(z, a, n, low, min(high, _largest(z, n)))
            if not low < step < high:
                return _on_piece(z, a, n, c, low, high)
        theta = step


@njit(ieee=True)
def clip(z: FloatArray, a: FloatArray, n: int, theta: float, out: FloatArray) -> None:
    """Write the projection for a theta into out[:n]."""
    for i in range(n):
        above = max(z[i] - theta, 0.0)
        out[i] = above if above < a[i] else a[i]


@njit(ieee=True)
def _largest(z: FloatArray, n: int) -> float:
    """The largest of z[:n], at least zero: a theta that leaves nothing."""
    largest = 0.0
    for i in range(n):
        largest = max(largest, z[i])
    return largest


@njit(ieee=True)
def _sum_at(z: FloatArray, a: FloatArray, n: int, theta: float) -> tuple[float, int]:
    """The sum of clip(z - theta, 0, a), and the number of terms strictly between."""
    # Four sums side by side, so that the processor need not wait for one addition to begin the next.
    s0 = s1 = s2 = s3 = 0.0
    f0 = f1 = f2 = f3 = 0
    whole = n - n % 4
    for i in range(0, whole, 4):
        d0, d1, d2, d3 = z[i] - theta, z[i + 1] - theta, z[i + 2] - theta, z[i + 3] - theta
        s0 += min(max(d0, 0.0), a[i])
        s1 += min(max(d1, 0.0), a[i + 1])
        s2 += min(max(d2, 0.0), a[i + 2])
        s3 += min(max(d3, 0.0), a[i + 3])
        f0 += (d0 > 0.0) & (d0 < a[i])
        f1 += (d1 > 0.0) & (d1 < a[i + 1])
        f2 += (d2 > 0.0) & (d2 < a[i + 2])
        f3 += (d3 > 0.0) & (d3 < a[i + 3])
    for i in range(whole, n):
        d0 = z[i] - theta
        s0 += min(max(d0, 0.0), a[i])
        f0 += (d0 > 0.0) & (d0 < a[i])
    return (s0 + s1) + (s2 + s3), (f0 + f1) + (f2 + f3)


@njit(ieee=True)
def _breakpoint(z: FloatArray, a: FloatArray, n: int, low: float, high: float) -> float:
    """The breakpoint inside (low, high) that is nearest to its middle; `high` when there is none."""
    middle, best = 0.5 * (low + high), high
    for i in range(n):
        for point in (z[i], z[i] - a[i]):
            if low < point < high and abs(point - middle) < abs(best - middle):
                best = point
    return best


@njit(ieee=True)
def _on_piece(z: FloatArray, a: FloatArray, n: int, c: float, low: float, high: float) -> float:
    """The root on a piece without breakpoints inside: the sum is linear between low and high."""
    middle = 0.5 * (low + min(high, _largest(z, n)))
    total, free = _sum_at(z, a, n, middle)
    if free == 0:
        return high if total > c else low
    return min(max(middle + (total - c) / free, low), high)
